// Goals and projects.
import { open, part, done, accessible, picture, assert, url, dialog } from "./page.mjs";

const page = await open();
const save = (name) => dialog(page).locator("form").getByRole("button", { name, exact: true }).click();

await part("a goal with criteria, a milestone and a next action", async () => {
  await page.goto(url + "/goals");
  await page.locator(".empty").waitFor();
  await accessible(page, "no goals");
  await page.getByRole("button", { name: "New goal" }).click();
  await dialog(page).getByLabel("Title").fill("Run ten kilometres");
  await dialog(page).getByLabel("It is reached when").fill("Ten kilometres in one go\nWithout pain");
  await dialog(page).getByLabel("New milestone").fill("Five kilometres");
  await dialog(page).getByLabel("New next action").fill("Buy shoes");
  await accessible(page, "new goal");
  await save("Add");
  await page.waitForURL("**/goals/goals/*");
  await page.locator("li", { hasText: "Five kilometres" }).getByRole("button", { name: "Reached" }).click();
  await page.locator("li .state.good").waitFor();
  await page.locator("li", { hasText: "Buy shoes" }).getByRole("button", { name: "Done" }).click();
  await page.locator("li", { hasText: "Buy shoes" }).waitFor({ state: "detached" });
});

await part("progress", async () => {
  await page.getByRole("button", { name: "Note progress" }).click();
  await dialog(page).getByLabel("What was done?").fill("Ran four kilometres");
  await dialog(page).getByLabel("Progress in percent").fill("40");
  await save("Save");
  await page.locator("[role=progressbar][aria-valuenow='40']").first().waitFor();
  await accessible(page, "a goal");
  await picture(page, "goal");
});

await part("a project below it, and the overview", async () => {
  await page.goto(url + "/goals");
  await page.getByRole("button", { name: "New project" }).click();
  await dialog(page).getByLabel("Title").fill("A training plan");
  await dialog(page).getByLabel("Goal").selectOption({ label: "Run ten kilometres" });
  await save("Add");
  await page.waitForURL("**/goals/projects/*");
  await page.getByRole("button", { name: "Completed" }).click();
  await page.locator(".state.good", { hasText: "completed" }).waitFor();
  await page.goto(url + "/goals");
  await page.locator(".item >> nth=1").waitFor();
  await accessible(page, "goals");
  await picture(page, "goals");
});

await part("delete asks first", async () => {
  await page.getByRole("link", { name: "A training plan" }).click();
  await page.getByRole("button", { name: "Delete" }).click();
  await save("Delete");
  await page.waitForURL(url + "/goals");
  assert.equal(await page.getByRole("link", { name: "A training plan" }).count(), 0);
});

await done();

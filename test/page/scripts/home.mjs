// The home: rooms and devices, live, and what needs an approval.
import { open, part, done, accessible, picture, assert, url, given, dialog, confirm } from "./page.mjs";

const page = await open();
const device = (name) => page.locator(".device", { hasText: name });

await part("rooms and devices", async () => {
  await page.goto(url + "/home");
  await device("Hall light").waitFor();
  assert.deepEqual(await page.locator("#home h2").allInnerTexts(), ["Hall", "Kitchen"]);
  await device("Temperature").getByText("21.5").waitFor();
  await accessible(page, "home");
  await picture(page, "home");
});

await part("a device is switched after a question, and the page shows what happens elsewhere", async () => {
  await device("Kettle").getByRole("switch", { checked: true }).click();
  await dialog(page).locator(".question", { hasText: "turn off" }).waitFor();
  await accessible(page, "question about a device");
  await picture(page, "home-question");
  await dialog(page).getByRole("button", { name: "Allow once" }).click();
  await device("Kettle").getByRole("switch", { checked: false }).waitFor();
  await dialog(page).waitFor({ state: "detached" });
  await fetch(given.house + "?id=light.hall&state=on");
  await device("Hall light").getByRole("switch", { checked: true }).waitFor();
});

await part("a question is answered later", async () => {
  await device("Front door").getByRole("button", { name: "Unlock" }).click();
  await dialog(page).getByRole("button", { name: "Later" }).click();
  await page.locator("#waiting[data-count='1']").waitFor();
  await page.goto(url + "/approvals");
  await page.locator(".question").getByRole("button", { name: "Deny …" }).click();
  await confirm(page, "Deny");
  await page.locator(".question").waitFor({ state: "detached" });
  await page.goto(url + "/home");
  await device("Front door").getByText("locked", { exact: true }).waitFor();
});

await part("search", async () => {
  await page.getByRole("searchbox", { name: "Search devices and rooms" }).fill("kettle");
  await page.getByRole("button", { name: "Search" }).click();
  await page.waitForURL("**/home?*");
  await device("Kettle").waitFor();
  assert.equal(await page.locator(".device").count(), 1);
});

await done();

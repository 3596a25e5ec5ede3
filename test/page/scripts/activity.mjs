// What happened: the timeline of a request, model calls, decisions, the work log and usage.
import { open, model, say, answered, call, part, done, accessible, picture, assert, url, dialog } from "./page.mjs";

const page = await open();

await part("something happens", async () => {
  await model.answers("Sum and write", [call("math.evaluate", { expression: "6*7" })], [call("files.write", { path: "docs/sum.txt", content: "42" })], ["42 is written."]);
  await say(page, "Sum and write");
  await page.locator(".question").getByRole("button", { name: "Allow once" }).click();
  await answered(page, "42 is written.");
});

await part("the timeline", async () => {
  await page.goto(url + "/activity");
  await accessible(page, "activity");
  await picture(page, "activity");
  await page.locator("li", { hasText: "Sum and write" }).getByRole("link", { name: "Timeline" }).click();
  await page.waitForURL("**/activity/requests/*");
  const items = page.locator("#timeline > li");
  assert.equal(await items.locator(".what", { hasText: "Model call" }).count(), 3);
  assert.equal(await items.locator(".what", { hasText: "Tool call" }).count(), 2);
  await items.locator(".decision", { hasText: "allowed by you" }).waitFor();
  await accessible(page, "timeline");
  await picture(page, "timeline");
});

await part("the prompt and the answer of a model call", async () => {
  await page.getByRole("button", { name: "Prompt and answer" }).last().click();
  await dialog(page).locator("details.prompt", { hasText: "Sum and write" }).waitFor();
  await dialog(page).getByText("42 is written.").first().waitFor();
  await accessible(page, "model call");
  await picture(page, "model-call");
  await dialog(page).getByRole("button", { name: "Close" }).click();
});

await part("why, and undo", async () => {
  await page.goto(url + "/activity/decisions");
  const decision = page.locator(".decision", { hasText: "sum.txt" });
  await decision.getByRole("button", { name: "Why?" }).click();
  await dialog(page).getByText("How policy decides today").waitFor();
  await accessible(page, "why");
  await picture(page, "why");
  await dialog(page).getByRole("button", { name: "Close" }).click();
  await accessible(page, "decisions");
  await picture(page, "decisions");
});

await part("the work log", async () => {
  await page.goto(url + "/activity/log");
  await page.locator("#log li >> nth=1").waitFor();
  await accessible(page, "log");
  await picture(page, "log");
  await page.getByLabel("Tool").fill("math.*");
  await page.getByRole("button", { name: "Show", exact: true }).click();
  await page.waitForURL("**/activity/log?*");
  assert.equal(await page.locator("#log li").count(), 1);
});

await part("usage", async () => {
  for (const by of ["day", "agent", "model", "user"]) {
    await page.goto(url + "/activity/usage?by=" + by);
    await page.locator("#usage tfoot").waitFor();
    await accessible(page, "usage by " + by);
    await picture(page, "usage-" + by);
  }
});

await done();

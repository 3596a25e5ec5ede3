// The first run: an empty data folder without a model, to the first useful answer.
import { open, model, say, answered, part, done, accessible, picture, assert, url, given, dialog, confirm } from "./page.mjs";

const page = await open();
const key = "the-key-of-the-first-run";
const form = page.locator("form[data-do=start-connect]");

await part("without a model, the chat says what to do", async () => {
  await page.locator("#connect", { hasText: "Connect a language model" }).waitFor();
  await accessible(page, "first run");
  await picture(page, "first");
  await say(page, "Hello");
  await page.locator(".msg.assistant:has(footer)").waitFor();
  await page.goto(url + "/");
  await page.getByRole("link", { name: "Connect a model" }).click();
  await page.waitForURL("**/settings/start");
  await accessible(page, "start");
  await picture(page, "start");
});

await part("a server with another address is refused with the reason, and what was typed stays", async () => {
  await form.getByText("Another provider, or a server of your own").click();
  await form.getByLabel("Provider").selectOption({ label: "Another server …" });
  await form.locator("input[name=key]").fill(key);
  await form.getByLabel("Address of the API").fill("http://127.0.0.1:9/v1");
  await form.getByLabel("Name of the server").fill("office");
  await form.getByLabel("Model to try").fill("gpt-test");
  await form.getByRole("button", { name: "Test and connect" }).click();
  await page.locator(".field-error, #toasts .bad").first().waitFor();
  await accessible(page, "refused");
  assert.equal(await form.locator("input[name=key]").inputValue(), key);
});

await part("the right address connects it", async () => {
  await form.getByLabel("Address of the API").fill(given.models);
  await form.getByRole("button", { name: "Test and connect" }).click();
  await page.locator("#start-models", { hasText: "answers now" }).getByText("office/gpt-test").first().waitFor();
  await accessible(page, "connected");
  assert.ok(!(await page.content()).includes(key), "the key is shown");
  assert.equal(await form.locator("input[name=key]").inputValue(), "");
  await page.getByRole("link", { name: "Go to the chat" }).click();
  await page.waitForURL(url + "/");
});

await part("the first answer", async () => {
  assert.equal(await page.locator("#connect").count(), 0);
  await model.answers("What can you do?", ["Much."]);
  await page.getByRole("button", { name: "What can you do?" }).click();
  if (new URL(page.url()).pathname === "/") await page.locator("#text").press("Enter");
  await page.waitForURL("**/chat/*");
  await answered(page, "Much.");
});

await part("disconnect asks first", async () => {
  await page.goto(url + "/settings/models");
  await page.locator(".item", { hasText: "office" }).getByRole("button", { name: "Disconnect" }).click();
  await confirm(page, "Disconnect");
  await page.getByText("No language model answers yet").waitFor();
});

await done();

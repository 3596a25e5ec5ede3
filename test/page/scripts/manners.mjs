// The manners of the chat: keys and focus, what a person decides about, notices, a lost connection, other tabs.
import { open, model, say, answered, hold, call, part, done, accessible, picture, assert, url, expected, link } from "./page.mjs";

const page = await open({ permissions: ["clipboard-read", "clipboard-write"] });
const dialog = page.locator("dialog[open]");
const focused = (p = page) => p.evaluate(() => document.activeElement.id || document.activeElement.innerText);
const copied = () => page.evaluate(() => navigator.clipboard.readText());

await part("keys, and the focus after a dialog", async () => {
  await page.locator("#scroll").focus();
  await page.keyboard.press("?");
  await dialog.getByText("/compact").waitFor();
  await page.keyboard.press("Escape");
  await dialog.waitFor({ state: "detached" });
  await page.waitForFunction(() => document.activeElement.id === "scroll");
  await page.keyboard.press("/");
  await page.waitForFunction(() => document.activeElement.id === "text");
  await page.locator("#pick-model").press("Enter");
  await dialog.getByRole("searchbox").waitFor();
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Escape");
  await page.waitForFunction(() => document.activeElement.id === "pick-model");
  await page.locator("#pick-agent").press("Enter");
  await dialog.getByRole("searchbox").fill("planner");
  await page.keyboard.press("Enter");
  await page.locator("#pick-agent .name", { hasText: "planner" }).waitFor();
  await page.waitForFunction(() => document.activeElement.id === "text");
});

await part("an approval shows exactly what will be done", async () => {
  await page.goto(url + "/");
  await model.answers("Write it down", [call("files.write", { path: "docs/list.txt", content: "milk\nbread\u202e\n", overwrite: true })], ["Done."]);
  await say(page, "Write it down");
  const card = page.locator(".question");
  await card.waitFor();
  await card.locator(".diff .plus", { hasText: "bread<U+202E>" }).waitFor();
  assert.equal(await card.locator(".diff .minus").count(), 0, "the head of a diff is not a removed line");
  await card.getByText("Details").click();
  await card.locator("details pre", { hasText: '"milk\\nbread\\u202e\\n"' }).waitFor();
  await page.waitForFunction(() => document.title === "(1) Write it down – Steward");
  await card.getByRole("button", { name: "Always …" }).press("Enter");
  await dialog.locator("pre", { hasText: "path is \"docs/list.txt\"" }).waitFor();
  await dialog.getByRole("button", { name: "write files in docs" }).click();
  await dialog.locator("pre", { hasText: "path like docs/" }).waitFor();
  await accessible(page, "always");
  await picture(page, "always");
  await page.keyboard.press("Escape");
  await page.waitForFunction(() => document.activeElement.innerText === "Always …");
  await card.getByRole("button", { name: "Edit …" }).click();
  const args = dialog.locator("textarea");
  const text = await args.inputValue();
  assert.match(text, /bread\\u202e/);
  await args.fill(text.replace("\\u202e", " and butter"));
  await dialog.getByRole("button", { name: "Allow once" }).click();
  await answered(page, "Done.");
  await page.waitForFunction(() => document.title === "Write it down – Steward");
});

await part("answers and code are copied as they were written", async () => {
  const text = "Some **bold** words:\n\n```go\nfmt.Println(1)\n```\n\n> مرحبا";
  await model.answers("Code", [text]);
  await say(page, "Code");
  const last = await answered(page, "bold");
  await last.locator(".code-head", { hasText: "go" }).getByRole("button", { name: "Copy" }).click();
  await page.locator("#toasts", { hasText: "Copied" }).waitFor();
  assert.equal(await copied(), "fmt.Println(1)\n");
  await last.locator("footer").getByRole("button", { name: "Copy" }).click();
  await page.waitForFunction(async () => (await navigator.clipboard.readText()).includes("**bold**"));
  assert.equal(await copied(), text);
  await last.locator("footer time").waitFor();
  await accessible(page, "code");
});

await part("who reads further up stays there", async () => {
  const lines = (n) => Array.from({ length: n }, (_, i) => "line " + i + "\n\n").join("");
  await model.answers("Long", [lines(60), hold("long"), lines(20), "the end."]);
  await say(page, "Long");
  await model.held("long");
  await page.getByText("line 59").waitFor();
  await page.waitForFunction(() => { const s = document.getElementById("scroll"); return s.scrollHeight - s.scrollTop - s.clientHeight < 3; });
  await page.locator("#scroll").hover();
  await page.mouse.wheel(0, -700);
  await page.locator("#newest").waitFor();
  const place = () => page.getByText("line 40", { exact: true }).first().evaluate((e) => e.getBoundingClientRect().top);
  const at = await place();
  await model.release("long");
  await answered(page, "the end.");
  assert.ok(Math.abs((await place()) - at) < 4, "what is read has moved");
  await accessible(page, "newest");
  await picture(page, "newest");
  await page.locator("#newest").click();
  await page.locator("#newest").waitFor({ state: "hidden" });
  await page.waitForFunction(() => { const s = document.getElementById("scroll"); return s.scrollHeight - s.scrollTop - s.clientHeight < 3; });
});

await part("what becomes of a message is said where it is typed", async () => {
  await model.answers("Work on", ["Working ", hold("on"), "done."]);
  await say(page, "Work on");
  await model.held("on");
  await page.locator("#text[placeholder^='Write more']").waitFor();
  assert.equal(await page.locator("#hint").isVisible(), false);
  await page.locator("#text").fill("More");
  await page.locator("#hint", { hasText: "read at the next step" }).waitFor();
  await picture(page, "hint");
  await page.locator("#text").fill("");
  await model.release("on");
  await answered(page, "Working done.");
  await page.locator("#text[placeholder='Write a message']").waitFor();
});

await part("a message that is edited keeps its files", async () => {
  await page.locator("input[name=files]").setInputFiles([{ name: "list.txt", mimeType: "text/plain", buffer: Buffer.from("milk\n") }, { name: "other.txt", mimeType: "text/plain", buffer: Buffer.from("bread\n") }]);
  await page.locator("#text").fill("Read these");
  await page.locator("#text").press("Enter");
  const mine = page.locator(".msg.user").last();
  await mine.locator(".file", { hasText: "other.txt" }).waitFor();
  await answered(page, "Read these");
  await mine.hover();
  await mine.getByRole("button", { name: "Edit" }).click();
  await page.locator("#attachments .chip", { hasText: "other.txt" }).getByRole("button").click();
  assert.equal(await page.locator("#attachments .chip").count(), 1);
  await page.locator("#text").fill("Read this");
  await page.locator("#text").press("Enter");
  await answered(page, "Read this");
  await mine.locator(".file", { hasText: "list.txt" }).waitFor();
  assert.equal(await mine.locator(".file").count(), 1);
});

await part("what was remembered is undone by a command", async () => {
  await page.goto(url + "/");
  await page.locator("#text").fill("/undo");
  await page.locator("#text").press("Enter");
  await page.locator("#toasts", { hasText: "Nothing was remembered here" }).waitFor();
  await model.answers("Remember that I like tea", [call("memory.save", { content: "The user likes tea." })], ["Noted."]);
  await say(page, "Remember that I like tea");
  await answered(page, "Noted.");
  await page.locator(".remembered", { hasText: "The user likes tea." }).waitFor();
  await page.locator(".call .state.good").waitFor();
  await page.locator(".notice.task").waitFor({ state: "detached" });
  await page.reload();
  await page.locator(".call.ok", { hasText: "tea" }).waitFor();
  await page.locator("#text").fill("/undo");
  await page.locator("#text").press("Enter");
  await page.locator(".remembered s", { hasText: "The user likes tea." }).waitFor();
});

await part("notifications are turned on by the person", async () => {
  const other = await open({ link: link() });
  await other.addInitScript(() => {
    window.told = [];
    window.Notification = class { constructor(title, o) { window.told.push(o.body); } static permission = "default"; static async requestPermission() { return (this.permission = "granted"); } };
    Object.defineProperty(document, "hidden", { value: true });
  });
  await other.goto(url + "/approvals");
  await other.getByRole("button", { name: "Notify me in this browser" }).click();
  await other.getByRole("button", { name: "Notifications are on" }).waitFor();
  await accessible(other, "approvals");
  await model.answers("Write again", [call("files.write", { path: "docs/new.txt", content: "x\n" })], ["Done."]);
  await page.goto(url + "/");
  await say(page, "Write again");
  await page.locator(".question").waitFor();
  await other.waitForFunction(() => window.told.length === 1);
  assert.deepEqual(await other.evaluate(() => window.told), ["Write docs/new.txt, 1 line"]);
  assert.match(await other.title(), /^\(1\) /);
  await other.locator(".question").getByRole("button", { name: "Deny …" }).click();
  await other.locator("dialog[open] input[name=reason]").fill("Not now");
  await other.locator("dialog[open]").getByRole("button", { name: "Deny" }).click();
  await page.locator(".call.denied").waitFor();
  await answered(page, "Done.");
  await page.locator(".call.denied summary").click();
  await page.locator(".call.denied", { hasText: "Not now" }).waitFor();
  await other.context().close();
});

await part("a lost connection comes back by itself", async () => {
  const talk = page.url();
  const other = await page.context().browser().newContext({ storageState: await page.context().storageState() }).then((c) => c.newPage());
  await other.goto(talk);
  await other.locator("#text").waitFor();
  await other.waitForFunction(() => document.getElementById("waiting").dataset.count === "0");
  await other.context().setOffline(true);
  await other.locator("#connection", { hasText: "Not connected" }).waitFor();
  await model.answers("Meanwhile", ["Said meanwhile."]);
  await say(page, "Meanwhile");
  await answered(page, "Said meanwhile.");
  await other.context().setOffline(false);
  await answered(other, "Said meanwhile.");
  await other.locator("#connection").waitFor({ state: "hidden" });
  assert.equal(await other.getByText("Said meanwhile.").count(), 1);
  await other.context().close();
});

await part("a message that is edited in another tab", async () => {
  const other = await page.context().newPage();
  await other.goto(page.url());
  const mine = other.locator(".msg.user").last();
  await mine.hover();
  await mine.getByRole("button", { name: "Edit" }).click();
  await other.locator("#text").fill("Edited");
  await other.locator("#text").press("Enter");
  await answered(other, "You said: Edited");
  await answered(page, "You said: Edited");
  await page.locator(".msg.user", { hasText: "Meanwhile" }).waitFor({ state: "detached" });
  await other.close();
});

await part("a conversation that is deleted in another tab", async () => {
  const other = await page.context().newPage();
  await other.goto(page.url());
  await other.locator("#chat-menu summary").click();
  await other.getByRole("button", { name: "Delete …" }).click();
  await other.locator("dialog[open]").getByRole("button", { name: "Delete" }).click();
  await other.waitForURL(url + "/");
  await page.locator("#failure", { hasText: "was deleted" }).waitFor();
  await page.locator("#text").fill("Too late");
  await page.locator("#text").press("Enter");
  await page.waitForFunction(() => document.getElementById("text").value === "Too late");
  await accessible(page, "deleted");
  await picture(page, "deleted");
  await other.close();
});

await part("the page can be installed", async () => {
  const manifest = await page.evaluate(async () => (await fetch(document.querySelector("link[rel=manifest]").href)).json());
  assert.equal(manifest.display, "standalone");
  const maskable = manifest.icons.filter((i) => i.purpose === "maskable");
  assert.equal(maskable.length, 1);
  for (const i of manifest.icons.filter((i) => i.type === "image/png")) {
    const wide = await page.evaluate((src) => new Promise((ok) => { const m = new Image(); m.onload = () => ok(m.naturalWidth); m.src = src; }), i.src);
    assert.equal(i.sizes, wide + "x" + wide);
  }
});

await part("a session that has ended leads to signing in", async () => {
  const second = await open({ link: link() });
  await second.locator("#text").fill("Do not lose me");
  await page.goto(url + "/settings");
  const others = page.locator("button[data-do=session-end]");
  while (await others.count()) {
    const n = await others.count();
    await others.first().click();
    await page.waitForFunction((n) => document.querySelectorAll("button[data-do=session-end]").length < n, n);
  }
  await second.locator("#sign-in").waitFor();
  const again = link();
  await second.goto(again);
  await second.waitForURL(url + "/");
  await second.waitForFunction(() => document.getElementById("text").value === "Do not lose me");
  await second.context().close();
});

await part("a thumb sends on a phone", async () => {
  const phone = await open({ link: link(), viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true });
  await phone.locator("#text").tap();
  await phone.locator("#text").fill("From my phone");
  await phone.locator("#send").tap();
  await phone.waitForURL("**/chat/*");
  await answered(phone, "You said: From my phone");
  await phone.context().close();
});

expected(/ERR_|Failed to fetch/);
await done();

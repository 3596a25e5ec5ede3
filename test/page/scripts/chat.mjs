// The long form of the chat.
import { open, link, model, say, answered, words, hold, call, reasoning, part, done, accessible, picture, assert, url, expected } from "./page.mjs";

const page = await open({ permissions: ["clipboard-read", "clipboard-write"] });
const at = () => new URL(page.url()).pathname;

await part("steer and queue", async () => {
  await model.answers("Work", [call("math.evaluate", { expression: "1+1" }), hold("work")], ["Both are read.", hold("both")]);
  await say(page, "Work");
  await model.held("work");
  await page.locator("#queue").waitFor();
  await page.locator("#text").fill("Also this");
  await page.locator("#text").press("Enter");
  await page.locator("#pending .chip", { hasText: "read at the next step" }).getByText("Also this").waitFor();
  await page.locator("#text").fill("And then that");
  await page.locator("#text").press("Alt+Enter");
  await page.locator("#pending .chip", { hasText: "sent after the answer" }).getByText("And then that").waitFor();
  await page.locator("#text").fill("Never mind");
  await page.locator("#text").press("Alt+Enter");
  const third = page.locator("#pending .chip", { hasText: "Never mind" });
  await third.getByRole("button").click();
  await third.waitFor({ state: "detached" });
  assert.equal(await page.locator("#text").inputValue(), "Never mind");
  await page.locator("#text").fill("");
  await page.locator("#text").fill("A draft meanwhile");
  await accessible(page, "pending");
  await picture(page, "pending");
  await page.reload();
  await page.locator("#pending .chip", { hasText: "And then that" }).waitFor();
  assert.equal(await page.locator("#text").inputValue(), "A draft meanwhile");
  await page.locator("#text").fill("");
  await model.answers("Also this", ["unused"], ["You said: Also this"]);
  await model.release("work");
  await page.locator(".msg.user", { hasText: "Also this" }).waitFor();
  await answered(page, "You said: And then that");
  assert.equal(await page.locator("#pending .chip").count(), 0);
  const said = await page.locator(".msg.user .typed").allInnerTexts();
  assert.deepEqual(said, ["Work", "Also this", "And then that"]);
});

await part("edit, and switch between the versions", async () => {
  const mine = page.locator(".msg.user", { hasText: "And then that" });
  await mine.hover();
  await mine.getByRole("button", { name: "Edit" }).click();
  await page.locator("#editing").waitFor();
  assert.equal(await page.locator("#text").inputValue(), "And then that");
  await page.locator("#text").fill("Another question");
  await page.locator("#text").press("Enter");
  await answered(page, "You said: Another question");
  assert.equal(await page.getByText("And then that").count(), 0);
  await page.locator(".msg.user .branches", { hasText: "2/2" }).waitFor();
  await picture(page, "branches");
  await page.locator(".msg.user", { hasText: "Another question" }).hover();
  await page.locator(".msg.user").getByRole("button", { name: "Earlier version" }).click();
  await page.locator(".msg.user", { hasText: "And then that" }).waitFor();
  assert.equal(await page.getByText("Another question").count(), 0);
  await page.locator(".branches", { hasText: "1/2" }).waitFor();
});

await part("another answer", async () => {
  await model.answers("And then that", ["A better answer."]);
  const last = page.locator(".msg.assistant").last();
  await last.hover();
  await last.getByRole("button", { name: "Answer again" }).click();
  const better = await answered(page, "A better answer.");
  await better.locator(".branches", { hasText: "2/2" }).waitFor();
  await page.locator("#text").fill("/prev");
  await page.locator("#text").press("Escape");
  await page.locator("#text").press("Enter");
  await answered(page, "You said: And then that");
});

await part("reasoning is folded", async () => {
  await page.goto(url + "/");
  await model.answers("Think", [reasoning("First this, then that."), "Thought about."]);
  await say(page, "Think");
  await answered(page, "Thought about.");
  const thoughts = page.locator("details.reasoning");
  assert.equal(await thoughts.getByText("First this").isVisible(), false);
  await thoughts.locator("summary").click();
  await thoughts.getByText("First this").waitFor();
});

await part("a draft is kept", async () => {
  await page.locator("#text").fill("half a thou");
  await page.reload();
  assert.equal(await page.locator("#text").inputValue(), "half a thou");
  await page.locator("#text").fill("");
});

await part("files by paste, drop and choice", async () => {
  const png = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
  const transfer = await page.evaluateHandle((data) => {
    const bytes = Uint8Array.from(atob(data), (c) => c.charCodeAt(0));
    const d = new DataTransfer();
    d.items.add(new File([bytes], "dot.png", { type: "image/png" }));
    return d;
  }, png);
  await page.locator(".talk").dispatchEvent("drop", { dataTransfer: transfer });
  await page.locator("#attachments .chip", { hasText: "dot.png" }).waitFor();
  await page.evaluate((d) => document.getElementById("text").dispatchEvent(new ClipboardEvent("paste", { clipboardData: d, bubbles: true })), transfer);
  await page.locator("input[name=files]").setInputFiles({ name: "list.txt", mimeType: "text/plain", buffer: Buffer.from("milk\n") });
  await page.locator("#attachments .chip >> nth=2").waitFor();
  await page.locator("#attachments .chip").nth(1).getByRole("button").click();
  await page.locator("#attachments .chip >> nth=2").waitFor({ state: "detached" });
  await picture(page, "attachments");
  await page.locator("#text").fill("Look at these");
  await page.locator("#send").click();
  const mine = page.locator(".msg.user", { hasText: "Look at these" });
  await mine.locator("img.attached").waitFor();
  await mine.locator(".file", { hasText: "list.txt" }).waitFor();
  await answered(page, "Look at these");
  assert.equal(await page.locator("#attachments .chip").count(), 0);
  const [file] = await Promise.all([page.waitForEvent("download"), mine.locator(".file", { hasText: "list.txt" }).click()]);
  assert.equal(file.suggestedFilename(), "list.txt");
});

await part("commands and choices", async () => {
  await page.locator("#text").fill("/");
  await page.locator("#commands [role=option]").first().waitFor();
  await accessible(page, "commands");
  await picture(page, "commands");
  await page.locator("#text").fill("/mod");
  await page.locator("#text").press("Enter");
  const dialog = page.locator("dialog[open]");
  await dialog.getByRole("searchbox").fill("gpt-test");
  await accessible(page, "models");
  await picture(page, "models");
  await page.keyboard.press("Enter");
  await page.locator("#pick-model .name", { hasText: "gpt-test" }).waitFor();
  await page.locator("#pick-agent").click();
  await dialog.getByRole("button", { name: "planner" }).waitFor();
  await page.keyboard.press("Escape");
  await page.locator("#text").fill("/help");
  await page.locator("#text").press("Enter");
  await dialog.getByText("/compact").waitFor();
  await accessible(page, "help");
  await page.keyboard.press("Escape");
  await page.locator("#text").fill("/title Thoughts and files");
  await page.locator("#text").press("Enter");
  await page.locator("#title", { hasText: "Thoughts and files" }).waitFor();
  await page.locator("#conversation-list a[aria-current]", { hasText: "Thoughts and files" }).waitFor();
});

const conversation = at();

await part("pin and archive", async () => {
  const menu = page.locator("#chat-menu");
  await menu.locator("summary").click();
  await picture(page, "menu");
  await accessible(page, "menu");
  await menu.getByRole("button", { name: "Pin", exact: true }).click();
  await page.locator("#conversation-list h2", { hasText: "Pinned" }).waitFor();
  await menu.locator("summary").click();
  await menu.getByRole("button", { name: "Archive" }).click();
  await page.locator("#conversation-list a", { hasText: "Thoughts and files" }).waitFor({ state: "detached" });
  await page.goto(url + "/archive");
  await accessible(page, "archive");
  await page.getByRole("button", { name: "Take out" }).click();
  await page.locator(".list li").waitFor({ state: "detached" });
});

await part("search, and the message among its neighbours", async () => {
  await page.goto(url + "/");
  await page.locator("#conversations input[type=search]").fill("better answer");
  await page.locator("#conversations input[type=search]").press("Enter");
  await page.waitForURL("**/search?*");
  const hit = page.locator(".hit", { hasText: "A better answer." }).first();
  await hit.locator("mark").first().waitFor();
  await accessible(page, "search");
  await picture(page, "search");
  await hit.click();
  await page.getByText("in another version of the conversation").waitFor();
  await page.getByRole("button", { name: "Switch to this version" }).click();
  await page.locator(".msg.at", { hasText: "A better answer." }).waitFor();
  await accessible(page, "found");
  await page.getByRole("link", { name: "Go to the newest messages" }).click();
  await answered(page, "A better answer.");
});

await part("another page sees what happens", async () => {
  const other = await page.context().newPage();
  await other.goto(url + "/");
  await model.answers("Slowly", ["one ", hold("slow"), "two."]);
  await page.goto(url + "/");
  await say(page, "Slowly");
  await model.held("slow");
  await other.locator("#conversation-list li", { hasText: "Slowly" }).locator(".mark.busy").waitFor();
  await other.locator("#conversation-list a", { hasText: "Slowly" }).click();
  await other.locator(".msg.assistant", { hasText: "one" }).waitFor();
  await model.release("slow");
  await answered(other, "one two.");
  await answered(page, "one two.");
  await other.locator(".mark.busy").waitFor({ state: "detached" });
  await other.close();
});

await part("share", async () => {
  await page.goto(url + conversation);
  await page.locator("#chat-menu summary").click();
  await page.getByRole("button", { name: "Share …" }).click();
  await page.getByRole("button", { name: "Make a link" }).click();
  const address = await page.locator("#share-link").inputValue();
  await accessible(page, "share");
  await picture(page, "share");
  const stranger = await open({ link: null });
  const response = await stranger.goto(address);
  assert.match(response.headers()["x-robots-tag"], /noindex/);
  await stranger.getByText("Thought about.").waitFor();
  assert.equal(await stranger.locator("nav, form, .reasoning, .attached, #composer").count(), 0);
  assert.equal(await stranger.getByText("First this").count(), 0);
  await accessible(stranger, "shared");
  await picture(stranger, "shared");
  await page.locator("dialog[open]").getByRole("button", { name: "End", exact: true }).click();
  await page.locator("#dialog .list").waitFor({ state: "detached" });
  await stranger.goto(address);
  await stranger.getByText("this link has ended").waitFor();
  await stranger.context().close();
  await page.keyboard.press("Escape");
});

await part("export and import", async () => {
  await page.locator("#chat-menu summary").click();
  const [file] = await Promise.all([page.waitForEvent("download"), page.getByRole("link", { name: "Export as JSON" }).click()]);
  const path = await file.path();
  await page.locator("#conversations details.menu summary").click();
  await page.locator("input[data-upload=import]").setInputFiles({ name: "conversation.json", mimeType: "application/json", buffer: (await import("node:fs")).readFileSync(path) });
  await page.locator("dialog[open]", { hasText: "1 conversations imported" }).waitFor();
  await accessible(page, "import");
  await page.keyboard.press("Escape");
});

await part("a plan is shown before it is carried out", async () => {
  await page.goto(url + "/");
  await model.answers("Compute twice", [call("plan.start", { analysis: "two sums", plan: "compute both", confidence: 0.9, subtasks: [{ name: "first", purpose: "Compute 1+1" }, { name: "second", purpose: "Compute 2+2" }] })], ["Both are computed."]);
  await page.locator(".toggle").click();
  await say(page, "Compute twice");
  const card = page.locator(".question.plan");
  await card.waitFor();
  await page.locator("#conversation-list a[aria-current] .mark.asks").waitFor();
  await picture(page, "plan");
  await accessible(page, "plan");
  await card.getByRole("button", { name: "Carry out", exact: true }).click();
  await answered(page, "Both are computed.");
  const done = page.locator(".call.ok", { hasText: "plan" }).first();
  await done.locator("summary").click();
  await done.locator("dt", { hasText: "Cost" }).waitFor();
  await done.locator("dd", { hasText: "240 tokens" }).waitFor();
  await page.reload();
  await page.getByRole("link", { name: "Open the plan" }).waitFor();
});

await part("without a connection nothing is lost", async () => {
  await page.goto(url + conversation);
  await page.context().setOffline(true);
  await page.locator("#text").fill("Do not lose me");
  await page.locator("#text").press("Enter");
  await page.locator("#toasts", { hasText: "cannot be reached" }).waitFor();
  await page.waitForFunction(() => document.getElementById("text").value === "Do not lose me");
  await page.context().setOffline(false);
  expected(/ERR_|Failed to fetch/);
  await page.locator("#text").press("Enter");
  await answered(page, "You said: Do not lose me");
});

await part("delete asks first", async () => {
  await page.locator("#chat-menu summary").click();
  await page.getByRole("button", { name: "Delete …" }).click();
  await page.locator("dialog[open]").getByRole("button", { name: "Cancel" }).click();
  await page.locator("#chat-menu summary").click();
  await page.getByRole("button", { name: "Delete …" }).click();
  await page.locator("dialog[open]").getByRole("button", { name: "Delete" }).click();
  await page.waitForURL(url + "/");
});

await part("a failed answer says why, and is tried again", async () => {
  await page.goto(url + "/");
  await model.answers("Are you there?", [{ refuse: true }]);
  await say(page, "Are you there?");
  const failure = page.locator("#failure");
  await failure.getByRole("link", { name: "Models" }).waitFor();
  await accessible(page, "failure");
  await picture(page, "failure");
  await model.answers("Are you there?", ["I am."]);
  await failure.getByRole("button", { name: "Try again" }).click();
  await answered(page, "I am.");
  await failure.waitFor({ state: "detached" });
  assert.equal(await page.locator(".msg.user").count(), 1);
});

await done();

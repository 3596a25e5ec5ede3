// Approvals: every answer that a person can give, the inbox over all conversations, and standing approvals.
import { open, model, say, answered, call, part, done, accessible, picture, assert, url, dialog, confirm } from "./page.mjs";
import { readFileSync, existsSync } from "node:fs";
import { join } from "node:path";

const page = await open();
const question = page.locator(".talk .question");
const button = (name) => question.getByRole("button", { name, exact: true });
const file = (name) => join(process.env.PAGE_HOME, "docs", name + ".txt");
const writes = (name, content) => call("files.write", { path: "docs/" + name + ".txt", content, overwrite: true });
const ask = async (text, ...rounds) => {
  await model.answers(text, ...rounds);
  await say(page, text);
};

await part("allow once, for this call only", async () => {
  await ask("Write one", [writes("one", "1\n")], ["One is written."]);
  await button("Allow once").click();
  await answered(page, "One is written.");
  assert.equal(readFileSync(file("one"), "utf8"), "1\n");
  await ask("Write it again", [writes("one", "2\n")], ["It is written again."]);
  await question.locator(".diff .plus", { hasText: "2" }).waitFor();
  await question.locator(".diff .minus", { hasText: "1" }).waitFor();
  await question.getByText("Details").click();
  await question.getByText("files.write", { exact: true }).waitFor();
  await accessible(page, "question");
  await picture(page, "question");
});

await part("deny with a reason that the model reads", async () => {
  await button("Deny …").click();
  await dialog(page).locator("input[name=reason]").fill("Keep the first version");
  await confirm(page, "Deny");
  await answered(page, "It is written again.");
  await model.seen("Keep the first version");
  await page.locator(".call.denied").waitFor();
  assert.equal(readFileSync(file("one"), "utf8"), "1\n");
});

await part("edit the arguments", async () => {
  await ask("Write three", [writes("three", "wrong")], ["Three is written."]);
  await button("Edit …").click();
  const args = dialog(page).locator("textarea[name=args]");
  await args.fill("{ not JSON");
  await dialog(page).getByRole("button", { name: "Allow once" }).click();
  await dialog(page).locator(".dialog-error", { hasText: "not JSON" }).waitFor();
  await args.fill(JSON.stringify({ path: "docs/three.txt", content: "right", overwrite: true }));
  await accessible(page, "edit");
  await picture(page, "edit");
  await confirm(page, "Allow once");
  await answered(page, "Three is written.");
  assert.equal(readFileSync(file("three"), "utf8"), "right");
});

await part("for this conversation", async () => {
  await ask("Write four", [writes("four", "4")], ["Four is written."]);
  await button("Always …").click();
  await page.getByRole("button", { name: "write files in docs" }).click();
  await dialog(page).locator(".widths button.chosen", { hasText: "write files in docs" }).waitFor();
  const pattern = await dialog(page).locator("pre").first().innerText();
  assert.match(pattern, /path like docs/);
  assert.ok(!pattern.includes("four"), "the pattern is no wider than the call: " + pattern);
  assert.ok(await dialog(page).getByLabel("in this conversation").isChecked());
  await accessible(page, "for this conversation");
  await picture(page, "always");
  await confirm(page, "Allow");
  await answered(page, "Four is written.");
  await ask("Write five", [writes("five", "5")], ["Five is written."]);
  await answered(page, "Five is written.");
  assert.ok(existsSync(file("five")));
  await page.goto(url + "/");
  await ask("Write six", [writes("six", "6")], ["Six is written."]); // another conversation asks again
  await question.waitFor();
});

await part("the inbox shows all conversations, and a count", async () => {
  const other = await page.context().newPage();
  await other.goto(url + "/");
  await model.answers("Write seven", [writes("seven", "7")], ["Seven is written."]);
  await say(other, "Write seven");
  await other.locator(".talk .question").waitFor();
  await other.close();
  await page.locator("#waiting[data-count='2']").waitFor();
  await page.waitForFunction(() => document.title.startsWith("(2) "));
  await page.goto(url + "/approvals");
  await page.locator("#questions section >> nth=1").waitFor();
  await page.locator("#questions h2 a", { hasText: "Write six" }).waitFor();
  await page.locator("#grants li", { hasText: "in one conversation" }).waitFor();
  await accessible(page, "inbox");
  await picture(page, "inbox");
  await page.locator("#questions section", { hasText: "Write seven" }).getByRole("button", { name: "Allow once" }).click();
  await page.locator("#questions h2 a", { hasText: "Write seven" }).waitFor({ state: "detached" });
  await page.locator("#waiting[data-count='1']").waitFor();
});

await part("always: the pattern is shown first, is wider than the call, and covers another call", async () => {
  await page.locator("#questions").getByRole("button", { name: "Always …" }).click();
  await page.getByRole("button", { name: "write files in docs" }).click();
  await dialog(page).locator(".widths button.chosen", { hasText: "write files in docs" }).waitFor();
  await dialog(page).getByLabel("in all conversations, until I revoke it").check();
  await confirm(page, "Allow");
  await page.locator("#questions .empty").waitFor();
  await page.locator("#waiting[data-count='0']").waitFor({ state: "attached" });
  await page.goto(url + "/");
  await ask("Write eight", [writes("eight", "8")], ["Eight is written."]);
  await answered(page, "Eight is written.");
  assert.ok(existsSync(file("six")) && existsSync(file("seven")) && existsSync(file("eight")));
});

await part("a standing approval is narrowed, and revoked", async () => {
  await page.goto(url + "/approvals");
  const everywhere = page.locator("#grants li", { hasText: "everywhere" });
  await everywhere.getByRole("button", { name: "Edit …" }).click();
  await dialog(page).getByLabel("Until").selectOption({ label: "for a week" });
  await accessible(page, "edit a grant");
  await confirm(page, "Save");
  await everywhere.locator("time").first().waitFor();
  await everywhere.getByRole("button", { name: "Revoke …" }).click();
  await accessible(page, "revoke");
  await confirm(page, "Revoke");
  await everywhere.locator(".state", { hasText: "in force" }).waitFor({ state: "detached" });
  await page.goto(url + "/");
  await ask("Write nine", [writes("nine", "9")], ["Nine is not written."]);
  await button("Deny …").click();
  await confirm(page, "Deny");
  await answered(page, "Nine is not written.");
  assert.ok(!existsSync(file("nine")));
});

await done();

// The short form: what must work after every change.
import { open, model, say, answered, words, hold, call, part, done, accessible, picture, assert, url, dialog, confirm } from "./page.mjs";

let page;

await part("the link signs in", async () => {
  page = await open();
  await accessible(page, "welcome");
});

await part("a chat with a tool", async () => {
  await model.answers("What is 6 times 7?", [call("math.evaluate", { expression: "6*7" })], ["It is **42**."]);
  await say(page, "What is 6 times 7?");
  const answer = await answered(page, "It is 42.");
  assert.equal(await answer.locator("strong").innerText(), "42");
  const card = page.locator(".call.ok").first();
  await card.locator("summary").click();
  await card.getByText("math.evaluate", { exact: true }).waitFor();
  await accessible(page, "chat");
  await picture(page, "chat");
});

await part("an approval", async () => {
  await model.answers("Write it down", [call("files.write", { path: "docs/answer.txt", content: "42\n" })], ["Done."]);
  await say(page, "Write it down");
  const question = page.locator(".question");
  await question.waitFor();
  await page.locator("#waiting[data-count='1']").waitFor();
  await accessible(page, "approval");
  await picture(page, "approval");
  await question.getByRole("button", { name: "Allow once" }).click();
  await answered(page, "Done.");
  await question.waitFor({ state: "detached" });
  await page.locator("#waiting[data-count='0']").waitFor({ state: "attached" });
});

await part("deny", async () => {
  await model.answers("Write it again", [call("files.write", { path: "docs/again.txt", content: "42\n" })], ["Not written."]);
  await say(page, "Write it again");
  await page.locator(".question").getByRole("button", { name: "Deny …" }).click();
  await dialog(page).locator("input[name=reason]").fill("Once is enough");
  await confirm(page, "Deny");
  await answered(page, "Not written.");
  await model.seen("Once is enough");
});

await part("a reload in the middle of an answer", async () => {
  const count = (from, to) => Array.from({ length: to - from + 1 }, (_, i) => "w" + (from + i) + " ");
  await model.answers("Count", [...count(1, 40), hold("middle"), ...count(41, 80), hold("later"), ...count(81, 120), "\n\nend."]);
  await say(page, "Count");
  await model.held("middle");
  const soFar = async (last) => {
    const answer = page.locator(".msg.assistant").last();
    await answer.getByText("w" + last).waitFor();
    assert.equal(await words(answer), count(1, last).join("").trim());
  };
  await soFar(40);
  await page.reload();
  await soFar(40);
  await model.release("middle");
  await model.held("later");
  await soFar(80);
  await page.reload();
  await soFar(80);
  await model.release("later");
  const answer = await answered(page, "end.");
  const all = count(1, 120).join("") + "end.";
  assert.equal(await words(answer), all);
  await page.reload();
  assert.equal(await words(await answered(page, "end.")), all);
});

await part("stop", async () => {
  await model.answers("Tell a long story", ["Once upon a time ", hold("story"), "and so on."]);
  await say(page, "Tell a long story");
  await model.held("story");
  await page.getByText("Once upon a time").waitFor();
  await page.locator("#stop").click();
  await model.gone("story");
  await page.locator("#stop").waitFor({ state: "hidden" });
  await page.reload();
  await page.getByText("Once upon a time").waitFor();
  assert.equal(await page.getByText("and so on").count(), 0);
  await say(page, "Still there?");
  await answered(page, "You said: Still there?");
});

await part("a plan to its end", async () => {
  await page.goto(url + "/");
  await model.answers("Compute twice", [call("plan.start", { analysis: "two sums", plan: "compute both", confidence: 0.9, subtasks: [{ name: "one", purpose: "Compute 1+1" }, { name: "two", purpose: "Compute 2+2", after: ["one"] }] })], ["Both are computed."]);
  await model.answers("Compute 1+1", [hold("one"), "2"]);
  await page.locator(".toggle").click();
  await say(page, "Compute twice");
  await page.locator(".question.plan").getByRole("button", { name: "Carry out", exact: true }).click();
  await page.locator("#plan-link").click();
  await page.waitForURL("**/plans/*");
  await page.locator(".planned[data-state=running]", { hasText: "one" }).waitFor();
  await model.release("one");
  await page.locator(".planned[data-state=done]", { hasText: "two" }).waitFor();
  await page.locator("#plan-summary .state.good").waitFor();
  await accessible(page, "plan");
});

await part("a fact is edited and forgotten", async () => {
  await page.goto(url + "/memory");
  await page.getByRole("button", { name: "Add a fact" }).first().click();
  await dialog(page).getByLabel("What shall be remembered?").fill("I like tea");
  await dialog(page).getByRole("button", { name: "Add", exact: true }).click();
  await page.waitForURL("**/memory/facts/*");
  await page.goto(url + "/memory");
  await page.locator("#facts").getByRole("button", { name: "Edit" }).click();
  await dialog(page).getByLabel("What shall be remembered?").fill("I like green tea");
  await confirm(page, "Save");
  await page.locator("#facts .fact", { hasText: "I like green tea" }).waitFor();
  await accessible(page, "memory");
  await page.locator("#facts").getByRole("button", { name: "Forget …" }).click();
  await confirm(page, "Forget");
  await page.locator("#facts .fact").waitFor({ state: "detached" });
  await page.reload();
  await page.locator(".empty").waitFor();
});

await done();

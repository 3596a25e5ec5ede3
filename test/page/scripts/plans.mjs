// A plan: shown before it is carried out, followed to its end, and everything that a person can do meanwhile.
import { open, model, say, answered, call, hold, part, done, accessible, picture, assert, url, dialog, confirm } from "./page.mjs";

const page = await open();
const task = (name, purpose, ...after) => ({ name, purpose, after, selected_tools: ["time.now"] });
const start = (...subtasks) => call("plan.start", { analysis: "several things", plan: "one after the other", confidence: 0.9, subtasks });
const node = (name) => page.locator(".planned", { has: page.locator(".name", { hasText: name }) });
const state = (name, is) => page.locator(`.planned[data-state="${is}"]`, { has: page.locator(".name", { hasText: name }) }).waitFor();
const plan = async (text, ...rounds) => {
  await page.goto(url + "/");
  await model.answers(text, ...rounds);
  await page.locator(".toggle").click();
  await say(page, text);
  await page.locator(".question.plan").waitFor();
};
const follow = async () => {
  await page.locator(".question.plan").getByRole("button", { name: "Carry out", exact: true }).click();
  await page.locator("#plan-link").click();
  await page.waitForURL("**/plans/*");
};

await part("a plan is changed before it is carried out", async () => {
  await plan("Plan a trip", [start(task("train", "Find a train"))], [start(task("train", "Find a train"), task("hotel", "Find a hotel", "train"), task("sum", "Add up", "hotel"))], ["The trip is planned."]);
  await page.getByRole("button", { name: "Change …" }).click();
  await dialog(page).locator("textarea").fill("Add a hotel");
  await accessible(page, "change a plan");
  await confirm(page, "Make a new plan");
  await page.locator(".question.plan", { hasText: "hotel" }).waitFor();
  await model.seen("Add a hotel");
  await accessible(page, "plan");
  await picture(page, "plan-question");
});

await part("the tree is live, to its end", async () => {
  await model.answers("Find a train", [call("time.now", { zone: "Europe/Vienna" })], ["At 8:00.", hold("train")]);
  await model.answers("Find a hotel", [hold("hotel"), "The Astoria."]);
  await follow();
  await model.held("train");
  await state("train", "running");
  await state("hotel", "pending");
  await accessible(page, "tree");
  await picture(page, "plan-tree");
  await model.release("train");
  await model.held("hotel");
  await state("train", "done");
  await state("hotel", "running");
  await page.goto(url + "/plans");
  await page.locator("#open li", { hasText: "1 of 3 tasks" }).waitFor();
  await accessible(page, "plans");
  await picture(page, "plans");
  await page.locator("#open a").first().click();
});

await part("a node opens to its messages", async () => {
  await node("train").getByRole("button", { name: "Messages" }).click();
  await dialog(page).getByText("At 8:00.").waitFor();
  await dialog(page).locator(".call.ok").waitFor();
  await accessible(page, "messages of a task");
  await picture(page, "plan-messages");
  await dialog(page).getByRole("button", { name: "Close" }).click();
});

await part("a task that has not begun is edited", async () => {
  await node("sum").getByRole("button", { name: "Edit" }).click();
  await dialog(page).getByLabel("What it is for").fill("Add up everything");
  await accessible(page, "edit a task");
  await confirm(page, "Save");
  await model.answers("Add up everything", ["42 in all."]);
  await model.release("hotel");
  await state("sum", "done");
  await model.seen("Add up everything");
  await page.locator("#plan-summary .state.good").waitFor();
  await page.getByRole("link", { name: "Conversation" }).click();
  await answered(page, "The trip is planned.");
});

await part("pause and resume", async () => {
  await plan("Two steps", [start(task("first", "Take the first step"), task("second", "Take the second step", "first"))], ["Both steps are taken."]);
  await model.answers("Take the first step", [hold("step"), "Taken."]);
  await follow();
  await model.held("step");
  await node("second").getByRole("button", { name: "Pause" }).click();
  await state("second", "paused");
  await model.release("step");
  await state("first", "done");
  await picture(page, "plan-paused");
  await node("second").getByRole("button", { name: "Resume" }).click();
  await state("second", "done");
});

await part("cancel one task, and try it again", async () => {
  await plan("Cancel one", [start(task("slow", "Take long"), task("other", "Also take long"))], ["Cancelled and retried."]);
  await model.answers("Take long", [hold("long"), "Long."]);
  await model.answers("Also take long", [hold("also"), "Also."]);
  await follow();
  await model.held("long");
  await model.held("also");
  await node("slow").getByRole("button", { name: "Cancel" }).click();
  await accessible(page, "cancel");
  await dialog(page).getByRole("button", { name: "Go on" }).click();
  await state("slow", "running");
  await node("slow").getByRole("button", { name: "Cancel" }).click();
  await confirm(page, "Cancel it");
  await state("slow", "cancelled");
  await model.gone("long");
  await model.answers("Take long", ["Quick this time."]);
  await node("slow").getByRole("button", { name: "Try again" }).click();
  await state("slow", "done");
  await model.release("also");
  await page.locator("#plan-summary .state.good").waitFor();
});

await part("cancel all", async () => {
  await plan("Cancel all", [start(task("endless", "Take for ever"))], ["unused"]);
  await model.answers("Take for ever", [hold("ever"), "unused"]);
  await follow();
  await model.held("ever");
  await page.getByRole("button", { name: "Cancel all" }).click();
  await confirm(page, "Cancel it");
  await model.gone("ever");
  await page.locator("#plan-summary", { hasText: "cancelled" }).waitFor();
});

await part("a task asks the person", async () => {
  await plan("Ask me", [start(task("date", "Find the date"))], ["The date is found."]);
  await model.answers("Find the date", [call("person.ask", { question: "Which weekend suits you?" })], ["Noted."]);
  await follow();
  const asks = page.locator("#questions .question", { hasText: "Which weekend suits you?" });
  await asks.locator("textarea").fill("The second one in May");
  await accessible(page, "a question of a task");
  await picture(page, "plan-question-of-task");
  await asks.getByRole("button", { name: "Answer", exact: true }).click();
  await state("date", "done");
  await model.seen("The second one in May");
});

await part("plans that are over are listed", async () => {
  await page.goto(url + "/plans");
  await page.locator(".list a", { hasText: "Plan a trip" }).waitFor();
  await accessible(page, "plans that are over");
});

await done();

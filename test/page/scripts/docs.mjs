// The pictures in the README and the guide to the page.
import { open, link, model, say, answered, call, hold, act, part, done, picture, url, assert } from "./page.mjs";
import { statSync } from "node:fs";
import { join } from "node:path";

const page = await open();
const keep = async (of, name) => {
  await picture(of, "page-" + name);
  const size = statSync(join(process.env.PAGE_PICTURES, "page-" + name + ".png")).size;
  assert.ok(size < 150_000, name + " has " + size + " bytes");
};
let chat;

await part("memory", async () => {
  for (const [text, type] of [["My sister Mia lives in Graz", "person"], ["I drink green tea in the morning", "preference"], ["Answer in short sentences", "instruction"], ["The spare key is with Tom next door", "fact"]]) await act(page, "fact-save", { text, type });
  await page.goto(url + "/memory");
  await page.locator("#facts .fact >> nth=3").waitFor();
  await keep(page, "memory");
});

await part("chat", async () => {
  await page.goto(url + "/");
  const answer = ["For six people you need **three times** the recipe for two:", "", "| Ingredient | For two | For six |", "|---|---:|---:|", "| Flour | 150 g | 450 g |", "| Milk | 250 ml | 750 ml |", "| Eggs | 2 | 6 |", "", "Whisk it well, and let it rest for 20 minutes. In a script:", "", "```python", "recipe = {\"flour\": 150, \"milk\": 250, \"eggs\": 2}", "print({name: 3 * n for name, n in recipe.items()})", "```"].join("\n");
  await model.answers("Pancakes for six: how much do I need?", [call("math.evaluate", { expression: "6/2" })], [answer]);
  await say(page, "Pancakes for six: how much do I need?");
  await answered(page, "let it rest");
  await model.answers("Put it on the shopping list", [call("files.write", { path: "docs/list.txt", content: "milk 750 ml\nflour 450 g\neggs 6\n", overwrite: true })], ["It is on the list."]);
  await page.locator("#scroll").evaluate((s) => (s.scrollTop = 0));
  await page.mouse.move(1000, 120);
  await keep(page, "chat");
  chat = page.url();
});

await part("approval", async () => {
  await say(page, "Put it on the shopping list");
  await page.locator(".question").waitFor();
  await page.locator("#waiting[data-count='1']").waitFor();
  await keep(page, "approval");
});

await part("plan", async () => {
  await page.goto(url + "/");
  const task = (name, purpose, ...after) => ({ name, purpose, after, selected_tools: ["time.now"] });
  await model.answers("Plan a weekend in Graz for two", [call("plan.start", { analysis: "a trip", plan: "trains, a hotel, and what to see", confidence: 0.9, subtasks: [task("trains", "Find trains"), task("hotel", "Find a hotel"), task("sights", "Find sights"), task("days", "Write the plan", "trains", "hotel", "sights")] })], ["Done."]);
  await model.answers("Find trains", [call("time.now", { zone: "Europe/Vienna" })], ["Friday 14:26, Sunday 17:03."]);
  await model.answers("Find a hotel", [hold("hotel")]);
  await model.answers("Find sights", ["The clock tower, and the armoury."]);
  await page.locator(".toggle").click();
  await say(page, "Plan a weekend in Graz for two");
  await page.locator(".question.plan").getByRole("button", { name: "Carry out", exact: true }).click();
  await page.locator("#plan-link").click();
  await page.waitForURL("**/plans/*");
  await model.held("hotel");
  for (const name of ["trains", "sights"]) await page.locator(".planned[data-state=done]", { hasText: name }).waitFor();
  await keep(page, "plan");
});

await part("phone", async () => {
  const phone = await open({ colorScheme: "dark", viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true, link: link() });
  await phone.goto(chat);
  await phone.locator(".question").waitFor();
  await keep(phone, "phone");
});

await done();

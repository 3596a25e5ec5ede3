// fill puts something on every screen, and returns the addresses of those with a parameter by their route.
import { model, say, answered, call, reasoning, hold, act, steward, url, given } from "./page.mjs";

export const rich = [
  "## A heading", "", "Some **bold** words, `code` and a [link](https://example.com/).", "", "- one", "- two", "", "| Name | Number |", "|---|---:|", "| a | 1 |", "| b | 22 |", "",
  "```go", "func main() { fmt.Println(\"a long line that does not fit on a phone, and so scrolls within its box\") }", "```", "", "> A quote.", "", "مرحبا بالعالم، هذا نص من اليمين إلى اليسار",
].join("\n");
const long = "Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft";

export async function fill(page) {
  const at = {};
  const path = () => new URL(page.url()).pathname;
  const link = async (screen, selector) => {
    await page.goto(url + screen);
    return page.locator(selector).first().getAttribute("href");
  };

  await model.answers("Show me everything", [reasoning("Some thoughts."), call("math.evaluate", { expression: "6*7" })], [rich]);
  await model.answers("Write it down", [call("files.write", { path: "docs/new.txt", content: "milk\nbread\n" })], ["Done."]);
  await say(page, "Show me everything");
  await answered(page, "A quote.");
  await say(page, "Write it down");
  await page.locator(".question").waitFor();
  at["/chat/{conversation}"] = path();
  at["/chat/{conversation}/context"] = path() + "/context";

  await page.goto(url + "/");
  const task = (name, purpose, ...after) => ({ name, purpose, after });
  await model.answers("Plan a trip to " + long, [call("plan.start", { analysis: "a", plan: "p", confidence: 0.9, subtasks: [task("train", "Find a train"), task("hotel", "Find a hotel", "train"), task("date", "Find the date")] })], ["Planned."]);
  await model.answers("Find a train", ["At 8:00."]);
  await model.answers("Find a hotel", [hold("hotel")]);
  await model.answers("Find the date", [call("person.ask", { question: "Which weekend suits you?" })], ["Noted."]);
  await page.locator(".toggle").click();
  await say(page, "Plan a trip to " + long);
  await page.locator(".question.plan").getByRole("button", { name: "Carry out", exact: true }).click();
  await model.held("hotel");
  at["/plans/{id}"] = await page.locator("#plan-link").getAttribute("href");
  at["/activity/requests/{id}"] = at["/plans/{id}"].replace("/plans/", "/activity/requests/");
  await page.goto(url + at["/plans/{id}"]);
  await page.locator("#questions .question", { hasText: "Which weekend" }).waitFor();

  await page.goto(url + "/");
  await say(page, "An old conversation about " + long);
  await answered(page, "An old conversation");
  await act(page, "change-conversation", { conversation: path().slice("/chat/".length), archived: "true" });

  await act(page, "effort-save", { kind: "goals", title: "Run ten kilometres", description: "Without pain.", due: "2030-05-01", criteria: "Ten kilometres in one go", milestone: "Five kilometres", next: "Buy shoes" });
  at["/goals/{kind}/{id}"] = await link("/goals", ".item h3 a");
  await act(page, "effort-change", { kind: "goals", id: at["/goals/{kind}/{id}"].split("/").pop(), summary: "Ran four kilometres", percent: "40" });
  await act(page, "effort-save", { kind: "projects", title: long, description: "", due: "" });

  await act(page, "job-save", { edit: "", job: JSON.stringify({ name: "morning", text: "Tell me what is new, and write about " + long, cron: "0 7 * * 1-5" }) });
  at["/jobs/{name}"] = "/jobs/morning";
  await act(page, "job-run", { name: "morning" });
  await act(page, "heartbeat-on", { every: "15m", quiet: "22:00-7:00", reviews: ["daily", "weekly"] });

  for (const text of ["I like green tea", "أحب الشاي الأخضر في الصباح", "My employer is " + long]) await act(page, "fact-save", { text, type: "preference" });
  at["/memory/facts/{fact}"] = await link("/memory", "#facts a[href^='/memory/facts/']");
  const label = "<http://www.w3.org/2000/01/rdf-schema#label>";
  await act(page, "graph-import", { format: "ntriples", own: "yes", text: ["Mia", "Graz", "Tom"].map((n) => `<urn:x:${n}> ${label} "${n}" .`).join("\n") + "\n<urn:x:Mia> <urn:steward:relation:lives_in> <urn:x:Graz> .\n<urn:x:Mia> <urn:steward:relation:knows> <urn:x:Tom> ." });
  await page.goto(url + "/documents");
  await page.locator("#upload-files").setInputFiles([{ name: long + ".md", mimeType: "text/markdown", buffer: Buffer.from("# The boiler\n\nPress the green button for ten seconds.\n") }]);
  await page.locator("#documents li").waitFor();
  at["/documents/{document}"] = await page.locator("#documents li a").getAttribute("href");

  steward("users", "add", "ada");
  await act(page, "group-add", { name: "family", display: "The family" });
  await act(page, "key-add", { user: "ada", name: "backup", expires: "" });
  at["/settings/people/{user}"] = "/settings/people/ada";
  await act(page, "server-add", { name: "office", url: given.office, token: "" });
  at["/settings/agents/inspect"] = await link("/settings/agents", ".item h3 a");
  steward("skills", "add", "letters", "--yes");
  at["/settings/skills/{name}"] = "/settings/skills/letters";

  Object.assign(at, { "/{$}": "/", "/search": "/search?q=everything", "/documents": "/documents?q=green+button", "/memory/graph": "/memory/graph?of=Mia" });
  return at;
}

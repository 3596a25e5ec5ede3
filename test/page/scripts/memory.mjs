// Memory: facts, documents, what a model reads, and the graph.
import { open, model, say, answered, part, done, accessible, picture, assert, url, steward, dialog, confirm } from "./page.mjs";

const page = await open();
const secret = "The safe opens with 4711";

await part("a fact is noticed in what a person says", async () => {
  await model.facts("My sister Mia lives in Graz", secret);
  await say(page, "My sister Mia lives in Graz");
  await page.locator(".remembered", { hasText: "My sister Mia lives in Graz" }).waitFor();
  await accessible(page, "remembered");
  await picture(page, "remembered");
});

await part("facts are added, searched and edited", async () => {
  await page.goto(url + "/memory");
  await page.locator("#facts .fact", { hasText: "Mia lives in Graz" }).waitFor();
  await page.getByRole("button", { name: "Add a fact" }).click();
  await dialog(page).getByLabel("What shall be remembered?").fill("I like tea");
  await accessible(page, "add a fact");
  await dialog(page).getByRole("button", { name: "Add" }).click();
  await page.waitForURL("**/memory/facts/*");
  await page.getByText("It was written by hand.").waitFor();
  await accessible(page, "a fact");
  await page.goto(url + "/memory");
  await page.getByRole("searchbox", { name: "Search facts" }).fill("tea");
  await page.getByRole("button", { name: "Show" }).click();
  await page.waitForURL("**/memory?*");
  const fact = page.locator("#facts .fact", { hasText: "I like tea" });
  assert.equal(await page.locator("#facts .fact").count(), 1);
  await fact.getByRole("button", { name: "Edit" }).click();
  await dialog(page).getByLabel("What shall be remembered?").fill("I like green tea");
  await confirm(page, "Save");
  await page.locator("#facts .fact", { hasText: "I like green tea" }).waitFor();
});

await part("a fact says where it comes from, and a change is undone", async () => {
  await page.goto(url + "/memory");
  await page.locator("#facts .fact", { hasText: "Mia" }).getByRole("link", { name: "Why?" }).click();
  await page.locator("blockquote", { hasText: "My sister Mia lives in Graz" }).waitFor();
  await accessible(page, "why");
  await picture(page, "fact");
  await page.goto(url + "/memory");
  await page.getByRole("button", { name: "Undo …" }).click();
  await accessible(page, "newest changes");
  await dialog(page).locator("li", { hasText: "green tea" }).getByRole("button", { name: "Undo" }).click();
  await page.waitForURL(url + "/memory");
  await page.locator("#facts .fact", { hasText: /I like tea/ }).waitFor();
  await picture(page, "memory");
  await accessible(page, "memory");
});

await part("a fact is recalled, and the context window says so", async () => {
  await page.goto(url + "/");
  await say(page, "Where does my sister Mia live?");
  await answered(page, "You said: Where does my sister Mia live?");
  await page.locator("#chat-menu summary").click();
  await page.getByRole("link", { name: "What the model reads" }).click();
  await page.locator("#context rect").first().waitFor();
  await page.locator("#part-messages summary").click();
  await accessible(page, "context");
  await picture(page, "context");
});

await part("a fact is forgotten, with what was said", async () => {
  await page.goto(url + "/");
  await say(page, secret);
  await page.locator(".remembered", { hasText: secret }).waitFor();
  await page.goto(url + "/memory");
  await page.locator("#facts .fact", { hasText: secret }).getByRole("button", { name: "Forget …" }).click();
  await dialog(page).getByLabel("Yes, also erase my message").check();
  await accessible(page, "forget");
  await picture(page, "forget");
  await confirm(page, "Forget");
  await page.locator("#facts .fact", { hasText: secret }).waitFor({ state: "detached" });
  await page.goto(url + "/search?q=4711");
  await page.locator(".empty").waitFor();
  await page.goto(url + "/memory?all=yes&q=4711");
  await page.locator(".empty").waitFor();
  assert.ok(!steward("audit", "export").includes("4711"), "the log still has it");
});

await part("the page about the person", async () => {
  await page.goto(url + "/memory/profile");
  const text = page.locator("#profile");
  const before = await text.inputValue();
  assert.ok(before.includes("I like tea"), before);
  await text.fill(before.replace("I like tea", "I like black tea"));
  await accessible(page, "about you");
  await page.getByRole("button", { name: "Save" }).click();
  await page.waitForFunction(() => document.getElementById("profile").defaultValue.includes("I like black tea"));
});

await part("documents are added, found and removed", async () => {
  await page.goto(url + "/documents");
  await page.locator("#documents .empty").waitFor();
  await page.locator("#upload-files").setInputFiles([{ name: "manual.md", mimeType: "text/markdown", buffer: Buffer.from("# The boiler\n\nPress the green button for ten seconds.\n") }, { name: "notes.txt", mimeType: "text/plain", buffer: Buffer.from("The spare key is under the pot.\n") }]);
  await page.locator("#documents li >> nth=1").waitFor();
  await page.getByRole("searchbox", { name: "Search in all documents" }).fill("green button");
  await page.getByRole("button", { name: "Search", exact: true }).click();
  await page.locator("#hits li", { hasText: "Press the green button" }).waitFor();
  await accessible(page, "documents");
  await picture(page, "documents");
  await page.locator("#hits a").first().click();
  await page.locator(".passages li", { hasText: "Press the green button" }).waitFor();
  await accessible(page, "a document");
  await page.getByRole("button", { name: "Remove …" }).click();
  await dialog(page).locator("form").getByRole("button", { name: "Remove", exact: true }).click();
  await page.waitForURL(url + "/documents");
  assert.equal(await page.locator("#documents li").count(), 1);
});

await part("the graph", async () => {
  await page.goto(url + "/memory/graph");
  await page.getByRole("button", { name: "Import …" }).first().click();
  const label = "<http://www.w3.org/2000/01/rdf-schema#label>";
  const knows = (a, b, what) => `<urn:x:${a}> <urn:steward:relation:${what}> <urn:x:${b}> .`;
  await dialog(page).getByLabel("Or paste its text").fill([...["Mia", "Graz", "Tom", "Acme"].map((n) => `<urn:x:${n}> ${label} "${n}" .`), knows("Mia", "Graz", "lives_in"), knows("Mia", "Tom", "knows"), knows("Tom", "Acme", "works_at")].join("\n"));
  await accessible(page, "import a graph");
  await dialog(page).locator("form").getByRole("button", { name: "Import", exact: true }).click();
  await page.locator(".picture").waitFor();
  await accessible(page, "graph");
  await page.getByRole("searchbox", { name: "A person, place or thing" }).fill("Mia");
  await page.getByRole("button", { name: "Show" }).click();
  await page.locator("#entity", { hasText: "Mia" }).waitFor();
  await page.locator("#relations td", { hasText: "Graz" }).waitFor();
  await accessible(page, "an entity");
  await picture(page, "graph");
  await page.getByText("Query in SPARQL").click();
  await page.getByRole("button", { name: "Run" }).click();
  await page.locator("#graph-answer td", { hasText: "Acme" }).waitFor();
});

await done();

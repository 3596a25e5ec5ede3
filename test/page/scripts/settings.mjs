// Settings: people, keys, sessions, models, servers of tools, policies, channels, and all settings.
import { open, link, model, say, answered, call, part, done, accessible, picture, assert, url, given, dialog, confirm } from "./page.mjs";

const page = await open();
const go = (path) => page.goto(url + "/settings" + path);
const submit = (name) => dialog(page).locator("form").getByRole("button", { name, exact: true }).click();

await part("a person is invited", async () => {
  await go("/people");
  await page.getByRole("button", { name: "Add a person" }).click();
  await dialog(page).getByLabel("Short name").fill("ada");
  await dialog(page).getByLabel("Name", { exact: true }).fill("Ada Lovelace");
  await accessible(page, "add a person");
  await submit("Add");
  await page.waitForURL("**/settings/people/ada");
  await page.getByRole("button", { name: "Invitation link" }).click();
  const invitation = await dialog(page).locator(".secret").innerText();
  await accessible(page, "invitation");
  await dialog(page).getByRole("button", { name: "Copy" }).click();
  await page.locator("#toasts", { hasText: "Copied" }).waitFor();
  const ada = await open({ link: invitation });
  await ada.goto(url + "/settings");
  await ada.getByText("You are signed in as Ada Lovelace").waitFor();
  assert.equal(await ada.locator(".tabs a").count(), 1); // what an administrator sees is not there
  for (const path of ["/models", "/people", "/all"]) {
    assert.equal((await ada.goto(url + "/settings" + path)).status(), 403, path);
  }
  await page.reload();
  await page.locator("[id^=session-]").waitFor();
  await accessible(page, "a person");
  await picture(page, "person");
  await page.locator("[id^=session-]").getByRole("button", { name: "Sign out" }).click();
  await page.locator("[id^=session-]").waitFor({ state: "detached" });
  await ada.goto(url + "/settings");
  await ada.locator("#sign-in").waitFor();
  await ada.context().close();
});

await part("a key is shown once, and revoked", async () => {
  await page.getByRole("button", { name: "New key" }).click();
  await dialog(page).getByLabel("What is it for?").fill("backup");
  await submit("Add");
  const secret = await dialog(page).locator(".secret").innerText();
  const api = () => fetch(url + "/api/v1/conversations", { headers: { Authorization: "Bearer " + secret } }).then((r) => r.status);
  assert.equal(await api(), 200);
  await page.reload();
  await page.locator("[id^=key-]", { hasText: "backup" }).waitFor();
  assert.ok(!(await page.content()).includes(secret), "the key is shown again");
  await page.locator("[id^=key-]").getByRole("button", { name: "Revoke" }).click();
  await confirm(page, "Revoke");
  await page.locator("[id^=key-]").waitFor({ state: "detached" });
  assert.equal(await api(), 401);
});

await part("groups", async () => {
  await go("/people");
  await page.getByRole("button", { name: "Add a group" }).click();
  await dialog(page).getByLabel("Short name").fill("family");
  await submit("Add");
  const group = page.locator("li", { has: page.locator("h3", { hasText: "family" }) });
  await group.getByLabel("Person").selectOption("ada");
  await group.getByRole("button", { name: "Add", exact: true }).click();
  await group.locator(".chip", { hasText: "ada" }).waitFor();
  await accessible(page, "people");
  await picture(page, "people");
  await group.locator(".chip", { hasText: "ada" }).getByRole("button").click();
  await group.locator(".chip", { hasText: "ada" }).waitFor({ state: "detached" });
});

await part("a person is locked out, and deleted", async () => {
  await go("/people/ada");
  await page.getByRole("button", { name: "Lock out" }).click();
  await page.getByText("locked out").waitFor();
  await page.getByRole("button", { name: "Delete" }).click();
  await dialog(page).getByLabel("Type the short name").fill("eve");
  await submit("Delete");
  await dialog(page).locator(".field-error", { hasText: "not the same" }).waitFor();
  await dialog(page).getByLabel("Type the short name").fill("ada");
  await submit("Delete");
  await page.waitForURL(url + "/settings/people");
  assert.equal(await page.getByText("Ada Lovelace").count(), 0);
});

await part("sessions are listed and ended", async () => {
  const other = await open({ link: link() });
  await go("");
  await page.locator("[id^=session-]", { hasText: "this browser" }).waitFor();
  const rest = page.locator("[id^=session-]").filter({ has: page.getByRole("button", { name: "Sign out" }) });
  await accessible(page, "settings");
  await picture(page, "settings");
  await rest.first().getByRole("button", { name: "Sign out" }).click();
  await rest.first().waitFor({ state: "detached" });
  await other.locator("#sign-in").waitFor(); // at once, by itself
  await other.context().close();
});

await part("language and colours", async () => {
  await page.getByLabel("Language").selectOption("de");
  await page.getByRole("heading", { name: "Einstellungen" }).waitFor();
  assert.equal(await page.locator("html").getAttribute("lang"), "de");
  await accessible(page, "German");
  await page.locator("select").first().selectOption("en");
  await page.getByRole("heading", { name: "Settings" }).waitFor();
  await page.getByLabel("Colours").selectOption("dark");
  await page.locator("html.dark").waitFor();
  await page.getByLabel("Colours").selectOption("");
  await page.locator("html:not(.dark)").waitFor();
});

await part("models are tested", async () => {
  await go("/models");
  await page.locator(".item", { hasText: "Answers by default" }).getByRole("button", { name: "Test" }).click();
  await page.locator("#toasts", { hasText: "openai/gpt-5.4 answers" }).waitFor();
  await accessible(page, "models");
  await picture(page, "models");
});

await part("a server of tools is added, approved, used and removed", async () => {
  await go("/agents");
  await page.getByRole("button", { name: "Add a server of tools" }).click();
  await dialog(page).getByText("Another server, by its address").click();
  await dialog(page).getByLabel("Short name").fill("office");
  await dialog(page).getByLabel("Address").fill(given.office);
  await accessible(page, "add a server");
  await submit("Add");
  await page.locator("details.covered", { hasText: "book" }).first().waitFor();
  await accessible(page, "inspect");
  await picture(page, "inspect");
  await page.getByRole("button", { name: "Approve" }).click();
  await page.waitForURL(url + "/settings/agents");
  await page.locator(".item", { hasText: "mcp:office" }).getByText("approved").waitFor();
  await accessible(page, "agents");
  await picture(page, "agents");
  await page.getByRole("link", { name: "mcp:office" }).click();
  await page.getByRole("button", { name: "Remove" }).click();
  await submit("Remove");
  await page.waitForURL(url + "/settings/agents");
  await page.getByRole("link", { name: "mcp:office" }).waitFor({ state: "detached" });
});

await part("a policy is tried on what was done, before it is saved", async () => {
  await page.goto(url + "/");
  const write = (name) => call("files.write", { path: "docs/" + name + ".txt", content: name });
  await model.answers("Write alpha", [write("alpha")], ["Alpha is written."]);
  await say(page, "Write alpha");
  await page.locator(".question").getByRole("button", { name: "Allow once" }).click();
  await answered(page, "Alpha is written.");
  await go("/policy");
  await accessible(page, "policies");
  await picture(page, "policy");
  await page.getByRole("button", { name: "New file" }).click();
  const rules = dialog(page).locator("textarea[name=text]");
  await rules.fill("package steward\n\nthis is not Rego");
  await submit("Test");
  await dialog(page).locator(".field-error").waitFor();
  await rules.fill('package steward\n\ndeny contains "files stay as they are" if input.tool.name == "files.write"\n');
  await submit("Test");
  await dialog(page).locator("li", { hasText: "files stay as they are" }).waitFor();
  await accessible(page, "try a policy");
  await picture(page, "policy-try");
  await submit("Save");
  await dialog(page).waitFor({ state: "detached" });
  await page.waitForFunction(async () => (await (await fetch("/settings/policy")).text()).includes("files stay as they are"));
  await page.goto(url + "/");
  await model.answers("Write beta", [write("beta")], ["Beta is not written."]);
  await say(page, "Write beta");
  await answered(page, "Beta is not written.");
  await page.locator(".call.denied").waitFor();
});

await part("channels", async () => {
  await go("/channels");
  await page.locator(".empty").waitFor();
  await page.getByRole("button", { name: "Connect a messenger" }).click();
  await accessible(page, "connect a messenger");
  await page.keyboard.press("Escape");
  await accessible(page, "channels");
  await picture(page, "channels");
});

await part("all settings", async () => {
  await go("/all");
  await accessible(page, "all settings");
  await picture(page, "all");
  await page.getByRole("searchbox").fill("listen");
  await page.getByRole("searchbox").press("Enter");
  await page.waitForURL("**/settings/all?*");
  await page.locator("dt", { hasText: "listen" }).first().waitFor();
  await page.goto(url + "/settings/all?changed=1");
  await page.locator("dt", { hasText: "folders" }).first().waitFor();
});

await part("sign out", async () => {
  await go("");
  await page.getByRole("button", { name: "Sign out" }).first().click();
  await page.locator("#sign-in").waitFor();
  await page.goto(url + "/memory");
  await page.locator("#sign-in").waitFor();
});

await done();

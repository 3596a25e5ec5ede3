// The home: rooms and devices, live, and what needs an approval.
import { open, part, done, accessible, picture, assert, url, given } from "./page.mjs";

const page = await open();
const device = (name) => page.locator(".device", { hasText: name });

await part("rooms and devices", async () => {
  await page.goto(url + "/home");
  await device("Hall light").waitFor();
  assert.deepEqual(await page.locator("#home h2").allInnerTexts(), ["Hall", "Kitchen"]);
  await device("Temperature").getByText("21.5").waitFor();
  await accessible(page, "home");
  await picture(page, "home");
});

await part("a light is switched, and shows what happens elsewhere", async () => {
  await device("Kettle").getByRole("switch", { checked: true }).click();
  await device("Kettle").getByRole("switch", { checked: false }).waitFor();
  await fetch(given.house + "?id=light.hall&state=on");
  await device("Hall light").getByRole("switch", { checked: true }).waitFor();
});

await part("a lock asks", async () => {
  await device("Front door").getByRole("button", { name: "Unlock" }).click();
  await page.locator("#waiting[data-count='1']").waitFor();
  await page.goto(url + "/approvals");
  await page.locator(".question").getByRole("button", { name: "Deny …" }).click();
  await page.locator("dialog[open]").getByRole("button", { name: "Deny" }).click();
  await page.locator(".question").waitFor({ state: "detached" });
  await page.goto(url + "/home");
  await device("Front door").getByText("locked", { exact: true }).waitFor();
});

await part("search", async () => {
  await page.getByRole("searchbox", { name: "Search devices and rooms" }).fill("kettle");
  await page.getByRole("button", { name: "Search" }).click();
  await page.waitForURL("**/home?*");
  await device("Kettle").waitFor();
  assert.equal(await page.locator(".device").count(), 1);
});

await done();

// A conversation with 10,000 messages: it opens with the newest, and earlier ones come as the reader goes up.
import { open, say, answered, part, done, assert, given, picture } from "./page.mjs";

const page = await open();
const newest = "Answer " + (given.turns - 1) + " ";

await part("the newest messages are shown first", async () => {
  await page.locator("#conversation-list a", { hasText: "A long conversation" }).click();
  await page.getByText(newest).waitFor();
  assert.ok((await page.locator(".msg").count()) < 130);
  await page.waitForFunction(() => { const s = document.getElementById("scroll"); return s.scrollTop > 0 && s.scrollHeight - s.scrollTop - s.clientHeight < 3; });
});

await part("earlier messages come on scrolling up, and what is read stays in its place", async () => {
  await page.locator("#scroll").focus();
  for (let pages = 0; pages < 5; pages++) {
    const before = await page.locator(".msg").count();
    await page.evaluate(() => {
      const s = document.getElementById("scroll");
      s.scrollTop = 0;
      window.first = document.querySelector("#thread .msg");
      window.firstAt = window.first.getBoundingClientRect().top;
    });
    await page.waitForFunction((n) => document.querySelectorAll(".msg").length > n, before);
    const moved = await page.evaluate(() => new Promise((ok) => requestAnimationFrame(() => requestAnimationFrame(() => ok(Math.abs(window.first.getBoundingClientRect().top - window.firstAt))))));
    assert.ok(moved < 40, "what was read has moved by " + moved);
  }
  assert.ok(await page.evaluate(() => getComputedStyle(document.querySelector(".msg")).contentVisibility === "auto"));
  await picture(page, "long");
});

await part("the reader comes to the first message and back", async () => {
  // Each page loads the next one while the reader stays at the top.
  await page.evaluate(() => new Promise((ok) => {
    const s = document.getElementById("scroll");
    const up = () => (document.getElementById("older") ? ((s.scrollTop = 0), requestAnimationFrame(up)) : ok());
    up();
  }));
  assert.equal(await page.locator(".msg").count(), 2 * given.turns);
  const said = await page.locator(".msg.user .typed").allTextContents();
  assert.deepEqual(said, Array.from({ length: given.turns }, (_, i) => "Question " + i));
  await page.locator("#scroll").press("Home");
  await page.locator(".msg").first().waitFor();
  await say(page, "Still here?");
  await answered(page, "You said: Still here?");
  await page.waitForFunction(() => { const s = document.getElementById("scroll"); return s.scrollHeight - s.scrollTop - s.clientHeight < 3; });
});

await done();

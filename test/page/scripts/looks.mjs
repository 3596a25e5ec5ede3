// Every screen with something on it, on a phone and a desk, light and dark, and in German: nothing is cut off, and
// axe finds nothing. The list of screens is the program's own.
import { open, link, part, done, accessible, picture, assert, url, given } from "./page.mjs";
import { fill } from "./fill.mjs";

let at;
await part("something is on every screen", async () => {
  const page = await open();
  at = await fill(page);
  await page.context().close();
});

const name = (route) => (route === "/{$}" ? "welcome" : route.slice(1).replace(/[{}]/g, "").replaceAll("/", "-"));

for (const [colorScheme, size, locale] of [["light", "desk", "en"], ["light", "phone", "en"], ["dark", "desk", "en"], ["dark", "phone", "en"], ["light", "phone", "de"]]) {
  const phone = size === "phone";
  const page = await open({ colorScheme, locale, viewport: phone ? { width: 390, height: 844 } : { width: 1440, height: 900 }, hasTouch: phone, isMobile: phone, link: link() });
  const which = [colorScheme, size, locale].join("-");
  const shown = async (what) => {
    await accessible(page, which + " " + what);
    await picture(page, which + "-" + what);
    const wide = await page.evaluate(() => {
      // what scrolls within its own box, or is meant for screen readers, may be wider
      const within = (e) => e.closest("pre, table, .tabs, .scroll-x, .scrolls, .picture, .hidden, .skip, svg, dialog:not([open]), #conversations:not(.shown)");
      const over = [...document.querySelectorAll("body *")].filter((e) => e.getClientRects().length && !within(e) && Math.round(e.getBoundingClientRect().right) > innerWidth);
      const main = document.getElementById("main");
      return { page: Math.max(document.documentElement.scrollWidth - innerWidth, main.scrollWidth - main.clientWidth), parts: over.map((e) => e.outerHTML.slice(0, 120)) };
    });
    assert.deepEqual(wide, { page: 0, parts: [] }, which + " " + what + " is wider than the window");
  };
  await part(which, async () => {
    for (const route of given.screens) {
      const address = at[route] || route;
      assert.ok(!address.includes("{"), "fill.mjs has no address for the screen " + route);
      const response = await page.goto(url + address);
      assert.equal(response.status(), 200, address);
      if (locale === "de") assert.equal(await page.locator("html").getAttribute("lang"), "de");
      await shown(name(route));
    }
    await page.goto(url + at["/chat/{conversation}"]);
    await page.locator("#scroll").evaluate((s) => (s.scrollTop = 0));
    await shown("answer");
    if (phone) {
      await page.locator(".chat-head button[data-js=list]").click();
      await page.locator("#conversations.shown").waitFor();
      await shown("list");
      await page.keyboard.press("Escape");
    }
    await page.locator("#chat-menu summary").click();
    await shown("menu");
  });
  await page.context().close();
}

await part("a text from right to left is isolated", async () => {
  const page = await open({ link: link() });
  await page.goto(url + "/memory");
  const own = page.locator("#facts .own", { hasText: "الشاي" });
  assert.equal(await own.getAttribute("dir"), "auto");
  assert.equal(await own.evaluate((e) => getComputedStyle(e).direction), "rtl");
  assert.equal(await own.evaluate((e) => getComputedStyle(e).unicodeBidi), "isolate");
  await page.context().close();
});

await done();

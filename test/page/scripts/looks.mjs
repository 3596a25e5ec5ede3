// Each screen of the chat on a phone and a desk, light and dark: nothing is cut off, and axe finds nothing.
import { open, link, model, say, answered, call, reasoning, part, done, accessible, picture, assert, url } from "./page.mjs";

const text = [
  "## A heading", "", "Some **bold** words, `code` and a [link](https://example.com/).", "", "- one", "- two", "", "| Name | Number |", "|---|---:|", "| a | 1 |", "| b | 22 |", "",
  "```go", "func main() { fmt.Println(\"a long line that does not fit on a phone, and so scrolls within its box\") }", "```", "", "> A quote.", "", "مرحبا بالعالم",
].join("\n");
await model.answers("Show me everything", [reasoning("Some thoughts."), call("math.evaluate", { expression: "6*7" })], [text]);
await model.answers("Write it down", [call("files.write", { path: "docs/new.txt", content: "milk\nbread\n" })], ["Done."]);

let address;
for (const colorScheme of ["light", "dark"]) for (const [name, viewport] of [["desk", { width: 1440, height: 900 }], ["phone", { width: 390, height: 844 }]]) {
  const page = await open({ colorScheme, viewport, hasTouch: name === "phone", isMobile: name === "phone", link: link() });
  const at = colorScheme + "-" + name;
  const shown = async (what) => {
    await accessible(page, at + " " + what);
    await picture(page, at + "-" + what);
    const wide = await page.evaluate(() => Math.max(...[document.documentElement.scrollWidth, ...[...document.querySelectorAll("#send, .chat-head, .msg, .question .row, #nav, .hit")].map((e) => e.getBoundingClientRect().right)]) - innerWidth);
    assert.ok(wide <= 0, at + " " + what + " is wider than the window by " + wide);
  };
  await part(at, async () => {
    await shown("welcome");
    if (!address) {
      await say(page, "Show me everything");
      await answered(page, "A quote.");
      await say(page, "Write it down");
      await page.locator(".question").waitFor();
      address = page.url();
    }
    await page.goto(address);
    await page.locator(".question").waitFor();
    await shown("chat");
    await page.locator("#scroll").evaluate((s) => (s.scrollTop = 0));
    await shown("answer");
    if (name === "phone") {
      await page.getByRole("button", { name: "Conversations", exact: true }).click();
      await page.locator("#conversations.shown").waitFor();
      await shown("list");
      await page.locator("#conversations").getByRole("button", { name: "Close" }).click();
    }
    await page.locator("#chat-menu summary").click();
    await shown("menu");
    await page.goto(url + "/search?q=everything");
    await page.locator(".hit").first().waitFor();
    await shown("search");
  });
  await page.context().close();
}

await done();

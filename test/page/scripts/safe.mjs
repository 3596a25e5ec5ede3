// What must not happen: a hostile answer that runs something, one person who sees another's things, an action that
// was denied.
import { open, link, model, act, say, answered, call, part, done, accessible, assert, url, expected, steward } from "./page.mjs";

const hostile = [
  "<script>window.ranHostile = true</script>", "<img src=x onerror=\"window.ranHostile=true\">", "<svg onload=\"window.ranHostile=true\"><a href=\"javascript:window.ranHostile=true\">x</a></svg>",
  "[run](javascript:window.ranHostile=true)", "[data](data:text/html,<script>window.ranHostile=true</script>)", "![picture](https://attacker.example/p.png)", "[safe](https://example.com/)",
  "<iframe src=\"https://attacker.example\"></iframe>", "<form action=\"https://attacker.example\"><input name=q></form>", "<style>body{display:none}</style>", "<a href=\"https://example.com\" onclick=\"window.ranHostile=true\">click</a>",
  "`<b onmouseover=window.ranHostile=true>`", "text with \u202e turned \u202c direction and a bell \u0007", "<details open ontoggle=window.ranHostile=true>", "<math><mtext></form><form><mglyph><style></math><img src onerror=window.ranHostile=true>",
].join("\n\n");

for (const csp of [true, false]) {
  await part(csp ? "a hostile answer, with the policy" : "a hostile answer, without the policy", async () => {
    const page = await open({ csp, link: link() });
    const asked = [];
    page.on("request", (r) => { if (!r.url().startsWith(url) && !r.url().startsWith("data:") && !r.url().startsWith("blob:")) asked.push(r.url()); });
    const name = "Attack " + csp;
    await model.answers(name, [hostile.slice(0, 40), hostile.slice(40, 200), hostile.slice(200), "\n\nThe end."]);
    await say(page, name);
    const answer = await answered(page, "The end.");
    await page.reload();
    await answered(page, "The end.");
    assert.equal(await answer.locator("script, iframe, form, style, svg:not(.icon), img, input, [onerror], [onload], [onclick], [ontoggle]").count(), 0);
    const links = await answer.locator(".text a").evaluateAll((list) => list.map((a) => a.getAttribute("href")));
    for (const l of links) assert.match(l, /^https:\/\/(example\.com|attacker\.example)/);
    for (const a of await answer.locator(".text a, .text b").all()) await a.hover();
    assert.equal(await page.evaluate(() => window.ranHostile), false);
    assert.ok((await answer.innerText()).includes("<script>"));
    assert.ok(!/[\u202a-\u202e\u2066-\u2069]/.test(await answer.innerText()));
    assert.deepEqual(asked, []);
    await page.context().close();
  });
}

await part("a line of a megabyte", async () => {
  const page = await open({ link: link() });
  await model.answers("Long", ["x".repeat(1 << 20), "\n\nThe end."]);
  await say(page, "Long");
  await answered(page, "The end.");
  await page.locator("#text").fill("still usable");
  await page.context().close();
});

await part("deny, and always", async () => {
  const page = await open({ link: link() });
  const writes = (n) => call("files.write", { path: "docs/" + n + ".txt", content: n });
  await model.answers("Write one", [writes("one")], ["It was not allowed."]);
  await say(page, "Write one");
  await page.locator(".question").getByRole("button", { name: "Deny …" }).click();
  await page.locator("dialog[open] input[name=reason]").fill("Not today");
  await page.locator("dialog[open]").getByRole("button", { name: "Deny" }).click();
  await answered(page, "It was not allowed.");
  await page.locator(".call.denied").waitFor();
  await model.answers("Write zero", [writes("zero")], ["Zero is written."]);
  await say(page, "Write zero"); // from here on, the model has seen what a tool has returned
  await page.locator(".question").getByRole("button", { name: "Allow once" }).click();
  await answered(page, "Zero is written.");
  await model.answers("Write two", [writes("two")], ["Two is written."]);
  await say(page, "Write two");
  await page.locator(".question").getByRole("button", { name: "Always …" }).click();
  const widths = page.locator("dialog[open] .widths button");
  await widths.last().click(); // the narrowest: this call alone
  await page.locator("dialog[open] .widths button.chosen:last-child").waitFor();
  await page.getByRole("button", { name: "write files in docs" }).click();
  await page.locator("dialog[open] .widths button.chosen", { hasText: "write files in docs" }).waitFor();
  await accessible(page, "always");
  await page.locator("dialog[open]").getByRole("button", { name: "Allow" }).click();
  await answered(page, "Two is written.");
  await model.answers("Write three", [writes("three")], ["Three is written."]);
  await say(page, "Write three");
  await answered(page, "Three is written.");
  assert.equal(await page.locator(".question").count(), 0);
  await page.context().close();
});

await part("two people see nothing of each other", async () => {
  steward("users", "add", "ada");
  const mine = await open({ link: link() });
  await say(mine, "My own secret plan");
  await answered(mine, "My own secret plan");
  const address = mine.url();
  const ada = await open({ link: link("ada") });
  assert.equal(await ada.locator("#conversation-list li").count(), 0);
  await ada.goto(address);
  await ada.getByText("This does not exist").waitFor();
  assert.equal(await ada.getByText("secret plan").count(), 0);
  await ada.goto(url + "/search?q=secret");
  await ada.locator(".empty").waitFor();
  await ada.goto(url + "/");
  await say(ada, "Hello from Ada");
  await answered(ada, "Hello from Ada");
  await act(ada, "fact-save", { text: "Ada keeps a diary", type: "fact" });
  await act(ada, "effort-save", { kind: "goals", title: "Ada learns Go", description: "", due: "" });
  await act(ada, "job-save", { edit: "", job: JSON.stringify({ name: "adas-job", text: "Ask for Ada", cron: "0 7 * * *" }) });
  await model.answers("Ada writes", [call("files.write", { path: "docs/ada.txt", content: "Ada" })], ["Written."]);
  await say(ada, "Ada writes");
  await ada.locator(".talk .question").waitFor();
  const hers = new URL(ada.url()).pathname;
  await ada.goto(url + "/memory");
  const fact = await ada.locator("#facts a").first().getAttribute("href");
  await ada.goto(url + "/goals");
  const goal = await ada.locator(".item h3 a").getAttribute("href");
  for (const path of ["/", "/approvals", "/plans", "/activity", "/activity/log", "/activity/decisions", "/memory", "/memory/profile", "/goals", "/jobs", "/archive", "/search?q=Ada"]) {
    await mine.goto(url + path);
    await mine.locator("#main").waitFor();
    const text = await mine.locator("#main").innerText();
    assert.ok(!/Ada keeps|Ada learns|adas-job|Ada writes|Hello from Ada/.test(text), path + " shows what is another's");
  }
  assert.equal(await mine.locator("#waiting").getAttribute("data-count"), "0");
  for (const path of [fact, goal, "/jobs/adas-job", hers]) {
    assert.equal((await mine.request.get(url + path, { headers: { Accept: "text/html" } })).status(), 404, path);
  }
  await mine.goto(url + "/");
  assert.equal(await mine.getByText("Hello from Ada").count(), 0);
  await ada.context().close();
  await mine.context().close();
});

await part("a link of somebody else asks, and signing out forgets", async () => {
  const page = await open({ link: link() });
  await page.goto(url + "/");
  await page.locator("#text").fill("a draft of mine");
  await page.goto(url + "/in");
  await page.goto(link("ada"));
  await page.locator("#sign-in-error", { hasText: "this link is for ada" }).waitFor();
  await accessible(page, "another account");
  await page.locator("#sign-in-go").click();
  await page.locator("#composer").waitFor();
  await page.goto(url + "/settings");
  await page.getByText("You are signed in as ada").waitFor();
  await page.locator("[data-do=sign-out]").first().click();
  await page.locator("#sign-in").waitFor();
  assert.equal(await page.evaluate(() => localStorage.length), 0);
  await page.goBack();
  await page.locator("#sign-in").waitFor();
  await page.context().close();
});

await part("a link works once, and nobody without one gets in", async () => {
  const once = link();
  const page = await open({ link: once });
  await page.context().close();
  const again = await open({ link: null });
  await again.goto(once);
  await again.locator("#sign-in-error", { hasText: "used" }).waitFor();
  await again.goto(url + "/");
  await again.locator("#sign-in").waitFor();
  await accessible(again, "sign-in");
  await again.context().close();
});

await done();

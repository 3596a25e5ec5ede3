// What all scripts share: a browser that is signed in, the double of the model, and checks.
import { chromium } from "playwright-core";
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import { execFileSync } from "node:child_process";
import { join } from "node:path";
import assert from "node:assert/strict";

export { assert };
export const url = process.env.PAGE_URL;
export const given = JSON.parse(process.env.PAGE_GIVEN || "{}");
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

// What ends a wait for something that never comes. Nothing that works depends on it.
const patience = Number(process.env.PAGE_PATIENCE || 120_000);

const browser = await chromium.launch({ executablePath: process.env.CHROMIUM || "/usr/bin/chromium", args: process.getuid() === 0 ? ["--no-sandbox"] : [] });

// steward runs a command of the program and returns what it prints.
export const steward = (...args) =>
  execFileSync(process.env.PAGE_BIN, args, { encoding: "utf8", cwd: process.env.PAGE_HOME, env: { ...process.env, HOME: process.env.PAGE_HOME, NO_COLOR: "1" } });

const problems = []; // what pages have reported

// open opens a page. options are those of a context of Playwright, and link: the link that signs it in
// (null: nobody).
export async function open({ link = process.env.PAGE_LINK.trim(), csp = true, ...options } = {}) {
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 }, reducedMotion: "reduce", bypassCSP: !csp, ...options });
  context.setDefaultTimeout(patience);
  context.setDefaultNavigationTimeout(patience);
  await context.addInitScript(() => { window.ranHostile = false; });
  const page = await context.newPage();
  page.on("pageerror", (e) => problems.push("an error on the page: " + e.message));
  page.on("console", (m) => { if (m.type() === "error" && !/Failed to load resource|ERR_/.test(m.text())) problems.push("the console says: " + m.text()); });
  if (link) {
    await page.goto(link);
    await page.waitForURL(url + "/");
    await page.locator("#text").waitFor();
  }
  return page;
}

// link makes a link that signs a user in.
export const link = (user) => steward("link", ...(user ? ["--user", user] : [])).trim();

const ask = async (method, path, body) => {
  const r = await fetch(process.env.PAGE_MODEL + path, { method, body: body && JSON.stringify(body) });
  if (!r.ok) throw new Error(path + ": " + r.status + " " + (await r.text()));
};

// model says what the double answers. answers(user, round, round…): a round is a list of texts and of
// reasoning(text), call(tool, arguments) and hold(name).
export const model = {
  answers: (user, ...rounds) => ask("POST", "/answers", { user, rounds: rounds.map((r) => r.map((s) => (typeof s === "string" ? { text: s } : s))) }),
  release: (hold) => ask("POST", "/release/" + hold),
  held: (hold) => ask("GET", "/held/" + hold), // waits until the answer has come to this point
  facts: (...texts) => ask("POST", "/facts", texts), // what it finds where a user has said it
  seen: (text) => ask("GET", "/seen/" + encodeURIComponent(text)), // fails if no request to the model had this text
  gone: (hold) => ask("GET", "/gone/" + hold), // waits until Steward has ended the request there
};
export const hold = (name) => ({ hold: name });
export const reasoning = (text) => ({ reasoning: text });
export const call = (tool, args) => ({ tool: tool.replaceAll(".", "__"), args });

// say writes a message and sends it. In a new conversation it waits for the conversation's own page.
export async function say(page, text) {
  const fresh = new URL(page.url()).pathname === "/";
  await page.locator("#text").fill(text);
  await page.locator("#text").press("Enter");
  if (fresh) await page.waitForURL("**/chat/*");
}

// answered waits until the newest answer is complete and says a text.
export async function answered(page, text) {
  const last = page.locator(".msg.assistant:has(footer)").filter({ hasText: text }).last();
  await last.waitFor();
  await page.locator("#state:not([data-busy=true])").waitFor({ state: "attached" });
  return last;
}

// act does an action of the page's without its buttons, to prepare what a script is not about.
export const act = (page, name, fields) =>
  page.evaluate(async ([name, fields]) => {
    const r = await fetch("/do/" + name, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(fields) });
    const out = await r.json();
    if (!r.ok) throw new Error(name + ": " + JSON.stringify(out));
    return out;
  }, [name, fields]);

// dialog is the one that is open, and confirm does what it asks about.
export const dialog = (page) => page.locator("dialog[open]");
export async function confirm(page, name) {
  await dialog(page).locator("form").getByRole("button", { name, exact: true }).click();
  await dialog(page).waitFor({ state: "detached" });
}

// words is what an answer says, without the space between its blocks.
export const words = async (answer) => (await answer.locator(".text").allInnerTexts()).join(" ").replace(/\s+/g, " ").trim();

// accessible looks for barriers (WCAG 2.2 AA).
export async function accessible(page, where) {
  await page.evaluate(axe + "; undefined");
  const found = await page.evaluate(async () =>
    (await window.axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"] })).violations.map((v) => v.id + ": " + v.help + ": " + v.nodes.map((n) => n.html.slice(0, 160) + " " + (n.failureSummary || "").replace(/\s+/g, " ").slice(0, 200)).slice(0, 4).join(" | ")));
  assert.deepEqual(found, [], where);
}

// picture makes a screenshot, for the documentation and for looking at.
export const picture = (page, name) => page.screenshot({ path: join(process.env.PAGE_PICTURES, name + ".png") });

// part is a step of a script; its name says where it failed.
export async function part(name, f) {
  try {
    await f();
    assert.deepEqual(problems, []);
    console.log("ok", name);
  } catch (e) {
    console.log("FAILED", name);
    for (const c of browser.contexts()) for (const [i, p] of c.pages().entries()) {
      console.log(p.url());
      await p.screenshot({ path: join(process.env.PAGE_PICTURES, "failed-" + i + ".png") }).catch(() => {});
      console.log((await p.locator("body").innerText({ timeout: 2000 }).catch(() => "")).slice(0, 3000));
    }
    throw e;
  }
}

// expected takes from what pages have reported what a script has caused on purpose.
export function expected(pattern) {
  for (let i = problems.length - 1; i >= 0; i--) if (pattern.test(problems[i])) problems.splice(i, 1);
}

export async function done() {
  await browser.close();
  assert.deepEqual(problems, []);
}

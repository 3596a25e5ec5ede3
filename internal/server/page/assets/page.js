// The page's modules. Everything is done by delegation: elements that patches bring need no set-up.
import { act, upload, toast, t } from "./act.js";
import { followPage, toNewest } from "./live.js";
import { startNotify, switchNotify } from "./notify.js";
import { startComposer, suggest, editMessage, stopEditing, retryLast, queue, pick } from "./composer.js";
import { localTimes, copyButtons, enhance } from "./enhance.js";
import { startUploads } from "./upload.js";
import { signIn } from "./signin.js";

const js = {
  copy(button) {
    const article = button.closest("article");
    const typed = article.querySelector(".typed");
    copy(typed ? typed.textContent : act("message-text", { ...fields(button), message: article.dataset.message }, button).then((out) => out?.data ?? ""));
  },
  newest: () => toNewest(),
  notify: () => switchNotify(),
  "copy-value"(button) {
    const from = document.getElementById(button.dataset.from);
    from.select();
    copy(from.value);
  },
  pick(button) {
    button.closest("dialog").close();
    pick(button.dataset.name, button.dataset.value, button.querySelector(".own").textContent);
  },
  queue: () => queue(),
  uneditable: () => stopEditing(),
  retry: () => retryLast(),
  edit: (button) => editMessage(button.closest("article")),
  suggest: (button) => suggest(button.textContent),
  list: () => document.getElementById("conversations").classList.toggle("shown"),
  close: (button) => button.closest("dialog").close(),
  code(button) {
    copy(button.closest(".code-box, .copy:not(button)").querySelector("pre, code").textContent);
  },
};

// copy copies a text, or what a promise brings. A page that is not served by HTTPS has no clipboard.
function copy(what) {
  const done = () => toast(t("Copied")), failed = () => toast(t("Copying is not possible here."), true);
  if (!navigator.clipboard) return byHand(what).then(done, failed);
  if (typeof what === "string" || !window.ClipboardItem) return Promise.resolve(what).then((s) => navigator.clipboard.writeText(s)).then(done, failed);
  const blob = what.then((s) => new Blob([s], { type: "text/plain" }));
  return navigator.clipboard.write([new ClipboardItem({ "text/plain": blob })]).then(done, failed);
}

async function byHand(what) {
  const box = document.createElement("textarea");
  box.value = await what;
  box.className = "hidden";
  (document.querySelector("dialog[open]") || document.body).append(box);
  box.select();
  const ok = document.execCommand("copy");
  box.remove();
  if (!ok) throw new Error();
}

// fields returns what a button says by data-field-NAME.
function fields(element) {
  const out = {};
  for (const [name, value] of Object.entries(element.dataset)) {
    if (name.startsWith("field")) out[name.slice(5, 6).toLowerCase() + name.slice(6)] = value;
  }
  const conversation = document.getElementById("composer")?.dataset.conversation;
  if (conversation && !out.conversation) out.conversation = conversation;
  return out;
}

document.addEventListener("click", (e) => {
  const button = e.target.closest("button[data-do]");
  if (button) {
    e.preventDefault();
    if (button.dataset.confirm && !confirm(button.dataset.confirm)) return;
    act(button.dataset.do, fields(button), button);
    return;
  }
  const own = e.target.closest("[data-js]");
  if (own && js[own.dataset.js]) js[own.dataset.js](own);
  if (e.target.closest("[data-theme-switch]")) switchTheme();
});

document.addEventListener("submit", (e) => {
  const form = e.target;
  if (!form.dataset.do) return;
  e.preventDefault();
  const out = {};
  for (const [name, value] of new FormData(form)) {
    if (value instanceof File) continue;
    if (name.endsWith("[]")) (out[name.slice(0, -2)] ||= []).push(value);
    else out[name] = value;
  }
  for (const box of form.querySelectorAll("input[type=checkbox][data-flag]")) out[box.name] = box.checked;
  act(e.submitter?.dataset.submit || form.dataset.do, out, e.submitter);
});

// A control with data-change does its action when it changes.
document.addEventListener("change", (e) => {
  const at = e.target.closest("[data-change]");
  if (at) act(at.dataset.change, { ...fields(at), value: at.type === "checkbox" ? String(at.checked) : at.value }, at);
});

// A list in a dialog is filtered by what is typed; the arrows and Enter choose.
document.addEventListener("input", (e) => {
  const box = e.target.closest("[data-js-filter]");
  if (!box) return;
  const words = box.value.toLowerCase().split(/\s+/);
  for (const item of document.getElementById(box.dataset.jsFilter).children) item.hidden = !words.every((w) => item.textContent.toLowerCase().includes(w));
});
document.addEventListener("keydown", (e) => {
  const dialog = e.target.closest("dialog");
  const list = dialog?.querySelector("[data-js-filter]") && [...dialog.querySelectorAll("li:not([hidden]) button")];
  if (!list?.length) return;
  const at = list.indexOf(document.activeElement);
  if (e.key === "ArrowDown") list[Math.min(at + 1, list.length - 1)].focus();
  else if (e.key === "ArrowUp") at > 0 ? list[at - 1].focus() : dialog.querySelector("[data-js-filter]").focus();
  else if (e.key === "Enter" && at < 0) list[0].click();
  else return;
  e.preventDefault();
});

// A file that is chosen is sent as it is; the answer is that of an action.
document.addEventListener("change", (e) => {
  const at = e.target.closest("input[data-upload]");
  if (!at?.files.length) return;
  const file = at.files[0];
  upload("/" + at.dataset.upload + "?" + new URLSearchParams({ name: file.name }), file);
  at.value = "";
});

// A menu closes when something else is clicked, or with Escape.
document.addEventListener("click", (e) => {
  for (const m of document.querySelectorAll("details.menu[open]")) if (!m.contains(e.target) || e.target.closest(".items button, .items a")) m.open = false;
});

// What is unfolded for the first time may bring more.
document.addEventListener("toggle", (e) => {
  const more = e.target.open && e.target.querySelector(":scope > * > [data-more]");
  if (!more) return;
  const name = more.dataset.more;
  delete more.dataset.more;
  act(name, fields(more), null, true);
}, true);

// A button beside the text leaves the focus in it: a phone keeps its keyboard open, and the bar below, which is hidden
// while somebody writes, does not come back under the finger and move the button away.
document.addEventListener("mousedown", (e) => {
  if (document.activeElement?.id === "text" && e.target.closest("#composer") && e.target.id !== "text") e.preventDefault();
});

document.addEventListener("focusin", (e) => {
  const at = e.target.closest("[data-js-focus]");
  if (!at) return;
  const name = at.dataset.jsFocus;
  delete at.dataset.jsFocus;
  act(name, {}, null, true);
});

// A form with the method get goes to its address, without the rule form-action, which forbids it.
document.addEventListener("submit", (e) => {
  const form = e.target;
  if (!("get" in form.dataset)) return;
  e.preventDefault();
  location.assign(form.getAttribute("action") + "?" + new URLSearchParams(new FormData(form)));
});

function switchTheme() {
  const root = document.documentElement;
  const dark = root.classList.contains("dark") || (!root.classList.contains("light") && matchMedia("(prefers-color-scheme: dark)").matches);
  const next = dark ? "light" : "dark";
  root.classList.remove("light", "dark");
  root.classList.add(next);
  for (const m of document.querySelectorAll("meta[name=theme-color]")) [m.content, m.media] = [getComputedStyle(root).getPropertyValue("--bg"), ""];
  document.cookie = "theme=" + next + "; path=/; max-age=31536000; samesite=strict";
}

let before = ""; // the key before this one
document.addEventListener("keydown", (e) => {
  if (e.key === "Escape") for (const m of document.querySelectorAll("details.menu[open]")) m.open = false;
  const typing = e.target.closest("input, textarea, select, [contenteditable]");
  if (e.key === "Escape" && document.getElementById("conversations")?.classList.contains("shown")) document.getElementById("conversations").classList.remove("shown");
  if (typing || e.ctrlKey || e.metaKey || e.altKey || document.querySelector("dialog[open]")) return;
  if (e.key === "/") {
    e.preventDefault();
    (document.getElementById("text") || document.querySelector("input[type=search]"))?.focus();
  }
  if (e.key === "?") act("help", {});
  if (e.key === "n") location.assign("/");
  const went = before === "g" && { a: "/approvals", c: "/", s: "/settings" }[e.key];
  before = e.key;
  if (went) location.assign(went);
});

// A page that a browser has kept is asked for anew: the person may have signed out.
addEventListener("pageshow", (e) => e.persisted && location.reload());

// An element with data-await asks for what comes next, until the answer is without one.
function awaitNext() {
  for (const at of document.querySelectorAll("[data-await]")) {
    const name = at.dataset.await;
    delete at.dataset.await;
    act(name, fields(at), null, true);
  }
}
document.addEventListener("patched", awaitNext);

// On a phone, tabs are wider than the window: the current one is shown.
document.querySelector(".tabs [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
awaitNext();
enhance(document);
localTimes(document);
copyButtons(document);
startComposer();
startUploads();
followPage();
startNotify();
signIn();

// The composer: growing text, commands, attachments, drafts, sending, steering and queueing.
import { act, toast, t } from "./act.js";

const most = 30 << 20; // bytes of all files
const mostPending = 3; // messages that wait: each keeps a connection open, of which browsers have six
let form, text, files = [], kept = [], replacing = "";

export function startComposer() {
  form = document.getElementById("composer");
  if (!form) return;
  text = form.elements.text;
  text.value = stored(key()) || "";
  grow();
  text.addEventListener("input", () => {
    grow();
    if (!replacing) store(key(), text.value);
    showCommands();
    busy();
  });
  text.addEventListener("keydown", (e) => {
    if (commandKey(e)) return;
    if (e.key === "Enter" && !e.shiftKey && !e.isComposing && (!matchMedia("(pointer: coarse)").matches || e.altKey)) {
      e.preventDefault();
      send(e.altKey && atWork());
    }
    if (e.key === "Escape" && !e.isComposing) {
      if (replacing) stopEditing();
      else if (atWork()) document.getElementById("stop").click();
    }
    if (e.key === "ArrowUp" && !text.value) editLast();
  });
  text.addEventListener("paste", (e) => {
    const got = [...e.clipboardData.files];
    if (!got.length) return;
    e.preventDefault();
    add(got);
  });
  for (const name of ["files", "camera"]) {
    form.elements[name].addEventListener("change", (e) => {
      add([...e.target.files]);
      e.target.value = "";
    });
  }
  const talk = document.querySelector(".talk");
  talk.addEventListener("dragover", (e) => {
    if (![...e.dataTransfer.types].includes("Files")) return;
    e.preventDefault();
    talk.classList.add("dropping");
  });
  talk.addEventListener("dragleave", (e) => {
    if (!talk.contains(e.relatedTarget)) talk.classList.remove("dropping");
  });
  talk.addEventListener("drop", (e) => {
    if (!e.dataTransfer.files.length) return;
    e.preventDefault();
    talk.classList.remove("dropping");
    add([...e.dataTransfer.files]);
  });
  form.addEventListener("submit", (e) => {
    e.preventDefault();
    send(false);
  });
  document.addEventListener("patched", busy);
  keyboard();
  busy();
  for (const p of JSON.parse(sessionStorage.getItem(waitKey()) || "[]")) deliver(p, true);
  if (matchMedia("(pointer: fine)").matches && !new URLSearchParams(location.search).has("at")) text.focus();
}

// keyboard keeps the composer above the keyboard of a phone whose browser does not make the page smaller for it.
function keyboard() {
  const seen = window.visualViewport;
  seen?.addEventListener("resize", () => {
    const covered = innerHeight - seen.height * seen.scale > 120 && seen.scale === 1;
    document.body.style.height = covered ? seen.height + "px" : "";
    if (covered) scrollTo(0, 0);
  });
}

const key = () => "draft " + form.dataset.conversation;
const waitKey = () => "waiting " + form.dataset.conversation;

// A browser may have no room, or refuse to store anything.
const stored = (k) => { try { return localStorage.getItem(k); } catch { return null; } };
const store = (k, v) => { try { v ? localStorage.setItem(k, v) : localStorage.removeItem(k); } catch { /* the draft is not kept */ } };

function grow() {
  text.style.height = "auto";
  text.style.height = Math.min(text.scrollHeight, innerHeight * 0.4) + "px";
}

const atWork = () => document.getElementById("state")?.dataset.busy === "true";

function busy() {
  const yes = atWork();
  document.getElementById("stop").hidden = !yes;
  document.getElementById("queue").hidden = !yes;
  document.getElementById("hint").hidden = !yes || !text.value.trim() || Boolean(replacing);
  text.dataset.idle ||= text.placeholder;
  text.placeholder = yes ? text.dataset.busy : text.dataset.idle;
}

export function suggest(s) {
  text.value = s;
  form.requestSubmit();
}

export const queue = () => send(true);

function add(list) {
  for (const f of list) {
    if (f.size + files.reduce((n, x) => n + x.size, 0) > most) {
      toast(t("The file is too large."), true);
      continue;
    }
    files.push(f);
  }
  show();
  text.focus();
}

function element(name, className, ...children) {
  const e = document.createElement(name);
  e.className = className;
  e.append(...children);
  return e;
}

function show() {
  const old = kept.map((k, i) => {
    const chip = element("span", "chip");
    if (k.src) {
      const img = document.createElement("img");
      img.alt = "";
      img.src = k.src;
      chip.append(img);
    }
    chip.append(nameOf(k.name), remover(t("Remove") + " " + k.name, () => {
      kept.splice(i, 1);
      show();
    }));
    return chip;
  });
  document.getElementById("attachments").replaceChildren(...old, ...files.map((f, i) => {
    const chip = element("span", "chip");
    if (f.type.startsWith("image/")) {
      const img = document.createElement("img");
      img.alt = "";
      img.src = URL.createObjectURL(f);
      img.addEventListener("load", () => URL.revokeObjectURL(img.src));
      chip.append(img);
    }
    chip.append(nameOf(f.name), remover(t("Remove") + " " + f.name, () => {
      files.splice(i, 1);
      show();
    }));
    return chip;
  }));
}

// nameOf shows a name of a file. Its direction is its own.
function nameOf(s) {
  const e = element("span", "own", s);
  e.dir = "auto";
  return e;
}

function remover(label, does) {
  const off = element("button", "", "×");
  off.type = "button";
  off.setAttribute("aria-label", label);
  off.addEventListener("click", does);
  return off;
}

const base64 = (f) => new Promise((ok, bad) => {
  const r = new FileReader();
  r.onload = () => ok(r.result.slice(r.result.indexOf(",") + 1));
  r.onerror = () => bad(r.error);
  r.readAsDataURL(f);
});

const newID = () => (crypto.randomUUID ? crypto.randomUUID() : [...crypto.getRandomValues(new Uint8Array(16))].map((x) => x.toString(16).padStart(2, "0")).join(""));

async function send(later) {
  const written = text.value;
  if (!written.trim() && !files.length && !kept.length) return;
  if (runCommand(written)) return;
  if (document.querySelectorAll("#pending .chip").length >= mostPending) {
    toast(t("Wait until what you have sent is read."), true);
    return;
  }
  const sent = files;
  let attached;
  try {
    attached = await Promise.all(sent.map(async (f) => ({ name: f.name, mime: f.type || "application/octet-stream", data: await base64(f) })));
  } catch {
    toast(t("The file cannot be read."), true);
    return;
  }
  const plan = form.elements.plan.checked || written.startsWith("/plan ");
  const data = {
    conversation: form.dataset.conversation, text: written.replace(/^\/plan /, ""), id: newID(),
    agent: form.elements.agent.value, model: form.elements.model.value, plan, steer: atWork() && !replacing && !later, replace: replacing, keep: kept.map((k) => k.block), files: attached,
  };
  text.value = "";
  files = [];
  show();
  grow();
  hideCommands();
  stopEditing(true);
  document.dispatchEvent(new CustomEvent("sent"));
  deliver({ data, how: !atWork() ? "" : later || data.replace ? "later" : "now" }, false, sent);
}

// deliver sends a message, and shows it until it is taken. What waits is kept over a reload of the page; it is
// sent again under the same id then, which has no further effect.
async function deliver(p, again, sent) {
  const box = document.getElementById("pending");
  const say = p.how === "now" ? t("read at the next step") : p.how === "later" ? t("sent after the answer") : t("Sending …");
  const words = element("span", "own", p.data.text.slice(0, 200) || sent?.map((f) => f.name).join(", ") || "");
  words.dir = "auto";
  const chip = element("div", "chip", element("span", "quiet", say), words);
  let withdrawn = false;
  if (p.how) {
    chip.append(remover(t("Take back"), () => {
      withdrawn = true;
      act("withdraw", { id: p.data.id }, null, true);
    }));
  }
  box.append(chip);
  const keep = () => { try { sessionStorage.setItem(waitKey(), JSON.stringify([...box.children].map((c) => c.pending).filter((x) => x && x.how && !x.data.files.length))); } catch { /* it is not kept */ } };
  chip.pending = p;
  keep();
  if (p.how && !again) store(key(), text.value); // the draft is sent; what waits is kept by itself
  const out = await act("send", p.data, null);
  if (out === undefined && p.how) await new Promise((ok) => setTimeout(ok, 700)); // a page that is left keeps what waits
  chip.remove();
  keep();
  if (out && out.data !== "withdrawn") {
    if (!p.how && !again && !text.value) store(key(), "");
    return;
  }
  if (out && !withdrawn) return; // another page has taken it back
  if (!text.value) text.value = p.data.text; // nothing that was typed is lost
  else text.value = p.data.text + "\n" + text.value;
  store(key(), text.value);
  if (sent) files = [...sent, ...files];
  show();
  grow();
}

export function editMessage(article) {
  replacing = article.dataset.message;
  kept = [...article.querySelectorAll(".body a[href*='/file/']")].map((a) => ({ block: Number(a.pathname.split("/").pop()), name: a.querySelector(".own")?.textContent || "", src: a.querySelector("img")?.src }));
  show();
  text.value = article.querySelector(".typed")?.textContent || "";
  form.classList.add("editing");
  document.getElementById("editing").hidden = false;
  grow();
  text.focus();
}

function editLast() {
  const mine = [...document.querySelectorAll(".msg.user")].pop();
  if (mine) editMessage(mine);
}

// retryLast sends the last message again. If another one is being written, that one stays: the person decides.
export function retryLast() {
  const typed = text.value.trim();
  editLast();
  if (replacing && !typed) form.requestSubmit();
}

export function stopEditing(keepText) {
  if (!replacing) return;
  replacing = "";
  kept = [];
  show();
  if (keepText !== true) text.value = stored(key()) || "";
  form.classList.remove("editing");
  document.getElementById("editing").hidden = true;
  grow();
}

// pick takes what was chosen in a dialog.
export function pick(name, value, label) {
  form.elements[name].value = value;
  const button = document.getElementById("pick-" + name);
  button.querySelector(".name").textContent = value ? label.replace(/^[^/]*\//, name === "model" ? "" : "$&") : button.dataset.nothing;
  text.focus();
}

// Commands, which begin with a slash.
let chosen = 0;
const matching = () => {
  const typed = /^\/(\S*)$/.exec(text.value);
  return typed ? JSON.parse(form.dataset.commands).filter((c) => c.name.startsWith(typed[1])) : [];
};

function showCommands() {
  const list = matching(), box = document.getElementById("commands");
  box.hidden = !list.length;
  if (chosen >= list.length) chosen = 0;
  box.replaceChildren(...list.map((c, i) => {
    const o = element("div", "", element("code", "", "/" + c.name + (c.args ? " " + c.args : "")), element("span", "quiet", c.does));
    o.id = "command-" + i;
    o.setAttribute("role", "option");
    o.setAttribute("aria-selected", i === chosen);
    o.addEventListener("mousedown", (e) => {
      e.preventDefault();
      take(c);
    });
    return o;
  }));
  if (list.length) text.setAttribute("aria-activedescendant", "command-" + chosen);
  else text.removeAttribute("aria-activedescendant");
  box.children[chosen]?.scrollIntoView({ block: "nearest" });
}

function hideCommands() {
  chosen = 0;
  document.getElementById("commands").hidden = true;
  text.removeAttribute("aria-activedescendant");
}

function take(c) {
  text.value = "/" + c.name + (c.args ? " " : "");
  hideCommands();
  if (!c.args) runCommand(text.value);
}

function commandKey(e) {
  const list = document.getElementById("commands").hidden ? [] : matching();
  if (!list.length || e.isComposing) return false;
  switch (e.key) {
    case "ArrowDown": chosen = (chosen + 1) % list.length; break;
    case "ArrowUp": chosen = (chosen + list.length - 1) % list.length; break;
    case "Escape": hideCommands(); e.preventDefault(); return true;
    case "Tab": case "Enter": e.preventDefault(); take(list[chosen]); return true;
    default: return false;
  }
  e.preventDefault();
  showCommands();
  return true;
}

const lastButton = (selector) => [...document.querySelectorAll(selector)].pop();

// runCommand runs a line that is a command.
function runCommand(line) {
  const m = /^\/([a-z]+)(?:\s+([^]*))?$/.exec(line.trim());
  if (!m || !JSON.parse(form.dataset.commands).some((c) => c.name === m[1])) return false;
  const [, name, args = ""] = m;
  if (name === "plan") {
    if (!args) toast(t("Write what is to be planned after /plan."), true);
    return !args;
  }
  const needs = (button) => (button ? button.click() : toast(t("There is nothing to do that with."), true));
  text.value = "";
  store(key(), "");
  grow();
  hideCommands();
  const conversation = form.dataset.conversation;
  const local = {
    new: () => location.assign("/"),
    search: () => location.assign("/search?" + new URLSearchParams({ q: args })),
    edit: editLast,
    again: () => needs(lastButton("button[data-do=regenerate]")),
    prev: () => needs(lastButton(".branches button:first-child:not(:disabled)")),
    next: () => needs(lastButton(".branches button:last-child:not(:disabled)")),
    undo: () => {
      const last = lastButton("#thread button[data-do=fact-undo]");
      if (last) last.click();
      else toast(t("Nothing was remembered here that can be undone."), true);
    },
    rewind: () => act("command", { conversation, name, args: [...document.querySelectorAll(".msg.user")].pop()?.dataset.message || "" }),
    model: () => act("pick", { what: "model" }),
    agent: () => act("pick", { what: "agent" }),
    help: () => act("help", {}),
    share: () => (conversation ? act("share", { conversation }) : needs()),
    export: () => (conversation ? location.assign("/chat/" + conversation + "/export?format=markdown") : needs()),
    memory: () => location.assign("/memory"),
    log: () => location.assign("/activity"),
    agents: () => location.assign("/settings/agents"),
    stop: () => document.getElementById("stop").click(),
  };
  if (local[name]) local[name]();
  else act("command", { conversation, name, args });
  return true;
}

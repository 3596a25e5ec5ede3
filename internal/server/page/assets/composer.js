// The composer: growing text, attachments, drafts, sending and steering.
import { act, toast, t } from "./act.js";

const most = 30 << 20; // bytes of all files
let form, text, files = [], replacing = "";

export function startComposer() {
  form = document.getElementById("composer");
  if (!form) return;
  text = form.elements.text;
  text.value = localStorage.getItem(key()) || "";
  grow();
  text.addEventListener("input", () => {
    grow();
    if (text.value) localStorage.setItem(key(), text.value);
    else localStorage.removeItem(key());
  });
  text.addEventListener("keydown", (e) => {
    if (e.key === "Enter" && !e.shiftKey && !e.isComposing && !matchMedia("(pointer: coarse)").matches) {
      e.preventDefault();
      form.requestSubmit();
    }
    if (e.key === "Escape" && replacing) stopEditing();
    if (e.key === "ArrowUp" && !text.value) {
      const mine = [...document.querySelectorAll(".msg.user")].pop();
      if (mine) editMessage(mine);
    }
  });
  text.addEventListener("paste", (e) => add([...e.clipboardData.files]));
  form.elements.files.addEventListener("change", (e) => {
    add([...e.target.files]);
    e.target.value = "";
  });
  const talk = document.querySelector(".talk");
  talk.addEventListener("dragover", (e) => e.preventDefault());
  talk.addEventListener("drop", (e) => {
    e.preventDefault();
    add([...e.dataTransfer.files]);
  });
  form.addEventListener("submit", (e) => {
    e.preventDefault();
    send();
  });
  document.addEventListener("patched", busy);
  busy();
  if (matchMedia("(pointer: fine)").matches) text.focus();
}

const key = () => "draft " + form.dataset.conversation;

function grow() {
  text.style.height = "auto";
  text.style.height = Math.min(text.scrollHeight, innerHeight * 0.4) + "px";
}

const atWork = () => document.getElementById("state")?.dataset.busy === "true";

function busy() {
  document.getElementById("stop").hidden = !atWork();
}

export function suggest(s) {
  text.value = s;
  form.requestSubmit();
}

function add(list) {
  for (const f of list) {
    if (f.size + files.reduce((n, x) => n + x.size, 0) > most) {
      toast(t("The file is too large."), true);
      continue;
    }
    files.push(f);
  }
  show();
}

function show() {
  const box = document.getElementById("attachments");
  box.replaceChildren(...files.map((f, i) => {
    const chip = document.createElement("span");
    chip.className = "chip";
    if (f.type.startsWith("image/")) {
      const img = document.createElement("img");
      img.alt = "";
      img.src = URL.createObjectURL(f);
      chip.append(img);
    }
    chip.append(f.name);
    const off = document.createElement("button");
    off.type = "button";
    off.textContent = "×";
    off.setAttribute("aria-label", t("Remove") + " " + f.name);
    off.addEventListener("click", () => {
      files.splice(i, 1);
      show();
    });
    chip.append(off);
    return chip;
  }));
}

const base64 = (f) => new Promise((ok, bad) => {
  const r = new FileReader();
  r.onload = () => ok(r.result.slice(r.result.indexOf(",") + 1));
  r.onerror = () => bad(r.error);
  r.readAsDataURL(f);
});

async function send() {
  const written = text.value;
  if (!written.trim() && !files.length) return;
  const sent = files;
  const data = {
    conversation: form.dataset.conversation, text: written, id: crypto.randomUUID ? crypto.randomUUID() : String(Math.random()).slice(2) + Date.now(),
    agent: form.elements.agent.value, model: form.elements.model.value, plan: form.elements.plan.checked, steer: atWork() && !replacing, replace: replacing,
    files: await Promise.all(sent.map(async (f) => ({ name: f.name, mime: f.type || "application/octet-stream", data: await base64(f) }))),
  };
  text.value = "";
  files = [];
  show();
  grow();
  document.dispatchEvent(new CustomEvent("sent"));
  const button = document.getElementById("send");
  if (await act("send", data, button)) {
    localStorage.removeItem(key());
    stopEditing();
    return;
  }
  if (!text.value) text.value = written; // nothing that was typed is lost
  files = [...sent, ...files];
  show();
  grow();
}

export function editMessage(article) {
  replacing = article.dataset.message;
  text.value = article.querySelector(".typed")?.textContent || "";
  form.classList.add("editing");
  grow();
  text.focus();
}

function stopEditing() {
  replacing = "";
  form.classList.remove("editing");
}

// Actions, and the patches that they and the event stream bring.
import { enhance } from "./enhance.js";

const texts = JSON.parse(document.body?.dataset.texts || "{}");
export const t = (s) => texts[s] || s;

// The server's HTML is made of escaped text and of sanitised Markdown; this policy is the only way in.
const trusted = window.trustedTypes ? trustedTypes.createPolicy("steward", { createHTML: (s) => s }) : { createHTML: (s) => s };

export function fragment(html) {
  const box = document.createElement("template");
  box.innerHTML = trusted.createHTML(html);
  return box.content;
}

// apply changes the document. What a person has unfolded or typed stays.
export function apply(patches) {
  for (const p of patches || []) {
    const old = p.id && document.getElementById(p.id);
    if (!p.html) {
      old?.remove();
      continue;
    }
    const fresh = fragment(p.html);
    enhance(fresh);
    // A message that changes is near what is read: its height must not be guessed, or the thread would jump.
    const message = fresh.firstElementChild;
    if (message?.classList.contains("msg")) message.style.contentVisibility = "visible";
    if (old) {
      const now = fresh.firstElementChild;
      if (now && now.tagName !== "DIALOG" && now.isEqualNode(old)) continue;
      keep(old, now);
      const focused = old.contains(document.activeElement) && document.activeElement;
      old.replaceWith(fresh);
      if (focused) refocus(now, focused);
      if (now?.tagName === "DIALOG" && old.open && !("open" in now.dataset)) giveBack();
      if (now?.tagName === "DIALOG" && "open" in now.dataset) {
        if (!old.open) opener = asked?.isConnected ? asked : document.activeElement;
        now.showModal();
        now.querySelector("[autofocus]")?.focus();
      }
      if (now && "reveal" in now.dataset) now.scrollIntoView({ block: "nearest" });
    } else if (p.in) {
      const into = document.getElementById(p.in);
      if (p.first) into?.prepend(fresh);
      else into?.append(fresh);
    }
  }
  document.dispatchEvent(new CustomEvent("patched"));
}

// A dialog that closes gives the focus back to what has opened it: a button, or the menu that it is in.
let asked, opener;
document.addEventListener("close", (e) => {
  if (e.target.tagName === "DIALOG") giveBack();
}, true);
function giveBack() {
  const to = opener;
  opener = null;
  if (document.querySelector("dialog[open]") || document.activeElement?.id === "text") return;
  if (!to?.isConnected || to === document.body) return away();
  (to.closest("details.menu:not([open])")?.querySelector("summary") || to).focus();
}

// away gives the focus to the screen, when what had it is gone.
const away = () => document.activeElement === document.body && document.getElementById("main")?.focus({ preventScroll: true });

// refocus gives the focus to what took the place of the element that had it.
function refocus(now, was) {
  if (!now || now.contains(document.activeElement)) return;
  const all = [now, ...now.querySelectorAll(was.tagName)];
  all.find((e) => (was.id && e.id === was.id) || (e.dataset.do && JSON.stringify(e.dataset) === JSON.stringify(was.dataset)))?.focus();
}

// keep keeps open details open, and what has been typed.
function keep(old, now) {
  if (!now || old.tagName === "DIALOG") return; // another dialog
  if (now.tagName !== "DIALOG") {
    for (const field of old.querySelectorAll("textarea[name], input[name]:not([type=hidden], [type=checkbox], [type=radio], [type=file])")) {
      const form = field.closest("form");
      const hidden = form?.querySelector("input[type=hidden][name=id]")?.value;
      if (field.value === field.defaultValue || !hidden) continue;
      for (const other of now.querySelectorAll("input[type=hidden][name=id]")) {
        const same = other.value === hidden && other.form?.dataset.do === form.dataset.do && other.form.elements[field.name];
        if (!same) continue;
        same.value = field.value;
        if (field === document.activeElement) queueMicrotask(() => same.focus());
      }
    }
  }
  const was = old.matches("details") ? [old, ...old.querySelectorAll("details")] : [...old.querySelectorAll("details")];
  const is = now.matches("details") ? [now, ...now.querySelectorAll("details")] : [...now.querySelectorAll("details")];
  was.forEach((d, i) => {
    if (d.open && is[i] && d.dataset.of === is[i].dataset.of) is[i].open = true;
  });
}

// complain shows what is wrong with a field below it, and reports whether the form has the field.
function complain(form, name, text) {
  const field = name && form?.elements[name];
  if (!(field instanceof HTMLElement) || field.type === "hidden") return false;
  for (let d = field.closest("details"); d; d = d.parentElement.closest("details")) d.open = true;
  const say = document.createElement("p");
  say.className = "error field-error";
  say.id = "field-error";
  say.setAttribute("role", "alert");
  say.textContent = text;
  (field.closest("label") || field).after(say);
  field.setAttribute("aria-invalid", "true");
  field.setAttribute("aria-errormessage", say.id);
  field.focus();
  return true;
}

export function toast(text, bad) {
  const box = document.getElementById("toasts");
  if (!box || !text) return;
  const dialog = document.querySelector("dialog[open]");
  if (bad && dialog) { // what is below a dialog is neither seen nor read out
    const form = dialog.querySelector("form") || dialog;
    const say = dialog.querySelector(".dialog-error") || document.createElement("p");
    say.className = "error dialog-error";
    say.setAttribute("role", "alert");
    say.textContent = text;
    form.insertBefore(say, form.querySelector(":scope > .row.end"));
    say.scrollIntoView({ block: "nearest" });
    return;
  }
  const p = document.createElement("p");
  p.textContent = text;
  if (bad) p.className = "bad";
  box.append(p);
  setTimeout(() => p.remove(), bad ? 9000 : 4000);
}

// answered takes the answer to an action. It throws if the action failed.
async function answered(r) {
  if (r.status === 401) {
    location.reload();
    return null;
  }
  const out = await r.json();
  if (!r.ok) throw Object.assign(new Error([out.error?.message, out.error?.remedy].filter(Boolean).join(" – ") || t("That did not work")), { field: out.error?.details?.field });
  apply(out.patches);
  toast(out.toast);
  if (out.go) go(out.go);
  return out;
}

// go shows a screen.
function go(address) {
  const same = new URL(address, location.href);
  if (same.pathname + same.search === location.pathname + location.search) location.reload();
  else location.assign(address);
}

// offline says in words that the server cannot be reached.
const failed = (e) => (e instanceof TypeError ? t("Steward cannot be reached. Nothing was sent.") : e.message || t("That did not work"));

// upload sends a file.
export async function upload(address, file) {
  try {
    toast(t("Sending …"));
    await answered(await fetch(address, { method: "POST", headers: { "Content-Type": "application/json" }, body: file }));
  } catch (e) {
    toast(failed(e), true);
  }
}

// act does an action of the server's. It returns the answer, or null if it failed and undefined if the server could not be
// reached, which is shown.
export async function act(name, data, from, quiet) {
  if (from) {
    from.disabled = true;
    asked = from;
  } else asked = document.activeElement;
  for (const old of document.querySelectorAll("dialog[open] .dialog-error, .field-error")) old.remove();
  for (const old of document.querySelectorAll("[aria-errormessage=field-error]")) ["aria-invalid", "aria-errormessage"].forEach((a) => old.removeAttribute(a));
  try {
    if (name === "sign-out") { // drafts and what waits: the next person at this browser may be another
      localStorage.clear();
      sessionStorage.clear();
    }
    const r = await fetch("/do/" + name, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(data) });
    return await answered(r);
  } catch (e) {
    if (!quiet && !complain(from?.form, e.field, e.message)) toast(failed(e), true);
    return e instanceof TypeError ? undefined : null;
  } finally {
    if (from) from.disabled = false;
    if (from && !from.isConnected) away();
  }
}

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
    if (old) {
      const now = fresh.firstElementChild;
      if (now && now.isEqualNode(old)) continue;
      keep(old, now);
      old.replaceWith(fresh);
      if (now?.tagName === "DIALOG" && "open" in now.dataset) {
        now.showModal();
        now.querySelector("[autofocus]")?.focus();
      }
    } else if (p.in) {
      const into = document.getElementById(p.in);
      if (p.first) into?.prepend(fresh);
      else into?.append(fresh);
    }
  }
  document.dispatchEvent(new CustomEvent("patched"));
}

// keep keeps open details open.
function keep(old, now) {
  if (!now) return;
  const was = old.matches("details") ? [old, ...old.querySelectorAll("details")] : [...old.querySelectorAll("details")];
  const is = now.matches("details") ? [now, ...now.querySelectorAll("details")] : [...now.querySelectorAll("details")];
  was.forEach((d, i) => {
    if (d.open && is[i]) is[i].open = true;
  });
}

export function toast(text, bad) {
  const dialog = text && bad && document.querySelector("dialog[open]");
  if (dialog) { // it hides what is behind it
    let p = dialog.querySelector(":scope > .failure");
    if (!p) {
      p = document.createElement("p");
      p.className = "failure";
      p.role = "alert";
      dialog.querySelector("h2")?.after(p);
    }
    p.textContent = text;
    p.scrollIntoView({ block: "nearest" });
    return;
  }
  const box = document.getElementById("toasts");
  if (!box || !text) return;
  const p = document.createElement("p");
  p.textContent = text;
  if (bad) p.className = "bad";
  box.append(p);
  setTimeout(() => p.remove(), bad ? 9000 : 4000);
}

// act does an action of the server's. It returns the answer, or null if it failed, which is shown.
export async function act(name, data, from, quiet) {
  if (from) from.disabled = true;
  try {
    const r = await fetch("/do/" + name, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(data) });
    if (r.status === 401) return location.reload();
    const out = await r.json();
    if (!r.ok) throw new Error([out.error?.message, out.error?.remedy].filter(Boolean).join(" – ") || t("That did not work"));
    apply(out.patches);
    toast(out.toast);
    if (out.go) location.assign(out.go);
    return out;
  } catch (e) {
    if (!quiet) toast(e.message || t("That did not work"), true);
    return null;
  } finally {
    if (from) from.disabled = false;
  }
}

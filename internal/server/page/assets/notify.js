// Notifications of the browser for questions that wait: only if the person has turned them on here.
import { toast, t } from "./act.js";

const wanted = () => { try { return localStorage.getItem("notify") === "on"; } catch { return false; } };
const on = () => wanted() && window.Notification?.permission === "granted";

export function startNotify() {
  const b = document.getElementById("notify");
  if (!b || !window.Notification || !window.isSecureContext) return;
  b.hidden = false;
  b.textContent = on() ? b.dataset.on : b.dataset.off;
  b.setAttribute("aria-pressed", on());
}

export async function switchNotify() {
  const next = on() ? "" : "on";
  if (next && (await Notification.requestPermission()) !== "granted") return toast(t("Your browser refuses notifications. Allow them in its settings for this page."), true);
  try { localStorage.setItem("notify", next); } catch { /* it stays off */ }
  startNotify();
  toast(t(next ? "Notifications are on" : "Notifications are off"));
}

// notify tells that a question waits, if the person does not look at the page.
export async function notify(text) {
  if (!on() || (!document.hidden && document.hasFocus())) return;
  const options = { body: text, tag: "approval", icon: document.querySelector("link[rel=apple-touch-icon]")?.href };
  const n = new Notification("Steward", options);
  n.onclick = () => {
    window.focus();
    if (!document.querySelector(".question")) location.assign("/approvals");
    n.close();
  };
}

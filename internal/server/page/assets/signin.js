// Exchanges the secret in the address for a session.
import { t } from "./act.js";

export function signIn() {
  const go = document.getElementById("sign-in-go");
  if (go) addEventListener("hashchange", () => location.reload()); // a link that is pasted while this page is shown
  if (!go || location.pathname !== "/in" || location.hash.length < 10) return;
  const link = location.hash.slice(1);
  history.replaceState(null, "", "/in");
  const say = (id, s) => (document.getElementById(id).textContent = s);
  const exchange = async (sure) => {
    say("sign-in-text", t("Signing in …"));
    const r = await fetch("/in", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ link, sure }) });
    const out = await r.json();
    if (r.ok) return location.replace(out.go);
    say("sign-in-text", "");
    say("sign-in-error", [out.error?.message, out.error?.remedy].filter(Boolean).join(" – "));
    go.hidden = out.error?.code !== "signed_in_otherwise";
  };
  go.addEventListener("click", () => {
    go.hidden = true;
    say("sign-in-error", "");
    exchange(true);
  });
  exchange(false);
}

// The event stream of the page, and the scroll position of the thread.
import { act, apply, toast, t } from "./act.js";
import { notify } from "./notify.js";

export function followPage() {
  if (!document.getElementById("nav")) return;
  const params = document.getElementById("main")?.dataset.live || "";
  const scroll = document.getElementById("scroll");
  let atEnd = true;
  if (scroll) {
    const at = document.getElementById(document.getElementById("found")?.dataset.at || "");
    if (at) {
      atEnd = false;
      at.classList.add("at");
      at.scrollIntoView({ block: "center" });
    } else scroll.scrollTop = scroll.scrollHeight;
    loadOlder(scroll);
    const newest = document.getElementById("newest");
    let last = scroll.scrollTop;
    scroll.addEventListener("scroll", () => {
      const gap = scroll.scrollHeight - scroll.scrollTop - scroll.clientHeight;
      // Who scrolls up, if only a little, wants to read: what comes does not move it.
      atEnd = scroll.scrollTop < last - 1 && gap > 2 ? false : gap < (atEnd ? 80 : 8);
      last = scroll.scrollTop;
      newest.hidden = gap < 200;
    }, { passive: true });
    const stay = () => {
      if (atEnd) scroll.scrollTop = last = scroll.scrollHeight - scroll.clientHeight;
      newest.hidden = scroll.scrollHeight - scroll.scrollTop - scroll.clientHeight < 200;
    };
    document.addEventListener("patched", stay);
    const watch = new ResizeObserver(stay);
    watch.observe(scroll);
    watch.observe(document.getElementById("thread"));
    document.addEventListener("sent", () => {
      atEnd = true;
      scroll.scrollTop = scroll.scrollHeight;
    });
  }
  follow(new URLSearchParams(params));
  addEventListener("offline", () => connected(false));
}

// toNewest shows the newest message.
export function toNewest() {
  const scroll = document.getElementById("scroll"), found = document.getElementById("found");
  if (found) return location.assign(location.pathname); // among older messages
  document.dispatchEvent(new CustomEvent("sent"));
  scroll.scrollTop = scroll.scrollHeight;
  document.getElementById("text").focus({ preventScroll: true });
}

// connected shows whether Steward can be reached. The notice is quiet: nothing is lost.
function connected(yes) {
  const was = !document.body.classList.contains("offline");
  if (was === yes) return;
  document.body.classList.toggle("offline", !yes);
  const bar = document.getElementById("connection");
  bar.textContent = yes ? "" : t("Not connected. Trying again …");
  bar.hidden = yes;
  if (yes) toast(t("Connected again"));
}

let failure = "";

// follow opens the stream. A browser opens it again by itself if the connection breaks, and goes on after the last
// event; if the server refuses, because it is just starting, we do.
function follow(params) {
  const stream = new EventSource("/live?" + params);
  let lost, silent;
  // A stream that says nothing for long, not even that it lives, is dead: the machine has slept, or the network has changed.
  const alive = () => {
    clearTimeout(silent);
    silent = setTimeout(again, 70_000);
  };
  stream.addEventListener("beat", alive);
  stream.addEventListener("patch", (e) => {
    alive();
    if (e.lastEventId) params.set("cursor", e.lastEventId);
    apply(JSON.parse(e.data));
    waiting();
  });
  stream.addEventListener("failed", (e) => { // the browser opens the stream again: the same failure is told once
    if (failure !== e.data) toast(JSON.parse(e.data).message, true);
    failure = e.data;
  });
  stream.addEventListener("branched", () => { // what this page sends itself loads it again when it is taken
    if (!document.querySelector("#pending .chip")) location.reload();
  });
  stream.addEventListener("ended", () => location.reload());
  stream.addEventListener("open", () => {
    clearTimeout(lost);
    lost = 0;
    alive();
    connected(true);
  });
  const end = () => {
    removeEventListener("online", again);
    clearTimeout(lost);
    clearTimeout(silent);
    stream.close();
  };
  const again = () => {
    end();
    follow(params);
  };
  addEventListener("online", again);
  stream.addEventListener("error", async () => {
    lost ||= setTimeout(() => connected(false), 4000);
    if (stream.readyState !== EventSource.CLOSED) return;
    // The server has refused: the session has ended, or the server is just starting.
    removeEventListener("online", again);
    clearTimeout(silent);
    const r = await fetch(location.pathname, { method: "HEAD" }).catch(() => null);
    if (r?.status === 401) return location.reload();
    setTimeout(again, 3000);
  });
}

// loadOlder loads earlier messages when the reader comes near them. What is read stays where it is.
function loadOlder(scroll) {
  let loading = false;
  const near = new IntersectionObserver(async (seen) => {
    const button = seen.some((s) => s.isIntersecting) && document.querySelector("#older button");
    if (!button || loading) return;
    loading = true;
    const first = document.querySelector("#thread .msg");
    const from = first?.getBoundingClientRect().top;
    scroll.style.overflowAnchor = "none";
    await act("older", { conversation: button.dataset.fieldConversation, before: button.dataset.fieldBefore }, button, true);
    if (first?.isConnected) scroll.scrollTop += first.getBoundingClientRect().top - from;
    loading = false;
    requestAnimationFrame(() => (scroll.style.overflowAnchor = ""));
    watch();
  }, { root: scroll, rootMargin: "1200px 0px 0px 0px" });
  const watch = () => {
    near.disconnect();
    const older = document.getElementById("older");
    if (older) near.observe(older);
  };
  watch();
}

// waiting shows in the title how many questions wait, and tells of a new one.
let before = -1; // not known yet
function waiting() {
  const badge = document.getElementById("waiting"), n = Number(badge?.dataset.count || 0);
  const name = document.getElementById("title")?.textContent;
  const rest = name ? name + " – Steward" : document.title.replace(/^\(\d+\) /, "");
  document.title = (n ? "(" + n + ") " : "") + rest;
  if (n > before && before >= 0) notify(badge.dataset.says);
  if (badge?.dataset.count) before = n;
}

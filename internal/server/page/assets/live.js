// The event stream of the page, and the scroll position of the thread.
import { act, apply, toast, t } from "./act.js";

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
    scroll.addEventListener("scroll", () => {
      atEnd = scroll.scrollHeight - scroll.scrollTop - scroll.clientHeight < 80;
    }, { passive: true });
    document.addEventListener("patched", () => {
      if (atEnd) scroll.scrollTop = scroll.scrollHeight;
    });
    new ResizeObserver(() => {
      if (atEnd) scroll.scrollTop = scroll.scrollHeight;
    }).observe(scroll);
    document.addEventListener("sent", () => {
      atEnd = true;
      scroll.scrollTop = scroll.scrollHeight;
    });
  }
  follow(new URLSearchParams(params));
}

// follow opens the stream. A browser opens it again by itself if the connection breaks, and goes on after the last
// event; if the server refuses, because it is just starting, we do.
function follow(params) {
  const stream = new EventSource("/live?" + params);
  let lost;
  stream.addEventListener("patch", (e) => {
    if (e.lastEventId) params.set("cursor", e.lastEventId);
    apply(JSON.parse(e.data));
    waiting();
  });
  stream.addEventListener("failed", (e) => toast(JSON.parse(e.data).message, true));
  stream.addEventListener("ended", () => location.reload());
  stream.addEventListener("open", () => {
    clearTimeout(lost);
    document.body.classList.remove("offline");
  });
  stream.addEventListener("error", () => {
    if (stream.readyState === EventSource.CLOSED) setTimeout(() => follow(params), 5000);
    clearTimeout(lost);
    lost = setTimeout(() => {
      if (document.body.classList.contains("offline")) return;
      document.body.classList.add("offline");
      toast(t("Not connected. Trying again …"), true);
    }, 4000);
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

// waiting shows in the title, and in a notification of the browser, how many questions wait.
let before = 0;
function waiting() {
  const n = Number(document.getElementById("waiting")?.dataset.count || 0);
  document.title = document.title.replace(/^\(\d+\) /, "");
  if (n) document.title = "(" + n + ") " + document.title;
  if (n > before && document.hidden && window.Notification?.permission === "granted") {
    const q = document.querySelector(".question .asks");
    new Notification("Steward", { body: q ? q.innerText : "?", tag: "approval", icon: document.querySelector("link[rel=icon]").href });
  }
  if (n && window.Notification?.permission === "default") document.addEventListener("click", () => Notification.requestPermission(), { once: true });
  before = n;
}

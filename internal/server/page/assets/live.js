// The event stream of the page, and the scroll position of the thread.
import { apply, toast, t } from "./act.js";

export function followPage() {
  if (!document.getElementById("nav")) return;
  const params = document.getElementById("main")?.dataset.live || "";
  const scroll = document.getElementById("scroll");
  let atEnd = true;
  if (scroll) {
    scroll.scrollTop = scroll.scrollHeight;
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
  const stream = new EventSource("/live?" + params);
  let lost;
  stream.addEventListener("patch", (e) => {
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
    clearTimeout(lost);
    lost = setTimeout(() => {
      document.body.classList.add("offline");
      toast(t("Not connected. Trying again …"), true);
    }, 4000);
  });
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

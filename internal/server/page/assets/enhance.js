// What scripts add to HTML that the server has made.
export function enhance(root) {
  for (const p of root.querySelectorAll(".picture")) p.scrollLeft = (p.scrollWidth - p.clientWidth) / 2;
  localTimes(root);
  copyButtons(root);
}

export function localTimes(root) {
  for (const e of root.querySelectorAll("time[datetime]")) {
    const at = new Date(e.dateTime);
    if (isNaN(at)) continue;
    e.title = at.toLocaleString();
    if (e.classList.contains("date")) e.textContent = at.toLocaleDateString(undefined, { weekday: "long", day: "numeric", month: "long", year: at.getFullYear() === new Date().getFullYear() ? undefined : "numeric" });
    else e.textContent = at.toDateString() === new Date().toDateString() ? at.toLocaleTimeString([], { timeStyle: "short" }) : at.toLocaleString([], { dateStyle: "medium", timeStyle: "short" });
  }
}

// Code gets a head with its language and a button that copies it. The code scrolls, the head does not.
export function copyButtons(root) {
  for (const pre of root.querySelectorAll(".text pre")) {
    if (pre.parentElement?.className === "code-box") continue;
    const box = document.createElement("div"), head = document.createElement("div"), name = document.createElement("span"), b = document.createElement("button");
    box.className = "code-box";
    box.dir = "ltr";
    head.className = "code-head";
    name.textContent = /language-(\S+)/.exec(pre.firstElementChild?.className || "")?.[1] || "";
    b.type = "button";
    b.className = "copy";
    b.dataset.js = "code";
    b.textContent = JSON.parse(document.body?.dataset.texts || "{}").Copy || "Copy";
    head.append(name, b);
    pre.replaceWith(box);
    pre.tabIndex = 0; // what scrolls can be reached by key
    box.append(head, pre);
  }
}

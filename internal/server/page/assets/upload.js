// Files that are added to the documents, several at a time, each with its progress. A control with data-into
// reads a file into a text field.
import { act, t } from "./act.js";

export function startUploads() {
  document.addEventListener("change", async (e) => {
    const into = e.target.dataset?.into;
    if (into && e.target.files[0]) document.getElementById(into).value = await e.target.files[0].text();
  });
  const drop = document.getElementById("drop");
  if (!drop) return;
  const waiting = [];
  let running = false;
  const run = async () => {
    if (running) return;
    running = true;
    for (let next; (next = waiting.shift()); ) await next();
    running = false;
    act("documents", {}, null, true);
  };
  const add = (files) => {
    for (const file of files) {
      const line = document.createElement("li");
      const name = document.createElement("span");
      name.className = "own";
      name.dir = "auto";
      name.textContent = file.name;
      const bar = document.createElement("progress");
      bar.max = 1;
      bar.value = 0;
      bar.setAttribute("aria-label", file.name);
      line.append(name, bar);
      document.getElementById("uploads").append(line);
      waiting.push(() => send(drop.dataset.upload, file, line, bar));
    }
    run();
  };
  document.getElementById("upload-files").addEventListener("change", (e) => {
    add([...e.target.files]);
    e.target.value = "";
  });
  for (const name of ["dragover", "dragleave", "drop"]) {
    drop.addEventListener(name, (e) => {
      e.preventDefault();
      drop.classList.toggle("over", name === "dragover");
      if (name === "drop") add([...e.dataTransfer.files]);
    });
  }
}

// send sends one file. Its line says how it went.
function send(to, file, line, bar) {
  return new Promise((done) => {
    const own = document.getElementById("upload-own").checked;
    const r = new XMLHttpRequest();
    r.open("POST", to + "?own=" + own + "&path=" + encodeURIComponent(file.name));
    r.setRequestHeader("Content-Type", "application/octet-stream");
    r.upload.onprogress = (e) => {
      if (e.lengthComputable) bar.value = e.loaded / e.total;
    };
    r.onloadend = () => {
      if (r.status === 401) return location.reload();
      let out = {};
      try {
        out = JSON.parse(r.responseText);
      } catch {
        // no answer
      }
      bar.remove();
      const end = document.createElement("span");
      const failed = r.status < 200 || r.status > 299 || out.status === "refused";
      end.className = failed ? "error" : "state good";
      end.textContent = failed ? out.reason || [out.error?.message, out.error?.remedy].filter(Boolean).join(" – ") || t("That did not work") : t("Added");
      line.append(end);
      done();
    };
    r.send(file);
  });
}

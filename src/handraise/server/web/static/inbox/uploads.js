// Uploads a file as soon as it is chosen, so that sending the answer is quick and can be undone.
// Without this, the file is sent together with the answer.

import { text } from "./texts.js";

export function startUploads(part = document) {
  for (const field of part.querySelectorAll("[data-file]")) {
    if (field.querySelector("input[type=file]")) uploadWhenChosen(field);
  }
}

function uploadWhenChosen(field) {
  const input = field.querySelector("input[type=file]");
  const kept = field.querySelector("input[type=hidden]");
  const told = field.querySelector("[data-file-status]");
  const { name } = input;
  const isRequired = input.required;
  let turn = 0;

  const say = (words, isBad = false) => {
    told.hidden = !words;
    told.textContent = words;
    told.classList.toggle("problem", isBad);
  };

  input.addEventListener("change", async () => {
    const [file] = input.files;
    const mine = ++turn;
    kept.value = "";
    input.name = name;
    input.required = isRequired;
    say("");
    if (!file) return;
    const most = Number(input.dataset.most);
    if (file.size > most) {
      say(text("This file is too large."), true);
      input.value = "";
      return;
    }
    say(text("Uploading…"));
    const query = new URLSearchParams({ name: file.name });
    const answer = await fetch(`/v1/files?${query}`, { method: "POST", body: file, headers: { "content-type": "application/octet-stream" } }).catch(() => null);
    if (mine !== turn) return;
    if (answer?.ok) {
      kept.value = JSON.stringify(await answer.json());
      input.removeAttribute("name"); // it is uploaded: do not send it again
      say(text("Uploaded: {name}", { name: file.name }));
      return;
    }
    const problem = answer && (await answer.json().catch(() => null));
    say(problem?.detail ?? text("It could not be uploaded. It is sent together with your answer."), true);
    if (problem) input.value = "";
  });
}

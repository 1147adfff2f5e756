// Tells the page around this frame its height, and when the question is settled. It tells nothing else.

import { text } from "./inbox/texts.js";

const LOOK_EVERY = 5_000;
const SAID = {
  answered: text("This was answered just now."),
  declined: text("This was declined just now."),
  expired: text("This was expired just now."),
  withdrawn: text("This was withdrawn just now."),
  exhausted: text("This was closed just now."),
  returned: text("This was sent back just now."),
};
const page = document.getElementById("main");
const live = document.querySelector("[data-live]");
let status = page.dataset.status ?? "pending";
let thread = Number(page.dataset.thread ?? 0); // how many messages are shown, or told of
let around = null;

function tell(message) {
  if (around) parent.postMessage({ handraise: message }, around);
}

function tellHeight() {
  tell({ height: Math.ceil(document.documentElement.getBoundingClientRect().height) });
}

function tellStatus() {
  if (status !== "pending") tell({ status });
}

// Only sites that the server names may frame this page, so anyone who speaks as its parent may know this much.
addEventListener("message", (event) => {
  if (event.source !== parent || parent === window || event.origin === "null") return;
  if (event.data !== "handraise-hello") return;
  around = event.origin;
  tellHeight();
  tellStatus();
});

new ResizeObserver(tellHeight).observe(document.documentElement);

// It may be settled elsewhere meanwhile; what was typed here stays to be read.

function say(sentence, lead) {
  const link = document.createElement("a");
  link.href = location.pathname;
  link.textContent = lead;
  live.replaceChildren(`${sentence} `, link);
  live.hidden = false;
}

function end() {
  say(SAID[status] ?? text("This was settled just now."), text("Show how it ended"));
  for (const button of document.querySelectorAll("main button")) button.disabled = true;
}

async function look() {
  if (status !== "pending" || document.visibilityState !== "visible") return;
  const answer = await fetch(location.pathname.replace(/frame$/, "status"), { credentials: "omit" }).catch(() => null);
  if (answer?.status === 410) clearInterval(looking);
  if (!answer?.ok) return;
  const now = await answer.json();
  status = now.status;
  // The page stays as it is: what it sends covers the messages that it shows, and no others.
  if (status === "pending" && now.thread > thread) {
    thread = now.thread;
    say(text("There is a new message. Read it before you decide."), text("Show it"));
  }
  if (status === "pending") return;
  clearInterval(looking);
  if (document.querySelector("[data-answer], [data-confirm]")) end();
  else location.replace(location.pathname);
  tellStatus();
}

const looking = live && status === "pending" ? setInterval(look, LOOK_EVERY) : null;
if (looking) document.addEventListener("visibilitychange", look);

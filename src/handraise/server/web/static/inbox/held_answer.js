// An answer that was given beside the list: it is held back for a moment, so that it can be undone, and then sent.
//
// A press counts until Undo. So what is held back is sent at once when another answer is given, or when the page is left
// or hidden. At most one answer is held back.

import { make, whisper } from "./announcements.js";
import { PATIENCE, seemsConnected } from "./event_stream.js";
import { keepAnswer } from "./offline_answers.js";
import { text } from "./texts.js";

const SHOWN = 8_000; // the milliseconds for which it is told what was done

let toast = null;
let held = null;
let hiding = null;
let back = null;
const untold = []; // refusals that are shown when no other answer is held back any more

export function startToast(page, { reopen, open, place }) {
  back = { reopen, open, place };
  toast = document.createElement("div");
  toast.className = "toast";
  toast.role = "group";
  toast.setAttribute("aria-label", text("Your last answer"));
  toast.hidden = true;
  page.append(toast);
  addEventListener("pagehide", () => sendHeld());
  document.addEventListener("visibilitychange", () => { if (document.visibilityState === "hidden") sendHeld(); });
}

export const isHeld = (id) => held?.id === id;

// `answer` has what to send and where; `sent` and `failed` are called when it is known what became of it.
export function holdAnswer(answer) {
  dropIfHeld(answer.id);
  sendHeld();
  held = answer;
  held.timer = setTimeout(sendHeld, answer.wait * 1000);
  draw(text("Answering"), answer.label, [button(text("Undo"), takeBackHeld, "z")], answer);
  toast.style.setProperty("--held-for", `${answer.wait}s`);
  toast.classList.add("holding-back");
  whisper(text("Answering: {answer}. Undo with z.", { answer: answer.label }));
}

// An answer to the same question takes the place of what is held back.
export function dropIfHeld(id) {
  if (isHeld(id)) drop().failed();
}

// Undo; says whether there was anything to undo.
export function takeBackHeld() {
  if (!held) return false;
  const was = drop();
  hide();
  tellUntold();
  whisper(text("Nothing was sent."));
  back.reopen(was);
  return true;
}

// Somebody else was first, so nothing is sent.
export function tellRefused() {
  refuse(drop(), text("Somebody was faster. Yours was not sent."));
}

// Send what is held back; says whether it was refused.
export async function sendHeld() {
  if (!held) return false;
  const was = drop();
  if (!seemsConnected() && keep(was)) return false;
  const answer = await fetch(was.action, { method: "POST", body: was.body, keepalive: true, headers: { accept: "application/json" }, signal: AbortSignal.timeout(PATIENCE) }).catch(() => null);
  const isJson = answer?.ok && answer.headers.get("content-type")?.startsWith("application/json");
  const said = isJson ? await answer.json().catch(() => null) : {};
  if ((!answer || !said) && keep(was)) return false;
  const { done, problem } = said ?? {};
  if (!done) {
    refuse(was, answer ? text("Your answer was not recorded. Look at the question again.") : text("Your answer was not sent: the server cannot be reached."));
    return true;
  }
  was.sent(done);
  if (!held && !tellUntold()) tellDone({ ...done, problem, address: was.address });
  return false;
}

// There is no server: keep it. Says whether that was possible.
function keep(was) {
  if (!keepAnswer(was.kept)) return false;
  was.failed();
  if (!held) hide();
  return true;
}

// What the server has recorded. `problem` is what did not work all the same.
export function tellDone(done) {
  const undo = done.take_back ? [button(text("Take it back"), () => takeBackApproval(done))] : [];
  draw(done.text, done.answer, [...undo, link(text("View"), done.address)], done);
  whisper([done.text, done.answer, done.problem].filter(Boolean).join(" "));
  if (done.problem) toast.classList.add("bad");
  else hiding = setTimeout(hide, SHOWN);
}

async function takeBackApproval(done) {
  const answer = await fetch(done.take_back, { method: "POST", body: new URLSearchParams({ do: "take back" }), headers: { accept: "application/json" } }).catch(() => null);
  hide();
  if (answer) back.open(done.address);
}

function refuse(was, why) {
  was.failed();
  whisper(why);
  untold.push({ was, why });
  if (!held) tellUntold();
}

// Says whether there was a refusal to show.
function tellUntold() {
  if (!untold.length) return false;
  const { was, why } = untold.shift();
  const next = untold.length ? [button(text("Next"), tellUntold)] : [];
  draw(why, "", [link(text("View"), was.address), ...next], was);
  toast.classList.add("bad");
  return true;
}

function drop() {
  const was = held;
  held = null;
  clearTimeout(was.timer);
  return was;
}

function hide() {
  clearTimeout(hiding);
  toast.hidden = true;
}

function draw(what, answer, actions, { address, problem }) {
  clearTimeout(hiding);
  toast.classList.remove("bad", "holding-back");
  const said = make("p", "toast-text");
  said.append(make("strong", "", what));
  if (answer) {
    const words = make("span", "toast-answer", answer);
    words.dataset.from = "agent";
    said.append(" ", words);
  }
  if (problem) said.append(" ", make("span", "toast-problem", problem));
  const bar = make("span", "toast-bar");
  bar.setAttribute("aria-hidden", "true");
  toast.replaceChildren(bar, said, ...actions, make("span", "toast-place", back.place(address)));
  toast.hidden = false;
}

function button(words, press, key = "") {
  const made = make("button", "plain", words);
  made.type = "button";
  if (key) made.append(" ", make("kbd", "", key));
  made.addEventListener("click", press);
  return made;
}

function link(words, address) {
  const made = make("a", "", words);
  made.href = address;
  made.addEventListener("click", (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    back.open(address);
  });
  return made;
}

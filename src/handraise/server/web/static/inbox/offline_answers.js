// Answers that were given while the server could not be reached: this browser keeps them, and sends them when it can.
//
// An answer is kept with exactly what its form would have sent, so with what the person saw. The server records it only if
// everything is still like that, and only for the person who gave it. It does not matter if it gets one twice.

import { make, whisper } from "./announcements.js";
import { bodyOf } from "./controls.js";
import { forgetDraft } from "./drafts.js";
import { PATIENCE, seemsConnected } from "./event_stream.js";
import { account, store } from "./local_storage.js";
import { text } from "./texts.js";

const ALL = "handraise.offline:";
const MINE = `${ALL}${encodeURIComponent(account)}:`;
const KEEPABLE = "[data-answer], [data-confirm], [data-decline], [data-send-back], [data-quick-row]";
const DAY = 86_400_000;
const LONGEST = 7 * DAY; // for which an answer is sent
const TOLD = 14 * DAY; // after which it is forgotten, also what became of it
const AGAIN = 30_000; // the milliseconds until the next try, if the server is there and cannot
const LONGEST_TITLE = 120;
const LATER = [408, 429];

const opened = new WeakMap();
const sent = new Map(); // what was sent while this page was open
let isSignedOut = false;
let sending = Promise.resolve();
let again = null;
let inFlight = null; // the question whose answer is being sent

const keyOf = (id) => `${MINE}${id}`;
const isKept = (id) => read(keyOf(id))?.refused === null;
const mine = () => store.keys(MINE).map(read).filter(Boolean).sort((one, other) => one.given - other.given);

function read(key) {
  try { return JSON.parse(store.get(key)); } catch { return null; }
}

export function startOfflineAnswers() {
  forgetOld();
  showKept();
  addEventListener("online", sendKept);
  addEventListener("connected", sendKept);
  addEventListener("storage", (event) => { if (event.key?.startsWith(MINE)) showKept(); });
  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (!form.matches("[data-quick-row]") || seemsConnected()) return;
    if (keepAnswer(answerIn(form.closest("[data-row]"), form, event.submitter))) event.preventDefault();
  });
  sendKept();
}

// What a form sends, to be kept; null if that is not possible. `page` is that of the question, or its row.
export function answerIn(page, form, submitter) {
  const isRow = "row" in page.dataset;
  if (!account || !form.matches(KEEPABLE) || form.enctype === "multipart/form-data" || !("canWait" in (isRow ? form : page).dataset)) return null;
  const left = (isRow ? form : page).dataset.left;
  const elapsed = performance.now() - (opened.get(page) ?? performance.now());
  const end = left === undefined ? Infinity : Number(left) * 1000 - elapsed;
  return {
    account,
    id: isRow ? page.dataset.row : page.dataset.question,
    action: form.getAttribute("action"),
    body: bodyOf(form, submitter).toString(),
    title: isRow ? page.querySelector(".row-text a").textContent : titleOf(page),
    words: wordsOf(form, submitter),
    given: Date.now(),
    until: Date.now() + Math.min(LONGEST, end),
    isEnd: end < LONGEST,
    refused: null,
  };
}

function titleOf(page) {
  const asked = (page.querySelector(".prompt") ?? page.querySelector("h1")).textContent.replace(/\s+/g, " ").trim();
  return asked.length > LONGEST_TITLE ? `${asked.slice(0, LONGEST_TITLE)}…` : asked;
}

// What the person decided and wrote, to be read again.
function wordsOf(form, submitter) {
  const label = submitter && !("send" in submitter.dataset) ? [labelOf(submitter)] : [];
  const ticked = [...form.querySelectorAll(".tick input:checked")].map((each) => labelOf(each.closest(".tick").querySelector(".tick-label") ?? each.closest(".tick")));
  const written = [...form.querySelectorAll("textarea, input:not([type=hidden], [type=radio], [type=checkbox], [type=file])")]
    .map((each) => each.value).filter((each) => each.trim());
  return [...label, ...ticked, ...written].join("\n");
}

function labelOf(element) {
  const copy = element.cloneNode(true);
  for (const key of copy.querySelectorAll("kbd")) key.remove();
  return copy.textContent.trim();
}

// Keep an answer; says whether it is kept.
export function keepAnswer(answer) {
  if (answer === null) return false;
  store.set(keyOf(answer.id), JSON.stringify(answer));
  if (!isKept(answer.id)) return false;
  sent.delete(answer.id);
  showKept();
  whisper(text("Kept. It will be sent when you are back online."));
  sendKept();
  return true;
}

// Why an answer was not sent and not kept.
export function whyNotKept(page, form) {
  if ("canWait" in page.dataset || !form.matches(KEEPABLE)) return text("It was not sent: the server cannot be reached. What you have written is still here; please send it again.");
  return text("It was not sent: the server cannot be reached. This one cannot be kept for later: decide it when you are online. What you have written is still here.");
}

// Send what is kept, in the order in which it was given. Only one page of this browser does so at a time.
export function sendKept() {
  sending = sending.then(() => alone(sendAll)).catch(() => null);
  return sending;
}

const alone = (work) => (navigator.locks ? navigator.locks.request("handraise.offline", work) : work());

async function sendAll() {
  clearTimeout(again);
  for (const { id } of mine().filter((each) => each.refused === null)) {
    const answer = read(keyOf(id));
    if (answer?.refused !== null) continue; // discarded meanwhile, or told
    if (Date.now() > answer.until) {
      refuse(answer, { text: answer.isEnd ? text("Its time ran out before you were back online.") : text("It was kept for 7 days, and is not sent any more."), recorded: "", href: addressOf(answer) });
      continue;
    }
    inFlight = id;
    const goesOn = await send(answer).finally(() => { inFlight = null; });
    if (!goesOn) break;
  }
}

// Says whether to go on with the next one.
async function send(answer) {
  const headers = { accept: "application/json", "handraise-account": encodeURIComponent(answer.account) };
  const options = { method: "POST", body: new URLSearchParams(answer.body), headers, redirect: "manual", signal: AbortSignal.timeout(PATIENCE) };
  const got = await fetch(answer.action, options).catch(() => null);
  if (!got || got.status >= 500 || LATER.includes(got.status)) {
    if (navigator.onLine) again = setTimeout(sendKept, AGAIN);
    return false;
  }
  isSignedOut = got.type === "opaqueredirect" || got.status === 401;
  if (isSignedOut) {
    showKept();
    return false;
  }
  const said = await got.json().catch(() => ({}));
  if (got.ok && !("done" in said)) return false; // not by our server: something between answers for it
  if (got.ok) tellSent(answer, said.done);
  else refuse(answer, said.refused ?? { text: text("The question is not there any more, or it is for others now."), recorded: "", href: addressOf(answer) });
  return true;
}

const addressOf = ({ action }) => action.split("?")[0];

function tellSent(answer, done) {
  store.set(keyOf(answer.id), null);
  forgetDraft(answer.id);
  const page = document.querySelector("main[data-question]");
  if (page?.dataset.question === answer.id) {
    location.replace(answer.action);
    return;
  }
  sent.set(answer.id, { ...answer, done });
  showKept();
  whisper(text("Your answer was sent."));
}

function refuse(answer, refused) {
  store.set(keyOf(answer.id), JSON.stringify({ ...answer, refused }));
  showKept();
  whisper(`${text("Your answer was not recorded.")} ${refused.text}`);
}

function discard(id) {
  if (id === inFlight) return; // it may be too late: what became of it is told
  store.set(keyOf(id), null);
  sent.delete(id);
  showKept();
}

export const forgetKept = () => store.forget(MINE);
export const hasKept = () => mine().some((each) => each.refused === null);

// What was given long ago, also by others. Its own person is told first that it was not sent.
function forgetOld() {
  for (const key of store.keys(ALL)) {
    const answer = read(key);
    const isUntold = key.startsWith(MINE) && answer?.refused === null;
    if (!isUntold && !(answer?.given > Date.now() - TOLD)) store.set(key, null);
  }
}

// Show what is kept and what became of it, above the page. What is kept can be discarded, and not be answered again.
export function showKept() {
  const answers = [...mine(), ...sent.values()];
  for (const page of document.querySelectorAll("[data-question], [data-row]")) {
    if (!opened.has(page)) opened.set(page, performance.now());
    freeze(page, isKept(page.dataset.question ?? page.dataset.row));
  }
  let place = document.querySelector("[data-offline]");
  if (!place && !answers.length) return;
  if (!place) {
    place = make("section", "offline");
    place.dataset.offline = "";
    place.setAttribute("aria-label", text("Answers given offline"));
    document.getElementById("main").before(place);
  }
  const focused = place.contains(document.activeElement);
  place.hidden = !answers.length;
  place.replaceChildren(...noticesOf(answers));
  if (focused) (place.querySelector("button") ?? document.getElementById("main")).focus();
}

function freeze(page, wanted) {
  if (wanted === "frozen" in page.dataset) return;
  for (const each of page.querySelectorAll("form, details.decline")) each.inert = wanted;
  const state = page.querySelector("[data-state]");
  if (wanted) page.dataset.frozen = "";
  else delete page.dataset.frozen;
  if (state) state.textContent = wanted ? text("kept, not sent yet") : "";
}

// What is kept is told together; what became of an answer has a notice of its own.
function noticesOf(answers) {
  const kept = answers.filter(({ refused, done }) => !refused && done === undefined);
  const others = answers.filter((each) => !kept.includes(each));
  const notices = others.map((each) => noticeOf(whatBecame(each), [each], each.refused ? "bad" : ""));
  return kept.length ? [noticeOf(whatIsKept(), kept), ...notices] : notices;
}

function whatIsKept() {
  if (isSignedOut) return [make("strong", "", text("Kept, but not sent: sign in again.")), " ", link(text("Sign in"), location.pathname + location.search)];
  return [make("strong", "", text("Kept. It will be sent when you are back online."))];
}

function whatBecame({ refused, done }) {
  if (refused) return [make("strong", "", text("Your answer was not recorded.")), ` ${refused.text}`];
  return [make("strong", "", text("Your answer was sent.")), done ? ` ${done.text}.` : ""];
}

function noticeOf(sentence, answers, more = "") {
  const notice = make("div", `notice ${more}`);
  const said = make("p");
  said.append(...sentence);
  notice.append(said, ...answers.map(entryOf));
  return notice;
}

function entryOf({ id, title, words, action, refused, done }) {
  const entry = make("div", "kept-answer");
  const isOver = refused !== null || done !== undefined;
  const about = make("p");
  about.append(theirs(link(title, refused?.href ?? action)));
  entry.append(about);
  if (refused?.recorded) entry.append(row(text("What is recorded:"), refused.recorded));
  if (words) entry.append(row(refused ? text("You had answered:") : text("Your answer:"), words));
  const button = make("button", "chip", isOver ? text("Close") : text("Discard"));
  button.type = "button";
  button.addEventListener("click", () => discard(id));
  entry.append(button);
  return entry;
}

function row(name, words) {
  const made = make("p");
  made.append(make("span", "quiet", name), " ", theirs(make("span", "text", words)));
  return made;
}

function theirs(element) {
  element.dataset.from = "agent";
  return element;
}

function link(words, address) {
  const made = make("a", "", words);
  made.href = address;
  return made;
}

// On a wide screen, the list is on the left and one of its questions on the right. Answering shows the next one.
//
// Every row is a link to a page of its own; this only shows that page beside the list. `j` and `k` are one step of the
// browser's history, however often they are pressed; so Back leads to where the person was before.

import { liveIn, make, MESSAGES, say, SETTLED, whisper } from "./announcements.js";
import { bodyOf, sizeOf, startControls } from "./controls.js";
import { LARGEST, leadsOn, MARGIN } from "./delayed_send.js";
import { forgetDraft } from "./drafts.js";
import { PATIENCE, seemsConnected } from "./event_stream.js";
import { dropIfHeld, holdAnswer, isHeld, sendHeld, startToast, takeBackHeld, tellDone, tellRefused } from "./held_answer.js";
import { person } from "./local_storage.js";
import { answerIn, keepAnswer, showKept, whyNotKept } from "./offline_answers.js";
import { showPasskeys } from "./passkeys.js";
import { startQuestion } from "./question.js";
import { text } from "./texts.js";
import { startUploads } from "./uploads.js";

// The style sheet asks the same.
const wide = matchMedia("(min-width: 1100px) and (scripting: enabled)");
const DECIDES = "[data-answer], [data-confirm], [data-decline], [data-send-back], [data-agree]";
const TO_UNDO = 5; // the seconds in which an answer of one key can be undone
const TOO_SOON = 300; // a key or a click in these milliseconds was meant for the question before
const FRESH = 60_000; // the milliseconds for which a page that was read ahead is shown

let page = null;
let pane = null;
let list = null;
let current = null; // the address of the question that is shown
let listAddress = "/";
let byKeys = false; // whether the last step of the history was made by j or k
let turn = 0;
let shownAt = 0;
let shownTitle = "";
let isSending = false;
let ended = null;
const ahead = new Map();

const isSplit = () => pane !== null && wide.matches && page.querySelector("[data-row]") !== null;
const rows = () => [...list.querySelectorAll("[data-row]")];
const linkOf = (row) => row.querySelector(".row-text a");
const addressOf = (row) => linkOf(row).getAttribute("href");
const idIn = (address) => decodeURIComponent(new URL(address, location.href).pathname.split("/")[2] ?? "");
const rowOf = (id) => rows().find((row) => row.dataset.row === id);
const isShown = (part) => part?.dataset.question === idIn(current ?? "/"); // and not one that is left while the next one loads
const isTooSoon = () => pane.querySelector("[data-just-shown]") !== null;
const isOpenTo = (row) => !row.matches(".settled, .voted, .answering, [data-frozen], [data-agents-turn]");
const path = () => location.pathname + location.search;

export const isQuestionOpen = () => location.pathname.startsWith("/questions/");

// The page of a question that was opened beside its list: after a reload, it is there again.
export function returnToSplit() {
  const back = document.querySelector("[data-back]");
  if (!history.state?.split || !wide.matches || !back) return false;
  location.replace(back.href);
  return true;
}

export function startSplit(main) {
  page = main;
  pane = main.querySelector("[data-pane]");
  list = main.querySelector("[data-list]");
  listAddress = path();
  if (!pane) return;
  startToast(page, { reopen, open: (address) => open(address, { how: "push" }), place: placeOf });
  list.addEventListener("click", openRow);
  pane.addEventListener("click", followLink);
  pane.addEventListener("submit", submit);
  page.addEventListener("question-event", hear);
  addEventListener("popstate", goBack);
  wide.addEventListener("change", () => {
    if (!wide.matches && isQuestionOpen()) location.assign(path());
    else begin();
  });
  begin();
}

// The list was read again.
export function listHasChanged() {
  showKept();
  if (!isSplit()) {
    if (pane && isQuestionOpen() && wide.matches) history.replaceState(null, "", listAddress);
    return;
  }
  for (const row of rows()) row.classList.toggle("answering", isHeld(row.dataset.row));
  mark();
  if (current === null) begin();
}

function begin() {
  if (!isSplit()) return;
  const wanted = location.hash.startsWith("#q-") ? rowOf(decodeURIComponent(location.hash.slice(3))) : undefined;
  const first = wanted ?? rows().find(isOpenTo) ?? rows().find((row) => !row.matches(".answering"));
  if (wanted) open(addressOf(wanted), { how: "replace" });
  else if (first) open(addressOf(first), { how: isQuestionOpen() ? "replace" : "none" });
}

function openRow(event) {
  const link = event.target.closest('a[href^="/questions/"]');
  if (!link || !isSplit() || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
  event.preventDefault();
  const address = link.getAttribute("href");
  byKeys = false;
  // Enter on the row whose question is shown goes to the question.
  if (address === current && event.detail === 0) enter();
  else if (address === path()) return;
  else if (address === current && isShown(pane.querySelector(".pane-page"))) keepOpen();
  else open(address, { how: "push" });
}

// The question is shown already: what was filled in stays.
function keepOpen() {
  history.pushState({ split: true }, "", current);
  showTitle(shownTitle);
}

// A link to the question itself shows it again, with what is new.
function followLink(event) {
  const link = event.target.closest("a[href]");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
  const [address] = link.getAttribute("href").split("#");
  if (!address || idIn(address) !== idIn(current) || new URL(link.href).origin !== location.origin) return;
  event.preventDefault();
  ahead.delete(current);
  open(current, { how: "none" });
}

function goBack() {
  if (!isSplit()) return;
  byKeys = false;
  if (!isQuestionOpen()) begin();
  else if (path() !== current) open(path(), { how: "none" });
}

// Show a question. `how` says what becomes of the browser's history.
async function open(address, { how, focus = false, byItself = false }) {
  const mine = ++turn;
  current = address;
  if (how === "push") history.pushState({ split: true }, "", address);
  if (how === "replace") history.replaceState({ split: true }, "", address);
  mark();
  if (focus) linkTo(address)?.focus({ preventScroll: true });
  const found = await read(address);
  if (mine !== turn) return;
  if (found) show(found, byItself);
  else if (seemsConnected()) location.assign(address);
  else showNote(text("You are offline. This question is shown here when you open it again online."));
}

function showNote(words) {
  ahead.delete(current);
  pane.replaceChildren(make("p", "quiet center", words));
}

const linkTo = (address) => { const row = rowOf(idIn(address)); return row && linkOf(row); };

function mark() {
  const id = current && idIn(current);
  for (const row of rows()) {
    const isCurrent = row.dataset.row === id;
    row.classList.toggle("open", isCurrent);
    if (isCurrent) linkOf(row).setAttribute("aria-current", "true");
    else linkOf(row).removeAttribute("aria-current");
  }
  rowOf(id)?.scrollIntoView({ block: "nearest" });
}

// The page of a question; null if there is none, or the person is not signed in any more.
function read(address) {
  const kept = ahead.get(address);
  if (kept && performance.now() - kept.at < FRESH) return kept.page;
  const found = fetch(address, { headers: { accept: "text/html" } })
    .then(async (answer) => (answer.ok && !answer.redirected ? pageIn(await answer.text()) : null))
    .catch(() => null);
  ahead.set(address, { at: performance.now(), page: found });
  return found;
}

function pageIn(html) {
  const made = new DOMParser().parseFromString(html, "text/html");
  const main = made.getElementById("main");
  return main && "question" in main.dataset ? { title: made.title, main } : null;
}

function show({ title, main }, byItself) {
  ahead.delete(current);
  ended?.abort();
  ended = new AbortController();
  const part = document.createElement("div");
  part.className = "pane-page";
  Object.assign(part.dataset, main.dataset);
  part.append(...[...main.childNodes].map((each) => document.importNode(each, true)));
  const told = part.querySelector("[data-live]");
  told?.removeAttribute("data-live");
  told?.setAttribute("data-live-beside", "");
  pane.replaceChildren(part);
  pane.scrollTop = 0;
  shownAt = performance.now();
  dispatchEvent(new CustomEvent("question-came-up", { detail: { byItself } })); // see second_press.js
  part.dataset.justShown = "";
  setTimeout(() => { delete part.dataset.justShown; }, TOO_SOON);
  shownTitle = title;
  if (isQuestionOpen()) showTitle(title);
  startControls(part);
  startUploads(part);
  showPasskeys(part);
  startQuestion(part, {
    hear: ({ heard }) => page.addEventListener("question-event", ({ detail }) => heard(detail.kind, detail.event), { signal: ended.signal }),
    send: () => ({ stop: () => false, stopApproval: () => false, isSending: () => isSending }),
  });
  showKept();
  part.querySelector("[autofocus]")?.focus();
  // First paint this one, then read the next one ahead.
  requestAnimationFrame(() => setTimeout(readAhead, 0, turn));
}

function readAhead(mine) {
  const next = mine === turn && current !== null && following(idIn(current));
  if (next) read(addressOf(next));
}

function showTitle(title) {
  document.title = title;
  document.querySelector("title").dataset.from = "agent";
}

// The row to go on with: the next one below, or else the first above that is still open.
function following(id) {
  const all = rows();
  const at = all.findIndex((row) => row.dataset.row === id);
  return all.slice(at + 1).find(isOpenTo) ?? all.slice(0, Math.max(at, 0)).find(isOpenTo);
}

function placeOf(address) {
  const all = rows().filter((row) => !("agentsTurn" in row.dataset));
  const at = all.findIndex((row) => row.dataset.row === idIn(address));
  const first = Number(list.querySelector("ol.queue")?.start ?? 1);
  return at < 0 ? "" : text("{place} of {count}", { place: first + at, count: Math.max(Number(page.dataset.queue), first + all.length - 1) });
}

// Go on after this question.
function goOn(id) {
  const next = following(id);
  const how = isQuestionOpen() ? "replace" : "push";
  if (next) {
    open(addressOf(next), { how, focus: true, byItself: true });
    return;
  }
  showNote(text("That was the last one in this list."));
  current = null;
  turn += 1;
  mark();
  page.dispatchEvent(new Event("list-is-done"));
}

function move(step) {
  if (isSending) return;
  const all = rows();
  const at = all.findIndex((row) => row.dataset.row === idIn(current ?? ""));
  const row = all[Math.min(all.length - 1, Math.max(0, at + step))];
  if (addressOf(row) !== current || !isQuestionOpen()) {
    open(addressOf(row), { how: byKeys && isQuestionOpen() ? "replace" : "push", focus: true });
    byKeys = true;
  }
}

// Go to the first thing to fill in.
function enter() {
  const first = pane.querySelector("[data-answer] .fields :is(input:not([type=hidden]), textarea, select)");
  (first?.checkVisibility() ? first : pane).focus();
}

// Keys that do something else here than on a page of their own; says whether it was one.
export function pressInSplit(event) {
  if (!isSplit()) return false;
  const { key } = event;
  if (key === "j" || key === "k") move(key === "j" ? 1 : -1);
  else if (key === "z") return takeBackHeld();
  else if (key === "x") rowOf(idIn(current ?? "/"))?.querySelector(".row-tick input")?.click();
  else if (key === "u") linkTo(current ?? "/")?.focus();
  else return /^[yn1-4]$/.test(key) && answerWithKey(event);
  return true;
}

// One key answers yes or no, one of few options, and actions of low risk. All else has to be confirmed.
function answerWithKey(event) {
  const form = pane.querySelector("[data-answer][data-quick]");
  if (!form || pane.contains(document.activeElement)) return false;
  if (form.inert || !isShown(form.closest(".pane-page"))) return true;
  const named = { y: "[data-yes]", n: "[data-no]" }[event.key];
  const tick = named ? null : form.querySelectorAll(".fields .tick input[type=radio]")[Number(event.key) - 1];
  const button = form.querySelector(named ?? "[data-send]");
  if (!button || button.disabled || (!named && !tick)) return false;
  if (event.repeat || isTooSoon() || isSending) return true;
  if (tick) tick.checked = true;
  const label = tick ? tick.closest(".tick").querySelector(".tick-label").textContent : button.textContent.trim();
  decide(form, button, label, TO_UNDO);
  return true;
}

function submit(event) {
  const form = event.target;
  if (event.defaultPrevented || form.method !== "post") return;
  event.preventDefault();
  const { submitter } = event;
  if (isSending || isTooSoon() || !isShown(form.closest(".pane-page"))) return;
  if (form.matches(DECIDES) && !leadsOn(form, submitter) && form.enctype !== "multipart/form-data") decide(form, submitter, labelOf(form, submitter), 0);
  else post(form, submitter);
}

function labelOf(form, submitter) {
  const chosen = form.querySelector(".fields .tick input[type=radio]:checked");
  if (chosen && submitter && "send" in submitter.dataset) return chosen.closest(".tick").querySelector(".tick-label").textContent;
  return submitter && !("send" in submitter.dataset) ? submitter.textContent.trim() : "";
}

// Send an answer, perhaps after the time in which it can be undone, and show the next question.
function decide(form, submitter, label, least) {
  const part = form.closest(".pane-page");
  const left = "left" in part.dataset ? Number(part.dataset.left) - (performance.now() - shownAt) / 1000 : Infinity;
  const wait = Math.min(Math.max(Number(part.dataset.undo ?? 0), least), left - MARGIN);
  if (wait < 1 || sizeOf(form) > LARGEST) {
    post(form, submitter);
    return;
  }
  const id = part.dataset.question;
  const row = rowOf(id);
  holdAnswer({ id, address: current, action: form.getAttribute("action"), body: bodyOf(form, submitter), kept: answerIn(part, form, submitter), label, wait, failed: () => row?.classList.remove("answering"), sent: (done) => isSent(id, done) });
  row?.classList.add("answering");
  goOn(id);
}

async function post(form, submitter) {
  isSending = true;
  const part = form.closest(".pane-page");
  const kept = leadsOn(form, submitter) ? null : answerIn(part, form, submitter);
  const address = current;
  const id = idIn(address);
  const isFile = form.enctype === "multipart/form-data";
  const body = isFile ? new FormData(form, submitter) : bodyOf(form, submitter);
  dropIfHeld(id);
  const wasRefused = await sendHeld();
  const patience = isFile ? {} : { signal: AbortSignal.timeout(PATIENCE) };
  const answer = await fetch(form.getAttribute("action"), { method: "POST", body, headers: { accept: "application/json" }, ...patience }).catch(() => null);
  isSending = false;
  const told = liveIn(pane);
  if (!answer && keepAnswer(kept)) {
    goOn(id);
  } else if (!answer) {
    say(whyNotKept(part, form), null, null, told);
  } else if (answer.headers.get("content-type")?.startsWith("application/json") && answer.ok) {
    const { done, problem } = await answer.json().catch(() => ({}));
    ahead.delete(address);
    if (!done) {
      open(address, { how: "none" });
      return;
    }
    showDone(id, done);
    if (!wasRefused) tellDone({ ...done, problem, address }); // the refusal stays
    goOn(id);
  } else {
    const found = pageIn(await answer.text());
    if (found) show(found, true);
    else location.assign(address);
  }
}

// An answer that was held back is recorded. If it was the last, the list is read again.
function isSent(id, done) {
  showDone(id, done);
  if (current === null) page.dispatchEvent(new Event("list-is-done"));
}

function showDone(id, done) {
  forgetDraft(id);
  const row = rowOf(id);
  if (!row) return;
  row.classList.remove("answering");
  row.classList.add(done.waits ? "voted" : "settled", "changed");
  row.querySelector("[data-state]").textContent = done.text;
}

// What was held back was taken back: show it again.
function reopen({ id, address }) {
  rowOf(id)?.classList.remove("answering");
  ahead.delete(address);
  open(address, { how: isQuestionOpen() ? "replace" : "push", focus: true });
}

function hear({ detail: { kind, event } }) {
  for (const address of ahead.keys()) if (idIn(address) === event.question_id) ahead.delete(address);
  if (SETTLED.includes(kind) && event.by !== person && isHeld(event.question_id)) tellRefused();
  if (MESSAGES.includes(kind) && isHeld(event.question_id)) whisper(text("There is a new message. Read it before you decide."));
}

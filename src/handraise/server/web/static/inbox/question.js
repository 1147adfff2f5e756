// The page of one question: it says if the question ends meanwhile or somebody writes something, and keeps what was written.

import { hasDraft, keepDraft, keepMessage, showDraft } from "./drafts.js";
import { listen } from "./event_stream.js";
import { delaySend } from "./delayed_send.js";
import { howItChanged, howItEnded, liveIn, MESSAGES, say as sayIn, SETTLED, SHARING, whatIsNew } from "./announcements.js";
import { person } from "./local_storage.js";
import { text } from "./texts.js";

const QUIET = ["set_aside", "put_back"]; // what somebody else does with their own inbox
const LONGEST_TIMER = 2 ** 31 - 1;

const here = () => location.pathname + location.search;
const sayOn = (page) => (sentence, link, href) => sayIn(sentence, link, href, liveIn(page));

// The question was answered: say it when the agent reports what came of it.
function followReport(id, listen, say) {
  const told = () => say(text("The agent has reported what came of this."), text("Show it"), here());

  async function look() {
    const answer = await fetch(`/v1/questions/${encodeURIComponent(id)}`).catch(() => null);
    if (answer?.ok && (await answer.json()).report) told();
  }

  listen({
    heard(kind, event) {
      if (event.question_id === id && kind === "reported") told();
    },
    look,
  });
}

// The question was sent back: say it when the agent asks again.
function followReplacement(id, listen, say) {
  const told = () => say(text("The agent has asked again."), text("Show it"), here());

  async function look() {
    const answer = await fetch(`/v1/questions/${encodeURIComponent(id)}`).catch(() => null);
    if (answer?.ok && (await answer.json()).replaced_by) told();
  }

  listen({
    heard(kind, event) {
      if (event.question_id === id && kind === "replaced") told();
    },
    look,
  });
}

// `page` may be the whole page, or the part of the list's page that shows a question: that one has its own way to `hear`
// events and to `send` answers.
export function startQuestion(page, { hear = listen, send = delaySend } = {}) {
  const id = page.dataset.question;
  const form = page.querySelector("[data-answer]");
  const say = sayOn(page);
  if (page.dataset.status !== "pending") {
    showDraft(page);
    if (page.dataset.status === "answered" && !page.querySelector("[data-report]")) followReport(id, hear, say);
    if (page.dataset.status === "returned" && !page.querySelector("[data-later]")) followReplacement(id, hear, say);
    return;
  }
  const message = page.querySelector("[data-message]");
  if (form) keepDraft(form, id);
  if (message) keepMessage(message, id);
  const sending = send(page);
  let hasEnded = false;
  let known = Number(page.dataset.thread);

  // The page stays as it is: what it sends covers the messages that it shows, and no others.
  function tellMessage(kind, by) {
    if (hasEnded || (sending.isSending() && by === person)) return;
    const unsent = sending.stopApproval() ? text("Yours was not sent.") : "";
    say([whatIsNew(kind, by), unsent].filter(Boolean).join(" "), text("Show it"), here());
  }

  function end(kind, by, when) {
    // This page's own answer is being sent: the next page shows the result.
    if (hasEnded || !page.isConnected || (by === person && sending.isSending())) return;
    hasEnded = true;
    const unsent = sending.stop() ? text("Yours was not sent.") : "";
    const kept = hasDraft(id) ? text("What you have written is kept.") : "";
    const sentences = [howItEnded(kind, by, when), unsent, kept].filter(Boolean);
    say(sentences.join(" "), text("Show how it ended"), here());
    document.title = text("Settled: {title}", { title: document.title });
    for (const button of page.querySelectorAll("button")) button.disabled = true;
  }

  async function look() {
    const answer = await fetch(`/v1/questions/${encodeURIComponent(id)}`).catch(() => null);
    if (!answer?.ok) return;
    const { status, outcome, thread } = await answer.json();
    if (status !== "pending") end(status, outcome?.by, text("meanwhile"));
    else if (thread > known) tellMessage("noted", null);
    known = thread;
  }

  hear({
    heard(kind, event) {
      if (event.question_id !== id || kind === "asked") return;
      if (SHARING.includes(kind) && (event.by === person || QUIET.includes(kind))) return;
      if (SETTLED.includes(kind)) end(kind, event.by, text("just now"));
      else if (MESSAGES.includes(kind)) tellMessage(kind, event.by);
      else if (!hasEnded && !sending.isSending()) say(howItChanged(kind, event.by), text("Show it"), here());
    },
    look,
  });

  // The question expires even if no event says so.
  const left = Number(page.dataset.left ?? Infinity) * 1000 + 1500;
  if (left < LONGEST_TIMER) setTimeout(look, left);
}

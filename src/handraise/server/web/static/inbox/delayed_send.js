// Delays sending an answer for a moment, so that it can be undone, if the asker allows that.
//
// A press counts until Undo is pressed. So an answer that is held back is sent at once when its page
// is left or hidden, which may be the last thing that a browser lets a page do. It is never sent after Undo.

import { make, say } from "./announcements.js";
import { bodyOf, sizeOf } from "./controls.js";
import { PATIENCE, seemsConnected } from "./event_stream.js";
import { answerIn, keepAnswer, showKept, whyNotKept } from "./offline_answers.js";
import { text } from "./texts.js";

export const MARGIN = 5; // the seconds before a question's end in which nothing is held back any more
export const LARGEST = 60_000; // the bytes that a browser still sends for a page that is being left
const ACCIDENT = 400; // a second click or a held key in these milliseconds is not a decision

export function delaySend(page) {
  const longest = Number(page.dataset.undo ?? 0);
  const opened = performance.now();
  let held = null;
  let isSending = false;
  let passes = false;

  const left = () => ("left" in page.dataset ? Number(page.dataset.left) - (performance.now() - opened) / 1000 : Infinity);

  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (!form.matches("[data-answer], [data-confirm], [data-decline], [data-send-back], [data-agree], [data-message], [data-share]")) return;
    if (passes) return;
    const isMessage = form.matches("[data-message], [data-share]");
    if (isMessage && isSending) {
      event.preventDefault(); // a second click would send it twice
      return;
    }
    const wait = isMessage ? 0 : Math.min(longest, left() - MARGIN);
    const isDirect = isSending || wait < 1 || leadsOn(form, event.submitter) || sizeOf(form) > LARGEST;
    if (isDirect && seemsConnected()) {
      isSending = true;
      return;
    }
    event.preventDefault();
    if (!isDirect) hold(form, event.submitter, wait);
    else if (!isSending) submit(form, event.submitter);
  });

  // Send a form as the browser does. If the server may be down, check first: otherwise the browser shows its own page,
  // and the person no longer sees what they wrote.
  async function submit(form, submitter) {
    isSending = true;
    if (seemsConnected() || (await isThere())) {
      passes = true;
      form.requestSubmit(submitter);
      passes = false;
      return true;
    }
    isSending = false;
    if (!keep(form, submitter)) say(whyNotKept(page, form));
    return false;
  }

  const keep = (form, submitter) => !leadsOn(form, submitter) && keepAnswer(answerIn(page, form, submitter));

  function hold(form, submitter, wait) {
    const { panel, undo, send, show } = panelFor(submitter);
    const ends = performance.now() + wait * 1000;
    const shown = performance.now();
    const tick = () => {
      const rest = Math.ceil((ends - performance.now()) / 1000);
      if (rest <= 0) sendNow();
      else show(text("Sending in {seconds} s", { seconds: rest }));
    };
    held = { form, submitter, panel, undo, send, show, timer: setInterval(tick, 250) };
    // Nothing that is held back can be changed any more.
    for (const each of page.querySelectorAll("form, details.decline")) each.inert = true;
    (form.closest("details.decline") ?? form).after(panel);
    panel.style.setProperty("--held-for", `${wait}s`);
    form.querySelector(".actions, button")?.setAttribute("hidden", "");
    tick();
    undo.focus();
    const meant = (event) => event.detail === 0 || performance.now() - shown > ACCIDENT;
    undo.addEventListener("click", (event) => { if (meant(event)) takeBack(); });
    send.addEventListener("click", (event) => { if (meant(event)) sendNow(); });
    panel.addEventListener("keydown", (event) => { if (event.repeat) event.preventDefault(); });
  }

  // Discard what is held back, without sending it.
  function stop() {
    if (!held) return null;
    const was = held;
    held = null;
    clearInterval(was.timer);
    was.panel.remove();
    for (const each of page.querySelectorAll("form, details.decline")) each.inert = false;
    was.form.querySelector(".actions, button")?.removeAttribute("hidden");
    return was;
  }

  function takeBack() {
    stop()?.submitter?.focus();
  }

  function sendNow() {
    if (!held) return;
    const was = held;
    clearInterval(was.timer);
    held = null;
    was.show(text("Sending…"));
    was.undo.disabled = was.send.disabled = true;
    submit(was.form, was.submitter).then((isSent) => {
      if (isSent) return;
      giveUp(was);
    });
  }

  // It is not sent: let the person change it, unless it is kept.
  function giveUp(was) {
    held = was;
    stop();
    delete page.dataset.frozen;
    showKept();
  }

  async function sendOnLeave() {
    if (!held) return;
    const was = held;
    clearInterval(was.timer);
    held = null;
    if (!seemsConnected() && keep(was.form, was.submitter)) {
      giveUp(was); // it may be sent before the page is gone, and is sent later otherwise
      return;
    }
    isSending = true;
    was.show(text("Sending…"));
    was.undo.disabled = was.send.disabled = true;
    const address = was.form.getAttribute("action");
    const answer = await fetch(address, { method: "POST", body: bodyOf(was.form, was.submitter), keepalive: true }).catch(() => null);
    // Only a page that was hidden and not left gets here.
    const html = await answer?.text();
    const hasMoved = answer?.status === 409 && html.includes(" data-thread-moved");
    if (answer && !hasMoved && (answer.ok || answer.status === 409)) {
      location.replace(address);
      return;
    }
    isSending = false;
    const isKept = !answer && keep(was.form, was.submitter);
    giveUp(was);
    if (isKept) return;
    if (hasMoved) say(text("Nothing was recorded: there are new messages. Read them, then decide again."), text("Show it"), address);
    else if (answer?.status === 422) say(text("It was sent, and does not fit yet. {problems}", { problems: problemsIn(html) }));
    else say(text("It could not be sent. What you have written is still here; please send it again."));
  }

  addEventListener("keydown", (event) => { if (event.key === "Escape") takeBack(); });
  addEventListener("pagehide", sendOnLeave);
  document.addEventListener("visibilitychange", () => { if (document.visibilityState === "hidden") sendOnLeave(); });

  return {
    stop: () => stop() !== null,
    // The server refuses an approval that does not cover a new message; a refusal is sent all the same.
    stopApproval: () => held !== null && approves(held) && stop() !== null,
    isSending: () => isSending,
  };
}

const approves = ({ form, submitter }) => form.matches("[data-confirm], [data-agree]") || submitter?.value === "approve";

async function isThere() {
  const answer = await fetch("/v1/me", { cache: "no-store", signal: AbortSignal.timeout(PATIENCE) }).catch(() => null);
  return answer !== null;
}

// A button that only shows the person's changes decides nothing, and needs no undo.
export function leadsOn(form, submitter) {
  if (submitter?.name === "do") return submitter.value === "edit";
  if ("changes" in (submitter?.dataset ?? {})) return true;
  const edits = form.querySelector(".edits");
  if (!edits || submitter?.value !== "approve") return false;
  return "typed" in form.dataset || [...edits.querySelectorAll("input, textarea, select")].some(isChanged);
}

function isChanged(input) {
  if (input.matches("select")) return [...input.options].some((each) => each.selected !== each.defaultSelected);
  return input.matches("[type=radio], [type=checkbox]") ? input.checked !== input.defaultChecked : input.value !== input.defaultValue;
}

function problemsIn(html) {
  const found = new DOMParser().parseFromString(html, "text/html").querySelectorAll(".problem");
  return [...found].map((each) => each.textContent.trim()).join(" ");
}

function panelFor(submitter) {
  const button = (name, words) => {
    const made = make("button", name, words);
    made.type = "button";
    return made;
  };
  const panel = make("section", "holding");
  const title = make("h2");
  const count = make("span");
  const note = make("p", "quiet", text("Undo takes it back. If you leave or hide this page, it is sent at once."));
  const bar = make("div", "holding-bar");
  const row = make("div", "actions two");
  const undo = button("button", text("Undo"));
  const send = button("button equal", text("Send now"));
  title.id = "holding-title";
  title.append(count, !submitter || "send" in submitter.dataset ? "" : `: ${submitter.textContent.trim()}`);
  note.id = "holding-note";
  panel.role = "group";
  panel.setAttribute("aria-labelledby", title.id);
  undo.setAttribute("aria-describedby", `${title.id} ${note.id}`);
  bar.setAttribute("aria-hidden", "true");
  row.append(undo, send);
  panel.append(title, bar, row, note);
  return { panel, undo, send, show: (words) => { if (count.textContent !== words) count.textContent = words; } };
}

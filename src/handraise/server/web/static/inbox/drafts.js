// What a person types stays in this browser until it is sent or the person signs out.

import { liveIn, say } from "./announcements.js";
import { person, store } from "./local_storage.js";
import { text } from "./texts.js";

export const DRAFTS = "handraise.draft.";

const keyOf = (id) => `${DRAFTS}${person}.${id}`;
const messageKeyOf = (id) => keyOf(`${id}.message`);
const isSent = (message) =>
  [...document.querySelectorAll(".message[data-mine] [data-text]")].some((each) => each.textContent.trim() === message.trim());
const isTick = (input) => input.matches("[type=radio], [type=checkbox]");

// Keep what is typed into a form, and restore it later. For how long an answer is kept is decided anew each time.
export function keepDraft(form, id) {
  const key = keyOf(id);
  const inputs = [...form.querySelectorAll("input:not([type=hidden], [type=file], [name=keep_until]), textarea, select")];
  const state = () => JSON.stringify(inputs.map((each) => (isTick(each) ? each.checked : each.value)));
  const first = state();
  const kept = store.get(key);
  if (kept && !("typed" in form.dataset)) {
    const values = JSON.parse(kept);
    if (values.length === inputs.length) {
      inputs.forEach((each, place) => {
        if (isTick(each)) each.checked = values[place] === true;
        else each.value = values[place];
      });
    }
  }
  form.addEventListener("input", () => store.set(key, state() === first ? null : state()));
}

// The same for a message to the agent or to colleagues. Once it is in the conversation, it is no draft any more.
export function keepMessage(form, id) {
  const key = messageKeyOf(id);
  const field = form.querySelector("textarea");
  const kept = store.get(key);
  if (kept && isSent(kept)) store.set(key, null);
  else if (kept && !field.value) {
    field.value = kept;
    const fold = form.closest("details");
    if (fold) fold.open = true;
  }
  field.addEventListener("input", () => store.set(key, field.value.trim() ? field.value : null));
}

// It was sent.
export const forgetDraft = (id) => store.set(keyOf(id), null);

export const hasDraft = (id) => store.get(keyOf(id)) !== null;

// For a question that ended in another way: show what was kept, once.
export function showDraft(page) {
  const keys = [keyOf(page.dataset.question), messageKeyOf(page.dataset.question)];
  const [answer, message] = keys.map(store.get);
  for (const key of keys) store.set(key, null);
  if (page.querySelector("[data-kept]")) return;
  const begun = [...(answer && !("mine" in page.dataset) ? JSON.parse(answer) : []), ...(message && !isSent(message) ? [message] : [])];
  const texts = begun.filter((each) => typeof each === "string" && each.trim() && !/^[+-]\d\d:\d\d$/.test(each));
  if (!texts.length) return;
  const written = document.createElement("pre");
  written.className = "text";
  written.textContent = texts.join("\n\n");
  const place = liveIn(page);
  say(text("You had begun to write this, and nothing of it was sent:"), null, null, place);
  place.append(written);
}

// What a page says about events while it is open. Others write the names: they are shown as plain, visible text.

import { person } from "./local_storage.js";
import { text } from "./texts.js";

export const live = document.querySelector("[data-live]");

// Where a question says something: on its own page, or beside the list, which has such a place itself.
export const liveIn = (page) => page.querySelector("[data-live], [data-live-beside]");

const ROW = {
  answered: text("answered"),
  declined: text("declined"),
  expired: text("its time ran out"),
  withdrawn: text("withdrawn"),
  exhausted: text("closed"),
  returned: text("sent back"),
  attempted: text("an answer did not fit"),
  voted: text("a vote came in"),
  reminded: text("reminded"),
  escalated: text("escalated"),
  unreached: text("nobody could be told of it"),
  reported: text("the agent reported what came of it"),
  asked_back: text("the agent was asked something"),
  noted: text("a note was added"),
  replied: text("the agent replied"),
  replaced: text("the agent asked again"),
  taken: text("taken"),
  released: text("released"),
  brought_in: text("others were brought in"),
  handed_over: text("handed over"),
  set_aside: text("set aside"),
  put_back: text("put back"),
};

export const SETTLED = ["answered", "declined", "expired", "withdrawn", "exhausted", "returned"];
export const MESSAGES = ["asked_back", "noted", "replied"];
export const SHARING = ["taken", "released", "brought_in", "handed_over", "set_aside", "put_back"];

const seen = (name) =>
  String(name).replace(/[\p{Cc}\p{Cf}\p{Co}\p{Cs}\p{Cn}\p{Zl}\p{Zp}\u115f\u1160\u3164\uffa0\u2800\u034f\u17b4\u17b5]/gu, (each) =>
    `‹U+${each.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}›`);

// It follows "by".
const nameOf = (by) => (by === person ? text("you") : seen(by));

export function make(tag, name = "", words = "") {
  const made = document.createElement(tag);
  if (name) made.className = name;
  made.textContent = words;
  return made;
}

// Say something, with a link if there is one.
export function say(sentence, link, href, place = live) {
  if (!place) return null;
  place.replaceChildren(document.createTextNode(`${sentence} `));
  place.hidden = false;
  if (!link) return null;
  const anchor = document.createElement("a");
  anchor.href = href;
  anchor.textContent = link;
  place.append(anchor);
  return anchor;
}

export function sayNothing() {
  if (!live) return;
  live.hidden = true;
  live.replaceChildren();
}

// Say something to people who use a screen reader.
export function whisper(sentence) {
  let place = document.querySelector("[data-whisper]");
  if (!place) {
    place = document.createElement("p");
    place.className = "unseen";
    place.role = "status";
    place.dataset.whisper = "";
    document.body.append(place);
  }
  // A region that is added together with its text is not read out.
  setTimeout(() => { place.textContent = sentence; }, 50);
}

export function howItEnded(kind, by, when) {
  switch (kind) {
    case "answered":
      if (by) return text("This was answered {when} by {person}.", { when, person: nameOf(by) });
      return text("Its time ran out: the default was taken {when}.", { when });
    case "declined":
      return text("This was declined {when} by {person}.", { when, person: nameOf(by) });
    case "returned":
      return text("This was sent back {when} by {person}.", { when, person: nameOf(by) });
    case "expired":
      return text("Its time ran out {when}.", { when });
    case "withdrawn":
      return text("The agent withdrew this {when}.", { when });
    default:
      return text("This was closed {when}, after too many answers that did not fit.", { when });
  }
}

export function howItChanged(kind, by) {
  if (by && kind === "taken") return text("{person} is on this now. You can still decide.", { person: nameOf(by) });
  if (!by) return text("It changed just now: {what}.", { what: ROW[kind] });
  return text("It changed just now: {what}, by {person}.", { what: ROW[kind], person: nameOf(by) });
}

// Somebody wrote something that this page does not show.
export function whatIsNew(kind, by) {
  if (kind === "replied") return text("The agent has replied. Read it before you decide.");
  if (!by) return text("There is a new message. Read it before you decide.");
  return text("There is a new message by {person}. Read it before you decide.", { person: nameOf(by) });
}

export function inARow(kind, by) {
  if (by && kind === "answered") return text("answered by {person}", { person: nameOf(by) });
  if (by && kind === "declined") return text("declined by {person}", { person: nameOf(by) });
  if (by && kind === "returned") return text("sent back by {person}", { person: nameOf(by) });
  if (by && kind === "taken") return by === person ? text("you are on this") : text("{person} is on this", { person: nameOf(by) });
  return ROW[kind];
}

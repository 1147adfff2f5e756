// What a page says about what happens while it is open. Names are written by others: they are text, and visible.

import { person } from "./local_storage.js";

export const live = document.querySelector("[data-live]");

const ROW = {
  answered: "answered",
  declined: "declined",
  expired: "its time ran out",
  withdrawn: "withdrawn",
  exhausted: "closed",
  attempted: "an answer did not fit",
  voted: "a vote came in",
  reminded: "reminded",
  escalated: "escalated",
  unreached: "nobody could be told of it",
};

export const SETTLED = ["answered", "declined", "expired", "withdrawn", "exhausted"];

const seen = (text) =>
  String(text).replace(/[\p{Cc}\p{Cf}\p{Co}\p{Cs}\p{Cn}\p{Zl}\p{Zp}\u115f\u1160\u3164\uffa0\u2800\u034f\u17b4\u17b5]/gu, (each) =>
    `‹U+${each.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}›`);

const nameOf = (by) => (by === person ? "you" : seen(by));

// Say something, with a link that leads on where there is one.
export function say(text, link, href) {
  if (!live) return null;
  live.replaceChildren(document.createTextNode(`${text} `));
  live.hidden = false;
  if (!link) return null;
  const anchor = document.createElement("a");
  anchor.href = href;
  anchor.textContent = link;
  live.append(anchor);
  return anchor;
}

export function sayNothing() {
  if (!live) return;
  live.hidden = true;
  live.replaceChildren();
}

// Say something to those who listen to the page and do not see it.
export function whisper(text) {
  let place = document.querySelector("[data-whisper]");
  if (!place) {
    place = document.createElement("p");
    place.className = "unseen";
    place.role = "status";
    place.dataset.whisper = "";
    document.body.append(place);
  }
  // A region that comes together with its text is not read out.
  setTimeout(() => { place.textContent = text; }, 50);
}

export function howItEnded(kind, by, when) {
  switch (kind) {
    case "answered":
      return by ? `This was answered ${when} by ${nameOf(by)}.` : `Its time ran out: the default was taken ${when}.`;
    case "declined":
      return `This was declined ${when} by ${nameOf(by)}.`;
    case "expired":
      return `Its time ran out ${when}.`;
    case "withdrawn":
      return `The agent withdrew this ${when}.`;
    default:
      return `This was closed ${when}, after too many answers that did not fit.`;
  }
}

export function howItChanged(kind, by) {
  return by ? `It changed just now: ${ROW[kind]}, by ${nameOf(by)}.` : `It changed just now: ${ROW[kind]}.`;
}

export function inARow(kind, by) {
  return by && ["answered", "declined"].includes(kind) ? `${ROW[kind]} by ${nameOf(by)}` : ROW[kind];
}

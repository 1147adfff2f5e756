// Receives events, reconnects by itself, and says when it cannot.

import { MESSAGES, SETTLED, SHARING } from "./announcements.js";
import { text } from "./texts.js";

const KINDS = [...SETTLED, ...MESSAGES, ...SHARING, "replaced", "asked", "attempted", "voted", "reminded", "escalated", "unreached", "reported"];
export const PATIENCE = 10_000; // the milliseconds in which a running server answers
const LONGEST_PAUSE = 30_000;
const NOTICE_AFTER = 3_000;
const LONG_AWAY = 60_000;

// `heard(kind, event)` gets every event. `look()` is called when some may have been missed, also at the start: between
// the page and its stream there is a gap. Unless it must `always` listen, a page disconnects while nobody looks at it:
// a browser has few connections to one server, and every open tab would take one.
export function listen({ heard, look, always = false }) {
  let source = null;
  let pauses = 0;
  let coming = null;
  let gone = false;
  let hiddenAt = 0;

  function open() {
    coming = null;
    if (gone || source) return;
    source = new EventSource("/v1/events");
    source.addEventListener("ready", () => {
      pauses = 0;
      connected();
      dispatchEvent(new Event("connected"));
      look();
    });
    for (const kind of KINDS) {
      source.addEventListener(kind, (message) => heard(kind, JSON.parse(message.data)));
    }
    source.addEventListener("error", lost);
  }

  async function lost() {
    disconnected();
    // The browser reconnects by itself unless it was refused; the server may only be starting.
    if (source?.readyState !== EventSource.CLOSED) return;
    close();
    const answer = await fetch("/v1/me").catch(() => null);
    if (gone) return;
    if (answer?.status === 401) {
      signedOut();
      gone = true;
    } else {
      pauses += 1;
      coming ??= setTimeout(open, Math.min(LONGEST_PAUSE, 500 * 2 ** pauses) * (0.5 + Math.random() / 2));
    }
  }

  function close() {
    source?.close();
    source = null;
  }

  document.addEventListener("visibilitychange", () => {
    if (document.visibilityState === "hidden") {
      hiddenAt = Date.now();
      if (always) return;
      close();
      clearTimeout(coming);
      coming = null;
      connected();
    } else if (!source && !coming) {
      open();
    } else if (Date.now() - hiddenAt > LONG_AWAY) {
      look();
    }
  });
  addEventListener("online", () => { if (source) look(); });
  addEventListener("pagehide", () => { gone = true; close(); }, { once: true });
  open();
}

// The note about the connection is at the bottom of the window, where it does not move anything.

let note = null;
let noting = null;
let isLost = false;

export const seemsConnected = () => navigator.onLine && !isLost;

function disconnected() {
  isLost = true;
  const writes = document.querySelector("[data-answer]") !== null;
  const words = writes ? text("Not connected. Trying again; what you write is kept.") : text("Not connected. Trying again.");
  noting ??= setTimeout(tell, NOTICE_AFTER, words);
}

function connected() {
  isLost = false;
  clearTimeout(noting);
  noting = null;
  if (note) note.hidden = true;
}

function signedOut() {
  clearTimeout(noting);
  tell(text("You are signed out."));
  const anchor = document.createElement("a");
  anchor.href = location.href;
  anchor.textContent = text("Sign in again");
  note.append(" ", anchor);
}

function tell(words) {
  if (!note) {
    note = document.createElement("p");
    note.className = "afloat";
    note.role = "status";
    document.body.append(note);
  }
  note.textContent = words;
  note.hidden = false;
}

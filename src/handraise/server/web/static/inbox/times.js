// Keeps times true while a page is open. The words are those of `span` in page_texts.py.

const UNITS = [[86_400, "day"], [3_600, "hour"], [60, "minute"]];
const OFTEN = 5_000;

const count = (number, unit) => (number === 1 ? `1 ${unit}` : `${number} ${unit}s`);

export function span(length) {
  const seconds = Math.max(0, Math.trunc(length));
  const place = UNITS.findIndex(([size]) => seconds >= size);
  if (place < 0) return "less than a minute";
  const [size, unit] = UNITS[place];
  const whole = Math.trunc(seconds / size);
  const [below, name] = UNITS[place + 1] ?? [Infinity, ""];
  const rest = Math.trunc((seconds % size) / below);
  return whole < 3 && rest ? `${count(whole, unit)} ${count(rest, name)}` : count(whole, unit);
}

// The clock of a browser may be wrong: the page says what time it was when it was made.
const began = performance.now();
const then = Date.parse(document.body.dataset.now);

function show(time) {
  const left = (Date.parse(time.dateTime) - then - (performance.now() - began)) / 1000;
  const past = `${span(-left)} ago`;
  const kinds = {
    past: () => (left > -60 ? "just now" : past),
    any: () => (left > 0 ? `in ${span(left)}` : left > -60 ? "just now" : past),
    waited: () => `waited ${span(-left)}`,
    end: () => (left > 0 ? `expires in ${span(left)}` : "its time is up"),
  };
  const text = kinds[time.dataset.tick]();
  if (time.textContent !== text) time.textContent = text;
}

function showAll() {
  document.querySelectorAll("time[data-tick]").forEach(show);
}

export function startTimes() {
  setInterval(showAll, OFTEN);
  document.addEventListener("visibilitychange", () => { if (document.visibilityState === "visible") showAll(); });
}

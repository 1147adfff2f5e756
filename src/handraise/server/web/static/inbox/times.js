// Keeps times up to date while a page is open, on the browser's clock. The words are those of `span` and `moment` in
// presentation/times.py.

import { counted, language, text } from "./texts.js";

const DAY = 86_400;
const HOUR = 3_600;
const MINUTE = 60;
const FEW = 3; // two days and how many hours, but three days
const OFTEN = 5_000;
const YEAR = 365 * DAY;

const days = (count) => counted(count, "{count} day", "{count} days");
const hours = (count) => counted(count, "{count} hour", "{count} hours");
const minutes = (count) => counted(count, "{count} minute", "{count} minutes");

export function span(length) {
  const seconds = Math.max(0, Math.trunc(length));
  const whole = (size, within = Infinity) => Math.trunc((seconds % within) / size);
  const two = (count, larger, rest, smaller) => (count < FEW && rest ? `${larger(count)} ${smaller(rest)}` : larger(count));
  if (seconds >= DAY) return two(whole(DAY), days, whole(HOUR, DAY), hours);
  if (seconds >= HOUR) return two(whole(HOUR), hours, whole(MINUTE, HOUR), minutes);
  return seconds >= MINUTE ? minutes(whole(MINUTE)) : text("less than a minute");
}

function age(length) {
  const seconds = Math.max(0, length);
  if (seconds < HOUR) return text("{count} min", { count: Math.trunc(seconds / MINUTE) });
  return seconds < DAY ? text("{count} h", { count: Math.trunc(seconds / HOUR) }) : text("{count} d", { count: Math.trunc(seconds / DAY) });
}

// The clock of a browser may be wrong: the page says what time it was when it was made.
const began = performance.now();
const then = Date.parse(document.body.dataset.now);

function show(time) {
  const left = (Date.parse(time.dateTime) - then - (performance.now() - began)) / 1000;
  const past = () => (left > -MINUTE ? text("just now") : text("{span} ago", { span: span(-left) }));
  const kinds = {
    past,
    any: () => (left > 0 ? text("in {span}", { span: span(left) }) : past()),
    waited: () => text("waited {span}", { span: span(-left) }),
    age: () => age(-left),
    end: () => (left > 0 ? text("expires in {span}", { span: span(left) }) : text("its time is up")),
  };
  const words = kinds[time.dataset.tick]();
  if (time.textContent !== words) time.textContent = words;
}

function showAll() {
  document.querySelectorAll("time[data-tick]").forEach(show);
}

// The server learns the browser's time zone from a cookie. What it wrote before it knew is written again here.
const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;

function keepZone() {
  const secure = location.protocol === "https:" ? "; secure" : "";
  document.cookie = `time_zone=${zone}; path=/; max-age=${YEAR}; samesite=lax${secure}`;
}

function moment(iso) {
  const format = new Intl.DateTimeFormat(language === "en" ? "en-GB" : language, {
    timeZone: zone, day: "numeric", month: "long", year: "numeric", hour: "2-digit", minute: "2-digit", hourCycle: "h23", timeZoneName: "short",
  });
  const parts = Object.fromEntries(format.formatToParts(new Date(iso)).map(({ type, value }) => [type, value]));
  const { day, month, year, hour, minute, timeZoneName } = parts;
  return text("{day} {month} {year}, {time} {zone}", { day, month, year, time: `${hour}:${minute}`, zone: timeZoneName });
}

function showInZone() {
  for (const time of document.querySelectorAll("time[title]")) time.title = moment(time.dateTime);
  for (const time of document.querySelectorAll("time[data-full]")) time.textContent = moment(time.dateTime);
}

export function startTimes() {
  if (zone) keepZone();
  // A page on the clock that the person chose does not name a zone.
  if (zone && (document.body.dataset.timeZone ?? zone) !== zone) showInZone();
  setInterval(showAll, OFTEN);
  document.addEventListener("visibilitychange", () => { if (document.visibilityState === "visible") showAll(); });
}

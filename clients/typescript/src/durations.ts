/** A length of time: seconds, or a text such as "90s", "10m", "2h", "3d" or "1h30m". */
export type Span = number | string;

const UNITS: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3_600, d: 86_400, w: 604_800 };
const NUMBER = "[0-9]{1,9}(?:\\.[0-9]{1,6})?";
const SECONDS = new RegExp(`^${NUMBER}$`);
const SPAN = new RegExp(`^(?:${NUMBER}[smhdw])+$`);

/** A span in seconds. Throws `TypeError` if it is not one. */
export function secondsOf(span: Span): number {
  if (typeof span === "number") {
    if (Number.isNaN(span)) throw new TypeError("NaN is not a span");
    return span;
  }
  const text = String(span).trim();
  if (SECONDS.test(text)) return Number(text);
  if (!SPAN.test(text)) {
    throw new TypeError(`"${text.slice(0, 100)}" is not a span: write it as "90s", "10m", "2h", "3d" or "1h30m"`);
  }
  let seconds = 0;
  for (const [part] of text.matchAll(new RegExp(`${NUMBER}[smhdw]`, "g"))) {
    seconds += Number(part.slice(0, -1)) * (UNITS[part.slice(-1)] ?? Number.NaN);
  }
  return seconds;
}

/** JSON text and digests. Nothing is changed on the way: what is not JSON is refused. */

/** The canonical text of a value (RFC 8785). The server computes the same. */
export function canonicalJson(value: unknown): string {
  return encode(value, true);
}

/** The SHA-256 of the canonical text, as hexadecimal. */
export async function digest(value: unknown): Promise<string> {
  const bytes = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(canonicalJson(value)));
  return Array.from(new Uint8Array(bytes), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/**
 * The text of a value, with the members of objects in their own order. `JSON.stringify` would make null of NaN, and a
 * text of a Date: people would see something else than the program meant.
 */
export function jsonText(value: unknown): string {
  return encode(value, false);
}

function encode(value: unknown, sorted: boolean): string {
  if (value === null) return "null";
  switch (typeof value) {
    case "boolean":
      return String(value);
    case "number":
      if (!Number.isFinite(value)) throw new TypeError(`${value} is not a JSON number`);
      return JSON.stringify(value);
    case "string":
      if (/\p{Surrogate}/u.test(value)) throw new TypeError("a text contains half of a surrogate pair");
      return JSON.stringify(value);
    case "object":
      if (Array.isArray(value)) return `[${Array.from(value, (each) => encode(each, sorted)).join(",")}]`;
      return encodeObject(value, sorted);
    default:
      throw new TypeError(`${typeof value} is not JSON`);
  }
}

function encodeObject(value: object, sorted: boolean): string {
  const prototype: unknown = Object.getPrototypeOf(value);
  // Also of an object from another realm, such as a frame.
  if (prototype !== null && Object.getPrototypeOf(prototype) !== null) {
    throw new TypeError(`${value.constructor?.name ?? "this object"} is not JSON`);
  }
  const members = Object.entries(value).filter(([, member]) => member !== undefined);
  if (sorted) members.sort(([a], [b]) => (a < b ? -1 : 1)); // by UTF-16 code units, as RFC 8785 says
  return `{${members.map(([name, member]) => `${encode(name, sorted)}:${encode(member, sorted)}`).join(",")}}`;
}

/** An id that sorts by the time at which it was made (RFC 9562). */
export function uuid7(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  const milliseconds = Date.now();
  for (let place = 0; place < 6; place++) bytes[place] = Math.floor(milliseconds / 2 ** (8 * (5 - place))) & 0xff;
  bytes[6] = 0x70 | ((bytes[6] ?? 0) & 0x0f);
  bytes[8] = 0x80 | ((bytes[8] ?? 0) & 0x3f);
  const text = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
  return text.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
}

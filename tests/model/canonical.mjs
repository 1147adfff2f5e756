// RFC 8785 in a program of its own: reads a JSON text per line, writes the SHA-256 of its canonical text per line.
import { createHash } from "node:crypto";
import { createInterface } from "node:readline";

const canonical = (value) => {
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (value === null || typeof value !== "object") return JSON.stringify(value);
  const names = Object.keys(value).sort(); // by UTF-16 code units
  return `{${names.map((name) => `${JSON.stringify(name)}:${canonical(value[name])}`).join(",")}}`;
};

for await (const line of createInterface({ input: process.stdin })) {
  console.log(createHash("sha256").update(canonical(JSON.parse(line))).digest("hex"));
}

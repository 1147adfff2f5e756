import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

test("what the page shows stands in the program that is tested", () => {
  const read = (path: string): string => readFileSync(new URL(path, import.meta.url), "utf8");
  const program = read("../test/agent.ts").replaceAll(/\b(aiSdk|mastra)\./g, "");
  const blocks = [...read("../README.md").matchAll(/^```ts\n(.*?)^```$/gms)].map(([, text = ""]) => text);
  const [imports, pieces] = [blocks.filter((text) => text.startsWith("import")), blocks.filter((text) => !text.startsWith("import"))];
  for (const piece of pieces) assert.ok(program.includes(piece), piece);
  for (const text of imports) {
    const path = /agent-tools\/([\w-]+)"/.exec(text)?.[1] ?? "";
    const { exports } = JSON.parse(read("../package.json")) as { exports: Record<string, unknown> };
    assert.ok(`./${path}` in exports, text);
  }
  assert.equal(pieces.length, 2);
});

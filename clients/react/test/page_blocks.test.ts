import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import ts from "typescript";

const HERE = fileURLToPath(new URL("..", import.meta.url));

test("the programs of the page have the right types", (t) => {
  const page = readFileSync(join(HERE, "../../docs/how-to/show-questions-in-react.md"), "utf8");
  const blocks = [...page.matchAll(/^```tsx\n\/\/ (\w+\.tsx)\n(.*?)^```$/gms)];
  assert.equal(blocks.length, 3);
  const folder = mkdtempSync(join(HERE, "build/page-"));
  t.after(() => rmSync(folder, { recursive: true }));
  writeFileSync(join(folder, "package.json"), '{"type": "module"}');
  // As it is installed: by its own name, beside the others.
  symlinkSync(join(HERE, "node_modules"), join(folder, "node_modules"));
  const files = blocks.map(([, name = "", text = ""]) => {
    writeFileSync(join(folder, name), text);
    return join(folder, name);
  });
  const program = ts.createProgram(files, {
    target: ts.ScriptTarget.ES2022,
    module: ts.ModuleKind.NodeNext,
    jsx: ts.JsxEmit.ReactJSX,
    strict: true,
    noEmit: true,
    skipLibCheck: true,
    types: ["node", "react"],
    paths: { "@handraise/react": [join(HERE, "dist/index.d.ts")] },
  });
  const found = ts.getPreEmitDiagnostics(program).map(({ messageText }) => ts.flattenDiagnosticMessageText(messageText, "\n"));
  assert.deepEqual(found, []);
});

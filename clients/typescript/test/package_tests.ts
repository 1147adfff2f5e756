/** The package as it is published: its size, and that its pages' programs run where nothing else is installed. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdir, mkdtemp, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import ts from "typescript";
import { ROOT } from "./cases.js";
import { programsOf } from "./pages.js";
import { server } from "./shared.js";

const run = promisify(execFile);
const HERE = fileURLToPath(new URL("../", import.meta.url));
const PAGES = ["clients/typescript/README.md", "docs/how-to/ask-from-typescript.md"];
const MOST_BYTES = 26_000;
/** Deno and Bun are large: only nightly has them. */
const IS_NIGHTLY = process.env["HANDRAISE_TIER"] === "nightly";
const RUNTIMES = fileURLToPath(new URL(".cache/runtimes/node_modules/.bin", ROOT));

let folder: string;
let packed: string;

before(async () => {
  folder = await mkdtemp(join(tmpdir(), "handraise-package-"));
  const { stdout } = await run("npm", ["pack", "--silent", "--ignore-scripts", "--pack-destination", folder], { cwd: HERE });
  packed = join(folder, stdout.trim());
});

test("the package is small", async () => {
  const { size } = await stat(packed);
  assert.ok(size <= MOST_BYTES, `the package has ${size} bytes`);
});

test("the package installs in an empty folder, and the programs of its pages run there", async (t) => {
  const empty = join(folder, "empty");
  await mkdir(empty);
  t.after(() => rm(folder, { recursive: true, force: true }));
  await writeFile(join(empty, "package.json"), '{"type": "module"}');
  // Zod is what one page imports besides; it is not a dependency of ours.
  const zod = join(HERE, "node_modules", "zod");
  await run("npm", ["install", "--silent", "--no-audit", "--no-fund", "--no-package-lock", packed, zod], { cwd: empty });
  const programs = PAGES.flatMap((page) => programsOf(new URL(page, ROOT)));
  for (const { name, text } of programs) await writeFile(join(empty, name), text);
  assert.deepEqual(mistakesIn(programs.map(({ name }) => join(empty, name))), []);
  t.after(server.agreeable());
  for (const runtime of [inNode, ...(IS_NIGHTLY ? [inDeno, inBun] : [])]) {
    for (const program of programs) {
      assert.equal(await runtime(program.name, program.text, empty), program.output, `${runtime.name}: ${program.name}`);
    }
  }
});

/** What the compiler finds in programs that use the package as it was installed. */
function mistakesIn(files: readonly string[]): string[] {
  const program = ts.createProgram(files, {
    strict: true,
    exactOptionalPropertyTypes: true,
    noEmit: true,
    target: ts.ScriptTarget.ES2022,
    module: ts.ModuleKind.NodeNext,
    lib: ["lib.es2022.d.ts", "lib.dom.d.ts", "lib.esnext.disposable.d.ts"],
    types: [],
  });
  return ts.getPreEmitDiagnostics(program).map(({ messageText }) => ts.flattenDiagnosticMessageText(messageText, "\n"));
}

async function inNode(name: string, text: string, folder: string): Promise<string> {
  const compilerOptions = { target: ts.ScriptTarget.ES2022, module: ts.ModuleKind.ESNext };
  const file = join(folder, name.replace(/\.ts$/, ".js"));
  await writeFile(file, ts.transpileModule(text, { compilerOptions }).outputText);
  return printed(process.execPath, [file], folder, server.key);
}

/** Each runtime is an agent of its own: the same key of another agent is another question. */
async function inDeno(name: string, _: string, folder: string): Promise<string> {
  return printed(join(RUNTIMES, "deno"), ["run", "--allow-all", name], folder, server.others[0]);
}

async function inBun(name: string, _: string, folder: string): Promise<string> {
  return printed(join(RUNTIMES, "bun"), ["run", name], folder, server.others[1]);
}

async function printed(command: string, words: readonly string[], cwd: string, key: string | undefined): Promise<string> {
  const env = { ...process.env, HANDRAISE_URL: server.url, HANDRAISE_KEY: key };
  return (await run(command, words, { cwd, env, timeout: 60_000 })).stdout.trim();
}

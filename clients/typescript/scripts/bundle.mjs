// Makes dist, which is published, of what the compiler has made in build/src: one file that people can read, and one with its types.
import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const compiled = new URL("../build/src/", import.meta.url);
const dist = new URL("../dist/", import.meta.url);

await rm(dist, { recursive: true, force: true });
await mkdir(dist);
await build({
  entryPoints: [fileURLToPath(new URL("index.js", compiled))],
  outfile: fileURLToPath(new URL("index.js", dist)),
  bundle: true,
  format: "esm",
  charset: "utf8",
  target: "es2022",
});

// The types are one file too: beside each other they take more room. Only what index exports can be imported.
const names = new Set(["index"]);
const parts = [];
const exported = [];
for (const name of names) {
  const text = await readFile(new URL(`${name}.d.ts`, compiled), "utf8");
  for (const [, found] of text.matchAll(/from "\.\/(\w+)\.js"/g)) names.add(found);
  if (name !== "index") {
    parts.push(text.replace(/^import .*;\n|^export \{\};\n/gm, "").replace(/^export /gm, ""));
    continue;
  }
  for (const [, isType, listed, from] of text.matchAll(/^export (type )?(?:\{(.*)\}|\*) from "\.\/(\w+)\.js";$/gm)) {
    const all = await readFile(new URL(`${from}.d.ts`, compiled), "utf8");
    const found = listed?.split(",") ?? [...all.matchAll(/^export declare \w+ (\w+)/gm)].map(([, each]) => each);
    exported.push(...found.flatMap((each) => (each.trim() ? `${isType ?? ""}${each.trim()}` : [])));
  }
}
await writeFile(new URL("index.d.ts", dist), `${parts.join("")}export { ${exported.join(", ")} };\n`);

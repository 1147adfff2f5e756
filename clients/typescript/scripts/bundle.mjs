// Makes dist, which is published, of what the compiler has made in build/src: one small file, and the types that it uses.
import { copyFile, mkdir, readFile, rm } from "node:fs/promises";
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
  minify: true,
  format: "esm",
  charset: "utf8",
  target: "es2022",
});

const names = new Set(["index"]);
for (const name of names) {
  const text = await readFile(new URL(`${name}.d.ts`, compiled), "utf8");
  for (const [, found] of text.matchAll(/from "\.\/(\w+)\.js"/g)) names.add(found);
  await copyFile(new URL(`${name}.d.ts`, compiled), new URL(`${name}.d.ts`, dist));
}

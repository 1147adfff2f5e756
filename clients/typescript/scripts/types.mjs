// Makes src/openapi.ts from docs/reference/openapi.json: the schemas that an agent sends and gets.
// `node scripts/types.mjs --check` fails if that file is stale.
import { readFile, writeFile } from "node:fs/promises";
import openapiTS, { astToString } from "openapi-typescript";

const USED = [
  "ActionRecord",
  "CallerRecord",
  "ConsumeQuestion",
  "EventPage",
  "HeartbeatsRecord",
  "OutcomeStates",
  "PostQuestion",
  "ProblemDocument",
  "QuestionPage",
  "ReceiptToken",
  "ReplyToPeople",
  "ReportQuestion",
  "Thread",
];

const source = new URL("../../../docs/reference/openapi.json", import.meta.url);
const target = new URL("../src/openapi.ts", import.meta.url);
const all = JSON.parse(await readFile(source, "utf8"));

const schemas = {};
const names = [...USED];
for (let name = names.pop(); name !== undefined; name = names.pop()) {
  if (name in schemas) continue;
  const schema = all.components.schemas[name];
  schemas[name] = adapted(name, schema);
  for (const [, found] of JSON.stringify(schema).matchAll(/#\/components\/schemas\/([\w-]+)/g)) names.push(found);
}

/** In what a program writes, a field with a default can be left out; in what it reads, the server has filled it in. */
function adapted(name, schema) {
  const isWritten = !/(Record|Page|Document|Entry|State|States|Thread|Token|-Output)$/.test(name);
  const { title, properties = {}, required = [], ...rest } = schema;
  const kept = {};
  for (const [field, { title: _, default: byDefault, ...part }] of Object.entries(properties)) {
    kept[field] = isWritten || byDefault === undefined ? part : { ...part, default: byDefault };
  }
  const always = "const" in (properties.kind ?? {}) ? ["kind"] : [];
  return schema.properties ? { ...rest, properties: kept, required: [...required, ...always] } : schema;
}

const sorted = Object.fromEntries(Object.entries(schemas).sort(([a], [b]) => (a < b ? -1 : 1)));
const document = { openapi: all.openapi, info: all.info, paths: {}, components: { schemas: sorted } };
const parts = astToString(await openapiTS(document, { immutable: true, alphabetize: true, rootTypes: false }));
// Comments would double the size of the package; records.ts has those that people need.
const uncommented = parts.replace(/^ *\/\*\*.*?\*\/\n/gms, "");
const components = uncommented.slice(uncommented.indexOf("export interface components"));
const text = `// Made from docs/reference/openapi.json by \`npm run types\`. Do not edit it.\n\n${components.slice(
  0,
  components.indexOf("\n}") + 3,
)}`;

if (process.argv.includes("--check")) {
  if ((await readFile(target, "utf8")) !== text) {
    console.error("src/openapi.ts is stale: run `npm run types` and commit the result.");
    process.exit(1);
  }
} else {
  await writeFile(target, text);
}

import assert from "node:assert/strict";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { type AddressInfo, createServer } from "node:net";
import { test } from "node:test";
import { inspect } from "node:util";
import { HandraiseError, canonicalJson, digest, openDesk } from "../build/src/index.js";
import { secondsOf } from "../build/src/durations.js";
import * as errors from "../build/src/errors.js";
import { errorOf, isTemporary } from "../build/src/errors.js";
import { messagesOf } from "../build/src/event_stream.js";
import { formFromSchema } from "../build/src/forms.js";
import { HttpTransport } from "../build/src/http_transport.js";
import { jsonText } from "../build/src/json.js";
import { ROOT, type ScriptedResponse, cases } from "./cases.js";

const QUESTION = "01a1dded-01b0-7a52-879e-fbf5034a9f20";

test("canonical text and digest", async () => {
  for (const each of cases.canonical) {
    assert.equal(canonicalJson(each.value), each.text);
    assert.equal(await digest(each.value), each.digest);
  }
  for (const each of cases.not_canonical) await assert.rejects(digest(each), TypeError);
});

test("what is not JSON is refused and never changed", () => {
  for (const each of [Number.NaN, Infinity, 1n, undefined, () => 1, Symbol("x"), new Date(), new Map(), [undefined]]) {
    assert.throws(() => canonicalJson({ value: [each] }), TypeError);
    assert.throws(() => jsonText({ value: [each] }), TypeError);
  }
  assert.throws(() => jsonText([1, , 2]), TypeError);
  assert.equal(jsonText({ b: 1, a: undefined, __proto__: null }), '{"b":1}');
});

test("spans", () => {
  for (const [text, seconds] of Object.entries(cases.spans)) assert.equal(secondsOf(text), seconds, text);
  for (const text of cases.not_spans) assert.throws(() => secondsOf(text), TypeError, text);
});

test("an error by its document", () => {
  for (const { document, error, tried_again } of cases.errors) {
    const made = errorOf(document);
    assert.equal(made.constructor, errors[error], document.code);
    assert.equal(made.name, error, document.code);
    assert.equal(isTemporary(made), tried_again, document.code);
  }
});

test("all codes are known here that are known in Python, and no others", () => {
  const source = readFileSync(new URL("clients/typescript/src/errors.ts", ROOT), "utf8");
  const table = /const KNOWN[^]*?\n\};/.exec(source)?.[0] ?? "";
  const known = [...table.matchAll(/^  (\w+): \w+,$/gm)].map(([, code]) => code);
  assert.deepEqual(known.sort(), [...cases.error_codes].sort());
});

test("a rate limit that does not say for how long is one second", () => {
  const document = cases.errors.find((each) => each.error === "TooManyRequests")?.document;
  assert.ok(document);
  for (const said of ["30s", null, -1, Infinity, {}]) {
    const error = errorOf({ ...document, retry_after: said as number });
    assert.equal((error as errors.TooManyRequests).retryAfter, 1);
  }
});

test("an error that is printed shows no answer", () => {
  const document = cases.errors.find((each) => each.document.outcome)?.document;
  assert.ok(document?.outcome);
  const error = errorOf({ ...document, outcome: { ...document.outcome, value: "only for the asker" } });
  assert.equal(error.document?.outcome?.value, "only for the asker");
  assert.ok(!inspect(error, { depth: 10 }).includes("only for the asker"));
});

test("the form of a schema", () => {
  for (const { schema, form } of cases.forms) {
    if (form === null) assert.throws(() => formFromSchema(schema), { code: "invalid_question" });
    else assert.deepEqual(formFromSchema(schema), form);
  }
});

test("a stream in pieces has the same messages", async () => {
  const bytes = new TextEncoder().encode(
    'event: ready\r\ndata: {"heartbeat": 1}\r\nid: 0\r\n\r\n: only a comment\nretry: 5\n\n: still here\nid: 7\n\n\nevent: answered\ndata: {"ü":\ndata: 1}\nid: 8\n\nevent: cut',
  );
  const expected = [
    { event: "ready", data: '{"heartbeat": 1}', id: "0" },
    { event: "message", data: "", id: "7" },
    { event: "answered", data: '{"ü":\n1}', id: "8" },
  ];
  for (const size of [1, 2, 3, 7, bytes.length]) {
    const body = new ReadableStream<Uint8Array>({
      start(controller) {
        for (let start = 0; start < bytes.length; start += size) controller.enqueue(bytes.slice(start, start + size));
        controller.close();
      },
    });
    const found = [];
    for await (const message of messagesOf(body)) found.push(message);
    assert.deepEqual(found, expected);
  }
});

test("a message of a stream that does not end is given up", async () => {
  const chunk = new TextEncoder().encode("x".repeat(500_000));
  const body = new ReadableStream<Uint8Array>({ pull: (controller) => controller.enqueue(chunk) });
  await assert.rejects(messagesOf(body).next(), /too large/);
});

for (const each of cases.retries) {
  test(`tried again: ${each.name}`, async () => {
    const heads: string[] = [];
    const server = createServer((socket) => {
      socket.on("error", () => undefined);
      socket.once("data", (head) => {
        heads.push(String(head));
        const script = each.responses[Math.min(heads.length, each.responses.length) - 1] ?? {};
        socket.end(responseOf(script));
      });
    });
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const began = performance.now();
    let error: unknown = null;
    try {
      await call(each.verb ?? "call", url);
    } catch (thrown) {
      error = thrown;
    }
    const lasted = (performance.now() - began) / 1000;
    server.close();
    assert.equal(error instanceof HandraiseError ? error.name : error, each.error);
    assert.equal(heads.length, each.requests);
    const keys = new Set(heads.map((head) => /^idempotency-key: .*$/im.exec(head)?.[0]));
    assert.deepEqual(keys.has(undefined), each.verb === "open");
    assert.equal(keys.size, 1, "a request that is sent again has the same idempotency key");
    assert.ok(lasted >= (each.at_least ?? 0), `it came again after ${lasted} seconds`);
  });
}

async function call(verb: string, url: string): Promise<void> {
  const log = (): void => undefined;
  if (verb === "call") {
    const transport = new HttpTransport([url], { key: "hra_x", log, fetch });
    await transport.call("POST", `/v1/questions/${QUESTION}/apply-grant`);
    return;
  }
  const isScripted = verb === "open";
  const desk = await openDesk({
    url,
    key: "hra_x",
    log,
    fetch: async (target, request) =>
      isScripted || !String(target).endsWith("/v1/me")
        ? fetch(target, request)
        : Response.json({ workspace: "default", agent: "agent" }),
  });
  if (verb === "consume") await desk.consumeApproval(QUESTION);
  await desk.close();
}

function responseOf(script: ScriptedResponse): string {
  if (script.status === undefined) return "";
  const [type, text] =
    script.document !== undefined
      ? ["application/problem+json", JSON.stringify(script.document)]
      : script.body !== undefined
        ? ["application/json", JSON.stringify(script.body)]
        : ["text/html", script.text ?? ""];
  const length = text.length + (script.cut ? 10 : 0);
  const location = script.location === undefined ? "" : `location: ${script.location}\r\n`;
  const head = `HTTP/1.1 ${script.status} X\r\ncontent-type: ${type}\r\ncontent-length: ${length}\r\n${location}`;
  return `${head}connection: close\r\n\r\n${text}`;
}

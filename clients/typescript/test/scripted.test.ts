/** What a client makes of responses that no server of ours gives: a script in place of `fetch`. */
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  type AnswerOf,
  type AskOptions,
  type Desk,
  type DeskOptions,
  QuestionNotFound,
  StillPending,
  StoreUnavailable,
  Unauthenticated,
  approvalForm,
  openDesk,
} from "../build/src/index.js";
import { HttpTransport, heartbeatOf } from "../build/src/http_transport.js";
import { timing } from "../build/src/timing.js";

const QUESTION = "01a1dded-01b0-7a52-879e-fbf5034a9f20";
const FOREIGN = "01a1dded-01b0-7a52-879e-fbf5034a9f21";
const OUTCOME = { status: "answered", at: "2026-01-02T03:04:05Z", by: "ana", value: "yes", source: "person" };
const log = (): void => undefined;

function refused(status: number, code: string): Response {
  const document = { type: `urn:handraise:problem:${code}`, title: "", status, code, detail: "Said by the server." };
  return new Response(JSON.stringify(document), { status, headers: { "content-type": "application/problem+json" } });
}

/** A desk with a script; also the paths that were requested. A path that is not in it is refused. */
async function scripted(
  script: Readonly<Record<string, (count: number) => Response>>,
  options: DeskOptions = {},
): Promise<[Desk, string[]]> {
  const paths: string[] = [];
  const desk = await openDesk({
    url: "http://scripted.test",
    key: "hra_x",
    log,
    ...options,
    fetch: async (url, request) => {
      await new Promise((later) => setTimeout(later, 1));
      request?.signal?.throwIfAborted();
      const path = String(url).replace("http://scripted.test", "");
      paths.push(path);
      if (path === "/v1/me") return Response.json({ workspace: "default", agent: "agent" });
      const [, respond] = Object.entries(script).find(([end]) => path.replace(/\?.*/, "").endsWith(end)) ?? [];
      return respond?.(paths.filter((each) => each === path).length) ?? refused(403, "permission_denied");
    },
  });
  return [desk, paths];
}

const pause = (seconds: number): Promise<void> => new Promise((later) => setTimeout(later, 1000 * seconds));

test("the redirect of a browser, which has status 0, is not a response", async (t) => {
  t.mock.method(crypto, "randomUUID", () => {
    throw new TypeError("a page without TLS does not have it");
  });
  const [desk] = await scripted({ "/apply-grant": () => Response.error() });
  await assert.rejects(desk.applyGrant(QUESTION), StoreUnavailable);
});

test("the outcome of a question that nobody asked about is not taken", async () => {
  const states = { settled: [{ id: FOREIGN, outcome: OUTCOME }], unknown: ["another"], pending: [] };
  const [desk] = await scripted({ "/v1/outcomes": () => Response.json(states) });
  await assert.rejects(desk.wait(QUESTION, { timeout: 0.1 }), StillPending);
});

test("an ending that this client does not know is an error, and not pending", async () => {
  const settled = [{ id: QUESTION, outcome: { ...OUTCOME, status: "postponed" } }];
  const [desk] = await scripted({ "/v1/outcomes": () => Response.json({ settled, unknown: [], pending: [] }) });
  for (const options of [{}, { timeout: 0 }]) {
    await assert.rejects(desk.wait(QUESTION, options), { code: "unknown_outcome", message: /ended as "postponed"/ });
  }
});

test("a wait whose key was revoked ends with an error, and so does the next", async () => {
  const states = { settled: [], unknown: [], pending: [QUESTION] };
  const respond = (count: number): Response => (count < 3 ? Response.json(states) : refused(401, "unauthenticated"));
  const [desk] = await scripted({ "/v1/outcomes": respond }, { pollInterval: 0.02 });
  for (const id of [QUESTION, QUESTION, FOREIGN]) await assert.rejects(desk.wait(id), Unauthenticated);
});

test("many waits with one signal are no leak for Node, and all of them end", async (t) => {
  const warnings: string[] = [];
  const note = (warning: Error): void => void warnings.push(String(warning));
  process.on("warning", note);
  t.after(() => process.off("warning", note));
  const [desk] = await scripted({ "/v1/outcomes": () => Response.json({ settled: [], unknown: [], pending: [] }) });
  const over = new AbortController();
  const ids = Array.from({ length: 30 }, (_, number) => `question-${number}`);
  const { signal } = over;
  const waits = ids.flatMap((id) => [desk.wait(id, { signal }), desk.wait(id, { signal, replyWith: () => undefined })]);
  const ended = Promise.allSettled(waits);
  await pause(0.1);
  over.abort(new Error("enough"));
  assert.ok((await ended).every(({ status }) => status === "rejected"));
  await pause(0.01);
  assert.deepEqual(warnings, []);
});

test("an address that swallows everything does not keep a desk from opening at the next", async (t) => {
  const before = timing.openingPatience;
  timing.openingPatience = 0.2;
  t.after(() => (timing.openingPatience = before));
  const desk = await openDesk({
    url: "http://gone.test, http://also-gone.test, http://there.test",
    key: "hra_x",
    log,
    fetch: async (url, request) => {
      if (String(url).startsWith("http://there.test")) return Response.json({ workspace: "default", agent: "agent" });
      return new Promise((_, reject) => request?.signal?.addEventListener("abort", () => reject(request.signal?.reason)));
    },
  });
  assert.equal(desk.asker, "agent");
});

test("a runtime that is too old is told so", async (t) => {
  const found = Object.getOwnPropertyDescriptor(globalThis, "crypto") as PropertyDescriptor;
  Object.defineProperty(globalThis, "crypto", { value: undefined, configurable: true });
  t.after(() => Object.defineProperty(globalThis, "crypto", found));
  await assert.rejects(openDesk({ url: "http://scripted.test", key: "hra_x" }), /needs Node 20 or later/);
});

test("after a timeout the first of the questions is returned, in the caller's order", async () => {
  const settled = [FOREIGN, QUESTION].map((id) => ({ id, outcome: OUTCOME }));
  const [desk] = await scripted({ "/v1/outcomes": () => Response.json({ settled, unknown: [], pending: [] }) });
  assert.equal((await desk.waitAny([QUESTION, FOREIGN], { timeout: 0 }))[0], QUESTION);
});

test("an empty response to a long poll is not asked for again at once", async () => {
  const [desk, paths] = await scripted({ "/v1/outcomes": () => new Response(null, { status: 204 }) });
  await assert.rejects(desk.wait(QUESTION, { timeout: 0.5 }), StoreUnavailable);
  const polls = paths.filter((path) => path.includes("wait="));
  assert.ok(polls.length === 1 || polls.length === 2, `${polls.length} long polls`);
});

test("only an event stream is one", async () => {
  const types = ["text/html", "application/json", ""];
  for (const type of types) {
    const fetch = async (): Promise<Response> => new Response("data: 1\n\n", { headers: { "content-type": type } });
    const transport = new HttpTransport(["http://scripted.test"], { key: "hra_x", log, fetch });
    await assert.rejects(transport.stream("/v1/events", { firstWithin: 0.05 }).next(), StoreUnavailable);
  }
});

test("a wait that the function which replies has ended does not go on", async () => {
  const states = { settled: [], unknown: [], pending: [QUESTION] };
  const script = {
    "/history": () => refused(404, "question_not_found"),
    "/v1/outcomes": () => Response.json(states),
  };
  const [desk, paths] = await scripted(script, { pollInterval: 0.02 });
  await assert.rejects(desk.wait(QUESTION, { replyWith: () => "" }), QuestionNotFound);
  await pause(0.1);
  const before = paths.length;
  await pause(0.2);
  assert.equal(paths.length, before);
});

test("heartbeats go on after a refusal", async () => {
  const script = {
    "/v1/heartbeats": (count: number) =>
      count === 1 ? refused(403, "permission_denied") : Response.json({ heartbeats: { [QUESTION]: 0.15 } }),
    "/v1/outcomes": () => Response.json({ settled: [], unknown: [], pending: [QUESTION] }),
  };
  const [desk, paths] = await scripted(script, { pollInterval: 0.05 });
  await assert.rejects(desk.wait(QUESTION, { timeout: 0.6 }), StillPending);
  assert.ok(paths.filter((path) => path === "/v1/heartbeats").length > 3);
});

test("a heartbeat that is no number is the usual one", async () => {
  for (const said of ["null", "{}", '{"heartbeat": null}', '{"heartbeat": "1s"}', '{"heartbeat": -1}', "no"]) {
    assert.equal(heartbeatOf(said), timing.heartbeat, said);
  }
  const [desk, paths] = await scripted(
    {
      "/v1/heartbeats": () => Response.json({ heartbeats: { [QUESTION]: "30s" } }),
      "/v1/outcomes": () => Response.json({ settled: [], unknown: [], pending: [QUESTION] }),
    },
    { pollInterval: 0.05 },
  );
  await assert.rejects(desk.wait(QUESTION, { timeout: 0.4 }), StillPending);
  assert.equal(paths.filter((path) => path === "/v1/heartbeats").length, 1);
});

test("a program that was stopped does not use its approval", async () => {
  const stop = new AbortController();
  const form = await approvalForm({ tool: "pay" });
  const question = (): Response => Response.json({ id: QUESTION, status: "pending", form });
  const [desk, paths] = await scripted({
    "/v1/questions": question,
    "/apply-grant": () => {
      stop.abort(new Error("enough"));
      return question();
    },
    "/consume": () => Response.json({ tool: "pay", arguments: {} }),
  });
  await assert.rejects(desk.requestApproval({ tool: "pay" }, { signal: stop.signal }), /enough/);
  assert.ok(!paths.some((path) => path.endsWith("/consume")));
});

test("a timeout that is none is refused before anything is asked", async () => {
  const [desk, paths] = await scripted({});
  await assert.rejects(desk.ask("When?", { timeout: "soon" }), TypeError);
  await assert.rejects(desk.requestApproval({ tool: "pay" }, { timeout: "soon" }), TypeError);
  assert.deepEqual(paths, ["/v1/me"]);
});

test("a key or an address that cannot be right is refused, and not shown", async () => {
  const isHidden = (error: Error): boolean => !/secret/.test(`${error} ${String(error.cause)}`);
  for (const key of ["a secret", "secret\n", "sécret"]) {
    const opening = openDesk({ url: "http://127.0.0.1:9", key });
    await assert.rejects(opening, (error: Error) => error instanceof Unauthenticated && isHidden(error));
  }
  for (const url of ["http://ana:secret@127.0.0.1", "http://secret@127.0.0.1", "http://ana:sec,secret@127.0.0.1", " , "]) {
    await assert.rejects(openDesk({ url, key: "hra_x" }), (error: Error) => error instanceof TypeError && isHidden(error));
  }
});

test("an empty address is none, and a given fetch is called as a function", async () => {
  const urls: string[] = [];
  const desk = await openDesk({
    url: "http://scripted.test, ",
    key: "hra_x",
    log,
    async fetch(this: unknown, url) {
      assert.equal(this, undefined);
      urls.push(String(url));
      if (urls.length === 1) throw new TypeError("cut");
      return Response.json({ workspace: "default", agent: "agent" });
    },
  });
  await desk.close();
  assert.deepEqual(urls, ["http://scripted.test/v1/me", "http://scripted.test/v1/me"]);
});

test("the type of an answer is not known if the options are not", () => {
  const isUnknown: unknown extends AnswerOf<AskOptions> ? true : false = true;
  const isText: AnswerOf<{ timeout: 1 }> extends string ? true : false = true;
  const isChoice: "a" extends AnswerOf<{ choices: ["a", "b"] }> ? true : false = true;
  assert.ok(isUnknown && isText && isChoice);
});

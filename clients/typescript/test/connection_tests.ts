/** What gets lost between a client and its server: streams, responses, the server itself. */
import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { type Desk, approvalForm, openDesk } from "../build/src/index.js";
import { timing } from "../build/src/timing.js";
import { Proxy } from "./proxy.js";
import { desk, server, until } from "./shared.js";

/** Only hints can wake a wait in time, unless the test says how often it polls. */
async function through(t: TestContext, proxy: Proxy, pollInterval: number | string = "10m"): Promise<Desk> {
  const remote = await openDesk({ url: proxy.url, key: server.key, pollInterval, log: () => undefined });
  t.after(() => remote.close());
  return remote;
}

async function proxied(t: TestContext): Promise<Proxy> {
  const proxy = await Proxy.before(server.url);
  t.after(() => proxy.close());
  return proxy;
}

async function answer(id: string): Promise<void> {
  await server.person(`/v1/questions/${id}/answer`, { value: "yes" });
}

test("a stream that works wakes a wait, and nobody polls while its heartbeats come", async (t) => {
  const proxy = await proxied(t);
  const remote = await through(t, proxy, 0.05);
  const { id } = await desk.post("With a stream?");
  const waiting = remote.wait(id);
  let polls = -1;
  await until(async () => {
    const before = polls;
    polls = proxy.count("/v1/outcomes");
    await new Promise((later) => setTimeout(later, 400));
    return polls > 1 && polls === before;
  }, "the end of polls");
  await answer(id);
  assert.equal((await waiting).value, "yes");
});

test("without a stream there are long polls", async (t) => {
  const proxy = await proxied(t);
  proxy.fate = (path) => (path.startsWith("/v1/events") ? 502 : "pass");
  const { firstWithin } = timing;
  timing.firstWithin = 0.2;
  t.after(() => {
    timing.firstWithin = firstWithin;
  });
  const remote = await through(t, proxy);
  const { id } = await desk.post("Without a stream?");
  const waiting = remote.wait(id);
  await until(() => proxy.requests.some((path) => path.includes("wait=25s")), "a long poll");
  await answer(id);
  assert.equal((await waiting).value, "yes");
});

test("a stream of which only the beginning comes through is not relied on", async (t) => {
  const proxy = await proxied(t);
  proxy.fate = (path) => (path.startsWith("/v1/events") ? "hold" : "pass");
  const remote = await through(t, proxy, 0.1);
  const { id } = await desk.post("With half a stream?");
  const waiting = remote.wait(id);
  await until(() => proxy.count("/v1/outcomes") > 3, "a few polls");
  await answer(id);
  assert.equal((await waiting).value, "yes");
});

test("a stream that falls silent is noticed by its heartbeats", async (t) => {
  const proxy = await proxied(t);
  const remote = await through(t, proxy);
  const { id } = await desk.post("With a silent stream?");
  const waiting = remote.wait(id);
  await until(() => proxy.count("/v1/outcomes") > 0, "the first read");
  await new Promise((later) => setTimeout(later, 700));
  proxy.isSilent = true;
  await answer(id);
  assert.equal((await waiting).value, "yes");
});

test("a wait goes on when a server is away for longer than any request is tried", async (t) => {
  const proxy = await proxied(t);
  const remote = await through(t, proxy, 0.1);
  const { patience } = timing;
  timing.patience = 0.2;
  t.after(() => {
    timing.patience = patience;
  });
  proxy.fate = () => 502;
  const { id } = await desk.post("With a server that is away?");
  const waiting = remote.wait(id);
  await until(() => proxy.count("/v1/outcomes") > 6, "several reads");
  proxy.fate = () => "pass";
  await answer(id);
  assert.equal((await waiting).value, "yes");
});

test("a stream that is cut continues where it was", async (t) => {
  const proxy = await proxied(t);
  const remote = await through(t, proxy);
  const { id } = await desk.post("With a cut stream?");
  const kinds: string[] = [];
  const following = (async () => {
    for await (const event of remote.follow({ after: "" })) {
      if (event.question_id === id) kinds.push(event.kind);
      if (kinds.at(-1) === "answered") return;
    }
  })();
  await until(() => kinds.length === 1, "the first event");
  proxy.cutAll();
  await answer(id);
  await following;
  assert.deepEqual(kinds, ["asked", "answered"]);
  assert.ok(proxy.count("/v1/events") > 1);
});

test("requests whose responses are lost are done once", async (t) => {
  const proxy = await proxied(t);
  const remote = await through(t, proxy);
  const lost = new Set<string>();
  proxy.fate = (path, { method }) => {
    if (method !== "POST" || lost.has(path)) return "pass";
    lost.add(path);
    return "cut";
  };
  const form = await approvalForm({ tool: "pay", arguments: { amount: 5 } });
  const { id } = await remote.post("Pay once?", { form });
  await server.person(`/v1/questions/${id}/answer`, { value: { decision: "approve", digest: form.digest } });
  assert.deepEqual(await remote.consumeApproval(id), { tool: "pay", arguments: { amount: 5 } });
  assert.equal(proxy.count("/v1/questions"), 4);
  const kinds = (await desk.history(id)).map((event) => event.kind);
  assert.equal(kinds.filter((kind) => kind === "consumed").length, 1);
  const { items } = await server.person<{ items: { prompt: string }[] }>("/v1/questions?status=settled&limit=500");
  assert.equal(items.filter(({ prompt }) => prompt === "Pay once?").length, 1);
});

test("if one server does not answer, the next is asked", async () => {
  const gone = await Proxy.before(server.url);
  const url = `${gone.url}, ${server.url}`;
  gone.close();
  const remote = await openDesk({ url, key: server.key, log: () => undefined });
  assert.equal((await remote.post("At the second server?")).asker, "deployer");
  await remote.close();
});

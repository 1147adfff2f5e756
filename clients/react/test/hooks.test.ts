/** The hooks with the real React, in the versions that it is for, against a real server. */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { type Desk, type Question, openDesk } from "@handraise/client";
import { JSDOM } from "jsdom";
import { Server } from "../../typescript/build/server.js";
import { type QuestionSource, type QuestionState, polledQuestions, useQuestion, useQuestions } from "../dist/index.js";

const window = new JSDOM("<!doctype html><div></div>").window;
Object.assign(globalThis, { window, document: window.document, IS_REACT_ACT_ENVIRONMENT: false });
(globalThis as { navigator?: object }).navigator ??= window.navigator; // Node has one from version 21 on
const { StrictMode, createElement } = await import("react");
const { createRoot } = await import("react-dom/client");

let server: Server;
let desk: Desk;

before(async () => {
  server = await Server.started();
  desk = await openDesk({ url: server.url, key: server.key });
});
after(async () => {
  await desk.close();
  await server.stop();
});

/** A component that shows what a hook returns, as text. */
function shown(hook: () => unknown): { readonly text: () => string; readonly again: () => void; readonly leave: () => void } {
  const place = window.document.createElement("div");
  const root = createRoot(place);
  const Shown = () => createElement("p", null, JSON.stringify(hook()));
  const again = (): void => root.render(createElement(StrictMode, null, createElement(Shown, { key: "shown" })));
  again();
  return { text: () => place.textContent ?? "", again, leave: () => root.unmount() };
}

async function until(happened: () => boolean, what: string): Promise<void> {
  const end = Date.now() + 30_000;
  while (!happened()) {
    if (Date.now() > end) assert.fail(`${what} did not happen`);
    await new Promise((again) => setTimeout(again, 20));
  }
}

const summary = ({ status, question, outcome, error }: QuestionState) => [
  status,
  question?.prompt ?? null,
  outcome?.value ?? null,
  error === undefined ? null : (error as Error).name,
];
const is = (prompt: string) => (question: Question) => question.prompt === prompt;

test("a question is pending, and settled as soon as a person answers", async () => {
  const { id } = await desk.post("Which strategy?", { choices: ["Canary", "Rolling"] });
  const page = shown(() => summary(useQuestion(desk, id)));
  await until(() => page.text() === '["pending","Which strategy?",null,null]', "the question");
  await server.answer(is("Which strategy?"), "Canary");
  await until(() => page.text() === '["settled","Which strategy?","Canary",null]', "the answer");
  page.leave();
});

test("several questions are shown in the order of their ids, also those that are settled or unknown", async () => {
  const [first, second] = [await desk.post("First?"), await desk.post("Second?")];
  await server.answer(is("Second?"), "Yes.");
  const ids = [second.id, first.id, "no-such-question"];
  const page = shown(() => [...useQuestions(desk, ids).values()].map(summary));
  const expected = JSON.stringify([
    ["settled", "Second?", "Yes.", null],
    ["pending", "First?", null, null],
    ["error", null, null, "QuestionNotFound"],
  ]);
  await until(() => page.text() === expected, "three questions");
  page.leave();
});

test("another id is another question, and what is left is not waited for", async () => {
  const [first, second] = [await desk.post("Before?"), await desk.post("After?")];
  const ended: string[] = [];
  const source: QuestionSource = {
    get: (id) => desk.get(id),
    wait: (id, options) => desk.wait(id, options).finally(() => ended.push(id)),
  };
  let id: string | undefined;
  const page = shown(() => summary(useQuestion(source, id)));
  await until(() => page.text() === '["loading",null,null,null]', "nothing");
  for (const { id: next, prompt } of [first, second]) {
    id = next;
    page.again();
    await until(() => page.text() === JSON.stringify(["pending", prompt, null, null]), prompt);
  }
  await until(() => ended.includes(first.id), "the end of the first wait");
  page.leave();
  await until(() => ended.includes(second.id), "the end of the second wait");
});

test("a page without a key reads questions from its own server, and survives its restart", async () => {
  const { id } = await desk.post("Through your server?");
  let calls = 0;
  const route = async (input: string | URL | Request): Promise<Response> => {
    calls += 1;
    if (calls === 3) throw new TypeError("fetch failed");
    if (calls === 4) return new Response("<h1>Bad gateway</h1>", { status: 502 }); // a proxy in front of it
    assert.equal(String(input), `/api/questions/${id}`);
    const { state: _, ...question } = await desk.get(id);
    return Response.json(question);
  };
  const source = polledQuestions("/api/questions/", { interval: 0.05, fetch: route as typeof fetch });
  const page = shown(() => summary(useQuestion(source, id)));
  await until(() => calls > 5, "reads");
  await server.answer(is("Through your server?"), "It works.");
  await until(() => page.text() === '["settled","Through your server?","It works.",null]', "the answer");
  page.leave();
});

test("a route that refuses is an error, and never an answer", async () => {
  for (const answer of [new Response("", { status: 403 }), Response.json({ id: "another", status: "answered" })]) {
    const source = polledQuestions("/api/questions", { fetch: (async () => answer.clone()) as typeof fetch });
    const page = shown(() => summary(useQuestion(source, "some-id")));
    await until(() => page.text().startsWith('["error"'), "the error");
    page.leave();
  }
});

import assert from "node:assert/strict";
import { test } from "node:test";
import { z } from "zod";
import {
  AlreadyConsumed,
  AlreadyReported,
  AnswerTypeMismatch,
  DeskClosed,
  type Event,
  HandraiseError,
  InvalidQuestion,
  KeyConflict,
  NotAnswered,
  NotApproved,
  PermissionDenied,
  QuestionNotFound,
  StillPending,
  Unauthenticated,
  approvalForm,
  openDesk,
} from "../build/src/index.js";
import { cases } from "./cases.js";
import { asks, desk, server, until } from "./shared.js";

test("a desk is that of its key", () => {
  assert.equal(desk.workspace, "default");
  assert.equal(desk.asker, "deployer");
});

test("an answer has the type of its choices", async () => {
  const asking = desk.ask("Which strategy?", { choices: ["Canary", "Rolling"] });
  await server.answer(asks("Which strategy?"), "canary");
  const strategy: "Canary" | "Rolling" = await asking;
  assert.equal(strategy, "Canary");
});

test("an answer has the type of a schema of Zod", async () => {
  const Refund = z.object({
    amount: z.number().min(0).max(100),
    to: z.enum(["card", "voucher"]),
    notify: z.email().optional(),
    on: z.iso.date().transform((text) => new Date(text)),
  });
  const asking = desk.ask("Refund how much?", { into: Refund });
  await server.answer(asks("Refund how much?"), { amount: 12.5, to: "card", on: "2026-11-18" });
  const refund: { amount: number; to: "card" | "voucher"; on: Date } = await asking;
  assert.deepEqual(refund, { amount: 12.5, to: "card", on: new Date("2026-11-18") });
});

test("what may be null in a schema of Zod can be left out, and is null then", async () => {
  const Booking = z.object({
    guests: z.int().min(1),
    note: z.string().max(200).nullable(),
    room: z.enum(["Garden", "Terrace"]).nullable(),
    seats: z.number().nullable().optional(),
  });
  const asking = desk.ask("Which booking?", { into: Booking });
  const { form } = await server.answer(asks("Which booking?"), { guests: 2, room: "Garden" });
  assert.ok(form.kind === "form");
  const required = form.fields.filter((field) => field.required).map(({ name }) => name);
  assert.deepEqual(required, ["guests"]);
  const booking: { guests: number; note: string | null } = await asking;
  assert.deepEqual(booking, { guests: 2, note: null, room: "Garden" });
});

test("simple schemas of Zod are simple forms", async () => {
  const kinds = [
    [z.boolean(), true],
    [z.enum(["a", "b"]), "b"],
    [z.int().max(10), 7],
    [z.string().min(2), "so"],
    [z.array(z.enum(["a", "b"])), ["a"]],
  ] as const;
  for (const [into, value] of kinds) {
    const asking = desk.ask("And?", { into });
    await server.answer(asks("And?"), value);
    assert.deepEqual(await asking, value);
  }
});

test("a schema that a person cannot be shown is refused before anything is asked", async () => {
  await assert.rejects(desk.ask("What?", { into: z.record(z.string(), z.string()) }), InvalidQuestion);
  await assert.rejects(desk.ask("What?", { into: z.date() }), InvalidQuestion);
  const validate = (value: unknown) => ({ value });
  await assert.rejects(desk.ask("What?", { into: { "~standard": { vendor: "x", validate } } }), InvalidQuestion);
});

test("an answer that the schema does not take is an error and not a value", async () => {
  const into = z.string().refine((text) => text === "never", { error: "is not never" });
  const asking = assert.rejects(desk.ask("Never?", { into }), (error) => {
    assert.ok(error instanceof AnswerTypeMismatch);
    assert.deepEqual(error.problems, [{ path: "", message: "is not never" }]);
    return true;
  });
  await server.answer(asks("Never?"), "always");
  await asking;
});

test("an answer has the type of a JSON Schema", async () => {
  const form = {
    type: "object",
    properties: { seats: { type: "integer" }, plan: { enum: ["basic", "pro"] }, note: { type: "string" } },
    required: ["seats", "plan"],
  } as const;
  const asking = desk.ask("How many seats?", { form });
  await server.answer(asks("How many seats?"), { seats: 3, plan: "pro" });
  const order: { seats: number; plan: "basic" | "pro"; note?: string } = await asking;
  assert.deepEqual(order, { seats: 3, plan: "pro" });
});

test("the answers of the shared cases", async () => {
  for (const { options, answer, value, error } of cases.answers) {
    const question = await desk.post("What?", options);
    const path = `/v1/questions/${question.id}/answer`;
    if (error !== undefined) {
      await assert.rejects(server.person(path, { value: answer }), /invalid_answer/);
      await desk.withdraw(question.id);
    } else {
      await server.person(path, { value: answer });
      const outcome = await desk.wait(question.id);
      assert.equal(outcome.status, "answered");
      assert.equal(outcome.by, "ana");
      assert.deepEqual(outcome.value, value);
    }
  }
});

test("the keys of the shared cases", async () => {
  for (const { name, key, first, again, same, error } of cases.keys) {
    const named = key === null ? {} : { key: name };
    const unchecked = { check_recipients: false };
    const one = await desk.post("Which?", { ...named, ...unchecked, ...first });
    const other = desk.post("Which?", { ...named, ...unchecked, ...again });
    if (error !== undefined) {
      await assert.rejects(other, (thrown) => {
        assert.equal((thrown as HandraiseError).name, error);
        assert.equal((thrown as KeyConflict).existing?.id, one.id);
        return true;
      });
    } else {
      assert.equal((await other).id === one.id, same, name);
    }
    if (key !== null) assert.equal((await desk.findByKey(name))?.id, one.id);
    await desk.withdraw(one.id);
  }
  assert.equal(await desk.findByKey("nobody's"), undefined);
});

test("an ending without an answer is an error that says how", async () => {
  const asking = assert.rejects(desk.ask("Will you?"), (error) => {
    assert.ok(error instanceof NotAnswered);
    assert.equal(error.outcome.status, "declined");
    assert.equal(error.outcome.reason, "not my business");
    return true;
  });
  const { id } = await server.pending(asks("Will you?"));
  await server.person(`/v1/questions/${id}/decline`, { reason: "not my business" });
  await asking;
});

test("a wait that times out or is aborted leaves its question alone", async () => {
  const { id } = await desk.post("Later?");
  await assert.rejects(desk.wait(id, { timeout: "0.1s" }), StillPending);
  const reason = new Error("enough");
  await assert.rejects(desk.wait(id, { signal: AbortSignal.abort(reason) }), reason);
  const stop = new AbortController();
  const waiting = desk.wait(id, { signal: stop.signal });
  setTimeout(() => stop.abort(reason), 100);
  await assert.rejects(waiting, reason);
  assert.equal((await desk.get(id)).status, "pending");
  const first = desk.waitAny([id, (await desk.post("Sooner?")).id]);
  await server.answer(asks("Sooner?"), "now");
  assert.equal((await first)[1].value, "now");
  await desk.withdraw(id, { reason: "nobody cares" });
  assert.equal((await desk.wait(id)).status, "withdrawn");
});

test("a question that is not there is not waited for", async () => {
  await assert.rejects(desk.wait("01a1dded-01b0-7a52-879e-fbf5034a9f20"), QuestionNotFound);
  await assert.rejects(desk.wait("../v1/me"), QuestionNotFound);
  await assert.rejects(desk.consumeApproval("a/consume?x"), QuestionNotFound);
});

test("an approved action is returned once, with what was edited", async () => {
  const action = { tool: "refund", arguments: { order: "A-17 😀", amount: 12.5 }, editable: ["amount"] };
  const asking = desk.requestApproval(action, { key: "refund-17" });
  const question = await server.pending(asks("May I run refund?"));
  assert.ok(question.form.kind === "approval");
  const value = { decision: "approve", digest: question.form.digest, arguments: { amount: 10 } };
  await server.person(`/v1/questions/${question.id}/answer`, { value });
  assert.deepEqual(await asking, { tool: "refund", arguments: { order: "A-17 😀", amount: 10 } });
  await assert.rejects(desk.requestApproval(action, { key: "refund-17" }), AlreadyConsumed);
  const other = { tool: "refund", arguments: { order: "A-18" } };
  await assert.rejects(desk.requestApproval(other, { key: "refund-17" }), KeyConflict);
  await assert.rejects(desk.requestApproval(other, { key: "refund-17", if_exists: "keep" }), InvalidQuestion);
});

test("nothing but an approval is an approval", async () => {
  const form = await approvalForm({ tool: "drop", arguments: { table: "orders" } });
  const { id } = await desk.post("Drop it?", { form });
  await assert.rejects(desk.consumeApproval(id), NotApproved);
  await server.person(`/v1/questions/${id}/answer`, { value: { decision: "deny", reason: "never" } });
  await assert.rejects(desk.consumeApproval(id), NotApproved);
  assert.equal((await desk.wait(id)).status, "answered");
  await assert.rejects(desk.ask("Drop it?", { form }), InvalidQuestion);
  const expired = desk.requestApproval({ tool: "drop" }, { expires_in: 0.05 });
  await assert.rejects(expired, NotApproved);
});

test("a digest that is not that of the action is refused by the server", async () => {
  const form = await approvalForm({ tool: "pay", arguments: { amounts: [1e21, 0.1, -0], "é": null } });
  assert.equal((await desk.post("Pay?", { form })).status, "pending");
  const changed = { ...form, action: { ...form.action, arguments: { amounts: [] } } };
  await assert.rejects(desk.post("Pay?", { form: changed }), InvalidQuestion);
});

test("the same request id gets the same action again, another one does not", async () => {
  const form = await approvalForm({ tool: "send" });
  const { id } = await desk.post("Send?", { form });
  await server.person(`/v1/questions/${id}/answer`, { value: { decision: "approve", digest: form.digest } });
  const action = await desk.consumeApproval(id, { request: "run-1" });
  assert.deepEqual(await desk.consumeApproval(id, { request: "run-1" }), action);
  await assert.rejects(desk.consumeApproval(id, { request: "run-2" }), AlreadyConsumed);
  await desk.report(id, { ok: true, text: "Sent.", details: { mails: 3 } });
  await desk.report(id, { ok: true, text: "Sent.", details: { mails: 3 } });
  await assert.rejects(desk.report(id, { ok: false, text: "Not sent." }), AlreadyReported);
  assert.equal((await desk.get(id)).report?.text, "Sent.");
});

test("people ask back, and the program replies", async () => {
  const asking = desk.ask("Deploy?", {
    form: { kind: "confirm" },
    replyWith: ({ text }) => (text === "Which version?" ? "1.4.2" : undefined),
  });
  const { id } = await server.pending(asks("Deploy?"));
  await server.person(`/v1/questions/${id}/ask-back`, { text: "Really?" });
  await server.person(`/v1/questions/${id}/ask-back`, { text: "Which version?" });
  await until(async () => (await desk.thread(id)).some((each) => each.kind === "replied"), "a reply");
  await server.person(`/v1/questions/${id}/answer`, { value: true });
  assert.equal(await asking, true);
  assert.deepEqual(
    (await desk.thread(id)).map(({ kind, text }) => [kind, text]),
    [
      ["asked_back", "Really?"],
      ["asked_back", "Which version?"],
      ["replied", "1.4.2"],
    ],
  );
  const seen = [];
  for await (const message of desk.messages(id, { after: 1 })) seen.push(message.text);
  assert.deepEqual(seen, ["Which version?"]);
});

test("what the function that replies throws ends the wait and not the question", async () => {
  const failure = new Error("no idea");
  const { id } = await desk.post("Deploy again?", { replies: "program" });
  const waiting = assert.rejects(
    desk.wait(id, {
      replyWith: () => {
        throw failure;
      },
    }),
    failure,
  );
  await server.person(`/v1/questions/${id}/ask-back`, { text: "Why?" });
  await waiting;
  assert.equal((await desk.get(id)).status, "pending");
});

test("events come once and in order", async () => {
  const { id } = await desk.post("Follow me?");
  await server.person(`/v1/questions/${id}/answer`, { value: "yes" });
  const events: Event[] = [];
  for await (const event of desk.follow({ after: "" })) {
    events.push(event);
    if (event.question_id === id && event.kind === "answered") break;
  }
  assert.equal(new Set(events.map((event) => event.cursor)).size, events.length);
  assert.deepEqual(
    events.filter((event) => event.question_id === id).map((event) => event.kind),
    (await desk.history(id)).map((event) => event.kind),
  );
});

test("somebody who waits is heard", async (t) => {
  const quick = await openDesk({ url: server.url, key: server.key, pollInterval: 0.1 });
  t.after(() => quick.close());
  const { id, heard_at } = await quick.post("Are you there?", { heartbeat: "10s" });
  const { id: without } = await quick.post("And you?");
  const waiting = assert.rejects(quick.wait(id), DeskClosed);
  await until(async () => (await quick.get(id)).heard_at !== heard_at, "a sign");
  assert.equal(await quick.heartbeat([id, without]), 1);
  await quick.close();
  await waiting;
  await assert.rejects(quick.get(id), DeskClosed);
});

test("only the key of an agent opens a desk", async () => {
  await assert.rejects(openDesk({ url: server.url, key: "hra_nobody" }), Unauthenticated);
  await assert.rejects(openDesk({ url: server.url, key: server.session }), PermissionDenied);
  await assert.rejects(openDesk({ url: server.url, key: "" }), Unauthenticated);
  await assert.rejects(openDesk({ url: "", key: server.key }), TypeError);
});

test("a question that cannot be asked is refused with its problems", async () => {
  await assert.rejects(desk.post("  "), (error) => {
    assert.ok(error instanceof InvalidQuestion);
    assert.deepEqual(error.problems, [{ path: "prompt", message: "is empty" }]);
    return true;
  });
  await assert.rejects(desk.post("What?", { context: { at: new Date() } }), InvalidQuestion);
  await assert.rejects(desk.post("What?", { expires: "2h" } as object), { code: "invalid_request" });
});

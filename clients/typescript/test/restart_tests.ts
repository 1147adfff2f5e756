/** Programs and servers that are killed: nothing is lost, doubled, or taken for an approval. */
import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { asks, desk, server, until } from "./shared.js";

const ASKER = fileURLToPath(new URL("asker.js", import.meta.url));

interface Program {
  readonly process: ChildProcess;
  readonly output: () => string;
  readonly closed: Promise<unknown>;
}

function started(what: string, key: string): Program {
  const env = { ...process.env, HANDRAISE_URL: server.url, HANDRAISE_KEY: server.key };
  const child = spawn(process.execPath, [ASKER, what, key], { env });
  let output = "";
  child.stdout.on("data", (text) => (output += text));
  child.stderr.on("data", (text) => (output += text));
  return { process: child, output: () => output, closed: once(child, "close") };
}

/** As the operating system does it when the memory is full. */
async function killed({ process }: Program): Promise<void> {
  process.kill("SIGKILL");
  await once(process, "exit");
}

async function ended(program: Program): Promise<string> {
  await program.closed;
  return program.output();
}

test("a program that is killed while it waits finds its question and the answer", async () => {
  const first = started("question", "which-strategy");
  const question = await server.pending(asks("which-strategy"));
  await killed(first);
  const second = started("question", "which-strategy");
  await until(() => second.output().includes("waiting"), "the second start");
  await killed(second);
  await server.answer(asks("which-strategy"), "Rolling");
  assert.equal(await ended(started("question", "which-strategy")), "waiting\nanswered Rolling\n");
  assert.equal((await desk.findByKey("which-strategy"))?.id, question.id);
});

test("an action whose program is killed while it waits runs once", async () => {
  const first = started("approval", "host-7");
  const { id, form } = await server.pending(asks("host-7"));
  assert.ok(form.kind === "approval");
  await killed(first);
  const second = started("approval", "host-7");
  await until(() => second.output().includes("waiting"), "the second start");
  await server.person(`/v1/questions/${id}/answer`, { value: { decision: "approve", digest: form.digest } });
  assert.equal(await ended(second), "waiting\nrunning restart host-7\n");
  const third = started("approval", "host-7");
  assert.match(await ended(third), /^waiting\n[^]*AlreadyConsumed/);
  assert.notEqual(third.process.exitCode, 0);
});

test("waits, new questions and followed events survive that the server is killed", async () => {
  const asking = desk.ask("Before the kill?", { form: { kind: "confirm" } });
  const { id } = await server.pending(asks("Before the kill?"));
  const kinds: string[] = [];
  const following = (async () => {
    for await (const event of desk.follow({ after: "" })) {
      if (event.question_id === id) kinds.push(event.kind);
      if (kinds.at(-1) === "answered") return;
    }
  })();
  await until(() => kinds.includes("asked"), "the first event");
  await server.kill();
  const meanwhile = desk.post("Meanwhile?", { key: "meanwhile" });
  await server.restart();
  await server.answer(asks("Before the kill?"), false);
  assert.equal(await asking, false);
  assert.equal((await meanwhile).id, (await desk.findByKey("meanwhile"))?.id);
  await following;
  assert.deepEqual(kinds, ["asked", "answered"]);
});

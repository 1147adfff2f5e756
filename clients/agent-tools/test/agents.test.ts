/** Runs with the real frameworks and a scripted model survive that they are killed, and act once. */
import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import type { Question } from "@handraise/client";
import { Server } from "../../typescript/build/server.js";

const AGENT = fileURLToPath(new URL("agent.js", import.meta.url));
let server: Server;

before(async () => {
  server = await Server.started();
});
after(() => server.stop());

class Run {
  output = "";
  readonly #process: ChildProcess;
  readonly #closed: Promise<unknown>;

  constructor(framework: string, key: string) {
    const env = { ...process.env, HANDRAISE_URL: server.url, HANDRAISE_KEY: server.key };
    this.#process = spawn(process.execPath, [AGENT, framework, key], { env });
    this.#closed = once(this.#process, "close");
    this.#process.stdout?.on("data", (text) => (this.output += text));
    this.#process.stderr?.on("data", (text) => (this.output += text));
  }

  async killed(): Promise<void> {
    this.#process.kill("SIGKILL");
    await once(this.#process, "exit");
  }

  async ended(): Promise<string> {
    await this.#closed;
    return this.output;
  }
}

const questionOf = (key: string) => (question: Question) => question.prompt === `Which strategy? (${key})`;
const approvalOf = (key: string) => (question: Question) => question.form.kind === "approval" && question.conversation === key;

for (const framework of ["ai-sdk", "mastra"]) {
  test(`${framework}: a run that is killed twice finds its answer, and acts once`, async () => {
    const key = `${framework}-run`;
    const first = new Run(framework, key);
    const question = await server.pending(questionOf(key));
    await first.killed();
    await server.answer(questionOf(key), "Rolling");
    const second = new Run(framework, key);
    const approval = await server.pending(approvalOf(key));
    await second.killed();
    assert.ok(approval.form.kind === "approval");
    assert.deepEqual(approval.form.action, { tool: "deploy", arguments: { strategy: "Rolling", run: key } });
    const value = { decision: "approve", digest: approval.form.digest, arguments: { strategy: "Canary" } };
    await server.person(`/v1/questions/${approval.id}/answer`, { value });
    const output = await new Run(framework, key).ended();
    assert.equal(output, 'deploying with Canary\nThe model read: {"deployed":"Canary"}\n');
    assert.equal(first.output + second.output, "");
    const again = await new Run(framework, key).ended();
    assert.match(again, /^The model read: "The approval .*already been used.* unknown: find out/);
    const { report } = await server.person<Question>(`/v1/questions/${approval.id}`);
    assert.equal(report?.ok, true);
    const { items } = await server.person<{ items: Question[] }>("/v1/questions?status=settled&limit=500");
    assert.equal(items.filter(questionOf(key)).length, 1);
    assert.equal(items.find(questionOf(key))?.id, question.id);
  });

  test(`${framework}: a denied action does not run, and the model reads why`, async () => {
    const key = `${framework}-denied`;
    const run = new Run(framework, key);
    await server.answer(questionOf(key), "Canary");
    await server.answer(approvalOf(key), { decision: "deny", reason: "not on a Friday" });
    assert.match(await run.ended(), /^The model read: "Not executed\. .*not on a Friday/);
  });
}

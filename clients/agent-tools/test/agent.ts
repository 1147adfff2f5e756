/** A run of a scripted model, with the tools of a framework. It is killed and started again: `agent.js FRAMEWORK RUN`. */
import { openDesk } from "@handraise/client";
import { Agent } from "@mastra/core/agent";
import { createTool } from "@mastra/core/tools";
import { generateText, isStepCount, tool } from "ai";
import { MockLanguageModelV4 } from "ai/test";
import { z } from "zod";
import * as aiSdk from "../dist/ai_sdk.js";
import type { AskHumanResult } from "../dist/ai_sdk.js";
import * as mastra from "../dist/mastra.js";

const [framework, key = ""] = process.argv.slice(2);
const desk = await openDesk();

const usage = {
  inputTokens: { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0 },
  outputTokens: { total: 1, text: 1, reasoning: 0 },
};

/** Asks a person, runs what they chose, and says how that went. */
function scripted(prompt: readonly { readonly role: string; readonly content: unknown }[]) {
  const results = prompt.filter(({ role }) => role === "tool").map(({ content }) => outputOf(content));
  const call = (toolName: string, input: object) => ({
    content: [
      { type: "tool-call" as const, toolCallId: crypto.randomUUID(), toolName, input: JSON.stringify(input) },
    ],
    finishReason: { unified: "tool-calls" as const, raw: "tool_calls" },
    usage,
    warnings: [],
  });
  if (results.length === 0) return call("ask_human", { question: `Which strategy? (${key})`, choices: ["Canary", "Rolling"] });
  if (results.length === 1) {
    const { status, value } = (typeof results[0] === "string" ? JSON.parse(results[0]) : results[0]) as AskHumanResult;
    return call("deploy", { strategy: status === "answered" ? value : "none", run: key });
  }
  const text = `The model read: ${JSON.stringify(results[1])}`;
  return { content: [{ type: "text" as const, text }], finishReason: { unified: "stop" as const, raw: "stop" }, usage, warnings: [] };
}

function outputOf(content: unknown): unknown {
  const [{ output }] = content as [{ output: { value: unknown } }];
  return output.value;
}

const input = z.object({ strategy: z.string(), run: z.string() });
async function deploy({ strategy }: z.infer<typeof input>): Promise<{ deployed: string }> {
  process.stdout.write(`deploying with ${strategy}\n`);
  return { deployed: strategy };
}

if (framework === "ai-sdk") {
  const { text } = await generateText({
    model: new MockLanguageModelV4({ doGenerate: async ({ prompt }) => scripted(prompt) }),
    prompt: "Deploy.",
    tools: {
      ask_human: aiSdk.askHuman(desk, { key }),
      deploy: aiSdk.approved("deploy", tool({ inputSchema: input, execute: deploy }), desk, { key, editable: ["strategy"] }),
    },
    stopWhen: isStepCount(5),
  });
  process.stdout.write(`${text}\n`);
} else {
  const given = createTool({ id: "deploy", description: "Deploy.", inputSchema: input, execute: deploy });
  const agent = new Agent({
    id: "deployer",
    name: "deployer",
    instructions: "Deploy.",
    // Mastra has its own types of the same model.
    model: new MockLanguageModelV4({ doGenerate: async ({ prompt }) => scripted(prompt) }) as never,
    tools: { ask_human: mastra.askHuman(desk, { key }), deploy: mastra.approved(given, desk, { key, editable: ["strategy"] }) },
  });
  process.stdout.write(`${(await agent.generate("Deploy.")).text}\n`);
}

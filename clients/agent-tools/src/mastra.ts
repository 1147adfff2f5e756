/** Tools for Mastra. */
import type { Desk, StandardSchema } from "@handraise/client";
import { createTool } from "@mastra/core/tools";
import { z } from "zod";
import {
  ASK_HUMAN,
  type ApprovedOptions,
  type AskHumanInput,
  type AskHumanResult,
  PARAMETERS,
  type ToolOptions,
  askHuman as ask,
  runApproved,
} from "./tool_calls.js";

export type { ApprovedOptions, AskHumanInput, AskHumanResult, ToolOptions };

/** What is used of a tool of Mastra. */
interface MastraTool {
  readonly id: string;
  readonly description: string;
  readonly inputSchema?: unknown;
  readonly execute?: ((input: never, context: never) => Promise<unknown>) | undefined;
}

/**
 * The tool with which a model asks a person: `tools: { ask_human: askHuman(desk, { key }) }`. Its result is an
 * `AskHumanResult` as JSON text.
 */
export function askHuman(desk: Desk, options: ToolOptions) {
  return createTool({
    id: "ask_human",
    description: ASK_HUMAN,
    inputSchema: z.object({
      question: z.string().describe(PARAMETERS.question),
      choices: z.array(z.string()).optional().describe(PARAMETERS.choices),
      replaces: z.string().optional().describe(PARAMETERS.replaces),
    }),
    // As text: of an object with a `value`, Mastra shows the model nothing else.
    execute: async (input, context): Promise<string> => JSON.stringify(await ask(desk, input, options, context?.abortSignal)),
  });
}

/** The same tool, which runs once, after a person has approved the call. A model that was refused reads why. */
export function approved<Tool extends MastraTool>(given: Tool, desk: Desk, options: ApprovedOptions) {
  const { id, description, inputSchema } = given;
  const execute = given.execute?.bind(given) as ((input: object, context: object) => Promise<unknown>) | undefined;
  if (execute === undefined) throw new TypeError(`The tool ${id} has no execute, so there is nothing to approve.`);
  const check = async (edited: object): Promise<string | undefined> => {
    const result = await (inputSchema as Partial<StandardSchema> | undefined)?.["~standard"]?.validate(edited);
    return result?.issues?.map(({ message }) => message).join("; ");
  };
  return createTool({
    id,
    description,
    inputSchema: inputSchema as z.ZodType<object>,
    execute: (input, context): Promise<unknown> =>
      runApproved(desk, id, input, (edited) => execute(edited, context), options, check, context?.abortSignal),
  });
}

/** Tools for the Vercel AI SDK. */
import type { Desk } from "@handraise/client";
import { type Tool, asSchema, jsonSchema, tool } from "ai";
import {
  ASK_HUMAN,
  type ApprovedOptions,
  type AskHumanInput,
  type AskHumanResult,
  PARAMETERS,
  type ToolOptions,
  askHuman as ask,
  isRefusal,
  runApproved,
} from "./tool_calls.js";

export type { ApprovedOptions, AskHumanInput, AskHumanResult, ToolOptions };

/** The tool with which a model asks a person: `tools: { ask_human: askHuman(desk, { key }) }`. */
export function askHuman(desk: Desk, options: ToolOptions): Tool<AskHumanInput, AskHumanResult> {
  return tool({
    description: ASK_HUMAN,
    inputSchema: jsonSchema<AskHumanInput>({
      type: "object",
      properties: {
        question: { type: "string", description: PARAMETERS.question },
        choices: { type: "array", items: { type: "string" }, description: PARAMETERS.choices },
        replaces: { type: "string", description: PARAMETERS.replaces },
      },
      required: ["question"],
      additionalProperties: false,
    }),
    execute: (input, { abortSignal }): Promise<AskHumanResult> => ask(desk, input, options, abortSignal),
  });
}

/**
 * The same tool, which runs once, after a person has approved the call: `tools: { deploy: approved("deploy", deploy, desk, {
 * key }) }`. A model that was refused reads why.
 */
export function approved<Input extends object, Output>(
  name: string,
  given: Tool<Input, Output>,
  desk: Desk,
  options: ApprovedOptions,
): Tool<Input, Output | string> {
  const { execute, inputSchema, toModelOutput } = given;
  if (execute === undefined) throw new TypeError(`The tool ${name} has no execute, so there is nothing to approve.`);
  const check = async (edited: Input): Promise<string | undefined> => {
    const result = await asSchema(inputSchema).validate?.(edited);
    return result === undefined || result.success ? undefined : result.error.message;
  };
  const run = (input: Input, context: Parameters<typeof execute>[1]): Promise<Output | string> =>
    runApproved(desk, name, input, (edited) => execute(edited, context), options, check, context.abortSignal);
  const toModel = (made: Parameters<NonNullable<typeof toModelOutput>>[0]) =>
    isRefusal(made.output) ? { type: "text", value: made.output } : toModelOutput?.(made);
  const shown = toModelOutput === undefined ? {} : { toModelOutput: toModel };
  return { ...given, ...shown, outputSchema: undefined, execute: run } as unknown as Tool<Input, Output | string>;
}

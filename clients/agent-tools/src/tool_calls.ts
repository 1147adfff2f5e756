/**
 * What the tools of all frameworks do. They wait inside the call: the question outlives the process, and a run that is
 * started again with the same key finds its earlier questions and their answers.
 */
import {
  AlreadyConsumed,
  type Desk,
  InvalidQuestion,
  NotApproved,
  type Outcome,
  type Problem,
  QuestionNotFound,
  type QuestionOptions,
  StillPending,
  type WaitOptions,
  approvalForm,
  canonicalJson,
  digest,
} from "@handraise/client";

export interface ToolOptions
  extends Pick<QuestionOptions, "recipients" | "quorum" | "expires_in" | "timeline" | "conversation">,
    Pick<WaitOptions, "timeout" | "replyWith"> {
  /** Names the run: the same call of the same run is the same question, also after a restart. */
  readonly key: string;
}

export interface ApprovedOptions extends ToolOptions {
  /** The arguments that people may change while they approve. */
  readonly editable?: readonly string[];
  readonly risk?: "low" | "medium" | "high";
}

/** What a model gives to `ask_human`. */
export interface AskHumanInput {
  readonly question: string;
  readonly choices?: readonly string[] | undefined;
  readonly replaces?: string | undefined;
}

/** How a call of `ask_human` ended, for the model. */
export interface AskHumanResult {
  readonly status: Outcome["status"] | "still_pending" | "invalid";
  readonly question_id?: string;
  readonly value?: unknown;
  readonly source?: Outcome["source"];
  readonly by?: string | null;
  readonly reason?: string | null;
  readonly note?: string;
  readonly problems?: readonly Problem[];
}

/** The texts and parameters that models see; the same as in Python. */
export const ASK_HUMAN =
  "Ask a person when you cannot go on without knowing. Put what can be chosen into choices, never into the text of the " +
  "question. If a person sent your question back, change it and set replaces to its question_id. This is not an approval: " +
  "do not use it before a dangerous action.";
export const PARAMETERS = {
  question: "What you ask the person.",
  choices: "What the person can choose from. Leave it out for an open question.",
  replaces: "If a person sent your question back: its question_id. You ask it again, changed.",
} as const;

const RETURNED =
  "A person sent it back: this is not an answer, and not consent. Change what the reason says, then call the tool again, " +
  "with replaces set to this question_id if the tool has that parameter.";
/** How the text begins that a model reads in place of an output. */
const NOT_EXECUTED = "Not executed. ";
const NOBODY_ASKED = "Nobody was asked, and nothing was executed. Correct these problems and call it again.";

/** Ask, wait, and say how it ended. */
export async function askHuman(
  desk: Desk,
  input: AskHumanInput,
  options: ToolOptions,
  signal?: AbortSignal,
): Promise<AskHumanResult> {
  const { key, timeout, replyWith, ...asked } = options;
  const { question: prompt, choices = [], replaces } = input;
  const about = { conversation: key, ...asked };
  if (replaces && !(await hasAsked(desk, replaces, about.conversation))) {
    return invalid([{ path: "replaces", message: "is not the question_id of a question that you asked" }]);
  }
  try {
    const question = await desk.post(prompt, {
      ...about,
      key: await keyOf(key, "ask_human", input),
      ...(replaces ? { replaces } : {}),
      ...(replyWith ? { replies: "program" } : {}),
      ...(choices.length > 0 ? { form: choiceOf(choices) } : {}),
    });
    const outcome = await desk.wait(question.id, waiting({ timeout, replyWith, signal }));
    return resultOf(question.id, outcome);
  } catch (error) {
    if (error instanceof InvalidQuestion) return invalid(error.problems);
    if (error instanceof StillPending) return { status: "still_pending", question_id: error.questionIds[0] ?? "" };
    throw error;
  }
}

/** What is wrong with arguments that a person has changed; undefined if the tool takes them. */
export type Check<Input> = (edited: Input) => Promise<string | undefined>;

/** Whether an output is the text that says why a tool was not executed. */
export function isRefusal(output: unknown): output is string {
  return typeof output === "string" && output.startsWith(NOT_EXECUTED);
}

/**
 * Run a function once, after a person has approved the call, with the approved arguments. The same call of the same run is
 * the same approval: a call that was executed is not executed again. Returns the output, or a text that says why not.
 */
export async function runApproved<Input extends object, Output>(
  desk: Desk,
  tool: string,
  input: Input,
  run: (approved: Input) => unknown,
  options: ApprovedOptions,
  check: Check<Input>,
  signal?: AbortSignal,
): Promise<Output | string> {
  const { key, timeout, replyWith, editable = [], risk, ...asked } = options;
  let questionId: string;
  let approved: Input;
  try {
    const form = await approvalForm({ tool, arguments: input, editable, ...(risk ? { risk } : {}) });
    const question = await desk.post(`May I run ${tool}?`, {
      conversation: key,
      ...asked,
      key: await keyOf(key, tool, input),
      if_exists: "keep", // a run that is started again may have other recipients or another expiry
      form,
      ...(replyWith ? { replies: "program" } : {}),
    });
    questionId = question.id;
    if (question.form.kind !== "approval" || question.form.digest !== form.digest) {
      throw InvalidQuestion.of("key", "it names the approval of another action: choose another key");
    }
    if (!question.outcome && (await desk.applyGrant(questionId, { signal })) === undefined) {
      await desk.wait(questionId, waiting({ timeout, replyWith, signal }));
    }
    signal?.throwIfAborted();
    approved = (await desk.consumeApproval(questionId)).arguments as Input;
  } catch (error) {
    if (error instanceof InvalidQuestion) return `${NOT_EXECUTED}${NOBODY_ASKED} ${error.message}`;
    const isRefused = error instanceof NotApproved || error instanceof AlreadyConsumed || error instanceof StillPending;
    if (!isRefused) throw error;
    if (error instanceof AlreadyConsumed) return error.message; // an earlier run may have executed it
    const isReturned = error instanceof NotApproved && error.outcome?.status === "returned";
    return `${NOT_EXECUTED}${error.message}${isReturned ? " Change it as they say, and call the tool again." : ""}`;
  }
  let output: Output;
  try {
    const problem = canonicalJson(approved) === canonicalJson(input) ? undefined : await check(approved);
    if (problem !== undefined) {
      const text = `${NOT_EXECUTED}A person changed the arguments to what the tool does not take: ${problem}`;
      await report(desk, questionId, false, text);
      return text;
    }
    output = await lastOf<Output>(await run(approved));
  } catch (error) {
    await report(desk, questionId, false, error instanceof Error ? error.message : error);
    throw error;
  }
  await report(desk, questionId, true, output);
  return output;
}

/** A tool may yield preliminary outputs; the last one is its output. */
async function lastOf<Output>(output: unknown): Promise<Output> {
  if (typeof output !== "object" || output === null || !(Symbol.asyncIterator in output)) return output as Output;
  let last: unknown;
  for await (const each of output as AsyncIterable<unknown>) last = each;
  return last as Output;
}

/** People see what came of it. If that cannot be reported, the run goes on all the same. */
async function report(desk: Desk, questionId: string, ok: boolean, said: unknown): Promise<void> {
  await desk.report(questionId, { ok, text: reportText(said) }).catch(() => undefined);
}

function reportText(said: unknown): string {
  try {
    const text = (typeof said === "string" ? said : (JSON.stringify(said) ?? "done")).slice(0, 500);
    // Half of a surrogate pair is no text: at the end it was cut, elsewhere the tool wrote it.
    return text.replace(/\p{Surrogate}$/u, "").replace(/\p{Surrogate}/gu, "\ufffd").trim() || "done";
  } catch {
    return "done"; // it is not JSON
  }
}

/** Whether the model asked this question, in this conversation. */
async function hasAsked(desk: Desk, questionId: string, conversation: string | null): Promise<boolean> {
  try {
    const found = await desk.get(questionId);
    return found.conversation === conversation && found.form.kind !== "approval";
  } catch (error) {
    if (error instanceof QuestionNotFound) return false;
    throw error;
  }
}

/** A model may make the same call again with another id, so the content of a call is its key. */
async function keyOf(key: string, tool: string, input: object): Promise<string> {
  return `agent-tools:${await digest([key, tool, input])}`;
}

function choiceOf(choices: readonly string[]) {
  return { kind: "choice", options: choices.map((label) => ({ id: label, label })), allow_other: true } as const;
}

function resultOf(questionId: string, { status, value, source, by, reason }: Outcome): AskHumanResult {
  return {
    status,
    question_id: questionId,
    ...(status === "answered" ? { value, source: source ?? null } : {}),
    ...(by ? { by } : {}),
    ...(reason ? { reason } : {}),
    ...(status === "returned" ? { note: RETURNED } : {}),
  };
}

function invalid(problems: readonly Problem[]): AskHumanResult {
  return { status: "invalid", reason: NOBODY_ASKED, problems };
}

function waiting(options: { [Name in keyof WaitOptions]: WaitOptions[Name] | undefined }): WaitOptions {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined));
}

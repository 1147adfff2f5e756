/** The desk: the verbs of an agent, at a server. Nothing is decided here: the server decides. */
import { type Span, secondsOf } from "./durations.js";
import {
  AlreadySettled,
  InvalidQuestion,
  NotAnswered,
  NothingToReply,
  QuestionNotFound,
  StoreUnavailable,
} from "./errors.js";
import { type AnswerTo, type ApprovalRequest, type IdOf, type JsonSchema, approvalForm, formOf, readAnswer } from "./forms.js";
import { Heartbeats } from "./heartbeats.js";
import type { Call, HttpTransport } from "./http_transport.js";
import {
  type Action,
  type Attachment,
  ENDINGS,
  type Event,
  type EventPage,
  type Form,
  type Option,
  type Outcome,
  type PostQuestion,
  type Question,
  type QuestionPage,
  type Thread,
  type ThreadMessage,
} from "./records.js";
import type { OutputOf, StandardSchema } from "./standard_schema.js";
import { onAbort } from "./timing.js";
import { uuid7 } from "./uuid7.js";
import { Waiters } from "./waiters.js";

/** The options of a question, by the names of the HTTP API. With neither `choices` nor `form`, the answer is free text. */
export interface QuestionOptions extends Omit<PostQuestion, "prompt" | "id" | "choices" | "form"> {
  readonly choices?: readonly (string | Option)[];
  readonly form?: Form | JsonSchema;
}

export interface WaitOptions {
  /** How long to wait. Then `StillPending` is thrown, and the question stays as it is. */
  readonly timeout?: Span;
  /** Gives the reply to what a person asks back; undefined replies nothing. What it throws ends the wait. */
  readonly replyWith?: (message: ThreadMessage) => string | undefined | Promise<string | undefined>;
  /** Ends the wait, not the question. */
  readonly signal?: AbortSignal;
}

export interface AskOptions extends QuestionOptions, WaitOptions {
  /** A schema of Zod or any other library with Standard JSON Schema: the form is made from it, and the answer read with it. */
  readonly into?: StandardSchema;
}

/** The type of what `ask` returns. */
export type AnswerOf<Options> = Options extends { readonly into: infer Schema }
  ? OutputOf<Schema>
  : Options extends { readonly choices: readonly (infer O)[] }
    ? IdOf<O>
    : Options extends { readonly form: infer F }
      ? AnswerTo<F>
      : [keyof Options & ("into" | "choices" | "form")] extends [never]
        ? string
        : unknown;

const QUESTION_ID = /^[A-Za-z0-9][A-Za-z0-9_.:~-]{0,199}$/;
const USE_REQUEST_APPROVAL =
  "ask() would return an approved action again and again: use requestApproval(), or post() and later consumeApproval()";

export class Desk {
  /** The workspace that this desk sees. */
  readonly workspace: string;
  /** The asker in whose name this desk asks. */
  readonly asker: string;
  readonly #transport: HttpTransport;
  readonly #waiters: Waiters;
  readonly #heartbeats: Heartbeats;

  private constructor(transport: HttpTransport, me: { readonly workspace: string; readonly asker: string }, options: Waiting) {
    this.workspace = me.workspace;
    this.asker = me.asker;
    this.#transport = transport;
    this.#waiters = new Waiters(transport, options);
    this.#heartbeats = new Heartbeats(transport, options.pollInterval);
  }

  /** @internal Use `openDesk`. */
  static of(transport: HttpTransport, me: { readonly workspace: string; readonly asker: string }, options: Waiting): Desk {
    return new Desk(transport, me, options);
  }

  /** End every wait with `DeskClosed`; the questions stay pending. */
  async close(): Promise<void> {
    this.#transport.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  /**
   * Store a question, wait, and return the value of its answer. If it ends without an answer, this throws `NotAnswered`.
   * With a `key`, asking again after a restart finds the same question and its answer.
   */
  async ask<const Options extends AskOptions = Record<never, never>>(
    prompt: string,
    options?: Options & AskOptions,
  ): Promise<AnswerOf<Options>> {
    const { into, timeout, replyWith, signal, ...asked }: AskOptions = options ?? {};
    if (asked.form?.kind === "approval") throw InvalidQuestion.of("form", USE_REQUEST_APPROVAL);
    const hasForm = into === undefined || asked.form !== undefined || asked.choices !== undefined;
    const question = await this.#post(prompt, hasForm ? asked : { ...asked, form: formOf(into) }, { timeout, replyWith, signal });
    if (question.form.kind === "approval") throw InvalidQuestion.of("key", USE_REQUEST_APPROVAL);
    const outcome = await this.wait(question.id, given({ timeout, replyWith, signal }));
    if (outcome.status !== "answered") throw new NotAnswered(question.id, outcome);
    return (into === undefined ? outcome.value : await readAnswer(into, outcome.value)) as AnswerOf<Options>;
  }

  /**
   * Store a question and return it at once. With a `key`, posting again returns the first question, settled or not. The same
   * key for a different question throws `KeyConflict`, or with `if_exists: "keep"` returns the first question as it is.
   */
  async post(prompt: string, options: QuestionOptions = {}): Promise<Question> {
    return this.#post(prompt, options, {});
  }

  async #post(prompt: string, options: QuestionOptions, { timeout, replyWith, signal }: WaitOptionsOrNone): Promise<Question> {
    if (timeout !== undefined) secondsOf(timeout); // a mistake must not leave a question that nobody waits for
    const replies = replyWith === undefined || "replies" in options ? {} : { replies: "program" };
    const body = { ...options, ...replies, prompt, id: uuid7() };
    let said: unknown;
    try {
      // Posting the same id again is safe by itself.
      said = await this.#transport.call("POST", "/v1/questions", { body, safe: true, signal });
    } catch (error) {
      if (error instanceof TypeError) throw InvalidQuestion.of("question", error.message);
      throw error;
    }
    const question = questionOf(said);
    this.#heartbeats.remember(question);
    return question;
  }

  /** Return the outcome as soon as there is one. */
  async wait(questionId: string, options: WaitOptions = {}): Promise<Outcome> {
    const { replyWith, signal } = options;
    if (replyWith === undefined) return (await this.waitAny([questionId], options))[1];
    signal?.throwIfAborted();
    const done = new AbortController();
    const leave = onAbort(signal, () => done.abort(signal?.reason));
    const waiting = given({ timeout: options.timeout, signal: done.signal, replyWith: undefined });
    const outcome = this.waitAny([questionId], waiting).then(([, settled]) => settled);
    const replying = this.#replyToAll(questionId, replyWith, done.signal);
    try {
      // It throws what the function threw. If it ends by itself, the question is settled.
      return await Promise.race([outcome, replying.then(() => outcome)]);
    } finally {
      done.abort();
      leave();
      outcome.catch(() => undefined);
      replying.catch(() => undefined);
    }
  }

  /** Return the id and the outcome of the question that is settled first. */
  async waitAny(questionIds: readonly string[], options: Omit<WaitOptions, "replyWith"> = {}): Promise<[string, Outcome]> {
    const ids = [...new Set(questionIds)];
    if (ids.length === 0) throw new TypeError("waitAny needs at least one question");
    ids.forEach(pathOf);
    const timeout = options.timeout === undefined ? undefined : secondsOf(options.timeout);
    const leave = this.#heartbeats.waitingFor(ids);
    try {
      return await this.#waiters.firstOf(ids, { timeout, signal: options.signal });
    } finally {
      leave();
    }
  }

  async #replyToAll(questionId: string, replyWith: ReplyWith, signal: AbortSignal): Promise<void> {
    const history = await this.history(questionId);
    const last = Math.max(0, ...history.map((event) => repliesTo(event)));
    for await (const message of this.messages(questionId, { after: last, signal })) {
      const text = await replyWith(message);
      if (text === undefined) continue;
      try {
        await this.reply(questionId, text, { to: message.number });
      } catch (error) {
        // An answer, or another process, may be faster.
        if (!(error instanceof AlreadySettled || error instanceof NothingToReply)) throw error;
      }
    }
  }

  /**
   * Ask for the approval of an action, wait, and return the action: execute it now, it is returned only once. Anything but an
   * approval throws.
   */
  async requestApproval<Arguments extends object = Record<string, unknown>>(
    approval: ApprovalRequest<Arguments>,
    options: Omit<QuestionOptions, "choices" | "form"> & WaitOptions & { readonly prompt?: string } = {},
  ): Promise<Action<Arguments>> {
    const { prompt = `May I run ${approval.tool}?`, timeout, replyWith, signal, ...asked } = options;
    const form = await approvalForm(approval);
    const question = await this.#post(prompt, { ...asked, form }, { timeout, replyWith, signal });
    if (question.form.kind !== "approval" || question.form.digest !== form.digest) {
      throw InvalidQuestion.of("key", "it names the approval of another action: choose another key");
    }
    if (!question.outcome && (await this.applyGrant(question.id, { signal })) === undefined) {
      await this.wait(question.id, given({ timeout, replyWith, signal }));
    }
    signal?.throwIfAborted();
    return (await this.consumeApproval(question.id)) as Action<Arguments>;
  }

  /** Answer this asker's approval from a grant that applies to it; undefined if a person must decide. */
  async applyGrant(
    questionId: string,
    options: { readonly signal?: AbortSignal | undefined } = {},
  ): Promise<Question | undefined> {
    const said = await this.#transport.call("POST", `${pathOf(questionId)}/apply-grant`, { signal: options.signal });
    return said === undefined ? undefined : questionOf(said);
  }

  /**
   * Return the approved action, to be executed now: an approval is used at most once. Throws `NotApproved` if nobody
   * approved exactly this action, and `AlreadyConsumed` for everybody but the first caller. `request` is an id of your own
   * for this one use: the same id again returns the same action again.
   */
  async consumeApproval(questionId: string, options: { readonly request?: string } = {}): Promise<Action> {
    const body = { request: options.request };
    const said = (await this.#transport.call("POST", `${pathOf(questionId)}/consume`, { body })) as Partial<Action>;
    if (typeof said?.tool !== "string" || typeof said.arguments !== "object" || said.arguments === null) {
      throw new StoreUnavailable("The server's response is not an action: is this the address of a Handraise server?");
    }
    return { tool: said.tool, arguments: said.arguments };
  }

  /** Return a signed receipt of this asker's approval, for the place where the action is executed. */
  async receipt(questionId: string): Promise<string> {
    const said = (await this.#transport.call("GET", `${pathOf(questionId)}/receipt`)) as { receipt?: unknown };
    if (typeof said?.receipt !== "string") throw new StoreUnavailable("The server's response is not a receipt.");
    return said.receipt;
  }

  /** Report what came of the answer. A report is final: another one throws `AlreadyReported`. */
  async report(
    questionId: string,
    report: { readonly ok: boolean; readonly text: string; readonly link?: string; readonly details?: unknown },
  ): Promise<Question> {
    return questionOf(await this.#transport.call("POST", `${pathOf(questionId)}/report`, { body: report }));
  }

  /** Withdraw a question of this asker. */
  async withdraw(questionId: string, options: { readonly reason?: string } = {}): Promise<Question> {
    return questionOf(await this.#transport.call("POST", `${pathOf(questionId)}/withdraw`, { body: options }));
  }

  /** Return the question as it is now. */
  async get(questionId: string): Promise<Question> {
    return questionOf(await this.#transport.call("GET", pathOf(questionId)));
  }

  /** Return the question that this asker has asked with this key, or undefined. */
  async findByKey(key: string): Promise<Question | undefined> {
    const page = (await this.#transport.call("GET", "/v1/questions", { query: { key } })) as QuestionPage;
    const [found] = itemsOf(page);
    return found === undefined ? undefined : questionOf(found);
  }

  /** Return everything that happened to a question, oldest first. */
  async history(questionId: string): Promise<readonly Event[]> {
    return itemsOf((await this.#transport.call("GET", `${pathOf(questionId)}/history`)) as EventPage);
  }

  /** Return all messages that people and this asker have written about a question, oldest first. */
  async thread(questionId: string): Promise<readonly ThreadMessage[]> {
    return itemsOf((await this.#transport.call("GET", `${pathOf(questionId)}/thread`)) as Thread);
  }

  /** Yield what people ask back, as it comes, until the question is settled. `after` is the number of the last one you saw. */
  async *messages(
    questionId: string,
    options: { readonly after?: number; readonly signal?: AbortSignal } = {},
  ): AsyncGenerator<ThreadMessage, void> {
    let last = options.after ?? 0;
    pathOf(questionId);
    const leave = this.#heartbeats.waitingFor([questionId]);
    try {
      for await (const { event, data } of this.#transport.stream("/v1/events", { signal: options.signal })) {
        if (data === "") continue;
        if (event !== "ready" && (JSON.parse(data) as Event).question_id !== questionId) continue;
        // In this order: what is written in between is found by the next event.
        const history = await this.history(questionId);
        for (const message of (await this.thread(questionId)).slice(last)) {
          last = message.number;
          if (message.kind === "asked_back") yield message;
        }
        if (history.some((each) => ENDINGS.has(each.kind))) return;
      }
    } finally {
      leave();
    }
  }

  /** Reply to what people asked this asker: to the message with the number `to` and all before it, or to all so far. */
  async reply(
    questionId: string,
    text: string,
    options: { readonly to?: number; readonly attachments?: readonly Attachment[] } = {},
  ): Promise<Question> {
    return questionOf(await this.#transport.call("POST", `${pathOf(questionId)}/reply`, { body: { text, ...options } }));
  }

  /**
   * Yield the events of this asker's questions as they happen, after the cursor `after` or from now on; an empty cursor means
   * the beginning. No event is skipped and none comes twice, even if the connection is lost in between.
   */
  async *follow(options: { readonly after?: string; readonly signal?: AbortSignal } = {}): AsyncGenerator<Event, void> {
    for await (const { event, data } of this.#transport.stream("/v1/events", options)) {
      if (data !== "" && event !== "ready") yield JSON.parse(data) as Event;
    }
  }

  /** Say that this asker still waits for its questions that have a heartbeat. `ask` and `wait` do this by themselves. */
  async heartbeat(questionIds: readonly string[]): Promise<number> {
    return Object.keys(await this.#heartbeats.beat([...new Set(questionIds)])).length;
  }
}

interface Waiting {
  readonly pollInterval: number;
  readonly log: (message: string) => void;
}
type ReplyWith = NonNullable<WaitOptions["replyWith"]>;
interface WaitOptionsOrNone {
  readonly timeout?: Span | undefined;
  readonly replyWith?: ReplyWith | undefined;
  readonly signal?: Call["signal"];
}

/** The path of a question; throws `QuestionNotFound` for an id that no server accepts. */
function pathOf(questionId: string): string {
  if (typeof questionId !== "string") throw new TypeError("This takes the id of a question: write question.id.");
  if (!QUESTION_ID.test(questionId)) {
    throw new QuestionNotFound("question_not_found", `There is no question ${questionId.slice(0, 200)} here.`);
  }
  return `/v1/questions/${encodeURIComponent(questionId)}`;
}

function questionOf(said: unknown): Question {
  const question = said as Partial<Question> | undefined;
  if (typeof question?.id !== "string" || typeof question.status !== "string" || typeof question.form !== "object") {
    throw new StoreUnavailable("The server's response is not a question: is this the address of a Handraise server?");
  }
  return question as Question;
}

function itemsOf<Item>(page: { readonly items: readonly Item[] } | undefined): readonly Item[] {
  if (!Array.isArray(page?.items)) throw new StoreUnavailable("The server's response is not a page.");
  return page.items;
}

function repliesTo(event: Event): number {
  const { replies_to: number } = (event.data ?? {}) as { replies_to?: unknown };
  return event.kind === "replied" && typeof number === "number" ? number : 0;
}

function given(options: { [Name in keyof WaitOptions]: WaitOptions[Name] | undefined }): WaitOptions {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined));
}

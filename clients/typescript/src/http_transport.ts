/** The connection to a server: requests that are safe to send again, and streams that continue where they broke off. */
import { DeskClosed, HandraiseError, StoreUnavailable, TooManyRequests, errorOf, isTemporary } from "./errors.js";
import { type StreamMessage, messagesOf } from "./event_stream.js";
import { jsonText } from "./json.js";
import type { ProblemDocument } from "./records.js";
import { after, isSeconds, now, onAbort, sleep, timing } from "./timing.js";
import { uuid7 } from "./uuid7.js";

export interface Call {
  readonly body?: object | undefined;
  readonly query?: Readonly<Record<string, string | readonly string[] | undefined>>;
  /** For how long the server may wait before it answers. */
  readonly wait?: number;
  /** For how long to try again if no server can be reached. */
  readonly patience?: number;
  /** The first request of a desk: it is tried for a shorter time, and only once if something else answers. */
  readonly opening?: boolean;
  /** Doing it twice is the same as doing it once, so it needs no idempotency key. */
  readonly safe?: boolean;
  readonly signal?: AbortSignal | undefined;
}

export interface TransportOptions {
  readonly key: string;
  readonly fetch: typeof fetch;
  readonly log: (message: string) => void;
}

/**
 * Sends requests to one or several servers on the same store: if one does not answer, the next is tried. A request that
 * changes something has an idempotency key, or the id of what it makes, so that a retry does nothing twice.
 */
export class HttpTransport {
  readonly #addresses: readonly string[];
  readonly #options: TransportOptions;
  readonly #closing = new AbortController();
  #at = 0;

  constructor(addresses: readonly string[], options: TransportOptions) {
    this.#addresses = addresses.map((address) => address.replace(/\/+$/, ""));
    this.#options = options;
  }

  get closed(): AbortSignal {
    return this.#closing.signal;
  }

  /** Running requests end with `DeskClosed`. */
  close(): void {
    this.#closing.abort();
  }

  /** The server's response, or undefined if it is empty. Throws the error that the server returns. */
  async call(method: "GET" | "POST", path: string, call: Call = {}): Promise<unknown> {
    const { wait = 0, opening = false, signal } = call;
    const headers: Record<string, string> = { authorization: `Bearer ${this.#options.key}` };
    if (method === "POST" && !call.safe) headers["idempotency-key"] = uuid7().replaceAll("-", "");
    if (call.body !== undefined) headers["content-type"] = "application/json";
    const body = call.body === undefined ? null : jsonText(call.body);
    const target = path + queryText(call.query);
    const began = now();
    let pause = timing.firstPause;
    let told = false;
    for (let tries = 1; ; tries++) {
      const address = this.#address;
      let error: HandraiseError;
      try {
        const patience = opening ? timing.openingPatience : timing.response + wait;
        const response = await this.#send(address + target, { method, headers, body }, patience, signal);
        if (response.status >= 200 && response.status < 300) return parsed(response.text, address);
        error = refusal(response, address);
        if (isRedirect(response.status)) throw error;
        if (opening && response.status < 500 && !(error instanceof TooManyRequests)) throw error;
      } catch (failure) {
        if (failure instanceof HandraiseError) throw failure;
        if (this.closed.aborted) throw new DeskClosed();
        if (signal?.aborted) throw signal.reason;
        this.#leave(address);
        error = unreachable(address, failure);
      }
      if (!isTemporary(error)) throw error;
      let most = error.code === "request_conflict" ? timing.conflictPatience : timing.patience + wait;
      most = call.patience ?? most;
      if (opening) most = Math.min(most, timing.openingPatience);
      const rest = Math.max(spread(pause), error instanceof TooManyRequests ? error.retryAfter : 0);
      const isTried = !opening || tries >= this.#addresses.length;
      if (isTried && now() + rest > began + most) throw error;
      if (!told && error instanceof StoreUnavailable) {
        told = true;
        this.#options.log(`${error.message} Trying again for up to ${Math.round(most)} seconds.`);
      }
      await this.#rest(rest, signal);
      pause = Math.min(pause * 2, timing.longestPause);
    }
  }

  /**
   * The messages of an event stream; after a break it continues where it was cut off. The first is always `ready`, again
   * after each break. Throws the server's error if it refuses the stream, and `StoreUnavailable` if nothing came within
   * `firstWithin` seconds of the first try.
   */
  async *stream(
    path: string,
    options: { readonly after?: string | undefined; readonly firstWithin?: number; readonly signal?: AbortSignal | undefined },
  ): AsyncGenerator<StreamMessage, never> {
    const { firstWithin, signal } = options;
    const begun = now();
    let place = options.after;
    let pause = timing.firstPause;
    let heard = false;
    let heartbeat = timing.heartbeat;
    for (;;) {
      const patience = heard || firstWithin === undefined ? timing.silence * heartbeat : firstWithin;
      const limit = new Limit(patience, this.closed, signal);
      const address = this.#address;
      let rest = 0;
      try {
        const response = await this.#options.fetch(
          address + path + queryText({ after: place === undefined ? undefined : place || "0" }),
          this.#request({ headers: { authorization: `Bearer ${this.#options.key}` } }, limit.signal),
        );
        const { ok, status, body } = response;
        const type = typeOf(response);
        if (!ok || body === null) throw refusal({ status, type, text: await response.text() }, address);
        if (!/^text\/event-stream\b/i.test(type)) {
          await body.cancel();
          throw refusal({ status, type, text: "" }, address);
        }
        for await (const message of messagesOf(body)) {
          heard = true;
          pause = timing.firstPause;
          if (message.id) place = message.id;
          if (message.event === "ready") heartbeat = heartbeatOf(message.data);
          limit.pause();
          yield message;
          limit.restart(timing.silence * heartbeat);
        }
      } catch (failure) {
        if (this.closed.aborted) throw new DeskClosed();
        if (signal?.aborted) throw signal.reason;
        const isBroken = failure instanceof StoreUnavailable || failure instanceof TooManyRequests;
        if (failure instanceof HandraiseError && !isBroken) throw failure;
        if (!heard && firstWithin !== undefined && now() - begun > firstWithin) {
          throw new StoreUnavailable(`The server streams nothing: ${reasonOf(failure)}`, undefined, { cause: failure });
        }
        if (failure instanceof TooManyRequests) rest = failure.retryAfter;
      } finally {
        limit.end();
      }
      this.#leave(address);
      await this.#rest(Math.max(rest, spread(pause)), signal);
      pause = Math.min(pause * 2, timing.longestPause);
    }
  }

  get #address(): string {
    return this.#addresses[this.#at] ?? "";
  }

  /** Switch to the next address; of all callers that found this one dead, only the first does. */
  #leave(address: string): void {
    if (address === this.#address) this.#at = (this.#at + 1) % this.#addresses.length;
  }

  async #send(url: string, request: RequestInit, seconds: number, signal?: AbortSignal): Promise<Answer> {
    if (this.closed.aborted) throw new DeskClosed();
    const limit = new Limit(seconds, this.closed, signal);
    try {
      const response = await this.#options.fetch(url, this.#request(request, limit.signal));
      return { status: response.status, type: typeOf(response), text: await response.text() };
    } finally {
      limit.end();
    }
  }

  /** The key goes to the address that was given and nowhere else: no redirect is followed, no cookie is sent. */
  #request(request: RequestInit, signal: AbortSignal): RequestInit {
    return { ...request, signal, redirect: "manual", credentials: "omit", cache: "no-store" };
  }

  async #rest(seconds: number, signal?: AbortSignal): Promise<void> {
    const limit = new Limit(seconds, this.closed, signal);
    await sleep(seconds, limit.signal);
    limit.end();
    if (this.closed.aborted) throw new DeskClosed();
    signal?.throwIfAborted();
  }
}

interface Answer {
  readonly status: number;
  readonly type: string;
  readonly text: string;
}

/** Aborts after some seconds, or when one of these signals does. */
class Limit {
  readonly #controller = new AbortController();
  readonly #leaving: readonly (() => void)[];
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(seconds: number, ...signals: readonly (AbortSignal | undefined)[]) {
    if (signals.some((each) => each?.aborted)) this.#abort();
    this.#leaving = signals.map((each) => onAbort(each, this.#abort));
    this.restart(seconds);
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  pause(): void {
    clearTimeout(this.#timer);
  }

  restart(seconds: number): void {
    this.pause();
    this.#timer = after(seconds, this.#abort);
  }

  end(): void {
    this.pause();
    for (const leave of this.#leaving) leave();
  }

  readonly #abort = (): void => {
    this.#controller.abort(new Error("nothing came in time"));
  };
}

/** How often the server sends something, in seconds, as the first message of a stream says. */
export function heartbeatOf(ready: string): number {
  try {
    const { heartbeat } = JSON.parse(ready) as { heartbeat: unknown };
    return isSeconds(heartbeat) ? Math.max(heartbeat, timing.shortestHeartbeat) : timing.heartbeat;
  } catch {
    return timing.heartbeat; // of a server that does not say
  }
}

function spread(pause: number): number {
  return pause * (0.5 + Math.random() / 2);
}

function typeOf(response: Response): string {
  return response.headers.get("content-type") ?? "";
}

/** In a browser the status of a redirect is 0. */
function isRedirect(status: number): boolean {
  return status < 400;
}

function queryText(query: Call["query"] = {}): string {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    for (const each of value === undefined ? [] : [value].flat()) parameters.append(name, each as string);
  }
  const text = parameters.toString();
  return text && `?${text}`;
}

function parsed(text: string, address: string): unknown {
  if (text === "") return undefined;
  try {
    return JSON.parse(text);
  } catch {
    throw new StoreUnavailable(`The response of ${address} is not JSON: is this the address of a Handraise server?`);
  }
}

function reasonOf(failure: unknown): string {
  if (!(failure instanceof Error)) return String(failure);
  return failure.cause instanceof Error && failure.cause.message ? failure.cause.message : failure.message;
}

function unreachable(address: string, failure: unknown): StoreUnavailable {
  const text = `The server at ${address} cannot be reached (${reasonOf(failure)}). Is it running?`;
  return new StoreUnavailable(text, undefined, { cause: failure });
}

/** The error in a response. */
function refusal(response: Answer, address: string): HandraiseError {
  if (response.type.startsWith("application/problem+json")) {
    try {
      const document = JSON.parse(response.text) as ProblemDocument;
      if (typeof document.code === "string" && typeof document.detail === "string") return errorOf(document);
    } catch {
      // not a document after all
    }
  }
  return new StoreUnavailable(
    `What answers at ${address} is not a Handraise server, or something in between answers for it: it said ` +
      `${response.status}. Check the address.`,
  );
}

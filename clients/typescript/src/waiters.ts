/**
 * All waits of a desk, with one listener and one poll for all of them. Subscribe, read, then sleep. A hint only says what to
 * read again; the poll reads everything now and then, because a hint gets lost sooner or later. Without waits nothing runs,
 * so that a program which waits for nothing more can end.
 */
import { DeskClosed, HandraiseError, QuestionNotFound, StillPending, StoreUnavailable, isTemporary } from "./errors.js";
import type { HttpTransport } from "./http_transport.js";
import { ENDINGS, type Outcome, type OutcomeStates } from "./records.js";
import { MOST_IDS, ServerHints } from "./server_hints.js";
import { after, now, onAbort, sleep, timing } from "./timing.js";

/** A poll that takes a second comes again after four. */
const SPARE = 4;

/** What is known about some questions: an outcome, or why there is none to wait for. Pending ones are left out. */
type Found = ReadonlyMap<string, Outcome | HandraiseError>;

interface Wait {
  settle(outcome: Outcome): void;
  fail(error: unknown): void;
}

interface WaitOptions {
  readonly timeout?: number | undefined;
  readonly signal?: AbortSignal | undefined;
}

export class Waiters {
  readonly #transport: HttpTransport;
  readonly #log: (message: string) => void;
  readonly #hints: ServerHints;
  readonly #waits = new Map<string, Set<Wait>>();
  readonly #unread = new Set<string>();
  #running: AbortController | undefined;
  #wakeUp: () => void = () => undefined;
  #polledAt = 0;
  #soonest = 0;
  #hurried = false;

  constructor(
    transport: HttpTransport,
    options: { readonly pollInterval: number; readonly log: (message: string) => void },
  ) {
    this.#transport = transport;
    this.#log = options.log;
    this.#hints = new ServerHints(transport, () => this.#waits.keys(), options);
    onAbort(transport.closed, () => {
      this.#running?.abort();
      this.#failAll(new DeskClosed());
    });
  }

  /** Wait until one of these is settled. A timeout throws `StillPending`. */
  async firstOf(ids: readonly string[], { timeout, signal }: WaitOptions): Promise<[string, Outcome]> {
    if (this.#transport.closed.aborted) throw new DeskClosed();
    signal?.throwIfAborted();
    let leave: () => void = () => undefined;
    const first = await new Promise<[string, Outcome] | undefined>((resolve, reject) => {
      const waits = ids.map((id): [string, Wait] => [id, { settle: (outcome) => resolve([id, outcome]), fail: reject }]);
      const end = now() + (timeout ?? 0);
      // A timer of JavaScript lasts 24 days at most.
      const onTime = (): void => (now() < end ? void (timer = after(end - now(), onTime)) : resolve(undefined));
      let timer = timeout === undefined ? undefined : after(timeout, onTime);
      const forget = onAbort(signal, () => reject(signal?.reason));
      leave = () => {
        clearTimeout(timer);
        forget();
        for (const [id, wait] of waits) this.#leave(id, wait);
      };
      for (const [id, wait] of waits) this.#enter(id, wait);
    }).finally(() => leave());
    return first ?? this.#settledAfterAll(ids);
  }

  #enter(id: string, wait: Wait): void {
    const others = this.#waits.get(id) ?? new Set();
    this.#waits.set(id, others.add(wait));
    this.#unread.add(id);
    this.#wakeUp();
    if (this.#running === undefined) {
      this.#running = new AbortController();
      void this.#readForAll(this.#running.signal);
    }
  }

  #leave(id: string, wait: Wait): void {
    const waits = this.#waits.get(id);
    waits?.delete(wait);
    if (waits?.size === 0) this.#waits.delete(id);
    if (this.#waits.size === 0) {
      this.#running?.abort();
      this.#running = undefined;
    }
  }

  /** Read once more after a timeout: it may have been too short for a first read. */
  async #settledAfterAll(ids: readonly string[]): Promise<[string, Outcome]> {
    const over = new AbortController();
    const timer = after(timing.lastLook, () => over.abort());
    let found: Found;
    try {
      found = await this.#read(ids, over.signal);
    } catch (error) {
      if (!over.signal.aborted) throw error;
      throw new StoreUnavailable(
        `The wait timed out, and the server did not say within ${timing.lastLook} seconds whether there is an ` +
          "answer. Wait again when it can be reached; nothing is lost.",
      );
    } finally {
      clearTimeout(timer);
    }
    for (const id of ids) {
      const outcome = found.get(id);
      if (outcome instanceof HandraiseError) throw outcome;
      if (outcome !== undefined) return [id, outcome];
    }
    throw new StillPending(ids);
  }

  /** Listen, read what hints are about, and poll everything at intervals, until nobody waits. */
  async #readForAll(signal: AbortSignal): Promise<void> {
    this.#polledAt = now();
    this.#soonest = 0;
    this.#hurried = false;
    const listening = new Promise<void>((resolve) => {
      const onHint = (ids?: readonly string[]): void => this.#onHint(ids);
      this.#hints.listen(onHint, resolve, signal).catch((error) => {
        this.#log(`no hints can be received (${String(error)}); waits find out by polling`);
        resolve();
      });
    });
    await Promise.race([listening, sleep(timing.retry, signal)]);
    while (!signal.aborted) {
      const isDue = this.#pollIn() <= 0;
      const ids = isDue ? [...this.#waits.keys()] : [...this.#unread].filter((id) => this.#waits.has(id));
      const began = now();
      this.#unread.clear();
      if (isDue) this.#hurried = false; // a hint that comes during the read asks for another one
      try {
        if (ids.length > 0) this.#give(await this.#read(ids, signal));
        if (isDue) {
          if (began >= this.#polledAt + this.#hints.pollInterval) this.#polledAt = began;
          this.#soonest = began + SPARE * (now() - began);
        }
      } catch (error) {
        if (signal.aborted || error instanceof DeskClosed) return;
        if (error instanceof HandraiseError && !isTemporary(error)) {
          this.#failAll(error); // the key was revoked, for example, and nobody would ever be told
        } else {
          this.#log(`the server cannot be read (${String(error)}); waiting for it to come back`);
          await sleep(this.#hints.pollInterval, signal);
          this.#hurried = true;
          this.#soonest = 0;
        }
      }
      if (this.#unread.size === 0) await this.#nextWakeUp(signal);
    }
  }

  #onHint(ids?: readonly string[]): void {
    if (ids === undefined) this.#hurried = true;
    for (const id of ids ?? []) if (this.#waits.has(id)) this.#unread.add(id);
    this.#wakeUp();
  }

  /** Seconds until the next poll. One that a hint asks for does not come right after the last one. */
  #pollIn(): number {
    const regular = this.#polledAt + this.#hints.pollInterval;
    return (this.#hurried ? this.#soonest : Math.max(this.#soonest, regular)) - now();
  }

  async #nextWakeUp(signal: AbortSignal): Promise<void> {
    const awake = new AbortController();
    this.#wakeUp = () => awake.abort();
    const leave = onAbort(signal, this.#wakeUp);
    await sleep(this.#pollIn(), awake.signal);
    leave();
  }

  #give(found: Found): void {
    for (const [id, outcome] of found) {
      for (const wait of this.#waits.get(id) ?? []) {
        outcome instanceof HandraiseError ? wait.fail(outcome) : wait.settle(outcome);
      }
    }
  }

  #failAll(error: HandraiseError): void {
    for (const waits of this.#waits.values()) for (const wait of waits) wait.fail(error);
  }

  async #read(ids: readonly string[], signal: AbortSignal): Promise<Found> {
    const pages: string[][] = [];
    for (let start = 0; start < ids.length; start += MOST_IDS) pages.push(ids.slice(start, start + MOST_IDS));
    const found = new Map<string, Outcome | HandraiseError>();
    await Promise.all(
      pages.map(async (page) => {
        const states = (await this.#transport.call("GET", "/v1/outcomes", { query: { id: page }, signal })) as OutcomeStates;
        if (!Array.isArray(states?.settled) || !Array.isArray(states.unknown)) {
          throw new StoreUnavailable("The server did not say how the questions stand.");
        }
        for (const { id, outcome } of states.settled) {
          if (outcome && page.includes(id)) found.set(id, ENDINGS.has(outcome.status) ? outcome : unknown(id, outcome));
        }
        for (const id of states.unknown) if (page.includes(id)) found.set(id, notFound(id));
      }),
    );
    return found;
  }
}

/** A newer server may know more ways to end. It is not pending, and nobody knows what it means. */
function unknown(id: string, { status }: Outcome): HandraiseError {
  return new HandraiseError("unknown_outcome", `Question ${id} has ended as "${status}": update @handraise/client to know it.`);
}

function notFound(id: string): HandraiseError {
  return new QuestionNotFound("question_not_found", `There is no question ${id} here.`);
}

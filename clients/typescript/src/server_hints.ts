/**
 * Hints from a server: one event stream for all waits, or long polls if no stream gets through. Waits poll the server only
 * while it is not known that hints arrive. A stream is known to work from its first heartbeat on, for as long as heartbeats
 * come. When one is late, everything is read at once, and polls begin again.
 */
import { DeskClosed, HandraiseError, StoreUnavailable } from "./errors.js";
import { type HttpTransport, heartbeatOf } from "./http_transport.js";
import { ENDINGS, type Event, type OutcomeStates } from "./records.js";
import { after, now, onAbort, sleep, timing } from "./timing.js";

/** How many questions one request to a server may ask about. */
export const MOST_IDS = 200;

const GIVEN_UP = Symbol();

/** Says which questions to read again; undefined means all. */
export type OnHint = (questionIds?: readonly string[]) => void;

export class ServerHints {
  readonly #transport: HttpTransport;
  readonly #waitedFor: () => Iterable<string>;
  readonly #pollInterval: number;
  readonly #log: (message: string) => void;
  #trustedFor = 0;
  #covered: ReadonlySet<string> | undefined;
  #isLate: ReturnType<typeof setTimeout> | undefined;

  constructor(
    transport: HttpTransport,
    waitedFor: () => Iterable<string>,
    options: { readonly pollInterval: number; readonly log: (message: string) => void },
  ) {
    this.#transport = transport;
    this.#waitedFor = waitedFor;
    this.#pollInterval = options.pollInterval;
    this.#log = options.log;
  }

  /** How long the next poll can wait now. */
  get pollInterval(): number {
    if (this.#covered !== undefined && this.#hasNewWaits(this.#covered)) return this.#pollInterval;
    return Math.max(this.#trustedFor, this.#pollInterval);
  }

  /** Give hints until the signal. `onListening` is called once no later change can be missed, or no stream comes. */
  async listen(onHint: OnHint, onListening: () => void, signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      try {
        await this.#stream(onHint, onListening, signal);
      } catch (error) {
        if (this.#isOver(error, signal)) return;
        this.#log(`no event stream (${(error as Error).message}); long polls instead`);
      } finally {
        this.#distrust();
      }
      onListening();
      try {
        await this.#longPolls(onHint, signal);
      } catch (error) {
        if (this.#isOver(error, signal)) return;
        this.#log(`no long poll either (${(error as Error).message}); waits find out by polling`);
        await sleep(timing.retry, signal);
      } finally {
        this.#distrust();
      }
    }
  }

  #isOver(error: unknown, signal: AbortSignal): boolean {
    if (signal.aborted || error instanceof DeskClosed) return true;
    if (!(error instanceof HandraiseError)) throw error;
    return false;
  }

  async #stream(onHint: OnHint, onListening: () => void, signal: AbortSignal): Promise<void> {
    let heartbeat = timing.heartbeat;
    for await (const { event, data } of this.#transport.stream("/v1/events", {
      firstWithin: timing.firstWithin,
      signal,
    })) {
      if (event === "ready") {
        heartbeat = heartbeatOf(data);
        onListening();
        onHint();
      } else if (data === "") {
        // Not from `ready` on: a proxy may pass the first bytes and keep the others.
        this.#trustedFor = timing.trustedStream;
      } else if (ENDINGS.has(event)) {
        onHint([(JSON.parse(data) as Event).question_id]);
      }
      this.#expect(heartbeat, onHint);
    }
  }

  /** Trust the stream no more if its next message does not come in time. */
  #expect(heartbeat: number, onHint: OnHint): void {
    clearTimeout(this.#isLate);
    this.#isLate = after(timing.late * heartbeat, () => {
      this.#distrust();
      onHint();
    });
  }

  #distrust(): void {
    this.#trustedFor = 0;
    this.#covered = undefined;
    clearTimeout(this.#isLate);
  }

  /** Poll until it is time to try a stream again. Polls become longer until a proxy cuts one, and stay shorter then. */
  async #longPolls(onHint: OnHint, signal: AbortSignal): Promise<void> {
    const until = now() + timing.anotherStream;
    let length = timing.firstLongPoll;
    let longest = timing.longestLongPoll;
    while (now() < until && !signal.aborted) {
      const ids = [...this.#waitedFor()].slice(0, MOST_IDS);
      if (ids.length === 0) {
        await sleep(timing.retry, signal);
        continue;
      }
      const began = now();
      let states: OutcomeStates | typeof GIVEN_UP;
      try {
        states = await this.#longPoll(ids, length, signal);
      } catch (error) {
        if (signal.aborted || !(error instanceof HandraiseError) || error instanceof DeskClosed) throw error;
        this.#distrust();
        const lasted = now() - began;
        if (lasted < timing.shortestLongPoll) throw error;
        longest = length = Math.max(timing.shortestLongPoll, Math.min(0.8 * lasted, length / 2));
        onHint();
        continue;
      }
      if (states === GIVEN_UP) continue;
      const found = [...states.settled.map((each) => each.id), ...states.unknown].filter((id) => ids.includes(id));
      onHint(found);
      if (found.length === 0) {
        const lasted = now() - began;
        this.#trustedFor = Math.min(lasted, timing.trustedLongPoll);
        length = Math.min(2 * length, longest);
        await sleep(Math.max(0, timing.retry - lasted), signal); // a server that stops answers at once
      }
    }
  }

  /** What a long poll says, or that it was given up because there are new waits. */
  async #longPoll(ids: readonly string[], length: number, signal: AbortSignal): Promise<OutcomeStates | typeof GIVEN_UP> {
    const covered = new Set(ids);
    this.#covered = covered;
    const giveUp = new AbortController();
    const stop = (): void => giveUp.abort();
    const leave = onAbort(signal, stop);
    const looking = setInterval(() => {
      if (covered.size < MOST_IDS && this.#hasNewWaits(covered)) stop();
    }, timing.newWaits * 1000);
    try {
      const query = { id: ids, wait: `${length}s` };
      const call = { query, wait: length, patience: 0, signal: giveUp.signal };
      const said = await this.#transport.call("GET", "/v1/outcomes", call);
      const states = (said ?? { settled: [], unknown: [] }) as OutcomeStates;
      if (Array.isArray(states.settled) && Array.isArray(states.unknown)) return states;
      throw new StoreUnavailable("The server did not say how the questions stand.");
    } catch (error) {
      if (giveUp.signal.aborted && !signal.aborted && !(error instanceof HandraiseError)) return GIVEN_UP;
      throw error;
    } finally {
      clearInterval(looking);
      leave();
    }
  }

  #hasNewWaits(covered: ReadonlySet<string>): boolean {
    for (const id of this.#waitedFor()) if (!covered.has(id)) return true;
    return false;
  }
}

/** Says for all waits of a desk that somebody still waits, if their questions have a heartbeat. Most have none. */
import { DeskClosed, HandraiseError, StoreUnavailable, isTemporary } from "./errors.js";
import type { HttpTransport } from "./http_transport.js";
import type { Heartbeats as HeartbeatsRecord, Question } from "./records.js";
import { after, isSeconds, onAbort, timing } from "./timing.js";

const MOST_BEATS = 1_000;
/** How many signs there are in the time of one heartbeat. */
const EACH = 3;
/** A question that is left out this often has no heartbeat; once, it may only have been locked. */
const TRIES = 2;
/** After how many seconds to try again if the server cannot be reached. */
const AGAIN = 5;
const REMEMBERED = 2_000;

interface Waiting {
  count: number;
  heartbeat: number | undefined;
  leftOut: number;
  timer: ReturnType<typeof setTimeout> | undefined;
}

export class Heartbeats {
  readonly #transport: HttpTransport;
  readonly #first: number;
  readonly #waits = new Map<string, Waiting>();
  readonly #without = new Set<string>();

  constructor(transport: HttpTransport, first: number) {
    this.#transport = transport;
    this.#first = first;
    onAbort(transport.closed, () => {
      for (const waiting of this.#waits.values()) clearTimeout(waiting.timer);
    });
  }

  /** Remember that a question has no heartbeat, so that a wait for it need not find out. */
  remember(question: Question): void {
    if (question.heartbeat != null) return;
    this.#without.add(question.id);
    const [oldest] = this.#without;
    if (this.#without.size > REMEMBERED && oldest !== undefined) this.#without.delete(oldest);
  }

  /** Give signs until the returned function is called. */
  waitingFor(ids: readonly string[]): () => void {
    const beating = ids.filter((id) => !this.#without.has(id));
    for (const id of beating) {
      const waiting = this.#waits.get(id) ?? { count: 0, heartbeat: undefined, leftOut: 0, timer: undefined };
      waiting.count += 1;
      if (waiting.count === 1) this.#plan(id, waiting, this.#first);
      this.#waits.set(id, waiting);
    }
    return () => {
      for (const id of beating) this.#leave(id);
    };
  }

  /** Say once that somebody waits for these. Returns the heartbeats of those that have one, in seconds. */
  async beat(ids: readonly string[]): Promise<Readonly<Record<string, number>>> {
    const found: Record<string, number> = {};
    for (let start = 0; start < ids.length; start += MOST_BEATS) {
      const body = { ids: ids.slice(start, start + MOST_BEATS) };
      const said = await this.#transport.call("POST", "/v1/heartbeats", { body, safe: true });
      const { heartbeats } = (said ?? {}) as Partial<HeartbeatsRecord>;
      if (!heartbeats) throw new StoreUnavailable("The server did not say how the questions stand.");
      for (const [id, seconds] of Object.entries(heartbeats)) found[id] = isSeconds(seconds) ? seconds : timing.heartbeat;
    }
    return found;
  }

  #leave(id: string): void {
    const waiting = this.#waits.get(id);
    if (waiting === undefined) return;
    waiting.count -= 1;
    if (waiting.count === 0) {
      clearTimeout(waiting.timer);
      this.#waits.delete(id);
    }
  }

  #plan(id: string, waiting: Waiting, seconds: number): void {
    waiting.timer = after(seconds, () => void this.#give(id, waiting));
  }

  /** Undefined if it has none, or if the server refuses to say: for example, it is another asker's question. */
  async #heartbeatOf(id: string): Promise<number | undefined> {
    try {
      return (await this.beat([id]))[id];
    } catch (error) {
      if (error instanceof DeskClosed || !(error instanceof HandraiseError) || isTemporary(error)) throw error;
      return undefined;
    }
  }

  async #give(id: string, waiting: Waiting): Promise<void> {
    let again = waiting.heartbeat === undefined ? this.#first : waiting.heartbeat / EACH;
    try {
      const heartbeat = await this.#heartbeatOf(id);
      if (heartbeat !== undefined) waiting.heartbeat = heartbeat;
      else if (waiting.heartbeat === undefined) waiting.leftOut += 1;
      if (waiting.heartbeat !== undefined) again = waiting.heartbeat / EACH;
    } catch (error) {
      if (error instanceof DeskClosed) return;
      again = Math.min(AGAIN, (waiting.heartbeat ?? AGAIN) / EACH);
    }
    const hasNone = waiting.heartbeat === undefined && waiting.leftOut >= TRIES;
    if (waiting.count > 0 && !hasNone && !this.#transport.closed.aborted) this.#plan(id, waiting, Math.max(again, timing.firstPause));
  }
}

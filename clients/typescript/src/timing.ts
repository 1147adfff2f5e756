/** How long things take, in seconds: the same as in the Python client. Tests shorten some of them. */
export const timing = {
  /** How long to try again if no server can be reached. */
  patience: 30,
  /** If a server dies during a request, another server takes the request over after a minute at most. */
  conflictPatience: 90,
  /** How long to try an address that has never answered: it is more often wrong than restarting. */
  openingPatience: 5,
  /** How long a server may take to answer a request that does not wait. */
  response: 20,
  firstPause: 0.05,
  longestPause: 2,

  /** How often waits read the server while it is not known that its hints arrive. */
  pollInterval: 5,
  /** How long a read may take after a wait has timed out. */
  lastLook: 5,

  /** How often a server sends something on a stream, unless the stream's first message says otherwise. */
  heartbeat: 15,
  shortestHeartbeat: 0.05,
  /** A stream that is silent for more than so many heartbeats is broken. */
  silence: 3,
  /** After how many heartbeats without one a stream is no longer known to work. */
  late: 1.5,
  /** How long the first message of a stream may take before long polls are tried instead. */
  firstWithin: 10,
  retry: 1,
  /** How often to poll while a stream is known to work. */
  trustedStream: 300,
  /** The same for long polls, of which a broken connection shows nothing until they end. */
  trustedLongPoll: 60,
  firstLongPoll: 25,
  shortestLongPoll: 5,
  /** Shorter than in Python: the `fetch` of Node gives up after 300. */
  longestLongPoll: 240,
  /** After how many seconds of long polls to try a stream again. */
  anotherStream: 1_200,
  /** How often to look for new waits while a long poll is under way. */
  newWaits: 5,
};

/** Whether a server's response has a length of time here, and not a text such as "30s". */
export function isSeconds(value: unknown): value is number {
  return Number.isFinite(value) && (value as number) >= 0;
}

/** Seconds since some moment; the clock on the wall does not matter. */
export function now(): number {
  return performance.now() / 1000;
}

/** A timer for so many seconds, but 23 days at most: a longer one of JavaScript would end at once. */
export function after(seconds: number, then: () => void): ReturnType<typeof setTimeout> {
  return setTimeout(then, Math.min(Math.max(seconds, 0) * 1000, 2_000_000_000));
}

/** Sleep, until the signal at most. */
export function sleep(seconds: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted) return resolve();
    const done = (): void => {
      clearTimeout(timer);
      leave();
      resolve();
    };
    const timer = after(seconds, done);
    const leave = onAbort(signal, done);
  });
}

const listeners = new WeakMap<AbortSignal, Set<() => void>>();

/** Call this when the signal is aborted, unless the returned function was called. One listener for all: Node warns of many. */
export function onAbort(signal: AbortSignal | undefined, then: () => void): () => void {
  if (!signal) return () => undefined;
  const all = listeners.get(signal) ?? new Set();
  if (!listeners.has(signal)) signal.addEventListener("abort", () => all.forEach((each) => each()));
  listeners.set(signal, all.add(then));
  return () => void all.delete(then);
}

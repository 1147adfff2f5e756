/** Questions that a page reads from its own server: the key of an agent does not belong into a page. */
import type { Outcome, Question } from "@handraise/client";
import type { QuestionSource } from "./use_question.js";

export interface PolledOptions {
  /** How many seconds are between two reads of a pending question. */
  readonly interval?: number;
  /** Sends requests, in place of the global `fetch`. */
  readonly fetch?: typeof fetch;
}

/**
 * Read questions from a route of your own server: `GET url/the-id` returns the record of the question, for the people who may
 * see it.
 */
export function polledQuestions(url: string, options: PolledOptions = {}): QuestionSource {
  const { interval = 2, fetch: send } = options;
  const get = async (questionId: string, signal?: AbortSignal): Promise<Question> => {
    const address = `${url.replace(/\/+$/, "")}/${encodeURIComponent(questionId)}`;
    const response = await (send ?? fetch)(address, { headers: { accept: "application/json" }, signal: signal ?? null });
    if (!response.ok) {
      const isTemporary = response.status >= 500 || response.status === 429;
      throw new (isTemporary ? Unavailable : Error)(`The question cannot be read: the server said ${response.status}.`);
    }
    const question = (await response.json()) as Question;
    if (question?.id !== questionId || typeof question.status !== "string") throw new Error("That is not the record of the question.");
    return question;
  };
  const wait = async (questionId: string, { signal }: { readonly signal: AbortSignal }): Promise<Outcome> => {
    for (;;) {
      await paused(interval, signal);
      const { outcome } = await get(questionId, signal).catch((error: unknown) => {
        // A server that is restarted comes back; one that refuses does not.
        if (error instanceof TypeError || error instanceof Unavailable) return { outcome: undefined };
        throw error;
      });
      if (outcome) return outcome;
    }
  };
  return { get: (questionId) => get(questionId), wait };
}

/** The server cannot answer now, or what stands before it cannot reach it. */
class Unavailable extends Error {}

function paused(seconds: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    signal.throwIfAborted();
    const stop = (): void => {
      clearTimeout(timer);
      reject(signal.reason);
    };
    const timer = setTimeout(() => {
      signal.removeEventListener("abort", stop);
      resolve();
    }, seconds * 1000);
    signal.addEventListener("abort", stop);
  });
}

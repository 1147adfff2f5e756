/** Hooks that follow questions until they are settled. They only read: people answer, and an agent's key cannot. */
import type { Outcome, Question } from "@handraise/client";
import { useEffect, useState } from "react";

/** Where questions are read: a `Desk`, or `polledQuestions` in a page that must not hold an agent's key. */
export interface QuestionSource {
  get(questionId: string): Promise<Question>;
  wait(questionId: string, options: { readonly signal: AbortSignal }): Promise<Outcome>;
}

/** What is known about a question. `question` stays if a later read fails. */
export type QuestionState =
  | { readonly status: "loading"; readonly question?: undefined; readonly outcome?: undefined; readonly error?: undefined }
  | { readonly status: "pending"; readonly question: Question; readonly outcome?: undefined; readonly error?: undefined }
  | { readonly status: "settled"; readonly question: Question; readonly outcome: Outcome; readonly error?: undefined }
  | { readonly status: "error"; readonly question?: Question | undefined; readonly outcome?: undefined; readonly error: unknown };

const LOADING: QuestionState = { status: "loading" };

/** Follow one question until it is settled. Without an id, nothing is read and the state is "loading". */
export function useQuestion(source: QuestionSource, questionId: string | undefined): QuestionState {
  const states = useQuestions(source, questionId === undefined ? [] : [questionId]);
  return (questionId === undefined ? undefined : states.get(questionId)) ?? LOADING;
}

/** Follow several questions, as those of a run. The map has them in the order of the ids. */
export function useQuestions(source: QuestionSource, questionIds: readonly string[]): ReadonlyMap<string, QuestionState> {
  const [known, setKnown] = useState<{ readonly source: QuestionSource; readonly states: ReadonlyMap<string, QuestionState> }>();
  const wanted = JSON.stringify(questionIds);
  useEffect(() => {
    const over = new AbortController();
    const set = (id: string, state: QuestionState): void => {
      if (over.signal.aborted) return;
      setKnown((before) => {
        const states = new Map(before?.source === source ? before.states : []);
        return { source, states: states.set(id, state) };
      });
    };
    for (const id of new Set(JSON.parse(wanted) as string[])) void follow(source, id, (state) => set(id, state), over.signal);
    return () => over.abort();
  }, [source, wanted]);
  const states = known?.source === source ? known.states : undefined;
  return new Map(questionIds.map((id) => [id, states?.get(id) ?? LOADING]));
}

async function follow(
  source: QuestionSource,
  id: string,
  set: (state: QuestionState) => void,
  signal: AbortSignal,
): Promise<void> {
  let question: Question | undefined;
  try {
    question = await source.get(id);
    if (!question.outcome) {
      if (signal.aborted) return;
      set({ status: "pending", question });
      const outcome = await source.wait(id, { signal });
      question = { ...(await source.get(id)), outcome };
    }
    set({ status: "settled", question, outcome: question.outcome as Outcome });
  } catch (error) {
    set({ status: "error", question, error });
  }
}

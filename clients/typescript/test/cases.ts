/** What all clients do in the same way: clients/cases.json. */
import { readFileSync } from "node:fs";
import type * as errors from "../build/src/errors.js";
import type { ProblemDocument, QuestionOptions } from "../build/src/index.js";

type ErrorName = Exclude<keyof typeof errors, "errorOf" | "isTemporary">;

export interface ScriptedResponse {
  readonly status?: number;
  readonly cut?: boolean;
  readonly text?: string;
  readonly location?: string;
  readonly body?: object;
  readonly document?: ProblemDocument;
}

export interface Cases {
  readonly canonical: readonly { readonly value: unknown; readonly text: string; readonly digest: string }[];
  readonly not_canonical: readonly unknown[];
  readonly spans: Readonly<Record<string, number>>;
  readonly not_spans: readonly string[];
  readonly errors: readonly { readonly document: ProblemDocument; readonly error: ErrorName; readonly tried_again: boolean }[];
  readonly error_codes: readonly string[];
  readonly retries: readonly {
    readonly name: string;
    readonly responses: readonly ScriptedResponse[];
    readonly error: string | null;
    readonly requests: number;
    readonly at_least?: number;
    readonly verb?: "open" | "consume";
  }[];
  readonly keys: readonly {
    readonly name: string;
    readonly first: QuestionOptions;
    readonly again: QuestionOptions;
    readonly same?: boolean;
    readonly error?: string;
    readonly key?: null;
  }[];
  readonly forms: readonly { readonly schema: Record<string, unknown>; readonly form: object | null }[];
  readonly answers: readonly {
    readonly options: QuestionOptions;
    readonly answer: unknown;
    readonly value?: unknown;
    readonly error?: string;
  }[];
}

/** The root of the repository. */
export const ROOT = new URL("../../../", import.meta.url);
export const cases = JSON.parse(readFileSync(new URL("clients/cases.json", ROOT), "utf8")) as Cases;

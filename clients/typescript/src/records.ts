/** What a server sends and takes, by the names of the HTTP API. */
import type { components } from "./openapi.js";

type Schemas = components["schemas"];

/** A question and its current state. `state` is private to the asker. */
export type Question = Schemas["QuestionRecord"];
/** How a question ended. `value`, `source` and `evidence` are set if it was answered. */
export type Outcome = Schemas["OutcomeRecord"];
/** One event of a question's history. */
export type Event = Schemas["EventRecord"];
/** One message of a question's thread. */
export type ThreadMessage = Schemas["MessageRecord"];
/** One thing that can be chosen. The answer is its `id`. */
export type Option = Schemas["Option"];
/** A named part of a form. */
export type Field = Schemas["Field"];
/** What an agent says about an action, in its own words. */
export type Brief = Schemas["Brief"];
/** The approval of a frozen action, as a form. */
export type Approval = Schemas["Approval"];
/** A form: what a valid answer is. */
export type Form =
  | Schemas["Choice"]
  | Schemas["MultiChoice"]
  | Schemas["Open"]
  | Schemas["Confirm"]
  | Schemas["File"]
  | Schemas["Form"]
  | Approval;
/** A file as it is described in a question, a reply or an answer. */
export type Attachment = Schemas["Attachment-Output"];
/** One thing that is wrong with a question or an answer, and where. */
export type Problem = Schemas["ProblemEntry"];
/** An error as a server sends it (RFC 9457). */
export type ProblemDocument = Schemas["ProblemDocument"];

export type Caller = Schemas["CallerRecord"];
export type EventPage = Schemas["EventPage"];
export type Heartbeats = Schemas["HeartbeatsRecord"];
export type OutcomeStates = Schemas["OutcomeStates"];
export type PostQuestion = Schemas["PostQuestion"];
export type QuestionPage = Schemas["QuestionPage"];
export type Thread = Schemas["Thread"];

/** An approved action, to be executed now. */
export interface Action<Arguments = Readonly<Record<string, unknown>>> {
  readonly tool: string;
  readonly arguments: Arguments;
}

/** The kinds of events that settle a question, and the statuses of a question that is settled. */
export const ENDINGS: ReadonlySet<string> = new Set<Outcome["status"]>([
  "answered",
  "declined",
  "expired",
  "withdrawn",
  "exhausted",
  "returned",
]);

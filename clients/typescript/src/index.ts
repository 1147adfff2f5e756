export { type AnswerOf, type AskOptions, Desk, type QuestionOptions, type WaitOptions } from "./desk.js";
export { type Span } from "./durations.js";
export * from "./errors.js";
export { type AnswerTo, type ApprovalRequest, type JsonSchema, approvalForm } from "./forms.js";
export { canonicalJson, digest } from "./json.js";
export { type DeskOptions, openDesk } from "./open_desk.js";
export type {
  Action,
  Approval,
  Attachment,
  Brief,
  Event,
  Field,
  Form,
  Option,
  Outcome,
  Problem,
  ProblemDocument,
  Question,
  ThreadMessage,
} from "./records.js";
export type { StandardSchema } from "./standard_schema.js";

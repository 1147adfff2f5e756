/** Errors, with the names and codes that they have in Python. An error never means that something was approved. */
import type { Outcome, Problem, ProblemDocument, Question } from "./records.js";
import { isSeconds } from "./timing.js";

/** The root of every error that Handraise throws on purpose. `code` is stable. */
export class HandraiseError extends Error {
  override readonly name: string;
  readonly #code: string;
  // Private, so that a log of the error does not show people's answers.
  readonly #document: ProblemDocument | undefined;

  constructor(code: string, message: string, document?: ProblemDocument, options?: ErrorOptions) {
    super(message, options);
    this.name = code.replace(/(?:^|_)(.)/g, (_, letter: string) => letter.toUpperCase()); // also if it is minified
    this.#code = code;
    this.#document = document;
  }

  get code(): string {
    return this.#code;
  }

  /** What the server said, if the error came from there. */
  get document(): ProblemDocument | undefined {
    return this.#document;
  }
}

/** An error that lists what is wrong. */
export class ProblemsError extends HandraiseError {
  readonly problems: readonly Problem[];

  constructor(code: string, message: string, document?: ProblemDocument, problems?: readonly Problem[]) {
    super(code, message, document);
    this.problems = problems ?? document?.problems ?? [];
  }
}

/** The question cannot be asked like this; nothing was registered. */
export class InvalidQuestion extends ProblemsError {
  static of(path: string, message: string): InvalidQuestion {
    const text = `This question cannot be asked: ${path}: ${message}`;
    return new InvalidQuestion("invalid_question", text, undefined, [{ path, message }]);
  }
}

/** The stored answer fits the form but not the schema given as `into`. */
export class AnswerTypeMismatch extends ProblemsError {}
export class InvalidAnswer extends ProblemsError {}
export class InvalidRequest extends ProblemsError {}
export class InvalidReport extends ProblemsError {}
export class InvalidMessage extends ProblemsError {}
export class InvalidAttachment extends ProblemsError {}
export class AttachmentTooLarge extends InvalidAttachment {}

/** The key is taken by a different question. `existing` is undefined if it belongs to another asker. */
export class KeyConflict extends HandraiseError {
  get existing(): Question | undefined {
    return this.document?.question ?? undefined;
  }
}

/** The question has already ended; `outcome` says how. */
export class AlreadySettled extends HandraiseError {
  get outcome(): Outcome | undefined {
    return this.document?.outcome ?? undefined;
  }
}

/** This action is not approved; `outcome` says how the question ended, if it has. */
export class NotApproved extends HandraiseError {
  get outcome(): Outcome | undefined {
    return this.document?.outcome ?? undefined;
  }

  get reason(): string {
    return this.document?.reason ?? this.message;
  }
}

/** The approval is no longer valid: its time is over, or the grant that it came from has ended. */
export class ApprovalLapsed extends NotApproved {}
/** Somebody who approved the action, or an administrator, has taken the approval back. */
export class ApprovalTakenBack extends NotApproved {}
/** The approval has already been used. Whether the action was executed is unknown: find out before you ask again. */
export class AlreadyConsumed extends HandraiseError {}
export class NothingToReport extends HandraiseError {}
/** Something else was reported before; a report is final. */
export class AlreadyReported extends HandraiseError {}
/** Nobody waits for a reply. */
export class NothingToReply extends HandraiseError {}
export class NoReceiptKey extends HandraiseError {}
/** An administrator has stopped this agent or tool. */
export class Stopped extends HandraiseError {}
export class Unauthenticated extends HandraiseError {}
export class PermissionDenied extends HandraiseError {}
export class NotFound extends HandraiseError {}
export class QuestionNotFound extends NotFound {}
export class AttachmentNotFound extends NotFound {}
/** The asker already has as many pending questions as it may have; nothing was registered. */
export class QuotaExceeded extends HandraiseError {}
/** A request with the same idempotency key is still running. */
export class RequestConflict extends HandraiseError {}

/** The caller has reached its rate limit. */
export class TooManyRequests extends HandraiseError {
  get retryAfter(): number {
    const seconds = this.document?.retry_after;
    return (isSeconds(seconds) && seconds) || 1;
  }
}

/** No server can be reached, or its store cannot. Nothing is known about what was asked for. */
export class StoreUnavailable extends HandraiseError {
  constructor(message: string, document?: ProblemDocument, options?: ErrorOptions) {
    super("store_unavailable", message, document, options);
  }
}

/** The wait's own timeout passed. The question is untouched and can be waited for again. */
export class StillPending extends HandraiseError {
  constructor(readonly questionIds: readonly string[]) {
    super("still_pending", `Nobody has answered ${questionIds.slice(0, 5).join(", ")} yet; wait again whenever you like.`);
  }
}

/** `ask` ended without an answer; `outcome` says how. Use `post` and `wait` to get it as a value. */
export class NotAnswered extends HandraiseError {
  constructor(
    readonly questionId: string,
    readonly outcome: Outcome,
  ) {
    const by = outcome.by ? ` by ${outcome.by}` : "";
    const why = outcome.reason ? `: ${outcome.reason}` : "";
    super("not_answered", `Question ${questionId} was not answered: ${outcome.status}${by}${why}`);
  }
}

/** The desk was closed. */
export class DeskClosed extends HandraiseError {
  constructor() {
    super("desk_closed", "This desk is closed; open another one. Pending questions are still stored.");
  }
}

type ErrorClass = new (code: string, message: string, document: ProblemDocument) => HandraiseError;

const KNOWN: Readonly<Record<string, ErrorClass>> = {
  invalid_request: InvalidRequest,
  invalid_question: InvalidQuestion,
  invalid_answer: InvalidAnswer,
  invalid_report: InvalidReport,
  invalid_message: InvalidMessage,
  invalid_attachment: InvalidAttachment,
  attachment_too_large: AttachmentTooLarge,
  attachment_not_found: AttachmentNotFound,
  key_conflict: KeyConflict,
  request_conflict: RequestConflict,
  already_settled: AlreadySettled,
  already_consumed: AlreadyConsumed,
  already_reported: AlreadyReported,
  nothing_to_report: NothingToReport,
  nothing_to_reply: NothingToReply,
  not_approved: NotApproved,
  approval_lapsed: ApprovalLapsed,
  approval_taken_back: ApprovalTakenBack,
  no_receipt_key: NoReceiptKey,
  stopped: Stopped,
  unauthenticated: Unauthenticated,
  permission_denied: PermissionDenied,
  question_not_found: QuestionNotFound,
  not_found: NotFound,
  quota_exceeded: QuotaExceeded,
  too_many_requests: TooManyRequests,
  // An agent does not get these. They are known so that they are not tried again.
  invalid_policy: ProblemsError,
  cannot_share: ProblemsError,
  cannot_keep: ProblemsError,
  already_taken: HandraiseError,
  cannot_ask_back: HandraiseError,
  grant_not_found: NotFound,
  not_in_bulk: HandraiseError,
  policy_changed: HandraiseError,
  precondition_failed: HandraiseError,
  receipt_refused: HandraiseError,
  thread_moved: HandraiseError,
};

/** What a document must have, or nobody can tell what it means. */
const NEEDED: Readonly<Record<string, keyof ProblemDocument>> = {
  already_settled: "outcome",
  already_reported: "report",
  stopped: "stop",
};

/** The error of a document. An unknown one is a server that failed. */
export function errorOf(document: ProblemDocument): HandraiseError {
  const { code, detail } = document;
  const kind = Object.hasOwn(KNOWN, code) ? KNOWN[code] : undefined;
  const needed = Object.hasOwn(NEEDED, code) ? NEEDED[code] : undefined;
  if (kind === undefined || (needed !== undefined && !document[needed])) {
    return new StoreUnavailable(`The server failed: ${detail} (${code}, ${document.status})`, document);
  }
  return new kind(code, detail, document);
}

/** Whether the same request may succeed a little later. */
export function isTemporary(error: unknown): error is StoreUnavailable | RequestConflict | TooManyRequests {
  return error instanceof StoreUnavailable || error instanceof RequestConflict || error instanceof TooManyRequests;
}

"""Errors as problem documents (RFC 9457), and back to errors at the client.

Every document has the stable `code` of the error tree. For a missing thing it says the same, whether it
exists in another workspace or nowhere.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from handraise.model.errors import (
    AlreadyConsumed,
    AlreadyReported,
    AlreadySettled,
    AlreadyTaken,
    ApprovalLapsed,
    ApprovalTakenBack,
    AttachmentNotFound,
    AttachmentTooLarge,
    CannotAskBack,
    CannotKeep,
    CannotShare,
    DeskClosed,
    GrantNotFound,
    InvalidAnswer,
    InvalidAttachment,
    InvalidMessage,
    InvalidPolicy,
    InvalidReport,
    InvalidRequest,
    KeyConflict,
    NoReceiptKey,
    NotApproved,
    NotFound,
    NothingToReply,
    NothingToReport,
    NotInBulk,
    PermissionDenied,
    PolicyChanged,
    PreconditionFailed,
    QuestionNotFound,
    QuotaExceeded,
    ReceiptRefused,
    RequestConflict,
    Stopped,
    StoreUnavailable,
    ThreadMoved,
    TooManyRequests,
    Unauthenticated,
)
from handraise.model.problems import HandraiseError, InvalidQuestion, Problem
from handraise.model.questions import Question
from handraise.wire.records import OutcomeRecord, QuestionRecord, Record, ReportRecord
from handraise.wire.stop_records import StopRecord

MEDIA_TYPE = "application/problem+json"

STATUSES: dict[type[HandraiseError], int] = {
    InvalidRequest: 422,
    InvalidQuestion: 422,
    InvalidAnswer: 422,
    InvalidPolicy: 422,
    KeyConflict: 409,
    RequestConflict: 409,
    AlreadySettled: 409,
    AlreadyConsumed: 409,
    InvalidReport: 422,
    NothingToReport: 409,
    AlreadyReported: 409,
    InvalidMessage: 422,
    NotInBulk: 422,
    InvalidAttachment: 422,
    AttachmentTooLarge: 413,
    AttachmentNotFound: 404,
    CannotAskBack: 409,
    NothingToReply: 409,
    ThreadMoved: 409,
    CannotShare: 422,
    CannotKeep: 422,
    AlreadyTaken: 409,
    NotApproved: 409,
    ApprovalLapsed: 409,
    ApprovalTakenBack: 409,
    ReceiptRefused: 403,
    NoReceiptKey: 404,
    PolicyChanged: 409,
    Unauthenticated: 401,
    PermissionDenied: 403,
    QuestionNotFound: 404,
    GrantNotFound: 404,
    NotFound: 404,
    PreconditionFailed: 412,
    Stopped: 423,
    TooManyRequests: 429,
    QuotaExceeded: 429,
    DeskClosed: 503,
    StoreUnavailable: 503,
}
"""The status of each error that a server returns. Any other error is a fault of the server: 500."""


class ConflictingQuestion(HandraiseError):
    """A `KeyConflict` in transit: the client adds the draft."""

    code = KeyConflict.code

    def __init__(self, existing: Question | None) -> None:
        self.existing = existing
        super().__init__("The key or id already names a different question.")


class ProblemEntry(Record):
    """One thing that is wrong with a request, with its path."""

    path: str
    message: str


class ProblemDocument(Record):
    """What went wrong. `problems` lists each problem; `outcome` is how a settled question ended; `stop` is what stops it.

    `report` is the one that was made before. `seen` is how many messages an approval covers, `thread` how many there are.
    `taken_by` is who is working on the answer, and `until` says for how long.
    """

    type: str
    title: str
    status: int
    code: str
    detail: str
    problems: tuple[ProblemEntry, ...] = ()
    outcome: OutcomeRecord | None = None
    report: ReportRecord | None = None
    question: QuestionRecord | None = None
    reason: str | None = None
    retry_after: float | None = None
    quota: int | None = None
    seen: int | None = None
    thread: int | None = None
    taken_by: str | None = None
    until: datetime | None = None
    stop: StopRecord | None = None


def problem_of(error: HandraiseError) -> ProblemDocument:
    """The document of an error."""
    outcome = getattr(error, "outcome", None)
    existing = error.existing if isinstance(error, KeyConflict) else None
    status = _status_of(error)
    return ProblemDocument(
        type=f"urn:handraise:problem:{error.code}",
        title=_TITLES.get(error.code, error.code.replace("_", " ")),
        status=status,
        code=error.code,
        detail=_detail(error),
        problems=tuple(
            ProblemEntry(path=each.path, message=each.message) for each in getattr(error, "problems", ())
        ),
        outcome=None if outcome is None else OutcomeRecord.of(outcome),
        report=ReportRecord.of(error.report)
        if isinstance(error, (AlreadyReported, AlreadyConsumed)) and error.report is not None
        else None,
        question=None if existing is None else QuestionRecord.of(existing, with_state=True),
        reason=getattr(error, "reason", None),
        retry_after=getattr(error, "retry_after", None),
        quota=getattr(error, "quota", None),
        seen=getattr(error, "seen", None),
        thread=getattr(error, "thread", None),
        taken_by=getattr(error, "taken_by", None),
        until=getattr(error, "until", None),
        stop=StopRecord.of(error.stop) if isinstance(error, Stopped) else None,
    )


def error_of(document: ProblemDocument, *, subject: str, workspace: str, actor: str) -> HandraiseError:
    """The error of a document; `subject` is the requested id, `actor` is who requested it."""
    read = _ERRORS.get(document.code)
    if read is None:
        return StoreUnavailable(f"The server failed: {document.detail} ({document.code}, {document.status})")
    return read(document, subject, workspace, actor)


def _status_of(error: HandraiseError) -> int:
    return next((STATUSES[kind] for kind in type(error).__mro__ if kind in STATUSES), 500)


def _detail(error: HandraiseError) -> str:
    match error:
        case QuestionNotFound() | GrantNotFound():
            return f"There is no such {'question' if isinstance(error, QuestionNotFound) else 'grant'} here."
        case StoreUnavailable() if error.__cause__ is not None:
            return (
                "The store cannot be reached just now; try again."  # the driver's message is only for the log
            )
        case _:
            return str(error)


_TITLES = {
    "invalid_request": "The request cannot be read",
    "invalid_question": "This question cannot be asked",
    "invalid_answer": "That answer does not fit",
    "invalid_policy": "This policy cannot be stored",
    "policy_changed": "The policy keeps changing",
    "key_conflict": "The key names a different question",
    "request_conflict": "The idempotency key is in use",
    "already_settled": "The question is settled",
    "already_consumed": "The approval has been used",
    "invalid_report": "This report cannot be kept",
    "nothing_to_report": "There is nothing to report yet",
    "already_reported": "Something else was reported before",
    "invalid_message": "This message cannot be kept",
    "not_in_bulk": "Answer this by itself",
    "cannot_ask_back": "The asker cannot reply",
    "nothing_to_reply": "Nobody waits for a reply",
    "thread_moved": "The conversation has moved on",
    "cannot_share": "This is not possible",
    "cannot_keep": "This answer cannot be kept",
    "already_taken": "Somebody else is working on it",
    "not_approved": "The action is not approved",
    "approval_lapsed": "The approval is no longer valid",
    "approval_taken_back": "The approval was taken back",
    "receipt_refused": "The receipt is refused",
    "no_receipt_key": "There is no key for receipts",
    "unauthenticated": "Nobody is signed in",
    "permission_denied": "Not allowed",
    "question_not_found": "No such question",
    "grant_not_found": "No such grant",
    "not_found": "Not found",
    "precondition_failed": "It has changed meanwhile",
    "quota_exceeded": "Too many pending questions",
    "stopped": "This is stopped",
    "too_many_requests": "Too many requests",
    "desk_closed": "The server is stopping",
    "store_unavailable": "The store cannot be reached",
}

_Reader = Callable[[ProblemDocument, str, str, str], HandraiseError]


def _problems(document: ProblemDocument) -> list[Problem]:
    return [Problem(entry.path, entry.message) for entry in document.problems]


def _settled(document: ProblemDocument, subject: str, *_: str) -> HandraiseError:
    if document.outcome is None:
        return StoreUnavailable("The server said that the question is settled, but not how.")
    return AlreadySettled(subject, document.outcome.outcome())


def _reported(document: ProblemDocument, subject: str, *_: str) -> HandraiseError:
    if document.report is None:
        return StoreUnavailable("The server said that there is a report, but not what it says.")
    return AlreadyReported(subject, document.report.report())


def _stopped(document: ProblemDocument, _: str, workspace: str, __: str) -> HandraiseError:
    if document.stop is None:
        return StoreUnavailable("The server said that this is stopped, but not by whom.")
    return Stopped(document.stop.stop(workspace))


def _refused(kind: type[NotApproved], document: ProblemDocument, subject: str) -> HandraiseError:
    outcome = None if document.outcome is None else document.outcome.outcome()
    return kind(subject, outcome, document.reason or document.detail)


_ERRORS: dict[str, _Reader] = {
    "key_conflict": lambda document, *_: ConflictingQuestion(
        None if document.question is None else document.question.question()
    ),
    "invalid_request": lambda document, *_: InvalidRequest(_problems(document)),
    "invalid_question": lambda document, *_: InvalidQuestion(_problems(document)),
    "invalid_answer": lambda document, *_: InvalidAnswer(
        _problems(document), outcome=None if document.outcome is None else document.outcome.outcome()
    ),
    "invalid_policy": lambda document, *_: InvalidPolicy(_problems(document)),
    "policy_changed": lambda _, __, workspace, ___: PolicyChanged(workspace),
    "already_settled": _settled,
    "stopped": _stopped,
    "already_consumed": lambda document, subject, *_: AlreadyConsumed(
        subject, None if document.report is None else document.report.report()
    ),
    "invalid_report": lambda document, *_: InvalidReport(_problems(document)),
    "nothing_to_report": lambda document, subject, *_: NothingToReport(
        subject, document.reason or document.detail
    ),
    "already_reported": _reported,
    "invalid_message": lambda document, *_: InvalidMessage(_problems(document)),
    "not_in_bulk": lambda _, subject, *__: NotInBulk(subject),
    "invalid_attachment": lambda document, *_: InvalidAttachment(_problems(document)),
    "attachment_too_large": lambda document, *_: AttachmentTooLarge(_problems(document)),
    "attachment_not_found": lambda document, subject, *_: AttachmentNotFound(document.reason or "", subject),
    "cannot_ask_back": lambda _, subject, *__: CannotAskBack(subject),
    "nothing_to_reply": lambda _, subject, *__: NothingToReply(subject),
    "thread_moved": lambda document, subject, *_: ThreadMoved(
        subject, seen=document.seen or 0, thread=document.thread or 0
    ),
    "cannot_share": lambda document, *_: CannotShare(_problems(document)),
    "cannot_keep": lambda document, *_: CannotKeep(_problems(document)),
    "already_taken": lambda document, subject, *_: AlreadyTaken(
        subject, taken_by=document.taken_by or "", until=document.until
    ),
    "not_approved": lambda document, subject, *_: _refused(NotApproved, document, subject),
    "approval_lapsed": lambda document, subject, *_: _refused(ApprovalLapsed, document, subject),
    "approval_taken_back": lambda document, subject, *_: _refused(ApprovalTakenBack, document, subject),
    "receipt_refused": lambda document, *_: ReceiptRefused(document.reason or document.detail),
    "no_receipt_key": lambda *_: NoReceiptKey(),
    "unauthenticated": lambda *_: Unauthenticated(
        "The server does not know this key or session, or it has ended. It comes from HANDRAISE_KEY or credentials=…"
    ),
    "permission_denied": lambda document, _, __, actor: PermissionDenied(
        actor, document.reason or document.detail
    ),
    "question_not_found": lambda _, subject, workspace, __: QuestionNotFound(subject, workspace),
    "grant_not_found": lambda _, subject, workspace, __: GrantNotFound(subject, workspace),
    "not_found": lambda document, *_: NotFound(document.detail),
    "precondition_failed": lambda document, *_: PreconditionFailed(document.detail),
    "request_conflict": lambda document, *_: RequestConflict(document.detail),
    "quota_exceeded": lambda document, _, workspace, actor: QuotaExceeded(
        actor, workspace, document.quota or 0
    ),
    "too_many_requests": lambda document, *_: TooManyRequests(
        document.retry_after or 1.0, document.reason or "Too many requests"
    ),
    "desk_closed": lambda *_: StoreUnavailable("The server is stopping."),
}

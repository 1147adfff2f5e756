"""Everything that can go wrong, as one tree.

HandraiseError
├── InvalidQuestion   (ValueError)       refused at ask time; nothing was registered
├── KeyConflict       (ValueError)       the key already names a different question
├── QuotaExceeded     (RuntimeError)     the asker has too many pending questions already; nothing was registered
├── InvalidPolicy     (ValueError)       the policy has problems; nothing was changed
├── PolicyChanged     (RuntimeError)     the policy kept changing while the question was posted
├── Stopped           (PermissionError)  an administrator has stopped this agent, tool or workspace
├── InvalidAnswer     (ValueError)       does not fit; the question stays pending
├── NotInBulk                            this question must be answered by itself, not together with others
├── AnswerTypeMismatch    (ValueError)       fits the form, but not the asker's own type
├── PermissionDenied       (PermissionError)  this person may not do this to this question
├── QuestionNotFound  (LookupError)      no such question in this workspace
├── AlreadySettled                       somebody or the clock was first; carries the outcome
├── StillPending      (TimeoutError)     a wait ended by its own timeout; the record is untouched
├── NotAnswered                          `ask` ended without an answer; carries the outcome
├── NotApproved       (PermissionError)  nobody approved this action; carries the outcome
│   ├── ApprovalLapsed                   the approval is no longer valid, or its grant has ended
│   └── ApprovalTakenBack                the approval was taken back before it was used
├── AlreadyConsumed                      the approval has been used: an action is executed at most once
├── ReceiptRefused    (PermissionError)  this receipt does not allow this; `reason` says why
├── CallbackRefused   (PermissionError)  this request is not a callback of the desk; `reason` says why
├── NoReceiptKey      (RuntimeError)     no key is set that could sign receipts
├── InvalidReport     (ValueError)       the report cannot be kept like this; nothing was recorded
├── NothingToReport                      the question was not answered, or its approval was not used
├── AlreadyReported                      another report was recorded before; carries it
├── InvalidMessage    (ValueError)       the message cannot be kept like this; nothing was recorded
├── CannotAskBack                        the asker cannot reply, so people can only note something
├── NothingToReply                       nobody has asked the asker back, or it has replied already
├── ThreadMoved                          somebody wrote something that this approval does not cover
├── CannotShare       (ValueError)       these people cannot be brought in, or nobody would be left
├── CannotKeep        (ValueError)       this answer cannot be kept for its topic
├── AlreadyTaken                         somebody else is working on the answer; carries who, and until when
├── InvalidAttachment (ValueError)       the file cannot be kept like this, or nobody uploaded it; nothing was recorded
│   └── AttachmentTooLarge               the file has too many bytes
├── AttachmentNotFound (LookupError)     the question has no such file, or its bytes are gone
├── GrantNotFound     (LookupError)      no such grant in this workspace
├── Unauthenticated       (PermissionError)  the server does not know this key or session
├── InvalidRequest    (ValueError)       the server cannot read the request
├── RequestConflict                      a request with the same idempotency key is in progress
├── PreconditionFailed                   the thing to replace has changed since it was read
├── TooManyRequests   (ConnectionError)  the caller has reached its rate limit; try again later
├── NotFound          (LookupError)      no such key, person, group or page
├── DeskClosed        (RuntimeError)     the desk was closed while or before this ran
├── ForkedDesk        (RuntimeError)     the desk was opened before this process was forked
├── WrongLoop         (RuntimeError)     the desk is for another event loop, or would block this one
├── StoreUnavailable  (ConnectionError)  the store cannot be reached or stays busy
├── UnsafeStore       (RuntimeError)     the store's settings would break a promise
├── SchemaMismatch    (RuntimeError)     the database belongs to another release
├── UnknownAddress    (ValueError)       no backend understands this address
└── MissingExtra      (ImportError)      an optional dependency is not installed

Each has a stable `code` for the wire and keeps its data as attributes. `HandraiseError` and `InvalidQuestion` are in
`problems.py`, because questions and forms raise them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime

from handraise.model.outcomes import Outcome
from handraise.model.problems import HandraiseError, Problem, ProblemsError
from handraise.model.questions import Draft, Question
from handraise.model.reports import Report
from handraise.model.stops import Stop


class InvalidAnswer(ProblemsError):
    """The answer does not fit; `problems` says why. The question is pending unless `outcome` is set."""

    code = "invalid_answer"

    def __init__(self, problems: Sequence[Problem], *, outcome: Outcome | None = None) -> None:
        self.outcome = outcome
        super().__init__("That answer does not fit:", problems)


class AnswerTypeMismatch(ProblemsError):
    """The stored answer fits the form but not the type given as `into`."""

    code = "answer_type_mismatch"

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("The answer fits the question but not the asker's own type:", problems)


class KeyConflict(HandraiseError, ValueError):
    """The key is taken by a different question. `existing` is None if it belongs to another asker.

    `differences` are the parts that differ: `field`, with the values `stored` and `posted` as short texts.
    """

    code = "key_conflict"

    def __init__(self, draft: Draft, existing: Question | None) -> None:
        self.key = draft.key
        self.draft = draft
        self.existing = existing
        name = f"id {draft.id!r}" if draft.key is None else f"key {draft.key!r}"
        self.differences = () if existing is None else existing.differences(draft)
        if existing is None:
            text = f"The {name} is in use by another asker; choose another."
        else:
            parts = "".join(
                f"\n  {each.field}: stored {each.stored}, posted {each.posted}" for each in self.differences
            )
            text = (
                f"The {name} already names a different question. What differs:{parts}\n"
                "Post the same question again, or choose another key. In Python, post() and ask() take the stored one with "
                'if_exists="keep".'
            )
        super().__init__(text)


class QuotaExceeded(HandraiseError, RuntimeError):
    """The asker already has `quota` pending questions, and may not have more; nothing was registered."""

    code = "quota_exceeded"

    def __init__(self, asker: str, workspace: str, quota: int) -> None:
        self.asker = asker
        self.workspace = workspace
        self.quota = quota
        super().__init__(
            f"{asker!r} has {quota:,} pending questions in workspace {workspace!r}, which is the most an asker may "
            "have. Wait for answers or withdraw questions that nobody needs any more, then ask again. An "
            "administrator can withdraw them too (handraise withdraw --asker), or raise HANDRAISE_PENDING_QUOTA."
        )


class InvalidPolicy(ProblemsError):
    """The policy cannot be stored like this; nothing was changed."""

    code = "invalid_policy"

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("This policy cannot be stored:", problems)


class PolicyChanged(HandraiseError, RuntimeError):
    """The question was decided by an older version of the policy; nothing was registered. A desk decides it again."""

    code = "policy_changed"

    def __init__(self, workspace: str) -> None:
        self.workspace = workspace
        super().__init__(f"The policy of workspace {workspace!r} keeps changing. Ask again.")


class Stopped(HandraiseError, PermissionError):
    """An administrator has stopped this, until they resume it; `stop` says who, when, why, and what it covers."""

    code = "stopped"

    def __init__(self, stop: Stop) -> None:
        self.stop = stop
        by = stop.by or "An operator"
        super().__init__(f"{by} stopped {stop.scope}, at {stop.at:%Y-%m-%d %H:%M} UTC: {stop.why}")


class PermissionDenied(HandraiseError, PermissionError):
    """This person may not do this to this question."""

    code = "permission_denied"

    def __init__(self, by: str, reason: str) -> None:
        self.by = by
        self.reason = reason
        super().__init__(f"{by!r} may not do this: {reason}.")


class NotFound(HandraiseError, LookupError):
    """There is no such question, grant, key, person, group or page."""

    code = "not_found"


class QuestionNotFound(NotFound):
    """There is no such question in this workspace, or it belongs to another asker and only that asker may do this."""

    code = "question_not_found"

    def __init__(self, question_id: str, workspace: str, asker: str | None = None) -> None:
        self.question_id = question_id
        self.workspace = workspace
        whose = "" if asker is None else f" that {asker!r} asked"
        super().__init__(f"There is no question {question_id!r}{whose} in workspace {workspace!r}.")


class AlreadySettled(HandraiseError):
    """The question has already ended; `outcome` says how."""

    code = "already_settled"

    def __init__(self, question_id: str, outcome: Outcome) -> None:
        self.question_id = question_id
        self.outcome = outcome
        super().__init__(f"Question {question_id!r} is settled: {outcome}.")


class StillPending(HandraiseError, TimeoutError):
    """The wait's own timeout passed. The question is untouched and can be waited for again."""

    code = "still_pending"

    def __init__(self, question_ids: Sequence[str]) -> None:
        self.question_ids = tuple(question_ids)
        names = ", ".join(map(repr, self.question_ids[:5]))
        super().__init__(f"Nobody has answered {names} yet; wait again whenever you like.")


class NotAnswered(HandraiseError):
    """`ask` ended without an answer; `outcome` says how. Use `post` and `wait` to get it as a value."""

    code = "not_answered"

    def __init__(self, question_id: str, outcome: Outcome) -> None:
        self.question_id = question_id
        self.outcome = outcome
        super().__init__(f"Question {question_id!r} was not answered: {str(outcome).rstrip('.')}.")


class NotApproved(HandraiseError, PermissionError):
    """This action is not approved; `outcome` says how the question ended, if it has."""

    code = "not_approved"

    def __init__(self, question_id: str, outcome: Outcome | None, reason: str) -> None:
        self.question_id = question_id
        self.outcome = outcome
        self.reason = reason
        super().__init__(f"The action of question {question_id!r} is not approved: {reason.rstrip('.')}.")


class ApprovalLapsed(NotApproved):
    """The approval is no longer valid: its time is over, or the grant that it came from has ended."""

    code = "approval_lapsed"


class ApprovalTakenBack(NotApproved):
    """Somebody who approved the action, or an administrator, has taken the approval back."""

    code = "approval_taken_back"


class AlreadyConsumed(HandraiseError):
    """The approval has already been used. `report` says what came of the action, if that was reported.

    Without a report it is unknown whether the action was executed: find out before you ask again.
    """

    code = "already_consumed"

    def __init__(self, question_id: str, report: Report | None = None) -> None:
        self.question_id = question_id
        self.report = report
        if report is None:
            what = "Whether it was executed is unknown: find out before you ask for another approval."
        elif report.ok:
            what = f"It worked, and this was reported: {report.text}"
        else:
            what = (
                f"It failed, and this was reported: {report.text}\n"
                "Find out what it did before you ask for another approval."
            )
        super().__init__(
            f"The approval of question {question_id!r} has already been used, and an action is executed at most once. {what}"
        )


class ReceiptRefused(HandraiseError, PermissionError):
    """This receipt does not allow this: do not execute. `reason` says why.

    `try_again` is true if the server could not be reached. Then nobody knows whether the approval was used: check again
    with the same `use_id`.
    """

    code = "receipt_refused"

    def __init__(self, reason: str, *, try_again: bool = False) -> None:
        self.reason = reason
        self.try_again = try_again
        super().__init__(f"The receipt is refused: {reason}.")


class CallbackRefused(HandraiseError, PermissionError):
    """A request is not a callback that you can trust: respond with 401, and do nothing. `reason` says why."""

    code = "callback_refused"

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"This is not a callback that can be trusted: {reason}.")


class NoReceiptKey(HandraiseError, RuntimeError):
    """There is no key that could sign receipts."""

    code = "no_receipt_key"

    def __init__(self) -> None:
        super().__init__(
            "There is no key for receipts. Make one with `handraise receipt key FILE`, and set HANDRAISE_RECEIPT_KEY=FILE "
            "at the server, or open_desk(…, receipt_key=FILE) for a desk on a store."
        )


class InvalidReport(ProblemsError):
    """The report cannot be kept like this; nothing was recorded."""

    code = "invalid_report"

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("This report cannot be kept:", problems)


class NothingToReport(HandraiseError):
    """Nothing can have come of this question yet: it was not answered, or its approval was not used."""

    code = "nothing_to_report"

    def __init__(self, question_id: str, reason: str) -> None:
        self.question_id = question_id
        self.reason = reason
        super().__init__(f"There is nothing to report about question {question_id!r}: {reason}.")


class AlreadyReported(HandraiseError):
    """Something else was reported before, and a report is final; `report` is the recorded one."""

    code = "already_reported"

    def __init__(self, question_id: str, report: Report) -> None:
        self.question_id = question_id
        self.report = report
        how = "done" if report.ok else "failed"
        super().__init__(
            f"Question {question_id!r} was reported as {how} at {report.at:%Y-%m-%d %H:%M} UTC, and a report is final."
        )


class InvalidMessage(ProblemsError):
    """The message cannot be kept like this; nothing was recorded."""

    code = "invalid_message"

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("This message cannot be kept:", problems)


class CannotAskBack(HandraiseError):
    """The program that asked cannot reply; people can only note something for each other."""

    code = "cannot_ask_back"

    def __init__(self, question_id: str) -> None:
        self.question_id = question_id
        super().__init__(
            f"Nobody would reply: the program that asked question {question_id!r} cannot. Write a note for the other "
            "people instead, or decline."
        )


class NotInBulk(HandraiseError):
    """This question must be read and answered by itself, not together with others; nothing was recorded."""

    code = "not_in_bulk"

    def __init__(self, question_id: str) -> None:
        self.question_id = question_id
        super().__init__(
            f"Question {question_id!r} is about an action of high risk, which is never decided together with others. Read it "
            "and answer it by itself."
        )


class NothingToReply(HandraiseError):
    """Nobody has asked the asker back, or the asker has replied to everything already."""

    code = "nothing_to_reply"

    def __init__(self, question_id: str) -> None:
        self.question_id = question_id
        super().__init__(f"Nobody waits for a reply about question {question_id!r}.")


class ThreadMoved(HandraiseError):
    """An approval covers the conversation that its giver saw, and there are other messages now; nothing was recorded.

    `seen` is how many messages they saw, `thread` how many there are.
    """

    code = "thread_moved"

    def __init__(self, question_id: str, *, seen: int, thread: int) -> None:
        self.question_id = question_id
        self.seen = seen
        self.thread = thread
        super().__init__(
            f"The last message about question {question_id!r} has the number {thread}, and this approval covers those up to "
            f"{seen}. Read the conversation, then decide again."
        )


class CannotShare(ProblemsError):
    """The question cannot be shared, handed over or set aside like this; nothing was recorded."""

    code = "cannot_share"

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("This is not possible:", problems)


class CannotKeep(ProblemsError):
    """The answer cannot be kept for its topic; nothing was recorded."""

    code = "cannot_keep"

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("This answer cannot be kept:", problems)


class AlreadyTaken(HandraiseError):
    """Somebody else said that they are working on the answer. You may still answer; `until` is when that ends."""

    code = "already_taken"

    def __init__(self, question_id: str, *, taken_by: str, until: datetime | None) -> None:
        self.question_id = question_id
        self.taken_by = taken_by
        self.until = until
        super().__init__(f"{taken_by} is working on question {question_id!r}. You may still answer it.")


class InvalidAttachment(ProblemsError):
    """The file cannot be kept like this, or the one who refers to it has not uploaded it; nothing was recorded."""

    code = "invalid_attachment"

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("This file cannot be attached:", problems)


class AttachmentTooLarge(InvalidAttachment):
    """The file has too many bytes, or its uploader has too many that no question refers to; nothing was kept."""

    code = "attachment_too_large"


class AttachmentNotFound(NotFound):
    """The question has no file with this digest, or its bytes are gone."""

    code = "attachment_not_found"

    def __init__(self, digest: str, question_id: str) -> None:
        self.digest = digest
        self.question_id = question_id
        super().__init__(f"Question {question_id!r} has no file with the digest {digest[:100]!r}.")


class GrantNotFound(NotFound):
    """There is no such grant in this workspace."""

    code = "grant_not_found"

    def __init__(self, grant_id: str, workspace: str) -> None:
        self.grant_id = grant_id
        self.workspace = workspace
        super().__init__(f"There is no grant {grant_id!r} in workspace {workspace!r}.")


class Unauthenticated(HandraiseError, PermissionError):
    """The server does not know this key or session, or it has ended."""

    code = "unauthenticated"


class InvalidRequest(ProblemsError):
    """The server cannot read the request; `problems` says why."""

    code = "invalid_request"

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("This request cannot be read:", problems)


class RequestConflict(HandraiseError):
    """A request with the same idempotency key is in progress; try again shortly."""

    code = "request_conflict"


class PreconditionFailed(HandraiseError):
    """The thing that the request was to replace has changed since it was read; nothing was replaced."""

    code = "precondition_failed"


class TooManyRequests(HandraiseError, ConnectionError):
    """The caller has reached its rate limit; `retry_after` is the number of seconds to wait."""

    code = "too_many_requests"

    def __init__(self, retry_after: float, reason: str = "Too many requests") -> None:
        self.retry_after = retry_after
        self.reason = reason
        super().__init__(f"{reason}; try again in {retry_after:.0f} seconds.")


class DeskClosed(HandraiseError, RuntimeError):
    """The desk was closed."""

    code = "desk_closed"

    def __init__(self) -> None:
        super().__init__("This desk is closed; open another one. Pending questions are still stored.")


class ForkedDesk(HandraiseError, RuntimeError):
    """The desk was opened in the process that this one was forked from."""

    code = "forked_desk"

    def __init__(self, opened_in: int, used_in: int) -> None:
        self.opened_in = opened_in
        self.used_in = used_in
        super().__init__(
            f"This desk was opened in process {opened_in} and cannot be used in process {used_in}, which was "
            "forked from it. Open a desk in each process, after the fork."
        )


class WrongLoop(HandraiseError, RuntimeError):
    """The desk belongs to another event loop than the running one, or would block it."""

    code = "wrong_loop"


class StoreUnavailable(HandraiseError, ConnectionError):
    """The store cannot be reached, or another process has kept it locked for too long.

    `refused` says that the store did nothing because it cannot keep one of the given values; it may keep the
    others without it. `misconfigured` says that it stays unavailable until somebody corrects a setting.
    """

    code = "store_unavailable"
    refused: bool = False
    misconfigured: bool = False


class UnsafeStore(HandraiseError, RuntimeError):
    """The store's settings would break a promise, so the desk does not open."""

    code = "unsafe_store"


class SchemaMismatch(HandraiseError, RuntimeError):
    """The database's schema belongs to another release, or another build, of Handraise."""

    code = "schema_mismatch"


class UnknownAddress(HandraiseError, ValueError):
    """No backend understands this address, or there is none."""

    code = "unknown_address"

    def __init__(
        self,
        address: str,
        *,
        use: str = "Use 'memory:', 'sqlite:///file.db', 'postgresql://user@host/database' or 'https://server'.",
    ) -> None:
        # The part before an @ may hold a password, and errors end up in logs.
        self.address = re.sub(r"//[^@/]*@", "//…@", address)
        super().__init__(f"No backend understands {self.address!r}. {use}" if address else use)


class MissingExtra(HandraiseError, ImportError):
    """An optional dependency is not installed."""

    code = "missing_extra"

    def __init__(self, package: str, extra: str) -> None:
        self.package = package
        self.extra = extra
        super().__init__(f'{package} is not installed. Run: pip install "handraise[{extra}]"')

"""Receipts: what is signed about an approval, so that it can be checked at the place where the action is executed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Protocol

from handraise.model.events import Event, EventKind
from handraise.model.forms import Action
from handraise.model.json_values import Json, digest
from handraise.model.lifecycle import ballot_of
from handraise.model.outcomes import Answered, Source
from handraise.model.questions import Question
from handraise.model.thread_messages import messages_of, thread_digest

RECEIPT_LIFETIME = timedelta(minutes=15)
"""How long a receipt is valid at most. While the approval is unused, its asker can get a new one."""

RECEIPT_USE = "receipt:"
"""Prefix of the request in the event of an approval that was used with a receipt; the id of that use follows."""

_LONGEST_EVIDENCE = 200


def receipt_use_problem(name: str) -> str | None:
    """Why somebody may not name their request or the use of a receipt so; None if they may.

    A request that could pass for the use of a receipt would make two executions out of one approval.
    """
    return (
        f"begins with {RECEIPT_USE!r}, as only the uses of receipts do"
        if name.startswith(RECEIPT_USE)
        else None
    )


@dataclass(frozen=True, slots=True)
class UsableApproval:
    """An approval that could be used now: the time by the store's clock, and when it ends, if it does by itself."""

    now: datetime
    ends: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Approver:
    """A person who approved: when, and how they were identified then, if that is known."""

    by: str
    at: datetime
    evidence: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """What is signed about an approval.

    `digest` is that of the approved action, with the changes that people made. `id` is the same in every receipt
    of one approval, so another receipt never allows a second use. `approvers` are the people who approved; for a
    grant, the person who gave it; for a policy, nobody. `policy_version` is the version of the policy that
    applied to the question, if there was one. `thread` is the digest of the conversation before the approval, if there
    was one.
    """

    workspace: str
    question_id: str
    asker: str
    tool: str
    digest: str
    source: Source
    approvers: tuple[Approver, ...]
    policy_version: int | None
    thread: str | None
    issued_at: datetime
    expires_at: datetime

    @property
    def id(self) -> str:
        """The single-use id of the approval."""
        return digest(["handraise receipt", self.workspace, self.question_id])

    def covers(self, tool: str, arguments: Json) -> bool:
        """Whether exactly this was approved."""
        return self.tool == tool and self.digest == Action(tool=tool, arguments=arguments).digest

    def to_claims(self) -> dict[str, Json]:
        """The receipt as the claims of its token."""
        claims = {
            "workspace": self.workspace,
            "question": self.question_id,
            "asker": self.asker,
            "tool": self.tool,
            "digest": self.digest,
            "source": self.source,
            "approvers": [
                {"by": each.by, "at": _seconds(each.at)}
                | ({} if each.evidence is None else {"evidence": each.evidence})
                for each in self.approvers
            ],
            "policy_version": self.policy_version,
            "thread": self.thread,
            "iat": _seconds(self.issued_at),
            "exp": _seconds(self.expires_at),
            "jti": self.id,
        }
        return {name: value for name, value in claims.items() if value is not None}


class ReceiptSigner(Protocol):
    """Signs receipts."""

    def sign(self, receipt: Receipt) -> str:
        """The token of a receipt."""
        ...


def receipt_of(question: Question, history: Sequence[Event], approval: UsableApproval) -> Receipt:
    """The receipt of an approval that can be used now."""
    decision, outcome = question.decision, question.outcome
    if not decision or not isinstance(outcome, Answered):
        raise ValueError("A receipt is about an approval.")
    latest = approval.now + RECEIPT_LIFETIME
    return Receipt(
        workspace=question.workspace,
        question_id=question.id,
        asker=question.asker,
        tool=decision.action.tool,
        digest=decision.action.digest,
        source=outcome.source,
        approvers=tuple(_approvers(question, outcome, history)),
        policy_version=None if question.ruling is None else question.ruling.version,
        thread=thread_digest(messages_of(history)),
        issued_at=approval.now,
        expires_at=latest if approval.ends is None else min(latest, approval.ends),
    )


def receipt_from_claims(claims: Json) -> Receipt:
    """The receipt in the claims of a token; raises `ValueError` if they are not those of a receipt."""
    try:
        receipt = Receipt(
            workspace=_text(claims["workspace"]),
            question_id=_text(claims["question"]),
            asker=_text(claims["asker"]),
            tool=_text(claims["tool"]),
            digest=_text(claims["digest"]),
            source=_source(claims["source"]),
            approvers=tuple(
                Approver(
                    by=_text(each["by"]), at=_instant(each["at"]), evidence=_optional(each.get("evidence"))
                )
                for each in claims["approvers"]
            ),
            policy_version=_version(claims.get("policy_version")),
            thread=_optional(claims.get("thread")),
            issued_at=_instant(claims["iat"]),
            expires_at=_instant(claims["exp"]),
        )
    except (KeyError, TypeError, AttributeError, OverflowError, OSError) as error:
        raise ValueError("it says not what a receipt says") from error
    if claims.get("jti") != receipt.id:
        raise ValueError("its id is not that of its approval")
    return receipt


def _approvers(question: Question, outcome: Answered, history: Sequence[Event]) -> list[Approver]:
    """The people whose votes make up the approval, in the order in which they voted."""
    if outcome.by is None or outcome.source not in ("person", "grant"):
        return []
    names = {outcome.by}
    if question.takes_votes:
        ballot = ballot_of(question.form, outcome.value)
        names |= {vote.by for vote in question.votes if vote.ballot == ballot}
    if outcome.source == "grant":
        return [Approver(by=outcome.by, at=outcome.at)]
    last = {
        event.by: Approver(
            by=event.by,
            at=event.at,
            evidence=(event.data or {}).get("evidence", "")[:_LONGEST_EVIDENCE] or None,
        )
        for event in history
        if event.kind in (EventKind.VOTED, EventKind.ANSWERED) and event.by is not None and event.by in names
    }
    return sorted(last.values(), key=lambda approver: approver.at)


def _seconds(moment: datetime) -> int:
    return int(moment.timestamp())


def _instant(value: Json) -> datetime:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError("not a time")
    return datetime.fromtimestamp(value, UTC)


def _text(value: Json) -> str:
    if not isinstance(value, str):
        raise TypeError("not a text")
    return value


def _optional(value: Json) -> str | None:
    return None if value is None else _text(value)


def _version(value: Json) -> int | None:
    if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
        raise TypeError("not a number")
    return value


def _source(value: Json) -> Source:
    if value not in ("person", "default", "grant", "policy"):
        raise TypeError("not a source")
    source: Source = value
    return source

"""Where an answer came from: the channel, the evidence, what the person saw. Refused if a store cannot keep it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from handraise.model.drafting import Limits
from handraise.model.errors import InvalidAnswer
from handraise.model.json_values import Json, JsonValue, canonical_json, json_problems, text_problem
from handraise.model.passkey_signatures import PasskeyProof
from handraise.model.problems import Problem

_MANY = 1_000_000
_DIGEST = re.compile(r"[0-9a-f]{64}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """Where an answer came from. All of it is kept in the question's history and sealed with it.

    `channel` is where the person answered, and `evidence` how they were identified there. `shown_digest` is the SHA-256,
    in hexadecimal, of the question as they saw it, if the channel knows that. `seen` is how many messages of its thread
    they saw: an approval must cover all of them. `passkey` is what their passkey signed.
    `details` is anything else that the channel wants to keep.
    """

    channel: str | None = None
    evidence: str | None = None
    shown_digest: str | None = None
    seen: int | None = None
    passkey: PasskeyProof | None = field(default=None, repr=False)
    details: JsonValue = field(default=None, repr=False)

    def record(self) -> dict[str, Json]:
        """The part that is stored."""
        record: dict[str, Json] = {
            "channel": self.channel,
            "evidence": self.evidence,
            "shown_digest": self.shown_digest,
            "seen": self.seen,
            "details": self.details,
        }
        return record if self.passkey is None else record | {"passkey": self.passkey.record()}


UNKNOWN = Provenance()
"""Nobody said where the answer came from."""


def check_provenance(limits: Limits, provenance: Provenance, **texts: str | None) -> None:
    """Raise `InvalidAnswer` unless a store can keep this and these `texts`; their names are the caller's."""
    if provenance is UNKNOWN and not texts:
        return
    check_texts(
        limits,
        channel=provenance.channel,
        evidence=provenance.evidence,
        shown_digest=provenance.shown_digest,
        **texts,
    )
    if provenance.shown_digest is not None and not _DIGEST.fullmatch(provenance.shown_digest):
        raise InvalidAnswer([Problem("shown_digest", "expected a SHA-256 in hexadecimal")])
    if provenance.seen is not None and not 0 <= provenance.seen <= _MANY:
        raise InvalidAnswer([Problem("seen", "expected how many messages of the thread the person saw")])
    details = provenance.details
    problems = list(json_problems(details, "details", depth=limits.json_depth))
    if not problems and details is not None and len(canonical_json(details)) > 2 * limits.json_bytes:
        problems = [Problem("details", f"are larger than {2 * limits.json_bytes} characters")]
    if problems:
        raise InvalidAnswer(problems)


def check_texts(limits: Limits, **texts: str | None) -> None:
    """Raise `InvalidAnswer` unless a store can keep all of these texts; their names are the caller's."""
    given = {name: text for name, text in texts.items() if text is not None}
    problems = [Problem(name, why) for name, text in given.items() if (why := text_problem(text))]
    problems += [
        Problem(name, f"has more than {limits.prompt} characters")
        for name, text in given.items()
        if len(text) > limits.prompt
    ]
    if problems:
        raise InvalidAnswer(problems)


def check_reason(reason: object) -> None:
    """Raise `InvalidAnswer` unless somebody who sends a question back says why."""
    if not isinstance(reason, str) or not reason.strip():
        raise InvalidAnswer([Problem("reason", "say what to change")])


def check_problems(limits: Limits, problems: Sequence[Problem], provenance: Provenance) -> None:
    """Raise `InvalidAnswer` unless a store can keep the reasons for a rejection, `ValueError` if there are none."""
    if not problems:
        raise ValueError("reject_answer needs at least one problem: say why the answer does not fit")
    texts = {f"problems[{place}]": str(each) for place, each in enumerate(problems)}
    check_provenance(limits, provenance, **texts)


def keepable(limits: Limits, value: Json) -> Json:
    """An answer that did not fit, or None if it is not JSON or too large to keep."""
    if any(json_problems(value, "", depth=limits.json_depth)):
        return None
    return value if len(canonical_json(value)) <= limits.json_bytes else None

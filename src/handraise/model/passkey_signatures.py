"""Passkeys: what a person registers, what an authenticator signs for one decision, and how it is checked again later."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any

from handraise.model.json_values import Json, canonical_json

_DECISION = b"handraise decision\x00"


@dataclass(frozen=True, slots=True, kw_only=True)
class Passkey:
    """A passkey of a person. `id` and `public_key` are base64url; `domain` is where it works.

    `vouched_by` made the link with which the session began in which it was registered. They could have registered it in
    the person's place.
    """

    workspace: str
    id: str
    person: str
    name: str
    domain: str
    public_key: str = field(repr=False)
    sign_count: int
    """How often it says that it was used. Many passkeys always say 0."""
    created_at: datetime
    last_used_at: datetime | None = None
    vouched_by: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PasskeyProof:
    """What an authenticator signed for one decision: enough to check it again without the store. All is base64url."""

    id: str
    domain: str
    public_key: str
    nonce: str
    client_data: str
    authenticator_data: str
    signature: str

    def record(self) -> dict[str, Json]:
        """The proof as it is kept in the history."""
        return {each.name: getattr(self, each.name) for each in fields(self)}


class PasskeyRefused(Exception):
    """What a browser sent is not a valid signature of a passkey."""


CheckProof = Callable[[PasskeyProof, bytes], str | None]
"""Says why a proof is not a valid signature of a challenge, or None if it is."""


def proof_from_json(record: Mapping[str, Any]) -> PasskeyProof:
    """The proof in a record of the history. Raises `ValueError` if there is none in it."""
    values = {each.name: record.get(each.name) for each in fields(PasskeyProof)}
    if not all(isinstance(value, str) for value in values.values()):
        raise ValueError("a proof by passkey is not complete")
    return PasskeyProof(**{name: str(value) for name, value in values.items()})


def asked_digest(
    kind: str, prompt: str, context: Json, *, brief: Json = None, attachments: Sequence[Json] = ()
) -> str:
    """The digest of what a person decides about: the kind of question, the agent's text, context, brief and files.

    The action of an approval is not in it: the answer has its digest.
    """
    told: list[Json] = [kind, prompt, context]
    if brief is not None:
        told.append(brief)
    if attachments:
        told.append(list(attachments))
    return hashlib.sha256(canonical_json(told).encode()).hexdigest()


def answered(value: Json) -> Json:
    """The part of a challenge that says which answer is given. An approval has the action's digest and its edits."""
    return {"answer": value}


def declined(reason: str | None) -> Json:
    """The part of a challenge that says that the person declines."""
    return {"decline": reason}


def sent_back(reason: str | None) -> Json:
    """The part of a challenge that says that the person sends the question back."""
    return {"send_back": reason}


def decision_challenge(
    workspace: str,
    question_id: str,
    *,
    asked: str,
    thread: str | None,
    by: str,
    decision: Json,
    nonce: str,
) -> bytes:
    """The challenge that an authenticator signs for exactly this decision of this person.

    `asked` is the digest of what is decided about, `thread` that of the conversation that the person saw, and `nonce`
    makes it work once.
    """
    parts = [workspace, question_id, asked, thread, by, decision, nonce]
    return hashlib.sha256(_DECISION + canonical_json(parts).encode()).digest()

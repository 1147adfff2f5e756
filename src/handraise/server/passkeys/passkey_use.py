"""Use passkeys: a nonce for each signature, and evidence from a signature that is valid."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from handraise.model.errors import MissingExtra
from handraise.model.evidence import passkey_evidence
from handraise.model.forms import AnyForm, Approval
from handraise.model.identities import Person
from handraise.model.json_values import Json, canonical_json
from handraise.model.passkey_signatures import (
    Passkey,
    PasskeyProof,
    PasskeyRefused,
    asked_digest,
    decision_challenge,
)
from handraise.model.questions import Question
from handraise.ports import Directory

if TYPE_CHECKING:
    from handraise.server.passkeys.ceremony import NewPasskey, PasskeyCeremony

LASTS = timedelta(minutes=5)
"""How long a person has to use their passkey."""
_ACCOUNT = b"handraise account\x00"


class Evidence(NamedTuple):
    """What a signature proves: the kind of evidence, and the proof that is kept."""

    kind: str
    proof: PasskeyProof


class PasskeyUse:
    """What the passkeys of people sign at one server. `PasskeyRefused` is raised for what they did not."""

    def __init__(self, directory: Directory, ceremony: PasskeyCeremony) -> None:
        self._directory = directory
        self._ceremony = ceremony

    async def usable(self, person: Person) -> list[Passkey]:
        """The passkeys of a person that work at this server's address."""
        return self._ceremony.usable(await self._directory.passkeys(person.workspace, person.id))

    async def ask_decision(
        self, person: Person, question: Question, thread: str | None, decision: Json
    ) -> dict[str, Any]:
        """What a browser needs so that a person signs exactly this decision; `thread` is the digest of what they saw."""
        nonce = await self._nonce(person)
        challenge = _challenge(person, question, thread, decision, nonce)
        options = self._ceremony.request_options(await self.usable(person), challenge)
        return {"nonce": nonce, "get": options}

    async def check_decision(
        self,
        person: Person,
        question: Question,
        thread: str | None,
        decision: Json,
        *,
        nonce: str,
        credential: str,
    ) -> Evidence:
        """The evidence of a decision that a person signed."""
        challenge = _challenge(person, question, thread, decision, nonce)
        passkey, proof = await self._check(person, challenge, nonce=nonce, credential=credential)
        return Evidence(passkey_evidence(passkey.vouched_by), proof)

    async def ask_new(self, person: Person) -> dict[str, Any]:
        """What a browser needs to make a passkey. A person who has one must sign with it first."""
        nonce, known = await self._nonce(person), await self.usable(person)
        create = self._ceremony.creation_options(person, known, _account(person, "create", nonce))
        return {"nonce": nonce, "create": create, "get": self._confirm(person, known, "add", nonce)}

    async def add(
        self,
        person: Person,
        *,
        name: str,
        nonce: str,
        created: str,
        confirmed: str,
        vouched_by: str | None,
    ) -> Passkey | None:
        """Store the passkey that a browser made; None if it is registered already.

        `vouched_by` is that of the session. It does not count if a passkey of the person without one confirmed the new one.
        """
        new: NewPasskey = self._ceremony.check_registration(created, _account(person, "create", nonce))
        if await self.usable(person):
            challenge = _account(person, "add", nonce)
            old, _ = await self._check(person, challenge, nonce=nonce, credential=confirmed)
            vouched_by = old.vouched_by
        elif not await self._directory.use_nonce(person.workspace, nonce, person=person.id):
            raise PasskeyRefused("this was used already, or took too long. Try again")
        return await self._directory.add_passkey(
            person.workspace,
            new.id,
            person=person.id,
            name=name,
            domain=self._ceremony.domain,
            public_key=new.public_key,
            sign_count=new.sign_count,
            vouched_by=vouched_by,
        )

    async def ask_removal(self, person: Person, passkey_id: str) -> dict[str, Any]:
        """What a browser needs so that a person confirms the removal of a passkey with one of theirs."""
        nonce, known = await self._nonce(person), await self.usable(person)
        return {"nonce": nonce, "get": self._confirm(person, known, f"remove {passkey_id}", nonce)}

    async def remove(self, person: Person, passkey_id: str, *, nonce: str, confirmed: str) -> bool:
        """Remove a passkey of a person who confirmed that with one of theirs; False if it is gone."""
        challenge = _account(person, f"remove {passkey_id}", nonce)
        await self._check(person, challenge, nonce=nonce, credential=confirmed)
        return await self._directory.remove_passkey(
            person.workspace, passkey_id, person=person.id, by=person.id
        )

    def _confirm(self, person: Person, known: Sequence[Passkey], what: str, nonce: str) -> Any:
        return self._ceremony.request_options(known, _account(person, what, nonce)) if known else None

    async def _nonce(self, person: Person) -> str:
        nonce = secrets.token_urlsafe(24)
        await self._directory.add_nonce(person.workspace, nonce, person=person.id, lasts=LASTS)
        return nonce

    async def _check(
        self, person: Person, challenge: bytes, *, nonce: str, credential: str
    ) -> tuple[Passkey, PasskeyProof]:
        """The passkey of a person that signed a challenge. Its nonce is used up with that."""
        known = await self.usable(person)
        passkey, proof, count = self._ceremony.check_signature(credential, known, challenge, nonce)
        if not await self._directory.use_nonce(person.workspace, nonce, person=person.id):
            raise PasskeyRefused("this was used already, or took too long. Try again")
        if not await self._directory.use_passkey(
            person.workspace, passkey.id, person=person.id, sign_count=count
        ):
            raise PasskeyRefused("this passkey was removed, or there is a copy of it")
        return passkey, proof


def open_passkeys(directory: Directory, base_url: str) -> PasskeyUse | None:
    """The passkeys of a server; None if the extra is not installed or its address allows none."""
    try:
        from handraise.server.passkeys.ceremony import open_ceremony  # noqa: PLC0415 -- webauthn is an extra
    except MissingExtra:
        return None
    ceremony = open_ceremony(base_url)
    return None if ceremony is None else PasskeyUse(directory, ceremony)


def _challenge(person: Person, question: Question, thread: str | None, decision: Json, nonce: str) -> bytes:
    return decision_challenge(
        question.workspace,
        question.id,
        asked=asked_digest(
            question.form.kind,
            question.prompt,
            question.context,
            brief=_brief(question.form),
            attachments=[each.record() for each in question.attachments],
        ),
        thread=thread,
        by=person.id,
        decision=decision,
        nonce=nonce,
    )


def _brief(form: AnyForm) -> Json:
    return form.brief.record() if isinstance(form, Approval) and form.brief is not None else None


def _account(person: Person, what: str, nonce: str) -> bytes:
    """The challenge of a change to the passkeys of a person."""
    parts = canonical_json([person.workspace, person.id, what, nonce])
    return hashlib.sha256(_ACCOUNT + parts.encode()).digest()


def read_signature(text: str) -> tuple[str, str]:
    """The nonce and the credential in what a form sent; two empty texts if it is not that."""
    try:
        found = json.loads(text)
        return str(found["nonce"])[:100], json.dumps(found["credential"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return "", ""

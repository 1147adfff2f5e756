"""Check in an audit trail that every decision for which a policy required a passkey was signed with one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from handraise.model.evidence import PASSKEY, passkey_evidence
from handraise.model.json_values import Json
from handraise.model.passkey_signatures import (
    CheckProof,
    PasskeyProof,
    answered,
    asked_digest,
    decision_challenge,
    declined,
    proof_from_json,
    sent_back,
)
from handraise.model.thread_messages import MESSAGE_KINDS, digest_of_thread, digested_message

_DECIDE = frozenset({"voted", "answered", "declined", "returned"})


class _Registered(NamedTuple):
    person: str
    public_key: str
    domain: str
    vouched_by: str | None


class PasskeyReplay:
    """The passkeys and the decisions of a workspace, event by event in the order of the trail."""

    def __init__(self, check: CheckProof | None) -> None:
        self._check = check
        self._registered: dict[str, _Registered] = {}
        self._asked: dict[str, str] = {}
        self._threads: dict[str, list[Sequence[Any]]] = {}
        self.signed = 0
        """How many decisions were signed with a passkey."""

    def find_fault(self, record: dict[str, Any], *, is_complete: bool) -> str | None:
        """What is wrong with the passkeys in an event, or None.

        If the trail is not complete, because events were removed from it, a passkey may be missing in it.
        """
        kind, question, data = record["kind"], record["question"], record["data"] or {}
        if kind == "passkey.added":
            self._registered[data["passkey"]] = _Registered(
                data["person"], data["public_key"], data["domain"], data["vouched_by"]
            )
        elif kind == "asked" and (asked := record.get("asked") or {}).get("evidence") == "passkey":
            self._asked[question] = asked_digest(
                asked["form"]["kind"],
                asked["prompt"],
                asked["context"],
                brief=asked["form"].get("brief"),
                attachments=asked.get("attachments", ()),
            )
        elif kind in MESSAGE_KINDS and question in self._asked:
            self._threads.setdefault(question, []).append(
                digested_message(kind, record["by"], data["text"], data.get("attachments", ()))
            )
        elif kind in _DECIDE and question in self._asked and data.get("source", "person") == "person":
            return self._decision_fault(record, data, is_complete=is_complete)
        return None

    def _decision_fault(
        self, record: dict[str, Any], data: dict[str, Any], *, is_complete: bool
    ) -> str | None:
        if "passkey" not in data:
            if _refuses(data) and not str(data.get("evidence", "")).startswith(PASSKEY):
                return None
            return "the policy required a passkey, and none signed this decision"
        if self._check is None:
            return 'a passkey signed this decision. To check that, run: pip install "handraise[passkeys]"'
        proof = proof_from_json(data["passkey"])
        if why := self._passkey_fault(proof, record["by"], data.get("evidence"), is_complete=is_complete):
            return why
        thread = digest_of_thread(self._threads.get(record["question"], [])[: data.get("seen") or 0])
        challenge = decision_challenge(
            record["workspace"],
            record["question"],
            asked=self._asked[record["question"]],
            thread=thread,
            by=record["by"],
            decision=_decision(record["kind"], data),
            nonce=proof.nonce,
        )
        if why := self._check(proof, challenge):
            return f"the passkey did not sign this decision: {why}"
        self.signed += 1
        return None

    def _passkey_fault(
        self, proof: PasskeyProof, by: str, evidence: str | None, *, is_complete: bool
    ) -> str | None:
        """Why this is not a passkey of this person, as it was registered."""
        known = self._registered.get(proof.id)
        if known is None:
            return "the passkey that signed this decision was never registered" if is_complete else None
        if known[:3] != (by, proof.public_key, proof.domain):
            return "the passkey that signed this decision was registered differently"
        if evidence != passkey_evidence(known.vouched_by):
            return "the decision has another evidence than its passkey"
        return None


def _decision(kind: str, data: dict[str, Any]) -> Json:
    """What the event records, as it is signed."""
    if "value" in data:
        return answered(data["value"])
    reason = data.get("reason")
    return sent_back(reason) if kind == "returned" or data.get("returns") is True else declined(reason)


def _refuses(data: dict[str, Any]) -> bool:
    if "value" not in data:
        return True
    value = data["value"]
    return isinstance(value, dict) and value.get("decision") == "deny"

"""Receipts: an approval that can be used can be shown, signed, to the place that executes the action; no other can."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from handraise import Approval, Desk, InvalidAnswer, NotApproved
from handraise.errors import (
    AlreadyConsumed,
    ApprovalLapsed,
    ApprovalTakenBack,
    ReceiptRefused,
    Stopped,
)
from handraise.model.provenance import Provenance
from handraise.model.receipts import RECEIPT_LIFETIME, Receipt
from handraise.testing.clock import ManualClock
from handraise.testing.contract.backend import REFUSED, Backend, ContractFixtures
from handraise.testing.contract.policy_cases import deciding
from handraise.testing.promises import promise

_PAY = Approval.of("pay", {"amount": 10, "to": "ana"}, editable=["amount"])


def verified(token: str, key: Path, now: datetime) -> Receipt:
    """The receipt in a token that this key signed."""
    from handraise.signing.receipt_tokens import load_verifier  # noqa: PLC0415 -- joserfc is an extra

    return load_verifier([f"{key}.pub"]).verify(token, now=now)


class _SigningFixtures(ContractFixtures):
    @pytest.fixture
    async def signing(
        self, backend: Backend, clock: ManualClock, workspace: str, receipt_key: Path
    ) -> AsyncIterator[Desk]:
        """A desk that signs receipts."""
        async with backend.open(clock=clock, workspace=workspace, receipt_key=receipt_key) as desk:
            yield desk


class ReceiptCases(_SigningFixtures):
    """A receipt says who approved what, and can be had exactly as long as the approval can be used."""

    @promise("P13", "P16")
    async def test_a_receipt_says_who_approved_which_action(
        self, signing: Desk, clock: ManualClock, workspace: str, receipt_key: Path
    ) -> None:
        question = await signing.post("Pay?", form=_PAY)
        edited = {"decision": "approve", "arguments": {"amount": 7}}
        await signing.answer(question.id, edited, by="ana", provenance=Provenance(channel="test"))
        receipt = verified(await signing.receipt(question.id), receipt_key, clock.now())
        assert (receipt.workspace, receipt.question_id, receipt.asker) == (workspace, question.id, "agent")
        assert (receipt.tool, receipt.source, receipt.policy_version) == ("pay", "person", None)
        assert receipt.covers("pay", {"to": "ana", "amount": 7})
        assert not receipt.covers("pay", {"to": "ana", "amount": 10})
        assert not receipt.covers("refund", {"to": "ana", "amount": 7})
        [approver] = receipt.approvers
        said = (await signing.history(question.id))[-1]
        assert (approver.by, approver.at) == ("ana", clock.now())
        assert approver.evidence == (said.data or {}).get("evidence")
        assert (receipt.issued_at, receipt.expires_at) == (clock.now(), clock.now() + RECEIPT_LIFETIME)

    @promise("P16")
    async def test_a_receipt_ends_with_its_lifetime_and_another_one_has_the_same_id(
        self, signing: Desk, clock: ManualClock, receipt_key: Path
    ) -> None:
        question = await signing.post("Pay?", form=_PAY)
        await signing.answer(question.id, "approve", by="ana")
        token = await signing.receipt(question.id)
        first = verified(token, receipt_key, clock.now())
        clock.advance(RECEIPT_LIFETIME)
        with pytest.raises(ReceiptRefused, match="expired"):
            verified(token, receipt_key, clock.now())
        again = verified(await signing.receipt(question.id), receipt_key, clock.now())
        assert (again.id, again.expires_at) == (first.id, first.expires_at + RECEIPT_LIFETIME)

    @promise("P16")
    async def test_a_request_of_an_agent_never_passes_for_the_use_of_a_receipt(self, signing: Desk) -> None:
        question = await signing.post("Pay?", form=_PAY)
        await signing.answer(question.id, "approve", by="ana")
        with pytest.raises(InvalidAnswer, match="request: begins with 'receipt:'"):
            await signing.consume_approval(question.id, request="receipt:payment-77")
        assert (await signing.get(question.id)).consumed_at is None
        assert await signing.consume_approval(question.id, request="payment-77") == _PAY.action

    @promise("P16")
    async def test_a_receipt_ends_with_the_approval(
        self, signing: Desk, clock: ManualClock, receipt_key: Path
    ) -> None:
        form = Approval.of("pay", {"amount": 10}, valid_for="5m")
        question = await signing.post("Pay?", form=form)
        await signing.answer(question.id, "approve", by="ana")
        ends = clock.now() + timedelta(minutes=5)
        clock.advance(timedelta(minutes=4))
        assert verified(await signing.receipt(question.id), receipt_key, clock.now()).expires_at == ends
        clock.advance(timedelta(minutes=1))
        with pytest.raises(ApprovalLapsed):
            await signing.receipt(question.id)

    @promise("P13", "P16")
    async def test_all_who_approved_are_named_and_nobody_else(
        self, signing: Desk, clock: ManualClock, receipt_key: Path
    ) -> None:
        question = await signing.post("Pay?", form=_PAY, quorum=2)
        began = clock.now()
        await signing.answer(question.id, "deny", by="bo")
        await signing.answer(question.id, {"decision": "approve", "arguments": {"amount": 3}}, by="cy")
        clock.advance(timedelta(seconds=1))
        await signing.answer(question.id, "approve", by="ana")
        clock.advance(timedelta(seconds=1))
        await signing.answer(question.id, "approve", by="bo")  # who had said no before
        receipt = verified(await signing.receipt(question.id), receipt_key, clock.now())
        assert [(each.by, each.at - began) for each in receipt.approvers] == [
            ("ana", timedelta(seconds=1)),
            ("bo", timedelta(seconds=2)),
        ]

    @promise("P16")
    @pytest.mark.parametrize("ending", ["pending", "denied", "declined", "withdrawn", "expired"])
    async def test_nothing_else_has_a_receipt(self, signing: Desk, clock: ManualClock, ending: str) -> None:
        question = await signing.post("Pay?", form=_PAY, expires_in=timedelta(hours=1))
        if ending == "denied":
            await signing.answer(question.id, "deny", by="ana")
        elif ending == "declined":
            await signing.decline(question.id, by="ana")
        elif ending == "withdrawn":
            await signing.withdraw(question.id)
        elif ending == "expired":
            clock.advance(timedelta(hours=1))
        with pytest.raises(NotApproved):
            await signing.receipt(question.id)

    @promise("P16")
    async def test_an_approval_that_was_used_or_taken_back_has_no_receipt(self, signing: Desk) -> None:
        used, taken_back = [await signing.post("Pay?", form=_PAY) for _ in range(2)]
        for question in (used, taken_back):
            await signing.answer(question.id, "approve", by="ana")
            await signing.receipt(question.id)
        await signing.consume_approval(used.id)
        await signing.take_back(taken_back.id, by="ana")
        with pytest.raises(AlreadyConsumed):
            await signing.receipt(used.id)
        with pytest.raises(ApprovalTakenBack):
            await signing.receipt(taken_back.id)

    @promise("P13", "P16")
    async def test_a_receipt_of_a_grant_ends_with_the_grant(
        self, signing: Desk, clock: ManualClock, receipt_key: Path
    ) -> None:
        form = Approval.of(
            "pay", {"amount": 10}, scopes=("once", "always"), remember_for=timedelta(minutes=10)
        )
        first = await signing.post("Pay?", form=form)
        await signing.answer(first.id, {"decision": "approve", "scope": "always"}, by="ana")
        own = verified(await signing.receipt(first.id), receipt_key, clock.now())
        assert (own.source, own.expires_at) == ("person", clock.now() + RECEIPT_LIFETIME)
        second = await signing.post("Pay?", form=form)
        assert await signing.apply_grant(second.id) is not None
        receipt = verified(await signing.receipt(second.id), receipt_key, clock.now())
        assert (receipt.source, [each.by for each in receipt.approvers]) == ("grant", ["ana"])
        assert receipt.expires_at == clock.now() + timedelta(minutes=10)
        [grant] = await signing.list_grants()
        await signing.revoke_grant(grant.id, by="ana")
        with pytest.raises(ApprovalLapsed):
            await signing.receipt(second.id)
        await signing.receipt(first.id)  # a person approved this one themselves

    async def test_only_the_asker_gets_a_receipt(self, signing: Desk) -> None:
        question = await signing.post("Pay?", form=_PAY)
        await signing.answer(question.id, "approve", by="ana")
        with pytest.raises(REFUSED):
            await signing.scoped(asker="another agent").receipt(question.id)
        with pytest.raises(REFUSED):
            await signing.scoped("elsewhere").receipt(question.id)
        with pytest.raises(REFUSED):
            await signing.receipt("nothing")


class RuledReceiptCases(_SigningFixtures):
    """What operators decide holds for receipts."""

    @promise("P18")
    @pytest.mark.parametrize("scope", [{}, {"agent": "agent"}, {"tool": "pay"}])
    async def test_what_is_stopped_has_no_receipt(
        self, signing: Desk, backend: Backend, workspace: str, scope: dict[str, Any]
    ) -> None:
        question = await signing.post("Pay?", form=_PAY)
        await signing.answer(question.id, "approve", by="ana")
        stop = await backend.stop(workspace, **scope)
        with pytest.raises(Stopped):
            await signing.receipt(question.id)
        await backend.resume(workspace, stop)
        await signing.receipt(question.id)

    @promise("P13", "P16")
    async def test_a_receipt_of_a_policy_names_its_version_and_nobody(
        self, signing: Desk, backend: Backend, clock: ManualClock, workspace: str, receipt_key: Path
    ) -> None:
        await backend.set_policy(workspace, deciding("allow"))
        question = await signing.post("Pay?", form=_PAY)
        receipt = verified(await signing.receipt(question.id), receipt_key, clock.now())
        assert (receipt.source, receipt.approvers, receipt.policy_version) == ("policy", (), 1)
        await backend.set_policy(workspace, deciding({"deny": "not now"}))
        with pytest.raises(ApprovalLapsed):
            await signing.receipt(question.id)

"""Leaves one of everything in a store, and prints what it left: run with the source of the release before.

`PYTHONPATH=path/to/older/src python tests/release/older.py ADDRESS`
"""

import asyncio
import dataclasses
import json
import sys
from contextlib import suppress
from datetime import timedelta
from typing import Any

import handraise
from handraise import Approval, Choice, Confirm, Escalation, Field, Form, MultiChoice, Open, Timeline
from handraise.desk_factory import open_backend
from handraise.forms import AnyForm
from handraise.model.deliveries import Address, Delivery
from handraise.model.identities import Role
from handraise.model.provenance import Provenance
from handraise.ports.outbox import RoutedEntry

PAY = Approval.of("pay", {"amount": 20}, scopes=("once", "always"))
FORMS: dict[str, tuple[AnyForm, Any]] = {
    "choice": (Choice.of("Canary", "Rolling"), "Canary"),
    "multi_choice": (MultiChoice.of("Canary", "Rolling"), ["Canary"]),
    "open": (Open(), "a text"),
    "confirm": (Confirm(), True),
    "form": (Form(fields=(Field(name="reason", form=Open()),)), {"reason": "late"}),
    "approval": (PAY, "approve"),
}
"""Each kind of form, with an answer that fits."""
TIMELINE = Timeline(
    remind=(timedelta(hours=1),),
    escalate=(Escalation(after=timedelta(hours=2), to=("bob",)),),
    expire=timedelta(days=1),
)


async def main(address: str) -> None:
    """Ask, answer in part, and settle in every way."""
    async with open_backend(address) as backend:
        await backend.directory.put_person("default", "ana", name="Ana", email=None, role=Role.ADMIN)
        await backend.directory.add_key("default", "k-1", digest="d" * 64, agent="agent", created_by="ana")
        await backend.outbox.put_address(
            Address(
                workspace="default",
                recipient="ana",
                channel="email",
                id="a-1",
                to={"mail": "ana@example.com"},
            )
        )
        async with handraise.desks.desk_from_store(backend.store, backend.bus, asker="agent") as desk:
            left = await questions(desk)
            left["delivery"] = await delivered(backend.outbox, left["told"])
            while (
                fed := await desk.feed()
            ).next is None:  # other transactions of the cluster hold the feed back
                await asyncio.sleep(0.05)
            left["feed"] = fed.next
            left["read"] = {each: seen(await desk.get(each)) for each in left["ids"]}
            left["kinds"] = {each: [e.kind for e in await desk.history(each)] for each in left["ids"]}
    print(json.dumps(left))


async def questions(desk: Any) -> dict[str, Any]:
    """Pending and settled ones, of every kind, with votes, attempts, a timeline, and a grant."""
    pending = {
        kind: (await desk.post(f"A {kind}?", form=form, key=kind)).id for kind, (form, _) in FORMS.items()
    }
    told = (await desk.post("Is Ana told?", recipients=["ana"])).id
    voted = (await desk.post("Do two agree?", form=Confirm(), quorum=2, veto=True, state={"step": 3})).id
    await desk.answer(voted, True, by="ana")
    tried = (await desk.post("Which?", choices=["a", "b"], max_attempts=2)).id
    await misfit(desk, tried)
    timed = await desk.post("Who has time?", recipients=["ana"], timeline=TIMELINE)
    settled = {}
    for how in ("answered", "declined", "expired", "withdrawn", "exhausted", "approved", "granted"):
        settled[how] = await ended(desk, how)
    ids = [*pending.values(), told, voted, tried, timed.id, *settled.values()]
    return {
        "pending": pending, "told": told, "voted": voted, "tried": tried, "timed": timed.id, "settled": settled,
        "ids": ids,
    }  # fmt: skip


async def ended(desk: Any, how: str) -> str:
    """A question that ended this way."""
    form = PAY if how in ("approved", "granted") else Choice.of("a", "b")
    limits = {"expires_in": 0.001} if how == "expired" else {"max_attempts": 1}
    question: str = (await desk.post(f"To be {how}?", form=form, **limits)).id
    match how:
        case "answered":
            await desk.answer(
                question, "a", by="ana", provenance=Provenance(channel="inbox", evidence="session")
            )
        case "declined":
            await desk.decline(question, by="ana", reason="not mine")
        case "expired":
            await desk.wait(question)
        case "withdrawn":
            await desk.withdraw(question)
        case "exhausted":
            await misfit(desk, question)
        case "approved":
            await desk.answer(question, "approve", by="ana")
        case "granted":
            await desk.answer(question, {"decision": "approve", "scope": "always"}, by="ana")
    return question


async def misfit(desk: Any, question: str) -> None:
    """Give an answer that does not fit."""
    with suppress(handraise.InvalidAnswer):
        await desk.answer(question, "c", by="ana")


async def delivered(outbox: Any, question: str) -> str:
    """The id of a delivery about the question that waits to be sent."""
    entries = [entry for entry in await outbox.entries("default", limit=100) if entry.question_id == question]
    made = Delivery(
        workspace="default", id="d-1", question_id=question, recipient="ana", channel="email",
        to={"mail": "ana@example.com"}, reason="asked", rate_limit_key="normal", created_at=entries[0].at, due_at=entries[0].at,
    )  # fmt: skip
    await outbox.route("default", [RoutedEntry(entry=entries[0], deliveries=(made,))])
    return made.id


def seen(question: Any) -> dict[str, Any]:
    """What a reader sees of a question."""
    shown = {
        name: getattr(question, name)
        for name in ("prompt", "asker", "key", "quorum", "veto", "attempts", "state")
    }
    votes = [[vote.by, vote.ballot] for vote in question.votes]
    asked = {"status": str(question.status), "asked_at": question.asked_at.isoformat(), "votes": votes}
    outcome = question.outcome and {
        name: str(value) for name, value in dataclasses.asdict(question.outcome).items()
    }
    return {**shown, **asked, "outcome": outcome}


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))

"""What changes in a workspace besides its questions is in the audit trail, once, with who changed it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from handraise.desk.audit_export import export_lines
from handraise.desk.sealer import Sealer
from handraise.model.audit_verification import verify
from handraise.model.away import Away
from handraise.model.deliveries import Address
from handraise.model.drafting import Limits, compose
from handraise.model.errors import PreconditionFailed
from handraise.model.identities import Role
from handraise.model.json_values import Json
from handraise.model.questions import Ref
from handraise.model.seals import Hold, Rule
from handraise.model.workspace_events import WorkspaceEvent
from handraise.model.workspace_quotas import WorkspaceQuotas
from handraise.ports import Backend, WorkspaceEventSearch
from handraise.testing.contract.backend import SOON, final_events
from handraise.testing.promises import promise

_DAY = timedelta(days=1)


class WorkspaceEventCases:
    """What a backend promises about the events of a workspace; you define `ports` and `workspace`."""

    @pytest.fixture
    def ports(self) -> Backend:
        raise NotImplementedError("A contract class needs a `ports` fixture.")

    @promise("P7", "P17")
    async def test_every_change_of_the_directory_leaves_one_event_with_its_actor(
        self, ports: Backend, workspace: str
    ) -> None:
        directory = ports.directory
        ana: dict[str, Any] = {"name": "Ana", "email": None}
        for _ in range(2):  # the second time changes nothing
            await directory.put_person(workspace, "ana", **ana, role=Role.MEMBER, by="boss")
        await directory.put_person(workspace, "ana", **ana, role=Role.ADMIN, by="boss")
        for _ in range(2):
            await directory.put_group(workspace, "ops", ["ana", "nobody"], by="boss")
        await directory.add_key(workspace, "k", digest="k", agent="bot", created_by="boss")
        for _ in range(2):
            await directory.revoke_key(workspace, "k", by="boss")
        span: dict[str, Any] = {"person": "ana", "lasts": _DAY, "vouched_by": "boss"}
        await directory.add_link(workspace, "l", digest="l", purpose="invitation", by="boss", **span)
        for _ in range(2):
            await directory.use_link(workspace, "l")
        await directory.open_session(workspace, "s", digest="s", how="invitation", **span)
        for _ in range(2):
            await directory.end_session(workspace, "s", by="boss")
        for _ in range(2):
            await directory.remove_person(workspace, "ana", by="boss")
        found = await final_events(ports.store, workspace, 10)
        assert [(event.kind.value, event.by) for event in found] == [
            ("person.added", "boss"),
            ("person.changed", "boss"),
            ("group.changed", "boss"),
            ("key.created", "boss"),
            ("key.revoked", "boss"),
            ("link.created", "boss"),
            ("link.used", "ana"),
            ("session.opened", "ana"),
            ("session.ended", "boss"),
            ("person.removed", "boss"),
        ]
        details = [event.details for event in found]
        assert details[1] == {"person": "ana", "changes": {"role": {"from": "member", "to": "admin"}}}
        assert details[2] == {"group": "ops", "added": ["ana"], "removed": []}
        assert details[7]["vouched_by"] == "boss"
        assert details[9]["changes"]["groups"] == {"from": ["ops"], "to": None}

    @promise("P7", "P17")
    async def test_going_away_and_coming_back_leave_one_event_each(
        self, ports: Backend, workspace: str
    ) -> None:
        directory = ports.directory
        for name in ("ana", "bob"):
            await directory.put_person(workspace, name, name=name, email=None, role=Role.MEMBER, by="boss")
        begins = datetime(2030, 1, 1, tzinfo=UTC)
        away = Away(starts=begins, until=begins + _DAY, deputy="bob")
        for _ in range(2):  # the second time changes nothing
            await directory.set_away(workspace, "ana", away, by="boss")
        await directory.set_away(workspace, "ana", replace(away, deputy="eve"), by="boss")
        for _ in range(2):
            await directory.set_away(workspace, "ana", None, by="ana")
        found = (await final_events(ports.store, workspace, 4))[2:]
        assert [(event.kind.value, event.by) for event in found] == [
            ("person.away", "boss"),
            ("person.back", "ana"),
        ]
        assert found[0].details == {
            "person": "ana",
            "from": "2030-01-01T00:00:00+00:00",
            "until": "2030-01-02T00:00:00+00:00",
            "deputy": "bob",
        }
        assert found[0].concerns("bob")
        assert found[1].details == {"person": "ana"}

    @promise("P17")
    async def test_addresses_and_routing_leave_one_event_and_no_secret(
        self, ports: Backend, workspace: str
    ) -> None:
        outbox = ports.outbox

        def address(secret: str) -> Address:
            return Address(
                workspace=workspace, recipient="ana", channel="webhook", id="1", to={"secret": secret}
            )

        for secret in ("s3cret-1", "s3cret-1", "s3cret-2"):
            await outbox.put_address(address(secret), by="boss")
        for _ in range(2):
            await outbox.remove_address(workspace, "ana", "webhook", "1", by="boss")
        policies: list[Json] = [{"rules": []}, {"rules": []}, {}]
        for policy in policies:
            await outbox.put_routing(workspace, policy, by="boss")
        found = await final_events(ports.store, workspace, 5)
        kinds = ["address.added", "address.changed", "address.removed", "routing.changed", "routing.changed"]
        assert [event.kind.value for event in found] == kinds
        assert {event.by for event in found} == {"boss"}
        assert "s3cret" not in repr([event.data for event in found])
        assert found[-1].details == {"from": {"rules": []}, "to": {}}

    @promise("P17", "P18")
    async def test_a_stop_and_its_end_are_sealed_with_who_did_it(
        self, ports: Backend, workspace: str
    ) -> None:
        stop = await ports.policies.stop(workspace, agent="bot", why="wrong rows", by="boss")
        assert await ports.policies.stop(workspace, agent="bot", why="wrong rows", by="boss") == stop
        for _ in range(2):
            await ports.policies.resume(workspace, stop.id, by="ana")
        found = await final_events(ports.store, workspace, 2)
        assert [(event.kind.value, event.by) for event in found] == [
            ("stop.begun", "boss"),
            ("stop.ended", "ana"),
        ]
        said = {"stop": stop.id, "agent": "bot", "tool": None, "why": "wrong rows"}
        assert [event.details for event in found] == [said, said]
        await _seal(ports, workspace)
        lines = [line async for line in export_lines(ports.store, ports.ledger, workspace)]
        assert verify(lambda: lines, unsigned=True).fault is None
        forged = [line.replace('"agent":"bot"', '"agent":"eve"') for line in lines]
        assert forged != lines
        assert verify(lambda: forged, unsigned=True).fault is not None

    @promise("P7", "P17")
    async def test_what_is_kept_how_long_and_who_was_erased_leaves_one_event_each(
        self, ports: Backend, workspace: str
    ) -> None:
        ledger = ports.ledger
        for rule in (Rule(_DAY), Rule(_DAY), Rule(None), None, None):
            await ledger.put_rule(workspace, rule, by="boss")
        case = Hold(
            workspace=workspace,
            name="case",
            question_id=None,
            reason="court",
            since=datetime.now(UTC),
            by="boss",
        )
        for _ in range(2):
            await ledger.hold(case)
        for _ in range(2):
            await ledger.lift(workspace, "case", by="cid")
        await ports.directory.put_person(workspace, "ana", name="A", email=None, role=Role.MEMBER, by="boss")
        await ledger.erase_person(workspace, "ana", by="boss")
        found = await final_events(ports.store, workspace, 6)
        assert [(each.kind.value, each.by, each.details) for each in found] == [
            ("retention.changed", "boss", {"to": 1.0}),
            ("retention.changed", "boss", {"to": "forever"}),
            ("retention.changed", "boss", {"to": None}),
            ("hold.placed", "boss", {"hold": "case", "question": None, "reason": "court"}),
            ("hold.lifted", "cid", {"hold": "case"}),
            ("person.erased", "boss", {}),
        ]

    async def test_the_quotas_of_a_workspace_leave_an_event_if_they_change(
        self, ports: Backend, workspace: str
    ) -> None:
        own = WorkspaceQuotas(pending=5, agents={"robot": 0})
        for quotas in (own, own, WorkspaceQuotas()):
            await ports.policies.put_quotas(workspace, quotas, by="boss")

        def refuse(stored: WorkspaceQuotas) -> None:
            assert stored == WorkspaceQuotas()
            raise PreconditionFailed("read it again")

        with pytest.raises(PreconditionFailed):
            await ports.policies.put_quotas(workspace, own, by="boss", check=refuse)
        assert await ports.policies.quotas(workspace) == WorkspaceQuotas()
        said = {"pending": 5, "agents": {"robot": 0}}
        found = await final_events(ports.store, workspace, 2)
        assert [(each.kind.value, each.by, each.details) for each in found] == [
            ("quotas.changed", "boss", {"from": {}, "to": said}),
            ("quotas.changed", "boss", {"from": said, "to": {}}),
        ]

    async def test_events_of_the_workspace_are_searched_the_newest_first(
        self, ports: Backend, workspace: str
    ) -> None:
        for who in ("ana", "bob"):
            await ports.directory.put_person(
                workspace, who, name=who, email=None, role=Role.MEMBER, by="boss"
            )
        await ports.directory.put_group(workspace, "ops", ["ana"], by="bob")
        added, more, grouped = await final_events(ports.store, workspace, 3)

        async def search(before: str | None = None, limit: int = 9, **what: Any) -> list[WorkspaceEvent]:
            wanted = WorkspaceEventSearch(**what)
            return [*await ports.store.search_workspace_events(workspace, wanted, before=before, limit=limit)]

        assert await search() == [grouped, more, added]
        assert await search(limit=2) == [grouped, more]
        assert await search(before=more.cursor) == [added]
        assert await search(person="ana") == [grouped, added]
        assert await search(person="bob") == [grouped, more]
        assert await search(kind="group.changed") == [grouped]
        assert await search(since=added.at, until=grouped.at + _DAY) == [grouped, more, added]
        assert await search(since=grouped.at + _DAY) == []
        assert await search(until=added.at) == []
        nothing = WorkspaceEventSearch()
        assert (
            await ports.store.search_workspace_events(f"{workspace}-2", nothing, before=None, limit=9) == []
        )

    @promise("P17")
    async def test_events_of_the_workspace_are_sealed_in_their_order_and_are_in_no_feed(
        self, ports: Backend, workspace: str
    ) -> None:
        await ports.directory.put_person(
            workspace, "ana", name="Ana", email=None, role=Role.MEMBER, by="boss"
        )
        await final_events(ports.store, workspace, 1)
        assert workspace in await ports.ledger.unsealed(limit=10_000)  # nothing was asked here yet
        draft = compose("Which?", {}, new_id="q", workspace=workspace, asker="agent", limits=Limits())
        await ports.store.insert([draft])
        await ports.directory.put_group(workspace, "ops", ["ana"], by="boss")
        (first, last) = await final_events(ports.store, workspace, 2)
        feed = await ports.store.feed(workspace, after=None, limit=10)
        assert [event.kind.value for event in feed] == ["asked"]
        assert await ports.store.feed(workspace, after=feed[0].cursor, limit=10) == []
        assert await ports.store.history(Ref(workspace, "")) == []
        assert await ports.store.workspace_events(workspace, after=first.cursor, limit=10) == [last]
        assert await ports.store.workspace_events(f"{workspace}-2", after=None, limit=10) == []
        await _seal(ports, workspace)
        seals = await ports.ledger.seals(workspace, after=0, limit=10)
        sealed = [cursor for seal in seals for cursor in seal.cursors]
        assert sealed == [first.cursor, feed[0].cursor, last.cursor]
        lines = [line async for line in export_lines(ports.store, ports.ledger, workspace)]
        assert verify(lambda: lines, unsigned=True).fault is None
        forged = [line.replace('"added":["ana"]', '"added":["eve"]') for line in lines]
        assert forged != lines
        assert verify(lambda: forged, unsigned=True).fault is not None

    async def test_events_of_the_workspace_go_with_the_person_whom_they_concern(
        self, ports: Backend, workspace: str
    ) -> None:
        for who in ("ana", "bob"):
            await ports.directory.put_person(
                workspace, who, name=who, email=None, role=Role.MEMBER, by="boss"
            )
        await ports.directory.put_group(workspace, "ops", ["ana", "bob"], by="boss")
        await ports.directory.put_group(workspace, "ops", ["bob"], by="ana")
        await ports.directory.put_group(workspace, "leads", ["bob"], by="bob")
        await final_events(ports.store, workspace, 5)
        await _seal(ports, workspace)
        await ports.ledger.erase_person(workspace, "ana")
        left = await ports.store.workspace_events(workspace, after=None, limit=10)
        assert [event.by for event in left] == ["boss", "bob"]
        assert "ana" not in repr([(event.by, event.data) for event in left])
        await _seal(ports, workspace)
        lines = [line async for line in export_lines(ports.store, ports.ledger, workspace)]
        verdict = verify(lambda: lines, unsigned=True)
        assert (verdict.fault, verdict.events, verdict.erased) == (None, 2, 3)
        assert '"ana"' not in "".join(lines)


async def _seal(ports: Backend, workspace: str) -> None:
    async with asyncio.timeout(SOON):
        while workspace in await ports.ledger.unsealed(limit=10_000):
            await Sealer(ports.store, ports.ledger).seal(workspace)

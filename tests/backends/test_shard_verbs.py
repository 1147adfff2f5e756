"""Shards forward every verb of the ports, as it was called, to where its workspace lives. No database is needed."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from handraise.backends.shards.directory import ShardedDirectory
from handraise.backends.shards.ledger import ShardedLedger
from handraise.backends.shards.outbox import ShardedOutbox
from handraise.backends.shards.placement import ShardRouter
from handraise.backends.shards.policies import ShardedPolicies
from handraise.backends.shards.store import ShardedStore
from handraise.model.questions import Ref
from handraise.ports import Directory, Ledger, Outbox, Policies, Store

PORTS: dict[str, tuple[type, Callable[[ShardRouter], object]]] = {
    "store": (Store, ShardedStore),
    "directory": (Directory, ShardedDirectory),
    "outbox": (Outbox, ShardedOutbox),
    "ledger": (Ledger, ShardedLedger),
    "policies": (Policies, ShardedPolicies),
}
VERBS = [
    (port, name)
    for port, (promised, _) in PORTS.items()
    for name, _ in inspect.getmembers(promised, inspect.isfunction)
    if not name.startswith("_")
]
WORKSPACE = "home"
PLACED = SimpleNamespace(
    workspace=WORKSPACE, question=SimpleNamespace(workspace=WORKSPACE, ref=Ref(WORKSPACE, "q"))
)
PLACED.ref = PLACED.question.ref
PLACED.delivery = PLACED
GIVEN: dict[str, Any] = {
    "workspace": WORKSPACE,
    **dict.fromkeys(("ref", "where", "draft", "question", "address", "seal", "hold"), PLACED),
    **{name: [PLACED] for name in ("drafts", "moves", "refs", "tries")},
}
"""What says where a call belongs; everything else is handed on unseen."""


class Reached(Exception):
    """A verb of a shard was called."""


class Recorder:
    """A port of a shard, which tells what it is called with."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, verb: str) -> Callable[..., Any]:
        async def called(*given: Any, **named: Any) -> None:
            raise Reached(self._name, verb, given, named)

        return called


class OneShard:
    """A router that leads to one shard."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.ports = SimpleNamespace(**{name: Recorder(name) for name in PORTS})

    async def write(self, workspace: str, work: Callable[[Any], Any], **_: object) -> Any:
        self.asked.append(workspace)
        return await work(self.ports)

    read = write

    async def write_many(
        self, items: Any, workspace_of: Callable[[Any], str], work: Callable[[Any, Any], Any], **_: object
    ) -> Any:
        self.asked += map(workspace_of, items)
        return await work(self.ports, items)

    read_many = write_many

    async def call_each(self, name: str, work: Callable[[Any], Any], **_: object) -> Any:
        del name
        return [await work(self.ports)]

    async def call_all(self, work: Callable[[Any], Any]) -> Any:
        return [await work(self.ports)]


def signature(of: type, verb: str) -> inspect.Signature:
    return inspect.signature(getattr(of, verb))


@pytest.mark.parametrize(("port", "verb"), VERBS)
def test_every_verb_is_there_with_its_signature(port: str, verb: str) -> None:
    promised, sharded = PORTS[port]
    assert signature(cast("type", sharded), verb) == signature(promised, verb)


@pytest.mark.parametrize(("port", "verb"), [each for each in VERBS if each != ("store", "outcomes")])
async def test_every_verb_is_forwarded_as_it_was_called(port: str, verb: str) -> None:
    promised, sharded = PORTS[port]
    router, asked = OneShard(), signature(promised, verb)
    given = {name: GIVEN.get(name, object()) for name in list(asked.parameters)[1:]}
    with pytest.raises(Reached) as reached:
        await getattr(sharded(cast("ShardRouter", router)), verb)(**given)
    *where, positional, named = reached.value.args
    assert where == [port, verb]
    forwarded = asked.bind(None, *positional, **named)
    forwarded.apply_defaults()
    assert forwarded.arguments == {"self": None, **given}
    assert set(router.asked) == ({WORKSPACE} if set(given) & set(GIVEN) else set())

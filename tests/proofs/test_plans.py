"""With a million pending and a million settled rows, every hot statement walks an index.

In the gate there are a twentieth of all rows.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest

from handraise import Open, Question, Responder
from handraise.backends.pagination import walks_of
from handraise.backends.postgres.connections import SETTINGS
from handraise.backends.postgres.database import RowSecurity
from handraise.backends.postgres.search_index import query_text
from handraise.backends.postgres.transaction import STATEMENTS as TRANSACTED
from handraise.backends.postgres.transaction import columns_of
from handraise.backends.sql.decided_changes import save
from handraise.backends.sql.new_questions import ask
from handraise.backends.sql.parameters import (
    count_query,
    page_query,
    search_values,
    settled_query,
    urgent_query,
    view_query,
    walks_query,
)
from handraise.backends.sql.rows import Row
from handraise.backends.sql.transactions import Values
from handraise.backends.sql_files import Statement, joined, load_statements, parts_of
from handraise.backends.sqlite.transaction import finished
from handraise.model.drafting import Limits, compose
from handraise.model.due_changes import expiry_change
from handraise.model.events import EventKind
from handraise.model.inbox_entries import inbox_of
from handraise.model.move_decisions import Change
from handraise.model.pending_views import Order, PendingFilters
from handraise.model.search_words import query_of, responder_tags, workspace_tag
from handraise.model.urgency import all_walks
from handraise.ports import MAX_EVENTS_SCANNED, MAX_PLACES_COUNTED, MAX_PLACES_SCANNED, Filter
from handraise.ports.settled_filter import SettledFilter
from handraise.questions import Draft, Ref
from tests.conftest import own_database
from tests.tiers import sized

pytestmark = [pytest.mark.proof, pytest.mark.timeout(600)]

_POSTGRES = "handraise.backends.postgres"
STATEMENTS = {
    name: part
    for statements in (
        TRANSACTED,
        load_statements(_POSTGRES, "search.sql"),
        load_statements(_POSTGRES, "views.sql"),
    )
    for statement in statements.values()
    for name, part in parts_of(statement).items()
}
PENDING = SETTLED = sized(gate=50_000, nightly=1_000_000)
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
ANA = Responder("ana", groups=frozenset({"ops"}))

FILL = """
insert into handraise.questions
    (asked_at, expires_at, settled_at, quorum, veto, workspace, id, status, asker, key, conversation,
     recipients, prompt, form, steps, outcome)
select
    now() - interval '1 day',
    case when n % 10 = 0 then now() + interval '1 day' + n * interval '1 second' end,
    case when settled then now() end,
    1, false, 'w' || n % 4, to_char(n, 'FM000000000'),
    case when settled then 'answered' else 'pending' end,
    'agent' || n % 100,
    case when n % 3 = 0 then 'key ' || n end,
    case when n % 2 = 1 then 'conversation ' || n % 50000 end,
    case when n % 5 = 0 then '["ana", "group:ops"]'::jsonb when n % 5 = 1 then '["bob"]' else '[]' end,
    'Which strategy should be taken for release number ' || n || '?',
    '{"kind":"choice","options":[{"id":"Blue-green","label":"Blue-green"},{"id":"Canary","label":"Canary"}]}',
    case when n % 10 = 0 then jsonb_build_array(jsonb_build_object(
        'after', 86400 + n, 'do', 'expire', 'to', '[]'::jsonb, 'record', '{}'::jsonb)) end,
    case when settled then '{"value": "Canary", "by": "ana"}'::jsonb end
from (select n, n > $1::int as settled from generate_series(1, $1::int + $2::int) as n) as rows
"""
NEIGHBOURS = sized(gate=15_000, nightly=300_000)
FILL_NEIGHBOURS = """
insert into handraise.questions
    (asked_at, expires_at, settled_at, quorum, veto, workspace, id, status, asker, recipients, prompt, form, outcome)
select
    now() - interval '1 day', now() + interval '1 day', case when settled then now() end,
    1, false, 'small' || n % ($1::int / 6), to_char(n, 'FM000000000'),
    case when settled then 'answered' else 'pending' end,
    'agent', '[]', 'Go?', '{"kind":"open"}', case when settled then '{"value": "yes", "by": "ana"}'::jsonb end
from (select n, n % 3 > 0 as settled from generate_series(1, $1::int) as n) as rows
"""
"""Tens of thousands of small workspaces: where row-level security hides which one is meant, the planner takes any
of them for small, and may think that it can as well read all of it."""
FILL_INBOX = """
insert into handraise.inbox
    (due_at, unheard_at, urgency, main, open, workspace, question_id, recipient, asker, conversation, follows)
select
    case when place = 1 then expires_at end, case when place = 1 then expires_at end,
    -- As `urgency_of` has it for what is neither escalated nor an approval.
    (2::bigint ^ 50 + 2::bigint ^ 49)::bigint + 4 * coalesce(extract(epoch from expires_at)::bigint, 2::bigint ^ 40) + 3,
    place = 1, true, workspace, id, recipient, asker, conversation,
    case when place = 1 and id = any ($1::text[]) then $2::text end
from handraise.questions,
    jsonb_array_elements_text(case recipients when '[]' then '["*"]' else recipients end)
        with ordinality as r (recipient, place)
where status = 'pending'
"""
FILL_PEOPLE = """
with people as (
    insert into handraise.people (created_at, workspace, id, role, name)
    select now(), 'w' || n % 4, 'person' || n / 4, 'member', 'Somebody'
    from generate_series(1, $1::int) as n
    returning workspace, id
)
insert into handraise.members (workspace, group_name, person)
select workspace, 'group' || number, id from people, generate_series(1, 3) as number
"""
FILL_GRANTS = """
insert into handraise.grants
    (created_at, expires_at, workspace, id, asker, tool, digest, scope, granted_by, question_id)
select
    now(), now() + interval '1 day', 'w' || n % 4, 'grant' || n, 'agent' || n % 100, 'tool' || n / 100, 'digest', 'always',
    'ana', to_char(n, 'FM000000000')
from generate_series(1, $1::int) as n
"""
FILL_EVENTS = """
insert into handraise.events (at, workspace, question_id, kind, actor, key)
select asked_at, workspace, id, 'asked', asker, key from handraise.questions
"""
FILL_ENDINGS = """
insert into handraise.events (at, workspace, question_id, kind, actor)
select settled_at, workspace, id, 'answered', 'ana' from handraise.questions where status = 'answered' order by id
"""
FILL_SEARCH = """
insert into handraise.search_entries (workspace, question_id, words)
select q.workspace, q.id, to_tsvector('simple', q.prompt) || array_to_tsvector(array['=' || t.tag, '=' || $3::text])
from handraise.questions as q
join unnest($1::text[], $2::text[]) as t (workspace, tag) on t.workspace = q.workspace
"""
SOME, SOME_SETTLED = sized(gate=38_877, nightly=777_777), PENDING + 1
"""A question of w1 that is pending, and one that is settled."""
LEADER, FOLLOWERS = 1, [4_001 + 4_000 * n for n in range(10)]
"""A pending question of w1, and those that follow it."""
KEYS = [PENDING // 300 * 300 + 501 + 300 * n for n in range(20)]
"""Settled questions of w1 and agent1 that have keys."""
THE_END = {"transaction": 2**63 - 1, "number": 2**63 - 1}


@pytest.fixture(scope="module", name="filled")
def filled_database() -> Iterator[str]:
    """A database at full size, in which nothing else is."""
    with own_database() as address:
        asyncio.run(fill(address))
        yield address


async def fill(address: str) -> None:
    connection = await asyncpg.connect(address, command_timeout=500)
    try:
        await connection.execute(FILL, PENDING, SETTLED)
        await connection.execute(FILL_NEIGHBOURS, NEIGHBOURS)
        await connection.execute(FILL_INBOX, list(map(pending_id, FOLLOWERS)), pending_id(LEADER))
        await connection.execute(FILL_PEOPLE, PENDING)
        await connection.execute(FILL_GRANTS, PENDING)
        await connection.execute(FILL_EVENTS)
        await connection.execute(FILL_ENDINGS)
        workspaces = [f"w{n}" for n in range(4)]
        tags = list(map(workspace_tag, workspaces))
        await connection.execute(FILL_SEARCH, workspaces, tags, responder_tags(ANA)[0])
        tables = ("questions", "inbox", "events", "search_entries", "people", "members", "grants")
        await connection.execute(f"vacuum (analyze) {', '.join(f'handraise.{table}' for table in tables)}")
    finally:
        await connection.close()


def pending_id(n: int) -> str:
    return f"{n:09}"


@dataclass(slots=True)
class Written:
    """A transaction that keeps what is written. In the store of which it is, nothing is found."""

    rows: dict[str, list[Values]] = field(default_factory=dict)

    async def __call__(self, name: str, /, **values: Any) -> Sequence[Row]:
        """Find nothing."""
        del name, values
        return []

    async def fetch_each(self, name: str, rows: Sequence[Values], /) -> Sequence[Any]:
        """Find nothing, except what holds for new questions."""
        self.rows[name] = list(rows)
        return [{**NOTHING_STORED, **row} for row in rows] if name == "ask_facts" else []

    async def write(self, rows: Mapping[str, Sequence[Values]], /) -> None:
        """Keep it."""
        self.rows |= {name: list(each) for name, each in rows.items() if each}


NOTHING_STORED = dict.fromkeys(
    (
        "by_id",
        "by_shared_key",
        "by_key",
        "replaced_by",
        "policy_version",
        "is_rule_suspended",
        "has_stops",
        "quota",
    )
) | {"now": EPOCH}


def asked(drafts: Sequence[Draft]) -> dict[str, list[Values]]:
    """What is run to ask questions: the rows of each statement."""
    work = Written()
    finished(ask(drafts, work, quota=None, counted=False))
    return work.rows


def saved(changes: Sequence[Change]) -> dict[str, list[Values]]:
    """The same to save changes."""
    work = Written()
    finished(save(changes, work))
    return work.rows


def each(name: str, rows: Iterable[Values]) -> tuple[str, dict[str, Any]]:
    """A statement that is run for rows."""
    return name, dict(columns_of(list(rows)))


def together(rows: Mapping[str, Sequence[Values]], *names: str) -> tuple[str, dict[str, Any]]:
    """Statements that write, as one."""
    values = {f"{name}__{column}": values for name in names for column, values in columns_of(rows[name])}
    return "_and_".join(names), values


def statement_named(name: str) -> Statement:
    """A statement, or several as one."""
    return STATEMENTS.get(name) or joined(*(TRANSACTED[each] for each in name.split("_and_")))


def places(refs: list[Ref]) -> dict[str, list[str]]:
    return {"workspace": [ref.workspace for ref in refs], "id": [ref.id for ref in refs]}


def hot_statements() -> dict[str, tuple[str, dict[str, Any], int]]:
    """Each hot operation: its statement, its parameters, and how many pages it may touch at most."""
    drafts = [
        compose(
            "Which?",
            {"choices": ["a", "b"], "key": f"new key {n}", "recipients": ["ana", "bob"], "expires_in": 60},
            new_id=f"new {n}",
            workspace="w1",
            asker="agent1",
            limits=Limits(),
        )
        for n in range(20)
    ]
    known = [replace(draft, id=f"known {n}", key=f"key {KEYS[n]}") for n, draft in enumerate(drafts)]
    questions = [
        Question(
            id=pending_id(20 * n + 5), workspace="w1", asker="agent1", prompt="?", form=Open(), asked_at=EPOCH
        )
        for n in range(20)
    ]
    refs = [question.ref._asdict() for question in questions]
    new, one_new, known_new = asked(drafts), asked(drafts[:1]), asked(known)
    ended = saved([expiry_change(question, EPOCH) for question in questions])
    entries = [
        Change(question=question, kind=EventKind.ESCALATED, inbox=tuple(inbox_of(question).values()))
        for question in questions
    ]
    moved = saved(entries)
    writes = ("insert_questions", "open_inbox", "add_events")
    many = [Ref("w1", pending_id(40 * n + 1)) for n in range(1000)]

    def page(limit: int = 50, **where: Any) -> tuple[str, dict[str, Any]]:
        return page_query(Filter(workspace="w1", **where), after=pending_id(PENDING // 2), limit=limit)

    def urgent(limit: int = 300, **where: Any) -> tuple[str, dict[str, Any]]:
        name, values = urgent_query(Filter(workspace="w1", **where), limit=limit)
        return name, {**values, **walks_query(all_walks())}

    def settled(**where: Any) -> tuple[str, dict[str, Any]]:
        return "settled", {**settled_query(Filter(workspace="w1", **where), limit=50), **THE_END}

    def view(order: Order = "urgency", **filters: Any) -> tuple[str, dict[str, Any]]:
        where = Filter(workspace="w1", recipient=ANA, filters=PendingFilters(**filters))
        walks = walks_query(walks_of(None, order))
        return "view_by_recipient", {**view_query(where, limit=300, order=order), **walks}

    def search(text: str, **where: Any) -> tuple[str, dict[str, Any]]:
        values, tags = search_values(Filter(workspace="w1", **where), after=None, limit=50)
        query = query_of(text)
        assert query is not None
        return "search", {**values, "query": query_text(query, tags), "looked": 71, "walked": 2_000}

    callbacks = [
        {
            "workspace": "w1",
            "id": f"callback {number}",
            "question_id": pending_id(SOME + number),
            "asker": "agent1",
            "channel": "callback",
            "rate_limit_key": "callback agent.example:443",
            "destination": "{}",
            "created_at": EPOCH,
            "due_at": None,
        }
        for number in range(20)
    ]
    one, settled_one = ({"workspace": "w1", "id": pending_id(number)} for number in (SOME, SOME_SETTLED))
    used = {**settled_one, "rule": None, "actor": "agent1", "digest": "0", "request": "r"}
    somebody = [{"workspace": "w1", "id": f"person{number}"} for number in range(20)]
    granted = {"workspace": "w1", "asker": "agent1", "tool": "tool1", "digest": "digest"}
    endings = {"workspace": "w1", "looked": MAX_EVENTS_SCANNED, "since": EPOCH, **THE_END}
    return {
        "ask, 1, facts": (*each("ask_facts", one_new["ask_facts"]), 20),
        "ask, 20, facts": (*each("ask_facts", new["ask_facts"]), 20 * 20),
        "ask, 20, facts, keys of settled questions": (*each("ask_facts", known_new["ask_facts"]), 20 * 20),
        "ask, 1": (*together(one_new, *writes), 100),
        "ask, 20": (*together(new, *writes), 20 * 100),
        "insert 20 questions": (*each("insert_questions", new["insert_questions"]), 20 * 20),
        "open the inbox, 40 entries": (*each("open_inbox", new["open_inbox"]), 40 * 30),
        "add 20 events": (*each("add_events", new["add_events"]), 20 * 20),
        "ask, 20 callbacks": (*each("add_callbacks", callbacks), 20 * 20),
        "count for a quota": (
            "count_asked",
            {"workspace": "w1", "asker": "agent1", "most": 1_000},
            100,
        ),
        "lock, 1": (*each("lock", [{**refs[0], "actor": "ana"}]), 20),
        "lock, 20": (*each("lock", [{**ref, "actor": "ana"} for ref in refs]), 20 * 10),
        "rights of 20": (*each("rights", somebody), 20 * 10),
        "save 20 questions": (*each("save_questions", ended["save_questions"]), 20 * 20),
        "leave the inbox, 20": (*each("leave_inbox", ended["leave_inbox"]), 20 * 20),
        "answer, 20": (*together(ended, "save_questions", "leave_inbox", "add_events"), 20 * 50),
        "save 20 entries": (*each("save_inbox", moved["save_inbox"]), 20 * 40),
        "get": (*each("read", [one]), 6),
        "get, settled": (*each("read", [settled_one]), 6),
        "get, unknown": (*each("read", [{"workspace": "w1", "id": "nowhere"}]), 6),
        "get by key, settled": (
            *each("read_by_key", [{"workspace": "w1", "owner": "agent1", "key": f"key {KEYS[0]}"}]),
            10,
        ),
        "consume, lock": (*each("lock_settled", [settled_one]), 12),
        "consume, facts": (*each("use_facts", [used]), 24),
        "consume, endings": (*each("endings_of", [settled_one]), 12),
        "consume, save": (*each("save_uses", [settled_one]), 24),
        "grants for an action": ("grants_for", granted, 24),
        "join": (*each("join", [{**one, "actor": "agent1", "key": "none", "data": "{}"}]), 40),
        "get by key": (*each("read_by_key", [{"workspace": "w1", "owner": "agent77", "key": "key 777"}]), 10),
        "get by a shared key": (
            *each("read_by_key", [{"workspace": "w1", "owner": "", "key": "key 777"}]),
            6,
        ),
        "followers": ("lock_followers", {"workspace": "w1", "id": pending_id(LEADER)}, 10 * 12),
        "followers of a question that has none": ("lock_followers", one, 6),
        "poll, 1,000 waits": ("outcomes", places(many), 1000 * 5),
        "inbox page of 50": (*page(recipient=ANA), 50 * 8),
        "300 places by urgency of an inbox": (*urgent(recipient=ANA), 300 * 8),
        "300 places by urgency of a workspace": (*urgent(), 300 * 8),
        "workspace page of 50": (*page(), 50 * 8),
        "conversation page of 50": (*page(conversation="conversation 601"), 50 * 8),
        "asker page of 50": (*page(asker="agent1"), 50 * 8),
        "sweep, nothing due": ("due_workspaces", {"at_most": 1000}, 16),
        "sweep of a workspace": ("lock_due", {"workspace": "w2", "limit": 500}, 14),
        "sweep of a workspace, unheard": ("lock_unheard", {"workspace": "w2", "limit": 500}, 14),
        "heartbeat": ("beat", {"workspace": ["w1"], "id": [pending_id(SOME)], "actor": ["agent1"]}, 12),
        # However many there are: a view reads a limited number of places, and no question.
        "urgent view": (*view(view="urgent"), 3 * MAX_PLACES_SCANNED),
        "view of a tool, newest first": (*view("newest", tool="none"), 3 * MAX_PLACES_SCANNED),
        "numbers of the views": (
            "count_views",
            {"workspace": "w1", **count_query(ANA)},
            4 * 3 * MAX_PLACES_COUNTED,
        ),
        # The newest 2,000, and then only what the index has.
        "search, a frequent word": (*search("strategy"), 71 * 24 + 2_000),
        "search, a rare word": (*search(f'"{SOME}"', recipient=ANA), 71 * 24 + 4_000),
        "search, a word that is nowhere": (*search("nowhere"), 4_000),
        "history": ("history", {"workspace": "w1", "question_id": pending_id(SOME)}, 6),
        "histories of 50": (
            "histories",
            {
                "workspace": "w1",
                "ids": [pending_id(number) for number in range(50)],
                "kinds": ["asked"],
                "limit": 100,
            },
            50 * 6,
        ),
        "settled page of 50": (*settled(), 50 * 8),
        "settled page of a person": (*settled(recipient=ANA), 50 * 8),
        "settled page, none found": (*settled(asker="nobody"), MAX_EVENTS_SCANNED * 6),
        "settled page of a person's denials until yesterday": (
            *settled(ending=SettledFilter(until=EPOCH, outcome="denied", by="ana")),
            MAX_EVENTS_SCANNED * 6,
        ),
        "settled page of another kind": (
            *settled(ending=SettledFilter(outcome="expired")),
            MAX_EVENTS_SCANNED,
        ),
        "settled page of late answers of a group": (
            *settled(
                ending=SettledFilter(
                    ways=("person",), channel="web", tool="pay", risk="high", group="ops", is_late=True
                )
            ),
            MAX_EVENTS_SCANNED * 6,
        ),
        "first event at an instant": ("first_event_at", {"workspace": "w1", "at": EPOCH}, 64 * 2 * 5),
        "export of 1,000 events": (
            "settled_rows",
            {
                "workspace": "w1",
                "transaction": "0",
                "number": 0,
                "kinds": ["answered"],
                "since": None,
                "until": None,
                "looked": 1_000,
            },
            1_000 * 8,
        ),
        "endings, 500": ("endings", {**endings, "limit": 500}, 500 * 8),
        "settled since a mark": (
            "settled_since",
            {"workspace": "w1", "mark": "0", "kinds": ["answered"], "limit": 100},
            100 * 20,  # here, few of the events since the mark end a question
        ),
        "feed of 100": ("feed", {"workspace": "w1", "transaction": "0", "number": 0, "limit": 100}, 100 * 3),
    }


@pytest.mark.parametrize("walls", [None, RowSecurity("handraise_app")], ids=["plain", "confined"])
@pytest.mark.parametrize("mode", ["force_custom_plan", "force_generic_plan"])
@pytest.mark.parametrize("name", hot_statements())
async def test_a_hot_statement_walks_an_index_for_a_bounded_number_of_pages(
    filled: str, name: str, mode: str, walls: RowSecurity | None
) -> None:
    statement, values, most = hot_statements()[name]
    plan = await explained(filled, statement, values, mode, walls)
    scans = [node for node in nodes(plan) if node["Node Type"] == "Seq Scan" and node["Actual Loops"]]
    assert scans == [], f"{name} scans {[node['Relation Name'] for node in scans]} from end to end"
    touched = pages(plan)
    kind = "confined" if walls else "plain"
    print(f"\n  {name:24} {mode:20} {kind:9} {touched:>6} pages", end="")
    assert touched <= most, f"{name} touches {touched} pages, more than {most}"


@pytest.mark.parametrize("walls", [None, RowSecurity("handraise_app")], ids=["plain", "confined"])
@pytest.mark.parametrize("mode", ["force_custom_plan", "force_generic_plan"])
@pytest.mark.parametrize(
    "name", ["settled page of 50", "settled page, none found", "settled page of another kind", "endings, 500"]
)
async def test_a_walk_back_goes_backwards_along_the_feed_and_sorts_nothing(
    filled: str, name: str, mode: str, walls: RowSecurity | None
) -> None:
    statement, values, _ = hot_statements()[name]
    plan = list(nodes(await explained(filled, statement, values, mode, walls)))
    walks = [node for node in plan if node.get("Relation Name") == "events"]
    assert {(node["Index Name"], node["Scan Direction"]) for node in walks} == {("events_pkey", "Backward")}
    # Only the page itself, once it is found, and never the events.
    assert all(node["Actual Rows"] <= 501 for node in plan if node["Node Type"] == "Sort")


@pytest.mark.parametrize("walls", [None, RowSecurity("handraise_app")], ids=["plain", "confined"])
@pytest.mark.parametrize("name", ["lock_due", "lock_unheard"])
async def test_a_sweep_of_many_due_questions_touches_only_them(
    filled: str, name: str, walls: RowSecurity | None
) -> None:
    """With a tenth of all pending questions due, a batch of 100 costs what 100 questions cost."""
    values = {"workspace": "w2", "limit": 100, "now": datetime.now(UTC) + timedelta(days=400)}
    plan = await explained(filled, name, values, "force_generic_plan", walls)
    assert plan["Actual Rows"] == 100
    assert [node for node in nodes(plan) if node["Node Type"] == "Seq Scan"] == []
    assert pages(plan) <= 100 * 12


async def test_workspaces_with_due_deeds_are_found_without_reading_all_deeds(filled: str) -> None:
    values = {"at_most": 1000, "now": datetime.now(UTC) + timedelta(days=400)}
    plan = await explained(
        filled, "due_workspaces", values, "force_generic_plan", RowSecurity("handraise_app")
    )
    assert pages(plan) <= 1000 * 4


@pytest.mark.parametrize("mode", ["force_custom_plan", "force_generic_plan"])
async def test_removing_touches_only_what_it_looks_at(filled: str, mode: str) -> None:
    connection = await asyncpg.connect(filled)
    try:
        ended = await connection.fetchrow(
            "select transaction::text, number from handraise.events where workspace = 'w1' and kind = 'answered' "
            "order by events.transaction, events.number limit 1"
        )
    finally:
        await connection.close()
    assert ended is not None
    values = {"keep": timedelta(0), "looked": 100, "workspace": "w1", **ended}
    touched = pages(await explained(filled, "remove_settled", values, mode, None))
    print(f"\n  {'remove_settled':24} {mode:20} {touched:>6} pages", end="")
    assert 100 * 10 < touched <= 100 * 100


async def explained(
    address: str, name: str, values: dict[str, Any], mode: str, walls: RowSecurity | None
) -> dict[str, Any]:
    """The executed plan of a statement, taken back again."""
    statement = statement_named(name)
    connection = await asyncpg.connect(address, server_settings=SETTINGS)
    try:
        types = (await connection.prepare(statement.numbered)).get_parameters()
        names = ", ".join(kind.name for kind in types)
        arguments = statement.arguments(**{"now": None, **values})
        literals = ", ".join(
            f"{literal(argument)}::{kind.name}" for argument, kind in zip(arguments, types, strict=True)
        )
        undo = connection.transaction()
        await undo.start()
        try:
            if walls is not None:
                await connection.execute(walls.begin_in(workspace_of(values)))
            await connection.execute(f"set local plan_cache_mode = {mode}")
            await connection.execute(f"prepare hot ({names}) as {statement.numbered}")
            # Once before, so that pages of the catalog that only a new session reads are not counted.
            with suppress(_Undone):
                async with connection.transaction():
                    await connection.execute(f"execute hot ({literals})")
                    raise _Undone
            explain = "explain (analyze, buffers, format json)"
            text = await connection.fetchval(f"{explain} execute hot ({literals})")
        finally:
            await undo.rollback()
    finally:
        await connection.close()
    plan: dict[str, Any] = json.loads(text)[0]["Plan"]
    return plan


class _Undone(Exception):
    """Takes back what was done."""


def workspace_of(values: dict[str, Any]) -> str:
    """The one workspace that a statement's parameters are about."""
    named = [
        value for name, value in values.items() if name.rpartition("__")[2] in ("workspace", "workspaces")
    ]
    (workspace,) = {each for value in named for each in ([value] if isinstance(value, str) else value)} or {
        "w1"
    }
    return str(workspace)


def pages(plan: dict[str, Any]) -> int:
    """Pages touched, an upper bound: what a CTE writes is done after the main query and counted apart."""
    writing = [node for node in plan.get("Plans", []) if node["Node Type"] == "ModifyTable"]
    return sum(node["Shared Hit Blocks"] + node["Shared Read Blocks"] for node in (plan, *writing))


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if plan.get("Relation Name") != "listeners":  # a row each
        yield plan
    for part in plan.get("Plans", []):
        yield from nodes(part)


def literal(value: Any) -> str:
    """A value as SQL, for EXECUTE takes no parameters."""
    match value:
        case None:
            return "null"
        case bool() | int() | float():
            return str(value)
        case list():
            return f"array[{', '.join(map(literal, value))}]"
        case _:
            return "'" + str(value).replace("'", "''") + "'"

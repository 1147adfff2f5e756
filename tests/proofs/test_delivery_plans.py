"""With hundreds of thousands of deliveries (a quarter of them in the gate), half of them for one dead receiver, every statement
reads a few pages.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import asyncpg
import pytest

from handraise import open_desk
from handraise.backends.postgres.database import RowSecurity
from tests.conftest import own_database
from tests.proofs.test_plans import explained, nodes, pages
from tests.tiers import sized

pytestmark = [pytest.mark.proof, pytest.mark.timeout(600)]

PER_KEY = 8
FILL = """
insert into handraise.deliveries (
    workspace, id, question_id, recipient, channel, reason, rate_limit_key, destination, asker, created_at, due_at,
    status, tries
)
select
    workspace, md5(n::text || workspace), to_char(n, 'FM000000000'), 'p' || n % 500, 'webhook', 'asked',
    case when n % 2 = 0 then 'webhook dead' else 'webhook h' || n % 50 end,
    '{}', 'agent' || n % 100, now() - interval '1 day' + n * interval '0.1 second',
    case when n % 2 = 0 then now() - interval '9 hours' when n % $3 = 0 then now() - n * interval '0.01 second' end,
    case when n % 2 = 0 or n % $3 = 0 then 'queued' else 'sent' end, 0
from generate_series(1, $2::int) as n, (select unnest($1::text[]) as workspace) as w
"""
FILL_ENTRIES = """
insert into handraise.outbox (at, workspace, question_id, kind)
select now(), workspace, to_char(n, 'FM000000000'), 'asked'
from generate_series(1, 20000) as n, (select unnest(array['w1', 'w2']) as workspace) as w
"""
FILL_TROUBLE = """
with asked as (
    insert into handraise.questions (asked_at, quorum, veto, workspace, id, asker, recipients, prompt, form)
    select now(), 1, false, 'w1', 'trouble ' || n, 'agent', '[]', 'Go?', '{"kind":"confirm"}'
    from generate_series(1, $1::int) as n
)
insert into handraise.deliveries (
    workspace, id, question_id, recipient, channel, reason, rate_limit_key, destination, asker, created_at, due_at,
    status, tries, problem
)
select
    'w1', md5('trouble ' || n), 'trouble ' || n, 'ann', case when n % 50 = 0 then 'slack' else 'email' end, 'asked',
    'slow', '{}', 'agent', now() - interval '1 hour' + n * interval '1 second',
    case when n % 2 = 0 then now() + interval '1 hour' end, case when n % 2 = 0 then 'queued' else 'failed' end, 3, 'busy'
from generate_series(1, $1::int) as n
"""
TROUBLE = 10_000
NEIGHBOURS = [f"small{number}" for number in range(sized(gate=1_000, nightly=5_000))]
TAKE: dict[str, Any] = {
    "channels": ["email", "webhook"],
    "full": [],
    "free_slots": json.dumps({"webhook h1": 1, "webhook h3": 7}),
    "unclaimed": timedelta(days=1),
    "per_message": 50,
    "per_key": PER_KEY,
    "limit": 64,
    "lease": timedelta(seconds=90),
}
ASKED = [f"trouble {number}" for number in range(1, 201)]
PLANNED = [
    {
        "question_id": question,
        "id": f"new {question}",
        "recipient": "ann",
        "asker": "agent",
        "channel": "webhook",
        "reason": "asked",
        "rate_limit_key": "webhook h1",
        "bundle": None,
        "destination": "{}",
        "due_at": "2026-01-01T00:00:00Z",
    }
    for question in ASKED
]
TRIED = {"id": "0" * 32, "turn": 1, "status": "sent", "receipt": "{}", "problem": None, "again_after": "PT5S"}

# Each statement with its parameters, and how many pages it may touch.
HOT: dict[str, tuple[str, dict[str, Any], int]] = {
    "take": ("take", {"workspace": "w1", **TAKE}, 4_000),
    "take past the dead": ("take", {"workspace": "w1", **TAKE, "full": ["webhook dead"]}, 4_000),
    "take where little is due": ("take", {"workspace": "small7", **TAKE}, 400),
    "take where nothing is": ("take", {"workspace": "nowhere", **TAKE}, 20),
    "where something is due": ("workspaces_with_due", {"at_most": 100}, 1_000),
    "where entries are": ("workspaces_with_entries", {"at_most": 1_000}, 20),
    "entries, 200": ("entries", {"workspace": "w1", "limit": 200}, 50),
    "use entries, 200": ("use_entries", {"workspace": "w1", "numbers": list(range(1, 201))}, 200 * 5),
    "lock pending, 200": ("lock_pending", {"workspace": "w1", "ids": ASKED}, 200 * 10),
    "route, 200": ("route", {"workspace": "w1", "deliveries": json.dumps(PLANNED)}, 200 * 30),
    "end deliveries of 200": ("end_deliveries", {"workspace": "w1", "ended": ASKED}, 200 * 30),
    "record": ("record", {"workspace": "w1", "tries": json.dumps([TRIED]), "ids": [TRIED["id"]]}, 20),
    "reached": ("reached", {"workspace": "w1", "sent": ["000000001"]}, 20),
    "event of unreached": ("unreached", {"workspace": "w1", "lost": ["000000001"]}, 20),
    "unreached": ("unreached_2", {"workspace": "w1", "lost": ["000000001"]}, 20),
    "lock questions": ("lock_questions", {"workspace": "w1", "lost": ["000000001"]}, 20),
    "deliveries of a question": ("deliveries", {"workspace": "w1", "question_id": "000000001"}, 20),
    "failed, 200": ("failed_deliveries", {"workspace": "w1", "limit": 200}, 200 * 10),
    "failed by channel, 100": ("failed_by_channel", {"workspace": "w1", "limit": 100}, 200 * 10),
    "tried again, 200": ("retried_deliveries", {"workspace": "w1", "limit": 200}, 200 * 10),
    "tried again by channel, 100": ("retried_by_channel", {"workspace": "w1", "limit": 100}, 200 * 10),
    "tried again where nothing is": ("retried_by_channel", {"workspace": "small7", "limit": 100}, 20),
    "recipients at": ("recipients_at", {"workspace": "w1", "channel": "chat", "id": "U1"}, 10),
}


@pytest.fixture(scope="module")
def filled() -> Iterator[str]:
    with own_database() as address:
        asyncio.run(fill(address))
        yield address


async def fill(address: str) -> None:
    async with open_desk(address):
        pass
    connection = await asyncpg.connect(address, command_timeout=500)
    try:
        await connection.execute(FILL, ["w1", "w2"], sized(gate=45_000, nightly=200_000), 3)
        await connection.execute(FILL, NEIGHBOURS, 10, 3)
        await connection.execute(FILL_ENTRIES)
        await connection.execute(FILL_TROUBLE, TROUBLE)
        await connection.execute(
            "vacuum (analyze) handraise.deliveries, handraise.outbox, handraise.questions"
        )
    finally:
        await connection.close()


@pytest.mark.parametrize("walls", [None, RowSecurity("handraise_app")], ids=["plain", "confined"])
@pytest.mark.parametrize("name", HOT)
async def test_a_statement_of_the_outbox_reads_a_bounded_number_of_pages(
    filled: str, name: str, walls: RowSecurity | None
) -> None:
    statement, values, most = HOT[name]
    plan = await explained(filled, statement, values, "force_generic_plan", walls)
    scans = [node["Relation Name"] for node in nodes(plan) if node["Node Type"] == "Seq Scan"]
    touched = pages(plan)
    print(f"\n  {name:26} {'confined' if walls else 'plain':9} {touched:>6} pages", end="")
    assert scans == []
    assert touched <= most

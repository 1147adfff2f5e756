"""What Citus makes of this store: which statements it can run, what a pair costs it, and whether a feed loses events.

    python -m benchmarks.citus postgresql://coordinator/trial postgresql://elsewhere/trial

The first address is an empty database on a coordinator, with the extension and its workers added; the second an empty one on
plain PostgreSQL. Both keep what is made in them. On every node, `citus.enable_unsafe_triggers` must be on. The desk itself does not run on
Citus, so a pair is written by plain SQL without any rule, as one statement or as functions that Citus runs on the worker.
In the table of plans, `:now` is a value: `coalesce(:now, now())` alone would have 24 more statements refused. The
results are in docs/explanation/scale.md.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import re
import statistics
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from importlib import resources
from typing import Any, TypeAlias

import asyncpg

from benchmarks import bare
from benchmarks.server_cpu import server_cpu, spent
from handraise.backends.postgres.schema import migrate
from handraise.backends.sql_files import Statement, load_statements
from handraise.desks import uuid7_ids

WORKSPACES = [f"bench-{number}" for number in range(256)]
CONNECTIONS = 16
BATCH = 64
PACKAGE = "handraise.backends.postgres"

Write: TypeAlias = Callable[[Any, str, str], Awaitable[object]]
"""Write something about a question: the connection, its workspace and its id."""

_TABLES = """
select c.oid::regclass::text as name, exists (
    select from pg_attribute as a where a.attrelid = c.oid and a.attname = 'workspace'
) as has_workspace
from pg_class as c
where c.relnamespace = 'handraise'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
    and c.relname <> 'placements'  -- of our own shards
order by c.relname <> 'people', c.relname
"""
_FUNCTIONS = "select oid::regprocedure::text from pg_proc where pronamespace = 'handraise'::regnamespace"
_NODES = "select nodename, nodeport from pg_dist_node"
_REFERENCE = ("archive_hand", "numbering")

_FORM = '{"kind":"choice","options":[{"id":"Canary","label":"Canary"}],"allow_other":false}'
_QUESTION = "handraise.questions (asked_at, quorum, veto, workspace, id, asker, recipients, prompt, form)"
_INBOX = "handraise.inbox (main, open, workspace, question_id, recipient, asker, kind)"
_EVENT = "handraise.events (at, workspace, question_id, kind, actor)"
_SETTLED = 'status = \'answered\', settled_at = now(), outcome = \'{"by":"ana","value":"Canary"}\'::json'


def _asking(values: str) -> tuple[str, str, str]:
    """The three rows of a question; `values` is how they are written: as `values (…)` or `select …`."""
    rows = (
        f"now(), 1, false, $1, $2, 'agent', '[]'::jsonb, 'Which strategy?', '{_FORM}'::json",
        "true, true, $1, $2, '*', 'agent', 'choice'",
        "now(), $1, $2, 'asked', 'agent'",
    )
    question, inbox, event = (values.format(row) for row in rows)
    return (
        f"insert into {_QUESTION} {question} on conflict do nothing",
        f"insert into {_INBOX} {inbox}",
        f"insert into {_EVENT} {event}",
    )


_question, _inbox, _event = _asking("select {}")
ASK = re.sub(r"(\$\d)", r"\1::text", f"with q as ({_question}), i as ({_inbox}) {_event}")
_SETTLE = f"update handraise.questions set {_SETTLED} where workspace = $1 and id = $2 and status = 'pending'"  # noqa: S608 -- ours
_CLOSE = "delete from handraise.inbox {} where workspace = $1 and question_id = $2"
ANSWER = re.sub(
    r"(\$\d)",
    r"\1::text",
    f"with q as ({_SETTLE} returning id), i as ({_CLOSE.format('using q')}) "  # noqa: S608 -- ours
    f"insert into {_EVENT} select now(), $1, $2, 'answered', 'ana' from q",
)


def _function(name: str, *statements: str) -> str:
    body = ";\n".join(statements)
    return (
        f"create or replace function handraise.{name}(text, text) returns void language plpgsql as $f$ begin\n"
        f"{body};\nend $f$"
    )


FUNCTIONS = (
    _function("plain_ask", *_asking("values ({})")),
    _function(
        "plain_answer",
        _SETTLE,
        "if not found then return; end if",
        _CLOSE.format(""),
        f"insert into {_EVENT} values (now(), $1, $2, 'answered', 'ana')",  # noqa: S608 -- ours
    ),
)


def _sent(*statements: str) -> tuple[Write, ...]:
    return tuple(
        lambda connection, workspace, question_id, sql=sql: connection.fetch(sql, workspace, question_id)
        for sql in statements
    )


AS_SQL = _sent(ASK, ANSWER)
AS_FUNCTIONS = _sent("select handraise.plain_ask($1, $2)", "select handraise.plain_answer($1, $2)")


async def connect(address: str) -> Any:
    """A connection. The plans of Citus are made for the values of each call: it has none without them."""
    settings = {**bare.SETTINGS, "plan_cache_mode": "auto"}
    return await asyncpg.connect(address, server_settings=settings)


async def distribute(address: str) -> None:
    """Spread every table with a workspace over the workers by it, and give them all functions."""
    connection = await connect(address)
    await migrate(connection)
    # It has a transition table, which Citus cannot join. The rows that it would write are not needed here.
    await connection.execute("drop trigger add_outbox_entry on handraise.events")
    for name in _REFERENCE:
        await connection.execute("select create_reference_table($1::text::regclass)", f"handraise.{name}")
    for table in await connection.fetch(_TABLES):
        if table["has_workspace"]:
            await connection.execute(
                "select create_distributed_table($1::text::regclass, 'workspace')", table["name"]
            )
    for function in await connection.fetch(_FUNCTIONS):
        await connection.execute("select create_distributed_function($1::text::regprocedure)", function[0])
    for function in FUNCTIONS:
        await connection.execute(function)
    for name in ("plain_ask", "plain_answer"):
        await connection.execute(
            "select create_distributed_function($1::text::regprocedure, '$1', "
            "colocate_with := 'handraise.questions', force_delegation := true)",
            f"handraise.{name}(text, text)",
        )
    await connection.close()


# == Which statements it can run ==

_SAMPLES = {
    "text": "'{}'", "timestamptz": "'2026-01-01'", "jsonb": "'{}'", "json": "'{}'", "bool": "true", "bytea": "''",
    "interval": "'1 day'", "xid8": "'1'", "tsquery": "'a'",
}  # fmt: skip


def _sample(name: str, kind: Any) -> str:
    """A literal for a parameter."""
    if name in ("workspace", "now"):
        value = {"workspace": "'bench'", "now": "'2026-01-01'"}[name]
    else:
        value = _SAMPLES.get(kind.name.removesuffix("[]"), "1")
    return f"array[{value}]::{kind.name}" if kind.kind == "array" else f"{value}::{kind.name}"


def _with_samples(statement: Statement, kinds: Sequence[Any]) -> str:
    literals = [_sample(name, kind) for name, kind in zip(statement.parameters, kinds, strict=True)]
    sql = re.sub(r"\$(\d+)", lambda number: literals[int(number[1]) - 1], statement.numbered)
    return re.sub(r"coalesce\('2026-01-01'::timestamptz, now\(\)\)|now\(\)", "'2026-01-01'::timestamptz", sql)


def _verdict(plan: str) -> str:
    if "Citus" not in plan:
        return "on the coordinator: a function, or a local table"
    if "Could not get remote plan" in plan:
        return "refused"
    if "Distributed Subplan" in plan or "pull to coordinator" in plan:
        return "cut into several statements"
    return (
        "routed to one shard"
        if set(re.findall(r"Task Count: (\d+)", plan)) <= {"0", "1"}
        else "asks all shards"
    )


async def plans(citus: str, postgres: str) -> tuple[Counter[str], Counter[str]]:
    """How many statements Citus routes, cuts up or refuses, and its reasons."""
    verdicts: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    there, here = await connect(citus), await connect(postgres)
    files = sorted(file.name for file in resources.files(PACKAGE).iterdir() if file.name.endswith(".sql"))
    for statement in itertools.chain.from_iterable(load_statements(PACKAGE, file).values() for file in files):
        prepared = await here.prepare(statement.numbered)
        explain = "explain (costs off) " + _with_samples(statement, prepared.get_parameters())
        await here.fetch(explain)
        try:
            rows = await there.fetch(explain)
        except asyncpg.PostgresError as error:
            verdicts["refused"] += 1
            reasons[str(error).splitlines()[0]] += 1
        else:
            verdicts[_verdict("\n".join(row[0] for row in rows))] += 1
    await there.close()
    await here.close()
    return verdicts, reasons


# == What a pair costs ==


async def cluster_cpu(nodes: Sequence[str]) -> dict[int, float]:
    """Seconds of processor time by session, on all nodes; they must run on this machine."""
    found = [await server_cpu(node) for node in nodes]
    if None in found:
        raise SystemExit("The nodes must run on this machine: processor time is read from /proc.")
    return {pid: seconds for each in found if each for pid, seconds in each.items()}


async def cost(address: str, nodes: Sequence[str], pair: Sequence[Write], count: int) -> float:
    """Microseconds of processor time of all nodes for a pair, one question at a time in 256 workspaces."""
    connections = [await connect(address) for _ in range(CONNECTIONS)]
    new_id = uuid7_ids()

    async def work(first: int, times: int) -> None:
        for number in range(times):
            workspace = WORKSPACES[(first + number * CONNECTIONS) % len(WORKSPACES)]
            question_id = new_id()
            for write in pair:
                await write(connections[first], workspace, question_id)

    async def all_work(times: int) -> None:
        await asyncio.gather(*(work(first, times) for first in range(CONNECTIONS)))

    await all_work(6)
    before = await cluster_cpu(nodes)
    await all_work(count // CONNECTIONS)
    worked = spent(before, await cluster_cpu(nodes))
    for connection in connections:
        await connection.close()
    return 1e6 * (worked or 0.0) / (count // CONNECTIONS * CONNECTIONS)


async def batched_cost(address: str, pair: bare.Pair, count: int) -> float:
    """The same with the desk's own statements, in batches over all workspaces: only plain PostgreSQL can."""
    new_id = uuid7_ids()
    async with bare.connected(address, 1) as (connection,):

        async def work(times: int) -> None:
            for number in range(times):
                names = [WORKSPACES[(number * BATCH + place) % len(WORKSPACES)] for place in range(BATCH)]
                ids = [new_id() for _ in names]
                for sent in pair:
                    rows = [
                        tuple(workspace if value == "bench" else value for value in sent.row(question_id))
                        for workspace, question_id in zip(names, ids, strict=True)
                    ]
                    await connection.fetch(sent.sql, *sent.arguments(rows))

        await work(2)
        before = await cluster_cpu([address])
        await work(count // BATCH)
        worked = spent(before, await cluster_cpu([address]))
    return 1e6 * (worked or 0.0) / (count // BATCH * BATCH)


# == Whether a feed loses events ==


async def lost_events(address: str, seconds: float) -> tuple[int, int]:
    """How many events of one workspace were acknowledged to four writers, and how many of them its follower missed."""
    workspace, new_id = f"feed-{uuid7_ids()()}", uuid7_ids()
    acknowledged: set[tuple[str, str]] = set()
    seen: set[tuple[str, str]] = set()
    over = asyncio.Event()

    async def write() -> None:
        connection = await connect(address)
        while not over.is_set():
            question_id = new_id()
            for kind, statement in zip(("asked", "answered"), AS_SQL, strict=True):
                await statement(connection, workspace, question_id)
                acknowledged.add((question_id, kind))
        await connection.close()

    async def follow() -> None:
        connection = await connect(address)
        cursor, empty = ("0", 0), 0
        while empty < 20:
            # The edge is asked of the coordinator, which also numbers the events. In the statement itself, Citus would
            # ask the worker, which counts its own transactions.
            edge = await connection.fetchval("select pg_snapshot_xmin(pg_current_snapshot())::text")
            rows = await connection.fetch(
                "select transaction::text, number, question_id, kind from handraise.events where workspace = $1 "
                "and (transaction, number) > ($2::text::xid8, $3::bigint) and transaction < $4::text::xid8 "
                "order by events.transaction, events.number",
                workspace,
                *cursor,
                edge,
            )
            seen.update((row["question_id"], row["kind"]) for row in rows)
            if rows:
                cursor = (rows[-1]["transaction"], rows[-1]["number"])
            empty = empty + 1 if over.is_set() and not rows else 0
            await asyncio.sleep(0.02)
        await connection.close()

    tasks = [asyncio.create_task(each) for each in (write(), write(), write(), write(), follow())]
    await asyncio.sleep(seconds)
    over.set()
    await asyncio.gather(*tasks)
    return len(acknowledged), len(acknowledged - seen)


async def main(citus: str, postgres: str, rounds: int, count: int, seconds: float) -> None:
    """Everything, one after the other; what costs is measured in turns."""
    pair = await bare.desk_pair(postgres)
    connection = await connect(postgres)
    for function in FUNCTIONS:
        await connection.execute(function)
    await connection.close()
    await distribute(citus)
    connection = await connect(citus)
    database = citus.rpartition("/")[2]
    user = await connection.fetchval("select current_user")
    nodes = [f"postgresql://{user}@{node[0]}:{node[1]}/{database}" for node in await connection.fetch(_NODES)]
    await connection.close()

    verdicts, reasons = await plans(citus, postgres)
    print(f"Of {verdicts.total()} statements:")
    for verdict, number in [
        *verdicts.most_common(),
        *((f"  {reason}", times) for reason, times in reasons.most_common()),
    ]:
        print(f"  {number:4}  {verdict}")

    works: dict[str, Callable[[], Awaitable[float]]] = {
        "PostgreSQL, the desk's statements in batches": lambda: batched_cost(postgres, pair, 4 * count),
        "PostgreSQL, plain SQL": lambda: cost(postgres, [postgres], AS_SQL, count),
        "PostgreSQL, functions": lambda: cost(postgres, [postgres], AS_FUNCTIONS, count),
        "Citus, plain SQL": lambda: cost(citus, nodes, AS_SQL, count),
        "Citus, functions on the worker": lambda: cost(citus, nodes, AS_FUNCTIONS, count),
    }
    series: dict[str, list[float]] = {name: [] for name in works}
    for number in range(rounds):
        for name in [*works][:: -1 if number % 2 else 1]:
            series[name].append(await works[name]())
            print(f"  {name}: {series[name][-1]:,.0f}", file=sys.stderr, flush=True)
    print(
        f"Microseconds of all nodes for a pair in {len(WORKSPACES)} workspaces, medians of {rounds} rounds:"
    )
    for name, values in series.items():
        print(f"  {statistics.median(values):8,.0f}  {name} ({min(values):,.0f} to {max(values):,.0f})")

    for name, address in (("PostgreSQL", postgres), ("Citus", citus)):
        acknowledged, lost = await lost_events(address, seconds)
        print(f"{name}: of {acknowledged:,} events that were acknowledged, the feed lost {lost}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.citus",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("citus", help="an empty database on the coordinator")
    parser.add_argument("postgres", help="an empty database on plain PostgreSQL")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--pairs", type=int, default=640, help="of each work in each round")
    parser.add_argument("--seconds", type=float, default=30.0, help="for which the feed is followed")
    given = parser.parse_args()
    asyncio.run(main(given.citus, given.postgres, given.rounds, given.pairs, given.seconds))

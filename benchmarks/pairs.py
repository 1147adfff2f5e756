"""Ask-and-answer pairs a second through one desk, against the bare engine in the same run.

A pair is one question asked and answered: two commits, two events, and all of the desk's checks. Measured beside it,
with the statements that the desk sends: pgbench at its best client count, and bare asyncpg that gathers concurrent
calls into batches, on one connection or two, whichever is faster. pgbench also writes the same rows with plain SQL, one
question at a time. `cpu_us` is what a pair costs the process that asks and answers, and `batch_of_64_server_cpu_us` what a pair
in a batch of 64 costs PostgreSQL's session, if it runs on this machine. The same is measured in a workspace whose policy has 100 rules, of which one matches.
"""

from __future__ import annotations

from functools import partial

from benchmarks import bare
from benchmarks.harness import Run, Work, costed, main, rate
from benchmarks.server_cpu import server_cpu, spent
from handraise import open_desk
from handraise.desk_factory import open_backend
from handraise.desks import uuid7_ids
from handraise.model.json_values import Json
from support.database import own_database

_BATCH = 64

RATIOS = {
    "ratio_to_plain_pgbench": ("desk_pairs_per_s", "pgbench_plain_pairs_per_s"),
    "ratio_to_pgbench": ("desk_pairs_per_s", "pgbench_pairs_per_s"),
    "ratio_to_bare_coalesced": ("desk_pairs_per_s", "bare_coalesced_pairs_per_s"),
    "ratio_of_cpu_to_bare_coalesced": ("desk_pairs_cpu_us", "bare_1_connection_pairs_cpu_us"),
    "ratio_with_100_rules": ("desk_with_100_rules_pairs_per_s", "desk_pairs_per_s"),
    "ratio_of_cpu_with_100_rules": ("desk_with_100_rules_pairs_cpu_us", "desk_pairs_cpu_us"),
    "ratio_of_one_caller": ("desk_1_caller_pairs_per_s", "bare_1_caller_pairs_per_s"),
}


async def add_policy(address: str, workspace: str) -> None:
    """Give a workspace a policy of 100 rules: 99 about tools, and one that every question matches."""
    rules: list[Json] = [
        {
            "name": f"tool {number}",
            "when": f"tool == 'tool-{number}' && args.amount > {number} && hour >= 8",
            "then": {"require": {"people": ["group:finance"], "quorum": 2}},
        }
        for number in range(99)
    ]
    rules.append({"name": "everything", "when": "agent == 'agent'", "then": {"require": {"veto": True}}})
    async with open_backend(address, connections=2) as ports:
        await ports.policies.put(workspace, {"rules": rules}, by="bench", expected=0)


async def desk_pairs(address: str, callers: int, seconds: float, workspace: str = "bench") -> float:
    """Pairs a second through one desk with concurrent callers."""
    async with open_desk(address, workspace=workspace) as desk:

        async def pair() -> None:
            await desk.answer(await bare.ask(desk), "Canary", by="ana")

        return await rate([pair] * callers, seconds)


async def server_cost(address: str, pair: bare.Pair, count: int = 20) -> dict[str, float]:
    """Microseconds of PostgreSQL's processor time for a pair, in batches of 64."""
    new_id = uuid7_ids()
    async with bare.connected(address, 1) as (connection,):

        async def work(times: int) -> None:
            for _ in range(times):
                ids = [new_id() for _ in range(_BATCH)]
                for sent in pair:
                    await connection.fetch(sent.sql, *sent.arguments([sent.row(each) for each in ids]))

        await work(2)
        before = await server_cpu(address)
        await work(count)
        worked = spent(before, await server_cpu(address))
    return {} if worked is None else {"server_cpu_us": 1e6 * worked / (count * _BATCH)}


async def measure(run: Run) -> None:
    """Measure everything in each round."""
    callers, seconds, tried = run.options["callers"], run.seconds, bare.clients_for(run)
    async with own_database() as address:
        pair = await bare.desk_pair(address)
        both = (pair.ask, pair.answer)
        plain = await bare.plain_pair(address, pair)
        await desk_pairs(address, 8, 0.3)
        await add_policy(address, "ruled")
        coalescing: dict[str, dict[str, int]] = {
            "bare_1_connection_pairs": {"connections": 1},
            "bare_2_connections_pairs": {"connections": 2, "at_most": 64},
        }

        def coalesced(how: dict[str, int]) -> Work:
            return lambda: costed(bare.coalesced(address, both, callers, seconds, **how))

        await run.mixed(
            {
                "desk_pairs": lambda: costed(desk_pairs(address, callers, seconds)),
                "desk_with_100_rules_pairs": lambda: costed(desk_pairs(address, callers, seconds, "ruled")),
                **{name: coalesced(how) for name, how in coalescing.items()},
                **{
                    f"pgbench_{clients}_pairs_per_s": partial(bare.pgbench, address, both, clients, seconds)
                    for clients in tried
                },
                **{
                    f"pgbench_plain_{clients}_pairs_per_s": partial(
                        bare.pgbench, address, plain, clients, seconds
                    )
                    for clients in tried
                },
                "batch_of_64": lambda: server_cost(address, pair),
                "desk_1_caller_pairs_per_s": lambda: desk_pairs(address, 1, seconds / 4),
                "bare_1_caller_pairs_per_s": lambda: bare.single(address, both, 1, seconds / 4),
            }
        )
        run.best_of("bare_coalesced_pairs_per_s", [f"{name}_per_s" for name in coalescing])
        run.best_of("pgbench_pairs_per_s", [f"pgbench_{clients}_pairs_per_s" for clients in tried])
        run.best_of(
            "pgbench_plain_pairs_per_s", [f"pgbench_plain_{clients}_pairs_per_s" for clients in tried]
        )


if __name__ == "__main__":
    main(measure, RATIOS, quick_seconds=1.0, callers=(256, 256))

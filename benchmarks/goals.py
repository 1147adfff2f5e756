"""What the figures are meant to reach, by the name of the ratio or figure: read by the page of results and by CI's guards."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Goal:
    """A bound for one figure of a benchmark, in words and as a number. `at_least` says whether it is a lower bound."""

    benchmark: str
    figure: str
    what: str
    bound: float
    at_least: bool = False
    size: tuple[str, int] | None = None
    """An option of the benchmark and the value that the goal is meant for; a smaller run shows nothing about it."""

    def reached(self, value: float) -> bool:
        """Whether this figure reaches the goal."""
        return value >= self.bound if self.at_least else value <= self.bound

    def a_quarter_worse(self, than: float) -> float:
        """Where a guard fails: a quarter worse than a figure, or than the goal if that is worse already."""
        if self.at_least:
            return min(than, self.bound) * 0.75
        return max(than, self.bound) * 1.25

    def __str__(self) -> str:
        return f"{'≥' if self.at_least else '≤'} {self.bound:,g}"


GOALS = (
    Goal(
        "pairs",
        "ratio_to_pgbench",
        "pairs a second, 256 callers ÷ pgbench at its best client count",
        2.0,
        True,
    ),
    Goal(
        "pairs",
        "ratio_to_plain_pgbench",
        "the same ÷ pgbench with plain SQL for one question that writes the same rows",
        3.0,
        True,
    ),
    Goal(
        "pairs",
        "batch_of_64_server_cpu_us",
        "µs of PostgreSQL's processor time for a pair in a batch of 64",
        55,
    ),
    Goal("pairs", "ratio_to_bare_coalesced", "the same ÷ bare asyncpg coalescing the same rows", 0.8, True),
    Goal(
        "workspaces",
        "ratio_of_256_workspaces",
        "pairs a second, 256 callers in 256 workspaces ÷ in one, with row security",
        0.6,
        True,
    ),
    Goal(
        "instructions", "desk_instructions_per_pair", "instructions of the asking process for a pair", 330_000
    ),
    Goal("asks", "ratio_of_lone_ask", "one caller alone: ask ÷ the bare insert, p50", 1.3),
    Goal(
        "wakeups",
        "ratio_of_wake_p50",
        "answer called, by who has seen it, to woken wait elsewhere ÷ the bare statement, NOTIFY and read, p50",
        1.35,
    ),
    Goal("wakeups", "ratio_of_wake_p99", "the same, p99", 3.0),
    Goal("wakeups", "ratio_to_notify_alone_p50", "the same ÷ a bare NOTIFY that records nothing, p50", 1.5),
    Goal("wakeups", "ratio_to_notify_alone_p99", "the same, p99", 3.0),
    Goal(
        "peers",
        "ratio_over_http_to_best_networked_peer",
        "HTTP pairs a second, 64 callers with their own keys ÷ the best peer over its network protocol",
        1.5,
        True,
    ),
    Goal(
        "waits",
        "desk_bytes_per_wait",
        "bytes for each wait held, 100,000 in one process",
        2_500,
        size=("waits", 100_000),
    ),
    Goal(
        "growth",
        "ratio_of_growth_ask",
        "ask: 10 million pending ÷ 10 thousand, p50",
        1.25,
        size=("largest", 10_000_000),
    ),
    Goal("growth", "ratio_of_growth_answer", "answer: the same", 1.25, size=("largest", 10_000_000)),
    Goal("growth", "ratio_of_growth_page", "inbox page: the same", 1.25, size=("largest", 10_000_000)),
    Goal(
        "http",
        "ratio_with_keys_to_bare_asgi",
        "HTTP pairs a second, 64 callers with their own keys ÷ a bare ASGI application that coalesces and looks up keys",
        0.35,
        True,
    ),
    Goal(
        "http",
        "ratio_to_bare_fastapi",
        "HTTP pairs a second ÷ a bare FastAPI server with plain SQL",
        0.6,
        True,
    ),
    Goal(
        "idle", "stream_kb", "kilobytes of a server for each idle event stream", 20, size=("clients", 2_000)
    ),
    Goal(
        "idle",
        "calculated_streams_per_core",
        "idle event streams that would take one core, from the processor time of 2,000",
        30_000,
        True,
        size=("clients", 2_000),
    ),
    Goal(
        "idle",
        "calculated_long_polls_per_core",
        "the same for long polls",
        30_000,
        True,
        size=("clients", 2_000),
    ),
    Goal(
        "idle",
        "stream_wake_p90_ms",
        "answer called to the event in a stream, beside 2,000 idle ones, p90 in ms",
        500,
        size=("clients", 2_000),
    ),
    Goal("idle", "long_poll_wake_p90_ms", "the same for long polls", 500, size=("clients", 2_000)),
    Goal(
        "sqlite",
        "ratio_to_bare_sqlite",
        "SQLite pairs a second ÷ bare sqlite3, one pair at a time",
        0.6,
        True,
    ),
    Goal(
        "sqlite", "ratio_to_bare_sqlite_coalesced", "the same ÷ bare sqlite3, 64 to a transaction", 0.6, True
    ),
)

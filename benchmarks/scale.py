"""What a given number of questions a day takes: arithmetic with measured costs, printed as the table of docs/explanation/scale.md.

python -m benchmarks.scale
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

DAY, HOUR = 86_400, 3_600
SHOWN = (10e6, 100e6, 1e9)
"""Questions a day, of the columns."""
PEAK = 5
"""The busiest hour has so many times the mean."""
BUSY = 0.5
"""The share of a core that is used at the peak; the rest is for what nobody planned."""
ANSWERED_AFTER = HOUR
"""People take an hour."""
KEPT = 90
"""Days for which settled questions are kept."""
LARGEST = 4e12
"""Bytes that one database may have, so that it can be restored in a night."""
ROW_SETS = 1_700
"""Bytes of a pending question with its inbox."""


@dataclass(frozen=True)
class Costs:
    """What was measured, for each question that is asked and answered."""

    postgres: float
    """Seconds of a core of PostgreSQL, in batches of 64."""
    server: float
    """Seconds of a core of `handraise serve`, over HTTP with a key for each caller."""
    wal: float
    """Bytes of write-ahead log."""
    disk: float
    """Bytes on disk, with indexes, before vacuum."""
    stream: float
    """Bytes of a server's memory for an idle stream."""
    clients_per_core: float
    """Idle streams that take all of one core: a quarter of what 2,000 with 64 keys show, because a key each was not measured."""


@dataclass(frozen=True)
class Prices:
    """An assumption for the large clouds: replace it by yours. Dollars a month."""

    core: float = 30.0
    """With 4 GB of memory."""
    terabyte: float = 100.0


MEASURED = Costs(
    postgres=134e-6, server=1_300e-6, wal=3_800, disk=3_200, stream=21_000, clients_per_core=60_000
)


@dataclass(frozen=True)
class Need:
    """What a number of questions a day takes."""

    questions: float
    costs: Costs = MEASURED
    prices: Prices = Prices()

    @property
    def mean(self) -> float:
        """Pairs a second."""
        return self.questions / DAY

    @property
    def peak(self) -> float:
        """Pairs a second in the busiest hour."""
        return self.mean * PEAK

    @property
    def database_cores(self) -> float:
        """Cores of PostgreSQL, all databases together."""
        return self.peak * self.costs.postgres / BUSY

    @property
    def server_cores(self) -> float:
        """Cores of `handraise serve` for requests."""
        return self.peak * self.costs.server / BUSY

    @property
    def waiting(self) -> float:
        """Questions that wait for people at the peak."""
        return self.peak * ANSWERED_AFTER

    @property
    def stream_cores(self) -> float:
        """Cores of `handraise serve` if each of them is a client with a stream."""
        return self.waiting / self.costs.clients_per_core / BUSY

    @property
    def disk(self) -> float:
        """Bytes of all that is kept."""
        return self.questions * KEPT * self.costs.disk

    @property
    def databases(self) -> int:
        """So many are needed for the disk."""
        return max(1, -int(-self.disk // LARGEST))

    def cost(self, *, streams: bool) -> float:
        """Dollars a month, every database with a standby."""
        cores = 2 * self.database_cores + self.server_cores + (self.stream_cores if streams else 0)
        return cores * self.prices.core + 2 * self.disk / 1e12 * self.prices.terabyte


def _number(value: float) -> str:
    if value >= 10:
        return f"{value:,.0f}"
    return f"{value:.2g}"


def _dollars(value: float) -> str:
    return f"{float(f'{value:.2g}'):,.0f}"


def rows(*needs: Need) -> Iterator[str]:
    """The lines of the table."""
    yield "| questions a day | " + " | ".join(f"{each.questions / 1e6:,.0f} million" for each in needs) + " |"
    yield "|---|" + "---|" * len(needs)

    def row(name: str, *cells: str) -> str:
        return f"| {name} | {' | '.join(cells)} |"

    yield row("pairs a second, mean and peak", *(f"{_number(n.mean)}, {_number(n.peak)}" for n in needs))
    yield row("cores of PostgreSQL at the peak", *(_number(n.database_cores) for n in needs))
    yield row("cores of `handraise serve` for requests", *(_number(n.server_cores) for n in needs))
    yield row(
        "write-ahead log at the peak, MB a second", *(_number(n.peak * n.costs.wal / 1e6) for n in needs)
    )
    yield row("new on disk, GB a day", *(_number(n.questions * n.costs.disk / 1e9) for n in needs))
    yield row(f"kept for {KEPT} days, TB", *(_number(n.disk / 1e12) for n in needs))
    yield row("databases of 4 TB", *(str(n.databases) for n in needs))
    yield row(
        "pending at the peak, million; GB",
        *(f"{_number(n.waiting / 1e6)}; {_number(n.waiting * ROW_SETS / 1e9)}" for n in needs),
    )
    yield row(
        "the same as clients with a stream each: cores, GB of memory",
        *(f"{_number(n.stream_cores)}, {_number(n.waiting * n.costs.stream / 1e9)}" for n in needs),
    )
    yield row(
        "dollars a month, without and with such clients",
        *(f"{_dollars(n.cost(streams=False))}, {_dollars(n.cost(streams=True))}" for n in needs),
    )


def main() -> None:
    """Print the table."""
    print("\n".join(rows(*map(Need, SHOWN))))


if __name__ == "__main__":
    main()

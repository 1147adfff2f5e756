"""What an engine must do for changes of questions, which are made in the same way in all engines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from handraise.backends.sql.rows import Row

Values = Mapping[str, Any]
"""The parameters of a statement for one row."""


class Transaction(Protocol):
    """A transaction that has begun, in which statements run by their names.

    Each statement is run for many rows. PostgreSQL takes them as arrays, in one call; SQLite takes one row after the other.
    The engine itself sets `:now`, the instant at which the transaction began.
    """

    async def fetch_each(self, name: str, rows: Sequence[Values], /) -> Sequence[Row]:
        """What a statement returns for these rows, if there are any."""
        ...

    async def write(self, rows: Mapping[str, Sequence[Values]], /) -> None:
        """Run statements that return nothing, each for its rows. None may depend on what another one writes."""
        ...

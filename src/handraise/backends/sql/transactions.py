"""What an engine must do for changes of questions, which are made in the same way in all engines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from handraise.backends.sql.rows import Row

Values = Mapping[str, Any]
"""The parameters of a statement for one row."""


class Transaction(Protocol):
    """A transaction that has begun, in which statements run by their names.

    Most statements about questions are run for many rows at once: `${rows(…)}` stands for them.
    The engine itself sets `:now`, the instant at which the transaction began.
    """

    async def __call__(self, name: str, /, **values: Any) -> Sequence[Row]:
        """What a statement returns."""
        ...

    async def fetch_each(self, name: str, rows: Sequence[Values], /) -> Sequence[Row]:
        """What a statement returns for these rows, if there are any."""
        ...

    async def write(self, rows: Mapping[str, Sequence[Values]], /) -> None:
        """Run statements that return nothing, each for its rows. None may depend on what another one writes."""
        ...

"""What an engine must do for the ports that are written once for all engines."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol, TypeVar

from handraise.backends.sql.parameters import change_values
from handraise.backends.sql.rows import Row
from handraise.backends.sql.transactions import Transaction
from handraise.model.workspace_events import Change

T = TypeVar("T")


class Run(Protocol):
    """Runs a statement in a transaction that has begun, and returns its rows."""

    async def __call__(self, name: str, /, **values: Any) -> Sequence[Row]:
        """Run the statement with this name."""
        ...


class SqlExecutor(Protocol):
    """Runs the statements in the `.sql` files of an engine.

    Every statement has the same name and parameters in all engines. Instants, spans, lists and dictionaries are passed
    as Python values, and the engine converts them for its statements. The engine itself sets `:now`, the present
    instant, and `:workspace`, the workspace that a call is about. JSON columns come back as text. Errors of the engine
    are raised as `StoreUnavailable`.
    """

    async def fetch(self, workspace: str | None, /, *names: str, **values: Any) -> Sequence[Row]:
        """The rows of a statement about one workspace or none; of the last one if one transaction runs several."""
        ...

    async def transact(self, workspace: str, work: Callable[[Transaction], Awaitable[T]], /) -> T:
        """The result of several statements about a workspace, in one transaction.

        The transaction may be repeated. `work` may only await what it is called with.
        """
        ...

    async def transact_as_keeper(self, workspace: str, work: Callable[[Transaction], Awaitable[T]], /) -> T:
        """The same with the right to change what is kept and for how long, which no server needs."""
        ...


async def note(run: Run, change: Change | None) -> None:
    """Store an event of the workspace in the transaction that makes the change; do nothing if it is None."""
    if change is not None:
        await run("note_change", **change_values(change))

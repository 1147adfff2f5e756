"""What an engine must do for the ports that are written once for all engines."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol, TypeVar

from handraise.backends.sql.parameters import change_values
from handraise.backends.sql.rows import Row
from handraise.model.workspace_events import Change

T = TypeVar("T")


class Run(Protocol):
    """Makes a statement in a transaction that is under way, and gives back its rows."""

    async def __call__(self, name: str, /, **values: Any) -> Sequence[Row]:
        """Make the statement of this name."""
        ...


class SqlExecutor(Protocol):
    """Makes the statements in the `.sql` files of an engine.

    Every statement has the same name and parameters in all engines. Instants, spans, lists and dictionaries are passed
    as Python has them, and the engine turns them into what its statements take. `:now` is the present instant, which
    nobody passes, and `:workspace` the one that a call is about. JSON columns come back as text. What the engine raises
    is `StoreUnavailable`.
    """

    async def fetch(self, workspace: str | None, /, *names: str, **values: Any) -> Sequence[Row]:
        """The rows of a statement about a workspace, or about none; of the last, if one transaction makes several."""
        ...

    async def transact(self, workspace: str, work: Callable[[Run], Awaitable[T]], /) -> T:
        """What several statements about a workspace come to, in one transaction.

        It may be begun again. `work` awaits nothing but what it is called with.
        """
        ...


async def note(run: Run, change: Change | None) -> None:
    """Keep an event of the workspace in the transaction that makes the change; nothing if it is None."""
    if change is not None:
        await run("note_change", **change_values(change))

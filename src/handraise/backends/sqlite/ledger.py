"""The audit trail in SQLite. Erased data is overwritten, in the file and in its write-ahead log."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from handraise.backends.seal_chain import continues
from handraise.backends.sql.decided_changes import ask_next
from handraise.backends.sql.executor import Run
from handraise.backends.sql.feed_places import BEGINNING, cursor_of, read_place
from handraise.backends.sql.ledger import SqlLedger, head_of
from handraise.backends.sql.parameters import seal_values
from handraise.backends.sql.transactions import Transaction
from handraise.backends.sqlite.connections import Connections
from handraise.backends.sqlite.executor import SqliteExecutor
from handraise.model.questions import Ref
from handraise.model.seals import Seal

_OF_QUESTION = (
    "remove_events",
    "remove_deliveries",
    "remove_references",
    "erase_entries",
    "erase_links",
    "erase_grants",
    "erase_standing_answers",
    "erase_salt",
    "erase_requests",
    "unindex",
)


class SqliteLedger(SqlLedger):
    """The audit trail in SQLite. See `handraise.ports.Ledger` for what each method promises."""

    def __init__(self, executor: SqliteExecutor, connections: Connections) -> None:
        super().__init__(executor)
        self._transact = executor.transact
        self._connections = connections

    async def append(self, seal: Seal, *, removals: Sequence[int]) -> bool:
        """Add a seal; see the port."""

        async def work(run: Run) -> bool:
            head, upto = head_of(await run("head")), read_place(seal.cursor)
            after = read_place(head.seal.cursor) if head.seal else BEGINNING
            behind = await run("events_behind", **after.named("after_"), **upto.named("last_"))
            if not continues(seal, head, [cursor_of(row) for row in behind]):
                return False
            await run("append", **upto.named("last_"), **seal_values(seal))
            await run("cover_removals", seal=seal.number, numbers=list(removals))
            await run("delete_old_removals", oldest=seal.oldest)
            await run("delete_old_seals", oldest=seal.oldest)
            return True

        return await self._executor.transact(seal.workspace, work)

    async def erase(self, workspace: str, question_ids: Collection[str], *, by: str) -> Sequence[str]:
        """Erase questions; see the port."""

        async def work(run: Transaction) -> list[str]:
            refs = [Ref(workspace, each) for each in sorted(question_ids)]
            erased = [ref.id for ref in refs if await _erase(run, ref, by)]
            if erased:
                await run("merge_index")  # until then, the index keeps deleted words in its blocks
            return erased

        return await self._transact(workspace, work)

    async def scrub(self) -> bool:
        """Rewrite the file without what was deleted; see the port."""
        return await self._connections.scrub()


async def _erase(run: Transaction, ref: Ref, by: str) -> bool:
    led = await run("led", id=ref.id)
    if await run("is_held", id=ref.id) or not await run("erase_question", id=ref.id):
        return False
    await run("note_removal", id=ref.id, what="erased", actor=by)
    await run.write({"leave_inbox": [ref._asdict()]})
    for name in _OF_QUESTION:
        await run(name, id=ref.id)
    if led:
        await ask_next(ref, run)
    return True

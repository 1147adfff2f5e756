"""`handraise migrate` and `handraise doctor`: the store itself."""

from __future__ import annotations

import asyncio
import sqlite3
import time
import uuid
from collections.abc import Collection
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated
from urllib.parse import quote

import typer

from handraise.backends.sql_files import load_migrations
from handraise.backends.sqlite.backend import check_folder
from handraise.backends.sqlite.backend import check_readable as check_readable_file
from handraise.cli.environment import settings_with, unknown_variables
from handraise.cli.exit_codes import MISCONFIGURED, UNAVAILABLE, CommandError
from handraise.cli.terminal_output import show_facts, when
from handraise.desk.rule_suspensions import suspended_rules
from handraise.desk.sealer import BrokenChain, Sealer
from handraise.desk.store_checks import check_store
from handraise.desk_factory import default_address, open_backend, without_secrets
from handraise.model.errors import SchemaMismatch, UnsafeStore
from handraise.model.questions import Ref
from handraise.model.visible import visible_line
from handraise.ports import Backend
from handraise.server import ServerSettings
from handraise.server.extras_check import missing_extras
from handraise.server.high_risk_approvers import high_risk_approvers
from handraise.server.witness_addresses import read_witness_address
from handraise.server.witnesses.witness_queue import WitnessQueue

_SAME_CLOCK = 0.5
_HEARD_WITHIN = 3.0
_HEADS_AT_ONCE = 1_000
_PEOPLE_AT_ONCE = 100_000
_QUESTIONS_CHECKED = 5_000
_VIOLATIONS_SHOWN = 10
_DEAF = "Is there a pooler in between? HANDRAISE_LISTEN_URL bypasses it."
_DEAF_BUS = "Is NATS running at HANDRAISE_BUS?"


@dataclass(frozen=True, slots=True)
class Schema:
    """The migration that a store's schema is at, and the names of all migrations in this release."""

    applied: int
    known: tuple[str, ...]
    unreadable: str | None = None
    """Why this release cannot use the schema of a later one."""

    @property
    def newest(self) -> int:
        """The migration that this release would bring it to."""
        return len(self.known)


def migrate() -> None:
    """Upgrade the schema to this release.

    If the servers use another role, run it as the role that owns the schema.
    """
    settings = settings_with()

    async def work() -> tuple[Schema, Schema]:
        before = await _schema(settings)
        async with open_backend(settings.url, listen=settings.listen_url, anywhere=True):
            pass
        return before, await _schema(settings)

    before, after = asyncio.run(work())
    if before.applied > before.newest:
        typer.echo(f"Nothing to do: the schema is at {_compare_schema(before)}.")
    elif before.applied == after.applied:
        typer.echo(f"Nothing to do: the schema is at {after.applied}, which is what this release needs.")
    else:
        done = ", ".join(after.known[before.applied : after.applied])
        typer.echo(f"The schema was at {before.applied} and is at {after.applied} now: {done}.")


def doctor(
    *,
    server: Annotated[
        bool,
        typer.Option(
            "--server", help="Also try what a server needs: OIDC, channels, mail, proxies, its public URL."
        ),
    ] = False,
) -> None:
    """Check the store and show what it promises.

    Changes nothing. Ends with 78 if the schema is missing or not what this release needs, if a package is not installed
    that the settings need, or if a server would refuse its settings, to run on the store or to sign its audit trail, or
    could not seal it, or if questions of the workspace are not as they should be, such as one that is in nobody's inbox.
    With --server, ends with 69 if something else that a server needs does not work.
    """
    settings = settings_with()
    typer.echo()
    show_facts([("Address   ", without_secrets(settings.url))])
    refused = [*unknown_variables(), *missing_extras(settings)]
    for sentence in refused:
        typer.echo(visible_line(sentence), err=True)
    schema = asyncio.run(_schema(settings))
    if schema.applied == 0:
        show_facts([("Schema    ", "none yet: handraise migrate makes it, or the first start")])
        raise typer.Exit(MISCONFIGURED)
    show_facts([("Schema    ", _compare_schema(schema))])
    if schema.applied < schema.newest or schema.unreadable:
        raise typer.Exit(MISCONFIGURED)
    trouble = asyncio.run(_examine(settings))
    failed = server and not asyncio.run(_show_probes(settings))
    typer.echo()
    if trouble is not None:
        typer.echo(trouble, err=True)
    if trouble is not None or refused:
        raise typer.Exit(MISCONFIGURED)
    if failed:
        raise typer.Exit(UNAVAILABLE)


async def _show_probes(settings: ServerSettings) -> bool:
    """Show whether what a server needs besides its store works; return whether all of it does."""
    from handraise.server.probes import run_probes  # noqa: PLC0415 -- only here

    results = await run_probes(settings)
    typer.echo()
    if not results:
        typer.echo("  No setting needs another service.")
        return True
    show_facts(
        [
            (
                each.probe.name.ljust(10),
                each.text if each.works else f"FAILED: {each.text}. {each.probe.otherwise}",
            )
            for each in results
        ]
    )
    return all(each.works for each in results)


async def _examine(settings: ServerSettings) -> str | None:
    """Show what the store promises; return why a server would refuse it, or None."""
    trouble = None
    try:
        async with open_backend(settings.url, confined=True, listen=settings.listen_url) as backend:
            durability = await backend.store.durability()
            audit, broken = await _audit(settings, backend)
            sealing, failed = await _sealing(backend)
            questions, wrong = await _questions(settings, backend)
            suspended = await _suspended(settings, backend)
            high_risk = await _high_risk(settings, backend)
    except UnsafeStore as error:
        trouble = str(error)
        try:
            async with open_backend(settings.url, listen=settings.listen_url) as backend:
                durability = await backend.store.durability()
                audit, broken = await _audit(settings, backend)
                sealing, failed = await _sealing(backend)
                questions, wrong = await _questions(settings, backend)
                suspended = await _suspended(settings, backend)
                high_risk = await _high_risk(settings, backend)
        except UnsafeStore:
            return trouble
    in_force = "  ".join(f"{name}={value}" for name, value in sorted(durability.settings.items()))
    show_facts(
        [
            ("Survives  ", durability.survives),
            ("Settings  ", in_force),
            ("Workspaces", _row_security(settings.url, trouble)),
            ("Clock     ", await _clock(settings)),
            ("Listener  ", await _listener(settings)),
            ("Audit     ", audit),
            ("Sealing   ", sealing),
            ("Questions ", questions),
            *[("Suspended ", each) for each in suspended],
            *[("High risk ", each) for each in high_risk],
            *[("Witness   ", each) for each in await _witnesses(settings)],
        ]
    )
    return trouble or broken or failed or wrong


async def _audit(settings: ServerSettings, backend: Backend) -> tuple[str, str | None]:
    """Who signs the audit trail, and why it is no longer signed, or None."""
    if settings.audit_key is None or settings.audit_file is None:
        return "sealed but not signed: HANDRAISE_AUDIT_KEY is not set", None
    from handraise.server.audit_heads import HeadsFile  # noqa: PLC0415 -- only with a key
    from handraise.signing.key_files import load_signer  # noqa: PLC0415 -- cryptography is an extra

    signer = await asyncio.to_thread(load_signer, settings.audit_key)
    heads = HeadsFile(settings.audit_file)
    sealer = Sealer(backend.store, backend.ledger, signer, heads)
    after, broken = "", ""
    while page := await heads.list_workspaces(after=after, limit=_HEADS_AT_ONCE):
        after = page[-1]
        for workspace in page:
            try:
                await sealer.check(workspace)
            except BrokenChain as error:
                broken = broken or str(error)
    if broken:
        return f"NO LONGER SIGNED in {len(sealer.refused)} workspaces: the store was changed", broken
    return f"signed with the key {signer.key_id}; the store continues from the last signed seal", None


async def _sealing(backend: Backend) -> tuple[str, str | None]:
    """How many workspaces have events to seal, and why some of these can never be sealed, or None."""
    sealer = Sealer(backend.store, backend.ledger)
    waiting = await sealer.try_out()
    if not sealer.failed:
        return f"possible; {waiting} workspaces have events that no server has sealed yet", None
    workspace, why = next(iter(sealer.failed.items()))
    failed = (
        f"The events of workspace {visible_line(workspace)!r} cannot be sealed: {visible_line(why)}. Its audit trail is "
        "not continued until that is corrected. The log of a server has the whole error."
    )
    return f"IMPOSSIBLE in {len(sealer.failed)} workspaces", failed


async def _questions(settings: ServerSettings, backend: Backend) -> tuple[str, str | None]:
    """How many questions of the workspace were checked, and what is wrong with them, or None."""
    checked = await check_store(backend, settings.workspace, limit=_QUESTIONS_CHECKED)
    looked_at = f"{checked.looked_at} looked at, {checked.pending} of them pending"
    if not checked.is_complete:
        looked_at += f" (at most {_QUESTIONS_CHECKED} pending ones and the newest {_QUESTIONS_CHECKED})"
    if not checked.violations:
        return f"{looked_at}: all as they should be", None
    sentences = [
        visible_line(f"The question {each}. {each.advice}") for each in checked.violations[:_VIOLATIONS_SHOWN]
    ]
    if more := len(checked.violations) - len(sentences):
        sentences.append(f"{more} more such sentences are not shown.")
    return f"{looked_at}: {len(checked.violations)} things are WRONG", "\n".join(sentences)


async def _suspended(settings: ServerSettings, backend: Backend) -> list[str]:
    """The rules of the workspace's policy that a denied spot check has suspended."""
    found = suspended_rules(await backend.policies.current(settings.workspace))
    return [
        f"the rule {visible_line(each.name)!r} since {when(each.suspension.at)}: "
        f"{visible_line(each.suspension.by or 'somebody')} denied a spot check of it"
        for each in found
    ]


async def _high_risk(settings: ServerSettings, backend: Backend) -> list[str]:
    """What to do if nobody in the workspace can approve an action of high risk in the browser."""
    people = await backend.directory.people(settings.workspace, after=None, limit=_PEOPLE_AT_ONCE)
    if not 0 < len(people) < _PEOPLE_AT_ONCE:
        return []
    if await high_risk_approvers(backend.directory, settings, settings.workspace, people):
        return []
    how = "whoever signs in with a link of handraise people link NAME can, and can add a passkey for later"
    return [f"NOBODY can approve an action of high risk in the browser now; {how}"]


async def _witnesses(settings: ServerSettings) -> list[str]:
    """How each witness of the audit trail is doing, as the servers of this machine recorded it."""
    found = []
    for text in settings.audit_witnesses:
        address = read_witness_address(text, settings.audit_witness_allow_private)
        queue = WitnessQueue(settings.audit_file or Path())
        state = await queue.state(address.id)
        sent = f"last sent heads {when(state.sent_at)}"
        if state.failing_since is not None:
            sent = f"FAILING since {when(state.failing_since)}, {sent}: {state.problem}"
        found.append(visible_line(f"{address.name}: {sent}"))
    return found


async def _clock(settings: ServerSettings) -> str:
    """The difference between the store's clock, which counts, and this machine's."""
    if not settings.url.startswith("postgres"):
        return "this machine's own, and the store's is the same"
    from handraise.backends.postgres.connections import (  # noqa: PLC0415 -- asyncpg is an extra
        alone,
        driver_errors_translated,
    )

    with driver_errors_translated():
        async with alone(_direct(settings), "doctor") as acquired:
            before = datetime.now(UTC)
            there: datetime = await acquired.fetchval("select clock_timestamp()")
            after = datetime.now(UTC)
    ahead = (there - (before + (after - before) / 2)).total_seconds()
    if abs(ahead) <= max(_SAME_CLOCK, (after - before).total_seconds()):
        return "the store's, and this machine's is the same"
    which = "ahead of" if ahead > 0 else "behind"
    return f"the store's, which is {abs(ahead):.1f} s {which} this machine's: correct one of them"


async def _listener(settings: ServerSettings) -> str:
    """Whether a hint that one process sends reaches another, and how soon."""
    topic = Ref("handraise doctor", uuid.uuid4().hex)
    arrived = asyncio.Event()

    def heard(topics: Collection[Ref] | None) -> None:
        if topics is not None and topic in topics:
            arrived.set()

    async with (
        open_backend(settings.url, listen=settings.listen_url, bus=settings.bus) as one,
        open_backend(settings.url, listen=settings.listen_url, bus=settings.bus) as other,
        one.bus.listen(heard),
    ):
        began = time.monotonic()
        await other.bus.wake([topic])
        try:
            async with asyncio.timeout(_HEARD_WITHIN):
                await arrived.wait()
        except TimeoutError:
            why = _DEAF_BUS if settings.bus else _DEAF
            return f"receives NOTHING: answers are found by polling every {settings.poll_interval:g} s. {why}"
    return f"receives a wake-up after {(time.monotonic() - began) * 1_000:.0f} ms"


def _row_security(address: str, trouble: str | None) -> str:
    if not address.startswith("postgres"):
        return "kept apart by Handraise alone; this store has no other protection"
    if trouble is not None:
        return "NOT kept apart by PostgreSQL; a server refuses to start on it"
    return "kept apart by PostgreSQL: row-level security is in force"


def _compare_schema(schema: Schema) -> str:
    if schema.applied == schema.newest and schema.unreadable is not None:
        return f"{schema.applied}. {schema.unreadable}"
    if schema.applied == schema.newest:
        return f"{schema.applied}, which is what this release needs"
    if schema.applied < schema.newest:
        return f"{schema.applied}; this release needs {schema.newest}: handraise migrate"
    if schema.unreadable is None:
        return f"{schema.applied}, of a later release; this one knows {schema.newest} and works on it"
    return f"{schema.applied}; this release knows {schema.newest}. {schema.unreadable}"


async def _schema(settings: ServerSettings) -> Schema:
    """The state of the schema. Reading it changes nothing, while opening the store would upgrade it."""
    scheme, _, rest = settings.url.partition(":")
    if scheme == "memory":
        raise CommandError("HANDRAISE_URL is memory:, which has no schema and keeps nothing.")
    if scheme == "sqlite":
        applied, unreadable = await asyncio.to_thread(_schema_of_file, rest.removeprefix("///"))
        return Schema(applied, _known("handraise.backends.sqlite"), unreadable)
    from handraise.backends.postgres.connections import (  # noqa: PLC0415 -- asyncpg is an extra
        alone,
        driver_errors_translated,
    )
    from handraise.backends.postgres.schema import (  # noqa: PLC0415 -- asyncpg is an extra
        applied_number,
        check_readable,
    )

    unreadable = None
    with driver_errors_translated():
        async with alone(_direct(settings), "doctor") as acquired:
            applied = await applied_number(acquired)
            try:
                await check_readable(acquired, applied)
            except SchemaMismatch as error:
                unreadable = str(error)
    return Schema(applied, _known("handraise.backends.postgres"), unreadable)


def _direct(settings: ServerSettings) -> str:
    """The address at which the database is reached without a pooler."""
    return settings.listen_url or settings.url


def _known(backend: str) -> tuple[str, ...]:
    return tuple(each.name for each in load_migrations(backend))


def _schema_of_file(file: str) -> tuple[int, str | None]:
    path = Path(file).expanduser().resolve()
    if not path.exists():
        if f"sqlite:///{file}" != default_address():  # whose folder is made with it
            check_folder(path)
        return 0, None
    with closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True)) as connection:
        applied: int = connection.execute("pragma user_version").fetchone()[0]
        try:
            check_readable_file(connection, applied)
        except SchemaMismatch as error:
            return applied, str(error)
    return applied, None

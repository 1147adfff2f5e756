"""`handraise copy`: a whole store, from one database or file to another."""

from __future__ import annotations

import asyncio
import hashlib
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated

import typer

from handraise.backends.sql.copied_tables import CopiedTable
from handraise.backends.sql.store_copy import (
    CopyEnd,
    TableProof,
    begin_copy,
    cancel_copy,
    common_tables,
    compare,
    copy_rows,
    count_rows,
    finish_copy,
)
from handraise.cli.audit_commands import passkey_check, read_trusted_key
from handraise.cli.environment import settings_with
from handraise.cli.exit_codes import REFUSED, CommandError
from handraise.cli.progress_bar import count_bar
from handraise.cli.terminal_output import show_table
from handraise.cli.terminal_texts import shown
from handraise.desk.audit_export import export_lines
from handraise.desk_factory import open_backend, open_copy_end, without_secrets
from handraise.model.audit_verification import TrustedKey, Verdict
from handraise.model.audit_verification import verify as verify_lines
from handraise.model.errors import StoreUnavailable, UnknownAddress
from handraise.model.seals import HeadMark, Signer
from handraise.ports import Backend, SignedHeads
from handraise.server import ServerSettings


def copy(
    source: Annotated[
        str, typer.Argument(metavar="SOURCE", help="The store: sqlite:///file.db or postgresql://….")
    ],
    target: Annotated[str, typer.Argument(metavar="TARGET", help="An empty store, or one that is new.")],
    *,
    verify: Annotated[
        bool, typer.Option("--verify", help="Copy nothing: only compare the two stores.")
    ] = False,
    cancel: Annotated[
        bool,
        typer.Option(
            "--cancel", help="Give the copy up: SOURCE can be used again, and TARGET cannot be used."
        ),
    ] = False,
    keys: Annotated[
        list[str] | None,
        typer.Option(
            "--key",
            metavar="FILE[=FIRST-LAST]",
            help="A public key that signed the audit trail, as for `audit verify`. Default: that of HANDRAISE_AUDIT_KEY.",
        ),
    ] = None,
) -> None:
    """Copy a whole store into an empty one, such as from SQLite to PostgreSQL, or back.

    First stop everything that uses either store. From the first row on, nobody can open SOURCE any more, and TARGET can be
    opened when it is complete. If the command is interrupted, give it again: it continues. At the end it reads both stores
    again, compares them, and verifies the audit trail of the copy. Log in to PostgreSQL as the role that owns the tables.
    """
    if verify and cancel:
        raise typer.BadParameter("Give --verify or --cancel, not both.")
    trusted = [read_trusted_key(each) for each in keys or ()]
    if cancel:
        asyncio.run(_cancel(source, target))
        typer.echo(f"{shown(source_name(source))} can be used again. Drop the copy.")
        return
    proofs, workspaces, is_ready = asyncio.run(_copied(source, target, verify=verify))
    _show_proofs(proofs)
    if not all(each.is_equal for each in proofs):
        raise CommandError(
            "The two stores are DIFFERENT. The source was changed by something other than Handraise, or the copy was used or "
            "changed. If it was not used: give it up with `handraise copy --cancel`, and copy into an empty store."
        )
    if not is_ready:
        raise CommandError("The copy is not finished. Give the same command without --verify.")
    good = asyncio.run(_audited(target, workspaces, trusted))
    typer.echo(
        f"{shown(source_name(target))} can be used now: set HANDRAISE_URL to it. {shown(source_name(source))} cannot be used any more."
    )
    if not good:
        raise typer.Exit(REFUSED)


def source_name(address: str) -> str:
    """An address that is safe to show."""
    return without_secrets(address)


async def _copied(source: str, target: str, *, verify: bool) -> tuple[list[TableProof], Sequence[str], bool]:
    """Copy, unless it is only to be verified; return the proof, the sealed workspaces, and whether the copy can be used."""
    async with _ends(source, target, may_create=not verify) as (one, other):
        if verify:
            tables = await common_tables(one, other)
            await one.check_alone()
            await other.check_alone()
        else:
            tables = await begin_copy(one, other)
        rows = await count_rows(one, tables)
        if not verify:
            await _copy(one, other, tables, rows)
        with count_bar("Comparing", 2 * rows) as advance:
            proofs = await compare(one, other, tables, advance)
        if not verify and all(each.is_equal for each in proofs):
            await finish_copy(one, other)
        note = await other.note()
        is_ready = note is None or note.refusal() is None
        return proofs, await other.sealed_workspaces(), is_ready


async def _copy(source: CopyEnd, target: CopyEnd, tables: Sequence[CopiedTable], rows: int) -> None:
    with count_bar("Copying", rows) as advance:
        advance(await count_rows(target, tables))
        await copy_rows(source, target, tables, advance)


async def _cancel(source: str, target: str) -> None:
    async with open_copy_end(source, may_create=False) as one:
        try:
            async with open_copy_end(target, may_create=False) as other:
                await cancel_copy(one, other)
                return
        except StoreUnavailable as error:
            if not error.misconfigured:
                raise
        await cancel_copy(one, None)  # there is no such file


@asynccontextmanager
async def _ends(source: str, target: str, *, may_create: bool) -> AsyncIterator[tuple[CopyEnd, CopyEnd]]:
    if source == target:
        raise UnknownAddress(target, use="It is the source: name another store as the target.")
    async with (
        open_copy_end(source, may_create=False) as one,
        open_copy_end(target, may_create=may_create) as other,
    ):
        yield one, other


def _show_proofs(proofs: Sequence[TableProof]) -> None:
    """What both stores hold, table by table."""
    show_table(
        ["TABLE", "SOURCE", "COPY", "DIGEST"],
        [
            [
                each.table,
                f"{each.source_rows:,}",
                f"{each.target_rows:,}",
                each.source_digest[:16] if each.is_equal else "DIFFERENT",
            ]
            for each in proofs
            if each.source_rows or each.target_rows
        ],
    )
    if all(each.is_equal for each in proofs):
        content = "".join(f"{each.table} {each.source_rows} {each.source_digest}\n" for each in proofs)
        rows = sum(each.source_rows for each in proofs)
        typer.echo(
            f"{rows:,} rows are the same in both. Digest: {hashlib.sha256(content.encode()).hexdigest()}"
        )


async def _audited(target: str, workspaces: Sequence[str], keys: Sequence[TrustedKey]) -> bool:
    """Verify the audit trail of each workspace of the copy, and say what was found."""
    settings = settings_with(url=target)
    signer, heads = _signer_of(settings)
    if signer is not None and not keys:
        keys = [TrustedKey(key_id=signer.key_id, has_signed=signer.has_signed)]
    good = True
    async with open_backend(target) as backend:
        for workspace in workspaces:
            # The last seal is that of the source: the tables are the same.
            last = (await backend.ledger.head(workspace)).seal
            known = [] if last is None else [HeadMark(last.number, last.digest)]
            if heads is not None and (signed := await heads.find(workspace)) is not None:
                known.append(signed)
            verdict = await _verified(backend, workspace, keys, known)
            good &= verdict.fault is None
            _show_verdict(workspace, verdict)
    return good


def _signer_of(settings: ServerSettings) -> tuple[Signer | None, SignedHeads | None]:
    """The key of the settings, and what it has signed."""
    if settings.audit_key is None or settings.audit_file is None:
        return None, None
    from handraise.server.audit_heads import HeadsFile  # noqa: PLC0415 -- only with a key
    from handraise.signing.key_files import load_signer  # noqa: PLC0415 -- cryptography is an extra

    return load_signer(settings.audit_key), HeadsFile.prepare(settings.audit_file)


async def _verified(
    backend: Backend, workspace: str, keys: Sequence[TrustedKey], known: Sequence[HeadMark]
) -> Verdict:
    with tempfile.TemporaryDirectory(prefix="handraise-copy-") as folder:
        file = Path(folder) / "trail.jsonl"
        with file.open("w", encoding="utf-8") as out:
            async for line in export_lines(backend.store, backend.ledger, workspace):
                out.write(line)

        def read() -> Iterator[str]:
            with file.open(encoding="utf-8") as lines:
                yield from lines

        return await asyncio.to_thread(
            verify_lines,
            read,
            keys=keys,
            known=known,
            unsigned=not keys,
            check_passkey=passkey_check(),
        )


def _show_verdict(workspace: str, verdict: Verdict) -> None:
    name = f"The audit trail of {shown(workspace)}"
    if verdict.fault is not None:
        typer.secho(
            f"{name} is NOT GOOD: {shown(str(verdict.fault))}. The source has the same rows, so it is not good there either.",
            err=True,
            bold=True,
        )
        return
    signed = "signed by " + ", ".join(verdict.keys) if verdict.keys else "checked without a key"
    typer.echo(
        f"{name} is GOOD: seals {verdict.first} to {verdict.last}, {verdict.events:,} events, {signed}. "
        f"Head: {verdict.last}:{verdict.head.hex()}"
    )

"""`handraise audit`: the audit trail, exported and checked."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from handraise.cli.environment import with_context
from handraise.cli.exit_codes import REFUSED, CommandError
from handraise.cli.key_file import make_key_file
from handraise.cli.session import Workspace
from handraise.cli.terminal_output import show_facts
from handraise.cli.terminal_texts import shown
from handraise.desk.audit_export import export_lines
from handraise.desk.sealer import BrokenChain
from handraise.model.audit_verification import TrustedKey, Verdict
from handraise.model.audit_verification import verify as verify_lines
from handraise.model.durations import span_of
from handraise.model.errors import MissingExtra
from handraise.model.passkey_signatures import CheckProof
from handraise.model.seals import HeadMark, Seal, instant_text
from handraise.model.witnesses import ChainHead, Witness
from handraise.server import ServerContext
from handraise.server.settings import AUDIT_FILE
from handraise.server.witnesses.witness_delivery import open_deliveries
from handraise.server.witnesses.witness_evidence import read_witness

T = TypeVar("T")

_HEAD = re.compile(r"([1-9][0-9]{0,17}):([0-9a-f]{64})", re.ASCII)
_RANGE = re.compile(r"(.+)=([1-9][0-9]{0,17})-([1-9][0-9]{0,17})?", re.ASCII)
_NOTHING_SEALED = "Nothing is sealed yet. A server seals, and so does: handraise audit export"

app = typer.Typer(
    help="The audit trail: events sealed in a chain that shows whether anything was changed.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command()
def key(
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="The file for the key; the public key is written to FILE.pub."),
    ],
) -> None:
    """Make a key for signing seals."""
    make_key_file(file, setting="HANDRAISE_AUDIT_KEY", checks="an export")
    # The key has signed nothing yet: a server that finds no such file must assume that it was lost.
    file.with_name(AUDIT_FILE).touch(mode=0o600)


@app.command()
def head(*, workspace: Workspace = None) -> None:
    """Print the last seal as NUMBER:DIGEST.

    Keep it elsewhere: it shows later whether anything before it was changed.
    """

    async def work(ctx: ServerContext) -> Seal | None:
        return (await ctx.ledger.head(ctx.settings.workspace)).seal

    seal = with_context(work, workspace=workspace)
    if seal is None:
        raise CommandError(_NOTHING_SEALED)
    typer.echo(f"{seal.number}:{seal.digest.hex()}")


@app.command()
def witness(*, workspace: Workspace = None) -> None:
    """Send the last seal to every witness in HANDRAISE_AUDIT_WITNESSES now, and say whether it arrived.

    Servers do this by themselves. Ends with 1 if a witness did not get it.
    """

    async def work(ctx: ServerContext) -> list[tuple[str, str | None]]:
        queue = ctx.witness_queue
        if queue is None:
            raise CommandError("HANDRAISE_AUDIT_WITNESSES is not set, so there is no witness.")
        seal = (await ctx.sealer().check(ctx.settings.workspace)).seal
        if seal is None:
            raise CommandError(_NOTHING_SEALED)
        async with open_deliveries(ctx.settings, queue, ctx.metrics) as deliveries:
            return [(each.name, await each.send_now(ChainHead.from_seal(seal))) for each in deliveries]

    results = with_context(work, workspace=workspace)
    for name, problem in results:
        typer.echo(shown(f"{name}: {problem or 'sent'}"), err=problem is not None)
    if any(problem for _, problem in results):
        raise typer.Exit(REFUSED)


@app.command()
def accept(
    seal: Annotated[
        str, typer.Argument(metavar="N:DIGEST", help="The last seal as `audit head` prints it, or `none`.")
    ],
    *,
    workspace: Workspace = None,
) -> None:
    """Continue signing from the store's current state, although something else was signed before.

    Use it for a store that was restored from a backup: the seals that were signed after the backup are gone.
    Every server records what it signed in HANDRAISE_AUDIT_HEADS, so run this for each of these files.
    """
    chosen = None if seal == "none" else _mark(seal)

    async def work(ctx: ServerContext) -> None:
        if ctx.signed_heads is None:
            raise CommandError("HANDRAISE_AUDIT_KEY is not set, so nothing is signed here.")
        last = (await ctx.ledger.head(ctx.settings.workspace)).seal
        there = None if last is None else HeadMark(last.number, last.digest)
        if there != chosen:
            raise CommandError(
                f"The last seal of the store is {there or 'none'}. Investigate that one, then give it."
            )
        await ctx.signed_heads.reset(ctx.settings.workspace, there)

    with_context(work, workspace=workspace)
    typer.echo(f"From now on, seals that continue from {seal} are signed.")


@app.command()
def export(
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="The file to write to; stdout if not given.")
    ] = None,
    *,
    workspace: Workspace = None,
) -> None:
    """Seal what is not sealed yet, and write the whole trail of a workspace as JSON lines.

    With HANDRAISE_AUDIT_KEY its end is signed, so that nobody can cut anything off unnoticed. It contains all
    stored questions and answers: keep it confidential.
    """

    async def work(ctx: ServerContext) -> int:
        where, number = ctx.settings.workspace, 0
        await ctx.sealer().seal(where)
        known = None if ctx.signed_heads is None else await ctx.signed_heads.find(where)
        if file:
            file.touch(mode=0o600, exist_ok=False)
        out = file.open("w", encoding="utf-8") if file else sys.stdout
        try:
            async for line in export_lines(ctx.store, ctx.ledger, where, ctx.signer, known):
                out.write(line)
                number += 1
        except BrokenChain:
            if file:
                file.unlink()
            raise
        finally:
            if file:
                out.close()
        return number

    if file and file.exists():
        raise CommandError(f"{file} exists already, and is left as it is.")
    number = with_context(work, workspace=workspace)
    if file:
        typer.echo(f"{number} lines are in {file}. To check it: handraise audit verify {file} --key KEY.pub")


@app.command()
def verify(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="An export.", exists=True, dir_okay=False)],
    *,
    keys: Annotated[
        list[str] | None,
        typer.Option(
            "--key",
            metavar="FILE[=FIRST-LAST]",
            help="A public key, and the seals that it signed; once for each, in the order of their use.",
        ),
    ] = None,
    known: Annotated[
        list[str] | None,
        typer.Option(
            "--head", metavar="N:DIGEST", help="A seal that must be there, as `audit head` printed it."
        ),
    ] = None,
    unsigned: Annotated[
        bool, typer.Option("--unsigned", help="Accept a trail that nobody has signed.")
    ] = False,
    unsigned_before: Annotated[
        int,
        typer.Option(
            "--allow-unsigned-before",
            metavar="SEAL",
            min=1,
            help="The first seal that must be signed: earlier ones were made without a key.",
        ),
    ] = 1,
    witnesses: Annotated[
        list[Path] | None,
        typer.Option(
            "--witness",
            metavar="PATH",
            help="What a witness kept: a file of heads or timestamps, a mailbox, or a folder of mails.",
            exists=True,
        ),
    ] = None,
    authorities: Annotated[
        list[Path] | None,
        typer.Option(
            "--witness-ca",
            metavar="FILE",
            help="Certificates of a timestamp authority that you trust.",
            exists=True,
            dir_okay=False,
        ),
    ] = None,
    within: Annotated[
        str,
        typer.Option(
            "--witness-within", metavar="SPAN", help="How long a seal may go unseen by the witnesses."
        ),
    ] = "1d",
    since: Annotated[
        datetime | None,
        typer.Option(
            "--witness-since",
            metavar="DATE",
            formats=["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S"],
            help="From this day on (UTC), a witness must have seen every seal within that time.",
        ),
    ] = None,
) -> None:
    """Check whether anything in an export was changed, removed, added, moved or cut off. Needs no store.

    With what a witness kept, a chain that was rebuilt with the key is found out too. Ends with 0 if it is valid,
    else with 1 and the first event that is not.
    """

    def read() -> Iterator[str]:
        with file.open(encoding="utf-8", errors="surrogateescape") as lines:
            yield from lines

    verdict = verify_lines(
        read,
        keys=[read_trusted_key(each) for each in keys or ()],
        known=[_mark(each) for each in known or ()],
        unsigned=unsigned,
        unsigned_before=unsigned_before,
        witnesses=_witnesses(read, witnesses or (), authorities or ()),
        witness_within=_span(within),
        witness_since=None if since is None else since.replace(tzinfo=UTC),
        check_passkey=passkey_check(),
    )
    if verdict.fault is not None:
        typer.secho(f"NOT GOOD: {shown(str(verdict.fault))}", err=True, bold=True)
        raise typer.Exit(REFUSED)
    _show(verdict)


def passkey_check() -> CheckProof | None:
    """How passkeys are checked, if what that needs is installed."""
    try:
        from handraise.server.passkeys.ceremony import find_fault  # noqa: PLC0415 -- webauthn is an extra
    except MissingExtra:
        return None
    return find_fault


def _show(verdict: Verdict) -> None:
    """What a valid export proves, and what it does not."""
    if not verdict.last:
        typer.echo("GOOD, and empty: nothing has been sealed.")
        return
    signed = ", ".join(f"{key} (seals {first} to {last})" for key, (first, last) in verdict.keys.items())
    signed = signed or "nobody: anyone who could write to the store could have made all of it"
    if verdict.keys and verdict.unsigned:
        signed += f"; the first {verdict.unsigned} seals only by the chain"
    begins = "the first one" if verdict.first == 1 else "the oldest that was kept"
    end = (
        "signed"
        if verdict.end_signed
        else "NOT signed: it is certain to be complete only up to a seal that a witness saw, or given with --head"
    )
    facts = [
        ("Workspace", shown(verdict.workspace)),
        ("Seals", f"{verdict.first} ({begins}) to {verdict.last}"),
        (
            "Events",
            f"{verdict.events}, besides {verdict.erased} erased and {verdict.removed} removed by retention",
        ),
        ("Questions", f"{verdict.questions}, each consistent with its events"),
        ("Signed by", signed),
        ("End", f"{end}; exported {verdict.exported_at}"),
        ("Head", f"{verdict.last}:{verdict.head.hex()}"),
    ]
    if verdict.signed_decisions:
        number = verdict.signed_decisions
        what = "1 decision" if number == 1 else f"{number} decisions"
        facts.append(("Passkeys", f"{what} signed, each by the passkey of its person"))
    if verdict.unsealed:
        facts.append(("Unsealed", f"{verdict.unsealed} removals that no seal covers yet"))
    facts += [("Witness", shown(_witness_text(each))) for each in verdict.witnesses]
    if verdict.witnesses and verdict.unseen_from is not None:
        facts.append(("Unseen", f"seals from {verdict.unseen_from} on: no witness has seen them yet"))
    typer.secho("GOOD", bold=True)
    show_facts(facts)


def _witness_text(witness: Witness) -> str:
    """What a witness showed."""
    how = "stamped" if witness.stamped else "seen"
    agree = "1 head agrees" if witness.compared == 1 else f"{witness.compared} heads agree"
    text = (
        f"{witness.name}: {agree}, {how} {instant_text(witness.first.at)} to {instant_text(witness.last.at)}"
    )
    rest = [
        (witness.older, "of seals that retention removed"),
        (witness.later, "of seals after this export"),
        (witness.unreadable, "could not be read"),
    ]
    return text + "".join(f"; {number} {what}" for number, what in rest if number)


def _witnesses(
    read: Callable[[], Iterable[str]], paths: Sequence[Path], authorities: Sequence[Path]
) -> list[Witness]:
    """What each witness saw of the workspace that an export is of."""
    if not paths:
        return []
    try:
        workspace = str(json.loads(next(iter(read())))["workspace"])
    except (StopIteration, ValueError, KeyError, TypeError):
        return []  # it is not an export, and verifying it says so
    timestamps = None
    if authorities:
        from handraise.server.witnesses.timestamp_authority import (  # noqa: PLC0415 -- an extra
            TimestampVerifier,
        )

        timestamps = _or_refuse(lambda: TimestampVerifier(authorities))
    return [_or_refuse(partial(read_witness, path, workspace, timestamps)) for path in paths]


def _span(text: str) -> timedelta:
    return _or_refuse(lambda: span_of(text))


def _or_refuse(work: Callable[[], T]) -> T:
    try:
        return work()
    except (ValueError, OverflowError) as error:
        raise CommandError(str(error)) from error


def read_trusted_key(text: str) -> TrustedKey:
    """A public key of the command line: a file, and the seals that it signed if they are named."""
    from handraise.signing.key_files import trusted_key  # noqa: PLC0415 -- cryptography is an extra

    found = _RANGE.fullmatch(text)
    if found is None:
        return _or_refuse(lambda: trusted_key(Path(text)))
    last = int(found[3]) if found[3] else None
    return _or_refuse(lambda: trusted_key(Path(found[1]), int(found[2]), last))


def _mark(text: str) -> HeadMark:
    found = _HEAD.fullmatch(text.strip())
    if found is None:
        raise CommandError(
            f"{text!r} is not a seal. It looks like 12:ab…, as `handraise audit head` prints it."
        )
    return HeadMark(int(found[1]), bytes.fromhex(found[2]))

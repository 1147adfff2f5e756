"""`handraise receipt`: receipts of approvals, for the place where an action is executed."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from handraise.cli.exit_codes import STILL_PENDING, UNAVAILABLE, CommandError
from handraise.cli.key_file import make_key_file
from handraise.cli.session import AsAsker, CliSession, Workspace, as_asker
from handraise.cli.terminal_output import when
from handraise.cli.terminal_texts import shown, span_of
from handraise.model.errors import ReceiptRefused, StillPending
from handraise.model.receipts import Receipt

app = typer.Typer(
    help="Receipts: signed proof of an approval, which the place that executes the action checks and uses once.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Token = Annotated[
    str,
    typer.Argument(
        metavar="TOKEN", help="The receipt; `-` reads it from standard input.", show_default=False
    ),
]
Key = Annotated[
    list[Path],
    typer.Option(
        "--key",
        metavar="FILE",
        help="The public key (FILE.pub of `receipt key`), or the server's key set. Repeat it for several.",
    ),
]
Arguments = Annotated[
    str | None,
    typer.Option("--arguments", metavar="JSON", help="The arguments, as a JSON object, or @FILE with one."),
]


@app.command()
def key(
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="The file for the key; the public key is written to FILE.pub."),
    ],
) -> None:
    """Make a key for signing receipts."""
    make_key_file(file, setting="HANDRAISE_RECEIPT_KEY", checks="receipts")


@app.command()
def get(
    question_id: Annotated[str, typer.Argument(metavar="QUESTION", help="The question's id.")],
    *,
    timeout: Annotated[
        str | None,
        typer.Option("--timeout", metavar="TIME", help="Wait up to this long for the approval, such as 10m."),
    ] = None,
    name: AsAsker = None,
    workspace: Workspace = None,
) -> None:
    """Print a receipt of an approval that you asked for. It is valid for 15 minutes at most."""
    patience = None if timeout is None else span_of(timeout)

    async def work(session: CliSession) -> str:
        if patience is not None:
            await session.desk.wait(question_id, timeout=patience)
        return await session.desk.receipt(question_id)

    try:
        signer = os.environ.get("HANDRAISE_RECEIPT_KEY")
        typer.echo(as_asker(work, name=name, workspace=workspace, receipt_key=signer))
    except StillPending as pending:
        typer.echo(str(pending), err=True)
        raise typer.Exit(STILL_PENDING) from None


@app.command()
def verify(
    token: Token,
    *,
    key_files: Key,
    workspace: Annotated[
        str | None,
        typer.Option("--workspace", "-w", metavar="NAME", help="The workspace. Any, if you leave it out."),
    ] = None,
    tool: Annotated[
        str | None, typer.Option("--tool", metavar="NAME", help="The tool. Any, if you leave it out.")
    ] = None,
    arguments: Arguments = None,
) -> None:
    """Check a receipt without using it up, and say who approved. This works without a connection.

    It does not show whether the approval was used or taken back: `receipt use` does.
    """
    from handraise.gate import check_action  # noqa: PLC0415 -- joserfc is an extra
    from handraise.signing.receipt_tokens import load_verifier  # noqa: PLC0415 -- joserfc is an extra

    with _readable_keys():
        verifier = load_verifier(key_files)
    receipt = verifier.verify(_token(token), now=datetime.now(UTC))
    if workspace is not None and receipt.workspace != workspace:
        raise ReceiptRefused(f"it is for workspace {receipt.workspace!r}, not for {workspace!r}")
    check_action(receipt, tool=tool, arguments=_arguments(arguments))
    _show(receipt, "Valid")


@app.command()
def use(
    token: Token,
    *,
    key_files: Key,
    tool: Annotated[str, typer.Option("--tool", metavar="NAME", help="The tool to execute.")],
    arguments: Arguments = None,
    server: Annotated[
        str | None,
        typer.Option("--server", metavar="URL", help="The server that decides. Default: HANDRAISE_URL."),
    ] = None,
    used: Annotated[
        Path | None,
        typer.Option("--used", metavar="FILE", help="Count uses in this file instead, without a connection."),
    ] = None,
    use_id: Annotated[
        str | None,
        typer.Option(
            "--use-id", metavar="ID", help="An id of this one execution, to repeat it after a failure."
        ),
    ] = None,
    workspace: Workspace = None,
) -> None:
    """Use the approval of a receipt up: execute the action only if this exits with 0.

    Exit code 1 means refused, 69 that the server cannot be reached: then repeat it with the same --use-id.
    """
    from handraise.gate import FileUses, Gate, ServerUses  # noqa: PLC0415 -- joserfc is an extra

    address = server or os.environ.get("HANDRAISE_URL", "")
    if used is None and not address.startswith(("http://", "https://")):
        raise CommandError(
            "Name the server that decides, --server URL, or a file that counts uses, --used FILE."
        )
    with _readable_keys():
        gate = Gate(
            key=key_files,
            workspace=workspace or os.environ.get("HANDRAISE_WORKSPACE") or "default",
            uses=ServerUses(address) if used is None else FileUses(used),
        )
    try:
        receipt = gate.check_blocking(
            _token(token), tool=tool, arguments=_arguments(arguments) or {}, use_id=use_id
        )
    except ReceiptRefused as refused:
        if not refused.try_again:
            raise
        typer.echo(str(refused), err=True)
        raise typer.Exit(UNAVAILABLE) from None
    _show(receipt, "Used")


@contextmanager
def _readable_keys() -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise CommandError(str(error)) from None


def _token(given: str) -> str:
    return sys.stdin.read().strip() if given == "-" else given


def _arguments(given: str | None) -> dict[str, Any] | None:
    if given is None:
        return None
    text = Path(given[1:]).read_text(encoding="utf-8") if given.startswith("@") else given
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CommandError(f"--arguments is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise CommandError('--arguments must be a JSON object, such as {"amount": 40}.')
    return found


def _show(receipt: Receipt, what: str) -> None:
    lines = [
        f"{what}: {receipt.tool}, asked by {receipt.asker} in workspace {receipt.workspace}, question {receipt.question_id}"
    ]
    how = {"grant": "by a grant of ", "policy": "by the policy", "default": "by default"}.get(
        receipt.source, "by "
    )
    if receipt.source in ("policy", "default"):
        lines.append(f"Approved {how}.")
    lines += [
        f"Approved {how}{each.by} at {when(each.at)}, evidence: {each.evidence or 'none'}"
        for each in receipt.approvers
    ]
    if receipt.policy_version is not None:
        lines.append(f"Version {receipt.policy_version} of the policy applied.")
    for line in lines:
        typer.echo(shown(line))

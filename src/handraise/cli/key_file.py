"""Make a key file for signing, for the commands of the audit trail and of receipts."""

from __future__ import annotations

from pathlib import Path

import typer

from handraise.cli.exit_codes import CommandError


def make_key_file(file: Path, *, setting: str, checks: str) -> None:
    """Make a key, and say which setting takes it and what its public key `checks`."""
    from handraise.signing.key_files import make_key  # noqa: PLC0415 -- cryptography is an extra

    if file.exists():
        raise CommandError(f"{file} exists already, and is left as it is.")
    if not file.parent.is_dir():
        raise CommandError(f"There is no folder {file.parent}. Make it first.")
    name = make_key(file)
    typer.echo(f"The key {name} is in {file}: set {setting}={file}, and keep the file secret.")
    typer.echo(f"The public key is in {file}.pub. You need it to check {checks}.")

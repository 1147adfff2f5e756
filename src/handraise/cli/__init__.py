"""The command `handraise`: ask, answer, run a server, and manage people and keys."""

from __future__ import annotations

import sys

from handraise.model.errors import MissingExtra


def main() -> None:
    """Run the command line and exit: with 0 if it succeeded, else see `handraise.cli.exit_codes`."""
    try:
        from handraise.cli.commands import app_for, run  # noqa: PLC0415 -- typer is an extra

        app = app_for(sys.argv[1:])
    except ModuleNotFoundError as error:
        # Only a third-party package can be missing.
        missing = MissingExtra((error.name or "typer").partition(".")[0], "server")
        line = " ".join(sys.argv[1:2])
        sys.stderr.write(
            f'{missing}\nWithout installing it: uvx --from "handraise[server]" handraise {line}\n'
        )
        sys.exit(78)
    run(app)

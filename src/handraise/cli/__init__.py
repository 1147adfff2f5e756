"""The command `handraise`: ask, answer, run a server, and look after who may come in.

`pip install "handraise[cli]"` is enough to ask and to answer. What is in `SERVER_COMMANDS` needs `handraise[server]`.
"""

from __future__ import annotations

import sys
from typing import NoReturn

SERVER_COMMANDS = frozenset(
    {
        "apply",
        "audit",
        "demo",
        "doctor",
        "erase",
        "export-config",
        "groups",
        "hold",
        "keys",
        "migrate",
        "people",
        "policy",
        "retention",
        "serve",
    }
)
"""What runs a server, or looks after a store in its place."""


def main() -> None:
    """Run the command line and exit: with 0 if it succeeded, else see `handraise.cli.exit_codes`."""
    try:
        from handraise.cli.commands import app_for, run  # noqa: PLC0415 -- typer is an extra

        app = app_for(sys.argv[1:])
    except ModuleNotFoundError as error:
        # Only a third-party package can be missing.
        _exit_without((error.name or "typer").partition(".")[0])
    except ImportError as error:
        from handraise.model.errors import MissingExtra  # noqa: PLC0415 -- slow, and seldom needed

        if not isinstance(error, MissingExtra):
            raise
        _exit_without(error.package)
    run(app)


def _exit_without(package: str) -> NoReturn:
    """Say which extra the command needs, and exit."""
    from handraise.model.errors import MissingExtra  # noqa: PLC0415 -- slow, and seldom needed

    command = " ".join(sys.argv[1:2])
    extra = "server" if command in SERVER_COMMANDS else "cli"
    sys.stderr.write(
        f"{MissingExtra(package, extra)}\n"
        f'Without installing it: uvx --from "handraise[{extra}]" handraise {command}\n'
    )
    sys.exit(78)

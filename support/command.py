"""The command as a person, a script or a service manager runs it: in its own process."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import select
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from resource import RLIMIT_NOFILE, setrlimit
from typing import Any
from unittest import mock

from handraise.cli import main

SOON = 60.0
_LISTENING = re.compile(r"Listening\s+(http://\S+)\s")


def environment(url: str | None, **settings: str) -> dict[str, str]:
    """This process's environment with just these settings; a name in capitals is the full name of a variable."""
    clean = {
        name: value for name, value in os.environ.items() if not name.startswith(("HANDRAISE_", "OTEL_"))
    }
    named = {
        name if name.isupper() else f"HANDRAISE_{name.upper()}": value for name, value in settings.items()
    }
    return {**clean, "COLUMNS": "80", **({} if url is None else {"HANDRAISE_URL": url}), **named}


@dataclass(frozen=True)
class Done:
    """How a command ended, and what it printed."""

    returncode: int
    stdout: str
    stderr: str


def handraise(*line: str, url: str | None = None, **settings: str) -> Done:
    """Run a command to its end, in this process: it starts sooner."""
    stdout, stderr = io.StringIO(), io.StringIO()
    with (
        mock.patch.dict(os.environ, environment(url, **settings), clear=True),
        mock.patch.object(sys, "argv", ["handraise", *line]),
        contextlib.redirect_stdout(stdout),
        contextlib.redirect_stderr(stderr),
    ):
        try:
            main()
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 0
    return Done(code, stdout.getvalue(), stderr.getvalue())


def process(*line: str, url: str | None = None, before: str = "", **settings: str) -> Done:
    """Run a command to its end in its own process, after some other code if that is given."""
    start = ["-c", f"{before}\nfrom handraise.cli import main\nmain()"] if before else ["-m", "handraise"]
    done = subprocess.run(
        [sys.executable, *start, *line],
        env=environment(url, **settings),
        capture_output=True,
        text=True,
        timeout=SOON,
        check=False,
    )
    return Done(done.returncode, done.stdout, done.stderr)


@dataclass
class Serving:
    """A running server, what it printed when it began, and its log."""

    process: subprocess.Popen[str]
    banner: str
    log_file: Path
    settings: dict[str, str]

    @property
    def address(self) -> str:
        """Where it listens."""
        found = _LISTENING.search(self.banner)
        assert found, self.banner
        return found[1]

    @cached_property
    def link(self) -> str | None:
        """A link for the first administrator, made as the banner says; None if it does not mention one."""
        found = re.search(
            r"^(?:HANDRAISE_PUBLIC_URL=\S+ )?handraise (people link .+)$", self.banner, re.MULTILINE
        )
        if found is None:
            return None
        made = process(*shlex.split(found[1]), **{"public_url": self.address, **self.settings})
        return made.stdout.split()[-1]

    @property
    def log(self) -> list[dict[str, Any]]:
        """The lines of its log so far."""
        return [json.loads(line) for line in self.log_file.read_text(encoding="utf-8").splitlines()]

    def send(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self.process.send_signal(number)

    def wait(self) -> int:
        """Its exit code, once it has ended."""
        return self.process.wait(timeout=SOON)


@contextlib.contextmanager
def serving(
    url: str,
    folder: Path,
    *line: str,
    files: int | None = None,
    program: Sequence[str] = ("-m", "handraise"),
    patience: float = SOON,
    **settings: str,
) -> Iterator[Serving]:
    """`handraise serve` at a free port; killed at the end unless it has stopped by itself.

    With `files`, it may have at most that many open files. `program` is what Python runs.
    """
    log_file = folder / f"log-{time.monotonic_ns()}"
    with log_file.open("w") as log:
        process = subprocess.Popen(
            [sys.executable, *program, "serve", "--port", "0", *line],
            env=environment(url, **{"log_format": "json", "rate_limit": "1000000/second", **settings}),
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            preexec_fn=None if files is None else partial(setrlimit, RLIMIT_NOFILE, (files, files)),  # noqa: PLW1509 -- it is alone
        )
    try:
        assert process.stdout is not None
        until = time.monotonic() + patience
        while '"event": "listening"' not in log_file.read_text():
            assert process.poll() is None, f"it did not start:\n{log_file.read_text()}"
            assert time.monotonic() < until, "it takes too long to start"
            time.sleep(0.02)
        # A process prints everything before it logs that it listens. Of several workers only one prints, perhaps later.
        banner = ""
        while not _LISTENING.search(banner):
            ready, _, _ = select.select([process.stdout], [], [], max(0.0, until - time.monotonic()))
            printed = os.read(process.stdout.fileno(), 65_536) if ready else b""
            assert printed, f"it does not say where it listens:\n{banner}"
            banner += printed.decode()
        yield Serving(process, banner, log_file, {"url": url, **settings})
    finally:
        process.kill()
        process.communicate()

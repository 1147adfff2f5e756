"""Whether a wheel works in a clean environment: a first question, the shipped contract, a server, the demo."""

from __future__ import annotations

import re
import signal
import subprocess
import threading
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from scripts.release.clean import ROOT, Clean, add, printed, strange_environment

SOON = 60.0


def try_out(clean: Clean, wheel: Path, folder: Path) -> None:
    """Whether it works there, in an empty folder: raises where something does not."""
    for check in CHECKS[clean.name]:
        check(clean, wheel, folder)


def first_question(clean: Clean, _wheel: Path, folder: Path) -> None:
    """The first example, on memory and on SQLite."""
    for url in ("memory:", f"sqlite:///{folder / 'first.db'}"):
        said = printed(clean.python, str(ROOT / "examples" / "first_question.py"), url, cwd=folder)
        _expect("answered 'Canary' by ana", said)


def says_what_is_missing(clean: Clean, _wheel: Path, folder: Path) -> None:
    """Every public module can be imported, or names the extra that it needs. So does the command."""
    told = printed(clean.python, "-c", _IMPORTS, cwd=folder)
    _expect(r"handraise\.server: .*pip install \"handraise\[server\]\"", told)
    bad = [
        line
        for line in told.splitlines()
        if not re.search(r': (fine|.*pip install "handraise\[[\w-]+\]")$', line)
    ]
    if bad:
        raise SystemExit("\n".join(["without its extra, a module does not say which:", *bad]))
    line = [str(clean.folder / "bin" / "handraise"), "serve"]
    done = subprocess.run(  # noqa: S603 -- our own line
        line, cwd=folder, env=strange_environment(), capture_output=True, text=True, check=False
    )
    _expect(r'pip install "handraise\[server\]"', done.stderr)


_IMPORTS = """
import importlib, pkgutil
import handraise, handraise.backends, handraise.channels, handraise.integrations
packages = (handraise, handraise.backends, handraise.channels, handraise.integrations)
for each in (found.name for package in packages for found in pkgutil.iter_modules(package.__path__, package.__name__ + ".")):
    if each.endswith("__main__"):
        continue
    try:
        importlib.import_module(each)
        print(f"{each}: fine")
    except Exception as error:
        print(f"{each}: {type(error).__name__}: {error}")
import handraise.testing
try:
    import handraise.testing.contract
except handraise.errors.MissingExtra as error:
    print(f"handraise.testing.contract: {error}")
"""


def contract(clean: Clean, wheel: Path, folder: Path) -> None:
    """The contract suite that the wheel ships, as somebody with a backend of their own runs it."""
    add(clean.python, wheel, ("testing",))
    (folder / "test_wheel.py").write_text(_CONTRACT, encoding="utf-8")
    options = (
        "asyncio_mode=auto",
        "asyncio_default_fixture_loop_scope=function",
        "markers=promise(id): one of ours",
    )
    line = ["-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider", "test_wheel.py"]
    line += [word for option in options for word in ("-o", option)]
    said = printed(clean.python, *line, cwd=folder)
    print(f"  contract on SQLite: {said.strip().splitlines()[-1]}")  # noqa: T201 -- a command prints


_CONTRACT = """
import pytest
from handraise.testing.contract import AddressBackend, DeskContract

class TestWheel(DeskContract):
    @pytest.fixture
    def backend(self, tmp_path):
        return AddressBackend(f"sqlite:///{tmp_path / 'questions.db'}")
"""


def serves(clean: Clean, _wheel: Path, folder: Path) -> None:
    """`handraise serve` answers, shows its page, and stops when it is told to."""
    with _started(clean, "serve", folder) as said:
        address = said(r"https?://[\w.:]+")
        for path, wanted in (
            ("/healthz", "alive"),
            ("/readyz", "ready"),
            ("/sign-in", "<html"),
            ("/v1/openapi.json", '"openapi"'),
        ):
            with urllib.request.urlopen(address + path, timeout=SOON) as answer:  # noqa: S310 -- our own server
                _expect(re.escape(wanted), answer.read().decode())


def plays(clean: Clean, _wheel: Path, folder: Path) -> None:
    """`handraise demo` says where to go, and leaves nothing behind."""
    with _started(clean, "demo", folder) as said:
        said(r"token=\S+")


CHECKS: dict[str, tuple[Callable[[Clean, Path, Path], None], ...]] = {
    "core": (first_question, says_what_is_missing, contract),
    "server": (first_question, serves, plays),
}


@contextmanager
def _started(clean: Clean, command: str, folder: Path) -> Iterator[Callable[[str], str]]:
    """A command that runs until it is told to stop; gives what it prints, until something is there."""
    line = [str(clean.folder / "bin" / "handraise"), command, "--port", "0"]
    process = subprocess.Popen(  # noqa: S603 -- our own line
        line,
        cwd=folder,
        env=strange_environment(folder),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    so_far = ""

    def said(pattern: str) -> str:
        nonlocal so_far
        while not (found := re.search(pattern, so_far)):
            if process.stdout is None or not (more := process.stdout.readline()):
                raise SystemExit(f"handraise {command} ended, and never said {pattern}:\n{so_far}")
            so_far += more
        return found[0]

    too_long = threading.Timer(SOON, process.kill)
    too_long.start()
    try:
        yield said
        process.send_signal(signal.SIGINT)
        process.communicate()
        if process.returncode:
            raise SystemExit(f"handraise {command} ended with {process.returncode} when it was told to stop")
    finally:
        too_long.cancel()
        process.kill()
        process.wait()


def _expect(pattern: str, text: str) -> None:
    if not re.search(pattern, text):
        raise SystemExit(f"{pattern} is not in\n{text}")

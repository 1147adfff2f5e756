"""The wheel in clean environments: what it brings along, how large that is, and whether it works there."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
import venv
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
SOON = 60.0


@dataclass(frozen=True)
class Bound:
    """How much one installation may bring: packages besides ours, and megabytes in all."""

    extras: tuple[str, ...]
    packages: int
    megabytes: float


BOUNDS = {
    "core": Bound((), packages=5, megabytes=12),
    "server": Bound(("server",), packages=38, megabytes=36),
}
"""The one place for these numbers. Whoever raises one says why in the changelog."""

OF_PYDANTIC = {"annotated-types", "pydantic", "pydantic-core", "typing-extensions", "typing-inspection"}
"""All that the core may bring: Pydantic, and what that brings itself."""


@dataclass(frozen=True)
class Clean:
    """A clean environment with our wheel and what it asks for, and nothing else."""

    name: str
    folder: Path
    packages: dict[str, str]
    megabytes: float

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.folder / "bin" / "python"

    def __str__(self) -> str:
        return f"{self.name}: {len(self.packages) - 1} dependencies, {self.megabytes:.1f} MB installed"


def install(wheel: Path, name: str, folder: Path) -> Clean:
    """Make the environment. It has no pip of its own: whatever is in it, we brought."""
    venv.create(folder, with_pip=False, symlinks=True)
    python = folder / "bin" / "python"
    add(python, wheel, BOUNDS[name].extras)
    told: dict[str, list[str]] = json.loads(_printed(python, "-c", _SIZES))
    packages = {each: version for each, (version, _) in told.items()}
    return Clean(name, folder, packages, sum(int(size) for _, size in told.values()) / 1e6)


def add(python: Path, wheel: Path, extras: tuple[str, ...]) -> None:
    """Install the wheel with some extras, at the versions that we test with."""
    line = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        str(python),
        "install",
        "--quiet",
        "--disable-pip-version-check",
    ]
    wanted = f"{wheel}[{','.join(extras)}]" if extras else str(wheel)
    _run([*line, "--no-compile", "--constraint", str(ROOT / "constraints.txt"), wanted])
    for told in python.parent.parent.glob("lib/*/site-packages/handraise-*.dist-info/direct_url.json"):
        told.unlink()  # it names a folder of this machine, which has no place in a list of parts


_SIZES = """
import json, sys
from importlib import metadata
print(json.dumps({
    each.name.lower().replace("_", "-"): (each.version, sum(path.stat().st_size for file in each.files if (path := file.locate()).exists()))
    for each in metadata.distributions(path=[path for path in sys.path if "site-packages" in path])
}))
"""


def faults(clean: Clean) -> list[str]:
    """Where an environment is over its bounds."""
    bound, number = BOUNDS[clean.name], len(clean.packages) - 1
    found = []
    if number > bound.packages:
        found.append(f"{clean.name} brings {number} packages, and may bring {bound.packages}")
    if clean.megabytes > bound.megabytes:
        found.append(f"{clean.name} takes {clean.megabytes:.1f} MB, and may take {bound.megabytes}")
    if clean.name == "core" and (more := {*clean.packages} - OF_PYDANTIC - {"handraise"}):
        found.append(f"the core brings {', '.join(sorted(more))}, and may bring Pydantic only")
    return found


def smoke(clean: Clean, wheel: Path, folder: Path) -> None:
    """Whether it works there, in an empty folder: raises where something does not."""
    for check in CHECKS[clean.name]:
        check(clean, wheel, folder)


def first_question(clean: Clean, _wheel: Path, folder: Path) -> None:
    """The first example, on memory and on SQLite."""
    for url in ("memory:", f"sqlite:///{folder / 'first.db'}"):
        said = _printed(clean.python, str(ROOT / "examples" / "first_question.py"), url, cwd=folder)
        _expect("answered 'Canary' by ana", said)


def says_what_is_missing(clean: Clean, _wheel: Path, folder: Path) -> None:
    """Every public module can be imported, or names the extra that it needs. So does the command."""
    told = _printed(clean.python, "-c", _IMPORTS, cwd=folder)
    _expect(r"handraise\.server: .*pip install \"handraise\[server\]\"", told)
    bad = [
        line
        for line in told.splitlines()
        if not re.search(r': (fine|.*pip install "handraise\[[\w-]+\]")$', line)
    ]
    if bad:
        raise SystemExit("\n".join(["without its extra, a module does not say which:", *bad]))
    line = [str(clean.folder / "bin" / "handraise"), "serve"]
    done = subprocess.run(line, cwd=folder, env=_environment(), capture_output=True, text=True, check=False)  # noqa: S603 -- our own line
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
except handraise.MissingExtra as error:
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
    said = _printed(clean.python, *line, cwd=folder)
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
            ("/healthz", ""),
            ("/readyz", ""),
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
        env=_environment(folder),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    printed = ""

    def said(pattern: str) -> str:
        nonlocal printed
        while not (found := re.search(pattern, printed)):
            if process.stdout is None or not (more := process.stdout.readline()):
                raise SystemExit(f"handraise {command} ended, and never said {pattern}:\n{printed}")
            printed += more
        return found[0]

    try:
        yield said
        process.send_signal(signal.SIGINT)
        _, code = process.communicate(timeout=SOON), process.returncode
        if code:
            raise SystemExit(f"handraise {command} ended with {code} when it was told to stop")
    finally:
        process.kill()
        process.wait(timeout=SOON)


def _environment(home: Path | None = None) -> dict[str, str]:
    """The environment of a stranger: nothing of ours is set."""
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("HANDRAISE_", "PYTHON"))
    }
    return {
        **kept,
        **({"HOME": str(home), "XDG_DATA_HOME": str(home)} if home else {}),
        "PYTHONUNBUFFERED": "1",
    }


def _printed(python: Path, *line: str, cwd: Path | None = None) -> str:
    return _run([str(python), *line], cwd)


def _run(line: list[str], cwd: Path | None = None) -> str:
    done = subprocess.run(  # noqa: S603 -- our own lines
        line, cwd=cwd, env=_environment(), capture_output=True, text=True, timeout=600, check=False
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(line)}\n{done.stdout}{done.stderr}")
    return done.stdout


def _expect(pattern: str, text: str) -> None:
    if not re.search(pattern, text):
        raise SystemExit(f"{pattern} is not in\n{text}")


def list_parts(clean: Clean, file: Path) -> None:
    """Write a CycloneDX list of what is in an environment, which its own schema has accepted."""
    command = Path(sys.executable).with_name("cyclonedx-py")
    options = [
        "--pyproject",
        str(ROOT / "pyproject.toml"),
        "--mc-type",
        "library",
        "--short-PURLs",
        "--output-reproducible",
    ]
    _run([str(command), "environment", *options, "-o", str(file), str(clean.python)])
    listed = {each["name"].lower().replace("_", "-") for each in json.loads(file.read_text())["components"]}
    if listed | {"handraise"} != {*clean.packages}:
        raise SystemExit(f"{file} lists {sorted(listed)}, installed are {sorted(clean.packages)}")

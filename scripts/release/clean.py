"""The wheel in clean environments: what it installs, how large that is, and a list of its parts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


@dataclass(frozen=True)
class Bound:
    """How much one installation may add: packages besides ours, and megabytes in all."""

    extras: tuple[str, ...]
    packages: int
    megabytes: float


BOUNDS = {
    "core": Bound((), packages=5, megabytes=16),
    "cli": Bound(("cli",), packages=21, megabytes=29),
    "server": Bound(("server",), packages=40, megabytes=96),
}
"""The only place for these numbers. If you raise one, say why in the changelog."""

OF_PYDANTIC = {"annotated-types", "pydantic", "pydantic-core", "typing-extensions", "typing-inspection"}
"""All that the core may install: Pydantic and its own dependencies."""


@dataclass(frozen=True)
class Clean:
    """A clean environment with only our wheel and its dependencies."""

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
    """Make the environment. It has no pip, so it contains only what we install."""
    venv.create(folder, with_pip=False, symlinks=True)
    python = folder / "bin" / "python"
    add(python, wheel, BOUNDS[name].extras)
    told: dict[str, list[str]] = json.loads(printed(python, "-c", _SIZES))
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
    run([*line, "--no-compile", "--constraint", str(ROOT / "constraints.txt"), wanted])
    for told in python.parent.parent.glob("lib/*/site-packages/handraise-*.dist-info/direct_url.json"):
        told.unlink()  # it names a folder of this machine, which does not belong in a list of parts


_SIZES = """
import json, sys
from importlib import metadata
print(json.dumps({
    each.name.lower().replace("_", "-"): (each.version, sum(path.stat().st_size for file in each.files if (path := file.locate()).exists()))
    for each in metadata.distributions(path=[path for path in sys.path if "site-packages" in path])
}))
"""


def faults(clean: Clean) -> list[str]:
    """The bounds that an environment exceeds."""
    bound, number = BOUNDS[clean.name], len(clean.packages) - 1
    found = []
    if number > bound.packages:
        found.append(f"{clean.name} brings {number} packages, and may bring {bound.packages}")
    if clean.megabytes > bound.megabytes:
        found.append(f"{clean.name} takes {clean.megabytes:.1f} MB, and may take {bound.megabytes}")
    if clean.name == "core" and (more := {*clean.packages} - OF_PYDANTIC - {"handraise"}):
        found.append(f"the core brings {', '.join(sorted(more))}, and may bring Pydantic only")
    return found


def strange_environment(home: Path | None = None) -> dict[str, str]:
    """The environment of a new user: none of our variables is set."""
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("HANDRAISE_", "PYTHON"))
    }
    return {
        **kept,
        **({"HOME": str(home), "XDG_DATA_HOME": str(home)} if home else {}),
        "PYTHONUNBUFFERED": "1",
    }


def printed(python: Path, *line: str, cwd: Path | None = None) -> str:
    """What an interpreter prints when it runs a line."""
    return run([str(python), *line], cwd)


def run(line: list[str], cwd: Path | None = None) -> str:
    """What a command prints; if it fails, everything ends."""
    done = subprocess.run(  # noqa: S603 -- our own lines
        line, cwd=cwd, env=strange_environment(), capture_output=True, text=True, timeout=600, check=False
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(line)}\n{done.stdout}{done.stderr}")
    return done.stdout


def list_parts(clean: Clean, file: Path) -> None:
    """Write a CycloneDX list of what is in an environment, validated against its own schema."""
    command = Path(sys.executable).with_name("cyclonedx-py")
    options = [
        "--pyproject",
        str(ROOT / "pyproject.toml"),
        "--mc-type",
        "library",
        "--short-PURLs",
        "--output-reproducible",
    ]
    run([str(command), "environment", *options, "-o", str(file), str(clean.python)])
    listed = {each["name"].lower().replace("_", "-") for each in json.loads(file.read_text())["components"]}
    if listed | {"handraise"} != {*clean.packages}:
        raise SystemExit(f"{file} lists {sorted(listed)}, installed are {sorted(clean.packages)}")

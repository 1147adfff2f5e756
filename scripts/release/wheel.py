"""Building the source distribution and the wheel, and what has to be in them."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PACKAGE = ROOT / "src" / "handraise"

NEEDED = {
    "SQL of both engines": "handraise/backends/sql/statements/",
    "SQL of SQLite": "handraise/backends/sqlite/statements.sql",
    "SQL of PostgreSQL": "handraise/backends/postgres/statements.sql",
    "migrations of SQLite": "handraise/backends/sqlite/migrations/0001_schema.sql",
    "migrations of PostgreSQL": "handraise/backends/postgres/migrations/0001_schema.sql",
    "templates": "handraise/server/web/templates/",
    "templates of mail": "handraise/channels/email/templates/",
    "static files": "handraise/server/web/static/",
    "the mark of types": "handraise/py.typed",
}
"""What must be included besides Python: a file, or a folder that is not empty."""


def build(folder: Path) -> tuple[Path, Path]:
    """A source distribution and a wheel made from it, in this folder."""
    line = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    done = subprocess.run(line, capture_output=True, text=True, check=False)  # noqa: S603 -- our own line
    if done.returncode:
        raise SystemExit(done.stdout + done.stderr)
    return found(folder)


def found(folder: Path) -> tuple[Path, Path]:
    """The source distribution and the wheel in a folder."""
    (source,), (wheel,) = folder.glob("*.tar.gz"), folder.glob("*.whl")
    return source, wheel


def wheel_faults(wheel: Path) -> list[str]:
    """What is wrong with the contents of a wheel."""
    with zipfile.ZipFile(wheel) as opened:
        inside = {name for name in opened.namelist() if not name.endswith("/")}
    ours = {name for name in inside if name.startswith("handraise/")}
    files = {
        f"handraise/{path.relative_to(PACKAGE).as_posix()}"
        for path in PACKAGE.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".po"
    }
    about = f"{'-'.join(wheel.name.split('-')[:2])}.dist-info/"
    return [
        *(f"{what}: there is no {name}" for what, name in NEEDED.items() if not _has(inside, name)),
        *(f"{name} is in src and not in the wheel" for name in sorted(files - ours)),
        *(f"{name} is in the wheel and not in src" for name in sorted(ours - files)),
        *(f"{name} has no place in a wheel" for name in sorted(inside - ours) if not name.startswith(about)),
        *(
            f"there is no {about}{name}"
            for name in ("METADATA", "licenses/LICENSE")
            if about + name not in inside
        ),
    ]


def _has(inside: set[str], name: str) -> bool:
    return name in inside if not name.endswith("/") else any(each.startswith(name) for each in inside)


def source_faults(source: Path) -> list[str]:
    """What is wrong with the contents of a source distribution: it must build, and include its tests and its texts."""
    with tarfile.open(source) as opened:
        inside = {name.partition("/")[2] for name in opened.getnames()}
    needed = (
        "pyproject.toml",
        "LICENSE",
        "README.md",
        "CHANGELOG.md",
        "src/handraise/py.typed",
        "tests/conftest.py",
    )
    made = [
        name for name in sorted(inside) if {"__pycache__", ".venv", ".cache", "dist"} & {*name.split("/")}
    ]
    return [*(f"there is no {name}" for name in needed if name not in inside), *made]

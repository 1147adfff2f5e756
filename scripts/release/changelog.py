"""What the changelog says of a version, and whether that is complete."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import handraise
from chaos.faults.rolling_upgrade import previous_release
from scripts.release import surface

ROOT = Path(__file__).resolve().parent.parent.parent
CHANGELOG = ROOT / "CHANGELOG.md"
_HEADING = re.compile(r"^## \[([^\]]+)\](?: - (.+))?$", re.MULTILINE)


def sections(text: str) -> dict[str, tuple[str | None, str]]:
    """Each version with its date and what is said of it."""
    headings = list(_HEADING.finditer(text))
    ends = [*(each.start() for each in headings[1:]), len(text)]
    return {each[1]: (each[2], text[each.end() : end]) for each, end in zip(headings, ends, strict=True)}


def version_faults(text: str) -> list[str]:
    """What is wrong with the version and its section: there is one place for the number, and a section for it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    found = (
        []
        if "version" not in project
        else ["pyproject.toml has a version: handraise.__version__ is the place"]
    )
    if handraise.__version__ not in sections(text):
        found.append(f"the changelog has no section [{handraise.__version__}]")
    return found


def tag_faults(tag: str, text: str | None = None) -> list[str]:
    """What keeps a tag from being released."""
    known = sections(text if text is not None else CHANGELOG.read_text(encoding="utf-8"))
    version = handraise.__version__
    date, _ = known.get(version, (None, ""))
    found = [] if tag == f"v{version}" else [f"the tag is {tag}, and handraise.__version__ is {version}"]
    if not re.fullmatch(r"\d{4}-\d{2}-\d{2}", date or ""):
        found.append(f"the changelog gives no date for [{version}]: it says {date}")
    if known.get("Unreleased", (None, ""))[1].strip():
        found.append(f"the changelog has lines below [Unreleased] that belong below [{version}]")
    return found


def since_the_release_before() -> surface.Changes:
    """How the public names changed since the previous release, which is read in its own process."""
    with previous_release() as source:
        done = subprocess.run(  # noqa: S603 -- our own file
            [sys.executable, str(Path(surface.__file__))],
            env={**os.environ, "PYTHONPATH": str(source)},
            capture_output=True,
            text=True,
            check=True,
        )
    return surface.changes(done.stdout.splitlines(), surface.surface())


def change_faults(changed: surface.Changes, text: str | None = None) -> list[str]:
    """The public names that changed and that no section since then mentions."""
    known = sections(text if text is not None else CHANGELOG.read_text(encoding="utf-8"))
    said = "".join(known.get(each, (None, ""))[1] for each in ("Unreleased", handraise.__version__))
    return [f"{name} has changed: the changelog should say so" for name in surface.unmentioned(changed, said)]

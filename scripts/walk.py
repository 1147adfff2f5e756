"""Walks the README and the tutorial in a clean virtual environment: `python -m scripts.walk [PART …]`.

It builds the wheel, makes a new environment in a temporary folder, and runs every command of the pages there, in
order, with the browser and the keys where the page says so. `pip install handraise` installs the wheel that was built;
its dependencies come from the index that pip is configured with. What a page shows is compared with what is printed.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory

from support.doc_pages import DOCS, blocks_of
from support.free_port import free_port
from support.page_runner import Stranger
from support.page_scenes import SCENES

ROOT = Path(__file__).resolve().parent.parent
PARTS = ("README", "first-question", "answer-as-a-person", "approve-an-action", "production")
UVX = "uvx "
"""What the release tries: there is no index here that has this version."""
ACTIVE = "source .venv/bin/activate"


def main(*parts: str) -> None:
    """Walk these parts, or all, and print how long each step took."""
    began = time.monotonic()
    with TemporaryDirectory() as folder:
        place = Path(folder)
        wheel = _timed("build the wheel", lambda: _build(place))
        for part in parts or PARTS:
            _walk(part, place, wheel, new=part == (parts or PARTS)[0])
    _say(f"\n{time.monotonic() - began:7.1f} s  in all")


def _walk(part: str, place: Path, wheel: Path, *, new: bool) -> None:
    page = ROOT / "README.md" if part == "README" else DOCS / "tutorial" / f"{part}.md"
    _say(f"\n{part}")
    stranger = _stranger(place, wheel)
    began = time.monotonic()
    try:
        scene = SCENES.get(page)
        with scene(stranger) if scene else nullcontext():
            if new and ACTIVE not in page.read_text(encoding="utf-8"):
                stranger.give("python3 -m venv .venv", "")
            titles = {block.title for block in blocks_of(page) if block.language == "console"}
            for block in blocks_of(page):
                if block.language == "console" and (stranger.folder / ".venv").exists():
                    for title in titles:
                        stranger.terminal(title).adopt(ACTIVE)
                stranger.read(block)
    finally:
        stranger.leave()
    _say(f"{time.monotonic() - began:7.1f} s  {part}: done")


def _stranger(place: Path, wheel: Path) -> Stranger:
    here, port = place / "here", str(free_port())
    here.mkdir(exist_ok=True)
    (place / "said").mkdir(exist_ok=True)
    clean = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("HANDRAISE_", "PG", "VIRTUAL_ENV", "PYTHON"))
    }
    environment = {
        **clean,
        "SAID": str(place / "said"),
        "XDG_DATA_HOME": str(place / "data"),
        # What a reader has without it: the pages are read in a terminal, and this program may run in none.
        "HANDRAISE_URL": f"sqlite:///{place}/data/handraise/handraise.db",
        "HANDRAISE_PORT": port,
        "HANDRAISE_LOG_FORMAT": "json",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_QUIET": "1",
        "PIP_CONSTRAINT": str(ROOT / "constraints.txt"),
    }

    def told(command: str, seconds: float) -> None:
        _say(f"{seconds:7.1f} s  {command.splitlines()[0]}")

    stranger = Stranger(here, environment, {"8765": port}, told=told, soon=600.0)
    stranger.excused = lambda command: command.startswith(UVX)
    stranger.rewritten = lambda line: re.sub(
        r'pip install "?handraise(\[[\w,]+\])?"?', rf'pip install "{wheel}\1"', line
    )
    return stranger


def _build(place: Path) -> Path:
    subprocess.run(  # noqa: S603 -- our own build
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", place / "dist", ROOT],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    (wheel,) = (place / "dist").glob("*.whl")
    return wheel


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _timed(name: str, work: Callable[[], Path]) -> Path:
    began = time.monotonic()
    done = work()
    _say(f"{time.monotonic() - began:7.1f} s  {name}")
    return done


if __name__ == "__main__":
    main(*sys.argv[1:])

"""The pictures in the documentation are there, small, and can be taken again."""

from __future__ import annotations

import re
import struct
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "images"
NAMES = (
    "approval",
    "ask-back",
    "away",
    "dark",
    "inbox",
    "insights",
    "phone",
    "policy",
    "question",
    "split",
    "stops",
    "terminal",
)
LARGEST = 150_000


def size_of(picture: Path) -> tuple[int, int]:
    """How wide and how high a PNG is."""
    data = picture.read_bytes()
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    assert len(data) <= LARGEST
    width, height = struct.unpack(">II", data[16:24])
    return width, height


def test_every_picture_is_there_and_the_readme_shows_some() -> None:
    assert {f"{name}.png" for name in NAMES} <= {each.name for each in FOLDER.iterdir()}
    for picture in FOLDER.glob("*.png"):
        assert min(size_of(picture)) > 300
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = re.findall(r'<img src="docs/images/([a-z]+\.(?:png|gif))"[^>]* alt="[^"]{20,}">', readme)
    assert len(shown) >= 2
    assert all((FOLDER / name).is_file() for name in shown)


@pytest.mark.slow(
    "starts a server, a browser and a terminal; tests/server/inbox looks at the same pages, tests/cli at the terminal"
)
@pytest.mark.timeout(300)
def test_the_script_takes_them_again(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "scripts.pictures", str(tmp_path), "inbox", "terminal"],
        cwd=ROOT,
        check=True,
        timeout=280,
    )
    for name in ("inbox", "terminal"):
        assert min(size_of(tmp_path / f"{name}.png")) > 300

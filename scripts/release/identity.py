"""Who publishes a release: the address of the repository, the site, the authors, and where to report misconduct.

What stands in the files until somebody publishes is made up. `python -m scripts.release identity …` replaces it everywhere, and
`tag` refuses a release that still has it.
"""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
REPOSITORY = "handraise/handraise"
"""The made-up repository on GitHub."""
SITE = "handraise.github.io/handraise"
AUTHORS = "The maintainers of Handraise"
CONTACT = "conduct@handraise.example"
_NOT_FILLED = {"scripts/release/identity.py", "tests/release/test_identity.py"}
"""What is about it."""
_PLACED = re.compile(rf"((?:github|githubusercontent)\.com[/:]|ghcr\.io/|uses: ){REPOSITORY}\b")


@dataclass(frozen=True)
class Identity:
    """What takes the place of what is made up."""

    repository: str
    """`owner/name` on GitHub."""
    authors: str
    contact: str

    @property
    def site(self) -> str:
        """Where GitHub serves the pages of the repository."""
        owner, _, name = self.repository.partition("/")
        return f"{owner.lower()}.github.io/{name}"

    def faults(self) -> list[str]:
        """What cannot be published."""
        found = []
        if not re.fullmatch(r"[A-Za-z0-9-]+/[A-Za-z0-9._-]+", self.repository):
            found.append(f"{self.repository} is no repository on GitHub: write owner/name")
        if not self.authors.strip() or re.search(r'["\\\n]', self.authors):
            found.append(f"{self.authors!r} names no authors")
        if not re.fullmatch(r"[^@\s]+@[^@\s]+\.[^@\s]+", self.contact):
            found.append(f"{self.contact} is no e-mail address")
        return found

    def fill(self, text: str) -> str:
        """A text with these instead of what is made up."""
        text = text.replace(SITE, self.site).replace(CONTACT, self.contact).replace(AUTHORS, self.authors)
        return _PLACED.sub(lambda found: found[1] + self.repository, text)


def names_made_up(text: str) -> list[str]:
    """What of a text is made up."""
    found = [each for each in (SITE, AUTHORS, CONTACT) if each in text]
    return found + sorted({each[0] for each in _PLACED.finditer(text)})


def made_up_files(root: Path = ROOT) -> list[str]:
    """Every file of the repository that has something made up in it."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"],  # noqa: S607 -- as in any shell
        cwd=root,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split("\0")
    return [name for name in listed if name and name not in _NOT_FILLED and names_made_up(_text(root / name))]


def placeholder_faults(root: Path = ROOT) -> list[str]:
    """What is still made up, and where."""
    return [
        f"{name} still has {', '.join(names_made_up(_text(root / name)))}: "
        "python -m scripts.release identity OWNER/NAME AUTHORS E-MAIL"
        for name in made_up_files(root)
    ]


def fill_files(identity: Identity, root: Path = ROOT) -> list[str]:
    """Replace what is made up in every file; return the faults of the identity, with which nothing is changed."""
    if found := identity.faults():
        return found
    for name in made_up_files(root):
        (root / name).write_text(identity.fill(_text(root / name)), encoding="utf-8")
    return []


def _text(file: Path) -> str:
    """The text of a file; empty if it is a picture, a folder or a link."""
    try:
        return "" if file.is_symlink() else file.read_text(encoding="utf-8")
    except (UnicodeDecodeError, FileNotFoundError, IsADirectoryError):
        return ""

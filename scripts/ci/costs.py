"""What each test of a stage cost, as `recorder` wrote it. `python -m scripts.ci.costs STAGE` prints how many failed."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

FOLDER = Path(".cache/ci")


def read(stage: str) -> dict[str, dict[str, Any]]:
    """What each test of a stage cost; empty if the stage ran no tests."""
    path = FOLDER / f"{stage}.json"
    return dict(json.loads(path.read_text())) if path.exists() else {}


if __name__ == "__main__":
    print(sum(cost["failed"] for cost in read(sys.argv[1]).values()))

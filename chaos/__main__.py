"""`python -m chaos <name> …` runs one of the harnesses beside this file; each says what it takes with `--help`."""

from __future__ import annotations

import signal
import sys
from importlib import import_module

NAMES = ("kills", "faults", "failpoints", "model", "planted", "fuzzing", "release")


def main(arguments: list[str]) -> int:
    """Run the harness that is named first with the rest of the arguments; return its exit status."""
    if not arguments or arguments[0] not in NAMES:
        print(f"usage: python -m chaos {{{','.join(NAMES)}}} …", file=sys.stderr)
        return 2
    status: int = import_module(f"chaos.{arguments[0]}").main(arguments[1:])
    return status


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # stopping it leaves nothing behind
    sys.exit(main(sys.argv[1:]))

"""Moves a workspace and kills itself at a step: `shard_mover.py PLACEMENTS WORKSPACE TO STEP`."""

from __future__ import annotations

import asyncio
import os
import signal
import sys

from handraise.backends.shards import move_workspace


def main() -> None:
    placements, workspace, to, fatal = sys.argv[1:]

    def reached(step: str) -> None:
        if step == fatal:
            os.kill(os.getpid(), signal.SIGKILL)

    asyncio.run(move_workspace(placements, workspace, to=int(to), reached=reached))


if __name__ == "__main__":
    main()

"""Expressions that may take long, evaluated in a process of their own that the operating system ends in time.

CEL holds the lock of the interpreter while it runs, and a thread that runs it cannot be ended.
"""

from __future__ import annotations

import atexit
import json
import os
import select
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

DEADLINE = 0.05
"""For how many seconds of processor time the expressions of one question may run."""
_PATIENCE = 10.0
"""For how many seconds to wait for the process, which first has to start."""
_PROGRAM = "from handraise.policies.rule_worker import main; main()"


class RuleProcess:
    """One process for all policies of this one. It starts when it is needed first, and ends with this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = 0

    def evaluate(self, texts: Sequence[str], values: Mapping[str, Any]) -> list[bool | None] | None:
        """For each expression whether it is true, or None if it failed; only None if all together took too long."""
        request = json.dumps({"texts": texts, "values": values}, default=datetime.isoformat).encode() + b"\n"
        with self._lock:
            try:
                response = self._exchange(request)
            except OSError:
                response = b""
            if not response.endswith(
                b"\n"
            ):  # it is gone, or the machine is too busy: start another one next time
                self.close()
                return None
        results: list[bool | None] | None = json.loads(response)
        return results

    def _exchange(self, request: bytes) -> bytes:
        if self._process is None or self._owner != os.getpid():  # a fork shares no process with its parent
            self._process = _start()
            self._owner = os.getpid()
        requests, responses = self._process.stdin, self._process.stdout
        if requests is None or responses is None:
            raise OSError("the process has no pipes")
        requests.write(request)
        requests.flush()
        waiting = select.poll()
        waiting.register(responses, select.POLLIN)
        return responses.readline() if waiting.poll(_PATIENCE * 1_000) else b""

    def close(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is None or self._owner != os.getpid():
            return
        process.kill()
        process.communicate()


def _start() -> subprocess.Popen[bytes]:
    return subprocess.Popen(  # noqa: S603 -- this interpreter, with a program of ours
        [sys.executable, "-c", _PROGRAM],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )


RULES = RuleProcess()
atexit.register(RULES.close)

"""The program of the process in which rules that may take long are evaluated: see `RuleProcess`."""

from __future__ import annotations

import json
import os
import signal
import sys
from datetime import datetime

from handraise.policies.expressions import Expressions
from handraise.policies.rule_process import DEADLINE


def main() -> None:
    """Answer requests until there are no more, in a fork that the deadline ends and that is replaced then."""
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # of the terminal, meant for the process that started this one
    while True:
        child = os.fork()
        if child == 0:
            _answer_requests()
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if status == 0:
            return
        sys.stdout.buffer.write(b"null\n")
        sys.stdout.buffer.flush()


def _answer_requests() -> None:
    known: dict[tuple[str, ...], Expressions] = {}
    for line in iter(sys.stdin.buffer.readline, b""):
        request = json.loads(line)
        texts, values = tuple(request["texts"]), request["values"]
        if "now" in values:
            values["now"] = datetime.fromisoformat(values["now"])
        if texts not in known:
            known[texts] = Expressions(texts)
        signal.setitimer(signal.ITIMER_PROF, DEADLINE)  # its signal ends this process
        results = known[texts].evaluate_here(values)
        signal.setitimer(signal.ITIMER_PROF, 0)
        sys.stdout.buffer.write(json.dumps(results).encode() + b"\n")
        sys.stdout.buffer.flush()

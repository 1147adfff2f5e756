"""Python that is warm already: programs start in a fork of a process that has imported the library.

The command takes a second to import all it may need. Pages have some two hundred commands. Each of them is still a
process of its own, with its own environment, folder, input and output.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import runpy
import selectors
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

WARM = (
    *(f"handraise.cli.{module}" for module in ("inbox_command", "people_commands", "serve_command")),
    "handraise.client",
    "handraise.backends.postgres",
    "uvloop",
)
"""What takes its time to import."""

_CLIENT = """#!{python} -IS
import json, os, signal, socket, struct, sys
server = socket.socket(socket.AF_UNIX)
server.connect({place!r})
umask = os.umask(0)
os.umask(umask)
words = {before!r} + sys.argv[1:]
request = json.dumps([words, os.getcwd(), dict(os.environ), umask]).encode()
socket.send_fds(server, [struct.pack("I", len(request))], [0, 1, 2])
server.sendall(request)
pid = int(server.recv(20))
for each in (signal.SIGINT, signal.SIGTERM):
    signal.signal(each, lambda number, frame: os.kill(pid, number))
code = int(server.recv(20) or 1)
os._exit(code if code >= 0 else 128 - code)
"""


@contextlib.contextmanager
def warm_commands(folder: Path) -> Iterator[Path]:
    """A folder with `python` and `handraise` in it, for the path."""
    commands, place = folder / "bin", folder / "warm"
    commands.mkdir()
    for name, before in (("python", []), ("handraise", ["-m", "handraise"])):
        text = _CLIENT.format(python=Path(sys.executable).resolve(), place=str(place), before=before)
        (commands / name).write_text(text, encoding="utf-8")
        (commands / name).chmod(0o755)
    root = Path(__file__).resolve().parent.parent.parent
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.docs.warm", str(place)],
        cwd=root,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"warm\n"
        yield commands
    finally:
        process.terminate()
        process.communicate()


def main(place: str) -> None:
    """Be the process that is forked."""
    for each in WARM:
        importlib.import_module(each)
    # A server counts what is pending every 15 seconds: a page that shows the number would wait for that.
    vars(importlib.import_module("handraise.server.context"))["_QUEUE_STATS_EVERY"] = 0.5
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(place)
    listener.listen(64)
    print("warm", flush=True)
    gc.freeze()  # what is there already is looked at by nobody's collector
    words = _fork_for_each(listener)
    if words is not None:
        _become(words)


def _fork_for_each(listener: socket.socket) -> list[str] | None:
    """Serve until SIGTERM; in a child, the command line it is to run."""
    running: dict[int, socket.socket] = {}
    with selectors.DefaultSelector() as ready:
        ready.register(listener, selectors.EVENT_READ)
        stopped = False

        def stop(*_: object) -> None:
            nonlocal stopped
            stopped = True

        signal.signal(signal.SIGTERM, stop)
        while not stopped:
            for key, _ in ready.select(0.01):
                if key.fileobj is listener:
                    caller, _ = listener.accept()
                    asked = _receive(caller)
                    if asked is None:
                        caller.close()
                        continue
                    words, *place, handles = asked
                    pid = os.fork()
                    if pid == 0:
                        listener.close()
                        caller.close()
                        _settle_down(place[0], place[1], place[2], handles)
                        return list(words)
                    for each in handles:
                        os.close(each)
                    with contextlib.suppress(OSError):
                        caller.sendall(f"{pid:20}".encode())
                    running[pid] = caller
                    ready.register(caller, selectors.EVENT_READ, pid)
                else:  # whoever called is gone
                    ready.unregister(key.fileobj)
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(key.data, signal.SIGKILL)
            _bury(running, ready)
    for pid in running:
        os.kill(pid, signal.SIGKILL)
    return None


def _bury(running: dict[int, socket.socket], ready: selectors.BaseSelector) -> None:
    """Tell callers how those ended that have."""
    while running:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        caller = running.pop(pid)
        with contextlib.suppress(KeyError):
            ready.unregister(caller)
        with contextlib.suppress(OSError):
            caller.sendall(f"{os.waitstatus_to_exitcode(status):20}".encode())
        caller.close()


def _receive(caller: socket.socket) -> list[Any] | None:
    """What is to be run and where; None where the caller was killed before it could say so."""
    size, handles, _, _ = socket.recv_fds(caller, 4, 3)
    data = b""
    while len(data) < int.from_bytes(size, sys.byteorder):
        more = caller.recv(65_536)
        if not more:
            return None
        data += more
    return [*json.loads(data), handles] if data else None


def _settle_down(folder: str, environment: dict[str, str], umask: int, handles: list[int]) -> None:
    for number, handle in enumerate(handles):
        os.dup2(handle, number)
        os.close(handle)
    os.chdir(folder)
    os.umask(umask)
    os.environ.clear()
    os.environ.update(environment)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _become(words: list[str]) -> None:
    match words:
        case ["-m", module, *rest]:
            sys.argv = [module, *rest]
            sys.path[0] = str(Path.cwd())
            sys.path[1:1] = os.environ.get("PYTHONPATH", "").split(":")
            runpy.run_module(module, run_name="__main__", alter_sys=True)
        case [program, *rest] if not program.startswith("-"):
            sys.argv = [program, *rest]
            sys.path[0] = str(Path(program).resolve().parent)
            runpy.run_path(program, run_name="__main__")
        case _:
            os.execv(sys.executable, [sys.executable, *words])  # noqa: S606 -- as itself


if __name__ == "__main__":
    main(sys.argv[1])

"""Several worker processes behind one port. Each is a whole server, and this process starts, replaces and stops them."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from types import FrameType

from handraise.model.errors import UnsafeStore
from handraise.server.settings import ServerSettings

_log = logging.getLogger(__name__)

_PAUSE = 1.0
_FORWARDED = (signal.SIGINT, signal.SIGTERM)


def check_workers(settings: ServerSettings) -> None:
    """Raise `UnsafeStore` or `OSError` if several workers cannot serve with these settings."""
    if settings.url == "memory:":
        raise UnsafeStore(
            "Each worker would have its own questions: what is in memory: cannot be shared. Use --workers 1, or a store "
            "that processes share, such as HANDRAISE_URL=postgresql://…"
        )
    if not hasattr(os, "fork") or not hasattr(socket, "SO_REUSEPORT"):
        raise OSError(
            "This system cannot run several workers behind one port. Start several servers instead."
        )


class Supervisor:
    """Starts workers, and ends when they have.

    A worker that is killed is replaced. If one ends by itself, all are stopped: it would end like this again.
    SIGTERM and SIGINT go on to the workers, which stop gracefully. If this process is killed, they stop too.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self.number = 0
        """In a worker, which one it is."""
        self._workers: dict[int, int] = {}
        self._is_stopping = False
        # The workers read from it until this process ends, which closes the other end.
        self._ended, self._open_end = os.pipe()

    def run(self) -> int | None:
        """Return in each process: None in a worker, and the exit code here, once all workers have ended."""
        with self._forwarded_signals():
            return self._run()

    def _run(self) -> int | None:
        for number in range(self._count):
            if self._start(number):
                return None
        code = 0
        while self._workers:
            process, status = os.wait()
            worker = self._workers.pop(process, None)
            if worker is None:
                continue  # as the first process of a container, this one inherits orphans of others
            ended = os.waitstatus_to_exitcode(status)
            if self._is_stopping:
                code = code or max(ended, 0)
            elif ended < 0:
                _log.error(
                    "a worker was killed and is replaced",
                    extra={"event": "worker_replaced", "signal": -ended},
                )
                time.sleep(_PAUSE)
                if self._start(worker):
                    return None
            else:
                code = ended
                self._stop(signal.SIGTERM, None)
        return code

    def _start(self, number: int) -> bool:
        """Start a worker, unless all are stopping; whether this is the worker."""
        with _signals_held_back():
            if self._is_stopping:
                return False
            if process := os.fork():
                self._workers[process] = number
                return False
            self._workers.clear()
            for each in _FORWARDED:
                signal.signal(each, signal.SIG_DFL)
        self.number = number
        os.setpgid(0, 0)  # Ctrl+C reaches the supervisor alone, which passes it on
        os.close(self._open_end)
        threading.Thread(target=self._stop_with_supervisor, daemon=True, name="handraise worker").start()
        return True

    def _stop_with_supervisor(self) -> None:
        os.read(self._ended, 1)
        os.kill(os.getpid(), signal.SIGTERM)

    @contextlib.contextmanager
    def _forwarded_signals(self) -> Iterator[None]:
        before = {each: signal.signal(each, self._stop) for each in _FORWARDED}
        try:
            yield
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)

    def _stop(self, number: int, _: FrameType | None) -> None:
        self._is_stopping = True
        for process in list(self._workers):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, number)


@contextlib.contextmanager
def _signals_held_back() -> Iterator[None]:
    """Let no signal come between a fork and what both processes must note of it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _FORWARDED)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)

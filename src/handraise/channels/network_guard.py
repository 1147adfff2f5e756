"""Keeps a library that connects to given addresses from reaching what it must not.

Python reports every connection, program, thread and file beforehand. Inside `guarded`, what is not allowed is
refused at that moment: a name is not looked up twice, and a redirect leads nowhere else. Elsewhere nothing changes.
"""

from __future__ import annotations

import _thread
import contextlib
import ipaddress
import logging
import os
import sys
import sysconfig
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from handraise.channels.safe_http import IPNetwork, public_address, within_networks


class NotAllowed(PermissionError):
    """A guarded library wanted something that is not allowed. Libraries expect an `OSError` from their connections."""


@dataclass(slots=True)
class Guard:
    """What is allowed, and whether more was wanted."""

    networks: Sequence[IPNetwork]
    refused: bool = False


@contextlib.contextmanager
def guarded(networks: Sequence[IPNetwork]) -> Iterator[Guard]:
    """Allow what runs inside only the public network, these networks, and reading what belongs to Python.

    It also logs nothing: libraries write what they send, and where to, with its secrets.
    """
    _watch()
    guard = Guard(networks)
    token = _current.set(guard)
    try:
        yield guard
    finally:
        _current.reset(token)


def hush(*packages: str) -> None:
    """Let these packages log nothing while they are guarded. What they do elsewhere is logged as before."""
    names = [name for name in list(logging.root.manager.loggerDict) if name.partition(".")[0] in packages]
    for name in {*packages, *names}:
        logging.getLogger(name).addFilter(_unguarded)


_current: ContextVar[Guard | None] = ContextVar("handraise_guard", default=None)
_watched = False


def _unguarded(record: logging.LogRecord) -> bool:
    del record
    return _current.get() is None


def _watch() -> None:
    global _watched  # noqa: PLW0603 -- a process has one hook, which stays
    if not _watched:
        _watched = True
        sys.addaudithook(_hear)
        if sys.version_info < (3, 12):
            _tell_of_threads()


def _tell_of_threads() -> None:
    """Report threads before they start, which Python itself does since 3.12."""
    for module, name in (
        (_thread, "start_new_thread"),
        (_thread, "start_new"),
        (threading, "_start_new_thread"),
    ):
        setattr(module, name, _telling(getattr(module, name)))


def _telling(start: Callable[..., int]) -> Callable[..., int]:
    def start_new_thread(*args: Any, **named: Any) -> int:
        _hear("_thread.start_new_thread", args)
        return start(*args, **named)

    return start_new_thread


def _hear(event: str, args: tuple[Any, ...]) -> None:
    allows = _RULES.get(event)
    if allows is None:
        return
    guard = _current.get()
    if guard is not None and not allows(guard, args):
        guard.refused = True
        raise NotAllowed(f"{event} is not allowed here")


def _to_a_network(guard: Guard, args: tuple[Any, ...]) -> bool:
    """Whether a socket may be connected, or sent to: only by number, because a name could lead anywhere."""
    address = args[1]
    if address is None:
        return True
    try:
        host = address[0]
        ipaddress.ip_address(host.partition("%")[0])
    except (ValueError, TypeError, AttributeError, IndexError):
        return False
    return within_networks(host, guard.networks) or public_address(host)


def _of_python(guard: Guard, args: tuple[Any, ...]) -> bool:
    """Whether this reads a file that belongs to Python or to a package; a number is a file that is open already."""
    del guard
    path, mode, flags = args
    if isinstance(path, int):
        return True
    writes = any(each in (mode or "") for each in "wax+") or (flags or 0) & (os.O_WRONLY | os.O_RDWR)
    real = os.path.realpath(os.fsdecode(path))
    return not writes and real.startswith(_PYTHON)


def _never(guard: Guard, args: tuple[Any, ...]) -> bool:
    del guard, args
    return False


_PYTHON = tuple({os.path.realpath(each) + os.sep for each in sysconfig.get_paths().values()})
_RULES: Mapping[str, Callable[[Guard, tuple[Any, ...]], bool]] = {
    "socket.connect": _to_a_network,
    "socket.sendto": _to_a_network,
    "socket.sendmsg": _to_a_network,
    "open": _of_python,
    # A thread that a library starts would not be guarded.
    "_thread.start_new_thread": _never,
    "_thread.start_joinable_thread": _never,
    **dict.fromkeys(
        (
            "subprocess.Popen",
            "os.system",
            "os.exec",
            "os.fork",
            "os.forkpty",
            "os.posix_spawn",
            "os.spawn",
            "os.startfile",
            "os.remove",
            "os.rename",
            "os.mkdir",
            "os.rmdir",
            "os.link",
            "os.symlink",
            "sqlite3.connect",
        ),
        _never,
    ),
}

"""How many files and connections this process may have open: what everybody else's share is counted from."""

from __future__ import annotations

import contextlib

try:
    import resource
except ModuleNotFoundError:  # Windows has no such bound
    resource = None  # type: ignore[assignment]

_WITHOUT_BOUND = 1_000_000
_MOST_KEPT_BACK = 256


def raise_open_files() -> None:
    """Let this process have as many files open as it may; many systems begin with far fewer."""
    if resource is None:
        return
    with contextlib.suppress(OSError, ValueError):
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def most_connections() -> int:
    """The connections that this process can serve; the rest of its files is for the store and its own."""
    if resource is None:
        return _WITHOUT_BOUND
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = _WITHOUT_BOUND if soft == resource.RLIM_INFINITY else soft
    return files - min(files // 4, _MOST_KEPT_BACK)

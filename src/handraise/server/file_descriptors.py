"""How many files and connections this process may have open."""

from __future__ import annotations

import contextlib

try:
    import resource
except ModuleNotFoundError:  # Windows has no such bound
    resource = None  # type: ignore[assignment]

_WITHOUT_BOUND = 1_000_000
_MOST_KEPT_BACK = 256


def raise_open_file_limit() -> None:
    """Raise the limit of open files to the hard limit; many systems start with far fewer."""
    if resource is None:
        return
    with contextlib.suppress(OSError, ValueError):
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def max_connections() -> int:
    """The number of connections that this process can serve; the other files are for the store and itself."""
    if resource is None:
        return _WITHOUT_BOUND
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = _WITHOUT_BOUND if soft == resource.RLIM_INFINITY else soft
    return files - min(files // 4, _MOST_KEPT_BACK)

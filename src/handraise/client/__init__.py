"""The desk over HTTP: the same verbs, with a server in between."""

from handraise.model.errors import MissingExtra

try:
    import httpx2 as _httpx2  # noqa: F401 -- an extra: say which, once, here
except ImportError:
    raise MissingExtra("httpx2", "remote") from None

from handraise.client.remote_desk import RemoteDesk, open_remote

__all__ = ["RemoteDesk", "open_remote"]

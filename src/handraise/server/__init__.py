"""The desk as a service: HTTP API, live events, identities. `handraise serve` runs it.

`open_house` opens what a server works with, `create_app` makes the ASGI application around it.
"""

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from handraise.model.errors import MissingExtra

if find_spec("fastapi") is None:  # an extra: say which, once, here
    raise MissingExtra("FastAPI", "server")

from handraise.server.house import House, open_house
from handraise.server.settings import ServerSettings

if TYPE_CHECKING:
    from handraise.server.app import create_app

__all__ = ["House", "ServerSettings", "create_app", "open_house"]


def __getattr__(name: str) -> Any:
    """`create_app` when it is asked for: with FastAPI it takes most of a second to load, and commands do without it."""
    if name == "create_app":
        from handraise.server.app import create_app  # noqa: PLC0415

        return create_app
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

"""The desk as a service: HTTP API, live events, identities. `handraise serve` runs it.

`open_server` opens what a server works with, `create_app` makes the ASGI application around it.
"""

from handraise.model.errors import MissingExtra

try:
    import fastapi as _fastapi  # noqa: F401 -- an extra: say which, once, here
except ModuleNotFoundError as error:
    raise MissingExtra("FastAPI", "server") from error

from handraise.server.app import create_app
from handraise.server.context import ServerContext, open_server
from handraise.server.settings import ServerSettings

__all__ = ["ServerContext", "ServerSettings", "create_app", "open_server"]

"""The desk as a service: HTTP API, live events, identities. `handraise serve` runs it.

`open_house` opens what a server works with, `create_app` makes the ASGI application around it.
"""

from handraise.server.app import create_app
from handraise.server.house import House, open_house
from handraise.server.settings import ServerSettings

__all__ = ["House", "ServerSettings", "create_app", "open_house"]

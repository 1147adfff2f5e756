"""How clients reach the MCP server: over stdin and stdout, or over streamable HTTP."""

from __future__ import annotations

import hmac
import ipaddress
import socket
from collections.abc import Callable
from typing import Any

import uvicorn
from mcp.server import Server
from mcp.server.stdio import stdio_server
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from handraise.integrations.mcp.server import AskingServer

PATH = "/mcp"
_STOP_SECONDS = 3


async def serve_stdio(server: Server[Any]) -> None:
    """Serve the one client at stdin and stdout until it closes them."""
    async with stdio_server() as (reader, writer):
        await server.run(reader, writer, server.create_initialization_options())


def http_app(server: Server[Any], *, host: str = "127.0.0.1", token: str | None = None) -> ASGIApp:
    """The server over streamable HTTP, in both protocol versions, as an ASGI app at `/mcp`; `token` limits access.

    It needs a token if other machines can connect, or if a person may answer in the clients of the server.
    """
    person = server.person if isinstance(server, AskingServer) else None
    if token is None and person is not None:
        raise ValueError(
            f"Without a token, any program on this machine could ask and then answer as {person.responder.id}: "
            "set HANDRAISE_MCP_TOKEN, or leave out the person"
        )
    if token is None and not is_loopback(host):
        raise ValueError(
            f"Without a token, anyone who reaches {host} could ask in this agent's name: "
            "set HANDRAISE_MCP_TOKEN, or listen at 127.0.0.1"
        )
    app: ASGIApp = server.streamable_http_app(streamable_http_path=PATH, host=host)
    return app if token is None else _Guarded(app, token)


async def serve_http(
    server: Server[Any], *, host: str, port: int, token: str | None, listening: Callable[[str], None]
) -> None:
    """Serve clients over HTTP until a signal comes; `listening` is called with the address. Port 0 is a free one."""
    app = http_app(server, host=host, token=token)
    with socket.create_server((host, port), family=_family(host)) as listener:
        name = f"[{host}]" if ":" in host else host
        config = uvicorn.Config(
            app,
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=_STOP_SECONDS,
        )
        serving = _Serving(config, lambda: listening(f"http://{name}:{listener.getsockname()[1]}{PATH}"))
        await serving.serve([listener])


def is_loopback(host: str) -> bool:
    """Whether only this machine can connect there."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class _Serving(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, listening: Callable[[], None]) -> None:
        super().__init__(config)
        self._listening = listening

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept connections, and report the address."""
        await super().startup(sockets)
        if self.started:
            self._listening()


class _Guarded:
    """Rejects requests without the token."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._expected = f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            found = dict(scope["headers"]).get(b"authorization", b"")
            if not hmac.compare_digest(found, self._expected):
                refusal = PlainTextResponse(
                    "A token is needed.", status_code=401, headers={"www-authenticate": "Bearer"}
                )
                await refusal(scope, receive, send)
                return
        await self._app(scope, receive, send)


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET

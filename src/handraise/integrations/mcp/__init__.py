"""An MCP server: any MCP client can ask people, request approvals and collect the answers.

Needs `pip install "handraise[mcp]"`; `handraise mcp` runs it.
"""

try:
    from handraise.integrations.mcp.client_user import ClientPerson
    from handraise.integrations.mcp.server import mcp_server
    from handraise.integrations.mcp.transports import http_app, is_loopback, serve_http, serve_stdio
except ModuleNotFoundError as error:
    from handraise.errors import MissingExtra

    if (error.name or "").partition(".")[0] not in ("anyio", "mcp", "mcp_types", "starlette"):
        raise
    raise MissingExtra("mcp", "mcp") from error

__all__ = ["ClientPerson", "http_app", "is_loopback", "mcp_server", "serve_http", "serve_stdio"]

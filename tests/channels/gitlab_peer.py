"""A stand-in for GitLab on loopback: signed webhooks of external status checks, and the API that takes their results.

It refuses what GitLab refuses: another token, a check of another project, and a result for a commit that is not the head.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web

TOKEN, SECRET = "glpat-peer", "a shared secret of GitLab's peer"
DOCUMENTED = Path(__file__).parent / "documented_webhooks" / "gitlab_external_status_check.json"


@dataclass
class GitLabPeer:
    """What it was told, and which commit is the head of its merge request."""

    url: str = ""
    head: str = ""
    results: list[dict[str, Any]] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    def payload(self, *, sha: str | None = None, **changes: Any) -> dict[str, Any]:
        """The event of a merge request, as GitLab's documentation has it, with changes to the merge request."""
        event: dict[str, Any] = json.loads(DOCUMENTED.read_text(encoding="utf-8"))
        event["object_attributes"] |= changes
        if sha is not None:
            event["object_attributes"]["last_commit"] |= {"id": sha}
        self.head = event["object_attributes"]["last_commit"]["id"]
        return event

    async def _respond(self, request: web.Request) -> web.Response:
        if request.headers.get("private-token") != TOKEN:
            self.refused.append("another token")
            return web.json_response({"message": "401 Unauthorized"}, status=401)
        said = await request.json()
        if said.keys() != {"sha", "external_status_check_id", "status"} or said["status"] not in (
            "passed",
            "failed",
        ):
            self.refused.append("not what the API takes")
            return web.json_response({"error": "invalid"}, status=400)
        if said["external_status_check_id"] != 1:
            return web.json_response({"message": "404 Not found"}, status=404)
        if said["sha"] != self.head:
            return web.json_response({"message": "409 Conflict"}, status=409)
        self.results.append(said)
        return web.json_response({"id": 1, "merge_request": {}, "external_status_check": {}}, status=201)


def signed(event: dict[str, Any], *, secret: str = SECRET) -> dict[str, Any]:
    """The request with which GitLab tells a check of an event: its body and headers."""
    body = json.dumps(event).encode()
    signature = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    return {"content": body, "headers": {"content-type": "application/json", "x-gitlab-signature": signature}}


@asynccontextmanager
async def open_peer() -> AsyncIterator[GitLabPeer]:
    """GitLab on loopback, for as long as this context lasts."""
    peer, app = GitLabPeer(), web.Application()
    app.router.add_post(
        "/api/v4/projects/{project}/merge_requests/{number}/status_check_responses",
        peer._respond,  # noqa: SLF001 -- its own
    )
    runner = web.AppRunner(app, shutdown_timeout=1.0)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        host, port = runner.addresses[0][:2]
        peer.url = f"http://{host}:{port}"
        yield peer
        assert peer.refused == []
    finally:
        await runner.cleanup()

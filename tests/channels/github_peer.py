"""A stand-in for GitHub on loopback: signed webhooks of a GitHub App, installation tokens, and deployments that wait.

It refuses what GitHub refuses: a token of the app that is not signed with its key or lasts too long, a token of another
repository, and a second decision about the same deployment.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import time
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web
from joserfc import jwt
from joserfc.jwk import RSAKey

APP, SECRET, INSTALLATION = "Iv23liPeerPeerPeer", "a webhook secret of GitHub's peer", 2311213
REPOSITORY, RUN, ENVIRONMENT = "Codertocat/Hello-World", 4811011513, "production"
DOCUMENTED = Path(__file__).parent / "documented_webhooks" / "github_deployment_protection_rule.json"
KEY = RSAKey.generate_key(2048, {"kid": "app"}, private=True)
_LONGEST = 600


@dataclass
class GitHubPeer:
    """What it was told, and how it answers."""

    url: str = ""
    installations: dict[int, set[str]] = field(default_factory=lambda: {INSTALLATION: {"Hello-World"}})
    tokens: dict[str, set[str]] = field(default_factory=dict)
    waiting: set[tuple[str, str]] = field(default_factory=set)
    decided: list[dict[str, Any]] = field(default_factory=list)
    faults: deque[int] = field(default_factory=deque)
    """Statuses of the next answers to decisions; 0 decides, and loses the answer."""
    calls: int = 0
    refused: list[str] = field(default_factory=list)

    def payload(self, **changes: Any) -> dict[str, Any]:
        """The event of a deployment that waits, as GitHub documents it, with this peer's address."""
        event: dict[str, Any] = json.loads(
            DOCUMENTED.read_text(encoding="utf-8").replace("https://api.github.com", self.url)
        )
        event |= changes
        self.waiting.add((event["deployment_callback_url"], event["environment"]))
        return event

    def app(self) -> web.Application:
        app = web.Application()
        app.router.add_post("/app/installations/{id}/access_tokens", self._token)
        app.router.add_post(
            "/repos/{owner}/{name}/actions/runs/{run}/deployment_protection_rule", self._decide
        )
        return app

    async def _token(self, request: web.Request) -> web.Response:
        if problem := _app_problem(request.headers.get("authorization", "")):
            self.refused.append(problem)
            return web.json_response({"message": problem}, status=401)
        names = self.installations.get(int(request.match_info["id"]))
        if names is None:
            return web.json_response({"message": "Not Found"}, status=404)
        asked = await request.json()
        if not set(asked.get("repositories", ())) <= names or asked.get("permissions") != {
            "deployments": "write"
        }:
            return web.json_response(
                {"message": "There is at least one repository that does not exist"}, status=422
            )
        token = f"ghs_{secrets.token_urlsafe(27)}"
        self.tokens[token] = set(asked["repositories"])
        return web.json_response({"token": token, "expires_at": "2099-01-01T00:00:00Z"}, status=201)

    async def _decide(self, request: web.Request) -> web.Response:
        self.calls += 1
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme != "Bearer" or request.match_info["name"] not in self.tokens.get(token, ()):
            self.refused.append("a token of another repository")
            return web.json_response({"message": "Bad credentials"}, status=401)
        fault = self.faults.popleft() if self.faults else None
        if fault:
            return web.json_response({"message": "fault"}, status=fault)
        said = await request.json()
        place = (f"{self.url}{request.path}", said.get("environment_name"))
        if said.get("state") not in ("approved", "rejected") or place not in self.waiting:
            return web.json_response({"message": "does not wait"}, status=422)
        self.waiting.discard(place)
        self.decided.append(said)
        if fault == 0:
            assert request.transport is not None
            request.transport.abort()
        return web.Response(status=204)


def signed(
    event: dict[str, Any], *, secret: str = SECRET, kind: str = "deployment_protection_rule"
) -> dict[str, Any]:
    """The request with which GitHub tells an app of an event: its body and headers."""
    body = json.dumps(event).encode()
    return {
        "content": body,
        "headers": {
            "content-type": "application/json",
            "user-agent": "GitHub-Hookshot/044aadd",
            "x-github-delivery": "72d3162e-cc78-11e3-81ab-4c9367dc0958",
            "x-github-event": kind,
            "x-github-hook-installation-target-type": "integration",
            "x-hub-signature-256": f"sha256={hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()}",
        },
    }


def _app_problem(authorization: str) -> str | None:
    """Why GitHub does not take a token for one of the app's."""
    scheme, _, token = authorization.partition(" ")
    if scheme != "Bearer":
        return "no token"
    found = jwt.decode(token, KEY, algorithms=["RS256"])
    now, claims = time.time(), found.claims
    if claims["iss"] != APP or not claims["iat"] <= now < claims["exp"] or claims["exp"] > now + _LONGEST:
        return "the token of the app is for another one, or at another time"
    return None


@asynccontextmanager
async def open_peer() -> AsyncIterator[GitHubPeer]:
    """GitHub on loopback, for as long as this context lasts."""
    peer = GitHubPeer()
    runner = web.AppRunner(peer.app(), shutdown_timeout=1.0)
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

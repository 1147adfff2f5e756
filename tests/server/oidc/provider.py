"""A real OIDC provider on loopback that can be made to lie, and a browser in which somebody signs in with it."""

from __future__ import annotations

import base64
import hmac
import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import flask
import httpx2
import werkzeug.serving
from joserfc import jwt
from joserfc.jwk import RSAKey

CALLBACK = "/sign-in/oidc/callback"
CLIENT = "handraise"
WORKSPACE = "default"

Claims = dict[str, Any]
Forge = Callable[[Claims, dict[str, Any]], str]


@dataclass
class Provider:
    """The provider as a test sees it: what it was asked for its tokens, and how it is made to lie."""

    issuer: str
    asked: list[dict[str, str]] = field(default_factory=list)
    forge: Forge | None = None
    key: dict[str, Any] = field(default_factory=dict, repr=False)
    """The key that it signs with."""


@contextmanager
def running_provider() -> Iterator[Provider]:
    """The provider, in a thread of this process."""
    import oidc_provider_mock  # type: ignore[import-untyped]  # noqa: PLC0415 -- has no types; warns when imported

    app: flask.Flask = oidc_provider_mock.app(require_nonce=True)
    server = werkzeug.serving.make_server("localhost", 0, app, threaded=True)
    provider = Provider(f"http://localhost:{server.server_port}")

    @app.before_request
    def note() -> None:
        provider.key = flask.g.oidc_provider_mock_storage.jwk.as_dict(is_private=True)
        if flask.request.path == "/oauth2/token":
            provider.asked.append(flask.request.form.to_dict())

    @app.after_request
    def lie(response: flask.Response) -> flask.Response:
        if flask.request.path == "/oauth2/token" and provider.forge and response.status_code == 200:
            token = json.loads(response.get_data())
            payload = token["id_token"].split(".")[1]
            claims = json.loads(base64.urlsafe_b64decode(payload + "=="))
            key = flask.g.oidc_provider_mock_storage.jwk.as_dict(is_private=True)
            response.set_data(json.dumps({**token, "id_token": provider.forge(claims, key)}))
        return response

    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield provider
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class Browser:
    """Somebody's browser: it keeps cookies, and shows the provider who they are."""

    def __init__(self, address: str, provider: Provider) -> None:
        self.address = address
        self.provider = provider
        self.http = httpx2.AsyncClient(base_url=address, timeout=30)

    async def account(self, sub: str, **claims: Any) -> None:
        """Have an account at the provider."""
        put = await self.http.put(f"{self.provider.issuer}/users/{sub}", json=claims)
        assert put.status_code == 204

    async def authorize(self, sub: str) -> str:
        """Begin to sign in, say yes at the provider, and get where it sends the browser back to."""
        begun = await self.http.get("/sign-in/oidc")
        assert begun.status_code == 303
        agreed = await self.http.post(begun.headers["location"], data={"sub": sub})
        assert agreed.status_code == 302
        return agreed.headers["location"]

    async def press(self, page: httpx2.Response) -> httpx2.Response:
        """Press the button of the page that the browser was sent back to."""
        assert page.status_code == 200, page.text
        fields = dict(re.findall(r'name="(\w+)" value="([^"]*)"', page.text))
        return await self.finish(fields)

    async def finish(self, fields: dict[str, str]) -> httpx2.Response:
        return await self.http.post(CALLBACK, data=fields, headers={"origin": self.address})

    async def sign_in(self, sub: str) -> httpx2.Response:
        return await self.press(await self.http.get(await self.authorize(sub)))

    async def me(self) -> str | None:
        """As whom the browser is signed in."""
        found: str | None = (await self.http.get("/v1/me")).json().get("person")
        return found


def assert_refused(response: httpx2.Response, *, status: int = 403) -> None:
    assert (response.status_code, response.headers["content-type"]) == (status, "text/html; charset=utf-8")
    assert "handraise=hrs_" not in response.headers.get("set-cookie", "")


def signed(claims: Claims, key: dict[str, Any]) -> str:
    return jwt.encode({"alg": "RS256", "kid": key.get("kid")}, claims, RSAKey.import_key(key))


def changed(**changes: Any) -> Forge:
    """An ID token of the provider's with other claims; None takes one away."""

    def forge(claims: Claims, key: dict[str, Any]) -> str:
        whole = claims | changes
        return signed({name: whole[name] for name in whole if whole[name] is not None}, key)

    return forge


def unsigned_part(value: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


def signed_by_another(claims: Claims, key: dict[str, Any]) -> str:
    another = RSAKey.generate_key(2048, private=True)
    return jwt.encode({"alg": "RS256", "kid": key.get("kid")}, claims, another)


def signed_by_nobody(claims: Claims, _: dict[str, Any]) -> str:
    return f"{unsigned_part({'alg': 'none'})}.{unsigned_part(claims)}."


def signed_with_what_is_public(claims: Claims, key: dict[str, Any]) -> str:
    head = f"{unsigned_part({'alg': 'HS256', 'kid': key.get('kid')})}.{unsigned_part(claims)}"
    public = RSAKey.import_key(key).as_pem(private=False)
    mark = hmac.digest(public, head.encode(), "sha256")
    return f"{head}.{base64.urlsafe_b64encode(mark).decode().rstrip('=')}"

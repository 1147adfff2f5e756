"""The OIDC provider: authorization code with PKCE, state and nonce, and an ID token that is verified.

The state of one attempt to sign in is in a signed cookie of the browser that started it.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import re
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from typing import Any

from handraise.model.errors import MissingExtra, PermissionDenied
from handraise.model.json_values import canonical_json, text_problem
from handraise.model.people import responder_of
from handraise.server.settings import ServerSettings

try:
    import httpx2
    from authlib.integrations.base_client import OAuthError  # type: ignore[import-untyped]  # has no types
    from authlib.integrations.httpx_client import AsyncOAuth2Client  # type: ignore[import-untyped]  # has no types
    from authlib.oidc.core import CodeIDToken  # type: ignore[import-untyped]  # has no types
    from joserfc import jwt
    from joserfc.errors import JoseError
    from joserfc.jwk import KeySet, OctKey
except ImportError:
    raise MissingExtra("authlib", "oidc") from None

_log = logging.getLogger(__name__)

CALLBACK = "/sign-in/oidc/callback"
ATTEMPT_LASTS = 600
"""The seconds within which the browser must come back."""

_REQUIRED = {"authorization_endpoint", "token_endpoint", "jwks_uri"}
_DISCOVERY_LASTS = 600.0
_TIMEOUT = 10.0
_EMAIL = re.compile(r"[!-?A-~]+@[!-?A-~]+")
"""Plain ASCII: with similar letters, one person could sign in as another."""

_LEEWAY = 60
_LONGEST_NAME = 200
# Only algorithms that need the provider's private key: with the others, anybody who has a public text could sign.
_ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "Ed25519"]


@dataclass(frozen=True, slots=True)
class Attempt:
    """The secrets of one sign-in, which only the browser that started it can bring back."""

    state: str
    nonce: str = field(repr=False)
    verifier: str = field(repr=False)
    place: str = ""
    """The page that the person wanted."""


@dataclass(frozen=True, slots=True)
class Identity:
    """A person as the provider knows them. `id` is a digest of the provider's issuer and subject."""

    id: str
    email: str = field(repr=False)
    name: str = field(repr=False)


class SignInRefused(Exception):
    """The sign-in failed; the text is for the person."""


class ProviderUnavailable(Exception):
    """The provider cannot be reached or does not speak OIDC; the reason is in the log."""


class Provider:
    """The OIDC provider of the settings, which are valid."""

    def __init__(self, settings: ServerSettings) -> None:
        if settings.secret is None or settings.oidc_issuer is None:
            raise ValueError("Sign-in by OIDC needs HANDRAISE_SECRET and HANDRAISE_OIDC_ISSUER.")
        self._settings = settings
        self._issuer = settings.oidc_issuer.rstrip("/")
        self._keys = [
            OctKey.import_key(hashlib.sha256(b"an attempt to sign in\n" + secret).digest())
            for secret in settings.secret_keys
        ]
        self._tls = httpx2.create_ssl_context()  # reads every certificate: once, not for each sign-in
        self._discovered: tuple[float, dict[str, Any]] | None = None

    async def begin(self, place: str) -> tuple[str, str]:
        """Return the URL to send the browser to, and the cookie that it must bring back."""
        state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
        attempt = Attempt(state, nonce, verifier, place)
        with _translate_network_errors():
            async with self._client() as client:
                provider = await self._discover(client)
                url, _ = client.create_authorization_url(
                    provider["authorization_endpoint"],
                    state=attempt.state,
                    nonce=attempt.nonce,
                    code_verifier=attempt.verifier,
                )
        claims = {**asdict(attempt), "exp": int(time.time()) + ATTEMPT_LASTS}
        return url, jwt.encode({"alg": "HS256"}, claims, self._keys[0])

    def attempt(self, cookie: str, state: str) -> Attempt:
        """Read the attempt that this browser started, and check its state; raises `SignInRefused`."""
        for key in self._keys:
            with suppress(JoseError, ValueError):
                claims = jwt.decode(cookie, key, algorithms=["HS256"]).claims
                jwt.JWTClaimsRegistry(exp={"essential": True}).validate(claims)
                break
        else:
            raise SignInRefused("This browser did not start to sign in, or too long ago. Please start again.")
        if not hmac.compare_digest(claims["state"].encode(), state.encode()):
            raise SignInRefused("This is the answer to another attempt to sign in. Please start again.")
        place = claims.get("place", "")  # an older release began without one
        return Attempt(claims["state"], claims["nonce"], claims["verifier"], place)

    async def identify(self, attempt: Attempt, code: str) -> Identity:
        """Exchange the provider's code for the person's identity; raises `SignInRefused`."""
        try:
            with _translate_network_errors():
                async with self._client() as client:
                    claims = await self._exchange(client, attempt, code)
        except (OAuthError, JoseError, ValueError, KeyError, TypeError) as error:
            _log.warning("the OIDC provider's answer is not accepted: %s", error)
            raise SignInRefused("The provider's answer cannot be accepted. Please start again.") from None
        return _identity(claims, assume_verified=self._settings.oidc_assume_verified)

    async def _exchange(self, client: AsyncOAuth2Client, attempt: Attempt, code: str) -> dict[str, Any]:
        provider = await self._discover(client)
        methods = provider.get("token_endpoint_auth_methods_supported")
        if client.client_secret and methods and "client_secret_basic" not in methods:
            client.token_endpoint_auth_method = "client_secret_post"  # noqa: S105 -- the name of a method
        token = await client.fetch_token(
            provider["token_endpoint"], code=code, code_verifier=attempt.verifier
        )
        claims = await self._verify_id_token(client, provider, token, attempt.nonce)
        if {"email", "email_verified"} <= claims.keys() or "userinfo_endpoint" not in provider:
            return claims
        return {**await _user_info(client, provider, of=claims["sub"]), **claims}

    async def _discover(self, client: AsyncOAuth2Client) -> dict[str, Any]:
        if self._discovered is None or time.monotonic() - self._discovered[0] > _DISCOVERY_LASTS:
            found = await _json(client, f"{self._issuer}/.well-known/openid-configuration")
            if str(found.get("issuer")).rstrip("/") != self._issuer or not found.keys() >= _REQUIRED:
                _log.warning("%s does not describe an OIDC provider of that name", self._issuer)
                raise ProviderUnavailable
            self._discovered = (time.monotonic(), found)
        return self._discovered[1]

    async def _verify_id_token(
        self, client: AsyncOAuth2Client, provider: dict[str, Any], token: dict[str, Any], nonce: str
    ) -> dict[str, Any]:
        """Verify the ID token: this provider, this client, this attempt, not expired. Return its claims."""
        keys = KeySet.import_key_set(await _json(client, provider["jwks_uri"]))  # type: ignore[arg-type]  # its own type for JSON
        signed = jwt.decode(token["id_token"], keys, algorithms=_ALGORITHMS)
        client_id = self._settings.oidc_client_id
        claims = CodeIDToken(
            signed.claims,
            signed.header,
            {
                "iss": {"essential": True, "value": provider["issuer"]},
                "aud": {"essential": True, "value": client_id},
            },
            {"nonce": nonce, "client_id": client_id, "access_token": token.get("access_token")},
        )
        claims.validate(leeway=_LEEWAY)
        return dict(claims)

    def _client(self) -> AsyncOAuth2Client:
        secret = self._settings.oidc_client_secret
        return AsyncOAuth2Client(
            self._settings.oidc_client_id,
            secret.get_secret_value() if secret else None,
            redirect_uri=self._settings.base_url + CALLBACK,
            scope="openid email profile",
            code_challenge_method="S256",
            timeout=_TIMEOUT,
            verify=self._tls,
        )


@contextmanager
def _translate_network_errors() -> Iterator[None]:
    try:
        yield
    except httpx2.HTTPError as error:
        _log.warning("the OIDC provider cannot be reached: %s", error)
        raise ProviderUnavailable from None


async def _json(client: AsyncOAuth2Client, url: str) -> dict[str, Any]:
    response = await client.request("GET", url, withhold_token=True)
    response.raise_for_status()
    try:
        return dict(response.json())
    except (ValueError, TypeError):
        _log.warning("%s does not give an object", url)
        raise ProviderUnavailable from None


async def _user_info(client: AsyncOAuth2Client, provider: dict[str, Any], *, of: str) -> dict[str, Any]:
    """Read the provider's user info, which adds to the ID token."""
    response = await client.get(provider["userinfo_endpoint"])
    response.raise_for_status()
    found: dict[str, Any] = response.json()
    if found["sub"] != of:
        raise ValueError("its user info is about somebody else")
    return found


def _identity(claims: dict[str, Any], *, assume_verified: bool) -> Identity:
    email, name = claims.get("email"), claims.get("name")
    if not isinstance(email, str) or not _EMAIL.fullmatch(email):
        raise SignInRefused("The provider did not tell us your e-mail address.")
    if claims.get("email_verified", assume_verified) not in (True, "true"):
        if "email_verified" not in claims:
            _log.warning(
                "the OIDC provider does not say whether e-mail addresses are verified; if it verifies all of them, "
                "set HANDRAISE_OIDC_ASSUME_VERIFIED=true"
            )
            raise SignInRefused("The provider does not say whether your e-mail address is verified.")
        raise SignInRefused("Your e-mail address is not verified there. Verify it and start again.")
    try:
        responder_of(email.lower())
    except PermissionDenied as refusal:
        raise SignInRefused(f"We cannot use your e-mail address: {refusal.reason}.") from None
    usable = isinstance(name, str) and name.strip() and not text_problem(name)
    account = hashlib.sha256(canonical_json([claims["iss"], claims["sub"]]).encode()).hexdigest()
    return Identity(id=account, email=email, name=str(name)[:_LONGEST_NAME] if usable else email)

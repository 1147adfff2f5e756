"""The OIDC provider: authorization code with PKCE, state and nonce, and tokens that are verified.

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
from dataclasses import asdict, dataclass, field, replace
from datetime import timedelta
from typing import Any, TypeGuard

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

BEGIN = "/sign-in/oidc"
CALLBACK = BEGIN + "/callback"
ATTEMPT_LASTS = 600
"""The seconds within which the browser must come back."""

_REQUIRED = {"authorization_endpoint", "token_endpoint", "jwks_uri"}
_DISCOVERY_LASTS = 600.0
_TIMEOUT = 10.0
_EMAIL = re.compile(r"[!-?A-~]+@[!-?A-~]+")
"""Plain ASCII: with similar letters, one person could sign in as another."""

_LEEWAY = 60
_LOGOUT_LASTS = 600.0
"""How many seconds ago a logout token may have been issued: as long as its id is remembered, and shorter."""
_LOGOUT_EVENT = "http://schemas.openid.net/event/backchannel-logout"
_LOGOUT_TYPES = {"jwt", "logout+jwt"}
_KEYS_REST = 10.0
"""For so many seconds, an unknown signature does not make this server read the provider's keys again."""
_LONGEST_ID = 1_000
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
    again_since: int | None = None
    """The second since which they must have signed in at the provider again; None if that is not asked."""


@dataclass(frozen=True, slots=True)
class Identity:
    """A person as the provider knows them. `id` is a digest of the provider's issuer and subject.

    `provider_session` is a digest of the provider's session. `lasts` is for how long the provider's word counts.
    """

    id: str
    email: str = field(repr=False)
    name: str = field(repr=False)
    groups: frozenset[str] = frozenset()
    is_admin: bool = False
    provider_session: str | None = None
    lasts: timedelta | None = None


@dataclass(frozen=True, slots=True)
class LogoutToken:
    """What the provider says has ended: one of its sessions, or all of a person. `id` distinguishes it from all others."""

    id: str
    identity: str | None
    provider_session: str | None


class SignInRefused(Exception):
    """The sign-in failed; the text is for the person."""


class SignInTooOld(SignInRefused):
    """The person signed in at the provider too long ago, and must do so again."""


class LogoutRefused(Exception):
    """A logout token is not valid; the text is for the provider's operator."""


class ProviderUnavailable(Exception):
    """The provider cannot be reached or does not speak OIDC; the text is for the operator, and in the log."""


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
        self._logout_keys: tuple[float, KeySet] | None = None

    async def check(self) -> None:
        """Ask the provider to describe itself; raises `ProviderUnavailable` with the reason."""
        with _translate_network_errors():
            async with self._client() as client:
                await self._discover(client)

    async def begin(self, place: str, *, again: bool) -> tuple[str, str]:
        """Return the URL to send the browser to, and the cookie that it must bring back.

        With `again`, the provider asks the person who they are even if it knows.
        """
        state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
        attempt = Attempt(state, nonce, verifier, place, int(time.time()) if again else None)
        asked = {"prompt": "login"} if again else {}
        if self._max_age is not None:
            asked["max_age"] = str(self._max_age)
        with _translate_network_errors():
            async with self._client() as client:
                provider = await self._discover(client)
                url, _ = client.create_authorization_url(
                    provider["authorization_endpoint"],
                    state=attempt.state,
                    nonce=attempt.nonce,
                    code_verifier=attempt.verifier,
                    **asked,
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
        return Attempt(claims["state"], claims["nonce"], claims["verifier"], place, claims.get("again_since"))

    async def identify(self, attempt: Attempt, code: str) -> Identity:
        """Exchange the provider's code for the person's identity; raises `SignInRefused`."""
        try:
            with _translate_network_errors():
                async with self._client() as client:
                    claims = await self._exchange(client, attempt, code)
        except (OAuthError, JoseError, ValueError, KeyError, TypeError) as error:
            _log.warning(
                "the OIDC provider's answer is not accepted: %s", error, extra={"event": "oidc_refused"}
            )
            raise SignInRefused("The provider's answer cannot be accepted. Please start again.") from None
        lasts = self._remaining(claims, attempt)
        return replace(_identity(claims, self._settings), lasts=lasts)

    async def verify_logout(self, text: str) -> LogoutToken:
        """Verify a logout token of OpenID Connect Back-Channel Logout 1.0; raises `LogoutRefused`."""
        try:
            with _translate_network_errors():
                async with self._client() as client:
                    provider = await self._discover(client)
                    claims = await self._decode_logout(client, provider, text)
        except (JoseError, ValueError, KeyError, TypeError) as error:
            raise LogoutRefused(f"the logout token is not signed by {self._issuer}: {error}") from None
        return _logout(claims, provider["issuer"], self._settings.oidc_client_id)

    async def _decode_logout(
        self, client: AsyncOAuth2Client, provider: dict[str, Any], text: str
    ) -> dict[str, Any]:
        """The claims of a logout token that is signed by this provider.

        Anybody can send one, so the provider is not asked for its keys each time.
        """
        known, now = self._logout_keys, time.monotonic()
        if known is not None:
            try:
                return _signed_claims(text, known[1])
            except (JoseError, ValueError):
                if now - known[0] < _KEYS_REST:
                    raise
        keys = KeySet.import_key_set(await _json(client, provider["jwks_uri"]))  # type: ignore[arg-type]  # its own type for JSON
        self._logout_keys = (now, keys)
        return _signed_claims(text, keys)

    @property
    def _max_age(self) -> int | None:
        """How many seconds ago a person may have signed in at the provider."""
        hours = self._settings.oidc_max_age_hours
        return None if hours is None else max(1, int(hours * 3_600))

    def _remaining(self, claims: dict[str, Any], attempt: Attempt) -> timedelta | None:
        """For how long the person need not sign in at the provider again; None for any time."""
        if self._max_age is None and attempt.again_since is None:
            return None
        signed_in, now = claims.get("auth_time"), time.time()
        if isinstance(signed_in, bool) or not isinstance(signed_in, int | float):
            _log.warning(
                "the OIDC provider does not say when a person signed in there (auth_time), so "
                "HANDRAISE_OIDC_MAX_AGE_HOURS cannot be kept: let it send that claim, or unset the setting",
                extra={"event": "oidc_time_missing"},
            )
            raise SignInRefused("The provider does not say when you signed in there.")
        since = 0.0 if attempt.again_since is None else attempt.again_since - _LEEWAY
        if self._max_age is not None:
            since = max(since, now - self._max_age - _LEEWAY)
        if not since <= signed_in <= now + _LEEWAY:
            if attempt.again_since is not None:
                raise SignInRefused("The provider did not ask you to sign in again, as it should.")
            raise SignInTooOld("You signed in at the provider too long ago. Sign in there again.")
        if self._max_age is None:
            return None
        return timedelta(seconds=max(1.0, signed_in + self._max_age - now))

    async def _exchange(self, client: AsyncOAuth2Client, attempt: Attempt, code: str) -> dict[str, Any]:
        provider = await self._discover(client)
        methods = provider.get("token_endpoint_auth_methods_supported")
        if client.client_secret and methods and "client_secret_basic" not in methods:
            client.token_endpoint_auth_method = "client_secret_post"  # noqa: S105 -- the name of a method
        token = await client.fetch_token(
            provider["token_endpoint"], code=code, code_verifier=attempt.verifier
        )
        claims = await self._verify_id_token(client, provider, token, attempt.nonce)
        wanted = {"email", "email_verified"}
        if self._settings.oidc_groups_claim and not _is_overage(claims, self._settings.oidc_groups_claim):
            wanted.add(self._settings.oidc_groups_claim)
        if wanted <= claims.keys() or "userinfo_endpoint" not in provider:
            return claims
        return {**await _user_info(client, provider, of=claims["sub"]), **claims}

    async def _discover(self, client: AsyncOAuth2Client) -> dict[str, Any]:
        if self._discovered is None or time.monotonic() - self._discovered[0] > _DISCOVERY_LASTS:
            found = await _json(client, f"{self._issuer}/.well-known/openid-configuration")
            if str(found.get("issuer")).rstrip("/") != self._issuer or not found.keys() >= _REQUIRED:
                raise _unavailable(f"{self._issuer} does not describe an OIDC provider of that name")
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
            scope=self._settings.oidc_scopes,
            code_challenge_method="S256",
            timeout=_TIMEOUT,
            verify=self._tls,
        )


@contextmanager
def _translate_network_errors() -> Iterator[None]:
    try:
        yield
    except httpx2.HTTPError as error:
        raise _unavailable(f"the OIDC provider cannot be reached: {error}") from None


def _unavailable(problem: str) -> ProviderUnavailable:
    _log.warning("%s", problem, extra={"event": "oidc_unavailable"})
    return ProviderUnavailable(problem)


async def _json(client: AsyncOAuth2Client, url: str) -> dict[str, Any]:
    response = await client.request("GET", url, withhold_token=True)
    response.raise_for_status()
    try:
        return dict(response.json())
    except (ValueError, TypeError):
        raise _unavailable(f"{url} does not give an object") from None


async def _user_info(client: AsyncOAuth2Client, provider: dict[str, Any], *, of: str) -> dict[str, Any]:
    """Read the provider's user info, which adds to the ID token."""
    response = await client.get(provider["userinfo_endpoint"])
    response.raise_for_status()
    found: dict[str, Any] = response.json()
    if found["sub"] != of:
        raise ValueError("its user info is about somebody else")
    return found


def _signed_claims(text: str, keys: KeySet) -> dict[str, Any]:
    """The claims of a token that one of these keys signed."""
    token = jwt.decode(text, keys, algorithms=_ALGORITHMS)
    if str(token.header.get("typ", "JWT")).lower().removeprefix("application/") not in _LOGOUT_TYPES:
        raise ValueError("its type is that of another token")
    return dict(token.claims)


def _logout(claims: dict[str, Any], issuer: str, client_id: str | None) -> LogoutToken:
    """Check the claims of a logout token; raises `LogoutRefused` with what is wrong."""
    now, audience, events = time.time(), claims.get("aud"), claims.get("events")
    issued, expires = claims.get("iat"), claims.get("exp", now)
    subject, session, number = (claims.get(name) for name in ("sub", "sid", "jti"))
    problem = None
    if claims.get("iss") != issuer:
        problem = "its issuer (iss) is another one"
    elif client_id not in (audience if isinstance(audience, list) else [audience]):
        problem = "it is for another client (aud)"
    elif not _is_time(issued) or not now - _LOGOUT_LASTS <= issued <= now + _LEEWAY:
        problem = "it was not issued (iat) just now"
    elif not _is_time(expires) or expires < now - _LEEWAY:
        problem = "it has expired (exp)"
    elif not _is_id(number):
        problem = "it has no id (jti)"
    elif not isinstance(events, dict) or not isinstance(events.get(_LOGOUT_EVENT), dict):
        problem = "it is not about a logout (events)"
    elif "nonce" in claims:
        problem = "it has a nonce, as only ID tokens have"
    elif not (_is_id(subject) or _is_id(session)):
        problem = "it names neither a person (sub) nor a session (sid)"
    elif any(name in claims and not _is_id(claims[name]) for name in ("sub", "sid")):
        problem = "its sub or sid is not a text"
    if problem is not None:
        raise LogoutRefused(f"the logout token is refused: {problem}")
    return LogoutToken(
        _digest(issuer, str(number)),
        None if subject is None else _digest(issuer, str(subject)),
        None if session is None else _digest(issuer, "session", str(session)),
    )


def _is_time(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_id(value: Any) -> TypeGuard[str]:
    return isinstance(value, str) and 0 < len(value) <= _LONGEST_ID


def _digest(*parts: str) -> str:
    return hashlib.sha256(canonical_json(list(parts)).encode()).hexdigest()


def _is_overage(claims: dict[str, Any], claim: str) -> bool:
    """Whether the provider left the groups out because there are too many, as Entra ID does above 200."""
    elsewhere = claims.get("_claim_names")
    return bool(claims.get("hasgroups")) or (isinstance(elsewhere, dict) and claim in elsewhere)


def _groups(claims: dict[str, Any], claim: str | None) -> frozenset[str]:
    """The person's groups at the provider; none if it lists none."""
    if claim is None:
        return frozenset()
    found = claims.get(claim)
    if found is None and _is_overage(claims, claim):
        _log.warning(
            "the OIDC provider does not list the groups of a person, because they are in too many: let it send only the groups "
            "that are assigned to this application",
            extra={"event": "oidc_groups_missing"},
        )
        raise SignInRefused(
            "You are in too many groups, so the provider does not list them. Ask an administrator to let it send only those "
            "that matter here."
        )
    groups = [] if found is None else [found] if isinstance(found, str) else found
    if not isinstance(groups, list) or not all(isinstance(each, str) for each in groups):
        _log.warning(
            "the claim %s of the OIDC provider is not a list of texts",
            claim,
            extra={"event": "oidc_groups_missing"},
        )
        raise SignInRefused("The provider's list of your groups cannot be read.")
    return frozenset(groups)


def _identity(claims: dict[str, Any], settings: ServerSettings) -> Identity:
    assume_verified = settings.oidc_assume_verified
    email, name = claims.get("email"), claims.get("name")
    if not isinstance(email, str) or not _EMAIL.fullmatch(email):
        raise SignInRefused("The provider did not tell us your e-mail address.")
    if claims.get("email_verified", assume_verified) not in (True, "true"):
        if "email_verified" not in claims:
            _log.warning(
                "the OIDC provider does not say whether e-mail addresses are verified; if it verifies all of them, "
                "set HANDRAISE_OIDC_ASSUME_VERIFIED=true",
                extra={"event": "oidc_mail_unverified"},
            )
            raise SignInRefused("The provider does not say whether your e-mail address is verified.")
        raise SignInRefused("Your e-mail address is not verified there. Verify it and start again.")
    try:
        responder_of(email.lower())
    except PermissionDenied as refusal:
        raise SignInRefused(f"We cannot use your e-mail address: {refusal.reason}.") from None
    usable = isinstance(name, str) and name.strip() and not text_problem(name)
    theirs, session = _groups(claims, settings.oidc_groups_claim), claims.get("sid")
    return Identity(
        id=_digest(claims["iss"], claims["sub"]),
        email=email,
        name=str(name)[:_LONGEST_NAME] if usable else email,
        groups=frozenset(ours for each, ours in settings.oidc_groups.items() if each in theirs),
        is_admin=settings.is_admin_email(email) or not theirs.isdisjoint(settings.oidc_admin_groups),
        provider_session=_digest(claims["iss"], "session", session) if _is_id(session) else None,
    )

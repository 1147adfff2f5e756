"""Whether a request comes from Microsoft: a token in its header, signed with a key that Microsoft publishes.

The token says who calls whom and for which connector. It does not say what: the body is not signed.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import time
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

from handraise.channels.chat_channel import NotGenuine
from handraise.model.errors import MissingExtra
from handraise.ports.channel import NotSent

try:
    import httpx2
    from joserfc import jwt
    from joserfc.errors import JoseError
    from joserfc.jwk import RSAKey
    from joserfc.jws import extract_compact
except ImportError as error:
    raise MissingExtra(error.name or "joserfc", "teams") from error

_log = logging.getLogger(__name__)

_SKEW = 300
_LASTS = 86_400.0
_OLDEST = 3 * _LASTS
"""How old keys may become if no others can be fetched: one that Microsoft has given up must not work forever."""
_PAUSE = 10.0
"""The seconds between two looks at the keys, however many tokens name one that we do not know."""
_LONGEST = 16_000
_MOST_KEYS = 100
_ALGORITHM = "RS256"
_SMALLEST_KEY = 2_048
_SPEAKS_FOR = "msteams"
"""What Microsoft calls Teams among all the places that bots can be in."""


class Tokens:
    """Reads tokens of requests to us. The keys are fetched when they are needed, and kept for a day."""

    def __init__(
        self,
        client: httpx2.AsyncClient,
        *,
        audience: str,
        issuer: str,
        metadata_url: str,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._client = client
        self._audience = audience
        self._issuer = issuer
        self._metadata_url = metadata_url
        self._clock = clock
        self._now = now
        self._keys: Mapping[str, tuple[RSAKey, frozenset[str] | None]] = {}
        self._fetched: float | None = None
        self._looked: float | None = None
        self._looking = asyncio.Lock()

    async def check(self, authorization: str | None, activity: Mapping[str, Any]) -> None:
        """Raise `NotGenuine` unless Microsoft made this token for us, and for where the activity came from.

        Raises `NotSent` if the keys cannot be fetched.
        """
        scheme, _, token = (authorization or "").partition(" ")
        if scheme.lower() != "bearer" or not token.isascii() or not 0 < len(token) <= _LONGEST:
            raise NotGenuine
        key, channels = await self._key(_key_id(token))
        try:
            claims = jwt.decode(token, key, algorithms=[_ALGORITHM]).claims
        except (JoseError, ValueError, TypeError, RecursionError):
            raise NotGenuine from None
        service = claims.get("serviceurl", claims.get("serviceUrl"))
        if not (
            _is(claims.get("iss"), self._issuer)
            and _is(claims.get("aud"), self._audience)
            and self._is_time(claims)
            and _is(service, activity.get("serviceUrl"))
            and activity.get("channelId") == _SPEAKS_FOR
            and (channels is None or _SPEAKS_FOR in channels)
        ):
            raise NotGenuine

    def _is_time(self, claims: Mapping[str, Any]) -> bool:
        match claims.get("nbf", 0), claims.get("exp"):
            case int() | float() as begins, int() | float() as ends:
                return begins - _SKEW <= self._now() < ends + _SKEW
            case _:
                return False

    async def _key(self, name: str) -> tuple[RSAKey, frozenset[str] | None]:
        if self._fetched is None or self._clock() - self._fetched > _LASTS or name not in self._keys:
            async with self._looking:
                await self._look(name)
        if self._fetched is None or self._clock() - self._fetched > _OLDEST:
            raise NotSent("the keys of Microsoft cannot be had")
        if name not in self._keys:
            raise NotGenuine
        return self._keys[name]

    async def _look(self, name: str) -> None:
        """Fetch the keys, unless somebody else just has; if that fails, those that we have stay."""
        old = self._fetched is None or self._clock() - self._fetched > _LASTS
        soon = self._looked is not None and self._clock() - self._looked < _PAUSE
        if soon or (name in self._keys and not old):
            return
        self._looked = self._clock()
        try:
            metadata = await self._json(self._metadata_url)
            self._keys = _keys_in(await self._json(_address_in(metadata, like=self._metadata_url)))
        except (httpx2.HTTPError, httpx2.InvalidURL, ValueError) as error:
            _log.warning(
                "the keys of Microsoft cannot be had (%s)",
                type(error).__name__,
                extra={"event": "channel_unreachable"},
            )
            return
        self._fetched = self._clock()

    async def _json(self, url: str) -> dict[str, Any]:
        answer = await self._client.get(url)
        answer.raise_for_status()
        found = answer.json()
        if not isinstance(found, dict):
            raise ValueError("no object")  # noqa: TRY004 -- as for any other text that is not what it should be
        return found


def _key_id(token: str) -> str:
    """The name of the key that a token says it was signed with."""
    try:
        header = extract_compact(token.encode()).headers()
    except (JoseError, ValueError, TypeError, RecursionError):
        raise NotGenuine from None
    name = header.get("kid")
    if header.get("alg") != _ALGORITHM or not isinstance(name, str):
        raise NotGenuine
    return name


def _address_in(metadata: Mapping[str, Any], *, like: str) -> str:
    """Where the keys are: over TLS, unless even the metadata is not."""
    uri = metadata.get("jwks_uri")
    if not isinstance(uri, str) or urlsplit(uri).scheme != urlsplit(like).scheme:
        raise ValueError("no keys")
    return uri


def _keys_in(found: Mapping[str, Any]) -> dict[str, tuple[RSAKey, frozenset[str] | None]]:
    """The keys by their names, each with the channels that it may speak for, if it says so."""
    listed = found.get("keys")
    if not isinstance(listed, list) or not listed:
        raise ValueError("no keys")
    keys: dict[str, tuple[RSAKey, frozenset[str] | None]] = {}
    for each in listed[:_MOST_KEYS]:
        if not isinstance(each, dict) or each.get("kty") != "RSA" or not isinstance(each.get("kid"), str):
            continue
        try:
            key = RSAKey.import_key({part: each[part] for part in ("kty", "n", "e")})
        except (JoseError, ValueError, TypeError, KeyError):
            continue
        if key.public_key.key_size < _SMALLEST_KEY:
            continue
        channels = each.get("endorsements")
        keys[each["kid"]] = (key, frozenset(map(str, channels)) if isinstance(channels, list) else None)
    return keys


def _is(given: object, expected: object) -> bool:
    return (
        isinstance(given, str)
        and isinstance(expected, str)
        and hmac.compare_digest(given.encode(errors="replace"), expected.encode(errors="replace"))
    )

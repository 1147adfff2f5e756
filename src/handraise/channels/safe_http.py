"""Calls to addresses that somebody in a workspace gave: only the public network, and what the operator names besides.

A name is looked up once for a connection, and the connection goes to the address that was checked: there is no second
look that could find another address. Redirects are not followed, and proxies of the environment are not used.
"""

from __future__ import annotations

import asyncio
import email.utils
import ipaddress
import re
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias

from handraise.model.errors import MissingExtra
from handraise.ports.channel import NotSent

try:
    import httpcore2
    import httpx2
except ImportError as error:
    raise MissingExtra("httpx2", "server") from error

URL: TypeAlias = httpx2.URL
IPAddress: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
IPNetwork: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network
Resolve: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]
"""Gives the network addresses of a host."""

_UNICAST = ipaddress.IPv6Network("2000::/3")
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_TUNNELS = tuple(map(ipaddress.IPv6Network, ("2001::/32", "2002::/16")))
"""Teredo and 6to4: each of their addresses hides an IPv4 address."""
_SPECIAL = tuple(map(ipaddress.IPv4Network, ("192.0.0.0/24", "192.88.99.0/24")))
"""Addresses of protocols and relays, which some releases of Python consider public."""
_V4_BITS = 0xFFFF_FFFF
_LONGEST_URL = 2_000
_LAST_PORT = 65_535
_CONNECT_WITHIN = 5.0
_WITHIN = 15.0
_MOST_READ = 4_096
_LOOK_UPS = 64
_A_WHILE = timedelta(hours=1)
_LONGEST_WAIT = timedelta(days=1)
_SECONDS = re.compile(r"[0-9]{1,12}(\.[0-9]{1,6})?", re.ASCII)


def public_address(text: str) -> bool:
    """Whether this is an address of the public network, also if it is inside an IPv6 address."""
    address = _plain(ipaddress.ip_address(text.partition("%")[0]))
    if isinstance(address, ipaddress.IPv6Address) and (
        address not in _UNICAST or any(address in tunnel for tunnel in _TUNNELS)
    ):
        return False
    special = any(address in network for network in _SPECIAL)
    return address.is_global and not address.is_multicast and not special


def within_networks(text: str, networks: Iterable[IPNetwork]) -> bool:
    """Whether an address is in one of these networks."""
    address = _plain(ipaddress.ip_address(text.partition("%")[0]))
    return any(address in network for network in networks)


def read_url(text: object, allowed: Sequence[IPNetwork]) -> URL | None:
    """The address of somebody's system, or None if it makes no sense or could never be called.

    Only https, and http if the operator names networks. Where a name leads is checked when it is called. Any port
    will do: a server that does not speak TLS under a trusted name gets nothing from us.
    """
    if not isinstance(text, str) or not 1 <= len(text) <= _LONGEST_URL or not text.isprintable():
        return None
    try:
        url = URL(text)
    except (httpx2.InvalidURL, ValueError):
        return None
    schemes = ("https", "http") if allowed else ("https",)
    if url.port is not None and not 0 < url.port <= _LAST_PORT:
        return None
    if url.scheme not in schemes or not url.host or url.userinfo or url.fragment or " " in text:
        return None
    try:
        ipaddress.ip_address(url.host.partition("%")[0])
    except ValueError:
        return url
    return url if _may_call(url.host, allowed, named_only=url.scheme == "http") else None


def place_of(url: URL) -> str:
    """The host and port of an address: what is slow or down together."""
    return f"{url.host.lower()}:{url.port or (443 if url.scheme == 'https' else 80)}"


def asked_to_wait(retry_after: str | None, now: float) -> timedelta | None:
    """How long a `Retry-After` asks to wait, up to a limit."""
    if retry_after is None:
        return None
    if _SECONDS.fullmatch(retry_after):
        return min(timedelta(seconds=float(retry_after)), _LONGEST_WAIT)
    try:
        until = email.utils.parsedate_to_datetime(retry_after)
    except ValueError:
        return None
    wait = until.replace(tzinfo=until.tzinfo or UTC) - datetime.fromtimestamp(now, UTC)
    return min(max(wait, timedelta()), _LONGEST_WAIT)


@dataclass(frozen=True, slots=True)
class Answered:
    """How a system answered a call, and as much of the body as was asked for."""

    status: int
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(default=b"", repr=False)


class SafeHttpClient:
    """Calls what may be called."""

    def __init__(self, pools: Mapping[str, httpcore2.AsyncConnectionPool], *, within: float) -> None:
        self._pools = pools
        self._within = within

    async def post(self, url: URL, *, headers: Mapping[str, str], content: bytes, keep: int = 0) -> Answered:
        """Post something; raises `NotSent` if no answer came. `keep` is how many bytes of the body are wanted."""
        return await self._call("POST", url, headers=headers, content=content, keep=keep)

    async def get(self, url: URL, *, headers: Mapping[str, str], keep: int) -> Answered:
        """Read something; see `post`."""
        return await self._call("GET", url, headers=headers, content=None, keep=keep)

    async def _call(
        self, method: str, url: URL, *, headers: Mapping[str, str], content: bytes | None, keep: int
    ) -> Answered:
        place = httpcore2.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path)
        slow = {"connect": _CONNECT_WITHIN, "write": self._within, "read": self._within, "pool": self._within}
        try:
            async with (
                asyncio.timeout(self._within),
                self._pools[url.scheme].stream(
                    method,
                    place,
                    headers=list(headers.items()),
                    content=content,
                    extensions={"timeout": slow},
                ) as response,
            ):
                body = bytearray()
                async for part in response.aiter_stream():
                    body += part
                    if len(body) > max(keep, _MOST_READ):
                        break
                said = {
                    name.decode("latin-1").lower(): text.decode("latin-1") for name, text in response.headers
                }
                return Answered(response.status, said, bytes(body[:keep]))
        except _NotAllowed:
            # It does not say which address it was: it may be one of the operator's network.
            raise NotSent("its name leads to an address that must not be called", within=_A_WHILE) from None
        except (httpcore2.ConnectError, httpcore2.ConnectTimeout, httpcore2.PoolTimeout):
            raise NotSent("it could not be reached") from None
        except (httpcore2.NetworkError, httpcore2.TimeoutException, httpcore2.ProtocolError, TimeoutError):
            raise NotSent("it gave no answer", arrived_perhaps=True) from None


@asynccontextmanager
async def open_safe_client(
    allowed: Sequence[IPNetwork] = (),
    *,
    resolve: Resolve | None = None,
    verify: ssl.SSLContext | None = None,
    within: float = _WITHIN,
) -> AsyncIterator[SafeHttpClient]:
    """Calls to the public network and these others, for as long as this context lasts.

    `resolve` and `verify` are how names are looked up and whose certificates are trusted, if not as the
    system does it.
    """
    context = verify or ssl.create_default_context()
    # Names that take long to look up do not delay others who use the loop's own threads.
    threads = ThreadPoolExecutor(_LOOK_UPS, thread_name_prefix="handraise look-up")

    async def look_up(host: str, port: int) -> Sequence[str]:
        loop = asyncio.get_running_loop()
        found = await loop.run_in_executor(threads, _addresses, host, port)
        return list(dict.fromkeys(found))

    pools = {
        scheme: httpcore2.AsyncConnectionPool(
            ssl_context=context,
            max_connections=None,
            max_keepalive_connections=100,
            keepalive_expiry=15.0,
            network_backend=_Network(allowed, resolve or look_up, named_only=scheme == "http"),
        )
        for scheme in ("https", "http")
    }
    try:
        async with pools["https"], pools["http"]:
            yield SafeHttpClient(pools, within=within)
    finally:
        threads.shutdown(wait=False, cancel_futures=True)


class _NotAllowed(Exception):
    """A host is at a network address that may not be called."""


class _Network(httpcore2.AsyncNetworkBackend):
    """Connects to hosts if all of their addresses may be called."""

    def __init__(self, allowed: Sequence[IPNetwork], resolve: Resolve, *, named_only: bool) -> None:
        self._allowed = allowed
        self._resolve = resolve
        self._named_only = named_only
        self._inner = httpcore2.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        """A connection to an address that was checked."""
        try:
            async with asyncio.timeout(timeout):
                addresses = await self._resolve(host, port)
        except (OSError, UnicodeError) as error:
            raise httpcore2.ConnectError(str(error)) from error
        if not addresses:
            raise httpcore2.ConnectError("the name leads nowhere")
        if not all(_may_call(each, self._allowed, named_only=self._named_only) for each in addresses):
            raise _NotAllowed
        failed: Exception | None = None
        for address in addresses:
            try:
                return await self._inner.connect_tcp(address, port, timeout, local_address, socket_options)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                failed = error
        raise failed or httpcore2.ConnectError("the name leads nowhere")

    async def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: Iterable[Any] | None = None
    ) -> httpcore2.AsyncNetworkStream:
        """Refuse it: nothing outside is a file."""
        del path, timeout, socket_options
        raise _NotAllowed

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)


def _may_call(address: str, allowed: Sequence[IPNetwork], *, named_only: bool) -> bool:
    return within_networks(address, allowed) or (not named_only and public_address(address))


def _plain(address: IPAddress) -> IPAddress:
    """The IPv4 address that an IPv6 address stands for, if it does."""
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return address.ipv4_mapped
        if address in _NAT64:
            return ipaddress.IPv4Address(int(address) & _V4_BITS)
    return address


def _addresses(host: str, port: int) -> list[str]:
    return [str(where[0]) for *_, where in socket.getaddrinfo(host, port, proto=socket.IPPROTO_TCP)]

"""HAProxy in front of servers, as it is run in production: it ends TLS, and sends requests only to servers that are ready."""

from __future__ import annotations

import asyncio
import csv
import shutil
import socket
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from support.free_port import free_port

_CONFIGURATION = """
global
    stats socket {folder}/admin.sock mode 600 level admin
defaults
    mode http
    timeout connect 2s
    timeout client 1m
    timeout server 1m
    timeout http-request 10s
    timeout check 10s
    option redispatch
frontend plain
    bind 127.0.0.1:{plain}
    default_backend servers
frontend tls
    bind 127.0.0.1:{tls} ssl crt {certificate}
    http-request set-header x-forwarded-proto https
    default_backend servers
backend servers
    balance roundrobin
    option forwardfor
    option httpchk GET /readyz
    default-server inter 100ms fall 1 rise 1
"""


class LoadBalancer:
    """A running HAProxy. `address` is its address without TLS, `secure_address` the one with TLS."""

    def __init__(self, folder: Path, certificate: Path) -> None:
        self.plain, self.tls = free_port(), free_port()
        self.address = f"http://127.0.0.1:{self.plain}"
        self.secure_address = f"https://127.0.0.1:{self.tls}"
        self._folder = folder
        self._certificate = certificate

    def configuration(self, servers: Sequence[int]) -> str:
        """The text of its file, for servers at these ports."""
        head = _CONFIGURATION.format(
            folder=self._folder, plain=self.plain, tls=self.tls, certificate=self._certificate
        )
        return head + "".join(f"    server s{port} 127.0.0.1:{port} check\n" for port in servers)

    async def until_ready(self, port: int, *, ready: bool = True) -> None:
        """Wait until it sends requests to the server at this port, or no longer does."""
        async with asyncio.timeout(120):
            while (f"s{port}" in await self._ready()) is not ready:
                await asyncio.sleep(0.02)

    async def replace_certificate(self, pem: str) -> None:
        """Present another certificate to new connections. `pem` has the certificate and its key."""
        changed = await self._told(f"set ssl cert {self._certificate} <<\n{pem.strip()}\n")
        assert "Transaction created" in changed, changed
        done = await self._told(f"commit ssl cert {self._certificate}")
        assert "Success" in done, done

    async def _ready(self) -> set[str]:
        rows = csv.DictReader((await self._told("show stat")).removeprefix("# ").splitlines())
        return {row["svname"] for row in rows if row["pxname"] == "servers" and row["status"] == "UP"}

    async def _told(self, line: str) -> str:
        reader, writer = await asyncio.open_unix_connection(str(self._folder / "admin.sock"))
        writer.write(f"{line}\n".encode())
        await writer.drain()
        said = (await reader.read()).decode()
        writer.close()
        await writer.wait_closed()
        return said


@contextmanager
def load_balancer(folder: Path, certificate: Path, servers: Sequence[int]) -> Iterator[LoadBalancer]:
    """HAProxy in front of servers at these ports, for as long as this context lasts."""
    program = shutil.which("haproxy") or shutil.which("haproxy", path="/usr/sbin")
    if program is None:
        raise RuntimeError("This needs HAProxy. Run: apt-get install haproxy")
    balancer = LoadBalancer(folder, certificate)
    file = folder / "haproxy.cfg"
    file.write_text(balancer.configuration(servers))
    with (folder / "haproxy.log").open("w") as log:
        process = subprocess.Popen([program, "-f", str(file), "-db"], stdout=log, stderr=log)
    try:
        for _ in range(500):
            assert process.poll() is None, (folder / "haproxy.log").read_text()
            with socket.socket() as knocking:
                if knocking.connect_ex(("127.0.0.1", balancer.plain)) == 0:
                    break
            try:
                process.wait(0.02)
            except subprocess.TimeoutExpired:
                continue
        yield balancer
    finally:
        process.kill()
        process.wait()

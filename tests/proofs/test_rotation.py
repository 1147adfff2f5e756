"""Every secret, key and certificate is replaced under load, as docs/how-to/rotate-keys.md says, and no request is refused."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg
import httpx2
import pytest

from chaos.servers import Server, own_servers
from handraise import Approval, Desk, open_desk
from handraise.desk_factory import open_backend
from handraise.gate import Gate, ServerUses
from handraise.signing.key_files import make_key
from support.command import process
from support.database import fetch_value
from support.free_port import free_port
from support.issuer import Issuer
from support.load_balancer import load_balancer
from tests.certificates import certificate
from tests.proofs.steady_load import Fleet, SteadyLoad

pytestmark = [
    pytest.mark.proof,
    pytest.mark.slow("starts a PostgreSQL, a proxy and six servers; the parts have tests of their own"),
    pytest.mark.timeout(600),
]

HOST = "127.0.0.1"
PAYER, PAYMENTS = "payer", "payments"
REFUND = Approval.of("refund", {"amount": 40})


def made_certificate(folder: Path) -> tuple[str, str]:
    """The text of a new certificate for this machine, and of its key."""
    folder.mkdir()
    public, private = certificate(folder, HOST)
    return public.read_text(), private.read_text()


@dataclass
class Database:
    """A PostgreSQL that lets roles in only over TLS and with their passwords."""

    server: Server
    roots: Path
    certificates: list[str] = field(default_factory=list)

    def present(self, public: str, private: str) -> None:
        """Put the files of a certificate where the server reads them, and trust it."""
        self.certificates.append(public)
        self.roots.write_text("".join(self.certificates))
        for name, text in {"server.crt": public, "server.key": private}.items():
            (file := self.server.folder / name).write_text(text)
            file.chmod(0o600)
            if self.server.user is not None:
                shutil.chown(file, self.server.user)

    async def admit(self, role: str) -> str:
        """Make a role for servers; return the address with which it comes in."""
        admin = self.server.address
        await fetch_value(admin, f"create role {role} login password 'the password of {role}'")
        await fetch_value(admin, f"grant handraise_app to {role}")
        host = urlsplit(admin).netloc.rpartition("@")[2]
        password = f"the password of {role}".replace(" ", "%20")
        return f"postgresql://{role}:{password}@{host}/handraise?sslmode=verify-full&sslrootcert={self.roots}"


@contextmanager
def database(folder: Path) -> Iterator[Database]:
    with own_servers(1) as (server,):
        made = Database(server, folder / "roots.pem")
        made.present(*made_certificate(folder / "database"))
        rules = server.folder / "pg_hba.conf"
        only_with_tls = "hostssl all first,second all scram-sha-256\nhost all first,second all reject\n"
        rules.write_text(only_with_tls + rules.read_text())
        asyncio.run(switched_on(server.address))
        done = process("migrate", url=server.address)
        assert done.returncode == 0, done.stderr
        yield made


async def switched_on(address: str) -> None:
    """Have a server accept TLS from now on."""
    await fetch_value(address, "alter system set ssl to on")
    await fetch_value(address, "select pg_reload_conf()")
    async with asyncio.timeout(30):
        while await fetch_value(address, "show ssl") != "on":
            await asyncio.sleep(0.05)


@contextmanager
def provider() -> Iterator[str]:
    """The address of an OIDC provider."""
    port = free_port()
    line = [
        str(Path(sys.executable).with_name("oidc-provider-mock")),
        "--port",
        str(port),
        "--require-nonce",
        "true",
    ]
    running = subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(600):
            with socket.socket() as knocking:
                if knocking.connect_ex((HOST, port)) == 0:
                    break
            time.sleep(0.05)
        yield f"http://localhost:{port}"
    finally:
        running.kill()
        running.wait()


@asynccontextmanager
async def aclosing_client(http: httpx2.AsyncClient) -> AsyncIterator[None]:
    """Close a client that was used before."""
    try:
        yield
    finally:
        await http.aclose()


class SignIns:
    """People who sign in with OIDC all the time; each begins before the one before has finished."""

    def __init__(self, load: SteadyLoad, issuer: str) -> None:
        self.finished = 0
        self._load = load
        self._issuer = issuer

    async def run(self) -> None:
        """Sign in again and again."""
        begun = await self._begin()
        while not self._load.over():
            following = await self._begin()
            await self._finish(*begun)
            begun = following
            await asyncio.sleep(0.1)
        await self._finish(*begun)

    async def _begin(self) -> tuple[httpx2.AsyncClient, str]:
        """A browser, and the page that the provider sends it to."""
        http = httpx2.AsyncClient(base_url=self._load.balancer.address, timeout=60)
        claims = {"email": "ann@example.com", "email_verified": True, "name": "Ann"}
        assert (await http.put(f"{self._issuer}/users/sub-ann", json=claims)).status_code == 204
        begun = await http.get("/sign-in/oidc")
        assert begun.status_code == 303, begun.text
        agreed = await http.post(begun.headers["location"], data={"sub": "sub-ann"})
        return http, agreed.headers["location"]

    async def _finish(self, http: httpx2.AsyncClient, back: str) -> None:
        async with aclosing_client(http):
            page = await http.get(back)
            assert page.status_code == 200, page.text
            fields = dict(re.findall(r'name="(\w+)" value="([^"]*)"', page.text))
            origin = {"origin": self._load.balancer.address}
            done = await http.post("/sign-in/oidc/callback", data=fields, headers=origin)
            assert done.status_code == 303, done.text
            assert (await http.get("/v1/me")).json()["person"] == "ann@example.com"
        self.finished += 1


class Refunds:
    """An agent that pays what was approved, at a place that checks its receipts."""

    def __init__(self, load: SteadyLoad, keys: list[Path]) -> None:
        self.paid = 0
        self._load = load
        self._gate = Gate(key=keys, workspace=PAYMENTS, uses=ServerUses(load.balancer.address))

    async def run(self) -> None:
        """Ask, get a receipt, and pay with the receipt before that one."""
        address, credentials = self._load.balancer.address, self._load.credentials
        async with open_desk(address, credentials=credentials, workspace=PAYMENTS, asker=PAYER) as desk:
            held = await self._receipt(desk)
            while not self._load.over():
                following = await self._receipt(desk)
                await self._pay(held)
                held = following
                await asyncio.sleep(0.1)
            await self._pay(held)

    async def _receipt(self, desk: Desk) -> str:
        question = await desk.post("Refund?", form=REFUND, recipients=["dora"])
        await desk.answer(question.id, "approve", by="dora")
        return await desk.receipt(question.id)

    async def _pay(self, token: str) -> None:
        await self._gate.check(token, tool="refund", arguments={"amount": 40})
        self.paid += 1


async def test_everything_is_rotated_under_load_and_no_request_is_refused(
    tmp_path: Path, workspace: str
) -> None:
    keys = {name: tmp_path / "keys" / f"{name}.key" for name in ("old", "new", "audit-1", "audit-2")}
    (tmp_path / "keys").mkdir(mode=0o700)
    for key in keys.values():
        make_key(key)
    old_pub, new_pub = Path(f"{keys['old']}.pub"), Path(f"{keys['new']}.pub")
    old_secret, new_secret = "an old secret of enough characters", "a new secret of enough characters!"
    fronts = [made_certificate(tmp_path / f"front-{number}") for number in (1, 2)]
    (pem := tmp_path / "front.pem").write_text("".join(fronts[0]))
    trusted = ssl.create_default_context(cadata="".join(public for public, _ in fronts))

    async with AsyncExitStack() as stack:
        stored = await asyncio.to_thread(stack.enter_context, database(tmp_path))
        issuer = await asyncio.to_thread(stack.enter_context, provider())
        first = await stored.admit("first")
        fleet = Fleet(
            tmp_path,
            url=first,
            secret=old_secret,
            receipt_key=str(keys["old"]),
            audit_key=str(keys["audit-1"]),
            oidc_issuer=issuer,
            oidc_client_id="handraise",
            oidc_client_secret="hush",  # noqa: S106 -- made up
            oidc_join='["example.com"]',
            check_recipients="false",
        )
        balancer = stack.enter_context(load_balancer(tmp_path, pem, fleet.ports))
        fleet.settings["public_url"] = balancer.address
        stack.enter_context(fleet)
        for port in fleet.ports:
            await balancer.until_ready(port)
        backend = await stack.enter_async_context(open_backend(stored.server.address))
        load = SteadyLoad(balancer, Issuer(backend.directory), workspace)
        sign_ins, refunds = SignIns(load, issuer), Refunds(load, [old_pub, new_pub])
        async with load.running(trusted), beside(load, sign_ins, refunds):
            # Keys of agents: a second one, the agent changes over, the first one is revoked.
            await rotate_agent_key(load, stored.server.address)
            # Certificates: both are trusted before the new one is presented.
            assert await presented(balancer.tls) == ssl.PEM_cert_to_DER_cert(fronts[0][0])
            await balancer.replace_certificate("".join(fronts[1]))
            assert await presented(balancer.tls) == ssl.PEM_cert_to_DER_cert(fronts[1][0])
            stored.present(*made_certificate(tmp_path / "database-2"))
            await fetch_value(stored.server.address, "select pg_reload_conf()")
            # The new secret and the new receipt key are accepted everywhere before any server signs with them.
            await fleet.roll(
                balancer,
                secret_fallbacks=json.dumps([new_secret]),
                receipt_key_fallbacks=json.dumps([str(new_pub)]),
            )
            before = (sign_ins.finished, refunds.paid)
            second = await stored.admit("second")
            await fleet.roll(
                balancer,
                url=second,
                secret=new_secret,
                secret_fallbacks=json.dumps([old_secret]),
                receipt_key=str(keys["new"]),
                receipt_key_fallbacks=json.dumps([str(old_pub)]),
                audit_key=str(keys["audit-2"]),
            )
            assert (
                await fetch_value(
                    stored.server.address, "select count(*) from pg_stat_activity where usename = 'first'"
                )
                == 0
            )
            await load.more()
        assert sign_ins.finished > before[0]
        assert refunds.paid > before[1]
        sealed = await asyncio.to_thread(verified, stored.server.address, tmp_path, workspace, keys)
        await fetch_value(stored.server.address, "drop role first")
        print(
            f"\n  {len(load.told)} questions, {sign_ins.finished} sign-ins, {refunds.paid} refunds, {len(load.refused)} refused; "
            f"seals by key: {sealed}"
        )


@asynccontextmanager
async def beside(load: SteadyLoad, sign_ins: SignIns, refunds: Refunds) -> AsyncIterator[None]:
    """Sign in and pay meanwhile; until both have done so once, nothing is changed."""
    async with asyncio.TaskGroup() as group:
        group.create_task(sign_ins.run())
        group.create_task(refunds.run())
        async with asyncio.timeout(120):
            while not (sign_ins.finished and refunds.paid):
                await asyncio.sleep(0.05)
        try:
            yield
        finally:
            load.end()


async def rotate_agent_key(load: SteadyLoad, store: str) -> None:
    """Give an agent of the load another key, and revoke its first one."""
    name = next(iter(load.tokens))
    old = load.tokens[name]
    line = ("keys", "create", name, "--workspace", load.workspace, "--json")
    made = json.loads((await asyncio.to_thread(process, *line, url=store)).stdout)
    before = await fetch_value(
        store,
        "select id from handraise.agent_keys where workspace = $1 and agent = $2 and id <> $3",
        load.workspace,
        name,
        made["id"],
    )
    load.tokens[name] = made["key"]
    await load.more()  # requests that began with the old key have ended
    revoked = await asyncio.to_thread(
        process, "keys", "revoke", before, "--workspace", load.workspace, url=store
    )
    assert revoked.returncode == 0, revoked.stderr
    async with httpx2.AsyncClient(base_url=load.balancer.address) as http:
        refused = await http.get("/v1/me", headers={"authorization": f"Bearer {old}"})
    assert refused.status_code == 401


async def presented(port: int) -> bytes:
    """The certificate that new connections get."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    _, writer = await asyncio.open_connection(HOST, port, ssl=context)
    shown: bytes = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.transport.abort()
    return shown


def verified(store: str, folder: Path, workspace: str, keys: dict[str, Path]) -> list[int]:
    """Verify the whole trail with both public keys; return how many seals each has signed."""
    trail, of = folder / "trail.jsonl", ("--workspace", workspace)
    exported = process("audit", "export", str(trail), *of, url=store, audit_key=str(keys["audit-2"]))
    assert exported.returncode == 0, exported.stderr
    both = [word for key in ("audit-1", "audit-2") for word in ("--key", f"{keys[key]}.pub")]
    done = process("audit", "verify", str(trail), *both)
    assert done.returncode == 0, done.stdout + done.stderr
    assert process("audit", "verify", str(trail), *both[2:]).returncode != 0
    return asyncio.run(seals_by_key(store, workspace))


async def seals_by_key(store: str, workspace: str) -> list[int]:
    connection = await asyncpg.connect(store)
    try:
        rows = await connection.fetch(
            "select count(*) as number from handraise.seals where workspace = $1 group by key_id order by min(number)",
            workspace,
        )
    finally:
        await connection.close()
    counted = [row["number"] for row in rows]
    assert len(counted) == 2, "both keys have signed, and nothing is unsigned"
    return counted

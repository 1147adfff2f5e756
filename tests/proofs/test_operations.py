"""A day of a platform team, under load: nothing is lost, nobody stays in who must be out, and what can be served is served.

Two servers behind a load balancer, 100 agents that wait and 20 people who answer. Meanwhile the identity provider signs
somebody out and deactivates somebody else, a policy is applied from git, the secret is rotated, PostgreSQL fails over to its
standby, and the servers are replaced one by one.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import ssl
import subprocess
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Self

import httpx2
import pytest

from chaos.faults.server_crash import promote, with_standby
from chaos.servers import Server
from handraise import Approval, Desk, Event, Responder, open_desk
from handraise.desk_factory import open_backend
from handraise.model.identities import Role
from support.command import process
from support.issuer import Issuer
from support.load_balancer import LoadBalancer, load_balancer
from tests.certificates import certificate
from tests.proofs.steady_load import WITHIN, Fleet, SteadyLoad
from tests.server.oidc.provider import CLIENT, Browser, Provider, changed, running_provider, signed

pytestmark = [
    pytest.mark.proof,
    pytest.mark.slow(
        "starts two PostgreSQL servers, a proxy and eight servers; the parts have tests of their own"
    ),
    pytest.mark.timeout(420),
    pytest.mark.filterwarnings("ignore:get_jwt_config"),
    pytest.mark.filterwarnings("ignore:authlib.jose module is deprecated"),
]

AGENTS, PEOPLE, DESKS = 100, 20, 5
ANN, SUE = "ann@example.com", "sue@example.com"
"""Who comes with OIDC, and whom the provider provisions over SCIM."""
STAFF = tuple(f"person-{number}" for number in range(PEOPLE - 2))
OUT_WITHIN = 5.0
LOGOUT = "http://schemas.openid.net/event/backchannel-logout"
POLICY = """\
policy:
  rules:
    - name: no drops
      when: tool == "drop_table"
      then: {deny: "tables are dropped by people only"}
"""
CONFLICT, UNAUTHORIZED, UNAVAILABLE = 409, 401, 503


class Office(SteadyLoad):
    """A hundred agents who ask and wait, and twenty people who answer, each request of theirs sent once."""

    def __init__(self, balancer: LoadBalancer, issuer: Issuer, workspace: str) -> None:
        super().__init__(balancer, issuer, workspace)
        self.asked_of = [*STAFF, ANN, SUE]
        """Who is named in new questions besides somebody of the staff."""
        self.told_by: Counter[str] = Counter()
        self.accepted: dict[str, str] = {}
        self.without_primary = False
        self.unserved: Counter[str] = Counter()
        """What could not be served while there was no primary."""
        self.waiting = 0

    async def once(
        self, http: httpx2.AsyncClient, method: str, path: str, token: str | None = None, **how: Any
    ) -> httpx2.Response | None:
        """Send a request once. Only what cannot be served may be refused: without a primary, with a 503 that says when to retry."""
        given = {} if token is None else {"authorization": f"Bearer {token}"}
        excused = self.without_primary
        try:
            response = await http.request(method, path, headers=given, **how)
        except httpx2.HTTPError as error:
            self.refused.append(f"{method} {path}: {error!r}")
            return None
        if response.status_code < httpx2.codes.BAD_REQUEST:
            return response
        if response.status_code == CONFLICT and path.endswith("/answer"):
            return None  # a colleague was first
        if response.status_code == UNAVAILABLE and (excused or self.without_primary):
            said = "with" if "retry-after" in response.headers else "without"
            self.unserved[f"503 {said} Retry-After"] += 1
        else:
            self.refused.append(f"{method} {path}: {response.status_code} {response.text}")
        return None

    async def agent(self, desk: Desk, name: str) -> None:
        """Ask somebody and wait, again and again."""
        mine = desk.scoped(asker=name)
        while not self.over():
            self._asked += 1
            prompt, other = f"{name} asks {self._asked}", self.asked_of[self._asked % len(self.asked_of)]
            recipients = {STAFF[self._asked % len(STAFF)], other}
            self.waiting += 1
            value = await mine.ask(prompt, recipients=sorted(recipients), key=prompt)
            self.waiting -= 1
            self.told.setdefault(prompt, []).append(str(value))
            self.told_by[str(value).rpartition(" by ")[2]] += 1

    async def person(self, name: str, token: str, http: httpx2.AsyncClient, idle: asyncio.Event) -> None:
        """Answer a few questions in one's inbox, again and again, until nobody asks any more."""
        while True:
            page = await self.once(http, "GET", f"/v1/questions?recipient={name}&limit=6", token)
            pending = [] if page is None else page.json()["items"]
            for each in pending:
                value = f"{each['prompt']} by {name}"
                path = f"/v1/questions/{each['id']}/answer"
                if await self.once(http, "POST", path, token, json={"value": value}) is not None:
                    self.accepted[each["prompt"]] = value
            if page is not None and not pending and idle.is_set():
                return
            await asyncio.sleep(0.1 if idle.is_set() else 1.5)

    async def leaves(self, name: str, task: asyncio.Task[None]) -> None:
        """Name somebody in no more questions, and let them answer no more."""
        self.asked_of.remove(name)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    def check(self, events: Sequence[Event]) -> None:
        """Nothing is refused that could be served, and nothing is lost or done twice."""
        assert self.refused == []
        assert len(self.told) == self._asked
        for prompt, values in self.told.items():
            assert len(values) == 1
            assert values[0].startswith(f"{prompt} by ")
            assert self.accepted.get(prompt, values[0]) == values[0], "an accepted answer is the answer"
        kinds = {
            kind: Counter(each.question_id for each in events if each.kind.value == kind)
            for kind in ("asked", "answered")
        }
        assert set(kinds["asked"].values()) == {1}
        assert set(kinds["answered"].values()) == {1}
        assert kinds["asked"].keys() == kinds["answered"].keys()


@asynccontextmanager
async def at_work(
    office: Office, http: httpx2.AsyncClient, leaving: dict[str, str]
) -> AsyncIterator[dict[str, asyncio.Task[None]]]:
    """Everybody works while inside. `leaving` are sessions of those who will be out; their tasks are given."""
    idle = asyncio.Event()
    for name in [f"agent-{number}" for number in range(AGENTS)]:
        await office.credentials.agent(office.workspace, name)
    async with AsyncExitStack() as stack:
        desks = [
            await stack.enter_async_context(
                open_desk(office.balancer.address, credentials=office.credentials, workspace=office.workspace)
            )
            for _ in range(DESKS)
        ]
        tokens = {name: await office.credentials.person(office.workspace, Responder(name)) for name in STAFF}
        async with asyncio.TaskGroup() as people:
            for name, token in tokens.items():
                people.create_task(office.person(name, token, http, idle))
            gone = {
                name: asyncio.create_task(office.person(name, token, http, idle))
                for name, token in leaving.items()
            }
            try:
                async with asyncio.TaskGroup() as agents:
                    for number in range(AGENTS):
                        agents.create_task(office.agent(desks[number % DESKS], f"agent-{number}"))
                    await office.more(AGENTS)
                    try:
                        yield gone
                        await office.more(AGENTS)
                    finally:
                        office.end()
            finally:
                idle.set()
                for task in gone.values():
                    task.cancel()


class Watched:
    """What somebody still has at each server: an open stream of events, and the next request."""

    def __init__(self, addresses: Sequence[str], headers: dict[str, str]) -> None:
        self._addresses = addresses
        self._headers = headers
        self._open: list[asyncio.Event] = []
        self._streams: list[asyncio.Task[float]] = []

    async def __aenter__(self) -> Self:
        for address in self._addresses:
            began = asyncio.Event()
            self._streams.append(asyncio.create_task(self._follow(address, began)))
            await asyncio.wait_for(began.wait(), WITHIN)
        return self

    async def __aexit__(self, *_: object) -> None:
        for each in self._streams:
            each.cancel()
        await asyncio.gather(*self._streams, return_exceptions=True)

    async def _follow(self, address: str, began: asyncio.Event) -> float:
        """The moment at which the server ends the stream."""
        async with (
            httpx2.AsyncClient(base_url=address, headers=self._headers, timeout=WITHIN) as http,
            http.stream("GET", "/v1/events") as response,
        ):
            assert response.status_code == httpx2.codes.OK
            began.set()
            with suppress(httpx2.HTTPError):
                async for _ in response.aiter_raw():
                    pass
        return time.monotonic()

    async def out(self, acknowledged: float) -> tuple[float, float]:
        """The seconds until every server refuses the next request, and until every stream has ended."""
        async with asyncio.timeout(WITHIN):
            refused = max(await asyncio.gather(*map(self._refused, self._addresses)))
            ended = max(await asyncio.gather(*self._streams))
        return refused - acknowledged, max(0.0, ended - acknowledged)

    async def _refused(self, address: str) -> float:
        async with httpx2.AsyncClient(base_url=address, headers=self._headers, timeout=WITHIN) as http:
            while (await http.get("/v1/me")).status_code != UNAUTHORIZED:
                await asyncio.sleep(0.02)
        return time.monotonic()


async def signed_out_by_provider(
    office: Office, browser: Browser, provider: Provider, at: Sequence[str]
) -> tuple[float, float]:
    """Ann is signed out at the provider, which says so here."""
    session = {"cookie": "; ".join(f"{each.name}={each.value}" for each in browser.http.cookies.jar)}
    now = int(time.time())
    claims = {"iss": provider.issuer, "aud": CLIENT, "iat": now, "exp": now + 120, "jti": secrets.token_urlsafe(8),
              "events": {LOGOUT: {}}, "sub": "sub-ann"}  # fmt: skip
    async with Watched(at, session) as watched, httpx2.AsyncClient(base_url=office.balancer.address) as http:
        said = await http.post(
            "/sign-in/oidc/backchannel-logout", data={"logout_token": signed(claims, provider.key)}
        )
        acknowledged = time.monotonic()
        assert said.status_code == httpx2.codes.OK, said.text
        return await watched.out(acknowledged)


async def deactivated(office: Office, scim: str, session: str, at: Sequence[str]) -> tuple[float, float]:
    """Sue is deactivated at the provider, which says so over SCIM."""
    change = {
        "schemas": ["urn:ietf:params:scim:api:messages:2.0:PatchOp"],
        "Operations": [{"op": "replace", "path": "active", "value": False}],
    }
    async with (
        Watched(at, bearer(session)) as watched,
        httpx2.AsyncClient(base_url=office.balancer.address, headers=bearer(scim), timeout=WITHIN) as http,
    ):
        said = await http.patch(f"/scim/v2/Users/{SUE}", json=change)
        acknowledged = time.monotonic()
        assert (said.status_code, said.json()["active"]) == (200, False)
        return await watched.out(acknowledged)


async def policy_from_git(office: Office, folder: Path, token: str, at: Sequence[str]) -> int:
    """Commit a policy, check it out as CI does, apply it; return how many next questions it decided at once."""
    await asyncio.to_thread(checked_out, folder)
    done = await asyncio.to_thread(
        process, "apply", str(folder / "ci" / "office.yaml"), url=office.balancer.address, key=token
    )
    assert (done.returncode, "1 change applied." in done.stdout) == (0, True), done.stdout + done.stderr
    decided = 0
    for number, address in enumerate(at):
        async with open_desk(
            address, credentials=office.credentials, workspace=office.workspace, asker="dropper"
        ) as desk:
            question = await desk.post(
                f"Drop table {number}?",
                form=Approval.of("drop_table", {"number": number}),
                recipients=[STAFF[0]],
            )
            assert getattr(question.outcome, "by", None) == "policy:no drops"
            decided += 1
    return decided


def checked_out(folder: Path) -> None:
    """A repository with one commit, and a clone of it."""
    (made := folder / "office").mkdir()
    (made / "office.yaml").write_text(POLICY)
    author = ["-c", "user.name=Ops", "-c", "user.email=ops@example.com"]
    for line in (
        ["init", "-q", str(made)],
        ["-C", str(made), "add", "office.yaml"],
        ["-C", str(made), *author, "commit", "-q", "-m", "Forbid dropping tables"],
        ["clone", "-q", str(made), str(folder / "ci")],
    ):
        subprocess.run(["git", *line], check=True, capture_output=True)  # noqa: S607 -- as in any shell


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


async def made_key(office: Office, **body: Any) -> str:
    """A key that an administrator makes over HTTP."""
    boss = await office.credentials.reader(office.workspace, "agent")
    async with httpx2.AsyncClient(
        base_url=office.balancer.address, headers=bearer(boss), timeout=WITHIN
    ) as http:
        made = await http.post("/v1/keys", json=body)
    assert made.status_code == httpx2.codes.CREATED, made.text
    return str(made.json()["key"])


async def test_operations_under_load_lose_nothing_and_leave_nobody_in(  # noqa: PLR0915 -- one day, told in its order
    tmp_path: Path,
) -> None:
    workspace = "default"
    public, private = certificate(tmp_path, "127.0.0.1")
    (pem := tmp_path / "front.pem").write_text(public.read_text() + private.read_text())
    trusted = ssl.create_default_context(cadata=public.read_text())
    old_secret, new_secret = "an old secret of enough characters", "a new secret of enough characters!"
    began = time.monotonic()
    async with AsyncExitStack() as stack:
        primary, standby = await stack.enter_async_context(with_standby(synchronous=True))
        hosts = f"{primary.host}:{primary.port},{standby.host}:{standby.port}"
        url = f"postgresql://postgres@{hosts}/handraise?target_session_attrs=primary"
        migrated = await asyncio.to_thread(process, "migrate", url=url)
        assert migrated.returncode == 0, migrated.stderr
        provider = stack.enter_context(running_provider())
        fleet = Fleet(
            tmp_path,
            url=url,
            secret=old_secret,
            connections="8",
            oidc_issuer=provider.issuer,
            oidc_client_id=CLIENT,
            oidc_client_secret="hush",  # noqa: S106 -- made up
            oidc_join='["example.com"]',
        )
        balancer = stack.enter_context(load_balancer(tmp_path, pem, fleet.ports))
        fleet.settings["public_url"] = balancer.address
        await asyncio.to_thread(stack.enter_context, fleet)
        for port in fleet.ports:
            await balancer.until_ready(port)
        at = [f"http://127.0.0.1:{port}" for port in fleet.ports]
        backend = await stack.enter_async_context(open_backend(url, connections=3))
        office = Office(balancer, Issuer(backend.directory, role=Role.MEMBER), workspace)
        scim, ci = (
            await made_key(office, agent="okta", scim=True),
            await made_key(office, agent="ci", administers=True),
        )
        async with httpx2.AsyncClient(
            base_url=balancer.address, headers=bearer(scim), timeout=WITHIN
        ) as http:
            user = {"schemas": ["urn:ietf:params:scim:schemas:core:2.0:User"], "userName": SUE}
            assert (await http.post("/scim/v2/Users", json=user)).status_code == httpx2.codes.CREATED
        browser = Browser(balancer.address, provider)
        await stack.enter_async_context(browser.http)
        await browser.account("sub-ann", email=ANN, email_verified=True, name="Ann")
        provider.forge = changed(sid="s-1")
        assert (await browser.sign_in("sub-ann")).status_code == httpx2.codes.SEE_OTHER
        provider.forge = None
        assert await browser.me() == ANN
        leaving = {name: await office.credentials.person(workspace, Responder(name)) for name in (ANN, SUE)}
        figures: dict[str, str] = {}
        http = await stack.enter_async_context(office.http(trusted))
        async with at_work(office, http, leaving) as tasks:
            by_ann = office.told_by[ANN]
            await office.leaves(ANN, tasks[ANN])
            figures["provider logout"] = shown(await signed_out_by_provider(office, browser, provider, at))

            await office.leaves(SUE, tasks[SUE])
            figures["SCIM deactivation"] = shown(await deactivated(office, scim, leaving[SUE], at))
            assert by_ann
            assert office.told_by[SUE], "they answered before"
            by_sue = office.told_by[SUE]

            figures["policy from git"] = (
                f"{await policy_from_git(office, tmp_path, ci, at)} of 2 servers at once"
            )

            back = await browser.authorize("sub-ann")  # begins with the old secret, and ends with the new one
            moment = time.monotonic()
            await fleet.roll(balancer, secret_fallbacks=json.dumps([new_secret]))
            await fleet.roll(balancer, secret=new_secret, secret_fallbacks=json.dumps([old_secret]))
            figures["secret rotated"] = f"4 restarts in {time.monotonic() - moment:.1f} s"
            assert (await browser.press(await browser.http.get(back))).status_code == httpx2.codes.SEE_OTHER
            assert await browser.me() == ANN

            figures["fail-over"] = await failed_over(office, primary, standby, fleet.ports)

            moment = time.monotonic()
            await fleet.roll(balancer)
            figures["rolled"] = f"2 restarts in {time.monotonic() - moment:.1f} s"
        assert await browser.me() == ANN
        async with httpx2.AsyncClient(base_url=balancer.address, headers=bearer(leaving[SUE])) as gone:
            assert (await gone.get("/v1/me")).status_code == UNAUTHORIZED
        async with open_desk(balancer.address, credentials=office.credentials, workspace=workspace) as desk:
            events: list[Event] = []
            while page := (await desk.feed(after=events[-1].cursor if events else None)).items:
                events += page
        office.check([each for each in events if each.question_id])
        assert office.told_by[SUE] - by_sue <= len(STAFF), "only what was on its way"
        figures["load"] = (
            f"{len(office.told)} questions of {AGENTS} agents, {len(office.accepted)} answers by {PEOPLE} people"
        )
        figures["not served without a primary"] = str(dict(office.unserved)) or "none"
        figures["refused"] = str(len(office.refused))
        figures["whole"] = f"{time.monotonic() - began:.0f} s"
        print("\n" + "\n".join(f"  {name}: {value}" for name, value in figures.items()))


def shown(seconds: tuple[float, float]) -> str:
    """How long somebody was still in; too long fails."""
    refused, ended = seconds
    assert max(seconds) <= OUT_WITHIN, f"still in for {max(seconds):.1f} s"
    return f"next request refused after {refused:.2f} s, streams ended after {ended:.2f} s, on both servers"


async def failed_over(office: Office, primary: Server, standby: Server, ports: Sequence[int]) -> str:
    """Kill the primary, promote its standby; return how long until questions are answered again."""
    office.without_primary = True
    moment = time.monotonic()
    await asyncio.to_thread(primary.kill)
    await asyncio.to_thread(promote, standby)
    promoted = time.monotonic() - moment
    await office.more(AGENTS // 2)
    again = time.monotonic() - moment
    for port in ports:
        await office.balancer.until_ready(port)
    office.without_primary = False
    return f"promoted after {promoted:.1f} s, 50 more questions answered after {again:.1f} s"

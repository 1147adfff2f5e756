"""Sweeps over every operation of the API: who must not get in, does not, also where a route is new."""

from __future__ import annotations

import asyncio
import uuid
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeAlias

import asyncpg
import httpx2
import pytest
import pytest_asyncio
from fastapi.routing import APIRoute

from handraise import Approval, Responder
from handraise.model.deliveries import Address
from handraise.model.identities import Role
from handraise.server import ServerContext, ServerSettings, create_app, open_server
from handraise.server.auth.issuer import issue_admin_token, issue_question_link, issue_reader_key
from handraise.testing import promise
from support.issuer import Issuer
from tests.conftest import own_database
from tests.server.operations import SAFE, Operation, operations

OPERATIONS = operations()

Database: TypeAlias = "asyncpg.Connection[asyncpg.Record]"

AGENTS_MAY = {
    "POST /v1/questions",
    "POST /v1/questions:batch",
    "GET /v1/questions",
    "GET /v1/search",
    "GET /v1/questions/{question_id}",
    "GET /v1/questions/{question_id}/history",
    "GET /v1/questions/{question_id}/deliveries",
    "GET /v1/questions/{question_id}/outcome",
    "GET /v1/outcomes",
    "POST /v1/questions/{question_id}/withdraw",
    "POST /v1/questions/{question_id}/apply-grant",
    "POST /v1/questions/{question_id}/consume",
    "POST /v1/questions/{question_id}/report",
    "GET /v1/questions/{question_id}/followers",
    "GET /v1/questions/{question_id}/thread",
    "POST /v1/questions/{question_id}/reply",
    "POST /v1/files",
    "GET /v1/questions/{question_id}/files/{digest}",
    "GET /v1/questions/{question_id}/receipt",
    "POST /v1/questions/{question_id}/claim-sending",
    "POST /v1/questions/{question_id}/join",
    "POST /v1/questions/{question_id}/sent",
    "GET /v1/events",
    "GET /v1/feed",
    "POST /v1/heartbeats",
    "POST /v1/recover",
    "POST /v1/run-due",
    "GET /v1/durability",
    "GET /v1/me",
}
"""Everything that an agent may do at all. Any other operation refuses it, without having been asked to."""

READERS_MAY = {
    "GET /v1/questions",
    "GET /v1/search",
    "GET /v1/questions/{question_id}",
    "GET /v1/questions/{question_id}/history",
    "GET /v1/questions/{question_id}/followers",
    "GET /v1/questions/{question_id}/thread",
    "GET /v1/statistics",
    "GET /v1/answers",
    "GET /v1/me",
}
"""Everything that a reader may do at all."""

ADMIN_TOKENS_MAY = {
    *(
        f"{method} /v1/{path}"
        for method, path in (
            *(
                ("GET", path)
                for path in ("config", "people", "groups", "hours", "addresses", "routing", "policy")
            ),
            *(("PUT", path) for path in ("config", "hours", "routing", "policy", "retention", "quotas")),
            *(("GET", path) for path in ("retention", "quotas", "me")),
            *((method, "people/{person_id}") for method in ("GET", "PUT", "DELETE")),
            *(("POST", f"people/{{person_id}}/{verb}") for verb in ("disable", "enable")),
            *((method, "groups/{name}") for method in ("GET", "PUT")),
            *((method, "groups/{name}/hours") for method in ("GET", "PUT", "DELETE")),
            *((method, "groups/{name}/rota") for method in ("GET", "PUT", "DELETE")),
            *(
                (method, "addresses/{recipient}/{channel}/{address_id}")
                for method in ("GET", "PUT", "DELETE")
            ),
            ("DELETE", "hours"),
        )
    )
}
"""Everything that the token of an administering program may do: what a configuration file has, and nothing else."""

ANYBODY_MAY = {
    "POST /v1/sessions",
    "GET /v1/receipt-keys",
    "POST /v1/receipts/use",
    "GET /healthz",
    "GET /readyz",
    "GET /metrics",
}
"""What needs no credentials, or brings its own."""

SAME_ORIGIN = {"sec-fetch-site": "same-origin"}

STREAMS = {"GET /v1/events"}
"""What does not end by itself."""

NOT_STATE = {
    "listeners": "*",
    "seals": "*",
    "salts": "*",
    "search_entries": "*",
    "search_progress": "*",
    "agent_keys": "last_used_at",
}
"""What changes whoever does what: which processes listen, what is sealed or indexed beside, and when a key was last used."""


@dataclass
class Place:
    """A workspace with one of everything in it, and everybody's tokens."""

    workspace: str
    ids: dict[str, str]
    agent: str
    member: str
    admin: str
    reader: str
    admin_token: str
    question_link: str
    """The token of a link with which the member answers the question."""


pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with own_database() as found:
        yield found


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def database(address: str) -> AsyncIterator[Database]:
    connection = await asyncpg.connect(address)
    yield connection
    await connection.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def ctx(address: str) -> AsyncIterator[ServerContext]:
    plenty = "1000000/second"
    async with open_server(ServerSettings(url=address, rate_limit=plenty, sign_in_limit=plenty)) as ctx:
        yield ctx


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(ctx: ServerContext) -> AsyncIterator[httpx2.AsyncClient]:
    transport = httpx2.ASGITransport(create_app(ctx))
    async with httpx2.AsyncClient(transport=transport, base_url="http://testserver") as client:
        yield client


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(ctx: ServerContext) -> Place:
    """For the tests after which everything is as it was before: one is enough for all of them."""
    return await furnish(ctx, f"test-{uuid.uuid4().hex}")


@pytest.fixture(scope="module")
def unchanged() -> dict[str, Place]:
    """The place of the test before, if that has changed nothing in it."""
    return {}


@pytest_asyncio.fixture(loop_scope="module")
async def mine(
    ctx: ServerContext, database: Database, unchanged: dict[str, Place], workspace: str
) -> AsyncIterator[Place]:
    """A place that is as it was made. To make one costs ten times as much as to see that nothing has changed it."""
    place = unchanged.pop("place", None) or await furnish(ctx, f"{workspace}-a")
    before = await digest(database, place.workspace)
    yield place
    if await digest(database, place.workspace) == before:
        unchanged["place"] = place


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def theirs(ctx: ServerContext) -> Place:
    """What nobody here may change: one is enough for all tests."""
    return await furnish(ctx, f"test-{uuid.uuid4().hex}-b")


async def furnish(ctx: ServerContext, workspace: str) -> Place:
    issuer = Issuer(ctx.directory)
    agent = await issuer.agent(workspace, "agent")
    admin = await issuer.person(workspace, Responder("root", groups=frozenset({"ops"})), role=Role.ADMIN)
    member = await issuer.person(workspace, "ana", role=Role.MEMBER)
    desk = ctx.desk.scoped(workspace)
    form = Approval.of("pay", {"amount": 1}, scopes=("once", "session", "always"))
    approval = await desk.post("Pay?", form=form, conversation="c")
    await desk.answer(approval.id, {"decision": "approve", "scope": "always"}, by="ana")
    rate = await desk.post("Rate?", choices=["7", "19"], topic="rate")
    answered = await desk.answer(rate.id, "19", by="ana")
    assert answered.outcome is not None
    kept = await desk.keep_answer(rate.id, until=answered.outcome.at + timedelta(days=1), by="ana")
    file = await desk.attach(workspace.encode(), name="a")
    question = await desk.post("Which?", conversation="c", key="k", choices=["text", "b"], attachments=[file])
    keys = await ctx.directory.keys(workspace, after=None, limit=1)
    grants = (await desk.list_grants()).items
    ids = {
        "question_id": question.id,
        "grant_id": grants[0].id,
        "standing_id": kept.id,
        "key_id": keys[0].id,
        "person_id": "ana",
        "conversation": "c",
        "name": "ops",
        "recipient": "ana",
        "channel": "webhook",
        "address_id": f"pager of {workspace}",
        "session_id": f"phone of {workspace}",
        "stop_id": (await ctx.policies.stop(workspace, tool="none", why="broken", by="root")).id,
        "version": "1",
        "digest": file.digest,
        "rule": "every refund",
        "passkey_id": f"passkey of {workspace}",
    }
    await ctx.directory.open_session(
        workspace,
        ids["session_id"],
        digest=ids["session_id"],
        person="ana",
        how="sign-in",
        lasts=timedelta(days=1),
    )
    await ctx.directory.add_passkey(
        workspace,
        ids["passkey_id"],
        person="ana",
        name="phone",
        domain="localhost",
        public_key="",
        sign_count=0,
    )
    await ctx.policies.put(
        workspace, {"rules": [{"name": ids["rule"], "then": "allow"}]}, by="root", expected=0
    )
    await ctx.outbox.put_address(
        Address(workspace=workspace, recipient="ana", channel="webhook", id=ids["address_id"], to=None)
    )
    ana, week = await ctx.directory.find_person(workspace, "ana"), timedelta(days=7)
    assert ana is not None
    link = await issue_question_link(ctx, question, ana, channel="email", by="root", lasts=week)
    assert link is not None
    reader = (await issue_reader_key(ctx, workspace, "dashboard", by="root")).key
    program = (await issue_admin_token(ctx, workspace, "ci", by="root")).key
    return Place(workspace, ids, agent, member, admin, reader, program, link.url.rpartition("/")[2])


@promise("P8", "P11")
@pytest.mark.parametrize(
    "operation", [each for each in OPERATIONS if str(each) not in AGENTS_MAY | ANYBODY_MAY], ids=str
)
async def test_no_credential_of_an_agent_answers_or_administers(
    client: httpx2.AsyncClient, database: Database, shared: Place, operation: Operation
) -> None:
    before = await digest(database)
    response = await send(client, operation, shared.ids, shared.agent)
    assert response.status_code == 403, response.text
    assert response.json()["code"] == "permission_denied"
    assert await digest(database) == before


@promise("P8", "P11")
@pytest.mark.parametrize(
    "operation", [each for each in OPERATIONS if str(each) not in READERS_MAY | ANYBODY_MAY], ids=str
)
async def test_no_key_of_a_reader_asks_answers_or_administers(
    client: httpx2.AsyncClient, database: Database, shared: Place, operation: Operation
) -> None:
    before = await digest(database)
    response = await send(client, operation, shared.ids, shared.reader)
    assert response.status_code == 403, response.text
    assert response.json()["code"] == "permission_denied"
    as_agent = await send(client, operation, shared.ids, shared.reader.replace("hrr_", "hra_"))
    assert as_agent.status_code == 401
    assert await digest(database) == before


@promise("P8", "P11")
@pytest.mark.parametrize(
    "operation", [each for each in OPERATIONS if str(each) not in ADMIN_TOKENS_MAY | ANYBODY_MAY], ids=str
)
async def test_no_token_that_administers_asks_answers_votes_or_lets_anybody_in(
    client: httpx2.AsyncClient, database: Database, shared: Place, operation: Operation
) -> None:
    before = await digest(database)
    response = await send(client, operation, shared.ids, shared.admin_token)
    assert response.status_code == 403, response.text
    assert response.json()["code"] == "permission_denied"
    for prefix in ("hra_", "hrs_"):  # as the key of an agent, or as the session of a person
        as_other = await send(client, operation, shared.ids, shared.admin_token.replace("hrm_", prefix))
        assert as_other.status_code == 401
    assert await digest(database) == before


@pytest.mark.parametrize("operation", [each for each in OPERATIONS if str(each) in ADMIN_TOKENS_MAY], ids=str)
async def test_what_a_token_may_administer_nobody_else_may_but_an_administrator(
    client: httpx2.AsyncClient, database: Database, mine: Place, operation: Operation
) -> None:
    before = await digest(database)
    if operation.path != "/v1/me":
        for who in (mine.agent, mine.reader, mine.member):
            assert (await send(client, operation, mine.ids, who)).status_code == 403
    assert await digest(database) == before
    response = await send(client, operation, mine.ids, mine.admin_token)
    assert response.status_code not in (401, 403), response.text
    assert response.status_code < 500


async def test_no_page_opens_with_the_key_of_a_reader(
    client: httpx2.AsyncClient, ctx: ServerContext, database: Database, shared: Place
) -> None:
    before = await digest(database)
    for route in pages(ctx):
        where = route.path.replace(":path}", "}")
        path = where.format_map(defaultdict(lambda: "x", shared.ids, token="x"))  # noqa: S106 -- no token
        for method in route.methods or ():
            said = []
            for sent in ({}, {"cookie": f"handraise={shared.reader}"}):
                client.cookies.clear()
                response = await client.request(method, path, headers=SAME_ORIGIN | sent)
                said.append((response.status_code, response.content))
            assert said[1] == said[0] or said[1][0] in (401, 403), path
    assert await digest(database) == before


@pytest.mark.parametrize("operation", [each for each in OPERATIONS if str(each) not in ANYBODY_MAY], ids=str)
@pytest.mark.parametrize("token", [None, "hra_mq_" + "A" * 43, "nonsense", "hrl"])
async def test_nobody_gets_in_without_a_credential_that_is_known(
    client: httpx2.AsyncClient, database: Database, shared: Place, operation: Operation, token: str | None
) -> None:
    before = await digest(database)
    presented = shared.agent.replace("hra_", "hrl_") if token == "hrl" else token  # noqa: S105 -- a kind of token
    response = await send(client, operation, shared.ids, presented)
    assert response.status_code == 401, response.text
    assert response.headers["www-authenticate"] == "Bearer"
    assert await digest(database) == before


@pytest.mark.parametrize("operation", [each for each in OPERATIONS if str(each) not in ANYBODY_MAY], ids=str)
@pytest.mark.parametrize("how", ["bearer", "cookie"])
async def test_a_question_link_opens_no_operation(
    client: httpx2.AsyncClient, database: Database, shared: Place, operation: Operation, how: str
) -> None:
    assert (await client.get(f"/q/{shared.question_link}")).status_code == 200
    before = await digest(database)
    if how == "bearer":
        response = await send(client, operation, shared.ids, shared.question_link)
    else:
        browser = {"cookie": f"handraise={shared.question_link}", "sec-fetch-site": "same-origin"}
        response = await send(client, operation, shared.ids, None, headers=browser)
    assert response.status_code == 401, response.text
    assert await digest(database) == before


async def test_a_question_link_opens_no_page_but_its_own(
    client: httpx2.AsyncClient, ctx: ServerContext, database: Database, shared: Place
) -> None:
    """With one as a credential, every page is what it is for somebody whose credential is no good."""
    before, seen = await digest(database), set()
    unknown = shared.question_link[:-43] + "A" * 43
    for route in pages(ctx):
        path = route.path.replace(":path}", "}").format_map(
            defaultdict(lambda: "x", shared.ids, token=unknown)
        )
        for method in route.methods or ():
            for name, value in (("cookie", "handraise={}"), ("authorization", "Bearer {}")):
                said = []
                for token in (shared.question_link, unknown):
                    client.cookies.clear()
                    sent = {name: value.format(token), **SAME_ORIGIN}
                    response = await client.request(method, path, headers=sent)
                    response.headers.pop("set-cookie", None)  # when it ends depends on the second
                    said.append((response.status_code, response.content, headers(response)))
                assert said[0] == said[1], path
            seen.add(path)
    assert {"/", f"/questions/{shared.ids['question_id']}", "/sign-out"} < seen
    assert await digest(database) == before


@pytest.mark.parametrize("kind", ["agent", "member", "admin", "reader", "admin_token"])
async def test_no_other_credential_is_a_question_link(
    client: httpx2.AsyncClient, shared: Place, kind: str
) -> None:
    for token in (getattr(shared, kind), "hrq" + getattr(shared, kind)[3:]):
        for path in (f"/q/{token}", f"/q/{token}/frame", f"/q/{token}/status"):
            assert (await client.get(path, headers={"cookie": f"handraise={token}"})).status_code == 410
            if not path.endswith("status"):
                assert (await client.post(path, data={"v": "0"}, headers=SAME_ORIGIN)).status_code == 410


@pytest.mark.parametrize(
    "operation",
    [
        each
        for each in OPERATIONS
        if each.path.startswith(
            ("/v1/keys", "/v1/people", "/v1/groups", "/v1/grants", "/v1/addresses", "/v1/routing")
        )
    ],
    ids=str,
)
async def test_a_member_administers_nothing(
    client: httpx2.AsyncClient, database: Database, shared: Place, operation: Operation
) -> None:
    if operation.path == "/v1/grants/{grant_id}/revoke":
        return  # whoever gave a grant may take it back
    if operation.path == "/v1/people/{person_id}/away":
        return  # it is their own name, and they may be away; tests/server/test_away_routes.py tries another one
    before = await digest(database)
    response = await send(client, operation, shared.ids, shared.member)
    assert response.status_code == 403, response.text
    assert await digest(database) == before


async def test_nobody_but_an_administrator_opens_or_sends_a_page_of_the_administration(
    client: httpx2.AsyncClient, ctx: ServerContext, database: Database, shared: Place
) -> None:
    """Every page below `/admin`, also where it is new: a member, an agent, a reader and nobody change and see nothing."""
    before, seen = await digest(database), 0
    for route in pages(ctx):
        if not route.path.startswith("/admin"):
            continue
        path = route.path.replace(":path}", "}").format_map(defaultdict(lambda: "x", shared.ids))
        for method in route.methods or ():
            seen += 1
            for token in (shared.member, shared.agent, shared.reader, shared.admin_token):
                client.cookies.clear()
                known = {"authorization": f"Bearer {token}"}
                response = await client.request(method, path, headers=known | SAME_ORIGIN)
                assert response.status_code == 403, (method, path, response.status_code)
                assert shared.workspace not in response.text
            anybody = await client.request(method, path, headers=SAME_ORIGIN)
            assert (anybody.status_code, anybody.headers["location"]) == (303, "/sign-in"), path
            if method not in SAFE:
                browser = {"cookie": f"handraise={shared.admin}", "sec-fetch-site": "cross-site"}
                forged = await client.request(method, path, headers=browser)
                assert forged.status_code == 403, (method, path)
    assert seen >= 40
    assert await digest(database) == before


@promise("P8")
async def test_an_administrator_of_another_workspace_changes_nothing_on_these_pages(
    client: httpx2.AsyncClient, ctx: ServerContext, database: Database, mine: Place, theirs: Place
) -> None:
    untouched = await digest(database, theirs.workspace)
    for route in pages(ctx):
        if route.path.startswith("/admin"):
            path = route.path.replace(":path}", "}").format_map(defaultdict(lambda: "x", theirs.ids))
            for method in route.methods or ():
                client.cookies.clear()
                known = {"authorization": f"Bearer {mine.admin}"}
                body = {"sure": "true", "name": "x", "reason": "x", "person": "ana", "who": "ana"}
                sent = None if method in SAFE else body
                response = await client.request(method, path, headers=known, data=sent)
                assert response.status_code < 500, (method, path, response.text)
                assert theirs.workspace not in response.text, path
    assert await digest(database, theirs.workspace) == untouched


@pytest.mark.parametrize("method", SAFE)
@pytest.mark.parametrize("path", sorted({each.path for each in OPERATIONS}))
async def test_safe_methods_change_nothing(
    client: httpx2.AsyncClient, database: Database, shared: Place, path: str, method: str
) -> None:
    before = await digest(database)
    for token in (
        None,
        shared.agent,
        shared.member,
        shared.admin,
        shared.reader,
        shared.admin_token,
    ):
        operation = Operation(method, path, None, form=False)
        response = await send(client, operation, shared.ids, token, query={"id": shared.ids["question_id"]})
        assert response.status_code < 500
    assert await digest(database) == before


@promise("P8")
@pytest.mark.parametrize("who", ["agent", "member", "admin", "reader", "admin_token"])
@pytest.mark.parametrize(
    "operation", [each for each in OPERATIONS if "{" in each.path or each.path == "/v1/outcomes"], ids=str
)
async def test_an_id_of_another_workspace_is_like_one_that_is_nowhere(
    client: httpx2.AsyncClient, database: Database, mine: Place, theirs: Place, operation: Operation, who: str
) -> None:
    untouched = await digest(database, theirs.workspace)
    ids = {**theirs.ids, "id": theirs.ids["question_id"]}
    # Names, unlike ids, mean something in every workspace; the test below shows that they reach nothing of theirs.
    for name in set(ids) - {"person_id", "conversation", "name", "recipient", "channel", "version", "rule"}:
        if f"{{{name}}}" not in operation.path and (name, operation.path) != ("id", "/v1/outcomes"):
            continue
        seen = []
        for each in (ids[name], elsewhere(ids[name])):
            query = {"id": each} if name == "id" else None
            response = await send(
                client, operation, {**mine.ids, name: each}, getattr(mine, who), query=query
            )
            said = response.content.replace(each.encode(), b"ID")
            seen.append((response.status_code, said, headers(response)))
        assert seen[0] == seen[1]
    assert await digest(database, theirs.workspace) == untouched


@promise("P8")
@pytest.mark.parametrize("operation", OPERATIONS, ids=str)
async def test_whatever_an_administrator_does_stays_in_the_workspace(
    client: httpx2.AsyncClient, database: Database, mine: Place, theirs: Place, operation: Operation
) -> None:
    untouched = await digest(database, theirs.workspace)
    for token in (mine.admin, mine.agent, mine.admin_token):
        response = await send(client, operation, theirs.ids, token)
        assert response.status_code < 500
        assert (
            b"-b" not in response.content.replace(b"sub-b", b"")
            or theirs.workspace.encode() not in response.content
        )
    assert await digest(database, theirs.workspace) == untouched


async def send(
    client: httpx2.AsyncClient,
    operation: Operation,
    ids: dict[str, str],
    token: str | None,
    *,
    query: dict[str, str] | None = None,
    headers: dict[str, str] | None = None,
) -> httpx2.Response:
    """The response to a request that could be meant; of a stream, its beginning."""
    known = {} if token is None else {"authorization": f"Bearer {token}"}
    sent: dict[str, Any] = {"headers": known | (headers or {})}
    if operation.body is not None:
        how = "json" if not operation.form else "content" if isinstance(operation.body, str) else "data"
        sent[how] = operation.body
    if query is not None:
        sent["params"] = query
    if str(operation) not in STREAMS:
        return await client.request(operation.method, operation.url(ids), **sent)
    request = client.build_request(operation.method, operation.url(ids), **sent)
    try:
        async with asyncio.timeout(0.5):
            response = await client.send(request, stream=True)
    except TimeoutError:
        return httpx2.Response(200)
    if response.status_code != 200:
        await response.aread()
    await response.aclose()
    return response


def pages(ctx: ServerContext) -> list[APIRoute]:
    """Every route that is not in the document, also where it is new."""
    routers = [getattr(each, "original_router", None) for each in create_app(ctx).routes]
    routes = [route for router in routers if router is not None for route in router.routes]
    found = [each for each in routes if isinstance(each, APIRoute) and not each.include_in_schema]
    assert len(found) >= 10
    return found


def elsewhere(known: str) -> str:
    """An id like this one that is nowhere."""
    return known[:-4] + ("0000" if not known.endswith("0000") else "1111")


def headers(response: httpx2.Response) -> dict[str, str]:
    return {name: value for name, value in response.headers.items() if name not in ("date", "x-request-id")}


async def digest(connection: Database, workspace: str | None = None) -> dict[str, str]:
    """What is in every table, of one workspace or of all."""
    tables = await connection.fetch(
        "select c.relname as name, exists (select from pg_attribute as a where a.attrelid = c.oid"
        " and a.attname = 'workspace') as walled"
        " from pg_class as c where c.relnamespace = 'handraise'::regnamespace and c.relkind = 'r'"
    )
    looks = []
    for table in tables:
        name, left_out = table["name"], NOT_STATE.get(table["name"], "")
        if left_out == "*" or (workspace is not None and not table["walled"]):
            continue
        row = f"(to_jsonb(t) - '{left_out}'::text)::text"
        looks.append(
            f"select '{name}' as name, md5(string_agg({row}, ' ' order by {row})) as digest from handraise.{name} as t"  # noqa: S608 -- names from the catalogue
            + (" where workspace = $1" if workspace else "")
        )
    found = await connection.fetch(" union all ".join(looks), *([workspace] if workspace else []))
    return {each["name"]: each["digest"] for each in found}

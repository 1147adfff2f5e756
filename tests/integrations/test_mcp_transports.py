"""The command over stdio and HTTP: processes that are killed, others that go on, and who is let in."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import mcp_types as types
import pytest
import uvicorn
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from handraise import Answered, Desk, Responder, open_desk
from handraise.integrations.mcp import ClientPerson, http_app, mcp_server
from support.command import Done, handraise, process
from support.issuer import issuer_at
from support.server_process import free_clock, server_process
from tests.integrations.app_mcp_clients import LEGACY, MODERN, AtClient, accept, parts_of
from tests.integrations.cells import more_processes, shows
from tests.integrations.processes import Program, asked, people, started, until

ROOT = Path(__file__).parent.parent.parent
APP = Path(__file__).with_name("app_mcp.py")
EXAMPLE = ROOT / "examples" / "integrations" / "mcp_agent.py"
PAGE = ROOT / "docs" / "integrations" / "mcp.md"
SOON = 40.0
TOKEN, KEY = "letmein", "k" * 32
STRATEGY = {"question": "Which strategy?", "choices": ["Blue-green", "Canary"]}

pytestmark = pytest.mark.filterwarnings("ignore:Use `streamable_http_client`:DeprecationWarning")
both_eras = pytest.mark.parametrize("era", [LEGACY, MODERN])


async def call(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    async with asyncio.timeout(SOON):
        return parts_of(await client.call_tool(tool, arguments))


@asynccontextmanager
async def served(url: str, *options: str) -> AsyncIterator[tuple[Program, str]]:
    """The command over HTTP in a process of its own, and its address."""
    line = ("-m", "handraise", *options, "--http", "--port", "0")
    async with started(
        *line, HANDRAISE_URL=url, HANDRAISE_MCP_TOKEN=TOKEN, HANDRAISE_MCP_STATE_KEY=KEY
    ) as program:
        yield program, (await program.says("Listening")).split()[1]


@asynccontextmanager
async def at(
    address: str, era: str, user: AtClient | None = None, token: str | None = TOKEN
) -> AsyncIterator[Client]:
    headers = {} if token is None else {"authorization": f"Bearer {token}"}
    async with httpx2.AsyncClient(headers=headers, timeout=SOON) as http:
        transport = streamable_http_client(address, http_client=http)
        async with Client(transport, mode=era, elicitation_callback=user) as client:
            yield client


@shows("mcp", "survives kill", "resumes elsewhere")
@more_processes
async def test_over_http_both_eras_are_served_and_a_form_is_sent_to_another_server_than_the_one_that_was_killed(
    tmp_path: Path,
) -> None:
    """As the page says that clients are told to start it, and over HTTP."""
    [setting] = re.findall(r"```json\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    entry = json.loads(setting)["mcpServers"]["handraise"]
    assert (entry["command"], entry["args"][0]) == ("handraise", "mcp")
    url = f"sqlite:///{tmp_path / 'questions.db'}"
    async with AsyncExitStack() as stack, people(url) as desk:
        (one, first), (_, second) = await asyncio.gather(
            *(stack.enter_async_context(served(url, *entry["args"])) for _ in range(2))
        )
        async with httpx2.AsyncClient() as http:
            for wrong in ({}, {"authorization": "Bearer letmeout"}, {"authorization": "letmein"}):
                assert (await http.post(first, json={}, headers=wrong)).status_code == 401

        for era in (LEGACY, MODERN):
            async with at(first, era, AtClient([accept(answer="Canary")])) as client:
                result = await call(client, "ask_human", **STRATEGY)
                assert (result["value"], result["evidence"]) == ("Canary", "client-asserted"), era

        async with at(first, MODERN, AtClient()) as client:
            shown = await client.session.call_tool("ask_human", STRATEGY, allow_input_required=True)
        assert isinstance(shown, types.InputRequiredResult)
        [question] = await asked(desk)
        await one.kill()
        async with at(second, MODERN, AtClient()) as client:
            sent = await client.session.call_tool(
                "ask_human",
                STRATEGY,
                input_responses={"answer": accept(answer="Blue-green")},
                request_state=shown.request_state,
            )
    assert (parts_of(sent)["question_id"], parts_of(sent)["value"]) == (question.id, "Blue-green")


@asynccontextmanager
async def served_here(desk: Desk, **options: Any) -> AsyncIterator[str]:
    """A server over HTTP in this process."""
    app = http_app(mcp_server(desk, **{"wait": SOON, **options}), token=TOKEN)
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_config=None, timeout_graceful_shutdown=1))
    serving = asyncio.create_task(server.serve())
    await until(lambda: server.started)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/mcp"
    finally:
        server.should_exit = True
        await serving


async def test_no_other_credential_opens_the_door_and_nothing_is_asked() -> None:
    call = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "ask_human", "arguments": STRATEGY},
    }
    others = (
        "",
        "Bearer",
        f"bearer {TOKEN}x",
        f"Basic {TOKEN}",
        f"Bearer {TOKEN[:-1]}",
        "Bearer hra_mq_" + "A" * 43,
    )
    async with open_desk("memory:") as desk, served_here(desk) as address, httpx2.AsyncClient() as client:
        for method in ("POST", "GET", "DELETE", "HEAD", "OPTIONS", "PUT"):
            for given in others:
                for place in (
                    address,
                    f"{address}?token={TOKEN}",
                    f"{address}/",
                    address.replace("/mcp", "/x"),
                ):
                    headers = {
                        "authorization": given,
                        "cookie": f"handraise={TOKEN}",
                        "accept": "application/json",
                    }
                    response = await client.request(method, place, json=call, headers=headers)
                    assert response.status_code == 401, (method, given, place)
        assert list((await desk.list_pending()).items) == []


async def test_a_form_from_before_a_restart_is_refused_where_the_servers_share_no_key() -> None:
    async with open_desk("memory:") as desk:
        person = ClientPerson(desk, Responder("ana"))
        async with served_here(desk, person=person) as first, at(first, MODERN, AtClient()) as client:
            shown = await client.session.call_tool("ask_human", STRATEGY, allow_input_required=True)
        assert isinstance(shown, types.InputRequiredResult)
        async with served_here(desk, person=person) as second, at(second, MODERN, AtClient()) as client:
            with pytest.raises(MCPError, match="Invalid or expired requestState"):
                await client.session.call_tool(
                    "ask_human",
                    STRATEGY,
                    input_responses={"answer": accept(answer="Canary")},
                    request_state=shown.request_state,
                )
        [question] = await asked(desk)
        assert question.outcome is None


@shows("mcp", "asks once")
async def test_a_request_of_a_session_that_is_sent_again_after_its_line_was_cut_asks_once() -> None:
    request = {
        "jsonrpc": "2.0",
        "id": 7,
        "method": "tools/call",
        "params": {"name": "ask_human", "arguments": STRATEGY},
    }
    hello = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "by hand", "version": "1"},
    }
    async with open_desk("memory:") as desk, served_here(desk) as address:
        headers = {
            "authorization": f"Bearer {TOKEN}",
            "accept": "application/json, text/event-stream",
            "mcp-protocol-version": "2025-06-18",
        }
        async with httpx2.AsyncClient(headers=headers, timeout=SOON) as http:
            begun = await http.post(
                address, json={"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}
            )
            http.headers["mcp-session-id"] = begun.headers["mcp-session-id"]
            await http.post(address, json={"jsonrpc": "2.0", "method": "notifications/initialized"})
            sending = asyncio.create_task(http.post(address, json=request))
            [question] = await asked(desk)
            sending.cancel()
            await desk.answer(question.id, "Canary", by="bo")
            again = await http.post(address, json=request)
        assert [each.id for each in (await desk.list_settled()).items] == [question.id]
        assert (await desk.list_pending()).items == []
    [line] = [line for line in again.text.splitlines() if line.startswith("data: {")]
    assert json.loads(line.removeprefix("data: "))["result"]["structuredContent"]["value"] == "Canary"


@both_eras
async def test_over_http_two_clients_answer_in_reverse_and_a_client_that_leaves_withdraws_nothing(
    era: str,
) -> None:
    async with open_desk("memory:") as desk, served_here(desk) as address:
        async with at(address, era) as one, at(address, era) as two:
            first = asyncio.create_task(call(one, "ask_human", question="First?"))
            await asked(desk)
            second = asyncio.create_task(call(two, "ask_human", question="Second?"))
            _, last = await asked(desk, number=2)
            await desk.answer(last.id, "to the second", by="bo")
            assert (await second)["value"] == "to the second"
            first.cancel()
        [question] = await asked(desk)
        await desk.answer(question.id, "to the first", by="bo")
        async with at(address, era) as other:
            assert (await call(other, "collect_answer", question_id=question.id))["value"] == "to the first"


@more_processes
async def test_at_a_server_the_key_asks_and_only_the_session_of_the_person_answers(tmp_path: Path) -> None:
    url, clock = f"sqlite:///{tmp_path / 'questions.db'}", tmp_path / "clock"
    free_clock(clock)
    with issuer_at(url) as issuer, server_process(url, clock) as address:
        key = await issuer.agent("default", "deployer")
        session = await issuer.person("default", Responder("ana", frozenset({"ops"})))
        async with (
            open_desk(address, credentials=key) as desk,
            open_desk(address, credentials=session) as hers,
        ):
            person = ClientPerson(hers, Responder("ana"))
            server = mcp_server(desk, person=person, wait=SOON, recipients=["group:ops"])
            for era in (LEGACY, MODERN):
                user = AtClient([accept(answer="Canary")])
                async with Client(server, mode=era, elicitation_callback=user) as client:
                    result = await call(client, "ask_human", **STRATEGY)
                assert (result["by"], result["evidence"]) == ("ana", "client-asserted"), era
                outcome = (await desk.get(result["question_id"])).outcome
                assert isinstance(outcome, Answered)
                assert (outcome.channel, outcome.evidence) == ("mcp", "client-asserted")

            user = AtClient([accept(answer="x")])
            server = mcp_server(desk, person=ClientPerson(desk, Responder("ana")), wait=0.1)
            async with Client(server, mode=LEGACY, elicitation_callback=user) as client:
                result = await call(client, "ask_human", question="And with the key of an agent?")
            assert (result["status"], user.shown) == ("still_pending", [])

        kept = tmp_path / "handraise" / "sessions.json"
        nobody = await command(address, key, tmp_path)
        assert (nobody.returncode, "You are not signed in" in nobody.stderr) == (1, True)
        kept.parent.mkdir()
        kept.write_text(json.dumps({address: await issuer.person("default", "bo")}), encoding="utf-8")
        another = await command(address, key, tmp_path)
        assert (another.returncode, "belongs to 'bo'" in another.stderr) == (1, True)


async def command(address: str, key: str, folder: Path) -> Done:
    """`handraise mcp --person ana` at a server, by somebody whose sessions are kept in this folder."""
    line = ("mcp", "--person", "ana")
    return await asyncio.to_thread(lambda: handraise(*line, url=address, key=key, XDG_DATA_HOME=str(folder)))


@more_processes
def test_the_command_says_what_it_cannot_do(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'questions.db'}"
    missing = process("mcp", url=url, before="import sys\nsys.modules['mcp'] = None")
    assert (missing.returncode, missing.stdout) == (78, "")
    assert missing.stderr == 'mcp is not installed. Run: pip install "handraise[mcp]"\n'

    open_door = handraise("mcp", "--http", "--host", "0.0.0.0", url=url)  # noqa: S104 -- that is the point
    assert open_door.returncode == 1
    assert "HANDRAISE_MCP_TOKEN" in open_door.stderr

    short = handraise("mcp", url=url, mcp_state_key="short")
    assert (short.returncode, "HANDRAISE_MCP_STATE_KEY is too short" in short.stderr) == (1, True)

    same = handraise("mcp", "--person", "agent", url=url)
    assert (same.returncode, "the asker cannot answer" in same.stderr) == (1, True)

    wrong = handraise("mcp", "--risk", "none", url=url)
    assert wrong.returncode == 2

    kept_nowhere = handraise("mcp", url="memory:")
    assert (kept_nowhere.returncode, "keeps nothing" in kept_nowhere.stderr) == (1, True)

    no_key = handraise("mcp", "--person", "ana", url="http://127.0.0.1:9")
    assert (no_key.returncode, "HANDRAISE_KEY" in no_key.stderr) == (1, True)


def test_a_server_for_others_needs_a_token() -> None:
    async def build() -> None:
        async with open_desk("memory:") as desk:
            for host in ("0.0.0.0", "::", "10.0.0.1", "example.org"):  # noqa: S104 -- that is the point
                with pytest.raises(ValueError, match="Without a token"):
                    http_app(mcp_server(desk), host=host)
                http_app(mcp_server(desk), host=host, token=TOKEN)
            for host in ("127.0.0.1", "localhost", "::1"):
                http_app(mcp_server(desk), host=host)

    asyncio.run(build())


def test_where_a_person_could_answer_programs_on_the_same_machine_need_the_token_too() -> None:
    async def build() -> None:
        async with open_desk("memory:") as desk:
            server = mcp_server(desk, person=ClientPerson(desk, Responder("ana")))
            for host in ("127.0.0.1", "localhost", "::1"):
                with pytest.raises(ValueError, match="ask and then answer as ana"):
                    http_app(server, host=host)
                http_app(server, host=host, token=TOKEN)

    asyncio.run(build())

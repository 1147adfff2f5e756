"""Socket Mode: connections come and go, and nothing that people do is lost or done twice."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest
from slack_sdk.signature import SignatureVerifier
from slack_sdk.socket_mode.aiohttp import SocketModeClient
from slack_sdk.socket_mode.async_client import AsyncBaseSocketModeClient
from slack_sdk.socket_mode.request import SocketModeRequest
from slack_sdk.socket_mode.response import SocketModeResponse
from slack_sdk.web.async_client import AsyncWebClient

from handraise.channels.slack import socket_mode
from handraise.channels.slack.signatures import is_genuine
from handraise.model.errors import StoreUnavailable
from handraise.model.forms import Confirm
from tests.channels.slack_peer import APP_TOKEN, BOT_TOKEN, SECRET, WITHIN, Fault, open_peer
from tests.channels.slack_server import Team, open_team

ANN = "U0ANN"


@pytest.fixture
async def team(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Team]:
    monkeypatch.setattr(socket_mode, "_FIRST_PAUSE", 0.01)
    async with open_team("socket") as team:
        yield team


async def connections(team: Team, number: int) -> None:
    """Return once there have been so many."""
    async with asyncio.timeout(WITHIN), team.peer.greeted:
        await team.peer.greeted.wait_for(lambda: len(team.peer.sockets) >= number)


@pytest.mark.parametrize("reason", ["warning", "refresh_requested"])
async def test_the_next_connection_is_open_before_the_last_is_gone(team: Team, reason: str) -> None:
    first, message = await team.ask("First?", form=Confirm())
    old = await team.peer.socket()
    await old.send_json({"type": "disconnect", "reason": reason, "debug_info": {"host": "x"}})
    await connections(team, 2)
    assert not old.closed
    # Slack may still send something the old way, and gets its answer the same way.
    await team.peer.send_envelope(team.peer.interaction(ANN, message, "yes"), socket=old)
    assert await team.value(first) is True
    await old.close()
    second, message = await team.ask("Second?", form=Confirm())
    await team.peer.press(ANN, message, "no")
    assert await team.value(second) is False
    assert len(team.peer.sockets) == 2


async def test_a_connection_that_breaks_is_made_anew(team: Team) -> None:
    for turn in range(3):
        live = await team.peer.socket()
        await live.close()
        team.peer.fail("apps.connections.open", Fault(500), Fault(200, "internal_error"))
        await connections(team, turn + 2)
    question, message = await team.ask("Go?", form=Confirm())
    await team.peer.press(ANN, message, "yes")
    assert await team.value(question) is True


async def test_where_socket_mode_is_turned_off_it_is_tried_again(
    team: Team, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket_mode, "_LONGEST_PAUSE", 0.05)
    live = await team.peer.socket()
    await live.send_json({"type": "disconnect", "reason": "link_disabled"})
    await connections(team, 2)
    assert "link_disabled" in caplog.text


async def test_what_could_not_be_done_is_not_acknowledged_and_comes_again(
    team: Team, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    question, message = await team.ask("Go?", form=Confirm())
    replies = team.slack._incoming._flow._replies  # noqa: SLF001 -- to fail where it is used

    async def fail(*_: Any) -> None:
        raise StoreUnavailable("planted")

    event = team.peer.event(ANN, message.channel, "yes", thread=message.ts)
    with monkeypatch.context() as broken:
        broken.setattr(replies, "take", fail)
        sending = asyncio.create_task(team.peer.send_envelope(event, envelope="e1"))
        async with asyncio.timeout(WITHIN):
            while "StoreUnavailable" not in caplog.text:
                await asyncio.sleep(0.001)
        assert not sending.done()
        sending.cancel()
    for retry in (1, 2):
        await team.peer.send_envelope(event, envelope="e1", retry=retry)
    assert await team.value(question) is True
    assert [each.kind.value for each in await team.desk.history(question.id)] == ["asked", "answered"]


async def test_nonsense_on_the_wire_is_passed_over(team: Team) -> None:
    live = await team.peer.socket()
    for text in ("", "{", "[]", "7", "null", '{"type":"x"}', '{"envelope_id":7,"payload":{}}', "[" * 9_000):
        await live.send_str(text)
    await live.send_bytes(b"\xff\xfe")
    await live.send_json({"envelope_id": "e", "payload": []})
    question, message = await team.ask("Go?", form=Confirm())
    await team.peer.press(ANN, message, "yes")
    assert await team.value(question) is True


async def test_nothing_that_people_answer_is_logged(team: Team, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    question, message = await team.ask("Go?")
    await team.peer.press(ANN, message, "answer")
    await team.peer.submit(ANN, f0="hush hush")
    assert await team.value(question) == "hush hush"
    ours = [each for each in caplog.records if not each.name.startswith(("aiohttp", "asyncio"))]
    text = "\n".join(each.getMessage() for each in ours)
    for secret in ("hush hush", BOT_TOKEN, APP_TOKEN, "ticket-"):
        assert secret not in text


async def test_slacks_own_client_gets_on_with_the_stand_in() -> None:
    async with open_peer() as peer:
        peer.people[ANN] = "T0HOME"
        web = AsyncWebClient(token=BOT_TOKEN, base_url=f"{peer.api_url}/")
        assert (await web.auth_test())["team_id"] == "T0HOME"
        taken: asyncio.Queue[SocketModeRequest] = asyncio.Queue()

        async def take(client: AsyncBaseSocketModeClient, request: SocketModeRequest) -> None:
            await client.send_socket_mode_response(
                SocketModeResponse(envelope_id=request.envelope_id, payload={"response_action": "clear"})
            )
            taken.put_nowait(request)

        client = SocketModeClient(app_token=APP_TOKEN, web_client=web)
        client.socket_mode_request_listeners.append(take)
        await client.connect()  # type: ignore[no-untyped-call]  # it has no types
        try:
            sent = await peer.send_envelope({"type": "view_submission", "user": {"id": ANN}})
            async with asyncio.timeout(WITHIN):
                request = await taken.get()
        finally:
            await client.close()  # type: ignore[no-untyped-call]  # it has no types
        assert (request.type, sent.answer) == ("interactive", {"response_action": "clear"})


async def test_slacks_own_code_and_ours_agree_on_signatures() -> None:
    async with open_peer() as peer:
        signed = peer.signed({"type": "event_callback", "text": "Grüße 🙂"})
        assert SignatureVerifier(SECRET).is_valid_request(signed.body, dict(signed.headers))
        assert is_genuine(SECRET, signed.headers, signed.body)
        assert not is_genuine(SECRET + "x", signed.headers, signed.body)

"""Who must not get in: requests that Slack did not make, made long ago, or made of nonsense."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import random
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any
from urllib.parse import urlencode

import httpx2
import pytest
import pytest_asyncio
from slack_sdk.signature import SignatureVerifier

from handraise import Approval
from handraise.channels.chat_flow import ChatFlow
from handraise.channels.slack import channel as slack_channel
from handraise.channels.slack.api import SlackApi
from handraise.model.forms import Confirm, MultiChoice
from handraise.ports.channel import NotSent
from tests.channels.chat_requests import flipped, mangled
from tests.channels.slack_peer import SECRET, Posted, Sent
from tests.channels.slack_server import INBOUND, STRANGER, Team, open_team
from tests.samples import turns
from tests.tiers import drawn, sized

pytestmark = pytest.mark.asyncio(loop_scope="module")

ANN = "U0ANN"
FORM = "application/x-www-form-urlencoded"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared() -> AsyncIterator[Team]:
    # So many wrong requests from one address would be slowed down long before they were looked at.
    async with open_team(sign_in_limit="1000000/minute", rate_limit="1000000/second") as team:
        yield team


@pytest.fixture
def team(shared: Team) -> Team:
    return shared.anew()


def forgeries(team: Team, message: Posted) -> Iterator[tuple[dict[str, str], bytes]]:
    """A thousand requests that Slack did not make just now: forged, bit-flipped, stale, cut, mixed up."""
    peer = team.peer
    other = SignatureVerifier("another secret")
    for turn in turns(1_000, kinds=12, each=6):
        chance = random.Random(f"6 {turn}")
        payload = peer.interaction(ANN, message, "yes")
        good = peer.signed(payload)
        headers, body = dict(good.headers), good.body
        stamp, signature = headers["x-slack-request-timestamp"], headers["x-slack-signature"]
        match turn % 12:
            case 0:
                body = flipped(body, chance)
            case 1:
                flat = flipped(signature.encode(), chance)
                headers["x-slack-signature"] = flat.decode("latin-1")
            case 2:
                headers["x-slack-request-timestamp"] = str(int(stamp) + chance.choice((-1, 1, 60, -60)))
            case 3:
                age = chance.choice((-1, 1)) * chance.randrange(302, 10_000_000)
                headers = dict(peer.signed(payload, at=time.time() + age).headers)
            case 4:
                made = other.generate_signature(timestamp=stamp, body=body)
                headers["x-slack-signature"] = made or ""
            case 5:
                del headers[chance.choice(("x-slack-signature", "x-slack-request-timestamp"))]
            case 6:
                body = peer.signed(peer.interaction(ANN, message, "no")).body
            case 7:
                body = body[: chance.randrange(len(body))]
            case 8:
                headers["x-slack-signature"] = chance.choice(
                    (
                        "",
                        "v0=",
                        "v0=" + "0" * 64,
                        signature[3:],
                        f"v1={signature[3:]}",
                        signature.upper(),
                        "v0=é" * 9,
                    )
                )
            case 9:
                headers["x-slack-request-timestamp"] = chance.choice(
                    (
                        "",
                        "x",
                        "-1",
                        "1e9",
                        "٣" * 10,
                        "9" * 40,
                        f" {stamp}",
                        f"{stamp}.0",
                        f"+{stamp}",
                        "nan",
                        "0",
                    )
                )
            case 10:
                body += chance.choice((b" ", b"&payload={}", b"\x00", b"\xff", b"A" * 9_000))
            case _:
                made = other.generate_signature(timestamp=stamp, body=f"{stamp}:{SECRET}")
                headers["x-slack-signature"] = made or ""
        yield headers, body


async def test_a_thousand_forged_requests_record_nothing(team: Team) -> None:
    question, message = await team.ask("Go?", form=Confirm())
    calls = len(team.peer.calls)
    answers = set()
    for headers, body in forgeries(team, message):
        # Header values are bytes on the wire, and anybody can put any of them there.
        raw = {name.encode(): value.encode() for name, value in headers.items()}
        answer = await team.client.post(INBOUND, content=body, headers=raw)
        answers.add((answer.status_code, answer.content))
    assert answers == {(401, b"")}
    await team.untouched(question)
    assert len(team.peer.calls) == calls
    assert (await team.peer.press(ANN, message, "yes")).status == 200
    assert await team.value(question) is True


async def test_a_request_that_is_replayed_changes_nothing_more(team: Team) -> None:
    question, message = await team.ask(form=MultiChoice.of("a", "b", at_least=2), max_attempts=3)
    await team.peer.press(ANN, message, "answer")
    view = {
        **team.peer.views[ANN],
        "state": {"values": {"f0": {"v": {"selected_options": [{"value": "0"}]}}}},
    }
    misfit = team.peer.signed(
        {**team.peer.interaction(ANN, message, "answer"), "type": "view_submission", "view": view}
    )
    answers = await asyncio.gather(*(team.peer.request(misfit) for _ in range(sized(gate=10, nightly=50))))
    assert {each.status for each in answers} == {200}
    now = await team.desk.get(question.id)
    assert (now.attempts, now.outcome) == (1, None)
    event = team.peer.event(ANN, message.channel, "1, 2", thread=message.ts)
    for turn in range(sized(gate=10, nightly=50)):
        again = team.peer.signed(event, retry=turn)
        assert (await team.peer.request(again)).status == 200
    assert await team.value(question) == ["a", "b"]
    kinds = [each.kind.value for each in await team.desk.history(question.id)]
    assert kinds == ["asked", "attempted", "answered"]


NONSENSE: list[Any] = [
    *(None, True, 0, -1, 1.5, "", "x", [], {}, [[]], {"x": []}, "\x00", "\ud800", "x" * 5_000),
    *('["w"]', '["default","x"]', "[1,2]", '{"a":1}', '["default","\\u0000"]', "[" * 500, "null", "🙂"),
    *({"value": "7"}, {"value": None}, {"value": []}, [{}], [None], {"id": "U0ANN"}, {"id": ["U0ANN"]}),
]


async def test_genuine_requests_that_make_no_sense_are_no_trouble(team: Team) -> None:
    question, message = await team.ask("Go?", form=Confirm())
    submission = {
        **team.peer.interaction(STRANGER, message, "yes"),
        "type": "view_submission",
        "view": {
            "callback_id": "answer",
            "private_metadata": json.dumps(["default", question.id]),
            "state": {"values": {"f0": {"v": {"selected_option": {"value": "0"}}}}},
        },
    }
    for turn in drawn(range(400), 50):
        chance = random.Random(f"7 {turn}")
        payload = chance.choice(
            (
                team.peer.interaction(STRANGER, message, "yes"),
                submission,
                team.peer.event(STRANGER, message.channel, "yes", thread=message.ts),
            )
        )
        for _ in range(chance.randrange(1, 4)):
            payload = mangled(payload, chance, NONSENSE)
        if chance.random() < 0.5:
            body, kind = urlencode({"payload": json.dumps(payload)}).encode(), FORM
        else:
            body, kind = json.dumps(payload).encode(), "application/json"
        signed = team.peer.sign(body, kind)
        status, _ = await team.post(signed.headers, signed.body)
        assert status in (200, 400), body
    await team.untouched(question)


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"", FORM),
        (b"", "application/json"),
        (b"payload=", FORM),
        (b"payload=%7B", FORM),
        (b"payload={}&payload={}", FORM),
        (b"command=%2Fx&text=y", FORM),
        (b"&" * 50, FORM),
        (b"\xff\xfe", "application/json"),
        (b"[" * 100_000, "application/json"),
        (b"[]", "application/json"),
        (b"7", "text/plain"),
        (b"{}" * 2, ""),
    ],
)
async def test_what_cannot_be_read_is_refused(team: Team, body: bytes, kind: str) -> None:
    signer: Callable[[bytes, str], Sent] = team.peer.sign
    signed = signer(body, kind) if body.isascii() else by_hand(body, kind)
    status, said = await team.post(signed.headers, signed.body)
    assert (status, said) == (400, b"")


def by_hand(body: bytes, kind: str) -> Sent:
    """Slack's own code signs only text."""
    stamp = str(int(time.time()))
    made = hmac.new(SECRET.encode(), b"v0:" + stamp.encode() + b":" + body, hashlib.sha256).hexdigest()
    return Sent(
        {"content-type": kind, "x-slack-request-timestamp": stamp, "x-slack-signature": f"v0={made}"}, body
    )


async def test_slack_may_see_whether_the_address_is_ours(team: Team) -> None:
    hello = {"type": "url_verification", "challenge": "3eZbrw1aB", "token": "x"}
    assert (await team.peer.send(hello)).answer == {"challenge": "3eZbrw1aB"}
    forged = await team.client.post(INBOUND, json=hello)
    assert (forged.status_code, forged.content) == (401, b"")


async def test_an_approval_of_another_action_is_not_taken(team: Team) -> None:
    question, message = await team.ask("Deploy?", form=Approval.of("deploy", {"version": 1}))
    payload = team.peer.interaction(ANN, message, "approve")
    payload["actions"][0]["value"] = json.dumps(["default", question.id, "0" * 64])
    await team.peer.send(payload)
    assert "the decision is about another action" in await team.told(ANN)
    assert (await team.desk.get(question.id)).outcome is None


@pytest.mark.parametrize("through", [False, True], ids=["the chat", "the desk"])
async def test_an_action_of_high_risk_is_not_decided_by_a_press_that_somebody_made_up(
    team: Team, monkeypatch: pytest.MonkeyPatch, *, through: bool
) -> None:
    form = Approval.of("drop", risk="high")
    question, _ = await team.ask("Drop?", form=form)
    _, message = await team.ask("Deploy?", form=Approval.of("deploy"))
    if through:
        monkeypatch.setattr(ChatFlow, "why_not_here", lambda *_: None)
    payload = team.peer.interaction(ANN, message, "approve")
    payload["actions"][0]["value"] = json.dumps(["default", question.id, form.digest])
    await team.peer.send(payload)
    assert ("in the terminal" if through else "where people sign in") in await team.told(ANN)
    assert (await team.desk.get(question.id)).outcome is None


async def test_somebody_of_another_workspace_learns_and_does_nothing(team: Team) -> None:
    question, message = await team.ask("Go?", form=Confirm())
    elsewhere = await team.desk.scoped("elsewhere").post("Secret?", form=Confirm())
    payload = team.peer.interaction(ANN, message, "yes")
    payload["actions"][0]["value"] = json.dumps(["elsewhere", elsewhere.id, True])
    await team.peer.send(payload)
    first = await team.told(ANN)
    payload = team.peer.interaction(ANN, message, "yes")
    payload["actions"][0]["value"] = json.dumps(["elsewhere", "no such question", True])
    team.peer.told.clear()
    await team.peer.send(payload)
    assert first == await team.told(ANN)
    assert (await team.desk.scoped("elsewhere").get(elsewhere.id)).outcome is None
    await team.untouched(question)


@pytest.mark.parametrize(
    "url",
    [
        "http://169.254.169.254/latest/meta-data",
        "https://hooks.slack.com/actions/T0/1/x",
        "http://127.0.0.1:9/actions/r1",
        "http://127.0.0.1@evil.example/",
        "file:///etc/passwd",
        "//127.0.0.1/",
        "http://[",
        "",
        None,
        7,
        ["http://127.0.0.1"],
    ],
)
async def test_nobody_else_is_called_in_answer(team: Team, url: Any) -> None:
    question, message = await team.ask("Go?", form=Confirm())
    payload = team.peer.interaction(STRANGER, message, "yes") | {"response_url": url}
    assert (await team.peer.send(payload)).status == 200
    async with httpx2.AsyncClient(verify=False) as client:
        api = SlackApi(client, "xoxb-x", team.peer.api_url)
        with pytest.raises(NotSent, match="no address of Slack"):
            await api.tell(url, "hello")
    await team.untouched(question)


@pytest.mark.parametrize(
    ("url", "known"),
    [
        ("https://hooks.slack.com/actions/T0/1/x", True),
        ("https://hooks.slack.com:444/actions", False),
        ("https://hooks.slack.com.evil.example/actions", False),
        ("https://hooks.slack.com@evil.example/actions", False),
        ("https://evil.example/hooks.slack.com", False),
        ("http://hooks.slack.com/actions", False),
        ("https://hooks.slack.com\\@evil.example/", False),
        ("https://u:p@hooks.slack.com/actions", False),
        ("https://evilhooks.slack.com/actions", False),
        ("https://files.slack.com/", False),
    ],
)
async def test_slacks_own_address_is_known(url: str, known: bool) -> None:  # noqa: FBT001 -- a table
    async with httpx2.AsyncClient(verify=False) as client:
        assert SlackApi(client, "xoxb-x", "https://slack.com/api").is_slack(url) is known


@pytest.mark.parametrize(
    ("where", "is_slacks"),
    [
        ("https://files.slack.com/upload/v1/x", True),
        ("https://files.slack.com.evil.example/upload", False),
        ("http://169.254.169.254/latest", False),
        (None, False),
    ],
)
async def test_a_file_is_uploaded_to_slack_only_and_without_the_token(
    where: str | None,
    is_slacks: bool,  # noqa: FBT001 -- a table
) -> None:
    asked: list[httpx2.Request] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        asked.append(request)
        if request.url.path.startswith("/api/"):
            return httpx2.Response(200, json={"ok": True, "upload_url": where, "file_id": "F1"})
        return httpx2.Response(200, text="OK")

    async with httpx2.AsyncClient(transport=httpx2.MockTransport(answer)) as client:
        api = SlackApi(client, "xoxb-x", "https://slack.com/api")
        if is_slacks:
            assert await api.upload("a.txt", b"abc") == "F1"
            assert (asked[1].content, asked[1].headers.get("authorization")) == (b"abc", None)
        else:
            with pytest.raises(NotSent, match="where to upload"):
                await api.upload("a.txt", b"abc")
            assert len(asked) == 1


async def test_a_slow_desk_does_not_let_slack_wait(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    question, message = await team.ask("Go?", form=Confirm())
    gate = asyncio.Event()
    monkeypatch.setattr(slack_channel, "_AT_ONCE", 0.01)
    replies = team.slack._incoming._flow._replies  # noqa: SLF001 -- to be slow where it is used
    quick = replies.take

    async def slow(reply: Any) -> Any:
        await gate.wait()
        return await quick(reply)

    monkeypatch.setattr(replies, "take", slow)
    assert (await team.peer.press(ANN, message, "yes")).status == 200
    await team.untouched(question)
    gate.set()
    assert await team.value(question) is True

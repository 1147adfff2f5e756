"""Who must not get in: requests that Discord did not make, made long ago, or made of nonsense."""

from __future__ import annotations

import asyncio
import json
import logging
import random
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import pytest_asyncio
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from handraise import Approval
from handraise.channels.chat_flow import ChatFlow
from handraise.channels.discord import channel as discord_channel
from handraise.channels.discord.references import QuestionReference, tag_of
from handraise.model.errors import RequestConflict, StoreUnavailable
from handraise.model.forms import Confirm, MultiChoice, Open
from handraise.server import ServerSettings
from tests.channels.chat_requests import flipped, mangled
from tests.channels.discord_peer import APPLICATION, BOT_TOKEN, THREE_SECONDS, Posted, Sent, open_peer
from tests.channels.discord_server import ANN, INBOUND, STRANGER, Team, open_team
from tests.samples import turns
from tests.tiers import drawn, sized

pytestmark = pytest.mark.asyncio(loop_scope="module")

STAMP, SIGNATURE = "x-signature-timestamp", "x-signature-ed25519"
ORDER = 2**252 + 27742317777372353535851937790883648493
"""Of the curve: a signature with this added to its second half is the same to who does not look."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared() -> AsyncIterator[Team]:
    # So many wrong requests from one address would be slowed down long before they were looked at.
    async with (
        open_peer() as peer,
        open_team(peer, sign_in_limit="1000000/minute", rate_limit="1000000/second") as team,
    ):
        yield team


@pytest.fixture
def team(shared: Team) -> Team:
    return shared.anew()


def forgeries(team: Team, message: Posted) -> Iterator[tuple[dict[str, str], bytes]]:
    """A thousand requests that Discord did not make just now: forged, bit-flipped, stale, replayed, cut, mixed up."""
    peer = team.peer
    other = Ed25519PrivateKey.generate()
    old = peer.signed(peer.interaction(ANN, message, "yes"), at=time.time() - 301)
    for turn in turns(1_000, kinds=14, each=6):
        chance = random.Random(f"6 {turn}")
        payload = peer.interaction(ANN, message, "yes")
        good = peer.signed(payload)
        headers, body = dict(good.headers), good.body
        stamp, signature = headers[STAMP], headers[SIGNATURE]
        match turn % 14:
            case 0:
                body = flipped(body, chance)
            case 1:
                headers[SIGNATURE] = flipped(bytes.fromhex(signature), chance).hex()
            case 2:
                headers[STAMP] = str(int(stamp) + chance.choice((-1, 1, 60, -60)))
            case 3:
                age = chance.choice((-1, 1)) * chance.randrange(302, 10_000_000)
                headers = dict(peer.signed(payload, at=time.time() + age).headers)
            case 4:
                headers[SIGNATURE] = other.sign(stamp.encode() + body).hex()
            case 5:
                del headers[chance.choice((SIGNATURE, STAMP))]
            case 6:
                body = peer.signed(peer.interaction(ANN, message, "no")).body
            case 7:
                body = body[: chance.randrange(len(body))]
            case 8:
                wrong = (
                    "",
                    "0" * 128,
                    signature[:-2],
                    signature + "00",
                    signature.upper(),
                    f"0x{signature}",
                    "é" * 128,
                )
                headers[SIGNATURE] = chance.choice(wrong)
            case 9:
                senseless = (
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
                headers[STAMP] = chance.choice(senseless)
            case 10:
                body += chance.choice((b" ", b"{}", b"\x00", b"\xff", b"A" * 9_000))
            case 11:
                headers, body = dict(old.headers), old.body
            case 12:
                headers[SIGNATURE] = peer.key.sign(body).hex()
            case _:
                half = int.from_bytes(bytes.fromhex(signature)[32:], "little") + ORDER
                headers[SIGNATURE] = signature[:64] + half.to_bytes(32, "little").hex()
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
    modal, _ = team.peer.modals[ANN]
    misfit = team.peer.signed(team.peer.submission(ANN, modal, message, f0=[1]))
    answers = await asyncio.gather(*(team.peer.request(misfit) for _ in range(sized(gate=10, nightly=50))))
    assert {each.status for each in answers} == {200}
    now = await team.desk.get(question.id)
    assert (now.attempts, now.outcome) == (1, None)
    fits = team.peer.signed(team.peer.submission(ANN, modal, message, f0=[0, 1]))
    for _ in range(sized(gate=10, nightly=50)):
        assert (await team.peer.request(fits)).status == 200
    assert await team.value(question) == ["a", "b"]
    kinds = [each.kind.value for each in await team.desk.history(question.id)]
    assert kinds == ["asked", "attempted", "answered"]


async def test_the_same_id_with_something_else_in_it_is_not_taken(team: Team) -> None:
    question, message = await team.ask("What?", form=Open(type="integer"))
    await team.peer.press(ANN, message, "answer")
    modal, _ = team.peer.modals[ANN]
    first = team.peer.submission(ANN, modal, message, f0="x")
    second = {**team.peer.submission(ANN, modal, message, f0="7"), "id": first["id"]}
    for each, said in (
        (first, "That does not fit"),
        (second, "This was sent twice with different content. The first one counted."),
    ):
        await team.peer.send(ANN, message, each)
        assert said in team.told(ANN)
    assert (await team.desk.get(question.id)).outcome is None


NONSENSE: list[Any] = [
    *(None, True, 0, -1, 1.5, "", "x", [], {}, [[]], {"x": []}, "\x00", "\ud800", "x" * 5_000),
    *("yes x - default", "yes", "yes   ", " - - -", "yes \x00 - default", "[" * 500, "null", "🙂"),
    *({"value": "7"}, {"value": None}, {"value": []}, [{}], [None], {"id": ANN}, {"id": [ANN]}, 1 << 80),
]


async def test_genuine_requests_that_make_no_sense_are_no_trouble(
    team: Team, caplog: pytest.LogCaptureFixture
) -> None:
    question, message = await team.ask("Go?", form=MultiChoice.of("a", "b", at_least=2))
    await team.peer.press(ANN, message, "answer")
    modal, _ = team.peer.modals[ANN]
    for turn in drawn(range(500), 50):
        chance = random.Random(f"7 {turn}")
        who = chance.choice((STRANGER, ANN))
        payload: Any = chance.choice(
            (team.peer.interaction(who, message, "answer"), team.peer.submission(who, modal, message, f0=[1]))
        )
        for _ in range(chance.randrange(1, 4)):
            payload = mangled(payload, chance, NONSENSE)
        sent = team.peer.sign(json.dumps(payload).encode())
        status, _ = await team.post(sent.headers, sent.body)
        assert status in (200, 400), payload
    now = await team.desk.get(question.id)
    assert now.outcome is None
    assert [each for each in caplog.records if each.levelno >= logging.ERROR] == []


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"\xff\xfe", b"[" * 100_000, b"[]", b"7", b"{}" * 2, b'"x"', b'{"type":3}', b'{"type":5}'],
)
async def test_what_cannot_be_read_is_refused(team: Team, body: bytes) -> None:
    signed = team.peer.sign(body)
    assert await team.post(signed.headers, signed.body) == (400, b"")


async def test_discord_may_see_whether_the_address_is_ours(team: Team) -> None:
    hello = {
        "id": "1",
        "application_id": APPLICATION,
        "type": 1,
        "token": "x",
        "version": 1,
        "entitlements": [],
    }
    assert (await team.peer.request(team.peer.signed(hello))).answer == {"type": 1}
    # It looks from time to time whether we look.
    forged: Sent = team.peer.signed(hello)
    headers = {**forged.headers, SIGNATURE: "00" * 64}
    answer = await team.client.post(INBOUND, content=forged.body, headers=headers)
    assert (answer.status_code, answer.content) == (401, b"")


@pytest.mark.parametrize("kind", [2, 4, 99, None, "3"])
async def test_what_is_not_for_us_is_answered_all_the_same(team: Team, kind: Any) -> None:
    _, message = await team.ask("Go?", form=Confirm())
    payload = {**team.peer.interaction(ANN, message, "yes"), "type": kind}
    await team.peer.send(ANN, message, payload)
    assert "I cannot tell which question that is for" in team.told(ANN)


async def test_an_approval_of_another_action_is_not_taken(team: Team) -> None:
    question, message = await team.ask("Deploy?", form=Approval.of("deploy", {"version": 1}))
    for verb in ("approve", "deny"):
        for tag in ("A" * 22, None):
            payload = team.peer.interaction(ANN, message, "deny")
            payload["data"]["custom_id"] = QuestionReference("default", question.id, verb, tag).text
            await team.peer.send(ANN, message, payload)
            assert "the decision is about another action" in team.told(ANN)
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
    payload = team.peer.interaction(ANN, message, "deny")
    payload["data"]["custom_id"] = QuestionReference("default", question.id, "approve", tag_of(form)).text
    await team.peer.send(ANN, message, payload)
    assert ("in the terminal" if through else "where people sign in") in team.told(ANN)
    assert (await team.desk.get(question.id)).outcome is None


async def test_somebody_of_another_workspace_learns_and_does_nothing(team: Team) -> None:
    question, message = await team.ask("Go?", form=Confirm())
    elsewhere = await team.desk.scoped("elsewhere").post("Secret?", form=Confirm())
    said = []
    for question_id in (elsewhere.id, "no such question"):
        payload = team.peer.interaction(ANN, message, "yes")
        payload["data"]["custom_id"] = QuestionReference("elsewhere", question_id, "yes").text
        await team.peer.send(ANN, message, payload)
        said.append(team.told(ANN))
    assert said[0] == said[1]
    assert (await team.desk.scoped("elsewhere").get(elsewhere.id)).outcome is None
    await team.untouched(question)


async def test_a_slow_desk_does_not_let_discord_wait(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    question, message = await team.ask("Go?", form=Confirm())
    gate = asyncio.Event()
    monkeypatch.setattr(discord_channel, "_AT_ONCE", 0.01)
    monkeypatch.setattr(team.peer, "patience", THREE_SECONDS)
    replies = team.discord._incoming._flow._replies  # noqa: SLF001 -- to be slow where it is used
    quick = replies.find_question

    async def slow(*where: str) -> Any:
        await gate.wait()
        return await quick(*where)

    monkeypatch.setattr(replies, "find_question", slow)
    sent = [await team.peer.press(ANN, message, verb) for verb in ("yes", "decline")]
    assert [each.answer["type"] for each in sent] == [5, 5]
    await team.untouched(question)
    gate.set()
    assert await team.value(question) is True
    await team.peer.until(lambda: len(team.peer.told) == 2)
    texts = {each.shown for _, each in team.peer.told}
    assert "Thank you, your answer was recorded." in texts
    # The other one would have opened a form, or came too late for it.
    [other] = texts - {"Thank you, your answer was recorded."}
    assert "That did not work" in other or "already been answered" in other


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (StoreUnavailable("gone"), "That did not work"),
        (RequestConflict("busy"), "being taken already"),
    ],
)
async def test_what_goes_wrong_is_told_and_counts_for_nothing(
    team: Team, monkeypatch: pytest.MonkeyPatch, error: Exception, said: str
) -> None:
    question, message = await team.ask("Go?", form=Confirm())
    replies = team.discord._incoming._flow._replies  # noqa: SLF001 -- to fail where it is used

    async def failing(*_: object) -> Any:
        raise error

    with monkeypatch.context() as broken:
        broken.setattr(replies, "take", failing)
        await team.peer.press(ANN, message, "yes")
    assert said in team.told(ANN)
    await team.untouched(question)
    await team.peer.press(ANN, message, "yes")
    assert await team.value(question) is True


@pytest.mark.parametrize("key", [None, "", "x" * 64, "A" * 64, "0" * 63, "0" * 66])
async def test_without_a_key_the_server_does_not_start(key: str | None) -> None:
    with pytest.raises(ValueError, match="discord_public_key"):
        ServerSettings(discord_bot_token=BOT_TOKEN, discord_public_key=key)

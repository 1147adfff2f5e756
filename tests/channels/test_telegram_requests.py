"""Who must not get in: requests that Telegram did not make, buttons that were not ours, and nonsense."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import random
import uuid
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from typing import Any

import pydantic
import pytest
import pytest_asyncio

from handraise import Approval
from handraise.channels import Replies
from handraise.channels.telegram import channel as telegram_channel
from handraise.channels.telegram.references import QuestionReferences
from handraise.model.deliveries import Address
from handraise.model.errors import StoreUnavailable
from handraise.model.forms import Confirm
from handraise.model.identities import Role
from handraise.model.questions import Question
from handraise.server import ServerSettings
from tests.channels.chat_requests import flipped, mangled
from tests.channels.telegram_peer import BOT_TOKEN, SECRET, Fault, Posted, open_peer
from tests.channels.telegram_server import ANN, EVE, INBOUND, Team, open_server_for, open_team
from tests.samples import turns
from tests.tiers import drawn

pytestmark = pytest.mark.asyncio(loop_scope="module")

HEADER = "x-telegram-bot-api-secret-token"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared() -> AsyncIterator[Team]:
    # So many wrong requests from one address would be slowed down long before they were looked at.
    async with open_team(sign_in_limit="1000000/minute", rate_limit="1000000/second") as team:
        yield team


@pytest.fixture
def team(shared: Team) -> Team:
    return shared.anew()


def forgeries() -> Iterator[dict[bytes, bytes]]:
    """The headers of a thousand requests without the secret: left out, cut, flipped, mixed up, of another name."""
    good, name = SECRET.encode(), HEADER.encode()
    for turn in turns(1_000, kinds=10, each=8):
        chance = random.Random(f"6 {turn}")
        match turn % 10:
            case 0:
                yield {name: flipped(good, chance).replace(b"\n", b"x").replace(b"\r", b"x")}
            case 1:
                yield {name: good[: chance.randrange(len(good))]}
            case 2:
                yield {name: good + bytes([chance.randrange(33, 256)])}
            case 3:
                yield {name: chance.choice((good.upper(), good * 2, good[::-1], b'"' + good + b'"'))}
            case 4:
                yield {}
            case 5:
                yield {b"authorization": b"Bearer " + good, b"x-telegram-secret": good}
            case 6:
                yield {name: BOT_TOKEN.encode()}
            case 7:
                yield {name: bytes(chance.choices(range(33, 256), k=chance.randrange(1, 300)))}
            case 8:
                yield {name: chance.choice((b"", b"null", b"undefined", b"0", b"true", "é".encode() * 9))}
            case _:
                place = chance.randrange(len(good))
                yield {name: good[:place] + b"-" + good[place + 1 :] + b"-"}


async def test_a_thousand_forged_requests_record_nothing(team: Team) -> None:
    question, message = await team.ask("Go?", form=Confirm())
    calls = len(team.peer.calls)
    body = json.dumps(team.peer.pressing(ANN, message, "Yes")).encode()
    answers = set()
    for headers in forgeries():
        answer = await team.client.post(INBOUND, content=body, headers=headers)
        answers.add((answer.status_code, answer.content))
    assert answers == {(401, b"")}
    await team.untouched(question)
    assert len(team.peer.calls) == calls
    team.peer.waiting.clear()
    assert await team.peer.press(ANN, message, "Yes") == 200
    assert await team.value(question) is True


def tampered(message: Posted, other: Posted, question: Question) -> Iterator[str]:
    """A thousand buttons that were never ours, as somebody's own program could say that they were pressed."""
    good = [each["callback_data"] for each in message.buttons]
    strange = QuestionReferences("700100:another-token-than-the-real-one")
    for turn in turns(1_000, kinds=8, each=8):
        chance = random.Random(f"8 {turn}")
        data = chance.choice(good)
        raw = base64.urlsafe_b64decode(data + "=" * (-len(data) % 4))
        match turn % 8:
            case 0:
                yield _text(flipped(raw, chance))
            case 1:
                # Another deed with the code of this one.
                yield _text(bytes([ord(chance.choice("YNOADXynoadxwtreb"))]) + raw[1:])
            case 2:
                yield _text(raw[:1] + bytes([chance.randrange(1, 256)]) + raw[2:])
            case 3:
                yield _text(raw[:10] + chance.randbytes(16) + raw[26:])
            case 4:
                yield _text(raw + chance.choice((b"x", b"/../default", b"\xff", b"\x00")))
            case 5:
                yield strange.data(question, chance.choice("YNXx"))
            case 6:
                yield chance.choice(other.buttons)["callback_data"]
            case _:
                yield chance.choice(
                    ("", "=", "x", "Y", "🙂" * 16, "A" * 64, data + "=", data[:-1], data.lower())
                )


async def test_a_thousand_buttons_that_were_never_ours_do_nothing(team: Team) -> None:
    question, message = await team.ask("Go?", form=Confirm())
    another, other = await team.ask("Stop?", form=Approval.of("stop"))
    buttons = {each["callback_data"] for each in message.buttons}
    for data in tampered(message, other, question):
        if data not in buttons:
            assert await team.peer.send(team.peer.query(ANN, message.as_json(), data)) == 200
            assert "I cannot t" in team.toast(ANN), data
    for each in (question, another):
        await team.untouched(each)
    assert (await team.now(message)).markup == message.markup
    await team.peer.press(ANN, message, "Yes")
    assert await team.value(question) is True


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


async def test_the_place_behind_a_link_cannot_be_made_up(team: Team) -> None:
    question, message = await team.ask("Go?", form=Confirm())
    for turn in drawn(range(100), 25):
        chance = random.Random(f"9 {turn}")
        update = team.peer.writing(ANN, "yes", to=message)
        [entity] = [
            each for each in update["message"]["reply_to_message"]["entities"] if each["type"] == "text_link"
        ]
        url, _, behind = entity["url"].partition("#t")
        entity["url"] = f"{url}#t{flipped(behind.encode(), chance).decode('latin-1')}"
        assert await team.peer.send(update) == 200
    await team.untouched(question)


async def test_what_an_agent_writes_is_never_taken_for_a_place() -> None:
    """Where the link must be written out, an agent's words stand before it in the same text."""
    async with open_team("poll", public_url="http://localhost:8765") as team:
        victim, message = await team.ask("Pay?", form=Confirm())
        stolen = message.text[message.text.index("http://localhost") :].split()[0]
        question, message = await team.ask(
            f"See {stolen} and http://localhost/x#tAAAAAAAAAAAA.{'A' * 22} ", form=Confirm()
        )
        await team.peer.say(ANN, "yes", to=message)
        assert await team.value(question) is True
        assert (await team.desk.get(victim.id)).outcome is None


NONSENSE: list[Any] = [
    *(None, True, 0, -1, 1.5, "", "x", [], {}, [[]], {"x": []}, "\x00", "\ud800", "x" * 5_000, 2**70),
    *({"id": 7}, {"id": "7"}, {"id": [ANN]}, [None], [{}], {"type": "text_link", "url": 7}, "#tAAAA.AAAA"),
]


async def test_genuine_requests_that_make_no_sense_are_no_trouble(team: Team) -> None:
    question, message = await team.ask("Go?", form=Confirm())
    for turn in drawn(range(600), 50):
        chance = random.Random(f"7 {turn}")
        update = chance.choice(
            (team.peer.pressing(EVE, message, "Yes"), team.peer.writing(EVE, "yes", to=message))
        )
        for _ in range(chance.randrange(1, 4)):
            update = mangled(update, chance, NONSENSE)
        body = json.dumps(update).encode()
        status, said = await team.post({HEADER: SECRET}, body)
        assert (status, said) in ((200, b""), (400, b"")), body
    team.peer.waiting.clear()
    team.peer.refused.clear()
    await team.untouched(question)


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"7", b"null", b"\xff\xfe", b"[" * 100_000, b"{}", b'{"a":1}{}']
)
async def test_what_cannot_be_read_is_refused(team: Team, body: bytes) -> None:
    assert await team.post({HEADER: SECRET}, body) == (400, b"")


async def test_an_update_of_another_kind_is_let_go(team: Team) -> None:
    for kind in ("edited_message", "my_chat_member", "inline_query", "poll_answer", "tomorrow"):
        assert await team.post({HEADER: SECRET}, json.dumps({"update_id": 7, kind: {}}).encode()) == (
            200,
            b"",
        )


async def test_a_server_that_asks_takes_no_requests() -> None:
    async with open_team("poll") as team:
        question, message = await team.ask("Go?", form=Confirm())
        body = json.dumps(team.peer.pressing(ANN, message, "Yes")).encode()
        for secret in (SECRET, "", "None"):
            assert await team.post({HEADER: secret}, body) == (401, b"")
        team.peer.waiting.clear()
        await team.untouched(question)


async def test_somebody_of_another_workspace_learns_and_does_nothing(team: Team) -> None:
    elsewhere = team.desk.scoped("elsewhere")
    secret = await elsewhere.post("Secret?", form=Confirm())
    question, message = await team.ask("Go?", form=Confirm())
    places = QuestionReferences(BOT_TOKEN)
    plain = {**message.as_json(), "entities": []}
    nowhere = replace(question, id=str(uuid.uuid4()))
    for each in (secret, nowhere, replace(nowhere, workspace="elsewhere")):
        await team.peer.send(team.peer.query(ANN, plain, places.data(each, "Y")))
    assert [text for _, text, _ in team.peer.toasts] == [
        "I cannot take an answer to this from you. Open your inbox to see what waits for you."
    ] * 3
    assert (await elsewhere.get(secret.id)).outcome is None
    await team.untouched(question)


async def test_who_has_left_cannot_answer(team: Team) -> None:
    await team.ctx.directory.put_person("default", "cyd", name="cyd", email=None, role=Role.MEMBER)
    address = Address(workspace="default", recipient="cyd", channel="telegram", id="1003", to={"chat": 1_003})
    await team.ctx.outbox.put_address(address)
    team.peer.people.add(1_003)
    question, message = await team.ask("Go?", form=Confirm(), recipients=["cyd"])
    await team.ctx.outbox.remove_address("default", "cyd", "telegram", "1003")
    await team.peer.press(1_003, message, "Yes")
    assert "I cannot take an answer to this from you" in team.toast(1_003)
    await team.untouched(question)


async def test_the_same_update_many_times_at_once_answers_once(team: Team) -> None:
    question, message = await team.ask("Go?", form=Confirm(), recipients=["group:ops"], quorum=2)
    update = team.peer.pressing(ANN, message, "Yes")
    statuses = await asyncio.gather(*(team.peer.send(update) for _ in range(30)))
    assert set(statuses) <= {200, 503}
    assert 200 in statuses
    again = [await team.peer.send(update) for _ in range(5)]
    assert set(again) == {200}
    assert [each.kind.value for each in await team.desk.history(question.id)] == ["asked", "voted"]
    assert [text for _, text, _ in team.peer.toasts] == ["Your vote counts; 2 people must agree."]


async def test_while_the_store_is_away_telegram_is_asked_to_send_it_again(
    team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    question, message = await team.ask("Go?", form=Confirm())
    update = team.peer.pressing(ANN, message, "Yes")

    async def away(*_: Any) -> Any:
        raise StoreUnavailable("The database is away.")

    with monkeypatch.context() as patch:
        patch.setattr(Replies, "take", away)
        assert await team.peer.send(update) == 503
    assert team.toast(ANN) == "That did not work. Please press it again."
    await team.untouched(question)
    assert await team.peer.send(update) == 200
    assert await team.value(question) is True


async def test_telegram_is_told_where_we_are_until_it_listens(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setattr(telegram_channel, "_FIRST_PAUSE", 0.001)
    async with open_peer() as peer:
        peer.fail(
            "setWebhook", Fault(429, "Too Many Requests: retry after 0", {"retry_after": 0}), Fault(502)
        )
        async with open_server_for(peer):
            assert peer.webhook == {
                "url": "https://desk.example/v1/channels/telegram/inbound",
                "secret_token": SECRET,
                "allowed_updates": ["message", "callback_query"],
            }
    assert caplog.text.count("could not be told where to send answers") == 2
    assert SECRET not in caplog.text
    assert BOT_TOKEN not in caplog.text


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"telegram_bot_token": "123"}, "what BotFather gave you"),
        ({"telegram_bot_token": f"{BOT_TOKEN}/../x"}, "what BotFather gave you"),
        ({"telegram_bot_token": BOT_TOKEN, "telegram_webhook_secret": "short"}, "16 to 256 letters"),
        ({"telegram_bot_token": BOT_TOKEN, "telegram_webhook_secret": "ü" * 20}, "16 to 256 letters"),
        ({"telegram_bot_token": BOT_TOKEN, "telegram_webhook_secret": SECRET}, "only https addresses"),
        (
            {"telegram_webhook_secret": SECRET, "public_url": "http://desk.example"},
            "only https addresses",
        ),
    ],
)
async def test_settings_that_could_not_work_are_refused_without_showing_them(
    given: dict[str, Any], why: str
) -> None:
    with pytest.raises(pydantic.ValidationError, match=why) as refused:
        ServerSettings(**given)
    assert BOT_TOKEN not in str(refused.value)
    assert SECRET not in str(refused.value)
    kept = ServerSettings(
        telegram_bot_token=BOT_TOKEN, telegram_webhook_secret=SECRET, public_url="https://desk.example"
    )
    assert BOT_TOKEN not in repr(kept)
    assert SECRET not in repr(kept)

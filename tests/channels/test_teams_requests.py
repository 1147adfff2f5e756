"""Who must not get in: requests that Microsoft did not make, made for others or long ago, or made of nonsense."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import random
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any

import httpx2
import pytest
import pytest_asyncio
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from handraise.channels.chat_channel import NotGenuine
from handraise.channels.teams import token_verifier as tokens_module
from handraise.channels.teams.token_verifier import Tokens
from handraise.model.forms import Confirm
from handraise.ports.channel import NotSent
from tests.channels.chat_requests import mangled
from tests.channels.teams_peer import APP, ISSUER, Fault, Key, Posted, TeamsPeer, chat_with, open_peer
from tests.channels.teams_server import ANN, INBOUND, STRANGER, Office, open_office
from tests.channels.test_teams_contract import PLAIN, canary
from tests.samples import turns
from tests.tiers import drawn, sized

pytestmark = pytest.mark.asyncio(loop_scope="module")

FOREIGN = Key.new("foreign")
"""A key that Microsoft does not publish."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared() -> AsyncIterator[Office]:
    # So many wrong requests from one address would be slowed down long before they were looked at.
    async with open_office(sign_in_limit="1000000/minute", rate_limit="1000000/second") as office:
        yield office


@pytest.fixture
def office(shared: Office) -> Office:
    shared.peer.messages.clear()
    return shared


def encoded(value: Any) -> str:
    raw = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def with_hmac(head: Mapping[str, Any], claims: Mapping[str, Any], key: bytes) -> str:
    text = f"{encoded(head)}.{encoded(claims)}"
    return f"{text}.{encoded(hmac.new(key, text.encode(), hashlib.sha256).digest())}"


def flipped(text: str, chance: random.Random) -> str:
    """The same with one bit of what it means another one."""
    parts = text.split(".")
    which = chance.randrange(3)
    raw = bytearray(base64.urlsafe_b64decode(parts[which] + "=" * (-len(parts[which]) % 4)))
    raw[chance.randrange(len(raw))] ^= 1 << chance.randrange(8)
    parts[which] = encoded(bytes(raw))
    return ".".join(parts)


def forgeries(office: Office, message: Posted) -> Iterator[tuple[str | None, dict[str, Any]]]:  # noqa: PLR0915 -- a table
    """A thousand requests that Microsoft did not make for us just now: what is in the header, and the activity."""
    peer = office.peer
    public = peer.key.private.public_key()
    secrets = [
        public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
        public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo),
        json.dumps(peer.key.published()).encode(),
        peer.key.published()["n"].encode(),
        b"",
    ]
    now = int(time.time())
    for turn in turns(1_000, kinds=14, each=6):
        chance = random.Random(f"8 {turn}")
        activity = peer.interaction(ANN, message, "yes")
        claims = peer.claims(activity)
        good = peer.key.sign(claims)
        head = {"alg": "RS256", "kid": peer.key.id, "typ": "JWT"}
        token: str | None = good
        match turn % 14:
            case 0:
                token = flipped(good, chance)
            case 1:
                ago = chance.randrange(302, 10_000_000)
                token = peer.key.sign(claims | {"exp": now - ago, "nbf": now - ago - 3_600})
            case 2:
                token = peer.key.sign(claims | {"nbf": now + chance.randrange(310, 10_000_000)})
            case 3:
                others = (FOREIGN.id, "", None, [APP], APP.upper(), {"a": APP}, f"{APP} ", [APP, FOREIGN.id])
                token = peer.key.sign(claims | {"aud": chance.choice(others)})
            case 4:
                issuers = (
                    f"{ISSUER}/",
                    "https://sts.windows.net/x/",
                    None,
                    [ISSUER],
                    "",
                    "https://evil.example",
                )
                token = peer.key.sign(claims | {"iss": chance.choice(issuers)})
            case 5:
                name = chance.choice(("none", "None", "NONE", "nOnE", "", None))
                text = f"{encoded(head | {'alg': name})}.{encoded(claims)}"
                token = chance.choice((f"{text}.", f"{text}.{good.split('.')[2]}", text))
            case 6:
                alg = chance.choice(("HS256", "HS384", "HS512"))
                token = with_hmac(head | {"alg": alg}, claims, chance.choice(secrets))
            case 7:
                token = FOREIGN.sign(claims, kid=chance.choice((peer.key.id, FOREIGN.id)))
            case 8:
                # Whoever brings a key of their own along is not asked to use it.
                token = FOREIGN.sign(
                    claims,
                    kid=peer.key.id,
                    jwk=FOREIGN.published(),
                    jku=f"{peer.url}/evil",
                    x5u=f"{peer.url}/evil",
                )
            case 9:
                elsewhere = chance.choice(
                    ("https://evil.example/", None, "", peer.service.upper(), [peer.service])
                )
                token = peer.key.sign(claims | {"serviceurl": elsewhere})
            case 10:
                gone = chance.choice(("aud", "iss", "exp", "serviceurl"))
                token = peer.key.sign({name: each for name, each in claims.items() if name != gone})
            case 11:
                unknown = chance.choice(
                    (f"key-{turn}", "", "../key-1", None, 7, "x" * 5_000, peer.key.id.upper())
                )
                token = peer.key.sign(claims, kid=unknown)
            case 12:
                scheme = chance.choice(("Basic", "bearer:", "Token", ""))
                cut = good[: chance.randrange(len(good))]
                tokens = (
                    None,
                    "",
                    f"{scheme} {good}",
                    f"Bearer {cut}",
                    f"Bearer {good}{good}",
                    "Bearer é",
                    good,
                )
                yield chance.choice(tokens), activity
                continue
            case _:
                odd = (
                    {"exp": str(now + 60)},
                    {"exp": None},
                    {"exp": True},
                    {"nbf": "0"},
                    {"exp": now - 400, "nbf": now - 4_000, "iat": now},
                )
                token = chance.choice(
                    (
                        peer.key.sign(claims | chance.choice(odd)),
                        peer.key.sign(claims, alg="PS256"),
                        peer.key.sign(claims, alg="RS512"),
                        peer.key.sign(claims, crit=["exp"]),
                        f"{good}.x.y",
                        encoded(b"[" * 9_000) + "." + good.split(".", 1)[1],
                    )
                )
        yield f"Bearer {token}", activity


async def test_a_thousand_forged_requests_record_nothing(office: Office) -> None:
    question, message = await office.ask("Go?", form=Confirm())
    assert (await office.peer.send(office.peer.typed(STRANGER, chat_with(STRANGER), "hello")))[0] == 200
    fetched, calls = office.peer.key_requests, len(office.peer.came)
    await office.told(chat_with(STRANGER))
    answers: dict[tuple[int, bytes], int] = {}
    for header, activity in forgeries(office, message):
        # Header values are bytes on the wire, and anybody can put any of them there.
        headers = {} if header is None else {b"authorization": header.encode()}
        answer = await office.client.post(INBOUND, content=json.dumps(activity).encode(), headers=headers)
        answers[answer.status_code, answer.content] = answers.get((answer.status_code, answer.content), 0) + 1
    assert answers == {(401, b""): sized(gate=14 * 6, nightly=1_000)}
    await office.untouched(question)
    assert len(office.peer.came) <= calls + 1
    # However many keys they name that nobody knows, Microsoft is asked now and then.
    assert office.peer.key_requests - fetched <= 10
    await office.peer.press(ANN, message, "yes")
    assert await office.value(question) is True


@pytest.mark.parametrize(
    ("ends", "begins", "counts"),
    [(-290, -4_000, True), (3_600, 290, True), (-310, -4_000, False), (3_600, 310, False)],
)
async def test_a_clock_may_be_five_minutes_off(
    office: Office, ends: int, begins: int, *, counts: bool
) -> None:
    question, message = await office.ask("Go?", form=Confirm())
    activity = office.peer.interaction(ANN, message, "yes")
    now = int(time.time())
    token = office.peer.signed(activity, exp=now + ends, nbf=now + begins)
    status, _ = await office.peer.send(activity, token)
    assert status == (200 if counts else 401)
    if not counts:
        await office.untouched(question)


@pytest.mark.parametrize(
    "change",
    [
        {"channelId": "webchat"},
        {"channelId": "emulator"},
        {"channelId": None},
        {"serviceUrl": "https://evil.example/"},
        {"serviceUrl": None},
    ],
)
async def test_what_is_not_from_teams_is_refused_even_if_microsoft_signed_for_it(
    office: Office, change: dict[str, Any]
) -> None:
    question, message = await office.ask("Go?", form=Confirm())
    activity = office.peer.interaction(ANN, message, "yes") | change
    assert await office.peer.send(activity) == (401, None)
    await office.untouched(question)


async def test_a_key_speaks_only_for_the_channels_that_it_may(office: Office) -> None:
    question, message = await office.ask("Go?", form=Confirm())
    activity = office.peer.interaction(ANN, message, "yes")
    where = Key.new("narrow")
    where.endorsements = ["webchat"]
    async with httpx2.AsyncClient(verify=PLAIN) as client:
        office.peer.published.append(where)
        reader = reading(client, office.peer)
        await reader.check(f"Bearer {office.peer.signed(activity)}", activity)
        with pytest.raises(NotGenuine):
            await reader.check(f"Bearer {where.sign(office.peer.claims(activity))}", activity)
        office.peer.published.remove(where)
    await office.untouched(question)


async def test_the_answer_to_a_message_does_not_go_where_its_sender_says(office: Office) -> None:
    async with canary() as (elsewhere, heard):
        typed = office.peer.typed(ANN, chat_with(ANN), "hello") | {"serviceUrl": f"{elsewhere}/"}
        assert await office.peer.send(typed) == (401, None)
        await office.teams.finish()
        assert heard == []
    assert office.peer.messages == {}


def reading(client: httpx2.AsyncClient, peer: TeamsPeer, **more: Any) -> Tokens:
    return Tokens(client, audience=APP, issuer=ISSUER, metadata_url=peer.metadata_url, **more)


@pytest.mark.asyncio(loop_scope="function")
async def test_keys_are_kept_for_a_day_and_looked_up_again_where_one_is_new() -> None:
    now = 1_000.0
    async with open_peer() as peer, httpx2.AsyncClient(verify=PLAIN) as client:
        reader = reading(client, peer, clock=lambda: now)
        activity = peer.activity(ANN, chat_with(ANN))

        async def is_genuine() -> bool:
            try:
                await reader.check(f"Bearer {peer.signed(activity)}", activity)
            except NotGenuine:
                return False
            return True

        assert await asyncio.gather(*(is_genuine() for _ in range(50))) == [True] * 50
        assert peer.key_requests == 1
        old = peer.signed(activity)
        peer.rotate("key-2")
        # Not again at once, however many ask.
        assert not await is_genuine()
        assert peer.key_requests == 1
        now += 11
        assert await asyncio.gather(*(is_genuine() for _ in range(50))) == [True] * 50
        assert peer.key_requests == 2
        with pytest.raises(NotGenuine):
            await reader.check(f"Bearer {old}", activity)
        now += 86_401
        assert await is_genuine()
        assert peer.key_requests == 3
        # Microsoft is away: what we have serves on, and what we do not know does not.
        peer.fail("keys", Fault(500), Fault(500))
        now += 86_401
        assert await is_genuine()
        peer.rotate("key-1")
        now += 11
        assert not await is_genuine()
        now += 11
        assert await is_genuine()
        # But not for ever.
        peer.fail("keys", Fault(500))
        now += 3 * 86_400 + 1
        with pytest.raises(NotSent):
            await is_genuine()


@pytest.mark.asyncio(loop_scope="function")
@pytest.mark.parametrize("away", ["no keys", "no list", "no metadata"])
async def test_without_keys_nothing_is_taken_and_nothing_is_refused_for_good(away: str) -> None:
    now = 1_000.0
    async with open_peer() as peer, httpx2.AsyncClient(verify=PLAIN) as client:
        reader = reading(client, peer, clock=lambda: now)
        activity = peer.activity(ANN, chat_with(ANN))
        kept, peer.published = peer.published, [] if away == "no list" else peer.published
        if away == "no keys":
            peer.fail("keys", Fault(503))
        elif away == "no metadata":
            reader._metadata_url += "x"  # noqa: SLF001 -- to lead nowhere
        for _ in range(3):
            with pytest.raises(NotSent):
                await reader.check(f"Bearer {peer.signed(activity)}", activity)
        peer.published = kept
        reader._metadata_url = peer.metadata_url  # noqa: SLF001 -- to lead there again
        now += 11
        await reader.check(f"Bearer {peer.signed(activity)}", activity)


async def test_a_server_takes_the_next_key(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens_module, "_PAUSE", 0.0)
    question, message = await office.ask("Go?", form=Confirm())
    old = office.peer.key
    office.peer.rotate("key-3")
    activity = office.peer.interaction(ANN, message, "yes")
    await office.peer.press(ANN, message, "yes")
    assert await office.value(question) is True
    assert (await office.peer.send(activity, old.sign(office.peer.claims(activity))))[0] == 401


NONSENSE: list[Any] = [
    *(None, True, 0, -1, 1.5, "", "x", [], {}, [[]], {"x": []}, "\x00", "\ud800", "x" * 5_000),
    *({"q": ["default", "x"]}, {"q": 7}, "no", "send", "approved", "declined", "show", ["default", "\x00"]),
    *(
        10**400,
        -(10**30),
        {"id": STRANGER},
        {"aadObjectId": STRANGER},
        [{}],
        [None],
        STRANGER,
        "🙂",
        {"text": "yes"},
    ),
]


async def test_genuine_requests_that_make_no_sense_are_no_trouble(office: Office) -> None:
    question, message = await office.ask("Go?", form=Confirm())
    for turn in drawn(range(400), 50):
        chance = random.Random(f"7 {turn}")
        activity: Any = chance.choice(
            (
                office.peer.interaction(STRANGER, message, "yes"),
                office.peer.interaction(STRANGER, message, "decline"),
                office.peer.typed(STRANGER, message.conversation, "yes", replyToId=message.id),
            )
        )
        for _ in range(chance.randrange(1, 4)):
            activity = mangled(activity, chance, NONSENSE)
        token = office.peer.signed(activity if isinstance(activity, dict) else {})
        headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
        status, _ = await office.post(headers, json.dumps(activity).encode())
        assert status in (200, 400, 401), activity
    await office.untouched(question)


async def test_what_ann_makes_her_client_send_is_at_most_an_answer_of_hers(office: Office) -> None:
    for turn in drawn(range(60), 10):
        chance = random.Random(f"9 {turn}")
        question, message = await office.ask("Which?", choices=["a", "b"])
        for _ in range(5):
            pressed = office.peer.interaction(ANN, message, "option", title="a")
            pressed["value"] = mangled(pressed["value"], chance, NONSENSE)
            status, _ = await office.peer.send(pressed)
            assert status in (200, 400)
        now = await office.desk.get(question.id)
        assert getattr(now.outcome, "by", "ann") == "ann"
        assert getattr(now.outcome, "value", "a") in ("a", "b")
        office.peer.messages.clear()


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"7", b"{", b"\xff\xfe", b"[" * 100_000, b"{}" * 2, b'{"a":1e999}']
)
async def test_what_cannot_be_read_is_refused(office: Office, body: bytes) -> None:
    token = office.peer.signed({"serviceUrl": f"{office.peer.service}/"})
    assert await office.post({"authorization": f"Bearer {token}"}, body) == (401, b"")


async def test_many_wrong_tokens_from_one_place_are_slowed_down() -> None:
    async with open_office(sign_in_limit="5/minute") as office:
        question, message = await office.ask("Go?", form=Confirm())
        activity = office.peer.interaction(ANN, message, "yes")
        statuses = [(await office.peer.send(activity, "x.y.z"))[0] for _ in range(8)]
        assert statuses[:5] == [401] * 5
        assert set(statuses[5:]) <= {401, 429}
        await office.untouched(question)

"""People connect accounts of their own: Slack, Teams, Telegram and Discord as their peers speak, and what must not work."""

from __future__ import annotations

import asyncio
import json
import re
import secrets
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from datetime import timedelta
from pathlib import Path

import httpx2
import pytest

from handraise import Answered, Confirm
from handraise.channels.account_links import LASTS, AccountLinks, ChatAccount, CodeHolder
from handraise.model.identities import Role
from handraise.model.workspace_events import WorkspaceEventKind
from handraise.server import ServerSettings, create_app, open_server
from handraise.testing import promise
from handraise.wire.credentials import TokenKind, digest_of, make_token
from support.issuer import Issuer
from tests.channels import slack_peer, telegram_peer
from tests.server.every_channel import Everything, open_everything
from tests.server.inbox.browser import Page, open_page

WITHIN = 30.0
ANN, MALLORY = "U0ANN", "U0MALLORY"
TEAMS_ANN = "11111111-0000-4000-8000-00000000000a"
PAGE_ORIGIN = {"origin": "https://desk.example"}

Say = Callable[[str], Awaitable[str]]
"""Sends a text to the bot of a service, and gives back what the bot says to whoever sent it."""


@pytest.fixture
async def everything(migrated_file: Path, tmp_path: Path) -> AsyncIterator[Everything]:
    shutil.copy(migrated_file, tmp_path / "questions.db")
    async with open_everything(f"sqlite:///{tmp_path / 'questions.db'}") as found:
        yield found


Browser = Callable[[str], Awaitable[httpx2.AsyncClient]]


@pytest.fixture
async def browser(everything: Everything) -> AsyncIterator[Browser]:
    """Opens browsers in which somebody (or nobody) is signed in, each with a session of its own; and connects the peers."""
    app = create_app(everything.ctx)
    made: list[httpx2.AsyncClient] = []

    def client() -> httpx2.AsyncClient:
        transport = httpx2.ASGITransport(app=app, client=("192.0.2.1", 50_000))
        made.append(httpx2.AsyncClient(transport=transport, base_url="https://desk.example"))
        return made[-1]

    outside = client()

    def receiver_of(channel: str) -> Callable[[Mapping[str, str], bytes], Awaitable[tuple[int, bytes]]]:
        async def post(headers: Mapping[str, str], body: bytes) -> tuple[int, bytes]:
            path = f"/v1/channels/{channel}/inbound"
            answer = await outside.post(path, headers=dict(headers), content=body)
            return answer.status_code, answer.content

        return post

    for name in ("slack", "teams", "telegram"):
        getattr(everything, name).post = receiver_of(name)
    at_discord = receiver_of("discord")

    async def post(headers: Mapping[str, str], body: bytes) -> tuple[int, str, bytes]:
        status, said = await at_discord(headers, body)
        return status, "application/json", said

    everything.discord.post = post

    async def sign_in(person: str) -> httpx2.AsyncClient:
        directory = everything.ctx.directory
        if not person:
            return client()
        await directory.put_person(
            "default", person, name=person, email=f"{person}@example.org", role=Role.MEMBER
        )
        token = make_token(TokenKind.SESSION, "default", secrets.token_bytes(32))
        id_ = secrets.token_hex(8)
        days = timedelta(days=100_000)
        await directory.open_session(
            "default", id_, digest=digest_of(token), person=person, how="test", lasts=days
        )
        one = client()
        one.cookies.set("__Host-handraise", token)
        one.cookies.set("handraise", token)
        return one

    yield sign_in
    for each in made:
        await each.aclose()


def say_in_slack(everything: Everything, user: str = ANN) -> Say:
    peer = everything.slack
    peer.enrol(user, f"{user.lower()}@example.org", f"Name of {user}")

    async def say(text: str) -> str:
        before = len(peer.messages)
        sent = await peer.say(user, f"D{user}", text)
        assert sent.status == 200
        async with asyncio.timeout(WITHIN):
            while len(peer.messages) == before:
                await asyncio.sleep(0.01)
        *_, told = peer.messages.values()
        assert told.channel == f"D{user}", "others would see it"
        return json.dumps(told.blocks)

    return say


def say_in_teams(everything: Everything) -> Say:
    peer = everything.teams
    peer.enrol(TEAMS_ANN, None, "Ann at Teams")
    chat = f"a:1{TEAMS_ANN}"

    async def say(text: str) -> str:
        before = len(peer.messages)
        assert (await peer.send(peer.typed(TEAMS_ANN, chat, text)))[0] == 200
        async with asyncio.timeout(WITHIN):
            while len(peer.messages) == before:
                await asyncio.sleep(0.01)
        *_, told = peer.messages.values()
        assert told.conversation == chat
        return told.shown

    return say


def say_in_telegram(everything: Everything) -> Say:
    peer = everything.telegram
    peer.people.add(4_711)

    async def say(text: str) -> str:
        assert await peer.say(4_711, text.replace("connect ", "/start ")) == 200
        *_, told = peer.messages.values()
        assert told.chat == 4_711
        return told.shown

    return say


def say_in_discord(everything: Everything) -> Say:
    async def say(text: str) -> str:
        told = await everything.discord.give(
            "100000000000000077", "connect", code=text.removeprefix("connect ")
        )
        return json.dumps(told)

    return say


SERVICES: dict[str, tuple[Callable[[Everything], Say], str]] = {
    "slack": (say_in_slack, ANN),
    "teams": (say_in_teams, TEAMS_ANN),
    "telegram": (say_in_telegram, "4711"),
    "discord": (say_in_discord, "100000000000000077"),
}


async def code_on(client: httpx2.AsyncClient, channel: str = "slack") -> str:
    """Press the button on your page, and read the code."""
    page = await client.post("/me/connect", data={"channel": channel}, headers=PAGE_ORIGIN)
    assert page.status_code == 200
    assert page.headers["cache-control"] == "no-store"
    code: str
    [code] = re.findall(r"hrc_[\w-]{39}", page.text)
    return f"connect {code}"


def link_in(said: str) -> str:
    path: str
    [path] = set(re.findall(r"https://desk\.example(/me/connect/[\w.-]+)", said))
    return path


async def connect(client: httpx2.AsyncClient, path: str) -> httpx2.Response:
    return await client.post(path, headers=PAGE_ORIGIN)


async def addresses(everything: Everything) -> list[tuple[str, str, str]]:
    found = await everything.ctx.outbox.addresses("default")
    return [(each.recipient, each.channel, each.id) for each in found]


@promise("P17")
@pytest.mark.parametrize("channel", SERVICES)
async def test_a_code_from_the_page_and_the_account_that_sends_it_connect_both(
    everything: Everything, browser: Browser, channel: str
) -> None:
    opened, identity = SERVICES[channel]
    ann = await browser("ann")
    page = Page((await ann.get("/me")).text)
    assert ("channel", channel) in [button for sheet in page.sheets for button in sheet.buttons]
    code = await code_on(ann, channel)
    path = link_in(await opened(everything)(code))
    asked = Page((await ann.get(path)).text)
    assert identity in asked.words
    assert await addresses(everything) == [], "to look is not to connect"
    [form] = [each for each in asked.sheets if each.action == path]
    done = await connect(ann, form.action)
    assert (done.status_code, done.headers["location"]) == (303, "/me#reached")
    assert await addresses(everything) == [("ann", channel, identity)]
    assert identity in Page((await ann.get("/me")).text).words
    events = await everything.ctx.store.workspace_events("default", after=None, limit=100)
    assert [each.by for each in events if each.kind is WorkspaceEventKind.ADDRESS_ADDED] == ["ann"]
    gone = await ann.post(
        "/me/addresses/remove", data={"channel": channel, "address": identity}, headers=PAGE_ORIGIN
    )
    assert gone.status_code == 303
    assert await addresses(everything) == []


async def test_the_page_says_which_bot_it_is_if_telegram_says_so(
    everything: Everything, browser: Browser
) -> None:
    ann = await browser("ann")
    everything.telegram.fail("getMe", telegram_peer.Fault(500))
    nameless = await ann.post("/me/connect", data={"channel": "telegram"}, headers=PAGE_ORIGIN)
    assert "In Telegram, open a direct chat with the bot of Handraise." in Page(nameless.text).words
    for _ in range(2):
        named = await ann.post("/me/connect", data={"channel": "telegram"}, headers=PAGE_ORIGIN)
        assert "In Telegram, open a direct chat with the bot: @handraise_bot" in Page(named.text).words
        assert 'href="https://t.me/handraise_bot"' in named.text
    calls = [name for name, _ in everything.telegram.calls]
    assert calls.count("getMe") == 1, "the name does not change"


async def test_a_connected_account_answers_in_the_name_of_its_person(
    everything: Everything, browser: Browser
) -> None:
    ann = await browser("ann")
    say = say_in_slack(everything)
    await connect(ann, link_in(await say(await code_on(ann))))
    desk = everything.ctx.desk.scoped("default", asker="bot")
    question = await desk.post("Go?", form=Confirm(), recipients=["ann"])
    async with asyncio.timeout(WITHIN):
        while not (asked := [each for each in everything.slack.messages.values() if "Go?" in each.shown]):
            await asyncio.sleep(0.01)
    await everything.slack.press(ANN, asked[0], "yes")
    outcome = await desk.wait(question.id, timeout=WITHIN)
    assert isinstance(outcome, Answered)
    assert (outcome.by, outcome.value) == ("ann", True)


async def test_a_link_works_once_and_so_does_its_code(everything: Everything, browser: Browser) -> None:
    ann = await browser("ann")
    code = await code_on(ann)
    path = link_in(await say_in_slack(everything)(code))
    stolen = link_in(await say_in_slack(everything, MALLORY)(code))
    both = await asyncio.gather(connect(ann, path), connect(ann, path))
    assert sorted(each.status_code for each in both) == [303, 403]
    assert (await connect(ann, path)).status_code == 403
    assert (await connect(ann, stolen)).status_code == 403
    assert await addresses(everything) == [("ann", "slack", ANN)]


async def test_no_other_session_uses_a_link(everything: Everything, browser: Browser) -> None:
    ann, phone, mallory = await browser("ann"), await browser("ann"), await browser("mallory")
    # Mallory has seen the code and sends it, and gets a link; and makes ann open one of their own.
    stolen = link_in(await say_in_slack(everything, MALLORY)(await code_on(ann)))
    pushed = link_in(await say_in_slack(everything, MALLORY)(await code_on(mallory)))
    nobody = await browser("")
    for client, path in ((mallory, stolen), (phone, stolen), (ann, pushed)):
        assert (await client.get(path)).status_code == 403
        assert (await connect(client, path)).status_code == 403
    for path in (stolen, pushed):
        assert (await connect(nobody, path)).headers.get("location") == "/sign-in"
    assert await addresses(everything) == []
    # Only ann's own session can use it, and is told whose account it is.
    assert MALLORY in Page((await ann.get(stolen)).text).words
    another_site = await ann.post(stolen, headers={"origin": "https://evil.example"})
    assert another_site.status_code == 403
    assert await addresses(everything) == []


async def test_an_account_of_somebody_else_stays_theirs(everything: Everything, browser: Browser) -> None:
    ann, mallory = await browser("ann"), await browser("mallory")
    say = say_in_slack(everything)
    await connect(ann, link_in(await say(await code_on(ann))))
    # Even if ann is talked into sending somebody's code.
    refused = await connect(mallory, link_in(await say(await code_on(mallory))))
    assert refused.status_code == 409
    assert await addresses(everything) == [("ann", "slack", ANN)]


async def test_what_is_no_code_and_who_is_of_another_team_gets_no_link(
    everything: Everything, browser: Browser
) -> None:
    ann = await browser("ann")
    code = await code_on(ann)
    peer = everything.slack
    peer.people["U0STRANGER"] = "T0OTHER"
    await peer.say("U0STRANGER", "DU0STRANGER", code)
    async with asyncio.timeout(WITHIN):
        while not peer.messages:
            await asyncio.sleep(0.01)
    [told] = peer.messages.values()
    assert "belongs to another organisation" in told.shown
    # In a room, where others read it, a code gets no link.
    peer.people[ANN] = slack_peer.TEAM
    await peer.say(ANN, slack_peer.ROOM, code)
    assert "/me/connect/" not in json.dumps([each.blocks for each in peer.messages.values()])
    other = await everything.teams.send(
        everything.teams.activity(
            TEAMS_ANN,
            f"a:1{TEAMS_ANN}",
            type="message",
            text=code,
            channelData={"tenant": {"id": "bbbbbbbb-0000-4000-8000-000000000002"}},
        )
    )
    assert other[0] in (200, 400)
    assert "/me/connect/" not in json.dumps([each.activity for each in everything.teams.messages.values()])
    assert (await ann.post("/me/connect", data={"channel": "email"}, headers=PAGE_ORIGIN)).status_code == 404
    mail = {"channel": "email", "address": "ann@example.org"}
    assert (await ann.post("/me/addresses/remove", data=mail, headers=PAGE_ORIGIN)).status_code == 404


def test_codes_and_links_end_and_cannot_be_changed() -> None:
    now = [1_000_000.0]
    links = AccountLinks([b"new" * 11, b"old" * 11], "https://desk.example", now=lambda: now[0])
    before = AccountLinks([b"old" * 11], "https://desk.example", now=lambda: now[0])
    holder = CodeHolder("default", "ann", "s1")
    account = ChatAccount("slack", ANN, {"user": ANN}, "Ann\u202e")
    code = before.make_code(holder, "slack")
    link = links.make_link(code, account)
    assert link is not None
    token = link.rpartition("/")[2]
    found = links.read_link(token, holder)
    assert found is not None, "what the earlier secret signed is still read"
    assert (found.account.id, found.account.to) == (ANN, {"user": ANN})
    for other in (
        CodeHolder("theirs", "ann", "s1"),
        CodeHolder("default", "bob", "s1"),
        CodeHolder("default", "ann", "s2"),
    ):
        assert links.read_link(token, other) is None
    # A code for Slack connects no account of another service, which might be easier to get.
    elsewhere = links.make_link(code, ChatAccount("telegram", "1", {"chat": 1}))
    assert elsewhere is not None
    assert links.read_link(elsewhere.rpartition("/")[2], holder) is None
    body, _, mac = token.partition(".")
    for changed in (
        "",
        ".",
        "x.y",
        body,
        f"{body}.",
        f"{body[:-2]}AA.{mac}",
        f"{body}.{mac[:-2]}AA",
        f"{'é' * 5}.{mac}",
        "A" * 10_000,
    ):
        assert links.read_link(changed, holder) is None, changed
    strangers = AccountLinks([b"another" * 5], "https://desk.example", now=lambda: now[0])
    assert strangers.read_link(token, holder) is None
    now[0] += LASTS - 1
    assert links.read_link(token, holder) is not None
    now[0] += 1
    assert links.read_link(token, holder) is None
    assert links.make_link(code, account) is None


async def test_nobody_connects_without_a_secret_or_a_channel() -> None:
    async with open_server(ServerSettings(url="memory:", public_url="https://desk.example")) as ctx:
        token = await Issuer(ctx.directory).person("default", "ann", role=Role.MEMBER)
        transport = httpx2.ASGITransport(app=create_app(ctx))
        async with httpx2.AsyncClient(transport=transport, base_url="https://desk.example") as client:
            client.cookies.set("__Host-handraise", token)
            client.cookies.set("handraise", token)
            assert "/me/connect" not in (await open_page(client, "/me")).html
            for path in ("/me/connect", "/me/connect/x.y"):
                refused = await client.post(path, data={"channel": "slack"}, headers=PAGE_ORIGIN)
                assert refused.status_code in (403, 404)


# Hours.


async def test_hours_are_set_on_your_own_page_and_leave_all_other_routing_alone(
    everything: Everything, browser: Browser
) -> None:
    ann, outbox = await browser("ann"), everything.ctx.outbox
    others = {"people": {"bob": {"per_hour": 3}, "ann": {"per_hour": 5}}, "agents": {"bot": 9}}
    await outbox.put_routing("default", others, by="root")
    await ann.post("/me/preferences", data={"time_zone": "Europe/Vienna"}, headers=PAGE_ORIGIN)
    given = {"days": ["mon", "fri"], "opens": "08:30", "closes": "17:00"}
    assert (await ann.post("/me/hours", data=given, headers=PAGE_ORIGIN)).status_code == 303
    hours = {**given, "timezone": "Europe/Vienna"}
    expected = {**others, "people": {"bob": {"per_hour": 3}, "ann": {"per_hour": 5, "hours": hours}}}
    assert await outbox.routing("default") == expected
    page = Page((await ann.get("/me")).text)
    assert "In the time zone Europe/Vienna." in page.words
    [form] = [each for each in page.sheets if each.action == "/me/hours"]
    assert await send_as(ann, form.body()) == 303
    assert await outbox.routing("default") == expected, "what is shown is what is set"
    for wrong in ({"opens": "08:30", "closes": "17:00"}, {**given, "opens": "25:00"}, {"days": ["may"]}):
        assert (await ann.post("/me/hours", data=wrong, headers=PAGE_ORIGIN)).status_code == 422
    assert await outbox.routing("default") == expected
    assert (await ann.post("/me/hours", data={"any_time": "true"}, headers=PAGE_ORIGIN)).status_code == 303
    assert await outbox.routing("default") == others
    events = await everything.ctx.store.workspace_events("default", after=None, limit=100)
    assert [each.by for each in events if each.kind is WorkspaceEventKind.ROUTING_CHANGED] == [
        "root",
        "ann",
        "ann",
    ]


async def send_as(client: httpx2.AsyncClient, body: str) -> int:
    form = {"content-type": "application/x-www-form-urlencoded"}
    return (await client.post("/me/hours", content=body, headers=PAGE_ORIGIN | form)).status_code

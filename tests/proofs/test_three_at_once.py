"""One question in Slack, in an e-mail and in the browser, answered in all three at the same moment.

The gate has three rounds, nightly ten. HANDRAISE_PROOF_ROUNDS=200 is the full size.
"""

from __future__ import annotations

import asyncio
import base64
import os
import random
import re
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Iterator
from typing import Any, TypeVar

import pytest

from handraise import Answered
from handraise.events import EventKind
from handraise.model.deliveries import Address, DeliveryStatus
from handraise.model.identities import Role
from handraise.model.questions import Question
from handraise.model.webhook_signatures import signed
from handraise.server.auth.authenticator import cookie_name
from handraise.server.auth.issuer import issue_session
from handraise.testing import promise
from tests.channels.mail_servers import Mail, PostOffice, post_office, reply_to
from tests.channels.slack_peer import Posted
from tests.channels.slack_server import PEOPLE, Team, open_team
from tests.conftest import own_database
from tests.tiers import sized

pytestmark = [
    pytest.mark.proof,
    pytest.mark.only_proof_of("of Slack, a mail and the browser at the same moment one wins"),
    pytest.mark.timeout(1_800),
]

T = TypeVar("T")
ROUNDS = int(os.environ.get("HANDRAISE_PROOF_ROUNDS") or sized(gate=3, nightly=10))
WITHIN = 30.0
LATEST = 12
"""More mails than a round has; those of earlier ones are not read again and again."""
KEY = b"k" * 32
BOB = "bob@example.org"
WHERE = {"ann": "slack", "bob": "email", "cid": "web"}
"""Each person, and the one channel that they use."""
CHOSEN = {"ann": "Red", "bob": "Green", "cid": "Blue"}


@pytest.fixture
def store() -> Iterator[str]:
    with own_database() as address:
        yield address


@pytest.fixture
async def office() -> AsyncIterator[PostOffice]:
    async with post_office(PostOffice()) as office:
        yield office


@pytest.fixture
async def team(store: str, office: PostOffice) -> AsyncIterator[Team]:
    settings: dict[str, Any] = {
        "secret": "s" * 32,
        "email_smtp_url": f"smtp://127.0.0.1:{office.port}?tls=none",
        "email_from": "Handraise <desk@example.org>",
        "email_reply_to": "reply@example.org",
        "email_inbound_secret": "whsec_" + base64.b64encode(KEY).decode(),
    }
    async with open_team(url=store, **settings) as team:
        for name in ("bob", "cid"):
            await team.ctx.directory.put_person("default", name, name=name, email=None, role=Role.MEMBER)
        await team.ctx.outbox.remove_address("default", "bob", "slack", PEOPLE["bob"])
        await team.ctx.outbox.put_address(
            Address(workspace="default", recipient="bob", channel="email", id=BOB, to={"address": BOB})
        )
        yield team


@promise("P2", "P7")
async def test_one_wins_and_all_three_are_told_who(
    team: Team, office: PostOffice, capsys: pytest.CaptureFixture[str]
) -> None:
    session = await issue_session(team.ctx, "default", person="cid", how="test")
    assert session is not None
    mine = {
        "cookie": f"{cookie_name(team.ctx)}={session.token}",
        "origin": team.ctx.settings.base_url,
    }
    wins: Counter[str] = Counter()
    for number in range(ROUNDS):
        question = await team.desk.post(
            f"Which of the three, {number}?", choices=list(CHOSEN.values()), recipients=list(WHERE)
        )
        message, mail = await team.sent(question), await _mail(office, number, "Reply-To: ")
        body = reply_to(mail, CHOSEN["bob"], sender=BOB).as_bytes()
        headers = signed(f"mail-{number}", body, [KEY], now=time.time())
        page = f"/questions/{question.id}"
        pressed, posted, sent = await asyncio.gather(
            _soon(team.peer.press(PEOPLE["ann"], message, "option 0")),
            _soon(team.client.post("/v1/channels/email/inbound", content=body, headers=headers)),
            _soon(team.client.post(page, data={"v": "2"}, headers=mine)),
        )
        outcome = await team.desk.wait(question.id, timeout=WITHIN)
        assert isinstance(outcome, Answered)
        winner = outcome.by
        assert (outcome.value, outcome.channel) == (CHOSEN[winner or ""], WHERE[winner or ""])
        wins[outcome.channel or ""] += 1
        assert (pressed.status, posted.status_code) == (200, 204)
        assert sent.status_code == (303 if winner == "cid" else 409)
        await _told(team, office, question, message, str(winner), number)
        seen = (await team.client.get(page, headers=mine)).text
        assert f"Answered by {'you' if winner == 'cid' else winner}" in re.sub("<[^>]*>", "", seen)
        assert 'name="v"' not in seen
    with capsys.disabled():
        print(f"\n{ROUNDS} questions in Slack, e-mail and the browser at once: {dict(wins)}, one winner each")


async def _soon(deed: Awaitable[T]) -> T:
    """Do it now, give or take what makes each of them the first one sometimes."""
    await asyncio.sleep(random.uniform(0, 0.05))
    return await deed


async def _told(
    team: Team, office: PostOffice, question: Question, message: Posted, winner: str, number: int
) -> None:
    """The message in Slack is redrawn, a second mail has come, and the history has one end."""
    ended = await team.ended(message)
    assert ended.pressable == []
    assert CHOSEN[winner] in ended.shown
    assert f"Answered by {winner}" in ended.shown
    again = await _mail(office, number, f"Answered by {'you' if winner == 'bob' else winner}")
    assert CHOSEN[winner] in again.text
    kinds = [event.kind for event in await team.desk.history(question.id)]
    assert kinds.count(EventKind.ANSWERED) == 1
    async with asyncio.timeout(WITHIN):
        while {each.status for each in await team.ctx.outbox.deliveries(question.ref)} != {
            DeliveryStatus.UPDATED
        }:
            await asyncio.sleep(0.01)


async def _mail(office: PostOffice, number: int, part: str) -> Mail:
    """The mail about the question of this round that has this in its head or in its text, once it has come."""
    async with asyncio.timeout(WITHIN):
        while True:
            for each in office.mails[-LATEST:]:
                about = f"Which of the three, {number}?" in str(each.message["subject"])
                if about and (part in each.text or part in each.raw.decode()):
                    return each
            await asyncio.sleep(0.01)

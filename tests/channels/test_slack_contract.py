"""Slack keeps the contract of channels, against a stand-in that refuses what Slack would refuse."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from typing import Any, ClassVar

import pytest

from handraise.channels import Replies
from handraise.channels.slack import Slack, open_slack
from handraise.model.json_values import Json
from tests.channels.chat_contract import ChatContract
from tests.channels.slack_peer import BOT_TOKEN, SECRET, Fault, SlackPeer, open_peer


class TestSlackContract(ChatContract):
    unsafe: ClassVar = ("<!", "<@", "<https://evil", "<script", "<img")
    answers: ClassVar = [
        (Fault(429, "ratelimited", {"retry-after": "7"}), True, 7, False),
        (Fault(429, None, {"retry-after": "soon"}), True, None, False),
        (Fault(200, "ratelimited"), True, None, False),
        (Fault(200, "invalid_auth"), True, None, False),
        (Fault(200, "internal_error"), True, None, False),
        (Fault(200, "channel_not_found"), False, None, False),
        (Fault(200, "is_archived"), False, None, False),
        (Fault(200, "message_not_found"), False, None, False),
        (Fault(503), True, None, True),
    ]
    calls = ("chat.postMessage", "chat.update")
    tells_copies_apart = True
    secret = BOT_TOKEN

    def replied_to(self, message: Any) -> object:
        return message.thread_ts

    def name_of(self, message: Any) -> object:
        return message.ts

    @pytest.fixture
    async def peer(self) -> AsyncIterator[SlackPeer]:
        async with open_peer() as peer:
            peer.people["U0ANN"] = "T0HOME"
            peer.dead.add("U0DEAD")
            yield peer

    @pytest.fixture
    async def channel(self, peer: SlackPeer) -> AsyncIterator[Slack]:
        nobody: Any = None
        replies = Replies(nobody, nobody, nobody)
        async with open_slack(
            replies,
            bot_token=BOT_TOKEN,
            signing_secret=SECRET,
            api_url=peer.api_url,
            verify=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
        ) as slack:
            yield slack

    @pytest.fixture
    def to(self) -> Json:
        return {"user": "U0ANN"}

    @pytest.fixture
    def dead(self) -> Json:
        return {"user": "U0DEAD"}

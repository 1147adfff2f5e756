"""The example of an address is one that its channel takes."""

from __future__ import annotations

import json
from pathlib import Path

from handraise.channels.address_examples import ADDRESS_EXAMPLES, not_an_address
from tests.server.every_channel import WEBHOOK_KEY, open_everything, whsec

_ELSEWHERE = {"ntfy", "apprise"}
"""Channels that this server has not."""


async def test_every_example_is_an_address_of_its_channel(tmp_path: Path) -> None:
    async with open_everything(f"sqlite:///{tmp_path / 'q.db'}") as everything:
        for channel in ADDRESS_EXAMPLES.keys() - _ELSEWHERE:
            for example in ADDRESS_EXAMPLES[channel].replace("whsec_…", whsec(WEBHOOK_KEY)).split(" or "):
                to = json.loads(example)
                assert everything.ctx.channels[channel].rate_limit_key(to) is not None, (channel, to)


def test_a_channel_of_your_own_has_its_own_documentation() -> None:
    assert "its own" not in not_an_address("slack")
    assert "the channel's own documentation" in not_an_address("matrix")

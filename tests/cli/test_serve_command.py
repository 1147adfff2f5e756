"""What a server prints when it begins: a secret only at a terminal, else the command that makes one."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from handraise.cli.serve_command import show
from handraise.ports import Durability
from handraise.server import ServerSettings
from handraise.server.process import RunningServer
from handraise.wire.records import LinkRecord

LINK = LinkRecord(url="http://127.0.0.1:8765/sign-in/link?token=hrl_x", expires_at=datetime.now(UTC))


@pytest.mark.parametrize(
    ("first_admin", "link", "has", "lacks"),
    [
        ("admin", LINK, LINK.url, "people link"),
        ("admin", None, "\nhandraise people link admin --workspace 'the lab'\n", "token="),
        ("ada b", None, "\nhandraise people link 'ada b' --workspace 'the lab'\n", "token="),
        (None, None, "Listening", "Nobody has signed in"),
    ],
)
def test_a_link_is_printed_where_it_may_be_and_else_how_to_make_one(
    capsys: pytest.CaptureFixture[str], first_admin: str | None, link: LinkRecord | None, has: str, lacks: str
) -> None:
    settings = ServerSettings(url="sqlite:///q.db", workspace="the lab")
    show(RunningServer(settings, Durability(survives="a crash", settings={}), first_admin, link))
    printed = capsys.readouterr().out
    assert has in printed
    assert lacks not in printed

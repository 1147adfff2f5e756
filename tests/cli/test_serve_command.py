"""What a server prints when it begins: a secret only at a terminal, else the command that makes one."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

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


@pytest.mark.parametrize(
    ("environment", "given", "needs"),
    [
        ({}, {}, None),
        ({}, {"port": 8791}, "http://127.0.0.1:8791"),
        ({"HANDRAISE_PORT": "8791"}, {}, None),
        ({"HANDRAISE_PUBLIC_URL": "https://ask.example.com"}, {"port": 8791}, None),
    ],
)
def test_other_commands_are_told_the_address_that_only_an_option_says(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    environment: dict[str, str],
    given: dict[str, Any],
    needs: str | None,
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    settings = ServerSettings(url="sqlite:///q.db", **given)
    show(RunningServer(settings, Durability(survives="a crash", settings={}), "admin", None))
    printed = capsys.readouterr().out
    before = "" if needs is None else f"HANDRAISE_PUBLIC_URL={needs} "
    assert f"\n{before}handraise people link admin\n" in printed
    assert (f"set HANDRAISE_PUBLIC_URL={needs}\n" in printed) == (needs is not None)

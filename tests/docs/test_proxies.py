"""The proxies' settings on the page about servers find the workspace in what clients send."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from handraise.wire.credentials import TokenKind, make_token

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "run-a-server.md"
BLOCKS = re.findall(r"```text\n(.*?)```", PAGE.read_text(), re.DOTALL)
WORKSPACES = ["w", "acme", "ä ☃ 🙋", "a_b", "x" * 500]


def nginx_pattern(variable: str) -> re.Pattern[str]:
    """The pattern of an nginx map, whose `~*` ignores case."""
    [block] = [each for each in BLOCKS if "hash $workspace consistent;" in each]
    found = re.search(rf'map \$\w+ \${variable} {{\n\s+"~(\*?)(.+)"\s+\$\w+;', block)
    assert found is not None
    return re.compile(found[2].replace("(?<", "(?P<"), re.IGNORECASE if found[1] else 0)


@pytest.mark.parametrize("workspace", WORKSPACES)
def test_nginx_finds_the_same_workspace_in_keys_and_sessions(workspace: str) -> None:
    found = set()
    for kind in (TokenKind.AGENT, TokenKind.READER, TokenKind.SESSION):
        for scheme in ("Bearer", "bearer"):
            sent = f"{scheme} {make_token(kind, workspace, bytes(range(32)))}"
            match = nginx_pattern("workspace_of_key").search(sent)
            assert match is not None
            found.add(match["key_workspace"])
    for cookie in ("handraise", "__Host-handraise", "time_zone=UTC; __Host-handraise"):
        sent = f"{cookie}={make_token(TokenKind.SESSION, workspace, bytes(32))}; other=1"
        match = nginx_pattern("workspace_of_session").search(sent)
        assert match is not None
        found.add(match["session_workspace"])
    assert len(found) == 1
    others = {make_token(TokenKind.AGENT, each, bytes(32)).split("_")[1] for each in WORKSPACES}
    assert found < others, "workspaces differ"


@pytest.mark.parametrize("workspace", WORKSPACES)
def test_haproxy_finds_the_workspace_in_the_second_field(workspace: str) -> None:
    [block] = [each for each in BLOCKS if "balance hash var(txn.workspace)" in each]
    assert "req.hdr(authorization),field(2,_)" in block
    assert "req.cook(__Host-handraise),field(2,_)" in block
    fields = {
        sent.split("_")[1]
        for kind in (TokenKind.AGENT, TokenKind.READER, TokenKind.SESSION)
        for sent in (
            f"Bearer {make_token(kind, workspace, bytes(32))}",
            make_token(kind, workspace, bytes(32)),
        )
    }
    assert len(fields) == 1


def test_both_hash_consistently_go_on_and_keep_metrics_from_strangers() -> None:
    page = "\n".join(BLOCKS)
    assert "hash-type consistent" in page
    assert "option redispatch 1" in page, "requests to a server that has just died fail without it"
    assert page.count("/metrics") == 2

"""`handraise stop` and `handraise resume`, on a store and at a server."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from support.command import Done, handraise, serving

Run = Callable[..., Done]


@pytest.fixture
def file(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'questions.db'}"


@pytest.fixture
def run(file: str, tmp_path: Path) -> Run:
    """A command on the store, by ada."""

    def command(*line: str, **settings: str) -> Done:
        return handraise(*line, **{"url": file, "LOGNAME": "ada", "XDG_DATA_HOME": str(tmp_path), **settings})

    return command


def test_what_is_stopped_is_listed_refused_and_resumed(run: Run) -> None:
    assert run("resume").stdout == "Nothing is stopped.\n"
    stopped = run("stop", "--tool", "pay", "--why", "wrong account")
    assert (stopped.returncode, stopped.stdout.startswith("Stopped tool 'pay' in workspace 'default'")) == (
        0,
        True,
    )
    run("stop", "--why", "all of it")
    listed = run("resume").stdout
    assert re.search(r"all +pay .*command line \(\w+\) +wrong account", listed)
    refused = run("ask", "Which?")
    assert (refused.returncode, "stopped everything in workspace 'default'" in refused.stderr) == (1, True)
    assert "all of it" in refused.stderr
    assert run("resume", "--agent", "nobody").returncode == 1
    assert run("resume", "--tool", "pay").stdout == "Resumed tool 'pay' in workspace 'default'.\n"
    assert run("resume", "--all").stdout == "Resumed everything in workspace 'default'.\n"
    assert "Pending:" in run("ask", "Which?").stderr


def test_a_stop_needs_a_reason(run: Run) -> None:
    assert run("stop").returncode == 2
    assert (run("stop", "--why", " ").returncode, run("stop", "--why", " ").stderr) == (
        1,
        "--why is empty.\n",
    )
    assert run("resume").stdout == "Nothing is stopped.\n"


@pytest.mark.only_proof_of("an administrator stops from the terminal, through the server")
def test_at_a_server_an_administrator_stops_by_their_session(run: Run, file: str, tmp_path: Path) -> None:
    with serving(file, tmp_path) as server:
        at: dict[str, str] = {"url": server.address}
        assert "You are not signed in" in run("stop", "--why", "w", **at).stderr
        assert server.link is not None
        assert run("sign-in", server.link).returncode == 0
        stopped = run("stop", "--agent", "bot", "--why", "wrong account", **at)
        assert (stopped.returncode, stopped.stderr) == (0, "")
        assert "belongs to workspace" in run("resume", "-w", "elsewhere", **at).stderr
        assert "bot" in run("resume", **at).stdout
        stop_id = stopped.stdout.split()[-1]
        assert run("resume", stop_id, **at).stdout == "Resumed agent 'bot' in workspace 'default'.\n"
        assert run("resume", **at).stdout == "Nothing is stopped.\n"

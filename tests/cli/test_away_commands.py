"""`handraise away` and `handraise back`, on a store and at a server."""

from __future__ import annotations

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
        kept = {"url": file, "LOGNAME": "ada", "XDG_DATA_HOME": str(tmp_path), "TZ": "UTC"}
        return handraise(*line, **{**kept, **settings})

    return command


def test_somebody_goes_away_and_comes_back(run: Run) -> None:
    assert "nobody called 'ada'" in run("away").stderr
    for name in ("ada", "bo"):
        run("people", "add", name)
    assert run("away").stdout == "ada is not away.\n"
    gone = run("away", "--until", "2036-12-01", "--from", "2036-11-01", "--deputy", "bo")
    assert (gone.stdout, gone.stderr) == (
        "ada is away from 2036-11-01 00:00 until 2036-12-02 00:00. bo answers for them.\n",
        "",
    )
    assert run("away").stdout == gone.stdout
    assert run("away", "--person", "bo", "--until", "2036-12-01T12:00").stdout.endswith(
        "until 2036-12-01 12:00. Nobody answers for them.\n"
    )
    assert run("back").stdout == "ada is not away.\n"


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (["--deputy", "bo"], "Until when?"),
        (["--until", "soon"], "'soon' is not a day"),
        (["--until", "9999-12-31"], "is not a day"),
        (["--until", "2020-01-01"], "is in the past"),
        (["--until", "2036-01-01", "--deputy", "nobody"], "there is nobody called 'nobody' here"),
        (["--until", "2036-01-01", "--deputy", "ada"], "is the person who is away"),
        (["--until", "2036-01-01", "--deputy", "gone"], "is disabled here"),
        (["--until", "2036-01-01", "--deputy", ""], "--deputy is empty."),
        (["--until", "2036-01-01", "--person", "eve"], "nobody called 'eve'"),
    ],
)
def test_what_makes_no_sense_is_refused(run: Run, line: list[str], told: str) -> None:
    run("people", "add", "ada")
    if "gone" in line:
        run("people", "add", "gone")
        run("people", "disable", "gone")
    refused = run("away", *line)
    assert refused.returncode == 1
    assert told in refused.stderr


@pytest.mark.only_proof_of("a person says in the terminal, through the server, that they are away")
def test_at_a_server_somebody_is_away_by_their_session(run: Run, file: str, tmp_path: Path) -> None:
    with serving(file, tmp_path) as server:
        at: dict[str, str] = {"url": server.address}
        assert "You are not signed in" in run("away", **at).stderr
        assert server.link is not None
        assert run("sign-in", server.link).returncode == 0
        gone = run("away", "--until", "2036-12-01", **at)
        assert (gone.returncode, gone.stderr) == (0, "")
        assert "until 2036-12-02 00:00. Nobody answers for them." in gone.stdout
        assert run("away", **at).stdout == gone.stdout
        assert run("back", **at).stdout.endswith("is not away.\n")


def test_working_hours_are_set_listed_and_counted(run: Run) -> None:
    assert "No group has working hours" in run("groups", "hours").stdout
    refused = run("ask", "Go?", "--remind", "2 working hours")
    assert (refused.returncode, "handraise groups hours" in refused.stderr) == (1, True)
    zone = ("--zone", "Europe/Berlin")
    done = run("groups", "hours", "--hours", "Mon-Fri 09:00-17:30", *zone, "--country", "DE")
    assert done.stdout == "The workspace works Mon-Fri 09:00-17:30 in Europe/Berlin.\n"
    run("groups", "hours", "ops", "--hours", "Sat 10:00-12:00", *zone)
    listed = run("groups", "hours").stdout
    assert "(the workspace)" in listed
    assert "Sat 10:00-12:00" in listed
    assert (
        "Pending:"
        in run("ask", "Go?", "--remind", "2 working hours", "--expires-in", "3 working days").stderr
    )
    assert run("groups", "hours", "ops", "--remove").stdout == "group:ops has no working hours.\n"


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (["--hours", "Mon 09:00-17:00"], "In which time zone?"),
        (["--hours", "always", "--zone", "UTC"], "'always' is not like 'Mon-Fri 09:00-17:30'"),
        (["--hours", "Mon 09:00-17:00", "--zone", "Mars"], "is not a time zone"),
        (["--hours", "Mon 09:00-17:00", "--zone", "UTC", "--country", "XX"], "holidays of XX are not known"),
        ([" ", "--hours", "Mon 09:00-17:00", "--zone", "UTC"], "No group can be called"),
    ],
)
def test_hours_that_nobody_can_keep_are_refused(run: Run, line: list[str], told: str) -> None:
    refused = run("groups", "hours", *line)
    assert (refused.returncode, told in refused.stderr) == (1, True), refused.stderr

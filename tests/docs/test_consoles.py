"""Every command of every page is given, in an empty folder, and prints what the page shows."""

from __future__ import annotations

import contextlib
import getpass
import os
import re
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from support.doc_pages import ROOT, TEXTS, blocks_of, name_of
from support.free_port import free_port
from support.page_runner import Stranger, commands_of
from support.page_scenes import SCENES, TUTORIAL
from tests.docs.warm import warm_commands
from tests.test_deploy import objects

WALKED = [page for page in TEXTS if any(each.language in {"console", "sh"} for each in blocks_of(page))]
CLOUDS = {
    "xoxb-…": "xoxb-1",
    "xapp-…": "xapp-1",
    "SIGNING_SECRET=…": "SIGNING_SECRET=0123456789abcdef",
    "DISCORD_BOT_TOKEN=…": "DISCORD_BOT_TOKEN=a.b.c",
    "PUBLIC_KEY=…": f"PUBLIC_KEY={'0a' * 32}",
    "TEAMS_APP_SECRET=…": "TEAMS_APP_SECRET=secret",
    ":AAE…": f":AAE{'0' * 32}",
    "syt_…": "syt_1",
    "whsec_…": "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=",
}
"""What only somebody's cloud gives out."""
NOWHERE = "127.0.0.1:9"
"""Where nobody listens: what would speak to somebody's cloud speaks to this."""


@dataclass(frozen=True)
class Excuse:
    """Why a command is not given, and what of it can be checked all the same."""

    command: str
    reason: str
    check: Callable[[str], None]
    pages: str = ""
    """How the names of those pages begin for which it is one."""


def has_known_extras(command: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for extras in re.findall(r"handraise\[([\w,-]+)\]", command):
        assert set(extras.split(",")) <= set(project["optional-dependencies"]), command


def names_what_exists(command: str) -> None:
    """Files of ours, modules of ours, and what is in the cluster."""
    for path in re.findall(r"(?<![\w/.])(?:deploy|tests|\.ci)/[\w./-]*\w", command):
        assert (ROOT / path).exists(), f"{command}: there is no {path}"
    for module in re.findall(r"-m ((?:handraise|chaos|benchmarks|scripts)[\w.]*)", command):
        places = [ROOT / "src", ROOT]
        names = [module.replace(".", "/") + end for end in (".py", "/__main__.py")]
        assert any((place / name).exists() for place in places for name in names), f"{command}: no {module}"
    for kind, name in re.findall(r"\b(job|deployment|secret)(?:/| generic | )([a-z][\w-]+)", command):
        named = {each["metadata"]["name"] for each in objects(kind.capitalize())}
        assert name in named, f"{command}: there is no {kind} {name}"


EXCUSES = [
    Excuse(r"\S*pip install |uvx |python3 -m venv |source \.venv", "scripts.walk installs", has_known_extras),
    Excuse(
        r"npm install @handraise/client|node \w+\.ts",
        "clients/typescript/test/package_tests.ts runs it, where the package is",
        names_what_exists,
        "docs/how-to/ask-from-typescript.md",
    ),
    Excuse(
        r"npm install @handraise/react @handraise/client",
        "clients/react/test tests it, where the package is",
        names_what_exists,
        "docs/how-to/show-questions-in-react.md",
    ),
    Excuse(r"git clone |cd handraise$|\.ci/run", "CI has cloned, and runs it", names_what_exists),
    Excuse(r"(PORTS=\S+ )?docker ", "there is no container engine here", names_what_exists),
    Excuse(r"kubectl |helm |gh attestation ", "there is no cluster here", names_what_exists),
    Excuse(
        r"install -D|editor |cp deploy/systemd|systemctl |journalctl |set -a|/opt/handraise/",
        "changes this machine; tests/test_deploy.py reads the unit",
        names_what_exists,
    ),
    Excuse(r"psql .*\\password", "asks for a password at a terminal", names_what_exists),
    Excuse(
        r"export |curl -sS |psql |handraise doctor",
        "tests/proofs/test_alerts.py gives the first command of each alert to a server",
        names_what_exists,
        "docs/how-to/respond-to-alerts.md",
    ),
    Excuse(
        r"\S*python -m (benchmarks|chaos)\b|pytest -m promise ",
        "takes minutes; .ci/run has it",
        names_what_exists,
    ),
    Excuse(
        r"python (agent|langgraph_graph|langgraph_approval|mcp_agent)\.py|python -m handraise\.integrations"
        r"|claude mcp|restate |curl localhost:8080|handraise mcp",
        "tests/integrations run it, where the frameworks are",
        names_what_exists,
        "docs/integrations/",
    ),
    Excuse(
        r"python langgraph_\w+\.py",
        "tests/integrations/test_migration_pages.py runs it, where the framework is",
        names_what_exists,
        "docs/coming-from/",
    ),
    Excuse(
        r"#!/bin/sh", "takes a mail; tests/channels/test_email_inbound.py gives it one", names_what_exists
    ),
    Excuse(
        r"strategy=.*--here", "asks at a terminal; tests/cli/test_ask_commands.py has one", names_what_exists
    ),
]


def excuse_for(page: Path, command: str) -> Excuse | None:
    fits = (
        each for each in EXCUSES if re.match(each.command, command) and name_of(page).startswith(each.pages)
    )
    return next(fits, None)


def is_excused(page: Path, command: str) -> bool:
    excuse = excuse_for(page, command)
    if excuse is not None:
        excuse.check(command)
    return excuse is not None


def given_on(page: Path) -> list[str]:
    """The commands of a page."""
    return [
        command
        for block in blocks_of(page)
        if block.language in {"console", "sh"}
        for command, _ in commands_of(block.text if block.language == "console" else f"$ {block.text}")
    ]


def marks_of(page: Path) -> list[pytest.MarkDecorator]:
    """The gate gives the commands of what newcomers read; where nothing is to be run, the checks of excuses cost nothing."""
    if page == TUTORIAL / "production.md":
        return [
            pytest.mark.slow(
                "serves three processes on PostgreSQL; the other pages of the tutorial serve one"
            )
        ]
    if page == ROOT / "README.md" or page.is_relative_to(TUTORIAL):
        return [pytest.mark.only_proof_of("what the page shows is what a newcomer sees")]
    if all(excuse_for(page, command) for command in given_on(page)):
        return []
    return [pytest.mark.slow("starts a process for each command; the gate has those of README and tutorial")]


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with warm_commands(tmp_path_factory.mktemp("warm")) as folder:
        yield folder


@pytest.fixture
def stranger(tmp_path: Path, commands: Path) -> Iterator[Stranger]:
    port = str(free_port())
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("HANDRAISE_", "PG"))}
    (tmp_path / "said").mkdir()
    (tmp_path / "here").mkdir()
    environment = {
        **clean,
        "PATH": f"{commands}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "SAID": str(tmp_path / "said"),
        "XDG_DATA_HOME": str(tmp_path / "here" / "data"),
        # What a reader has without it: the pages are read in a terminal, and this test runs in none.
        "HANDRAISE_URL": f"sqlite:///{tmp_path}/here/data/handraise/handraise.db",
        "LOGNAME": "ada",
        "PGUSER": getpass.getuser(),
        "HANDRAISE_PORT": port,
        "HANDRAISE_LOG_FORMAT": "json",
        "HANDRAISE_SLACK_API_URL": f"http://{NOWHERE}",
        "HANDRAISE_TELEGRAM_API_URL": f"http://{NOWHERE}",
        "HANDRAISE_DISCORD_API_URL": f"http://{NOWHERE}",
    }
    here = f"http://127.0.0.1:{port}"
    replaced = {
        "https://handraise.example.com": here,
        "https://ask.example.com": here,
        "8765": port,
        "/etc/handraise": str(tmp_path / "etc"),
        **CLOUDS,
    }
    whoever = Stranger(tmp_path / "here", environment, replaced)
    try:
        yield whoever
    finally:
        whoever.leave()


@pytest.mark.parametrize("page", [pytest.param(page, marks=marks_of(page)) for page in WALKED], ids=name_of)
def test_every_command_of_a_page_does_what_it_shows(page: Path, stranger: Stranger) -> None:
    scene = SCENES.get(page)
    stranger.excused = partial(is_excused, page)
    with scene(stranger) if scene else contextlib.nullcontext():
        try:
            for block in blocks_of(page):
                stranger.read(block)
        finally:
            stranger.leave()


def test_every_excuse_is_still_needed() -> None:
    given = [command for page in WALKED for command in given_on(page)]
    assert [each.reason for each in EXCUSES if not any(re.match(each.command, line) for line in given)] == []


def test_a_random_name_is_not_taken_for_what_a_page_shows(tmp_path: Path) -> None:
    whoever = Stranger(tmp_path, {}, {"mydb": "page_a4711b8765", "8765": "52000"})
    assert whoever.filled("psql mydb --port 8765") == "psql page_a4711b8765 --port 52000"
    whoever.said = "process 12 asks and waits"
    assert whoever.filled("kill -9 4711; dropdb mydb") == "kill -9 12; dropdb page_a4711b8765"

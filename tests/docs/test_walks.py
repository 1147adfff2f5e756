"""Pages that can be walked: every command of their consoles, and what it prints."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from chaos.servers import free_port
from handraise import open_desk
from tests.docs.reading import DOCS, Block, blocks_of, matches

SOON = 30.0


def test_the_tutorial_can_be_walked_from_its_first_step_to_its_last(elsewhere: Path) -> None:
    page = DOCS / "tutorial" / "first-question.md"
    blocks = blocks_of(page)
    write_programs(blocks, elsewhere)
    console = "\n".join(block.text for block in blocks if block.language == "console")
    shown = shown_by(re.sub(r"process \d+", "process …", console))

    assert matches(next(shown["python hello.py"]), python("hello.py"))
    first = subprocess.Popen([sys.executable, "agent.py"], stdout=subprocess.PIPE, text=True)
    try:
        assert first.stdout is not None
        asked = first.stdout.readline()
        assert matches(next(shown["python agent.py"]), asked)
        until_pending(elsewhere)
        assert matches(next(shown["python person.py"]), python("person.py"))
        assert str(first.pid) in asked
    finally:
        first.kill()
        first.communicate(timeout=SOON)
    for line in ("person.py", "person.py Yolo", "person.py Canary", "agent.py", "person.py", "history.py"):
        real, wanted = python(*line.split()), next(shown[f"python {line}"])
        assert matches(wanted, real), f"{line} prints\n{real}\nbut the page shows\n{wanted}"
    assert not [line for line, rest in shown.items() if line.startswith("python ") and list(rest)]


def write_programs(blocks: list[Block], folder: Path) -> None:
    """Write down the programs of a page: each begins with its name."""
    for block in blocks:
        if block.language == "python" and block.first_line.startswith("# "):
            (folder / block.first_line.removeprefix("# ")).write_text(block.text, encoding="utf-8")


def shown_by(console: str) -> dict[str, Iterator[str]]:
    """What a page shows below each of its commands, in the order in which they are given."""
    outputs: dict[str, list[str]] = {}
    for command, output in commands_of(console):
        outputs.setdefault(command, []).append(output)
    return {command: iter(shown) for command, shown in outputs.items()}


def commands_of(console: str) -> Iterator[tuple[str, str]]:
    """The commands of a console, each with what is shown below it."""
    for part in re.split(r"^\$ ", console, flags=re.MULTILINE)[1:]:
        command, _, output = part.partition("\n")
        yield command.strip(), output


SAID = {
    "the-key": r'"key": "(hra_[\w-]+)"',
    "the-link": r"token=(hrl_[\w-]+)",
    "the-session": r'"token":"(hrs_[\w-]+)"',
    "the-id": r'"id":"([\w-]+)"',
}
"""What stands in a page for something that was printed before, and how to find that."""


def test_asking_over_http_can_be_walked_from_its_first_step_to_its_last(
    elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page, port = DOCS / "how-to" / "ask-over-http.md", free_port()
    blocks = blocks_of(page)
    write_programs(blocks, elsewhere)
    install_commands(elsewhere / "bin")
    monkeypatch.setenv("PATH", f"{elsewhere / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("HANDRAISE_PORT", str(port))
    console = "\n".join(block.text for block in blocks if block.language == "console")
    agents_terminal: dict[str, str] = {}
    others: dict[str, subprocess.Popen[str]] = {}
    said = ""
    with contextlib.ExitStack() as running:
        for command, shown in commands_of(console.replace("8765", str(port))):
            match command.split(maxsplit=1):
                case ["export", setting]:
                    name, _, value = setting.partition("=")
                    value = re.findall(SAID[value], said)[-1] if value in SAID else value
                    if name.startswith("HANDRAISE_"):
                        agents_terminal[name] = value
                    else:
                        monkeypatch.setenv(name, value)
                case ["pip", _]:
                    pass
                case ["handraise", "serve"]:
                    others["server"] = running.enter_context(serving(port))
                case ["python", "agent.py"]:
                    others["agent"] = running.enter_context(started(command, agents_terminal))
                    until_asked(**agents_terminal)
                    others["server"].send_signal(signal.SIGINT)
                    assert others["server"].wait(timeout=SOON) == 0
                    running.enter_context(serving(port))
                case _:
                    mine = agents_terminal if command == "python threads.py" else {}
                    real = printed_by(command, mine)
                    assert matches(shown, real), f"{command} prints\n{real}\nbut the page shows\n{shown}"
                    said += real
        goes_on = next(block.text for block in blocks if block.language == "text")
        assert matches(goes_on, others["agent"].communicate(timeout=SOON)[0])


def install_commands(folder: Path) -> None:
    """What `pip install` would put on the path."""
    folder.mkdir()
    for name, line in (("python", ""), ("handraise", "-m handraise ")):
        (folder / name).write_text(f'#!/bin/sh\nexec {sys.executable} {line}"$@"\n', encoding="utf-8")
        (folder / name).chmod(0o755)


@contextlib.contextmanager
def started(command: str, environment: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    """A command that goes on while others are given."""
    process = subprocess.Popen(
        command.split(), env={**os.environ, **environment}, stdout=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate(timeout=SOON)


@contextlib.contextmanager
def serving(port: int) -> Iterator[subprocess.Popen[str]]:
    with started("handraise serve", {}) as server:
        until = time.monotonic() + SOON
        while time.monotonic() < until and server.poll() is None:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                break
            time.sleep(0.05)
        yield server


def printed_by(command: str, environment: dict[str, str]) -> str:
    """What a shell prints for a command; whether it failed is for the page to show."""
    done = subprocess.run(
        ["bash", "-c", command],  # noqa: S607 -- a page is written for whatever bash there is
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=SOON,
        check=False,
    )
    return done.stdout or done.stderr


def until_asked(**environment: str) -> None:
    """Return once the agent has posted its question at the server."""
    address, key = environment["HANDRAISE_URL"], environment["HANDRAISE_KEY"]

    async def look() -> None:
        async with asyncio.timeout(SOON), open_desk(address, credentials=key) as desk:
            while not (await desk.pending()).questions:
                await asyncio.sleep(0.01)

    asyncio.run(look())


def until_pending(folder: Path) -> None:
    """Return once the program has posted its question."""

    async def look() -> None:
        async with asyncio.timeout(SOON), open_desk(f"sqlite:///{folder / 'questions.db'}") as desk:
            while not (await desk.pending()).questions:
                await asyncio.sleep(0.01)

    asyncio.run(look())


def python(*line: str) -> str:
    """What a program prints."""
    done = subprocess.run([sys.executable, *line], capture_output=True, text=True, timeout=SOON, check=True)
    return done.stdout

"""The documentation runs, and it says what the code says."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import inspect
import io
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute

import handraise
from chaos.servers import free_port
from handraise import (
    Desk,
    EventKind,
    HandraiseError,
    Limits,
    LocalDesk,
    Question,
    QuestionOptions,
    Status,
    open_desk,
)
from handraise.blocking import BlockingDesk
from handraise.conversations import Agent
from handraise.server import app, callers, health
from handraise.testing import PROMISES
from handraise.wire.problems import STATUSES
from tests.test_behaviours import named_in

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
TEXTS = [*PAGES, *(ROOT / f"{name}.md" for name in ("CHANGELOG", "CONTRIBUTING", "SECURITY"))]
ADDRESS = "postgresql://localhost/mydb"
SOON = 30.0

# A block marked `python no-run` is not run where it stands. Each needs its reason here.
NOT_RUN = {
    ("docs/tutorial/first-question.md", "# agent.py"): "waits for a person; the walk below runs it",
    ("docs/tutorial/first-question.md", "# person.py"): "reads its command line; the walk below runs it",
    ("docs/how-to/test-your-agent.md", "# tests/test_my_store.py"): "stands for a backend that is not ours",
    ("docs/how-to/ask-over-http.md", "# agent.py"): "waits for a person; the walk below runs it",
    ("docs/how-to/ask-over-http.md", "# person.py"): "needs a server; the walk below runs it",
    ("docs/how-to/ask-over-http.md", "# threads.py"): "needs a server; the walk below runs it",
}


@dataclass(frozen=True)
class Block:
    page: Path
    line: int
    language: str
    marks: tuple[str, ...]
    text: str

    @property
    def first_line(self) -> str:
        return self.text.splitlines()[0]

    @property
    def place(self) -> tuple[str, str]:
        return name_of(self.page), self.first_line


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def blocks_of(page: Path) -> list[Block]:
    """The fenced blocks of a page, in order."""
    blocks: list[Block] = []
    opened: tuple[int, str] | None = None
    inside: list[str] = []
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        if opened is None and line.startswith("```"):
            opened, inside = (number, line[3:]), []
        elif opened is not None and line.startswith("```"):
            language, *marks = opened[1].split() or [""]
            blocks.append(Block(page, opened[0], language, tuple(marks), "\n".join(inside)))
            opened = None
        elif opened is not None:
            inside.append(line)
    assert opened is None, f"{name_of(page)}:{opened} is never closed"
    return blocks


def prose_of(page: Path) -> str:
    """A page without its fenced blocks."""
    return re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


def matches(shown: str, real: str) -> bool:
    """Whether a page shows what was printed; an ellipsis in the page stands for anything."""
    pattern = ".*?".join(map(re.escape, shown.strip().split("…")))
    return re.fullmatch(pattern, real.strip(), re.DOTALL) is not None


def rows_of(page: Path) -> Iterator[list[str]]:
    """The cells of every table row of a page, headings left out."""
    for line in prose_of(page).splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if cells and not set(cells[0]) <= set("-: "):
            yield cells


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory, a home and a data folder of a stranger."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HANDRAISE_URL", "memory:")  # so that what a page sets is undone too
    monkeypatch.delenv("HANDRAISE_URL")
    monkeypatch.delenv("HANDRAISE_KEY", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return tmp_path


# Pages of integrations show whole programs that run where the frameworks are: tests/integrations.
FOREIGN = [page for page in PAGES if page.parent == DOCS / "integrations"]
RUNNABLE = [
    page
    for page in PAGES
    if page not in FOREIGN and any(block.language == "python" for block in blocks_of(page))
]


@pytest.mark.usefixtures("elsewhere")
@pytest.mark.parametrize("page", RUNNABLE, ids=name_of)
def test_every_python_block_runs_and_prints_what_the_page_shows(
    page: Path, request: pytest.FixtureRequest
) -> None:
    namespace: dict[str, Any] = {"__name__": "__main__"}
    printed = None
    for block in blocks_of(page):
        where = f"{name_of(page)}:{block.line}"
        if block.language == "python" and not block.marks:
            printed = run(block, namespace, request)
        elif block.language == "python":
            assert block.marks == ("no-run",), f"{where}: {block.marks}"
            assert block.place in NOT_RUN, f"{where} is not run and gives no reason"
            printed = None
        elif block.language == "output":
            assert printed is not None, f"{where} shows the output of nothing"
            assert matches(block.text, printed), f"{where} shows\n{block.text}\nbut it prints\n{printed}"
            printed = None


def run(block: Block, namespace: dict[str, Any], request: pytest.FixtureRequest) -> str:
    """Run a block, then the tests it defines; what it printed."""
    text = block.text
    if ADDRESS in text:
        text = text.replace(ADDRESS, request.getfixturevalue("postgres"))
    known = set(namespace)
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        # The empty lines make a traceback name the line of the page.
        code = compile("\n" * block.line + text, name_of(block.page), "exec", dont_inherit=True)
        exec(code, namespace)  # noqa: S102 -- running our own pages is the point
        for name in sorted(set(namespace) - known):
            if name.startswith("test_"):
                asyncio.run(namespace[name]())
    return printed.getvalue()


def test_every_reason_for_not_running_is_still_needed() -> None:
    marked = {
        block.place
        for page in PAGES
        if page not in FOREIGN
        for block in blocks_of(page)
        if "no-run" in block.marks
    }
    assert marked == set(NOT_RUN)


@pytest.mark.parametrize("page", FOREIGN, ids=name_of)
def test_what_a_page_of_an_integration_shows_stands_in_a_program_that_its_tests_run(page: Path) -> None:
    programs = [each.read_text(encoding="utf-8") for each in (ROOT / "examples").rglob("*.py")]
    for block in blocks_of(page):
        if block.language == "python":
            assert any(block.text in program for program in programs), f"{name_of(page)}:{block.line}"


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


API = DOCS / "reference" / "python-api.md"
DOORS = [
    "handraise.blocking",
    "handraise.channels",
    "handraise.client",
    "handraise.conversations",
    "handraise.ports",
    "handraise.server",
    "handraise.testing",
    "handraise.testing.contract",
    "handraise.tools",
]


def test_the_api_page_lists_every_public_name_and_no_other() -> None:
    listed = [cells[0].strip("`") for cells in rows_of(API) if cells[0].startswith("`")]
    names = [name for name in listed if re.fullmatch(r"\w+", name)]
    assert sorted(name for name in names if name in handraise.__all__) == sorted(handraise.__all__)
    options = {*inspect.signature(open_desk).parameters, *handraise.DeskOptions.__annotations__} - {"options"}
    options |= {*QuestionOptions.__annotations__, *Limits.__dataclass_fields__}
    attributes = {name for name in (*dir(Question), *Question.__dataclass_fields__) if name[0] != "_"}
    assert set(names) - set(handraise.__all__) == options | attributes
    for name in listed:
        if "." in name:
            module, _, attribute = name.rpartition(".")
            assert hasattr(importlib.import_module(module), attribute), f"there is no {name}"


@pytest.mark.parametrize("module", DOORS)
def test_the_api_page_lists_every_name_of_the_smaller_doors(module: str) -> None:
    text = API.read_text(encoding="utf-8")
    names = importlib.import_module(module).__all__
    assert [name for name in names if f"`{module}.{name}`" not in text] == []


def test_the_api_page_has_every_verb_of_a_desk_with_its_signature() -> None:
    text = " ".join(API.read_text(encoding="utf-8").split())
    verbs = {name for name, _ in inspect.getmembers(Desk, inspect.isfunction) if name[0] != "_"}
    missing = [line for name in sorted(verbs) if (line := signature(Desk, name)) not in text]
    assert not missing, "\n".join(missing)
    blocking = {name for name, _ in inspect.getmembers(BlockingDesk, inspect.isfunction) if name[0] != "_"}
    assert blocking == verbs


def test_the_api_page_has_what_only_a_local_desk_has() -> None:
    text = " ".join(API.read_text(encoding="utf-8").split())
    verbs = {name for name, _ in inspect.getmembers(LocalDesk, inspect.isfunction) if name[0] != "_"}
    own = [name for name in sorted(verbs) if name in {"at", *verbs - set(dir(Desk))}]
    missing = [line for name in own if (line := signature(LocalDesk, name)) not in text]
    assert not missing, "\n".join(missing)


def test_the_api_page_has_every_verb_of_an_agent_with_its_signature() -> None:
    text = " ".join(API.read_text(encoding="utf-8").split())
    verbs = {name for name, _ in inspect.getmembers(Agent, inspect.isfunction) if name[0] != "_"}
    missing = [line for name in sorted(verbs - {"handle"}) if (line := signature(Agent, name)) not in text]
    assert not missing, "\n".join(missing)


def signature(owner: type, verb: str) -> str:
    """A verb as its source has it, without `self`."""
    real = str(inspect.signature(getattr(owner, verb))).replace("'", "")
    return f"{verb}{real}".replace("(self, ", "(").replace("(self)", "()")


INSIDE = {"ConflictingQuestion"}
"""Errors that never reach anybody: a `RemoteDesk` makes a `KeyConflict` of this one."""


def errors() -> list[type[HandraiseError]]:
    for door in DOORS:
        importlib.import_module(door)
    found, unseen = [HandraiseError], [HandraiseError]
    while unseen:
        below = unseen.pop().__subclasses__()
        unseen += below
        found += [each for each in below if each.__name__[0] != "_" and each.__name__ not in INSIDE]
    return found


def test_the_errors_page_has_every_error_with_its_code_and_status_and_no_other() -> None:
    page = DOCS / "reference" / "errors.md"
    listed = {tuple(cell.strip("`") for cell in cells[:3]) for cells in rows_of(page) if "`" in cells[0]}
    assert listed == {(error.__name__, error.code, str(STATUSES.get(error, ""))) for error in errors()}
    tree = next(block.text for block in blocks_of(page) if block.language == "text")
    assert [error.__name__ for error in errors() if not re.search(rf"\b{error.__name__}\b", tree)] == []


WHO = {
    callers.admin_of: "administrator",
    callers.person_of: "person",
    callers.agent_of: "agent",
    callers.caller_of: "agent, person",
}


def test_the_http_page_has_every_operation_and_who_may_call_it() -> None:
    page = DOCS / "reference" / "http-api.md"
    table = [
        f"| {method.upper()} | `{path}` | {who(method.upper(), path)} | {first_sentence(operation['description'])} |"
        for path, methods in app.document()["paths"].items()
        for method, operation in methods.items()
    ]
    lines = prose_of(page).splitlines()
    shown = [line for line in lines if re.match(r"\| [A-Z]+ \|", line)]
    assert shown == table, "\n".join(["The table should be:", *table])


def first_sentence(text: str) -> str:
    return re.split(r"(?<=\.)\s", text)[0]


def who(method: str, path: str) -> str:
    """Whom an operation asks for, by what its route depends on."""
    routes = (route for router in (*app.API, health.router) for route in router.routes)
    for route in routes:
        if isinstance(route, APIRoute) and route.path == path and method in (route.methods or ()):
            asked = [WHO[call] for call in needed(route.dependant) if call in WHO]
            return asked[0] if asked else "anybody"
    raise AssertionError(f"no route is {method} {path}")


def needed(dependant: Dependant) -> Iterator[Callable[..., Any] | None]:
    for each in dependant.dependencies:
        yield each.call
        yield from needed(each)


def test_the_events_page_has_every_kind_and_no_other() -> None:
    page = DOCS / "reference" / "events.md"
    listed = {cells[0].strip("`") for cells in rows_of(page) if cells[0].startswith("`")}
    fields = {*handraise.Event.__dataclass_fields__}
    assert listed == {kind.value for kind in EventKind} | fields


@pytest.mark.parametrize("page", [ROOT / "README.md", DOCS / "explanation" / "promises.md"], ids=name_of)
def test_the_promises_are_those_that_the_tests_keep(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    in_lists = re.findall(r"^- \*\*(P\d+)\*\* (.+)$", text, re.MULTILINE)
    in_tables = [(cells[0], cells[1]) for cells in rows_of(page) if re.fullmatch(r"P\d+", cells[0])]
    assert dict(in_lists + in_tables) == PROMISES
    assert len(in_lists + in_tables) == len(PROMISES)


def test_the_glossary_and_the_five_endings_agree() -> None:
    text = (DOCS / "reference" / "glossary.md").read_text(encoding="utf-8")
    assert [status for status in Status if f"`{status}`" not in text] == []


@pytest.mark.parametrize("page", TEXTS, ids=name_of)
def test_every_test_that_a_page_names_exists(page: Path) -> None:
    named = re.findall(r"`((?:tests|src)/[\w/]+\.py)::(\w+)`", prose_of(page))
    assert [f"{path}::{name}" for path, name in named if name not in named_in(path)] == []


@pytest.mark.parametrize("page", TEXTS, ids=name_of)
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", prose_of(page)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        goal = (page.parent / path).resolve() if path else page
        assert goal.exists(), f"{name_of(page)}: {target} leads nowhere"
        if anchor:
            assert anchor in anchors_of(goal), f"{name_of(page)}: {target} names no heading"


def anchors_of(page: Path) -> set[str]:
    """The anchors that a page's headings get."""
    headings = re.findall(r"^#+ (.+)$", prose_of(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_page_can_be_reached_from_the_map() -> None:
    index = DOCS / "index.md"
    linked = {(DOCS / target).resolve() for target in re.findall(r"\]\(([^)#\s]+)", prose_of(index))}
    assert [name_of(page) for page in DOCS.rglob("*.md") if page != index and page not in linked] == []


def test_no_file_knows_the_machine_it_was_written_on() -> None:
    places = {"/" + "work", str(Path.home()), *([str(ROOT)] if len(ROOT.parts) > 2 else [])}
    # What follows `://` is somebody's name, not a folder.
    here = re.compile(
        "|".join(rf"(?<![\w.~-])(?<!:/){re.escape(place)}(?![\w-])" for place in sorted(places))
    )
    found = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for path in files()
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines()
        if here.search(line)
    ]
    assert found == []


def files() -> Iterator[Path]:
    """What belongs to the repository, with or without git at hand."""
    made = {
        ".git",
        ".venv",
        ".cache",
        ".hypothesis",
        ".import_linter_cache",
        "__pycache__",
        "dist",
        "build",
        "node_modules",
    }
    for path in ROOT.iterdir():
        if path.name in made or (path / "pyvenv.cfg").exists():
            continue
        inside = path.rglob("*") if path.is_dir() else [path]
        yield from (each for each in inside if each.is_file() and not made & set(each.parts))

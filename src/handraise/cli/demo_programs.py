"""The end of `handraise demo`: a program for your own agent, which asks in the inbox of the demo."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import typer

from handraise.cli.question_view import say

FOLDER = Path(__file__).parent / "programs"
"""The programs; `python -m scripts.demo_programs` makes them from the documentation."""


@dataclass(frozen=True)
class Framework:
    """A way to write an agent."""

    name: str
    title: str
    install: str
    file: str

    @property
    def program(self) -> str:
        """What to put into the file."""
        return (FOLDER / f"{self.name}.txt").read_text(encoding="utf-8")


FRAMEWORKS = (
    Framework("python", "Python, no framework", 'pip install "handraise[remote]"', "agent.py"),
    Framework(
        "langgraph",
        "LangGraph",
        'pip install "handraise[langgraph,remote]" langgraph-checkpoint-sqlite',
        "agent.py",
    ),
    Framework(
        "openai-agents", "OpenAI Agents SDK", 'pip install "handraise[openai-agents,remote]"', "agent.py"
    ),
    Framework("pydantic-ai", "Pydantic AI", 'pip install "handraise[pydantic-ai,remote]"', "agent.py"),
    Framework("crewai", "CrewAI", 'pip install "handraise[crewai,remote]"', "agent.py"),
    Framework(
        "mcp", "Claude Code, Cursor and others, over MCP", 'pip install "handraise[cli,mcp]"', ".mcp.json"
    ),
    Framework("typescript", "TypeScript", "npm install @handraise/client", "agent.ts"),
)


def offer_programs(address: str, key: str) -> None:
    """Say how an agent of your own asks in this inbox, and for which frameworks there is a program."""
    say("\nNow with your agent. This lets it ask in the inbox of this demo:\n", bold=True)
    say(f"export HANDRAISE_URL={address}\nexport HANDRAISE_KEY={key}\n", fg=typer.colors.CYAN)
    for number, framework in enumerate(FRAMEWORKS, 1):
        typer.echo(f"  {number}  {framework.title}")
    typer.echo("\nType a number and press Enter to see the program. Ctrl+C stops the demo.\n")


@contextmanager
def choosing_programs() -> Iterator[None]:
    """Show the program for each number that is typed, while the demo runs; only at a terminal."""
    loop = asyncio.get_running_loop()
    if not sys.stdin.isatty() or sys.platform == "win32":  # its event loop cannot watch a console
        yield
        return
    loop.add_reader(sys.stdin, _show_chosen)
    try:
        yield
    finally:
        loop.remove_reader(sys.stdin)


def _show_chosen() -> None:
    typed = sys.stdin.readline().strip()
    if not typed:
        return
    if not (typed.isdecimal() and 1 <= int(typed) <= len(FRAMEWORKS)):
        typer.echo(f"Type a number from 1 to {len(FRAMEWORKS)}.")
        return
    show_program(FRAMEWORKS[int(typed) - 1])


def show_program(framework: Framework) -> None:
    """Print what to install, the file, and the program."""
    say(f"\n{framework.install}\n", fg=typer.colors.CYAN)
    say(f"{framework.file}\n", bold=True)
    typer.echo("".join(f"  {line}" for line in framework.program.splitlines(keepends=True)))

"""A question outlives the program that asked it.

An asker posts a question and is killed with SIGKILL. Somebody answers from another process. The asker is
started again, runs the same lines, and gets the answer.

Run it with: python examples/survives_restart.py [sqlite:///file.db | postgresql://…]
"""

import asyncio
import subprocess
import sys
import tempfile
from pathlib import Path

import handraise

PROMPT = "Which strategy?"
CHOICES = ["Blue-green", "Canary", "Rolling"]


async def asker(url: str, key: str) -> None:
    """What an agent does. It does not know whether this is its first run: the key is the same."""
    async with handraise.open_desk(url) as desk:
        question = await desk.post(PROMPT, choices=CHOICES, key=key)
        print(f"asked as {question.id}", flush=True)
        print("answer:", await desk.ask(PROMPT, choices=CHOICES, key=key), flush=True)


async def person(url: str, key: str) -> None:
    """What an inbox does."""
    async with handraise.open_desk(url) as desk:
        question = await desk.find_by_key(key)
        if question is None:
            raise SystemExit("there is nothing to answer")
        await desk.answer(question.id, "Canary", by="ana")


def start(role: str, url: str, key: str) -> "subprocess.Popen[str]":
    """Start this file again as another process."""
    return subprocess.Popen([sys.executable, __file__, role, url, key], stdout=subprocess.PIPE, text=True)


def first_line(process: "subprocess.Popen[str]") -> str:
    """The next line that the process prints."""
    if process.stdout is None:
        raise RuntimeError("the process has no output")
    return process.stdout.readline().strip()


def main(url: str) -> None:
    """Play all three parts."""
    key = f"deploy {Path(tempfile.mkdtemp(prefix='run-')).name}"

    first = start("asker", url, key)
    print("1. the asker starts:      ", first_line(first))
    first.kill()
    first.wait()
    print("2. it is killed:           exit code", first.returncode)

    answering = start("person", url, key)
    answering.wait()
    print("3. ana answers elsewhere:  exit code", answering.returncode)

    again = start("asker", url, key)
    print("4. the asker starts again:", first_line(again))
    print("5. and carries on:        ", first_line(again))
    again.wait()


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["asker", url, key]:
            asyncio.run(asker(url, key))
        case ["person", url, key]:
            asyncio.run(person(url, key))
        case [url]:
            main(url)
        case _:
            main(f"sqlite:///{Path(tempfile.mkdtemp()) / 'questions.db'}")

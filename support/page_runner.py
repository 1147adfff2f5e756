"""Follows a page as a new user would: in an empty folder, command by command, and compares what is printed."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import signal
import subprocess
import tempfile
import threading
import time
import tty
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from support.doc_pages import Block, matches
from support.terminal import at_terminal

SOON = 30.0
TESTS_SOON = 300.0
STAYS = 0.5
"""Seconds: a command that still runs this long after it printed all that a page shows is left running."""

_COLOUR = re.compile(rb"\x1b\[[0-9;]*m")
GOES_ON = r"handraise watch\b"
BUILT_IN = ("export", "cd", "source", "umask", "unset")
ID = r"\b[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}\b"
SAID = {
    "the-key-that-was-printed": r"(hra_[\w-]+)",
    "the-key": r"(hra_[\w-]+)",
    "the-token-of-that-link": r"(hrl_[\w-]+)",
    "the-link": r"(http\S+hrl_[\w-]+)",
    "the-session": r"(hrs_[\w-]+)",
    "the-id": rf"({ID})",
    "hra_…": r"(hra_[\w-]+)",
    "hrl_…": r"(hrl_[\w-]+)",
    "hrs_…": r"(hrs_[\w-]+)",
    "4711": r"process (\d+)",
}
"""Placeholders in a page for something that was printed before, and how to find that."""
VARIES = rf"\d{{4}}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d(\.\d+)?)?|(?<=process )\d+|{ID}|just now|\d+ \w+ ago|\b\d+:[0-9a-f]{{4}}(?=…)"
"""What a page shows as it was once: instants, processes, ids."""


@dataclass
class Terminal:
    """A folder, an environment, and what runs in it."""

    folder: Path
    environment: dict[str, str]
    running: Running | None = None

    def adopt(self, command: str) -> str:
        """Run what changes the terminal itself."""
        script = f'set -e; {command}\nenv --null > "$AFTER"; pwd >> "$AFTER"'
        with tempfile.NamedTemporaryFile() as after:
            done = subprocess.run(
                ["bash", "-c", script],  # noqa: S607 -- a page is written for whatever bash there is
                cwd=self.folder,
                env={**self.environment, "AFTER": after.name},
                capture_output=True,
                text=True,
                timeout=SOON,
                check=False,
            )
            assert done.returncode == 0, f"{command}:\n{done.stderr}"
            *named, folder = after.read().decode().split("\0")
        self.environment = {name: value for name, _, value in (each.partition("=") for each in named)}
        self.environment.pop("AFTER")
        self.folder = Path(folder.strip())
        return done.stdout

    def start(self, command: str) -> Running:
        """Run anything else."""
        self.interrupt()
        self.running = Running.begun(command, self)
        return self.running

    def interrupt(self) -> None:
        """Ctrl+C: end what runs in it."""
        if self.running is not None and self.running.process.poll() is None:
            self.running.stop()


@dataclass
class Running:
    """A command, and what it has printed so far, without its log if it has one."""

    command: str
    process: subprocess.Popen[bytes]
    output: Path
    log: Path | None
    seen: int = 0

    @classmethod
    def begun(cls, command: str, terminal: Terminal) -> Running:
        """Start a command in a terminal."""
        folder = Path(tempfile.mkdtemp(prefix="said-", dir=terminal.environment.get("SAID")))
        output = folder / "output"
        log = folder / "log" if _serves(command) else None
        for each in (output, *([log] if log else [])):
            each.touch()
        if log is None:
            redirected = f'{{ {command}\n}} >"{output}" 2>&1'
            return cls(command, _bash(redirected, terminal.folder, terminal.environment), output, log)
        # A server shows a secret only at a terminal.
        mine, its = pty.openpty()
        tty.setraw(its)
        process = _bash(f'{{ {command}\n}} 2>"{log}"', terminal.folder, terminal.environment, stdout=its)
        os.close(its)
        threading.Thread(target=_copy, args=(mine, output), daemon=True).start()
        return cls(command, process, output, log)

    @property
    def printed(self) -> str:
        """What it has printed since it was last looked at."""
        return self.output.read_text(encoding="utf-8")[self.seen :]

    def until(self, shown: str, soon: float = SOON) -> str:
        """Wait until it has printed this, or has ended; what it printed."""
        end = time.monotonic() + soon
        last, since = "", time.monotonic()
        while self.process.poll() is None:
            assert time.monotonic() < end, f"{self.command} goes on and has printed only\n{self.printed}"
            if self.printed != last:
                last, since = self.printed, time.monotonic()
            if last and shown.strip() and _is_shown(shown, last) and time.monotonic() > since + STAYS:
                break
            time.sleep(0.01)
        printed = self.printed
        self.seen += len(printed)
        return printed

    def until_it_stays(self) -> None:
        """Check that it keeps running for a while; an early end raises."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = self.process.wait(STAYS)
            raise AssertionError(f"{self.command} ended with {code}:\n{self.printed}")

    def until_serving(self) -> str:
        """Wait until a server takes requests; what it printed."""
        assert self.log is not None
        end = time.monotonic() + SOON
        while "Stop with Ctrl+C." not in self.printed:
            assert self.process.poll() is None, f"{self.command}:\n{self.log.read_text(encoding='utf-8')}"
            assert time.monotonic() < end, f"{self.command} takes too long"
            time.sleep(0.01)
        return self.printed

    def stop(self) -> None:
        """Ctrl+C, in its terminal."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGINT)
        try:
            self.process.wait(timeout=SOON)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """End it and everything that it started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def _copy(terminal: int, output: Path) -> None:
    """Write what comes over a terminal into a file, without its colours, until the other end is closed."""
    with output.open("ab") as file, contextlib.suppress(OSError):
        while said := os.read(terminal, 65_536):
            file.write(_COLOUR.sub(b"", said))
            file.flush()
    os.close(terminal)


def _bash(
    script: str, folder: Path, environment: dict[str, str], *, stdout: int = subprocess.DEVNULL
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        # Ctrl+C is a signal even if the parent process ignores it.
        ["/usr/bin/env", "--default-signal=INT", "bash", "-c", script],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def _is_shown(shown: str, printed: str) -> bool:
    """Whether a page shows what was printed, wherever that was wrapped between its facts."""
    return matches(shown.replace("·\n", "· "), printed.replace("·\n", "· "))


def _serves(command: str) -> bool:
    return re.search(r"\bhandraise serve\b", command) is not None


@dataclass
class Stranger:
    """A person who follows a page: their terminals, what they have read so far, and the values of placeholders."""

    folder: Path
    environment: dict[str, str]
    replaced: dict[str, str] = field(default_factory=dict)
    said: str = ""
    terminals: dict[str, Terminal] = field(default_factory=dict)
    excused: Callable[[str], bool] = lambda _: False
    told: Callable[[str, float], None] = lambda _command, _seconds: None
    rewritten: Callable[[str], str] = lambda line: line
    soon: float = SOON
    server: Running | None = None
    ids: dict[str, str] = field(default_factory=dict)
    acts: dict[str, Callable[[Stranger], None]] = field(default_factory=dict)
    """What is done elsewhere before a block is read, by its first line."""
    keys: Sequence[tuple[str, str]] = ()
    """What is waited for in the inbox of a terminal, and what is pressed then."""

    def read(self, block: Block) -> None:
        """Do what a block says."""
        if block.first_line in self.acts:
            self.acts[block.first_line](self)
        name = re.fullmatch(r"(?:#|//|--) ([\w./-]+\.\w+)", block.first_line)
        if name and block.language not in {"console", "output"}:
            path = self.terminal(block.title).folder / name[1]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(self._real(block.text) + "\n", encoding="utf-8")
        elif block.language == "sh":
            self.give(block.text, "", block.title)
        elif block.language == "console" and not block.text.startswith("$ "):
            self.look(block.text, block.title)
        elif block.language == "console":
            for command, shown in commands_of(block.text):
                self.give(command, shown, block.title)

    def give(self, command: str, shown: str, title: str = "") -> None:
        """Run a command, and compare what it prints with what is shown."""
        if self.excused(command):
            return
        terminal, line, shown = self.terminal(title), self.filled(command), self._shown(shown)
        began = time.monotonic()
        if line.split()[0] in BUILT_IN:
            self.said += terminal.adopt(line)
        elif _serves(line):
            if self.server is not None:
                self.server.stop()
            self.server = Running.begun(line, terminal)  # in its own terminal
            printed = self.server.until_serving()
            self._compare(line, shown or "…", printed)
        elif line.startswith("handraise inbox"):
            sit_down(line, terminal, self.keys)
        elif re.match(GOES_ON, line):
            terminal.start(line).until_it_stays()
        else:
            running = terminal.start(line)
            runs_tests = re.search(r"(?<![\w/])pytest\b", line) is not None
            printed = running.until(shown, TESTS_SOON if runs_tests else self.soon)
            while not self._is_good(shown, printed) and self._is_busy() and time.monotonic() < began + SOON:
                running = terminal.start(line)  # what runs elsewhere may need a moment
                printed = running.until(shown)
            if shown.strip():
                self._compare(line, shown, printed)
                if runs_tests:  # "…" would also stand for a number of failures
                    assert running.process.wait(TESTS_SOON) == 0, f"{line} fails:\n{printed}"
            else:
                assert running.process.returncode == 0, f"{line} fails:\n{printed}"
                self.said += printed
        self.told(command, time.monotonic() - began)

    def look(self, shown: str, title: str) -> None:
        """Look at a terminal in which something runs: it must print this now."""
        running = self.terminal(title).running
        assert running is not None, f"nothing runs that could print\n{shown}"
        shown = self._shown(shown)
        self._compare(running.command, shown, running.until(shown))

    def filled(self, command: str) -> str:
        """A command with real values in it."""
        said: dict[str, str] = {}
        for shown in (each for each in SAID if each in command):
            found = re.findall(SAID[shown], self.said)
            assert found, f"{command}: nothing was printed yet that {shown} stands for"
            said[shown] = found[-1]
        line = self.rewritten(replaced(command, {**self.replaced, **said}))
        for literal in re.findall(ID, line):
            if literal not in self.said:
                unused = [each for each in re.findall(ID, self.said) if each not in self.ids.values()]
                self.ids.setdefault(literal, unused[-1] if unused else literal)
                line = line.replace(literal, self.ids[literal])
        assert "…" not in line, f"{command}: what does … stand for?"
        return line

    def terminal(self, title: str) -> Terminal:
        """The terminal of this name; a new one, if it was not there yet."""
        if title not in self.terminals:
            self.terminals[title] = Terminal(self.folder, {**self.environment})
        return self.terminals[title]

    def leave(self) -> None:
        """Close all terminals."""
        for terminal in self.terminals.values():
            if terminal.running is not None:
                terminal.running.kill()
        if self.server is not None:
            self.server.kill()

    @staticmethod
    def _is_good(shown: str, printed: str) -> bool:
        return not shown.strip() or _is_shown(shown, printed)

    def _is_busy(self) -> bool:
        running = [each.running for each in self.terminals.values()]
        return any(each is not None and each.process.poll() is None for each in running)

    def _shown(self, text: str) -> str:
        return re.sub(VARIES, "…", self._real(text))

    def _real(self, text: str) -> str:
        return replaced(text, self.replaced)

    def _compare(self, line: str, shown: str, printed: str) -> None:
        self.said += printed
        assert _is_shown(shown, printed), f"{line} prints\n{printed}\nbut the page shows\n{shown}"


def replaced(text: str, real: Mapping[str, str]) -> str:
    """A text with real values in it.

    What was put in stays as it is, also if a part of it looks like a name of a page: a random name can have 4711 in it.
    """
    if not real:
        return text
    names = "|".join(map(re.escape, real))
    return re.sub(names, lambda found: real[found[0]], text)


def sit_down(line: str, terminal: Terminal, keys: Sequence[tuple[str, str]]) -> None:
    """Run the inbox at a terminal, press keys, and leave."""
    shell = f'cd "{terminal.folder}"; {line}'
    variables: dict[str, Any] = {**terminal.environment, "PYTHONWARNINGS": "ignore"}
    with at_terminal(url="", shell=shell, **variables) as screen:
        for seen, key in keys:
            screen.until(seen)
            screen.send(key)
        screen.until("q quits")
        screen.send("q")
        screen.end()


def commands_of(console: str) -> Iterator[tuple[str, str]]:
    """The commands of a console, each with what is shown below it."""
    for part in re.split(r"^\$ ", console, flags=re.MULTILINE)[1:]:
        lines = part.splitlines()
        last = next(number for number, line in enumerate(lines) if not line.endswith("\\"))
        yield "\n".join(lines[: last + 1]), "\n".join(lines[last + 1 :])

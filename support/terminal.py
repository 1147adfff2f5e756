"""A real pseudo-terminal with the command in it, and what a person would see on its screen."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator

import pyte

from support.command import SOON, environment

ENTER, ESCAPE, UP, DOWN, SPACE = "\r", "\x1b", "\x1b[A", "\x1b[B", " "
CTRL_C, CTRL_J, CTRL_T, CTRL_U, CTRL_X = "\x03", "\x0a", "\x14", "\x15", "\x18"


class Screen:
    """What is on the screen of a process at a pseudo-terminal; `raw` is every byte that it has written."""

    def __init__(self, process: subprocess.Popen[bytes], master: int, rows: int, columns: int) -> None:
        self.raw = b""
        self.process = process
        self._master = master
        self._screen = pyte.HistoryScreen(columns, rows, history=2_000, ratio=1)
        self._stream = pyte.ByteStream(self._screen)

    @property
    def text(self) -> str:
        """The lines that can be seen now."""
        return "\n".join(line.rstrip() for line in self._screen.display).rstrip()

    @property
    def all_text(self) -> str:
        """Everything from the top of the scrollback, one line after the other."""
        before = [
            "".join(line[column].data for column in range(self._screen.columns)).rstrip()
            for line in self._screen.history.top
        ]
        return "\n".join([*before, self.text])

    @property
    def cells(self) -> list[list[tuple[str, str, bool]]]:
        """The same lines cell by cell: the character, its colour, and whether it is bold."""
        columns = range(self._screen.columns)
        buffer = [
            [self._screen.buffer[row][column] for column in columns] for row in range(self._screen.lines)
        ]
        return [[(cell.data, cell.fg, cell.bold) for cell in line] for line in buffer]

    def until(self, *texts: str) -> str:
        """Wait until all of this is visible; return the screen."""
        return self._read_until(lambda: all(text in self.text for text in texts), f"never saw {texts}")

    def until_gone(self, text: str) -> str:
        """Wait until this is no longer visible; return the screen."""
        return self._read_until(lambda: text not in self.text, f"still see {text!r}")

    def look(self, patience: float) -> None:
        """Read what comes within this many seconds, if anything does."""
        self._read(patience)

    def send(self, *keys: str) -> None:
        """Press keys. Escape counts as one key only if nothing follows at once, so it gets its own write."""
        for key in keys:
            os.write(self._master, key.encode())

    def resize(self, rows: int, columns: int) -> None:
        """Change the size of the window under the process."""
        self._screen.resize(rows, columns)
        set_size(self._master, rows, columns)

    def end(self) -> int:
        """Wait for the end; return the exit code."""
        self._read_until(lambda: self.process.poll() is not None, "it does not end")
        while self._read(0.05):
            pass
        return self.process.returncode

    def _read_until(self, seen: Callable[[], bool], complaint: str) -> str:
        until = time.monotonic() + SOON
        while not seen():
            assert time.monotonic() < until, f"{complaint}:\n{self.text}"
            ended = self.process.poll() is not None
            if not self._read(0.2) and ended:
                assert seen(), f"it ended, and {complaint}:\n{self.text}"
        return self.text

    def _read(self, patience: float) -> bool:
        if not select.select([self._master], [], [], patience)[0]:
            return False
        try:
            data = os.read(self._master, 65_536)
        except OSError:  # how Linux says that the other end is closed
            return False
        self.raw += data
        self._stream.feed(data)
        return bool(data)


@contextlib.contextmanager
def at_terminal(
    *line: str,
    url: str,
    rows: int = 24,
    columns: int = 80,
    shell: str | None = None,
    **settings: str,
) -> Iterator[Screen]:
    """`handraise …`, or a line of shell, at a terminal of this size; killed at the end unless it has ended."""
    master, slave = pty.openpty()
    set_size(master, rows, columns)
    env = {**environment(url, **settings), "TERM": "xterm-256color", "LOGNAME": "ada", "USER": "ada"}
    for name in ("COLUMNS", "LINES", "NO_COLOR"):
        env.pop(name, None)
    command = [sys.executable, "-m", "handraise", *line] if shell is None else ["/bin/sh", "-c", shell]
    # A process that begins a session and opens a terminal is controlled by it: Ctrl+C is then a signal, as wanted.
    # It is a signal even if the parent process ignores it, as a shell does for jobs in the background.
    begin = ["/usr/bin/env", "--default-signal=INT", "/bin/sh", "-c", 'exec "$@" 0<>"$0" 1>&0 2>&0']
    opened = [*begin, os.ttyname(slave), *command]
    process = subprocess.Popen(opened, env=env, start_new_session=True)
    try:
        yield Screen(process, master, rows, columns)
    finally:
        process.kill()
        process.wait()
        os.close(slave)
        os.close(master)


def set_size(handle: int, rows: int, columns: int) -> None:
    """Give a pseudo-terminal this size; the process in it is told."""
    fcntl.ioctl(handle, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

"""What a library may reach while it is guarded, and that nobody else notices."""

from __future__ import annotations

import _thread
import os
import socket
import subprocess
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from handraise.channels.network_guard import NotAllowed, guarded

WITHIN = 10.0


@pytest.mark.parametrize(
    "deed",
    [
        lambda _: socket.create_connection(("127.0.0.1", 9), 1),
        lambda _: socket.socket().connect(("localhost", 9)),
        lambda path: socket.socket(socket.AF_UNIX).connect(str(path)),
        lambda _: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"", ("127.0.0.1", 9)),
        lambda _: socket.socket(socket.AF_INET6).connect(("::1", 9)),
        lambda _: socket.socket().connect(("169.254.169.254", 80)),
        lambda _: subprocess.run(["true"], check=True),  # noqa: S607 -- it is not run
        lambda _: os.system("true"),  # noqa: S605, S607 -- it is not run
        lambda path: path.read_text(),
        lambda path: path.write_text("x"),
        lambda path: path.unlink(),
        lambda _: Path("/etc/passwd").read_bytes(),
        lambda _: os.open(os.__file__, os.O_WRONLY),
        lambda path: os.open(path, os.O_RDONLY),
    ],
)
@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
def test_it_refuses_what_reaches_this_machine(tmp_path: Path, deed: Callable[[Path], Any]) -> None:
    path = tmp_path / "mine"
    path.write_text("mine")
    with guarded(()) as guard, pytest.raises(NotAllowed):
        deed(path)
    assert guard.refused
    assert path.read_text() == "mine"


@pytest.mark.parametrize(
    "start",
    [
        lambda deed: threading.Thread(target=deed).start(),
        lambda deed: threading.Timer(0, deed).start(),
        lambda deed: _thread.start_new_thread(deed, ()),
        lambda deed: ThreadPoolExecutor(1).submit(deed),
    ],
)
def test_it_refuses_threads_which_would_not_be_guarded(start: Callable[[Callable[[], None]], Any]) -> None:
    done = threading.Event()
    with guarded(()) as guard, pytest.raises(NotAllowed):
        start(done.set)
    assert guard.refused
    assert not done.wait(0.05)
    threading.Thread(target=done.set).start()
    assert done.wait(WITHIN)


def test_it_lets_python_read_its_own() -> None:
    with guarded(()) as guard:
        assert Path(os.__file__).read_bytes()
    assert not guard.refused


def test_others_are_not_guarded_meanwhile(tmp_path: Path) -> None:
    path, done = tmp_path / "mine", threading.Event()
    begin = threading.Event()

    def write() -> None:
        begin.wait(WITHIN)
        path.write_text("mine")
        done.set()

    thread = threading.Thread(target=write)
    thread.start()
    with guarded(()) as guard:
        begin.set()
        assert done.wait(WITHIN)
    thread.join()
    assert not guard.refused
    assert path.read_text() == "mine"

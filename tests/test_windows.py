"""What Windows lacks is hidden from a process, which then uses the library, the command and a server all the same."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

_HIDE = """
import asyncio, multiprocessing, os, signal, socket, subprocess, sys, tempfile, importlib.abc, sqlite3, shutil, getpass, webbrowser

MISSING = {"fcntl", "pwd", "grp", "resource", "termios", "tty", "pty", "uvloop", "_posixsubprocess"}

class Hidden(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name in MISSING:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

SHELVED = {name for name in MISSING if sys.modules.pop(name, None)}
sys.meta_path.insert(0, Hidden())
for name in ("fork", "forkpty", "register_at_fork", "geteuid", "getuid", "setpgid", "killpg", "uname", "fchmod", "fchown",
             "O_CLOEXEC", "O_NOFOLLOW", "O_DIRECTORY", "sysconf", "wait", "getloadavg", "sched_getaffinity"):
    if hasattr(os, name):
        delattr(os, name)
for name in ("SIGHUP", "SIGUSR1", "SIGUSR2", "SIGALRM", "SIGKILL", "SIGSTOP", "SIGCHLD", "alarm", "pthread_sigmask", "setitimer"):
    if hasattr(signal, name):
        delattr(signal, name)
if hasattr(socket, "SO_REUSEPORT"):
    del socket.SO_REUSEPORT
"""

_IMPORT = """
import importlib, pkgutil
import handraise
from handraise.errors import MissingExtra

bad = []
for found in pkgutil.walk_packages(handraise.__path__, "handraise."):
    name = found.name
    # The first is a program, the second a process that Windows does not start (see image_encoder.py).
    if name.startswith("handraise.integrations.") or name in ("handraise.__main__", "handraise.server.image_worker"):
        continue
    try:
        importlib.import_module(name)
    except MissingExtra:
        pass
    except Exception as error:
        bad.append(f"{name}: {error!r}")
print("\\n".join(bad) or "all imported")
"""

_USE = """
import handraise
from handraise.desk_factory import default_address

async def main():
    async with handraise.open_desk("sqlite:///questions.db") as asker, handraise.open_desk("sqlite:///questions.db") as person:
        waiting = [asyncio.create_task(asker.ask(f"Which {n}?")) for n in range(20)]
        while len((pending := (await person.list_pending(limit=50)).items)) < 20:
            await asyncio.sleep(0.01)
        await asyncio.gather(*(person.answer(each.id, "that", by="ana") for each in pending))
        print(set(await asyncio.gather(*waiting)), (await asker.durability()).survives)

asyncio.run(main())
"""


def without_posix(source: str, folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", _HIDE + source],
        cwd=folder, capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.only_proof_of("no module needs what Windows lacks when it is imported")
def test_every_module_can_be_imported_without_what_windows_lacks(tmp_path: Path) -> None:
    assert without_posix(_IMPORT, tmp_path) == "all imported"


@pytest.mark.slow("changes seldom; the gate imports every module without what Windows lacks")
def test_a_file_is_a_store_without_what_windows_lacks(tmp_path: Path) -> None:
    assert without_posix(_USE, tmp_path).startswith("{'that'} a crash of")

"""Our own PostgreSQL servers, as child processes on free ports, for tests that kill one."""

from __future__ import annotations

import os
import pwd
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from support.free_port import free_port

_DATABASE = "handraise"


class Server:
    """One server, which can be killed and restarted."""

    def __init__(
        self,
        binaries: Path,
        folder: Path,
        user: str | None,
        *,
        settings: Mapping[str, str] | None = None,
        under: Sequence[str] = (),
        host: str = "127.0.0.1",
    ) -> None:
        """`under` is a command that starts it somewhere else, where it has the address `host`."""
        self.binaries = binaries
        self.folder = folder
        self.user = user
        self.host = host
        self.port = free_port()
        self._under = under
        self._settings = {"max_connections": "60", "shared_buffers": "64MB", **(settings or {})}
        self._process: subprocess.Popen[bytes] | None = None
        self.address = f"postgresql://postgres@{host}:{self.port}/{_DATABASE}"

    def start(self) -> None:
        """Start, and wait until it takes connections."""
        settings = {"listen_addresses": self.host, "log_min_messages": "panic", **self._settings}
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        somebody = ["setpriv", f"--reuid={self.user}", f"--regid={self.user}", "--clear-groups"]
        under = [*self._under, *(somebody if self.user else [])] if self._under else []
        self._process = subprocess.Popen(
            [*under, self.binaries / "postgres", "-D", self.folder, "-p", str(self.port), "-k", "", *options],
            user=None if under else self.user, cwd="/", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        ready: list[str | Path] = [self.binaries / "pg_isready", "-h", self.host, "-p", str(self.port)]
        for _ in range(1_500):
            if subprocess.run(ready, check=False, capture_output=True).returncode == 0:
                self._make_database()
                return
            if self._process.poll() is not None:
                break
            time.sleep(0.02)
        self.kill()
        raise RuntimeError(f"PostgreSQL did not start on port {self.port}")

    def _make_database(self) -> None:
        """Make the database if it does not exist; a standby has what its primary has."""
        server = ["-h", self.host, "-p", str(self.port), "-U", "postgres"]
        made = subprocess.run(
            [self.binaries / "createdb", *server, _DATABASE], check=False, capture_output=True, text=True
        )
        if made.returncode != 0 and not re.search("already exists|read-only transaction", made.stderr):
            raise RuntimeError(made.stderr)

    @property
    def is_running(self) -> bool:
        """Whether it has not ended by itself."""
        return self._process is not None and self._process.poll() is None

    def kill(self) -> None:
        """Kill it and all its workers, as a power cut would."""
        if self._process is not None:
            # Its workers have their own process groups; a survivor could still write when the next server starts.
            with suppress(ProcessLookupError):
                os.kill(self._process.pid, signal.SIGSTOP)
            workers = self._workers()
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            for each in workers:
                _end(each)
            self._process = None
            (self.folder / "postmaster.pid").unlink(missing_ok=True)

    def freeze(self) -> None:
        """Stop it from answering, without closing a connection."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it continue."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        for each in (self._process.pid, *self._workers()):
            with suppress(ProcessLookupError):
                os.kill(each, number)

    def _workers(self) -> list[int]:
        """The processes that it has started."""
        assert self._process is not None
        with suppress(FileNotFoundError, ProcessLookupError):
            children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text()
            return [int(each) for each in children.split()]
        return []


class Program:
    """Any other program of ours that takes connections at a port, and can be killed and restarted."""

    def __init__(self, command: Sequence[str], port: int, address: str) -> None:
        self._command = command
        self._port = port
        self._process: subprocess.Popen[bytes] | None = None
        self.address = address

    def start(self) -> None:
        """Start, and wait until it takes connections."""
        self._process = subprocess.Popen(self._command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(500):
            try:
                socket.create_connection(("127.0.0.1", self._port), timeout=1).close()
            except OSError:
                time.sleep(0.02)
            else:
                return
        raise RuntimeError(f"{self._command[0]} did not start")

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal, such as one that freezes it."""
        if self._process is not None:
            self._process.send_signal(number)

    def kill(self) -> None:
        """Kill it, with every connection to it."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


@contextmanager
def own_servers(
    number: int,
    settings: Mapping[str, str] | None = None,
    *,
    disk: Path | None = None,
    initdb: Sequence[str] = (),
    under: Sequence[str] = (),
    host: str = "127.0.0.1",
) -> Iterator[list[Server]]:
    """Servers, each with its own cluster, on a disk or in a folder that is removed at the end."""
    folder = Path(tempfile.mkdtemp(prefix="handraise-", dir=disk))
    servers: list[Server] = []
    try:
        binaries, user = programs(), owner_of(folder)
        first = make_cluster(folder / "0", user, *initdb)
        with (first / "pg_hba.conf").open("a") as rules:
            rules.write("host all all samenet trust\n")
        folders = [first]
        for place in range(1, number):
            folders.append(folder / str(place))
            subprocess.run(["cp", "-r", first, folders[-1]], check=True, user=user, cwd="/")  # noqa: S607 -- as in any shell
        for each in folders:
            servers.append(Server(binaries, each, user, settings=settings, under=under, host=host))
            servers[-1].start()
        yield servers
    finally:
        for server in servers:
            server.kill()
        for _ in range(50):
            shutil.rmtree(folder, ignore_errors=True)
            if not folder.exists():
                break
            time.sleep(0.1)


def owner_of(folder: Path) -> str | None:
    """The user that a server in this folder must run as, and that then owns it; None is the current user."""
    if os.geteuid() != 0:  # which PostgreSQL refuses to run as
        return None
    user = next(name for name in ("postgres", "nobody") if _is_known(name))
    shutil.chown(folder, user)
    return user


def make_cluster(folder: Path, user: str | None, *options: str) -> Path:
    """A new cluster in a folder."""
    subprocess.run(
        [programs() / "initdb", "-D", folder, "-A", "trust", "-U", "postgres", "-E", "UTF8", "--locale=C", "--no-sync",
         *options],
        check=True, user=user, cwd="/", capture_output=True,
    )  # fmt: skip
    return folder


def programs() -> Path:
    """Where PostgreSQL's own programs are."""
    found = shutil.which("initdb")
    if found:
        return Path(found).resolve().parent
    for folder in sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True):
        if (folder / "initdb").exists():
            return folder
    raise RuntimeError("A server of our own needs PostgreSQL's programs. Run: apt-get install postgresql")


def _end(process: int) -> None:
    """Kill a worker, and wait until it has ended."""
    with suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)
    for _ in range(500):
        try:
            state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return
        if state == "Z":
            return
        time.sleep(0.01)


def _is_known(name: str) -> bool:
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True

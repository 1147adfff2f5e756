"""A rehearsal of the whole release: `python -m scripts.release rehearse`.

In a clone of the last commit, it fills in a publisher and the date, tags, builds, and publishes to an index and an npm registry on
loopback. Then it does what a visitor would: `uvx "handraise[server]" demo` without anything installed, and an npm project with
`@handraise/client` that asks there. It needs the dependency group `release`, and npm.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path

import handraise
from handraise.blocking import open_desk
from scripts.release import smoke
from scripts.release.clean import ROOT
from support.free_port import free_port

REGISTRY = {
    "private": True,
    "dependencies": {"verdaccio": "6.1.6"},
    # A dependency of Verdaccio asks for a tag, which mirrors of the registry may not have.
    "overrides": {"node-fetch": "2.7.0"},
}
PUBLISHER = ("rehearsal/handraise", "The rehearsal", "rehearsal@example.com")
SOON = 300.0
_TOOLS = Path(sysconfig.get_path("scripts"))
_QUIET = ("--silent", "--no-audit", "--no-fund", "--no-package-lock")
_PROGRAM = """
import { openDesk } from "@handraise/client";

const desk = await openDesk();
console.log("deploying with", await desk.ask("Which strategy?", { choices: ["Canary", "Rolling"] }));
await desk.close();
"""


def rehearse(place: Path) -> None:
    """Do all of it in an empty folder; raises `SystemExit` at the first thing that does not work."""
    source = place / "source"
    _run("git", "clone", "--quiet", "--no-hardlinks", str(ROOT), str(source), cwd=place)
    version = _tag(source)
    with _index(place) as index, _registry(place) as registry:
        _timed("build", lambda: _build(source, place / "dist"))
        _timed("publish to the index", lambda: _upload(place / "dist", index))
        _timed("publish to the npm registry", lambda: _publish(source / "clients" / "typescript", registry))
        with _demo(place, index, version) as (store, address, key):
            _timed("ask with the npm package", lambda: _ask_from_node(place, registry, store, address, key))


def _tag(source: Path) -> str:
    """What the person who releases does: who publishes, the date in the changelog, a commit, a tag."""
    environment = {**os.environ, "PYTHONPATH": f"{source / 'src'}{os.pathsep}{source}"}
    release = (sys.executable, "-m", "scripts.release")
    _run(*release, "identity", *PUBLISHER, cwd=source, env=environment)
    changelog = source / "CHANGELOG.md"
    version = handraise.__version__
    text = changelog.read_text(encoding="utf-8")
    dated = re.sub(
        rf"^## \[{re.escape(version)}\] - unreleased$",
        f"## [{version}] - {datetime.now(UTC):%Y-%m-%d}",
        text,
        flags=re.MULTILINE,
    )
    changelog.write_text(dated, encoding="utf-8")
    who = ("-c", "user.name=Rehearsal", "-c", "user.email=rehearsal@example.com")
    _run("git", *who, "commit", "--quiet", "--all", "--message", f"Release {version}", cwd=source)
    _run("git", *who, "tag", f"v{version}", cwd=source)
    _run(*release, "tag", f"v{version}", cwd=source, env=environment)
    return version


def _build(source: Path, into: Path) -> None:
    _run(sys.executable, "-m", "build", "--no-isolation", "--outdir", str(into), cwd=source)


def _upload(built: Path, index: str) -> None:
    files = [str(path) for path in sorted(built.iterdir())]
    _run(str(_TOOLS / "twine"), "check", "--strict", *files, cwd=built)
    login = ("--username", "rehearsal", "--password", "rehearsal")
    _run(
        str(_TOOLS / "twine"),
        "upload",
        "--repository-url",
        index.removesuffix("simple/"),
        "--disable-progress-bar",
        *login,
        *files,
        cwd=built,
    )


def _publish(package: Path, registry: str) -> None:
    _run("npm", "install", *_QUIET, cwd=package)
    # npm publishes only with a token; the registry on loopback takes any.
    (package / ".npmrc").write_text(
        f"//{registry.partition('//')[2]}/:_authToken=rehearsal\n", encoding="utf-8"
    )
    _run("npm", "publish", "--registry", registry, cwd=package)


def _ask_from_node(place: Path, registry: str, store: str, address: str, key: str) -> None:
    """Install the published package into an empty project, and ask at the demo with it."""
    project = place / "project"
    project.mkdir()
    (project / "package.json").write_text('{"type": "module"}', encoding="utf-8")
    (project / "ask.js").write_text(_PROGRAM, encoding="utf-8")
    _run("npm", "install", *_QUIET, "--registry", registry, "@handraise/client", cwd=project)
    environment = {**os.environ, "HANDRAISE_URL": address, "HANDRAISE_KEY": key}
    with subprocess.Popen(  # noqa: S603 -- our own line
        [shutil.which("node") or "node", "ask.js"],
        cwd=project,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    ) as asking:
        try:
            _answer(store, "your-agent", "Canary")
            said, _ = asking.communicate(timeout=SOON)
        finally:
            asking.kill()
    if said != "deploying with Canary\n":
        raise SystemExit(f"the program with the npm package printed {said!r}")


@contextmanager
def _demo(place: Path, index: str, version: str) -> Iterator[tuple[str, str, str]]:
    """The demo of the published wheel, through its script, with an empty home; its store, its address and a key."""
    home = place / "home"
    home.mkdir()
    settings = {
        "HOME": str(home),
        "UV_CACHE_DIR": str(home / "cache"),
        "UV_NO_CONFIG": "1",
        "TMPDIR": str(home),
    }
    command = [str(_TOOLS / "uvx"), "--index", index, f"handraise[server]=={version}"]
    began = time.monotonic()
    with smoke.started(command, "demo", home, lasts=SOON, settings=settings) as said:
        link = said(r"http://\S+/sign-in/link\?token=\S+")
        _say(f"{time.monotonic() - began:7.1f} s  uvx, until the link is there")
        with closing(urllib.request.urlopen(link, timeout=SOON)):  # noqa: S310 -- it begins with http://
            pass
        store = said(r"HANDRAISE_URL=\S+ handraise inbox").partition("=")[2].split()[0]
        for value in ("canary", {"on_call": "ana", "minutes": 20, "announce": False}, "approve"):
            _answer(store, "release-agent", value)
        said(r"Done, exactly as you approved it: deploy")
        address, key = (
            said(rf"export {name}=\S+").partition("=")[2] for name in ("HANDRAISE_URL", "HANDRAISE_KEY")
        )
        yield store, address, key


def _answer(store: str, asker: str, value: object) -> None:
    """Answer the next question of an agent, in the name of the person at the demo."""
    end = time.monotonic() + SOON
    with open_desk(store) as desk:
        while not (pending := desk.list_pending(asker=asker).items):
            if time.monotonic() > end:
                raise SystemExit(f"{asker} has asked nothing")
            time.sleep(0.1)
        desk.answer(pending[0].id, value, by="you")  # type: ignore[arg-type]  # any value that the form takes


@contextmanager
def _index(place: Path) -> Iterator[str]:
    """A package index on loopback that takes uploads, and has nothing else."""
    port, packages = free_port(), place / "index"
    packages.mkdir()
    options = (
        "--interface",
        "127.0.0.1",
        "--port",
        str(port),
        "--authenticate",
        ".",
        "--passwords",
        ".",
        "--disable-fallback",
    )
    with _serving(
        [str(_TOOLS / "pypi-server"), "run", *options, str(packages)],
        place,
        f"http://127.0.0.1:{port}/simple/",
    ):
        yield f"http://127.0.0.1:{port}/simple/"


@contextmanager
def _registry(place: Path) -> Iterator[str]:
    """An npm registry on loopback that takes our package from anybody, and has nothing else."""
    port, folder = free_port(), place / "registry"
    folder.mkdir()
    (folder / "package.json").write_text(json.dumps(REGISTRY), encoding="utf-8")
    _run("npm", "install", *_QUIET, cwd=folder)
    (folder / "config.yaml").write_text(
        "storage: ./storage\nauth: {}\nuplinks: {}\n"
        "packages:\n  '**': {access: $all, publish: $all, unpublish: $all}\n"
        "log: {type: stdout, level: warn}\n",
        encoding="utf-8",
    )
    command = ["node_modules/.bin/verdaccio", "--config", "config.yaml", "--listen", f"127.0.0.1:{port}"]
    with _serving(command, folder, f"http://127.0.0.1:{port}/-/ping"):
        yield f"http://127.0.0.1:{port}"


@contextmanager
def _serving(command: list[str], folder: Path, probe: str) -> Iterator[None]:
    """Run a server until the block ends; it has begun once the probe is answered."""
    log = folder / f"{Path(command[0]).name}.log"
    with (
        log.open("wb") as written,
        subprocess.Popen(  # noqa: S603 -- our own line
            command, cwd=folder, stdout=written, stderr=written
        ) as process,
    ):
        try:
            _until_answered(probe, process, log)
            yield
        finally:
            process.terminate()
            process.wait(timeout=SOON)


def _until_answered(probe: str, process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + SOON
    while True:
        try:
            with closing(urllib.request.urlopen(probe, timeout=5)):  # noqa: S310 -- it begins with http://
                return
        except OSError as error:
            if process.poll() is not None or time.monotonic() > end:
                raise SystemExit(f"{probe}: {error}\n{log.read_text(encoding='utf-8')}") from error
            time.sleep(0.1)


def _run(*command: str, cwd: Path, env: Mapping[str, str] | None = None) -> None:
    executable = shutil.which(command[0]) or command[0]
    done = subprocess.run(  # noqa: S603 -- our own line
        [executable, *command[1:]], cwd=cwd, env=env, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")


def _timed(name: str, work: Callable[[], None]) -> None:
    began = time.monotonic()
    work()
    _say(f"{time.monotonic() - began:7.1f} s  {name}")


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()

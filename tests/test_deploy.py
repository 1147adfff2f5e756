"""The files that put a server into production say what is so, and hold to what is usual there.

No container engine runs here. What can be run without one is run: the image's build stage, its health check,
`roles.sql`. The rest is held against the schemas of those who read it, and against rules of our own.
"""

from __future__ import annotations

import asyncio
import fnmatch
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
import tomllib
import uuid
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import pytest
import yaml

import handraise
from handraise.desk_factory import open_backend
from handraise.server import ServerSettings
from handraise.server.observability import Metrics
from scripts import image
from support.command import environment as clean_environment
from support.free_port import free_port

ROOT = Path(__file__).resolve().parent.parent
DOCKERFILE = ROOT / "Dockerfile"
COMPOSE = ROOT / "compose.yaml"
UNIT = ROOT / "deploy" / "systemd" / "handraise.service"
ROLES = ROOT / "deploy" / "postgres" / "roles.sql"
KUBERNETES = ROOT / "deploy" / "kubernetes"
KUSTOMIZATION = KUBERNETES / "kustomization.yaml"
EXAMPLE = KUBERNETES / "secret.example.yaml"
PAGE = ROOT / "docs" / "how-to" / "run-a-server.md"
AUDIT_PAGE = ROOT / "docs" / "how-to" / "audit.md"
CLUSTER_PAGE = ROOT / "docs" / "how-to" / "run-on-kubernetes.md"

PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PORT = ServerSettings.model_fields["port"].default
ROLE_NAMES = {
    "handraise_owner",
    "handraise_server",
    "handraise_operator",
    "handraise_app",
    "handraise_keeper",
}
SOON = 30.0


def texts() -> dict[Path, str]:
    """Every file that an operator reads or runs."""
    inside = [path for path in (ROOT / "deploy").rglob("*") if path.is_file()]
    paths = [DOCKERFILE, ROOT / ".dockerignore", COMPOSE, PAGE, CLUSTER_PAGE, *sorted(inside)]
    return {path: path.read_text(encoding="utf-8") for path in paths}


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def tool(name: str) -> str:
    """A command that the test group installs beside this Python."""
    path = Path(sysconfig.get_path("scripts")) / name
    if not path.exists():
        pytest.fail(f"This test needs {name}: pip install --group test", pytrace=False)
    return str(path)


def attempt(*command: str | Path, within: float = 100, **options: Any) -> subprocess.CompletedProcess[str]:
    """A command that has ended, well or not."""
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=within,
        check=False,
        stdin=subprocess.DEVNULL,
        **options,
    )


def run(*command: str | Path, **options: Any) -> str:
    """What a command prints; it must succeed."""
    done = attempt(*command, **options)
    said = f"{done.stdout}\n{done.stderr}".strip()
    assert done.returncode == 0, f"{shlex.join(map(str, command))} ended with {done.returncode}:\n{said}"
    return said


def test_every_setting_that_is_named_exists() -> None:
    known = {f"HANDRAISE_{name.upper()}" for name in ServerSettings.model_fields}
    known |= {f"{name}_FILE" for name in known}
    known.add("HANDRAISE_KEY")  # of an agent, not of a server
    named = {
        (name_of(path), name)
        for path, text in texts().items()
        for name in re.findall(r"HANDRAISE_[A-Z_]+", text)
    }
    assert {where for where in named if where[1] not in known} == set()
    assert len({name for _, name in named}) > 3


def test_every_command_and_option_that_is_named_exists() -> None:
    import typer.main  # noqa: PLC0415 -- the command line is the highest floor of the server

    from handraise.cli.commands import app_with  # noqa: PLC0415 -- same

    root: Any = typer.main.get_command(app_with())
    lines = list(command_lines())
    assert {words[0] for _, words in lines} >= {"serve", "migrate", "keys"}
    for place, words in lines:
        command, rest = root, list(words)
        while rest and hasattr(command, "commands"):
            word = rest.pop(0)
            if word.startswith("-"):
                break
            assert word in command.commands, f"{place}: there is no `handraise {' '.join(words)}`"
            command = command.commands[word]
        options = {option for each in command.params for option in each.opts} | {"--help"}
        given = {word.partition("=")[0] for word in words if word.startswith("--")}
        assert given <= options, f"{place}: `handraise {' '.join(words)}` has no {given - options}"


def command_lines() -> Iterator[tuple[str, list[str]]]:
    """Every call of our command, with its words."""
    for path, text in texts().items():
        # At the beginning of a command, after its variables, after a path: not in the middle of a sentence.
        for line in re.findall(
            r"(?:^\$ (?!helm )(?:.*[ /])?|ExecStart=\S+/|`)handraise ((?:-|[a-z])[^`\n|>#]*)",
            text,
            re.MULTILINE,
        ):
            yield name_of(path), shlex.split(line)
    yield "Dockerfile", json.loads(last(final_stage(), "CMD").value)
    for name in ("migrate", "server"):
        yield "compose.yaml", compose()["services"][name].get("command") or ["serve"]
    for pod in pods().values():
        yield "deploy/kubernetes", pod["containers"][0]["args"]


def test_every_file_that_the_page_names_exists() -> None:
    named = set(re.findall(r"\bdeploy/[\w./-]*\w", PAGE.read_text(encoding="utf-8")))
    assert {"deploy/postgres/roles.sql", "deploy/kubernetes"} <= named
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_every_metric_that_the_page_names_exists() -> None:
    known = {each.name for each in Metrics().descriptions}
    named = set(re.findall(r"`(handraise_[a-z_]+)`", PAGE.read_text(encoding="utf-8"))) - ROLE_NAMES
    assert len(named) > 3
    assert named <= known


def test_no_file_has_a_registry_or_a_secret_in_it() -> None:
    images = [each.value.split()[0] for each in instructions() if each.name == "FROM"]
    images += [service["image"] for service in compose()["services"].values()]
    images += [pod["containers"][0]["image"] for pod in pods().values()]
    images += [image["newName"] for image in kustomization()["images"]]
    assert [image for image in images if "/" in image] == []
    for path, text in texts().items():
        for address in re.findall(r"\w+://[^\s\"'`]+", text):
            assert ":" not in (urlsplit(address).netloc.rpartition("@")[0]), f"{name_of(path)}: {address}"
    assert {value for secret in secrets().values() for value in secret.values()} == {"replace-me"}


@dataclass(frozen=True)
class Instruction:
    stage: int
    name: str
    value: str


def instructions() -> list[Instruction]:
    """The instructions of the Dockerfile, with the number of the stage that each belongs to."""
    lines = [line for line in DOCKERFILE.read_text(encoding="utf-8").splitlines() if line[:1] != "#"]
    found, stage = [], -1
    for line in re.sub(r"\\\n\s*", "", "\n".join(lines)).splitlines():
        if line:
            name, _, value = line.partition(" ")
            stage += name == "FROM"
            found.append(Instruction(stage, name, value))
    return found


def final_stage() -> list[Instruction]:
    everything = instructions()
    return [each for each in everything if each.stage == everything[-1].stage]


def last(stage: list[Instruction], name: str) -> Instruction:
    return [each for each in stage if each.name == name][-1]


def environment_of(stage: list[Instruction]) -> dict[str, str]:
    """What ENV sets."""
    pairs = (word.split("=", 1) for each in stage if each.name == "ENV" for word in shlex.split(each.value))
    return dict(pairs)


def test_hadolint_finds_no_fault_in_the_dockerfile() -> None:
    run(tool("hadolint"), DOCKERFILE)


def test_the_image_runs_as_a_number_that_is_not_root_and_takes_signals_itself() -> None:
    stage = final_stage()
    user = last(stage, "USER")
    assert re.fullmatch(r"[1-9]\d{3,}:[1-9]\d{3,}", user.value)
    assert [each.name for each in stage[stage.index(user) :] if each.name in {"RUN", "COPY", "ADD"}] == []
    assert json.loads(last(stage, "ENTRYPOINT").value) == ["handraise"]
    assert json.loads(last(stage, "CMD").value) == ["serve"]
    assert PROJECT["scripts"]["handraise"]


def test_the_image_has_no_tools_but_python() -> None:
    stages = {each.stage for each in instructions() if each.stage >= 0}
    assert len(stages) == 2
    ran = " ".join(each.value for each in final_stage() if each.name == "RUN")
    assert not re.search(r"\b(apt|apt-get|pip|curl|wget|gcc)\b", ran)
    assert [each.value for each in final_stage() if each.name == "COPY"] == [
        "--from=build /opt/handraise /opt/handraise"
    ]


def test_the_image_listens_to_the_outside_and_says_where() -> None:
    given = environment_of(final_stage())
    assert given["HANDRAISE_HOST"] == "0.0.0.0"  # noqa: S104 -- a container's own address is not known before
    assert int(given["HANDRAISE_PORT"]) == int(last(final_stage(), "EXPOSE").value) == PORT
    folder = Path(urlsplit(given["HANDRAISE_URL"]).path[1:]).parent
    assert str(folder) == last(final_stage(), "WORKDIR").value, "a volume there keeps the data"


def test_the_base_of_the_image_is_one_and_known_by_its_digest() -> None:
    (base,) = {each.value.split()[0] for each in instructions() if each.name == "FROM"}
    assert re.fullmatch(r"python:3\.\d+-slim@sha256:[0-9a-f]{64}", base)


def test_the_extras_of_the_image_exist() -> None:
    extras = set(image.extras())
    assert extras <= set(PROJECT["optional-dependencies"])
    assert extras >= {"server", "postgres", "nats", "calendars", "images", "objects"}


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the build stage copies, and no more."""
    folder = tmp_path_factory.mktemp("src")
    for each in instructions():
        if each.name != "COPY" or each.value.startswith("--from"):
            continue
        *sources, target = each.value.split()
        for source in sources:
            assert (ROOT / source).exists(), f"COPY {source}: there is no such file"
            assert not is_ignored(source), f"COPY {source}: .dockerignore keeps it out"
            if (ROOT / source).is_dir():
                ignore = shutil.ignore_patterns("__pycache__", "*.pyc")
                shutil.copytree(ROOT / source, folder / target, ignore=ignore)
            else:
                shutil.copy(ROOT / source, folder / target)
    return folder


def locked(file: str) -> dict[str, tuple[str, int]]:
    """What a file of requirements has: by each name its version, and how many files may be it."""
    text = (ROOT / file).read_text(encoding="utf-8")
    found = re.findall(r"^([\w.-]+)==([^\s;]+)(.*(?:\n .*)*)", text, re.MULTILINE)
    return {plain(name): (version, rest.count("--hash=sha256:")) for name, version, rest in found}


def plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_the_image_and_releases_are_made_of_files_whose_hashes_are_known() -> None:
    tested = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").split())
    versions = {plain(name): version for name, version in tested.items()}
    for file in ("requirements-build.txt", "requirements-image.txt"):
        for name, (version, files) in locked(file).items():
            assert files, f"{file}: {name} has no hash"
            assert versions.get(name, version) == version, f"{file}: we test with {name} {versions[name]}"
    wanted = [
        *PROJECT["dependencies"],
        *(each for extra in image.extras() for each in PROJECT["optional-dependencies"][extra]),
    ]
    names = {plain(re.split(r"[\[<>=;~! ]", each)[0]) for each in wanted}
    assert names <= {*locked("requirements-image.txt")}, "see the head of requirements-image.txt"
    (build,) = [each.value for each in instructions() if each.name == "RUN" and "pip wheel" in each.value]
    fetching = [part for part in build.split("&&") if "--requirement" in part]
    assert len(fetching) == 2
    assert all("--require-hashes" in part for part in fetching)
    assert all(
        "--no-deps" in part or "--no-index" in part for part in build.split("&&") if part not in fetching
    )


def is_ignored(path: str) -> bool:
    """Whether .dockerignore keeps a path at the top out of the build: the last line that fits decides."""
    ignored = False
    for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines():
        pattern = line.removeprefix("!")
        if line and line[0] != "#" and fnmatch.fnmatch(path, pattern):
            ignored = not line.startswith("!")
    return ignored


def test_passwords_get_neither_into_the_image_nor_into_git() -> None:
    for file in (".env", *(each["path"] for each in compose()["services"]["server"]["env_file"])):
        assert file in (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()
        assert is_ignored(file)
    assert is_ignored(".git")
    assert not is_ignored("src")


@pytest.mark.slow("installs all that the image has in a new environment, with pip")
@pytest.mark.timeout(600)
def test_the_build_stage_makes_a_server_that_is_ready(context: Path, tmp_path: Path) -> None:
    """The same lines in another folder, where nothing is installed before."""
    home = tmp_path / "handraise"
    environment = {
        **{name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        "PATH": f"{sysconfig.get_path('scripts')}:{os.environ['PATH']}",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }
    for each in instructions():
        if each.name == "RUN" and each.stage == 0:
            # The image keeps no cache of pip's; this machine may.
            line = each.value.replace("/opt/", f"{tmp_path}/").replace("--no-cache-dir ", "")
            run("/bin/sh", "-c", line, cwd=context, env=environment, within=500)
    (wheel,) = (context / "dist").glob("*.whl")
    inside = {name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("handraise/")}
    package = context / "src" / "handraise"
    files = {
        path.relative_to(package.parent).as_posix()
        for path in package.rglob("*")
        if path.is_file() and path.suffix != ".po"
    }
    assert inside == files, "SQL, pages and the mark of types belong into the wheel too"
    imported = "import handraise; print(handraise.__file__)"
    where = run(home / "bin" / "python", "-c", imported, cwd=tmp_path, env=environment)
    assert where.startswith(str(home))
    store = f"sqlite:///{tmp_path / 'handraise.db'}"
    with served(tmp_path, command=home / "bin" / "handraise", HANDRAISE_URL=store) as (url, _):
        settings = (f"{name}={value}" for name, value in clean_environment(store).items())
        command = ["env", "-i", *settings, str(home / "bin" / "handraise")]
        assert "answered by" in image.probe(url, command)[-1]
    run(home / "bin" / "python", "-c", "import holidays, icalendar, nats, obstore, PIL", cwd=tmp_path)


@pytest.mark.slow("starts a server and three processes; tests/server/test_health.py has what they ask")
def test_the_health_check_tells_a_server_that_runs_from_one_that_does_not(tmp_path: Path) -> None:
    command = last(final_stage(), "HEALTHCHECK").value.partition("CMD ")[2]
    python, *arguments = json.loads(command)
    assert python == "python"
    with served(tmp_path, HANDRAISE_URL=f"sqlite:///{tmp_path / 'handraise.db'}") as (url, _):
        environment = {
            **os.environ,
            "HANDRAISE_PORT": str(urlsplit(url).port),
            "http_proxy": "http://127.0.0.1:9",
        }
        run(sys.executable, *arguments, env=environment)
    gone = attempt(sys.executable, *arguments, env=environment)
    assert gone.returncode != 0


@dataclass(frozen=True)
class Roles:
    database: str
    owner: str
    server: str


@pytest.fixture
def roles(postgres: str) -> Iterator[tuple[Roles, str]]:
    """Roles and a database of our own as roles.sql makes them, and the address of an administrator."""
    if shutil.which("psql") is None:
        pytest.fail("This test needs psql, the client of PostgreSQL.", pytrace=False)
    mark = uuid.uuid4().hex[:12]
    names = Roles(f"deploy_{mark}", f"deploy_owner_{mark}", f"deploy_server_{mark}")
    try:
        for _ in range(2):  # the second time changes nothing
            run(
                *("psql", "--no-psqlrc", "--file", ROLES, "--dbname", postgres),
                *(word for name, value in vars(names).items() for word in ("--set", f"{name}={value}")),
            )
        yield names, postgres
    finally:
        drops = [f"drop database if exists {names.database} with (force)"]
        drops += [f"drop role if exists {role}" for role in (names.owner, names.server)]
        run("psql", "--no-psqlrc", "--dbname", postgres, *(f"--command={drop}" for drop in drops))


def address_of(address: str, role: str, database: str) -> str:
    parts = urlsplit(address)
    return urlunsplit(parts._replace(netloc=f"{role}@{parts.netloc.rpartition('@')[2]}", path=f"/{database}"))


@pytest.mark.slow("starts the command twice; the next test opens the store as both roles")
def test_a_server_runs_as_the_role_that_is_made_for_it(roles: tuple[Roles, str], tmp_path: Path) -> None:
    names, postgres = roles
    owner = address_of(postgres, names.owner, names.database)
    server = address_of(postgres, names.server, names.database)
    run(tool("handraise"), "migrate", env=os.environ | {"HANDRAISE_URL": owner}, cwd=tmp_path)
    with served(tmp_path, HANDRAISE_URL=server) as (url, said):
        assert get(url, "/readyz") == 200
        assert get(url, "/metrics") == 200
    assert said()


def test_the_role_of_servers_owns_nothing_and_makes_nothing(roles: tuple[Roles, str]) -> None:
    names, postgres = roles
    asyncio.run(open_and_close(address_of(postgres, names.owner, names.database)))
    server = address_of(postgres, names.server, names.database)
    asyncio.run(open_and_close(server, confined=True))
    for statement in ("create table handraise.mine (a integer)", "create schema mine", "create role mine"):
        refused = attempt("psql", "--no-psqlrc", "--dbname", server, "--command", statement)
        assert "permission denied" in refused.stderr, f"{statement}: {refused}"


async def open_and_close(address: str, *, confined: bool | None = None) -> None:
    async with open_backend(address, confined=confined):
        pass


@contextmanager
def served(folder: Path, *, command: Path | None = None, **settings: str) -> Iterator[tuple[str, Any]]:
    """`handraise serve` with these settings, once it is ready; gives its address and what it said."""
    port = free_port()
    log = folder / "said"
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("HANDRAISE_")},
        **settings,
        "HANDRAISE_PORT": str(port),
        "HOME": str(folder),
    }
    with log.open("w") as said:
        process = subprocess.Popen(
            [command or tool("handraise"), "serve"],
            env=environment,
            stdout=said,
            stderr=subprocess.STDOUT,
            cwd=folder,
        )
    try:
        url = f"http://127.0.0.1:{port}"
        wait_until_ready(process, url, log)
        yield url, log.read_text
    finally:
        process.terminate()
        assert process.wait(timeout=SOON) in {0, -signal.SIGTERM}, log.read_text()


def wait_until_ready(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    """Return once the server says it is; fail where it ends instead, or takes too long."""
    end = time.monotonic() + SOON
    while process.poll() is None and time.monotonic() < end:
        try:
            if get(url, "/readyz") == 200:
                return
        except OSError:
            time.sleep(0.05)
    pytest.fail(f"handraise serve is not ready:\n{log.read_text()}", pytrace=False)


def get(url: str, path: str) -> int:
    """The status that a path answers with."""
    connection = HTTPConnection(urlsplit(url).netloc, timeout=SOON)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    finally:
        connection.close()


def compose() -> dict[str, Any]:
    parsed: dict[str, Any] = yaml.safe_load(COMPOSE.read_text(encoding="utf-8"))
    return parsed


@pytest.mark.slow("loads a large schema; the file seldom changes, and the next tests read what matters in it")
def test_the_compose_file_is_one() -> None:
    run(tool("check-jsonschema"), "--builtin-schema", "vendor.compose-spec", COMPOSE)


@pytest.mark.parametrize("name", ["server", "migrate"])
def test_a_container_of_ours_can_do_little(name: str) -> None:
    service = compose()["services"][name]
    assert service["build"] == "."
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert "privileged" not in service
    assert "user" not in service, "the image has one"


def test_a_server_starts_after_the_migration_and_that_after_the_database() -> None:
    services = compose()["services"]
    assert services["postgres"]["healthcheck"]["test"][:2] == ["CMD", "pg_isready"]
    assert services["migrate"]["depends_on"] == {"postgres": {"condition": "service_healthy"}}
    assert services["server"]["depends_on"]["migrate"] == {"condition": "service_completed_successfully"}
    assert "restart" not in services["migrate"]
    assert "container_name" not in services["server"], "it could not be scaled"
    grace = seconds(services["server"]["stop_grace_period"])
    assert grace > longest_stop(services["server"]["environment"])


def longest_stop(environment: dict[str, str]) -> float:
    """How long a server with these settings may take from SIGTERM to its end, in seconds."""
    names = ("drain_seconds", "stop_seconds")
    fields = ServerSettings.model_fields
    return sum(float(environment.get(f"HANDRAISE_{name.upper()}", fields[name].default)) for name in names)


def seconds(span: str) -> int:
    number, unit = re.fullmatch(r"(\d+)([sm])", span).groups()  # type: ignore[union-attr]  # or it fails here
    return int(number) * {"s": 1, "m": 60}[unit]


def test_the_database_is_reached_by_ours_only_and_the_server_by_this_host_only() -> None:
    services, networks = compose()["services"], compose()["networks"]
    assert services["postgres"]["networks"] == ["database"]
    assert networks["database"] == {"internal": True}
    assert "ports" not in services["postgres"]
    assert services["server"]["ports"] == [f"127.0.0.1:${{PORTS:-{PORT}}}:{PORT}"]
    (data,) = (each for each in services["postgres"]["volumes"] if not each.startswith("."))
    assert data.partition(":")[0] in compose()["volumes"], "what is answered outlives the container"
    for volume in services["postgres"]["volumes"]:
        source = volume.partition(":")[0]
        assert not source.startswith(".") or (ROOT / source).exists(), f"{source} is not there"


def test_what_the_audit_key_signed_last_outlives_the_container() -> None:
    (mounted,) = compose()["services"]["server"]["volumes"]
    volume, folder = mounted.split(":")
    assert volume in compose()["volumes"]
    assert folder == last(final_stage(), "WORKDIR").value, "the image's user may write there"
    page = AUDIT_PAGE.read_text(encoding="utf-8")
    assert f"handraise audit key {folder}/audit.key" in page
    assert f"HANDRAISE_AUDIT_KEY={folder}/audit.key" in page


def test_compose_logs_in_as_the_roles_that_roles_sql_makes() -> None:
    """And each password comes from the environment, which must have it."""
    services, sql = compose()["services"], ROLES.read_text(encoding="utf-8")
    default = dict(re.findall(r"\\set (\w+) (\w+)$", sql, re.MULTILINE))
    reads = dict(re.findall(r"\\getenv (\w+) (\w+)$", sql, re.MULTILINE))
    given = services["postgres"]["environment"]
    assert set(reads.values()) <= set(given)
    for name, role in (("migrate", "owner"), ("server", "server")):
        address = urlsplit(services[name]["environment"]["HANDRAISE_URL"])
        assert (address.username, address.password) == (default[role], None)
        assert (address.hostname, address.path) == ("postgres", f"/{default['database']}")
        password = services[name]["environment"]["PGPASSWORD"]
        assert password == given[reads[f"{role}_password"]]
        assert re.fullmatch(r"\$\{\w+:\?.+\}", password)
    page = PAGE.read_text(encoding="utf-8")
    assert [name for name in given if name not in page and name.removesuffix("_PASSWORD") not in page] == []


def unit() -> dict[str, list[str]]:
    """The settings of the unit, each with its values in order."""
    found: dict[str, list[str]] = {}
    for line in UNIT.read_text(encoding="utf-8").splitlines():
        if "=" in line and line[0] != "#":
            name, _, value = line.partition("=")
            found.setdefault(name, []).append(value)
    return found


def test_the_unit_is_confined_and_stops_gently() -> None:
    wanted = {
        "Restart": "on-failure",
        "DynamicUser": "yes",
        "StateDirectory": "handraise",
        "NoNewPrivileges": "yes",
        "ProtectSystem": "strict",
        "ProtectHome": "yes",
        "PrivateTmp": "yes",
        "CapabilityBoundingSet": "",
    }
    assert {name: unit().get(name) for name in wanted} == {name: [value] for name, value in wanted.items()}
    assert int(unit()["TimeoutStopSec"][0]) > longest_stop({})
    assert "KillSignal" not in unit(), "SIGTERM is what it stops at"
    assert "ProcSubset" not in unit(), "process_* metrics need /proc/stat"
    assert unit()["Environment"] == [
        "HANDRAISE_URL=sqlite:////var/lib/handraise/handraise.db",
        "HANDRAISE_AUDIT_HEADS=/var/lib/handraise/audit.heads",
    ], "its state directory"
    (file,) = unit()["EnvironmentFile"]
    assert file.startswith("-"), "a laptop has none"
    assert file[1:] in PAGE.read_text(encoding="utf-8")


def test_systemd_knows_every_setting_of_the_unit_and_finds_it_confined(tmp_path: Path) -> None:
    assert shutil.which("systemd-analyze"), "Only systemd knows all its settings: apt-get install systemd"
    there = tmp_path / UNIT.name  # with a command that exists, which systemd looks for
    there.write_text(UNIT.read_text(encoding="utf-8").replace("/opt/handraise/bin/handraise", "/bin/true"))
    assert not run("systemd-analyze", "verify", "--man=no", "--recursive-errors=no", there)
    run("systemd-analyze", "security", "--offline=yes", "--no-pager", "--threshold=15", there)


def manifests() -> dict[Path, list[dict[str, Any]]]:
    paths = sorted(set(KUBERNETES.glob("*.yaml")) - {KUSTOMIZATION})
    return {path: list(yaml.safe_load_all(path.read_text(encoding="utf-8"))) for path in paths}


def kustomization() -> dict[str, Any]:
    parsed: dict[str, Any] = yaml.safe_load(KUSTOMIZATION.read_text(encoding="utf-8"))
    return parsed


def objects(kind: str) -> list[dict[str, Any]]:
    return [each for every in manifests().values() for each in every if each["kind"] == kind]


def pods() -> dict[str, dict[str, Any]]:
    """The pods of the server and of the migration, by the names of what makes them."""
    makers = objects("Deployment") + objects("Job")
    return {maker["metadata"]["name"]: maker["spec"]["template"]["spec"] for maker in makers}


def secrets() -> dict[str, dict[str, str]]:
    return {each["metadata"]["name"]: each["stringData"] for each in objects("Secret")}


@pytest.mark.slow(
    "loads a large schema; manifests seldom change, and the next tests read what matters in them"
)
@pytest.mark.parametrize("version", ["1.31", "1.37"])
def test_every_manifest_fits_the_schema_of_kubernetes(version: str) -> None:
    """Strictly: a name that Kubernetes does not know is an error."""
    run(tool("kubernetes-validate"), "--strict", "--kubernetes-version", version, *manifests())


def test_the_kustomization_has_every_manifest_but_the_example_of_a_secret() -> None:
    assert {KUBERNETES / name for name in kustomization()["resources"]} == set(manifests()) - {EXAMPLE}
    assert {
        path for path, every in manifests().items() if any(each["kind"] == "Secret" for each in every)
    } == {EXAMPLE}


def test_the_kustomization_names_the_image_of_this_release() -> None:
    (image,) = kustomization()["images"]
    assert (image["name"], image["newTag"]) == ("handraise", handraise.__version__)
    assert {pod["containers"][0]["image"] for pod in pods().values()} == {
        f"handraise:{handraise.__version__}"
    }


@pytest.mark.parametrize("name", ["handraise", "handraise-migrate"])
def test_a_pod_is_confined(name: str) -> None:
    pod = pods()[name]
    (container,) = pod["containers"]
    user, group = map(int, last(final_stage(), "USER").value.split(":"))
    assert pod["securityContext"] == {
        "runAsNonRoot": True,
        "runAsUser": user,
        "runAsGroup": group,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert pod["automountServiceAccountToken"] is False
    assert container["resources"].keys() == {"requests", "limits"}
    assert {mount["mountPath"] for mount in container["volumeMounts"]} == {"/tmp"}  # noqa: S108 -- of the container
    assert [each["secretRef"]["name"] for each in container["envFrom"]] == [
        "handraise-migrate" if name == "handraise-migrate" else "handraise-server"
    ]


def test_a_service_does_not_set_the_port_of_its_own_servers() -> None:
    """Kubernetes tells pods of a service `handraise` by HANDRAISE_PORT=tcp://…, unless it is told not to."""
    (service,) = objects("Service")
    variable = f"{service['metadata']['name'].upper().replace('-', '_')}_PORT"
    clashes = variable.removeprefix("HANDRAISE_").lower() in ServerSettings.model_fields
    assert [name for name, pod in pods().items() if clashes and pod["enableServiceLinks"] is not False] == []


def test_what_selects_a_pod_finds_it() -> None:
    (deployment,), (job,), (service,), (budget,) = map(
        objects, ("Deployment", "Job", "Service", "PodDisruptionBudget")
    )
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert deployment["spec"]["selector"]["matchLabels"] == labels
    assert service["spec"]["selector"] == labels
    assert budget["spec"]["selector"]["matchLabels"] == labels
    walls = [policy["spec"]["podSelector"]["matchLabels"] for policy in objects("NetworkPolicy")]
    assert walls == [labels, job["spec"]["template"]["metadata"]["labels"]]
    assert labels not in walls[1:], "a migration gets no requests"
    for constraint in pods()["handraise"]["topologySpreadConstraints"]:
        assert constraint["labelSelector"]["matchLabels"] == labels


def test_servers_are_two_and_one_of_them_always_serves() -> None:
    (deployment,), (budget,) = map(objects, ("Deployment", "PodDisruptionBudget"))
    assert deployment["spec"]["replicas"] == 2
    assert deployment["spec"]["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}
    assert budget["spec"]["maxUnavailable"] == 1
    pod = pods()["handraise"]
    environment = {each["name"]: each["value"] for each in pod["containers"][0]["env"]}
    assert pod["terminationGracePeriodSeconds"] > longest_stop(environment)


def test_probes_and_services_reach_the_port_that_a_server_listens_at() -> None:
    (container,) = pods()["handraise"]["containers"]
    assert container["ports"] == [{"name": "http", "containerPort": PORT}]
    (service,) = objects("Service")
    assert [port["targetPort"] for port in service["spec"]["ports"]] == ["http"]
    probes = {name: container[f"{name}Probe"]["httpGet"] for name in ("startup", "liveness", "readiness")}
    assert {name: probe["path"] for name, probe in probes.items()} == {
        "startup": "/healthz",
        "liveness": "/healthz",  # not /readyz: a database that is away is no reason to start anew
        "readiness": "/readyz",
    }
    assert {probe["port"] for probe in probes.values()} == {"http"}
    (deployment,) = objects("Deployment")
    scraped = deployment["spec"]["template"]["metadata"]["annotations"]
    assert scraped["prometheus.io/port"] == str(PORT)

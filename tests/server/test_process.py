"""Starting a server: where it listens, who comes in first, and what it refuses."""

from __future__ import annotations

import asyncio
import re
import socket
from pathlib import Path

import httpx2
import pytest

from handraise.desk_factory import open_backend
from handraise.server import ServerSettings
from support.command import SOON, handraise, process, serving

EVERYWHERE = "0.0.0.0"  # noqa: S104 -- that is what is tested


@pytest.fixture
def file(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'questions.db'}"


@pytest.mark.only_proof_of("the command starts a server that serves")
def test_it_says_where_it_listens_and_lets_the_first_administrator_in_once(file: str, tmp_path: Path) -> None:
    with serving(file, tmp_path, sign_in_limit="4/hour") as server:
        assert not server.address.endswith(":0")
        (listening,) = [line for line in server.log if line["event"] == "listening"]
        assert listening["url"] == server.address
        assert listening["port"] == int(server.address.rpartition(":")[2])
        assert re.search(r"Store +sqlite:///", server.banner)
        # A log store keeps what is printed here, and a link is a secret: the banner says how to make one.
        assert "token=" not in server.banner
        assert "To sign in as admin, the first administrator, run this" in server.banner
        link = server.link
        assert link is not None
        with httpx2.Client(base_url=server.address, timeout=SOON) as browser:
            assert browser.get("/healthz").status_code == 200
            shown = browser.get(link)
            assert shown.status_code == 200
            token = link.partition("token=")[2]
            headers = {"origin": server.address, "sec-fetch-site": "same-origin"}
            entered = browser.post("/sign-in/link", data={"token": token}, headers=headers)
            assert entered.status_code == 303
            me = browser.get("/v1/me")
            assert (me.json()["person"], me.json()["role"]) == ("admin", "admin")
            again = browser.post("/sign-in/link", data={"token": token}, headers=headers)
            assert again.status_code != 303
            statuses = [
                httpx2.get(
                    f"{server.address}/v1/me",
                    headers={"authorization": "Bearer wrong", "x-forwarded-for": f"192.0.2.{number}"},
                    timeout=SOON,
                ).status_code
                for number in range(5)
            ]
            assert statuses[-1] == 429  # no proxy was named, so none is believed
        assert [line for line in server.log if token in str(line)] == []


@pytest.mark.slow(
    "starts servers; test_it_says_where_it_listens_and_lets_the_first_administrator_in_once has the link of the first"
)
def test_once_the_first_administrator_came_in_no_start_gives_a_link(file: str, tmp_path: Path) -> None:
    with serving(file, tmp_path) as server:
        link = server.link
        assert link is not None
        body = {"link": link.partition("token=")[2]}
        assert httpx2.post(f"{server.address}/v1/sessions", json=body, timeout=SOON).status_code == 201
    with serving(file, tmp_path) as server:
        assert server.link is None


@pytest.mark.slow(
    "starts servers; test_it_says_where_it_listens_and_lets_the_first_administrator_in_once has the link of the first"
)
def test_until_somebody_came_in_every_start_says_how_to_make_a_link(file: str, tmp_path: Path) -> None:
    with serving(file, tmp_path, admin="ada", workspace="ours") as server:
        first = server.link
    with serving(file, tmp_path, admin="ada", workspace="ours") as server:
        second = server.link
        assert first is not None
        assert second is not None
        assert first.partition("token=")[2] != second.partition("token=")[2]

    async def look() -> list[str]:
        async with open_backend(file) as backend:
            return [each.id for each in await backend.directory.people("ours", after=None, limit=9)]

    assert asyncio.run(look()) == ["ada"]


@pytest.mark.slow(
    "starts servers; test_it_says_where_it_listens_and_lets_the_first_administrator_in_once has the link of the first"
)
def test_where_people_are_there_is_no_link(file: str, tmp_path: Path) -> None:
    handraise("people", "add", "bob", "--admin", url=file)
    with serving(file, tmp_path) as server:
        assert server.link is None


@pytest.mark.slow("starts two servers; test_seals.py has two servers on one database in the gate")
def test_two_servers_share_one_database(postgres: str, tmp_path: Path, workspace: str) -> None:
    with (
        serving(postgres, tmp_path, workspace=workspace) as one,
        serving(postgres, tmp_path, workspace=workspace) as two,
        httpx2.Client(timeout=SOON) as http,
    ):
        assert one.address != two.address
        for server in (one, two):
            assert http.get(f"{server.address}/readyz").json() == {"status": "ready"}


@pytest.mark.slow("starts a server for one sentence")
def test_memory_is_served_with_a_warning(tmp_path: Path) -> None:
    with serving("memory:", tmp_path) as server:
        assert re.search(r"Survives +nothing", server.banner)
        (warning,) = [line["message"] for line in server.log if line["level"] == "warning"]
        assert warning.startswith("memory: stores nothing")


@pytest.mark.slow("starts two servers for one sentence")
def test_plain_http_for_everybody_is_served_with_a_warning(file: str, tmp_path: Path) -> None:
    with serving(file, tmp_path, "--host", EVERYWHERE) as server:
        assert server.address.startswith("http://localhost:")
        (warning,) = [line["message"] for line in server.log if line["level"] == "warning"]
        assert "can be read in transit" in warning
    with serving(file, tmp_path, "--host", EVERYWHERE, public_url="https://ask.example.com/") as server:
        assert re.search(
            r"Listening +http://localhost:\d+\n +Reached at +https://ask.example.com\n", server.banner
        )
        assert [line for line in server.log if line["level"] == "warning"] == []


def test_a_busy_port_is_one_sentence(file: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as busy:
        port = busy.getsockname()[1]
        done = process("serve", "--port", str(port), url=file)
    assert (done.returncode, done.stdout) == (69, "")
    assert done.stderr == (
        f"Something already listens at 127.0.0.1:{port}. Stop it, or choose another port: "
        "handraise serve --port 0 finds a free one.\n"
    )


@pytest.mark.slow("starts a process for one sentence; a busy port goes the same way")
@pytest.mark.parametrize(
    ("host", "says"), [("192.0.2.1", "Cannot listen at 192.0.2.1:0: "), ("no such host", "Cannot listen at")]
)
def test_a_place_where_it_cannot_listen_is_one_sentence(file: str, host: str, says: str) -> None:
    done = process("serve", "--host", host, "--port", "0", url=file)
    assert (done.returncode, done.stdout) == (69, "")
    assert done.stderr.startswith(says)
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.slow("starts a process for one sentence; a busy port goes the same way")
def test_a_database_that_cannot_be_reached_is_one_sentence() -> None:
    done = process("serve", "--port", "0", url="postgresql://me:secret@127.0.0.1:1/nothing")
    assert (done.returncode, done.stdout) == (69, "")
    assert done.stderr.startswith("PostgreSQL cannot do this now: ")
    assert len(done.stderr.splitlines()) == 1
    assert "secret" not in done.stderr


@pytest.mark.slow("starts a process for one sentence")
def test_traces_without_their_extra_are_refused_by_name(file: str) -> None:
    hidden = "import sys; sys.modules['opentelemetry.sdk'] = None"
    done = process("serve", "--port", "0", before=hidden, url=file, otel="true")
    assert done.returncode == 78
    assert 'pip install "handraise[otel]"' in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("given", "address"),
    [
        ({"port": 1}, "http://127.0.0.1:1"),
        ({"host": "::1", "port": 1}, "http://[::1]:1"),
        ({"host": EVERYWHERE, "port": 1}, "http://localhost:1"),
        ({"public_url": "https://ask.example.com/"}, "https://ask.example.com"),
    ],
)
def test_the_address_for_people(given: dict[str, str], address: str) -> None:
    assert ServerSettings(**given).base_url == address  # type: ignore[arg-type]  # as the environment would

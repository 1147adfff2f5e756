"""The examples run as they stand, in processes of their own."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from handraise import Question, open_desk
from handraise.model.identities import Role
from handraise.server import ServerSettings, open_server
from handraise.server.auth.issuer import issue_link
from support.free_port import free_port

EXAMPLES = Path(__file__).parent.parent / "examples"
SOON = 60.0
HELPERS = {
    "past_questions.py",
    "script.py",
    "scripted_agents.py",
    "scripted_langchain.py",
    "scripted_openai.py",
    "scripted_pydantic.py",
}
"""What programs import or start; nobody runs these."""
PLUGGED_IN = {"matrix_channel.py"}
"""What a server is given, and its page compares with the whole file."""
COPIED = {"integrations/airflow_dag.py"}
"""What is copied to the folder of its engine, and started there by another name."""


BACKENDS = [
    "sqlite",
    pytest.param(
        "postgres",
        marks=pytest.mark.slow(
            "the gate runs the program on SQLite, and tests/contract has the promises on PostgreSQL"
        ),
    ),
]
"""Where programs run: on both nightly."""


def run(name: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, EXAMPLES / name, *arguments], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("address", ["memory", *BACKENDS], indirect=True)
def test_the_first_question(empty_address: str) -> None:
    assert run("first_question.py", empty_address).splitlines() == [
        "That answer does not fit: “Yolo” is not one of the options: Blue-green, Canary, Rolling",
        "answered 'Canary' by ana",
    ]


@pytest.mark.parametrize("address", BACKENDS, indirect=True)
def test_a_question_survives_the_death_of_its_asker(address: str) -> None:
    lines = run("survives_restart.py", address).splitlines()
    asked, killed, answered, again, carried_on = (line.split(": ", 1)[1].strip() for line in lines)
    assert asked == again
    assert (killed, answered) == ("exit code -9", "exit code 0")
    assert carried_on == "answer: Canary"


@pytest.mark.parametrize("address", BACKENDS, indirect=True)
def test_a_support_agent_asks_in_a_chat_and_is_restarted_for_every_message(address: str) -> None:
    again = "What is your order number?"
    unclear = f"I cannot take that as an answer: order numbers look like A-1017. / {again}"
    assert run("support_agent.py", address).splitlines() == [
        "[lamp] ana: I want a refund for the lamp",
        f"[lamp] support: {again}",
        "[lamp] bob: I would just buy another one",
        "[lamp] support: Write “refund”, and I will help.",
        "[lamp] ana: the one I bought in May",
        f"[lamp] support: I cannot take that as an answer: may have at most 20 characters, has 23. / {again}",
        "[lamp] ana: A-1017",
        "[lamp] support: You wrote “I want a refund for the lamp”. Order A-1017 is refunded.",
        "[chair] ana: I want a refund for the chair",
        f"[chair] support: {again}",
        "[chair] ana: the chair",
        f"[chair] support: {unclear}",
        "[chair] ana: it is blue",
        f"[chair] support: {unclear}",
        "[chair] ana: never mind",
        f"[chair] support: I did not get an answer that I can use, so I leave this out for now: {again}",
        "[chair] support: You wrote “I want a refund for the chair”. A colleague will call you.",
    ]


def run_lines() -> dict[str, str]:
    """How each program says it is run."""
    programs = [
        path for path in EXAMPLES.rglob("*") if path.suffix in {".py", ".sh"} and path.name not in HELPERS
    ]
    found = {}
    for path in programs:
        line = re.search(r"^(?:# )?Run it with: (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
        assert line or path.name in PLUGGED_IN, f"{path.name} does not say how it is run"
        if line:
            found[path.relative_to(EXAMPLES).as_posix()] = line[1]
    return found


def test_the_list_has_every_program_with_its_run_line() -> None:
    text = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    listed = dict(re.findall(r"^\| \[[^]]+\]\(([^)]+)\) \| .* \| `(.+)` \|$", text, re.MULTILINE))
    plugged = {name: line for name, line in listed.items() if name in PLUGGED_IN}
    assert {*plugged} == PLUGGED_IN
    assert {
        name: line.replace("\\|", "|") for name, line in listed.items() if name not in plugged
    } == run_lines()
    for name, line in run_lines().items():
        assert f"examples/{name}" in line or name in COPIED


def test_every_program_is_run_by_some_test() -> None:
    here = Path(__file__).parent
    tests = "".join(each.read_text(encoding="utf-8") for each in here.rglob("*.py"))
    assert [name for name in run_lines() if Path(name).stem not in tests] == []


@pytest.mark.parametrize("address", BACKENDS, indirect=True)
def test_a_refund_needs_two_people_and_happens_once(empty_address: str) -> None:
    lines = run("refund_agent.py", empty_address).splitlines()
    assert lines[:4] == [
        "A-17:",
        "  the agent may not approve its own request",
        "  ana approves: 1 vote of 2, pending",
        "  bob approves: answered",
    ]
    assert sorted(lines[4:6]) == ["  refunded 40 for A-17", "  the other worker has been given it"]
    assert lines[6] == "B-99:"
    assert re.fullmatch(r"  not refunded: .* is not approved: too much\.", lines[7])


@pytest.mark.parametrize("address", BACKENDS, indirect=True)
def test_a_research_agent_works_on_while_three_questions_are_out(empty_address: str) -> None:
    lines = run("research_agent.py", empty_address).splitlines()
    assert lines[0] == "read annual report for any market"
    assert {line for line in lines if line.startswith("  ")} == {
        "  currency is 'EUR', says a person",
        "  market is 'Asia', says a person",
        "  paid is False, says a default",
    }
    assert lines[-1] == "report: Asia in EUR, paid sources: False"


def bot(url: str, version: str) -> subprocess.Popen[str]:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return subprocess.Popen(
        ["sh", str(EXAMPLES / "release_bot.sh"), version],  # noqa: S607 -- as its run line says
        env={**os.environ, "HANDRAISE_URL": url, "PATH": path},
        stdout=subprocess.PIPE,
        text=True,
    )


def until_asked(url: str, key: str) -> Question:
    """The question with this key, once it is there."""

    async def look() -> Question:
        async with asyncio.timeout(SOON), open_desk(url, asker="release-bot") as desk:
            while (question := await desk.find_by_key(key)) is None:
                await asyncio.sleep(0.02)
            return question

    return asyncio.run(look())


def answer(url: str, key: str, value: str) -> None:
    async def give() -> None:
        async with open_desk(url) as desk:
            await desk.answer(until.id, value, by="ana")

    until = until_asked(url, key)
    asyncio.run(give())


@pytest.mark.slow(
    "starts the command four times; the next test runs the script, and tests/cli has keys that find answers"
)
def test_a_release_bot_is_killed_and_finds_its_answers(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'questions.db'}"
    with bot(url, "4.2") as first:
        asked = until_asked(url, "release-4.2")
        first.kill()
    assert asked.asker == "release-bot"
    answer(url, "release-4.2", "yes")
    with bot(url, "4.2") as second:
        answer(url, "strategy-4.2", "Canary")
        assert second.communicate(timeout=SOON)[0] == "4.2 goes out as Canary\n"
    assert second.returncode == 0


def test_a_release_bot_takes_no_for_no(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'questions.db'}"
    with bot(url, "4.3") as refused:
        answer(url, "release-4.3", "no")
        assert refused.communicate(timeout=SOON)[0] == "4.3 stays here: somebody said no\n"
    assert refused.returncode == 8


@contextlib.contextmanager
def shop(url: str, port: int) -> Iterator[httpx2.Client]:
    line = [sys.executable, str(EXAMPLES / "fastapi_app.py"), str(port)]
    process = subprocess.Popen(line, env={**os.environ, "HANDRAISE_URL": url})
    try:
        with httpx2.Client(base_url=f"http://127.0.0.1:{port}", timeout=SOON) as client:
            until = time.monotonic() + SOON
            while time.monotonic() < until and process.poll() is None:
                with contextlib.suppress(httpx2.TransportError):
                    client.get("/healthz")
                    break
                time.sleep(0.05)
            yield client
    finally:
        process.terminate()
        assert process.wait(timeout=SOON) in (0, -15)


async def token_for_ana(url: str) -> str:
    """Add her as an administrator; what lets her in once."""
    async with open_server(ServerSettings(url=url)) as ctx:
        await ctx.directory.put_person("default", "ana", name="ana", email=None, role=Role.ADMIN)
        link = await issue_link(ctx, "default", person="ana", purpose="sign-in", vouched_by=None)
        assert link is not None
        return link.url.partition("token=")[2]


@pytest.mark.only_proof_of("an application of somebody else's can have our inbox in it")
def test_an_inbox_in_an_application_of_ones_own(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'questions.db'}"
    with shop(url, free_port()) as client:
        refund = "/orders/A-17/refund"
        assert client.get(refund).json() == {"status": "nobody has asked"}
        asked = client.post(refund, params={"amount": 40}).json()
        assert client.post(refund, params={"amount": 40}).json() == asked
        assert client.get(refund).json() == {"status": "pending"}
        token = asyncio.run(token_for_ana(url))
        session = client.post("/v1/sessions", json={"link": token}).json()["token"]
        hers = {"Authorization": f"Bearer {session}"}
        question = asked["page"].rpartition("/")[2]
        [seen] = client.get("/v1/questions", headers=hers).json()["items"]
        assert seen["id"] == question
        given = client.post(f"/v1/questions/{question}/answer", json={"value": "approve"}, headers=hers)
        assert given.status_code == 200
        assert [client.get(refund).json()["status"] for _ in range(3)] == [
            "paid 40",
            "paid 40 before",
            "paid 40 before",
        ]
        assert client.post(refund, params={"amount": 50}).status_code == 409
        assert "Sign in" in client.get("/", follow_redirects=True).text


@pytest.mark.parametrize(
    ("name", "said", "code"),
    [
        (
            "refunds",
            ["2 questions that people denied would be allowed:", "37 would go to group:finance, and did not"],
            1,
        ),
        pytest.param(
            "deployments",
            ["112 would be allowed at once, 16 denied", "40 would go to group:operations, and did not"],
            0,
            marks=pytest.mark.slow("the gate runs the program of refunds"),
        ),
        pytest.param(
            "data_deletion",
            [
                "4 questions that people approved would be denied:",
                "20 would go to group:data-owners, and did not",
            ],
            0,
            marks=pytest.mark.slow("the gate runs the program of refunds"),
        ),
    ],
)
def test_a_policy_is_tried_on_generated_history(name: str, said: list[str], code: int) -> None:
    lines = [line.strip() for line in run(f"policies/{name}.py").splitlines()]
    assert [each for each in said if each not in lines] == []
    assert lines[-1] == f"The exit code is {code}."

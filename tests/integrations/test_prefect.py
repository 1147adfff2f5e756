"""Prefect: flow runs ask, are suspended, and go on in another process; nothing runs meanwhile.

Prefect does not fit beside other frameworks, so it has an environment of its own: `.ci/run integrations nightly` makes it. The
server, the process that runs flows and the waker are real ones. One flow run at a time is all that may run.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx2
import pytest
import pytest_asyncio

from handraise import Desk, Question
from support.free_port import free_port
from tests.integrations.cells import shows
from tests.integrations.processes import ROOT, people
from tests.integrations.shop import SEEN, ask_back_to_program

PYTHON = ROOT / ".venv-prefect" / "bin" / "python"
EXAMPLE = ROOT / "examples" / "integrations" / "prefect_flow.py"
APP = ROOT / "tests" / "integrations" / "app_prefect.py"
pytestmark = [
    pytest.mark.slow(
        "starts the server of Prefect, and a process for each flow run, in an environment of their own"
    ),
    pytest.mark.timeout(420),
    pytest.mark.asyncio(loop_scope="module"),
]
SOON = 90.0
PARTS = ("server", "runner", "waker")


@dataclass
class Prefect:
    """A running Prefect, the desk of the people, and what the flows did."""

    home: Path
    port: int
    desk: Desk
    environment: dict[str, str]
    parts: dict[str, asyncio.subprocess.Process] = field(default_factory=dict)
    seen: list[str] = field(default_factory=list)
    """What was seen to execute flow runs."""
    client: httpx2.AsyncClient = field(default_factory=httpx2.AsyncClient)

    async def start(self, *parts: str) -> None:
        commands: dict[str, tuple[str, ...]] = {
            "server": ("-m", "prefect", "server", "start", "--host", "127.0.0.1", "--port", str(self.port)),
            "runner": (str(APP),),
            "example": (str(EXAMPLE),),
            "waker": ("-m", "handraise.integrations.prefect", "--cursor", str(self.home / "waker.json")),
        }
        for part in parts:
            log = (self.home / f"{part}.log").open("ab")
            self.parts[part] = await asyncio.create_subprocess_exec(
                str(PYTHON),
                *commands[part],
                cwd=self.home,
                env=self.environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
            log.close()
            if part == "server":
                await self.ready("/health")

    async def kill(self, *parts: str) -> None:
        """End processes with SIGKILL, and everything that they have started."""
        for part in parts:
            process = self.parts.pop(part)
            assert process.returncode is None, (self.home / f"{part}.log").read_text()[-3_000:]
            os.killpg(process.pid, signal.SIGKILL)
            await process.wait()

    async def ready(self, path: str, body: Any = None) -> Any:
        """What Prefect's API says, once it can: while SQLite is busy, it says 503."""
        method, url = "GET" if body is None else "POST", f"http://127.0.0.1:{self.port}/api{path}"
        async with asyncio.timeout(SOON):
            while True:
                try:
                    said = await self.client.request(method, url, json=body)
                    if said.is_success:
                        return said.json() if said.content else None
                except httpx2.HTTPError:
                    pass
                await asyncio.sleep(0.3)

    async def trigger(self, name: str, *, deployed: str = "it", **parameters: Any) -> str:
        """Start a run of a flow; its id."""
        deployment = (await self.ready(f"/deployments/name/{name}/{deployed}"))["id"]
        body = {"parameters": parameters, "state": {"type": "SCHEDULED"}, "idempotency_key": uuid4().hex}
        return str((await self.ready(f"/deployments/{deployment}/create_flow_run", body))["id"])

    async def is_in(self, run: str, *names: str) -> str:
        """The state of a run, once it is one of these."""
        async with asyncio.timeout(SOON):
            while (state := (await self.ready(f"/flow_runs/{run}"))["state"]["name"]) not in names:
                assert state not in ("Crashed", "Failed"), (self.home / "runner.log").read_text()[-3_000:]
                await asyncio.sleep(0.2)
        return str(state)

    async def asked(self, *prompts: str) -> dict[str, Question]:
        """The pending questions with these prompts, as soon as all of them are there."""
        found: dict[str, Question] = {}
        async with asyncio.timeout(SOON):
            while not set(prompts) <= found.keys():
                found = {each.prompt: each for each in (await self.desk.list_pending()).items}
                self.seen += self.flow_processes()
                await asyncio.sleep(0.1)
        return found

    def did(self) -> list[str]:
        log = Path(self.environment["APP_LOG"])
        return log.read_text(encoding="utf-8").splitlines() if log.exists() else []

    def flow_processes(self) -> list[str]:
        """The processes in which flow runs are executed now."""
        found = []
        for each in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                title = each.read_bytes().replace(b"\0", b" ").decode(errors="replace")
                where = (each.parent / "environ").read_bytes()
            except OSError:
                continue
            if str(self.home).encode() in where and b"PREFECT__FLOW_RUN_ID" in where:
                found.append(title)
        return found


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def prefect(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Prefect]:
    async with _started(tmp_path_factory.mktemp("prefect")) as found:
        yield found


@asynccontextmanager
async def _started(home: Path) -> AsyncIterator[Prefect]:
    assert PYTHON.exists(), f"{PYTHON} is not there: `.ci/run integrations nightly` makes this environment."
    port, questions = free_port(), f"sqlite:///{home / 'questions.db'}"
    environment = {
        **{
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("PREFECT", "HANDRAISE", "PYTHON"))
        },
        "PREFECT_HOME": str(home),
        "PREFECT_API_URL": f"http://127.0.0.1:{port}/api",
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "DO_NOT_TRACK": "1",
        "PREFECT_RUNNER_POLL_FREQUENCY": "1",
        "PREFECT_LOGGING_LEVEL": "INFO",
        "APP_LOG": str(home / "log"),
        "HANDRAISE_URL": questions,
        "PATH": f"{PYTHON.parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT / "src"),
        "NO_PROXY": "*",
    }
    async with AsyncExitStack() as stack:
        desk = await stack.enter_async_context(people(questions))
        found = Prefect(home, port, desk, environment)
        stack.push_async_callback(found.client.aclose)
        try:
            await found.start(*PARTS)
            yield found
        finally:
            for process in found.parts.values():
                os.killpg(process.pid, signal.SIGKILL)
                await process.wait()


@shows("prefect", "ask", "survives kill", "resumes elsewhere", "asks once", "several at once")
async def test_a_killed_prefect_goes_on_with_the_answers_and_nothing_runs_meanwhile(prefect: Prefect) -> None:
    """Everything is killed while people think: the server, the process that runs flows, and the waker."""
    runs = {name: await prefect.trigger(name) for name in ("deploy", "two", "deploy-async")}
    found = await prefect.asked("How?", "First?", "Second?", "How, async?")
    for run in runs.values():
        await prefect.is_in(run, "Suspended")
    # Three flow runs wait for people, and one may run at a time: no process is left of them.
    assert prefect.seen  # it would have been seen
    async with asyncio.timeout(SOON):
        while prefect.flow_processes():
            await asyncio.sleep(0.1)
    await prefect.is_in(await prefect.trigger("other"), "Completed")
    assert prefect.did().count("other") == 1
    await prefect.kill(*PARTS)
    await prefect.desk.answer(found["Second?"].id, "b", by="ana")
    await prefect.desk.answer(found["How?"].id, "Canary", by="ana")
    await prefect.desk.answer(found["How, async?"].id, "Rolling", by="ana")
    await prefect.start(*PARTS)
    await prefect.desk.answer(found["First?"].id, "a", by="bob")
    for run in runs.values():
        await prefect.is_in(run, "Completed")
    assert sorted(prefect.did()) == [
        "goes on with Canary",
        "goes on with Rolling",
        "goes on with ['a', 'b']",
        "other",
        "prepared",
    ]
    assert not (await prefect.desk.list_pending()).items
    assert len((await prefect.desk.list_settled()).items) == 4


@shows("prefect", "approve", "edit", "asks back")
async def test_an_action_is_executed_as_the_person_changed_it(prefect: Prefect) -> None:
    run = await prefect.trigger("refund")
    question = (await prefect.asked("May I run send_refund?"))["May I run send_refund?"]
    await ask_back_to_program(prefect.desk, question)
    await prefect.desk.answer(
        question.id, {"decision": "approve", "arguments": {"amount": 25}}, by="ana", provenance=SEEN
    )
    await prefect.is_in(run, "Completed")
    assert prefect.did()[-1] == "refunds {'amount': 25, 'order': 'A-17'}"
    assert (await prefect.desk.get(question.id)).consumed_at is not None


@shows("prefect", "approve")
async def test_a_denied_action_is_not_executed(prefect: Prefect) -> None:
    run = await prefect.trigger("refund")
    question = (await prefect.asked("May I run send_refund?"))["May I run send_refund?"]
    await prefect.desk.answer(question.id, {"decision": "deny", "reason": "paid nothing yet"}, by="ana")
    await prefect.is_in(run, "Completed")
    assert "refunds nothing" in prefect.did()[-1]
    assert "paid nothing yet" in prefect.did()[-1]
    assert (await prefect.desk.get(question.id)).consumed_at is None


@shows("prefect", "other endings")
async def test_declined_and_expired_are_no_answers(prefect: Prefect) -> None:
    declined = await prefect.trigger("ending")
    question = (await prefect.asked("Now?"))["Now?"]
    await prefect.desk.decline(question.id, by="ana", reason="not my business")
    await prefect.is_in(declined, "Completed")
    assert prefect.did()[-1] == "declined: not my business"
    expired = await prefect.trigger("ending", expires_in="5s")
    await prefect.is_in(expired, "Completed")
    assert prefect.did()[-1].startswith("expired: ")


@shows("prefect", "sends back")
async def test_a_flow_changes_an_action_that_was_sent_back_and_asks_again(prefect: Prefect) -> None:
    run = await prefect.trigger("sent-back")
    first = (await prefect.asked("May I run refund?"))["May I run refund?"]
    await prefect.desk.send_back(first.id, by="ana", reason="30")
    async with asyncio.timeout(SOON):
        while not (found := (await prefect.desk.list_pending()).items):
            await asyncio.sleep(0.2)
    [second] = found
    assert second.replaces == first.id
    await prefect.desk.answer(second.id, "approve", by="ana")
    await prefect.is_in(run, "Completed")
    assert prefect.did()[-1] == "refunds {'amount': 30}"


async def test_a_run_that_somebody_resumes_too_early_waits_again(prefect: Prefect) -> None:
    run = await prefect.trigger("deploy")
    question = (await prefect.asked("How?"))["How?"]
    await prefect.is_in(run, "Suspended")
    await prefect.ready(f"/flow_runs/{run}/resume", {})
    await prefect.is_in(run, "Running", "Pending", "Scheduled", "Resuming")
    await prefect.is_in(run, "Suspended")
    await prefect.desk.answer(question.id, "Rolling", by="ana")
    await prefect.is_in(run, "Completed")
    assert prefect.did()[-1] == "goes on with Rolling"


async def test_an_answer_that_comes_just_before_the_run_is_suspended_is_not_missed(prefect: Prefect) -> None:
    await prefect.kill("waker")  # the run must notice it by itself
    run = await prefect.trigger("answered-meanwhile")
    await prefect.is_in(run, "Completed")
    assert prefect.did()[-2:] == ["answered", "goes on with yes"]
    await prefect.start("waker")


async def test_the_page_shows_a_flow_that_runs(prefect: Prefect) -> None:
    page = (ROOT / "docs" / "integrations" / "prefect.md").read_text(encoding="utf-8")
    assert f"```python\n{EXAMPLE.read_text(encoding='utf-8')}```" in page
    assert "$ python -m handraise.integrations.prefect --cursor waker.json" in page
    await prefect.start("example")
    run = await prefect.trigger("deploy", deployed="deploys")
    question = (await prefect.asked("How shall v42 go out?"))["How shall v42 go out?"]
    await prefect.is_in(run, "Suspended")
    await prefect.desk.answer(question.id, "Canary", by="ana")
    await prefect.is_in(run, "Completed")
    printed = (prefect.home / "example.log").read_text(encoding="utf-8")
    assert printed.count("built v42") == 1
    assert "v42 goes out as Canary" in printed

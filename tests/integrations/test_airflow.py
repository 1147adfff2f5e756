"""Airflow: tasks ask, defer themselves, and go on in another process; nothing of a worker is taken meanwhile.

Airflow does not fit beside other frameworks, so it has an environment of its own: `.ci/run integrations nightly` makes it. All
of Airflow's processes are real ones. One worker slot is all that there is.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import pytest
import pytest_asyncio

from handraise import Desk, Question
from support.free_port import free_port
from tests.integrations.cells import shows
from tests.integrations.processes import ROOT, people
from tests.integrations.shop import SEEN, ask_back_to_program

HERE = Path(__file__).parent
EXAMPLE = ROOT / "examples" / "integrations" / "airflow_dag.py"
PYTHON = ROOT / ".venv-airflow" / "bin" / "python"
pytestmark = [
    pytest.mark.slow(
        "starts the four processes of Airflow, which take half a minute, in an environment of their own"
    ),
    pytest.mark.timeout(420),
    pytest.mark.asyncio(loop_scope="module"),
]
PARTS = ("api-server", "scheduler", "dag-processor", "triggerer")
SOON = 120.0


@dataclass
class Airflow:
    """A running Airflow, the desk of the people, and what the tasks did."""

    home: Path
    url: str
    desk: Desk
    environment: dict[str, str]
    parts: dict[str, asyncio.subprocess.Process] = field(default_factory=dict)
    seen: list[str] = field(default_factory=list)
    """What was seen to execute tasks."""
    client: httpx2.AsyncClient = field(default_factory=httpx2.AsyncClient)

    async def start(self, *parts: str) -> None:
        for part in parts:
            log = (self.home / f"{part}.log").open("ab")
            self.parts[part] = await asyncio.create_subprocess_exec(
                str(PYTHON),
                *("-m", "airflow", part),
                cwd=self.home,
                env=self.environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
            log.close()

    async def kill(self, *parts: str) -> None:
        """End processes with SIGKILL, and everything that they have started."""
        for part in parts:
            process = self.parts.pop(part)
            assert process.returncode is None, (self.home / f"{part}.log").read_text()[-3_000:]
            os.killpg(process.pid, signal.SIGKILL)
            await process.wait()

    async def call(self, method: str, path: str, body: Any = None) -> Any:
        said = await self.client.request(method, f"{self.url}/api/v2{path}", json=body)
        assert said.is_success, f"{path}: {said.status_code} {said.text[:500]}"
        return said.json()

    async def sign_in(self) -> None:
        async with asyncio.timeout(SOON):
            while "authorization" not in self.client.headers:
                try:
                    said = await self.client.get(f"{self.url}/auth/token")
                    self.client.headers["authorization"] = f"Bearer {said.json()['access_token']}"
                except httpx2.HTTPError:
                    await asyncio.sleep(0.5)

    async def trigger(self, dag: str, **conf: Any) -> str:
        """Start a run; its id."""
        async with asyncio.timeout(SOON):
            while (await self.client.get(f"{self.url}/api/v2/dags/{dag}")).status_code != 200:
                await asyncio.sleep(0.5)
        await self.call("PATCH", f"/dags/{dag}?update_mask=is_paused", {"is_paused": False})
        made = await self.call("POST", f"/dags/{dag}/dagRuns", {"logical_date": None, "conf": conf})
        return str(made["dag_run_id"])

    async def states(self, dag: str, run: str) -> dict[str, str | None]:
        found = await self.call("GET", f"/dags/{dag}/dagRuns/{run}/taskInstances")
        return {each["task_id"]: each["state"] for each in found["task_instances"]}

    async def ends(self, dag: str, run: str) -> str:
        """The state in which a run ended."""
        async with asyncio.timeout(SOON):
            while (state := (await self.call("GET", f"/dags/{dag}/dagRuns/{run}"))["state"]) in (
                "queued",
                "running",
            ):
                await asyncio.sleep(0.3)
        return str(state)

    async def asked(self, *prompts: str) -> dict[str, Question]:
        """The pending questions with these prompts, as soon as all of them are there."""
        found: dict[str, Question] = {}

        async def there() -> bool:
            found.update({each.prompt: each for each in (await self.desk.list_pending()).items})
            return set(prompts) <= found.keys()

        async with asyncio.timeout(SOON):
            while not await there():
                self.seen += self.executing()
                await asyncio.sleep(0.1)
        return {each: found[each] for each in prompts}

    async def deferred(self, dag: str, run: str, *tasks: str) -> None:
        async with asyncio.timeout(SOON):
            while {(await self.states(dag, run)).get(each) for each in tasks} != {"deferred"}:
                self.seen += self.executing()
                await asyncio.sleep(0.1)

    def did(self) -> list[str]:
        log = Path(self.environment["APP_LOG"])
        return log.read_text(encoding="utf-8").splitlines() if log.exists() else []

    def executing(self) -> list[str]:
        """The processes below the scheduler that execute a task now, by their titles."""
        parents, titles = {}, {}
        for each in Path("/proc").glob("[0-9]*"):
            try:
                parents[int(each.name)] = int((each / "stat").read_text().rpartition(")")[2].split()[1])
                titles[int(each.name)] = (each / "cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
            except OSError:
                continue
        below = {self.parts["scheduler"].pid}
        for _ in range(5):
            below |= {pid for pid, parent in parents.items() if parent in below}
        return [titles[pid] for pid in below if re.search(r"LocalExecutor: [0-9a-f-]{36}$", titles[pid])]

    async def frees_its_worker(self) -> None:
        """Return once no process executes a task; and none does for a while after that."""
        async with asyncio.timeout(SOON):
            while self.executing():
                await asyncio.sleep(0.1)
        for _ in range(20):
            assert self.executing() == []
            await asyncio.sleep(0.1)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def airflow(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Airflow]:
    assert PYTHON.exists(), f"{PYTHON} is not there: `.ci/run integrations nightly` makes this environment."
    async with _started(tmp_path_factory.mktemp("airflow")) as found:
        yield found


@asynccontextmanager
async def _started(home: Path) -> AsyncIterator[Airflow]:
    (home / "dags").mkdir()
    for each in (EXAMPLE, HERE / "app_airflow.py"):
        (home / "dags" / each.name).write_text(each.read_text(encoding="utf-8"), encoding="utf-8")
    port, questions = free_port(), f"sqlite:///{home / 'questions.db'}"
    settings = {
        "CORE__EXECUTOR": "LocalExecutor",
        "CORE__PARALLELISM": "1",
        "CORE__LOAD_EXAMPLES": "False",
        "CORE__DAGS_FOLDER": str(home / "dags"),
        "CORE__EXECUTION_API_SERVER_URL": f"http://127.0.0.1:{port}/execution/",
        "CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
        "API__PORT": str(port),
        "API__HOST": "127.0.0.1",
        "API__WORKERS": "1",
        "API_AUTH__JWT_SECRET": "a secret of these tests, long enough for everybody who looks at it, and more",
        "DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home / 'airflow.db'}",
        "SCHEDULER__SCHEDULER_HEARTBEAT_SEC": "1",
        "SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "30",
        "TRIGGERER__JOB_HEARTBEAT_SEC": "1",
        "DAG_PROCESSOR__REFRESH_INTERVAL": "5",
        "LOGGING__TRIGGER_LOG_SERVER_PORT": str(free_port()),
        "LOGGING__WORKER_LOG_SERVER_PORT": str(free_port()),
        "USAGE_DATA_COLLECTION__ENABLED": "False",
    }
    environment = {
        **{
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("AIRFLOW", "HANDRAISE", "PYTHON"))
        },
        **{f"AIRFLOW__{name}": value for name, value in settings.items()},
        "AIRFLOW_HOME": str(home),
        "APP_LOG": str(home / "log"),
        "HANDRAISE_URL": questions,
        "PATH": f"{PYTHON.parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT / "src"),
        "NO_PROXY": "*",
    }
    async with AsyncExitStack() as stack:
        desk = await stack.enter_async_context(people(questions))
        found = Airflow(home, f"http://127.0.0.1:{port}", desk, environment)
        stack.push_async_callback(found.client.aclose)
        migrate = await asyncio.create_subprocess_exec(
            str(PYTHON),
            *("-m", "airflow", "db", "migrate"),
            cwd=home,
            env=environment,
            stdout=asyncio.subprocess.DEVNULL,
        )
        assert await migrate.wait() == 0
        try:
            await found.start(*PARTS)
            await found.sign_in()
            yield found
        finally:
            for part in list(found.parts):
                os.killpg(found.parts[part].pid, signal.SIGKILL)
                await found.parts[part].wait()


@shows("airflow", "ask", "survives kill", "resumes elsewhere", "asks once", "several at once")
async def test_a_killed_airflow_goes_on_with_the_answers_and_no_worker_waits(airflow: Airflow) -> None:
    """Everything that waits for people is killed: the triggerer that holds the triggers, and the scheduler with its workers."""
    deploy, two = await airflow.trigger("deploy"), await airflow.trigger("two")
    found = await airflow.asked("How?", "First?", "Second?")
    await airflow.deferred("deploy", deploy, "how")
    await airflow.deferred("two", two, "First", "Second")
    # Three tasks wait for people, with one slot for all of Airflow: it is free.
    assert airflow.seen  # it would have been seen
    await airflow.frees_its_worker()
    began = len(airflow.did())
    assert await airflow.ends("other", await airflow.trigger("other")) == "success"
    assert len(airflow.did()) == began + 1
    await airflow.kill("triggerer", "scheduler")
    await airflow.desk.answer(found["Second?"].id, "b", by="ana")
    await airflow.desk.answer(found["How?"].id, "Canary", by="ana")
    await airflow.start("triggerer", "scheduler")
    await airflow.desk.answer(found["First?"].id, "a", by="bob")
    assert await airflow.ends("deploy", deploy) == "success"
    assert await airflow.ends("two", two) == "success"
    assert sorted(airflow.did()) == ["goes on with Canary", "goes on with ['a', 'b']", "prepared", "prepared"]
    assert not (await airflow.desk.list_pending()).items
    assert len((await airflow.desk.list_settled()).items) == 3


@shows("airflow", "approve", "edit", "asks back")
async def test_an_action_is_executed_as_the_person_changed_it_and_only_once(airflow: Airflow) -> None:
    run = await airflow.trigger("refund")
    question = (await airflow.asked("May I run send_refund?"))["May I run send_refund?"]
    await airflow.deferred("refund", run, "refund")
    await ask_back_to_program(airflow.desk, question)
    await airflow.desk.answer(
        question.id, {"decision": "approve", "arguments": {"amount": 25}}, by="ana", provenance=SEEN
    )
    assert await airflow.ends("refund", run) == "success"
    assert airflow.did()[-1] == "goes on with {'amount': 25, 'order': 'A-17'}"
    assert (await airflow.desk.get(question.id)).consumed_at is not None
    # Somebody clears the task: it asks nobody, and the approval is not used a second time.
    await airflow.call(
        "POST", "/dags/refund/clearTaskInstances", {"dry_run": False, "dag_run_id": run, "only_failed": False}
    )
    assert await airflow.ends("refund", run) == "failed"
    assert sum("A-17" in line for line in airflow.did()) == 1


@shows("airflow", "approve")
async def test_a_denied_action_is_not_executed(airflow: Airflow) -> None:
    run = await airflow.trigger("refund")
    question = (await airflow.asked("May I run send_refund?"))["May I run send_refund?"]
    did = airflow.did()
    await airflow.desk.answer(question.id, {"decision": "deny", "reason": "paid nothing yet"}, by="ana")
    assert await airflow.ends("refund", run) == "failed"
    assert await airflow.states("refund", run) == {"refund": "failed", "go_on": "upstream_failed"}
    assert airflow.did() == did
    assert (await airflow.desk.get(question.id)).consumed_at is None


@shows("airflow", "other endings")
async def test_declined_and_expired_are_no_answers_and_reach_the_next_task(airflow: Airflow) -> None:
    declined = await airflow.trigger("ending")
    question = (await airflow.asked(f"Now, {declined}?"))[f"Now, {declined}?"]
    await airflow.desk.decline(question.id, by="ana", reason="not my business")
    await airflow.ends("ending", declined)
    assert (await airflow.states("ending", declined))["how"] == "failed"
    assert airflow.did()[-1] == "declined: not my business"
    expired = await airflow.trigger("ending", expires_in="1s")
    await airflow.ends("ending", expired)
    assert airflow.did()[-1] == "expired: "


@shows("airflow", "sends back")
async def test_a_dag_changes_an_action_that_was_sent_back_and_asks_again(airflow: Airflow) -> None:
    run = await airflow.trigger("sent_back")
    first = (await airflow.asked("May I run refund?"))["May I run refund?"]
    await airflow.desk.send_back(first.id, by="ana", reason="30")
    async with asyncio.timeout(SOON):
        while not (found := (await airflow.desk.list_pending()).items):
            await asyncio.sleep(0.2)
    [second] = found
    assert second.replaces == first.id
    await airflow.desk.answer(second.id, "approve", by="ana")
    await airflow.ends("sent_back", run)
    assert airflow.did()[-1] == "goes on with {'amount': 30}"


async def test_the_page_shows_a_dag_that_runs(airflow: Airflow) -> None:
    page = (ROOT / "docs" / "integrations" / "airflow.md").read_text(encoding="utf-8")
    assert f"```python\n{EXAMPLE.read_text(encoding='utf-8')}```" in page
    run = await airflow.trigger("deploys")
    question = (await airflow.asked("How shall v42 go out?"))["How shall v42 go out?"]
    await airflow.desk.answer(question.id, "Canary", by="ana")
    assert await airflow.ends("deploys", run) == "success"
    logs = "".join(each.read_text() for each in (airflow.home / "logs").rglob("dag_id=deploys/**/*.log"))
    assert logs.count("built v42") == 1
    assert "v42 goes out as Canary" in logs

"""The programs on the pages about coming from something else: before and after, and what waits in between."""

from __future__ import annotations

import base64
import contextlib
import os
import re
import secrets
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from importlib.metadata import version
from pathlib import Path

import httpx2
import pytest
from temporalio.service import RPCError
from temporalio.testing import WorkflowEnvironment

from handraise.testing import Person
from support.free_port import free_port
from tests.integrations.humanlayer_cloud import KEY, Cloud, serving
from tests.integrations.processes import ROOT, listening, people, started, until

PROGRAMS = ROOT / "examples" / "coming_from"
PAGES = ROOT / "docs" / "coming-from"
SDKS = pytest.mark.slow("the SDKs of others and their servers change rarely")


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'questions.db'}"


def test_every_program_stands_on_its_page_as_it_is() -> None:
    text = "".join(page.read_text(encoding="utf-8") for page in PAGES.glob("*.md"))
    for program in PROGRAMS.glob("*.py"):
        assert f"```python\n{program.read_text(encoding='utf-8')}```" in text, program.name


@pytest.mark.parametrize(
    ("page", "package"),
    [
        ("humanlayer", "humanlayer"),
        ("awaithumans", "awaithumans"),
        ("langgraph-interrupt", "langgraph"),
        ("temporal-signals", "temporalio"),
    ],
)
def test_a_page_says_with_which_version_the_program_before_was_checked(page: str, package: str) -> None:
    text = (PAGES / f"{page}.md").read_text(encoding="utf-8")
    [said] = re.findall(rf"[Cc]hecked with `{package}` ([\d.]+\d)", " ".join(text.split()))
    assert version(package) == said


@SDKS
async def test_humanlayer_before(tmp_path: Path) -> None:
    for approved, then in (
        (True, "refunded 40 for A-17"),
        (False, "User denied send_refund with message: no"),
    ):
        cloud = Cloud("A-17", approved=approved, comment="no")
        with serving(cloud) as base:
            async with started(
                PROGRAMS / "humanlayer_before.py",
                folder=tmp_path,
                HUMANLAYER_API_KEY=KEY,
                HUMANLAYER_API_BASE=base,
            ) as program:
                assert (await program.rest())[-1] == then
        assert [each["spec"].get("msg") or each["spec"]["fn"] for each in cloud.asked] == [
            "Which order?",
            "send_refund",
        ]


@pytest.mark.parametrize(
    ("decision", "then"),
    [
        ("approve", "refunded 40.0 for A-17"),
        ({"decision": "deny", "reason": "no"}, "not refunded: no"),
    ],
)
async def test_humanlayer_after(url: str, tmp_path: Path, decision: object, then: str) -> None:
    async with people(url) as desk, Person(desk) as ana:
        ana.script("A-17", decision)
        async with started(PROGRAMS / "humanlayer_after.py", folder=tmp_path, HANDRAISE_URL=url) as program:
            assert await program.rest() == [then]


@pytest.fixture
def awaithumans(tmp_path: Path) -> Iterator[dict[str, str]]:
    """Its server, with a database of its own; the settings of a client."""
    port, token = free_port(), secrets.token_hex(16)
    key = base64.urlsafe_b64encode(secrets.token_bytes(32)).decode().rstrip("=")
    process = subprocess.Popen(
        [Path(sys.executable).parent / "awaithumans", "serve", "--host", "127.0.0.1", "--port", str(port)],
        cwd=tmp_path,
        env={
            **os.environ,
            "AWAITHUMANS_DB_PATH": str(tmp_path / "awaithumans.db"),
            "AWAITHUMANS_ADMIN_API_TOKEN": token,
            "AWAITHUMANS_PAYLOAD_KEY": key,
        },
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield {"AWAITHUMANS_URL": f"http://127.0.0.1:{port}", "AWAITHUMANS_ADMIN_API_TOKEN": token}
    finally:
        process.kill()
        process.wait()


class Tasks:
    """The tasks of its server."""

    def __init__(self, settings: dict[str, str]) -> None:
        self.url = settings["AWAITHUMANS_URL"]
        headers = {"Authorization": f"Bearer {settings['AWAITHUMANS_ADMIN_API_TOKEN']}"}
        self.client = httpx2.AsyncClient(base_url=self.url, headers=headers)

    async def one(self) -> dict[str, str]:
        """The only task, as soon as it is there."""
        await listening(int(self.url.rpartition(":")[2]))

        async def there() -> bool:
            return len((await self.client.get("/api/tasks")).json()) == 1

        await until(there)
        [task] = (await self.client.get("/api/tasks")).json()
        return dict(task)


@SDKS
async def test_awaithumans_before(awaithumans: dict[str, str], tmp_path: Path) -> None:
    tasks = Tasks(awaithumans)
    await listening(int(tasks.url.rpartition(":")[2]))
    async with started(PROGRAMS / "awaithumans_before.py", folder=tmp_path, **awaithumans) as program:
        task = await tasks.one()
        await tasks.client.post(f"/api/tasks/{task['id']}/complete", json={"response": {"approved": True}})
        assert await program.rest() == ["refunded"]
    await tasks.client.aclose()


@pytest.mark.parametrize(
    ("decision", "then"),
    [({"approved": True}, "refunded"), ({"approved": False, "note": "too late"}, "not refunded: too late")],
)
async def test_awaithumans_after(url: str, tmp_path: Path, decision: object, then: str) -> None:
    async with people(url) as desk, Person(desk) as ana:
        ana.answers("Refund this order?", decision)
        async with started(PROGRAMS / "awaithumans_after.py", folder=tmp_path, HANDRAISE_URL=url) as program:
            assert await program.rest() == [then]


@SDKS
async def test_what_waits_at_awaithumans_is_moved_once_and_found_by_the_program_after(
    awaithumans: dict[str, str], url: str, tmp_path: Path
) -> None:
    tasks = Tasks(awaithumans)
    await listening(int(tasks.url.rpartition(":")[2]))
    async with started(PROGRAMS / "awaithumans_before.py", folder=tmp_path, **awaithumans) as before:
        task = await tasks.one()
        await before.kill()
    said = []
    for _ in range(2):
        move = started(PROGRAMS / "awaithumans_move.py", folder=tmp_path, HANDRAISE_URL=url, **awaithumans)
        async with move as program:
            said.append(await program.rest())
    async with people(url) as desk:
        [question] = await desk.list_pending()
        assert said == [[f"{task['id']} is {question.id} now"], []]
        assert question.context == {"order": "A-17", "amount": 40.0}
        await desk.answer(question.id, {"approved": True}, by="ana")
    assert (await tasks.one())["status"] == "cancelled"
    async with started(PROGRAMS / "awaithumans_after.py", folder=tmp_path, HANDRAISE_URL=url) as after:
        assert await after.rest() == ["refunded"]
    await tasks.client.aclose()


@pytest.mark.slow("starts five programs; test_langgraph.py runs one in the gate")
async def test_langgraph_before_and_after_and_a_thread_that_waits_in_between(
    url: str, tmp_path: Path
) -> None:
    before = PROGRAMS / "langgraph_before.py"
    page = (PAGES / "langgraph-interrupt.md").read_text(encoding="utf-8")
    asked = "{'question': 'Which strategy?', 'choices': ['Canary', 'Rolling']}"
    answered = "{'strategy': 'Canary'}"
    for arguments, printed in (([], asked), (["Canary"], answered)):
        async with started(before, *arguments, folder=tmp_path) as program:
            assert await program.rest() == [printed]
        assert f"$ {' '.join(['python langgraph_before.py', *arguments])}\n{printed}\n" in page
    async with people(url) as desk, Person(desk) as ana:
        ana.script("Canary")
        (tmp_path / "checkpoints.db").unlink()
        async with started(before, folder=tmp_path) as program:
            assert await program.rest() == [asked]
        async with started(PROGRAMS / "langgraph_move.py", folder=tmp_path, HANDRAISE_URL=url) as program:
            assert await program.rest() == [answered]
        (tmp_path / "checkpoints.db").unlink()
        url = url.replace("questions", "other")
    async with people(url) as desk, Person(desk) as bob:
        bob.answers("Which strategy?", "Canary")
        async with started(PROGRAMS / "langgraph_after.py", folder=tmp_path, HANDRAISE_URL=url) as program:
            assert await program.rest() == [answered]
    assert [each.prompt for each in (*ana.asked, *bob.asked)] == [
        "The graph waits for an answer.",
        "Which strategy?",
    ]


@pytest.mark.slow("starts Temporal's server; test_temporal.py has a workflow that asks in the gate")
async def test_temporal_before_and_after_side_by_side(url: str, tmp_path: Path) -> None:
    binary = Path(sys.executable).parent / "temporal"
    environment = await WorkflowEnvironment.start_local(
        dev_server_existing_path=str(binary), dev_server_log_level="error"
    )
    target = environment.client.service_client.config.target_host
    for name in ("temporal_before.py", "temporal_after.py"):
        text = (PROGRAMS / name).read_text(encoding="utf-8")
        (tmp_path / name).write_text(text.replace("localhost:7233", target))
    waker = ("-m", "handraise.integrations.temporal", target, "--cursor", tmp_path / "cursor")
    start = partial(started, folder=tmp_path, HANDRAISE_URL=url)
    old = environment.client.get_workflow_handle("deploy-42")

    async def waits() -> bool:
        with contextlib.suppress(RPCError):
            events = (await old.fetch_history()).events
            return any(each.HasField("workflow_task_completed_event_attributes") for each in events)
        return False

    async with people(url) as desk, Person(desk) as ana:
        ana.answers("How shall v42 go out?", "Rolling")
        async with start(tmp_path / "temporal_before.py") as program:
            await until(waits)
            await program.kill()
        async with start(tmp_path / "temporal_after.py") as program:
            await old.signal("choose", "Canary")
            assert await program.rest() == ["v42 goes out as Canary"]
        assert not ana.asked
        async with (
            start(*waker),
            start(tmp_path / "temporal_after.py") as program,
        ):
            await program.says("v42 goes out as Rolling")
    await environment.shutdown()

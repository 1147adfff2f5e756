"""Restate: handlers ask, sleep on the server, and are woken through awakeables."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest
import restate
from hypercorn.asyncio import serve

from handraise import Desk, StoreUnavailable
from handraise.desks import LocalDesk
from handraise.integrations.restate import RestateEngine
from handraise.integrations.waker import NobodyWaits, keep_waking
from support.free_port import free_port
from support.restate_server import RestateServer, running_restate
from tests.integrations import app_restate as app
from tests.integrations.cells import KILLED_WHILE, killed_in_the_gate, more_processes, shows
from tests.integrations.processes import Program, asked, listening, people, started, until
from tests.integrations.shop import SEEN, ask_back_to_program

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
EXAMPLE = ROOT / "examples" / "integrations" / "restate_service.py"


@pytest.fixture(scope="module")
def server() -> Iterator[RestateServer]:
    with tempfile.TemporaryDirectory() as folder, running_restate(Path(folder)) as server:
        yield server


@dataclass
class Setup:
    """A service in this process, and a desk for the people."""

    desk: Desk
    server: RestateServer
    cursor: Path

    async def result(self, invocation: str) -> Any:
        response = await self.server.result(invocation)
        response.raise_for_status()
        return response.json()

    @asynccontextmanager
    async def waker(self) -> AsyncIterator[None]:
        engine = RestateEngine(self.server.ingress)
        task = asyncio.create_task(keep_waking(self.desk, engine, cursor=self.cursor, poll=0.05))
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def sleeps(self, invocation: str) -> None:
        """Return once the handler has looked and waits."""
        await until(lambda: self.has_looked(invocation, 1))

    async def has_looked(self, invocation: str, times: int) -> bool:
        rows = await self.server.query(
            f"select name from sys_journal where id = '{invocation}' and name = 'handraise outcome'"  # noqa: S608 -- an id of Restate's own
        )
        return len(rows) >= times


@pytest.fixture
async def setup(server: RestateServer, tmp_path: Path) -> AsyncIterator[Setup]:
    port, over = free_port(), asyncio.Event()
    async with people(f"sqlite:///{tmp_path / 'questions.db'}") as desk:

        async def until_over() -> None:
            await over.wait()

        service = restate.app([app.services(desk, tmp_path / "log")])
        serving = asyncio.create_task(serve(service, app.served_at(port), shutdown_trigger=until_over))
        await listening(port)
        await server.register(port)
        yield Setup(desk, server, tmp_path / "cursor")
        over.set()
        await serving


@shows("restate", "ask")
async def test_a_handler_goes_on_with_the_answer(setup: Setup) -> None:
    async with setup.waker():
        invocation = await setup.server.send("app/asks")
        [question] = await asked(setup.desk)
        await setup.sleeps(invocation)
        await setup.desk.answer(question.id, "Canary", by="ana")
        assert await setup.result(invocation) == "Canary"


async def test_an_answer_from_before_the_waker_started_is_delivered(setup: Setup) -> None:
    invocation = await setup.server.send("app/asks")
    [question] = await asked(setup.desk)
    await setup.sleeps(invocation)
    await setup.desk.answer(question.id, "Canary", by="ana")
    async with setup.waker():
        assert await setup.result(invocation) == "Canary"


@shows("restate", "asks back")
async def test_a_program_replies_beside_the_handler_to_a_person_who_asks_back(setup: Setup) -> None:
    async with setup.waker():
        invocation = await setup.server.send("app/refunds")
        [question] = await asked(setup.desk)
        await ask_back_to_program(setup.desk, question)
        await setup.desk.answer(question.id, "approve", by="ana", provenance=SEEN)
        assert await setup.result(invocation) == {"order": "A-17", "amount": 40}


@shows("restate", "approve", "edit")
async def test_an_action_is_executed_as_the_person_changed_it(setup: Setup) -> None:
    async with setup.waker():
        invocation = await setup.server.send("app/refunds")
        [question] = await asked(setup.desk)
        await setup.desk.answer(question.id, {"decision": "approve", "arguments": {"amount": 25}}, by="ana")
        assert await setup.result(invocation) == {"order": "A-17", "amount": 25}
    assert (await setup.desk.get(question.id)).consumed_at is not None


@shows("restate", "approve")
async def test_a_denied_action_is_not_given_out(setup: Setup) -> None:
    async with setup.waker():
        invocation = await setup.server.send("app/refunds")
        [question] = await asked(setup.desk)
        await setup.desk.answer(question.id, {"decision": "deny", "reason": "paid nothing yet"}, by="ana")
        response = await setup.server.result(invocation)
    assert response.status_code == 422
    assert "not approved: paid nothing yet" in response.text
    assert (await setup.desk.get(question.id)).consumed_at is None


@shows("restate", "approve")
async def test_an_approval_that_was_used_is_not_given_out_again(setup: Setup) -> None:
    invocation = await setup.server.send("app/refunds")
    [question] = await asked(setup.desk)
    await setup.desk.answer(question.id, "approve", by="ana")
    await setup.desk.consume_approval(question.id)
    async with setup.waker():
        response = await setup.server.result(invocation)
    assert (response.status_code, "already been used" in response.text) == (422, True)


@shows("restate", "approve")
async def test_an_approval_whose_giving_out_was_lost_is_given_to_the_same_step_again(
    setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    consume, calls = LocalDesk.consume_approval, []

    async def consume_and_lose(self: LocalDesk, question_id: str, **options: Any) -> Any:
        action = await consume(self, question_id, **options)
        calls.append(question_id)
        if len(calls) == 1:
            raise StoreUnavailable("the line went dead behind the commit")
        return action

    monkeypatch.setattr(LocalDesk, "consume_approval", consume_and_lose)
    async with setup.waker():
        started = await setup.server.send("app/refunds")
        [question] = await asked(setup.desk)
        await setup.desk.answer(question.id, {"decision": "approve", "arguments": {"amount": 25}}, by="ana")
        assert await setup.result(started) == {"order": "A-17", "amount": 25}
    assert calls == [question.id, question.id]


@shows("restate", "several at once")
async def test_two_questions_are_answered_in_reverse_order(setup: Setup) -> None:
    async with setup.waker():
        invocation = await setup.server.send("app/asks_two")
        by_prompt = {each.prompt: each.id for each in await asked(setup.desk, number=2)}
        await setup.desk.answer(by_prompt["Second?"], "b", by="ana")
        await setup.desk.answer(by_prompt["First?"], "a", by="bob")
        assert await setup.result(invocation) == ["a", "b"]


@shows("restate", "asks once")
async def test_a_step_that_is_tried_again_asks_once(setup: Setup, monkeypatch: pytest.MonkeyPatch) -> None:
    post, calls = LocalDesk.post, []

    async def post_and_lose(self: LocalDesk, prompt: str, **options: Any) -> Any:
        posted = await post(self, prompt, **options)
        calls.append(posted.id)
        if len(calls) == 1:
            raise StoreUnavailable("the line went dead behind the commit")
        return posted

    monkeypatch.setattr(LocalDesk, "post", post_and_lose)
    async with setup.waker():
        invocation = await setup.server.send("app/asks")
        [question] = await asked(setup.desk)
        await setup.desk.answer(question.id, "Canary", by="ana")
        assert await setup.result(invocation) == "Canary"
    assert calls == [question.id, question.id]


@shows("restate", "other endings")
async def test_declined_is_not_an_answer(setup: Setup) -> None:
    async with setup.waker():
        invocation = await setup.server.send("app/asks")
        [question] = await asked(setup.desk)
        await setup.desk.decline(question.id, by="ana", reason="not my business")
        response = await setup.server.result(invocation)
    assert response.status_code == 422
    assert "declined by ana: not my business" in response.text


@shows("restate", "sends back")
async def test_a_handler_changes_an_action_that_was_sent_back_and_asks_again(setup: Setup) -> None:
    async with setup.waker():
        invocation = await setup.server.send("app/refunds_as_told")
        [first] = await asked(setup.desk)
        await setup.desk.send_back(first.id, by="ana", reason="30")
        [second] = await asked(setup.desk)
        assert second.replaces == first.id
        await setup.desk.answer(second.id, "approve", by="ana")
        assert await setup.result(invocation) == {"amount": 30}


@shows("restate", "other endings")
async def test_expired_is_not_an_answer(setup: Setup) -> None:
    async with setup.waker():
        response = await setup.server.result(await setup.server.send("app/asks_for_a_while"))
    assert (response.status_code, "expired without an answer" in response.text) == (422, True)


@pytest.mark.parametrize("quorum", ["many", 0])
async def test_what_cannot_be_asked_ends_the_invocation_and_is_not_tried_for_ever(
    setup: Setup, quorum: Any
) -> None:
    response = await setup.server.result(await setup.server.send("app/asks_badly", quorum))
    assert (response.status_code, "quorum" in response.text) == (422, True)


@pytest.mark.slow(
    "waits for seconds until the handler looks again; the gate forges for Temporal and DBOS, and rejects an awakeable"
)
async def test_a_forged_wake_up_decides_nothing_and_delays_the_answer_by_seconds(setup: Setup) -> None:
    invocation = await setup.server.send("app/asks")
    [question] = await asked(setup.desk)
    await setup.sleeps(invocation)
    forged = await setup.server.awakeable(question.state["wake"]["awakeable"], "resolve")
    assert forged.status_code == 202
    await until(lambda: setup.has_looked(invocation, 3))
    async with setup.waker():
        await setup.desk.answer(question.id, "Canary", by="ana")
        assert await setup.result(invocation) == "Canary"


async def test_a_rejected_awakeable_is_not_an_answer(setup: Setup) -> None:
    invocation = await setup.server.send("app/refunds")
    [question] = await asked(setup.desk)
    await setup.server.awakeable(question.state["wake"]["awakeable"], "reject")
    response = await setup.server.result(invocation)
    assert response.status_code == 500
    assert (await setup.desk.get(question.id)).consumed_at is None


async def test_a_handler_looks_again_where_nobody_wakes_it(setup: Setup) -> None:
    invocation = await setup.server.send("app/looks_again")
    [question] = await asked(setup.desk)
    await setup.desk.answer(question.id, "Canary", by="ana")
    assert await setup.result(invocation) == "Canary"


async def test_a_second_delivery_changes_nothing_and_a_lost_handler_holds_up_nobody(setup: Setup) -> None:
    lost = await setup.desk.post("Whose?", state={"wake": {"engine": "restate", "awakeable": "no/such?one"}})
    await setup.desk.answer(lost.id, "nobody's", by="ana")
    first = await setup.server.send("app/asks")
    [one] = await asked(setup.desk)
    await setup.desk.answer(one.id, "Canary", by="ana")
    async with setup.waker():
        assert await setup.result(first) == "Canary"
    setup.cursor.unlink()
    second = await setup.server.send("app/asks")
    [other] = await asked(setup.desk)
    await setup.sleeps(second)
    async with setup.waker():
        await setup.desk.answer(other.id, "Rolling", by="ana")
        assert await setup.result(second) == "Rolling"
    assert await setup.result(first) == "Canary"


async def test_what_restate_does_not_know_is_passed_over_and_what_is_away_is_not(
    server: RestateServer,
) -> None:
    with pytest.raises(NobodyWaits):
        await RestateEngine(server.ingress).wake("q-1", {"awakeable": "no/such?one"})
    with pytest.raises(httpx2.TransportError):
        await RestateEngine(f"http://127.0.0.1:{free_port()}").wake("q-1", {"awakeable": "sign_1abc"})


@shows("restate", "survives kill", "resumes elsewhere", "asks once")
@pytest.mark.parametrize(("address", "die"), KILLED_WHILE, indirect=["address"])
@killed_in_the_gate
async def test_a_killed_service_is_replaced_and_its_steps_ran_once(
    empty_address: str, tmp_path: Path, server: RestateServer, die: list[str]
) -> None:
    url, log, cursor, port = empty_address, tmp_path / "log", tmp_path / "cursor", free_port()
    program = (HERE / "app_restate.py", str(port), log)
    async with people(url) as desk:
        async with started(*program, *die, HANDRAISE_URL=url) as first:
            await listening(port)
            await server.register(port)
            invocation = await server.send("app/deploys")
            [question] = await asked(desk)
            if die:
                assert await first.ends() == -9
            else:
                await Setup(desk, server, cursor).sleeps(invocation)
        async with waking(server, cursor, url) as waker:
            await until(cursor.exists)
            await waker.kill()
        await desk.answer(question.id, "Canary", by="ana")
        async with started(*program, HANDRAISE_URL=url), waking(server, cursor, url):
            assert (await server.result(invocation)).json() == "Canary"
        assert [each.id for each in (await desk.list_settled()).items] == [question.id]
        assert not (await desk.list_pending()).items
    assert log.read_text().splitlines() == ["prepared", "goes on with Canary"]


@asynccontextmanager
async def waking(server: RestateServer, cursor: Path, url: str) -> AsyncIterator[Program]:
    module = "handraise.integrations.restate"
    async with started("-m", module, server.ingress, "--cursor", cursor, HANDRAISE_URL=url) as waker:
        yield waker


@more_processes
async def test_the_page_shows_a_program_that_runs(tmp_path: Path, server: RestateServer) -> None:
    page = (ROOT / "docs" / "integrations" / "restate.md").read_text(encoding="utf-8")
    program, port = EXAMPLE.read_text(encoding="utf-8"), free_port()
    assert f"```python\n{program}```" in page
    command = "python -m handraise.integrations.restate http://localhost:8080 --cursor waker.json"
    assert command in page
    example = tmp_path / "deploys.py"
    example.write_text(program.replace("localhost:9080", f"127.0.0.1:{port}"))
    url = f"sqlite:///{tmp_path / 'questions.db'}"
    async with people(url) as desk:
        async with started(example, folder=tmp_path, HANDRAISE_URL=url) as first:
            await listening(port)
            await server.register(port)
            invocation = await server.send("deploys/deploy", "v42")
            [question] = await asked(desk)
            await first.kill()
            assert "built v42" in first.said
        await desk.answer(question.id, "Canary", by="ana")
        waker = command.replace("http://localhost:8080", server.ingress).split()[1:]
        async with (
            started(*waker, folder=tmp_path, HANDRAISE_URL=url),
            started(example, folder=tmp_path, HANDRAISE_URL=url) as second,
        ):
            assert (await server.result(invocation)).json() == "v42 goes out as Canary"
            await second.kill()
            assert not any("built" in line for line in second.said)

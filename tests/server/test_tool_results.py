"""The two layers of a tool call over HTTP: drawn for whom it concerns, answered by whoever is signed in."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI

from handraise import Answered, Approval, Desk, Escalation, Timeline
from handraise.model.identities import Role
from handraise.server import ServerContext
from handraise.testing import ManualClock
from handraise.tools import Interrupt, human_intervention_request
from support.http_server import listening
from support.issuer import Issuer
from tests.server.conftest import bearer, on_every_store

CALL = {"prompt": "Which strategy?", "options": ["Blue-green", "Canary"]}
RESULTS = "/v1/conversations/c/tool-results"
MESSAGES = "/v1/conversations/c/client-messages"

Headers = dict[str, str]
Event = tuple[str, dict[str, Any]]


@pytest.fixture
def desk(ctx: ServerContext, workspace: str) -> Desk:
    """The desk of the agent whose calls these are."""
    return ctx.desk.scoped(workspace, asker="bot")


@pytest.fixture
async def ann(issuer: Issuer, workspace: str) -> Headers:
    return bearer(await issuer.person(workspace, "ann", role=Role.MEMBER))


async def ask(desk: Desk, *, conversation: str = "c", call_id: str = "call_1") -> str:
    tool = human_intervention_request(desk, conversation=conversation)
    interrupt = await tool.start({**CALL, "context": call_id}, call_id=call_id)
    assert isinstance(interrupt, Interrupt)
    return interrupt.question_ids[0]


def result(question_id: str, **changed: Any) -> dict[str, Any]:
    return {
        "agentId": "bot",
        "toolCallId": f"hitl_{question_id}",
        "decision": "approve",
        "choice": "Canary",
        **changed,
    }


class TestDrawing:
    async def test_shows_what_is_pending_in_the_conversation(
        self, client: httpx2.AsyncClient, desk: Desk, ann: Headers
    ) -> None:
        first, second = await ask(desk), await ask(desk, call_id="call_2")
        await ask(desk, conversation="other")
        messages = (await client.get(MESSAGES, headers=ann)).json()["messages"]
        calls = [message["tool_calls"][0]["id"] for message in messages]
        assert calls == [f"hitl_{first}", f"hitl_{second}"]
        await desk.answer(first, "Canary", by="ann")
        messages = (await client.get(MESSAGES, headers=ann)).json()["messages"]
        assert [message["tool_calls"][0]["id"] for message in messages] == [f"hitl_{second}"]

    async def test_shows_nothing_that_concerns_others(
        self, client: httpx2.AsyncClient, desk: Desk, ann: Headers, issuer: Issuer, workspace: str
    ) -> None:
        await desk.post("Only for bob", conversation="c", recipients=["bob"])
        assert (await client.get(MESSAGES, headers=ann)).json() == {"messages": []}
        bob = bearer(await issuer.person(workspace, "bob", role=Role.MEMBER))
        assert len((await client.get(MESSAGES, headers=bob)).json()["messages"]) == 1
        stranger = bearer(await issuer.person(f"{workspace} next door", "bob"))
        assert (await client.get(MESSAGES, headers=stranger)).json() == {"messages": []}


class TestSubmitting:
    async def test_answers_as_whoever_is_signed_in_and_gives_the_models_message(
        self, client: httpx2.AsyncClient, desk: Desk, ann: Headers
    ) -> None:
        question = await ask(desk)
        given = await client.post(RESULTS, json=result(question), headers=ann)
        assert given.json() == {
            "message": {"role": "tool", "tool_call_id": "call_1", "content": "Canary"},
        }
        outcome = (await desk.get(question)).outcome
        assert isinstance(outcome, Answered)
        assert (outcome.by, outcome.channel, outcome.evidence) == ("ann", "client", "client-asserted")

    async def test_of_an_approval_makes_no_message(
        self, client: httpx2.AsyncClient, desk: Desk, ann: Headers
    ) -> None:
        form = Approval.of("pay", {"amount": 40})
        question = await desk.post("Pay?", form=form, conversation="c", tool_call="call_1")
        body = {"agent": "bot", "tool_call_id": f"approval_{question.id}", "decision": "approve"}
        given = await client.post(RESULTS, json=body, headers=ann)
        assert (given.status_code, given.json()) == (200, {"message": None})
        assert (await desk.consume_approval(question.id)).tool == "pay"

    @on_every_store
    async def test_a_second_time_is_told_who_was_first(
        self, client: httpx2.AsyncClient, desk: Desk, ann: Headers
    ) -> None:
        question = await ask(desk)
        await desk.answer(question, "Blue-green", by="zoe")
        late = await client.post(RESULTS, json=result(question), headers=ann)
        assert (late.status_code, late.json()["outcome"]["by"]) == (409, "zoe")

    async def test_with_an_idempotency_key_is_answered_again(
        self, client: httpx2.AsyncClient, desk: Desk, ann: Headers
    ) -> None:
        question = await ask(desk)
        first, second = [
            await client.post(RESULTS, json=result(question), headers=ann | {"idempotency-key": "k"})
            for _ in range(2)
        ]
        assert (first.status_code, second.content) == (200, first.content)

    async def test_a_body_that_names_another_conversation_is_refused(
        self, client: httpx2.AsyncClient, desk: Desk, ann: Headers
    ) -> None:
        question = await ask(desk, conversation="other")
        refused = await client.post(RESULTS, json=result(question, conversation="other"), headers=ann)
        assert (refused.status_code, refused.json()["problems"][0]["path"]) == (422, "body.conversation")
        assert (await desk.get(question)).outcome is None

    async def test_a_call_that_is_not_theirs_is_not_there(
        self, client: httpx2.AsyncClient, desk: Desk, ann: Headers, issuer: Issuer, workspace: str
    ) -> None:
        private = await desk.post("Only for bob", conversation="c", recipients=["bob"])
        elsewhere = await ask(desk, conversation="other")
        question = await ask(desk)
        stranger = bearer(await issuer.person(f"{workspace} next door", "ann"))
        unknown = await client.post(RESULTS, json=result("none"), headers=ann)
        assert unknown.status_code == 404
        for body, headers in (
            (result(private.id), ann),
            (result(elsewhere), ann),
            (result(question, agentId="another"), ann),
            (result(question, toolCallId=f"approval_{question}"), ann),
            (result(question, toolCallId=question), ann),
            (result(question), stranger),
        ):
            refused = await client.post(RESULTS, json=body, headers=headers)
            assert (refused.status_code, refused.content) == (404, unknown.content)
        assert (await desk.get(question)).outcome is None

    async def test_no_agent_submits_or_draws(
        self, client: httpx2.AsyncClient, desk: Desk, issuer: Issuer, workspace: str
    ) -> None:
        question = await ask(desk)
        for name in ("bot", "another"):
            agent = bearer(await issuer.agent(workspace, name))
            assert (await client.post(RESULTS, json=result(question), headers=agent)).status_code == 403
            assert (await client.get(MESSAGES, headers=agent)).status_code == 403
        assert (await client.post(RESULTS, json=result(question))).status_code == 401
        assert (await client.get(MESSAGES)).status_code == 401
        assert (await desk.get(question)).outcome is None


class TestStreaming:
    @pytest.fixture
    async def live(self, app: FastAPI) -> AsyncIterator[httpx2.AsyncClient]:
        """A client of a real server: what is tested here is when things arrive."""
        with socket.create_server(("127.0.0.1", 0)) as door:
            address = f"http://127.0.0.1:{door.getsockname()[1]}"
            async with listening(app, door), httpx2.AsyncClient(base_url=address, timeout=30) as client:
                yield client

    @asynccontextmanager
    async def submitted(
        self, live: httpx2.AsyncClient, body: dict[str, Any], headers: Headers, *, wait: str = "60s"
    ) -> AsyncIterator[AsyncIterator[Event]]:
        async with live.stream(
            "POST",
            RESULTS,
            params={"wait": wait},
            json=body,
            headers=headers | {"accept": "text/event-stream"},
        ) as response:
            assert response.status_code == 200
            assert response.headers["content-type"].startswith("text/event-stream")
            yield events(response)

    async def test_gives_the_result_and_then_what_comes_up_and_ends(
        self, live: httpx2.AsyncClient, desk: Desk, ann: Headers
    ) -> None:
        first = await ask(desk)
        async with self.submitted(live, result(first), ann) as stream:
            name, data = await anext(stream)
            assert (name, data["message"]["content"]) == ("result", "Canary")
            assert call_of(await anext(stream)) == ("settled", f"hitl_{first}")
            await ask(desk, conversation="other")
            await desk.post("Only for bob", conversation="c", recipients=["bob"])
            second = await ask(desk, call_id="call_2")
            assert call_of(await anext(stream)) == ("call", f"hitl_{second}")
            await desk.withdraw(second)
            name, message = await anext(stream)
            assert call_of((name, message)) == ("settled", f"hitl_{second}")
            assert message["toolCallStatus"][f"hitl_{second}"]["complete"] is True

    async def test_draws_for_whoever_is_asked_later(
        self, live: httpx2.AsyncClient, desk: Desk, ann: Headers, ctx: ServerContext, clock: ManualClock
    ) -> None:
        timeline = Timeline(escalate=(Escalation(after=timedelta(minutes=1), to=("ann",)),))
        first = await ask(desk)
        async with self.submitted(live, result(first), ann) as stream:
            assert [(await anext(stream))[0] for _ in range(2)] == ["result", "settled"]
            later = await desk.post("Now?", conversation="c", recipients=["bob"], timeline=timeline)
            clock.advance(timedelta(minutes=1))
            await ctx.desk.run_maintenance()
            assert call_of(await anext(stream)) == ("call", f"hitl_{later.id}")

    async def test_ends_when_the_wait_is_over(
        self, live: httpx2.AsyncClient, desk: Desk, ann: Headers
    ) -> None:
        question = await ask(desk)
        async with self.submitted(live, result(question), ann, wait="100ms") as stream:
            seen = [name async for name, _ in stream]
        assert seen[0] == "result"

    async def test_ends_when_the_server_stops(
        self, live: httpx2.AsyncClient, desk: Desk, ann: Headers, ctx: ServerContext
    ) -> None:
        question = await ask(desk)
        async with self.submitted(live, result(question), ann) as stream:
            await anext(stream)
            ctx.stopping.set()
            async with asyncio.timeout(30):
                assert {name async for name, _ in stream} <= {"settled"}

    async def test_what_is_refused_is_a_problem_and_no_stream(
        self, live: httpx2.AsyncClient, ann: Headers
    ) -> None:
        refused = await live.post(RESULTS, json=result("none"), headers=ann | {"accept": "text/event-stream"})
        assert refused.status_code == 404
        assert refused.headers["content-type"] == "application/problem+json"


async def events(response: httpx2.Response) -> AsyncIterator[Event]:
    name = ""
    async for line in response.aiter_lines():
        field, _, text = line.partition(": ")
        if field == "event":
            name = text
        elif field == "data":
            yield name, json.loads(text)


def call_of(event: Event) -> tuple[str, str]:
    name, message = event
    return name, message["tool_calls"][0]["id"]

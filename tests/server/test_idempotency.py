"""`Idempotency-Key`: a request is done once for each key of a caller, and answered the same."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import httpx2
import pytest

from handraise import Approval
from handraise.model.errors import StoreUnavailable
from handraise.server import ServerContext
from handraise.testing import ManualClock
from support.issuer import Issuer
from tests.server.conftest import bearer, on_every_store

pytestmark = on_every_store

Headers = dict[str, str]
QUESTIONS = "/v1/questions"


@pytest.fixture
async def agent(issuer: Issuer, workspace: str) -> Headers:
    return bearer(await issuer.agent(workspace, "bot"))


@pytest.fixture
async def person(issuer: Issuer, workspace: str) -> Headers:
    return bearer(await issuer.person(workspace, "ann"))


def keyed(headers: Headers, key: str = "k") -> Headers:
    return headers | {"idempotency-key": key}


async def pending(ctx: ServerContext, workspace: str) -> list[str]:
    return [question.prompt for question in (await ctx.desk.scoped(workspace).list_pending()).items]


class Held:
    """Keeps a question from being written until it is let go, and may fail then."""

    def __init__(self, insert: Any) -> None:
        self._insert = insert
        self.reached = asyncio.Event()
        self.go = asyncio.Event()
        self.failing = False

    async def submit(self, draft: Any) -> Any:
        self.reached.set()
        await self.go.wait()
        if self.failing:
            raise StoreUnavailable("not now")
        return await self._insert(draft)


@pytest.fixture
def held(ctx: ServerContext, monkeypatch: pytest.MonkeyPatch) -> Held:
    engine = ctx.desk._engine  # noqa: SLF001 -- the one place where a write can be held up
    held = Held(engine.insert)
    monkeypatch.setattr(engine, "insert", held)
    return held


class TestTheSameKey:
    async def test_with_the_same_body_has_the_same_result(
        self, client: httpx2.AsyncClient, agent: Headers, ctx: ServerContext, workspace: str
    ) -> None:
        first = await client.post(QUESTIONS, json={"prompt": "Go?"}, headers=keyed(agent))
        second = await client.post(QUESTIONS, json={"prompt": "Go?"}, headers=keyed(agent))
        assert (first.status_code, second.status_code) == (201, 201)
        assert first.content == second.content
        assert (first.headers.get("idempotency-replayed"), second.headers["idempotency-replayed"]) == (
            None,
            "true",
        )
        assert await pending(ctx, workspace) == ["Go?"]

    async def test_with_another_body_or_for_something_else_is_refused(
        self, client: httpx2.AsyncClient, agent: Headers, ctx: ServerContext, workspace: str
    ) -> None:
        await client.post(QUESTIONS, json={"prompt": "Go?"}, headers=keyed(agent))
        for path, body in ((QUESTIONS, {"prompt": "Stop?"}), ("/v1/recover", {"max_age": 1})):
            refused = await client.post(path, json=body, headers=keyed(agent))
            assert refused.status_code == 422
            assert refused.json()["problems"][0]["path"] == "Idempotency-Key"
        assert await pending(ctx, workspace) == ["Go?"]

    async def test_while_the_first_is_under_way_is_a_conflict(
        self, client: httpx2.AsyncClient, agent: Headers, ctx: ServerContext, workspace: str, held: Held
    ) -> None:
        first = asyncio.create_task(client.post(QUESTIONS, json={"prompt": "Go?"}, headers=keyed(agent)))
        await asyncio.wait_for(held.reached.wait(), 30)
        meanwhile = await client.post(QUESTIONS, json={"prompt": "Go?"}, headers=keyed(agent))
        assert (meanwhile.status_code, meanwhile.json()["code"]) == (409, "request_conflict")
        held.go.set()
        done = await first
        after = await client.post(QUESTIONS, json={"prompt": "Go?"}, headers=keyed(agent))
        assert (done.status_code, after.content) == (201, done.content)
        assert await pending(ctx, workspace) == ["Go?"]

    async def test_of_many_at_once_one_is_done(
        self, client: httpx2.AsyncClient, agent: Headers, ctx: ServerContext, workspace: str
    ) -> None:
        tries = await asyncio.gather(
            *(client.post(QUESTIONS, json={"prompt": "Go?"}, headers=keyed(agent)) for _ in range(10))
        )
        assert {each.status_code for each in tries} <= {201, 409}
        assert len({each.content for each in tries if each.status_code == 201}) == 1
        assert await pending(ctx, workspace) == ["Go?"]

    async def test_of_another_caller_is_another_key(
        self, client: httpx2.AsyncClient, agent: Headers, issuer: Issuer, ctx: ServerContext, workspace: str
    ) -> None:
        others = [
            bearer(await issuer.agent(workspace, "other")),
            bearer(await issuer.agent(f"{workspace} next door", "bot")),
        ]
        made = [
            (await client.post(QUESTIONS, json={"prompt": "Go?"}, headers=keyed(headers))).json()["id"]
            for headers in (agent, *others)
        ]
        assert len(set(made)) == 3
        assert await pending(ctx, workspace) == ["Go?", "Go?"]

    async def test_is_of_no_use_to_whoever_is_not_signed_in(self, client: httpx2.AsyncClient) -> None:
        refused = await client.post(QUESTIONS, json={"prompt": "Go?"}, headers={"idempotency-key": "k"})
        assert refused.status_code == 401

    async def test_gives_a_revoked_key_nothing(
        self, client: httpx2.AsyncClient, agent: Headers, ctx: ServerContext, workspace: str
    ) -> None:
        await client.post(QUESTIONS, json={"prompt": "Go?"}, headers=keyed(agent))
        (key,) = await ctx.directory.keys(workspace, after=None, limit=10)
        await ctx.directory.revoke_key(workspace, key.id, by="ann")
        again = await client.post(QUESTIONS, json={"prompt": "Go?"}, headers=keyed(agent))
        assert again.status_code == 401


class TestAfterAnError:
    async def test_a_refusal_is_given_again_also_where_it_would_be_no_more(
        self, client: httpx2.AsyncClient, person: Headers, ctx: ServerContext, workspace: str
    ) -> None:
        question = await ctx.desk.scoped(workspace, asker="bot").post("Which?", choices=["a", "b"])
        path = f"{QUESTIONS}/{question.id}/answer"
        first = await client.post(path, json={"value": "c"}, headers=keyed(person))
        await client.post(path, json={"value": "a"}, headers=keyed(person, "other"))
        second = await client.post(path, json={"value": "c"}, headers=keyed(person))
        assert (first.status_code, first.json()["code"]) == (422, "invalid_answer")
        assert (second.status_code, second.content) == (422, first.content)
        assert second.headers["content-type"] == "application/problem+json"

    async def test_an_answer_is_given_once(
        self, client: httpx2.AsyncClient, person: Headers, ctx: ServerContext, workspace: str
    ) -> None:
        question = await ctx.desk.scoped(workspace, asker="bot").post("Which?", choices=["a", "b"])
        path = f"{QUESTIONS}/{question.id}/answer"
        first = await client.post(path, json={"value": "a"}, headers=keyed(person))
        second = await client.post(path, json={"value": "a"}, headers=keyed(person))
        assert (first.status_code, second.content) == (200, first.content)
        unkeyed = await client.post(path, json={"value": "a"}, headers=person)
        assert (unkeyed.status_code, unkeyed.json()["outcome"]["by"]) == (409, "ann")

    async def test_a_failure_of_ours_is_not_kept(
        self, client: httpx2.AsyncClient, agent: Headers, ctx: ServerContext, workspace: str, held: Held
    ) -> None:
        held.failing = True
        held.go.set()
        failed = await client.post(QUESTIONS, json={"prompt": "Go?"}, headers=keyed(agent))
        assert failed.status_code == 503
        held.failing = False
        done = await client.post(QUESTIONS, json={"prompt": "Go?"}, headers=keyed(agent))
        assert (done.status_code, done.headers.get("idempotency-replayed")) == (201, None)
        assert await pending(ctx, workspace) == ["Go?"]

    async def test_what_may_have_taken_effect_before_it_failed_is_not_done_twice(
        self,
        client: httpx2.AsyncClient,
        agent: Headers,
        ctx: ServerContext,
        workspace: str,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        engine = ctx.desk._engine  # noqa: SLF001 -- the one place where a write can be cut off
        insert = engine.insert

        class CutOff:
            async def submit(self, draft: Any) -> Any:
                await insert(draft)
                raise StoreUnavailable("the connection broke after the commit")

        with monkeypatch.context() as patched:
            patched.setattr(engine, "insert", CutOff())
            failed = await client.post(QUESTIONS, json={"prompt": "Go?"}, headers=keyed(agent))
        done = await client.post(QUESTIONS, json={"prompt": "Go?"}, headers=keyed(agent))
        assert (failed.status_code, done.status_code) == (503, 201)
        assert await pending(ctx, workspace) == ["Go?"]

    async def test_what_nobody_could_read_stays_with_its_key(
        self, client: httpx2.AsyncClient, agent: Headers
    ) -> None:
        first, second = [
            await client.post(QUESTIONS, json={"text": "Go?"}, headers=keyed(agent)) for _ in range(2)
        ]
        assert (first.status_code, second.content) == (422, first.content)
        other = await client.post(QUESTIONS, json={"prompt": "Go?"}, headers=keyed(agent))
        assert (other.status_code, other.json()["problems"][0]["path"]) == (422, "Idempotency-Key")


class TestAfterASilence:
    """Whoever began it gave no sign for a minute: somebody else may do it, and it is still done once."""

    async def test_it_is_done_again_with_the_id_of_the_first(
        self,
        *,
        client: httpx2.AsyncClient,
        agent: Headers,
        ctx: ServerContext,
        workspace: str,
        held: Held,
        clock: ManualClock,
    ) -> None:
        first = asyncio.create_task(client.post(QUESTIONS, json={"prompt": "Go?"}, headers=keyed(agent)))
        await asyncio.wait_for(held.reached.wait(), 30)
        clock.advance(timedelta(minutes=1))
        held.reached.clear()
        second = asyncio.create_task(client.post(QUESTIONS, json={"prompt": "Go?"}, headers=keyed(agent)))
        await asyncio.wait_for(held.reached.wait(), 30)
        held.go.set()
        made = [(await each).json()["id"] for each in (first, second)]
        assert made[0] == made[1]
        assert await pending(ctx, workspace) == ["Go?"]

    async def test_an_answer_of_ones_own_is_recognized(
        self,
        client: httpx2.AsyncClient,
        person: Headers,
        ctx: ServerContext,
        workspace: str,
        clock: ManualClock,
    ) -> None:
        question = await ctx.desk.scoped(workspace, asker="bot").post("Which?", choices=["a", "b"])
        path = f"{QUESTIONS}/{question.id}/answer"
        ctx.directory = Forgetful(ctx.directory)
        lost = await client.post(path, json={"value": "a"}, headers=keyed(person))
        assert lost.status_code == 500
        clock.advance(timedelta(minutes=1))
        again = await client.post(path, json={"value": "a"}, headers=keyed(person))
        assert (again.status_code, again.json()["outcome"]["value"]) == (200, "a")

    @pytest.mark.parametrize("end", ["decline", "withdraw"])
    async def test_an_ending_of_ones_own_is_recognized(
        self,
        *,
        client: httpx2.AsyncClient,
        agent: Headers,
        person: Headers,
        ctx: ServerContext,
        workspace: str,
        clock: ManualClock,
        end: str,
    ) -> None:
        question = await ctx.desk.scoped(workspace, asker="bot").post("Which?", choices=["a", "b"])
        path, who = f"{QUESTIONS}/{question.id}/{end}", person if end == "decline" else agent
        ctx.directory = Forgetful(ctx.directory)
        assert (await client.post(path, json={"reason": "r"}, headers=keyed(who))).status_code == 500
        clock.advance(timedelta(minutes=1))
        again = await client.post(path, json={"reason": "r"}, headers=keyed(who))
        assert (again.status_code, again.json()["outcome"]["reason"]) == (200, "r")
        other = await client.post(path, json={"reason": "r"}, headers=keyed(who, "another"))
        assert other.status_code == 409

    @pytest.mark.parametrize("body", [None, {}, {"request": None}])
    async def test_an_action_that_was_given_out_is_given_to_the_same_request_again(
        self,
        *,
        client: httpx2.AsyncClient,
        agent: Headers,
        ctx: ServerContext,
        workspace: str,
        clock: ManualClock,
        body: Any,
    ) -> None:
        desk = ctx.desk.scoped(workspace, asker="bot")
        question = await desk.post("Pay?", form=Approval.of("pay", {"amount": 1}))
        await desk.answer(question.id, "approve", by="ann")
        path, ctx.directory = f"{QUESTIONS}/{question.id}/consume", Forgetful(ctx.directory)
        assert (await client.post(path, json=body, headers=keyed(agent))).status_code == 500
        other = await client.post(path, json=body, headers=keyed(agent, "another"))
        assert (other.status_code, other.json()["code"]) == (409, "already_consumed")
        clock.advance(timedelta(minutes=1))
        again = await client.post(path, json=body, headers=keyed(agent))
        assert (again.status_code, again.json()) == (200, {"tool": "pay", "arguments": {"amount": 1}})
        # The response is made each time and never stored: what is stopped meanwhile is not given out again.
        stop = await ctx.policies.stop(workspace, tool="pay", why="wrong account", by="boss")
        stopped = await client.post(path, json=body, headers=keyed(agent))
        assert (stopped.status_code, stopped.json()["code"]) == (423, "stopped")
        await ctx.policies.resume(workspace, stop.id, by="boss")
        assert (await client.post(path, json=body, headers=keyed(agent))).json() == again.json()

    async def test_what_was_done_is_said_also_where_the_response_cannot_be_kept(
        self, client: httpx2.AsyncClient, person: Headers, ctx: ServerContext, workspace: str
    ) -> None:
        question = await ctx.desk.scoped(workspace, asker="bot").post("Which?", choices=["a", "b"])
        ctx.directory = Forgetful(ctx.directory, StoreUnavailable("planted"))
        said = await client.post(
            f"{QUESTIONS}/{question.id}/answer", json={"value": "a"}, headers=keyed(person)
        )
        assert (said.status_code, said.json()["outcome"]["value"]) == (200, "a")


class Forgetful:
    """A directory whose process dies, or whose store is gone, before the first response is kept."""

    def __init__(self, directory: Any, error: Exception | None = None) -> None:
        self._directory = directory
        self._error = error or RuntimeError("planted")
        self._died = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._directory, name)

    async def finish(self, *args: Any, **kwargs: Any) -> None:
        self._die_once()
        await self._directory.finish(*args, **kwargs)

    async def release(self, *args: Any, **kwargs: Any) -> None:
        self._die_once()
        await self._directory.release(*args, **kwargs)

    def _die_once(self) -> None:
        if not self._died:
            self._died = True
            raise self._error


@pytest.mark.parametrize("key", ["", "k" * 201])
async def test_a_key_that_is_none_is_refused(client: httpx2.AsyncClient, agent: Headers, key: str) -> None:
    refused = await client.post(QUESTIONS, json={"prompt": "Go?"}, headers=keyed(agent, key))
    assert (refused.status_code, refused.json()["problems"][0]["path"]) == (422, "Idempotency-Key")


async def test_without_a_key_it_is_done_each_time(
    client: httpx2.AsyncClient, agent: Headers, ctx: ServerContext, workspace: str
) -> None:
    for _ in range(2):
        await client.post(QUESTIONS, json={"prompt": "Go?"}, headers=agent)
    assert await pending(ctx, workspace) == ["Go?", "Go?"]

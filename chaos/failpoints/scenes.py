"""One scene for each verb, played in its own process with a failpoint armed: every step of it is reached.

A scene can be played again from the beginning: what an earlier life has done or knows to be refused is left out, as by
a client that keeps a journal.
"""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import socket
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import uvicorn

from chaos.clients import Client, Ledger, link_to
from chaos.failpoints.injection import Failpoint, Recorder, installed
from chaos.history import EVERY, Pen, read
from chaos.kills.roles import Tokens
from chaos.stored_state import end_leases
from handraise import Approval, HandraiseError, Question, Timeline, open_desk
from handraise.callbacks import Callback
from handraise.desk.dispatcher import Dispatcher
from handraise.desk.engine import Engine
from handraise.desk.ids import uuid7_ids
from handraise.desk.policy_cache import PolicyCache
from handraise.desk_factory import open_backend
from handraise.desks import LocalDesk
from handraise.model.deliveries import Address
from handraise.model.drafting import Limits
from handraise.model.identities import Role
from handraise.model.json_values import Json
from handraise.model.timelines import Escalation
from handraise.ports import Backend
from handraise.server import ServerSettings, create_app
from handraise.server.context import open_context
from handraise.wire.credentials import TokenKind, digest_of, make_token

TRIES = 3
_WITH_POLICIES = frozenset({"standing"})
"""The scenes of what is decided when a question is posted. The others have no policy, and read none."""
PEOPLE = ("ana", "bob")
SOON = timedelta(milliseconds=200)
_ACTION = Approval.of("deploy", {"to": "production"}, scopes=["once", "always"])


async def play(told: dict[str, Any]) -> None:
    """A life: a verb's scene, with what is to happen to it."""
    logging.disable()  # a store that fails is expected here
    journal = Path(told["journal"])
    failpoints = [Failpoint(**each) for each in told["failpoints"]]
    recorder = Recorder(failpoints=failpoints)
    prepare, perform = SCENES[told["verb"]]
    with installed(recorder):
        async with open_backend(told["address"], confined=told["confined"] or None) as backend:
            stage = Stage(
                told["address"], backend, told["workspace"], journal, Pen(journal, told["name"]), recorder
            )
            stage.has_policies = told["verb"] in _WITH_POLICIES
            async with stage.desk() as client:
                await prepare(stage, client)
            recorder.verb = told["verb"]
            async with stage.desk() as client:
                for _ in range(TRIES):
                    await perform(stage, client)
            recorder.verb = ""
            async with stage.desk() as client:
                for question in stage.questions.values():
                    await client.read(question)
    Path(told["result"]).write_text(json.dumps({"steps": recorder.steps, "struck": recorder.struck}))


@dataclass(slots=True)
class Stage:
    """What a scene has to work with."""

    address: str
    backend: Backend
    workspace: str
    journal: Path
    pen: Pen
    recorder: Recorder
    engine: Engine | None = None
    questions: dict[str, Question] = field(default_factory=dict)
    tried_again: bool = False
    tokens: dict[str, str] = field(default_factory=dict)
    has_policies: bool = False

    @asynccontextmanager
    async def desk(self, asker: str = "bot") -> AsyncIterator[Client]:
        """A desk with its own engine; its background work is done when it is closed."""
        policies = PolicyCache(self.backend.policies) if self.has_policies else None
        self.engine = Engine(self.backend.store, self.backend.bus, poll_interval=0.1, policies=policies)
        try:
            desk = LocalDesk(
                self.engine, workspace=self.workspace, asker=asker, new_id=uuid7_ids(), limits=Limits()
            )
            yield Client(desk, self.pen)
        finally:
            await self.engine.close()

    @contextmanager
    def aside(self) -> Iterator[None]:
        """What is done inside is not part of the verb."""
        verb, self.recorder.verb = self.recorder.verb, ""
        try:
            yield
        finally:
            self.recorder.verb = verb

    def is_done(self, op: str, name: str, by: str | None = None) -> bool:
        """Whether an earlier life, or this one, finished this."""
        key = f"{self.workspace}-{name}"
        begun: dict[str, Any] = {}
        for entry in read([self.journal]):
            if (entry.op, entry.question) == (op, key):
                if entry.type == "invoke":
                    begun[entry.process] = (entry.value or {}).get("by")
                elif entry.type in {"ok", "fail"} and by in {None, begun.get(entry.process)}:
                    return True
        return False

    async def ask(self, client: Client, name: str, **options: Any) -> Question | None:
        """Post a question, until it is stored."""
        question = await client.ask(f"{self.workspace}-{name}", **options)
        if question is not None:
            self.questions[name] = question
        return question

    async def unless_done(
        self, op: str, name: str, call: Callable[[Question], Awaitable[object]], by: str | None = None
    ) -> None:
        """Do something to a question, once."""
        if name in self.questions and not self.is_done(op, name, by):
            await call(self.questions[name])


async def _ask_before(stage: Stage, client: Client) -> None:
    """A question that is settled."""
    await stage.ask(client, "old")
    await stage.unless_done("answer", "old", lambda each: client.answer(each, "yes", "ana"))


async def _ask(stage: Stage, client: Client) -> None:
    """New ones, the same again, and one that is settled."""
    for name in ("new", "new", "old"):
        await stage.ask(client, name, **({"recipients": PEOPLE, "timeline": LATER} if name == "new" else {}))


class _AnyHost:
    """Makes no callbacks, and refuses none."""

    def callback_problem(self, callback: Callback) -> str | None:
        del callback
        return None

    async def call_back(self, to: Json, question: Question, *, id: str) -> None:  # noqa: A002 -- as in the port
        del to, question, id


async def _callback_before(stage: Stage, client: Client) -> None:
    del stage, client


async def _callback(stage: Stage, client: Client) -> None:
    """A question with a callback, and the same again: it is never stored without its callback."""
    assert stage.engine is not None
    stage.engine.callback_senders = {"webhook": _AnyHost()}
    secret = "whsec_" + "c2VjcmV0" * 5
    for name in ("called", "called"):
        question = await stage.ask(client, name, callback=Callback("https://agent.example/", secret))
        with stage.aside():
            if question and len(await stage.backend.outbox.deliveries(question.ref)) != 1:
                raise AssertionError("a question was stored without its callback")


LATER = Timeline(
    remind=(timedelta(hours=1),),
    escalate=(Escalation(after=timedelta(hours=2), to=("cleo",)),),
    expire=timedelta(hours=3),
)


async def _answer_before(stage: Stage, client: Client) -> None:
    for name in ("approved", "granted"):
        await stage.ask(client, name, form=_ACTION)
    await stage.ask(client, "misfit", choices=["a", "b"])
    for name in ("declined", "withdrawn"):
        await stage.ask(client, name)


async def _answer(stage: Stage, client: Client) -> None:
    """Every move that a person or an asker can make."""
    always = {"decision": "approve", "scope": "always"}
    await stage.unless_done("answer", "approved", lambda each: client.answer(each, always, "ana"))
    await stage.unless_done("answer", "misfit", lambda each: client.answer(each, "c", "ana"))
    await stage.unless_done("decline", "declined", lambda each: client.decline(each, "bob"))
    await stage.unless_done("withdraw", "withdrawn", client.withdraw)
    await stage.unless_done("answer", "granted", lambda each: client.use_grant(each, "ana"))


async def _vote_before(stage: Stage, client: Client) -> None:
    await stage.ask(client, "agreed", quorum=2)
    await stage.ask(client, "vetoed", quorum=2, veto=True)


async def _vote(stage: Stage, client: Client) -> None:
    for person in PEOPLE:
        await stage.unless_done("vote", "agreed", lambda each: client.answer(each, "yes", person), person)  # noqa: B023 -- called at once
    await stage.unless_done("decline", "vetoed", lambda each: client.decline(each, "ana"))


async def _sweep_before(stage: Stage, client: Client) -> None:
    async with stage.desk("forgetful") as other:
        await stage.ask(other, "forgotten")
    soon = Timeline(remind=(SOON / 4,), escalate=(Escalation(after=SOON / 2, to=("cleo",)),), expire=SOON)
    await stage.ask(client, "expires", recipients=PEOPLE, timeline=soon)
    await stage.ask(client, "defaults", timeline=Timeline(expire=SOON, default="later"))
    await asyncio.sleep(1.5 * SOON.total_seconds())


async def _sweep(stage: Stage, client: Client) -> None:
    assert stage.engine is not None
    for _ in ("remind, and take the default", "escalate", "expire"):  # each starts the clock of the next one
        await client.expire(stage.engine.run_due)
        await asyncio.sleep(SOON.total_seconds())
    forgetful = client.desk.scoped(asker="forgetful")

    async def recover() -> int:
        return (await forgetful.recover(timedelta(0))).expired

    await client.expire(recover, f"{stage.workspace}-forgotten")


async def _dispatch_before(stage: Stage, client: Client) -> None:
    del client
    directory, outbox = stage.backend.directory, stage.backend.outbox
    for person, channel in (("ana", "ledger"), ("bob", "ledger"), ("dan", "dead")):
        await directory.put_person(stage.workspace, person, name=person, email=None, role=Role.MEMBER)
        place = Address(
            workspace=stage.workspace, recipient=person, channel=channel, id="1", to={"at": person}
        )
        await outbox.put_address(place)
    await outbox.put_routing(stage.workspace, {"agents": {"bot": 1_000}})


async def _dispatch(stage: Stage, client: Client) -> None:
    """Notify people of one question after the other; then one of them ends, and they are told that too."""
    assert stage.engine is not None
    channels = [Ledger(stage.pen), Ledger(stage.pen, dead=True)]
    outbox, directory = stage.backend.outbox, stage.backend.directory
    dispatcher = Dispatcher(stage.engine, outbox, directory, channels, link_to=link_to)
    for name, person in (("told", "ana"), ("ended", "bob"), ("dead", "dan"), ("nobody", "eve"), ("", "")):
        with stage.aside():
            await end_leases(stage.address)
            if name:
                await stage.ask(client, name, recipients=[person])
            else:
                await stage.unless_done("answer", "ended", lambda each: client.answer(each, "yes", "bob"))
        for _ in range(3):
            try:
                await dispatcher.work()
            except HandraiseError:
                continue
            finally:
                await dispatcher.finish()


async def _consume_before(stage: Stage, client: Client) -> None:
    await stage.ask(client, "approved", form=_ACTION)
    await stage.unless_done("answer", "approved", lambda each: client.answer(each, "approve", "ana"))


async def _consume(stage: Stage, client: Client) -> None:
    await stage.unless_done("consume", "approved", lambda each: client.consume(each, "the one"))
    if not stage.tried_again and "approved" in stage.questions and stage.is_done("consume", "approved"):
        stage.tried_again = True
        await client.consume(stage.questions["approved"])  # somebody who comes too late


async def _send_before(stage: Stage, client: Client) -> None:
    await stage.ask(client, "sent")


async def _send(stage: Stage, client: Client) -> None:
    await stage.unless_done("read", "sent", client.send)


async def _report_before(stage: Stage, client: Client) -> None:
    await stage.ask(client, "answered")
    await stage.unless_done("answer", "answered", lambda each: client.answer(each, "yes", "ana"))


async def _report(stage: Stage, client: Client) -> None:
    await stage.unless_done("read", "answered", client.report)
    if not stage.tried_again and "answered" in stage.questions and stage.is_done("read", "answered"):
        stage.tried_again = True
        await client.report(stage.questions["answered"])  # the same again


async def _thread_before(stage: Stage, client: Client) -> None:
    await stage.ask(client, "talked", form=_ACTION, replies="program", expires_in=timedelta(days=1))


async def _thread(stage: Stage, client: Client) -> None:
    await stage.unless_done("read", "talked", lambda each: client.talk(each, "ana"))
    if "talked" in stage.questions and stage.is_done("read", "talked"):
        thread = (await client.desk.get(stage.questions["talked"].id)).thread
        await stage.unless_done(
            "answer", "talked", lambda each: client.answer(each, "approve", "ana", saw=thread)
        )


async def _share_before(stage: Stage, client: Client) -> None:
    await stage.ask(client, "handed", recipients=PEOPLE)
    await stage.ask(client, "returned", recipients=PEOPLE)
    await stage.ask(client, "replaced")


async def _share(stage: Stage, client: Client) -> None:
    await stage.unless_done("read", "handed", lambda each: client.share(each, "ana", "cleo"))
    await stage.unless_done("answer", "handed", lambda each: client.answer(each, "yes", "cleo"))
    await stage.unless_done("send_back", "returned", lambda each: client.send_back(each, "bob"))
    await stage.unless_done(
        "withdraw", "replaced", lambda each: client.replace(each, f"{stage.workspace}-again")
    )


async def _topic_before(stage: Stage, client: Client) -> None:
    for name in ("first", "second"):
        await stage.ask(client, name, topic="rate", prompt="Which rate?")
    for name in ("gone", "next"):
        await stage.ask(client, name, topic="color", prompt="Which color?")


async def _topic(stage: Stage, client: Client) -> None:
    """One answer ends both; and if the first is withdrawn, the next one can be answered."""
    if {"first", "second", "gone", "next"} <= stage.questions.keys():
        second = stage.questions["second"]
        await stage.unless_done("answer", "first", lambda each: client.answer_both(each, second, "19", "ana"))
        await stage.unless_done("withdraw", "gone", client.withdraw)
        await stage.unless_done("answer", "next", lambda each: client.answer(each, "red", "ana"))
        with stage.aside():
            async with stage.desk() as other:
                await stage.unless_done("wait", "second", lambda each: other.wait(each, 10))


async def _join_before(stage: Stage, client: Client) -> None:
    await stage.ask(client, "joined")


async def _join(stage: Stage, client: Client) -> None:
    await stage.unless_done("read", "joined", client.join)


async def _wait_before(stage: Stage, client: Client) -> None:
    await stage.ask(client, "answered")
    await stage.unless_done("answer", "answered", lambda each: client.answer(each, "yes", "ana"))


async def _wait(stage: Stage, client: Client) -> None:
    await stage.unless_done("wait", "answered", lambda each: client.wait(each, 10))


async def _tidy_before(stage: Stage, client: Client) -> None:
    await stage.ask(client, "settled")
    await stage.unless_done("answer", "settled", lambda each: client.answer(each, "yes", "ana"))


async def _tidy(stage: Stage, client: Client) -> None:
    """Look for what is to be removed, and for what is settled and stays."""
    with stage.pen.doing("expire", EVERY):
        await stage.backend.store.tidy(keep=timedelta(days=1), limit=10_000)
    with stage.aside():
        await stage.ask(client, "settled")


async def _revoke_before(stage: Stage, client: Client) -> None:
    await stage.ask(client, "granting", form=_ACTION)
    always = {"decision": "approve", "scope": "always"}
    await stage.unless_done("answer", "granting", lambda each: client.answer(each, always, "ana"))


async def _revoke(stage: Stage, client: Client) -> None:
    """Twice, as by somebody who is not sure."""
    del stage
    for _ in range(2):
        with suppress(HandraiseError):
            for grant in await client.desk.list_grants():
                await client.desk.revoke_grant(grant.id, by="ana")


async def _standing_before(stage: Stage, client: Client) -> None:
    await stage.ask(client, "kept", topic="rate", prompt="Which rate?")
    await stage.unless_done("answer", "kept", lambda each: client.answer(each, "19", "ana"))


async def _standing(stage: Stage, client: Client) -> None:
    """Keep an answer, let it answer a question, and revoke it; each twice, as by somebody who is not sure."""
    if (kept := stage.questions.get("kept")) is None:
        return
    for _ in range(2):
        with suppress(HandraiseError):
            until = datetime.now(UTC) + timedelta(days=1)
            await client.desk.keep_answer(kept.id, until=until, by="ana", spot_check=0.0)
    if not stage.is_done("answer", "answered at once"):
        name = f"{stage.workspace}-answered at once"
        again = await client.ask_again(name, "19", "ana", topic="rate", prompt="Which rate?")
        if again is not None:
            stage.questions["answered at once"] = again
    for _ in range(2):
        with suppress(HandraiseError):
            for each in await client.desk.list_standing_answers():
                await client.desk.revoke_standing_answer(each.id, by="ana")


async def _request_before(stage: Stage, client: Client) -> None:
    """Who asks and who answers over HTTP, and their credentials."""
    del client
    directory, workspace = stage.backend.directory, stage.workspace
    await directory.put_person(workspace, "ana", name="ana", email=None, role=Role.ADMIN)
    session = make_token(TokenKind.SESSION, workspace, secrets.token_bytes(32))
    day = timedelta(days=1)
    await directory.open_session(
        workspace, uuid.uuid4().hex, digest=digest_of(session), person="ana", how="test", lasts=day
    )
    key = make_token(TokenKind.AGENT, workspace, secrets.token_bytes(32))
    await directory.add_key(
        workspace, uuid.uuid4().hex, digest=digest_of(key), agent="bot", created_by="chaos"
    )
    stage.tokens = {"ana": session, "reader": session, "bot": key}


async def _request(stage: Stage, client: Client) -> None:
    """The same through a server, which does each request once."""
    del client
    async with AsyncExitStack() as stack:
        with stage.aside():
            address = await stack.enter_async_context(_serving(stage))
            remote = await stack.enter_async_context(
                open_desk(
                    address,
                    workspace=stage.workspace,
                    asker="bot",
                    credentials=Tokens(stage.tokens),
                    poll_interval=0.2,
                )
            )
        there = Client(remote, stage.pen)
        if not stage.is_done("ask", "remote"):
            await stage.ask(there, "remote", form=_ACTION)
        elif "remote" not in stage.questions:
            with stage.aside():
                await stage.ask(there, "remote", form=_ACTION)
        await stage.unless_done("answer", "remote", lambda each: there.answer(each, "approve", "ana"))
        await stage.unless_done("consume", "remote", there.consume)


@asynccontextmanager
async def _serving(stage: Stage) -> AsyncIterator[str]:
    """A server in this process, without its background work."""
    with socket.socket() as door:
        door.bind(("127.0.0.1", 0))
        settings = ServerSettings(url=stage.address, poll_interval=0.2, port=door.getsockname()[1])
        async with open_context(settings) as ctx:
            server = uvicorn.Server(
                uvicorn.Config(create_app(ctx), log_config=None, timeout_graceful_shutdown=1)
            )
            serving = asyncio.create_task(server.serve([door]))
            while not server.started:
                await asyncio.sleep(0.005)
            try:
                yield f"http://127.0.0.1:{settings.port}"
            finally:
                ctx.stopping.set()
                server.should_exit = True
                await serving


Part = Callable[[Stage, Client], Awaitable[None]]
SCENES: dict[str, tuple[Part, Part]] = {
    "ask": (_ask_before, _ask),
    "callback": (_callback_before, _callback),
    "answer": (_answer_before, _answer),
    "vote": (_vote_before, _vote),
    "sweep": (_sweep_before, _sweep),
    "dispatch": (_dispatch_before, _dispatch),
    "consume": (_consume_before, _consume),
    "send": (_send_before, _send),
    "report": (_report_before, _report),
    "thread": (_thread_before, _thread),
    "share": (_share_before, _share),
    "topic": (_topic_before, _topic),
    "join": (_join_before, _join),
    "wait": (_wait_before, _wait),
    "tidy": (_tidy_before, _tidy),
    "revoke": (_revoke_before, _revoke),
    "standing": (_standing_before, _standing),
    "request": (_request_before, _request),
}

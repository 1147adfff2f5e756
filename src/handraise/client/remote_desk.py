"""The desk over HTTP. Nothing is decided here: the server's desk decides, and its errors are raised again."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import AbstractContextManager, aclosing, asynccontextmanager, nullcontext
from datetime import datetime, timedelta
from functools import partial
from typing import Any, TypeVar, Unpack
from urllib.parse import quote

import pydantic

from handraise.client.event_listener import MOST_IDS, ServerHints
from handraise.client.http_transport import HttpTransport
from handraise.heartbeats import MOST_BEATS, Heartbeats
from handraise.model.attachments import DIGEST, Attachment, plain_value
from handraise.model.bulk_answers import MOST_ANSWERS, BulkAnswer, BulkItem, BulkResult
from handraise.model.call_hints import usage
from handraise.model.drafting import Limits, QuestionOptions, check_key
from handraise.model.durations import Span, seconds_of
from handraise.model.errors import (
    AttachmentNotFound,
    InvalidAnswer,
    KeyConflict,
    PermissionDenied,
    QuestionNotFound,
    StoreUnavailable,
    Unauthenticated,
)
from handraise.model.events import Event
from handraise.model.forms import Action
from handraise.model.grants import Grant
from handraise.model.json_values import JsonValue, text_problem
from handraise.model.outcomes import Outcome
from handraise.model.pending_views import NO_FILTERS, Order, PendingFilters, ViewCounts, check_filters
from handraise.model.people import Responder, responder_of
from handraise.model.problems import HandraiseError, InvalidQuestion, Problem
from handraise.model.provenance import (
    UNKNOWN,
    Provenance,
    check_problems,
    check_provenance,
    check_reason,
    check_texts,
    keepable,
)
from handraise.model.questions import Question, Ref
from handraise.model.report_validation import check_report
from handraise.model.search_words import MOST_QUERY, words_of
from handraise.model.standing_answers import SPOT_CHECK, StandingAnswer
from handraise.model.thread_messages import check_attachments, check_message
from handraise.model.validation import value_problems
from handraise.ports import Bus, Durability, IdFactory, Interest, Recovered
from handraise.ports.desk import (
    PAGE,
    SENDING_LEASE,
    Close,
    Desk,
    OpenedIn,
    Page,
    check_bulk_items,
    check_id,
    check_lease,
    check_limit,
    check_max_age,
)
from handraise.ports.settled_filter import Ended, settled_filter
from handraise.waiters import Waiters
from handraise.wire.bulk_records import AnswerResults
from handraise.wire.credentials import Credentials
from handraise.wire.problem_documents import ConflictingQuestion
from handraise.wire.receipt_records import ReceiptToken
from handraise.wire.records import (
    ActionRecord,
    CallerRecord,
    ClaimedRecord,
    DurabilityRecord,
    EventPage,
    EventRecord,
    GrantPage,
    GrantRecord,
    HeartbeatsRecord,
    OutcomeStates,
    QuestionPage,
    QuestionRecord,
    RecoveredRecord,
    RunDueRecord,
    StandingAnswerPage,
    StandingAnswerRecord,
    ViewCountsRecord,
    WithdrawnRecord,
)
from handraise.wire.requests import (
    QUESTION_ID,
    AnswerAll,
    AnswerItem,
    AnswerQuestion,
    BringIn,
    ClaimSending,
    ConsumeQuestion,
    DeclineItem,
    DeclineQuestion,
    GiveHeartbeat,
    JoinQuestion,
    KeepAnswer,
    MarkSent,
    PostQuestion,
    ProblemRecord,
    Recover,
    RejectAnswer,
    ReplyToPeople,
    ReportQuestion,
    Request,
    SendBack,
    SetAside,
    ShareQuestion,
    TakeBack,
    WithdrawAll,
    WithdrawQuestion,
    WriteMessage,
)

T = TypeVar("T", bound=pydantic.BaseModel)

_POLL_INTERVAL = 5.0
"""How often waits read the server while it is not known that its hints arrive."""
_REMEMBERED = 2_000
_MOST_BYTES = 400_000
"""The size of one request with several answers."""
_FEED_CURSOR = re.compile(r"[0-9.]*")


@asynccontextmanager
async def open_remote(
    address: str,
    *,
    credentials: str | Credentials | None,
    new_id: IdFactory,
    bus: Bus | None = None,
    workspace: str | None = None,
    asker: str | None = None,
    limits: Limits | None = None,
    poll_interval: Span = _POLL_INTERVAL,
) -> AsyncIterator[RemoteDesk]:
    """A desk at a server, or at several on one store whose addresses are separated by commas.

    With a single token, the workspace and the asker are those of the token.
    """
    if credentials is None:
        raise Unauthenticated(
            "A desk at a server needs the key of an agent: set HANDRAISE_KEY, or credentials=…"
        )
    transport = HttpTransport([each.strip() for each in address.split(",")])
    try:
        if isinstance(credentials, str):
            me = _read(CallerRecord, await transport.call("GET", "/v1/me", token=credentials, opening=True))
            credentials = OneToken(credentials, me)
            workspace, asker = workspace or me.workspace, asker or credentials.whose
            credentials.check(workspace, asker)
        session = RemoteSession(transport, credentials, bus=bus, poll_interval=seconds_of(poll_interval))
        try:
            yield RemoteDesk(
                session,
                workspace=workspace or "default",
                asker=asker or "agent",
                new_id=new_id,
                limits=limits or Limits(),
            )
        finally:
            await session.close()
    finally:
        await transport.close()


class OneToken:
    """The credentials of a desk with one token, of an agent, a person or a reader; it works for nobody else."""

    def __init__(self, token: str, me: CallerRecord) -> None:
        self._token = token
        self._me = me
        self.whose = me.agent or me.person or me.reader or ""

    def check(self, workspace: str, name: str) -> None:
        """Raise `PermissionDenied` unless this workspace and name are those of the token."""
        if (workspace, name) != (self._me.workspace, self.whose):
            own = f"{self.whose!r} in workspace {self._me.workspace!r}"
            raise PermissionDenied(name, f"this desk has the key or session of {own}, and no other")

    async def agent(self, workspace: str, asker: str) -> str:
        """See `Credentials.agent`."""
        if self._me.reader is not None:
            raise PermissionDenied(self.whose, "this key only reads settled questions")
        self.check(workspace, asker)
        return self._token

    async def person(self, workspace: str, responder: Responder) -> str:
        """See `Credentials.person`."""
        if self._me.person is None:
            raise PermissionDenied(
                self.whose, "an agent cannot answer: open a desk with the session of a person"
            )
        self.check(workspace, responder.id)
        return self._token

    async def reader(self, workspace: str, asker: str) -> str:
        """See `Credentials.reader`."""
        self.check(workspace, asker)
        return self._token


class RemoteSession:
    """What all views of one remote desk share: the transport, the credentials, and the waits of each asker."""

    def __init__(
        self, transport: HttpTransport, credentials: Credentials, *, bus: Bus | None, poll_interval: float
    ) -> None:
        self.opened_in = OpenedIn()
        self.transport = transport
        self.credentials = credentials
        self._bus = bus
        self._poll_interval = poll_interval
        self._waiters: dict[tuple[str, str], Waiters] = {}
        self.heartbeats = Heartbeats(self.beat, first=poll_interval)
        self._without_heartbeat: dict[Ref, None] = {}

    def remember(self, question: Question) -> None:
        """Remember that a question has no heartbeat, so that a wait for it need not find out."""
        if question.heartbeat is None:
            self._without_heartbeat[question.ref] = None
            if len(self._without_heartbeat) > _REMEMBERED:
                del self._without_heartbeat[next(iter(self._without_heartbeat))]

    def waiting_for(self, refs: Sequence[Ref], asker: str) -> AbstractContextManager[None]:
        """Say that an asker still waits for these, inside this context, unless they are known to have no heartbeat."""
        beating = [ref for ref in refs if ref not in self._without_heartbeat]
        return self.heartbeats.waiting_for(beating, asker) if beating else nullcontext()

    async def beat(self, refs: Sequence[Ref], asker: str) -> Mapping[Ref, float]:
        """Say that an asker still waits for these questions of one workspace; see `Store.beat`."""
        found: dict[Ref, float] = {}
        for start in range(0, len(refs), MOST_BEATS):
            part = {ref.id: ref for ref in refs[start : start + MOST_BEATS]}
            workspace = refs[start].workspace
            said = await self.transport.call(
                "POST",
                "/v1/heartbeats",
                token=await self.credentials.agent(workspace, asker),
                body=GiveHeartbeat(ids=tuple(part)),
                workspace=workspace,
                actor=asker,
            )
            heartbeats = _read(HeartbeatsRecord, said).heartbeats
            found |= {part[each]: seconds for each, seconds in heartbeats.items() if each in part}
        return found

    def waiters_for(self, workspace: str, asker: str) -> Waiters:
        """The waits of one asker."""
        place = (workspace, asker)
        if place not in self._waiters:

            async def token() -> str:
                return await self.credentials.agent(workspace, asker)

            async def read(refs: Collection[Ref]) -> dict[Ref, Outcome | None]:
                return await _outcomes(self.transport, await token(), refs)

            if self._bus is not None:
                interest = Interest()
                waiters = Waiters(
                    read,
                    partial(self._bus.listen, interest=interest),
                    poll_interval=self._poll_interval,
                    interest=interest,
                )
            else:
                hints = ServerHints(
                    self.transport,
                    token,
                    lambda: self._waiters[place].waited_for,
                    poll_interval=self._poll_interval,
                )
                waiters = Waiters(read, hints.listen, poll_interval=hints.poll_interval)
            self._waiters[place] = waiters
        return self._waiters[place]

    async def close(self) -> None:
        """End every wait."""
        await self.heartbeats.close()
        for waiters in self._waiters.values():
            await waiters.close()


class RemoteDesk(Desk):
    """The verbs, at a server. `Desk` says what each promises.

    The server decides by the token who may do what: an agent asks, a person answers.
    """

    def __init__(
        self,
        session: RemoteSession,
        *,
        workspace: str,
        asker: str,
        new_id: IdFactory,
        limits: Limits,
        close: Close | None = None,
    ) -> None:
        super().__init__(workspace=workspace, asker=asker, new_id=new_id, limits=limits, close=close)
        self._shared = session

    @property
    def _session(self) -> RemoteSession:
        """The shared parts, after checking that this is the process and event loop where the desk was opened."""
        self._shared.opened_in.check()
        return self._shared

    def scoped(self, workspace: str | None = None, *, asker: str | None = None) -> RemoteDesk:
        """See `Desk.scoped`."""
        scoped = RemoteDesk(
            self._shared,
            workspace=self._workspace if workspace is None else workspace,
            asker=self._asker if asker is None else asker,
            new_id=self._new_id,
            limits=self._limits,
            close=self._close,
        )
        scoped._address = self._address
        return scoped

    @usage('post("Which?", choices=["a", "b"])')
    async def post(self, prompt: str, **options: Unpack[QuestionOptions]) -> Question:
        """See `Desk.post`."""
        draft = self._draft(prompt, options)
        if not QUESTION_ID.fullmatch(draft.id):
            raise InvalidQuestion([Problem("id", f"a server does not accept this id: {draft.id!r}")])
        said_besides: dict[str, Any] = {
            name: options[name] for name in ("if_exists", "check_recipients") if name in options
        }
        body = PostQuestion.of(draft).model_copy(update=said_besides)
        try:
            said = await self._as_agent("POST", "/v1/questions", subject=draft.id, body=body)
        except ConflictingQuestion as conflict:
            raise KeyConflict(draft, conflict.existing) from None
        question = _question(said)
        self._session.remember(question)
        return question

    async def _beat(self, refs: Sequence[Ref]) -> Mapping[Ref, float]:
        return await self._session.beat([ref for ref in refs if QUESTION_ID.fullmatch(ref.id)], self._asker)

    def _waiting_for(self, refs: Sequence[Ref]) -> AbstractContextManager[None]:
        return self._session.waiting_for(refs, self._asker)

    def _outcome_of(self, ref: Ref, *, timeout: float | None) -> Awaitable[Outcome]:
        _path(ref.id, self._workspace)
        return self._session.waiters_for(self._workspace, self._asker).outcome_of(ref, timeout=timeout)

    async def _first_of(self, refs: Sequence[Ref], *, timeout: float | None) -> tuple[str, Outcome]:
        for ref in refs:
            _path(ref.id, self._workspace)
        waiters = self._session.waiters_for(self._workspace, self._asker)
        ref, outcome = await waiters.first_of(refs, timeout=timeout)
        return ref.id, outcome

    @usage('answer(question.id, value, by="ana")')
    async def answer(
        self,
        question_id: str,
        value: JsonValue,
        *,
        by: str | Responder,
        provenance: Provenance | None = None,
    ) -> Question:
        """See `Desk.answer`."""
        value = plain_value(value)
        provenance = provenance or UNKNOWN
        check_provenance(self._limits, provenance)
        if problems := value_problems(value):  # no request can carry it
            tried = await self.reject_answer(question_id, None, problems, by=by, provenance=provenance)
            raise InvalidAnswer(problems, outcome=tried.outcome)
        # The server checks whether it fits, and records the attempt.
        body = AnswerQuestion(value=value, **provenance.record())
        return await self._respond(question_id, "answer", by, body)

    async def reject_answer(
        self,
        question_id: str,
        value: JsonValue,
        problems: Sequence[Problem],
        *,
        by: str | Responder,
        provenance: Provenance | None = None,
    ) -> Question:
        """See `Desk.reject_answer`."""
        provenance = provenance or UNKNOWN
        check_problems(self._limits, problems, provenance)
        body = RejectAnswer(
            value=keepable(self._limits, value),
            problems=tuple(ProblemRecord(path=each.path, message=each.message) for each in problems),
            **provenance.record(),
        )
        return await self._respond(question_id, "reject-answer", by, body)

    async def decline(
        self,
        question_id: str,
        *,
        by: str | Responder,
        reason: str | None = None,
        provenance: Provenance | None = None,
    ) -> Question:
        """See `Desk.decline`."""
        provenance = provenance or UNKNOWN
        check_provenance(self._limits, provenance, reason=reason)
        body = DeclineQuestion(reason=reason, **provenance.record())
        return await self._respond(question_id, "decline", by, body)

    async def send_back(
        self,
        question_id: str,
        *,
        by: str | Responder,
        reason: str,
        provenance: Provenance | None = None,
    ) -> Question:
        """See `Desk.send_back`."""
        check_reason(reason)
        provenance = provenance or UNKNOWN
        check_provenance(self._limits, provenance, reason=reason)
        body = SendBack(reason=reason, **provenance.record())
        return await self._respond(question_id, "send-back", by, body)

    async def answer_all(self, items: Sequence[BulkItem], *, by: str | Responder) -> Sequence[BulkResult]:
        """See `Desk.answer_all`."""
        check_bulk_items(items)
        responder = responder_of(by)
        self._shared.opened_in.check()
        found: dict[str, BulkResult] = {}
        bodies: list[AnswerItem | DeclineItem] = []
        for item in items:
            try:
                bodies.append(await self._item(item, responder))
            except HandraiseError as error:
                found[item.question_id] = BulkResult(item.question_id, error=error)
        for answers in _requests(bodies):
            said = await self._session.transport.call(
                "POST",
                "/v1/answers",
                token=await self._session.credentials.person(self._workspace, responder),
                body=AnswerAll(answers=answers),
                workspace=self._workspace,
                actor=responder.id,
            )
            for record in _read(AnswerResults, said).results:
                found[record.question_id] = record.result(workspace=self._workspace, actor=responder.id)
        if any(item.question_id not in found for item in items):
            raise StoreUnavailable("The server did not say what came of every answer.")
        return [found[item.question_id] for item in items]

    async def _item(self, item: BulkItem, responder: Responder) -> AnswerItem | DeclineItem:
        """One of several answers as it is sent; raises why it cannot be sent."""
        _path(item.question_id, self._workspace)
        provenance = item.provenance or UNKNOWN
        said_besides = {"question_id": item.question_id, "by": responder.id, **provenance.record()}
        if isinstance(item, BulkAnswer):
            check_provenance(self._limits, provenance)
            if value_problems(item.value):
                await self.answer(item.question_id, item.value, by=responder, provenance=provenance)
            return AnswerItem(value=item.value, **said_besides)
        check_provenance(self._limits, provenance, reason=item.reason)
        return DeclineItem(decline=True, reason=item.reason, **said_besides)

    async def withdraw(
        self, question_id: str, *, reason: str | None = None, by: str | Responder | None = None
    ) -> Question:
        """See `Desk.withdraw`."""
        check_texts(self._limits, reason=reason)
        body = WithdrawQuestion(reason=reason)
        if by is not None:
            return await self._respond(question_id, "withdraw", by, body)
        return _question(await self._to_question(question_id, "withdraw", body=body))

    async def withdraw_all(self, asker: str, *, by: str | Responder, reason: str | None = None) -> int:
        """See `Desk.withdraw_all`."""
        check_texts(self._limits, reason=reason)
        if not _sendable(asker):
            return 0
        responder = responder_of(by)
        said = await self._session.transport.call(
            "POST",
            "/v1/withdraw",
            token=await self._session.credentials.person(self._workspace, responder),
            body=WithdrawAll(asker=asker, reason=reason),
            workspace=self._workspace,
            actor=responder.id,
        )
        return _read(WithdrawnRecord, said).withdrawn

    async def apply_grant(self, question_id: str) -> Question | None:
        """See `Desk.apply_grant`."""
        said = await self._to_question(question_id, "apply-grant")
        return None if said is None else _question(said)

    async def consume_approval(self, question_id: str, *, request: str | None = None) -> Action:
        """See `Desk.consume_approval`."""
        check_texts(self._limits, request=request)
        # If the caller gave no request id, the idempotency key takes its place: it is sent again with every retry.
        body = ConsumeQuestion(request=request)
        action = _read(ActionRecord, await self._to_question(question_id, "consume", body=body))
        return Action(tool=action.tool, arguments=action.arguments)

    async def receipt(self, question_id: str) -> str:
        """See `Desk.receipt`."""
        path = f"{_path(question_id, self._workspace)}/receipt"
        return _read(ReceiptToken, await self._as_agent("GET", path, subject=question_id)).receipt

    async def claim_sending(self, question_id: str, *, lease: Span = SENDING_LEASE) -> bool:
        """See `Desk.claim_sending`."""
        body = ClaimSending(lease=check_lease(lease).total_seconds())
        return _read(ClaimedRecord, await self._to_question(question_id, "claim-sending", body=body)).claimed

    async def mark_sent(self, question_id: str, *, channel: str | None = None) -> Question:
        """See `Desk.mark_sent`."""
        check_texts(self._limits, channel=channel)
        return _question(await self._to_question(question_id, "sent", body=MarkSent(channel=channel)))

    async def take_back(
        self, question_id: str, *, by: str | Responder, reason: str | None = None
    ) -> Question:
        """See `Desk.take_back`."""
        check_texts(self._limits, reason=reason)
        return await self._respond(question_id, "take-back", by, TakeBack(reason=reason))

    async def report(
        self,
        question_id: str,
        *,
        ok: bool,
        text: str,
        link: str | None = None,
        details: JsonValue = None,
    ) -> Question:
        """See `Desk.report`."""
        record = check_report(self._limits, ok=ok, text=text, link=link, details=details)
        return _question(await self._to_question(question_id, "report", body=ReportQuestion(**record)))

    async def ask_back(
        self,
        question_id: str,
        text: str,
        *,
        by: str | Responder,
        provenance: Provenance | None = None,
    ) -> Question:
        """See `Desk.ask_back`."""
        return await self._write(question_id, "ask-back", text, by, provenance)

    async def note(
        self,
        question_id: str,
        text: str,
        *,
        by: str | Responder,
        provenance: Provenance | None = None,
    ) -> Question:
        """See `Desk.note`."""
        return await self._write(question_id, "note", text, by, provenance)

    async def _write(
        self, question_id: str, what: str, text: str, by: str | Responder, provenance: Provenance | None
    ) -> Question:
        provenance = provenance or UNKNOWN
        check_message(self._limits, text)
        check_provenance(self._limits, provenance)
        return await self._respond(question_id, what, by, WriteMessage(text=text, **provenance.record()))

    async def take(
        self, question_id: str, *, by: str | Responder, provenance: Provenance | None = None
    ) -> Question:
        """See `Desk.take`."""
        return await self._share(question_id, "take", by, ShareQuestion, provenance)

    async def release(
        self, question_id: str, *, by: str | Responder, provenance: Provenance | None = None
    ) -> Question:
        """See `Desk.release`."""
        return await self._share(question_id, "release", by, ShareQuestion, provenance)

    async def bring_in(
        self,
        question_id: str,
        people: Sequence[str],
        *,
        by: str | Responder,
        reason: str | None = None,
        provenance: Provenance | None = None,
    ) -> Question:
        """See `Desk.bring_in`."""
        check_texts(self._limits, reason=reason)
        body = partial(BringIn, people=tuple(people), reason=reason)
        return await self._share(question_id, "bring-in", by, body, provenance)

    async def hand_over(
        self,
        question_id: str,
        people: Sequence[str],
        *,
        by: str | Responder,
        reason: str | None = None,
        provenance: Provenance | None = None,
    ) -> Question:
        """See `Desk.hand_over`."""
        check_texts(self._limits, reason=reason)
        body = partial(BringIn, people=tuple(people), reason=reason)
        return await self._share(question_id, "hand-over", by, body, provenance)

    async def set_aside(
        self,
        question_id: str,
        *,
        by: str | Responder,
        until: datetime | None = None,
        provenance: Provenance | None = None,
    ) -> Question:
        """See `Desk.set_aside`."""
        return await self._share(question_id, "set-aside", by, partial(SetAside, until=until), provenance)

    async def put_back(
        self, question_id: str, *, by: str | Responder, provenance: Provenance | None = None
    ) -> Question:
        """See `Desk.put_back`."""
        return await self._share(question_id, "put-back", by, ShareQuestion, provenance)

    async def _share(
        self,
        question_id: str,
        what: str,
        by: str | Responder,
        body: Callable[..., Request],
        provenance: Provenance | None,
    ) -> Question:
        provenance = provenance or UNKNOWN
        check_provenance(self._limits, provenance)
        return await self._respond(question_id, what, by, body(**provenance.record()))

    async def _store_attachment(
        self, attachment: Attachment, data: bytes, by: str | Responder | None
    ) -> None:
        if by is None:
            actor, token = self._asker, await self._session.credentials.agent(self._workspace, self._asker)
        else:
            responder = responder_of(by)
            actor, token = responder.id, await self._session.credentials.person(self._workspace, responder)
        await self._session.transport.call(
            "POST",
            "/v1/files",
            token=token,
            workspace=self._workspace,
            actor=actor,
            query={"name": attachment.name, "media_type": attachment.media_type},
            content=data,
        )

    async def read_attachment(self, question_id: str, digest: str) -> bytes:
        """See `Desk.read_attachment`."""
        path = _path(question_id, self._workspace)
        if not DIGEST.fullmatch(digest):
            await self.get(question_id)
            raise AttachmentNotFound(digest, question_id)
        data = await self._as_reader(f"{path}/files/{digest}", subject=question_id) or b""
        if hashlib.sha256(data).hexdigest() != digest:
            raise StoreUnavailable(f"The bytes of file {digest} are not those that were uploaded.")
        return data

    async def reply(
        self,
        question_id: str,
        text: str,
        *,
        to: int | None = None,
        attachments: Sequence[Attachment] = (),
    ) -> Question:
        """See `Desk.reply`."""
        check_message(self._limits, text)
        check_attachments(self._limits, attachments)
        body = ReplyToPeople(text=text, to=to, attachments=tuple(attachments))
        return _question(await self._to_question(question_id, "reply", body=body))

    async def _changes_of(self, question_id: str) -> AsyncGenerator[None, None]:
        self._ref(question_id)
        token = await self._session.credentials.agent(self._workspace, self._asker)
        async with aclosing(self._session.transport.stream("/v1/events", token=token, after=None)) as events:
            async for kind, data in events:
                if kind == "ready":
                    yield
                elif data and EventRecord.model_validate_json(data).question_id == question_id:
                    yield  # without data it is a heartbeat

    async def list_grants(self, *, after: str | None = None, limit: int = PAGE) -> Page[Grant]:
        """See `Desk.list_grants`."""
        check_limit(limit)
        said = await self._as_reader("/v1/grants", query=_without_none(after=after, limit=limit))
        page = _read(GrantPage, said)
        return Page([record.grant() for record in page.items], page.next)

    async def revoke_grant(self, grant_id: str, *, by: str) -> Grant:
        """See `Desk.revoke_grant`."""
        path = f"/v1/grants/{quote(grant_id, safe='', errors='replace')}/revoke"
        return _read(GrantRecord, await self._as_person(path, by, subject=grant_id)).grant()

    async def keep_answer(
        self, question_id: str, *, until: datetime, by: str | Responder, spot_check: float = SPOT_CHECK
    ) -> StandingAnswer:
        """See `Desk.keep_answer`."""
        said = await self._as_person(
            f"{_path(question_id, self._workspace)}/keep",
            by,
            subject=question_id,
            body=KeepAnswer(until=until, spot_check=spot_check),
        )
        return _read(StandingAnswerRecord, said).standing_answer()

    async def list_standing_answers(
        self, *, after: str | None = None, limit: int = PAGE
    ) -> Page[StandingAnswer]:
        """See `Desk.list_standing_answers`."""
        check_limit(limit)
        said = await self._as_reader("/v1/standing-answers", query=_without_none(after=after, limit=limit))
        page = _read(StandingAnswerPage, said)
        return Page([record.standing_answer() for record in page.items], page.next)

    async def revoke_standing_answer(self, standing_id: str, *, by: str) -> StandingAnswer:
        """See `Desk.revoke_standing_answer`."""
        path = f"/v1/standing-answers/{quote(standing_id, safe='', errors='replace')}/revoke"
        said = await self._as_person(path, by, subject=standing_id)
        return _read(StandingAnswerRecord, said).standing_answer()

    async def get(self, question_id: str) -> Question:
        """See `Desk.get`."""
        return _question(
            await self._as_agent("GET", _path(question_id, self._workspace), subject=question_id)
        )

    async def join(self, question_id: str, *, key: str) -> Question:
        """See `Desk.join`."""
        check_key(key, self._limits)
        return _question(await self._to_question(question_id, "join", body=JoinQuestion(key=key)))

    async def find_by_key(self, key: str) -> Question | None:
        """See `Desk.find_by_key`."""
        if not _sendable(key):
            return None
        said = await self._as_agent("GET", "/v1/questions", query={"key": key})
        return next((each.question() for each in _read(QuestionPage, said).items), None)

    async def list_pending(
        self,
        *,
        conversation: str | None = None,
        recipient: str | Responder | None = None,
        asker: str | None = None,
        aside: bool = False,
        filters: PendingFilters | None = None,
        order: Order = "age",
        after: str | None = None,
        limit: int = PAGE,
    ) -> Page[Question]:
        """See `Desk.list_pending`."""
        check_limit(limit)
        filters = filters or NO_FILTERS
        check_filters(filters, has_person=recipient is not None)
        if not all(map(_sendable, filter(None, (conversation, asker, after, filters.tool)))):
            return Page([], None)
        by_age = order == "age"
        return await self._page(
            recipient,
            view=filters.view,
            kind=filters.kind,
            risk=filters.risk,
            tool=filters.tool,
            expires_within=_seconds(filters.expires_within),
            older_than=_seconds(filters.older_than),
            conversation=conversation,
            asker=asker,
            aside=aside or None,
            order=None if by_age else order,
            after=after,
            limit=limit,
        )

    async def count_views(self, recipient: str | Responder) -> ViewCounts:
        """See `Desk.count_views`."""
        responder = responder_of(recipient)
        said = await self._session.transport.call(
            "GET",
            "/v1/views",
            token=await self._session.credentials.person(self._workspace, responder),
            actor=responder.id,
        )
        return _read(ViewCountsRecord, said).counts()

    async def list_settled(
        self,
        *,
        conversation: str | None = None,
        recipient: str | Responder | None = None,
        asker: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        outcome: Ended | None = None,
        by: str | None = None,
        after: str | None = None,
        limit: int = PAGE,
    ) -> Page[Question]:
        """See `Desk.list_settled`."""
        check_limit(limit)
        settled_filter(since=since, until=until, outcome=outcome, by=by)
        if not all(map(_sendable, filter(None, (conversation, asker, by)))):
            return Page([], None)
        if after is not None and not _sendable(after):
            raise ValueError("`after` is not the cursor of a page: pass the `next` of the page before")
        return await self._page(
            recipient,
            status="settled",
            conversation=conversation,
            asker=asker,
            since=None if since is None else since.isoformat(),
            until=None if until is None else until.isoformat(),
            outcome=outcome,
            by=by,
            after=after,
            limit=limit,
        )

    async def search(
        self,
        text: str,
        *,
        conversation: str | None = None,
        recipient: str | Responder | None = None,
        asker: str | None = None,
        after: str | None = None,
        limit: int = PAGE,
    ) -> Page[Question]:
        """See `Desk.search`."""
        check_limit(limit)
        words = " ".join(words_of(text)) and text[:MOST_QUERY]
        if not words or not all(map(_sendable, filter(None, (words, conversation, asker, after)))):
            return Page([], None)
        return await self._page(
            recipient, "/v1/search", q=words, conversation=conversation, asker=asker, after=after, limit=limit
        )

    async def list_followers(self, question_id: str, *, limit: int = PAGE) -> Sequence[Question]:
        """See `Desk.list_followers`."""
        check_limit(limit)
        path = f"{_path(question_id, self._workspace)}/followers"
        said = await self._as_reader(path, subject=question_id, query={"limit": limit})
        return [record.question() for record in _read(QuestionPage, said).items]

    async def history(self, question_id: str) -> Sequence[Event]:
        """See `Desk.history`."""
        path = f"{_path(question_id, self._workspace)}/history"
        said = await self._as_reader(path, subject=question_id)
        return [record.event() for record in _read(EventPage, said).items]

    async def feed(self, *, after: str | None = None, limit: int = 500) -> Page[Event]:
        """See `Desk.feed`."""
        check_limit(limit)
        if after is not None and not _FEED_CURSOR.fullmatch(after):
            raise ValueError("`after` is not a cursor of this feed")
        while True:
            said = await self._as_reader("/v1/feed", query=_without_none(after=after, limit=limit))
            page = _read(EventPage, said)
            if page.items or page.next in (None, after):
                return Page([record.event() for record in page.items], page.next)
            after = page.next  # everything up to here concerned others

    async def follow(self, *, after: str | None = None) -> AsyncGenerator[Event, None]:
        """See `Desk.follow`."""
        token = await self._session.credentials.reader(self._workspace, self._asker)
        async with aclosing(
            self._session.transport.stream("/v1/events", token=token, after=after)
        ) as messages:
            async for kind, data in messages:
                if data and kind != "ready":
                    yield EventRecord.model_validate_json(data).event()

    async def run_due(self) -> int:
        """See `Desk.run_due`."""
        return _read(RunDueRecord, await self._as_agent("POST", "/v1/run-due")).settled

    async def _recover(self, max_age: timedelta) -> Recovered:
        check_max_age(max_age)
        body = Recover(max_age=max_age.total_seconds())
        said = await self._as_agent("POST", "/v1/recover", body=body)
        return _read(RecoveredRecord, said).recovered()

    async def durability(self) -> Durability:
        """See `Desk.durability`."""
        said = await self._as_agent("GET", "/v1/durability")
        return _read(DurabilityRecord, said).durability()

    async def _page(
        self, recipient: str | Responder | None, path: str = "/v1/questions", **query: Any
    ) -> Page[Question]:
        if recipient is None and query.get("asker") == self._asker:
            # With the agent's own key: nobody else sees the state of its questions.
            said = await self._as_agent("GET", path, query=_without_none(**query))
        elif recipient is None:
            said = await self._as_reader(path, query=_without_none(**query))
        else:
            responder = responder_of(recipient)
            said = await self._session.transport.call(
                "GET",
                path,
                token=await self._session.credentials.person(self._workspace, responder),
                query=_without_none(**query, recipient=responder.id),
                actor=responder.id,
            )
        page = _read(QuestionPage, said)
        return Page([record.question() for record in page.items], page.next)

    async def _respond(self, question_id: str, verb: str, by: str | Responder, body: Request) -> Question:
        path = f"{_path(question_id, self._workspace)}/{verb}"
        named = body.model_copy(update={"by": responder_of(by).id})
        return _question(await self._as_person(path, by, subject=question_id, body=named))

    async def _as_person(
        self, path: str, by: str | Responder, *, subject: str, body: Request | None = None
    ) -> bytes | None:
        responder = responder_of(by)
        return await self._session.transport.call(
            "POST",
            path,
            token=await self._session.credentials.person(self._workspace, responder),
            body=body,
            subject=subject,
            workspace=self._workspace,
            actor=responder.id,
        )

    async def _to_question(self, question_id: str, verb: str, *, body: Request | None = None) -> bytes | None:
        path = f"{_path(question_id, self._workspace)}/{verb}"
        return await self._as_agent("POST", path, subject=question_id, body=body)

    async def _as_agent(
        self,
        method: str,
        path: str,
        *,
        subject: str = "",
        body: Request | None = None,
        query: dict[str, Any] | None = None,
    ) -> bytes | None:
        return await self._session.transport.call(
            method,
            path,
            token=await self._session.credentials.agent(self._workspace, self._asker),
            subject=subject,
            workspace=self._workspace,
            actor=self._asker,
            body=body,
            query=query,
        )

    async def _as_reader(
        self, path: str, *, subject: str = "", query: dict[str, Any] | None = None
    ) -> bytes | None:
        return await self._session.transport.call(
            "GET",
            path,
            token=await self._session.credentials.reader(self._workspace, self._asker),
            subject=subject,
            workspace=self._workspace,
            actor=self._asker,
            query=query,
        )


def _seconds(span: timedelta | None) -> str | None:
    """A length of time as a parameter."""
    return None if span is None else f"{span.total_seconds():.6f}s"


async def _outcomes(transport: HttpTransport, token: str, refs: Collection[Ref]) -> dict[Ref, Outcome | None]:
    """The outcomes of settled questions, None for questions that do not exist; see `Store.outcomes`."""
    places = {ref.id: ref for ref in refs}
    ids = list(places)
    pages = [ids[start : start + MOST_IDS] for start in range(0, len(ids), MOST_IDS)]
    said = await asyncio.gather(
        *(transport.call("GET", "/v1/outcomes", token=token, query={"id": page}) for page in pages)
    )
    found: dict[Ref, Outcome | None] = {}
    for each in said:
        states = _read(OutcomeStates, each)
        found |= {places[state.id]: state.outcome.outcome() for state in states.settled if state.outcome}
        found |= {places[unknown]: None for unknown in states.unknown}
    return found


def _requests(bodies: Sequence[AnswerItem | DeclineItem]) -> Iterator[tuple[AnswerItem | DeclineItem, ...]]:
    """The answers in parts that a server accepts in one request."""
    part: list[AnswerItem | DeclineItem] = []
    size = 0
    for body in bodies:
        length = len(body.model_dump_json().encode())
        if part and (len(part) == MOST_ANSWERS or size + length > _MOST_BYTES):
            yield tuple(part)
            part, size = [], 0
        part.append(body)
        size += length
    if part:
        yield tuple(part)


def _path(question_id: str, workspace: str) -> str:
    """The path of a question; raises `QuestionNotFound` for an id that no server accepts."""
    check_id(question_id)
    if not QUESTION_ID.fullmatch(question_id):
        raise QuestionNotFound(question_id, workspace)
    return f"/v1/questions/{quote(question_id, safe='')}"


def _read(kind: type[T], said: bytes | None) -> T:
    """Parse a server's response as a record of this kind."""
    try:
        return kind.model_validate_json(said or b"{}")
    except pydantic.ValidationError as error:
        raise StoreUnavailable(
            f"The server's response is not a {kind.__name__}: is this the address of a Handraise server?"
        ) from error


def _question(said: bytes | None) -> Question:
    return _read(QuestionRecord, said).question()


def _sendable(text: str) -> bool:
    return not text_problem(text)


def _without_none(**query: Any) -> dict[str, Any]:
    return {name: value for name, value in query.items() if value is not None}

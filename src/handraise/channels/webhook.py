"""Webhooks: a system of the operator's is told of questions, and answers for the person whose address it is.

An address is `{"url": "https://…", "secret": "whsec_…"}`, with a `previous_secret` while the secret is being changed.
Both ways are signed as Standard Webhooks says. What is sent is a CloudEvent.
"""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from urllib.parse import quote

import pydantic

from handraise.channels.http_errors import status_error
from handraise.channels.inbound_replies import Replies, Reply, ReplyResult
from handraise.channels.safe_http import (
    URL,
    IPNetwork,
    SafeHttpClient,
    open_safe_client,
    place_of,
    read_url,
)
from handraise.model.attachments import Attachment
from handraise.model.callbacks import Callback, callback_place
from handraise.model.deliveries import callback_destination
from handraise.model.json_values import Json
from handraise.model.questions import Question
from handraise.model.thread_messages import MOST_MESSAGES, MessageKind
from handraise.model.webhook_signatures import genuine, is_fresh, secret_bytes, signed
from handraise.ports.channel import Message, Notice, NotSent, Response
from handraise.wire.records import MessageRecord, QuestionRecord

_TYPE = "dev.handraise.question."
_ONE, _SEVERAL = "application/cloudevents+json", "application/cloudevents-batch+json"
_NEVER_CHANGES = frozenset(
    {
        "id",
        "workspace",
        "asker",
        "prompt",
        "form",
        "context",
        "key",
        "conversation",
        "tool_call",
        "recipients",
    }
    | {
        "quorum",
        "veto",
        "max_attempts",
        "undo_for",
        "timeline",
        "asked_at",
        "expires_at",
        "replies",
        "replaces",
        "attachments",
    }
)
"""The parts of a question that are the same however often it is told."""
_OF_THREADS = frozenset({"thread", "asked_back", "replied"})
"""What is told as well if people or the agent have written something."""
_AT_THE_END = frozenset({"status", "votes", "outcome"})
_CALLED_BACK = frozenset(
    {"id", "workspace", "asker", "key", "conversation", "tool_call", "status", "outcome"}
)
"""What the asker is told: how its question ended, and the ids by which it knows the question."""

_PATIENCE = timedelta(days=3)
_YES, _GONE = range(200, 300), (410,)

_LARGEST = 65_536
_STATUSES = {"taken": 200, "misfit": 422, "moved": 409, "late": 409, "refused": 404}


@asynccontextmanager
async def open_webhook(
    replies: Replies, *, allowed: Sequence[IPNetwork] = (), callback_hosts: Collection[str] = ()
) -> AsyncIterator[Webhook]:
    """Webhooks to the public network, and to private ones that are allowed, for as long as this context lasts.

    Agents may have themselves called back at `callback_hosts`; `*` is every host.
    """
    async with open_safe_client(allowed) as outward:
        yield Webhook(replies, outward, allowed, callback_hosts=callback_hosts)


class Webhook:
    """Tells systems of questions and takes what they answer. See `handraise.ports.channel`."""

    name = "webhook"
    private = False
    ends_once = True
    patience = _PATIENCE

    def __init__(
        self,
        replies: Replies,
        outward: SafeHttpClient,
        allowed: Sequence[IPNetwork],
        *,
        callback_hosts: Collection[str] = (),
        now: Callable[[], float] = time.time,
    ) -> None:
        self._replies = replies
        self._outward = outward
        self._allowed = allowed
        self._callback_hosts = callback_hosts
        self._now = now

    def rate_limit_key(self, to: Json) -> str | None:
        """The host and port."""
        endpoint = self._endpoint(to)
        return None if endpoint is None else f"webhook {place_of(endpoint.url)}"

    def same_place(self, one: Json, other: Json) -> bool:
        """Whether both have the same URL, and perhaps different secrets."""
        endpoints = [self._endpoint(each) for each in (one, other)]
        return None not in endpoints and len({str(each.url) for each in endpoints if each}) == 1

    async def send(self, message: Message) -> Json:
        """Tell a system of a question, or of several that waited."""
        events: list[Json] = [
            self._event(
                message,
                each,
                id=each.delivery_id,
                kind=each.reason,
                at=message.at,
                fields=_NEVER_CHANGES | (_OF_THREADS if each.question.thread else frozenset()),
            )
            for each in message.notices
        ]
        if len(events) == 1:
            return await self._post(message.to, message.id, events[0], _ONE)
        return await self._post(message.to, message.id, events, _SEVERAL)

    async def update(self, message: Message, receipt: Json) -> None:
        """Tell it how the question ended, and then what came of it. Each event has the same id every time."""
        del receipt
        [notice] = message.notices
        outcome, report = notice.question.outcome, notice.question.report
        if outcome is None:
            raise NotSent("the question has not ended", again=False)
        await self._tell(message, "settled", outcome.at, _AT_THE_END)
        if report is not None:
            await self._tell(message, "reported", report.at, _AT_THE_END | {"report"})

    def callback_problem(self, callback: Callback) -> str | None:
        """Why an agent may not be called back there; see `handraise.ports.channel.CallbackSender`."""
        endpoint = self._endpoint(callback_destination(callback))
        if endpoint is None:
            return "this server only calls https, and no private network"
        host, _, _ = (callback_place(callback) or "").rpartition(":")
        if "*" not in self._callback_hosts and host not in self._callback_hosts:
            return "this server does not call this host back: its operator names hosts in HANDRAISE_CALLBACK_HOSTS"
        return None

    async def call_back(
        self,
        to: Json,
        question: Question,
        *,
        id: str,  # noqa: A002 -- as in `Message`
    ) -> None:
        """Tell an asker how its question ended. The event has the same id and bytes every time."""
        outcome = question.outcome
        if outcome is None:
            raise NotSent("the question has not ended", again=False)
        if problem := self.callback_problem(Callback(**to)):
            # The server that accepted the question allowed it: this one may have older settings.
            raise NotSent(problem, again=True)
        record = QuestionRecord.of(question, with_state=False).model_dump(
            mode="json", include=set(_CALLED_BACK)
        )
        event = _cloud_event(question, id=id, kind="settled", at=outcome.at, data={"question": record})
        await self._post(to, id, event, _ONE)

    async def _tell(self, message: Message, kind: str, at: datetime, fields: frozenset[str]) -> None:
        [notice] = message.notices
        name = f"{message.id}-{kind}"
        event = self._event(
            message,
            notice,
            id=name,
            kind=kind,
            at=at,
            fields=_NEVER_CHANGES | fields,
        )
        await self._post(message.to, name, event, _ONE)

    async def receive(self, headers: Mapping[str, str], body: bytes) -> Response:
        """Take an answer from the system at somebody's address; see `handraise.ports.channel.Receiver`."""
        if not is_fresh(headers, now=self._now()):
            return Response(status=401)
        try:
            given = _Given.model_validate_json(body if len(body) <= _LARGEST else b"")
        except (pydantic.ValidationError, RecursionError):
            return Response(status=400)
        address = await self._replies.find_address(
            given.workspace, self.name, given.address.recipient, given.address.id
        )
        endpoint = None if address is None else self._endpoint(address.to)
        # An unknown one takes as long as one with another secret.
        secrets = (b"",) if endpoint is None else endpoint.secrets
        if not genuine(headers, body, secrets, now=self._now()) or endpoint is None:
            return Response(status=401)
        said = await self._replies.take(
            Reply(
                workspace=given.workspace,
                question_id=given.question,
                channel=self.name,
                identity=given.address.id,
                recipient=given.address.recipient,
                id=headers["webhook-id"],
                evidence="webhook-signature",
                value=given.value,
                declines=given.decline,
                sends_back=given.send_back is not None,
                sets_aside=given.not_for_me,
                reason=given.reason if given.send_back is None else given.send_back,
                seen=given.seen,
                text=given.ask_back if given.ask_back is not None else given.note,
                writes=given.writes,
            )
        )
        return _said(said)

    async def _post(self, to: Json, name: str, content: Json, content_type: str) -> Json:
        endpoint = self._endpoint(to)
        if endpoint is None:
            raise NotSent("its address makes no sense any more", again=False)
        body = json.dumps(content, separators=(",", ":")).encode()
        headers = {
            "content-type": f"{content_type}; charset=utf-8",
            "user-agent": "handraise",
            **signed(name, body, endpoint.secrets, now=self._now()),
        }
        answered = await self._outward.post(endpoint.url, headers=headers, content=body)
        if answered.status not in _YES:
            raise status_error("it", answered, final=_GONE, now=self._now())
        return {"status": answered.status}

    def _event(
        self,
        message: Message,
        notice: Notice,
        *,
        id: str,  # noqa: A002 -- the word of CloudEvents
        kind: str,
        at: datetime,
        fields: frozenset[str],
    ) -> Json:
        """A CloudEvent about a question; the same every time, unless somebody has written something since."""
        question = notice.question
        record = QuestionRecord.of(question, with_state=False).model_dump(mode="json", include=set(fields))
        record["attachments"] = self._files(question, question.attachments)
        data: dict[str, Json] = {"question": record, "recipient": message.recipient, "link": notice.link}
        if fields >= _OF_THREADS:
            data["thread"] = [
                MessageRecord.of(each).model_dump(mode="json")
                | {"attachments": self._files(question, each.attachments)}
                for each in notice.thread
            ]
        return _cloud_event(question, id=id, kind=kind, at=at, data=data)

    def _files(self, question: Question, files: Sequence[Attachment]) -> Json:
        """What files are, and where a program that may see the question downloads them. Not their bytes."""
        return [{**each.record(), "url": self._replies.file_link(question, each)} for each in files]

    def _endpoint(self, to: Json) -> _Endpoint | None:
        try:
            address = _To.model_validate(to)
        except pydantic.ValidationError:
            return None
        url = read_url(address.url, self._allowed)
        given = (address.secret, address.previous_secret)
        secrets = [secret_bytes(each) for each in given if each is not None]
        if url is None or None in secrets:
            return None
        return _Endpoint(url, tuple(filter(None, secrets)))


class _Endpoint(NamedTuple):
    """Where to send, and what to sign with: the present secret and, while it is being changed, the one before."""

    url: URL
    secrets: tuple[bytes, ...]


class _Part(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(frozen=True, extra="forbid", strict=True)


class _To(_Part):
    url: str
    secret: str = pydantic.Field(repr=False)
    previous_secret: str | None = pydantic.Field(default=None, repr=False)


class _Where(_Part):
    recipient: str
    id: str


class _Given(_Part):
    """What a system says for the person whose address it is: a value, that they decline, or what they write.

    `send_back` is what is to be changed, and `not_for_me` leaves the question to others.

    `seen` is how many messages of the thread it has shown them: an approval must cover all.
    """

    workspace: str
    address: _Where
    question: str
    value: Any = None
    decline: bool = False
    reason: str | None = None
    seen: int | None = pydantic.Field(default=None, ge=0, le=MOST_MESSAGES)
    ask_back: str | None = pydantic.Field(default=None, repr=False)
    note: str | None = pydantic.Field(default=None, repr=False)
    send_back: str | None = pydantic.Field(default=None, repr=False)
    not_for_me: bool = False

    @property
    def writes(self) -> MessageKind | None:
        """The kind of message that it is, if it is one."""
        return "asked_back" if self.ask_back is not None else "noted" if self.note is not None else None

    @pydantic.model_validator(mode="after")
    def _one_of_all(self) -> _Given:
        said = (
            "value" in self.model_fields_set,
            self.decline,
            self.ask_back is not None,
            self.note is not None,
            self.send_back is not None,
            self.not_for_me,
        )
        if sum(said) != 1:
            raise ValueError("expected one of value, decline, send_back, not_for_me, ask_back and note")
        if self.reason is not None and not self.decline:
            raise ValueError("a reason goes with decline; that of a denial is in its value")
        return self


def _cloud_event(
    question: Question,
    *,
    id: str,  # noqa: A002 -- the word of CloudEvents
    kind: str,
    at: datetime,
    data: Json,
) -> Json:
    return {
        "specversion": "1.0",
        "id": id,
        "source": f"urn:handraise:workspace:{quote(question.workspace, safe='')}",
        "type": f"{_TYPE}{kind}",
        "subject": question.id,
        "time": at.isoformat(),
        "datacontenttype": "application/json",
        "data": data,
    }


def _said(said: ReplyResult) -> Response:
    status = _STATUSES[said.kind]
    body = json.dumps({"kind": said.kind, "text": said.text}).encode()
    return Response(status=status, body=body, content_type="application/json")

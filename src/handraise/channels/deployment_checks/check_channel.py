"""What all deployment checks have in common: one question for each request of a service, and one answer to the service.

The answer is a callback of the question. It is stored with the question, and sent by whichever server has it first, so
a server that is killed loses nothing.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Protocol

from handraise import AlreadySettled, Approval, Desk, HandraiseError, NotApproved, Question
from handraise.errors import AlreadyConsumed
from handraise.model.briefs import Brief, Link
from handraise.model.callbacks import Callback, ServiceCallback
from handraise.model.json_values import Json, digest
from handraise.model.visible import visible_line
from handraise.outcomes import Expired, Withdrawn
from handraise.ports.channel import Message, NotSent, Response
from handraise.presentation.outcome_text import outcome_text

_PATIENCE = timedelta(days=3)
_LONGEST_COMMENT = 900


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckRequest:
    """What a service wants to have approved. Everything in it comes from a signed webhook.

    `place` names it for good: a request with the same place is the same question. `subject` is what it is about, such as
    a merge request. With `as_of`, a request ends pending questions about older states of its subject, in whatever order
    the webhooks come, and asks again if its own question ended undecided before that time.
    """

    place: Sequence[Json]
    subject: str
    prompt: str
    tool: str
    arguments: Mapping[str, Json]
    links: Sequence[Link]
    started_by: str
    url: str
    details: Mapping[str, Json]
    expires_in: timedelta
    as_of: datetime | None = None


@dataclass(frozen=True, slots=True)
class CheckEnded:
    """Nobody needs a decision about this subject any more, since `as_of`."""

    subject: str
    as_of: datetime


@dataclass(frozen=True, slots=True)
class CheckVerdict:
    """What the service is told."""

    is_approved: bool
    comment: str


class CheckService(Protocol):
    """A CI service: reads its webhooks, and knows how to answer it."""

    @property
    def name(self) -> str:
        """Its name, as in the URL of its webhooks."""
        ...

    @property
    def webhook_secret(self) -> bytes:
        """What its webhooks are signed with."""
        ...

    def read(self, headers: Mapping[str, str], body: bytes) -> CheckRequest | CheckEnded | Response:
        """Read a webhook, if it is signed and allowed; otherwise return the response to it."""
        ...

    def knows(self, to: Json) -> bool:
        """Whether this is a place of the service that may be called."""
        ...

    async def tell(self, to: Json, verdict: CheckVerdict) -> None:
        """Tell the service what was decided; raises `NotSent`."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckRules:
    """Who decides. `people` maps logins of the service to names: whoever starts something cannot approve it.

    If it is None, every question is asked in the name of the service.
    """

    workspace: str
    recipients: Sequence[str] = ()
    people: Mapping[str, str] | None = field(default=None, repr=False)


class CheckChannel:
    """Posts an approval for each request of a service, and tells the service what people decided.

    No message to people goes through it. See `handraise.ports.channel`.
    """

    private = False
    patience = _PATIENCE

    def __init__(self, service: CheckService, desk: Desk, rules: CheckRules, *, base_url: str) -> None:
        self.name = service.name
        self._service = service
        self._desk = desk
        self._rules = rules
        self._base_url = base_url

    async def receive(self, headers: Mapping[str, str], body: bytes) -> Response:
        """Take a webhook. The same one again changes nothing."""
        found = self._service.read(headers, body)
        if isinstance(found, Response):
            return found
        if isinstance(found, CheckEnded):
            for each in await self._pending(found.subject):
                if _as_of(each) <= found.as_of:
                    await self._withdraw(each)
            return Response(status=202)
        asker = self._asker(found.started_by)
        if asker is None:
            return Response(
                status=422, body=b"Nobody here is known by the login of the person who started this."
            )
        question = await self._ask(found, self._desk.scoped(self._rules.workspace, asker=asker))
        if found.as_of is not None:
            ours = await self._pending(found.subject)
            newest = max(ours, key=lambda each: (_as_of(each), each.id == question.id), default=None)
            for each in ours:
                if each is not newest:
                    await self._withdraw(each)
        return Response(status=202)

    def callback_problem(self, callback: Callback) -> str | None:
        """Why the service may not be called there; see `handraise.ports.channel.CallbackSender`."""
        if isinstance(callback, ServiceCallback) and self._service.knows(
            {**callback.details, "url": callback.url}
        ):
            return None
        return "only this service makes such a callback"

    async def call_back(
        self,
        to: Json,
        question: Question,
        *,
        id: str,  # noqa: A002 -- as in `Message`
    ) -> None:
        """Tell the service what was decided. An approval is used up by it, and only one that still holds is passed on."""
        if question.outcome is None:
            raise NotSent("the question has not ended", again=False)
        if not self._service.knows(to):
            # The server that accepted the question had other settings.
            raise NotSent("this server does not call this place", again=True)
        said = str(outcome_text(question))
        desk = self._desk.scoped(question.workspace, asker=question.asker)
        try:
            await desk.consume_approval(question.id, request=id)
        except (NotApproved, AlreadyConsumed) as refused:
            verdict = CheckVerdict(False, self._comment(question, f"{said}. {refused}"))
        except HandraiseError as error:  # stopped, or the store cannot be reached: nothing is decided
            raise NotSent(f"the approval cannot be used now: {error.code}") from None
        else:
            verdict = CheckVerdict(True, self._comment(question, f"{said}."))
        await self._service.tell(to, verdict)

    def rate_limit_key(self, to: Json) -> str | None:
        """None: no address of a person is here."""
        del to
        return None

    async def send(self, message: Message) -> Json:
        """Refuse it: people are not reached through it."""
        del message
        raise NotSent("people are not reached through this service", again=False)

    async def update(self, message: Message, receipt: Json) -> None:
        """Do nothing: no message was sent."""

    def _asker(self, login: str) -> str | None:
        """In whose name it is asked: an asker can never answer."""
        if self._rules.people is None:
            return self.name
        return self._rules.people.get(login.lower())

    async def _ask(self, request: CheckRequest, desk: Desk) -> Question:
        """The question of a request, posted once; another one if nobody decided it before it was wanted again."""
        place = list(request.place)
        while True:
            question = await desk.post(
                request.prompt,
                form=Approval.of(request.tool, request.arguments, brief=Brief(links=tuple(request.links))),
                key=self._key(place),
                if_exists="keep",
                state=None if request.as_of is None else request.as_of.isoformat(),
                conversation=request.subject,
                recipients=self._rules.recipients,
                expires_in=request.expires_in,
                callback=ServiceCallback(request.url, channel=self.name, details=request.details),
            )
            if request.as_of is None or not _is_undecided(question) or request.as_of <= _as_of(question):
                return question
            place.append(question.id)

    def _key(self, place: Sequence[Json]) -> str:
        """The key of a request. Agents of the workspace cannot guess it, so they cannot take it."""
        text = digest(list(place)).encode()
        return f"{self.name}:{hmac.new(self._service.webhook_secret, text, hashlib.sha256).hexdigest()}"

    def _comment(self, question: Question, text: str) -> str:
        return f"{visible_line(text)[:_LONGEST_COMMENT]} {self._base_url}/questions/{question.id}"

    async def _pending(self, subject: str) -> list[Question]:
        """The pending questions of this service about something. Agents may ask in a conversation of that name too."""
        desk, ours, after = self._desk.scoped(self._rules.workspace), list[Question](), None
        while True:
            page = await desk.list_pending(conversation=subject, after=after)
            ours += [each for each in page.items if each.key and each.key.startswith(f"{self.name}:")]
            if page.next is None:
                return ours
            after = page.next

    async def _withdraw(self, question: Question) -> None:
        desk = self._desk.scoped(question.workspace, asker=question.asker)
        with suppress(AlreadySettled):
            await desk.withdraw(question.id, reason="it is about an older state")


def _as_of(question: Question) -> datetime:
    """When the state was current that a question is about."""
    return datetime.fromisoformat(question.state)


def _is_undecided(question: Question) -> bool:
    """Whether a question has ended, and neither people nor an administrator ended it."""
    match question.outcome:
        case Expired():
            return True
        case Withdrawn(by=by):
            return by == question.asker
        case _:
            return False

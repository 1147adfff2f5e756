"""What comes back through a channel: who it is, what it means, and what to say to that person.

The channel has checked that the message is genuine and says how sure it is (`evidence`). Everything else is decided
by the desk, as for any other answer.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Literal, NamedTuple, Protocol

from handraise import AlreadySettled, Desk, InvalidAnswer, PermissionDenied, QuestionNotFound, Responder
from handraise.channels.account_links import LASTS, AccountLinks, ChatAccount, read_code
from handraise.model.attachments import Attachment
from handraise.model.deliveries import Address, Delivery
from handraise.model.errors import (
    CannotAskBack,
    CannotShare,
    InvalidMessage,
    RequestConflict,
    Stopped,
    ThreadMoved,
    TooManyRequests,
)
from handraise.model.forms import Approval
from handraise.model.json_values import Json, text_problem
from handraise.model.people import ANYONE, GROUP, may_respond, may_see
from handraise.model.problems import Problem
from handraise.model.provenance import Provenance
from handraise.model.questions import Question
from handraise.model.sharing_rules import with_taker_now
from handraise.model.thread_messages import MessageKind
from handraise.model.typed_replies import NotAnAnswer, SendsBack, SetsAside, read_deed, read_reply
from handraise.ports import Directory, Outbox
from handraise.ports.channel import Notice
from handraise.presentation.agreement_text import still_needed
from handraise.presentation.error_text import error_text, problem_text
from handraise.presentation.plain_text import too_late
from handraise.presentation.thread_text import moved_on, which_kind_text, written_text
from handraise.presentation.translation import (
    DEFAULT_LOCALE,
    Locale,
    gettext,
    gettext_noop,
    person_locale,
    set_locale,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What somebody on a channel did: chose a `value`, wrote a `text`, would not answer, sent it back, or set it aside.

    `seen` is how many messages of the thread the message showed that they answered. With `writes`, the text is a
    message of that kind, and no answer. `identity` is the id of the address that this person has on the channel; `recipient` says whose it is if
    several may have the same. `id` is the channel's own name for what was done: the same one twice is one reply.
    """

    workspace: str
    question_id: str
    channel: str
    identity: str
    evidence: str
    recipient: str | None = None
    id: str | None = None
    value: Json = field(default=None, repr=False)
    text: str | None = field(default=None, repr=False)
    declines: bool = False
    sends_back: bool = False
    sets_aside: bool = False
    reason: str | None = field(default=None, repr=False)
    seen: int | None = None
    writes: MessageKind | None = None
    details: Json = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class ReplyResult:
    """What came of a reply, and how to tell the person.

    `taken`: it counts. `misfit`: it does not fit, and the question still waits. `moved`: so does this one, but people or
    the agent have written something since. `late`: the question had ended. `refused`: this person cannot answer it, or
    there is no such question; which of the two is not said. `problems` are what does not fit, one by one. `offers` are
    the messages that a text could be instead of an answer, if somebody chooses so.
    """

    kind: Literal["taken", "misfit", "moved", "late", "refused"]
    text: str
    question: Question | None = field(default=None, repr=False)
    problems: Sequence[Problem] = field(default=(), repr=False)
    offers: Sequence[MessageKind] = ()

    @property
    def has_ended(self) -> bool:
        """Whether the question has ended, as far as this person may know."""
        return self.question is not None and self.question.outcome is not None


class ConnectReply(NamedTuple):
    """What to say to somebody who sent a code, and the link that connects their account."""

    text: str
    url: str | None = None

    @property
    def with_url(self) -> str:
        """Both, for a service that makes a link of an address."""
        return self.text if self.url is None else f"{self.text}\n{self.url}"


def misfit(question: Question, problems: Sequence[Problem]) -> ReplyResult:
    """What to tell of an answer that does not fit."""
    why = "; ".join(map(problem_text, problems))
    text = gettext("That does not fit: {problems}.").format(problems=why)
    return ReplyResult("misfit", text, question, problems)


def which_kind(question: Question) -> ReplyResult:
    """What to tell of a text that decides nothing about an approval: it may be a message."""
    offers: Sequence[MessageKind] = ("noted",) if question.replies is None else ("asked_back", "noted")
    return ReplyResult("misfit", which_kind_text(question), question, offers=offers)


def is_message(question: Question, text: str) -> bool:
    """Whether a text about an approval decides and does nothing, so that it can only be a message."""
    return (
        isinstance(question.form, Approval)
        and question.outcome is None
        and read_deed(question, text) is None
        and isinstance(read_reply(question, text), NotAnAnswer)
    )


RECORDED = gettext_noop("Thank you, your answer was recorded.")
_PATIENCE = timedelta(seconds=10)


class Images(Protocol):
    """Encodes images again, so that nothing of what was uploaded is shown except the pixels."""

    def shows(self, file: Attachment) -> bool:
        """Whether this file may be shown as an image."""
        ...

    async def encode(self, digest: str, data: bytes) -> bytes | None:
        """The image as PNG or JPEG, or None if these bytes are no image, or one that is too large."""
        ...


class Replies:
    """Takes replies of every channel to the desk. `locale` is for people who chose none.

    `base_url` is where the pages of questions are, if there are any. Without `images`, an image is a file like any other.
    Without `accounts`, nobody connects an account of theirs.
    """

    def __init__(
        self,
        desk: Desk,
        directory: Directory,
        outbox: Outbox,
        *,
        locale: Locale = DEFAULT_LOCALE,
        base_url: str | None = None,
        images: Images | None = None,
        accounts: AccountLinks | None = None,
    ) -> None:
        self._desk = desk
        self._directory = directory
        self._outbox = outbox
        self._locale = locale
        self._base_url = base_url
        self._images = images
        self._accounts = accounts

    def use_default_locale(self) -> None:
        """Say everything from here on, in this task, as for somebody who is not known yet."""
        set_locale(self._locale)

    def connect(self, text: str, account: ChatAccount | None, service: str) -> ConnectReply | None:
        """What to say to somebody who sent a code to connect this account; None if the text is no code.

        Only the sender may see it. `account` is None if it is one that cannot be connected here.
        """
        code = read_code(text)
        if code is None or self._accounts is None:
            return None
        if account is None:
            return ConnectReply(
                gettext("This account belongs to another organisation, so it cannot be connected here.")
            )
        url = self._accounts.make_link(code, account)
        if url is None:
            return ConnectReply(gettext("This code has ended. Open your page in Handraise and begin again."))
        text = gettext(
            "To connect this {service} account with Handraise, open this link within {minutes} minutes, in the browser in "
            "which you began. If you did not begin this yourself, do nothing, and give the link to nobody."
        )
        return ConnectReply(text.format(service=service, minutes=LASTS // 60), url)

    async def read_file(self, question: Question, file: Attachment) -> bytes:
        """The bytes of a file of a question, for the people whom a message about it reaches."""
        return await self._desk.scoped(question.workspace).read_attachment(question.id, file.digest)

    async def encode_image(self, file: Attachment, data: bytes) -> bytes | None:
        """The pixels of an image as PNG or JPEG; None if it is none, or cannot be shown."""
        if self._images is None or not self._images.shows(file):
            return None
        return await self._images.encode(file.digest, data)

    def file_link(self, question: Question, file: Attachment) -> str | None:
        """Where a program that may see a question downloads one of its files."""
        if self._base_url is None:
            return None
        return f"{self._base_url}/v1/questions/{question.id}/files/{file.digest}"

    async def find_responder(
        self, workspace: str, channel: str, identity: str, recipient: str | None = None
    ) -> Responder | None:
        """The person behind an identity on a channel; None unless it is exactly one who is here.

        What this task says afterwards is in the language of that person.
        """
        self.use_default_locale()
        if any(map(text_problem, (workspace, channel, identity))):
            return None
        names = await self._outbox.recipients_at(workspace, channel, identity)
        people = [name for name in names if name != ANYONE and not name.startswith(GROUP)]
        if recipient is not None:
            people = [name for name in people if name == recipient]
        if len(people) != 1:
            return None
        person = await self._directory.find_person(workspace, people[0])
        if person is None:
            return None
        set_locale(person_locale(person, self._locale))
        return person.responder

    async def find_address(
        self, workspace: str, channel: str, recipient: str, address_id: str
    ) -> Address | None:
        """An address by its names, for a channel that checks with it whether what came is genuine."""
        if any(map(text_problem, (workspace, recipient, address_id))):
            return None
        found = await self._outbox.addresses(workspace, [recipient])
        return next((each for each in found if (each.channel, each.id) == (channel, address_id)), None)

    async def find_question(
        self, workspace: str, channel: str, identity: str, question_id: str
    ) -> Question | ReplyResult:
        """A question as it stands, to draw a form, if this person may see it; otherwise what to tell them."""
        found = await self._find(workspace, channel, identity, question_id)
        return _unknown() if found is None else found[1]

    def link_to(self, question: Question) -> str | None:
        """The page of a question, for people who sign in there."""
        return None if self._base_url is None else f"{self._base_url}/questions/{question.id}"

    async def current_notice(self, question: Question) -> Notice | None:
        """A question with its conversation as it is now, to draw its message again; None if it has no page."""
        link = self.link_to(question)
        if link is None:
            return None
        desk = self._desk.scoped(question.workspace)
        now = with_taker_now(await desk.get(question.id), datetime.now(UTC))
        thread = (await desk.thread(question.id))[: now.thread] if now.thread else ()
        return Notice(delivery_id="", question=now, reason="asked", link=link, thread=thread)

    async def find_delivered(
        self, workspace: str, channel: str, identity: str, *, where: Callable[[Delivery, Question], bool]
    ) -> Sequence[tuple[Question, Sequence[Delivery]]]:
        """The pending questions that this person may answer and that were told there, oldest first, with how.

        A reply that names no question may be about one of these. Only the store keeps them.
        """
        responder = await self.find_responder(workspace, channel, identity)
        found: list[tuple[Question, Sequence[Delivery]]] = []
        after: str | None = None
        while responder is not None:
            page = await self._desk.scoped(workspace).list_pending(recipient=responder, after=after)
            for question in page.items:
                deliveries = [
                    each
                    for each in await self._outbox.deliveries(question.ref)
                    if each.channel == channel and each.turn and each.may_have_arrived
                ]
                here = [each for each in deliveries if where(each, question)]
                if here:
                    found.append((question, here))
            if (after := page.next) is None:
                break
        return found

    async def take(self, reply: Reply) -> ReplyResult:
        """Give a reply to the desk and say what came of it. The same one twice is the same answer.

        Raises `RequestConflict` while one with the same id is being taken.
        """
        found = await self._find(
            reply.workspace, reply.channel, reply.identity, reply.question_id, reply.recipient
        )
        if found is None:
            return _unknown()
        responder, question = found
        desk = self._desk.scoped(reply.workspace)

        async def take() -> ReplyResult:
            shown = await self._shown(question, responder, reply.channel)
            said = await _say(desk, question, responder, reply, shown)
            return replace(said, text=moved_on(self.link_to(question))) if said.kind == "moved" else said

        if reply.id is None:
            return await take()
        result = await self._once(reply, f"{reply.channel}:{responder.id}", reply.id, take)
        return result if result.kind == "refused" else replace(result, question=result.question or question)

    async def _find(
        self, workspace: str, channel: str, identity: str, question_id: str, recipient: str | None = None
    ) -> tuple[Responder, Question] | None:
        """A person and a question that they may see: nobody else learns that there is anything to answer, or was."""
        responder = await self.find_responder(workspace, channel, identity, recipient)
        if responder is None:
            return None
        try:
            question = await self._desk.scoped(workspace).get(question_id)
        except QuestionNotFound:
            return None
        question = with_taker_now(question, datetime.now(UTC))
        return (responder, question) if may_see(question, responder) else None

    async def _shown(self, question: Question, responder: Responder, channel: str) -> str | None:
        """The digest of the last message there that told this person of the question, or a room that they share."""
        theirs = (*responder.principals, ANYONE)
        found = [
            (each.recipient == responder.id, each.sent_at, str(each.receipt["shown"]))
            for each in await self._outbox.deliveries(question.ref)
            if each.channel == channel
            and each.recipient in theirs
            and each.sent_at is not None
            and isinstance(each.receipt, dict)
            and "shown" in each.receipt
        ]
        return max(found)[2] if found else None

    async def _once(
        self, reply: Reply, actor: str, key: str, take: Callable[[], Awaitable[ReplyResult]]
    ) -> ReplyResult:
        """What came of a reply, also if it comes again: one that did not fit is not counted twice."""
        what: tuple[object, ...] = (
            reply.question_id,
            reply.value,
            reply.text,
            reply.declines,
            reply.reason,
        )
        if reply.writes is not None:
            what = (*what, reply.writes)
        if reply.sends_back or reply.sets_aside:
            what = (*what, reply.sends_back, reply.sets_aside)
        place = (reply.workspace, actor, key)
        claim = await self._directory.claim(
            *place,
            fingerprint=hashlib.sha256(repr(what).encode(errors="surrogatepass")).hexdigest(),
            made=key,
            patience=_PATIENCE,
        )
        match claim.state:
            case "done":
                kind, text, *problems = json.loads(claim.body or "[]")
                return ReplyResult(kind, text, None, [Problem(*each) for each in problems])
            case "busy":
                raise RequestConflict("The same reply is being taken already; send it again shortly.")
            case "different":
                return ReplyResult(
                    "misfit", gettext("This was sent twice with different content. The first one counted.")
                )
            case "new" | "again":
                pass
        result = None
        try:
            result = await take()
        finally:
            if result is None:
                await self._directory.release(*place, turn=claim.turn)
            else:
                problems = [(each.path, each.message) for each in result.problems]
                body = json.dumps([result.kind, result.text, *problems])
                await self._directory.finish(*place, turn=claim.turn, status=200, body=body)
        return result


def _unknown() -> ReplyResult:
    """What people are told who may not answer, or about a question that does not exist."""
    return ReplyResult(
        "refused",
        gettext("I cannot take an answer to this from you. Open your inbox to see what waits for you."),
    )


async def _say(
    desk: Desk, question: Question, responder: Responder, reply: Reply, shown: str | None
) -> ReplyResult:
    try:
        return await _take(desk, question, responder, reply, shown)
    except AlreadySettled as settled:
        mine = getattr(settled.outcome, "by", None) == responder.id
        text = gettext("You have answered this already.") if mine else too_late(settled.outcome)
        return ReplyResult("late", text, await desk.get(question.id))
    except InvalidAnswer as invalid:
        return misfit(await desk.get(question.id), invalid.problems)
    except PermissionDenied as refused:
        # Anyone who may answer is told why not like this; nobody else learns that there is anything to answer.
        known = may_respond(question, responder)
        if not known:
            return _unknown()
        why = gettext("This cannot be taken: {reason}.").format(reason=error_text(refused.reason))
        return ReplyResult("refused", why)
    except ThreadMoved:
        return ReplyResult("moved", moved_on(None), await desk.get(question.id))
    except InvalidMessage as invalid:
        return misfit(question, invalid.problems)
    except CannotAskBack:
        return which_kind(question)
    except CannotShare as impossible:
        why = "; ".join(error_text(problem.message) for problem in impossible.problems)
        return ReplyResult("refused", gettext("This is not possible: {reason}.").format(reason=why))
    except Stopped as stopped:
        return ReplyResult("refused", error_text(str(stopped)))
    except TooManyRequests:
        return ReplyResult("misfit", gettext("That was too much at once. Please try again in a minute."))


async def _take(
    desk: Desk, question: Question, responder: Responder, reply: Reply, shown: str | None
) -> ReplyResult:
    provenance = Provenance(
        channel=reply.channel,
        evidence=reply.evidence,
        shown_digest=shown,
        seen=reply.seen,
        details=reply.details,
    )
    if reply.writes is not None:
        write = desk.ask_back if reply.writes == "asked_back" else desk.note
        written = await write(question.id, reply.text or "", by=responder, provenance=provenance)
        return ReplyResult("taken", written_text(reply.writes), written)
    if reply.declines:
        ended = await desk.decline(question.id, by=responder, reason=reply.reason, provenance=provenance)
        return ReplyResult("taken", gettext("You declined to answer."), ended)
    if reply.text is not None and question.outcome is not None:
        raise AlreadySettled(question.id, question.outcome)
    deed = None if reply.text is None else read_deed(question, reply.text)
    if reply.sets_aside or isinstance(deed, SetsAside):
        aside = await desk.set_aside(question.id, by=responder, provenance=provenance)
        return ReplyResult("taken", gettext("You are not asked this any more. The others still are."), aside)
    if reply.sends_back or isinstance(deed, SendsBack):
        reason = deed.reason if isinstance(deed, SendsBack) else reply.reason or ""
        returned = await desk.send_back(question.id, by=responder, reason=reason, provenance=provenance)
        if returned.outcome is None:
            return _voted(returned)
        return ReplyResult("taken", gettext("Sent back. The agent is told what to change."), returned)
    value = reply.value
    if reply.text is not None:
        read = read_reply(question, reply.text)
        if isinstance(read, NotAnAnswer):
            why = error_text(read.reason)
            text = gettext("I cannot take that as an answer: {reason}.").format(reason=why)
            return ReplyResult("misfit", text, question)
        value = read.value
    answered = await desk.answer(question.id, value, by=responder, provenance=provenance)
    if answered.outcome is None:
        return _voted(answered)
    return ReplyResult("taken", gettext(RECORDED), answered)


def _voted(question: Question) -> ReplyResult:
    text = gettext("Your vote counts.")
    if question.quorum > 1:
        text = gettext("Your vote counts; {count} people must agree.").format(count=question.quorum)
    return ReplyResult("taken", " ".join(filter(None, (text, still_needed(question)))), question)

"""What somebody does in a chat, from the button to the desk and back to what they are told, for every service.

The service says who it was, and the addresses say which person that is here. The desk decides whether they may answer,
and whether the answer fits. A service reads its own payloads, and draws its own messages and forms.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from handraise.channels.account_links import ChatAccount
from handraise.channels.chat_references import QuestionReference
from handraise.channels.inbound_replies import (
    ConnectReply,
    Replies,
    Reply,
    ReplyResult,
    is_message,
    misfit,
    which_kind,
)
from handraise.channels.message_texts import sign_in_to_decide
from handraise.channels.payloads import InvalidPayload
from handraise.model.errors import InvalidAnswer
from handraise.model.forms import AnyForm, Approval, Choice, Confirm
from handraise.model.json_values import Json
from handraise.model.questions import Question
from handraise.model.thread_messages import MessageKind
from handraise.model.typed_replies import NotAnAnswer, accepts_any_text, read_deed, read_reply
from handraise.model.validation import check_answer
from handraise.ports.channel import Notice
from handraise.presentation.plain_text import too_late
from handraise.presentation.thread_text import moved_on
from handraise.presentation.translation import gettext, gettext_noop

BEING_TAKEN = gettext_noop("That is being taken already.")
TRY_AGAIN = gettext_noop("That did not work. Please press it again.")
NOT_OURS = gettext_noop(
    "I cannot tell which question that is for. Open your inbox to see what waits for you."
)
WHICH_QUESTION = gettext_noop(
    "I cannot tell which question that is for. Press a button of the question, or reply to its message."
)
NOT_A_CODE = gettext_noop("That is no code. Open your page in Handraise, and copy the code that it shows.")
_TOO_LARGE = gettext_noop("This cannot be shown here in full. Open it in the inbox to answer.")
_MOST_DIGITS = 4

R = TypeVar("R", bound=QuestionReference)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sender:
    """Somebody in a chat: the id of their address, how sure we are that it was them, and the name of what they did."""

    identity: str
    evidence: str
    id: str | None
    details: Json = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """What the desk is given: a value, a text, or that they would not answer, send it back, or leave it to others.

    `seen` is how many messages of the thread the message showed. With `writes`, the text is a message of that kind.
    """

    value: Json = field(default=None, repr=False)
    text: str | None = field(default=None, repr=False)
    declines: bool = False
    sends_back: bool = False
    sets_aside: bool = False
    reason: str | None = field(default=None, repr=False)
    seen: int | None = None
    writes: MessageKind | None = None

    @property
    def decides(self) -> bool:
        """Whether it answers: then all that an answer needs must have been shown."""
        return not (self.declines or self.sends_back or self.sets_aside or self.writes)


def _anything(*_: object) -> bool:
    return True


class ChatFlow(Generic[R]):
    """Takes what people do in one service to the desk.

    `is_shown` says whether a message there has all that an answer needs, and `is_ours` whether we wrote a reference
    about this very question, if a service does not vouch for that.
    """

    def __init__(
        self,
        channel: str,
        replies: Replies,
        *,
        is_shown: Callable[[Question], bool] = _anything,
        is_ours: Callable[[R, Question], bool] = _anything,
    ) -> None:
        self._channel = channel
        self._replies = replies
        self._is_shown = is_shown
        self._is_ours = is_ours

    def begin(self) -> None:
        """Speak the server's language from here on, in this task, until it is known who somebody is."""
        self._replies.use_default_locale()

    async def press(
        self, reference: R, sender: Sender, read: Callable[[Question], Given | None]
    ) -> ReplyResult | Question:
        """Do what a button or a form says; `read` gives what that answers, or None if it only opens something.

        Gives what to tell the person, or the question whose form is to be opened for them. Raises `InvalidPayload`
        if nothing of ours could have said that, and a desk's error if it could not be done now.
        """
        question = await self._find(reference, sender)
        if isinstance(question, ReplyResult):
            return question
        try:
            given = read(question)
        except InvalidAnswer as unclear:
            return misfit(question, unclear.problems)
        if given is not None:
            return await self._take(question, sender, given)
        if question.outcome is not None:
            return ReplyResult("late", too_late(question.outcome), question)
        return question

    async def write(
        self,
        reference: R,
        sender: Sender,
        text: str,
        *,
        read: Callable[[Question], Given] | None = None,
        hint: str | None = None,
    ) -> ReplyResult | None:
        """Take a text that somebody wrote about a question.

        With a `hint` it may have been said to somebody else: anyone who could have meant it as an answer is told how to
        give one, and None means that it was not one. What decides nothing about an approval may be a message: then the
        result offers what it could be, and nothing is written until somebody chooses.
        """
        question = await self._find(reference, sender)
        if isinstance(question, ReplyResult):
            return question
        given = Given(text=text) if read is None else read(question)
        if given.text is not None and given.writes is None and is_message(question, text):
            return which_kind(question)
        if hint is None:
            return await self._take(question, sender, given)
        if (
            accepts_any_text(question.form)
            or read_deed(question, text) is not None
            or not isinstance(read_reply(question, text), NotAnAnswer)
        ):
            return ReplyResult("refused", self.why_not_here(question) or gettext(hint))
        return None

    def connect(self, text: str, account: ChatAccount | None, service: str) -> ConnectReply | None:
        """See `Replies.connect`."""
        return self._replies.connect(text, account, service)

    def why_not_here(self, question: Question) -> str | None:
        """Why a question cannot be answered in this chat; None if it can, or has ended."""
        if question.outcome is not None:
            return None
        if isinstance(question.form, Approval) and question.form.risk == "high":
            return sign_in_to_decide()
        return None if self._is_shown(question) else gettext(_TOO_LARGE)

    async def _find(self, reference: R, sender: Sender) -> Question | ReplyResult:
        """The question, if this person may see it: nobody else learns that there is one."""
        found = await self._replies.find_question(
            reference.workspace, self._channel, sender.identity, reference.question_id
        )
        if isinstance(found, ReplyResult) or self._is_ours(reference, found):
            return found
        return ReplyResult("refused", gettext(NOT_OURS))

    async def _take(self, question: Question, sender: Sender, given: Given) -> ReplyResult:
        decides = given.decides and (given.text is None or read_deed(question, given.text) is None)
        if decides and (why := self.why_not_here(question)):
            return ReplyResult("refused", why)
        reply = Reply(
            workspace=question.workspace,
            question_id=question.id,
            channel=self._channel,
            identity=sender.identity,
            evidence=sender.evidence,
            id=sender.id,
            value=given.value,
            text=given.text,
            declines=given.declines,
            sends_back=given.sends_back,
            sets_aside=given.sets_aside,
            reason=given.reason,
            seen=given.seen,
            writes=given.writes,
            details=sender.details,
        )
        return await self._replies.take(reply)

    def link_to(self, question: Question) -> str | None:
        """The page of a question, for people who sign in there."""
        return self._replies.link_to(question)

    def moved(self, question: Question, seen: int | None) -> ReplyResult | None:
        """What to tell somebody who is about to approve what they have not read; None if they have seen it all."""
        if question.outcome is not None or (seen or 0) == question.thread:
            return None
        return ReplyResult("moved", moved_on(self._replies.link_to(question)), question)

    async def current_notice(self, result: ReplyResult) -> Notice | None:
        """What a message should show that somebody has acted on; None if it can stay, or is changed elsewhere."""
        if result.question is None or result.has_ended or result.kind not in ("moved", "taken"):
            return None
        return await self._replies.current_notice(result.question)


def pressed(form: AnyForm, verb: str, *, number: object = None, digest: object = None) -> Given:
    """What a button answers; raises `InvalidPayload` if a message about this form has no such button."""
    match form, verb:
        case _, "aside":
            return Given(sets_aside=True)
        case Confirm(), "yes" | "no":
            return Given(value=verb == "yes")
        case Choice(options=options), "option" if (place := _number(number)) is not None and place < len(
            options
        ):
            return Given(value=options[place].id)
        case Approval(), "approve" | "deny":
            return decided(verb, digest)
    raise InvalidPayload(verb)


def decided(decision: str, digest: object, **more: Json) -> Given:
    """A decision about just this action: without a digest, it would be about any."""
    if not isinstance(digest, str):
        raise InvalidPayload("digest")
    return Given(value={"decision": decision, "digest": digest, **more})


def submitted(
    form: AnyForm,
    verb: str,
    *,
    read_answer: Callable[[], Json],
    reason: str | None,
    digest: object = None,
) -> Given:
    """What a filled-in form answers; raises `InvalidPayload` if this question has no such form."""
    match form, verb:
        case _, "decline":
            return Given(declines=True, reason=reason)
        case _, "send_back":
            return Given(sends_back=True, reason=reason)
        case Approval(), "deny":
            return decided("deny", digest, reason=reason)
        case _, "answer" if not isinstance(form, Approval):
            return Given(value=read_answer())
    raise InvalidPayload(verb)


def written(kind: str, text: str) -> Given:
    """A message for the thread; raises `InvalidPayload` unless it is one that people write."""
    match kind:
        case "asked_back" | "noted":
            return Given(text=text, writes=kind)
    raise InvalidPayload(kind)


def read_changes(form: Approval, edits: Json) -> tuple[dict[str, Json], dict[str, Json]]:
    """What would be approved with changed arguments, and all the resulting arguments; raises `InvalidAnswer`."""
    canonical = check_answer(form, {"decision": "approve", "arguments": edits})
    approved = {"arguments": edits, "digest": canonical["digest"]}
    return approved, canonical.get("arguments", form.action.arguments)


def _number(number: object) -> int | None:
    """The place of an option, as a number or in digits."""
    text = str(number)
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS else None

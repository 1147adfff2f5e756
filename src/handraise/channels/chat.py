"""The agent's own chat as a channel: a question is posted in a conversation, and a reply there answers it.

An address is `{"conversation": "thread-9"}`, and its id is who the person is in that chat; `{"conversation": "*"}` is the
conversation that a question belongs to, whichever that is. An agent of `handraise.conversations` posts its questions
itself and gets the replies itself: for such a question, this channel only tells of an end elsewhere.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Protocol

from handraise.channels.chat_references import seen_in
from handraise.channels.inbound_replies import Replies, Reply, ReplyResult, is_message
from handraise.channels.message_texts import (
    action_of,
    facts_of,
    heading_of,
    how_to_reply,
    is_shown,
    prompt_of,
    shortened,
    tells_several,
    why_now,
)
from handraise.channels.plain_messages import (
    arguments_of,
    brief_said,
    choices_of,
    ended_lines,
    fitting,
    mention_of,
    theirs,
    thread_lines,
)
from handraise.channels.typed_messages import how_to_write, read_message
from handraise.model.deliveries import Delivery
from handraise.model.evidence import CLIENT_ASSERTED
from handraise.model.forms import Approval
from handraise.model.json_values import Json, digest
from handraise.model.people import GROUP
from handraise.model.questions import Question
from handraise.model.typed_replies import read_deed
from handraise.ports.channel import Message, Notice, NotSent
from handraise.presentation.markdown import one_line
from handraise.presentation.markdown_chat import chat_text
from handraise.presentation.risk_text import risk_text
from handraise.presentation.thread_text import ThreadText, thread_text
from handraise.presentation.translation import gettext, ngettext

_OWN = "*"
_LONGEST_CONVERSATION = 200
_LONGEST_TEXT = 12_000
_LONGEST_THREAD = 2_000
_LONGEST_MENTION = 60
_REFERENCE = re.compile(r"\s*#([0-9a-f]{4})(?![0-9a-z])[\s:,]*(.*)", re.IGNORECASE | re.DOTALL)


class Room(Protocol):
    """A chat, as `handraise.conversations.Channel` defines it."""

    @property
    def name(self) -> str:
        """What addresses and answers call it."""
        ...

    @property
    def is_trigger(self) -> bool:
        """Whether nobody can answer there."""
        ...

    async def send(self, conversation: str, text: str) -> None:
        """Deliver a text to a conversation, or raise."""
        ...


@asynccontextmanager
async def open_chat(room: Room, replies: Replies) -> AsyncIterator[Chat]:
    """The channel of a chat, for as long as this context lasts."""
    yield Chat(room, replies)


class Chat:
    """Posts questions in conversations and takes what people reply there. See `handraise.ports.channel`."""

    private = False
    """Others may be in the conversation."""
    patience = timedelta(hours=6)

    def __init__(self, room: Room, replies: Replies) -> None:
        if room.is_trigger:
            raise ValueError(f"nobody can answer on {room.name!r}, so nobody is asked there")
        self._room = room
        self._replies = replies

    @property
    def name(self) -> str:
        """The name of the chat."""
        return self._room.name

    def rate_limit_key(self, to: Json) -> str | None:
        """The chat, which is slow or down as a whole."""
        return None if _conversation_of(to) is None else self.name

    async def send(self, message: Message) -> Json:
        """Post it in its conversation, or each in its own."""
        said: dict[str, list[Notice]] = {}
        for notice in message.notices:
            if (conversation := _place_of(message.to, notice.question)) is not None:
                said.setdefault(conversation, [])
                if not self._is_its_agents(notice.question):
                    said[conversation].append(notice)
        if not said:
            raise NotSent("the question belongs to no conversation", again=False)
        for conversation, notices in said.items():
            if notices:
                text = question_text(notices[0]) if len(notices) == 1 else bundle_text(notices)
                await self._say(conversation, text)
        one = len(message.notices) == 1
        if not one:
            return {"in_full": False}
        [notice] = message.notices
        seen = _thread_of(notice).seen
        in_full = seen is not None or not isinstance(notice.question.form, Approval)
        return {"in_full": in_full, "seen": seen or 0, "shown": digest(question_text(notice))}

    async def update(self, message: Message, receipt: Json) -> None:
        """Say how it ended, unless its agent has done so: what was said in a chat stays as it is."""
        del receipt
        [notice] = message.notices
        question = notice.question
        conversation = _place_of(message.to, question)
        if conversation is None:
            return
        if self._is_its_agents(question) and getattr(question.outcome, "channel", None) == self.name:
            return
        ended, lines = ended_lines(question)
        await self._say(conversation, fitting([f"{ended}.", *lines], _LONGEST_TEXT))

    async def take(
        self,
        workspace: str,
        conversation: str,
        text: str,
        *,
        by: str,
        id: str,  # noqa: A002 -- its name in `Reply`
    ) -> ReplyResult | None:
        """Take a text as the reply to a question that was posted in the conversation; None if it is not one.

        `by` is who wrote it, as their address says, and `id` names the text: the same one twice is one reply. The
        caller vouches for both. If several questions wait, or several people were asked, the text begins with the
        reference of the one that is meant.
        """

        def where(delivery: Delivery, question: Question) -> bool:
            return _place_of(delivery.to, question) == conversation and not self._is_its_agents(question)

        waiting = await self._replies.find_delivered(workspace, self.name, by, where=where)
        named = _REFERENCE.fullmatch(text)
        meant = [each for each in waiting if named and _reference_of(each[0]) == named[1].lower()]
        if named and meant:
            text = named[2]
        else:
            meant = [each for each in waiting if not _is_shared(each[0])]
        if not meant:
            return None
        if len(meant) > 1:
            return ReplyResult(
                "misfit", fitting(which_question_text([question for question, _ in meant]), _LONGEST_TEXT)
            )
        [(question, deliveries)] = meant
        message = read_message(question, text)
        if message is None and is_message(question, text):
            how = f"{gettext('That decides nothing.')} {how_to_write(question, several=_is_shared(question))}"
            return ReplyResult("misfit", how, question)
        decides = message is None and read_deed(question, text) is None
        if decides and (
            _is_decided_elsewhere(question)
            or (isinstance(question.form, Approval) and not any(map(_was_in_full, deliveries)))
        ):
            return ReplyResult("misfit", gettext("That is decided on its page, in the inbox."), question)
        reply = Reply(
            workspace=workspace,
            question_id=question.id,
            channel=self.name,
            identity=by,
            id=id,
            evidence=CLIENT_ASSERTED,
            text=text if message is None else message[1],
            seen=max(map(_seen_in, deliveries)),
            writes=None if message is None else message[0],
        )
        return await self._replies.take(reply)

    def _is_its_agents(self, question: Question) -> bool:
        """Whether an agent asked it in this chat itself, as `handraise.conversations` notes in its state."""
        match question.state:
            case {"conversations": {"channel": self._room.name}}:
                return True
            case _:
                return False

    async def _say(self, conversation: str, text: str) -> None:
        try:
            await self._room.send(conversation, text)
        except NotSent:
            raise
        except Exception as failure:  # noqa: BLE001 -- any error means that nobody has seen it
            raise NotSent(f"the chat failed: {type(failure).__name__}") from None


def _conversation_of(to: Json) -> str | None:
    name = to.get("conversation") if isinstance(to, dict) and to.keys() == {"conversation"} else None
    if not isinstance(name, str) or not name.strip() or not name.isprintable():
        return None
    return name if len(name) <= _LONGEST_CONVERSATION else None


def _place_of(to: Json, question: Question) -> str | None:
    """The conversation in which a question is posted."""
    conversation = _conversation_of(to)
    return question.conversation if conversation == _OWN else conversation


def _is_shared(question: Question) -> bool:
    """Whether several people were asked: then not everything that one of them writes is a reply."""
    return len(question.recipients) != 1 or question.recipients[0].startswith(GROUP)


def _was_in_full(delivery: Delivery) -> bool:
    return isinstance(delivery.receipt, dict) and delivery.receipt.get("in_full") is True


def _seen_in(delivery: Delivery) -> int:
    """How many messages of the thread it showed: what was posted in a chat stays there."""
    return seen_in(delivery.receipt.get("seen")) or 0 if isinstance(delivery.receipt, dict) else 0


def _thread_of(notice: Notice) -> ThreadText:
    """The conversation without notes: the agent reads its own chat, and they are not for it."""
    messages = [each for each in notice.thread if each.kind != "noted"]
    return thread_text(notice.question, messages, room=_LONGEST_THREAD)


def _reference_of(question: Question) -> str:
    return hashlib.sha256(question.id.encode()).hexdigest()[:4]


def question_text(notice: Notice) -> str:
    """A question, and below it, however long it is, what to reply and where its page is."""
    question = notice.question
    if _is_decided_elsewhere(question) or (
        isinstance(question.form, Approval) and _thread_of(notice).seen is None
    ):
        below = gettext("This is decided on its page: {link}").format(link=notice.link)
    else:
        begin = gettext("Reply here, and begin with #{reference}: {how}")
        text = begin if _is_shared(question) else gettext("Reply here: {how}")
        how = text.format(reference=_reference_of(question), how=how_to_reply(question.form))
        page = gettext("Or open it: {link}").format(link=notice.link)
        several = tells_several(question, notice.reason)
        below = "\n".join((how, how_to_write(question, several=several), page))
    return f"{fitting(_lines_of(notice), _LONGEST_TEXT - len(below) - 1)}\n{below}"


def _lines_of(notice: Notice) -> Iterator[str]:
    """What is asked. An action is shown in full if it can be decided here."""
    question, form = notice.question, notice.question.form
    if why := why_now(notice.reason):
        yield why
    yield f"{heading_of(question)}:"
    prompt, more = prompt_of(question)
    yield from theirs([chat_text(prompt)])
    if more:
        yield more
    yield from thread_lines(_thread_of(notice))
    yield from choices_of(question)
    yield from brief_said(form)
    if isinstance(form, Approval):
        tool, arguments = action_of(form)
        yield gettext("What will be executed:")
        if is_shown(form):
            yield from theirs([tool])
            yield from arguments_of(arguments)
        else:
            yield from theirs([shortened(tool, _LONGEST_MENTION), "…"])
        yield str(risk_text(form))
    yield from facts_of(question)


def _is_decided_elsewhere(question: Question) -> bool:
    """Whether it is an action that is too long for a chat, or has more at stake than a chat can vouch for."""
    form = question.form
    return isinstance(form, Approval) and (form.risk == "high" or not is_shown(form))


def bundle_text(notices: Sequence[Notice]) -> str:
    """Several questions that waited, each with its reference and its link."""
    count = len(notices)
    lines = [
        ngettext(
            "{count} question waits for an answer. To answer one here, begin with its reference.",
            "{count} questions wait for an answer. To answer one here, begin with its reference.",
            count,
        ).format(count=count)
    ]
    for notice in notices:
        who, *rest = mention_of(notice)
        lines += [f"#{_reference_of(notice.question)} {who}", *rest]
    return fitting(lines, _LONGEST_TEXT)


def which_question_text(questions: Sequence[Question]) -> Iterator[str]:
    """Asks which one is meant."""
    count = len(questions)
    yield ngettext(
        "{count} question waits here. Begin your reply with the reference of the one that you mean:",
        "{count} questions wait here. Begin your reply with the reference of the one that you mean:",
        count,
    ).format(count=count)
    for question in questions:
        asked = one_line(question.prompt, _LONGEST_MENTION)
        yield f"#{_reference_of(question)} {asked}"

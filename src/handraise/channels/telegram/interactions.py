"""What people do in Telegram: they press a button, or reply to a message.

Who it was is for Telegram to say, and which person that is here for the addresses; whether they may answer, and
whether the answer fits, for the desk.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, TypeGuard

from handraise.channels.http_errors import Refused
from handraise.channels.inbound_replies import Replies, Reply, ReplyResult
from handraise.channels.payloads import InvalidPayload, object_in
from handraise.channels.telegram.api import BotApi
from handraise.channels.telegram.entities import Piece, compose, cut, ours
from handraise.channels.telegram.messages import (
    Keyboard,
    Rendered,
    can_be_answered,
    keyboard,
    render_confirmation,
    render_outcome,
    render_reply_prompt,
    text_pieces,
)
from handraise.channels.telegram.references import QuestionReference, QuestionReferences, UnverifiedReference
from handraise.model.errors import RequestConflict
from handraise.model.forms import AnyForm, Approval, Choice, Confirm, Form, Open
from handraise.model.json_values import Json
from handraise.model.plain_text import too_late
from handraise.model.questions import Question
from handraise.model.replies import NotAnAnswer, read_reply
from handraise.model.visible import visible_line
from handraise.ports.channel import NotSent

CHANNEL = "telegram"
_LONGEST_TOAST = 200
_ASKING_FIRST, _WRITING, _DOING = frozenset("ynoadx"), frozenset("wtre"), frozenset("YNOADX")
"""The deeds behind buttons: what is asked once more, what must be written, what counts at once. `b` goes back."""
_BACK = "b"
_WHICH = "I cannot tell which question that is for. Press a button of the question, or reply to its message."
_NOT_MINE = "I cannot tell which question that is for. Open your inbox to see what waits for you."
_PRESS = "If that is your answer, press a button of the question: people may talk here, too."
_FOR_ANOTHER = "That was for somebody else to reply to. Press the button of the question yourself."
_TEXT_ONLY = "I can read only text."
_ON_THE_PAGE = "This cannot be shown here in full. Open the page to decide."
_REPLY_NOW = "Reply to the message that I have just sent."
_TRY_AGAIN = "That did not work. Please press it again."


@dataclass(frozen=True, slots=True)
class Sender:
    """Somebody at Telegram, what they did and where, and how sure we are that it was them."""

    user: int
    name: str
    chat: int
    update: str
    evidence: str

    @property
    def identity(self) -> str:
        """The id of this person's address."""
        return str(self.user)

    @property
    def in_room(self) -> bool:
        """Whether others see what is said there: a private chat has the id of the person."""
        return self.chat != self.user


class InteractionHandler:
    """Takes what people do in Telegram to the desk, and tells them what came of it."""

    def __init__(self, api: BotApi, replies: Replies, references: QuestionReferences, base_url: str) -> None:
        self._api = api
        self._replies = replies
        self._references = references
        self._base_url = base_url

    async def take(self, update: Mapping[str, Any], evidence: str) -> None:
        """Do what a genuine update says. The same one twice is one answer.

        Raises `InvalidPayload` where it makes no sense, and a desk's error where it should come again.
        """
        number = update.get("update_id")
        if not _is_int(number):
            raise InvalidPayload("update_id")
        name = f"{self._api.bot}-{number}"
        match update:
            case {"callback_query": dict(query)}:
                await self._handle_press(query, name, evidence)
            case {"message": dict(message)}:
                await self._handle_message(message, name, evidence)

    async def _handle_press(self, query: Mapping[str, Any], update: str, evidence: str) -> None:
        """A button. Telegram shows that it is at work until it is told otherwise, whatever comes of it."""
        if not isinstance(query.get("id"), str):
            raise InvalidPayload("callback_query")
        try:
            told = await self._press(query, update, evidence)
        except RequestConflict:
            # Another process is at it, and tells them.
            raise
        except Exception:
            await self._toast(query, _TRY_AGAIN)
            raise
        await self._toast(query, told)

    async def _toast(self, query: Mapping[str, Any], told: str) -> None:
        shown = cut(visible_line(told), _LONGEST_TOAST)
        body = {"callback_query_id": query.get("id"), "text": shown, "show_alert": told not in _QUIET}
        # One that is too old to be answered is taken all the same.
        with suppress(NotSent):
            await self._api.call("answerCallbackQuery", body)

    async def _press(self, query: Mapping[str, Any], update: str, evidence: str) -> str:
        message = object_in(query, "message")
        sender = _read_sender(query, message, update, evidence)
        if sender is None:
            raise InvalidPayload("callback_query")
        found = self._references.read_data(query.get("data"), message)
        if found is None:
            return _NOT_MINE
        question = await self._question(found, sender)
        if isinstance(question, str):
            return question
        action, at = found.reference.action, _at(sender, message)
        if action in _DOING:
            return await self._decide(found.reference, question, sender, at)
        if question.outcome is not None:
            await self._redraw(at, question)
            return too_late(question.outcome)
        try:
            if action in _WRITING:
                return await self._prompt(question, action, sender, reply_to=at.get("message_id"))
            if action in _ASKING_FIRST:
                await self._swap(
                    at, render_confirmation(question, self._references, action, found.reference.number)
                )
            elif action == _BACK:
                await self._swap(at, keyboard(question, self._references))
        except NotSent:
            return _TRY_AGAIN
        return ""

    async def _decide(
        self, reference: QuestionReference, question: Question, sender: Sender, at: Mapping[str, Any]
    ) -> str:
        reply = _reply(reference, sender)
        if reference.action == "X":
            reply = replace(reply, declines=True)
        elif not can_be_answered(question):
            return _ON_THE_PAGE
        else:
            reply = replace(reply, value=_value(question, reference))
        result = await self._replies.take(reply)
        if result.question is not None and result.question.outcome is None:
            # A vote, or something that does not fit: there may be more to press.
            with suppress(NotSent):
                await self._swap(at, keyboard(result.question, self._references))
        elif result.kind == "late" and result.question is not None:
            await self._redraw(at, result.question)
        return result.text

    async def _handle_message(self, message: Mapping[str, Any], update: str, evidence: str) -> None:
        """A message that somebody typed: a reply to one of ours is an answer."""
        sender = _read_sender(message, message, update, evidence)
        if sender is None or not _is_typed(message):
            return
        text, parent = message.get("text"), object_in(message, "reply_to_message")
        mine = object_in(parent, "from").get("id") == self._api.bot
        found = self._references.read_link(parent) if mine else None
        if found is None:
            if isinstance(text, str) and _is_command(text):
                await self._say(sender, message, _introduction(sender))
            elif not sender.in_room or mine:
                await self._say(sender, message, _WHICH)
            return
        question = await self._question(found, sender)
        if isinstance(question, str):
            await self._say(sender, message, question)
        elif not isinstance(text, str):
            await self._say(sender, message, _TEXT_ONLY)
        elif sender.in_room and found.reference.user == 0:
            # Only who was asked by name is known to mean it.
            if _accepts_any_text(question.form) or not isinstance(read_reply(question, text), NotAnAnswer):
                await self._say(sender, message, _PRESS)
        elif found.reference.user not in (0, sender.user):
            await self._say(sender, message, _FOR_ANOTHER)
        else:
            await self._answer(found.reference, question, sender, message, text)

    async def _answer(
        self,
        reference: QuestionReference,
        question: Question,
        sender: Sender,
        message: Mapping[str, Any],
        text: str,
    ) -> None:
        reply = _reply(reference, sender)
        match reference.action, question.form:
            case "r", _:
                reply = replace(reply, declines=True, reason=text)
            case _ if not can_be_answered(question) and question.outcome is None:
                await self._say(sender, message, _ON_THE_PAGE)
                return
            case "e", Approval(digest=digest):
                reply = replace(reply, value={"decision": "deny", "reason": text, "digest": digest})
            case "t", Choice():
                reply = replace(reply, value={"other": text.strip()})
            case _:
                reply = replace(reply, text=text)
        result = await self._replies.take(reply)
        if result.kind == "misfit" and result.question is not None and result.question.outcome is None:
            problem = [*text_pieces(result.text), ours("\n")]
            with suppress(NotSent):
                await self._prompt(
                    question, reference.action or "w", sender, message.get("message_id"), problem
                )
            return
        await self._say(sender, message, result.text)
        if result.kind == "late" and result.question is not None and not reference.action:
            parent = object_in(message, "reply_to_message")
            await self._redraw(_at(sender, parent), result.question)

    async def _question(self, found: UnverifiedReference, sender: Sender) -> Question | str:
        """The question that a place is about, or what to tell: only who may see it learns that there is one."""
        reference = found.reference
        question = await self._replies.find_question(
            reference.workspace, CHANNEL, sender.identity, reference.question_id
        )
        if isinstance(question, ReplyResult):
            return question.text
        return question if self._references.is_ours(found, question) else _NOT_MINE

    async def _prompt(
        self,
        question: Question,
        action: str,
        sender: Sender,
        reply_to: Any,
        problem: list[Piece] | None = None,
    ) -> str:
        name = sender.name if sender.in_room else None
        prompt = render_reply_prompt(
            question,
            self._url(question),
            self._references,
            action,
            user=sender.user,
            name=name,
            problem=problem or [],
        )
        await self._send(sender.chat, prompt, reply_to)
        return _REPLY_NOW

    async def _say(self, sender: Sender, message: Mapping[str, Any], text: str) -> None:
        """Tell somebody something, in reply to what they wrote."""
        with suppress(NotSent):
            await self._send(sender.chat, Rendered(compose(text_pieces(text))), message.get("message_id"))

    async def _send(self, chat: int, what: Rendered, reply_to: Any) -> None:
        where: dict[str, Any] = {"chat_id": chat}
        if _is_int(reply_to):
            where["reply_parameters"] = {"message_id": reply_to, "allow_sending_without_reply": True}
        await self._api.call("sendMessage", {**where, **what.body})

    async def _swap(self, at: Mapping[str, Any], rows: Keyboard) -> None:
        """Let a message have other buttons; it may have them already."""
        try:
            await self._api.call("editMessageReplyMarkup", {**at, "reply_markup": {"inline_keyboard": rows}})
        except Refused as refused:
            if not is_unchanged(refused):
                raise

    async def _redraw(self, at: Mapping[str, Any], question: Question) -> None:
        """Let a message that was pressed too late say how it ended."""
        with suppress(NotSent):
            ended = render_outcome(question, self._url(question), self._references)
            await self._api.call("editMessageText", {**at, **ended.body})

    def _url(self, question: Question) -> str:
        return f"{self._base_url}/questions/{question.id}"


_QUIET = frozenset({"", _REPLY_NOW, "Thank you, your answer was recorded."})
"""What is shown in passing; everything else must be closed by hand."""


def is_unchanged(refused: Refused) -> bool:
    """Whether a message says already what it was to say."""
    return "message is not modified" in refused.why


def _read_sender(
    what: Mapping[str, Any], message: Mapping[str, Any], update: str, evidence: str
) -> Sender | None:
    user, chat = object_in(what, "from"), object_in(message, "chat").get("id")
    number, name = user.get("id"), user.get("first_name")
    if not _is_int(number) or not _is_int(chat) or user.get("is_bot") is not False:
        return None
    return Sender(number, name if isinstance(name, str) else "", chat, update, evidence)


def _is_typed(message: Mapping[str, Any]) -> bool:
    """Whether the person named wrote this: not a room in their stead, nor another bot, nor somebody elsewhere."""
    return not any(
        each in message for each in ("sender_chat", "via_bot", "forward_origin", "sender_business_bot")
    )


def _is_command(text: str) -> bool:
    return re.fullmatch(r"/(start|id)(@\w+)?( .*)?", text, re.DOTALL) is not None


def _introduction(sender: Sender) -> str:
    where = f" The id of this room is {sender.chat}." if sender.in_room else ""
    return f"Your Telegram id is {sender.user}.{where} The administrator of Handraise needs it to reach you."


def _value(question: Question, reference: QuestionReference) -> Json:
    """What a button answers."""
    match question.form, reference.action:
        case Confirm(), "Y" | "N":
            return reference.action == "Y"
        case Choice(options=options), "O" if reference.number < len(options):
            return options[reference.number].id
        case Approval(digest=digest), "A" | "D":
            return {"decision": "approve" if reference.action == "A" else "deny", "digest": digest}
    raise InvalidPayload("callback_data")


def _accepts_any_text(form: AnyForm) -> bool:
    """Whether whatever somebody says would be an answer."""
    if isinstance(form, Form):
        return len(form.fields) == 1 and _accepts_any_text(form.fields[0].form)
    return isinstance(form, Open) and form.type == "text"


def _reply(reference: QuestionReference, sender: Sender) -> Reply:
    """A reply that says nothing yet. Telegram numbers everything that somebody does, and says it again if it must."""
    return Reply(
        workspace=reference.workspace,
        question_id=reference.question_id,
        channel=CHANNEL,
        identity=sender.identity,
        evidence=sender.evidence,
        id=sender.update,
        details={"user": sender.user, "chat": sender.chat},
    )


def _at(sender: Sender, message: Mapping[str, Any]) -> Mapping[str, Any]:
    """A message, so that it can be changed."""
    return {"chat_id": sender.chat, "message_id": message.get("message_id")}


def _is_int(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)

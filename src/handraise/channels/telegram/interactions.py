"""What people do in Telegram: they press a button, or reply to a message."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from handraise.channels import chat_flow
from handraise.channels.account_links import ChatAccount
from handraise.channels.chat_flow import (
    NOT_OURS,
    TRY_AGAIN,
    WHICH_QUESTION,
    ChatFlow,
    Given,
    decided,
    pressed,
    written,
)
from handraise.channels.inbound_replies import RECORDED, Replies, ReplyResult
from handraise.channels.payloads import InvalidPayload, object_in
from handraise.channels.telegram.api import BotApi, is_number
from handraise.channels.telegram.entities import Piece, compose, cut, ours
from handraise.channels.telegram.messages import (
    WRITING,
    Keyboard,
    can_be_answered,
    keyboard,
    render_confirmation,
    render_offer,
    render_outcome,
    render_question,
    render_reply_prompt,
    text_pieces,
)
from handraise.channels.telegram.references import QuestionReference, QuestionReferences
from handraise.model.errors import RequestConflict
from handraise.model.forms import Approval, Choice
from handraise.model.questions import Question
from handraise.model.sharing_rules import may_be_several
from handraise.model.visible import visible_line
from handraise.ports.channel import NotSent
from handraise.presentation.translation import gettext, gettext_noop

CHANNEL = "telegram"
_LONGEST_TOAST = 200
_ASKING_FIRST, _WRITING = frozenset("ynoadx"), frozenset("wtres")
"""Buttons that do not count yet: those that ask for confirmation, and those that need a text. `b` goes back."""
_MESSAGES = {letter: kind for kind, letter in WRITING.items()}
_DOING = {"Y": "yes", "N": "no", "O": "option", "A": "approve", "D": "deny", "X": "decline", "Z": "aside"}
"""Buttons that count at once."""
_PRESS = gettext_noop("If that is your answer, press a button of the question: people may talk here, too.")
_FOR_ANOTHER = gettext_noop(
    "That was for somebody else to reply to. Press the button of the question yourself."
)
_GONE = gettext_noop("I cannot find what you wrote any more. Please write it again.")
_TEXT_ONLY = gettext_noop("I can read only text.")
_REPLY_NOW = gettext_noop("Reply to the message that I have just sent.")
_QUIET = ("", _REPLY_NOW, RECORDED)
"""What is shown briefly; everything else must be closed by hand."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sender(chat_flow.Sender):
    """Somebody at Telegram, and where they did something."""

    user: int
    name: str
    chat: int

    @property
    def in_room(self) -> bool:
        """Whether others see what is said there: a private chat has the id of the person."""
        return self.chat != self.user


class InteractionHandler:
    """Takes what people do in Telegram to the desk, and tells them what came of it."""

    def __init__(self, api: BotApi, replies: Replies, references: QuestionReferences, base_url: str) -> None:
        self._api = api
        self._flow = ChatFlow(CHANNEL, replies, is_shown=can_be_answered, is_ours=references.is_ours)
        self._references = references
        self._base_url = base_url

    async def take(self, update: Mapping[str, Any], evidence: str) -> None:
        """Do what a genuine update says. The same one twice is one answer.

        Raises `InvalidPayload` if it makes no sense, and a desk's error if it should come again.
        """
        self._flow.begin()
        number = update.get("update_id")
        if not is_number(number):
            raise InvalidPayload("update_id")
        name = f"{self._api.bot}-{number}"
        match update:
            case {"callback_query": dict(query)}:
                await self._handle_press(query, name, evidence)
            case {"message": dict(message)}:
                await self._handle_message(message, name, evidence)

    async def _handle_press(self, query: Mapping[str, Any], update: str, evidence: str) -> None:
        """A button. Telegram shows that it is working until it is told otherwise, whatever the result."""
        if not isinstance(query.get("id"), str):
            raise InvalidPayload("callback_query")
        try:
            told = await self._press(query, update, evidence)
        except RequestConflict:
            # Another process is handling it, and tells them.
            raise
        except Exception:
            await self._toast(query, gettext(TRY_AGAIN))
            raise
        await self._toast(query, told)

    async def _toast(self, query: Mapping[str, Any], told: str) -> None:
        shown = cut(visible_line(told), _LONGEST_TOAST)
        body = {
            "callback_query_id": query.get("id"),
            "text": shown,
            "show_alert": told not in map(gettext, _QUIET),
        }
        # One that is too old to be answered is still taken.
        with suppress(NotSent):
            await self._api.call("answerCallbackQuery", body)

    async def _press(self, query: Mapping[str, Any], update: str, evidence: str) -> str:
        message = object_in(query, "message")
        sender = _read_sender(query, message, update, evidence)
        if sender is None:
            raise InvalidPayload("callback_query")
        reference = self._references.read_data(query.get("data"), message)
        if reference is None:
            return gettext(NOT_OURS)
        number = message.get("message_id")
        if reference.action in _MESSAGES:
            return await self._write(reference, sender, message)
        result = await self._flow.press(reference, sender, lambda question: _given(question, reference))
        if isinstance(result, Question):
            try:
                return await self._open(result, reference, sender, number)
            except NotSent:
                return gettext(TRY_AGAIN)
        if result.question is not None and not result.has_ended and result.kind != "moved":
            # A vote, or something that does not fit: there may be more to press.
            rows = self._keyboard(result.question, reference, sender)
            with suppress(NotSent):
                await self._swap(sender, number, rows)
        await self._redraw(sender, number, result)
        return result.text

    async def _write(self, reference: QuestionReference, sender: Sender, message: Mapping[str, Any]) -> str:
        """Write what somebody replied into the thread of its question, now that they have said what it is."""
        said = object_in(message, "reply_to_message")
        text, number = said.get("text"), said.get("message_id")
        if not isinstance(text, str) or not is_number(number):
            return gettext(_GONE)
        if object_in(said, "from").get("id") != sender.user:
            return gettext(_FOR_ANOTHER)
        # However often it is pressed, it is written once.
        once = replace(sender, id=f"{self._api.bot}-{sender.chat}-{number}-written")
        kind = _MESSAGES[reference.action]
        result = await self._flow.press(reference, once, lambda _: written(kind, text))
        if isinstance(result, Question):
            return ""
        if result.kind == "taken":
            told = compose(text_pieces(result.text))
            with suppress(NotSent):
                await self._api.edit("editMessageText", sender.chat, message.get("message_id"), told.body)
        return result.text

    async def _open(
        self, question: Question, reference: QuestionReference, sender: Sender, message: object
    ) -> str:
        """What a button opens that does not count yet; raises `NotSent`."""
        action = reference.action
        if action in _WRITING:
            return await self._prompt(question, action, sender, message)
        if action in _ASKING_FIRST:
            rows = render_confirmation(question, self._references, action, reference.number)
        else:
            rows = self._keyboard(question, reference, sender)
        await self._swap(sender, message, rows)
        return ""

    async def _handle_message(self, message: Mapping[str, Any], update: str, evidence: str) -> None:
        """A message that somebody typed: a reply to one of ours is an answer."""
        sender = _read_sender(message, message, update, evidence)
        if sender is None or not _is_typed(message):
            return
        text, parent = message.get("text"), object_in(message, "reply_to_message")
        if isinstance(text, str) and not sender.in_room:
            account = ChatAccount(CHANNEL, sender.identity, {"chat": sender.user}, sender.name)
            told = self._flow.connect(text, account, "Telegram")
            if told is not None:
                await self._say(sender, message, told.with_url)
                return
        mine = object_in(parent, "from").get("id") == self._api.bot
        reference = self._references.read_link(parent) if mine else None
        if reference is None:
            if isinstance(text, str) and _is_command(text):
                await self._say(sender, message, _introduction(sender))
            elif not sender.in_room or mine:
                await self._say(sender, message, gettext(WHICH_QUESTION))
            return
        if not isinstance(text, str):
            await self._say(sender, message, gettext(_TEXT_ONLY))
            return
        # In a room, only somebody who was asked by name is known to mean it.
        is_meant = reference.user == sender.user or not (reference.user or sender.in_room)
        hint = None if is_meant else _FOR_ANOTHER if reference.user else _PRESS
        result = await self._flow.write(
            reference, sender, text, read=lambda question: _written(question, reference, text), hint=hint
        )
        if result is None:
            return
        if result.offers and result.question is not None:
            question, url = result.question, self._url(result.question)
            offer = render_offer(
                question, url, self._references, result.text, result.offers, seen=reference.number
            )
            with suppress(NotSent):
                await self._api.send(sender.chat, offer.body, reply_to=message.get("message_id"))
            return
        if result.kind == "misfit" and result.question is not None and not result.has_ended:
            problem = [*text_pieces(result.text), ours("\n")]
            action = reference.action or "w"
            with suppress(NotSent):
                await self._prompt(result.question, action, sender, message.get("message_id"), problem)
            return
        await self._say(sender, message, result.text)
        if not reference.action:
            await self._redraw(sender, parent.get("message_id"), result)

    async def _prompt(
        self,
        question: Question,
        action: str,
        sender: Sender,
        reply_to: object,
        problem: list[Piece] | None = None,
    ) -> str:
        prompt = render_reply_prompt(
            question,
            self._url(question),
            self._references,
            action,
            user=sender.user,
            name=sender.name if sender.in_room else None,
            problem=problem or [],
        )
        await self._api.send(sender.chat, prompt.body, reply_to=reply_to)
        return gettext(_REPLY_NOW)

    async def _say(self, sender: Sender, message: Mapping[str, Any], text: str) -> None:
        """Tell somebody something, in reply to what they wrote."""
        with suppress(NotSent):
            body = compose(text_pieces(text)).body
            await self._api.send(sender.chat, body, reply_to=message.get("message_id"))

    async def _swap(self, sender: Sender, message: object, rows: Keyboard) -> None:
        """Give a message other buttons."""
        markup = {"reply_markup": {"inline_keyboard": rows}}
        await self._api.edit("editMessageReplyMarkup", sender.chat, message, markup)

    async def _redraw(self, sender: Sender, message: object, result: ReplyResult) -> None:
        """Show in a message that was pressed too late how its question ended, or what was written since."""
        shown = None
        if result.kind == "late" and result.question is not None:
            shown = render_outcome(result.question, self._url(result.question), self._references)
        elif result.kind == "moved" and (notice := await self._flow.current_notice(result)) is not None:
            shown = render_question(notice, self._references, room=sender.in_room)
        if shown is not None:
            with suppress(NotSent):
                await self._api.edit("editMessageText", sender.chat, message, shown.body)

    def _keyboard(self, question: Question, reference: QuestionReference, sender: Sender) -> Keyboard:
        several = may_be_several(question)
        return keyboard(question, self._references, reference.number, room=sender.in_room, several=several)

    def _url(self, question: Question) -> str:
        return f"{self._base_url}/questions/{question.id}"


def _read_sender(
    what: Mapping[str, Any], message: Mapping[str, Any], update: str, evidence: str
) -> Sender | None:
    user, chat = object_in(what, "from"), object_in(message, "chat").get("id")
    number, name = user.get("id"), user.get("first_name")
    if not is_number(number) or not is_number(chat) or user.get("is_bot") is not False:
        return None
    return Sender(
        identity=str(number),
        evidence=evidence,
        # Telegram numbers everything that somebody does, and sends it again if it must.
        id=update,
        details={"user": number, "chat": chat},
        user=number,
        name=name if isinstance(name, str) else "",
        chat=chat,
    )


def _is_typed(message: Mapping[str, Any]) -> bool:
    """Whether the person named wrote this: not a room in their place, nor another bot, nor somebody elsewhere."""
    return not any(
        each in message for each in ("sender_chat", "via_bot", "forward_origin", "sender_business_bot")
    )


def _is_command(text: str) -> bool:
    return re.fullmatch(r"/(start|id)(@\w+)?( .*)?", text, re.DOTALL) is not None


def _introduction(sender: Sender) -> str:
    if sender.in_room:
        text = gettext(
            "Your Telegram id is {user}. The id of this room is {room}. "
            "The administrator of Handraise needs it to reach you."
        )
    else:
        text = gettext("Your Telegram id is {user}. The administrator of Handraise needs it to reach you.")
    return text.format(user=sender.user, room=sender.chat)


def _given(question: Question, reference: QuestionReference) -> Given | None:
    """What a button answers; None for one that does not count yet."""
    verb = _DOING.get(reference.action)
    if verb is None:
        return None
    if verb == "decline":
        return Given(declines=True)
    if verb == "aside":
        return Given(sets_aside=True)
    if isinstance(question.form, Approval):
        given = pressed(question.form, verb, digest=question.form.digest)
        return replace(given, seen=reference.number)
    return pressed(question.form, verb, number=reference.number)


def _written(question: Question, reference: QuestionReference, text: str) -> Given:
    """What a text that was asked for answers."""
    match reference.action, question.form:
        case "s", _:
            return Given(sends_back=True, reason=text)
        case "r", _:
            return Given(declines=True, reason=text)
        case "e", Approval(digest=digest):
            return decided("deny", digest, reason=text)
        case "t", Choice():
            return Given(value={"other": text.strip()})
        case _:
            return Given(text=text, seen=reference.number)

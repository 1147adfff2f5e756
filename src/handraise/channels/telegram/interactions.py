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

from handraise.channels.inbound_replies import Replies, Reply, Said
from handraise.channels.telegram.api import BotApi, Refused
from handraise.channels.telegram.entities import Piece, composed, cut, ours
from handraise.channels.telegram.messages import (
    Keyboard,
    Rendered,
    can_be_answered,
    keyboard,
    once_more,
    prompting,
    said,
    settled,
)
from handraise.channels.telegram.references import Found, Place, Places
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


class Garbled(Exception):
    """Something that Telegram never sends."""


@dataclass(frozen=True, slots=True)
class Who:
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


class Incoming:
    """Takes what people do in Telegram to the desk, and tells them what came of it."""

    def __init__(self, api: BotApi, replies: Replies, places: Places, base_url: str) -> None:
        self._api = api
        self._replies = replies
        self._places = places
        self._base_url = base_url

    async def take(self, update: Mapping[str, Any], evidence: str) -> None:
        """Do what a genuine update says. The same one twice is one answer.

        Raises `Garbled` where it makes no sense, and a desk's error where it should come again.
        """
        number = update.get("update_id")
        if not _is_int(number):
            raise Garbled("update_id")
        name = f"{self._api.bot}-{number}"
        match update:
            case {"callback_query": dict(query)}:
                await self._pressed(query, name, evidence)
            case {"message": dict(message)}:
                await self._written(message, name, evidence)

    async def _pressed(self, query: Mapping[str, Any], update: str, evidence: str) -> None:
        """A button. Telegram shows that it is at work until it is told otherwise, whatever comes of it."""
        if not isinstance(query.get("id"), str):
            raise Garbled("callback_query")
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
        message = _dict(query, "message")
        who = _who(query, message, update, evidence)
        if who is None:
            raise Garbled("callback_query")
        found = self._places.read_data(query.get("data"), message)
        if found is None:
            return _NOT_MINE
        question = await self._question(found, who)
        if isinstance(question, str):
            return question
        deed, at = found.place.deed, _at(who, message)
        if deed in _DOING:
            return await self._decide(found.place, question, who, at)
        if question.outcome is not None:
            await self._redraw(at, question)
            return too_late(question.outcome)
        try:
            if deed in _WRITING:
                return await self._prompt(question, deed, who, reply_to=at.get("message_id"))
            if deed in _ASKING_FIRST:
                await self._swap(at, once_more(question, self._places, deed, found.place.number))
            elif deed == _BACK:
                await self._swap(at, keyboard(question, self._places))
        except NotSent:
            return _TRY_AGAIN
        return ""

    async def _decide(self, place: Place, question: Question, who: Who, at: Mapping[str, Any]) -> str:
        reply = _reply(place, who)
        if place.deed == "X":
            reply = replace(reply, declines=True)
        elif not can_be_answered(question):
            return _ON_THE_PAGE
        else:
            reply = replace(reply, value=_value(question, place))
        came = await self._replies.take(reply)
        if came.question is not None and came.question.outcome is None:
            # A vote, or something that does not fit: there may be more to press.
            with suppress(NotSent):
                await self._swap(at, keyboard(came.question, self._places))
        elif came.kind == "late" and came.question is not None:
            await self._redraw(at, came.question)
        return came.text

    async def _written(self, message: Mapping[str, Any], update: str, evidence: str) -> None:
        """A message that somebody typed: a reply to one of ours is an answer."""
        who = _who(message, message, update, evidence)
        if who is None or not _is_typed(message):
            return
        text, parent = message.get("text"), _dict(message, "reply_to_message")
        mine = _dict(parent, "from").get("id") == self._api.bot
        found = self._places.read_link(parent) if mine else None
        if found is None:
            if isinstance(text, str) and _is_command(text):
                await self._say(who, message, _introduction(who))
            elif not who.in_room or mine:
                await self._say(who, message, _WHICH)
            return
        question = await self._question(found, who)
        if isinstance(question, str):
            await self._say(who, message, question)
        elif not isinstance(text, str):
            await self._say(who, message, _TEXT_ONLY)
        elif who.in_room and found.place.user == 0:
            # Only who was asked by name is known to mean it.
            if _takes_anything(question.form) or not isinstance(read_reply(question, text), NotAnAnswer):
                await self._say(who, message, _PRESS)
        elif found.place.user not in (0, who.user):
            await self._say(who, message, _FOR_ANOTHER)
        else:
            await self._answer(found.place, question, who, message, text)

    async def _answer(
        self, place: Place, question: Question, who: Who, message: Mapping[str, Any], text: str
    ) -> None:
        reply = _reply(place, who)
        match place.deed, question.form:
            case "r", _:
                reply = replace(reply, declines=True, reason=text)
            case _ if not can_be_answered(question) and question.outcome is None:
                await self._say(who, message, _ON_THE_PAGE)
                return
            case "e", Approval(digest=digest):
                reply = replace(reply, value={"decision": "deny", "reason": text, "digest": digest})
            case "t", Choice():
                reply = replace(reply, value={"other": text.strip()})
            case _:
                reply = replace(reply, text=text)
        came = await self._replies.take(reply)
        if came.kind == "misfit" and came.question is not None and came.question.outcome is None:
            problem = [*said(came.text), ours("\n")]
            with suppress(NotSent):
                await self._prompt(question, place.deed or "w", who, message.get("message_id"), problem)
            return
        await self._say(who, message, came.text)
        if came.kind == "late" and came.question is not None and not place.deed:
            parent = _dict(message, "reply_to_message")
            await self._redraw(_at(who, parent), came.question)

    async def _question(self, found: Found, who: Who) -> Question | str:
        """The question that a place is about, or what to tell: only who may see it learns that there is one."""
        place = found.place
        question = await self._replies.look(place.workspace, CHANNEL, who.identity, place.question_id)
        if isinstance(question, Said):
            return question.text
        return question if self._places.is_ours(found, question) else _NOT_MINE

    async def _prompt(
        self, question: Question, deed: str, who: Who, reply_to: Any, problem: list[Piece] | None = None
    ) -> str:
        name = who.name if who.in_room else None
        prompt = prompting(
            question, self._url(question), self._places, deed, user=who.user, name=name, problem=problem or []
        )
        await self._send(who.chat, prompt, reply_to)
        return _REPLY_NOW

    async def _say(self, who: Who, message: Mapping[str, Any], text: str) -> None:
        """Tell somebody something, in reply to what they wrote."""
        with suppress(NotSent):
            await self._send(who.chat, Rendered(composed(said(text))), message.get("message_id"))

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
            ended = settled(question, self._url(question), self._places)
            await self._api.call("editMessageText", {**at, **ended.body})

    def _url(self, question: Question) -> str:
        return f"{self._base_url}/questions/{question.id}"


_QUIET = frozenset({"", _REPLY_NOW, "Thank you, your answer was recorded."})
"""What is shown in passing; everything else must be closed by hand."""


def is_unchanged(refused: Refused) -> bool:
    """Whether a message says already what it was to say."""
    return "message is not modified" in refused.why


def _who(what: Mapping[str, Any], message: Mapping[str, Any], update: str, evidence: str) -> Who | None:
    user, chat = _dict(what, "from"), _dict(message, "chat").get("id")
    number, name = user.get("id"), user.get("first_name")
    if not _is_int(number) or not _is_int(chat) or user.get("is_bot") is not False:
        return None
    return Who(number, name if isinstance(name, str) else "", chat, update, evidence)


def _is_typed(message: Mapping[str, Any]) -> bool:
    """Whether the person named wrote this: not a room in their stead, nor another bot, nor somebody elsewhere."""
    return not any(
        each in message for each in ("sender_chat", "via_bot", "forward_origin", "sender_business_bot")
    )


def _is_command(text: str) -> bool:
    return re.fullmatch(r"/(start|id)(@\w+)?( .*)?", text, re.DOTALL) is not None


def _introduction(who: Who) -> str:
    where = f" The id of this room is {who.chat}." if who.in_room else ""
    return f"Your Telegram id is {who.user}.{where} Whoever runs Handraise here needs it to reach you."


def _value(question: Question, place: Place) -> Json:
    """What a button answers."""
    match question.form, place.deed:
        case Confirm(), "Y" | "N":
            return place.deed == "Y"
        case Choice(options=options), "O" if place.number < len(options):
            return options[place.number].id
        case Approval(digest=digest), "A" | "D":
            return {"decision": "approve" if place.deed == "A" else "deny", "digest": digest}
    raise Garbled("callback_data")


def _takes_anything(form: AnyForm) -> bool:
    """Whether whatever somebody says would be an answer."""
    if isinstance(form, Form):
        return len(form.fields) == 1 and _takes_anything(form.fields[0].form)
    return isinstance(form, Open) and form.type == "text"


def _reply(place: Place, who: Who) -> Reply:
    """A reply that says nothing yet. Telegram numbers everything that somebody does, and says it again if it must."""
    return Reply(
        workspace=place.workspace,
        question_id=place.question_id,
        channel=CHANNEL,
        identity=who.identity,
        evidence=who.evidence,
        id=who.update,
        details={"user": who.user, "chat": who.chat},
    )


def _at(who: Who, message: Mapping[str, Any]) -> Mapping[str, Any]:
    """A message, so that it can be changed."""
    return {"chat_id": who.chat, "message_id": message.get("message_id")}


def _is_int(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _dict(payload: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = payload.get(name)
    return found if isinstance(found, dict) else {}

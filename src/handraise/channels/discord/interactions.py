"""What people do in Discord: they press, choose, or fill in a form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from handraise.channels.account_links import ChatAccount
from handraise.channels.background_tasks import BackgroundTasks
from handraise.channels.chat_flow import (
    NOT_A_CODE,
    NOT_OURS,
    TRY_AGAIN,
    ChatFlow,
    Given,
    Sender,
    pressed,
    submitted,
    written,
)
from handraise.channels.discord.api import CONNECT, EPHEMERAL, DiscordApi, is_id, message_of, text_message
from handraise.channels.discord.components import link_row
from handraise.channels.discord.messages import render_confirmation, render_outcome, render_question
from handraise.channels.discord.modals import (
    answer_modal,
    message_modal,
    read_answer,
    read_reason,
    read_text,
    reason_modal,
)
from handraise.channels.discord.references import QuestionReference, parse_reference, tag_of
from handraise.channels.inbound_replies import Replies, ReplyResult
from handraise.channels.payloads import InvalidPayload, list_in, object_in
from handraise.model.forms import Approval
from handraise.model.questions import Question
from handraise.model.thread_messages import MessageKind
from handraise.presentation.translation import gettext

CHANNEL = "discord"
SIGNED = "discord-signature"
"""The evidence for what came: Discord signed it."""
PING, COMMAND, PRESSED, SUBMITTED = 1, 2, 3, 5
_SAYS, _SAYS_LATER, _STAYS, _REPLACES, _OPENS = 4, 5, 6, 7, 9
LATER = {"type": _SAYS_LATER, "data": {"flags": EPHEMERAL}}
"""Promises that something will be said to this person."""
_WRITING: dict[str, MessageKind] = {"ask": "asked_back", "note": "noted"}
"""The buttons for a message, and its kind."""
_OF_APPROVALS = frozenset({"reason", *_WRITING})
_OF_ALL = frozenset({"send_back"})
_OPENING = frozenset({"answer", "decline", *_OF_APPROVALS, *_OF_ALL})
"""The buttons that open a form."""


@dataclass(frozen=True, slots=True)
class InteractionResult:
    """What Discord is answered, and what is said instead if that comes too late: no form can open any more."""

    answer: Mapping[str, Any] = field(repr=False)
    later: Mapping[str, Any] = field(repr=False)


def told(body: dict[str, Any], kind: int = _SAYS) -> InteractionResult:
    """Something that is said to one person: nobody else sees it."""
    shown = body if kind == _REPLACES else {**body, "flags": body["flags"] | EPHEMERAL}
    return InteractionResult({"type": kind} if kind == _STAYS else {"type": kind, "data": shown}, body)


class InteractionHandler:
    """Takes what people do in Discord to the desk, and says what came of it."""

    def __init__(self, api: DiscordApi, replies: Replies, tasks: BackgroundTasks) -> None:
        self._api = api
        self._flow: ChatFlow[QuestionReference] = ChatFlow(CHANNEL, replies)
        self._tasks = tasks

    def begin(self) -> None:
        """See `ChatFlow.begin`."""
        self._flow.begin()

    async def take(self, payload: Mapping[str, Any]) -> InteractionResult:
        """Do what a genuine payload says.

        Raises `InvalidPayload` if it makes no sense, and a desk's error if it could not be done now.
        """
        kind, data, message = payload.get("type"), object_in(payload, "data"), object_in(payload, "message")
        if kind == COMMAND:
            return self._connect(payload, data)
        sender = _read_sender(payload) if kind in (PRESSED, SUBMITTED) else None
        reference = parse_reference(data.get("custom_id"))
        if sender is None or reference is None:
            return told(text_message(gettext(NOT_OURS)))
        verb = f"?option-{_chosen(data)}" if reference.verb == "select" else reference.verb

        def read(question: Question) -> Given | None:
            if kind == SUBMITTED:
                return _submitted(question, reference, data.get("components"))
            if verb.startswith("?") or verb in _OPENING:
                return None
            return _pressed(question, reference, verb)

        result = await self._flow.press(reference, sender, read)
        if isinstance(result, Question) and verb == "?approve":
            # What follows is in a message of its own: here it is known which message was read.
            result = self._flow.moved(result, reference.seen) or result
        if isinstance(result, Question):
            return _opened(result, reference, verb)
        flags = message.get("flags")
        if isinstance(flags, int) and flags & EPHEMERAL:
            # It was done to a message that nobody else sees.
            return told(text_message(result.text), _REPLACES if kind == PRESSED else _SAYS)
        is_written = kind == SUBMITTED and verb in _WRITING
        await self._redraw(payload.get("channel_id"), message.get("id"), result, is_written=is_written)
        is_seen = kind == PRESSED and result.kind == "taken" and result.has_ended
        return told(text_message(result.text), _STAYS if is_seen else _SAYS)

    def _connect(self, payload: Mapping[str, Any], data: Mapping[str, Any]) -> InteractionResult:
        """Answer a code with the link that connects this account. Nobody else sees it."""
        if data.get("name") != CONNECT["name"]:
            return told(text_message(gettext(NOT_OURS)))
        sender = _read_sender(payload)
        given = [each for each in list_in(data, "options") if isinstance(each, dict)]
        code = next((each.get("value") for each in given if each.get("name") == "code"), None)
        user = object_in(object_in(payload, "member"), "user") or object_in(payload, "user")
        name = user.get("global_name") or user.get("username")
        account = ChatAccount(
            CHANNEL, sender.identity, {"user": sender.identity}, name if isinstance(name, str) else ""
        )
        said = self._flow.connect(code, account, "Discord") if isinstance(code, str) else None
        if said is None:
            return told(text_message(gettext(NOT_A_CODE)))
        rows = [] if said.url is None else [link_row(gettext("Connect"), said.url)]
        return told(text_message(said.text, rows))

    async def _redraw(self, room: object, message: object, result: ReplyResult, *, is_written: bool) -> None:
        """Show in a message that was pressed too late how its question ended, or what was written since."""
        shown = None
        if result.kind == "late" and result.question is not None:
            shown = render_outcome(result.question)
        elif result.kind == "moved" or is_written:
            notice = await self._flow.current_notice(result)
            shown = None if notice is None else render_question(notice)
        if shown is not None and is_id(room) and is_id(message):
            self._tasks.begin(self._api.edit(str(room), str(message), message_of(shown)))


def _read_sender(payload: Mapping[str, Any]) -> Sender:
    """Who did something; raises `InvalidPayload`. In a room of a guild, people come as its members."""
    user = (object_in(object_in(payload, "member"), "user") or object_in(payload, "user")).get("id")
    name, guild = payload.get("id"), payload.get("guild_id")
    if not is_id(user) or not is_id(name):
        raise InvalidPayload("user")
    details = {"user": user} | ({"guild": guild} if is_id(guild) else {})
    # Discord names everything that somebody does.
    return Sender(identity=str(user), evidence=SIGNED, id=str(name), details=details)


def _opened(question: Question, reference: QuestionReference, verb: str) -> InteractionResult:
    """The form behind a button, or the confirmation that it asks for."""
    if verb.startswith("?"):
        _pressed(question, reference, verb[1:])
        return told(message_of(render_confirmation(question, verb[1:], reference.seen)))
    if verb not in _OF_ALL and (verb in _OF_APPROVALS) != isinstance(question.form, Approval):
        raise InvalidPayload(verb)
    if verb in _WRITING:
        view = message_modal(question, verb)
    else:
        view = answer_modal(question) if verb == "answer" else reason_modal(question, verb)
    return InteractionResult({"type": _OPENS, "data": view}, text_message(gettext(TRY_AGAIN)))


def _pressed(question: Question, reference: QuestionReference, verb: str) -> Given:
    """What a button answers."""
    kind, _, number = verb.partition("-")
    given = pressed(question.form, kind, number=number, digest=_digest(question, reference))
    return replace(given, seen=reference.seen)


def _submitted(question: Question, reference: QuestionReference, components: object) -> Given:
    """What a form answers, or writes."""
    if reference.verb in _WRITING and isinstance(question.form, Approval):
        return written(_WRITING[reference.verb], read_text(components))
    return submitted(
        question.form,
        {"reason": "deny"}.get(reference.verb, reference.verb),
        read_answer=lambda: read_answer(question.form, components),
        reason=read_reason(components),
        digest=_digest(question, reference),
    )


def _digest(question: Question, reference: QuestionReference) -> str:
    """The digest that was meant: that of the action, if its short form is the same."""
    form = question.form
    if isinstance(form, Approval) and reference.tag == tag_of(form):
        return form.digest
    return reference.tag or "none"


def _chosen(data: Mapping[str, Any]) -> str:
    match data.get("values"):
        case [str(chosen)]:
            return chosen
        case _:
            raise InvalidPayload("values")

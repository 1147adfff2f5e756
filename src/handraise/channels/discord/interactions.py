"""What people do in Discord: they press, choose, or fill in a form.

Who it was is for Discord to say, and which person that is here for the addresses; whether they may answer, and whether
the answer fits, for the desk.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from handraise.channels.background_tasks import BackgroundTasks
from handraise.channels.discord.api import EPHEMERAL, DiscordApi, is_id, message_of, text_message
from handraise.channels.discord.components import Component
from handraise.channels.discord.messages import render_confirmation, render_outcome
from handraise.channels.discord.modals import (
    InvalidInput,
    answer_modal,
    read_answer,
    read_reason,
    reason_modal,
)
from handraise.channels.discord.references import QuestionReference, parse_reference, tag_of
from handraise.channels.inbound_replies import Replies, Reply, ReplyResult
from handraise.channels.payloads import InvalidPayload, object_in
from handraise.model.forms import Approval, Choice, Confirm
from handraise.model.json_values import Json
from handraise.model.plain_text import too_late
from handraise.model.questions import Question

CHANNEL = "discord"
SIGNED = "discord-signature"
"""The evidence for what came: Discord signed it."""
PING, PRESSED, SUBMITTED = 1, 3, 5
_SAYS, _SAYS_LATER, _STAYS, _REPLACES, _OPENS = 4, 5, 6, 7, 9
LATER = {"type": _SAYS_LATER, "data": {"flags": EPHEMERAL}}
"""Promises that something will be said to this person."""
_STRANGE = "I cannot tell what that is for. Open your inbox to see what waits for you."
_TRY_AGAIN = "That took too long. Please press it again."


@dataclass(frozen=True, slots=True)
class InteractionResult:
    """What came of what somebody did: what they are told, or the form that opens before them.

    `is_visible` where the message itself will say so; `replaces` where what was pressed is for them alone.
    """

    body: Mapping[str, Any] = field(repr=False)
    modal: Component | None = field(default=None, repr=False)
    is_visible: bool = False
    replaces: bool = False

    @property
    def answer(self) -> Mapping[str, Any]:
        """The answer to Discord's request. Nobody else sees what this person is told."""
        if self.modal is not None:
            return {"type": _OPENS, "data": self.modal}
        if self.is_visible:
            return {"type": _STAYS}
        if self.replaces:
            return {"type": _REPLACES, "data": self.body}
        return {"type": _SAYS, "data": {**self.body, "flags": self.body["flags"] | EPHEMERAL}}

    @property
    def later(self) -> Mapping[str, Any]:
        """What fills in a promise: no form can open any more."""
        return text_message(_TRY_AGAIN) if self.modal is not None else self.body


@dataclass(frozen=True, slots=True)
class Interaction:
    """One thing that somebody did, as Discord tells it."""

    kind: int
    id: str
    user: str
    guild: str | None
    data: Mapping[str, Any] = field(repr=False)
    message: Mapping[str, Any] = field(repr=False)
    room: str | None = None

    @property
    def is_private(self) -> bool:
        """Whether it was done to a message that nobody else sees."""
        flags = self.message.get("flags")
        return isinstance(flags, int) and bool(flags & EPHEMERAL)


class InteractionHandler:
    """Takes what people do in Discord to the desk, and says what came of it."""

    def __init__(self, api: DiscordApi, replies: Replies, tasks: BackgroundTasks) -> None:
        self._api = api
        self._replies = replies
        self._tasks = tasks

    async def take(self, payload: Mapping[str, Any]) -> InteractionResult:
        """Do what a genuine payload says.

        Raises `InvalidPayload` where it makes no sense, and a desk's error where it could not be done now.
        """
        if payload.get("type") not in (PRESSED, SUBMITTED):
            return InteractionResult(text_message(_STRANGE))
        interaction = read_interaction(payload)
        reference = parse_reference(interaction.data.get("custom_id"))
        if reference is None:
            return InteractionResult(text_message(_STRANGE))
        question = await self._replies.find_question(
            reference.workspace, CHANNEL, interaction.user, reference.question_id
        )
        if isinstance(question, ReplyResult):
            return InteractionResult(text_message(question.text), replaces=interaction.is_private)
        if interaction.kind == SUBMITTED:
            return await self._handle_submission(interaction, reference, question)
        return await self._handle_press(interaction, reference, question)

    async def _handle_press(
        self, interaction: Interaction, reference: QuestionReference, question: Question
    ) -> InteractionResult:
        verb = reference.verb
        reply = _reply(reference, interaction)
        if verb == "select":
            verb = f"?option-{_chosen(interaction)}"
        if verb.startswith("?") or verb in ("answer", "decline", "reason"):
            if question.outcome is not None:
                self._redraw(interaction, question)
                return InteractionResult(text_message(too_late(question.outcome)))
            return _opened(question, reference, verb)
        return await self._take(interaction, replace(reply, value=_value(question, reference, verb)))

    async def _handle_submission(
        self, interaction: Interaction, reference: QuestionReference, question: Question
    ) -> InteractionResult:
        components = interaction.data.get("components")
        reply = _reply(reference, interaction)
        match reference.verb, question.form:
            case "decline", form if not isinstance(form, Approval):
                reply = replace(reply, declines=True, reason=read_reason(components))
            case "reason", Approval() as form:
                reason = read_reason(components)
                value = {"decision": "deny", "reason": reason, "digest": _digest(form, reference)}
                reply = replace(reply, value=value)
            case "answer", form if not isinstance(form, Approval):
                try:
                    reply = replace(reply, value=read_answer(form, components))
                except InvalidInput as unclear:
                    return InteractionResult(text_message(f"That does not fit: {unclear.problem}."))
            case _:
                raise InvalidPayload("custom_id")
        return await self._take(interaction, reply)

    async def _take(self, interaction: Interaction, reply: Reply) -> InteractionResult:
        result = await self._replies.take(reply)
        ended = result.question is not None and result.question.outcome is not None
        if result.kind == "late" and result.question is not None:
            self._redraw(interaction, result.question)
        seen = result.kind == "taken" and ended and interaction.kind == PRESSED and not interaction.is_private
        return InteractionResult(
            text_message(result.text),
            is_visible=seen,
            replaces=interaction.kind == PRESSED and interaction.is_private,
        )

    def _redraw(self, interaction: Interaction, question: Question) -> None:
        """Let a message that was pressed too late say how it ended."""
        message = interaction.message.get("id")
        if (
            interaction.room is not None
            and is_id(message)
            and not interaction.is_private
            and question.outcome is not None
        ):
            self._tasks.begin(
                self._api.edit(interaction.room, str(message), message_of(render_outcome(question)))
            )


def read_interaction(payload: Mapping[str, Any]) -> Interaction:
    """What a payload says that somebody did; raises `InvalidPayload`."""
    # In a room of a guild, people come as its members.
    user = object_in(object_in(payload, "member"), "user") or object_in(payload, "user")
    named, room, guild = user.get("id"), payload.get("channel_id"), payload.get("guild_id")
    if not is_id(named) or not is_id(payload.get("id")):
        raise InvalidPayload("user")
    return Interaction(
        payload["type"],
        str(payload["id"]),
        str(named),
        str(guild) if is_id(guild) else None,
        object_in(payload, "data"),
        object_in(payload, "message"),
        str(room) if is_id(room) else None,
    )


def _reply(reference: QuestionReference, interaction: Interaction) -> Reply:
    """A reply that says nothing yet. Discord names everything that somebody does."""
    return Reply(
        workspace=reference.workspace,
        question_id=reference.question_id,
        channel=CHANNEL,
        identity=interaction.user,
        evidence=SIGNED,
        id=interaction.id,
        details={"user": interaction.user, **({"guild": interaction.guild} if interaction.guild else {})},
    )


def _opened(question: Question, reference: QuestionReference, verb: str) -> InteractionResult:
    """The form behind a button, or what is asked once more."""
    form = question.form
    if verb.startswith("?"):
        _value(question, reference, verb[1:])
        return InteractionResult(message_of(render_confirmation(question, verb[1:])))
    if (verb == "reason") != isinstance(form, Approval):
        raise InvalidPayload(verb)
    view = answer_modal(question) if verb == "answer" else reason_modal(question, verb)
    return InteractionResult(text_message(_TRY_AGAIN), modal=view)


def _value(question: Question, reference: QuestionReference, verb: str) -> Json:
    """What a button answers."""
    match question.form, verb.partition("-")[0]:
        case Confirm(), "yes" | "no" if verb in ("yes", "no"):
            return verb == "yes"
        case Choice(options=options), "option":
            known = {f"option-{number}": option.id for number, option in enumerate(options)}
            if verb in known:
                return known[verb]
        case Approval() as form, "approve" | "deny" if verb in ("approve", "deny"):
            return {"decision": verb, "digest": _digest(form, reference)}
    raise InvalidPayload(verb)


def _digest(form: Approval, reference: QuestionReference) -> str | None:
    """The digest that was meant: that of the action, where the short form of it is the same."""
    return form.digest if reference.tag == tag_of(form) else reference.tag or "none"


def _chosen(interaction: Interaction) -> str:
    match interaction.data.get("values"):
        case [str(chosen)]:
            return chosen
        case _:
            raise InvalidPayload("values")

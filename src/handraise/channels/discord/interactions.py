"""What people do in Discord: they press, choose, or fill in a form.

Who it was is for Discord to say, and which person that is here for the addresses; whether they may answer, and whether
the answer fits, for the desk.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from handraise.channels.background_tasks import BackgroundTasks
from handraise.channels.discord.api import EPHEMERAL, DiscordApi, is_id, message_of, said
from handraise.channels.discord.components import Component
from handraise.channels.discord.messages import once_more, settled
from handraise.channels.discord.modals import (
    Garbled,
    Unclear,
    answer_modal,
    read_answer,
    read_reason,
    reason_modal,
)
from handraise.channels.discord.references import Place, read_place, tag_of
from handraise.channels.inbound_replies import Replies, Reply, Said
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
class Came:
    """What came of what somebody did: what they are told, or the form that opens before them.

    `is_plain_to_see` where the message itself will say so; `replaces` where what was pressed is for them alone.
    """

    body: Mapping[str, Any] = field(repr=False)
    modal: Component | None = field(default=None, repr=False)
    is_plain_to_see: bool = False
    replaces: bool = False

    @property
    def answer(self) -> Mapping[str, Any]:
        """The answer to Discord's request. Nobody else sees what this person is told."""
        if self.modal is not None:
            return {"type": _OPENS, "data": self.modal}
        if self.is_plain_to_see:
            return {"type": _STAYS}
        if self.replaces:
            return {"type": _REPLACES, "data": self.body}
        return {"type": _SAYS, "data": {**self.body, "flags": self.body["flags"] | EPHEMERAL}}

    @property
    def later(self) -> Mapping[str, Any]:
        """What fills in a promise: no form can open any more."""
        return said(_TRY_AGAIN) if self.modal is not None else self.body


@dataclass(frozen=True, slots=True)
class Done:
    """One thing that somebody did, as Discord tells it."""

    kind: int
    id: str
    user: str
    guild: str | None
    data: Mapping[str, Any] = field(repr=False)
    message: Mapping[str, Any] = field(repr=False)
    room: str | None = None

    @property
    def is_theirs_alone(self) -> bool:
        """Whether it was done to a message that nobody else sees."""
        flags = self.message.get("flags")
        return isinstance(flags, int) and bool(flags & EPHEMERAL)


class Incoming:
    """Takes what people do in Discord to the desk, and says what came of it."""

    def __init__(self, api: DiscordApi, replies: Replies, beside: BackgroundTasks) -> None:
        self._api = api
        self._replies = replies
        self._beside = beside

    async def take(self, payload: Mapping[str, Any]) -> Came:
        """Do what a genuine payload says.

        Raises `Garbled` where it makes no sense, and a desk's error where it could not be done now.
        """
        if payload.get("type") not in (PRESSED, SUBMITTED):
            return Came(said(_STRANGE))
        done = read_done(payload)
        place = read_place(done.data.get("custom_id"))
        if place is None:
            return Came(said(_STRANGE))
        question = await self._replies.look(place.workspace, CHANNEL, done.user, place.question_id)
        if isinstance(question, Said):
            return Came(said(question.text), replaces=done.is_theirs_alone)
        if done.kind == SUBMITTED:
            return await self._submitted(done, place, question)
        return await self._pressed(done, place, question)

    async def _pressed(self, done: Done, place: Place, question: Question) -> Came:
        verb = place.verb
        reply = _reply(place, done)
        if verb == "select":
            verb = f"?option-{_chosen(done)}"
        if verb.startswith("?") or verb in ("answer", "decline", "reason"):
            if question.outcome is not None:
                self._redraw(done, question)
                return Came(said(too_late(question.outcome)))
            return _opened(question, place, verb)
        return await self._take(done, replace(reply, value=_value(question, place, verb)))

    async def _submitted(self, done: Done, place: Place, question: Question) -> Came:
        components = done.data.get("components")
        reply = _reply(place, done)
        match place.verb, question.form:
            case "decline", form if not isinstance(form, Approval):
                reply = replace(reply, declines=True, reason=read_reason(components))
            case "reason", Approval() as form:
                reason = read_reason(components)
                value = {"decision": "deny", "reason": reason, "digest": _digest(form, place)}
                reply = replace(reply, value=value)
            case "answer", form if not isinstance(form, Approval):
                try:
                    reply = replace(reply, value=read_answer(form, components))
                except Unclear as unclear:
                    return Came(said(f"That does not fit: {unclear.problem}."))
            case _:
                raise Garbled("custom_id")
        return await self._take(done, reply)

    async def _take(self, done: Done, reply: Reply) -> Came:
        came = await self._replies.take(reply)
        ended = came.question is not None and came.question.outcome is not None
        if came.kind == "late" and came.question is not None:
            self._redraw(done, came.question)
        seen = came.kind == "taken" and ended and done.kind == PRESSED and not done.is_theirs_alone
        return Came(
            said(came.text), is_plain_to_see=seen, replaces=done.kind == PRESSED and done.is_theirs_alone
        )

    def _redraw(self, done: Done, question: Question) -> None:
        """Let a message that was pressed too late say how it ended."""
        message = done.message.get("id")
        if (
            done.room is not None
            and is_id(message)
            and not done.is_theirs_alone
            and question.outcome is not None
        ):
            self._beside.begin(self._api.edit(done.room, str(message), message_of(settled(question))))


def read_done(payload: Mapping[str, Any]) -> Done:
    """What a payload says that somebody did; raises `Garbled`."""
    # In a room of a guild, people come as its members.
    user = _dict(_dict(payload, "member"), "user") or _dict(payload, "user")
    named, room, guild = user.get("id"), payload.get("channel_id"), payload.get("guild_id")
    if not is_id(named) or not is_id(payload.get("id")):
        raise Garbled("user")
    return Done(
        payload["type"],
        str(payload["id"]),
        str(named),
        str(guild) if is_id(guild) else None,
        _dict(payload, "data"),
        _dict(payload, "message"),
        str(room) if is_id(room) else None,
    )


def _reply(place: Place, done: Done) -> Reply:
    """A reply that says nothing yet. Discord names everything that somebody does."""
    return Reply(
        workspace=place.workspace,
        question_id=place.question_id,
        channel=CHANNEL,
        identity=done.user,
        evidence=SIGNED,
        id=done.id,
        details={"user": done.user, **({"guild": done.guild} if done.guild else {})},
    )


def _opened(question: Question, place: Place, verb: str) -> Came:
    """The form behind a button, or what is asked once more."""
    form = question.form
    if verb.startswith("?"):
        _value(question, place, verb[1:])
        return Came(message_of(once_more(question, verb[1:])))
    if (verb == "reason") != isinstance(form, Approval):
        raise Garbled(verb)
    view = answer_modal(question) if verb == "answer" else reason_modal(question, verb)
    return Came(said(_TRY_AGAIN), modal=view)


def _value(question: Question, place: Place, verb: str) -> Json:
    """What a button answers."""
    match question.form, verb.partition("-")[0]:
        case Confirm(), "yes" | "no" if verb in ("yes", "no"):
            return verb == "yes"
        case Choice(options=options), "option":
            known = {f"option-{number}": option.id for number, option in enumerate(options)}
            if verb in known:
                return known[verb]
        case Approval() as form, "approve" | "deny" if verb in ("approve", "deny"):
            return {"decision": verb, "digest": _digest(form, place)}
    raise Garbled(verb)


def _digest(form: Approval, place: Place) -> str | None:
    """The digest that was meant: that of the action, where the short form of it is the same."""
    return form.digest if place.tag == tag_of(form) else place.tag or "none"


def _chosen(done: Done) -> str:
    match done.data.get("values"):
        case [str(chosen)]:
            return chosen
        case _:
            raise Garbled("values")


def _dict(payload: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = payload.get(name)
    return found if isinstance(found, dict) else {}

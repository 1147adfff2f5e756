"""What people do in Teams: they press, fill in, or reply to a card.

Who it was is for Microsoft to say, and which person that is here for the addresses; whether they may answer, and
whether the answer fits, for the desk.
"""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from handraise.channels.inbound_replies import Replies, Reply, ReplyResult
from handraise.channels.payloads import InvalidPayload, list_in, object_in
from handraise.channels.teams.card_elements import CARD, Element
from handraise.channels.teams.cards import (
    approve_card,
    can_be_decided,
    change_card,
    confirmation_card,
    difference_card,
    reason_card,
    render_outcome,
    render_question,
)
from handraise.channels.teams.inputs import InvalidInput, read_answer, read_reason
from handraise.channels.teams.references import CHANNEL, QuestionReference, is_id, parse_reference
from handraise.channels.teams.threads import Threads
from handraise.model.errors import InvalidAnswer, RequestConflict
from handraise.model.forms import Approval, Choice, Confirm
from handraise.model.json_values import Json, text_problem
from handraise.model.plain_text import too_late
from handraise.model.questions import Question
from handraise.model.validation import check_answer
from handraise.model.visible import visible

TOKEN = "teams-token"  # noqa: S105 -- a name
"""The evidence for what came from Teams: Microsoft's token came with it, which does not sign it."""
_LONGEST_ID = 150
_SAYS = "application/vnd.microsoft.activity.message"
_BUSY = "That is being taken already."
_WHICH = "I cannot tell which question that is for. Press a button of the question, or reply to its message."
_TOO_LARGE = "This action cannot be decided here. Open it in the inbox."
_MENTION = re.compile(r"<at\b[^>]{0,200}>.{0,200}?</at>")
_QUOTED = re.compile(r"<quoted\b[^>]{0,300}/>")


@dataclass(frozen=True, slots=True)
class Sender:
    """Somebody in Teams: their id at Microsoft Entra and their tenant; and the name of what they did."""

    tenant: str
    user: str
    home: str
    activity: str

    @property
    def identity(self) -> str:
        """The id of this person's address: the object id, with the tenant before it where that is another one."""
        return self.user if self.tenant == self.home else f"{self.tenant}:{self.user}"


class InteractionHandler:
    """Takes what people do in Teams to the desk, and gives back what they are to be told."""

    def __init__(self, replies: Replies, threads: Threads, tenant: str) -> None:
        self._replies = replies
        self._threads = threads
        self._tenant = tenant

    async def press(self, activity: Mapping[str, Any]) -> Element:
        """Do what a pressed button says, and give back what Teams is to be answered; raises `InvalidPayload`."""
        action = object_in(object_in(activity, "value"), "action")
        verb, reference = action.get("verb"), parse_reference(action.get("data"))
        if action.get("type") != "Action.Execute" or not isinstance(verb, str) or reference is None:
            raise InvalidPayload("action")
        sender = self._read_sender(activity)
        question = await self._replies.find_question(
            reference.workspace, CHANNEL, sender.identity, reference.question_id
        )
        if isinstance(question, ReplyResult):
            return _text_response(question.text)
        try:
            step = _step(question, verb, reference)
            reply = (
                _pressed_reply(question, verb, reference, _reply(reference, sender)) if step is None else None
            )
        except (InvalidInput, InvalidAnswer) as unfit:
            why = "; ".join(map(str, unfit.problems))
            return _text_response(f"That does not fit: {visible(why)}.")
        if reply is not None:
            return await self._take(reply)
        if question.outcome is not None:
            return _card_response(render_outcome(question, too_late(question.outcome)))
        return _card_response(step or {})

    async def read(self, activity: Mapping[str, Any]) -> str | None:
        """Take a message that somebody typed, and give back what to tell them; raises `InvalidPayload`.

        None where it was not for us.
        """
        text, conversation = activity.get("text"), object_in(activity, "conversation")
        if not isinstance(text, str) or not text.strip() or text_problem(text):
            return None
        alone = conversation.get("conversationType", "personal") == "personal"
        if not alone and not _mentions_us(activity):
            return None
        sender = self._read_sender(activity)
        found = await self._threads.find(sender.identity, conversation.get("id"), _answered(activity))
        if found is None:
            return _WHICH
        workspace, question_id = found
        question = await self._replies.find_question(workspace, CHANNEL, sender.identity, question_id)
        if isinstance(question, ReplyResult):
            return question.text
        if not can_be_decided(question):
            return _TOO_LARGE
        reference = QuestionReference(workspace, question_id, "", {})
        reply = replace(_reply(reference, sender), text=_typed(activity, text))
        try:
            return (await self._replies.take(reply)).text
        except RequestConflict:
            return None

    async def _take(self, reply: Reply) -> Element:
        try:
            result = await self._replies.take(reply)
        except RequestConflict:
            return _text_response(_BUSY)
        ended = result.question is not None and result.question.outcome is not None
        if result.question is None or result.kind not in ("taken", "late") or not ended:
            return _text_response(visible(result.text))
        return _card_response(render_outcome(result.question, result.text))

    def _read_sender(self, activity: Mapping[str, Any]) -> Sender:
        """Who did something. What is contradictory is nobody's."""
        tenants = {
            found.lower()
            for found in (
                object_in(activity, "conversation").get("tenantId"),
                object_in(object_in(activity, "channelData"), "tenant").get("id"),
            )
            if isinstance(found, str)
        }
        user, name = object_in(activity, "from").get("aadObjectId"), activity.get("id")
        if len(tenants) != 1 or not isinstance(name, str) or not 0 < len(name) <= _LONGEST_ID:
            raise InvalidPayload("from")
        [tenant] = tenants
        user = user.lower() if isinstance(user, str) else ""
        if text_problem(name) or not is_id(tenant) or (user and not is_id(user)):
            raise InvalidPayload("from")
        return Sender(tenant, user, self._tenant, name)


def _step(question: Question, verb: str, reference: QuestionReference) -> Element | None:
    """The card behind a button that does not answer yet; None for one that does."""
    form, url = question.form, reference.link
    asks_again = bool(question.undo_for) and reference.data.get("sure") is not True
    match verb, form:
        case "show", _:
            return render_question(question, url)
        case "decline", _:
            return reason_card(question, url, "Decline", "declined")
        case "approve", Approval():
            return (
                approve_card(question, form, url)
                if can_be_decided(question)
                else render_question(question, url)
            )
        case "reason", Approval():
            return reason_card(question, url, "Deny", "denied", digest=reference.data.get("digest"))
        case "change", Approval():
            return (
                change_card(question, form, url)
                if can_be_decided(question)
                else render_question(question, url)
            )
        case "changed", Approval():
            return _difference(question, form, reference)
        case "yes" | "no", Confirm() if asks_again:
            return confirmation_card(
                question, url, f"You answer {verb}. It counts as soon as it is sent.", "Send", verb
            )
        case "option", Choice() if asks_again:
            number = _number(reference)
            asked = f"You choose option {number + 1}. It counts as soon as it is sent."
            return confirmation_card(question, url, asked, "Send", verb, n=number)
        case _:
            return None


def _pressed_reply(question: Question, verb: str, reference: QuestionReference, reply: Reply) -> Reply:
    """What a button answers."""
    form, data = question.form, reference.data
    match verb, form:
        case "declined", _:
            return replace(reply, declines=True, reason=read_reason(data))
        case "yes" | "no", Confirm():
            return replace(reply, value=verb == "yes")
        case "option", Choice() if _number(reference) < len(form.options):
            return replace(reply, value=form.options[_number(reference)].id)
        case "approved", Approval():
            approved: dict[str, Json] = {"decision": "approve", "digest": _digest(reference)}
            if "arguments" in data:
                approved["arguments"] = data["arguments"]
            return replace(reply, value=approved)
        case "deny", Approval():
            return replace(reply, value={"decision": "deny", "digest": _digest(reference)})
        case "denied", Approval():
            denied = {"decision": "deny", "reason": read_reason(data), "digest": _digest(reference)}
            return replace(reply, value=denied)
        case "send", _ if not isinstance(form, Approval):
            return replace(reply, value=read_answer(form, data))
        case _:
            raise InvalidPayload("verb")


def _difference(question: Question, form: Approval, reference: QuestionReference) -> Element:
    """What a person changed, to be looked at before it is approved; raises `InvalidAnswer` where it does not fit."""
    edits = read_answer(form, reference.data)
    canonical = check_answer(form, {"decision": "approve", "arguments": edits})
    after = canonical.get("arguments", form.action.arguments)
    approved = {"arguments": edits, "digest": canonical["digest"]}
    return difference_card(question, form, reference.link, approved, after)


def _digest(reference: QuestionReference) -> str:
    """The action that a button is about: without one, it would be about any."""
    digest = reference.data.get("digest")
    if not isinstance(digest, str):
        raise InvalidPayload("digest")
    return digest


def _number(reference: QuestionReference) -> int:
    number = reference.data.get("n")
    if not isinstance(number, int) or isinstance(number, bool) or number < 0:
        raise InvalidPayload("n")
    return number


def _reply(reference: QuestionReference, sender: Sender) -> Reply:
    """A reply that says nothing yet. Teams names everything that somebody does, and says it again where it must."""
    return Reply(
        workspace=reference.workspace,
        question_id=reference.question_id,
        channel=CHANNEL,
        identity=sender.identity,
        evidence=TOKEN,
        id=sender.activity,
        details={"tenant": sender.tenant, "user": sender.user},
    )


def _text_response(text: str) -> Element:
    return {"statusCode": 200, "type": _SAYS, "value": text}


def _card_response(card: Element) -> Element:
    return {"statusCode": 200, "type": CARD, "value": card}


def _answered(activity: Mapping[str, Any]) -> frozenset[str]:
    """The messages that one is a reply to: named by it, quoted in it, or at the top of its thread."""
    _, _, root = str(object_in(activity, "conversation").get("id")).partition(";messageid=")
    quoted = [
        object_in(each, "quotedReply").get("messageId")
        for each in _entities(activity)
        if each.get("type") == "quotedReply"
    ]
    named = (activity.get("replyToId"), root, *quoted)
    return frozenset(each for each in named if isinstance(each, str) and each)


def _mentions_us(activity: Mapping[str, Any]) -> bool:
    us = object_in(activity, "recipient").get("id")
    return us is not None and any(
        each.get("type") == "mention" and object_in(each, "mentioned").get("id") == us
        for each in _entities(activity)
    )


def _typed(activity: Mapping[str, Any], text: str) -> str:
    """What a person typed, without what Teams puts into it."""
    plain = _QUOTED.sub("", _MENTION.sub("", text)).replace("\u00a0", " ").strip()
    return html.unescape(plain) if activity.get("textFormat") == "xml" else plain


def _entities(activity: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [each for each in list_in(activity, "entities") if isinstance(each, dict)]

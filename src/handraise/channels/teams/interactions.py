"""What people do in Teams: they press, fill in, or reply to a card."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from handraise.channels.account_links import ChatAccount
from handraise.channels.chat_flow import (
    BEING_TAKEN,
    NOT_OURS,
    WHICH_QUESTION,
    ChatFlow,
    Given,
    Sender,
    decided,
    pressed,
    read_changes,
    submitted,
    written,
)
from handraise.channels.chat_references import seen_in
from handraise.channels.inbound_replies import Replies, ReplyResult, misfit
from handraise.channels.payloads import InvalidPayload, list_in, object_in
from handraise.channels.teams.card_elements import CARD, Element, fits
from handraise.channels.teams.cards import (
    approve_card,
    can_be_decided,
    change_card,
    confirmation_card,
    difference_card,
    offer_card,
    reason_card,
    render_outcome,
    render_question,
    send_back_card,
)
from handraise.channels.teams.inputs import read_answer, read_reason
from handraise.channels.teams.references import (
    CHANNEL,
    QuestionReference,
    SeenCodes,
    build_reference,
    is_id,
    parse_reference,
)
from handraise.channels.teams.threads import Threads
from handraise.model.errors import InvalidAnswer, RequestConflict
from handraise.model.forms import Approval
from handraise.model.json_values import text_problem
from handraise.model.questions import Question
from handraise.model.visible import visible
from handraise.ports.channel import Notice
from handraise.presentation.sharing_text import decline_text
from handraise.presentation.translation import gettext

TOKEN = "teams-token"  # noqa: S105 -- a name
"""The evidence for what came from Teams: Microsoft's token came with it, but does not sign it."""
_LONGEST_ID = 150
_SAYS = "application/vnd.microsoft.activity.message"
_STEPS = frozenset({"show", "decline", "send_back", "approve", "reason", "change", "changed"})
"""The buttons that lead to another card."""
_APPROVING = frozenset({"approve", "change", "changed"})
"""Those of them that lead to an approval."""
_WRITING = frozenset({"asked_back", "noted"})
"""The buttons that say what somebody has written: they make a message of it."""
_MENTION = re.compile(r"<at\b[^>]{0,200}>.{0,200}?</at>")
_QUOTED = re.compile(r"<quoted\b[^>]{0,300}/>")


class InteractionHandler:
    """Takes what people do in Teams to the desk, and returns what to tell them."""

    def __init__(self, replies: Replies, threads: Threads, tenant: str, codes: SeenCodes) -> None:
        self._flow: ChatFlow[QuestionReference] = ChatFlow(CHANNEL, replies, is_shown=can_be_decided)
        self._threads = threads
        self._tenant = tenant
        self._codes = codes

    async def press(self, activity: Mapping[str, Any]) -> Element:
        """Do what a pressed button says, and return the answer for Teams; raises `InvalidPayload`."""
        self._flow.begin()
        action = object_in(object_in(activity, "value"), "action")
        verb, reference = action.get("verb"), parse_reference(action.get("data"))
        if action.get("type") != "Action.Execute" or not isinstance(verb, str) or reference is None:
            raise InvalidPayload("action")
        sender = self._read_sender(activity)
        try:
            if verb in _WRITING:
                result = await self._write(verb, reference, sender)
            else:
                result = await self._flow.press(
                    reference, sender, lambda question: self._given(question, verb, reference)
                )
        except RequestConflict:
            return _text_response(gettext(BEING_TAKEN))
        if isinstance(result, Question) and verb in _APPROVING:
            result = self._flow.moved(result, self._codes.read(result, reference.data)) or result
        if isinstance(result, Question):
            try:
                return _card_response(await self._step(result, verb, reference))
            except InvalidAnswer as unfit:
                result = misfit(result, unfit.problems)
        if result.kind == "moved" and (notice := await self._flow.current_notice(result)) is not None:
            return _card_response(self._render(notice, note=result.text))
        if result.question is None or result.kind not in ("taken", "late") or not result.has_ended:
            return _text_response(visible(result.text))
        return _card_response(render_outcome(result.question, result.text))

    async def _write(self, kind: str, reference: QuestionReference, sender: Sender) -> ReplyResult | Question:
        """Write what somebody typed into the thread of its question, now that they have said what it is."""
        match reference.data:
            case {"by": sender.identity, "text": str(text), "id": str(name)}:
                # However often it is pressed, it is written once.
                once = replace(sender, id=f"{name} written"[:_LONGEST_ID])
                return await self._flow.press(reference, once, lambda _: written(kind, text))
            case _:
                return ReplyResult("refused", gettext(NOT_OURS))

    def _given(self, question: Question, verb: str, reference: QuestionReference) -> Given | None:
        """What a button answers, and how much of the conversation its card showed."""
        given = _given(question, verb, reference)
        return None if given is None else replace(given, seen=self._codes.read(question, reference.data))

    async def _step(self, question: Question, verb: str, reference: QuestionReference) -> Element:
        """The card behind a button that does not answer yet."""
        if verb == "show" or (verb in ("approve", "change") and not can_be_decided(question)):
            notice = await self._flow.current_notice(ReplyResult("moved", "", question))
            return render_question(question, reference.link) if notice is None else self._render(notice)
        return _step(question, verb, reference)

    def _render(self, notice: Notice, note: str | None = None) -> Element:
        return render_question(
            notice.question, notice.link, thread=notice.thread, codes=self._codes, note=note
        )

    async def read(self, activity: Mapping[str, Any]) -> str | Element | None:
        """Take a message that somebody typed, and return what to tell them, or a card that asks them something.

        Raises `InvalidPayload`. None if it was not for us.
        """
        self._flow.begin()
        text, conversation = activity.get("text"), object_in(activity, "conversation")
        if not isinstance(text, str) or not text.strip() or text_problem(text):
            return None
        alone = conversation.get("conversationType", "personal") == "personal"
        if not alone and not _mentions_us(activity):
            return None
        sender = self._read_sender(activity)
        if alone:
            told = self._flow.connect(_typed(activity, text), _account(activity, sender), "Teams")
            if told is not None:
                return told.with_url
        reference = await self._threads.find(sender.identity, conversation.get("id"), _answered(activity))
        if reference is None:
            return gettext(WHICH_QUESTION)
        typed, seen = _typed(activity, text), seen_in(reference.data.get("shown"))
        try:
            result = await self._flow.write(
                reference, sender, typed, read=lambda _: Given(text=typed, seen=seen)
            )
        except RequestConflict:
            return None
        if result is None or not result.offers or result.question is None:
            return None if result is None else result.text
        url = self._flow.link_to(result.question) or ""
        data = build_reference(result.question, url, by=sender.identity, id=sender.id, text=typed)
        made = offer_card(url, result.text, result.offers, data)
        too_long = gettext("That is too long to be taken from here. Write it in the inbox instead.")
        return made if fits(made) else too_long

    def _read_sender(self, activity: Mapping[str, Any]) -> Sender:
        """Who did something: the object id, with the tenant before it if that is another one.

        If the activity contradicts itself, it was nobody.
        """
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
        return Sender(
            identity=user if tenant == self._tenant else f"{tenant}:{user}",
            evidence=TOKEN,
            # Teams names everything that somebody does, and sends it again if it must.
            id=name,
            details={"tenant": tenant, "user": user},
        )


def _given(question: Question, verb: str, reference: QuestionReference) -> Given | None:
    """What a button answers; None for one that leads to another card."""
    form, data = question.form, reference.data
    asks_again = bool(question.undo_for) and data.get("sure") is not True
    if verb in _STEPS or (verb in ("yes", "no", "option") and asks_again):
        return None
    match verb:
        case "approved" if isinstance(form, Approval):
            edits = {"arguments": data["arguments"]} if "arguments" in data else {}
            return decided("approve", data.get("digest"), **edits)
        case "declined" | "denied" | "send" | "sent_back":
            return submitted(
                form,
                {"declined": "decline", "denied": "deny", "send": "answer", "sent_back": "send_back"}[verb],
                read_answer=lambda: read_answer(form, data),
                reason=read_reason(data),
                digest=data.get("digest"),
            )
        case _:
            return pressed(form, verb, number=data.get("n"), digest=data.get("digest"))


def _step(question: Question, verb: str, reference: QuestionReference) -> Element:
    """The card behind a button that does not answer yet."""
    form, url, data = question.form, reference.link, reference.data
    seen = {"seen": data["seen"]} if "seen" in data else {}
    match verb, form:
        case "decline", _:
            return reason_card(question, url, decline_text(question), "declined")
        case "send_back", _:
            return send_back_card(question, url)
        case "approve", Approval():
            return approve_card(question, form, url, **seen)
        case "reason", Approval():
            return reason_card(question, url, gettext("Deny"), "denied", digest=data.get("digest"))
        case "change", Approval():
            return change_card(question, form, url, **seen)
        case "changed", Approval():
            changes = read_changes(form, read_answer(form, data))
            return difference_card(question, form, url, *changes, **seen)
    number = data.get("n")
    pressed(form, verb, number=number)
    if verb == "option":
        asked = gettext("You choose option {number}. It counts as soon as it is sent.")
        asked = asked.format(number=int(str(number)) + 1)
        return confirmation_card(question, url, asked, gettext("Send"), verb, n=number)
    if verb == "yes":
        asked = gettext("You answer yes. It counts as soon as it is sent.")
    else:
        asked = gettext("You answer no. It counts as soon as it is sent.")
    return confirmation_card(question, url, asked, gettext("Send"), verb)


def _account(activity: Mapping[str, Any], sender: Sender) -> ChatAccount | None:
    """The account of somebody of our own tenant."""
    name = object_in(activity, "from").get("name")
    if not is_id(sender.identity):
        return None
    named = name if isinstance(name, str) else ""
    return ChatAccount(CHANNEL, sender.identity, {"user": sender.identity}, named)


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

"""What people do in Slack: they press, choose, fill in a view, or reply in a thread.

Who it was is for Slack to say, and which person that is here for the addresses; whether they may answer, and whether
the answer fits, for the desk.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from handraise.channels.background_tasks import BackgroundTasks
from handraise.channels.http_errors import Refused
from handraise.channels.inbound_replies import Replies, Reply, ReplyResult
from handraise.channels.message_texts import SIGN_IN_TO_DECIDE
from handraise.channels.payloads import InvalidPayload, list_in, object_in
from handraise.channels.slack.api import BotIdentity, SlackApi, text_message
from handraise.channels.slack.block_texts import difference
from handraise.channels.slack.blocks import Block
from handraise.channels.slack.messages import render_outcome, shows_action
from handraise.channels.slack.modals import (
    InvalidInput,
    answer_view,
    change_view,
    decline_view,
    deny_view,
    difference_view,
    errors_of,
    message_view,
    read_answer,
    read_reason,
)
from handraise.channels.slack.references import (
    QuestionReference,
    build_metadata,
    parse_metadata,
    parse_reference,
)
from handraise.model.errors import InvalidAnswer, Problem
from handraise.model.forms import AnyForm, Approval, Choice, Confirm, Form, Open
from handraise.model.json_values import Json
from handraise.model.plain_text import too_late
from handraise.model.questions import Question
from handraise.model.replies import NotAnAnswer, read_reply
from handraise.model.validation import check_answer

CHANNEL = "slack"
_LONGEST_ID = 150
_TYPED = frozenset({None, "thread_broadcast", "file_share"})
"""The kinds of message that a person typed."""
_IN_THREAD = (
    "I cannot tell which question that is for. Press a button of the question, or reply in its thread."
)
_TOO_LARGE = "This action cannot be shown here in full. Open it in the inbox to decide."
_CALL_ME = "If that is your answer, press “Answer…”, or mention me in your reply: people may talk here, too."
_TRY_AGAIN = "That took too long. Please press it again."


@dataclass(frozen=True, slots=True)
class Sender:
    """Somebody at Slack, and how sure we are that it was them."""

    team: str
    user: str
    evidence: str
    bot_identity: BotIdentity = field(repr=False)

    @property
    def identity(self) -> str:
        """The id of this person's address: the member id, with the team before it where that is another one."""
        return self.user if self.team == self.bot_identity.team else f"{self.team}:{self.user}"


class InteractionHandler:
    """Takes what people do in Slack to the desk, and tells them what came of it."""

    def __init__(self, api: SlackApi, replies: Replies, tasks: BackgroundTasks) -> None:
        self._api = api
        self._replies = replies
        self._tasks = tasks

    async def take(self, payload: Mapping[str, Any], evidence: str) -> Block | None:
        """Do what a genuine payload says, and give back what Slack is to be answered.

        Raises `InvalidPayload` where it makes no sense, and `NotSent` or a desk's error where it should come again.
        """
        match payload.get("type"):
            case "block_actions":
                await self._handle_press(payload, evidence)
            case "view_submission":
                return await self._handle_submission(payload, evidence)
            case "event_callback":
                await self._handle_event(payload, evidence)
        return None

    async def _handle_press(self, payload: Mapping[str, Any], evidence: str) -> None:
        pressed = next(iter(list_in(payload, "actions")), None)
        if not isinstance(pressed, dict):
            raise InvalidPayload("actions")
        action = pressed.get("action_id")
        reference = parse_reference(pressed.get("block_id" if action == "select" else "value"))
        if reference is None or not isinstance(action, str):
            return
        sender = await self._read_sender(payload, evidence)
        question = await self._replies.find_question(
            reference.workspace, CHANNEL, sender.identity, reference.question_id
        )
        if isinstance(question, ReplyResult):
            self._tasks.begin(self._api.tell(payload.get("response_url"), question.text))
            return
        if action in _MODAL_ACTIONS:
            await self._open(payload, action, reference, question)
            return
        value = _pressed_value(question, action, reference, pressed)
        result = await self._replies.take(replace(_reply(reference, sender, payload), value=value))
        if result.kind != "taken" or result.question is None or result.question.outcome is None:
            self._tasks.begin(self._api.tell(payload.get("response_url"), result.text))
        if result.kind == "late" and result.question is not None:
            self._tasks.begin(self._redraw(_at(payload), result.question))

    async def _open(
        self, payload: Mapping[str, Any], action: str, reference: QuestionReference, question: Question
    ) -> None:
        """Open the view behind a button, or say that there is nothing to answer any more."""
        if question.outcome is not None:
            self._tasks.begin(self._api.tell(payload.get("response_url"), too_late(question.outcome)))
            self._tasks.begin(self._redraw(_at(payload), question))
            return
        form = question.form
        if action == "change":
            if not isinstance(form, Approval):
                raise InvalidPayload("change")
            view = change_view(question, form)
        elif action == "reason":
            view = deny_view(question, reference.extra)
        elif action == "decline":
            view = decline_view(question)
        else:
            view = answer_view(question)
        try:
            await self._api.call("views.open", {"trigger_id": payload.get("trigger_id"), "view": view})
        except Refused:
            self._tasks.begin(self._api.tell(payload.get("response_url"), _TRY_AGAIN))

    async def _handle_submission(self, payload: Mapping[str, Any], evidence: str) -> Block | None:
        view = object_in(payload, "view")
        reference = parse_reference(view.get("private_metadata"))
        if reference is None:
            return None
        sender = await self._read_sender(payload, evidence)
        question = await self._replies.find_question(
            reference.workspace, CHANNEL, sender.identity, reference.question_id
        )
        if isinstance(question, ReplyResult):
            return _update_response(message_view(question.text))
        values = object_in(view, "state").get("values")
        reply = _reply(reference, sender, payload)
        match view.get("callback_id"), question.form:
            case "decline", _:
                reply = replace(reply, declines=True, reason=read_reason(values))
            case "deny", Approval():
                value = {"decision": "deny", "reason": read_reason(values), "digest": reference.extra}
                reply = replace(reply, value=value)
            case "change", Approval() as form:
                return _difference(question, form, values)
            case "changed", Approval() if isinstance(reference.extra, dict):
                reply = replace(reply, value={"decision": "approve", **reference.extra})
            case "answer", form if not isinstance(form, Approval):
                try:
                    reply = replace(reply, value=read_answer(form, values))
                except InvalidInput as unclear:
                    return {"response_action": "errors", "errors": errors_of(form, unclear.problems)}
            case _:
                raise InvalidPayload("callback_id")
        result = await self._replies.take(reply)
        return _submission_response(result, question, reply)

    async def _handle_event(self, payload: Mapping[str, Any], evidence: str) -> None:
        """A message that somebody typed: in the thread of a question it is an answer."""
        event = object_in(payload, "event")
        text, channel, thread = event.get("text"), event.get("channel"), event.get("thread_ts")
        if event.get("type") != "message" or "bot_id" in event or event.get("subtype") not in _TYPED:
            return
        if not isinstance(text, str) or not isinstance(channel, str) or not event.get("user"):
            return
        sender = await self._read_sender(payload, evidence)
        if sender.user == sender.bot_identity.user:
            return
        if not isinstance(thread, str) or thread == event.get("ts"):
            if event.get("channel_type") == "im":
                self._tasks.begin(self._say(event, str(event.get("ts")), _IN_THREAD))
            return
        if event.get("parent_user_id", sender.bot_identity.user) != sender.bot_identity.user:
            return
        reference = await self._find_thread_reference(channel, thread, sender.bot_identity)
        if reference is None:
            return
        question = await self._replies.find_question(
            reference.workspace, CHANNEL, sender.identity, reference.question_id
        )
        if isinstance(question, ReplyResult):
            self._tasks.begin(self._say(event, thread, question.text))
        elif not shows_action(question):
            self._tasks.begin(self._say(event, thread, _TOO_LARGE))
        else:
            called = f"<@{sender.bot_identity.user}>"
            if isinstance(question.form, Approval) and question.form.risk == "high":
                self._tasks.begin(self._say(event, thread, SIGN_IN_TO_DECIDE))
                return
            if event.get("channel_type") != "im" and called not in text:
                if _accepts_any_text(question.form) or not isinstance(
                    read_reply(question, typed(text)), NotAnAnswer
                ):
                    self._tasks.begin(self._say(event, thread, _CALL_ME))
                return
            answer = typed(text.replace(called, "", 1)).strip()
            result = await self._replies.take(replace(_reply(reference, sender, payload), text=answer))
            self._tasks.begin(self._say(event, thread, result.text))
            if result.kind == "late" and result.question is not None:
                self._tasks.begin(self._redraw({"channel": channel, "ts": thread}, result.question))

    async def _read_sender(self, payload: Mapping[str, Any], evidence: str) -> Sender:
        bot_identity = await self._api.bot_identity()
        event = payload.get("event")
        if isinstance(event, dict):
            user, team = (
                event.get("user"),
                event.get("user_team") or event.get("team") or payload.get("team_id"),
            )
        else:
            person = object_in(payload, "user")
            user, team = person.get("id"), person.get("team_id") or object_in(payload, "team").get("id")
        if not isinstance(user, str) or not isinstance(team, str) or ":" in user + team:
            raise InvalidPayload("user")
        return Sender(team, user, evidence, bot_identity)

    async def _find_thread_reference(
        self, channel: str, thread: str, bot_identity: BotIdentity
    ) -> QuestionReference | None:
        """The question that a thread is about. Only a message of our own says so: anybody can write that into theirs."""
        try:
            found = await self._api.read(
                "conversations.replies", channel=channel, ts=thread, limit="1", include_all_metadata="true"
            )
        except Refused as refused:
            if refused.again:
                raise
            return None
        parent = next(iter(list_in(found, "messages")), None)
        if (
            not isinstance(parent, dict)
            or parent.get("ts") != thread
            or parent.get("user") != bot_identity.user
        ):
            return None
        return parse_metadata(parent.get("metadata"))

    async def _say(self, event: Mapping[str, Any], thread: str, text: str) -> None:
        """Say something to one person: in a room so that only they see it."""
        body = {"channel": event.get("channel"), "thread_ts": thread, **text_message(text)}
        if event.get("channel_type") == "im":
            await self._api.call("chat.postMessage", body)
        else:
            await self._api.call("chat.postEphemeral", body | {"user": event.get("user")})

    async def _redraw(self, where: Mapping[str, Any], question: Question) -> None:
        """Let a message that was pressed too late say how it ended."""
        ended = render_outcome(question)
        body = {"text": ended.text, "blocks": ended.blocks, "metadata": build_metadata(question)}
        await self._api.call("chat.update", {**where, **body})


_MODAL_ACTIONS = frozenset({"answer", "decline", "reason", "change"})
"""The buttons that open a view."""


def _accepts_any_text(form: AnyForm) -> bool:
    """Whether whatever somebody says would be an answer."""
    if isinstance(form, Form):
        return len(form.fields) == 1 and _accepts_any_text(form.fields[0].form)
    return isinstance(form, Open) and form.type == "text"


def _reply(reference: QuestionReference, sender: Sender, payload: Mapping[str, Any]) -> Reply:
    """A reply that says nothing yet. Slack names everything that somebody does, and says it again where it must."""
    name = payload.get("event_id") or payload.get("trigger_id")
    return Reply(
        workspace=reference.workspace,
        question_id=reference.question_id,
        channel=CHANNEL,
        identity=sender.identity,
        evidence=sender.evidence,
        id=name if isinstance(name, str) and 0 < len(name) <= _LONGEST_ID else None,
        details={"team": sender.team, "user": sender.user},
    )


def _pressed_value(
    question: Question, action: str, reference: QuestionReference, pressed: Mapping[str, Any]
) -> Json:
    """What a button or a menu answers."""
    match question.form, action.partition(" ")[0]:
        case Confirm(), "yes" | "no":
            return action == "yes"
        case Choice(options=options), "option" | "select":
            chosen = (
                object_in(pressed, "selected_option").get("value") if action == "select" else reference.extra
            )
            known = {str(number): option.id for number, option in enumerate(options)}
            if str(chosen) in known:
                return known[str(chosen)]
        case Approval(), "approve" | "deny":
            return {"decision": action, "digest": reference.extra}
    raise InvalidPayload(action)


def _difference(question: Question, form: Approval, values: object) -> Block:
    """What a person changed, to be looked at before it is approved."""
    try:
        edits = read_answer(form, values)
        canonical = check_answer(form, {"decision": "approve", "arguments": edits})
    except (InvalidAnswer, InvalidInput) as unfit:
        return {"response_action": "errors", "errors": errors_of(form, unfit.problems)}
    before = form.action.arguments
    shown = difference(before, canonical.get("arguments", before))
    view = difference_view(question, form, {"arguments": edits, "digest": canonical["digest"]}, shown)
    return _update_response(
        view or message_view("That is too much to be shown here. Change it in the inbox instead.")
    )


def _submission_response(result: ReplyResult, question: Question, reply: Reply) -> Block:
    """What a view shows of what came of it: nothing more, what is wrong, or why it does not count."""
    latest = result.question or question
    if result.kind == "taken" and latest.outcome is not None:
        return {"response_action": "clear"}
    if result.kind == "misfit" and latest.outcome is None and not isinstance(question.form, Approval):
        problems = _problems(question, reply)
        if problems:
            return {"response_action": "errors", "errors": errors_of(question.form, problems)}
    return _update_response(message_view(result.text))


def _problems(question: Question, reply: Reply) -> tuple[Problem, ...]:
    if reply.declines:
        return ()
    try:
        check_answer(question.form, reply.value)
    except InvalidAnswer as misfit:
        return misfit.problems
    return ()


def _update_response(view: Block) -> Block:
    return {"response_action": "update", "view": view}


def _at(payload: Mapping[str, Any]) -> Mapping[str, Any]:
    """The message that was pressed."""
    container = object_in(payload, "container")
    return {"channel": container.get("channel_id"), "ts": container.get("message_ts")}


def typed(text: str) -> str:
    """What a person typed, without what Slack makes of it: `<https://a.example|a.example>` was `a.example`."""
    plain = re.sub(r"<([^<>]*)>", _typed, text)
    return plain.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


def _typed(found: re.Match[str]) -> str:
    target, bar, label = found[1].partition("|")
    if target.startswith(("@", "#", "!")):
        kind = target[0].replace("!", "@")
        return f"{kind}{label.lstrip('@#') or target[1:]}"
    if not bar:
        return target
    return label if target in (label, *(each + label for each in _SCHEMES)) else f"{label} ({target})"


_SCHEMES = ("http://", "https://", "mailto:", "tel:")

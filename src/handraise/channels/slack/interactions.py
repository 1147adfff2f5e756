"""What people do in Slack: they press, choose, fill in a view, or reply in a thread."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from handraise.channels.account_links import ChatAccount, read_code
from handraise.channels.background_tasks import BackgroundTasks
from handraise.channels.chat_flow import (
    NOT_OURS,
    TRY_AGAIN,
    ChatFlow,
    Given,
    Sender,
    decided,
    pressed,
    read_changes,
    submitted,
    written,
)
from handraise.channels.http_errors import Refused
from handraise.channels.inbound_replies import Replies, ReplyResult
from handraise.channels.payloads import InvalidPayload, list_in, object_in
from handraise.channels.slack.api import CHANNEL, SlackApi, text_message
from handraise.channels.slack.block_texts import difference
from handraise.channels.slack.blocks import Block, line, link, rich
from handraise.channels.slack.messages import (
    Rendered,
    offered,
    render_outcome,
    render_question,
    shows_action,
)
from handraise.channels.slack.modals import (
    answer_view,
    change_view,
    decline_view,
    deny_view,
    difference_view,
    errors_of,
    message_view,
    read_answer,
    read_reason,
    reason_errors,
    send_back_view,
)
from handraise.channels.slack.references import (
    QuestionReference,
    build_metadata,
    parse_metadata,
    parse_reference,
)
from handraise.model.errors import InvalidAnswer
from handraise.model.forms import Approval
from handraise.model.json_values import Json
from handraise.model.questions import Question
from handraise.ports.channel import Notice
from handraise.presentation.translation import gettext, gettext_noop

_LONGEST_ID = 150
_OPENING = frozenset({"answer", "decline", "send_back", "reason", "change"})
"""The buttons that open a view."""
_WRITING = frozenset({"asked_back", "noted"})
"""The buttons that say what somebody has written: they make a message of it."""
_TYPED = frozenset({None, "thread_broadcast", "file_share"})
"""The kinds of message that a person typed."""
_IN_THREAD = gettext_noop(
    "I cannot tell which question that is for. Press a button of the question, or reply in its thread."
)
_CALL_ME = gettext_noop(
    "If that is your answer, press “Answer…”, or mention me in your reply: people may talk here, too."
)


class InteractionHandler:
    """Takes what people do in Slack to the desk, and tells them what came of it."""

    def __init__(self, api: SlackApi, replies: Replies, tasks: BackgroundTasks) -> None:
        self._api = api
        self._flow: ChatFlow[QuestionReference] = ChatFlow(CHANNEL, replies, is_shown=shows_action)
        self._tasks = tasks

    async def take(self, payload: Mapping[str, Any], evidence: str) -> Block | None:
        """Do what a genuine payload says, and return the answer for Slack.

        Raises `InvalidPayload` if it makes no sense, and `NotSent` or a desk's error if it should come again.
        """
        self._flow.begin()
        match payload.get("type"):
            case "block_actions":
                await self._handle_press(payload, evidence)
            case "view_submission":
                return await self._handle_submission(payload, evidence)
            case "event_callback":
                await self._handle_event(payload, evidence)
        return None

    async def _handle_press(self, payload: Mapping[str, Any], evidence: str) -> None:
        button = next(iter(list_in(payload, "actions")), None)
        if not isinstance(button, dict):
            raise InvalidPayload("actions")
        action, chosen = button.get("action_id"), object_in(button, "selected_option").get("value")
        reference = parse_reference(button.get("block_id" if action == "select" else "value"))
        if reference is None or not isinstance(action, str):
            return

        def read(question: Question) -> Given | None:
            if action in _OPENING:
                return None
            verb, number = (
                ("option", chosen) if action == "select" else (action.partition(" ")[0], reference.extra)
            )
            given = pressed(question.form, verb, number=number, digest=reference.digest)
            return replace(given, seen=reference.seen)

        sender, container = await self._read_sender(payload, evidence), object_in(payload, "container")
        room, message = container.get("channel_id"), container.get("message_ts")
        if action in _WRITING:
            await self._write(payload, action, reference, sender)
            return
        result = await self._flow.press(reference, sender, read)
        if isinstance(result, Question):
            await self._open(payload, _view(result, action, reference))
            return
        if result.kind != "taken" or not result.has_ended:
            self._tasks.begin(self._api.tell(payload.get("response_url"), result.text))
        await self._redraw(room, message, result)

    async def _write(
        self, payload: Mapping[str, Any], kind: str, reference: QuestionReference, sender: Sender
    ) -> None:
        """Write what somebody typed into the thread of its question, now that they have said what it is."""
        match reference.extra:
            case {"by": sender.identity, "text": str(text), "id": str(name), "ts": str(thread)}:
                # However often it is pressed, it is written once.
                once = replace(sender, id=f"{name} written"[:_LONGEST_ID])
                result = await self._flow.press(reference, once, lambda _: written(kind, text))
            case _:
                self._tasks.begin(self._api.tell(payload.get("response_url"), gettext(NOT_OURS)))
                return
        if isinstance(result, Question):
            return
        self._tasks.begin(self._api.tell(payload.get("response_url"), result.text, replaces=True))
        room = object_in(payload, "container").get("channel_id")
        await self._redraw(room, thread, result, is_written=True)

    async def _open(self, payload: Mapping[str, Any], view: Block) -> None:
        try:
            await self._api.call("views.open", {"trigger_id": payload.get("trigger_id"), "view": view})
        except Refused:
            self._tasks.begin(self._api.tell(payload.get("response_url"), gettext(TRY_AGAIN)))

    async def _handle_submission(self, payload: Mapping[str, Any], evidence: str) -> Block | None:
        view = object_in(payload, "view")
        callback, reference = view.get("callback_id"), parse_reference(view.get("private_metadata"))
        values = object_in(view, "state").get("values")
        if reference is None:
            return None

        def read(question: Question) -> Given | None:
            form = question.form
            match callback, form, reference.extra:
                case "change", Approval(), _:
                    return None
                case "changed", Approval(), {"arguments": edits, "digest": digest}:
                    given = decided("approve", digest, arguments=edits)
                    return replace(given, seen=reference.seen)
            return submitted(
                form,
                str(callback),
                read_answer=lambda: read_answer(form, values),
                reason=read_reason(values),
                digest=reference.digest,
            )

        result = await self._flow.press(reference, await self._read_sender(payload, evidence), read)
        if isinstance(result, Question):
            return _difference(result, values, reference.seen)
        if callback == "send_back" and result.problems and not result.has_ended:
            return {"response_action": "errors", "errors": reason_errors(result.problems)}
        return _submission_response(result)

    async def _handle_event(self, payload: Mapping[str, Any], evidence: str) -> None:
        """A message that somebody typed: in the thread of a question it is an answer."""
        event = object_in(payload, "event")
        text, channel, thread = event.get("text"), event.get("channel"), event.get("thread_ts")
        if event.get("type") != "message" or "bot_id" in event or event.get("subtype") not in _TYPED:
            return
        if not isinstance(text, str) or not isinstance(channel, str) or not event.get("user"):
            return
        sender, bot = await self._read_sender(payload, evidence), (await self._api.bot_identity()).user
        if event.get("user") == bot:
            return
        is_direct = event.get("channel_type") == "im"
        if is_direct and read_code(text) is not None:
            await self._connect(event, text, sender)
            return
        if not isinstance(thread, str) or thread == event.get("ts"):
            if is_direct:
                self._tasks.begin(self._say(event, str(event.get("ts")), gettext(_IN_THREAD)))
            return
        if event.get("parent_user_id", bot) != bot:
            return
        reference = await self._find_thread_reference(channel, thread, bot)
        if reference is None:
            return
        hint = None if is_direct or f"<@{bot}>" in text else _CALL_ME
        answer = typed(text.replace(f"<@{bot}>", "", 1)).strip()
        result = await self._flow.write(
            reference, sender, answer, read=lambda _: Given(text=answer, seen=reference.seen), hint=hint
        )
        if result is not None:
            extra = {"by": sender.identity, "id": str(event.get("ts")), "text": answer, "ts": thread}
            self._tasks.begin(self._say(event, thread, *_offer(result, extra)))
            await self._redraw(channel, thread, result)

    async def _connect(self, event: Mapping[str, Any], text: str, sender: Sender) -> None:
        """Answer a code with the link that connects this account."""
        account = None
        if ":" not in sender.identity:
            name = await self._api.name_of(sender.identity)
            account = ChatAccount(CHANNEL, sender.identity, {"user": sender.identity}, name)
        told = self._flow.connect(text, account, "Slack")
        if told is not None:
            more = [] if told.url is None else [rich(line(link(told.url, gettext("Connect"))))]
            self._tasks.begin(self._say(event, str(event.get("ts")), told.text, more))

    async def _read_sender(self, payload: Mapping[str, Any], evidence: str) -> Sender:
        """Who did something: the member id, with the team before it if that is another one."""
        home = await self._api.bot_identity()
        event = payload.get("event")
        if isinstance(event, dict):
            user = event.get("user")
            team = event.get("user_team") or event.get("team") or payload.get("team_id")
        else:
            person = object_in(payload, "user")
            user, team = person.get("id"), person.get("team_id") or object_in(payload, "team").get("id")
        if not isinstance(user, str) or not isinstance(team, str) or ":" in user + team:
            raise InvalidPayload("user")
        # Slack names everything that somebody does, and sends it again if it must.
        name = payload.get("event_id") or payload.get("trigger_id")
        return Sender(
            identity=user if team == home.team else f"{team}:{user}",
            evidence=evidence,
            id=name if isinstance(name, str) and 0 < len(name) <= _LONGEST_ID else None,
            details={"team": team, "user": user},
        )

    async def _find_thread_reference(self, channel: str, thread: str, bot: str) -> QuestionReference | None:
        """The question that a thread is about. Only our own message says so: anybody can write that into theirs."""
        try:
            found = await self._api.read(
                "conversations.replies", channel=channel, ts=thread, limit="1", include_all_metadata="true"
            )
        except Refused as refused:
            if refused.again:
                raise
            return None
        parent = next(iter(list_in(found, "messages")), None)
        if not isinstance(parent, dict) or parent.get("ts") != thread or parent.get("user") != bot:
            return None
        return parse_metadata(parent.get("metadata"))

    async def _say(
        self, event: Mapping[str, Any], thread: str, text: str, more: Sequence[Block] = ()
    ) -> None:
        """Say something to one person; in a room, only they see it."""
        told = text_message(text)
        told["blocks"] = [*told["blocks"], *more]
        body = {"channel": event.get("channel"), "thread_ts": thread, **told}
        if event.get("channel_type") == "im":
            await self._api.call("chat.postMessage", body)
        else:
            await self._api.call("chat.postEphemeral", body | {"user": event.get("user")})

    async def _redraw(
        self, channel: object, ts: object, result: ReplyResult, *, is_written: bool = False
    ) -> None:
        """Show in a message that was pressed too late how its question ended, or what was written since."""
        where = {"channel": channel, "ts": ts}
        if result.kind == "late" and result.question is not None:
            self._tasks.begin(self._api.call("chat.update", where | outcome_body(result.question)))
        elif result.kind == "moved" or is_written:
            notice = await self._flow.current_notice(result)
            if notice is not None:
                self._tasks.begin(self._api.call("chat.update", where | question_body(notice)))


def body_of(rendered: Rendered, question: Question | None = None) -> Block:
    """A message in which Slack itself makes no mentions and links; with a question, also what finds it in a thread."""
    made = {"text": rendered.text, "blocks": rendered.blocks, "parse": "none", "link_names": False}
    return made if question is None else made | {"metadata": build_metadata(question, rendered.seen)}


def question_body(notice: Notice) -> Block:
    """A message that asks a question."""
    return body_of(render_question(notice), notice.question)


def outcome_body(question: Question) -> Block:
    """A message that says how a question ended."""
    return body_of(render_outcome(question), question)


def _view(question: Question, action: str, reference: QuestionReference) -> Block:
    """The view behind a button."""
    match action, question.form:
        case "change", Approval() as form:
            return change_view(question, form, reference.seen)
        case "change", _:
            raise InvalidPayload("change")
        case "reason", _:
            return deny_view(question, reference.digest)
        case "decline", _:
            return decline_view(question)
        case "send_back", _:
            return send_back_view(question)
        case _:
            return answer_view(question)


def _offer(result: ReplyResult, extra: Json) -> tuple[str, Sequence[Block]]:
    """What somebody is told, and the buttons that make a message of what they wrote."""
    if not result.offers or result.question is None:
        return result.text, ()
    found = offered(result.question, result.offers, extra)
    if found is None:
        return gettext("That is too long to be taken from here. Write it in the inbox instead."), ()
    return result.text, found


def _difference(question: Question, values: object, seen: int | None) -> Block:
    """What a person changed, to be looked at before it is approved."""
    form = question.form
    if not isinstance(form, Approval):
        raise InvalidPayload("change")
    try:
        approved, after = read_changes(form, read_answer(form, values))
    except InvalidAnswer as unfit:
        return {"response_action": "errors", "errors": errors_of(form, unfit.problems)}
    kept = approved if seen is None else approved | {"seen": seen}
    view = difference_view(question, form, kept, difference(form.action.arguments, after))
    return _update_response(
        view or message_view(gettext("That is too much to be shown here. Change it in the inbox instead."))
    )


def _submission_response(result: ReplyResult) -> Block:
    """What a view shows as the result: nothing more, what is wrong, or why it does not count."""
    question = result.question
    if result.kind == "taken" and result.has_ended:
        return {"response_action": "clear"}
    if result.problems and question is not None and not result.has_ended and question.form.kind != "approval":
        return {"response_action": "errors", "errors": errors_of(question.form, result.problems)}
    return _update_response(message_view(result.text))


def _update_response(view: Block) -> Block:
    return {"response_action": "update", "view": view}


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

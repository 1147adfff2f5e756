"""What the pauses of all frameworks share: each becomes a question, and its outcome becomes a text or an action.

A run of an agent has a key. Its pauses are posted under keys that come from it, so that a process that loads the run again, here
or in another process, finds the questions that were asked and asks none twice. `Run.ask_all` asks, `Run.collect` waits.
"""

from __future__ import annotations

import base64
import hashlib
import json
import time
import zlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TypedDict

from handraise import (
    Action,
    Answered,
    Approval,
    Desk,
    InvalidQuestion,
    KeyConflict,
    NotApproved,
    Problem,
    Question,
    QuestionNotFound,
    StillPending,
    Timeline,
)
from handraise.errors import AlreadyConsumed
from handraise.integrations.pause_questions import Pause
from handraise.integrations.state_store import StateStore
from handraise.model.durations import Span, seconds_of
from handraise.model.json_values import Json
from handraise.model.questions import Replies
from handraise.outcomes import Returned
from handraise.questions import QuestionOptions
from handraise.tools import ApprovalOptions, ToolResult
from handraise.tools.asked_back import settled_or_asked_back
from handraise.tools.reply_tool import invalid_reply, reply_from, reply_once
from handraise.tools.tool_arguments import UNKNOWN_REPLACED

_NAMES = "pause:"
_FROM_THE_MODEL = (
    *("prompt", "form", "context", "choices", "question", "arguments", "editable", "tool_call"),
    "replaces",
)


class PauseOptions(TypedDict, total=False):
    """Options for all questions of a run; each is as in `QuestionOptions`.

    With `replies="model"` people may ask back about what the model asks with `ask_human`: give it `reply_to_person` too.
    They cannot about an approval, because a call that waits for one is either executed or rejected. With
    `replies="program"` they may ask back about everything, and your program replies beside the run: see `Desk.messages`.
    With a `topic`, equal questions of all runs that name it are asked once. It is not used for approvals.
    """

    conversation: str
    recipients: Sequence[str]
    quorum: int
    veto: bool
    max_attempts: int
    expires_in: Span
    timeline: Timeline
    trace: str
    undo_for: Span
    replies: Replies
    topic: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How a pause ended. `words` are for the model.

    `action` is set only if a person approved it. `Run.collect` gives it only to the first process that collects it: execute
    exactly this. `question` is None if nobody could be asked.
    """

    words: str = field(repr=False)
    question: Question | None = None
    action: Action | None = field(default=None, repr=False)

    @property
    def answered(self) -> bool:
        """Whether there is an answer, and not another ending."""
        return self.question is not None and isinstance(self.question.outcome, Answered)

    @property
    def value(self) -> Json:
        """The canonical answer; None for every other ending."""
        outcome = self.question.outcome if self.question else None
        return outcome.value if isinstance(outcome, Answered) else None

    @property
    def edited(self) -> bool:
        """Whether the person changed arguments of the action."""
        form = self.question.form if self.question else None
        return self.action is not None and isinstance(form, Approval) and form.action != self.action


AskedQuestions = dict[str, Question | Ending]


class Run:
    """The pauses of one run as questions of a desk. `approvals` has options for single tools."""

    def __init__(
        self,
        desk: Desk,
        key: str,
        options: PauseOptions,
        approvals: Mapping[str, ApprovalOptions] | None = None,
        state_store: StateStore | None = None,
    ) -> None:
        self._desk = desk
        self._key = key
        self._options = options
        self._approvals = approvals or {}
        self._state_store = state_store
        self._turn = 0
        self._posted = 0

    async def saved(self) -> str | None:
        """What the run stored at its latest pause, or None if it has never paused."""
        found, self._turn = None, 0
        while question := await self._desk.find_by_key(self._name([self._turn + (found is not None), 0])):
            if not isinstance(question.state, dict):
                break  # a question of this asker that is not a pause
            self._turn += found is not None
            found = question.state
        return None if found is None else await self._found(found["saved"])

    async def ask_all(self, pauses: Sequence[Pause], *, saved: str | None = None) -> AskedQuestions:
        """The question of each pause, by the pause's id; posted unless it is already stored.

        `saved` is stored with the first of them, where any process finds it.
        """
        if len({pause.id for pause in pauses}) < len(pauses):
            raise ValueError(
                "two pauses of one run have the same id, so their answers could not be told apart"
            )
        asked: AskedQuestions = {}
        self._posted = 0
        for pause in pauses:
            if pause.reply is not None:
                asked[pause.id] = await self._reply(pause.reply)
                continue
            name: list[Json] = [pause.id] if saved is None else [self._turn, self._posted]
            state: dict[str, Json] = {"run": self._key, "pause": pause.id}
            if saved is not None and self._posted == 0:
                state["saved"] = await self._kept(saved)
            asked[pause.id] = await self._ask(pause, self._name(name), state)
            self._posted += isinstance(asked[pause.id], Question)
        return asked

    async def collect(self, asked: AskedQuestions, *, timeout: Span | None = None) -> dict[str, Ending]:
        """How each ended, once all have or a person has asked the model back. Approved actions are used up here.

        If `timeout` passes first, `StillPending` is raised and nothing is changed.
        """
        endings = await self.settled(asked, timeout=timeout)
        return {name: await self._used(each) for name, each in endings.items()}

    async def settled(self, asked: AskedQuestions, *, timeout: Span | None = None) -> dict[str, Ending]:
        """The same, but no approval is used up: the place that executes an action does that, just before."""
        ids = [each.id for each in asked.values() if isinstance(each, Question)]
        end = None if timeout is None else time.monotonic() + seconds_of(timeout)
        open_ones = []
        for each in ids:
            left = None if end is None else max(0.0, end - time.monotonic())
            _, result = await settled_or_asked_back(self._desk, each, timeout=left)
            if result.status == "still_pending":
                open_ones.append(each)
        if open_ones:
            raise StillPending(open_ones)
        # A turn that only replies has stored nothing: a process that is started again goes on from the turn before.
        self._turn += bool(self._posted)
        return {
            name: each if isinstance(each, Ending) else await self._ending(each.id)
            for name, each in asked.items()
        }

    def said(self, tool: str) -> ApprovalOptions:
        """The options for the approvals of a tool."""
        return self._approvals.get(tool, {})

    async def _ask(self, pause: Pause, key: str, state: dict[str, Json]) -> Question | Ending:
        if pause.problems:
            return _refused(pause, pause.problems)
        about: QuestionOptions = {"conversation": self._key, **self._options, **pause.options}
        about["key"], about["state"] = key, state
        if about.get("replies") == "model" and (
            not pause.by_model or isinstance(about.get("form"), Approval)
        ):
            del about["replies"]
        if isinstance(about.get("form"), Approval):
            about.pop("topic", None)
        if pause.call is not None:
            about["tool_call"] = pause.call
        replaced = about.get("replaces")
        if replaced is not None and await self._found_own(replaced) is None:
            return _refused(pause, [UNKNOWN_REPLACED])
        try:
            question = await self._desk.post(pause.prompt, **about)
        except InvalidQuestion as refusal:
            return _refused(pause, refusal.problems)
        except KeyConflict as conflict:
            # Asked by an earlier run with other options, such as another expiry: it stays as it was asked.
            question = _same_pause(conflict, pause)
        if isinstance(question.form, Approval):
            question = await self._desk.apply_grant(question.id) or question
        return question

    async def _reply(self, arguments: dict[str, Json]) -> Question | Ending:
        """The question of this run that a model replies about; the reply is written once."""
        try:
            reply = reply_from(arguments)
            return await reply_once(self._desk, await self._own(reply.question_id), reply)
        except InvalidQuestion as refusal:
            return Ending(words=invalid_reply(refusal.problems).content)

    async def _own(self, question_id: str) -> Question:
        question = await self._found_own(question_id)
        if question is None or question.replies != "model":
            raise InvalidQuestion([Problem("question_id", "you have asked no such question")])
        return question

    async def _found_own(self, question_id: Json) -> Question | None:
        """The question with this id, if this run has asked it."""
        with suppress(QuestionNotFound):
            question = await self._desk.get(question_id) if isinstance(question_id, str) else None
            if question is not None and isinstance(question.state, dict):
                is_own = (question.asker, question.state.get("run")) == (self._desk.asker, self._key)
                return question if is_own else None
        return None

    async def _ending(self, question_id: str) -> Ending:
        question, result = await settled_or_asked_back(self._desk, question_id, timeout=0)
        if not isinstance(question.form, Approval):
            return Ending(words=result.content, question=question)
        if not question.decision:
            return Ending(words=_refusal(question), question=question)
        return Ending(words="Approved.", question=question, action=question.decision.action)

    async def _used(self, ending: Ending) -> Ending:
        """The same ending; if the approval can no longer be used, one without an action."""
        if ending.action is None or ending.question is None:
            return ending
        try:
            action = await self._desk.consume_approval(ending.question.id)
        except (NotApproved, AlreadyConsumed) as refused:
            question = await self._desk.get(ending.question.id)
            if isinstance(refused, AlreadyConsumed) and refused.report is not None and refused.report.ok:
                # A finished run that is called again: the model reads the same result once more.
                return Ending(words=refused.report.text, question=question)
            return Ending(words=why_not_executed(refused), question=question)
        return replace(ending, action=action)

    async def _kept(self, text: str) -> dict[str, str]:
        """The place of the text, as stored in a question."""
        if self._state_store is None:
            return {"text": base64.b64encode(zlib.compress(text.encode(), 9)).decode()}
        name = self._name([self._turn]).removeprefix(_NAMES)
        await self._state_store.keep(name, text)
        return {"name": name}

    async def _found(self, kept: dict[str, str]) -> str:
        if "text" in kept:
            return zlib.decompress(base64.b64decode(kept["text"])).decode()
        text = None if self._state_store is None else await self._state_store.find(kept["name"])
        if text is None:
            raise LookupError(f"The state of run {self._key!r} is kept as {kept['name']}, but it is missing.")
        return text

    def _name(self, parts: Sequence[Json]) -> str:
        return pause_key(self._desk, self._key, *parts)


def pause_key(desk: Desk, run: str, *parts: Json) -> str:
    """The key of the question about a pause; hashed, because the names in it can be long."""
    text = json.dumps([desk.asker, run, *parts])
    return _NAMES + hashlib.sha256(text.encode()).hexdigest()


def why_not_executed(refused: NotApproved | AlreadyConsumed) -> str:
    """What a model reads if an approval cannot be used. If it was used before, the action may have been executed."""
    if isinstance(refused, AlreadyConsumed):
        return str(refused)
    return f"Not executed. {refused}"


def _refused(pause: Pause, problems: Sequence[Problem]) -> Ending:
    """The text for a model if nobody could be asked; problems that it did not cause are raised."""
    if not pause.by_model or any(not each.path.startswith(_FROM_THE_MODEL) for each in problems):
        raise InvalidQuestion(problems)
    reason = "Nobody was asked, and nothing was executed. Correct these problems and call it again."
    return Ending(words=ToolResult(status="invalid", reason=reason, problems=tuple(problems)).content)


def _refusal(question: Question) -> str:
    """Why an action is not executed."""
    decision = question.decision
    if isinstance(question.outcome, Returned):
        said = str(question.outcome).rstrip(".")
        return f"Not approved, and not executed: {said}. Change it as they say, and call the tool again."
    if decision is None:
        return f"Not approved, and not executed: {question.outcome}."
    by = question.outcome.by if isinstance(question.outcome, Answered) else None
    return f"Not approved, and not executed: denied by {by}" + (
        f": {decision.reason}" if decision.reason else "."
    )


def _same_pause(conflict: KeyConflict, pause: Pause) -> Question:
    stored, form = conflict.existing, conflict.draft.form
    if stored is None or not isinstance(stored.state, dict) or stored.state.get("pause") != pause.id:
        raise conflict
    asked = stored.form
    if isinstance(form, Approval) != isinstance(asked, Approval):
        raise conflict
    if isinstance(form, Approval) and isinstance(asked, Approval) and form.digest != asked.digest:
        raise conflict
    return stored

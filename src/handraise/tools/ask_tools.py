"""The tool with which a model asks people, `ask_human`, and its presets with other names and parameters."""

from __future__ import annotations

import inspect
import logging
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Protocol, TypeVar

from handraise import AlreadySettled, Desk, InvalidQuestion, Problem, Question, QuestionNotFound
from handraise.model.durations import Span, seconds_of
from handraise.model.json_values import text_problem
from handraise.questions import QuestionOptions
from handraise.tools.ask_specs import (
    ASK_CLARIFYING_QUESTION,
    ASK_HUMAN,
    CLARIFY,
    HUMAN_INTERVENTION_REQUEST,
    with_topic,
)
from handraise.tools.asked_back import settled_or_asked_back
from handraise.tools.idempotent_post import Call, Posted, origin_of, post_once
from handraise.tools.results import UNDELIVERED, ToolResult, batch_result, invalid_result
from handraise.tools.tool_arguments import (
    NO_TOPIC,
    UNKNOWN_REPLACED,
    Arguments,
    Intent,
    ReadArguments,
    problems_for,
    read_ask_human,
    read_clarify,
    read_clarifying_question,
    read_intervention,
)
from handraise.tools.tool_events import AskEvent, Emit, Interrupt, event_of
from handraise.tools.tool_spec import ToolSpec

_log = logging.getLogger(__name__)

CLARIFY_EXPIRES_IN = 600.0


class AskTool:
    """A tool that asks people in the name of a desk's asker, within one conversation.

    `ask_human` and its presets make it. Arguments that cannot be asked and events that cannot be shown are
    results, not exceptions: the model reads them.

    `run` is your name for the run in which the model makes its calls: a call id is unique within it. Give it
    if your model numbers its calls from the beginning in each run, and give the same name again after a
    restart. With `topics`, the model may give a topic: equal questions of other agents with the same topic are asked once.
    """

    def __init__(
        self,
        spec: ToolSpec,
        read: ReadArguments,
        *,
        desk: Desk,
        conversation: str,
        run: str | None = None,
        emit: Emit | None,
        expires_in: Span | None,
        recipients: Sequence[str],
        topics: bool = False,
        other_names: Sequence[str] = (),
    ) -> None:
        self.spec = with_topic(spec) if topics else spec
        self.conversation = conversation
        self._run = run
        self._read = read
        self._desk = desk
        self._emit = emit
        self._topics = topics
        self._names = frozenset((spec.name, *other_names))
        self._options: QuestionOptions = {"recipients": recipients}
        if expires_in is not None:
            self._options["expires_in"] = expires_in

    @property
    def desk(self) -> Desk:
        """The desk on which it asks."""
        return self._desk

    def answers_to(self, name: str) -> bool:
        """Whether this is one of the tool's names."""
        return name in self._names

    def let_people_ask_back(self) -> None:
        """Let people ask back about what it asks from now on; `reply_to_person` calls this."""
        self._options["replies"] = "model"

    async def execute(self, arguments: Arguments, *, call_id: str | None = None) -> ToolResult:
        """Ask, wait for the outcome, and return the result for the model.

        `call_id` is the id that the model API gave to the call: if it is executed again after a restart, it
        finds its question, even if that was answered meanwhile. A cancelled call leaves its question pending.
        If a person asks the model back, the call ends with the status `asked_back`; one with several questions ends when
        each of them is settled or was asked back.
        """
        asked = await self._ask(arguments, call_id or None)
        if isinstance(asked, ToolResult):
            return asked
        return _combined(asked, await self._results([each.question.id for each in asked], timeout=None))

    async def start(self, arguments: Arguments, *, call_id: str | None = None) -> Interrupt | ToolResult:
        """Ask and do not wait: returns an interrupt to raise or return, or the result if there is nothing to wait for."""
        asked = await self._ask(arguments, call_id or None)
        if isinstance(asked, ToolResult):
            return asked
        ended = all(each.question.outcome is not None for each in asked)
        if ended or any(each.question.is_askers_turn for each in asked):
            ids = [each.question.id for each in asked]
            now = _combined(asked, await self._results(ids, timeout=0))
            if ended or now.status == "asked_back":
                return now
        return Interrupt(
            self.spec.name, self.conversation, call_id or None, self._events(asked, call_id or None)
        )

    async def resume(self, question_ids: Iterable[str], *, timeout: Span | None = None) -> ToolResult:
        """Return the result for the model of a call that was started, in this process or in another.

        If `timeout` passes first, the status is `still_pending` and nothing changes.
        """
        ids = list(question_ids)
        questions = [await self._get_in_conversation(each) for each in ids]
        results = await self._results(ids, timeout=timeout)
        batches = [origin_of(each).get("batch") for each in questions]
        if len(ids) == 1 and batches[0] is None:
            return results[0]
        return batch_result(
            [
                replace(result, echo=(batch or {}).get("id"), question=question.prompt)
                for result, question, batch in zip(results, questions, batches, strict=True)
            ]
        )

    async def go_on(self, question_id: str, *, timeout: Span | None = None) -> ToolResult:
        """Return the result of one question, also if it was one of several of its call."""
        question = await self.get_own(question_id)
        _, result = await settled_or_asked_back(self._desk, question_id, timeout=timeout)
        batch = origin_of(question).get("batch")
        return result if batch is None else replace(result, echo=batch.get("id"), question=question.prompt)

    async def _ask(self, arguments: Arguments, call_id: str | None) -> list[Posted] | ToolResult:
        """The stored questions of a call, shown to people; or why there is nothing to wait for."""
        try:
            intents = self._intents(arguments, call_id)
        except InvalidQuestion as refusal:
            return invalid_result(self.spec.name, refusal.problems)
        if unknown := await self._unknown_replaced(intents):
            return invalid_result(self.spec.name, unknown)
        asked, problems = await self._post(intents, call_id)
        if problems:
            await self._withdraw(asked, "another question of the same call cannot be asked")
            return invalid_result(self.spec.name, problems)
        pending = [each for each in asked if each.question.outcome is None]
        try:
            for event in self._events(pending, call_id):
                await self._show(event)
        except Exception as error:  # noqa: BLE001 -- whatever an emitter raises, nobody was shown the question
            _log.warning("%s could not show its question", self.spec.name, exc_info=error)
            return await self._undelivered(asked, f"{UNDELIVERED}: {type(error).__name__}")
        return asked

    def _intents(self, arguments: Arguments, call_id: str | None) -> tuple[Intent, ...]:
        if call_id is not None and (why := text_problem(call_id)):
            raise InvalidQuestion([Problem("call_id", why)])
        intents = self._read(arguments)
        if not self._topics and (named := [each for each in intents if each.topic is not None]):
            raise InvalidQuestion(
                [found for each in named for found in problems_for(self.spec.name, each.place, [NO_TOPIC])]
            )
        return intents

    async def _unknown_replaced(self, intents: Iterable[Intent]) -> list[Problem]:
        """A problem for each question that is to be replaced and that this tool has not asked in this conversation."""
        problems: list[Problem] = []
        for intent in intents:
            if intent.replaces is None:
                continue
            try:
                await self.get_own(intent.replaces)
            except QuestionNotFound:
                problems += problems_for(self.spec.name, intent.place, [UNKNOWN_REPLACED])
        return problems

    async def _post(
        self, intents: Iterable[Intent], call_id: str | None
    ) -> tuple[list[Posted], list[Problem]]:
        """The questions that could be posted, and what is wrong with the others."""
        call = Call(
            desk=self._desk,
            tool=self.spec.name,
            conversation=self.conversation,
            id=call_id,
            options=self._options,
            run=self._run,
        )
        asked: list[Posted] = []
        problems: list[Problem] = []
        for intent in intents:
            try:
                asked.append(await post_once(call, intent))
            except InvalidQuestion as refusal:
                found = problems_for(self.spec.name, intent.place, refusal.problems)
                if (
                    not found
                ):  # the program's own mistake, such as a bad recipient: the model cannot correct it
                    raise
                problems += found
        return asked, problems

    async def _show(self, event: AskEvent) -> None:
        shown = None if self._emit is None else self._emit(event)
        if inspect.isawaitable(shown):
            await shown

    async def _undelivered(self, asked: Sequence[Posted], reason: str) -> ToolResult:
        """Withdraw questions that nobody was shown. An answer that came anyway counts."""
        await self._withdraw(asked, reason)
        result = _combined(asked, await self._results([each.question.id for each in asked], timeout=0))
        lost = [
            replace(each, status="undelivered", reason=reason) if each.status == "still_pending" else each
            for each in result.responses or (result,)
        ]
        return batch_result(lost) if result.responses else lost[0]

    async def _withdraw(self, asked: Sequence[Posted], reason: str) -> None:
        for each in asked:
            if each.own and each.question.outcome is None:
                with suppress(AlreadySettled):
                    await self._desk.withdraw(each.question.id, reason=reason)

    async def _results(self, question_ids: Sequence[str], *, timeout: Span | None) -> list[ToolResult]:
        """The results when each question is settled or its asker was asked back, or the time is over."""
        end = None if timeout is None else time.monotonic() + seconds_of(timeout)
        results = []
        for each in question_ids:
            left = None if end is None else max(0.0, end - time.monotonic())
            results.append((await settled_or_asked_back(self._desk, each, timeout=left))[1])
        if len(results) == 1:
            return results
        # What was asked back or pending may be answered by now.
        return [(await settled_or_asked_back(self._desk, each, timeout=0))[1] for each in question_ids]

    async def get_own(self, question_id: str) -> Question:
        """The question with this id, if this tool asked it; else raises `QuestionNotFound`."""
        question = await self._get_in_conversation(question_id)
        if origin_of(question).get("tool") not in self._names:
            raise QuestionNotFound(question_id, self._desk.workspace)
        return question

    async def _get_in_conversation(self, question_id: str) -> Question:
        question = await self._desk.get(question_id)
        if (question.conversation, question.asker) != (self.conversation, self._desk.asker):
            raise QuestionNotFound(question_id, self._desk.workspace)
        return question

    def _events(self, asked: Sequence[Posted], call_id: str | None) -> tuple[AskEvent, ...]:
        return tuple(
            event_of(each.question, tool=self.spec.name, conversation=self.conversation, call_id=call_id)
            for each in asked
        )


def _combined(asked: Sequence[Posted], results: Sequence[ToolResult]) -> ToolResult:
    """One result for a call from those of its questions."""
    if asked[0].intent.place is None:
        return results[0]
    return batch_result(
        [
            replace(result, echo=each.intent.echo, question=each.intent.prompt)
            for each, result in zip(asked, results, strict=True)
        ]
    )


def ask_human(
    desk: Desk,
    *,
    conversation: str,
    run: str | None = None,
    emit: Emit | None = None,
    expires_in: Span | None = None,
    recipients: Sequence[str] = (),
    topics: bool = False,
) -> AskTool:
    """A question in the person's own words or with choices, or a batch of up to 5 questions.

    It waits until it is answered unless you give `expires_in`. With `topics`, the model may give a topic, here and in the
    presets.
    """
    return AskTool(
        ASK_HUMAN,
        read_ask_human,
        desk=desk,
        conversation=conversation,
        run=run,
        emit=emit,
        expires_in=expires_in,
        recipients=recipients,
        topics=topics,
    )


def clarify(
    desk: Desk,
    *,
    conversation: str,
    run: str | None = None,
    emit: Emit | None = None,
    expires_in: Span | None = CLARIFY_EXPIRES_IN,
    recipients: Sequence[str] = (),
    topics: bool = False,
) -> AskTool:
    """A question with up to 4 choices or an open one, or a batch of up to 5 of them.

    They expire after ten minutes by default; with None they wait forever.
    """
    return AskTool(
        CLARIFY,
        read_clarify,
        desk=desk,
        conversation=conversation,
        run=run,
        emit=emit,
        expires_in=expires_in,
        recipients=recipients,
        topics=topics,
    )


def ask_clarifying_question(
    desk: Desk,
    *,
    conversation: str,
    run: str | None = None,
    emit: Emit | None = None,
    expires_in: Span | None = None,
    recipients: Sequence[str] = (),
    topics: bool = False,
) -> AskTool:
    """An open question, with the reason why it is asked. It waits forever unless you give `expires_in`."""
    return AskTool(
        ASK_CLARIFYING_QUESTION,
        read_clarifying_question,
        desk=desk,
        conversation=conversation,
        run=run,
        emit=emit,
        expires_in=expires_in,
        recipients=recipients,
        topics=topics,
    )


def human_intervention_request(
    desk: Desk,
    *,
    conversation: str,
    run: str | None = None,
    emit: Emit | None = None,
    expires_in: Span | None = None,
    recipients: Sequence[str] = (),
    topics: bool = False,
) -> AskTool:
    """A decision between options that the model names. It waits forever unless you give `expires_in`."""
    return AskTool(
        HUMAN_INTERVENTION_REQUEST,
        read_intervention,
        desk=desk,
        conversation=conversation,
        run=run,
        emit=emit,
        expires_in=expires_in,
        recipients=recipients,
        topics=topics,
        other_names=("human_intervention.request",),
    )


def preset_tools(
    desk: Desk,
    *,
    conversation: str,
    run: str | None = None,
    emit: Emit | None = None,
    recipients: Sequence[str] = (),
    topics: bool = False,
) -> tuple[AskTool, AskTool, AskTool]:
    """The three presets of `ask_human`, each with its own default expiry."""
    return (
        clarify(desk, conversation=conversation, run=run, emit=emit, recipients=recipients, topics=topics),
        ask_clarifying_question(
            desk, conversation=conversation, run=run, emit=emit, recipients=recipients, topics=topics
        ),
        human_intervention_request(
            desk, conversation=conversation, run=run, emit=emit, recipients=recipients, topics=topics
        ),
    )


class NamedTool(Protocol):
    """A tool that knows its names."""

    def answers_to(self, name: str) -> bool:
        """Whether this is one of the tool's names."""
        ...


Tool = TypeVar("Tool", bound=NamedTool)


def find_tool(tools: Iterable[Tool], name: str) -> Tool | None:
    """The tool with this name, or None."""
    return next((tool for tool in tools if tool.answers_to(name)), None)

"""LangGraph and LangChain: `run` continues an interrupted graph with people's answers, also after a restart.

`pip install "handraise[langgraph]"`. The graph's checkpointer keeps the run, the desk keeps the questions; a question's key
comes from the thread and the interrupt's id. In a node, `ask` asks a person; `ask_human` is a tool with which a model
does, and `reply_to_person` one with which it replies to people who ask back.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any, Unpack, get_args

from handraise import Answered, Desk, InvalidQuestion, NotAnswered, Open, Outcome
from handraise.errors import MissingExtra
from handraise.integrations.langchain_reviews import response_to, reviews_of
from handraise.integrations.pause_questions import (
    ASK_HUMAN,
    REPLY_TO_PERSON,
    Askable,
    Pause,
    asking,
    described,
    form_of,
    pause_in,
    replying,
)
from handraise.integrations.paused_run import Ending, PauseOptions, Run
from handraise.model.durations import Span
from handraise.model.json_values import Json
from handraise.questions import QuestionOptions
from handraise.tools import ApprovalOptions

try:
    from langchain_core.runnables import RunnableConfig
    from langchain_core.tools import tool
    from langgraph.pregel import Pregel
    from langgraph.types import Command, Interrupt, StateSnapshot, interrupt
except ImportError as error:
    raise MissingExtra(error.name or "langgraph", "langgraph") from error

__all__ = ["ask", "ask_human", "reply_to_person", "resume_command", "run"]

Graph = Pregel[Any, Any, Any, Any]


async def run(
    graph: Graph,
    input: Json,  # noqa: A002 -- LangGraph's own name for it
    *,
    desk: Desk,
    key: str,
    config: RunnableConfig | None = None,
    timeout: Span | None = None,
    approvals: Mapping[str, ApprovalOptions] | None = None,
    **options: Unpack[PauseOptions],
) -> Any:
    """Run a graph to its end, asking people whenever it interrupts; `key` is the id of its thread.

    The same call continues after a restart: an unfinished thread continues from its checkpoint, and `input`
    is not used again. If the thread is finished and `input` is the one that it began with, its result is
    returned again and nobody is asked; another `input` starts the thread's next turn. If `timeout` passes
    first, `StillPending` is raised; the thread and its questions stay. `options` are for all questions,
    `approvals` for those about single tools. An interrupt that comes neither from `ask` nor from the
    middleware is resumed with the answer; if there is none, `NotAnswered` is raised and it stays.
    """
    thread = await _Thread.of(graph, key, config or {}, begun_with=_mark_of(input))
    snapshot = await thread.state()
    result: Any = snapshot.values
    if thread.has_finished(snapshot):
        return result
    stored = bool(snapshot.interrupts)
    if not stored:
        result = await thread.invoke(None if snapshot.tasks else input)
        snapshot = await thread.state()
    while snapshot.interrupts:
        try:
            command = await resume_command(
                snapshot.interrupts, desk=desk, key=key, timeout=timeout, approvals=approvals, **options
            )
        except InvalidQuestion:
            if not stored:
                raise
            # An earlier run stored something that cannot be asked. The program may have been corrected: the
            # node asks again.
            command, stored = None, False
        result = await thread.invoke(command)
        snapshot = await thread.state()
    return result


async def resume_command(
    interrupts: Sequence[Interrupt[Any]],
    *,
    desk: Desk,
    key: str,
    timeout: Span | None = None,
    approvals: Mapping[str, ApprovalOptions] | None = None,
    **options: Unpack[PauseOptions],
) -> Command[Any]:
    """Ask about every interrupt, wait for all, and return the command that resumes each by its id.

    For programs that run the graph themselves, for example to stream it; `key` is the id of the thread. The command uses up
    no approval: `ApprovalMiddleware` does, where the tool is executed.
    """
    pausing = Run(desk, key, options, approvals)
    asked = await pausing.ask_all([pause for each in interrupts for pause in _pauses(each, pausing)])
    endings = await pausing.settled(asked, timeout=timeout)
    return Command(resume={each.id: _resumed(each, endings) for each in interrupts})


def ask(
    prompt: str,
    *,
    choices: Sequence[str] | None = None,
    form: Askable | Mapping[str, Json] | None = None,
    context: Json = None,
) -> Any:
    """Ask a person from within a node, and return the value; any other ending raises `NotAnswered`.

    It interrupts the graph, so the node runs again from its start when the answer is there. `form` is a form or a flat
    JSON Schema.
    """
    question_id, outcome = _read(interrupt(described(prompt, choices=choices, form=form, context=context)))
    if not isinstance(outcome, Answered):
        raise NotAnswered(question_id, outcome)
    return outcome.value


@tool(description=ASK_HUMAN)
def ask_human(question: str, choices: list[str] | None = None, replaces: str | None = None) -> str:
    """The tool with which a model asks a person; the model reads how that ended."""
    asked = {"question": question, "choices": choices}
    answer: str = interrupt({"ask_human": {**asked, "replaces": replaces} if replaces else asked})
    return answer


@tool(description=REPLY_TO_PERSON)
def reply_to_person(question_id: str, message: int, text: str) -> str:
    """The tool with which a model replies to a person who asks back; give `run` the option `replies="model"` too."""
    reply = {"question_id": question_id, "message": message, "text": text}
    answer: str = interrupt({"reply_to_person": reply})
    return answer


_BEGUN_WITH = "handraise_input"
_NO_SYNC = re.compile("No synchronous function provided|does not support sync invocation")


def _mark_of(given: Json) -> str:
    """The metadata key of a checkpoint that distinguishes inputs."""
    return hashlib.sha256(json.dumps(given, sort_keys=True, default=repr).encode()).hexdigest()


class _Thread:
    """A thread of a graph. If its checkpointer is not async, it runs outside the event loop."""

    def __init__(self, graph: Graph, config: RunnableConfig, begun_with: str, *, beside: bool) -> None:
        self._graph = graph
        self._begun_with = begun_with
        self._config = config
        self._beside = beside

    @classmethod
    async def of(cls, graph: Graph, key: str, config: RunnableConfig, *, begun_with: str) -> _Thread:
        about: RunnableConfig = {
            **config,
            "metadata": {**config.get("metadata", {}), _BEGUN_WITH: begun_with},
            "configurable": {**config.get("configurable", {}), "thread_id": key},
        }
        try:
            await graph.aget_state(about)
        except NotImplementedError:  # such as `SqliteSaver`
            return cls(graph, about, begun_with, beside=True)
        return cls(graph, about, begun_with, beside=False)

    def has_finished(self, snapshot: StateSnapshot) -> bool:
        """Whether the thread has finished with the same input."""
        # A task that has ended is not in `next`, but there may be no checkpoint after it yet: then it is still in `tasks`.
        if snapshot.tasks or snapshot.interrupts or snapshot.created_at is None:
            return False
        return (snapshot.metadata or {}).get(_BEGUN_WITH) == self._begun_with

    async def state(self) -> StateSnapshot:
        if self._beside:
            return await asyncio.to_thread(self._graph.get_state, self._config)
        return await self._graph.aget_state(self._config)

    async def invoke(self, given: Json) -> Any:
        if not self._beside:
            return await self._graph.ainvoke(given, self._config)
        try:
            return await asyncio.to_thread(self._graph.invoke, given, self._config)
        except (TypeError, NotImplementedError) as error:
            if _NO_SYNC.search(str(error)) is None:
                raise
            raise TypeError(
                f"{error.args[0]}\nThis graph has async nodes or tools, and its checkpointer is not async: give it one that is, "
                "such as AsyncSqliteSaver or AsyncPostgresSaver."
            ) from error


def _pauses(each: Interrupt[Any], run: Run) -> list[Pause]:
    """What people are asked about an interrupt."""
    schema = each.response_schema if isinstance(each.response_schema, dict) else None
    if reviews := reviews_of(each.id, each.value, schema):
        return [review.pause(run) for review in reviews]
    match each.value:
        case {"ask_human": arguments}:
            return [asking(each.id, arguments)]
        case {"reply_to_person": arguments}:
            return [replying(each.id, arguments)]
        case _ if pause := pause_in(each.id, each.value):
            return [pause]
        case str(prompt):
            about: QuestionOptions = {}
        case _:
            prompt, about = "The graph waits for an answer.", {"context": each.value}
    about["form"] = form_of(schema) if schema else Open()
    return [Pause(id=each.id, prompt=prompt, options=about, by_model=False)]


def _resumed(each: Interrupt[Any], endings: Mapping[str, Ending]) -> Json:
    """The value that resumes an interrupt."""
    schema = each.response_schema if isinstance(each.response_schema, dict) else None
    if reviews := reviews_of(each.id, each.value, schema):
        return response_to(each.value, [review.decision(endings[review.id]) for review in reviews])
    ending = endings[each.id]
    if isinstance(each.value, dict) and each.value.keys() & {"ask_human", "reply_to_person"}:
        return ending.words
    question = ending.question
    if question is None or question.outcome is None:
        raise TypeError("what a program asks is asked or raised")
    if pause_in(each.id, each.value):
        return {"question": question.id, "status": question.status.value, **_written(question.outcome)}
    if not ending.answered:
        raise NotAnswered(question.id, question.outcome)
    return ending.value


_OUTCOMES = {each.status.value: each for each in get_args(Outcome)}


def _written(outcome: Outcome) -> dict[str, Json]:
    """An outcome as a checkpoint can keep it."""
    return {**asdict(outcome), "at": outcome.at.isoformat()}


def _read(answer: dict[str, Json]) -> tuple[str, Outcome]:
    """The question's id and its outcome, from the value that resumed an interrupt."""
    parts = {**answer, "at": datetime.fromisoformat(answer["at"])}
    question_id, status = parts.pop("question"), parts.pop("status")
    return question_id, _OUTCOMES[status](**parts)

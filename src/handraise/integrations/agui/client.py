"""People at a desk answer an AG-UI agent's interrupts: run it over HTTP, post what it asks, resume it.

The first question of a run holds everything that is needed to continue. Any process that runs it again with
the same ids finds that question and continues from there.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal, Unpack

import httpx2
from ag_ui.core import (
    PROTOCOL_VERSION,
    Interrupt,
    ResumeEntry,
    RunAgentInput,
    RunFinishedCancelledOutcome,
)

from handraise import (
    Answered,
    Approval,
    Confirm,
    Desk,
    HandraiseError,
    KeyConflict,
    NotApproved,
    Open,
    Question,
    QuestionNotFound,
)
from handraise.errors import AlreadyConsumed
from handraise.forms import AnyForm, form_from_schema
from handraise.integrations.agui.transcript import Transcript
from handraise.model.json_values import Json, canonical_json, digest
from handraise.questions import QuestionOptions
from handraise.tools import to_tool_result
from handraise.tools.automatic_reports import ToolReport, result_report, send_report

_LARGEST_RUN = 32 * 1024 * 1024
_MOST_INTERRUPTS = 50


class RunFailed(HandraiseError, RuntimeError):
    """An agent's run ended in an error, or did not end at all. `run_id` says which."""

    code = "run_failed"

    def __init__(self, run_id: str, why: str) -> None:
        self.run_id = run_id
        super().__init__(f"The run {run_id!r} failed: {why}")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnd:
    """How an agent ended: its result, the conversation, and its final state."""

    outcome: Literal["success", "cancelled"]
    run_id: str
    result: Json = field(repr=False)
    messages: Sequence[dict[str, Json]] = field(repr=False)
    state: Json = field(repr=False)


class AguiAgent:
    """An AG-UI agent at an address. Its interrupts become questions on a desk.

    `options` apply to every question, above all who may answer. `headers` are sent with every request.
    """

    def __init__(
        self,
        url: str,
        *,
        desk: Desk,
        client: httpx2.AsyncClient,
        headers: Mapping[str, str] | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        **options: Unpack[QuestionOptions],
    ) -> None:
        self.url = url
        self._desk = desk
        self._client = client
        self._headers = {**(headers or {}), "Accept": "text/event-stream"}
        self._now = now
        self._options = options

    async def run(self, run: RunAgentInput, *, timeout: float | None = None) -> RunEnd:
        """Run the agent until it needs no more answers; people are asked in between.

        If it is run again with the same thread and run id, it continues after the last question that was
        posted: what the agent did before is not repeated. `timeout` is for each answer; it raises
        `StillPending`.
        """
        answered: Sequence[Question] = ()
        while True:
            first = await self._stored(run.thread_id, run.run_id, 0)
            if first is None:
                transcript = await self._send(run)
                await self._report(answered, transcript)
                if not transcript.interrupts:
                    return _end(run, transcript)
                first = await self._keep(run, transcript)
            run, answered = await self._resumed(first, timeout)

    async def resume(self, question_id: str, *, timeout: float | None = None) -> RunEnd:
        """Continue the run that asked this question; nothing else needs to be known."""
        state = (await self._desk.get(question_id)).state
        about = state.get("agui") if isinstance(state, dict) else None
        if not isinstance(about, dict) or about.get("url") != self.url:
            raise QuestionNotFound(question_id, self._desk.workspace)
        first = await self._stored(about["thread"], about["run"], 0)
        if first is None:
            raise QuestionNotFound(question_id, self._desk.workspace)
        left = json.loads(first.state["left"])
        return await self.run(RunAgentInput.model_validate(left["run"]), timeout=timeout)

    async def _send(self, run: RunAgentInput) -> Transcript:
        """The result of a run, once it has ended."""
        run = run.model_copy(update={"protocol_version": PROTOCOL_VERSION})
        body = run.model_dump_json(by_alias=True)
        transcript = Transcript(json.loads(body)["messages"], run.state)
        try:
            async with self._client.stream(
                "POST", self.url, content=body, headers={**self._headers, "Content-Type": "application/json"}
            ) as response:
                kind = response.headers.get("content-type", "").partition(";")[0]
                if response.status_code != httpx2.codes.OK or kind != "text/event-stream":
                    raise RunFailed(run.run_id, f"the agent answered {response.status_code} {kind}".strip())
                async for data in _events(run.run_id, response):
                    transcript.read(data)
        except httpx2.HTTPError as error:
            raise RunFailed(run.run_id, f"{type(error).__name__} while calling the agent") from error
        except (ValueError, KeyError) as error:
            raise RunFailed(run.run_id, "the agent's response is not AG-UI") from error
        if transcript.error is not None:
            raise RunFailed(run.run_id, f"the agent says: {transcript.error[0][:500]}")
        if transcript.end is None:
            raise RunFailed(run.run_id, "the stream ended before the run did")
        if len(transcript.interrupts) > _MOST_INTERRUPTS:
            raise RunFailed(run.run_id, f"more than {_MOST_INTERRUPTS} interrupts at once")
        return transcript

    async def _keep(self, run: RunAgentInput, transcript: Transcript) -> Question:
        """Post the first question with everything that is needed to post the others and to continue."""
        left = {
            "run": {
                **json.loads(run.model_dump_json(by_alias=True)),
                "messages": transcript.messages,
                "state": transcript.state,
            },
            "interrupts": [json.loads(each.model_dump_json(by_alias=True)) for each in transcript.interrupts],
        }
        return await self._post(run, transcript, transcript.interrupts[0], 0, canonical_json(left))

    async def _report(self, answered: Sequence[Question], transcript: Transcript) -> None:
        """Report what the agent says about the approved calls that it has made."""
        for question in answered:
            if question.decision and (said := transcript.result(question.tool_call)) is not None:
                ok, text = said
                await send_report(self._desk, question.id, ToolReport(ok, result_report(text).text))

    async def _resumed(
        self, first: Question, timeout: float | None
    ) -> tuple[RunAgentInput, Sequence[Question]]:
        """The next run, with all answers, once all of them are there; and the questions that were answered."""
        left = json.loads(first.state["left"])
        run = RunAgentInput.model_validate(left["run"])
        interrupts = [Interrupt.model_validate(each) for each in left["interrupts"]]
        transcript = Transcript(left["run"]["messages"])
        questions = [first]
        for place, each in enumerate(interrupts[1:], 1):
            stored = await self._stored(run.thread_id, run.run_id, place)
            questions.append(stored or await self._post(run, transcript, each, place, None))
        for question in questions:
            await self._desk.wait(question.id, timeout=timeout)
        questions = [await self._desk.get(question.id) for question in questions]
        entries = [
            await self._entry(each, question) for each, question in zip(interrupts, questions, strict=True)
        ]
        following = digest([run.thread_id, run.run_id, "resume"])[:32]
        return run.model_copy(update={"run_id": following, "resume": entries}), questions

    async def _post(
        self, run: RunAgentInput, transcript: Transcript, interrupt: Interrupt, place: int, left: str | None
    ) -> Question:
        about: QuestionOptions = {
            **self._options,
            "form": _form(interrupt, transcript),
            "key": self._key(run.thread_id, run.run_id, place),
            "conversation": run.thread_id,
            "context": (interrupt.metadata or None),
            "state": {
                "agui": {
                    "url": self.url,
                    "thread": run.thread_id,
                    "run": run.run_id,
                    "interrupt": interrupt.id,
                },
                "left": left,
            },
        }
        if interrupt.tool_call_id:
            about["tool_call"] = interrupt.tool_call_id
        if (ends := _expiry(interrupt)) is not None:
            # An interrupt that has already expired is still posted, and expires at once: the record shows
            # what happened.
            about["expires_in"] = max((ends - self._now()).total_seconds(), 0.001)
        try:
            return await self._desk.post(interrupt.message or interrupt.reason, **about)
        except KeyConflict as conflict:
            # Another process posted it at a slightly different time, so its expiry differs.
            if conflict.existing is None:
                raise
            return conflict.existing

    async def _entry(self, interrupt: Interrupt, question: Question) -> ResumeEntry:
        """The agent's input for an interrupt. If there is no answer, the interrupt is abandoned, with the reason."""
        outcome = question.outcome
        ends = _expiry(interrupt)
        if not isinstance(outcome, Answered) or (ends is not None and ends <= self._now()):
            told = json.loads(to_tool_result(question).content)
            told = {name: told[name] for name in ("status", "reason") if name in told}
            if isinstance(outcome, Answered):
                told = {"status": "expired"}
            return ResumeEntry(interrupt_id=interrupt.id, status="cancelled", metadata={"handraise": told})
        metadata = {"handraise": {"source": outcome.source, "by": outcome.by}}
        payload = outcome.value
        if question.decision is not None:
            payload = await self._decided(question)
        return ResumeEntry(interrupt_id=interrupt.id, status="resolved", payload=payload, metadata=metadata)

    async def _decided(self, question: Question) -> Json:
        decision = question.decision
        if decision is None or not decision.approved:
            reason = decision.reason if decision is not None else None
            return {"approved": False, "reason": reason} if reason else {"approved": False}
        try:
            action = await self._desk.consume_approval(question.id)
        except NotApproved as refused:  # it has lapsed or was taken back
            return {"approved": False, "reason": refused.reason}
        except AlreadyConsumed:
            # This run consumed it before a crash, because the key is its own: the protocol allows sending the
            # same again.
            action = decision.action
        return {"approved": True} | ({"editedArgs": action.arguments} if decision.edited else {})

    async def _stored(self, thread: str, run: str, place: int) -> Question | None:
        return await self._desk.find_by_key(self._key(thread, run, place))

    def _key(self, thread: str, run: str, place: int) -> str:
        return "agui:" + digest([self.url, self._desk.asker, thread, run, place])


def _form(interrupt: Interrupt, transcript: Transcript) -> AnyForm:
    """The form of an interrupt's answers; raises `InvalidQuestion` if its schema cannot be shown to a person."""
    schema = interrupt.response_schema
    properties = schema.get("properties") if schema else None
    wants = properties if isinstance(properties, dict) else {}
    call = transcript.call(interrupt.tool_call_id)
    if call is not None and (interrupt.reason == "tool_call" or "approved" in wants):
        tool, arguments = call
        return Approval.of(tool, arguments, editable=_editable(wants.get("editedArgs"), arguments))
    if schema is None:
        return Confirm() if interrupt.reason in ("confirmation", "tool_call") else Open()
    if schema.get("type") == "object":
        return form_from_schema(schema)
    one = {**schema, "$defs": {}}
    whole = {"type": "object", "properties": {"answer": one}, "required": ["answer"]}
    return form_from_schema({**whole, "$defs": schema.get("$defs", {})}).fields[0].form


def _editable(edits: Json, arguments: dict[str, Json]) -> list[str]:
    """The arguments that a person may change: those that the agent allows and that are single values."""
    if not isinstance(edits, dict):
        return []
    named = edits.get("properties")
    allowed = named if isinstance(named, dict) and named else arguments
    return [name for name in arguments if name in allowed and isinstance(arguments[name], str | int | float)]


def _expiry(interrupt: Interrupt) -> datetime | None:
    """When an interrupt expires; never if the text is not a date."""
    try:
        ends = datetime.fromisoformat(interrupt.expires_at or "")
    except ValueError:
        return None
    return ends if ends.tzinfo else ends.replace(tzinfo=UTC)


def _end(run: RunAgentInput, transcript: Transcript) -> RunEnd:
    end: Any = transcript.end
    return RunEnd(
        outcome="cancelled" if isinstance(end.outcome, RunFinishedCancelledOutcome) else "success",
        run_id=run.run_id,
        result=end.result,
        messages=tuple(transcript.messages),
        state=transcript.state,
    )


async def _events(run_id: str, response: httpx2.Response) -> AsyncIterator[str]:
    """The data of each server-sent event."""
    data: list[str] = []
    size = 0
    async for line in response.aiter_lines():
        size += len(line)
        if size > _LARGEST_RUN:
            raise RunFailed(run_id, f"the agent sent more than {_LARGEST_RUN} characters")
        if line.startswith("data:"):
            data.append(line.removeprefix("data:").removeprefix(" "))
        elif not line and data:
            yield "\n".join(data)
            data = []

"""What LangChain's `HumanInTheLoopMiddleware` wants reviewed: calls become questions, their outcomes its decisions.

`handraise.integrations.langgraph.run` calls this, for both of the middleware's modes. A call that may be approved or
edited becomes an approval; only `ApprovalMiddleware` executes it at most once, so only its calls are asked about. A call
that only allows a response becomes an open question, and the answer replaces the tool's result.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from handraise import InvalidQuestion, NotApproved, Open, Problem
from handraise.integrations.pause_questions import Pause, approving
from handraise.integrations.paused_run import Ending, Run
from handraise.model.json_values import Json, digest

_UNGUARDED = (
    "LangChain can repeat this call after a crash, although its approval was used: in the place of HumanInTheLoopMiddleware(…), "
    "write ApprovalMiddleware(desk, …) of handraise.integrations.langchain"
)
_MARK = re.compile(r"\n\nApproval ([0-9a-f]{64})\Z")


def call_name(message_id: str | None, call_id: str | None) -> str:
    """The name of a tool call in its thread: models repeat the ids of their calls, and messages have ids of their own."""
    return digest([message_id, call_id])


def marked(description: str, name: str) -> str:
    """The description with the call's name as its last line, where whoever asks about the call finds it."""
    return f"{description}\n\nApproval {name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Review:
    """One tool call that waits for a decision; `allowed` are the decisions that the middleware accepts.

    Its `id` is the call's name if `ApprovalMiddleware` guards it, else it comes from the interrupt's id.
    """

    id: str
    guarded: bool
    tool: str
    arguments: dict[str, Json] = field(repr=False)
    description: str = field(repr=False)
    allowed: frozenset[str]
    schema: Mapping[str, Json] | None = field(default=None, repr=False)

    def pause(self, run: Run) -> Pause:
        """The question that asks for the decision."""
        prompt = self.description
        if prompt.endswith(f"\n\nTool: {self.tool}\nArgs: {self.arguments}"):
            prompt = ""  # the middleware's default text says no more than the frozen action
        if not self.allowed & {"approve", "edit"} and "respond" in self.allowed:
            asked = prompt or f"What is the answer to {self.tool}?"
            return Pause(id=self.id, prompt=asked, options={"form": Open(), "context": self.arguments})
        if not self.guarded:
            raise InvalidQuestion([Problem(self.tool, _UNGUARDED)])
        plain = [name for name, value in self.arguments.items() if isinstance(value, str | int | float)]
        return approving(
            self.id,
            self.tool,
            self.arguments,
            run.said(self.tool),
            prompt=prompt or None,
            editable=plain if "edit" in self.allowed else (),
            schema=self.schema,
        )

    def decision(self, ending: Ending) -> dict[str, Json]:
        """The middleware's decision; raises `NotApproved` if it has no decision that means no."""
        if ending.action is not None:
            # Edits come from the record: if LangChain got them here and they did not fit the tool, the thread would be stuck.
            return {"type": "approve"}
        if ending.answered and isinstance(ending.value, str):
            return {"type": "respond", "message": ending.value}
        for refusal in ("reject", "respond"):
            if refusal in self.allowed:
                return {"type": refusal, "message": ending.words}
        question = ending.question
        raise NotApproved(
            question.id if question else self.id, question.outcome if question else None, ending.words
        )


def reviews_of(interrupt_id: str, value: Json, schema: Mapping[str, Json] | None) -> list[Review]:
    """The tool calls of an interrupt; none if the interrupt does not come from the middleware."""
    match value:
        case {"type": "tool_approval", "name": str(tool), "args": dict(arguments)}:
            branches = dict(_branches(schema or {}))
            return [
                _review(
                    interrupt_id,
                    value.get("description", ""),
                    tool=tool,
                    arguments=arguments,
                    allowed=frozenset(branches),
                    schema=_schema_of_arguments(branches.get("edit", {}), schema or {}),
                )
            ]
        case {"action_requests": list(requests), "review_configs": list(configs)}:
            return [
                _review(
                    f"{interrupt_id}:{place}",
                    request.get("description", ""),
                    tool=request["name"],
                    arguments=request["args"],
                    allowed=frozenset(config["allowed_decisions"]),
                )
                for place, (request, config) in enumerate(zip(requests, configs, strict=True))
            ]
        case _:
            return []


def response_to(value: Json, decisions: list[dict[str, Json]]) -> Json:
    """The value that resumes the middleware: all decisions of a batch in order, or the decision of one call."""
    return decisions[0] if value.get("type") == "tool_approval" else {"decisions": decisions}


def _review(place: str, description: str, **more: Any) -> Review:
    """A review with the name that is marked in its description, and without the mark."""
    found = _MARK.search(description)
    if found is None:
        return Review(id=place, guarded=False, description=description, **more)
    return Review(id=found[1], guarded=True, description=description[: found.start()], **more)


def _branches(schema: Mapping[str, Json]) -> Iterator[tuple[str, Mapping[str, Json]]]:
    """The decisions that a response schema allows, each with its own schema."""
    for each in schema.get("oneOf", [schema]):
        branch = _followed(each, schema)
        yield branch["properties"]["type"]["const"], branch


def _schema_of_arguments(edit: Mapping[str, Json], whole: Mapping[str, Json]) -> Mapping[str, Json] | None:
    if not edit:
        return None
    action = _followed(edit["properties"]["edited_action"], whole)
    return {**_followed(action["properties"]["args"], whole), "$defs": whole.get("$defs", {})}


def _followed(schema: Mapping[str, Json], whole: Mapping[str, Json]) -> Mapping[str, Json]:
    """The schema that a reference in the whole schema points to."""
    name = schema.get("$ref", "").removeprefix("#/$defs/")
    found: Mapping[str, Json] = whole["$defs"][name] if name else schema
    return found

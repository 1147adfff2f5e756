"""smolagents: tools that ask a person and wait. `pip install "handraise[smolagents]"`.

smolagents can neither pause a run nor store it. So these tools block their thread until somebody has
answered. The question outlives the process, but the run does not: started again with the same key, it finds
its earlier questions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Unpack

from handraise.blocking import BlockingDesk
from handraise.errors import MissingExtra
from handraise.integrations.blocking_calls import BlockingCalls
from handraise.integrations.pause_questions import ASK_HUMAN
from handraise.integrations.paused_run import PauseOptions
from handraise.model.durations import Span
from handraise.tools.approvals import BlockingReply

try:
    from smolagents import Tool, tool  # type: ignore[import-untyped]  # it has no types
except ImportError as error:
    raise MissingExtra(error.name or "smolagents", "smolagents") from error

__all__ = ["AskHuman", "approved"]

_FRAMEWORK = "smolagents"


class AskHuman(Tool):  # type: ignore[misc]  # smolagents has no types
    """The tool with which a model asks a person.

    It blocks until the question is settled, and returns the result as text.

    `key` names the run: the same question of the same run is asked once, also after a restart. If `timeout`
    passes first, the model reads that the question is still open. With `reply_with` people may ask back: the function
    replies, because the model is blocked.
    """

    name = "ask_human"
    description = ASK_HUMAN
    inputs = {  # noqa: RUF012 -- smolagents wants it so
        "question": {"type": "string", "description": "What you ask the person."},
        "choices": {
            "type": "array",
            "items": {"type": "string"},
            "description": "What the person can choose from. Leave it out for an open question.",
            "nullable": True,
        },
        "replaces": {
            "type": "string",
            "description": "If a person sent your question back: its question_id. You ask it again, changed.",
            "nullable": True,
        },
    }
    output_type = "string"

    def __init__(
        self,
        desk: BlockingDesk,
        *,
        key: str,
        timeout: Span | None = None,
        reply_with: BlockingReply | None = None,
        **options: Unpack[PauseOptions],
    ) -> None:
        super().__init__()
        self._calls = BlockingCalls(desk, key, _FRAMEWORK, options, timeout=timeout, reply_with=reply_with)

    def forward(self, question: str, choices: list[str] | None = None, replaces: str | None = None) -> str:
        """Ask, wait, and say how it ended."""
        return self._calls.ask(self.name, question, choices, replaces)


def approved(
    function: Callable[..., Any],
    desk: BlockingDesk,
    *,
    key: str,
    editable: Sequence[str] = (),
    timeout: Span | None = None,
    reply_with: BlockingReply | None = None,
    **options: Unpack[PauseOptions],
) -> Tool:
    """A tool that runs once, after a person has approved the call, with the approved arguments.

    The function needs annotations and a docstring with its arguments, as smolagents requires. The same call
    of the same run is the same approval: an executed call is not executed again. Its result or error is reported,
    shortened. With `reply_with` people may ask back, as in `AskHuman`.
    """
    made = tool(function)
    run = made.forward
    calls = BlockingCalls(desk, key, _FRAMEWORK, options, timeout=timeout, reply_with=reply_with)

    def forward(*args: Any, **kwargs: Any) -> Any:
        arguments = dict(zip(made.inputs, args, strict=False)) | kwargs
        return calls.run_approved(made.name, arguments, run, editable)

    made.forward = forward
    return made

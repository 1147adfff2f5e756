"""Report what came of a tool that ran after its approval: its result or its error, shortened.

A report that cannot be made is logged. It never takes the place of the tool's own result or error.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable
from typing import Any, NamedTuple, TypeVar

from handraise import Desk, HandraiseError
from handraise.blocking import BlockingDesk

_log = logging.getLogger(__name__)

_LONGEST = 500

T = TypeVar("T")


class ToolReport(NamedTuple):
    """What `Desk.report` is told about a tool."""

    ok: bool
    text: str


def result_report(output: Any) -> ToolReport:
    """The report of a tool that returned something."""
    return ToolReport(ok=True, text="It returned nothing." if output is None else _shortened(output))


def error_report(error: Exception) -> ToolReport:
    """The report of a tool that raised an error."""
    return ToolReport(ok=False, text=f"{type(error).__name__}: {_shortened(error)}")


async def send_report(desk: Desk, question_id: str, report: ToolReport) -> None:
    """Report it on a desk."""
    try:
        await desk.report(question_id, ok=report.ok, text=report.text)
    except HandraiseError as error:
        _warn(question_id, error)


async def reported(
    desk: Desk, question_id: str, running: Awaitable[T], *, pauses: tuple[type[Exception], ...] = ()
) -> T:
    """Wait for a tool that runs, report what came of it, and return its result or raise its error.

    With `pauses` a framework stops a tool that has not ended: they are no result.
    """
    try:
        output = await running
    except pauses:
        raise
    except Exception as error:
        await send_report(desk, question_id, error_report(error))
        raise
    await send_report(desk, question_id, result_report(output))
    return output


async def send_report_by_key(desk: Desk, key: str, report: ToolReport) -> None:
    """The same for the question that a key names."""
    try:
        if (question := await desk.find_by_key(key)) is not None:
            await desk.report(question.id, ok=report.ok, text=report.text)
    except HandraiseError as error:
        _warn(key, error)


def send_report_by_key_blocking(desk: BlockingDesk, key: str, report: ToolReport) -> None:
    """The same on a blocking desk."""
    try:
        if (question := desk.find_by_key(key)) is not None:
            desk.report(question.id, ok=report.ok, text=report.text)
    except HandraiseError as error:
        _warn(key, error)


def send_report_blocking(desk: BlockingDesk, question_id: str, report: ToolReport) -> None:
    """Report it on a blocking desk."""
    try:
        desk.report(question_id, ok=report.ok, text=report.text)
    except HandraiseError as error:
        _warn(question_id, error)


def _warn(name: str, error: HandraiseError) -> None:
    _log.warning("what came of question %s could not be reported: %s", name, type(error).__name__)


def _shortened(value: object) -> str:
    """A value as a text that a store can keep."""
    try:
        text = str(value)
    except Exception:  # noqa: BLE001 -- whatever its own code does, the tool has run
        text = ""
    text = text[: _LONGEST + 1].encode(errors="replace").decode().replace("\x00", "�")
    if not text.strip():
        return f"({type(value).__name__})"
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"

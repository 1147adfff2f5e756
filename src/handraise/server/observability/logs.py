"""The log of `handraise serve`: one line for each event, as JSON or as text for a terminal.

Each line of ours names its `event`, which stays the same when a sentence is reworded: docs/reference/log-events.md.

The rest of the library logs with the standard library and configures nothing; only `serve` calls this.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, TextIO, TypeAlias

from handraise.model.visible import visible_line
from handraise.server.observability.request_log import ACTIVE_REQUEST
from handraise.server.observability.traces import trace_id
from handraise.server.settings import ServerSettings

_SAID_ALREADY = "Exception in ASGI application"
OTHER = "other"
"""The event of lines that other libraries log."""
_FOR_PROGRAMS = ("logger", "request_id", "trace_id", "workspace", "client")
_COLOURS = {"debug": "\x1b[2m", "warning": "\x1b[33m", "error": "\x1b[31m", "critical": "\x1b[31m"}
_PLAIN = "\x1b[0m"
_OF_EVERY_RECORD = frozenset(
    {*vars(logging.makeLogRecord({})), "message", "asctime", "taskName", "color_message"}
)

_ENCODER = json.JSONEncoder(default=str)

Line: TypeAlias = dict[str, Any]
"""The fields of a line."""


def configure_logs(settings: ServerSettings, stream: TextIO | None = None) -> None:
    """Configure logging for this process as the settings say, to `stream` or stderr."""
    stream = stream or sys.stderr
    as_json = (settings.log_format or ("console" if stream.isatty() else "json")) == "json"
    handler = logging.StreamHandler(stream)
    for_people = _coloured_line if stream.isatty() else _line
    handler.setFormatter(_Formatter(_json_line if as_json else for_people))
    # The error handler has logged it with its request; uvicorn would log it again.
    handler.addFilter(lambda record: not record.getMessage().startswith(_SAID_ALREADY))
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(settings.log_level.upper())
    # We log uvicorn's information ourselves. The lines of httpx have query strings, which may hold secrets.
    for name in ("uvicorn", "httpx2", "httpcore2"):
        logging.getLogger(name).setLevel(logging.WARNING)
    logging.captureWarnings(True)


class _Formatter(logging.Formatter):
    """Makes one line of a record, what was given as `extra`, and the request that it belongs to."""

    def __init__(self, render: Callable[[Line], str]) -> None:
        super().__init__()
        self._render = render

    def format(self, record: logging.LogRecord) -> str:
        """The line of a record."""
        line: Line = {
            "event": OTHER,
            "message": record.getMessage(),
            "level": record.levelname.lower(),
            "logger": record.name,
            "timestamp": datetime.fromtimestamp(record.created, UTC),
        }
        for name, value in record.__dict__.items():
            if name not in _OF_EVERY_RECORD:
                line[name] = value
        request = ACTIVE_REQUEST.get()
        if request is not None:
            line["request_id"] = request.id
            if traced := trace_id(request.span):
                line["trace_id"] = traced
        # Not with local variables, as prettier ones have: those may hold keys and answers.
        if record.exc_info and record.exc_info[0] is not None:
            line["exception"] = self.formatException(record.exc_info)
        return self._render(line)


def _json_line(line: Line) -> str:
    line["timestamp"] = line["timestamp"].isoformat(timespec="microseconds").replace("+00:00", "Z")
    return _ENCODER.encode(line)


def _coloured_line(line: Line) -> str:
    colour = _COLOURS.get(line["level"], "")
    return f"{colour}{_line(line)}{_PLAIN if colour else ''}"


def _line(line: Line) -> str:
    """One line for people, with a traceback below it."""
    instant, level = line.pop("timestamp").astimezone().strftime("%H:%M:%S"), line.pop("level")
    message, trouble = str(line.pop("message")), line.pop("exception", None)
    if line["event"] == "request":
        milliseconds = line.pop("seconds") * 1000
        message = f"{line.pop('method')} {line.pop('route', '?')} {line.pop('status')} {milliseconds:.1f} ms"
    if line["event"] in ("request", OTHER):
        del line["event"]
    said = [f"{level}: {message}" if level in ("warning", "error", "critical") else message]
    said += [f"{name}={value}" for name, value in line.items() if name not in _FOR_PROGRAMS]
    text = visible_line(f"{instant}  {' '.join(said)}")
    return "\n".join([text, *map(visible_line, (trouble or "").splitlines())])

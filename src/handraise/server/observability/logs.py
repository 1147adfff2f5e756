"""The log of `handraise serve`: one line for each event, as JSON or as text for a terminal.

The rest of the library logs with the standard library and configures nothing; only `serve` calls this.
"""

from __future__ import annotations

import logging
import sys
from typing import TextIO

import structlog
from structlog.types import EventDict, Processor, WrappedLogger

from handraise.model.visible import visible_line
from handraise.server.observability.request_log import ACTIVE_REQUEST
from handraise.server.observability.traces import trace_id
from handraise.server.settings import ServerSettings

_SAID_ALREADY = "Exception in ASGI application"
_FOR_PROGRAMS = ("logger", "request_id", "trace_id", "workspace")
_COLOURS = {"debug": "\x1b[2m", "warning": "\x1b[33m", "error": "\x1b[31m", "critical": "\x1b[31m"}
_PLAIN = "\x1b[0m"


def configure_logs(settings: ServerSettings, stream: TextIO | None = None) -> None:
    """Configure logging for this process as the settings say, to `stream` or stderr."""
    stream = stream or sys.stderr
    as_json = (settings.log_format or ("console" if stream.isatty() else "json")) == "json"
    handler = logging.StreamHandler(stream)
    handler.setFormatter(_for_programs() if as_json else _for_people(coloured=stream.isatty()))
    # The error handler has logged it with its request; uvicorn would log it again.
    handler.addFilter(lambda record: not record.getMessage().startswith(_SAID_ALREADY))
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(settings.log_level.upper())
    # We log uvicorn's information ourselves. The lines of httpx have query strings, which may hold secrets.
    for name in ("uvicorn", "httpx2", "httpcore2"):
        logging.getLogger(name).setLevel(logging.WARNING)
    logging.captureWarnings(True)


def _for_programs() -> logging.Formatter:
    return _formatter(
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
        structlog.processors.JSONRenderer(default=str),
    )


def _for_people(*, coloured: bool) -> logging.Formatter:
    return _formatter(
        structlog.processors.TimeStamper(fmt="%H:%M:%S", utc=False),
        # Not a prettier one: those show local variables, which may hold keys and answers.
        structlog.processors.format_exc_info,
        _coloured_line if coloured else _line,
    )


def _formatter(*processors: Processor) -> logging.Formatter:
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=[
            structlog.stdlib.add_log_level,
            structlog.stdlib.add_logger_name,
            structlog.stdlib.ExtraAdder(),
            _with_request,
        ],
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *processors],
    )


def _with_request(_: WrappedLogger, __: str, line: EventDict) -> EventDict:
    """Add the id of the request to a line."""
    request = ACTIVE_REQUEST.get()
    if request is not None:
        line["request_id"] = request.id
        if traced := trace_id(request.span):
            line["trace_id"] = traced
    line.pop("color_message", None)
    return line


def _coloured_line(logger: WrappedLogger, method: str, line: EventDict) -> str:
    colour = _COLOURS.get(line.get("level", ""), "")
    return f"{colour}{_line(logger, method, line)}{_PLAIN if colour else ''}"


def _line(_: WrappedLogger, __: str, line: EventDict) -> str:
    """One line for people, with a traceback below it."""
    instant, level = line.pop("timestamp"), line.pop("level")
    event, trouble = str(line.pop("event")), line.pop("exception", None)
    if event == "request":
        milliseconds = line.pop("seconds") * 1000
        event = f"{line.pop('method')} {line.pop('route', '?')} {line.pop('status')} {milliseconds:.1f} ms"
    said = [f"{level}: {event}" if level in ("warning", "error", "critical") else event]
    said += [f"{name}={value}" for name, value in line.items() if name not in _FOR_PROGRAMS]
    text = visible_line(f"{instant}  {' '.join(said)}")
    return "\n".join([text, *map(visible_line, (trouble or "").splitlines())])

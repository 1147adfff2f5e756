"""Whatever anybody sends is one line in the log, in which nothing hides and which nobody else seems to have written."""

from __future__ import annotations

import io
import json
import logging
import unicodedata
from functools import cache
from typing import Literal

import pytest

from handraise.server import ServerSettings
from handraise.server.observability.logs import configure_logs
from tests.server.inbox.hostile import MARK, TEXTS

UNSEEN = ("Cc", "Cf", "Co", "Cs", "Cn", "Zl", "Zp")


@cache
def settings_for(log_format: Literal["json", "console"]) -> ServerSettings:
    return ServerSettings(log_format=log_format, log_level="info")


def logged(log_format: Literal["json", "console"], text: str) -> str:
    """What comes out where a text is a message, an argument, a value beside it and an error."""
    handlers, level = list(logging.getLogger().handlers), logging.getLogger().level
    stream = io.StringIO()
    configure_logs(settings_for(log_format), stream)
    try:
        log = logging.getLogger("handraise.hostile")
        log.info(text)
        log.warning("told %s", text, extra={"caller": text, "many": [text, {text: text}]})
        log.error("failed", exc_info=ValueError(text))
    finally:
        logging.captureWarnings(False)
        logging.getLogger().handlers = handlers
        logging.getLogger().setLevel(level)
    return stream.getvalue()


@pytest.mark.parametrize("shard", range(2))
def test_a_hostile_text_stays_on_its_line_for_people(shard: int) -> None:
    assert len(set(TEXTS)) >= 500
    for text in TEXTS[shard::2]:
        said = logged("console", text)
        unseen = {each for each in said if unicodedata.category(each) in UNSEEN}
        assert unseen <= {"\n", "\u200d"}, text
        first, second, third, *trouble = said.splitlines()
        assert MARK in first.lower()
        assert MARK in second.lower()
        assert third.endswith("error: failed")
        # Only the text of an error has lines of its own, below the line that says whose they are.
        assert any("ValueError" in line for line in trouble)


@pytest.mark.parametrize("shard", range(2))
def test_a_hostile_text_stays_in_its_line_for_programs(shard: int) -> None:
    for text in TEXTS[shard::2]:
        said = logged("json", text)
        assert said.isascii()
        first, second, third = map(json.loads, said.splitlines())
        assert (first["event"], first["message"]) == ("other", text)
        assert (second["message"], second["caller"], second["level"]) == (f"told {text}", text, "warning")
        assert third["message"] == "failed"
        assert "ValueError" in third["exception"]

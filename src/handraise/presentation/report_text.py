"""What an agent says came of an answer. The agent's words are kept apart from ours."""

from __future__ import annotations

from handraise.model.reports import Report
from handraise.model.visible import visible, visible_line
from handraise.presentation.translation import gettext, pgettext


def report_title(*, ok: bool) -> str:
    """Whether it worked, in a word."""
    return pgettext("a report", "Done") if ok else pgettext("a report", "Failed")


def report_source() -> str:
    """The sentence below a report."""
    return gettext("This is what the agent says. Nobody has checked it.")


def report_words(report: Report) -> tuple[str, ...]:
    """What the agent wrote: the text, and the address below it."""
    link = () if report.link is None else (visible_line(report.link),)
    return (visible(report.text), *link)


def shortened_line(text: str, longest: int) -> str:
    """A text in one line, cut to a length."""
    # Cut before making characters visible: a text may be long.
    line = visible_line(" ".join(text[: 2 * longest].split()))
    return line if len(line) <= longest else f"{line[: longest - 1]}…"

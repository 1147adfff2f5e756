"""Options, as far as a button or a menu can show them; a list has the rest."""

from __future__ import annotations

from collections.abc import Sequence

from handraise.channels.slack.blocks import LABEL, Block, cut, numbered, rich, words_in_line
from handraise.model.forms import Option
from handraise.model.visible import visible_line
from handraise.presentation.brief_text import option_text


def labels_of(options: Sequence[Option]) -> list[str]:
    """The options as a button or a menu can show them, by number if a list has them in full."""
    if not _needs_list(options):
        return [each.label for each in options]
    return [f"{place}. {each.label}" for place, each in enumerate(options, 1)]


def length_of(options: Sequence[Option]) -> int:
    """How many characters there are in options, at least."""
    return sum(len(each.label) + len(option_text(each) or "") for each in options)


def list_of(options: Sequence[Option]) -> list[Block]:
    """The options in full, if a button or a menu cannot show all of them."""
    return [rich(numbered(_told(each) for each in options))] if _needs_list(options) else []


def _told(option: Option) -> list[Block]:
    told = [words_in_line(option.label, bold=True)]
    about = option_text(option)
    return [*told, words_in_line(f": {about}")] if about else told


def _needs_list(options: Sequence[Option]) -> bool:
    return any(option_text(each) or _is_long(each.label) for each in options)


def _is_long(label: str) -> bool:
    if len(label) > LABEL:
        return True
    shown = visible_line(label).strip()
    return cut(shown, LABEL) != shown

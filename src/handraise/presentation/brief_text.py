"""What an agent says about an action, and about the options that it offers. Its words are kept apart from ours."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from handraise.model.briefs import Brief
from handraise.model.forms import AnyForm, Approval, Choice, Form, MultiChoice, Option
from handraise.model.visible import visible, visible_line
from handraise.model.web_links import host_of
from handraise.presentation.translation import gettext


@dataclass(frozen=True, slots=True)
class BriefRow:
    """One thing that an agent says about an action: our `name` for it, and the agent's `words`, one text each.

    The words about whether it can be undone are ours, because the agent only said yes or no.
    """

    name: str
    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class BriefLink:
    """A link of an agent's: its label, its host, and its whole address."""

    label: str
    host: str
    url: str


@dataclass(frozen=True, slots=True)
class Preview:
    """What an agent shows of an option, in Markdown. `label` is that of the option."""

    label: str
    text: str


def brief_title() -> str:
    """The heading above a brief."""
    return gettext("What the agent says")


def brief_rows(brief: Brief) -> tuple[BriefRow, ...]:
    """What an agent says about an action, without the links."""
    rows = []
    if brief.why is not None:
        rows.append(BriefRow(gettext("Why"), (visible(brief.why),)))
    if brief.checked:
        rows.append(BriefRow(gettext("Checked"), tuple(map(visible_line, brief.checked))))
    if brief.affects is not None:
        rows.append(BriefRow(gettext("Affects"), (visible_line(brief.affects),)))
    if brief.reversible is not None:
        rows.append(
            BriefRow(
                gettext("Can be undone"),
                (gettext("Yes") if brief.reversible else gettext("No"),),
            )
        )
    return tuple(rows)


def brief_links(brief: Brief) -> tuple[BriefLink, ...]:
    """The links of a brief, each with its host."""
    return tuple(
        BriefLink(visible_line(each.label), visible_line(host_of(each.url)), visible_line(each.url))
        for each in brief.links
    )


def brief_lines(brief: Brief) -> Iterator[str]:
    """A brief line by line, for places without a layout."""
    for row in brief_rows(brief):
        if len(row.words) == 1:
            yield f"{row.name}: {row.words[0]}"
        else:
            yield f"{row.name}:"
            yield from (f"- {each}" for each in row.words)
    for link in brief_links(brief):
        yield f"{link.label} ({link.host}): {link.url}"


def recommended_text(option: Option) -> str | None:
    """That an agent recommends an option, and why; None if it does not."""
    if not option.recommended:
        return None
    if option.reason is None:
        return gettext("The agent recommends this")
    return gettext("The agent recommends this: {reason}").format(reason=visible_line(option.reason))


def option_text(option: Option) -> str | None:
    """What is said about an option besides its label, in one text; None if there is nothing.

    Its preview is not in it.
    """
    parts = [each for each in (option.description, recommended_text(option)) if each]
    return " · ".join(parts) or None


def previews_of(form: AnyForm) -> Sequence[Preview]:
    """The previews of all options that a form has."""
    return [
        Preview(visible_line(option.label), option.preview)
        for option in _options_of(form)
        if option.preview is not None
    ]


def preview_title(preview: Preview) -> str:
    """The heading above a preview."""
    return gettext("Preview of “{option}”").format(option=preview.label)


def _options_of(form: AnyForm) -> Iterator[Option]:
    match form:
        case Choice() | MultiChoice():
            yield from form.options
        case Form():
            for entry in form.fields:
                yield from _options_of(entry.form)
        case Approval():
            for entry in form.editable:
                yield from _options_of(entry.form)
        case _:
            pass

"""Mails as text and as HTML. What an agent wrote is in a box with its name; everything around it is ours.

A mail is made only from the question as it was posted and the message it goes with: made again, it is the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from handraise.channels.email.mail_texts import subject_of
from handraise.channels.inbound_replies import ReplyResult
from handraise.channels.message_texts import (
    BriefText,
    Row,
    action_of,
    brief_of,
    brought_of,
    ending_of,
    facts_of,
    heading_of,
    is_shown,
    name_of,
    previews_title,
    prompt_of,
    quoted,
    report_of,
    rows_of,
    short_previews,
    why_now,
)
from handraise.model.errors import MissingExtra
from handraise.model.forms import AnyForm, Approval, Choice, Confirm, MultiChoice
from handraise.model.people import ANYONE, GROUP
from handraise.model.visible import visible_line
from handraise.ports.channel import Message, Notice
from handraise.presentation.brief_text import Preview
from handraise.presentation.line_wrap import wrapped
from handraise.presentation.markdown_html import HtmlStyles, to_html
from handraise.presentation.markdown_text import plain_lines
from handraise.presentation.risk_text import risk_text
from handraise.presentation.thread_text import ThreadText, thread_text
from handraise.presentation.translation import current_locale, gettext, ngettext, pgettext

try:
    import jinja2
    import markupsafe
except ImportError as error:
    raise MissingExtra("Jinja2", "email") from error

_EDGE = "│ "
"""The mark before every line that is not ours."""
_NAME = "Handraise"
_MOST_BUTTONS = 10
_WIDEST = 70
_LONGEST_THREAD = 4_000
_LONGEST_BRIEF = 4_000

_TEMPLATES = jinja2.Environment(
    loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
    autoescape=True,
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    extensions=["jinja2.ext.i18n"],
)
_TEMPLATES.install_gettext_callables(gettext, ngettext, newstyle=True, pgettext=pgettext)  # type: ignore[attr-defined] # the extension adds it
_TEMPLATES.policies["ext.i18n.trimmed"] = True
_TEMPLATES.globals["language"] = lambda: current_locale().language


def _broken(text: str) -> markupsafe.Markup:
    """A text with its line breaks and spaces, also in mail programs that support no style for that."""
    escaped = str(markupsafe.escape(text)).replace("\n ", "\n&nbsp;").replace("  ", " &nbsp;")
    return markupsafe.Markup(escaped.replace("\n", "<br>"))  # noqa: S704 -- escaped above


def _name(text: str) -> markupsafe.Markup:
    """A name that a program knows: if it does not fit, it is broken between its words."""
    escaped = str(markupsafe.escape(text))
    return markupsafe.Markup(_WORD_END.sub(r"\g<0><wbr>", escaped))  # noqa: S704 -- escaped above


_WORD_END = re.compile(r"[._/-]+(?=\w)")
_MONO = "font-family:ui-monospace,'SF Mono',Menlo,Consolas,'DejaVu Sans Mono',monospace;"
_LINES = "margin:0 0 10px; font-size:16px; line-height:1.5; color:#1c1d21; word-break:break-word;"
_CELL = "border:1px solid #dedbd3; padding:5px 10px; font-size:14px; line-height:1.45; color:#1c1d21;"
_STYLES = HtmlStyles(
    attributes={
        "p": f' class="ink" style="{_LINES}"',
        "ul": f' class="ink" style="{_LINES} padding:0 0 0 22px;"',
        "ol": f' class="ink" style="{_LINES} padding:0 0 0 26px;"',
        "li": ' style="margin:0 0 3px;"',
        "code": f' class="code" style="{_MONO} font-size:14px; background:#eceae4; border-radius:4px;"',
        "pre": f' class="ink code" style="margin:0 0 10px; padding:10px 12px; {_MONO} font-size:13px; line-height:1.5;'
        ' color:#1c1d21; background:#eceae4; border-radius:6px; white-space:pre-wrap; word-break:break-word;"',
        "blockquote": ' class="cell" style="margin:0 0 10px; padding:0 0 0 12px; border-left:3px solid #dedbd3;"',
        "hr": ' class="cell" style="margin:14px 0; border:0; border-top:1px solid #dedbd3;"',
        # A table that is wider than a phone scrolls sideways; its words stay whole.
        "div": ' style="margin:0 0 10px; overflow-x:auto;"',
        "table": ' cellpadding="0" cellspacing="0" border="0" style="border-collapse:collapse;"',
        "th": f' class="cell ink" valign="top" style="{_CELL} text-align:left; word-break:normal;"',
        "td": f' class="cell ink" valign="top" style="{_CELL} word-break:normal;"',
    },
    sides={"right": ' align="right"', "center": ' align="center"'},
    # In a mail, only addresses of ours become links.
    links=False,
)


def _markdown(text: str) -> markupsafe.Markup:
    """An agent's text with its Markdown."""
    return markupsafe.Markup(to_html(text, _STYLES))  # noqa: S704 -- everything in it is escaped there


_TEMPLATES.filters["broken"] = _broken
_TEMPLATES.filters["name"] = _name
_TEMPLATES.filters["markdown"] = _markdown


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendered:
    """What a mail says, in both forms."""

    subject: str
    text: str
    html: str


@dataclass(frozen=True, slots=True)
class Button:
    """A link that looks like a button. It opens a page; nothing is answered by opening it."""

    link: str
    label: str
    text: str | None = None
    number: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionView:
    """A question as a mail shows it. `prompt`, `rows` and `action` are the agent's, everything else is ours.

    `thread` is what people and the agent have written about it.
    """

    heading: str
    why: str | None
    brought: tuple[str, str | None] | None
    agent: str
    prompt: str
    rows: Sequence[Row]
    numbered: bool
    action: tuple[str, Sequence[Row]] | None
    brief: BriefText | None
    risk: str | None
    risky: bool
    cuts: Sequence[str]
    facts: Sequence[str]
    buttons: Sequence[Button]
    lead: str
    link: str
    how: str | None
    thread: ThreadText
    previews: Sequence[Preview]


def brand(server: str) -> str:
    """The line above everything else in a mail's HTML."""
    return f"{_NAME} · {server}"


def render_question(message: Message, notice: Notice, *, how: str | None, server: str) -> Rendered:
    """A question to one recipient. `how` is what to say about replies."""
    view = _question_view(notice, how=how)
    foot = list(_foot(message, server, secret=True))
    return Rendered(
        subject=subject_of(notice.question, notice.reason),
        text="\n".join([*_question_text(view), *_foot_text(foot)]),
        html=_html(
            "question.html",
            title=view.heading,
            view=view,
            previews_title=previews_title(),
            foot=foot,
            server=server,
        ),
    )


def render_bundle(message: Message, *, server: str) -> Rendered:
    """Several questions that waited: what they are, and a link to each."""
    count = len(message.notices)
    title = ngettext("{count} question waits for you", "{count} questions wait for you", count).format(
        count=count
    )
    views = [_question_view(each) for each in message.notices]
    foot = [
        gettext("Each is answered on its own page; a reply to this e-mail is not read."),
        *_foot(message, server, secret=True),
    ]
    lines = [f"{title}.", ""]
    for view in views:
        lines += [
            f"{view.heading}:",
            "",
            *_prompt(view.prompt),
            "",
            *_ours(view),
            f"{view.lead}:",
            view.link,
            "",
        ]
    return Rendered(
        subject=title,
        text="\n".join([*lines, *_foot_text(foot)]),
        html=_html("bundle.html", title=title, views=views, foot=foot, server=server),
    )


def render_outcome(message: Message, notice: Notice, *, server: str) -> Rendered:
    """How a question ended, after a mail about it."""
    ours, theirs = ending_of(notice.question, message.recipient)
    view = _question_view(notice)
    title = f"{ours}{':' if theirs else '.'}"
    rest = gettext("There is nothing left to do: the mail before this one answers nothing any more.")
    foot = list(_foot(message, server, secret=False))
    lines = [title, "", *(_boxed("\n".join(theirs)) if theirs else ()), *([""] if theirs else ())]
    report = report_of(notice.question)
    if report is not None:
        says, words = report
        lines += [f"{says}:", "", *_boxed("\n".join(words)), ""]
    lines += [rest, "", f"{view.heading}:", "", *_prompt(view.prompt), ""]
    return Rendered(
        subject=_re(subject_of(notice.question, notice.reason)),
        text="\n".join([*lines, *_foot_text(foot)]),
        html=_html(
            "ending.html",
            title=title,
            theirs=theirs,
            report=report,
            rest=rest,
            view=view,
            foot=foot,
            server=server,
        ),
    )


def render_text(said: ReplyResult, read: str, *, again: bool, server: str) -> Rendered:
    """What came of a reply, and what was read in it. `again` says that another reply may work."""
    question = said.question
    title, seen = quoted(visible_line(said.text)), quoted(read)
    how = gettext("You can reply to this e-mail once more.") if again else None
    foot = [gettext("This is Handraise at {server}.").format(server=server)]
    lines = [title, *([how] if how else ()), "", _read_heading(), "", *_boxed(seen), ""]
    return Rendered(
        subject=gettext("About your reply") if question is None else _re(subject_of(question, "asked")),
        text="\n".join([*lines, *_foot_text(foot)]),
        html=_html(
            "said.html", title=title, how=how, heading=_read_heading(), seen=seen, foot=foot, server=server
        ),
    )


def render_lines(*, subject: str, text: str, lines: Sequence[str], server: str) -> Rendered:
    """A sentence for a person, and lines that stay as they are in the text."""
    foot = [gettext("This is Handraise at {server}.").format(server=server)]
    return Rendered(
        subject=subject,
        text="\n".join([text, "", *lines, "", *_foot_text(foot)]),
        html=_html("lines.html", title=subject, text=text, lines=lines, foot=foot, server=server),
    )


def _question_view(notice: Notice, *, how: str | None = None) -> QuestionView:
    question, form = notice.question, notice.question.form
    approval = form if isinstance(form, Approval) else None
    prompt, cut = prompt_of(question)
    rows, more = rows_of(form)
    previews = short_previews(form)
    return QuestionView(
        heading=heading_of(question),
        why=why_now(notice.reason),
        brought=brought_of(notice),
        agent=name_of(question.asker),
        prompt=prompt,
        rows=rows,
        numbered=isinstance(form, (Choice, MultiChoice)),
        brief=brief_of(form, longest=_LONGEST_BRIEF),
        action=action_of(approval) if approval and is_shown(approval) else None,
        risk=str(risk_text(approval)) if approval else None,
        risky=approval is not None and approval.risk == "high",
        cuts=list(filter(None, (cut, more))),
        facts=list(facts_of(question, previews=bool(previews))),
        buttons=list(_buttons(form, notice.link, rows)),
        lead=_lead(form),
        link=notice.link,
        how=how,
        thread=conversation_of(notice),
        previews=previews,
    )


def conversation_of(notice: Notice) -> ThreadText:
    """What people and the agent have written, as far as a mail has room for it."""
    return thread_text(notice.question, notice.thread, room=_LONGEST_THREAD)


def _buttons(form: AnyForm, link: str, rows: Sequence[Row]) -> Iterator[Button]:
    """One for each choice if they are few; the page behind it has that choice ticked, and asks for confirmation."""
    match form:
        case Choice() if len(form.options) <= _MOST_BUTTONS:
            for place, row in enumerate(rows):
                yield Button(f"{link}?v={place}", row.name, row.text, place + 1)
        case Confirm():
            yield Button(f"{link}?v=yes", gettext("Yes"))
            yield Button(f"{link}?v=no", gettext("No"))
        case _:
            yield Button(link, _lead(form))


def _lead(form: AnyForm) -> str:
    return (
        gettext("Look at it and decide") if isinstance(form, Approval) else gettext("Open the page to answer")
    )


def _re(subject: str) -> str:
    return f"Re: {subject}"


def _read_heading() -> str:
    return gettext("This is what I read in your reply:")


def _html(template: str, **values: object) -> str:
    return _TEMPLATES.get_template(template).render(name=_NAME, **values)


def _question_text(view: QuestionView) -> Iterator[str]:
    if view.why:
        yield from (view.why, "")
    if view.brought:
        who, words = view.brought
        yield from (f"{who}:" if words else f"{who}.", *(_boxed(words) if words else ()), "")
    yield from (f"{view.heading}:", "", *_prompt(view.prompt))
    if view.rows:
        yield _EDGE.rstrip()
    for place, row in enumerate(view.rows, 1):
        number = f"{place}. " if view.numbered else ""
        yield from _boxed(f"{number}{row.name}" + (f": {row.text}" if row.text else ""))
    for place, each in enumerate(view.previews):
        yield from (_EDGE.rstrip(),) if place else ("", previews_title(), "")
        yield from (*_boxed(f"{each.label}:"), *_prompt(each.text))
    if view.brief:
        yield from ("", view.brief.heading, "", *_boxed("\n".join(view.brief.lines)))
        if view.brief.more:
            yield from ("", view.brief.more, "")
    if view.action:
        yield from _action_text(*view.action)
    yield from ("", *_thread_text(view.thread), *_ours(view), f"{view.lead}:", view.link, "")
    if view.how:
        yield from (view.how, "")


def _thread_text(thread: ThreadText) -> Iterator[str]:
    """The conversation: our words about each message, and the message behind an edge."""
    if thread.heading:
        yield from (thread.heading, "")
    for each in thread.messages:
        yield from (f"{each.heading}:", *_boxed(each.text), "")
    for line in filter(None, (thread.earlier, thread.waits)):
        yield from (line, "")


def _action_text(tool: str, rows: Sequence[Row]) -> Iterator[str]:
    yield _EDGE.rstrip()
    yield from _boxed(gettext("This is what will be done: {tool}").format(tool=tool))
    for row in rows:
        one = f"    {row.name}: {row.text}"
        if not row.verbatim and "\n" not in one and [one] == list(_wrapped(one)):
            yield f"{_EDGE}{one}"
            continue
        # Every line of a long one has a second edge, so that none looks like another argument.
        name = gettext("{name} (text)").format(name=row.name) if row.verbatim else row.name
        yield from _boxed(f"    {name}:")
        yield from (f"{_EDGE}        {line}" for line in _boxed(row.text or ""))


def _ours(view: QuestionView) -> list[str]:
    """The notes about a question, each on its own line, followed by a blank line."""
    found = [each for each in (*view.cuts, view.risk, *view.facts) if each]
    return [*found, ""] if found else []


def _prompt(text: str) -> list[str]:
    return [f"{_EDGE}{line}".rstrip() for line in plain_lines(text, _WIDEST)]


def _boxed(text: str) -> list[str]:
    """A text as it is; lines are so short that no mail program wraps them to a line without an edge."""
    return [f"{_EDGE}{part}".rstrip() for line in text.split("\n") for part in _wrapped(line)]


def _wrapped(line: str) -> Iterator[str]:
    yield from ("".join(part for _, part in each) for each in wrapped([("", line)], _WIDEST))


def _foot(message: Message, server: str, *, secret: bool) -> Iterator[str]:
    name = message.recipient
    if name == ANYONE:
        text = gettext("This is Handraise at {server}, workspace {workspace}, for anyone there.")
    elif name.startswith(GROUP):
        text = gettext("This is Handraise at {server}, workspace {workspace}, for the group {name}.")
    else:
        text = gettext("This is Handraise at {server}, workspace {workspace}, for {name}.")
    workspace, shown = visible_line(message.workspace), visible_line(name.removeprefix(GROUP))
    yield text.format(server=server, workspace=workspace, name=shown)
    if secret and message.person is not None:
        yield gettext("Please do not forward it: anyone who has it can answer in your name.")


def _foot_text(foot: Sequence[str]) -> list[str]:
    return ["-- ", *foot, ""]

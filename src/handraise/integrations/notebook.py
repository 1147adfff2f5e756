"""Notebooks: a question is shown with widgets, and a person answers it there. `pip install "handraise[notebook]"`.

Everything an agent wrote is escaped, and its invisible characters are shown. It stands in `<pre>`, where no notebook looks for
formulas or markup.
"""

from __future__ import annotations

import asyncio
import hashlib
import html
import json
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing, suppress

from handraise import (
    Approval,
    Desk,
    HandraiseError,
    InvalidAnswer,
    Outcome,
    PermissionDenied,
    Provenance,
    Question,
)
from handraise.errors import AlreadySettled, DeskClosed, MissingExtra
from handraise.forms import Choice, Confirm, File, MultiChoice
from handraise.model.evidence import CLIENT_ASSERTED
from handraise.model.json_values import Json
from handraise.model.people import responder_of
from handraise.model.visible import visible, visible_line
from handraise.presentation.brief_text import brief_lines, brief_title, option_text
from handraise.presentation.error_text import error_text, problem_text
from handraise.presentation.form_parts import Entered, Part, initial, parts_of, read_parts
from handraise.presentation.form_text import kind_text, typed_hint
from handraise.presentation.names import display_name
from handraise.presentation.outcome_text import outcome_details, outcome_text
from handraise.presentation.plain_text import too_late
from handraise.presentation.risk_text import risk_text
from handraise.presentation.thread_text import NO_THREAD, ThreadText, thread_text
from handraise.presentation.translation import gettext

try:
    from IPython.core.getipython import get_ipython
    from IPython.display import display
    from ipywidgets import (  # type: ignore[import-untyped]  # it has no types
        HTML,
        Button,
        Checkbox,
        Dropdown,
        HBox,
        Text,
        Textarea,
        VBox,
        Widget,
    )
except ImportError as error:
    raise MissingExtra(error.name or "ipywidgets", "notebook") from error

__all__ = ["QuestionBox", "enable", "show"]

_ROOM = 20_000
_LONGEST_LABEL = 40
_PRE = "white-space: pre-wrap; overflow-wrap: anywhere; font-family: inherit; margin: 0; line-height: 1.4"


def enable(desk: Desk, *, by: str) -> None:
    """Show every question that is displayed in this notebook with widgets; `by` is the name of the person who answers.

    Raises `PermissionDenied` if that is the name in which the desk asks: an asker cannot answer.
    """
    shell = get_ipython()
    if shell is None or shell.display_formatter is None:
        raise RuntimeError("There is no notebook here: enable() is for IPython and Jupyter.")
    _check(desk, by)
    shell.display_formatter.ipython_display_formatter.for_type(
        Question,
        lambda question: display(show(question, desk=desk, by=by)),  # type: ignore[no-untyped-call]  # it has no types
    )


def show(question: Question, *, desk: Desk, by: str) -> QuestionBox:
    """A question as a widget, in which a person called `by` answers through this desk."""
    _check(desk, by)
    return QuestionBox(question, desk=desk, by=by)


def _check(desk: Desk, by: str) -> None:
    if responder_of(by).id == desk.asker:
        raise PermissionDenied(by, "the asker cannot answer")


class QuestionBox(VBox):  # type: ignore[misc]  # ipywidgets has no types
    """A question in a notebook: its text, what there is to fill in, and buttons. It changes when the question ends."""

    def __init__(self, question: Question, *, desk: Desk, by: str) -> None:
        """Make it where the event loop of the desk runs; its buttons may be pressed in another thread."""
        super().__init__()
        self.add_class("handraise-question")
        self._desk, self._by = desk, by
        self._loop = asyncio.get_running_loop()
        self._question = question
        self._thread = NO_THREAD
        self._drawn: tuple[Outcome | None, ThreadText] = (None, NO_THREAD)
        # They stay when something else is drawn anew, with what was entered.
        self._inputs = [_Input(part) for part in parts_of(question.form) if not isinstance(part.form, File)]
        self._reason = Text(placeholder=gettext("Reason"))
        self._note = HTML()
        self._draw()
        self._following = self._loop.create_task(self._follow(), name="handraise notebook")

    def close(self) -> None:
        """Remove the widget. The question stays as it is."""
        self._following.cancel()
        super().close()

    async def _follow(self) -> None:
        with suppress(DeskClosed):
            await self._refresh()
            async with aclosing(self._desk.follow()) as events:
                async for event in events:
                    if event.question_id == self._question.id:
                        await self._refresh()
                        if self._question.outcome is not None:
                            return

    async def _refresh(self) -> None:
        """Draw the question as it is now, unless nothing has changed that is shown."""
        now = self._question = await self._desk.get(self._question.id)
        thread = thread_text(now, await self._desk.thread(now.id), room=_ROOM) if now.thread else NO_THREAD
        if (now.outcome, thread) != self._drawn:
            self._thread = thread
            self._draw()

    def _draw(self) -> None:
        question = self._question
        asks = f"{display_name(question.asker)}: {kind_text(question.form)}"
        lines: list[Widget] = [HTML(f"<b>{html.escape(asks)}</b>"), _agent_text(visible(question.prompt))]
        lines += _about(question)
        lines += _conversation(self._thread)
        if question.outcome is not None:
            ended = html.escape(str(outcome_text(question, viewer=self._by)))
            details = [visible(str(each)) for each in outcome_details(question)]
            lines += [HTML(f"<b>{ended}</b>"), *map(_agent_text, details)]
        else:
            lines += self._fields()
        self.children = [*lines, self._note]
        self._drawn = (question.outcome, self._thread)

    def _fields(self) -> list[Widget]:
        """What a person fills in and presses."""
        form = self._question.form
        parts = parts_of(form)
        if any(isinstance(part.form, File) for part in parts):
            return [HTML(html.escape(gettext("It is answered with a file, on its page.")))]
        decline = self._button(gettext("Decline"), self._decline)
        if isinstance(form, Approval):
            decide = [
                self._button(gettext("Approve"), self._approve, style="success"),
                self._button(gettext("Deny"), self._deny, style="danger"),
            ]
            return [*(each.widget for each in self._inputs), HBox([*decide, self._reason, decline])]
        if isinstance(form, (Choice, Confirm)) and not parts[0].has_other:
            [part] = parts
            pressed = [
                self._button(visible_line(option.label), self._pick(part, place))
                for place, option in enumerate(part.options)
            ]
            wide = HBox(pressed, layout={"flex_flow": "row wrap"})
            return [*_options(part), wide, HBox([self._reason, decline])]
        answer = self._button(gettext("Answer"), self._answer, style="primary")
        return [*(each.widget for each in self._inputs), HBox([answer, self._reason, decline])]

    def _button(self, label: str, act: Callable[[], Awaitable[Question]], *, style: str = "") -> Button:
        button = Button(description=label, button_style=style, layout={"width": "auto"})
        button.on_click(lambda _: self._press(act))
        return button

    def _press(self, act: Callable[[], Awaitable[Question]]) -> None:
        """Do it on the loop of the desk. Jupyter may handle presses in a thread of their own."""
        asyncio.run_coroutine_threadsafe(self._take(act), self._loop)

    async def _take(self, act: Callable[[], Awaitable[Question]]) -> None:
        try:
            self._question = await act()
        except InvalidAnswer as invalid:
            self._say("; ".join(map(problem_text, invalid.problems)))
        except AlreadySettled as settled:
            self._say(too_late(settled.outcome))
            await self._refresh()
        except (HandraiseError, ValueError) as refused:
            self._say(error_text(str(refused)))
            with suppress(HandraiseError):
                await self._refresh()
        else:
            self._say("")
            self._draw()

    def _say(self, text: str) -> None:
        self._note.value = _pre(visible(text)) if text else ""

    @property
    def _provenance(self) -> Provenance:
        # Anybody at this notebook could be this person, so an action of high risk cannot be approved here.
        shown = [each.value for each in self.children if isinstance(each, HTML)]
        return Provenance(
            channel="notebook",
            evidence=CLIENT_ASSERTED,
            shown_digest=hashlib.sha256("\n".join(shown).encode()).hexdigest(),
            seen=self._thread.seen,
        )

    async def _give(self, value: Json) -> Question:
        return await self._desk.answer(self._question.id, value, by=self._by, provenance=self._provenance)

    def _pick(self, part: Part, place: int) -> Callable[[], Awaitable[Question]]:
        value = read_parts([(part, Entered(frozenset({place})))]).value
        return lambda: self._give(value)

    async def _answer(self) -> Question:
        return await self._give(read_parts([each.entered for each in self._inputs]).checked())

    async def _approve(self) -> Question:
        form = self._question.form
        assert isinstance(form, Approval)  # noqa: S101 -- only then there is this button
        changed = read_parts([each.entered for each in self._inputs]).checked() if self._inputs else {}
        decision: dict[str, Json] = {"decision": "approve", "digest": form.digest}
        return await self._give(decision | ({"arguments": changed} if changed else {}))

    async def _deny(self) -> Question:
        decision = {"decision": "deny"}
        return await self._give(decision | ({"reason": reason} if (reason := self._reason.value) else {}))

    async def _decline(self) -> Question:
        return await self._desk.decline(
            self._question.id, by=self._by, reason=self._reason.value or None, provenance=self._provenance
        )


class _Input:
    """The widget of one part, and what was entered there."""

    def __init__(self, part: Part) -> None:
        self._part = part
        first = initial(part)
        self._boxes: list[Checkbox] = []
        self._pick: Dropdown | None = None
        self._text: Text | None = None
        above = [_agent_text(visible_line(part.label))]
        above += [_agent_text(visible(each)) for each in (part.description, typed_hint(part.form)) if each]
        if isinstance(part.form, MultiChoice):
            self._boxes = [
                Checkbox(value=place in first.picked, indent=False, layout={"width": "auto"})
                for place in range(len(part.options))
            ]
            below: Sequence[Widget] = [
                HBox([box, _agent_text(_named(part, place))]) for place, box in enumerate(self._boxes)
            ]
        elif part.options:
            picked = next(iter(first.picked), -1)
            options = [("", -1), *((_named(part, place), place) for place in range(len(part.options)))]
            self._pick = Dropdown(options=options, value=picked)
            below = [self._pick]
        else:
            self._text = (Textarea if part.has_lines else Text)(value=first.text)
            below = [self._text]
        self._other: Text | None = None
        if part.has_other:
            self._other = Text(value=first.other or "", placeholder=part.other_label)
            below = [*below, self._other]
        self.widget = VBox([*above, *below])

    @property
    def entered(self) -> tuple[Part, Entered]:
        """The part with what was entered."""
        picked = {place for place, box in enumerate(self._boxes) if box.value}
        if self._pick is not None and self._pick.value >= 0:
            picked.add(self._pick.value)
        text = "" if self._text is None else self._text.value
        other = self._other.value if self._other is not None and self._other.value else None
        return self._part, Entered(frozenset(picked), text, other)


def _about(question: Question) -> list[Widget]:
    """What is executed if a person approves it, and how much harm it could do."""
    form = question.form
    if not isinstance(form, Approval):
        return []
    found: list[Widget] = []
    if form.brief is not None:
        found = [HTML(f"{html.escape(brief_title())}:"), *map(_agent_text, brief_lines(form.brief))]
    arguments = json.dumps(form.action.arguments, ensure_ascii=False, indent=2)
    found += [_agent_text(f"{visible_line(form.action.tool)}\n{visible(arguments)}", mono=True)]
    return [*found, HTML(html.escape(str(risk_text(form))))]


def _conversation(thread: ThreadText) -> list[Widget]:
    found: list[Widget] = []
    for each in thread.messages:
        found += [HTML(f"<b>{html.escape(each.heading)}:</b>"), _agent_text(visible(each.text))]
    return [*found, *(HTML(html.escape(each)) for each in (thread.earlier, thread.waits) if each)]


def _options(part: Part) -> list[Widget]:
    """What the agent says about its options, if it says more than there is room for on a button."""
    if not any(option_text(each) or len(each.label) > _LONGEST_LABEL for each in part.options):
        return []
    return [_agent_text("\n".join(_named(part, place) for place in range(len(part.options))))]


def _named(part: Part, place: int) -> str:
    option = part.options[place]
    about = option_text(option)
    return visible_line(f"{option.label}: {about}" if about else option.label)


def _agent_text(text: str, *, mono: bool = False) -> HTML:
    return HTML(_pre(text, mono=mono))


def _pre(text: str, *, mono: bool = False) -> str:
    style = _PRE.replace("inherit", "monospace") if mono else _PRE
    return f'<pre style="{style}">{html.escape(text)}</pre>'

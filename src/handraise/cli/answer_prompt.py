"""Answering a question at a terminal: it is shown in full, then asked, field by field if it has several.

The first answer counts, here or elsewhere: the prompt ends by itself if somebody else answers first. Messages that
arrive meanwhile are shown above it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any, assert_never

from handraise.cli.conversation_prompt import Conversation
from handraise.cli.exit_codes import CommandError
from handraise.cli.file_commands import upload_answer
from handraise.cli.prompts import Back, Check, Entry, Refuses, Settled, Terminal
from handraise.cli.question_view import StyledLine, difference_lines, digest_of, question_lines, wrapped
from handraise.cli.session import CHANNEL, CliSession
from handraise.cli.sharing_prompt import WHY, SharingPrompt, Way
from handraise.cli.terminal_texts import (
    answer_words,
    json_words,
    outcome_words,
    shown,
    span_words,
)
from handraise.model.decisions import decision_of
from handraise.model.errors import (
    AlreadySettled,
    InvalidAnswer,
    InvalidAttachment,
    StoreUnavailable,
    ThreadMoved,
)
from handraise.model.forms import Approval, Choice, Confirm, File, Form, MultiChoice, Open, SimpleForm
from handraise.model.json_values import Json
from handraise.model.provenance import Provenance
from handraise.model.questions import Question
from handraise.model.validation import check_answer
from handraise.presentation.agreement_text import still_needed
from handraise.presentation.brief_text import option_text
from handraise.presentation.error_text import error_text, problem_text
from handraise.presentation.form_parts import Part, parts_of
from handraise.presentation.form_text import hint_of, kind_text, typed_hint
from handraise.presentation.translation import gettext, gettext_noop

_MENU = gettext_noop("↑↓ or number · enter takes it · ctrl-x send back, share, decline… · esc back")
_TICKS = gettext_noop("space ticks · enter · ctrl-x send back, share, decline… · esc back")
_VALUE = gettext_noop("enter takes it · ctrl-x send back, share, decline… · esc back")
_TEXT = gettext_noop("enter takes it · ctrl-j new line · ctrl-x send back, share, decline… · esc back")
_OTHER = object()
_NOTHING = object()


async def answer_at_terminal(
    session: CliSession, question: Question, *, terminal: Terminal | None = None, way: Way | None = None
) -> Question:
    """Show a question, ask for the answer and record it; return the question as it is then.

    With a `way`, the person has chosen to do that with it first.
    Leaving it says how to come back. Ctrl+C raises `KeyboardInterrupt` after that.
    """
    terminal = terminal or Terminal()
    if not session.may_answer:
        raise CommandError(gettext("An agent cannot answer. Sign in as a person: handraise sign-in LINK"))
    settled = asyncio.ensure_future(session.desk.wait(question.id))
    terminal.end_with(settled)
    terminal.forget_typed()
    try:
        with terminal.sitting():
            return await _AnswerDialog(session, question, terminal, way).run()
    except (Settled, AlreadySettled):
        question = await session.desk.get(question.id)
        assert question.outcome is not None  # noqa: S101 -- for the type checker
        text = gettext("Already settled: {sentence}.").format(sentence=outcome_words(question))
        terminal.put([[], *wrapped([("class:strong", text)], terminal.width)])
        return question
    except Back:
        _say_how_to_come_back(terminal, question)
        return question
    except KeyboardInterrupt:
        _say_how_to_come_back(terminal, question)
        raise
    finally:
        terminal.end_with(None)
        settled.cancel()
        await asyncio.gather(settled, return_exceptions=True)


def _say_how_to_come_back(terminal: Terminal, question: Question) -> None:
    how = gettext("To come back:")
    terminal.put(
        [
            [("class:strong", gettext("Left pending.")), ("", f" {how}")],
            [("", f"  handraise answer {shown(question.id)}")],
            [("", "  handraise inbox")],
        ]
    )


class _SendsBack(Exception):
    """The person chose to send an approval back."""


class _AnswerDialog:
    """One prompt for one question."""

    def __init__(
        self, session: CliSession, question: Question, terminal: Terminal, way: Way | None = None
    ) -> None:
        self._session = session
        self._question = question
        self._way = way
        self._terminal = terminal
        self._conversation = Conversation(session, question, terminal)

    async def run(self) -> Question:
        await self._show()
        fresh = asyncio.create_task(self._conversation.keep_fresh())
        self._terminal.talk_with(self._conversation)
        try:
            return await self._until_sent()
        finally:
            self._terminal.talk_with(None)
            fresh.cancel()
            await asyncio.gather(fresh, return_exceptions=True)

    async def _until_sent(self) -> Question:
        draft: Any = _NOTHING
        if self._way is not None and (left := await self._instead(self._way)) is not None:
            return left
        while True:
            try:
                draft = await self._ask(draft)
                return await self._send(draft)
            except (Refuses, _SendsBack) as wish:
                way: Way | None = "send_back" if isinstance(wish, _SendsBack) else None
                if (left := await self._instead(way)) is not None:
                    return left
            except InvalidAnswer as misfit:
                if misfit.outcome is not None:
                    raise Settled from None
                self._print_problems(misfit)
            except ThreadMoved:
                await self._conversation.read()
                told = gettext("Not sent: somebody has written something. Read it, then decide again.")
                self._terminal.put(wrapped([("class:bad", f"! {told}")], self._terminal.width, indent=2))

    async def _instead(self, way: Way | None = None) -> Question | None:
        """Do something else with the question; None if this person goes back to answering it."""
        sharing = SharingPrompt(self._session, self._terminal, self._provenance)
        with suppress(Back, Refuses):
            question = self._conversation.question
            return await sharing.go(question, way or await sharing.choose(question))
        return None

    async def _show(self) -> None:
        """Print the question; an approval is asked for only after all of it was on the screen."""
        context = await self._conversation.read()
        question = self._conversation.question
        lines = [[], *question_lines(question, self._terminal.width, context), []]
        if isinstance(question.form, Approval):
            await self._terminal.put_pages(lines)
        else:
            self._terminal.put(lines)
        self._conversation.mark_shown(lines)

    async def _ask(self, draft: Any) -> Json:
        form = self._question.form
        match form:
            case Approval():
                return await self._decide(form)
            case Form():
                return await self._complete(form, draft if isinstance(draft, dict) else {})
            case _:
                return await self._value(form, draft)

    async def _value(self, form: SimpleForm, start: Any = _NOTHING) -> Json:
        """An answer that fits, from `start`."""
        match form:
            case Choice():
                entries = _entries(form)
                at = next((place for place, each in enumerate(entries) if each.value == start), 0)
                value = await self._terminal.choose(entries, hint=gettext(_MENU), start=at)
                return {"other": await self._other(form)} if value is _OTHER else value
            case MultiChoice():
                return await self._several(form, start)
            case Open():
                text = "" if start is _NOTHING or start is None else str(start)
                written = await self._terminal.write(start=text, hint=_hint(form), check=_checked(form))
                return check_answer(form, written)
            case Confirm():
                entries = [
                    Entry(True, gettext("Yes"), ours=True, key="y"),
                    Entry(False, gettext("No"), ours=True, key="n"),
                ]
                known = None if start is _NOTHING or start is None else int(not start)
                hint = gettext("y or n")
                return await self._terminal.choose(entries, hint=f"{hint} · {gettext(_MENU)}", start=known)
            case File():
                return await self._file(form, start)
            case _:
                assert_never(form)

    async def _file(self, form: File, start: Any) -> Json:
        """A file, by its path. One that was uploaded before is kept if nothing is typed."""
        kept = start if isinstance(start, dict) else None
        hint = " · ".join(filter(None, (gettext("The path of the file"), hint_of(form), gettext(_VALUE))))
        while True:
            path = await self._terminal.write(
                start="" if kept is None else kept["name"],
                hint=hint,
                check=lambda text: None if text.strip() else gettext("write the path of a file"),
            )
            if kept is not None and path == kept["name"]:
                return kept
            try:
                return check_answer(form, await upload_answer(self._session, path))
            except (CommandError, InvalidAttachment) as refused:
                self._terminal.put(
                    wrapped([("class:bad", f"! {shown(str(refused))}")], self._terminal.width, indent=2)
                )

    async def _several(self, form: MultiChoice, start: Any) -> Json:
        entries = _entries(form)
        chosen = start if isinstance(start, list) else []

        def check(values: list[Any]) -> str | None:
            stand_in = [{"other": "…"} if each is _OTHER else each for each in values]
            return _problem(form, stand_in)

        values = await self._terminal.choose_several(
            entries, chosen=chosen, hint=f"{hint_of(form)} · {gettext(_TICKS)}", check=check
        )
        return [{"other": await self._other(form)} if each is _OTHER else each for each in values]

    async def _other(self, form: Choice | MultiChoice) -> str:
        alone = Choice(options=form.options, allow_other=True)
        self._terminal.put([[("class:soft", gettext("Your own answer:"))]])
        return await self._terminal.write(
            hint=gettext(_TEXT), check=lambda text: _problem(alone, {"other": text})
        )

    async def _complete(self, form: Form, values: Mapping[str, Json]) -> Json:
        """Ask for all fields, then show them together for a last check."""
        while True:
            values = await self._fill(parts_of(form), values)
            if len(form.fields) == 1:
                return values
            entries = [
                Entry(True, gettext("Send this"), ours=True),
                Entry(False, gettext("Go through it again"), ours=True),
            ]
            self._terminal.put([[]])
            with suppress(Back):
                if await self._terminal.choose(entries, hint=gettext(_MENU)):
                    return values

    async def _fill(self, parts: Sequence[Part], values: Mapping[str, Json]) -> dict[str, Json]:
        """The values of all parts, one part at a time; Escape goes back to the one before."""
        found, place = dict(values), 0
        while place < len(parts):
            part = parts[place]
            self._terminal.put(self._part_lines(part, place, len(parts)))
            try:
                value = await self._part_value(part, found.get(part.key, part.default))
            except Back:
                if place == 0:
                    raise
                place -= 1
                continue
            found.pop(part.key, None)
            if value is not None:
                found[part.key] = value
            text = gettext("left empty") if value is None else answer_words(part.form, value)
            self._terminal.put(wrapped([("class:cursor", "❯ "), ("", text)], self._terminal.width, indent=2))
            place += 1
        return {part.key: found[part.key] for part in parts if part.key in found}

    async def _part_value(self, part: Part, start: Json) -> Json:
        """A part's value, None if it is left empty."""
        form = part.form
        if part.required:
            return await self._value(form, _NOTHING if start is None else start)
        if isinstance(form, Open):
            check, may_be_empty = _checked(form), gettext("may be empty")
            text = await self._terminal.write(
                start="" if start is None else str(start),
                hint=f"{may_be_empty} · {_hint(form)}",
                check=lambda text: check(text) if text.strip() else None,
            )
            return check_answer(form, text) if text.strip() else None
        give = [
            Entry(True, gettext("Answer this"), ours=True),
            Entry(False, gettext("Leave it empty"), ours=True),
        ]
        if not await self._terminal.choose(give, hint=gettext(_MENU), start=0 if start is not None else 1):
            return None
        return await self._value(form, _NOTHING if start is None else start)

    def _part_lines(self, part: Part, place: int, total: int) -> list[StyledLine]:
        width = self._terminal.width
        about = f"{place + 1}/{total} " if total > 1 else ""
        optional = "" if part.required else gettext("(optional)")
        lines = wrapped(
            [
                ("class:soft", about),
                ("class:strong", shown(part.label)),
                ("class:soft", f" {optional}" if optional else ""),
            ],
            width,
        )
        if part.description:
            lines += wrapped([("class:bar", "│ "), ("", shown(part.description))], width, indent=2)
        return lines

    async def _decide(self, form: Approval) -> Json:
        """A decision about an action. Nothing is marked at first: Enter alone approves nothing."""
        entries = [Entry("once", gettext("Approve, just this once"), ours=True, key="a")]
        entries.append(Entry("deny", gettext("Deny"), ours=True, key="d"))
        longest = span_words(timedelta(seconds=form.remember_for))
        same = _scope_hint(form)
        if "session" in form.scopes:
            text = gettext("Approve, and again in this conversation for {span}").format(span=longest)
            entries.append(Entry("session", text, same, ours=True))
        if "always" in form.scopes:
            text = gettext("Approve, and always for {span}").format(span=longest)
            entries.append(Entry("always", text, same, ours=True))
        if parts_of(form):
            entries.append(Entry("edit", gettext("Change arguments, then decide"), ours=True, key="e"))
        back = gettext("Send back, to be changed and asked again")
        entries.append(Entry("send_back", back, ours=True, key="s"))
        while True:
            hint = gettext(
                "a approve · d deny · s send back · then enter · ctrl-x share, decline… · esc back"
            )
            chosen = await self._terminal.choose(entries, hint=hint, start=None)
            try:
                match chosen:
                    case "deny":
                        return await self._deny(form)
                    case "send_back":
                        raise _SendsBack
                    case "edit":
                        return await self._edit(form)
                    case "once":
                        return {"decision": "approve", "digest": form.digest}
                    case scope:
                        return {"decision": "approve", "digest": form.digest, "scope": scope}
            except Back:
                continue

    async def _deny(self, form: Approval) -> Json:
        self._terminal.put([[("class:strong", gettext("Deny")), ("class:soft", f" · {gettext(WHY)}")]])
        reason = await self._terminal.write(hint=gettext("enter denies · esc back"), check=lambda _: None)
        return {
            "decision": "deny",
            "digest": form.digest,
            **({"reason": reason.strip()} if reason.strip() else {}),
        }

    async def _edit(self, form: Approval) -> Json:
        """An approval with other arguments, after the difference has been shown."""
        parts = parts_of(form)
        start = {part.key: part.default for part in parts}
        while True:
            edited = await self._fill(parts, start)
            value: Json = check_answer(form, {"decision": "approve", "arguments": edited})
            changed = decision_of(form, value).action.arguments
            difference = difference_lines(form.action.arguments, changed, self._terminal.width)
            if difference:
                self._terminal.put([[], [("class:strong", gettext("What you changed"))], *difference, []])
            else:
                self._terminal.put([[], [("class:strong", gettext("Nothing is changed."))], []])
            entries = [
                Entry("approve", gettext("Approve this"), ours=True, key="a"),
                Entry("deny", gettext("Deny"), ours=True, key="d"),
                Entry("again", gettext("Change again"), ours=True, key="e"),
            ]
            hint = gettext("a approve · d deny · then enter · esc back")
            match await self._terminal.choose(entries, hint=hint, start=None):
                case "approve":
                    return {"decision": "approve", "digest": value["digest"], "arguments": edited}
                case "deny":
                    return await self._deny(form)
                case _:
                    start = edited

    def _provenance(self) -> Provenance:
        """What was on the screen when the person decided."""
        conversation = self._conversation
        return Provenance(channel=CHANNEL, shown_digest=digest_of(conversation.shown), seen=conversation.seen)

    async def _send(self, value: Json) -> Question:
        provenance = self._provenance()  # what is shown while it is sent again is not part of the decision
        while True:
            try:
                question = await self._session.desk.answer(
                    self._question.id, value, by=self._session.me, provenance=provenance
                )
            except StoreUnavailable as error:
                text = gettext("Not sent: {problem}").format(problem=shown(str(error)))
                self._terminal.put(wrapped([("class:bad", f"! {text}")], self._terminal.width))
                again = [Entry(None, gettext("Try again"), ours=True)]
                await self._terminal.choose(again, hint=gettext("enter sends · esc leaves it pending"))
                continue
            canonical = check_answer(self._question.form, value)
            told = answer_words(self._question.form, canonical)
            self._print_result(question, gettext("Answered: {answer}").format(answer=told))
            return question

    def _print_result(self, question: Question, done: str) -> None:
        if question.outcome is None:
            text = gettext("{votes} voted, {count} must agree")
            done += f" · {text.format(votes=len(question.votes), count=question.quorum)}"
            if told := still_needed(question):
                done += f" · {told}"
        self._terminal.put(wrapped([("class:good", "✓ "), ("", done)], self._terminal.width, indent=2))

    def _print_problems(self, misfit: InvalidAnswer) -> None:
        for problem in misfit.problems:
            self._terminal.put(
                wrapped([("class:bad", f"! {shown(problem_text(problem))}")], self._terminal.width, indent=2)
            )


def _entries(form: Choice | MultiChoice) -> list[Entry]:
    entries = [Entry(each.id, shown(each.label), shown(option_text(each) or "")) for each in form.options]
    if form.allow_other:
        entries.append(Entry(_OTHER, gettext("Something else…"), ours=True))
    return entries


def _hint(form: Open) -> str:
    keys = _TEXT if form.type == "text" else _VALUE
    hint = typed_hint(form) or kind_text(form)
    return f"{hint} · {gettext(keys)}"


def _checked(form: SimpleForm) -> Check:
    return lambda value: _problem(form, value)


def _problem(form: SimpleForm, value: Json) -> str | None:
    """Why a value does not fit, in one line, or None. Found here, so that no attempt is spent on it."""
    try:
        check_answer(form, value)
    except InvalidAnswer as misfit:
        return shown("; ".join(error_text(problem.message) for problem in misfit.problems))
    return None


def _scope_hint(form: Approval) -> str:
    """What a remembered approval covers, in words."""
    tool = shown(form.action.tool)
    if form.remember_by is None:
        text = gettext("Holds for {tool} with exactly these arguments, and can be revoked.")
        return text.format(tool=tool)
    names = ", ".join(
        f"{shown(each)} = {json_words(form.action.arguments.get(each))}" for each in form.remember_by
    )
    text = gettext("Holds for {tool} with {names}, whatever its other arguments are, and can be revoked.")
    return text.format(tool=tool, names=names)

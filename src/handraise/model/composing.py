"""Composing a question: from what an asker says to a draft, or every reason why it cannot be asked.

Fail closed: nothing is registered and nothing is cut to size.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TypedDict, assert_never

import pydantic

from handraise.model.checking import check_answer, fold, pattern_problem
from handraise.model.errors import InvalidAnswer, InvalidQuestion, Problem
from handraise.model.forms import (
    AnyForm,
    Approval,
    Choice,
    Confirm,
    Field,
    Form,
    MultiChoice,
    Open,
    Option,
    form_to_json,
    options_of,
)
from handraise.model.json_values import Json, canonical_json, json_problems, text_problem
from handraise.model.people import GROUP
from handraise.model.questions import Draft
from handraise.model.timelines import Timeline, steps_of
from handraise.model.typed import FormSource, form_from

Span = timedelta | float
"""A length of time; a bare number is in seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How large a question may be. What is larger is refused, never cut."""

    prompt: int = 10_000
    options: int = 20
    label: int = 500
    fields: int = 50
    pattern: int = 500
    name: int = 200
    json_bytes: int = 65_536
    json_depth: int = 8
    recipients: int = 100
    steps: int = 20


class QuestionOptions(TypedDict, total=False):
    """What can be said about a question besides its prompt; `post` and `ask` take it as keywords.

    Say what a valid answer is with `choices` or `form`; with neither, it is free text. `recipients` are the
    names of people and `group:` names, none for anyone in the workspace. `need` distinct people must agree;
    with `veto`, one refusal is enough to end it. `state` is the asker's own: it comes back with the question
    and no page shows it.
    """

    choices: Sequence[str | Option]
    form: FormSource
    context: Json
    state: Json
    key: str
    conversation: str
    tool_call: str
    recipients: Sequence[str]
    need: int
    veto: bool
    max_attempts: int
    expires_in: Span
    timeline: Timeline


def compose(
    prompt: str, options: QuestionOptions, *, new_id: str, workspace: str, asker: str, limits: Limits
) -> Draft:
    """The draft of a question, or `InvalidQuestion` with every problem."""
    unknown = set(options) - set(QuestionOptions.__annotations__)
    if unknown:
        raise TypeError(f"post() and ask() do not take {', '.join(sorted(unknown))}")
    form = _form(options)
    timeline = _timeline(options)
    draft = Draft(
        id=new_id,
        workspace=workspace,
        asker=asker,
        prompt=prompt,
        form=form,
        context=options.get("context"),
        state=options.get("state"),
        key=options.get("key"),
        conversation=options.get("conversation"),
        tool_call=options.get("tool_call"),
        recipients=tuple(dict.fromkeys(options.get("recipients", ()))),
        need=options.get("need", 1),
        veto=options.get("veto", False),
        max_attempts=options.get("max_attempts"),
        steps=steps_of(timeline) if timeline else (),
    )
    problems = [*_draft_problems(draft, limits), *_form_problems(form, "form", limits)]
    if not problems and timeline is not None:
        problems = list(_timeline_problems(timeline, form, limits))
    if problems:
        raise InvalidQuestion(problems)
    return draft


def seconds_of(span: Span) -> float:
    """A span in seconds."""
    return span.total_seconds() if isinstance(span, timedelta) else float(span)


def _form(options: QuestionOptions) -> AnyForm:
    if "choices" in options and "form" in options:
        raise InvalidQuestion([Problem("form", "give choices or a form, not both")])
    try:
        if "choices" in options:
            return Choice(options=options_of(options["choices"]))
        return form_from(options["form"]) if "form" in options else Open()
    except pydantic.ValidationError as error:
        raise InvalidQuestion(
            [Problem(".".join(("form", *map(str, each["loc"]))), each["msg"]) for each in error.errors()]
        ) from error


def _timeline(options: QuestionOptions) -> Timeline | None:
    if "expires_in" not in options:
        return options.get("timeline")
    if "timeline" in options:
        raise InvalidQuestion([Problem("expires_in", "the timeline already says when it expires")])
    return Timeline(expire=timedelta(seconds=seconds_of(options["expires_in"])))


def _draft_problems(draft: Draft, limits: Limits) -> Iterator[Problem]:
    yield from _text_problems("prompt", draft.prompt, limits.prompt)
    yield from _text_problems("asker", draft.asker, limits.name)
    yield from _text_problems("workspace", draft.workspace, limits.name)
    for name in ("key", "conversation", "tool_call"):
        value = getattr(draft, name)
        if value is not None:
            yield from _text_problems(name, value, limits.name)
    for place, recipient in enumerate(draft.recipients):
        yield from _text_problems(f"recipients[{place}]", recipient.removeprefix(GROUP), limits.name)
    if len(draft.recipients) > limits.recipients:
        yield Problem("recipients", f"at most {limits.recipients} are possible, not {len(draft.recipients)}")
    if draft.recipients == (draft.asker,):
        yield Problem("recipients", "whoever asks cannot answer, so nobody could")
    if draft.need < 1:
        yield Problem("need", f"at least one person must answer, not {draft.need}")
    people = [name for name in draft.recipients if not name.startswith(GROUP)]
    if people == list(draft.recipients) and 0 < len(people) < draft.need:
        yield Problem("need", f"{draft.need} people must agree, but only {len(people)} may answer")
    if draft.max_attempts is not None and draft.max_attempts < 1:
        yield Problem("max_attempts", f"allow at least one attempt, not {draft.max_attempts}")
    yield from _json_problems("context", draft.context, limits)
    yield from _json_problems("state", draft.state, limits)


def _form_problems(form: AnyForm, path: str, limits: Limits) -> Iterator[Problem]:
    match form:
        case Choice():
            yield from _option_problems(form.options, path, limits)
        case MultiChoice():
            yield from _option_problems(form.options, path, limits)
            most = len(form.options) + form.allow_other if form.at_most is None else form.at_most
            if form.at_least < 0 or most < max(form.at_least, 1) or form.at_least > len(form.options):
                yield Problem(f"{path}.at_least", "nobody could choose as many as the bounds ask for")
        case Open():
            yield from _open_problems(form, path, limits)
        case Confirm():
            pass
        case Form():
            yield from _field_problems(form.fields, f"{path}.fields", limits)
            if not form.fields:
                yield Problem(f"{path}.fields", "needs at least one field")
            if len(form_to_json(form)) > limits.json_bytes:
                yield Problem(path, f"is larger than {limits.json_bytes} bytes")
        case Approval():
            yield from _approval_problems(form, path, limits)
        case _:
            assert_never(form)


def _option_problems(options: Sequence[Option], path: str, limits: Limits) -> Iterator[Problem]:
    where = f"{path}.options"
    if not options:
        yield Problem(where, "needs at least one option")
    if len(options) > limits.options:
        yield Problem(where, f"at most {limits.options} options are possible, not {len(options)}")
    ids: set[str] = set()
    labels: set[str] = set()
    for place, option in enumerate(options):
        yield from _text_problems(f"{where}[{place}].id", option.id, limits.label)
        yield from _text_problems(f"{where}[{place}].label", option.label, limits.label)
        if option.description is not None:
            yield from _text_problems(f"{where}[{place}].description", option.description, limits.prompt)
        if option.id in ids:
            yield Problem(f"{where}[{place}].id", f"{option.id!r} is the id of another option already")
        elif fold(option.label) in labels:
            yield Problem(f"{where}[{place}].label", f"{option.label!r} reads like another option")
        ids.add(option.id)
        labels.add(fold(option.label))


def _open_problems(form: Open, path: str, limits: Limits) -> Iterator[Problem]:
    if form.min_length < 0 or (form.max_length is not None and form.max_length < max(form.min_length, 1)):
        yield Problem(f"{path}.max_length", "no text could be that long")
    if form.minimum is not None and form.maximum is not None and form.minimum > form.maximum:
        yield Problem(f"{path}.maximum", "is below the minimum")
    if form.pattern is not None:
        if len(form.pattern) > limits.pattern:
            yield Problem(f"{path}.pattern", f"is longer than {limits.pattern} characters")
        elif why := text_problem(form.pattern) or pattern_problem(form.pattern):
            yield Problem(f"{path}.pattern", why)


def _field_problems(fields: Sequence[Field], path: str, limits: Limits) -> Iterator[Problem]:
    if len(fields) > limits.fields:
        yield Problem(path, f"at most {limits.fields} fields are possible, not {len(fields)}")
    names: set[str] = set()
    for entry in fields:
        where = f"{path}.{entry.name}"
        yield from _text_problems(where, entry.name, limits.name)
        if entry.name in names:
            yield Problem(where, "is the name of another field already")
        names.add(entry.name)
        for text in filter(None, (entry.title, entry.description)):
            yield from _text_problems(where, text, limits.prompt)
        yield from _json_problems(f"{where}.default", entry.default, limits)
        yield from _form_problems(entry.form, where, limits)


def _approval_problems(form: Approval, path: str, limits: Limits) -> Iterator[Problem]:
    yield from _text_problems(f"{path}.action.tool", form.action.tool, limits.name)
    arguments = list(_json_problems(f"{path}.action.arguments", form.action.arguments, limits))
    yield from arguments
    if not arguments and form.digest != form.action.digest:
        yield Problem(f"{path}.digest", "is not the digest of this action")
    yield from _field_problems(form.editable, f"{path}.editable", limits)
    for entry in form.editable:
        if entry.name not in form.action.arguments:
            yield Problem(f"{path}.editable.{entry.name}", "the action has no such argument")


def _timeline_problems(timeline: Timeline, form: AnyForm, limits: Limits) -> Iterator[Problem]:
    steps = steps_of(timeline)
    if len(steps) > limits.steps:
        yield Problem("timeline", f"at most {limits.steps} steps are possible, not {len(steps)}")
    if any(step.after <= timedelta(0) for step in steps):
        yield Problem("timeline", "every step must come after the asking")
    if timeline.expire is not None and any(step.after >= timeline.expire for step in steps[:-1]):
        yield Problem("timeline", "nothing can happen after it has expired")
    for escalation in timeline.escalate:
        if not escalation.to:
            yield Problem("timeline.escalate", "needs somebody to escalate to")
        for name in escalation.to:
            yield from _text_problems("timeline.escalate", name.removeprefix(GROUP), limits.name)
    if timeline.default is None:
        return
    if timeline.expire is None:
        yield Problem("timeline.default", "a default is taken when it expires, so say when")
    if isinstance(form, Approval):
        yield Problem("timeline.default", "an approval can only expire into not approved")
        return
    try:
        canonical = check_answer(form, timeline.default)
    except InvalidAnswer as error:
        yield from (Problem(f"timeline.default{each.path}", each.message) for each in error.problems)
    else:
        if canonical != timeline.default:
            yield Problem("timeline.default", f"write it in its canonical form: {canonical!r}")


def _text_problems(path: str, text: str, longest: int) -> Iterator[Problem]:
    if not isinstance(text, str):
        yield Problem(path, f"expected a text, got {type(text).__name__}")
    elif not text.strip():
        yield Problem(path, "is empty")
    elif len(text) > longest:
        yield Problem(path, f"has {len(text)} characters, but only {longest} are possible")
    elif why := text_problem(text):
        yield Problem(path, why)


def _json_problems(path: str, value: Json, limits: Limits) -> Iterator[Problem]:
    problems = list(json_problems(value, path, depth=limits.json_depth))
    yield from problems
    if not problems and value is not None and len(canonical_json(value).encode()) > limits.json_bytes:
        yield Problem(path, f"is larger than {limits.json_bytes} bytes")

"""Make a draft from what an asker gives, or report every reason why it cannot be asked.

It fails closed: if something is wrong, nothing is registered, and nothing is truncated.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal, TypedDict, assert_never, get_args

import pydantic

from handraise.model.answer_types import FormSource, Typed, form_from, unreadable
from handraise.model.attachments import MAX_FILE_BYTES, Attachment, accept_problem, list_problems
from handraise.model.callbacks import Callback, callback_problems
from handraise.model.durations import Span, seconds_of
from handraise.model.errors import InvalidAnswer
from handraise.model.forms import (
    AnyForm,
    Approval,
    Brief,
    Choice,
    Confirm,
    Field,
    File,
    Form,
    MultiChoice,
    Open,
    Option,
    form_to_json,
    scope_problems,
    takes_files,
)
from handraise.model.json_values import (
    MAX_INTEGER,
    Json,
    JsonValue,
    canonical_json,
    json_problems,
    text_problem,
)
from handraise.model.lookalike_names import misleading_tool
from handraise.model.people import ANYONE, GROUP, reserved_for
from handraise.model.problems import InvalidQuestion, Problem
from handraise.model.questions import Draft, Replies, drafted
from handraise.model.timelines import Timeline, steps_of
from handraise.model.type_problems import problems_of
from handraise.model.validation import MAX_TEXT, check_answer, fold, pattern_problem
from handraise.model.web_links import link_problems


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How large a question may be. A larger one is refused, never truncated."""

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
    preview: int = 5_000
    checked: int = 20
    links: int = 10
    file_bytes: int = MAX_FILE_BYTES
    files: int = 20
    files_bytes: int = 50_000_000
    """How large all files of a question are together. Those of each person who answers are counted by themselves."""
    unused_bytes: int = 200_000_000
    """How large the files of an uploader are together that no question refers to yet."""


_DEEPEST = 64
_LONGEST_MEMORY = 3650 * 86_400
_LONGEST = timedelta(days=36_525)
_MOST_ATTEMPTS = 1_000_000
_LONGEST_UNDO = timedelta(minutes=1)
_SHORTEST_HEARTBEAT = timedelta(seconds=10)
_LONGEST_HEARTBEAT = timedelta(days=30)
_FEW, _SHORT, _MOST_USUAL = 20, 500, 1_000
_TYPES: dict[str, tuple[str, tuple[type, ...]]] = {
    # The usual types come first: checking against an abstract one takes ten times as long.
    "choices": ("a list of options", (list, tuple, Sequence)),
    "recipients": ("a list of names", (list, tuple, Sequence)),
    "quorum": ("a whole number", (int,)),
    "veto": ("True or False", (bool,)),
    "shared": ("True or False", (bool,)),
    "check_recipients": ("True or False", (bool,)),
    "max_attempts": ("a whole number", (int, type(None))),
    "timeline": ("a Timeline", (Timeline, type(None))),
    "attachments": ("a list of attachments", (list, tuple, Sequence)),
}


IfExists = Literal["equal", "keep"]
"""What to return if the key is taken: the stored question if it is equal ("equal"), or always ("keep")."""


class QuestionOptions(TypedDict, total=False):
    """The options of a question besides its prompt; `post` and `ask` take them as keywords.

    Say what a valid answer is with `choices` or `form`; with neither, it is free text. `recipients` are the
    names of people and `group:` names, none for anyone in the workspace. `quorum` distinct people must agree;
    with `veto`, one refusal is enough to end it. `state` is private to the asker: it comes back with the
    question, and no page shows it. `trace` is the asker's span as a W3C `traceparent`, by default the current one of
    OpenTelemetry. `undo_for` is how
    long, up to a minute, a person may take an answer back before it is sent; the page or channel that shows
    the question holds the answer back that long.

    `if_exists` says what happens if the `key` already names a question. With "equal", the default, you get
    that question if it is the same, else `KeyConflict`. With "keep" you get that question as it was asked,
    and its answer. A key belongs to its asker; all askers of the workspace that pass `shared` share the key
    and its question.

    If the workspace has people, `recipients` and those of an escalation are compared with them: a name that
    nobody has is refused. Pass `check_recipients=False` if only your program knows these people.

    `replies` says who replies if a person asks back: "program" or "model". Without it, people can only note something for
    each other.

    `replaces` is the id of a question of yours that this one replaces, after somebody sent it back or because it is
    outdated. If that one is still pending, it is withdrawn. People see what has changed.

    `topic` names what is asked, across askers, such as "vat-rate:DE". If several pending questions have the same topic,
    prompt and form and ask the same people, people see one of them, and its answer is for all. Approvals have no topic: they have
    grants and policies. Questions that are answered with files have none either.

    `attachments` are files that `Desk.attach` has stored.

    `heartbeat`, from ten seconds to 30 days, says that somebody waits for the answer: if nothing is heard of the asker for
    this long, nobody does, and people see that. A wait is a sign of it; a program that does not wait calls `Desk.heartbeat`.

    `callback` says where you are told that the question has ended, instead of waiting. If the key names a question
    already, the callback that was posted first stays.
    """

    choices: Sequence[str | Option]
    form: FormSource
    context: JsonValue
    state: JsonValue
    key: str
    conversation: str
    tool_call: str
    recipients: Sequence[str]
    quorum: int
    veto: bool
    max_attempts: int
    expires_in: Span
    timeline: Timeline
    trace: str
    undo_for: Span
    heartbeat: Span
    if_exists: IfExists
    shared: bool
    check_recipients: bool
    replies: Replies | None
    replaces: str
    topic: str
    attachments: Sequence[Attachment]
    callback: Callback


_OPTIONS = frozenset(QuestionOptions.__annotations__)
_ONLY_FORM = frozenset({"choices", "form"})
"""The options of the usual question: nothing else of it needs to be checked."""
_GROUP_SPELT = re.compile(r"\s*group\s*:\s*(.*?)\s*", re.IGNORECASE)
"""A group, also if it is misspelt in a common way: with spaces, or with a capital letter."""
_MEANT = {
    "options": "choices",
    "to": "recipients",
    "schema": "form",
    "idempotency_key": "key",
    "expires": "expires_in",
}
"""Wrong names that people often write for an option."""
_OF_APPROVALS = ("risk", "brief", "editable", "scopes", "valid_for", "remember_by", "remember_for")


def compose(
    prompt: str, options: QuestionOptions, *, new_id: str, workspace: str, asker: str, limits: Limits
) -> Draft:
    """The draft of a question, or `InvalidQuestion` with every problem."""
    if not _OPTIONS.issuperset(options):
        raise TypeError(_unknown_option(min(options.keys() - _OPTIONS)))
    if not _has_only_texts(options) and (mistyped := list(_type_problems(options))):
        raise InvalidQuestion(mistyped)
    is_usual = options.keys() <= _ONLY_FORM
    if not is_usual and (problem := _if_exists_problem(options) or _replies_problem(options)):
        raise InvalidQuestion([problem])
    form, misfits = _form(options, limits)
    asked = {"id": new_id, "workspace": workspace, "asker": asker, "prompt": prompt, "form": form}
    if is_usual:
        draft = drafted(**asked)
        problems = [*_name_problems(draft, limits), *_quorum_problems(draft, limits), *misfits]
        if isinstance(form, Approval):
            problems += _scope_problems(draft, form)
        if problems:
            raise InvalidQuestion(problems)
        return draft
    timeline = _timeline(options)
    draft = drafted(
        **asked,
        context=options.get("context"),
        state=options.get("state"),
        key=options.get("key"),
        conversation=options.get("conversation"),
        tool_call=options.get("tool_call"),
        recipients=tuple(dict.fromkeys(options.get("recipients", ()))),
        quorum=options.get("quorum", 1),
        veto=options.get("veto", False),
        max_attempts=options.get("max_attempts"),
        steps=steps_of(timeline) if timeline else (),
        trace=options.get("trace"),
        undo_for=seconds_of(options.get("undo_for", 0)),
        heartbeat=seconds_of(options["heartbeat"]) if "heartbeat" in options else None,
        shared=options.get("shared", False),
        replies=options.get("replies"),
        replaces=options.get("replaces"),
        topic=options.get("topic"),
        attachments=tuple(options.get("attachments", ())),
        callback=options.get("callback"),
    )
    problems = [*_draft_problems(draft, limits), *misfits]
    if isinstance(form, Approval):
        problems += _scope_problems(draft, form)
    if not problems and timeline is not None:
        problems = list(_timeline_problems(timeline, draft, limits))
    if problems:
        raise InvalidQuestion(problems)
    return draft


def check_key(key: str, limits: Limits) -> None:
    """Raise `InvalidQuestion` unless this can be a question's key."""
    if problems := _text_problems("key", key, limits.name):
        raise InvalidQuestion(problems)


def _if_exists_problem(options: QuestionOptions) -> Problem | None:
    said = options.get("if_exists", "equal")
    if said not in get_args(IfExists):
        return Problem("if_exists", f"expected 'equal' or 'keep', got {said!r}")
    if said == "keep" and options.get("key") is None:
        return Problem("if_exists", "it only applies to a key, so give a key")
    return None


def _replies_problem(options: QuestionOptions) -> Problem | None:
    said = options.get("replies")
    if said is not None and said not in get_args(Replies):
        return Problem("replies", f"expected 'program', 'model' or None, got {said!r}")
    return None


def _unknown_option(name: str) -> str:
    """What to write instead of an option that no question has."""
    if name == "timeout":
        return (
            "post() does not wait, so it takes no timeout: write ask(…, timeout=…) or wait(question.id, timeout=…). "
            "expires_in=… ends the question itself."
        )
    if name == "into":
        return "post() returns the question and not its answer, so it takes no into: write ask(…, into=…)."
    if name in _OF_APPROVALS:
        return f"{name} belongs to an approval: write Approval.of(tool, arguments, {name}=…)."
    near = [_MEANT[name]] if name in _MEANT else difflib.get_close_matches(name, _OPTIONS, 1)
    return f"post() and ask() do not take {name!r}" + (f": did you mean {near[0]!r}?" if near else ".")


def check_into(reading: Typed[Any], options: QuestionOptions) -> None:
    """Raise `InvalidQuestion` if people could give an answer that the asker's own type does not take."""
    try:
        form, _ = _form(options, Limits())
    except (TypeError, ValueError):
        return  # the form itself is wrong, which is said when it is posted
    if (problem := unreadable(reading, form)) is not None:
        raise InvalidQuestion([problem])


def _form(options: QuestionOptions, limits: Limits) -> tuple[AnyForm, Sequence[Problem]]:
    """The form, and why it cannot be asked."""
    if "choices" in options and "form" in options:
        raise InvalidQuestion([Problem("form", "give choices or a form, not both")])
    try:
        if "choices" in options:
            choices = options["choices"]
            if len(choices) > _FEW or not _are_texts(choices):
                return _choice(choices, limits)
            return _usual_choice(tuple(map(str, choices)), limits)
        form = form_from(options["form"]) if "form" in options else Open()
    except pydantic.ValidationError as error:
        raise InvalidQuestion(problems_of(error, Choice, under="form")) from error
    if not isinstance(form, Approval):
        return form, list(_form_problems(form, "form", limits))
    # An action is frozen here: later changes of the arguments that it was made from do not change it.
    # Arguments that are too deep to copy are reported.
    if problems := list(json_problems(form.action.arguments, "form.action.arguments", depth=_DEEPEST)):
        raise InvalidQuestion(problems)
    frozen = form.model_copy(deep=True)
    return frozen, list(_form_problems(frozen, "form", limits))


def _choice(choices: Sequence[str | Option], limits: Limits) -> tuple[Choice, Sequence[Problem]]:
    form = Choice.model_validate({"options": choices})
    return form, tuple(_form_problems(form, "form", limits))


_USUAL: dict[tuple[str, ...], tuple[Limits, tuple[Choice, Sequence[Problem]]]] = {}
"""Choices of a few short texts, cached because a program mostly asks with the same ones again."""


def _usual_choice(texts: tuple[str, ...], limits: Limits) -> tuple[Choice, Sequence[Problem]]:
    known = _USUAL.get(texts)
    if known is not None and known[0] is limits:
        return known[1]
    made = _choice(texts, limits)
    if sum(map(len, texts)) <= _SHORT:
        if len(_USUAL) >= _MOST_USUAL:
            _USUAL.clear()
        _USUAL[texts] = (limits, made)
    return made


def _are_texts(choices: object) -> bool:
    return isinstance(choices, (list, tuple)) and {*map(type, choices)} <= {str}


def _has_only_texts(options: QuestionOptions) -> bool:
    """Whether the only option is a list of texts to choose from, as usual."""
    return len(options) == 1 and "choices" in options and _are_texts(options["choices"])


def _timeline(options: QuestionOptions) -> Timeline | None:
    if "expires_in" in options:
        if "timeline" in options:
            raise InvalidQuestion([Problem("expires_in", "the timeline already says when it expires")])
        return Timeline(expire=options["expires_in"])
    return options.get("timeline")


def _type_problems(options: QuestionOptions) -> Iterator[Problem]:
    """Problems that a check of values would not find: a text is not a list of its letters, true is not a number."""
    for name, value in options.items():
        if name not in _TYPES:
            continue
        wanted, types = _TYPES[name]
        mistaken = isinstance(value, (str, bytes)) or (isinstance(value, bool) and bool not in types)
        if mistaken and isinstance(value, str) and list in types:
            yield Problem(name, f"expected {wanted}: write {name}=[{value!r}]")
        elif mistaken or not isinstance(value, types):
            how = f": write into={value.__name__}" if name == "choices" and isinstance(value, type) else ""
            yield Problem(name, f"expected {wanted}, got {type(value).__name__}{how}")
    recipients: object = options.get("recipients", ())
    for place, recipient in enumerate(recipients if isinstance(recipients, (tuple, list, Sequence)) else ()):
        if not isinstance(recipient, str):
            yield Problem(f"recipients[{place}]", f"expected a text, got {type(recipient).__name__}")
    choices: object = options.get("choices", ())
    for place, choice in enumerate(choices if isinstance(choices, (tuple, list)) else ()):
        if not isinstance(choice, (str, Option, dict)):
            wanted = f"expected a text or an Option, got {type(choice).__name__}"
            yield Problem(f"choices[{place}]", f"{wanted}: write {str(choice)[:100]!r}")
    if "expires_in" in options:
        yield from _span_problems("expires_in", options["expires_in"], -_LONGEST, _LONGEST)
    if "undo_for" in options:
        yield from _span_problems("undo_for", options["undo_for"], timedelta(0), _LONGEST_UNDO)
    if "heartbeat" in options:
        yield from _span_problems("heartbeat", options["heartbeat"], _SHORTEST_HEARTBEAT, _LONGEST_HEARTBEAT)


def _span_problems(path: str, span: Span, shortest: timedelta, longest: timedelta) -> Iterator[Problem]:
    try:
        seconds = seconds_of(span)
    except (TypeError, ValueError) as error:
        yield Problem(path, str(error))
    except OverflowError:
        yield Problem(path, "is a span that no clock knows")
    else:
        if not shortest.total_seconds() <= seconds <= longest.total_seconds():
            most = f"{longest.days} days" if longest.days else f"{longest.seconds} seconds"
            least = max(shortest.total_seconds(), 0)
            yield Problem(path, f"expected between {least:g}{' seconds' if least else ''} and {most}")


def _name_problems(draft: Draft, limits: Limits) -> Sequence[Problem]:
    """What is wrong with the parts that every question has."""
    return (
        *_text_problems("prompt", draft.prompt, limits.prompt),
        *(_text_problems("asker", draft.asker, limits.name) or _asker_problems(draft.asker)),
        *_text_problems("workspace", draft.workspace, limits.name),
    )


def _asker_problems(name: str) -> Sequence[Problem]:
    why = reserved_for(name)
    return [Problem("asker", f"{name!r} is no agent: {why}")] if why else ()


def _quorum_problems(draft: Draft, limits: Limits) -> Sequence[Problem]:
    if 1 <= draft.quorum <= limits.recipients:
        return ()
    return [Problem("quorum", f"between 1 and {limits.recipients} people must agree")]


def _draft_problems(draft: Draft, limits: Limits) -> Iterator[Problem]:
    yield from _name_problems(draft, limits)
    for name in ("key", "conversation", "tool_call", "trace", "replaces", "topic"):
        if (value := getattr(draft, name)) is not None:
            yield from _text_problems(name, value, limits.name)
    if draft.topic is not None and isinstance(draft.form, Approval):
        yield Problem("topic", "each approval is asked by itself: use a grant or a policy to answer many")
    if draft.topic is not None and takes_files(draft.form):
        yield Problem("topic", "a file answers one question: ask for it without a topic")
    if draft.shared and draft.key is None:
        yield Problem("shared", "askers share questions by key, so give a key")
    if draft.callback is not None:
        yield from callback_problems(draft.callback)
        if draft.shared:
            yield Problem("callback", "only the first of several askers would be called: wait for the answer")
    for place, recipient in enumerate(draft.recipients):
        yield from recipient_problems(f"recipients[{place}]", recipient, limits)
    if len(draft.recipients) > limits.recipients:
        yield Problem("recipients", f"at most {limits.recipients} are possible, not {len(draft.recipients)}")
    if draft.recipients == (draft.asker,):
        yield Problem("recipients", "the asker cannot answer, so nobody could")
    yield from _quorum_problems(draft, limits)
    if draft.recipients and draft.quorum > 1:
        escalated = (name for step in draft.steps for name in step.to)
        others = {*draft.recipients, *escalated} - {draft.asker}
        if 0 < len(others) < draft.quorum and not any(name.startswith(GROUP) for name in others):
            yield Problem("quorum", f"{draft.quorum} people must agree, but only {len(others)} may answer")
    if draft.max_attempts is not None and not 1 <= draft.max_attempts <= _MOST_ATTEMPTS:
        yield Problem("max_attempts", f"allow between 1 and {_MOST_ATTEMPTS} attempts")
    yield from _json_problems("context", draft.context, limits)
    yield from _json_problems("state", draft.state, limits)
    if draft.attachments:
        yield from list_problems(
            draft.attachments,
            "attachments",
            most_files=limits.files,
            most_bytes=limits.file_bytes,
            most_together=limits.files_bytes,
        )


def _form_problems(form: AnyForm, path: str, limits: Limits) -> Iterator[Problem]:
    match form:
        case Choice():
            yield from _option_problems(form.options, path, limits)
            if sum(each.recommended for each in form.options) > 1:
                yield Problem(f"{path}.options", "only one can be chosen, so recommend at most one")
        case MultiChoice():
            yield from _option_problems(form.options, path, limits)
            most = len(form.options) + form.allow_other if form.at_most is None else form.at_most
            if form.at_least < 0 or most < max(form.at_least, 1) or form.at_least > len(form.options):
                yield Problem(f"{path}.at_least", "at_least and at_most do not fit the number of options")
            yield from json_problems(form.at_most, f"{path}.at_most", depth=0)
        case Open():
            yield from _open_problems(form, path, limits)
        case Confirm():
            pass
        case File():
            yield from _file_problems(form, path, limits)
        case Form():
            problems = list(_field_problems(form.fields, f"{path}.fields", limits))
            yield from problems
            if not form.fields:
                yield Problem(f"{path}.fields", "needs at least one field")
            if not problems and len(form_to_json(form).encode()) > limits.json_bytes:
                yield Problem(path, f"is larger than {limits.json_bytes} bytes")
        case Approval():
            yield from _approval_problems(form, path, limits)
        case _:
            assert_never(form)


def _shown_problems(option: Option, path: str, limits: Limits) -> Iterator[Problem]:
    """What is wrong with how an option is shown besides its label."""
    if option.description is not None:
        yield from _text_problems(f"{path}.description", option.description, limits.prompt)
    if option.preview is not None:
        yield from _text_problems(f"{path}.preview", option.preview, limits.preview)
    if option.reason is not None:
        yield from _text_problems(f"{path}.reason", option.reason, limits.label)
        if not option.recommended:
            yield Problem(f"{path}.reason", "is the reason for a recommendation: give recommended=True too")


def _option_problems(options: Sequence[Option], path: str, limits: Limits) -> Iterator[Problem]:
    where = f"{path}.options"
    if not options:
        yield Problem(where, "needs at least one option")
    if len(options) > limits.options:
        yield Problem(where, f"at most {limits.options} options are possible, not {len(options)}")
    ids: set[str] = set()
    labels: set[str] = set()
    hidden = {fold(each.id): each.id for each in options if fold(each.id) != fold(each.label)}
    for place, option in enumerate(options):
        yield from _text_problems(f"{where}[{place}].id", option.id, limits.label)
        yield from _text_problems(f"{where}[{place}].label", option.label, limits.label)
        yield from _shown_problems(option, f"{where}[{place}]", limits)
        label = fold(option.label)
        if option.id in ids:
            yield Problem(f"{where}[{place}].id", f"{option.id!r} is the id of another option already")
        elif label in labels:
            yield Problem(f"{where}[{place}].label", f"{option.label!r} reads like another option")
        elif hidden.get(label, option.id) != option.id:
            yield Problem(
                f"{where}[{place}].label",
                f"{option.label!r} is the id of another option: which one would be meant?",
            )
        ids.add(option.id)
        labels.add(label)


def _file_problems(form: File, path: str, limits: Limits) -> Iterator[Problem]:
    if len(form.accept) > limits.options:
        yield Problem(
            f"{path}.accept", f"at most {limits.options} types are possible, not {len(form.accept)}"
        )
    for place, pattern in enumerate(form.accept[: limits.options]):
        if why := accept_problem(pattern):
            yield Problem(f"{path}.accept[{place}]", why)
    if form.max_bytes is not None and not 1 <= form.max_bytes <= limits.file_bytes:
        yield Problem(f"{path}.max_bytes", f"a file has between 1 and {limits.file_bytes} bytes")


def _open_problems(form: Open, path: str, limits: Limits) -> Iterator[Problem]:
    longest = MAX_TEXT if form.max_length is None else form.max_length
    if form.min_length < 0 or not max(form.min_length, 1) <= longest or form.min_length > MAX_TEXT:
        yield Problem(f"{path}.max_length", "no text could be that long")
    for name in ("max_length", "minimum", "maximum"):
        if any(json_problems(getattr(form, name), name, depth=0)):
            yield Problem(f"{path}.{name}", f"is beyond {MAX_INTEGER}, which no answer can be: leave it out")
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
        if isinstance(entry.form, File) and entry.default is not None:
            yield Problem(f"{where}.default", "a file cannot be given in advance")
        yield from _form_problems(entry.form, where, limits)


def _approval_problems(form: Approval, path: str, limits: Limits) -> Iterator[Problem]:
    tool = list(_text_problems(f"{path}.action.tool", form.action.tool, limits.name))
    yield from tool
    if not tool and (why := misleading_tool(form.action.tool)):
        yield Problem(
            f"{path}.action.tool", f"{why}, so that a policy or a person could take it for another tool"
        )
    arguments = list(_json_problems(f"{path}.action.arguments", form.action.arguments, limits))
    yield from arguments
    if not arguments and form.digest != form.action.digest:
        yield Problem(f"{path}.digest", "is not the digest of this action")
    fields = list(_field_problems(form.editable, f"{path}.editable", limits))
    yield from fields
    if not (arguments or fields) and (form.editable or form.remember_by):
        rest = len(form_to_json(form).encode()) - len(canonical_json(form.action.arguments).encode())
        if rest > limits.json_bytes:
            yield Problem(path, f"is larger than {limits.json_bytes} bytes without the action's arguments")
    if form.brief is not None:
        yield from _brief_problems(form.brief, f"{path}.brief", limits)
    for entry in form.editable:
        if isinstance(entry.form, File):
            yield Problem(
                f"{path}.editable.{entry.name}", "an argument cannot become a file: ask for it first"
            )
        if entry.name not in form.action.arguments:
            yield Problem(f"{path}.editable.{entry.name}", "the action has no such argument")
        elif not (arguments or fields or entry.default is None) and canonical_json(
            entry.default
        ) != canonical_json(form.action.arguments[entry.name]):
            why = (
                "is not the action's value of this argument: leave it out, and people see the action's value"
            )
            yield Problem(f"{path}.editable.{entry.name}.default", why)
    if form.remember_by == ():
        yield Problem(
            f"{path}.remember_by", "name at least one argument, or one approval would apply to all calls"
        )
    for name in form.remember_by or ():
        if name not in form.action.arguments:
            yield Problem(f"{path}.remember_by", f"the action has no argument {name!r}")
    yield from scope_problems(form.scopes, form.risk, f"{path}.scopes")
    if "once" not in form.scopes:
        yield Problem(f"{path}.scopes", "a person must be able to approve just this once")
    if not 0 < form.remember_for <= _LONGEST_MEMORY:
        yield Problem(f"{path}.remember_for", "an approval can be remembered for up to ten years")
    if form.valid_for is not None and not 0 < form.valid_for <= _LONGEST_MEMORY:
        yield Problem(f"{path}.valid_for", "an approval can be valid for up to ten years")


def _brief_problems(brief: Brief, path: str, limits: Limits) -> Iterator[Problem]:
    if brief == Brief():
        yield Problem(path, "says nothing: leave it out")
    if brief.why is not None:
        yield from _text_problems(f"{path}.why", brief.why, limits.prompt)
    if brief.affects is not None:
        yield from _text_problems(f"{path}.affects", brief.affects, limits.label)
    if len(brief.checked) > limits.checked:
        yield Problem(
            f"{path}.checked", f"at most {limits.checked} entries are possible, not {len(brief.checked)}"
        )
    for place, text in enumerate(brief.checked):
        yield from _text_problems(f"{path}.checked[{place}]", text, limits.label)
    if len(brief.links) > limits.links:
        yield Problem(f"{path}.links", f"at most {limits.links} links are possible, not {len(brief.links)}")
    for place, link in enumerate(brief.links):
        yield from _text_problems(f"{path}.links[{place}].label", link.label, limits.label)
        yield from link_problems(f"{path}.links[{place}].url", link.url)


def _scope_problems(draft: Draft, form: Approval) -> Iterator[Problem]:
    if "session" in form.scopes and draft.conversation is None:
        yield Problem("form.scopes", "an approval for the session needs a conversation")
    if form.scopes != ("once",) and draft.quorum > 1:
        yield Problem("form.scopes", "an approval that needs several people can only be for once")


def _timeline_problems(timeline: Timeline, draft: Draft, limits: Limits) -> Iterator[Problem]:
    form, steps = draft.form, draft.steps
    if len(steps) > limits.steps:
        yield Problem("timeline", f"at most {limits.steps} steps are possible, not {len(steps)}")
    if any(step.after <= timedelta(0) for step in steps):
        yield Problem("timeline", "every step must come after the question was asked")
    if any(step.after > _LONGEST for step in steps):
        yield Problem(
            "timeline", f"no step can come later than {_LONGEST.days} days after the question was asked"
        )
    if timeline.expire is not None and any(step.after >= timeline.expire for step in steps[:-1]):
        yield Problem("timeline", "no step can come after it has expired")
    for escalation in timeline.escalate:
        if not escalation.to:
            yield Problem("timeline.escalate", "needs somebody to escalate to")
        if set(escalation.to) == {draft.asker}:
            yield Problem("timeline.escalate", "the asker cannot answer: escalate to somebody else")
        if len(escalation.to) > limits.recipients:
            yield Problem("timeline.escalate", f"at most {limits.recipients} are possible at a time")
        for name in escalation.to:
            yield from recipient_problems("timeline.escalate", name, limits)
    if timeline.default is None:
        return
    if timeline.expire is None:
        yield Problem("timeline.default", "a default is taken when it expires, so say when")
    if isinstance(form, Approval):
        yield Problem("timeline.default", "an approval can only expire into not approved")
        return
    if takes_files(form):
        yield Problem("timeline.default", "a file can only come from a person")
        return
    try:
        canonical = check_answer(form, timeline.default)
    except InvalidAnswer as error:
        yield from (Problem(f"timeline.default{each.path}", each.message) for each in error.problems)
    else:
        # Compared as Python values: a 3.0 instead of a 3 would not be a whole number to the asker.
        if json.dumps(canonical, sort_keys=True) != json.dumps(timeline.default, sort_keys=True):
            yield Problem("timeline.default", f"write it in its canonical form: {canonical!r}")


def _text_problems(path: str, text: str, longest: int) -> Sequence[Problem]:
    if not isinstance(text, str):
        return [Problem(path, f"expected a text, got {type(text).__name__}")]
    if not text.strip():
        return [Problem(path, "is empty")]
    if len(text) > longest:
        return [Problem(path, f"has {len(text)} characters, but only {longest} are possible")]
    if why := text_problem(text):
        return [Problem(path, why)]
    return ()


def recipient_problems(path: str, name: str, limits: Limits) -> Iterator[Problem]:
    """What is wrong with the name of a person or group who is to be asked."""
    yield from _text_problems(path, name.removeprefix(GROUP), limits.name)
    group = _GROUP_SPELT.fullmatch(name)
    if group and name != GROUP + group[1]:
        yield Problem(path, f"write {GROUP + group[1]!r}: without spaces, and `group` in small letters")
    elif name != name.strip():
        yield Problem(path, f"write {name.strip()!r}: nobody's name begins or ends with a space")
    if name == ANYONE:
        yield Problem(path, "leave the recipients out if anyone may answer")


def _json_problems(path: str, value: Json, limits: Limits) -> Sequence[Problem]:
    if value is None:
        return ()
    problems = list(json_problems(value, path, depth=limits.json_depth))
    if not problems and len(canonical_json(value).encode()) > limits.json_bytes:
        return [Problem(path, f"is larger than {limits.json_bytes} bytes")]
    return problems

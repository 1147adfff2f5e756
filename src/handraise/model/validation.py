"""Check whether an answer fits: every problem with its path, or the canonical value if there is none."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Sequence
from datetime import UTC, date, datetime
from typing import assert_never

from pydantic_core import SchemaError, SchemaValidator, ValidationError, core_schema

from handraise.model.attachments import (
    MAX_FILE_BYTES,
    attachment_from_json,
    attachment_problems,
    is_accepted,
)
from handraise.model.errors import InvalidAnswer
from handraise.model.forms import (
    Action,
    AnyForm,
    Approval,
    Choice,
    Confirm,
    File,
    Form,
    MultiChoice,
    Open,
    Option,
    SimpleForm,
)
from handraise.model.json_values import MAX_INTEGER, Json, canonical_json, json_problems, text_problem
from handraise.model.problems import Problem

MAX_TEXT = 100_000
"""No text in an answer is longer than this, whatever the form says."""
MAX_ANSWER = 450_000
"""No answer has more bytes than this as JSON, so that every server accepts it."""

_MAX_DEPTH = 64
_MOST_BYTES = 6
"""The most bytes that a character takes in JSON, as \\u0001 does."""
_MAX_REPEATS = 1_024
_MAX_NUMBER = 100
_MAX_EMAIL = 320
_MAX_PROBLEMS = 50
_MAX_OTHERS = 20
_EMAIL = re.compile(r"[^@\s]+@[^@\s]+\.[^@\s.]+")
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:\S+")


def check_answer(form: AnyForm, value: Json) -> Json:
    """The canonical value of an answer that fits, or `InvalidAnswer` with every problem."""
    problems = value_problems(value)
    canonical = None
    if not problems:
        canonical = _check(form, value, "", problems)
    if problems:
        raise InvalidAnswer(_bounded(problems))
    return canonical


def value_problems(value: Json) -> list[Problem]:
    """Problems of a value that cannot answer any form: it is not JSON, or it is too large."""
    if isinstance(value, str) and text_problem(value) is None and _is_small_enough(value):
        return []
    problems = _bounded(list(json_problems(value, "", depth=_MAX_DEPTH)))
    if not problems and not _is_small_enough(value):
        problems.append(Problem("", f"is larger than {MAX_ANSWER:,} bytes"))
    return problems


def _is_small_enough(value: Json) -> bool:
    """Whether an answer has no more than `MAX_ANSWER` bytes."""
    if isinstance(value, str) and len(value) < MAX_ANSWER // _MOST_BYTES:
        return True
    return len(canonical_json(value).encode()) <= MAX_ANSWER


def _bounded(problems: Sequence[Problem]) -> list[Problem]:
    """Limit the number and length of problems: an answer can be anything, and its problems are stored."""
    told = [Problem(_cut(each.path, 200), _cut(each.message, 2_000)) for each in problems[:_MAX_PROBLEMS]]
    if len(problems) > _MAX_PROBLEMS:
        told.append(Problem("", f"and {len(problems) - _MAX_PROBLEMS} more"))
    return told


def fold(text: str) -> str:
    """A text as people compare it: case and white space do not count."""
    return " ".join(text.casefold().split())


def find_option(options: Sequence[Option], name: str) -> Option | None:
    """The option with this id, or with this label as people compare it."""
    for option in options:
        if option.id == name:
            return option
    folded = fold(name)
    return next((option for option in options if fold(option.label) == folded), None)


def pattern_problem(pattern: str) -> str | None:
    """Why this pattern cannot be used, or None. Only patterns that run in linear time can."""
    plain = re.sub(r"\\(?:[pPuUx]\{[^}]*\}|.)", "_", pattern, flags=re.DOTALL)
    if re.search(r"\(\?[A-Za-z-]*x", plain):
        return "is not a usable pattern (write it without white space and comments)"
    if _repeats(plain) * _class_cost(pattern) > _MAX_REPEATS:
        return "is not a usable pattern (it repeats its parts too often)"
    try:
        _pattern(pattern)
    except SchemaError as error:
        return f"is not a usable pattern ({str(error).splitlines()[-1].strip()})"
    return None


def _class_cost(pattern: str) -> int:
    """How much more a step costs because of the pattern's classes: Unicode classes are made of many ranges."""
    if re.search(r"\\[pPwWbB]|\[\^|\(\?[A-Za-z-]*i", pattern):
        return 50
    return 5 if re.search(r"\\[dDsS]", pattern) else 1


def _repeats(pattern: str) -> int:
    """An upper bound of the steps in a pattern's counted repetitions: each costs time for each character.

    A count after a group or after another repetition multiplies all others, which may overestimate it.
    """
    alone, factor = 0, 1
    for found in re.finditer(r"\{(\d+)(?:,(\d*))?\}", pattern):
        count = int((found[2] or found[1])[:9])
        if pattern[: found.start()].endswith((")", "}", "?", "*", "+")):
            factor *= max(count, 1)
        else:
            alone += count
    return max(alone, 1) * factor


@functools.lru_cache(maxsize=64)
def _pattern(pattern: str) -> SchemaValidator:
    # pydantic-core carries Rust's regex engine: linear time, no look-around, bounded size.
    return SchemaValidator(core_schema.str_schema(pattern=pattern, regex_engine="rust-regex"))


def _check(form: AnyForm, value: Json, path: str, problems: list[Problem]) -> Json:
    match form:
        case Approval():
            return _check_approval(form, value, path, problems)
        case Form():
            return _check_form(form, value, path, problems)
        case _:
            return _check_simple(form, value, path, problems)


def _check_simple(form: SimpleForm, value: Json, path: str, problems: list[Problem]) -> Json:
    match form:
        case Choice():
            return _check_option(form, value, path, problems)
        case MultiChoice():
            return _check_options(form, value, path, problems)
        case Open():
            return _check_open(form, value, path, problems)
        case Confirm():
            return _check_confirm(value, path, problems)
        case File():
            return _check_file(form, value, path, problems)
        case _:
            assert_never(form)


def _check_option(form: Choice | MultiChoice, value: Json, path: str, problems: list[Problem]) -> Json:
    match value:
        case {"other": str(text), **rest} if not rest:
            if not form.allow_other:
                problems.append(Problem(path, "your own text is not allowed here"))
            elif not text.strip():
                problems.append(Problem(path, "your own text is empty"))
            elif len(text) > MAX_TEXT:
                problems.append(Problem(path, f"your own text is longer than {MAX_TEXT} characters"))
            return {"other": text.strip()}
        case str(name):
            if option := find_option(form.options, name):
                return option.id
            labels = ", ".join(option.label for option in form.options)
            told = f"{_shown(name)} is not one of the options: {labels}"
            if form.allow_other:
                told += '. An answer in your own words must be marked as "other"'
            problems.append(Problem(path, told))
        case _:
            problems.append(Problem(path, f"expected the name of an option, got {_kind(value)}"))
    return None


def _check_options(form: MultiChoice, value: Json, path: str, problems: list[Problem]) -> Json:
    if not isinstance(value, (list, tuple)):
        problems.append(Problem(path, f"expected a list of options, got {_kind(value)}"))
        return None
    if len(value) > len(form.options) + _MAX_OTHERS:
        problems.append(Problem(path, f"that is far too many: there are only {len(form.options)} options"))
        return None
    chosen: list[Json] = []
    for index, item in enumerate(value):
        one = _check_option(form, item, f"{path}[{index}]", problems)
        if one is None:
            continue
        if one in chosen:
            problems.append(Problem(f"{path}[{index}]", f"{_shown(str(item))} is chosen twice"))
        else:
            chosen.append(one)
    if len(value) < form.at_least:
        problems.append(Problem(path, f"choose at least {form.at_least}, not {len(value)}"))
    if form.at_most is not None and len(value) > form.at_most:
        problems.append(Problem(path, f"choose at most {form.at_most}, not {len(value)}"))
    order = {option.id: place for place, option in enumerate(form.options)}
    return sorted(chosen, key=lambda one: order.get(one, len(order)) if isinstance(one, str) else len(order))


def _check_confirm(value: Json, path: str, problems: list[Problem]) -> bool | None:
    if isinstance(value, bool):
        return value
    word = {"yes": True, "true": True, "no": False, "false": False}
    if isinstance(value, str) and fold(value) in word:
        return word[fold(value)]
    problems.append(Problem(path, "expected yes or no"))
    return None


def _check_file(form: File, value: Json, path: str, problems: list[Problem]) -> Json:
    if not isinstance(value, dict) or value.keys() != {"name", "media_type", "size", "digest"}:
        problems.append(Problem(path, "expected a file: upload one"))
        return None
    given = attachment_from_json(value)
    most = MAX_FILE_BYTES if form.max_bytes is None else form.max_bytes
    found = list(attachment_problems(given, path, most_bytes=most))
    problems.extend(found)
    if not found and not is_accepted(given.media_type, form.accept):
        wanted = ", ".join(form.accept)
        problems.append(Problem(path, f"a file of type {given.media_type} does not fit: expected {wanted}"))
    return given.record()


def _check_open(form: Open, value: Json, path: str, problems: list[Problem]) -> Json:
    match form.type:
        case "integer" | "number":
            return _check_number(form, value, path, problems)
        case "text":
            return _check_text(form, value, path, problems)
        case "email" | "uri" | "date" | "datetime":
            if isinstance(value, str):
                value = _check_format(form, value.strip(), path, problems)
            return _check_text(form, value, path, problems)
        case _:
            assert_never(form.type)


def _check_text(form: Open, value: Json, path: str, problems: list[Problem]) -> str | None:
    if not isinstance(value, str):
        problems.append(Problem(path, f"expected a text, got {_kind(value)}"))
        return None
    at_most = MAX_TEXT if form.max_length is None else min(form.max_length, MAX_TEXT)
    if form.min_length > 0 and not value.strip():
        problems.append(Problem(path, "an empty text is not an answer here"))
    elif len(value) < form.min_length:
        problems.append(Problem(path, f"needs at least {form.min_length} characters, has {len(value)}"))
    if len(value) > at_most:
        problems.append(Problem(path, f"may have at most {at_most} characters, has {len(value)}"))
    elif form.pattern is not None:
        try:
            _pattern(form.pattern).validate_python(value)
        except ValidationError:
            problems.append(Problem(path, f"does not match the pattern {form.pattern}"))
    return value


def _check_number(form: Open, value: Json, path: str, problems: list[Problem]) -> int | float | None:
    number = _number(value)
    if (
        number is not None
        and abs(number) > MAX_INTEGER
        and (isinstance(number, int) or form.type == "integer")
    ):
        problems.append(Problem(path, f"a whole number may be at most {MAX_INTEGER}"))
        return None
    if number is None or (form.type == "integer" and not isinstance(number, int)):
        wanted = "a whole number" if form.type == "integer" else "a number"
        problems.append(Problem(path, f"expected {wanted}, got {_kind(value)}"))
        return None
    if form.minimum is not None and number < form.minimum:
        problems.append(Problem(path, f"must be at least {form.minimum}, is {number}"))
    if form.maximum is not None and number > form.maximum:
        problems.append(Problem(path, f"must be at most {form.maximum}, is {number}"))
    return number


def _number(value: Json) -> int | float | None:
    """The number in a JSON number or a text, as a whole number if it is one."""
    if isinstance(value, str) and len(value) <= _MAX_NUMBER:
        text = value.strip()
        try:
            value = int(text) if re.fullmatch(r"[+-]?[0-9]+", text) else float(text)
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    if isinstance(value, int):
        return value
    if not math.isfinite(value):
        return None
    return int(value) if value.is_integer() and abs(value) <= MAX_INTEGER else value


def _check_format(form: Open, text: str, path: str, problems: list[Problem]) -> str:
    match form.type:
        case "email":
            if len(text) > _MAX_EMAIL or not _EMAIL.fullmatch(text):
                problems.append(Problem(path, "is not an e-mail address"))
        case "uri":
            if not _URI.fullmatch(text):
                problems.append(Problem(path, "is not an address such as https://example.com"))
        case "date":
            try:
                return date.fromisoformat(text).isoformat()
            except ValueError:
                problems.append(Problem(path, "is not a date such as 2026-11-15"))
        case _:
            try:
                moment = datetime.fromisoformat(text)
                if moment.tzinfo is not None:
                    return moment.astimezone(UTC).isoformat()
            except (ValueError, OverflowError):
                pass
            problems.append(Problem(path, "is not an instant with its offset, such as 2026-11-15T09:30Z"))
    return text


def _check_form(form: Form, value: Json, path: str, problems: list[Problem]) -> dict[str, Json] | None:
    if not isinstance(value, dict):
        problems.append(Problem(path, f"expected the fields by name, got {_kind(value)}"))
        return None
    prefix = f"{path}." if path else ""
    names = {entry.name for entry in form.fields}
    problems.extend(
        Problem(f"{prefix}{name}", "there is no such field") for name in value if name not in names
    )
    canonical: dict[str, Json] = {}
    for entry in form.fields:
        if value.get(entry.name) is not None:
            canonical[entry.name] = _check_simple(
                entry.form, value[entry.name], f"{prefix}{entry.name}", problems
            )
        elif entry.required:
            problems.append(Problem(f"{prefix}{entry.name}", "is required"))
    return canonical


def _check_approval(form: Approval, value: Json, path: str, problems: list[Problem]) -> Json:
    given = value if isinstance(value, dict) else {"decision": value}
    unknown = set(given) - {"decision", "reason", "arguments", "digest", "scope", "until"}
    problems.extend(
        Problem(_at(path, name), "there is no such part of a decision") for name in sorted(unknown)
    )
    decision = given.get("decision")
    if isinstance(decision, bool):
        decision = "approve" if decision else "deny"
    if decision not in ("approve", "deny"):
        problems.append(
            Problem(
                _at(path, "decision"),
                'expected "approve" or "deny", or an object with "decision" and "reason"',
            )
        )
    reason = given.get("reason")
    if reason is not None and (not isinstance(reason, str) or len(reason) > MAX_TEXT):
        problems.append(Problem(_at(path, "reason"), f"expected a text of at most {MAX_TEXT} characters"))
    canonical = {"decision": decision, "digest": form.digest}
    if reason:
        canonical["reason"] = reason
    canonical |= _check_scope(form, decision, given, path, problems)
    edits = given.get("arguments")
    if edits is not None:
        arguments = _check_edits(form, decision, edits, _at(path, "arguments"), problems)
        if arguments != form.action.arguments:
            canonical["arguments"] = arguments
            canonical["digest"] = Action(tool=form.action.tool, arguments=arguments).digest
    if given.get("digest") not in (None, form.digest, canonical["digest"]):
        problems.append(Problem(_at(path, "digest"), "the decision is about another action"))
    return canonical


def _check_scope(
    form: Approval, decision: Json, given: dict[str, Json], path: str, problems: list[Problem]
) -> dict[str, Json]:
    """How far the approval reaches; left out if it is only for this once."""
    scope, until = given.get("scope", "once"), given.get("until")
    if scope == "once":
        if until is not None:
            problems.append(Problem(_at(path, "until"), "an approval for once has no end"))
        return {}
    if decision != "approve":
        problems.append(Problem(_at(path, "scope"), "only an approval can be remembered"))
    elif scope not in form.scopes:
        problems.append(Problem(_at(path, "scope"), f"expected one of: {', '.join(form.scopes)}"))
    if until is None:
        return {"scope": scope}
    moment = _check_open(Open(type="datetime"), until, _at(path, "until"), problems)
    return {"scope": scope, "until": moment}


def _check_edits(
    form: Approval, decision: Json, edits: Json, path: str, problems: list[Problem]
) -> dict[str, Json]:
    """The action's arguments with the edits applied; only arguments that the asker made editable may differ."""
    arguments = dict(form.action.arguments)
    if decision == "deny":
        problems.append(Problem(path, "a denial cannot change arguments"))
    elif not isinstance(edits, dict):
        problems.append(Problem(path, f"expected the arguments by name, got {_kind(edits)}"))
    else:
        editable = {entry.name: entry for entry in form.editable}
        for name, value in edits.items():
            if name in editable:
                arguments[name] = _check_simple(editable[name].form, value, _at(path, name), problems)
            elif name not in arguments or arguments[name] != value:
                problems.append(Problem(_at(path, name), "this argument may not be changed"))
    return arguments


def _at(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _shown(text: str) -> str:
    return f"“{_cut(text, 80)}”" if text_problem(text) is None else "that text"


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[:longest] + "…"


def _kind(value: Json) -> str:
    names: dict[type, str] = {str: "a text", bool: "yes or no", int: "a number", float: "a number"}
    names |= {list: "a list", tuple: "a list", dict: "several fields", type(None): "nothing"}
    return names.get(type(value), type(value).__name__)

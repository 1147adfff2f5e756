"""Whatever arrives from outside, the model understands it or says what is wrong with it; nothing else."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from handraise import (
    Approval,
    Choice,
    Confirm,
    Escalation,
    Field,
    Form,
    InvalidAnswer,
    InvalidQuestion,
    MultiChoice,
    Open,
    Option,
    Question,
    Timeline,
)
from handraise.forms import (
    AnyForm,
    File,
    NotAnAnswer,
    Understood,
    coerce_choices,
    form_from_schema,
    form_to_schema,
    read_reply,
)
from handraise.model.drafting import compose
from handraise.model.forms import form_from_json, form_to_json
from handraise.model.json_values import canonical_json
from handraise.model.timelines import steps_from_json, steps_to_json
from handraise.model.validation import check_answer
from handraise.questions import Draft, Limits, QuestionOptions

NOW = datetime(2026, 11, 15, tzinfo=UTC)
ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=12)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | ANY_TEXT
    | st.binary(max_size=3)
    | st.dates()
    | st.timedeltas()
    | st.just(2**3_000)
)
JUNK = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(ANY_TEXT | st.integers(), inner, max_size=3)
        | st.tuples(inner, inner)
        | st.sets(st.integers(), max_size=2)
    ),
    max_leaves=6,
)

OPTIONS = (Option(id="0", label="Red"), Option(id="b", label="1"), Option(id="c", label="Dark  Blue"))
SIMPLE: list[Any] = [
    Choice(options=OPTIONS),
    Choice(options=OPTIONS, allow_other=True),
    MultiChoice(options=OPTIONS, at_least=0),
    MultiChoice(options=OPTIONS, at_most=2, allow_other=True),
    Open(),
    Open(min_length=0, max_length=5),
    Open(pattern=r"^\d+$"),
    Open(type="integer", minimum=-3),
    Open(type="number", maximum=1e200),
    Open(type="email", min_length=10),
    Open(type="uri", max_length=12),
    Open(type="date"),
    Open(type="date", pattern="^.{10}$"),
    Open(type="datetime"),
    Confirm(),
]
FIELDS = tuple(
    Field(name=f"f{place}", title=form.kind if place % 2 else None, form=form, required=place % 3 == 0)
    for place, form in enumerate(SIMPLE)
)
ARGUMENTS = {"n": 1, "x": 1.5, "now": True, "note": "a", "deep": {"a": {"b": {"c": [[1]]}}}}
FORMS: list[AnyForm] = [
    *SIMPLE,
    *(Form(fields=(field,)) for field in FIELDS),
    Form(fields=FIELDS),
    Form(fields=FIELDS[3:6]),
    Form(fields=tuple(field.model_copy(update={"required": False}) for field in FIELDS)),
    Approval.of("pay", ARGUMENTS, editable=["n", "x", "now", "note"]),
    Approval.of("pay", ARGUMENTS, editable=["n"], scopes=["once", "always"]),
    Approval.of("pay"),
    File(accept=("text/plain", "image/*"), max_bytes=5),
    Form(fields=(Field(name="f0", form=File()), Field(name="f1", form=Confirm()))),
]

WORDS = st.sampled_from(
    [
        *(text for option in OPTIONS for text in (option.id, option.label, option.label.upper() + " ")),
        *(
            "yes",
            "no",
            "NO ",
            "true",
            "approve",
            "deny",
            "approve.",
            "deny: because",
            "none",
            "other: mine",
            "1,2",
        ),
        *(
            "red, dark blue",
            "#2",
            "3)",
            "42",
            " -7 ",
            "1e300",
            "1e22",
            "2.50",
            "nan",
            "1_0",
            "٣",
            "+0",
            "-0.0",
        ),
        *(
            "a@b.example",
            " a@b.co      ",
            "https://example.com ",
            "mailto:x",
            "2026-11-15",
            "20261115",
            "2026-W46-7",
        ),
        *(
            "2026-11-15T09:30Z",
            "2026-11-15 09:30:00,5+01:00",
            "20261115T093000-0000",
            "f0: red\nf3: 1",
            "f4: x",
        ),
        *("open: x", "f7: 3\nopen: y", "f13: 2026-11-15T09:30Z", "f14: yes\nf14: no", ":", "f0:", "f1 : 1"),
    ]
)
NUMBERS = st.sampled_from([0, -3, 1.0, 2.5, 1e22, 1e121, 1e300, -1e300, 2**399, 2**400, 5e-324, True])
LIKELY = WORDS | NUMBERS | st.builds(lambda text: {"other": text}, WORDS | ANY_TEXT)
TYPED: dict[str, list[Any]] = {
    "text": ["no", "42", " a\n", "12345", ""],
    "integer": [42, " -2 ", 3.0, "1e22", 1e22, 1e121, 1e300, 2**399, "1_0", "٣"],
    "number": [2.5, "2.50", 1e300, -1e300, "1e300", 5e-324, -0.0, "+0", 1e22],
    "email": ["a@b.example", " a@b.co      ", "ana@example.com"],
    "uri": ["https://example.com ", " mailto:x", "a:b"],
    "date": ["2026-11-15", " 20261115", "2026-W46-7"],
    "datetime": ["2026-11-15T09:30Z", "2026-11-15 09:30:00,5+01:00", "20261115T093000-0000"],
}


def fitting(form: AnyForm) -> st.SearchStrategy[Any]:
    """Answers that fit the form, or nearly."""
    match form:
        case Choice() | MultiChoice():
            names = [
                text for option in form.options for text in (option.id, option.label, option.label.upper())
            ]
            one = st.sampled_from(names) | st.builds(lambda text: {"other": text}, ANY_TEXT)
            return one if isinstance(form, Choice) else st.lists(one, max_size=3)
        case Open():
            return st.sampled_from(TYPED[form.type])
        case Confirm():
            return st.sampled_from([True, False, "yes", " NO ", "true"])
        case File():
            sizes = st.sampled_from([0, 3, -1, True, 10**7, 10**8, "3"])
            file_names = st.sampled_from(["a.pdf", "..", "a/b", ""]) | ANY_TEXT
            digests = st.sampled_from(["0" * 64, "", "x"])
            types = st.sampled_from(["text/plain", "image/png", "x"])
            return st.fixed_dictionaries(
                {"name": file_names, "media_type": types, "size": sizes, "digest": digests}
            )
        case Form():
            return st.fixed_dictionaries(
                {field.name: fitting(field.form) for field in form.fields if field.required},
                optional={
                    field.name: fitting(field.form) | st.none() for field in form.fields if not field.required
                },
            )
        case Approval():
            edits = {field.name: fitting(field.form) for field in form.editable}
            return st.fixed_dictionaries(
                {"decision": st.sampled_from(["approve", True, "deny"])},
                optional={
                    "reason": ANY_TEXT,
                    "digest": st.sampled_from([form.digest, "0" * 64]),
                    "scope": st.sampled_from(["once", *form.scopes]),
                    "until": st.sampled_from(TYPED["datetime"]),
                    "arguments": st.fixed_dictionaries(
                        {}, optional={**edits, "deep": st.just(ARGUMENTS["deep"])}
                    ),
                },
            )


FORMS_AND_ANSWERS = st.sampled_from(FORMS).flatmap(
    lambda form: st.tuples(st.just(form), fitting(form) | fitting(form) | LIKELY | JUNK)
)


def draft_of(form: AnyForm) -> Draft:
    return compose("What?", {"form": form}, new_id="q", workspace="w", asker="agent", limits=Limits())


@given(FORMS_AND_ANSWERS)
def test_any_answer_is_canonical_and_fits_again_or_is_invalid(given: tuple[AnyForm, Any]) -> None:
    form, value = given
    draft_of(form)
    try:
        canonical = check_answer(form, value)
    except InvalidAnswer:
        return
    assert check_answer(form, canonical) == canonical
    assert canonical_json(check_answer(form, canonical)) == canonical_json(canonical)


@given(st.sampled_from(FORMS), WORDS | ANY_TEXT | st.lists(WORDS, max_size=4).map("\n".join))
def test_any_reply_is_understood_canonically_or_not_an_answer(form: AnyForm, text: str) -> None:
    reply = read_reply(draft_of(form), text)
    if isinstance(reply, Understood):
        assert check_answer(form, reply.value) == reply.value
    else:
        assert isinstance(reply, NotAnAnswer)
        assert reply.reason


@given(ANY_TEXT, st.sampled_from(["yes", "Approve", "approved", "Y", ""]), ANY_TEXT | WORDS)
def test_an_approval_is_one_of_its_words_and_no_other_letter(before: str, word: str, after: str) -> None:
    text = before + word + after
    reply = read_reply(draft_of(Approval.of("pay")), text)
    if isinstance(reply, Understood) and reply.value["decision"] == "approve":
        letters = "".join(filter(str.isalnum, text)).casefold()
        assert letters in {"approve", "approved", "yes", "y"}


LABEL_KEYS = st.sampled_from(
    ["label", "description", "text", "title", "name", "value", "id", "choices", "options"]
)


@given(JUNK | st.lists(JUNK | st.dictionaries(LABEL_KEYS, JUNK)) | st.dictionaries(LABEL_KEYS, JUNK))
def test_any_choices_become_readable_options_without_doubles(raw: Any) -> None:
    options = coerce_choices(raw)
    assert all(option.id.strip() and option.label.strip() for option in options)
    folded = [" ".join(option.label.casefold().split()) for option in options]
    assert len(set(folded)) == len(folded)
    assert coerce_choices([option.model_dump() for option in options]) == options


SPANS = st.timedeltas() | st.timedeltas(timedelta(seconds=1), timedelta(days=30)) | JUNK


class Later:
    """A timeline or an escalation to be made within the test: what cannot be meant is refused as it is made."""

    def __init__(self, **values: Any) -> None:
        self.values = values

    def __repr__(self) -> str:
        return f"Later({self.values})"


def made_now(value: Any) -> Any:
    if not isinstance(value, Later):
        return value
    given: dict[str, Any] = {
        name: tuple(map(made_now, each)) if isinstance(each, tuple) else each
        for name, each in value.values.items()
    }
    return Escalation(**given) if "after" in given else Timeline(**given)


QUESTION_OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "choices": JUNK | st.lists(ANY_TEXT | st.sampled_from(OPTIONS), max_size=4),
        "form": JUNK | st.sampled_from(FORMS) | st.sampled_from([int, list[int], date, Form, Confirm]),
        "context": JUNK,
        "state": JUNK,
        "key": JUNK | st.just("k"),
        "conversation": JUNK,
        "tool_call": JUNK,
        "recipients": JUNK
        | st.lists(st.sampled_from(["ana", "agent", "group:ops", "group:", ""]), max_size=3),
        "quorum": JUNK | st.integers(0, 3),
        "veto": JUNK | st.booleans(),
        "max_attempts": JUNK | st.integers(0, 3),
        "expires_in": SPANS,
        "timeline": JUNK
        | st.builds(
            Later,
            remind=JUNK | st.tuples(SPANS),
            escalate=JUNK | st.tuples(st.builds(Later, after=SPANS, to=JUNK | st.just(("zoe",)))),
            expire=st.none() | SPANS,
            default=st.none() | LIKELY | JUNK,
        ),
    },
)
ONE_OPTION = QUESTION_OPTIONS.flatmap(
    lambda options: st.sampled_from([{name: options[name]} for name in options] or [{}])
)


@given(st.just("What?") | ANY_TEXT | JUNK, QUESTION_OPTIONS | ONE_OPTION)
def test_any_question_can_be_stored_or_cannot_be_asked(prompt: Any, options: dict[str, Any]) -> None:
    try:
        draft = compose(
            prompt,
            cast("QuestionOptions", {name: made_now(value) for name, value in options.items()}),
            new_id="q",
            workspace="w",
            asker="agent",
            limits=Limits(),
        )
    except InvalidQuestion:
        return
    assert form_to_json(form_from_json(form_to_json(draft.form))) == form_to_json(draft.form)
    assert steps_from_json(steps_to_json(draft.steps)) == draft.steps
    question = Question(**{name: getattr(draft, name) for name in Draft.__dataclass_fields__}, asked_at=NOW)
    assert (question.due_at is None) == (not draft.steps)
    assert question.expires_at is None or question.expires_at > NOW
    stored = [draft.prompt, draft.context, draft.state, draft.key, draft.conversation, draft.tool_call]
    assert canonical_json([*stored, list(draft.recipients), steps_to_json(draft.steps)]).encode()
    assert draft.definition


KEYWORDS = [
    *(
        "type",
        "title",
        "description",
        "default",
        "format",
        "minLength",
        "maxLength",
        "pattern",
        "enum",
        "enumNames",
    ),
    *(
        "oneOf",
        "anyOf",
        "allOf",
        "const",
        "items",
        "minItems",
        "maxItems",
        "minimum",
        "maximum",
        "$ref",
        "writeOnly",
    ),
    *("exclusiveMinimum", "exclusiveMaximum", "properties", "required"),
]
VALUES = JUNK | st.sampled_from(
    [
        *("string", "integer", "number", "boolean", "array", "object", "null", "email", "date", "#/$defs/a"),
        *(
            ["a", "b"],
            ["A", "B"],
            [{"const": "a", "title": "A"}, {"const": "b"}],
            [{"const": "a"}, {"type": "null"}],
        ),
        *(
            {"enum": ["a"]},
            {"anyOf": [{"const": "a", "title": ""}]},
            [{"$ref": "#/$defs/b"}],
            {"$ref": "#/$defs/a"},
        ),
        *(0, 3, 2.5, True, "^a$"),
    ]
)
PLAUSIBLE = st.sampled_from(
    [
        {"type": "string"},
        {"type": "string", "format": "date", "minLength": 0},
        {"type": "integer", "minimum": 1, "exclusiveMaximum": 9.5},
        {"type": "number", "exclusiveMinimum": 0},
        {"type": "boolean", "default": True},
        {"type": "string", "enum": ["a", "b"], "enumNames": ["A", "B"]},
        {"type": "string", "oneOf": [{"const": "a", "title": "A"}, {"const": "b"}]},
        {"type": "array", "items": {"anyOf": [{"const": "a", "title": "A"}, {"const": "b"}]}, "maxItems": 1},
        {"anyOf": [{"type": "integer"}, {"type": "null"}], "title": "N"},
        {"$ref": "#/$defs/a"},
    ]
)
CHANGES = st.dictionaries(st.sampled_from(KEYWORDS), VALUES, max_size=2)
PARTS = PLAUSIBLE | st.builds(lambda part, changes: {**part, **changes}, PLAUSIBLE, CHANGES) | JUNK
PROPERTIES = st.dictionaries(st.sampled_from(["a", "b", "ü", ""]) | ANY_TEXT, PARTS, max_size=3)
SCHEMAS = st.builds(
    lambda properties, some, rest: {"required": [*properties][:some], **rest, "properties": properties},
    PROPERTIES,
    st.integers(0, 3),
    st.fixed_dictionaries(
        {"type": st.just("object"), "$defs": st.fixed_dictionaries({"a": PARTS, "b": PARTS})},
        optional={"required": st.lists(ANY_TEXT, max_size=2) | JUNK},
    ),
)


@given(SCHEMAS | st.dictionaries(st.sampled_from(KEYWORDS) | ANY_TEXT, VALUES))
def test_any_schema_becomes_a_form_that_goes_there_and_back_or_is_refused(schema: dict[str, Any]) -> None:
    try:
        form = form_from_schema(schema)
    except InvalidQuestion:
        return
    assert repr(form_from_schema(form_to_schema(form))) == repr(form)

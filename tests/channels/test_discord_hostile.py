"""Whatever an agent or a person writes stays text: no mention, link, format or button comes of it."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from handraise import Approval
from handraise.channels.discord.api import message_of, text_message
from handraise.channels.discord.markup import bold, escaped, literal, quoted, quoted_start
from handraise.channels.discord.messages import (
    Rendered,
    render_bundle,
    render_confirmation,
    render_outcome,
    render_question,
)
from handraise.channels.discord.modals import answer_modal, can_be_filled_in, reason_modal
from handraise.channels.discord.references import build_reference, has_room, parse_reference
from handraise.model.forms import AnyForm, Choice, Confirm, Field, Form, MultiChoice, Open, Option
from handraise.model.outcomes import Answered, Declined, Returned, Withdrawn
from handraise.model.questions import Question
from handraise.model.visible import visible
from handraise.ports.channel import Message, Notice
from handraise.testing.contract.channel import AT, a_question
from handraise.testing.contract.channel import settled as ended
from tests.channels.discord_rules import (
    SUPPRESS_EMBEDS,
    check_message,
    check_modal,
    elements_in,
    seen,
)
from tests.samples import OTHER_LETTERS, hostile, with_slow
from tests.server.inbox.hostile import NAMES, TEXTS

LINK = "https://desk.example/questions/q-1"
LIVE = [
    *(
        "**b**",
        "*i*",
        "_i_",
        "__u__",
        "~~s~~",
        "||hidden||",
        "`c`",
        "``c``",
        "```\nc\n```",
        "```py\nc```",
        "***x***",
    ),
    *(
        "> quote",
        ">>> quote",
        "# Big",
        "## Big",
        "### Big",
        "-# small",
        "- item",
        "* item",
        "1. item",
        "  - item",
    ),
    *(
        "<@123>",
        "<@!123>",
        "<@&123>",
        "<#123>",
        "</cmd:123>",
        "</a b:123>",
        "<:xx:123>",
        "<a:xx:123>",
        "<t:1>",
    ),
    *("<t:1:R>", "@everyone", "@here", ":tada:", "<id:customize>", "[Approve](https://evil.example)"),
    *("[a](<https://evil.example>)", "https://evil.example", "http://evil.example/x?y=(z)", "steam://run/1"),
    *(
        "<https://evil.example>",
        "<tel:+123>",
        "\\\\**b**",
        "a\\\n**b**",
        "**a\n> b**",
        "- \n- x",
        "**\u202eb**",
        "x\r\n# y",
    ),
]
"""What Discord makes something of."""
INERT = [
    *(
        "\\",
        "\\*b*",
        "text **b",
        "[x",
        "`",
        "``",
        "|",
        "a_b_c",
        ">",
        "1.",
        "12) x",
        "+ item",
        "discord.gg/x",
        "\u200b# x",
    ),
    *("¯\\_(ツ)_/¯", "\t- x"),
]
"""What it makes nothing of, but might where somebody escapes carelessly."""
MARKUP = [*LIVE, *INERT]


def notice(question: Question) -> Notice:
    return Notice(delivery_id="d", question=question, reason="escalated", link=LINK)


def message(*questions: Question) -> Message:
    notices = list(map(notice, questions))
    return Message(id="d", workspace="w", channel="discord", recipient="ann", to=None, at=AT, notices=notices)


def safe(rendered: Rendered) -> str:
    """What people see of a message; fails where something in it is more than text."""
    body = message_of(rendered)
    check_message(body, flags=SUPPRESS_EMBEDS)
    found = seen(rendered.content)
    assert found.suspicious == [], rendered.content
    assert {what for kind, what in found.marks if kind == "link"} <= {LINK}
    labels = [each.get("label", "") for each in elements_in(body["components"])]
    assert found.text == visible(found.text)
    assert labels == [visible(each) for each in labels]
    return found.text


@pytest.mark.parametrize("text", MARKUP)
def test_the_stand_in_reads_markup_and_we_escape_it(text: str) -> None:
    shown = visible(text)
    for made, expected in (
        (escaped(text), shown),
        (quoted(text), "\n".join(f"│ {line}" for line in shown.split("\n"))),
        (bold(text), " ".join(shown.split()) if "\n" not in text else None),
    ):
        found = seen(made)
        assert [kind for kind, _ in found.marks if kind not in ("quote", "strong")] == []
        assert expected is None or found.text.split() == expected.split()
    box = seen(literal(f"{text}\n"))
    assert [kind for kind, _ in box.marks] == ["code block"]


@pytest.mark.parametrize("text", LIVE)
def test_the_stand_in_sees_what_is_more_than_text(text: str) -> None:
    assert seen(text.replace("\r", "")).marks


def forms(text: str, name: str) -> Iterator[AnyForm]:
    """Every place where an agent can write something."""
    option = Option(id=name, label=name, description=text[:500])
    yield Choice(options=(option, Option(id="b", label="b")), allow_other=True)
    yield MultiChoice(options=(option, Option(id="b", label="b")))
    yield Form(
        fields=(
            Field(name=name, form=Open(), title=name, description=text[:500], default=text),
            Field(name="one", form=Choice(options=(Option(id=name, label=name),)), default=name),
            Field(name="some", form=MultiChoice(options=(Option(id=name, label=name),)), default=[name]),
        )
    )
    yield Approval.of(name, {name: text, "list": [text, {"deep": text}]})


def pairs(shard: int) -> Iterator[tuple[str, str]]:
    """A quarter of all texts, each with a name."""
    for place in hostile(TEXTS, range(shard, len(TEXTS), 4), 8):
        yield TEXTS[place], NAMES[place]
    for text in MARKUP[shard::4]:
        yield text, text


@pytest.mark.parametrize("shard", range(4))
def test_nothing_that_an_agent_writes_is_more_than_text(shard: int) -> None:
    for text, name in pairs(shard):
        for form in forms(text, name or "x"):
            question = a_question(form, prompt=text, asker=name or "x", context={"x": text})
            seen_text = safe(render_question(notice(question)))
            assert "zqxj" in seen_text or "zqxj" not in text
            for modal in (
                reason_modal(question, "reason" if isinstance(form, Approval) else "decline"),
                *(
                    [answer_modal(question)]
                    if not isinstance(form, Approval) and can_be_filled_in(question)
                    else []
                ),
            ):
                check_modal(modal)
                for part in modal["components"]:
                    assert seen(part.get("content", "")).suspicious == []
            for verb in {"choice": ["option-0"], "approval": ["approve", "deny"]}.get(form.kind, []):
                safe(render_confirmation(question, verb))
        several = a_question(prompt=text, asker=name or "x")
        safe(render_bundle(message(several, several)))


@pytest.mark.parametrize("shard", range(4))
def test_nothing_that_a_person_answers_is_more_than_text(shard: int) -> None:
    for text, name in pairs(shard):
        for form, value in ((Open(), text), (Choice.of("a", allow_other=True), {"other": text})):
            safe(render_outcome(ended(a_question(form), Answered(value=value, at=AT, by=name or "x"))))
        approval = Approval.of("pay", {"e": "x"}, editable=["e"])
        for outcome in (
            Answered(value={"decision": "deny", "reason": text}, at=AT, by="ann"),
            Answered(value={"decision": "approve", "arguments": {"e": text}}, at=AT, by="ann"),
            Declined(at=AT, by=name or "x", reason=text),
            Returned(at=AT, by=name or "x", reason=text),
            Withdrawn(at=AT, by=name or "x", reason=text),
        ):
            safe(render_outcome(ended(a_question(approval, prompt=text), outcome)))
        assert seen(text_message(text)["content"]).suspicious == []


LETTERS = with_slow(
    ["x", "字", "🙂", "&", "<", "*", "`", "\u202e", "\n", '"', "\\", "\x1b", "\n-", "1."],
    "🙂",
    "*",
    "\u202e",
    "\\",
    reason=OTHER_LETTERS,
)


@pytest.mark.parametrize("letter", LETTERS)
def test_whatever_the_letters_are_it_is_not_too_long(letter: str) -> None:
    long = letter * 10_000
    label = f"{letter * 200}."
    for form in (
        Choice(options=tuple(Option(id=str(n), label=f"{label}{n}", description=label) for n in range(20))),
        Choice(options=tuple(Option(id=str(n), label=f"{label}{n}") for n in range(4))),
        Choice(options=tuple(Option(id=str(n), label=f"{n}{letter}") for n in range(100))),
        MultiChoice(options=tuple(Option(id=str(n), label=f"{label}{n}") for n in range(100))),
        Form(fields=tuple(Field(name=f"{label}{n}", form=Open(), description=label) for n in range(50))),
        Form(fields=(Field(name="x", form=Open(), title=label, description=label, default=long),)),
        Approval.of(letter * 200, {"x": letter * 500}),
        Approval.of(letter * 200, {"x": long}),
    ):
        question = a_question(form, prompt=long, asker=letter * 200)
        safe(render_question(notice(question)))
        safe(render_bundle(message(*[question] * 60)))
        if not isinstance(form, Approval):
            check_modal(reason_modal(question, "decline"))
            if can_be_filled_in(question):
                check_modal(answer_modal(question))
        for outcome in (Answered(value=long, at=AT, by="ann"), Declined(at=AT, by="ann", reason=long)):
            safe(render_outcome(ended(question, outcome)))
    check_message(text_message(long + "x"), flags=SUPPRESS_EMBEDS)
    for most in range(0, 60, 7):
        assert len(quoted_start(long, most)[0]) <= max(most, 12)


def verbs(question: Question) -> list[str]:
    rows = render_question(notice(question)).rows
    return [each["custom_id"].partition(" ")[0] for each in elements_in(rows)]


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        (Choice.of(*(f"Option {n}" for n in range(25))), ["select", "send_back", "decline"]),
        (Choice.of(*(f"Option {n}" for n in range(26))), ["send_back", "decline"]),
        (Choice.of(*("long " * 90 + str(n) for n in range(5))), ["send_back", "decline"]),
        (MultiChoice.of(*(f"Option {n}" for n in range(26))), ["send_back", "decline"]),
        (
            Form(fields=tuple(Field(name=f"n{n}", form=Open()) for n in range(5))),
            ["answer", "send_back", "decline"],
        ),
        (Form(fields=tuple(Field(name=f"n{n}", form=Open()) for n in range(6))), ["send_back", "decline"]),
        (
            Form(fields=tuple(Field(name=f"n{n}", form=Choice.of("a", allow_other=True)) for n in range(3))),
            ["send_back", "decline"],
        ),
        (Form(fields=(Field(name="n", form=Choice.of("a" * 101, "b")),)), ["send_back", "decline"]),
        (
            Form(fields=(Field(name="n", form=Choice.of(Option(id="a", label="a", description="x" * 101))),)),
            ["send_back", "decline"],
        ),
        (
            Form(fields=tuple(Field(name=f"n{n}", form=Open(), title="t" * 290) for n in range(5))),
            ["answer", "send_back", "decline"],
        ),
        (
            Form(fields=tuple(Field(name=f"n{n}", form=Open(), title="*" * 290) for n in range(5))),
            ["send_back", "decline"],
        ),
        (Approval.of("write", {"text": "x" * 1_000}), ["?approve", "deny", "reason", "note", "send_back"]),
        (Approval.of("write", {"text": "x" * 1_900}), []),
    ],
)
def test_only_what_is_seen_in_full_can_be_pressed(form: AnyForm, expected: list[str]) -> None:
    question = a_question(form)
    assert [each for each in verbs(question) if each != "aside"] == expected
    assert ("inbox." in safe(render_question(notice(question)))) is (
        expected in (["send_back", "decline"], [])
    )


@pytest.mark.parametrize(
    ("changes", "room"),
    [
        ({"workspace": "w" * 40}, True),
        ({"workspace": "w" * 90}, False),
        ({"workspace": "🙂" * 50}, False),
        ({"workspace": "a b  c"}, True),
        ({"id": "0190f0c0-0000-7000-8000-000000000001", "workspace": "w" * 40}, True),
        ({"id": "an id with spaces"}, False),
        ({"id": "A" * 22}, False),
        ({"id": "x" * 90}, False),
    ],
)
def test_what_has_no_room_for_its_question_cannot_be_pressed(changes: dict[str, str], room: bool) -> None:  # noqa: FBT001 -- a table
    for form in (Confirm(), Open()):
        question = a_question(form, **changes)
        assert has_room(question) is room
        assert bool(verbs(question)) is room
        if room:
            place = build_reference(question, "yes")
            assert parse_reference(place.text) == place


def test_a_text_that_is_cut_says_so() -> None:
    question = a_question(prompt="word " * 1_000)
    text = safe(render_question(notice(question)))
    assert re.search(
        r"w?o?r?d? \[…\]\nThe text is longer, 5000 characters: all of it is in the inbox\.", text
    )
    assert re.search(r"│ (word ){200}", text)

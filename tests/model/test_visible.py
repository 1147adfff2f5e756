import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handraise import Approval, Choice
from handraise.model.forms import AnyForm
from handraise.model.questions import Draft
from handraise.model.visible import visible, visible_line
from handraise.presentation.plain_text import plain_text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Deploy to prod?", "Deploy to prod?"),
        ("Grüße, Zoë 你好 ✋", "Grüße, Zoë 你好 ✋"),
        ("a\x1b[2Jb", "a‹U+001B›[2Jb"),
        ("a\x9b31mb", "a‹U+009B›31mb"),
        ("pay\u202etxt.exe", "pay‹U+202E›txt.exe"),
        ("a\u2066b\u2069", "a‹U+2066›b‹U+2069›"),
        ("ap\u200bprove", "ap‹U+200B›prove"),
        ("\U000e0041", "‹U+E0041›"),
        ("\u3164", "‹U+3164›"),
        ("a\tb", "a    b"),
        ("a\rb", "a‹U+000D›b"),
        ("\ud800", "‹U+D800›"),
        ("e" + "\u0301" * 6, "e" + "\u0301" * 4 + "‹U+0301›‹U+0301›"),
        ("👩\u200d💻", "👩\u200d💻"),
        ("a\u200db", "a‹U+200D›b"),
        ("🚀\u200d🍕", "🚀‹U+200D›🍕"),
        ("👩^\u200d💻", "👩^‹U+200D›💻"),
        ("💻\u200d👩", "💻‹U+200D›👩"),
        ("👩\u200d\u200d💻", "👩‹U+200D›‹U+200D›💻"),
        ("25\u00a0000\u202f€", "25‹U+00A0›000‹U+202F›€"),
        ("\U0001d159", "‹U+1D159›"),
        ("❤\ufe0f ☎\ufe0f 1\ufe0f\u20e3 ©\ufe0f ↔\ufe0f", "❤\ufe0f ☎\ufe0f 1\ufe0f\u20e3 ©\ufe0f ↔\ufe0f"),
        ("❤\ufe0f\ufe0f", "❤\ufe0f‹U+FE0F›"),
        ("a\ufe0f 1\ufe0f °\ufe0f", "a‹U+FE0F› 1‹U+FE0F› °‹U+FE0F›"),
        ("❤\ufe0e", "❤‹U+FE0E›"),
        ("\ufe0f", "‹U+FE0F›"),
        ("", ""),
    ],
)
def test_what_cannot_be_seen_is_shown(text: str, shown: str) -> None:
    assert visible(text) == visible_line(text) == shown


DEFAULT_IGNORABLE = (
    "AD 34F 61C 115F-1160 17B4-17B5 180B-180F 200B-200F 202A-202E 2060-206F 3164 FE00-FE0F FEFF FFA0 FFF0-FFF8 "
    "1BCA0-1BCA3 1D173-1D17A E0000-E0FFF"
)
"""Default_Ignorable_Code_Point of Unicode 17: what a font shows as nothing."""


def test_every_character_that_fonts_leave_out_is_shown_by_its_number() -> None:
    for span in DEFAULT_IGNORABLE.split():
        first, _, last = span.partition("-")
        for number in range(int(first, 16), int(last or first, 16) + 1):
            assert visible_line(f"a{chr(number)}b") == f"a‹U+{number:04X}›b"


@pytest.mark.parametrize(
    "emoji",
    [
        "👩\u200d💻",
        "👩🏽\u200d⚕️",
        "🏳️\u200d🌈",
        "🏳️\u200d⚧️",
        "🏴\u200d☠️",
        "👨\u200d👩\u200d👧\u200d👦",
        "👩\u200d❤️\u200d💋\u200d👨",
        "🧑🏻\u200d❤️\u200d🧑🏿",
        "🧑\u200d🤝\u200d🧑",
        "🤷🏼\u200d♀️",
        "🕵️\u200d♂️",
        "🏃\u200d♀️\u200d➡️",
        "🧑\u200d🦽\u200d➡️",
        "👁️\u200d🗨️",
        "❤️\u200d🔥",
        "❤️\u200d🩹",
        "😮\u200d💨",
        "😵\u200d💫",
        "😶\u200d🌫️",
        "🐕\u200d🦺",
        "🐈\u200d⬛",
        "🐦\u200d⬛",
        "🐦\u200d🔥",
        "🐻\u200d❄️",
        "🍋\u200d🟩",
        "🍄\u200d🟫",
        "⛓️\u200d💥",
        "🙂\u200d↔️",
        "🙂\u200d↕️",
        "🧑\u200d🎄",
        "👨\u200d🦰",
        "🧑\u200d🧑\u200d🧒",
        "🧔\u200d♂️",
        "⛹🏾\u200d♀️",
    ],
)
def test_an_emoji_of_several_stays_whole(emoji: str) -> None:
    assert visible_line(f"a {emoji} b") == f"a {emoji} b"


def test_every_blank_but_the_usual_one_is_shown_by_its_number() -> None:
    blanks = [chr(number) for number in range(0x110000) if unicodedata.category(chr(number)) == "Zs"]
    assert [blank for blank in blanks if visible_line(f"a{blank}b") == f"a{blank}b"] == [" "]


def test_line_breaks_stay_unless_there_is_one_line() -> None:
    assert visible("a\r\nb\nc") == "a\nb\nc"
    assert visible_line("a\r\nb") == "a‹U+000D›‹U+000A›b"
    assert visible("a\u2028b") == "a‹U+2028›b"


@given(st.text(st.characters(), max_size=200))
def test_nothing_that_is_shown_can_move_a_cursor_or_hide(text: str) -> None:
    for each in visible_line(text):
        assert each == "\u200d" or unicodedata.category(each) not in (
            "Cc",
            "Cf",
            "Cs",
            "Co",
            "Cn",
            "Zl",
            "Zp",
            *(["Zs"] if each != " " else []),
        )
    assert set(visible(text)) - set(visible_line(text.replace("\n", ""))) <= {"\n", *"‹U+›0123456789ABCDEF"}


def test_a_question_as_plain_text_shows_what_is_unseen() -> None:
    question = drafted_question(prompt="Ship\u202e?", form=Choice.of("a\u200b", "b\n2. forged"))
    assert plain_text(question) == "Ship‹U+202E›?\n1. a‹U+200B›\n2. b‹U+000A›2. forged"
    approval = Approval.of("drop\nApproved", {"name\u202e": "x"})
    assert "drop‹U+000A›Approved" in plain_text(drafted_question(form=approval))
    assert "\u202e" not in plain_text(drafted_question(form=approval))


def drafted_question(*, prompt: str = "?", form: AnyForm) -> Draft:
    return Draft(id="q", workspace="w", asker="bot", prompt=prompt, form=form)

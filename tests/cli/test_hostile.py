"""Nothing that an agent writes moves the cursor, hides or reorders anything at a terminal."""

from __future__ import annotations

import asyncio
import re
import shlex
import sys
import unicodedata
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeVar

import pyte
import pytest

from handraise import Approval, Choice, Desk, Field, Form, Open, Option, Question, open_desk
from handraise.cli.question_context import QuestionContext
from handraise.cli.question_view import StyledLine, form_lines, question_lines
from handraise.desk.local_desk import LocalDesk
from handraise.model.visible import visible, visible_line
from handraise.testing import ManualClock
from support.terminal import CTRL_C, Screen, at_terminal
from tests.samples import hostile
from tests.server.inbox.hostile import MARK, TEXTS
from tests.tiers import drawn as some

T = TypeVar("T")
Spell = Callable[[str], str]

EVIL = "evil\u202e\x1b[2J\x1b[907Abot"
SPELT = "evil‹U+202E›‹U+001B›[2J‹U+001B›[907Abot"
BARS = ("│", "┃")
ROWS, COLUMNS = 24, 80
LONG_AGO = datetime.now(UTC) - timedelta(days=3, hours=12)
"""Whatever takes its time here is asked `3 d ago`."""
PART = 100
"""So many texts go into one question: no more would fit."""
BYTES = [each for each in TEXTS if "\x1b" in each or any("\x7f" <= one <= "\x9f" for one in each)][:PART]
"""Those that begin a sequence."""


@pytest.fixture
def store(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'questions.db'}"


def at_desk(store: str, work: Callable[[Desk], Awaitable[T]], asker: str = "bot") -> T:
    async def inside() -> T:
        async with open_desk(store, asker=asker, clock=ManualClock(LONG_AGO)) as desk:
            return await work(desk)

    return asyncio.run(inside())


def is_harmless(text: str) -> bool:
    """Whether every character has a width and a place of its own."""
    return all(
        unicodedata.category(each) not in {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"} or each == "\u200d"
        for each in text
    )


@pytest.mark.parametrize("width", [20, 80])
def test_no_text_of_an_agent_draws_anything_unseen_or_leaves_its_bar(width: int) -> None:
    assert len(set(TEXTS)) >= 300

    async def draw(desk: Desk) -> None:
        ours = [await drawn(desk, "harmless", width, place) for place in range(3)]
        for text in (TEXTS[each] for each in hostile(TEXTS, range(len(TEXTS)), 40)):
            for place, expected in enumerate(ours):
                lines = await drawn(desk, text, width, place)
                assert all(is_harmless(each) for each in lines), text
                # Whatever has no bar in front of it is said by us, so it is the same whatever the agent writes.
                assert unbarred(lines) == unbarred(expected), text

    asyncio.run(_in_memory(draw))


async def drawn(desk: Desk, text: str, width: int, place: int) -> list[str]:
    """The lines of a question that has a text wherever there is room for one."""
    line = text.replace("\n", " ")[:200]
    choice = Choice(options=(Option(id="a", label=line, description=line), Option(id="b", label="B")))
    forms = (
        choice,
        Form(fields=(Field(name=line, title=line, description=line, form=choice),)),
        Approval.of("pay", {line: text, "list": [text, {line: text}]}, editable=[line]),
    )
    context = {"value": text, "list": [text], line: 1}
    question = await desk.post(
        text,
        form=forms[place],
        context=context,
        conversation=line,
        recipients=["ada", line],
        replies="program",
    )
    await desk.ask_back(question.id, text, by="ada")
    await desk.reply(question.id, text)
    await desk.note(question.id, text, by="ada")
    lines = [
        *question_lines(question, width, QuestionContext(await desk.history(question.id))),
        *form_lines(question.form, width),
    ]
    return [said(each) for each in lines]


def said(line: StyledLine) -> str:
    return "".join(text for _, text in line)


def unbarred(lines: Sequence[str]) -> str:
    """What has no bar in front of it, without the question's number, which is broken where a line ends."""
    words = "".join("".join(each for each in lines if not each.startswith(BARS)).split())
    return re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}", "ID", words)


async def _in_memory(work: Callable[[Desk], Awaitable[None]]) -> None:
    async with open_desk("memory:", asker="bot") as desk:
        await work(desk)


def corpus(texts: Sequence[str], spell: Spell) -> Callable[[Desk], Awaitable[list[Question]]]:
    """Questions that hold these texts as prompt, context, option, field and argument, as `spell` spells them."""

    async def post(desk: Desk) -> list[Question]:
        asked: list[Question] = []
        names: list[str] = []
        for start in range(0, len(texts), PART):
            part = texts[start : start + PART]
            spelt = [spell(each) for each in part]
            names = [f"{place} {spell(name_of(each))}" for place, each in enumerate(part)]
            half = len(spelt) // 2
            fields = tuple(
                Field(name=f"f{place}", title=one[:500], description=two, form=_two(one, two))
                for place, (one, two) in enumerate(zip(names[::2], names[1::2], strict=False))
            )
            # A value on one line is written as JSON, which has a spelling of its own for the first controls.
            values = [
                f"{each}\n" if re.search(r"[\x00-\x1f]", text) else each
                for each, text in zip(spelt, part, strict=True)
            ]
            arguments = dict(zip(names, values, strict=True))
            asked += [
                await desk.post("\n".join(spelt[:half]), form=Form(fields=fields), context=arguments),
                await desk.post("\n".join(spelt[half:]), form=Approval.of("run", arguments)),
            ]
        options = tuple(Option(id=str(place), label=each[:500]) for place, each in enumerate(names[:20]))
        return [*asked, await desk.post("Which?", form=Choice(options=options))]

    return post


def _two(one: str, two: str) -> Choice:
    return Choice(options=(Option(id="1", label=one[:500]), Option(id="2", label=two[:500])))


def name_of(text: str) -> str:
    """As much of a text as fits a name also when it is spelt."""
    line = text.replace("\n", " ")
    return line if len(visible_line(line)) <= 180 else line[:20]


def spelt(text: str) -> str:
    """What a text looks like on a screen, written without anything unseen. A tab in JSON stays one."""
    return "\t".join(map(visible, text.split("\t")))


@pytest.fixture
def _nobody_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bytes are enough: a screen made of hundreds of pages takes its time."""
    monkeypatch.setattr(pyte.ByteStream, "feed", lambda *_: None)


@pytest.mark.usefixtures("_nobody_looks")
def test_a_hostile_question_and_its_harmless_spelling_are_shown_by_the_same_bytes(tmp_path: Path) -> None:
    shown, texts = [], some(TEXTS, PART)
    for name, spell in (("raw", str), ("spelt", spelt)):
        store = f"sqlite:///{tmp_path / name}.db"
        asked = at_desk(store, corpus(texts, spell))
        with at_terminal(url=store, shell=one_by_one(["show", each.id] for each in asked)) as screen:
            assert screen.end() == 0
            assert screen.raw.count(MARK.encode()) > 7 * len(texts)
            shown.append(without_numbers(screen.raw).split(b"\n"))
    assert shown[0] == shown[1]


@pytest.mark.usefixtures("_nobody_looks")
@pytest.mark.slow("asks a thousand questions; the gate compares the bytes of `show`")
def test_names_of_agents_and_conversations_are_listed_by_the_same_bytes(tmp_path: Path) -> None:
    shown = []
    for kind, spell in (("raw", str), ("spelt", spelt)):
        store = f"sqlite:///{tmp_path / kind}.db"
        at_desk(store, ask_as_each(spell))
        with at_terminal("list", url=store) as screen:
            assert screen.end() == 0
            assert screen.raw.count(b"as a name") == len(TEXTS)
            shown.append(without_numbers(screen.raw).split(b"\n"))
    assert shown[0] == shown[1]


def ask_as_each(spell: Spell) -> Callable[[Desk], Awaitable[None]]:
    async def ask(desk: Desk) -> None:
        assert isinstance(desk, LocalDesk)
        names = [spell(name_of(text)) for text in TEXTS]
        asking = [desk.scoped("default", asker=each).post("as a name", conversation=each) for each in names]
        await asyncio.gather(*asking)

    return ask


def without_numbers(raw: bytes) -> bytes:
    """What was sent, without the numbers of questions."""
    return re.sub(rb"[0-9a-f]{8}-[0-9a-f-]{27}", b"", raw)


def one_by_one(commands: Iterable[Sequence[str]]) -> str:
    """A line of shell that runs commands in one process: each by itself would take a second to begin."""
    script = f"""
import contextlib, sys
from handraise.cli import main
for line in {[["handraise", *each] for each in commands]!r}:
    sys.argv = line
    with contextlib.suppress(SystemExit):
        main()
"""
    return shlex.join([sys.executable, "-c", script])


ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # control sequences
    r"|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?"  # titles, links, the clipboard
    r"|\x1b[PX^_][^\x1b]*(?:\x1b\\)?"  # strings for the device
    r"|\x1b[ -/]*[0-~]?"  # everything else that begins with an escape
    r"|[\x00-\x1f\x7f-\x9f]"
)
MOVE = re.compile(r"\x1b\[(\d*)(?:;(\d*))?[ABCDGH]")


def sequences(screen: Screen) -> set[str]:
    """Every sequence and control that was sent; a move within the screen counts by its direction."""
    return {_sort_of(each) for each in ESCAPES.findall(screen.raw.decode())}


def _sort_of(sequence: str) -> str:
    move = MOVE.fullmatch(sequence)
    if move and all(int(each or 1) <= max(ROWS, COLUMNS) for each in move.groups()):
        return f"move {sequence[-1]}"
    return sequence


def sessions(store: str, asker: str, spell: Spell) -> Iterator[tuple[str, Screen]]:
    """Everything that a person may do at a terminal with hostile bytes, one after the other."""
    form, approval, choice = at_desk(store, corpus(BYTES, spell), asker)
    for question, prompt in ((choice, "❯  1"), (form, "1/"), (approval, "more lines")):
        with at_terminal("answer", question.id, url=store, rows=ROWS, columns=COLUMNS) as screen:
            screen.until(prompt)
            screen.send(" ", "\x1b[B")
            screen.look(0.3)
            screen.send(CTRL_C)
            screen.until("Left pending.")
            assert screen.end() == 7
            yield f"answer {question.form.kind}", screen
    with at_terminal("inbox", url=store, rows=ROWS, columns=COLUMNS) as screen:
        screen.until("waiting")
        screen.send("\x1b[B")
        screen.look(0.3)
        screen.send("q")
        assert screen.end() == 0
        yield "inbox", screen
    commands = (
        ["history", choice.id],
        ["list", "--json"],
        ["show", approval.id, "--json"],
        ["wait", form.id, "--json", "--timeout", "0.1"],
    )
    with at_terminal(url=store, shell=one_by_one(commands), rows=ROWS, columns=COLUMNS) as screen:
        assert screen.end() == 0
        yield "commands", screen
    with at_terminal("watch", "--from-start", url=store, rows=ROWS, columns=COLUMNS) as screen:
        screen.until("Asked by")
        screen.look(0.3)
        yield "watch", screen


@pytest.mark.timeout(300)
@pytest.mark.slow(
    "starts twelve terminals; the gate compares the bytes of `show`, and draws questions itself"
)
def test_no_hostile_byte_reaches_the_screen_while_one_answers(tmp_path: Path) -> None:
    ours = {
        name: sequences(screen)
        for name, screen in sessions(f"sqlite:///{tmp_path / 'spelt'}.db", SPELT, spelt)
    }
    for name, screen in sessions(f"sqlite:///{tmp_path / 'raw'}.db", EVIL, str):
        foreign = sequences(screen) - ours[name]
        assert not foreign, (name, foreign)
        rest = ESCAPES.sub("", screen.raw.decode())
        assert is_harmless(rest), (name, [hex(ord(each)) for each in rest if not is_harmless(each)][:5])
        if name.startswith("answer"):
            assert SPELT in screen.all_text.replace("\n", "")


def test_what_looks_for_hostile_bytes_finds_them() -> None:
    found = {each: ESCAPES.findall(each) for each in TEXTS}
    assert sum(map(bool, found.values())) >= 60
    for text, parts in found.items():
        assert is_harmless(ESCAPES.sub("", text.replace("\n", ""))) or "\x1b" not in text
        assert all(_sort_of(each) == each for each in parts if "907" in each)


def test_a_hostile_answer_does_not_reach_the_screen_of_whoever_waits(store: str) -> None:
    async def settle(desk: Desk) -> str:
        question = await desk.post("Well?", form=Open())
        await desk.answer(question.id, "fine\x1b[2J\u202egone", by="bob")
        return question.id

    with at_terminal("wait", at_desk(store, settle), url=store) as screen:
        screen.until("fine‹U+001B›[2J‹U+202E›gone")
        assert screen.end() == 0
        assert {each for each in sequences(screen) if "2J" in each} == set()
        assert is_harmless(ESCAPES.sub("", screen.raw.decode()))

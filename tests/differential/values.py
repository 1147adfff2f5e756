"""Random questions and answers: ordinary ones, and the texts and numbers that backends keep in different ways."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from handraise import (
    Approval,
    Choice,
    Confirm,
    Escalation,
    Field,
    Form,
    MultiChoice,
    Open,
    Option,
    Question,
    Responder,
    Timeline,
)
from handraise.model.forms import AnyForm, Scope
from handraise.model.json_values import Json
from handraise.questions import QuestionOptions

TEXTS = (
    *("Canary", "canary", " CANARY ", "x", "", " ", "\t", "ß", "SS", "ﬁ", "fi", "é", "e\u0301", "\u200b"),
    *(
        "a\u202eb",
        "😀",
        "NUL\x00",
        "\ud800",
        "1",
        "1.0",
        "-0",
        "１",
        "٣",
        "yes",
        "no",
        "YES ",
        "true",
        "approve",
    ),
    *("deny", "0x10", "1e3", "1_000", "nan", "inf", "2026-11-15", "20261115", "2026-W46-7", "2026-02-30"),
    *("2026-11-15T09:30Z", "2026-11-15T09:30:00+14:00", "2016-12-31T23:59:60Z", "9999-12-31T23:59:59-12:00"),
    *("0001-01-01T00:00:00+12:00", "2026-11-15T09:30", "2026-11-15 09:30:00.123456789+00:00", "a@b.co"),
    *("A@B.CO ", "a@b", "https://example.com/?q=ä", "mailto:x", "İ", "ı", "x" * 200, "x" * 201, "\\u0000"),
    *('"', "'", "%", "_", "{}", "[]", "*", "group:ops"),
)
NUMBERS = (
    *(0, 1, -1, 1.0, -0.0, 0.1, 1e15, 1e16, 1e17, 1e22, 1e23, 1e300, -1e300, 5e-324, 2**53, 2**53 + 1, 2**63),
    *(2**64, 10**100, 2**400, 2**2048, float("nan"), float("inf"), True, False, 123456789.123456789, 1e-7),
)
PEOPLE = ("ana", "bob", "cy", "dee", "agent", "other", "zoe", "Ana")
KEYS = ("k1", "k2", "k3", "k4", "é", "e\u0301", "x" * 200, "😀")
CONVERSATIONS = ("c1", "c2", "é")
UNKNOWN_IDS = ("nope", "a\x00", "\ud800", "é", "x" * 300, "../x", "a/b", "")
_SECONDS = (1, 0.1, 0.000001, 0.29, 1.1, 2, 3, 0.3, 60, 3600, 86400 * 36524)
_ARGUMENTS: Sequence[dict[str, Json]] = (
    *(
        {},
        {"n": 1},
        {"n": 1.0},
        {"n": -0.0},
        {"n": 1e22},
        {"n": "1"},
        {"n": True},
        {"n": [1, {"z": 1, "a": 2}]},
    ),
    *({"é": "é"}, {"n": 1e-7}, {"n": 123456789.123456789, "m": 1}),
)


class Values:
    """Everything that is drawn, from one random source."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self._people: dict[str, str | Responder] = {}

    def json(self, depth: int = 0) -> Json:
        """Any JSON value, and some that are none."""
        draw = self.chance.random()
        if draw < 0.3 or depth > 3:
            return self.chance.choice(TEXTS)
        if draw < 0.6:
            return self.chance.choice(NUMBERS)
        if draw < 0.7:
            return None
        if draw < 0.85:
            return [self.json(depth + 1) for _ in range(self.chance.randint(0, 3))]
        names = self.chance.sample(["a", "b", "ä", "", "other", "decision", "digest", "1", "value"], 3)
        return {name: self.json(depth + 1) for name in names[: self.chance.randint(0, 3)]}

    def person(self) -> str | Responder:
        """Somebody, now and then with groups.

        They keep their groups: over HTTP the directory has them, and drops the votes of people who leave a group.
        """
        name = self.chance.choice(PEOPLE)
        if name not in self._people:
            groups = frozenset(self.chance.sample(["ops", "leads"], self.chance.randint(0, 2)))
            self._people[name] = Responder(name, groups) if self.chance.random() < 0.5 else name
        return self._people[name]

    def options(self) -> QuestionOptions:
        """What a question is posted with."""
        chance = self.chance
        options: dict[str, Any] = {"form": self._form()}
        drawn = {
            "key": (0.4, KEYS),
            "conversation": (0.4, CONVERSATIONS),
            "recipients": (0.5, (["ana"], ["ana", "bob"], ["group:ops"], ["ana", "ana"], ["agent", "bob"], ["ana", "group:leads"])),
            "quorum": (0.3, (1, 2, 3)),
            "veto": (0.3, (True,)),
            "max_attempts": (0.3, (1, 2, 3)),
            "tool_call": (0.2, ("call_1", "", "é")),
            "replies": (0.5, ("program", "model", None, "nobody")),
        }  # fmt: skip
        for name, (share, values) in drawn.items():
            if chance.random() < share:
                options[name] = chance.choice(values)
        for name, share in (("context", 0.3), ("state", 0.2)):
            if chance.random() < share:
                options[name] = self.json()
        draw = chance.random()
        if draw < 0.2:
            options["expires_in"] = chance.choice([1, 5, 0.29, timedelta(hours=1), 60])
        elif draw < 0.5:
            options["timeline"] = self._timeline(options["form"])
        return options  # type: ignore[return-value]  # drawn by name

    def answer(self, question: Question | None) -> Json:
        """A value that may fit the question, or anything."""
        draw = self.chance.random()
        if draw < 0.55 and question is not None:
            return self._fitting(question.form)
        if draw < 0.8:
            return self.chance.choice(TEXTS)
        if draw < 0.95:
            return self.json()
        return self.chance.choice([[[[[[[[1]]]]]]], {"decision": "approve", "x": [[[1]]]}])

    def _form(self) -> AnyForm:
        chance = self.chance
        draw = chance.random()
        if draw < 0.25:
            options: Sequence[Sequence[str | Option]] = (
                *(["Canary", "Rolling"], ["1", "2"], ["yes", "no"], ["é", "e"], ["a"], ["x" * 200, "b"]),
                [Option(id="red", label="Red"), Option(id="blue", label="Blue")],
            )
            return Choice.of(*chance.choice(options))
        if draw < 0.35:
            return MultiChoice.of(
                "a", "b", "c", at_least=chance.choice([0, 1, 2]), at_most=chance.choice([None, 2]),
                allow_other=chance.random() < 0.5,
            )  # fmt: skip
        if draw < 0.45:
            return Choice.of("a", "b", allow_other=True)
        if draw < 0.65:
            kinds = ("text", "integer", "number", "email", "uri", "date", "datetime")
            return Open.model_validate(
                {"type": chance.choice(kinds), "min_length": chance.choice([0, 1]), "max_length": chance.choice([None, None, 5])}
            )  # fmt: skip
        if draw < 0.7:
            return Confirm()
        if draw < 0.8:
            number, letter = Open(type="number"), Choice.of("x", "y")
            return Form(fields=(Field(name="b", form=number), Field(name="a", form=letter, required=False)))
        arguments = chance.choice(_ARGUMENTS)
        plain = [name for name, value in arguments.items() if isinstance(value, int | float | str)]
        scopes: Sequence[Sequence[Scope]] = (
            ("once",),
            ("once", "always"),
            ("once", "session"),
            ("once", "session", "always"),
        )
        return Approval.of(
            chance.choice(["t", "u"]), arguments, editable=plain if chance.random() < 0.5 else [],
            scopes=chance.choice(scopes), risk="medium",
            remember_by=["n"] if "n" in arguments and chance.random() < 0.3 else None,
        )  # fmt: skip

    def _timeline(self, form: AnyForm) -> Timeline:
        chance = self.chance
        defaults: dict[str, Sequence[Json]] = {
            "choice": ("a",),
            "multi_choice": (["a", "b"],),
            "open": (1, 0.1, "abc", 1e16, 1e22, 1e300, -0.0),
            "confirm": (True,),
            "form": ({"b": 1}, {"b": 1.5, "a": "x"}, {"a": "x", "b": 2}),
        }
        default = None
        if chance.random() < 0.5 and form.kind in defaults:
            default = chance.choice(defaults[form.kind])
        elif chance.random() < 0.1:
            default = self.json()
        remind = tuple(sorted(self._span() for _ in range(chance.randint(0, 2))))
        audiences = (("zoe",), ("group:leads", "zoe"), ("ana",), ("agent",), ("bob", "zoe"))
        escalate = tuple(
            Escalation(after=self._span(), to=chance.choice(audiences)) for _ in range(chance.randint(0, 2))
        )
        last = max((*remind, *(each.after for each in escalate)), default=timedelta(0))
        expire = None if chance.random() < 0.2 else last + timedelta(seconds=chance.choice([1, 0.1, 10]))
        return Timeline(remind=remind, escalate=escalate, expire=expire, default=default)

    def _span(self) -> timedelta:
        return timedelta(seconds=self.chance.choice(_SECONDS))

    def _fitting(self, form: AnyForm) -> Json:
        chance = self.chance
        match form:
            case Choice():
                first, last = form.options[0], form.options[-1]
                return chance.choice([first.id, last.label, first.label.upper(), {"other": "hm "}])
            case MultiChoice():
                return chance.choice(
                    [["a"], ["b", "a"], ["c", "b", "a"], ["a", "a"], [], ["A"], ["a", {"other": "z"}]]
                )
            case Open():
                texts = ("abc", "5", "a@b.co", "https://x.y", "2026-11-15", "2026-11-15T09:30Z", "x" * 60_000)
                return chance.choice([*texts, 5, 1.0, 1e300, 0.1, -0.0, 2**70])
            case Confirm():
                return chance.choice([True, False, "yes", "NO "])
            case Form():
                return chance.choice(
                    [{"b": 1, "a": "x"}, {"a": "y", "b": 2.5}, {"b": "3"}, {"b": 1e300}, {"a": "x"}]
                )
            case Approval():
                return self._decision(form)

    def _decision(self, form: Approval) -> Json:
        chance = self.chance
        value: dict[str, Json] = {"decision": chance.choice(["approve", "approve", "approve", "deny"])}
        drawn: dict[str, tuple[float, Sequence[Json]]] = {
            "reason": (0.3, ("r", "", "é")),
            "scope": (0.4, ("once", "session", "always")),
            "until": (0.2, ("2100-01-01T00:00Z", "2000-01-01T00:00Z", "9999-12-31T23:59:59Z", "2026-12-01T00:00:00+05:30")),
            "digest": (0.2, (form.digest, "0" * 64)),
        }  # fmt: skip
        for name, (share, values) in drawn.items():
            if chance.random() < share:
                value[name] = chance.choice(values)
        if chance.random() < 0.3:
            others = (1, 2, 1.0, "1", -0.0, 1e22, True, "z", 1e300)
            value["arguments"] = {name: chance.choice(others) for name in form.action.arguments}
        return value

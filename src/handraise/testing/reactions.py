"""What a person in a test does about a question: an answer, or one of the functions here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeAlias

from handraise import Question
from handraise.model.durations import Span, seconds_of
from handraise.model.json_values import Json


@dataclass(frozen=True, slots=True)
class Answer:
    """Answers with this value, or with what a function makes of the question."""

    value: Json | Callable[[Question], Json]


@dataclass(frozen=True, slots=True)
class Attempt:
    """Gives an answer that must not fit."""

    value: Json


@dataclass(frozen=True, slots=True)
class Decline:
    """Declines to answer."""

    reason: str | None


@dataclass(frozen=True, slots=True)
class SendBack:
    """Sends the question back, to be changed and asked again."""

    reason: str


@dataclass(frozen=True, slots=True)
class AskBack:
    """Asks the asker something, and goes on when it has replied."""

    text: str


@dataclass(frozen=True, slots=True)
class Never:
    """Does nothing while time passes."""


@dataclass(frozen=True, slots=True)
class After:
    """Does something after a while."""

    span: timedelta
    then: Answer | Attempt | Decline | SendBack | AskBack


Reaction: TypeAlias = Answer | Attempt | Decline | SendBack | AskBack | Never | After
GOES_ON = (Attempt, AskBack)
"""Reactions after which the question still waits for this person."""


def reaction_of(given: Json | Reaction | Callable[[Question], Json]) -> Reaction:
    """The reaction that a test means: a value, or a function that makes one of the question, is an answer."""
    return given if isinstance(given, Reaction) else Answer(given)


def approve(**arguments: Json) -> Answer:
    """Approve an action, with these arguments changed: `approve(amount=20)`."""
    return Answer({"decision": "approve", "arguments": arguments} if arguments else "approve")


def deny(reason: str | None = None) -> Answer:
    """Deny an action."""
    return Answer("deny" if reason is None else {"decision": "deny", "reason": reason})


def attempt(value: Json) -> Attempt:
    """Give an answer that does not fit. The test fails if it fits."""
    return Attempt(value)


def decline(reason: str | None = None) -> Decline:
    """Decline to answer. This ends the question for everyone."""
    return Decline(reason)


def send_back(reason: str) -> SendBack:
    """Send the question back, to be changed and asked again."""
    return SendBack(reason)


def ask_back(text: str) -> AskBack:
    """Ask the asker something. What comes next is done when it has replied."""
    return AskBack(text)


def never() -> Never:
    """Do not answer. The clock of the test moves on instead: reminders, escalations and the expiry come at once."""
    return Never()


def after(span: Span, then: Json | Reaction | Callable[[Question], Json]) -> After:
    """Do something after a while. The clock of the test moves on until then: `after("2h", "Canary")`."""
    reaction = reaction_of(then)
    if isinstance(reaction, (Never, After)):
        raise TypeError("after(…) takes an answer, or what to do then: after('2h', decline())")
    return After(timedelta(seconds=seconds_of(span)), reaction)

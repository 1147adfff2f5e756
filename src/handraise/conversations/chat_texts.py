"""The texts that people read in a chat. Plain text: the words of an agent or a person stay as they are."""

from __future__ import annotations

from handraise import Question
from handraise.presentation.error_text import error_text
from handraise.presentation.plain_text import plain_text
from handraise.presentation.translation import gettext


def asking_again(question: Question, reason: str) -> str:
    """The same question once more, with what was wrong with the reply."""
    why = error_text(reason).rstrip(". ")
    text = gettext("I cannot take that as an answer: {reason}.").format(reason=why)
    return f"{text}\n{plain_text(question)}"


def giving_up(question: Question) -> str:
    """Say that the question is given up, because no reply could be used."""
    text = gettext("I did not get an answer that I can use, so I leave this out for now: {prompt}")
    return text.format(prompt=question.prompt)


def sent_back() -> str:
    """Say that the question was sent back to the agent."""
    return gettext("Sent back. The agent is told what to change.")


def left_to_others() -> str:
    """Say that somebody is not asked any more."""
    return gettext("You are not asked this any more. The others still are.")

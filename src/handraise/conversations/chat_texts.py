"""The texts that people read in a chat. Plain text: the words of an agent or a person stay as they are."""

from __future__ import annotations

from handraise import Question
from handraise.model.plain_text import plain_text


def asking_again(question: Question, reason: str) -> str:
    """The same question once more, with what was wrong with the reply."""
    return f"I cannot take that as an answer: {reason.rstrip('. ')}.\n{plain_text(question)}"


def giving_up(question: Question) -> str:
    """Say that the question is given up, because no reply could be used."""
    return f"I did not get an answer that I can use, so I leave this out for now: {question.prompt}"

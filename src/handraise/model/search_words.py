"""The words of a question that a search finds, and the words that a person searches for.

Texts are cut into words here and not by an engine, so that every store finds the same: letters and digits of any language,
without accents, in small letters. Signs of languages that are written without spaces are words of one sign each.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from dataclasses import dataclass

from handraise.model.people import ANYONE, Responder
from handraise.model.questions import Question
from handraise.model.search_text import normalized, search_text

MOST_WORDS = 16_000
"""How many words of a question can be found. PostgreSQL cannot count further."""
MOST_BYTES = 400_000
_LONGEST_WORD = 64
_MOST_PHRASES = 20
MOST_QUERY = 500
"""How many characters of a search count."""
_SHORTEST_PREFIX = 2

_SIGN = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003134f"
_WORD = re.compile(f"[{_SIGN}]|(?:(?![{_SIGN}_])\\w)+")
_ASCII_WORD = re.compile("[a-z0-9]+")
_ACCENTS = re.compile("[\u0300-\u036f]")
_PART = re.compile(r'"([^"]*)"?|([^\s"]+)')


@dataclass(frozen=True, slots=True)
class SearchQuery:
    """What a person searches for: all of these phrases must be there, each of one word or of several in this order.

    If `is_prefix`, the last word of the last phrase may be the beginning of a word.
    """

    phrases: tuple[tuple[str, ...], ...]
    is_prefix: bool


def words_of(text: str) -> list[str]:
    """The words of a text, in their order."""
    if text.isascii():
        return [word[:_LONGEST_WORD] for word in _ASCII_WORD.findall(text.lower())]
    plain = _ACCENTS.sub("", unicodedata.normalize("NFKD", normalized(text)))
    return [word[:_LONGEST_WORD] for word in _WORD.findall(unicodedata.normalize("NFC", plain))]


def query_of(text: str) -> SearchQuery | None:
    """What a person typed, or None if there is nothing to search for. No text is wrong."""
    phrases: list[tuple[str, ...]] = []
    is_prefix = False
    for quoted, typed in _PART.findall(text[:MOST_QUERY]):
        if words := words_of(quoted or typed):
            phrases.append(tuple(words))
            is_prefix = not quoted and len(words[-1]) >= _SHORTEST_PREFIX
    if not phrases:
        return None
    return SearchQuery(tuple(phrases[:_MOST_PHRASES]), is_prefix and len(phrases) <= _MOST_PHRASES)


def indexed_words(question: Question) -> list[str]:
    """The words by which a question is found."""
    words = words_of(search_text(question)[:MOST_BYTES])[:MOST_WORDS]
    size = 0
    for place, word in enumerate(words):
        size += len(word.encode(errors="replace"))
        if size > MOST_BYTES:
            return words[:place]
    return words


def indexed_tags(question: Question) -> list[str]:
    """Where a question belongs, who asked it, and the names under which anybody may ever see it.

    A search reads only questions with the right tags. Whether a person may see one of them is decided by its record.
    """
    names = {
        *question.recipients,
        *question.added,
        *(name for step in question.steps for name in step.to),
        *(vote.by for vote in question.votes),
    }
    if by := getattr(question.outcome, "by", None):
        names.add(by)
    if not question.recipients:
        names.add(ANYONE)
    tags = {workspace_tag(question.workspace), asker_tag(question.asker), *map(_name_tag, names)}
    if question.conversation is not None:
        tags.add(conversation_tag(question.conversation))
    return sorted(tags)


def workspace_tag(workspace: str) -> str:
    """The tag of all questions of a workspace."""
    return _tag("workspace", workspace)


def asker_tag(asker: str) -> str:
    """The tag of all questions of an asker."""
    return _tag("asker", asker)


def conversation_tag(conversation: str) -> str:
    """The tag of all questions of a conversation."""
    return _tag("conversation", conversation)


def responder_tags(responder: Responder) -> list[str]:
    """The tags of which a question has one if this person may see it."""
    return [_name_tag(name) for name in (ANYONE, *responder.principals)]


def _name_tag(name: str) -> str:
    return _tag("name", name)


def _tag(what: str, value: str) -> str:
    return hashlib.blake2b(f"{what} {value}".encode(errors="surrogatepass"), digest_size=8).hexdigest()

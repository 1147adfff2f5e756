"""What a button and a link carry: always small enough, read only where it is ours, and bound to the very action."""

from __future__ import annotations

import base64
import uuid
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handraise import Approval, PermissionDenied, Responder
from handraise.channels.telegram.entities import (
    LONGEST,
    bold,
    box,
    code,
    compose,
    cut,
    length_of,
    link,
    mention,
    ours,
)
from handraise.channels.telegram.references import QuestionReference, QuestionReferences
from handraise.model.evidence import check_evidence
from handraise.model.forms import Confirm
from handraise.testing.contract.channel import a_question
from tests.channels.telegram_peer import BOT_TOKEN
from tests.channels.telegram_rules import check_text

PLACES = QuestionReferences(BOT_TOKEN)
texts = st.text(
    st.characters(blacklist_categories=["Cs"], blacklist_characters="\0"), min_size=1, max_size=200
)


def linked(url: str) -> dict[str, Any]:
    return {"entities": [{"type": "text_link", "url": url, "offset": 0, "length": 1}]}


@given(workspace=texts, name=st.one_of(texts, st.uuids(version=4).map(str)), number=st.integers(0, 39))
def test_a_button_is_small_and_finds_its_place_again(workspace: str, name: str, number: int) -> None:
    question = a_question(workspace=workspace, id=name)
    data = PLACES.data(question, "O", number)
    assert 1 <= len(data.encode()) <= 64
    found = PLACES.read_data(data, linked(PLACES.link("https://desk.example/q", question)))
    assert found is not None
    assert replace(found, code=b"") == QuestionReference(workspace, name, "O", number)
    assert PLACES.is_ours(found, question)
    assert not PLACES.is_ours(replace(found, code=b""), question)
    assert not QuestionReferences(BOT_TOKEN + "x").is_ours(found, question)


@given(workspace=st.text(st.characters(codec="ascii", categories=["Ll", "Nd"]), min_size=1, max_size=22))
def test_a_button_of_a_usual_workspace_needs_no_message(workspace: str) -> None:
    question = a_question(workspace=workspace, id=str(uuid.uuid4()))
    found = PLACES.read_data(PLACES.data(question, "Y"), {})
    assert found is not None
    assert PLACES.is_ours(found, question)


@given(data=st.one_of(st.text(), st.binary().map(lambda raw: raw.hex()), st.none(), st.integers()))
def test_whatever_a_button_carried_is_read_without_trouble(data: Any) -> None:
    for message in ({}, {"entities": data}, {"entities": [data]}, {"text": data}, linked(str(data))):
        found = PLACES.read_data(data, message)
        assert found is None or not PLACES.is_ours(found, a_question())
        assert PLACES.read_link(message) is None


@pytest.mark.parametrize("deed", ["A", "D", "a"])
def test_a_button_is_about_the_very_action_that_was_shown(deed: str) -> None:
    shown = a_question(Approval.of("pay", {"amount": 3}), id=str(uuid.uuid4()))
    changed = a_question(Approval.of("pay", {"amount": 4}), id=shown.id)
    found = PLACES.read_data(PLACES.data(shown, deed), {})
    assert found is not None
    assert PLACES.is_ours(found, shown)
    assert not PLACES.is_ours(found, changed)
    behind = PLACES.read_link(linked(PLACES.link("https://desk.example/q", shown, "e", 7)))
    assert behind is not None
    assert replace(behind, code=b"") == QuestionReference("w", shown.id, "e", user=7)
    assert PLACES.is_ours(behind, shown)
    assert not PLACES.is_ours(behind, changed)


def test_nothing_of_a_place_shows_its_code() -> None:
    question = a_question(Confirm(), id=str(uuid.uuid4()))
    found = PLACES.read_data(PLACES.data(question, "Y"), {})
    assert found is not None
    assert "code" not in repr(found)
    assert repr(found.code) not in repr(found)


@given(st.lists(st.tuples(st.sampled_from([bold, box, code, ours]), st.text(max_size=60)), max_size=20))
def test_formats_are_always_where_they_belong(pieces: list[tuple[Any, str]]) -> None:
    safe = [make(text if make in (box, code) else "ours 🙂 ") for make, text in pieces]
    whole = compose([ours("We say "), *safe, mention(7, "\u202e🙂"), link("https://a.example/x", "there")])
    check_text(whole.text, whole.entities)


@given(text=st.text(max_size=300), most=st.integers(2, 200))
def test_a_text_is_cut_to_what_fits(text: str, most: int) -> None:
    short = cut(text, most)
    assert length_of(short) <= most
    assert short == text or short.endswith("…")
    assert LONGEST == 4_096


@pytest.mark.parametrize("evidence", ["telegram-secret", "telegram-poll"])
def test_what_telegram_says_is_too_little_where_the_stakes_are_high(evidence: str) -> None:
    ann = Responder("ann")
    check_evidence(a_question(Approval.of("deploy")), ann, evidence)
    with pytest.raises(PermissionDenied, match="decide in the inbox or in the terminal"):
        check_evidence(a_question(Approval.of("drop", risk="high")), ann, evidence)


def test_nobody_raises_how_much_of_the_conversation_a_message_showed() -> None:
    question = a_question(form=Approval.of("deploy"), id=str(uuid.uuid4()))
    mine = PLACES
    data = mine.data(question, "A", 2)
    found = mine.read_data(data, {})
    assert found is not None
    assert (found.number, mine.is_ours(found, question)) == (2, True)
    raised = bytearray(base64.urlsafe_b64decode(data + "=" * (-len(data) % 4)))
    raised[1] = 3
    forged = mine.read_data(base64.urlsafe_b64encode(raised).decode().rstrip("="), {})
    assert forged is not None
    assert (forged.number, mine.is_ours(forged, question)) == (3, False)
    behind = mine.read_link({"text": mine.link("https://desk.example/q", question, number=2)})
    assert behind is not None
    assert (behind.number, mine.is_ours(behind, question)) == (2, True)
    assert not mine.is_ours(replace(behind, number=3), question)

"""What happened to a question is said in the same words on pages and in the terminal."""

from __future__ import annotations

from typing import Any

import pytest

from handraise import Approval, Choice, Confirm
from handraise.cli.terminal_texts import event_words
from handraise.model.events import Event, EventKind
from handraise.presentation.event_text import EventText, event_text
from handraise.server.web.inbox.page_texts import history_lines
from handraise.testing.contract.channel import AT, a_question

FORM = Choice.of("Blue", "Green")
APPROVAL = Approval.of("pay", {"amount": 1})


def event(kind: str, by: str | None = "ann", channel: str | None = None, **data: Any) -> Event:
    return Event(
        cursor="1",
        workspace="w",
        question_id="q-1",
        kind=EventKind(kind),
        at=AT,
        by=by,
        channel=channel,
        data=data,
    )


PROBLEMS = [{"path": "size", "message": "must be at least 1"}]
SENTENCES: dict[str, tuple[Event, str, tuple[str, ...]]] = {
    "asked": (event("asked", "bot"), "Asked by the agent", ()),
    "attempted": (
        event("attempted", channel="slack", value="Blue", problems=PROBLEMS),
        "An answer by ann through Slack did not fit",
        ("Blue", "size: must be at least 1"),
    ),
    "voted": (event("voted", channel="web", value="Blue"), "A vote by ann through the inbox", ("Blue",)),
    "voted not to answer": (
        event("voted", reason="no idea"),
        "A vote by ann not to answer",
        ("no idea",),
    ),
    "reminded": (event("reminded", None), "A reminder was due", ()),
    "escalated": (
        event("escalated", None, to=["bob", "group:ops"]),
        "Escalated, because nobody had answered: others may answer too",
        ("bob and the group ops",),
    ),
    "answered": (
        event("answered", channel="terminal", value="Green"),
        "Answered by ann through the terminal",
        ("Green",),
    ),
    "answered by default": (
        event("answered", None, value="Green", source="default"),
        "Nobody answered in time, so the agent's default was taken",
        ("Green",),
    ),
    "declined": (
        event("declined", channel="email", reason="No."),
        "Declined by ann through e-mail",
        ("No.",),
    ),
    "expired": (event("expired", None), "Expired without an answer", ()),
    "withdrawn": (event("withdrawn", "bot"), "Withdrawn by the agent", ()),
    "withdrawn by a person": (event("withdrawn", "boss", reason="x"), "Withdrawn by boss", ("x",)),
    "exhausted": (
        event("exhausted", problems=PROBLEMS),
        "Closed after too many answers that did not fit, the last by ann",
        ("size: must be at least 1",),
    ),
    "consumed": (event("consumed", "bot"), "The approved action was taken by the agent, to execute it", ()),
    "taken back": (event("taken_back", reason="x"), "The approval was taken back by ann", ("x",)),
    "done": (event("reported", ok=True, text="7 rows"), "Reported by ann as done", ("7 rows",)),
    "failed": (
        event("reported", ok=False, text="a\u202eb", link="https://a.example/"),
        "Reported by ann as failed",
        ("a‹U+202E›b", "https://a.example/"),
    ),
    "asked back": (
        event("asked_back", channel="web", text="Why\u202e?"),
        "The agent was asked something by ann through the inbox",
        ("Why‹U+202E›?",),
    ),
    "noted": (event("noted", channel="slack", text="I know"), "A note by ann through Slack", ("I know",)),
    "a note as an agent sees it": (event("noted"), "A note by ann", ()),
    "replied": (event("replied", "bot", text="Because."), "A reply by the agent", ("Because.",)),
    "sent back": (event("returned", reason="only 30"), "Sent back by ann", ("only 30",)),
    "replaced": (
        event("replaced", "bot", replaced_by="q2"),
        "Another question was asked instead by the agent",
        (),
    ),
    "opened": (
        event("opened", None),
        "The equal question that it followed has ended without an answer for this one, so this one is asked",
        (),
    ),
    "taken": (event("taken"), "Taken by ann, to work on the answer", ()),
    "released": (event("released"), "Released by ann", ()),
    "brought in": (
        event("brought_in", to=["bo", "group:ops"], reason="x\u202e"),
        "Others were brought in by ann",
        ("bo and the group ops", "x‹U+202E›"),
    ),
    "handed over": (event("handed_over", to=["bo"]), "Handed over by ann", ("bo",)),
    "snoozed": (event("set_aside", until="2026-11-20T09:00:00+00:00"), "Snoozed by ann", ()),
    "set aside": (event("set_aside"), "Taken out of the inbox of ann", ()),
    "put back": (event("put_back"), "Put back into the inbox of ann", ()),
    "returned": (
        event("put_back", instead_of="bob"),
        "Back in the inbox of ann, because bob, who was to answer it, has left",
        (),
    ),
    "revoked": (event("revoked"), "The grant was revoked by ann", ()),
    "kept": (event("kept"), "The answer is kept for new questions by ann", ()),
    "a standing answer revoked": (
        event("revoked", standing="s"),
        "The standing answer was revoked by ann",
        (),
    ),
    "a standing answer contradicted": (
        event("revoked", standing="s", question="q"),
        "The standing answer ended, because ann answered the same question differently",
        (),
    ),
    "sent": (event("sent", "bot", "chat"), "Shown in a chat by the agent through chat", ()),
    "joined": (event("joined", "bot"), "Another call by the agent waits for the same answer", ()),
    "unreached": (event("unreached", None), "No notification was delivered", ()),
}


@pytest.mark.parametrize("name", SENTENCES)
def test_every_event_has_one_sentence_in_all_places(name: str) -> None:
    happened, text, quoted = SENTENCES[name]
    question = a_question(FORM, asker="bot")
    assert event_text(happened, FORM, asker="bot") == EventText(text, quoted)
    [said] = history_lines(question, [happened], "somebody else")
    assert (said.ours, said.quoted) == (text, quoted)
    terminal = event_words(happened, FORM, "bot")
    assert terminal == (f"{text}: {'; '.join(quoted)}" if quoted else text)


def test_no_kind_of_event_is_left_out() -> None:
    assert {each.kind for each, _, _ in SENTENCES.values()} == set(EventKind)


def test_a_decision_is_said_in_the_sentence_and_its_reason_beside_it() -> None:
    denied = event("answered", value={"decision": "deny", "reason": "Not today"})
    assert event_text(denied, APPROVAL) == EventText("Denied by ann", ("Not today",))
    assert event_text(denied, APPROVAL, viewer="ann").text == "Denied by you"


def test_without_the_form_no_value_is_told() -> None:
    assert event_text(event("answered", value=True), None) == EventText("Answered by ann")
    assert event_text(event("asked", "bot"), None) == EventText("Asked by bot")


def test_nothing_in_an_event_is_unseen() -> None:
    odd = event("declined", "a\u202eb", "c\u200bd", reason="e\u200bf")
    told = event_text(odd, Confirm())
    assert told == EventText("Declined by a‹U+202E›b through c‹U+200B›d", ("e‹U+200B›f",))


@pytest.mark.parametrize("data", [None, {"problems": 7}, {"problems": [7]}, {"value": {"odd": 1}}])
def test_a_record_of_another_release_is_told_as_far_as_it_goes(data: Any) -> None:
    for kind in EventKind:
        happened = Event(cursor="1", workspace="w", question_id="q", kind=kind, at=AT, by="x", data=data)
        assert event_text(happened, APPROVAL).text

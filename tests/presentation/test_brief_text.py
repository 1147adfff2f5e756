"""What an agent says about an action and about its options: in every place, as its own words."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from handraise import Approval, Choice, Option, Question
from handraise.channels.chat import question_text
from handraise.channels.discord.messages import render_question as discord_message
from handraise.channels.email.mail_body import render_question as mail
from handraise.channels.message_texts import brief_of
from handraise.channels.plain_messages import lines_of
from handraise.channels.slack.messages import render_question as slack_message
from handraise.channels.teams.cards import render_question as teams_card
from handraise.channels.telegram.messages import render_question as telegram_message
from handraise.channels.telegram.references import QuestionReferences
from handraise.forms import AnyForm, Brief, Link
from handraise.model.drafting import Limits, compose
from handraise.model.questions import posted
from handraise.ports.channel import Message, Notice
from handraise.presentation.brief_text import brief_lines, option_text, previews_of, recommended_text
from handraise.presentation.plain_text import plain_text

LINK = "https://ask.example/q/1"
BRIEF = Brief(
    why="The parcel came back",
    checked=("Order 12 exists", "Paid once"),
    reversible=False,
    affects="1 customer",
    links=(Link("Order", "https://shop.example/orders/12"),),
)
APPROVAL = Approval.of("refund", {"order": 12}, brief=BRIEF)
CHOICE = Choice(
    options=(
        Option(id="a", label="Sidebar", recommended=True, reason="More room", preview="# Left"),
        Option(id="b", label="Tabs", description="On top"),
    )
)


def question(form: AnyForm) -> Question:
    draft = compose("May I?", {"form": form}, new_id="1", workspace="w", asker="bot", limits=Limits())
    return posted(draft, datetime(2026, 11, 15, tzinfo=UTC))


def notice(form: AnyForm) -> Notice:
    return Notice(delivery_id="d", question=question(form), reason="asked", link=LINK)


def message(form: AnyForm) -> Message:
    at = datetime(2026, 11, 15, tzinfo=UTC)
    return Message(
        id="m", channel="email", to={}, workspace="w", recipient="ana", at=at, notices=(notice(form),)
    )


def words(made: Any) -> str:
    """Every text in a message of a service."""
    match made:
        case str():
            return made
        case dict():
            return "\n".join(map(words, made.values()))
        case list() | tuple():
            return "\n".join(map(words, made))
        case _:
            return ""


PLACES: dict[str, Callable[[AnyForm], str]] = {
    "plain": lambda form: "\n".join(lines_of(notice(form))),
    "own chat": lambda form: question_text(notice(form)),
    "reply by text": lambda form: plain_text(question(form)),
    "slack": lambda form: words(list(slack_message(notice(form)).blocks)),
    "discord": lambda form: discord_message(notice(form)).content,
    "teams": lambda form: words(teams_card(question(form), LINK)),
    "telegram": lambda form: telegram_message(notice(form), QuestionReferences("x"), room=False).text.body[
        "text"
    ],
    "mail text": lambda form: mail(message(form), notice(form), how=None, server="s").text,
    "mail html": lambda form: mail(message(form), notice(form), how=None, server="s").html,
}


@pytest.mark.parametrize("place", PLACES)
def test_every_place_that_shows_an_action_shows_its_brief(place: str) -> None:
    shown = PLACES[place](APPROVAL).replace("\\", "")
    for text in (
        "What the agent says",
        "The parcel came back",
        "Order 12 exists",
        "Paid once",
        "1 customer",
        "Can be undone: No",
        "shop.example",
        "https://shop.example/orders/12",
    ):
        assert text in shown, text
    assert "What the agent says" not in PLACES[place](Approval.of("refund", {"order": 12}))


@pytest.mark.parametrize("place", PLACES)
def test_every_place_that_shows_options_says_which_the_agent_recommends(place: str) -> None:
    shown = PLACES[place](CHOICE).replace("\\", "")
    assert shown.count("The agent recommends this: More room") >= 1
    assert "On top" in shown
    said = ("# Left", "What you would get", "on the page", "There is more about it there.")
    assert any(each in shown for each in said)


def test_a_brief_that_is_too_long_for_a_chat_says_where_the_rest_is_and_cuts_no_link() -> None:
    long = BRIEF.model_copy(update={"links": (Link("Order", "https://shop.example/" + "x" * 1_500),)})
    told = brief_of(Approval.of("refund", brief=long))
    assert told is not None
    assert told.more == "The rest of what the agent says is on the page."
    assert not any("xxx" in each for each in told.lines)
    only = brief_of(Approval.of("refund", brief=Brief(why="y" * 9_000)))
    assert only is not None
    assert only.lines[0].startswith("Why: yyy")
    assert len(only.lines[0]) <= 1_200
    assert only.more


def test_nothing_in_it_moves_or_hides_anything() -> None:
    hostile = "a\u202eb\x1b[2J"
    brief = Brief(
        why=hostile, checked=(hostile,), affects=hostile, links=(Link(hostile, "https://a.example"),)
    )
    option = Option(id="a", label=hostile, recommended=True, reason=hostile, preview=hostile)
    told = [
        *brief_lines(brief),
        str(recommended_text(option)),
        previews_of(Choice(options=(option,)))[0].label,
    ]
    assert not any(each in json.dumps(told, ensure_ascii=False) for each in ("\u202e", "\x1b"))


def test_an_option_without_any_of_it_says_nothing() -> None:
    assert option_text(Option(id="a", label="A")) is None
    assert recommended_text(Option(id="a", label="A")) is None
    assert list(brief_lines(Brief(reversible=True))) == ["Can be undone: Yes"]

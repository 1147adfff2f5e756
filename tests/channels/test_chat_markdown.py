"""An agent's Markdown in chats and notifications: it looks like it should, and nothing in it is more than a look."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handraise import Approval, Choice
from handraise.channels.discord import messages as discord
from handraise.channels.plain_messages import lines_of
from handraise.channels.slack import messages as slack
from handraise.channels.slack.modals import answer_view
from handraise.channels.teams import cards as teams
from handraise.channels.telegram import messages as telegram
from handraise.channels.telegram.entities import Text
from handraise.channels.telegram.references import QuestionReferences
from handraise.model.forms import AnyForm
from handraise.ports.channel import Notice
from handraise.testing.contract.channel import a_question
from tests.channels import discord_rules, slack_rules, teams_rules, telegram_rules
from tests.tiers import sized

LINK = "https://desk.example/questions/q-1"
SAMPLE = """# Release 4.2

Ship **now** or *later*? ~~Never~~. Run `make` at [the page](https://good.example/x).

- one
  - **deep**

| name | count |
|:-----|------:|
| api  | 12 |

```python
if x:
    go()
```
"""
WIDE = """| the first long name | the second long name | the third long name |
|---|---|---|
| alpha | beta | gamma-is-a-word-that-must-not-be-broken |
"""


def notice(prompt: str, form: AnyForm | None = None) -> Notice:
    question = a_question(form or Choice.of("a", "b"), prompt=prompt)
    return Notice(delivery_id="d", question=question, reason="asked", link=LINK)


def slack_quote(prompt: str, form: AnyForm | None = None) -> list[dict[str, Any]]:
    rendered = slack.render_question(notice(prompt, form))
    assert slack_rules.check_message({"text": rendered.text, "blocks": list(rendered.blocks)}) is None
    [quote] = [each for each in rendered.blocks[0]["elements"] if each["type"] == "rich_text_quote"]
    found: list[dict[str, Any]] = quote["elements"]
    return found


def discord_text(prompt: str, form: AnyForm | None = None) -> str:
    return discord.render_question(notice(prompt, form)).content


def teams_card(prompt: str, form: AnyForm | None = None) -> dict[str, Any]:
    card = teams.render_question(notice(prompt, form).question, LINK)
    teams_rules.check_card(card)
    return card


def telegram_text(prompt: str, form: AnyForm | None = None) -> Text:
    text = telegram.render_question(notice(prompt, form), QuestionReferences("x"), room=False).text
    telegram_rules.check_text(text.text, text.entities)
    return text


def plain_text(prompt: str, form: AnyForm | None = None) -> str:
    return "\n".join(lines_of(notice(prompt, form), longest=3_000))


def runs_in(value: Any) -> Iterator[str]:
    match value:
        case {"type": "TextRun", "text": str(text)}:
            yield text
        case dict():
            yield from runs_in(list(value.values()))
        case list():
            for each in value:
                yield from runs_in(each)


def everywhere(prompt: str, form: AnyForm | None = None) -> dict[str, str]:
    """What people read of a question in each place."""
    return {
        "slack": "".join(each["text"] for each in slack_quote(prompt, form)),
        "discord": discord_rules.seen(discord_text(prompt, form)).text,
        "teams": "".join(runs_in(teams_card(prompt, form))).replace("\u00a0", " "),
        "telegram": telegram_text(prompt, form).text,
        "plain": plain_text(prompt, form),
    }


def test_slack_has_styles_inside_of_one_quote() -> None:
    looks = {each["text"].strip(): set(each.get("style", ())) for each in slack_quote(SAMPLE)}
    assert looks["Release 4.2"] == looks["now"] == looks["deep"] == {"bold"}
    assert (looks["later"], looks["Never"], looks["make"]) == ({"italic"}, {"strike"}, {"code"})
    assert looks["name  count"] == looks["api      12"] == looks["if x:"] == looks["go()"] == {"code"}
    assert {each["type"] for each in slack_quote(SAMPLE)} == {"text"}
    assert "The agent" in str(answer_view(notice(SAMPLE).question)["blocks"][0])


def test_discord_has_styles_behind_the_bar() -> None:
    lines = discord_text(SAMPLE).split("\n")
    for line in (
        "> **Release 4.2**",
        "> Ship **now** or *later*? ~~Never~~. Run `make` at the page (https\\://good.example/x).",
        "> • one",
        ">   • **deep**",
        "> `name  count`",
        "> `api      12`",
        "> `    go()`",
    ):
        assert line in lines


def test_teams_has_runs_on_a_ground_of_their_own() -> None:
    container = teams_card(SAMPLE)["body"][1]
    assert (container["type"], container["style"]) == ("Container", "emphasis")
    assert all(each["inlines"] for each in container["items"])
    runs = {run["text"].strip(): run for item in container["items"] for run in item["inlines"]}
    assert runs["Release 4.2"]["weight"] == runs["now"]["weight"] == "Bolder"
    assert runs["later"]["italic"]
    assert runs["Never"]["strikethrough"]
    assert runs["make"]["fontType"] == "Monospace"
    table = next(text for text in runs if text.startswith("name"))
    assert table.replace("\u00a0", " ") == "name  count\n────  ─────\napi      12"


def test_telegram_has_lines_in_a_box_where_it_makes_nothing_of_them() -> None:
    text = telegram_text(SAMPLE)
    [box] = [each for each in text.entities if each["type"] == "pre"]
    inside = text.text.encode("utf-16-le")[2 * box["offset"] : 2 * (box["offset"] + box["length"])]
    shown = inside.decode("utf-16-le")
    assert shown.startswith(
        "Release 4.2\n\nShip now or later? ~~Never~~. Run `make` at the page (https://good."
    )
    assert "name  count\n────  ─────\napi      12\n\nif x:\n    go()" in shown


def test_a_notification_has_a_line_for_each_cell() -> None:
    assert "│ name: api\n│ count: 12" in plain_text(SAMPLE)
    assert "**" not in plain_text(SAMPLE)


def test_a_table_that_is_too_wide_goes_row_by_row_and_breaks_no_word() -> None:
    for place, text in everywhere(WIDE).items():
        assert "the first long name: alpha" in text, place
        assert "the third long name: gamma-is-a-word-that-must-not-be-broken" in text, place


@pytest.mark.parametrize(
    "text",
    [
        *(">", "#", "```\n```", "- ", "***", "\n\n", "|"),
        "**@everyone** *<!here>* `<@U1>` ~~<!channel>~~ [<@&7>](https://evil.example)",
        "[https://good.example](https://evil.example) <https://evil.example> ![x](https://evil.example/x.png)",
        "**a***b* `c`**d**`e` *f***g** ~~h~~`i` `` j`k `` **\\*l** `m\\`",
        "- " * 9 + "deep\n" + "> " * 9 + "deep",
        "> **Approve** \n> # x\n\n1. a\n\n       code `` ` ``",
    ],
)
def test_nothing_in_it_is_more_than_a_look(text: str) -> None:
    for form in (Choice.of("a"), Approval.of("pay", {"a": 1})):
        everywhere(text, form)
        for each in slack_quote(text, form):
            assert each["type"] == "text"
        found = discord_rules.seen(discord_text(text, form))
        assert found.suspicious == []
        assert {what for kind, what in found.marks if kind == "link"} == {LINK}
        covered = [
            each
            for each in telegram_text(text, form).entities
            if each["type"] in ("mention", "url", "bot_command")
        ]
        assert covered == []


@pytest.mark.parametrize(
    "text",
    [
        "*a* " * 1_000,
        "| "
        + " | ".join(f"a long name {n}" for n in range(20))
        + " |\n"
        + "|---" * 20
        + "|\n"
        + ("|" * 21 + "\n") * 60,
        "```\n" + "x\n" * 2_000,
        "\n".join(f"{n}. **{n}** `{n}`" for n in range(900)),
        "# 🙂 & < 字\n" * 900,
    ],
)
def test_much_markdown_fits_and_says_that_there_is_more(text: str) -> None:
    form = Approval.of("pay", {"a": 1})
    teams_card(text, form)
    rendered = slack.render_question(notice(text, form))
    assert slack_rules.check_message({"text": rendered.text, "blocks": list(rendered.blocks)}) is None
    assert "all of it is in the inbox" in slack_rules.as_text(rendered.blocks)
    assert "approve" in {each["action_id"] for _, each in slack_rules.elements_in(rendered.blocks)}
    content = discord_text(text, form)
    assert len(content) <= discord.LONGEST
    assert "all of it is in the inbox" in content
    assert telegram_text(text, form).fits


WORDS = st.from_regex(r"[a-z]{3,8}", fullmatch=True)
MARKS = st.sampled_from(
    [" ", "\n", "\n\n", "**", "*", "~~", "`", "- ", "1. ", "> ", "# ", "|", "\n```\n", "\\", "@"]
)


@settings(max_examples=sized(gate=60, nightly=600), deadline=None)
@given(st.lists(WORDS | MARKS, max_size=40).map("".join))
def test_every_word_is_seen_in_every_place(text: str) -> None:
    words = re.findall(r"[a-z]{3,}", text)
    for place, seen in everywhere(text).items():
        for word in words:
            assert word in seen, (place, seen)
    assert discord_rules.seen(discord_text(text)).suspicious == []

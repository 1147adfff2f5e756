"""An agent's Markdown in each place: the same words everywhere, nothing left out, and nothing that does anything."""

from __future__ import annotations

import re
import unicodedata
from html.parser import HTMLParser

import pytest

from handraise import Approval, Question
from handraise.channels.email.mail_body import Rendered, render_question
from handraise.cli.question_view import question_lines
from handraise.ports.channel import Message, Notice
from handraise.presentation.line_wrap import cells, wrapped
from handraise.presentation.markdown import CodeBlock, ListBlock, Paragraph, Rule, Table, one_line, parse
from handraise.presentation.markdown_html import TAGS, HtmlStyles, to_html
from handraise.presentation.markdown_text import plain_lines, text_lines
from handraise.testing.contract.channel import AT, a_question, link_to
from tests.server.inbox.hostile import TEXTS

TEXT = """## Refund *Contoso*?

Charged **twice** for `invoice-17`, see the [ticket](https://example.com/t).

| Invoice | Amount | Why |
|:--|--:|:--|
| invoice-17 | 1,240.00 | charged on the third of November and again on the fourth |
| invoice-18 | 12.00 | correct |

1. Refund it
2. Write to them
   - in German
   - ~~not~~ in English
"""
WORDS = ("Refund Contoso?", "Charged twice for", "invoice-17", "ticket (https://example.com/t)", "not")


def mail(question: Question) -> Rendered:
    notice = Notice(delivery_id="d", question=question, reason="asked", link=link_to(question))
    message = Message(
        id="d", workspace="w", channel="email", recipient="ann", to="ann@x", at=AT, notices=[notice]
    )
    return render_question(message, notice, how=None, server="ask.example.org")


class Tags(HTMLParser):
    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def test_a_mail_shows_what_the_markdown_means() -> None:
    made = mail(a_question(prompt=TEXT))
    for marks in ("**", "##", "](", "|--", "*Contoso*"):
        assert marks not in made.text
        assert marks not in made.html
    assert "│ Charged twice for `invoice-17`, see the ticket\n│ (https://example.com/t)." in made.text
    assert "│ invoice-18     12.00  correct" in made.text
    assert "│    • ~~not~~ in English" in made.text
    seen = Tags(made.html)
    assert {"strong", "em", "code", "ol", "li", "s", "th"} <= {tag for tag, _ in seen.tags}
    for words in WORDS:
        assert words in " ".join(seen.text.split())
    assert made.subject.endswith("Refund Contoso? · Charged twice for invoice-17, see the tic…")


def test_no_word_in_a_mail_is_broken_as_long_as_it_fits() -> None:
    made = mail(a_question(Approval.of("payments.refund", {"account_number": "DE02"}), prompt=TEXT))
    assert "break-all" not in made.html
    assert "account_<wbr>number" in made.html
    assert "payments.<wbr>refund" in made.html


def test_a_terminal_shows_what_the_markdown_means() -> None:
    lines = question_lines(a_question(prompt=TEXT), 80)
    texts = ["".join(text for _, text in line).rstrip() for line in lines]
    assert "│ Charged twice for `invoice-17`, see the ticket (https://example.com/t)." in texts
    assert "│    • ~~not~~ in English" in texts
    assert not [each for each in texts if "**" in each or "##" in each or "|--" in each]
    styles = {part: style for line in lines for style, part in line}
    assert (styles["twice"], styles["`invoice-17`"]) == ("class:strong", "class:code")
    assert styles["Contoso"] == "class:strong class:emphasis"


def test_a_table_is_aligned_where_it_fits_and_else_a_list_of_its_rows() -> None:
    wide = plain_lines(TEXT, 60)
    assert "Invoice       Amount  Why" in wide
    assert "invoice-17  1,240.00  charged on the third of November and" in wide
    assert "                      again on the fourth" in wide
    where = plain_lines(TEXT, 24)
    assert "Amount: 1,240.00" in where
    assert "Why: charged on the" in where


@pytest.mark.parametrize("width", [20, 40, 70])
def test_no_line_is_longer_than_it_may_be(width: int) -> None:
    for text in (
        TEXT,
        "x" * 300,
        "- " * 9 + "日本" * 60,
        "> " * 8 + "deep " * 30,
        f"| {'| '.join('abcdefgh')}",
    ):
        for line in text_lines(text, width):
            assert cells("".join(part for _, part in line)) <= max(width, 36), text


def test_nothing_is_left_out() -> None:
    assert plain_lines("| a | b |\n|--|--|\n| 1 | 2 | hidden |", 40)[2] == "| 1 | 2 | hidden |"
    assert "deep" in plain_lines(f"{'> ' * 30}deep", 80)[0]
    assert plain_lines("[seen]: https://example.com 'hidden'", 80) == ["[seen]: https://example.com 'hidden'"]
    assert plain_lines('[a](https://example.com "hidden")', 80) == ["a (https://example.com “hidden”)"]
    assert plain_lines("```approve it all\nx\n```", 80) == ["    (approve it all)", "    x"]
    assert plain_lines("```dont-approve\nx\n```", 80) == ["    (dont-approve)", "    x"]
    assert plain_lines("```python\nx\n```", 80) == ["    x"]
    assert plain_lines("<!-- hidden --><b>x</b>", 80) == ["<!-- hidden --><b>x</b>"]


def test_what_looks_like_a_mark_but_may_mean_something_stays() -> None:
    assert plain_lines("a*b*c and 2 * 3 * 4 and __init__.py and snake_case_name", 80) == [
        "a*b*c and 2 * 3 * 4 and __init__.py and snake_case_name"
    ]
    assert one_line("~~Do not~~ *pay* a*b*c") == "~~Do not~~ pay a*b*c"


def test_a_link_shows_where_it_leads_and_only_the_web_and_mailboxes_are_links() -> None:
    text = "[safe](https://evil.example/?q=1&r=2) <ann@example.com> [x](javascript:alert(1)) [y](ftp://a.b) ![i](/a.png)"
    seen = Tags(to_html(text, HtmlStyles()))
    links = [attrs["href"] for tag, attrs in seen.tags if tag == "a"]
    assert links == ["https://evil.example/?q=1&r=2", "mailto:ann@example.com"]
    assert "safe (https://evil.example/?q=1&r=2)" in seen.text
    assert "Image: i (/a.png)" in seen.text
    assert "<a" not in to_html(text, HtmlStyles(links=False))


def test_numbers_and_tightness_of_lists_are_kept() -> None:
    [tight] = parse("3. a\n4. b")
    assert isinstance(tight, ListBlock)
    assert (tight.start, tight.tight) == (3, True)
    [loose] = parse("- a\n\n- b")
    assert isinstance(loose, ListBlock)
    assert (loose.start, loose.tight) == (None, False)
    assert plain_lines("9. a\n10. b", 40) == ["9.  a", "10. b"]
    assert [type(each) for each in parse("a\n\n---\n\n    code\n\n- | a | b |\n  |--|--|\n  | 1 | 2 |")] == [
        Paragraph,
        Rule,
        CodeBlock,
        ListBlock,
    ]
    [item] = parse("- | a | b |\n  |--|--|\n  | 1 | 2 |")
    assert isinstance(item, ListBlock)
    assert isinstance(item.items[0][0], Table)


def test_a_hostile_text_becomes_nothing_but_text() -> None:
    for text in TEXTS[::7]:
        seen = Tags(to_html(text, HtmlStyles()))
        assert {tag for tag, _ in seen.tags} <= TAGS
        assert all(set(attrs) <= {"href", "start"} for _, attrs in seen.tags)
        for line in ["".join(part for _, part in each) for each in text_lines(text, 70)]:
            unseen = {
                each
                for each in line
                if unicodedata.category(each) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
            }
            assert unseen <= {"\u200d"}


def test_a_character_that_comes_by_its_number_is_made_visible_too() -> None:
    assert plain_lines("a&#x202e;b&#10;c&#x9b;[2J", 80) == ["a‹U+202E›b‹U+000A›c�[2J"]
    assert "\u202e" not in to_html("a&#x202e;b <https://x.y/&#x202e;>", HtmlStyles())


def test_deep_and_long_marks_are_read_in_a_bounded_time() -> None:
    for text in (
        "*a " * 3_000,
        "**" * 5_000,
        "[" * 5_000,
        "> " * 5_000,
        "`" * 10_000,
        "|" * 10_000,
        "~~a*" * 2_000,
    ):
        plain_lines(text, 70)


def test_a_word_that_changes_its_style_is_not_broken_there() -> None:
    lines = wrapped([("", "aaaa bbbb "), ("strong", "cccc"), ("", ", dddd")], 14)
    assert ["".join(text for _, text in line).rstrip() for line in lines] == ["aaaa bbbb", "cccc, dddd"]
    assert not re.search(r"\s$", "".join(text for _, text in lines[-1]))

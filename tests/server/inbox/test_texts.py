"""Agents' markdown on a page: images are named and never loaded, tables keep their columns."""

from __future__ import annotations

from handraise.presentation.markdown import one_line
from handraise.server.web.inbox.agent_text import formatted


def test_an_image_is_its_description_and_its_address_and_is_never_loaded() -> None:
    made = formatted("Look: ![latency <chart>](https://example.com/a.png)")
    assert "Image: latency &lt;chart&gt; (<a" in made
    assert ">https://example.com/a.png</a>)" in made
    assert "<img" not in made
    assert "!latency" not in made
    assert "Image: without a description (" in formatted("![](https://example.com/b.png)")
    assert one_line("![latency chart](https://example.com/a.png)", 80) == "latency chart"


def test_an_image_leads_only_to_where_a_link_may() -> None:
    for address in ("javascript:alert(1)", "data:text/html,x", "//evil.example/a.png"):
        assert "href" not in formatted(f"![x]({address})")


def test_columns_keep_their_side_without_any_style() -> None:
    made = formatted("| a | b | c |\n|:--|--:|:-:|\n| 1 | 2 | 3 |")
    assert '<th class="right">b</th>' in made
    assert '<td class="right">2</td>' in made
    assert '<td class="center">3</td>' in made
    assert "<td>1</td>" in made
    assert "style" not in made

"""The way back: a question's page leads to the list that it was opened from, with its filters, its page and its row."""

from __future__ import annotations

import re
from html import unescape

import httpx2
import pytest

from handraise import Confirm
from handraise.desk.local_desk import LocalDesk
from tests.server.inbox.browser import Page, open_page, send


def back(page: Page) -> tuple[str, str]:
    [(href, name)] = re.findall(r'<a href="([^"]+)" data-back>← (\w+)</a>', page.html)
    return unescape(href), name


def links(page: Page) -> list[str]:
    return [unescape(each) for each in re.findall(r'<a href="(/questions/[^"]+)"', page.html)]


async def test_back_keeps_filters_and_row_also_after_an_answer(
    ann: httpx2.AsyncClient, desk: LocalDesk
) -> None:
    question = await desk.post("Go?", form=Confirm(), conversation="a & b", recipients=["ann"])
    [link] = links(await open_page(ann, "/?q=go&conversation=a+%26+b&page=1"))
    place = f"/?q=go&conversation=a+%26+b&page=1#q-{question.id}"
    opened = await open_page(ann, link)
    assert back(opened) == (place, "Waiting")
    answered = await send(ann, opened.sheet(), ("v", "yes"))
    assert answered.status_code == 303
    assert answered.headers["location"] == f"{place.partition('#')[0]}&done={question.id}"


async def test_back_from_a_settled_question_leads_to_settled(
    ann: httpx2.AsyncClient, desk: LocalDesk
) -> None:
    question = await desk.post("Go?", form=Confirm(), recipients=["ann"])
    await desk.answer(question.id, "yes", by="ann")
    [link] = links(await open_page(ann, "/settled?q=go"))
    assert back(await open_page(ann, link)) == (f"/settled?q=go#q-{question.id}", "Settled")


async def test_rows_can_be_led_back_to(ann: httpx2.AsyncClient, desk: LocalDesk) -> None:
    question = await desk.post("Go?", form=Confirm(), recipients=["ann"])
    assert f'id="q-{question.id}"' in (await open_page(ann, "/")).html
    assert links(await open_page(ann, "/")) == [f"/questions/{question.id}?from=%2F"]


@pytest.mark.parametrize(
    "hostile",
    [
        "https://evil.example/",
        "//evil.example/",
        "javascript:alert(1)",
        "/sign-out",
        "/../settled",
        "/settled/../me",
        "\\\\evil.example",
        "/?" + "q" * 3_000,
        "http://[",
    ],
)
async def test_back_leads_nowhere_but_to_a_list(
    ann: httpx2.AsyncClient, desk: LocalDesk, hostile: str
) -> None:
    question = await desk.post("Go?", form=Confirm(), recipients=["ann"])
    shown = await ann.get(f"/questions/{question.id}", params={"from": hostile})
    assert back(Page(shown.text)) == (f"/#q-{question.id}", "Waiting")

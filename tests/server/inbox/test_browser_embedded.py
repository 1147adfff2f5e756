"""A question in a page of somebody else's, in a real browser: answered there, heard of there, and no more than that."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from typing import Any, Literal
from urllib.parse import urlencode

import pytest
import pytest_asyncio
from fastapi import FastAPI
from playwright.async_api import Browser, BrowserContext, Frame, Page, expect
from starlette.requests import Request
from starlette.responses import HTMLResponse

from handraise import Answered, Approval, Choice, Confirm, Form, Open, Question
from handraise.desk.local_desk import LocalDesk
from handraise.model.forms import AnyForm, Field
from handraise.model.identities import Role
from handraise.server import ServerContext
from handraise.server.auth.issuer import issue_question_link
from support.doc_pages import DOCS, blocks_of
from support.http_server import listening
from support.issuer import Issuer
from tests.server.inbox.chromium import *  # noqa: F403 -- fixtures come by name
from tests.server.inbox.chromium import PATIENCE, complaints, violations

HOW_TO = DOCS / "how-to" / "embed-a-question.md"

HOST = """<!doctype html>
<html lang="en" style="{style}">
<head><title>Somebody else's page</title></head>
<body><main><h1>Orders</h1>{inside}</main>
<script>
  window.heard = [];
  window.settled = [];
  addEventListener("message", (event) => heard.push(event.data));
  addEventListener("handraise-settled", (event) => settled.push(event.detail));
</script>
<script type="module" src="{server}/static/embed.js"></script>
</body></html>"""

LinkTo = Callable[[Question], Awaitable[str]]
"""Makes a link with which ann answers a question."""


@pytest_asyncio.fixture(loop_scope="session")
async def sites(ctx: ServerContext, address: str) -> AsyncIterator[tuple[str, str]]:
    """The origins of two sites of others: the first may show questions, the second may not."""
    site = FastAPI()

    @site.get("/")
    async def page(request: Request) -> HTMLResponse:
        asked = request.query_params
        if "page" in asked:
            return HTMLResponse(asked["page"])
        inside = f'<handraise-question src="{asked["src"]}"></handraise-question>' if "src" in asked else ""
        return HTMLResponse(HOST.format(inside=inside, server=address, style=asked.get("style", "")))

    @site.get("/favicon.ico", status_code=204)
    async def icon() -> None:
        """Every browser asks for it."""

    with socket.socket() as one, socket.socket() as two:
        for door in (one, two):
            door.bind(("127.0.0.1", 0))
        ctx.settings = ctx.settings.model_copy(update={"embed_origins": (origin_of(one),)})
        async with listening(site, one), listening(site, two):
            yield origin_of(one), origin_of(two)


def origin_of(door: socket.socket) -> str:
    # Another name than that of the server: another site, and not just another port of the same.
    return f"http://localhost:{door.getsockname()[1]}"


@pytest.fixture
def link_to(ctx: ServerContext, issuer: Issuer, workspace: str, address: str) -> LinkTo:
    async def link(question: Question) -> str:
        await issuer.person(workspace, "ann", role=Role.MEMBER)
        ann, week = await ctx.directory.find_person(workspace, "ann"), timedelta(days=7)
        assert ann is not None
        made = await issue_question_link(ctx, question, ann, channel="link", by="boss", lasts=week)
        assert made is not None
        return made.url.replace(ctx.settings.base_url, address)

    return link


@pytest_asyncio.fixture(loop_scope="session")
async def stranger(chromium: Browser) -> AsyncIterator[BrowserContext]:
    """A browser in which nobody is signed in."""
    context = await chromium.new_context()
    context.set_default_timeout(PATIENCE)
    yield context
    await context.close()


@pytest_asyncio.fixture(loop_scope="session")
async def host(stranger: BrowserContext) -> Page:
    return await stranger.new_page()


async def shown_in(host: Page, site: str, url: str, **more: str) -> Frame:
    """Open somebody else's page with a question in it."""
    await host.goto(f"{site}/?{urlencode({'src': url, **more})}")
    frame = await frame_in(host, "handraise-question iframe")
    await frame.wait_for_load_state()
    return frame


async def settled(host: Page) -> Any:
    """What the page heard once it has heard it."""
    await host.wait_for_function("settled.length > 0")
    return await host.evaluate("settled")


@pytest.mark.only_proof_of("a question is answered in a page of somebody else's")
async def test_it_is_answered_there_and_the_page_hears_of_that_and_of_nothing_else(
    host: Page, sites: tuple[str, str], desk: LocalDesk, link_to: LinkTo
) -> None:
    question = await desk.post("Which strategy?", form=Choice.of("Canary", "Rolling"))
    errors = complaints(host)
    frame = await shown_in(host, sites[0], await link_to(question))
    await frame.get_by_label("Rolling").check()
    await frame.get_by_role("button", name="Send the answer").click()
    await expect(frame.get_by_role("heading", name="Answered by you")).to_be_visible()
    assert await settled(host) == [{"status": "answered"}]
    outcome = (await desk.get(question.id)).outcome
    assert isinstance(outcome, Answered)
    assert (outcome.value, outcome.by, outcome.evidence) == ("Rolling", "ann", "signed-link")
    heard = await host.evaluate("heard")
    assert {name for each in heard for name in each["handraise"]} == {"height", "status"}
    assert await host.context.cookies() == []
    assert errors == []


@pytest.mark.slow(
    "the element is the same as in test_it_is_answered_there_and_the_page_hears_of_that_and_of_nothing_else"
)
async def test_the_page_of_the_how_to_works(
    host: Page, sites: tuple[str, str], address: str, desk: LocalDesk, link_to: LinkTo
) -> None:
    question = await desk.post("Really?", form=Confirm())
    [block] = [each.text for each in blocks_of(HOW_TO) if each.language == "html"]
    shown = block.replace("https://handraise.example.com/q/hrq_…", await link_to(question))
    shown = shown.replace("https://handraise.example.com", address)
    await host.goto(f"{sites[0]}/?{urlencode({'page': shown})}")
    frame = await frame_in(host, "handraise-question iframe[title='A question about order 1234']")
    async with host.expect_console_message(lambda message: message.text == "answered"):
        await frame.get_by_role("button", name="Yes").click()


@pytest.mark.slow("only a look; that a frame is answered is in the gate")
async def test_the_frame_is_as_tall_as_what_is_in_it(
    host: Page, sites: tuple[str, str], desk: LocalDesk, link_to: LinkTo
) -> None:
    fields = tuple(Field(name=f"field {n}", form=Open()) for n in range(6))
    question = await desk.post("Fill this in", form=Form(fields=fields))
    frame = await shown_in(host, sites[0], await link_to(question))
    inside = "document.documentElement.scrollHeight"
    for script in (
        "0",
        "document.querySelector('details').open = true",
        "document.querySelector('form').remove()",
    ):
        await frame.evaluate(script)
        tall = await frame.evaluate("Math.ceil(document.documentElement.getBoundingClientRect().height)")
        await host.wait_for_function(
            "(tall) => document.querySelector('handraise-question').shadowRoot.firstChild.offsetHeight === tall",
            arg=tall,
        )
        assert await frame.evaluate(inside) == tall


async def test_a_site_that_is_not_named_cannot_show_it(
    host: Page, sites: tuple[str, str], desk: LocalDesk, link_to: LinkTo
) -> None:
    question = await desk.post("Really?", form=Confirm())
    url = await link_to(question)
    for path in (url, f"{url}/frame"):
        await is_refused(host, sites[1], path)
    frame = await shown_in(host, sites[1], url)
    assert await frame.get_by_text("Really?").count() == 0
    assert await host.evaluate("heard.concat(settled)") == []


@pytest.mark.slow("test_embedded_question.py has the headers and the page; this is the same in a browser")
async def test_a_site_that_is_named_can_show_nothing_else(
    host: Page, sites: tuple[str, str], address: str, desk: LocalDesk, link_to: LinkTo
) -> None:
    question = await desk.post("Pay?", form=Approval.of("pay", {"amount": 250}))
    url = await link_to(question)
    for path in (url, f"{address}/sign-in", f"{address}/questions/{question.id}"):
        await is_refused(host, sites[0], path)
    await host.goto(sites[0])
    assert await (await inserted(host, f"{url}/frame")).get_by_text("Pay?").count() == 1


async def is_refused(host: Page, site: str, url: str) -> None:
    """Fail unless the browser does not show this page in a frame of that site, because of its policy."""
    await host.goto(site)
    async with host.expect_console_message(lambda message: "frame-ancestors" in message.text):
        frame = await inserted(host, url)
    assert await frame.locator("h1:visible, .prompt").count() == 0


async def inserted(host: Page, url: str) -> Frame:
    """A plain frame that a page makes, without our element."""
    await host.evaluate(
        """(url) => new Promise((loaded) => {
            const frame = document.createElement("iframe");
            frame.id = "plain";
            frame.onload = loaded;
            frame.src = url;
            document.body.append(frame);
        })""",
        url,
    )
    return await frame_in(host, "#plain")


async def frame_in(host: Page, selector: str) -> Frame:
    element = await host.wait_for_selector(selector)
    frame = None if element is None else await element.content_frame()
    assert frame is not None
    return frame


@pytest.mark.slow("test_embedded_question.py has the tab of its own; that a frame follows is one more detail")
async def test_an_approval_is_decided_in_a_tab_of_its_own_and_the_frame_follows(
    host: Page, sites: tuple[str, str], desk: LocalDesk, link_to: LinkTo
) -> None:
    question = await desk.post("Pay?", form=Approval.of("pay", {"amount": 250}))
    url = await link_to(question)
    frame = await shown_in(host, sites[0], url)
    await expect(frame.get_by_text("250")).not_to_have_count(0)
    assert await frame.get_by_role("button").count() == 0
    async with host.context.expect_page() as opening:
        await frame.get_by_role("link", name="Open in a new tab to decide").click()
    tab = await opening.value
    assert tab.url == url
    assert await tab.evaluate("window.opener") is None
    await tab.get_by_role("button", name="Approve").click()
    await expect(tab.get_by_role("heading", name="Approved by you")).to_be_visible()
    await host.bring_to_front()
    await frame.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    await expect(frame.get_by_role("heading", name="Approved by you")).to_be_visible()
    assert await settled(host) == [{"status": "answered"}]


@pytest.mark.slow("test_browser_threads.py has the same on the page of a question; this is another script")
async def test_a_frame_tells_of_a_new_message_and_keeps_what_was_typed(
    host: Page, sites: tuple[str, str], desk: LocalDesk, link_to: LinkTo
) -> None:
    question = await desk.post("Name it", replies="program")
    frame = await shown_in(host, sites[0], await link_to(question))
    await frame.get_by_label("Your answer").fill("half a th")
    await desk.note(question.id, "not after a fish", by="bob")
    await frame.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    await expect(frame.locator("[data-live]")).to_contain_text("There is a new message.")
    await expect(frame.get_by_label("Your answer")).to_have_value("half a th")
    await expect(frame.get_by_role("button", name="Send the answer")).to_be_enabled()
    await frame.get_by_role("link", name="Show it").click()
    await expect(frame.get_by_text("not after a fish")).to_be_visible()


@pytest.mark.slow("test_browser_live.py has the same on the page of a question, with the same script")
async def test_what_was_typed_stays_when_it_is_settled_elsewhere(
    host: Page, sites: tuple[str, str], desk: LocalDesk, link_to: LinkTo
) -> None:
    question = await desk.post("Name it")
    frame = await shown_in(host, sites[0], await link_to(question))
    await frame.get_by_label("Your answer").fill("my long thought")
    await desk.withdraw(question.id)
    await expect(frame.locator("[data-live]")).to_contain_text("This was withdrawn just now.")
    await expect(frame.get_by_label("Your answer")).to_have_value("my long thought")
    await expect(frame.get_by_role("button", name="Send the answer")).to_be_disabled()
    assert await settled(host) == [{"status": "withdrawn"}]
    await frame.get_by_role("link", name="Show how it ended").click()
    await expect(frame.get_by_role("heading", name="Withdrawn by the agent")).to_be_visible()
    assert await host.evaluate("settled") == [{"status": "withdrawn"}]


@pytest.mark.slow("every link of an agent's opens a tab of its own: test_hostile.py")
async def test_a_link_of_an_agents_leaves_the_frame_alone(
    host: Page, sites: tuple[str, str], address: str, desk: LocalDesk, link_to: LinkTo
) -> None:
    question = await desk.post(f"See <{address}/sign-in>", form=Confirm())
    frame = await shown_in(host, sites[0], await link_to(question))
    async with host.context.expect_page() as opening:
        await frame.get_by_role("link", name="sign-in").click()
    assert (await opening.value).url == f"{address}/sign-in"
    await expect(frame.get_by_role("button", name="Yes")).to_be_visible()


@pytest.mark.parametrize(
    "src",
    [
        "javascript:parent.heard.push('ran')//https://a.example/q/x",
        *(
            pytest.param(src, marks=pytest.mark.slow("one more text that is no link; the gate has one"))
            for src in (
                "javascript:/q/x",
                "data:text/html,<script>parent.heard.push('ran')</script>",
                "https://a.example/sign-in",
                "/q/hrq_x_y",
                "nonsense",
                "",
            )
        ),
    ],
)
async def test_what_is_no_link_makes_no_frame(host: Page, sites: tuple[str, str], src: str) -> None:
    errors = complaints(host)
    await host.goto(sites[0])
    await host.evaluate(
        """(src) => {
            const made = document.createElement("handraise-question");
            made.setAttribute("src", src);
            document.body.append(made);
        }""",
        src,
    )
    assert await host.locator("iframe").count() == 0
    assert len(host.frames) == 1
    assert await host.evaluate("heard") == []
    assert errors == []


@pytest.mark.slow("one line of the element, which rarely changes")
async def test_nobody_but_the_frame_says_that_it_is_settled_or_how_tall_it_is(
    host: Page, sites: tuple[str, str], desk: LocalDesk, link_to: LinkTo
) -> None:
    question = await desk.post("Really?", form=Confirm())
    frame = await shown_in(host, sites[0], await link_to(question))
    await host.wait_for_function("heard.length > 0")
    forged = {"handraise": {"status": "answered", "height": 7}}
    await host.evaluate("(forged) => postMessage(forged, '*')", forged)
    other = await inserted(host, f"{sites[1]}/")
    await other.evaluate("(forged) => parent.postMessage(forged, '*')", forged)
    await host.wait_for_function("heard.filter((each) => each.handraise.height === 7).length === 2")
    assert await host.evaluate("settled") == []
    tall = "document.querySelector('handraise-question').shadowRoot.firstChild.offsetHeight"
    assert await host.evaluate(tall) > 100
    assert await other.evaluate("parent.frames.length") == 1, "the frame of a question can be reached"
    assert await frame.evaluate("document.getElementById('main').dataset.status") == "pending"


@pytest.mark.slow("test_browser_access.py runs axe on a page behind a link and on a frame in the gate")
@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_every_page_passes_axe(
    chromium: Browser,
    sites: tuple[str, str],
    desk: LocalDesk,
    link_to: LinkTo,
    theme: Literal["light", "dark"],
) -> None:
    context = await chromium.new_context(color_scheme=theme, bypass_csp=True)
    tab = await context.new_page()
    approval = Approval.of("pay", {"to": "B", "n": 3}, editable=["n"], scopes=["once", "always"])
    forms: list[AnyForm] = [Choice.of("a", "b"), Confirm(), approval]
    asked = [await desk.post("**May** I? <https://a.example>", form=each) for each in forms]
    urls = [await link_to(each) for each in asked]
    for url in urls:
        for place in (url, f"{url}/frame"):
            await tab.goto(place)
            assert await violations(tab) == []
    await tab.goto(urls[2])
    await tab.get_by_text("Change something before you approve").click()
    await tab.locator("[name=v0]").fill("4")
    await tab.get_by_role("button", name="Approve").click()
    await expect(tab.get_by_role("heading", name="Approve with your changes?")).to_be_visible()
    assert await violations(tab) == []
    await desk.answer(asked[0].id, "a", by="bob")
    for place in (f"{urls[0]}/frame", f"{urls[0]}x/frame", f"{urls[0]}x"):
        await tab.goto(place)
        assert await violations(tab) == []
    await shown_in(tab, sites[0], urls[1])
    assert await violations(tab) == []
    await context.close()


@pytest.mark.slow("only a look: two rules of the style sheet")
async def test_the_theme_of_the_page_around_it_is_followed(
    chromium: Browser, sites: tuple[str, str], desk: LocalDesk, link_to: LinkTo
) -> None:
    context = await chromium.new_context(color_scheme="null")  # the page's own, and not one that is pretended
    host = await context.new_page()
    url = await link_to(await desk.post("Really?", form=Confirm()))
    grounds = []
    for style in ("color-scheme: light", "color-scheme: dark"):
        frame = await shown_in(host, sites[0], url, style=style)
        grounds.append(await frame.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert grounds == ["rgb(255, 255, 255)", "rgb(28, 30, 36)"]
    await context.close()


@pytest.mark.slow("test_question_links.py answers without scripts, and test_browser_kinds.py in a browser")
async def test_the_page_of_a_link_works_without_scripts_on_a_phone(
    chromium: Browser, desk: LocalDesk, link_to: LinkTo
) -> None:
    context = await chromium.new_context(java_script_enabled=False, viewport={"width": 320, "height": 640})
    tab = await context.new_page()
    question = await desk.post("How many?", form=Open(type="integer"))
    await tab.goto(await link_to(question))
    await tab.get_by_label("Your answer").fill("lots")
    await tab.get_by_role("button", name="Send the answer").click()
    await expect(tab.get_by_text("expected a whole number")).not_to_have_count(0)
    await tab.get_by_label("Your answer").fill("7")
    await tab.get_by_role("button", name="Send the answer").click()
    await expect(tab.get_by_role("heading", name="Answered by you")).to_be_visible()
    assert await context.cookies() == []
    outcome = (await desk.get(question.id)).outcome
    assert isinstance(outcome, Answered)
    assert outcome.value == 7
    await context.close()

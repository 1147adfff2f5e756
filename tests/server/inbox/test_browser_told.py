"""Being told: notifications that give nothing away, push messages, and a worker that keeps nothing of a person."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import BrowserContext, Page, Request, Worker, expect

from handraise import Approval, Choice, Confirm, Question
from handraise.channels.webpush import payload_of
from handraise.desk.local_desk import LocalDesk
from handraise.model.identities import Role
from handraise.ports.channel import Message, Notice
from handraise.presentation.one_press import notification_digest
from tests.server.inbox.chromium import *  # noqa: F403 -- fixtures come by name
from tests.server.inbox.chromium import NewWindow, complaints, listens, violations

SECRET = "the secret is hunter2"  # noqa: S105 -- what must not be shown
LOOKS_AWAY = (
    "Object.defineProperty(document, 'visibilityState', { get: () => 'hidden', configurable: true });"
)
STUB = """
    const subscription = {
        endpoint: "https://push.example/abc",
        options: {},
        toJSON() { return { endpoint: this.endpoint, expirationTime: null, keys: { p256dh: "P", auth: "A" } }; },
        async unsubscribe() { localStorage.setItem("stub", "gone"); return true; },
    };
    PushManager.prototype.getSubscription = async () => localStorage.getItem("stub") === "there" ? subscription : null;
    PushManager.prototype.subscribe = async (options) => {
        if (localStorage.getItem("stub") === "refused") throw new DOMException("no", "NotAllowedError");
        localStorage.setItem("asked", JSON.stringify(options));
        localStorage.setItem("stub", "there");
        return subscription;
    };
"""


@pytest_asyncio.fixture(loop_scope="session")
async def told(person: NewWindow) -> AsyncIterator[BrowserContext]:
    """The browser of ann, who lets this server notify her."""
    async with person("ann", permissions=["notifications"]) as window:
        yield window


async def worker_of(window: BrowserContext) -> Worker:
    """The worker, once a page has started it."""
    if window.service_workers:
        return window.service_workers[0]
    return await window.wait_for_event("serviceworker")


async def shown(tab: Page, *, count: int = 1) -> list[dict[str, Any]]:
    """What the browser shows, as soon as it is as many as that."""
    found: list[dict[str, Any]] = []
    for _ in range(200):
        found = await tab.evaluate(
            """async () => (await (await navigator.serviceWorker.ready).getNotifications())
                .map(({ title, body, tag, data }) => ({ title, body, tag, url: data.url }))"""
        )
        if len(found) == count:
            return found
        await asyncio.sleep(0.1)
    raise AssertionError(found)


async def turn_on(tab: Page) -> None:
    await tab.goto("/me")
    await tab.get_by_role("switch", name="While the list is open in a tab").check()
    await expect(tab.get_by_text("You will be told while the list is open in a tab.")).to_be_visible()


class TestNotifications:
    @pytest.mark.only_proof_of("a notification says nothing of the question")
    async def test_say_who_asks_and_what_for_and_nothing_of_the_question(
        self, told: BrowserContext, desk: LocalDesk
    ) -> None:
        tab = await told.new_page()
        await turn_on(tab)
        found = complaints(tab)
        await tab.add_init_script(LOOKS_AWAY)
        await listens(tab, "/")
        question = await desk.post(SECRET, form=Approval.of("pay", {"pin": SECRET}), context={"a": SECRET})
        assert await shown(tab) == [
            {
                "title": "deploy-bot asks for your approval",
                "body": "It waits for you in your inbox.",
                "tag": question.id,
                "url": f"/questions/{question.id}",
            }
        ]
        await desk.answer(question.id, {"decision": "deny"}, by="bob")
        assert await shown(tab, count=0) == []
        assert found == []

    @pytest.mark.slow(
        "test_say_who_asks_and_what_for_and_nothing_of_the_question has the notification; this is when there is none"
    )
    async def test_are_not_for_questions_of_others_nor_for_who_looks_nor_for_who_did_not_want_them(
        self, person: NewWindow, desk: LocalDesk
    ) -> None:
        async with person("boss", role=Role.ADMIN, permissions=["notifications"]) as window:
            tab = await window.new_page()
            await listens(tab, "/")
            await desk.post("nobody wants to be told yet")
            await expect(tab.locator("[data-row]")).to_have_count(1)
            await turn_on(tab)
            await listens(tab, "/")
            await desk.post("seen at once")
            await expect(tab.get_by_text("1 new question.")).to_be_visible()
            await tab.add_init_script(LOOKS_AWAY)
            await listens(tab, "/")
            await desk.post("for bob", recipients=["bob"])
            mine = await desk.post("for me", recipients=["boss"])
            assert [each["tag"] for each in await shown(tab)] == [mine.id]

    @pytest.mark.slow(
        "test_say_who_asks_and_what_for_and_nothing_of_the_question has the notification; this is when there is none"
    )
    async def test_are_few_however_many_questions_come(self, told: BrowserContext, desk: LocalDesk) -> None:
        tab = await told.new_page()
        await turn_on(tab)
        await tab.add_init_script(LOOKS_AWAY)
        await listens(tab, "/")
        for number in range(4):
            await desk.post(f"first {number}")
        await shown(tab, count=4)
        for number in range(20):
            await desk.post(f"then {number}")
        found = await shown(tab, count=6)
        assert [each["url"] for each in found if each["title"] == "More questions wait for you"] == ["/"]

    @pytest.mark.slow(
        "test_say_who_asks_and_what_for_and_nothing_of_the_question has the notification; this is when there is none"
    )
    async def test_end_with_signing_out(self, told: BrowserContext, desk: LocalDesk) -> None:
        tab = await told.new_page()
        await turn_on(tab)
        await tab.add_init_script(LOOKS_AWAY)
        await listens(tab, "/")
        await desk.post("one")
        await shown(tab)
        await tab.get_by_role("button", name="Sign out").click()
        await expect(tab.get_by_role("heading", name="Sign in")).to_be_visible()
        assert await tab.evaluate("Object.keys(localStorage)") == []
        assert await shown(tab, count=0) == []

    @pytest.mark.slow(
        "test_say_who_asks_and_what_for_and_nothing_of_the_question has the notification; this is when there is none"
    )
    async def test_say_where_they_are_forbidden(self, person: NewWindow) -> None:
        async with person("ann") as window:
            tab = await window.new_page()
            await tab.add_init_script(
                "Object.defineProperty(Notification, 'permission', { get: () => 'denied' });"
            )
            await tab.goto("/me")
            switch = tab.get_by_role("switch", name="While the list is open in a tab")
            await expect(tab.get_by_text("was told not to show notifications")).to_be_visible()
            await switch.click()
            await expect(switch).not_to_be_checked()


class TestPushSwitch:
    @pytest_asyncio.fixture(loop_scope="session")
    async def tab(self, told: BrowserContext) -> Page:
        await told.add_init_script(STUB)
        return await told.new_page()

    @pytest.mark.slow(
        "test_subscribes_tells_the_server_and_ends_again has the switch; this is one more way in which it ends"
    )
    async def test_is_not_there_where_the_server_has_none(self, tab: Page) -> None:
        await tab.goto("/me")
        await expect(tab.get_by_role("switch")).to_have_count(1)

    @pytest.mark.slow("takes seconds in Chromium, and no right depends on it")
    async def test_subscribes_tells_the_server_and_ends_again(self, tab: Page) -> None:
        sent = await self.with_server(tab, status=201)
        await tab.goto("/me")
        switch = tab.get_by_role("switch", name="Also when no tab is open")
        await switch.check()
        await expect(tab.get_by_text("You will be told also when no tab is open.")).to_be_visible()
        body = {"endpoint": "https://push.example/abc", "keys": {"p256dh": "P", "auth": "A"}}
        assert [(request.method, request.post_data_json) for request in sent] == [("POST", body)]
        asked = json.loads(await tab.evaluate("localStorage.getItem('asked')"))
        assert asked == {"userVisibleOnly": True, "applicationServerKey": "BKey"}
        await tab.reload()
        await expect(switch).to_be_checked()
        await switch.uncheck()
        await expect(switch).to_be_enabled()
        assert [(request.method, request.post_data_json) for request in sent[1:]] == [("DELETE", body)]
        assert await tab.evaluate("localStorage.getItem('stub')") == "gone"

    @pytest.mark.slow(
        "test_subscribes_tells_the_server_and_ends_again has the switch; this is one more way in which it ends"
    )
    async def test_is_off_again_where_the_server_does_not_take_it(self, tab: Page) -> None:
        await self.with_server(tab, status=422)
        await tab.goto("/me")
        switch = tab.get_by_role("switch", name="Also when no tab is open")
        await switch.click()
        await expect(tab.get_by_text("That did not work just now.")).to_be_visible()
        await expect(switch).not_to_be_checked()
        assert await tab.evaluate("localStorage.getItem('stub')") == "gone"

    @pytest.mark.slow(
        "test_subscribes_tells_the_server_and_ends_again has the switch; this is one more way in which it ends"
    )
    async def test_is_off_again_where_the_person_says_no(self, tab: Page) -> None:
        await self.with_server(tab, status=201)
        await tab.goto("/me")
        await tab.evaluate("localStorage.setItem('stub', 'refused')")
        switch = tab.get_by_role("switch", name="Also when no tab is open")
        await switch.click()
        await expect(tab.get_by_text("was told not to show notifications")).to_be_visible()
        await expect(switch).not_to_be_checked()

    @pytest.mark.slow(
        "test_subscribes_tells_the_server_and_ends_again has the switch; this is one more way in which it ends"
    )
    async def test_signing_out_ends_it(self, tab: Page) -> None:
        sent = await self.with_server(tab, status=201)
        await tab.goto("/me")
        await tab.get_by_role("switch", name="Also when no tab is open").check()
        await expect(tab.get_by_text("You will be told also when no tab is open.")).to_be_visible()
        await tab.get_by_role("button", name="Sign out").first.click()
        await expect(tab.get_by_role("heading", name="Sign in")).to_be_visible()
        assert [request.method for request in sent] == ["POST", "DELETE"]
        assert await tab.evaluate("localStorage.getItem('stub')") == "gone"

    @staticmethod
    async def with_server(tab: Page, *, status: int) -> Sequence[Request]:
        """A server that has push; what it is sent."""
        sent: list[Request] = []
        tab.on("request", lambda request: sent.append(request) if "/subscriptions" in request.url else None)
        await tab.route("**/v1/push/key", lambda route: route.fulfill(json={"key": "BKey"}))
        await tab.route("**/v1/push/subscriptions", lambda route: route.fulfill(status=status))
        return sent


def in_the_gate(*rows: tuple[Any, str, str]) -> list[Any]:
    """All rows; only the first two stay in the gate."""
    enough = pytest.mark.slow("the gate has a message that is as it should be, and one that leads elsewhere")
    return [pytest.param(*row, marks=() if place < 2 else enough) for place, row in enumerate(rows)]


class TestWorker:
    @pytest.mark.parametrize(
        ("payload", "title", "path"),
        in_the_gate(
            (
                {"title": "deploy-bot asks", "body": "Approval", "url": "/questions/q1?a=b", "tag": "q1"},
                "deploy-bot asks",
                "/questions/q1?a=b",
            ),
            ({"title": "t", "url": "//evil.example/x"}, "t", "/"),
            ({"title": "t", "url": "https://evil.example/questions/q1"}, "t", "/"),
            ({"title": "t", "url": "/\\evil.example"}, "t", "/"),
            ({"title": "t", "url": "javascript:alert(1)"}, "t", "/"),
            ({"title": "t", "url": "data:text/html,x"}, "t", "/"),
            ({"title": "t", "url": ["/questions/q1"]}, "t", "/"),
            ({"title": "t", "url": "http://["}, "t", "/"),
            ({"title": {"a": 1}, "body": 7, "url": None}, "A question waits for you", "/"),
            ("no JSON at all", "A question waits for you", "/"),
            ("null", "A question waits for you", "/"),
            ("[]", "A question waits for you", "/"),
            ({"title": "x" * 5_000}, "x" * 200, "/"),
        ),
    )
    async def test_shows_what_a_push_message_says_and_leads_nowhere_else(
        self, told: BrowserContext, address: str, payload: Any, title: str, path: str
    ) -> None:
        tab = await told.new_page()
        await tab.goto("/me")
        await push(tab, address, payload if isinstance(payload, str) else json.dumps(payload))
        [found] = await shown(tab)
        assert (found["title"], found["url"]) == (title, f"{address}{path}")

    @pytest.mark.slow("one more address that a push message may have; the gate has two")
    async def test_of_a_path_that_looks_like_another_host_stays_here(
        self, told: BrowserContext, address: str
    ) -> None:
        tab = await told.new_page()
        await tab.goto("/me")
        await push(tab, address, json.dumps({"title": "t", "url": f"{address}//evil.example/x"}))
        [found] = await shown(tab)
        assert found["url"].startswith(f"{address}/")

    async def test_keeps_nothing_of_a_person(self, told: BrowserContext, desk: LocalDesk) -> None:
        tab = await told.new_page()
        question = await desk.post(SECRET, form=Choice.of("a", "b"))
        await tab.goto("/")
        await worker_of(told)
        await tab.evaluate("navigator.serviceWorker.ready.then(() => null)")
        for path in ("/", "/me", f"/questions/{question.id}", "/"):
            await tab.goto(path)
        kept = await tab.evaluate("""async () => {
            const found = [];
            for (const name of await caches.keys())
                for (const request of await (await caches.open(name)).keys()) found.push(new URL(request.url).pathname);
            return found.sort();
        }""")
        assert kept == ["/static/mark.svg", "/static/offline.html", "/static/style.css"]

    @pytest.mark.slow("a page that never changes; test_keeps_nothing_of_a_person has what the worker keeps")
    async def test_says_kindly_that_there_is_no_network(self, told: BrowserContext, desk: LocalDesk) -> None:
        tab = await told.new_page()
        question = await desk.post("one")
        await tab.goto("/")
        await tab.evaluate("navigator.serviceWorker.ready.then(() => null)")
        await told.set_offline(True)
        await tab.goto(f"/questions/{question.id}")
        await expect(tab.get_by_role("heading", name="The inbox cannot be reached")).to_be_visible()
        assert await tab.locator(".card").evaluate("(card) => getComputedStyle(card).borderRadius") != "0px"
        await told.set_offline(False)
        await tab.get_by_role("link", name="Try again").click()
        await expect(tab.get_by_role("heading", name="deploy-bot asks")).to_be_visible()

    async def test_sends_nothing_on_for_another_site(self, told: BrowserContext, address: str) -> None:
        tab = await told.new_page()
        await tab.goto("/me")
        await tab.evaluate("navigator.serviceWorker.ready.then(() => null)")
        evil = f"http://evil.localhost:{address.rpartition(':')[2]}/"
        page = f'<form method="post" action="{address}/sign-out"><button>Win</button></form>'
        await told.route(evil, lambda route: route.fulfill(content_type="text/html", body=page))
        other = await told.new_page()
        await other.goto(evil)
        async with other.expect_response("**/sign-out") as refused:
            await other.get_by_role("button").click()
        answer = await refused.value
        assert (answer.status, answer.from_service_worker) == (403, False)
        await tab.reload()
        await expect(tab.get_by_role("heading", name="You", exact=True)).to_be_visible()


class TestButtons:
    @pytest.fixture
    def settings(self) -> dict[str, Any]:
        return {"push_answers": True}

    @pytest.mark.only_proof_of("a button of a notification answers with what the notification showed")
    async def test_answer_with_what_was_shown_and_tell_what_is_recorded(
        self, told: BrowserContext, desk: LocalDesk, address: str, workspace: str
    ) -> None:
        tab = await told.new_page()
        await tab.goto("/me")
        ship, late = [await desk.post(prompt, form=Confirm()) for prompt in ("Ship it?", "Too late?")]
        await press(tab, payload_for(workspace, ship))
        [found] = await shown(tab)
        assert (found["title"], found["body"]) == ("Answered: Yes", "Ship it?")
        last = (await desk.history(ship.id))[-1]
        assert (last.by, last.data["channel"]) == ("ann", "webpush")
        assert last.data["shown_digest"] == notification_digest(ship)
        await desk.answer(late.id, False, by="bob")
        await press(tab, payload_for(workspace, late))
        [_, refused] = await shown(tab, count=2)
        assert refused["title"] == "Your answer was not recorded."
        assert "Answered by bob" in refused["body"]
        assert refused["url"] == f"{address}/questions/{late.id}"

    async def test_decide_nothing_without_a_session_nor_for_another_person(
        self, told: BrowserContext, desk: LocalDesk, workspace: str
    ) -> None:
        tab = await told.new_page()
        await tab.goto("/me")
        question = await desk.post("Ship it?", form=Confirm())
        await press(tab, payload_for(workspace, question, person="bob"))
        # A window is opened only for a press of a person; without one, a notification says the same.
        assert [each["title"] for each in await shown(tab)] == ["Sign in to answer."]
        await told.clear_cookies()
        await press(tab, payload_for(workspace, question))
        assert [each["title"] for each in await shown(tab)] == ["Sign in to answer."]
        assert (await desk.get(question.id)).outcome is None


def payload_for(workspace: str, question: Question, person: str = "ann") -> str:
    """What the server sends to the browser of a person."""
    notice = Notice(delivery_id="d", question=question, reason="asked", link="https://example.com/")
    message = Message(
        id="m",
        workspace=workspace,
        channel="webpush",
        recipient=person,
        to={},
        at=question.asked_at,
        notices=[notice],
    )
    return payload_of(message, answers=True).decode()


async def press(tab: Page, payload: str) -> None:
    """Show a notification as the worker does for a push message, and press its first button."""
    await tab.evaluate("navigator.serviceWorker.ready.then(() => null)")
    worker = await worker_of(tab.context)
    await worker.evaluate(
        """async (payload) => {
            await self.registration.showNotification(...notification({ json: () => payload }));
            const [found] = await self.registration.getNotifications({ tag: payload.tag });
            if (found.actions.map(({ title }) => title).join() !== "Yes,No") throw new Error("other buttons");
            found.close();
            await answer(found, found.actions[0].action);
        }""",
        json.loads(payload),
    )


async def push(tab: Page, address: str, data: str) -> None:
    """Let the browser get a push message for this server."""
    session = await tab.context.new_cdp_session(tab)
    found: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def note(event: dict[str, Any]) -> None:
        for each in event["registrations"]:
            if each["scopeURL"] == f"{address}/" and not found.done():
                found.set_result(each["registrationId"])

    session.on("ServiceWorker.workerRegistrationUpdated", note)
    await session.send("ServiceWorker.enable")
    worker = await worker_of(tab.context)
    # A message that comes before the worker is quite awake is lost in a browser without a window.
    while await worker.evaluate("() => self.registration.active?.state") != "activated":
        await asyncio.sleep(0.05)
    registration = await asyncio.wait_for(found, 20)
    await session.send(
        "ServiceWorker.deliverPushMessage",
        {"origin": address, "registrationId": registration, "data": data},
    )


@pytest.mark.slow("test_browser_access.py runs axe on this page in the gate")
@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_the_page_about_oneself_passes_axe(person: NewWindow, theme: str) -> None:
    async with person("ann", groups=["ops"], color_scheme=theme, bypass_csp=True) as window:
        tab = await window.new_page()
        await tab.route("**/v1/push/key", lambda route: route.fulfill(json={"key": "BKey"}))
        await tab.goto("/me")
        await expect(tab.get_by_role("switch")).to_have_count(2)
        assert await violations(tab) == []


@pytest.mark.slow("one sentence of a page; test_account_page.py has the page")
async def test_without_scripts_it_says_so(person: NewWindow) -> None:
    async with person("ann", java_script_enabled=False) as window:
        tab = await window.new_page()
        await tab.goto("/me")
        await expect(tab.get_by_text("Notifications need scripts")).to_be_visible()
        await expect(tab.get_by_role("switch")).to_have_count(0)

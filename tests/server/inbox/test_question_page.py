"""One question in a browser without scripts: every kind is answered, refused with its reason, and shown as it ended."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import httpx2
import pytest

from handraise import (
    Answered,
    Approval,
    Choice,
    Confirm,
    Declined,
    Escalation,
    Exhausted,
    Field,
    Form,
    MultiChoice,
    Open,
    Timeline,
)
from handraise.desk.local_desk import LocalDesk
from handraise.model.forms import AnyForm, Risk
from handraise.model.json_values import Json
from handraise.model.provenance import Provenance
from handraise.server import ServerContext
from handraise.server.auth.issuer import issue_session
from handraise.testing import ManualClock
from handraise.testing.contract.backend import fed
from support.issuer import Issuer
from tests.server.conftest import ORIGIN, bearer
from tests.server.inbox.browser import FORM, Page, Sheet, open_page, send

Fill = Callable[[Sheet], tuple[str, str] | None]


def filling(*parts: tuple[str, str]) -> Fill:
    """Fills in what is to be written."""

    def fill(sheet: Sheet) -> None:
        for name, text in parts:
            sheet.fill(name, text)

    return fill


def ticking(name: str, *values: str) -> Fill:
    """Ticks what is to be chosen."""

    def tick(sheet: Sheet) -> None:
        sheet.tick(name, *values)

    return tick


def pressing(name: str, value: str) -> Fill:
    """Presses just a button."""
    return lambda _: (name, value)


def both(*all_of: Fill) -> Fill:
    def each(sheet: Sheet) -> tuple[str, str] | None:
        return [one(sheet) for one in all_of][-1]

    return each


SEVERAL = Form(
    fields=(
        Field(name="who", form=Open(type="email"), title="Who is told"),
        Field(name="how many", form=Open(type="integer", minimum=0), default=3),
        Field(name="sure", form=Confirm()),
        Field(name="note", form=Open(), required=False),
        Field(name="where", form=Choice.of("eu", "us"), required=False, default="us"),
    )
)
KINDS: dict[str, tuple[Any, Fill, Any]] = {
    "choice": (Choice.of("Canary", "Rolling"), ticking("v", "1"), "Rolling"),
    "other": (
        Choice.of("a", "b", allow_other=True),
        both(ticking("v", "other"), filling(("v.other", "something else"))),
        {"other": "something else"},
    ),
    "several": (MultiChoice.of("a", "b", "c", at_least=2), ticking("v", "0", "2"), ["a", "c"]),
    "text": (Open(), filling(("v", "two\nlines")), "two\nlines"),
    "line": (Open(max_length=20), filling(("v", "short")), "short"),
    "integer": (Open(type="integer"), filling(("v", " 42 ")), 42),
    "number": (Open(type="number"), filling(("v", "4.5")), 4.5),
    "email": (Open(type="email"), filling(("v", "ann@example.com")), "ann@example.com"),
    "uri": (Open(type="uri"), filling(("v", "https://example.com")), "https://example.com"),
    "date": (Open(type="date"), filling(("v", "2026-11-15")), "2026-11-15"),
    "datetime": (
        Open(type="datetime"),
        filling(("v", "2026-11-15T09:30"), ("v.zone", "+02:00")),
        "2026-11-15T07:30:00+00:00",
    ),
    "yes": (Confirm(), pressing("v", "yes"), True),
    "no": (Confirm(), pressing("v", "no"), False),
    "form": (
        SEVERAL,
        both(filling(("v0", "a@b.cd")), ticking("v2", "no"), ticking("v4", "none")),
        {"who": "a@b.cd", "how many": 3, "sure": False},
    ),
}


@pytest.mark.parametrize("kind", KINDS)
async def test_every_kind_is_answered_without_scripts(
    ann: httpx2.AsyncClient, desk: LocalDesk, kind: str
) -> None:
    form, fill, value = KINDS[kind]
    question = await desk.post("What now?", form=form)
    shown = await open_page(ann, f"/questions/{question.id}")
    sheet = shown.sheet()
    sent = await send(ann, sheet, fill(sheet))
    assert (sent.status_code, sent.headers["location"]) == (303, f"/questions/{question.id}")
    outcome = (await desk.get(question.id)).outcome
    assert isinstance(outcome, Answered)
    assert (outcome.value, outcome.by, outcome.channel, outcome.evidence) == (value, "ann", "web", "session")
    after = await open_page(ann, sent.headers["location"])
    assert "Answered by you through the inbox" in after.words
    assert not [each for each in after.tags if "data-answer" in each[1]]


async def test_looking_changes_nothing(ann: httpx2.AsyncClient, desk: LocalDesk) -> None:
    question = await desk.post("What now?", form=Confirm())
    before = await fed(desk, 1)
    for method in ("GET", "HEAD", "OPTIONS"):
        for path in ("/", f"/questions/{question.id}", f"/questions/{question.id}?v=yes&decision=approve"):
            await ann.request(method, path)
    assert list(await desk.feed()) == before
    assert (await desk.get(question.id)).outcome is None


@pytest.mark.parametrize(
    "headers",
    [{"origin": "https://evil.example"}, {"origin": "null"}, {"sec-fetch-site": "cross-site"}, {}],
)
async def test_another_site_cannot_answer(
    ann: httpx2.AsyncClient, desk: LocalDesk, headers: dict[str, str]
) -> None:
    question = await desk.post("What now?", form=Confirm())
    for body in ("v=yes", "do=decline"):
        refused = await ann.post(f"/questions/{question.id}", content=body, headers=headers | FORM)
        assert refused.status_code == 403
    assert (await desk.get(question.id)).outcome is None


async def test_an_agent_gets_no_page_and_cannot_answer(
    client: httpx2.AsyncClient, desk: LocalDesk, issuer: Issuer, workspace: str
) -> None:
    question = await desk.post("What now?", form=Confirm())
    agent = bearer(await issuer.agent(workspace, "deploy-bot"))
    assert (await client.get("/", headers=agent)).status_code == 403
    assert (await client.get(f"/questions/{question.id}", headers=agent)).status_code == 403
    answered = await client.post(f"/questions/{question.id}", content="v=yes", headers=agent | ORIGIN | FORM)
    assert answered.status_code == 403
    assert (await desk.get(question.id)).outcome is None


async def test_whoever_is_not_signed_in_is_led_there(client: httpx2.AsyncClient, desk: LocalDesk) -> None:
    question = await desk.post("What now?", form=Confirm())
    led = await client.get(f"/questions/{question.id}")
    assert (led.status_code, led.headers["location"]) == (303, "/sign-in")
    led = await client.post(f"/questions/{question.id}", content="v=yes", headers=ORIGIN | FORM)
    assert (led.status_code, led.headers["location"]) == (303, "/sign-in")
    assert (await desk.get(question.id)).outcome is None


async def test_a_question_of_others_is_the_same_page_as_one_that_never_was(
    ann: httpx2.AsyncClient, desk: LocalDesk, ctx: ServerContext
) -> None:
    others = await desk.post("What now?", recipients=["bob"])
    elsewhere = await ctx.desk.scoped("another", asker="x").post("What now?")
    pages = [
        await ann.get(f"/questions/{each}") for each in (others.id, elsewhere.id, "never", "%00", "x" * 999)
    ]
    pages += [
        await ann.post(f"/questions/{each}", content="v=mine", headers=ORIGIN | FORM)
        for each in (others.id, elsewhere.id, "never")
    ]
    assert {each.status_code for each in pages} == {404}
    assert len({each.content for each in pages}) == 1
    assert (await desk.get(others.id)).outcome is None


async def test_an_administrator_sees_what_is_for_others_and_cannot_answer_it(
    boss: httpx2.AsyncClient, desk: LocalDesk
) -> None:
    question = await desk.post("What now?", recipients=["ann", "group:ops"])
    shown = await open_page(boss, f"/questions/{question.id}")
    assert "ann and the group ops" in shown.words
    assert not [each for each in shown.tags if "data-answer" in each[1]]
    sent = await boss.post(f"/questions/{question.id}", content="v=mine", headers=ORIGIN | FORM)
    assert sent.status_code == 403


class TestAnAnswerThatDoesNotFit:
    async def test_says_why_next_to_the_field_and_keeps_what_was_typed(
        self, ann: httpx2.AsyncClient, desk: LocalDesk
    ) -> None:
        question = await desk.post("Tell me", form=SEVERAL)
        sheet = (await open_page(ann, f"/questions/{question.id}")).sheet()
        sheet.fill("v0", "no address")
        sheet.fill("v1", "-5")
        sheet.fill("v3", "  a note\nof mine")
        sheet.tick("v2", "yes")
        refused = await send(ann, sheet)
        assert refused.status_code == 422
        shown = Page(refused.text)
        assert "is not an e-mail address" in shown.words
        assert "must be at least 0, is -5" in shown.words
        described = [each for tag, each in shown.tags if each.get("name") == "v0"]
        assert described[0]["aria-invalid"] == "true"
        assert "v0-problem" in (described[0]["aria-describedby"] or "")
        assert shown.sheet().sent() == sheet.sent()
        stands = await desk.get(question.id)
        assert (stands.outcome, stands.attempts) == (None, 1)
        again = await open_page(ann, f"/questions/{question.id}")
        assert "An answer by you through the inbox did not fit" in again.words

    async def test_what_is_only_missing_is_no_attempt(self, ann: httpx2.AsyncClient, desk: LocalDesk) -> None:
        question = await desk.post("Tell me", form=SEVERAL, max_attempts=1)
        sheet = (await open_page(ann, f"/questions/{question.id}")).sheet()
        refused = await send(ann, sheet)
        assert (refused.status_code, "fill this in first" in refused.text) == (422, True)
        assert (await desk.get(question.id)).attempts == 0

    async def test_says_how_many_tries_are_left_and_when_there_are_none(
        self, ann: httpx2.AsyncClient, desk: LocalDesk
    ) -> None:
        question = await desk.post("How many?", form=Open(type="integer"), max_attempts=2)
        sheet = (await open_page(ann, f"/questions/{question.id}")).sheet()
        sheet.fill("v", "lots")
        first = Page((await send(ann, sheet)).text)
        assert "1 more try before it is closed" in first.words
        last = await send(ann, sheet)
        assert isinstance((await desk.get(question.id)).outcome, Exhausted)
        assert "too many answers that did not fit" in Page(last.text).words


class TestEndedMeanwhile:
    async def test_shows_who_won_and_what_one_had_written(
        self, ann: httpx2.AsyncClient, desk: LocalDesk
    ) -> None:
        question = await desk.post("Name it", form=Open())
        sheet = (await open_page(ann, f"/questions/{question.id}")).sheet()
        sheet.fill("v", "my <long> thought")
        await desk.answer(question.id, "first", by="bob", provenance=Provenance(channel="slack"))
        late = await send(ann, sheet)
        assert late.status_code == 409
        shown = Page(late.text)
        assert "Answered by bob through Slack" in shown.words
        assert "my <long> thought" in shown.words
        assert "first" in shown.words

    async def test_the_same_form_sent_twice_is_no_quarrel(
        self, ann: httpx2.AsyncClient, desk: LocalDesk
    ) -> None:
        question = await desk.post("Really?", form=Confirm())
        sheet = (await open_page(ann, f"/questions/{question.id}")).sheet()
        for _ in range(2):
            assert (await send(ann, sheet, ("v", "yes"))).status_code == 303
        assert (await send(ann, sheet, ("v", "no"))).status_code == 409

    async def test_expired_while_typing_keeps_the_text(
        self, ann: httpx2.AsyncClient, desk: LocalDesk, clock: ManualClock
    ) -> None:
        question = await desk.post("Name it", expires_in=60)
        sheet = (await open_page(ann, f"/questions/{question.id}")).sheet()
        sheet.fill("v", "my thought")
        clock.advance(timedelta(minutes=2))
        late = Page((await send(ann, sheet)).text)
        assert "Expired without an answer" in late.words
        assert "my thought" in late.words


class TestDeclining:
    async def test_is_done_with_a_reason(self, ann: httpx2.AsyncClient, desk: LocalDesk) -> None:
        question = await desk.post("Really?")
        shown = await open_page(ann, f"/questions/{question.id}")
        [sheet] = [each for each in shown.sheets if any(one.value == "decline" for one in each.inputs)]
        sheet.fill("why", "not <mine>\nto say")
        assert (await send(ann, sheet)).status_code == 303
        outcome = (await desk.get(question.id)).outcome
        assert isinstance(outcome, Declined)
        assert (outcome.reason, outcome.by, outcome.channel) == ("not <mine>\nto say", "ann", "web")
        assert "Declined by you" in (await open_page(ann, f"/questions/{question.id}")).words
        assert (await send(ann, sheet)).status_code == 303


class TestTakingBack:
    async def test_is_offered_to_those_who_approved_until_the_agent_takes_the_action(
        self, ann: httpx2.AsyncClient, desk: LocalDesk
    ) -> None:
        form = Approval.of("deploy", {"to": "prod"}, valid_for=timedelta(hours=2))
        mine, others, used = [await desk.post("May I?", form=form) for _ in range(3)]
        assert "within 2 hours" in (await open_page(ann, f"/questions/{mine.id}")).words
        for question, who in ((mine, "ann"), (others, "bob"), (used, "ann")):
            await desk.answer(question.id, "approve", by=who)
        await desk.consume_approval(used.id)
        for question in (others, used):
            assert "take back" not in (await open_page(ann, f"/questions/{question.id}")).html
        shown = await open_page(ann, f"/questions/{mine.id}")
        [sheet] = [each for each in shown.sheets if any(one.value == "take back" for one in each.inputs)]
        sheet.fill("why", "the wrong <one>")
        assert (await send(ann, sheet)).status_code == 303
        assert (await desk.get(mine.id)).taken_back_at is not None
        shown = await open_page(ann, f"/questions/{mine.id}")
        assert "This approval was taken back" in shown.words
        assert "The approval was taken back by you" in shown.words
        assert "the wrong <one>" in shown.words
        assert (await send(ann, sheet)).status_code == 303


class TestApproving:
    @pytest.fixture
    async def question(self, desk: LocalDesk) -> Any:
        form = Approval.of(
            "payments.transfer",
            {"from": "A", "to": "B", "amount": 250, "note": "rent"},
            editable=["amount", "note"],
            scopes=["once", "session", "always"],
            remember_by=["to"],
        )
        return await desk.post("Pay the rent?", form=form, conversation="flat", expires_in=3600)

    async def test_shows_the_action_in_full_and_what_the_scopes_mean(
        self, ann: httpx2.AsyncClient, question: Any
    ) -> None:
        shown = await open_page(ann, f"/questions/{question.id}")
        for text in ("payments.transfer", "from", "to", "amount", "250", "rent", "Only this once"):
            assert text in shown.words
        assert "“to”" in shown.agents
        assert (
            "whatever its other arguments are, in this conversation and without asking, until" in shown.words
        )
        assert "it expires and is not approved" in shown.words
        assert shown.html.index('value="approve"') < shown.html.index('value="deny"')

    @pytest.mark.parametrize(
        ("risk", "name", "text"),
        [
            ("low", "Low risk", "The agent's author says that this can do little harm."),
            ("medium", "Medium risk", "Once you approve it, it is executed just as it stands here."),
            (
                "high",
                "High risk",
                "The agent's author says that this can do serious harm. Read every argument.",
            ),
        ],
    )
    async def test_says_the_risk_in_words_of_ours(
        self, ann: httpx2.AsyncClient, desk: LocalDesk, risk: Any, name: str, text: str
    ) -> None:
        form = Approval.of("rm", {"path": "/srv/x"}, editable=["path"], risk=risk)
        question = await desk.post("It is quite harmless", form=form)
        shown = await open_page(ann, f"/questions/{question.id}")
        assert name in shown.ours
        assert text in " ".join(shown.ours)
        sheet = shown.sheet()
        sheet.fill("v0", "/srv/y")
        confirming = Page((await send(ann, sheet, ("decision", "approve"))).text)
        assert text in " ".join(confirming.ours)
        await desk.answer(question.id, {"decision": "deny"}, by="bob")
        after = await open_page(ann, f"/questions/{question.id}")
        assert name in after.ours
        assert text not in after.words

    @pytest.mark.parametrize("decision", ["approve", "deny"])
    async def test_is_one_press_either_way(
        self, ann: httpx2.AsyncClient, desk: LocalDesk, question: Any, decision: str
    ) -> None:
        sheet = (await open_page(ann, f"/questions/{question.id}")).sheet()
        sheet.fill("reason", "because")
        assert (await send(ann, sheet, ("decision", decision))).status_code == 303
        outcome = (await desk.get(question.id)).outcome
        assert isinstance(outcome, Answered)
        assert outcome.value == {
            "decision": decision,
            "digest": question.form.digest,
            "reason": "because",
        }

    async def test_edits_are_shown_as_a_difference_before_anything_is_decided(
        self, ann: httpx2.AsyncClient, desk: LocalDesk, question: Any
    ) -> None:
        sheet = (await open_page(ann, f"/questions/{question.id}")).sheet()
        sheet.fill("v0", "200")
        sheet.fill("v1", "rent,\nand heating")
        sheet.tick("scope", "always")
        shown = Page((await send(ann, sheet, ("decision", "approve"))).text)
        assert (await desk.get(question.id)).outcome is None
        assert "Approve with your changes?" in shown.words
        assert "<del>250</del>" in shown.html
        for new in ("200", ",", "and heating"):
            assert f"<ins>{new}</ins>" in shown.html
        back = Page((await send(ann, shown.sheet("data-confirm"), ("do", "edit"))).text).sheet()
        assert back.sent() == sheet.sent()
        assert (await send(ann, shown.sheet("data-confirm"))).status_code == 303
        decided = await desk.get(question.id)
        assert decided.decision is not None
        assert decided.decision.action.arguments == {
            "from": "A",
            "to": "B",
            "amount": 200,
            "note": "rent,\nand heating",
        }
        [grant] = await desk.list_grants()
        assert (grant.scope, grant.granted_by) == ("always", "ann")
        after = await open_page(ann, f"/questions/{question.id}")
        assert "Approved with changed arguments by you through the inbox, always" in after.words

    async def test_an_edit_that_does_not_fit_says_so_at_its_field(
        self, ann: httpx2.AsyncClient, question: Any
    ) -> None:
        sheet = (await open_page(ann, f"/questions/{question.id}")).sheet()
        sheet.fill("v0", "a lot")
        refused = await send(ann, sheet, ("decision", "approve"))
        assert (refused.status_code, "expected a whole number" in refused.text) == (422, True)
        assert Page(refused.text).sheet().sent() == sheet.sent()

    async def test_another_digest_approves_nothing(
        self, ann: httpx2.AsyncClient, desk: LocalDesk, question: Any
    ) -> None:
        sheet = (await open_page(ann, f"/questions/{question.id}")).sheet()
        sheet.fill("digest", "0" * 64)
        refused = await send(ann, sheet, ("decision", "approve"))
        assert (refused.status_code, "about another action" in refused.text) == (422, True)
        assert (await desk.get(question.id)).outcome is None

    async def test_a_long_text_cannot_push_the_action_out_of_sight(
        self, ann: httpx2.AsyncClient, desk: LocalDesk
    ) -> None:
        long = await desk.post(
            "line\n" * 1_900, form=Approval.of("rm", {"path": "/"}), context={"x": "y" * 9_000}
        )
        shown = await open_page(ann, f"/questions/{long.id}")
        assert "All of it: 9500 characters on 1901 lines" in shown.words
        assert "Context: 9008 characters" in shown.words

    @pytest.mark.parametrize("form", [Confirm(), Choice.of("a", "b"), Open()])
    async def test_a_long_text_is_folded_whatever_is_asked(
        self, ann: httpx2.AsyncClient, desk: LocalDesk, form: AnyForm
    ) -> None:
        long = await desk.post("line\n" * 100, form=form, context={"log": "y" * 9_000})
        shown = await open_page(ann, f"/questions/{long.id}")
        assert "All of it: 500 characters on 101 lines" in shown.words
        assert "Context: 9010 characters log" in shown.words

    @pytest.mark.parametrize(
        ("risk", "context", "is_open"),
        [
            ("high", {"log": "y" * 30_000}, None),
            ("medium", {"log": "y" * 3_000}, False),
            ("medium", {"change": {"before": "a\nb", "after": "a\nc"}, "log": "y" * 3_000}, True),
        ],
    )
    async def test_what_matters_for_an_approval_is_not_folded_away(
        self, ann: httpx2.AsyncClient, desk: LocalDesk, risk: Risk, context: Json, *, is_open: bool | None
    ) -> None:
        question = await desk.post("Go? " * 500, form=Approval.of("rm", risk=risk), context=context)
        shown = await open_page(ann, f"/questions/{question.id}")
        folds = [attrs for tag, attrs in shown.tags if tag == "details" and attrs.get("class") == "fold"]
        if is_open is None:
            assert folds == [], "at high risk, nothing is folded"
        else:
            assert ("open" in folds[1]) is is_open


class TestWhatAPageTells:
    async def test_a_script_how_long_an_answer_can_be_taken_back_and_when_it_ends(
        self, ann: httpx2.AsyncClient, desk: LocalDesk
    ) -> None:
        question = await desk.post("Ship?", undo_for=10, recipients=["ann"])
        [main] = [
            attrs for tag, attrs in (await open_page(ann, f"/questions/{question.id}")).tags if tag == "main"
        ]
        assert (main["data-undo"], "data-left" in main) == ("10.0", False)
        ends = await desk.post("Ship?", expires_in=timedelta(days=3650), recipients=["ann"])
        [main] = [
            attrs for tag, attrs in (await open_page(ann, f"/questions/{ends.id}")).tags if tag == "main"
        ]
        assert (main["data-undo"], float(main["data-left"] or 0) > 0) == ("0.0", True)

    async def test_votes_and_what_has_happened_and_what_will(
        self, ann: httpx2.AsyncClient, desk: LocalDesk, clock: ManualClock
    ) -> None:
        question = await desk.post(
            "Ship?",
            choices=["yes", "no"],
            quorum=2,
            veto=True,
            recipients=["bob", "cid"],
            timeline=Timeline(
                remind=(timedelta(minutes=5),),
                escalate=(Escalation(after=timedelta(minutes=10), to=("group:ops",)),),
                expire=timedelta(hours=1),
                default="no",
            ),
        )
        assert (await ann.get(f"/questions/{question.id}")).status_code == 404
        await desk.answer(question.id, "yes", by="bob", provenance=Provenance(channel="cli"))
        for minutes in (6, 14):
            clock.advance(timedelta(minutes=minutes))
            await desk.run_due()
        shown = await open_page(ann, f"/questions/{question.id}")
        assert "2 people must agree. 1 of 2 agree so far. One refusal ends it." in shown.words
        assert "A vote by bob through the terminal" in shown.words
        assert "A reminder was due" in shown.words
        assert "others may answer too" in shown.words
        assert "the group ops" in shown.agents
        assert "the default is taken: no" in shown.words

    async def test_context_is_a_table_and_a_difference_where_there_is_one(
        self, ann: httpx2.AsyncClient, desk: LocalDesk
    ) -> None:
        question = await desk.post(
            "Merge?",
            form=Confirm(),
            context={
                "service": {"name": "web", "replicas": 3, "public": True},
                "hosts": [{"name": "a", "load": 0.5}, {"name": "b", "load": 1}],
                "change": {"before": "one\ntwo\nthree", "after": "one\n2\nthree"},
            },
        )
        shown = await open_page(ann, f"/questions/{question.id}")
        tags = [tag for tag, _ in shown.tags]
        assert (tags.count("del"), tags.count("ins"), tags.count("table")) == (1, 1, 1)
        for text in ("service", "replicas", "3", "yes", "load", "0.5"):
            assert text in shown.words
        assert "{" not in shown.words


class TestASettledApproval:
    async def test_shows_the_action_that_was_approved_with_its_changes(
        self, ann: httpx2.AsyncClient, desk: LocalDesk
    ) -> None:
        form = Approval.of("pay", {"amount": 250, "to": "ACME"}, editable=["amount"])
        question = await desk.post("Pay?", form=form, recipients=["ann"])
        await desk.answer(question.id, {"decision": "approve", "arguments": {"amount": 200}}, by="ann")
        shown = await open_page(ann, f"/questions/{question.id}")
        action = shown.html[shown.html.index('<section class="action') :]
        assert "What was approved" in action
        assert '{"arguments":{"amount":200,"to":"ACME"},"tool":"pay"}' in action.replace("&#34;", '"')
        assert 'class="badge approved">Approved' in shown.html
        await desk.consume_approval(question.id)
        shown = await open_page(ann, f"/questions/{question.id}")
        assert "What was approved and taken to execute it" in shown.words

    @pytest.mark.parametrize("how", ["deny", "decline"])
    async def test_that_was_not_approved_does_not_look_like_one(
        self, ann: httpx2.AsyncClient, desk: LocalDesk, how: str
    ) -> None:
        question = await desk.post("Pay?", form=Approval.of("pay", {"amount": 250}), recipients=["ann"])
        if how == "deny":
            await desk.answer(question.id, "deny", by="ann")
        else:
            await desk.decline(question.id, by="ann")
        shown = await open_page(ann, f"/questions/{question.id}")
        assert "What was asked for, and is not approved" in shown.words
        word = "denied" if how == "deny" else "declined"
        for part in (f'class="badge {word}"', f'class="outcome {word}"', f'class="action {word}"'):
            assert part in shown.html


async def test_everything_that_is_wrong_in_a_form_is_said_in_one_round(
    ann: httpx2.AsyncClient, desk: LocalDesk
) -> None:
    form = Form(
        fields=(
            Field(name="who", form=Open(type="email")),
            Field(name="retries", form=Open(type="integer", minimum=0)),
            Field(name="why", form=Open()),
        )
    )
    question = await desk.post("Fill this in", form=form, recipients=["ann"], max_attempts=3)
    sheet = (await open_page(ann, f"/questions/{question.id}")).sheet()
    sheet.fill("v0", "nobody")
    sheet.fill("v1", "-1")
    refused = Page((await send(ann, sheet)).text)
    assert refused.words.count("Does not fit:") == 3
    assert (await desk.get(question.id)).attempts == 0
    sheet = refused.sheet()
    for name, text in (("v0", "ann@example.com"), ("v1", "2"), ("v2", "it failed")):
        sheet.fill(name, text)
    assert (await send(ann, sheet)).status_code == 303
    assert (await desk.get(question.id)).attempts == 0


async def test_a_denial_is_said_once_with_its_reason(ann: httpx2.AsyncClient, desk: LocalDesk) -> None:
    question = await desk.post("Refund?", form=Approval.of("refund"), recipients=["ann"])
    await desk.answer(question.id, {"decision": "deny", "reason": "Not today."}, by="ann")
    shown = await open_page(ann, f"/questions/{question.id}")
    outcome = Page(shown.html.split("<h2 id", 1)[1].split("</section>")[0])
    assert outcome.words.count("Denied") == 1
    assert "Not today." in outcome.words


async def test_a_tab_is_named_after_its_question(ann: httpx2.AsyncClient, desk: LocalDesk) -> None:
    question = await desk.post("**Refund** order <A-7>?", form=Approval.of("refund"), recipients=["ann"])
    shown = await open_page(ann, f"/questions/{question.id}")
    assert "Refund order &lt;A-7&gt;? · deploy-bot · Handraise</title>" in shown.html
    await desk.answer(question.id, "deny", by="ann")
    shown = await open_page(ann, f"/questions/{question.id}")
    assert ">Denied: Refund order &lt;A-7&gt;? · deploy-bot · Handraise</title>" in shown.html


async def test_a_fault_of_ours_is_a_page_for_browsers_and_says_nothing_about_it(
    ann: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LocalDesk, "list_ended", lambda *_, **__: 1 / 0)
    seen = await ann.get("/settled", headers={"accept": "text/html"})
    assert (seen.status_code, seen.headers["content-type"]) == (500, "text/html; charset=utf-8")
    assert "Something went wrong on our side" in Page(seen.text).words
    assert "ZeroDivision" not in seen.text
    told = await ann.get("/settled")
    assert (told.status_code, told.headers["content-type"]) == (500, "application/problem+json")


async def test_code_in_a_text_is_coloured(ann: httpx2.AsyncClient, desk: LocalDesk) -> None:
    question = await desk.post("Run it?\n\n```sql\nselect '<b>' from x\n```")
    shown = await open_page(ann, f"/questions/{question.id}")
    assert '<span class="hl-keyword">select</span> <span class="hl-string">\'&lt;b&gt;\'</span>' in shown.html


async def test_an_unknown_page_is_a_page_for_browsers_and_a_problem_for_programs(
    ann: httpx2.AsyncClient,
) -> None:
    seen = await ann.get("/nowhere", headers={"accept": "text/html,*/*"})
    assert (seen.status_code, seen.headers["content-type"]) == (404, "text/html; charset=utf-8")
    assert "There is no such page here" in Page(seen.text).words
    wrong = await ann.get("/sign-out", headers={"accept": "text/html"})
    assert (wrong.status_code, wrong.headers["allow"]) == (405, "POST")
    assert "This address is not a page" in Page(wrong.text).words
    refused = await ann.get("/insights", headers={"accept": "text/html"})
    assert (refused.status_code, refused.headers["content-type"]) == (403, "text/html; charset=utf-8")
    wrong = await ann.get("/sign-out")
    assert (wrong.status_code, wrong.headers["content-type"]) == (405, "application/problem+json")
    for path, accept in (
        ("/nowhere", "*/*"),
        ("/v1/nowhere", "application/json"),
        ("/v1/nowhere", "text/html"),
    ):
        told = await ann.get(path, headers={"accept": accept})
        assert (told.status_code, told.headers["content-type"]) == (404, "application/problem+json")


async def test_a_session_that_somebody_vouched_for_can_refuse_and_ask_but_not_approve(
    ctx: ServerContext, client: httpx2.AsyncClient, desk: LocalDesk, issuer: Issuer, workspace: str
) -> None:
    await issuer.person(workspace, "ann")
    session = await issue_session(ctx, workspace, person="ann", how="invitation", vouched_by="boss")
    assert session is not None
    weak = {**bearer(session.token), **ORIGIN}
    cases: list[tuple[Risk, int]] = [("high", 1), ("medium", 2)]
    for risk, quorum in cases:
        form = Approval.of("drop", {"table": "users"}, risk=risk)
        question = await desk.post("Drop?", form=form, quorum=quorum, recipients=["ann", "bob"])
        page = (await client.get(f"/questions/{question.id}", headers=weak)).text
        assert re.search(r'value="approve" data-yes disabled', page)
        assert not re.search(r'value="deny"[^>]*disabled', page)
        assert "made the link" in page
        assert "Sign in to decide" not in page
        for verb, body, status in (
            ("answer", {"value": "approve"}, 403),
            ("hand-over", {"people": ["bob"]}, 403),
            ("note", {"text": "who uses it?"}, 200),
            ("answer", {"value": {"decision": "deny"}}, 200),
        ):
            sent = await client.post(f"/v1/questions/{question.id}/{verb}", json=body, headers=weak)
            assert sent.status_code == status, (verb, sent.text)

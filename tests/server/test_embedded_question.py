"""A question in a frame of somebody else's page: who may frame it, and what is not decided there."""

from __future__ import annotations

import re
from typing import get_args

import httpx2
import pydantic
import pytest

from handraise import Approval, Choice, Confirm, Field, Form, MultiChoice, Open
from handraise.desk.local_desk import LocalDesk
from handraise.model.forms import AnyForm, Risk
from handraise.model.identities import Role
from handraise.model.provenance import Provenance
from handraise.server import ServerContext, ServerSettings
from support.issuer import Issuer
from tests.server.conftest import ORIGIN, bearer
from tests.server.inbox.browser import FORM, open_page
from tests.server.test_question_links import Headers, path_of


@pytest.fixture
def store() -> str:
    return "memory:"


@pytest.fixture
def desk(ctx: ServerContext, workspace: str) -> LocalDesk:
    return ctx.desk.scoped(workspace, asker="bot")


@pytest.fixture
async def ann(issuer: Issuer, workspace: str) -> Headers:
    return bearer(await issuer.person(workspace, "ann", role=Role.MEMBER))


FORMS: dict[str, AnyForm] = {
    "choice": Choice.of("a", "b"),
    "several": MultiChoice.of("a", "b"),
    "text": Open(),
    "confirm": Confirm(),
    "form": Form(fields=(Field(name="n", form=Open(type="integer")),)),
}


@pytest.mark.parametrize("settings", [{"embed_origins": ("https://a.example", "https://b.example:8443")}])
class TestFraming:
    async def test_is_for_the_sites_that_are_named_and_for_one_page_only(
        self, client: httpx2.AsyncClient, ann: Headers, desk: LocalDesk
    ) -> None:
        question = await desk.post("Which?")
        path = await path_of(client, question.id, ann)
        for place in (path, f"{path}/status", "/", "/sign-in", "/q/nonsense", f"/questions/{question.id}"):
            policy = (await client.get(place, headers=ann)).headers["content-security-policy"].split("; ")
            assert "frame-ancestors 'none'" in policy
        for place in (f"{path}/frame", "/q/nonsense/frame"):
            policy = (await client.get(place)).headers["content-security-policy"].split("; ")
            assert "frame-ancestors https://a.example https://b.example:8443" in policy
            assert {"default-src 'none'", "script-src 'self'", "connect-src 'self'"} <= set(policy)
            assert {"form-action 'self'", "base-uri 'none'"} <= set(policy)

    @pytest.mark.parametrize("kind", FORMS)
    async def test_a_question_is_answered_in_it(
        self, client: httpx2.AsyncClient, ann: Headers, desk: LocalDesk, kind: str
    ) -> None:
        question = await desk.post("Which?", form=FORMS[kind])
        path = await path_of(client, question.id, ann)
        shown = await open_page(client, f"{path}/frame")
        assert shown.sheet().action == f"{path}/frame"
        assert "Open in a new tab" not in shown.words

    @pytest.mark.parametrize("decision", ["approve", "deny"])
    async def test_an_approval_is_decided_in_a_tab_of_its_own(
        self, client: httpx2.AsyncClient, ann: Headers, desk: LocalDesk, decision: str
    ) -> None:
        question = await desk.post("Pay?", form=Approval.of("pay", {"amount": 250}))
        path = await path_of(client, question.id, ann)
        shown = await open_page(client, f"{path}/frame")
        assert "250" in shown.words
        assert not [each for each in shown.tags if each[0] in ("button", "textarea", "input")]
        [lead] = [attrs for tag, attrs in shown.tags if tag == "a"]
        assert (lead["href"], lead["target"], lead["rel"]) == (path, "_blank", "noopener")
        digest = Approval.of("pay", {"amount": 250}).digest
        for body in (f"decision={decision}&digest={digest}", "do=decline"):
            refused = await client.post(f"{path}/frame", content=body, headers=ORIGIN | FORM)
            assert refused.status_code == 403
        assert (await desk.get(question.id)).outcome is None
        sent = await client.post(path, content=f"decision={decision}&digest={digest}", headers=ORIGIN | FORM)
        assert sent.status_code == 303
        assert " by you" in (await open_page(client, f"{path}/frame")).words


@pytest.mark.parametrize("settings", [{"embed_origins": ("https://a.example",), "embed_approvals": True}])
@pytest.mark.parametrize("frame", ["", "/frame"])
@pytest.mark.parametrize("risk", get_args(Risk))
async def test_what_is_of_high_risk_is_decided_by_nobody_with_a_link_alone(
    client: httpx2.AsyncClient, ann: Headers, desk: LocalDesk, frame: str, risk: Risk
) -> None:
    question = await desk.post("Pay?", form=Approval.of("pay", {"amount": 250}, risk=risk))
    path = await path_of(client, question.id, ann) + frame
    shown, decides = await open_page(client, path), risk != "high"
    assert ("Deny" in shown.words, "Sign in to decide" in shown.words) == (decides, not decides)
    if not decides:
        [lead] = [attrs for tag, attrs in shown.tags if tag == "a"]
        assert (lead["href"], lead.get("target")) == (
            f"/questions/{question.id}",
            "_blank" if frame else None,
        )
        refused = await client.post(path, content="do=decline", headers=ORIGIN | FORM)
        assert refused.status_code == 403
    sent = await client.post(path, content="decision=approve", headers=ORIGIN | FORM)
    assert sent.status_code == (303 if decides else 403)
    assert ((await desk.get(question.id)).outcome is not None) is decides
    if not decides:
        await desk.answer(question.id, "approve", by="ann", provenance=Provenance(evidence="session"))
        assert "Approved by you" in (await open_page(client, path)).words


async def test_no_site_may_frame_anything_unless_it_is_named(
    client: httpx2.AsyncClient, ann: Headers, desk: LocalDesk
) -> None:
    path = await path_of(client, (await desk.post("Which?")).id, ann)
    for place in (path, f"{path}/frame"):
        policy = (await client.get(place)).headers["content-security-policy"].split("; ")
        assert "frame-ancestors 'none'" in policy


async def test_the_element_is_the_one_file_that_pages_of_others_may_load(client: httpx2.AsyncClient) -> None:
    shared = await client.get("/static/embed.js")
    assert shared.headers["cross-origin-resource-policy"] == "cross-origin"
    assert shared.headers["access-control-allow-origin"] == "*"
    again = await client.get("/static/embed.js", headers={"if-none-match": shared.headers["etag"]})
    assert (again.status_code, again.headers["access-control-allow-origin"]) == (304, "*")
    for other in ("style.css", "inbox.js", "framed.js", "embedded.css", "mark.svg", "nothing.js"):
        kept = await client.get(f"/static/{other}")
        assert kept.headers["cross-origin-resource-policy"] == "same-origin"
        assert "access-control-allow-origin" not in kept.headers


async def test_the_pages_have_all_they_need_from_here(
    client: httpx2.AsyncClient, ann: Headers, desk: LocalDesk
) -> None:
    path = await path_of(client, (await desk.post("Which?")).id, ann)
    for place, scripts in ((path, []), (f"{path}/frame", ["/static/framed.js"])):
        shown = await client.get(place)
        assert re.findall(r'<script[^>]+src="([^"]+)"', shown.text) == scripts
        assert "style=" not in shown.text
        for used in re.findall(r'(?:src|href)="(/static/[^"]+)"', shown.text):
            assert (await client.get(used)).status_code == 200


@pytest.mark.parametrize(
    "origin",
    [
        "https://a.example/",
        "https://a.example/path",
        "https://*.example",
        "*",
        "a.example",
        "https://a.example; script-src *",
        "https://a.example https://b.example",
        "https://a.example\r\nx: y",
        "javascript://a.example",
        "'self'",
        "",
    ],
)
def test_a_site_is_named_by_its_origin_and_by_nothing_else(origin: str) -> None:
    with pytest.raises(pydantic.ValidationError, match="expected origins such as"):
        ServerSettings(embed_origins=("https://good.example", origin))


def test_sites_are_named_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    named = ("http://localhost:3000", "https://app.example.com")
    monkeypatch.setenv("HANDRAISE_EMBED_ORIGINS", '["http://localhost:3000", "https://app.example.com"]')
    assert ServerSettings(url="memory:").embed_origins == named

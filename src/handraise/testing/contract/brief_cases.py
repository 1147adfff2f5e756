"""What an agent says about an action or an option: kept as it was said, bounded, and never a decision."""

from __future__ import annotations

import hashlib
from typing import Any

import pydantic
import pytest

from handraise import Approval, Choice, Desk, Field, Form, InvalidQuestion, KeyConflict, MultiChoice, Option
from handraise.forms import AnyForm, Brief, Link, Scope
from handraise.model.forms import form_to_json
from handraise.testing.contract.backend import ContractFixtures
from handraise.testing.promises import promise

_BRIEF = Brief(
    why="The parcel came back.\n*Twice.*",
    checked=("Order 12 exists", "It was paid <b>once</b>"),
    reversible=False,
    affects="1 customer",
    links=(
        Link("Order", "https://shop.example/orders/12?tab=1#top"),
        Link("Log", "http://log.example:8080/"),
    ),
)
_OPTIONS = (
    Option(id="a", label="A", preview="```\nx = 1\n```", recommended=True, reason="It is shorter"),
    Option(id="b", label="B", description="Longer", preview="| a | b |\n|---|---|\n| 1 | 2 |"),
)
_WRONG_BRIEFS: dict[str, dict[str, Any]] = {
    "form.brief": {},
    "form.brief.why": {"why": "x" * 10_001},
    "form.brief.affects": {"affects": " "},
    "form.brief.checked": {"checked": ("x",) * 21},
    "form.brief.checked[1]": {"checked": ("x", "\0")},
    "form.brief.links": {"links": (Link("x", "https://a.example"),) * 11},
    "form.brief.links[0].label": {"links": (Link("", "https://a.example"),)},
}
_NO_LINKS = (
    "javascript:alert(1)",
    "data:text/html,x",
    "//shop.example",
    "https://bank.example@evil.example/",
    "https://shop.example/\n",
    'https://shop.example/"><script>',
    "ftp://shop.example/",
    "",
)
_WRONG_OPTIONS: dict[str, dict[str, Any]] = {
    "form.options[0].preview": {"preview": "x" * 5_001},
    "form.options[0].reason": {"reason": "It is shorter"},
}


class BriefCases(ContractFixtures):
    """A brief, a preview and a recommendation are part of what is asked."""

    @promise("P7")
    async def test_a_brief_comes_back_as_it_was_given(self, desk: Desk) -> None:
        form = Approval.of("refund", {"order": 12}, brief=_BRIEF)
        question = await desk.post("Refund?", form=form)
        assert isinstance(question.form, Approval)
        assert question.form.brief == _BRIEF
        assert (await desk.get(question.id)).form == form
        [listed] = await desk.list_pending()
        assert listed.form == form

    async def test_previews_and_recommendations_come_back_as_they_were_given(self, desk: Desk) -> None:
        forms: list[AnyForm] = [
            Choice(options=_OPTIONS),
            MultiChoice(options=(_OPTIONS[0], _OPTIONS[1].model_copy(update={"recommended": True}))),
            Form(fields=(Field(name="which", form=Choice(options=_OPTIONS)),)),
        ]
        for form in forms:
            question = await desk.post("Which?", form=form)
            assert (await desk.get(question.id)).form == form
        question = await desk.post("Which?", choices=_OPTIONS)
        assert (await desk.get(question.id)).form == Choice(options=_OPTIONS)

    @promise("P11")
    async def test_what_is_recommended_is_not_chosen(self, desk: Desk) -> None:
        question = await desk.post("Which?", choices=_OPTIONS)
        assert (await desk.get(question.id)).status == "pending"
        with pytest.raises(ValueError, match="does not fit"):
            await desk.answer(question.id, None, by="ana")
        settled = await desk.answer(question.id, "B", by="ana")
        assert settled.outcome is not None
        assert getattr(settled.outcome, "value", None) == "b"

    @promise("P11")
    async def test_a_brief_approves_nothing_and_changes_no_action(self, desk: Desk) -> None:
        plain = Approval.of("refund", {"order": 12})
        form = Approval.of("refund", {"order": 12}, brief=_BRIEF)
        assert form.digest == plain.digest
        question = await desk.post("Refund?", form=form)
        await desk.answer(question.id, {"decision": "approve", "digest": form.digest}, by="ana")
        assert await desk.consume_approval(question.id) == plain.action

    async def test_a_grant_covers_the_same_action_whatever_is_said_about_it(self, desk: Desk) -> None:
        scopes: tuple[Scope, ...] = ("once", "always")
        first = await desk.post("Refund?", form=Approval.of("refund", {"order": 12}, scopes=scopes))
        await desk.answer(first.id, {"decision": "approve", "scope": "always"}, by="ana")
        second = await desk.post(
            "Refund?",
            form=Approval.of("refund", {"order": 12}, scopes=scopes, brief=_BRIEF),
        )
        granted = await desk.apply_grant(second.id)
        assert granted is not None
        assert granted.decision

    async def test_with_the_same_key_another_brief_is_another_question(self, desk: Desk) -> None:
        form = Approval.of("refund", {"order": 12}, brief=_BRIEF)
        question = await desk.post("Refund?", form=form, key="k")
        assert (await desk.post("Refund?", form=form, key="k")).id == question.id
        for brief in (None, _BRIEF.model_copy(update={"reversible": True})):
            with pytest.raises(KeyConflict):
                await desk.post("Refund?", form=Approval.of("refund", {"order": 12}, brief=brief), key="k")

    async def test_with_the_same_key_another_preview_is_another_question(self, desk: Desk) -> None:
        await desk.post("Which?", choices=_OPTIONS, key="k")
        bare = [Option(id=each.id, label=each.label, description=each.description) for each in _OPTIONS]
        with pytest.raises(KeyConflict):
            await desk.post("Which?", choices=bare, key="k")

    @pytest.mark.parametrize("path", _WRONG_BRIEFS)
    async def test_a_brief_that_cannot_be_shown_is_refused(self, desk: Desk, path: str) -> None:
        with pytest.raises(InvalidQuestion) as refused:
            await desk.post("Refund?", form=Approval.of("refund", brief=Brief(**_WRONG_BRIEFS[path])))
        assert [each.path for each in refused.value.problems] == [path]
        assert not (await desk.list_pending()).items

    @promise("P8")
    async def test_a_link_is_a_page_of_the_web_and_nothing_else(self, desk: Desk) -> None:
        for url in _NO_LINKS:
            brief = Brief(links=(Link("Order", url),))
            with pytest.raises(InvalidQuestion) as refused:
                await desk.post("Refund?", form=Approval.of("refund", brief=brief))
            assert [each.path for each in refused.value.problems] == ["form.brief.links[0].url"], url

    @pytest.mark.parametrize("path", _WRONG_OPTIONS)
    async def test_an_option_that_cannot_be_shown_is_refused(self, desk: Desk, path: str) -> None:
        option = Option(id="a", label="A", **_WRONG_OPTIONS[path])
        with pytest.raises(InvalidQuestion) as refused:
            await desk.post("Which?", choices=[option, "b"])
        assert [each.path for each in refused.value.problems] == [path]

    async def test_of_one_choice_at_most_one_is_recommended(self, desk: Desk) -> None:
        both = [Option(id=each, label=each, recommended=True) for each in ("a", "b")]
        with pytest.raises(InvalidQuestion) as refused:
            await desk.post("Which?", choices=both)
        assert [each.path for each in refused.value.problems] == ["form.options"]
        several = await desk.post("Which?", form=MultiChoice(options=tuple(both)))
        assert several.status == "pending"

    async def test_nothing_else_can_be_said(self) -> None:
        with pytest.raises(pydantic.ValidationError):
            Brief.model_validate({"why": "x", "approved": True})
        with pytest.raises(pydantic.ValidationError):
            Brief.model_validate({"reversible": "no"})
        with pytest.raises(pydantic.ValidationError):
            Brief.model_validate({"links": [{"label": "x", "url": "https://a.example", "onclick": "x"}]})

    @promise("P7")
    async def test_forms_without_them_are_stored_as_before(self) -> None:
        """The definition of a question, and so what a key compares and a seal covers, depends on this text."""
        form = Approval.of("refund", {"order": 12})
        assert form_to_json(form) == (
            '{"kind":"approval","action":{"tool":"refund","arguments":{"order":12}},'
            f'"digest":"{form.digest}","editable":[],"scopes":["once"],"remember_for":2592000.0}}'
        )
        dumped = Choice.of("a", Option(id="b", label="B", description="x")).model_dump_json()
        assert hashlib.sha256(dumped.encode()).hexdigest() == (
            "01fecc25317724b5baa1be5e7581c73d1c64aa510e90c7c4acf4182fe00d0877"
        )

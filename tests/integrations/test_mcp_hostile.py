"""Clients that send what they were not asked for, and models that write what a person must not be fooled by."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import replace
from typing import Any

import mcp_types as types
import pytest
from mcp.client import ClientRequestContext
from mcp.server.request_state import AESGCMRequestStateCodec
from mcp.shared.exceptions import MCPError

from handraise import Approval, Choice, Field, Form, MultiChoice, Open, Option, Problem, Question, open_desk
from handraise.events import EventKind
from handraise.integrations.mcp.elicitation import Unshowable, elicitation_of
from tests.integrations.app_mcp_clients import (
    LEGACY,
    MODERN,
    AtClient,
    Filled,
    Table,
    accept,
    check_form,
    parts_of,
    table,
)
from tests.server.inbox.hostile import MARK, NAMES, TEXTS

both_eras = pytest.mark.parametrize("era", [LEGACY, MODERN])
KEY = "k" * 32
STRATEGY = {"question": "Which strategy?", "choices": ["Blue-green", "Canary"]}
REFUND = {"action": "refund", "arguments": {"amount": 40}}
NASTY = "a\u202eb\u200bc\x1b[2Jd"


def sent(**parts: Any) -> Filled:
    return Filled.model_construct(**{"meta": None, "content": None, **parts})


MALFORMED = {
    "no content": sent(action="accept"),
    "empty": accept(),
    "number": accept(answer=5, decision=5),
    "yes": accept(answer=True, decision=True),
    "list": accept(answer=["Canary"], decision=["approve"]),
    "nested": accept(answer={"other": "x"}, decision={"decision": "approve"}),
    "deep": accept(answer={"a": {"b": {"c": {}}}}, decision={"a": {"b": {}}}),
    "another name": accept(Answer="Canary", Decision="approve", approved=True),
    "whole decision": accept(value={"decision": "approve"}, action={"tool": "refund"}),
    "other text": accept(answer="", other="Canary", decision=""),
    "wrong case": accept(answer="CANARY!", decision="APPROVED"),
    "huge": accept(answer="x" * 200_000, decision="x" * 200_000),
    "controls": accept(answer="Canary\x00\u202e", decision="approve\x00"),
    "no such action": sent(action="approve", content={"answer": "Canary", "decision": "approve"}),
    "content is a list": sent(action="accept", content=["Canary", "approve"]),
    "content is a text": sent(action="accept", content="approve"),
}


@both_eras
@pytest.mark.parametrize("tool", ["ask_human", "request_approval"])
@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings:UserWarning")
async def test_malformed_content_answers_nothing_and_the_question_stays_open(era: str, tool: str) -> None:
    user = ByName()
    async with table(era, user=user, wait=1.0) as t:
        results = await asyncio.gather(*(answered_badly(t, tool, name) for name in MALFORMED))
        questions = {each.prompt: each for each in await t.asked(len(MALFORMED))}
        for name, result in zip(MALFORMED, results, strict=True):
            assert result is None or result["status"] == "still_pending", name
            assert result is None or not result.get("approved"), name
        for question in questions.values():
            await t.desk.answer(question.id, "Canary" if tool == "ask_human" else "deny", by="bo")
            collected = await t.call("collect_answer", question_id=question.id)
            assert (collected["status"], collected["by"]) == ("answered", "bo")
    assert {user.name_of(form) for form in user.shown} == MALFORMED.keys()


class ByName(AtClient):
    """Fills in each form in the way that its question names."""

    async def __call__(self, context: ClientRequestContext, params: types.ElicitRequestParams) -> Filled:
        await super().__call__(context, params)
        return MALFORMED[self.name_of(params)]

    def name_of(self, params: types.ElicitRequestParams) -> str:
        said = f"{params.message}\n".replace("_", " ")
        return next(name for name in MALFORMED if f"> {name}\n" in said)


async def answered_badly(t: Table, tool: str, name: str) -> dict[str, Any] | None:
    """What a call gives, None where the request itself is refused."""
    asks: dict[str, dict[str, Any]] = {
        "ask_human": {**STRATEGY, "question": name},
        "request_approval": {**REFUND, "action": name.replace(" ", "_")},
    }
    try:
        return await t.call(tool, **asks[tool])
    except MCPError as refusal:
        assert refusal.error.code == types.INVALID_PARAMS  # noqa: PT017 -- only some are refused
        return None


async def test_a_client_that_never_answers_its_form_does_not_hold_the_call() -> None:
    async def never() -> Filled:
        await asyncio.Event().wait()
        raise AssertionError

    async with table(LEGACY, user=AtClient([never]), wait=0.1) as t:
        assert (await t.call("ask_human", **STRATEGY))["status"] == "still_pending"


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = {"a": value}
    return value


@both_eras
@pytest.mark.parametrize("depth", [70, 150])
async def test_what_is_too_deep_or_not_text_is_told_and_not_asked(era: str, depth: int) -> None:
    async with table(era) as t:
        for tool, arguments in (
            ("ask_human", {"question": "q", "context": nested(depth)}),
            ("ask_human", {"question": "q", "schema": nested(depth)}),
            ("ask_human", {"question": "q\x00"}),
            ("ask_human", {"question": "q", "choices": ["a\ud800"]}),
            ("request_approval", {"action": "x", "arguments": nested(depth)}),
            ("request_approval", {"action": "x\x00", "arguments": {}}),
            ("collect_answer", {"question_id": "\ud800"}),
        ):
            try:
                result = await t.client.call_tool(tool, arguments)
            except MCPError as refusal:
                assert refusal.error.code == types.INVALID_PARAMS, tool  # noqa: PT017 -- only some are refused
            else:
                assert parts_of(result)["status"] == "invalid", tool
                assert result.is_error
        assert await t.all() == []


async def test_what_comes_without_having_been_asked_for_is_not_read() -> None:
    async with table(MODERN, user=AtClient()) as t:
        result = await t.raw("ask_human", STRATEGY, given=accept(answer="Canary"))
        assert isinstance(result, types.InputRequiredResult)
        [question] = await t.asked()
        assert not await attempts(t, question.id)


async def attempts(t: Table, question_id: str) -> list[str]:
    return [each.kind for each in await t.desk.history(question_id) if each.kind != EventKind.ASKED]


@pytest.mark.parametrize(
    "change", ["cut", "other letters", "empty", "plain", "other arguments", "other tool"]
)
async def test_a_state_that_is_not_ours_or_of_another_call_is_refused(change: str) -> None:
    async with table(MODERN, user=AtClient(), state_keys=[KEY]) as t:
        first = await t.raw("ask_human", STRATEGY)
        assert isinstance(first, types.InputRequiredResult)
        state = first.request_state or ""
        [question] = await t.asked()
        tool, arguments = "ask_human", dict(STRATEGY)
        match change:
            case "cut":
                state = state[:-4]
            case "other letters":
                state = state[:20] + ("A" if state[20] != "A" else "B") + state[21:]
            case "empty":
                state = ""
            case "plain":
                state = json.dumps([question.id, 0])
            case "other arguments":
                arguments["question"] = "Which strategy, really?"
            case "other tool":
                tool, arguments = "collect_answer", {"question_id": question.id}
        with pytest.raises(MCPError, match="Invalid or expired requestState"):
            await t.raw(tool, arguments, given=accept(answer="Canary"), state=state)
        assert not await attempts(t, question.id)


def forged(state: str, tool: str, arguments: dict[str, Any]) -> str:
    """What only somebody could make who has stolen the key."""
    digest = _digest(arguments)
    now = time.time()
    claims = {"v": 1, "iat": now, "exp": now + 60, "m": "tools/call", "t": tool, "a": digest, "s": state}
    return AESGCMRequestStateCodec([KEY]).seal(json.dumps({**claims, "aud": "handraise:default"}).encode())


def _digest(arguments: dict[str, Any]) -> str:
    from mcp.server.request_state import _request_identity  # noqa: PLC0415 -- a thief would know it too

    return _request_identity("tools/call", {"name": "", "arguments": arguments})[1]


async def test_with_a_stolen_key_nothing_is_believed_but_the_id_of_this_very_question() -> None:
    async with table(MODERN, user=AtClient(), state_keys=[KEY]) as t:
        others = await t.desk.scoped(asker="other").post("Which strategy?", choices=["Blue-green", "Canary"])
        twin = (await t.call("ask_human", question="Another one?", wait_seconds=0))["question_id"]
        states = [json.dumps([others.id, 0]), json.dumps([twin, 0]), '{"question": 1}', "[]", "null", "no"]
        for state in (*states, "[" * 100_000):
            with pytest.raises(MCPError, match="Invalid or expired requestState"):
                await t.raw(
                    "ask_human",
                    STRATEGY,
                    given=accept(answer="Canary"),
                    state=forged(state, "ask_human", STRATEGY),
                )
        assert (await t.desk.get(others.id)).outcome is None
        assert (await t.desk.get(twin)).outcome is None


async def test_with_a_stolen_key_a_client_cannot_approve_what_is_of_high_risk() -> None:
    async with table(MODERN, user=AtClient(), state_keys=[KEY], wait=0.05, least_risk="high") as t:
        left = await t.call("request_approval", **REFUND)
        result = await t.raw(
            "request_approval",
            REFUND,
            given=accept(decision="approve"),
            state=forged(json.dumps([left["question_id"], 0]), "request_approval", REFUND),
        )
        assert parts_of(result)["approved"] is False
        assert "in the inbox or in the terminal" in parts_of(result)["note"]
        assert (await t.desk.get(left["question_id"])).outcome is None


async def test_the_desk_itself_refuses_the_word_of_a_client_for_high_risk_and_says_where_to_decide(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("handraise.integrations.mcp.server._is_high", lambda _: False)
    for era in (LEGACY, MODERN):
        user = AtClient([accept(decision="approve")])
        async with table(era, user=user, wait=0.3, least_risk="high") as t:
            result = await t.call("request_approval", **REFUND)
            [question] = await t.asked()
        assert (result["status"], result["approved"], len(user.shown)) == ("still_pending", False, 1)
        assert "does not count" in result["note"]
        assert "decide in the inbox or in the terminal" in result["note"]
        assert question.outcome is None


@both_eras
async def test_nothing_that_a_model_writes_is_hidden_or_passes_for_ours(era: str) -> None:
    user = AtClient([accept(answer="a‹U+202E›b‹U+200B›c‹U+001B›[2Jd")])
    async with table(era, user=user) as t:
        result = await t.call(
            "ask_human",
            question=f"{NASTY}\nRisk: low",
            choices=[NASTY, "b"],
            context=f"x\r\n\nagent asks:\n{NASTY}",
        )
    assert result["value"] == NASTY, "what is shown stands for what was offered"
    [form] = user.shown
    assert all(
        line.startswith(("> ", "agent asks:", "What the agent says")) for line in form.message.split("\n")
    )
    assert form.message.count("\nagent asks:") == 0


@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
async def test_a_hostile_text_stays_a_text_in_a_form_of_a_client(version: str) -> None:
    """Every line that is not ours is marked, and nothing is unseen, wherever a model can write something."""
    assert len(set(TEXTS)) >= 500
    shown = 0
    async with open_desk("memory:") as desk:
        for text, name in zip(TEXTS, NAMES, strict=True):
            option = Option(id=name, label=name, description=text[:500])
            for form in (
                Choice(options=(option, Option(id="b", label="b")), allow_other=True),
                MultiChoice(options=(option, Option(id="b", label="b"))),
                Form(
                    fields=(Field(name=name, form=Open(), title=name, description=text[:500], default=text),)
                ),
                Approval.of("pay", {name: text, "list": [text, {"deep": text}], "e": text}, editable=["e"]),
            ):
                asked = await desk.post(text, form=form, context={name: text, "list": [text]})
                try:
                    found = elicitation_of(asked, version=version)
                except Unshowable:
                    continue
                again = found.again([Problem(name, text)])
                check_form(
                    types.ElicitRequestFormParams(message=again.message, requested_schema=found.schema)
                )
                assert [
                    line for line in found.message.split("\n") if MARK in line and not line.startswith("> ")
                ] == []
                shown += 1
    assert shown >= 3 * len(TEXTS)


@both_eras
async def test_names_of_fields_and_arguments_are_shown_as_they_are(era: str) -> None:
    fields = AtClient([accept(**{"a‹U+202E›b‹U+200B›c‹U+001B›[2Jd": "x"})])
    async with table(era, user=fields) as t:
        schema = {
            "type": "object",
            "properties": {NASTY: {"type": "string", "title": NASTY, "default": NASTY}},
        }
        result = await t.call("ask_human", question="?", schema=schema)
        assert result["value"] == {NASTY: "x"}
        fields.fills = [accept(decision="approve", **{"arguments.a‹U+202E›b‹U+200B›c‹U+001B›[2Jd": "y"})]
        approval = await t.call("request_approval", action="pay", arguments={NASTY: NASTY}, editable=[NASTY])
    assert approval["action"] == {"tool": "pay", "arguments": {NASTY: "y"}}


@both_eras
async def test_an_action_that_cannot_be_read_whole_is_not_decided_at_the_client(era: str) -> None:
    user = AtClient([accept(decision="approve")])
    async with table(era, user=user, wait=0.05) as t:
        result = await t.call("request_approval", action="mail", arguments={"text": "x" * 20_000})
    assert (result["status"], user.shown) == ("still_pending", [])


async def question_of(form: Any) -> Question:
    async with open_desk("memory:") as desk:
        return await desk.post("Which?", form=form)


async def test_an_older_client_gets_the_older_way_to_name_choices_and_none_of_several() -> None:
    choice = await question_of(Choice.of(Option(id="c", label="Canary"), "Rolling"))
    shown = elicitation_of(choice, version="2025-06-18")
    assert shown.schema["properties"]["answer"] == {
        "type": "string",
        "enum": ["c", "Rolling"],
        "enumNames": ["Canary", "Rolling"],
    }
    check_form(types.ElicitRequestFormParams(message=shown.message, requested_schema=shown.schema))
    several = await question_of(MultiChoice.of("a", "b"))
    with pytest.raises(Unshowable):
        elicitation_of(several, version="2025-06-18")


async def test_a_line_break_in_a_name_draws_no_row_of_its_own() -> None:
    forged = Approval.of("drop", {"table\ndry_run": "orders", "note": "a\ndry_run: true"})
    shown = elicitation_of(await question_of(forged), version="2026-07-28").message
    assert "table‹U+000A›dry_run" in shown
    assert not any(line.startswith("> dry_run") for line in shown.split("\n"))


async def test_names_that_look_the_same_are_not_shown() -> None:
    twins = await question_of(Choice.of("a\u200b", "a‹U+200B›"))
    with pytest.raises(Unshowable, match="look the same"):
        elicitation_of(twins, version="2026-07-28")


async def test_what_a_form_asks_for_is_flat_and_told_in_words() -> None:
    form = Form(
        fields=(
            Field(name="code", form=Open(pattern="^[A-Z]{3}$"), description="Three letters"),
            Field(name="age", form=Open(type="integer", minimum=1, maximum=9), required=False, default=3),
        )
    )
    shown = elicitation_of(await question_of(form), version="2026-07-28")
    assert shown.schema == {
        "type": "object",
        "properties": {
            "code": {
                "type": "string",
                "minLength": 1,
                "title": "code",
                "description": "Three letters. Must match ^[A-Z]{3}$",
            },
            "age": {"type": "integer", "minimum": 1, "maximum": 9, "title": "age", "default": 3},
        },
        "required": ["code"],
    }


async def test_a_forged_digest_or_arguments_in_an_approval_are_not_read() -> None:
    approval = Approval.of("refund", {"amount": 40}, editable=["amount"])
    question = await question_of(approval)
    read = elicitation_of(question, version="2026-07-28").read
    content = {"decision": "approve", "digest": "x", "arguments": {"amount": 9}, "scope": "always"}
    assert read(content) == {"decision": "approve", "digest": approval.digest}


async def test_an_argument_that_may_be_edited_begins_with_what_is_frozen() -> None:
    """Also in a question of a release that let an asker begin with something else: what is sent back unseen is executed."""
    approval = Approval.of("pay", {"eur": 10}, editable=[Field(name="eur", form=Open(type="number"))])
    question = await question_of(approval)
    entry = approval.editable[0].model_copy(update={"default": 1_000_000})
    forged = replace(question, form=approval.model_copy(update={"editable": (entry,)}))
    for each in (question, forged):
        shown = elicitation_of(each, version="2026-07-28")
        assert shown.schema["properties"]["arguments.eur"]["default"] == 10

"""Claude Agent SDK and Claude Code: the real command line that the SDK brings, with a model that follows a script."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import claude_agent_sdk
import pytest
from claude_agent_sdk import (
    CanUseTool,
    ClaudeAgentOptions,
    ClaudeSDKClient,
    HookMatcher,
    PermissionResultDeny,
    ResultMessage,
)

from handraise import Desk, StoreUnavailable
from handraise.errors import CannotAskBack
from handraise.integrations.claude_agent import asking, deferring, settled
from handraise.integrations.claude_code import ToolCalls, answer_hook
from handraise.model.provenance import Provenance
from tests.integrations.cells import ON_BOTH, cannot, killed_in_the_gate, more_processes, shows
from tests.integrations.fake_anthropic import KEY, Anthropic, anthropic, tool_use
from tests.integrations.processes import SOON, asked, people, started, until

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
EXAMPLE = ROOT / "examples" / "integrations" / "claude_agent.py"
CLAUDE = Path(claude_agent_sdk.__file__).parent / "_bundled" / "claude"
HOOK = f"{sys.executable} -m handraise.integrations.claude_code"
COLOUR = {
    "question": "Which colour?",
    "header": "Colour",
    "multiSelect": False,
    "options": [
        {"label": "Blue", "description": "like the sea", "preview": "```\n~~~~\n```"},
        {"label": "Green", "description": ""},
    ],
}
PARTS = {**COLOUR, "question": "Which parts?", "multiSelect": True}


@dataclass
class Setup:
    """A model, a desk for the people, and a folder to work in."""

    api: Anthropic
    desk: Desk
    folder: Path
    url: str
    said: list[Any] = field(default_factory=list)

    @property
    def environment(self) -> dict[str, str]:
        return {
            "ANTHROPIC_BASE_URL": self.api.url,
            "ANTHROPIC_API_KEY": KEY,
            "HOME": str(self.folder / "home"),
            "HANDRAISE_URL": self.url,
            "IS_SANDBOX": "1",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        }

    async def run(
        self,
        *,
        can_use_tool: CanUseTool | None = None,
        hook: HookMatcher | None = None,
        resume: str | None = None,
        settings: Path | None = None,
        **more: Any,
    ) -> ResultMessage:
        options = ClaudeAgentOptions(
            **more,
            resume=resume,
            settings=str(settings) if settings else None,
            can_use_tool=can_use_tool,
            hooks={"PreToolUse": [hook]} if hook else None,
            cwd=self.folder,
            env=self.environment,
        )
        async with asyncio.timeout(SOON), ClaudeSDKClient(options) as client:
            if resume is None:
                await client.query("Go.")
            async for message in client.receive_response():
                self.said.append(message)
        result = self.said[-1]
        assert isinstance(result, ResultMessage)
        return result

    async def start(self, *arguments: str) -> Process:
        """Start Claude Code itself, without an SDK."""
        return await asyncio.create_subprocess_exec(
            CLAUDE,
            *("-p", "--output-format", "json", "--settings", str(self.folder / "settings.json")),
            *arguments,
            cwd=self.folder,
            env={**os.environ, **self.environment},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            start_new_session=True,
        )

    async def kill(self, process: Process) -> None:
        """End it, and the hooks that it started, with SIGKILL."""
        os.killpg(process.pid, signal.SIGKILL)
        await process.wait()

    async def claude(self, *arguments: str) -> dict[str, Any]:
        """What a run of Claude Code says at its end."""
        process = await self.start(*arguments)
        try:
            async with asyncio.timeout(SOON):
                output, _ = await process.communicate()
        finally:
            if process.returncode is None:
                await self.kill(process)
        found: dict[str, Any] = json.loads(output)
        return found

    def set_hook(
        self,
        command: str,
        event: str = "PreToolUse",
        matcher: str = "Write|AskUserQuestion",
        *,
        at_the_end: str = "true",
    ) -> None:
        hook = {"matcher": matcher, "hooks": [{"type": "command", "command": command, "timeout": 600}]}
        last = {"hooks": [{"type": "command", "command": at_the_end, "timeout": 600}]}
        hooks = {event: [hook], "SessionEnd": [last]}
        (self.folder / "settings.json").write_text(json.dumps({"hooks": hooks}))


@asynccontextmanager
async def server_with(tmp_path: Path, url: str, *script: dict[str, Any]) -> AsyncIterator[Setup]:
    (tmp_path / "home").mkdir()
    async with anthropic(*script) as api, people(url) as desk:
        yield Setup(api, desk, tmp_path, url)


@pytest.fixture
async def setup(tmp_path: Path) -> AsyncIterator[Setup]:
    async with server_with(tmp_path, f"sqlite:///{tmp_path / 'questions.db'}") as setup:
        yield setup


def write(call_id: str, folder: Path, content: str = "asked") -> dict[str, Any]:
    return tool_use(call_id, "Write", file_path=str(folder / f"{call_id}.txt"), content=content)


def written(setup: Setup, call_id: str) -> str | None:
    file = setup.folder / f"{call_id}.txt"
    return file.read_text() if file.exists() else None


@shows("claude-agent-sdk", "ask", "several at once")
@more_processes
async def test_two_questions_of_claude_are_answered_in_reverse_order(setup: Setup) -> None:
    setup.api.script = [tool_use("toolu_1", "AskUserQuestion", questions=[COLOUR, PARTS])]
    run = asyncio.create_task(setup.run(can_use_tool=asking(setup.desk)))
    colour, parts = await asked(setup.desk, number=2)
    assert [each.label for each in colour.form.options] == ["Blue", "Green"]  # type: ignore[union-attr]
    assert [each.preview for each in colour.form.options] == ["```\n~~~~\n```", None]  # type: ignore[union-attr]
    await setup.desk.answer(parts.id, ["Blue", "Green"], by="ana")
    await setup.desk.answer(colour.id, {"other": "Red, please"}, by="bob")
    assert (await run).stop_reason == "end_turn"
    text = setup.api.text_of("toolu_1")
    assert '"Which colour?"="Red, please"' in text
    assert '"Which parts?"="Blue, Green"' in text


@shows("claude-agent-sdk", "approve", "edit")
@more_processes
async def test_a_call_runs_as_the_person_changed_it(setup: Setup) -> None:
    setup.api.script = [write("toolu_1", setup.folder)]
    permission = asking(setup.desk, editable={"Write": ["content"]})
    run = asyncio.create_task(setup.run(can_use_tool=permission))
    [question] = await asked(setup.desk)
    await setup.desk.answer(
        question.id, {"decision": "approve", "arguments": {"content": "changed"}}, by="ana"
    )
    assert (await run).stop_reason == "end_turn"
    assert written(setup, "toolu_1") == "changed"
    assert (await setup.desk.get(question.id)).consumed_at is not None


@shows("claude-agent-sdk", "asks back")
async def test_a_person_asks_back_about_a_call_and_it_runs_once_claude_has_replied(setup: Setup) -> None:
    setup.api.script = [write("toolu_1", setup.folder)]
    permission = asking(setup.desk, editable={"Write": ["content"]}, replies="model")
    run = asyncio.create_task(
        setup.run(can_use_tool=permission, mcp_servers={"handraise": permission.server})
    )
    [question] = await asked(setup.desk)
    again = {**write("toolu_1", setup.folder), "id": "toolu_3"}
    reply = {"question_id": question.id, "message": 1, "text": "Ana's."}
    setup.api.script += [
        tool_use("toolu_2", "mcp__handraise__reply_to_person", **reply),
        again,
        {**again, "id": "toolu_4"},
    ]
    await setup.desk.ask_back(question.id, "Whose file?", by="ana")
    await until(lambda: replied(setup.desk, question.id))
    assert '"status":"asked_back"' in setup.api.text_of("toolu_1")
    assert written(setup, "toolu_1") is None
    edited = {"decision": "approve", "arguments": {"content": "changed"}}
    await setup.desk.answer(question.id, edited, by="ana", provenance=Provenance(seen=2))
    [second] = await asked(
        setup.desk
    )  # an approval is used once: the same call once more is another question
    assert written(setup, "toolu_1") == "changed"
    assert second.id != question.id
    await setup.desk.answer(second.id, "deny", by="ana")
    assert (await run).stop_reason == "end_turn"
    assert "call Write again" in setup.api.text_of("toolu_2")
    assert [each.text for each in await setup.desk.thread(question.id)] == ["Whose file?", "Ana's."]


async def replied(desk: Desk, question_id: str) -> bool:
    return (await desk.get(question_id)).thread == 2


@shows("claude-agent-sdk", "asks back")
@more_processes
async def test_a_person_asks_back_about_a_question_of_claude(setup: Setup) -> None:
    setup.api.script = [tool_use("toolu_1", "AskUserQuestion", questions=[COLOUR])]
    permission = asking(setup.desk, replies="model")
    run = asyncio.create_task(
        setup.run(can_use_tool=permission, mcp_servers={"handraise": permission.server})
    )
    [question] = await asked(setup.desk)
    reply = {"question_id": question.id, "message": 1, "text": "Of the car."}
    setup.api.script += [tool_use("toolu_2", "mcp__handraise__reply_to_person", **reply)]
    await setup.desk.ask_back(question.id, "Of what?", by="ana")
    await until(lambda: replied(setup.desk, question.id))
    await setup.desk.answer(question.id, "Blue", by="ana")
    await run
    assert '"text":"Blue"' in setup.api.text_of("toolu_2")


@cannot("claude-code", "asks back", "a hook answers one call, and gives Claude Code no tool to reply with")
async def test_nobody_replies_for_a_session_that_has_ended_or_from_a_hook(setup: Setup) -> None:
    with pytest.raises(TypeError, match="Nobody replies"):
        deferring(setup.desk, replies="model")
    hook = {"hook_event_name": "PreToolUse", "tool_name": "Write", "tool_input": {}, "tool_use_id": "toolu_1"}
    await answer_hook(ToolCalls(setup.desk), hook, "defer")
    [question] = await asked(setup.desk)
    with pytest.raises(CannotAskBack):
        await setup.desk.ask_back(question.id, "Which?", by="ana")


@shows("claude-agent-sdk", "approve")
@more_processes
async def test_a_denied_call_does_not_run_and_claude_reads_why(setup: Setup) -> None:
    setup.api.script = [write("toolu_1", setup.folder)]
    run = asyncio.create_task(setup.run(can_use_tool=asking(setup.desk)))
    [question] = await asked(setup.desk)
    await setup.desk.answer(question.id, {"decision": "deny", "reason": "not on a Sunday"}, by="ana")
    await run
    assert written(setup, "toolu_1") is None
    assert "Not approved" in setup.api.text_of("toolu_1")
    assert "not on a Sunday" in setup.api.text_of("toolu_1")


@shows("claude-agent-sdk", "sends back")
@pytest.mark.parametrize("tool", ["Write", "AskUserQuestion"])
@more_processes
async def test_claude_reads_why_a_call_was_sent_back_and_makes_it_again(setup: Setup, tool: str) -> None:
    calls: dict[str, list[dict[str, Any] | list[dict[str, Any]]]] = {
        "Write": [write("toolu_1", setup.folder), write("toolu_2", setup.folder)],
        "AskUserQuestion": [tool_use(f"toolu_{each}", tool, questions=[COLOUR]) for each in (1, 2)],
    }
    setup.api.script = calls[tool]
    run = asyncio.create_task(setup.run(can_use_tool=asking(setup.desk)))
    [first] = await asked(setup.desk)
    await setup.desk.send_back(first.id, by="ana", reason="Say of what.")
    [second] = await asked(setup.desk)
    assert second.id != first.id
    await setup.desk.answer(second.id, "approve" if tool == "Write" else "Blue", by="ana")
    await run
    assert '"status":"returned"' in setup.api.text_of("toolu_1")
    assert "Say of what." in setup.api.text_of("toolu_1")
    assert written(setup, "toolu_1") is None
    assert (written(setup, "toolu_2") == "asked") is (tool == "Write")


@shows("claude-code", "sends back")
async def test_a_call_that_was_sent_back_does_not_run_in_claude_code(setup: Setup) -> None:
    hook = {"hook_event_name": "PreToolUse", "tool_name": "Write", "tool_input": {}, "tool_use_id": "toolu_1"}
    deciding = asyncio.create_task(answer_hook(ToolCalls(setup.desk), hook, "wait"))
    [question] = await asked(setup.desk)
    await setup.desk.send_back(question.id, by="ana", reason="Say of what.")
    said = (await deciding)["hookSpecificOutput"]
    assert said["permissionDecision"] == "deny"
    assert '"status":"returned"' in said["permissionDecisionReason"]
    assert "Say of what." in said["permissionDecisionReason"]


@shows("claude-agent-sdk", "other endings")
@pytest.mark.parametrize("tool", ["Write", "AskUserQuestion"])
@more_processes
async def test_declined_and_expired_are_no_answers(setup: Setup, tool: str) -> None:
    calls: dict[str, list[dict[str, Any] | list[dict[str, Any]]]] = {
        "Write": [write("toolu_1", setup.folder), write("toolu_2", setup.folder)],
        "AskUserQuestion": [tool_use(f"toolu_{each}", tool, questions=[COLOUR]) for each in (1, 2)],
    }
    setup.api.script = calls[tool]
    run = asyncio.create_task(setup.run(can_use_tool=asking(setup.desk, expires_in=1.0)))
    [question] = await asked(setup.desk)
    await setup.desk.decline(question.id, by="ana", reason="not my business")
    await run
    assert '"status":"declined"' in setup.api.text_of("toolu_1")
    assert '"status":"expired"' in setup.api.text_of("toolu_2")
    assert written(setup, "toolu_1") is written(setup, "toolu_2") is None


@more_processes
async def test_a_desk_that_cannot_be_reached_approves_nothing(
    setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*_: Any, **__: Any) -> Any:
        raise StoreUnavailable("the store is away")

    monkeypatch.setattr(type(setup.desk), "post", away)
    setup.api.script = [write("toolu_1", setup.folder)]
    await setup.run(can_use_tool=asking(setup.desk))
    hook = deferring(setup.desk)
    setup.api.script = [write("toolu_2", setup.folder)]
    await setup.run(hook=hook)
    assert written(setup, "toolu_1") is written(setup, "toolu_2") is None


async def test_what_cannot_be_asked_is_told_to_claude_and_nobody_is_asked(setup: Setup) -> None:
    calls = ToolCalls(setup.desk)
    bad: list[dict[str, Any]] = [
        {"questions": []},
        {"questions": [COLOUR, COLOUR]},
        {"questions": [COLOUR, {"question": "x" * 20_000, "options": []}]},
        {"questions": [{"question": "?", "options": ["no object"]}]},
    ]
    for number, arguments in enumerate(bad):
        hook = {
            "hook_event_name": "PreToolUse",
            "tool_name": "AskUserQuestion",
            "tool_input": arguments,
            "tool_use_id": f"toolu_{number}",
        }
        said = (await answer_hook(calls, hook, "defer"))["hookSpecificOutput"]
        assert said["permissionDecision"] == "deny"
        assert "Nobody was asked" in said["permissionDecisionReason"]
    assert not (await setup.desk.list_pending()).items


async def test_an_id_that_comes_with_another_call_is_refused(setup: Setup) -> None:
    calls = ToolCalls(setup.desk)

    def hook(content: str) -> dict[str, Any]:
        call = write("toolu_1", setup.folder, content)
        return {
            "hook_event_name": "PreToolUse",
            "tool_name": "Write",
            "tool_input": call["input"],
            "tool_use_id": "1",
        }

    assert (await answer_hook(calls, hook("a"), "defer"))["hookSpecificOutput"][
        "permissionDecision"
    ] == "defer"
    [question] = await asked(setup.desk)
    await setup.desk.answer(question.id, "approve", by="ana")
    for content, wanted in (("b", "deny"), ("a", "allow"), ("a", "deny")):
        said = (await answer_hook(calls, hook(content), "defer"))["hookSpecificOutput"]
        assert (content, said["permissionDecision"]) == (content, wanted)


@shows("claude-agent-sdk", "resumes elsewhere", "asks once", "edit")
@more_processes
async def test_a_deferred_call_is_resumed_with_what_people_decided(setup: Setup) -> None:
    setup.api.script = [write("toolu_1", setup.folder)]
    hook = deferring(setup.desk, "Write", editable={"Write": ["content"]})
    first = await setup.run(hook=hook)
    assert (first.stop_reason, first.deferred_tool_use and first.deferred_tool_use.id) == (
        "tool_deferred",
        "toolu_1",
    )
    again = await setup.run(hook=hook, resume=first.session_id)
    assert again.stop_reason == "tool_deferred"
    [question] = await asked(setup.desk)
    assert question.state["claude"]["session_id"] == first.session_id
    assert written(setup, "toolu_1") is None
    await setup.desk.answer(
        question.id, {"decision": "approve", "arguments": {"content": "changed"}}, by="ana"
    )
    assert len(await settled(setup.desk, "toolu_1")) == 1
    last = await setup.run(hook=hook, resume=first.session_id)
    assert (last.stop_reason, written(setup, "toolu_1")) == ("end_turn", "changed")


@more_processes
async def test_of_two_deferred_calls_claude_code_resumes_the_last(setup: Setup) -> None:
    setup.api.script = [[write("toolu_1", setup.folder), write("toolu_2", setup.folder)]]
    hook = deferring(setup.desk, "Write")
    first = await setup.run(hook=hook)
    assert first.deferred_tool_use is not None
    assert first.deferred_tool_use.id == "toolu_2"
    for question in await asked(setup.desk, number=2):
        await setup.desk.answer(question.id, "approve", by="ana")
    await setup.run(hook=hook, resume=first.session_id)
    assert setup.api.seen[1] == {"toolu_2"}


@shows("claude-agent-sdk", "survives kill", "resumes elsewhere")
@pytest.mark.parametrize("address", ON_BOTH, indirect=True)
@killed_in_the_gate
async def test_the_page_shows_a_program_that_survives_a_kill(empty_address: str, tmp_path: Path) -> None:
    page = (ROOT / "docs" / "integrations" / "claude.md").read_text(encoding="utf-8")
    assert f"```python\n{EXAMPLE.read_text(encoding='utf-8')}```" in page
    log = tmp_path / "log"
    prepare = tool_use("toolu_1", "Bash", command=f"echo prepared >> {log}", description="prepare")
    ask = tool_use("toolu_2", "AskUserQuestion", questions=[COLOUR])
    async with server_with(tmp_path, empty_address, prepare, ask) as setup:
        async with started(EXAMPLE, "Go.", folder=tmp_path, **setup.environment) as first:
            [preparing] = await asked(setup.desk)
            await setup.desk.answer(preparing.id, "approve", by="ana")
            session = (await first.says("resume")).split()[1]
            await first.kill()
        [question] = await asked(setup.desk)
        await setup.desk.answer(question.id, "Green", by="ana")
        assert question.state["claude"]["session_id"] == session
        async with started(EXAMPLE, "Go.", session, folder=tmp_path, **setup.environment) as second:
            await second.says("All done.")
            assert await second.ends() == 0
        assert '"Which colour?"="Green"' in setup.api.text_of("toolu_2")
        settled_questions = (await setup.desk.list_settled()).items
        assert [each.id for each in settled_questions] == [question.id, preparing.id]
    assert log.read_text() == "prepared\n"


@shows("claude-code", "ask", "several at once")
@more_processes
async def test_a_hook_answers_what_claude_code_asks(setup: Setup) -> None:
    """Through the SDK, for `claude -p` has no `AskUserQuestion`; the hook is the one of `settings.json`."""
    setup.api.script = [tool_use("toolu_1", "AskUserQuestion", questions=[COLOUR, PARTS])]
    setup.set_hook(f"{HOOK} wait")

    async def nobody(*_: Any) -> PermissionResultDeny:
        return PermissionResultDeny(message="the hook was passed by")

    run = asyncio.create_task(setup.run(can_use_tool=nobody, settings=setup.folder / "settings.json"))
    colour, parts = await asked(setup.desk, number=2)
    await setup.desk.answer(parts.id, ["Green"], by="ana")
    await setup.desk.answer(colour.id, "Blue", by="ana")
    assert (await run).result == "All done."
    assert '"Which colour?"="Blue"' in setup.api.text_of("toolu_1")
    assert '"Which parts?"="Green"' in setup.api.text_of("toolu_1")


@shows("claude-code", "approve", "edit")
@more_processes
async def test_claude_code_runs_a_call_as_the_person_changed_it(setup: Setup) -> None:
    setup.api.script = [write("toolu_1", setup.folder)]
    setup.set_hook(f"{HOOK} wait --editable Write.content")
    run = asyncio.create_task(setup.claude("Go."))
    [question] = await asked(setup.desk)
    await setup.desk.answer(
        question.id, {"decision": "approve", "arguments": {"content": "changed"}}, by="ana"
    )
    assert (await run)["result"] == "All done."
    assert written(setup, "toolu_1") == "changed"


@shows("claude-code", "approve", "other endings")
@pytest.mark.parametrize("event", ["PreToolUse", "PermissionRequest"])
@more_processes
async def test_what_is_denied_or_declined_does_not_run_in_claude_code(setup: Setup, event: str) -> None:
    setup.api.script = [write(f"toolu_{each}", setup.folder) for each in (1, 2, 3)]
    setup.set_hook(f"{HOOK} wait", event)
    run = asyncio.create_task(setup.claude("Go."))
    [first] = await asked(setup.desk)
    await setup.desk.answer(first.id, {"decision": "deny", "reason": "not on a Sunday"}, by="ana")
    [second] = await asked(setup.desk)
    await setup.desk.decline(second.id, by="ana", reason="not my business")
    [third] = await asked(setup.desk)
    await setup.desk.answer(third.id, "approve", by="ana")
    assert (await run)["result"] == "All done."
    assert "not on a Sunday" in setup.api.text_of("toolu_1")
    assert '"status":"declined"' in setup.api.text_of("toolu_2")
    assert [written(setup, f"toolu_{each}") for each in (1, 2, 3)] == [None, None, "asked"]


@shows("claude-code", "other endings")
@more_processes
async def test_a_hook_that_cannot_reach_its_desk_blocks_the_call(setup: Setup) -> None:
    setup.api.script = [write("toolu_1", setup.folder)]
    setup.url = "postgresql://127.0.0.1:1/nowhere"
    setup.set_hook(f"{HOOK} wait")
    assert (await setup.claude("Go.", "--permission-mode", "acceptEdits"))["result"] == "All done."
    assert written(setup, "toolu_1") is None
    assert "nobody could be asked" in setup.api.text_of("toolu_1")


@shows("claude-code", "survives kill", "resumes elsewhere", "asks once")
@killed_in_the_gate
async def test_claude_code_is_killed_at_the_question_and_resumed_with_the_answer(setup: Setup) -> None:
    """A deferred session ends by itself: a last hook holds it there, so that there is something to kill."""
    log, ending = setup.folder / "log", setup.folder / "ending"
    prepare = tool_use("toolu_1", "Bash", command=f"echo prepared >> {log}", description="prepare")
    setup.api.script = [prepare, write("toolu_2", setup.folder)]
    setup.set_hook(f"{HOOK} defer", at_the_end=f"touch {ending}; sleep 60")
    first = await setup.start("Go.", "--allowedTools", "Bash")
    [question] = await asked(setup.desk)
    await until(ending.exists)
    assert first.returncode is None
    await setup.kill(first)
    session = question.state["claude"]["session_id"]
    setup.set_hook(f"{HOOK} defer")
    again = await setup.claude("--resume", session, "--allowedTools", "Bash")
    assert again["stop_reason"] == "tool_deferred"
    assert [each.id for each in await asked(setup.desk)] == [question.id]
    await setup.desk.answer(question.id, "approve", by="ana")
    last = await setup.claude("--resume", session, "--allowedTools", "Bash")
    assert (last["result"], written(setup, "toolu_2")) == ("All done.", "asked")
    assert log.read_text() == "prepared\n"
    assert [each.id for each in (await setup.desk.list_settled()).items] == [question.id]

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
from handraise.integrations.claude_agent import asking, deferring, settled
from handraise.integrations.claude_code import ToolCalls, answer_hook
from tests.integrations.cells import ON_BOTH, killed_in_the_gate, more_processes, shows
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
    "options": [{"label": "Blue", "description": "like the sea"}, {"label": "Green", "description": ""}],
}
PARTS = {**COLOUR, "question": "Which parts?", "multiSelect": True}


@dataclass
class House:
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
    ) -> ResultMessage:
        options = ClaudeAgentOptions(
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
async def house_with(tmp_path: Path, url: str, *script: dict[str, Any]) -> AsyncIterator[House]:
    (tmp_path / "home").mkdir()
    async with anthropic(*script) as api, people(url) as desk:
        yield House(api, desk, tmp_path, url)


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    async with house_with(tmp_path, f"sqlite:///{tmp_path / 'questions.db'}") as house:
        yield house


def write(call_id: str, folder: Path, content: str = "asked") -> dict[str, Any]:
    return tool_use(call_id, "Write", file_path=str(folder / f"{call_id}.txt"), content=content)


def written(house: House, call_id: str) -> str | None:
    file = house.folder / f"{call_id}.txt"
    return file.read_text() if file.exists() else None


@shows("claude-agent-sdk", "ask", "several at once")
@more_processes
async def test_two_questions_of_claude_are_answered_in_reverse_order(house: House) -> None:
    house.api.script = [tool_use("toolu_1", "AskUserQuestion", questions=[COLOUR, PARTS])]
    run = asyncio.create_task(house.run(can_use_tool=asking(house.desk)))
    colour, parts = await asked(house.desk, number=2)
    assert [each.label for each in colour.form.options] == ["Blue", "Green"]  # type: ignore[union-attr]
    await house.desk.answer(parts.id, ["Blue", "Green"], by="ana")
    await house.desk.answer(colour.id, {"other": "Red, please"}, by="bob")
    assert (await run).stop_reason == "end_turn"
    text = house.api.text_of("toolu_1")
    assert '"Which colour?"="Red, please"' in text
    assert '"Which parts?"="Blue, Green"' in text


@shows("claude-agent-sdk", "approve", "edit")
@more_processes
async def test_a_call_runs_as_the_person_changed_it(house: House) -> None:
    house.api.script = [write("toolu_1", house.folder)]
    permission = asking(house.desk, editable={"Write": ["content"]})
    run = asyncio.create_task(house.run(can_use_tool=permission))
    [question] = await asked(house.desk)
    await house.desk.answer(
        question.id, {"decision": "approve", "arguments": {"content": "changed"}}, by="ana"
    )
    assert (await run).stop_reason == "end_turn"
    assert written(house, "toolu_1") == "changed"
    assert (await house.desk.get(question.id)).consumed_at is not None


@shows("claude-agent-sdk", "approve")
@more_processes
async def test_a_denied_call_does_not_run_and_claude_reads_why(house: House) -> None:
    house.api.script = [write("toolu_1", house.folder)]
    run = asyncio.create_task(house.run(can_use_tool=asking(house.desk)))
    [question] = await asked(house.desk)
    await house.desk.answer(question.id, {"decision": "deny", "reason": "not on a Sunday"}, by="ana")
    await run
    assert written(house, "toolu_1") is None
    assert "Not approved" in house.api.text_of("toolu_1")
    assert "not on a Sunday" in house.api.text_of("toolu_1")


@shows("claude-agent-sdk", "other endings")
@pytest.mark.parametrize("tool", ["Write", "AskUserQuestion"])
@more_processes
async def test_declined_and_expired_are_no_answers(house: House, tool: str) -> None:
    calls: dict[str, list[dict[str, Any] | list[dict[str, Any]]]] = {
        "Write": [write("toolu_1", house.folder), write("toolu_2", house.folder)],
        "AskUserQuestion": [tool_use(f"toolu_{each}", tool, questions=[COLOUR]) for each in (1, 2)],
    }
    house.api.script = calls[tool]
    run = asyncio.create_task(house.run(can_use_tool=asking(house.desk, expires_in=1.0)))
    [question] = await asked(house.desk)
    await house.desk.decline(question.id, by="ana", reason="not my business")
    await run
    assert '"status":"declined"' in house.api.text_of("toolu_1")
    assert '"status":"expired"' in house.api.text_of("toolu_2")
    assert written(house, "toolu_1") is written(house, "toolu_2") is None


@more_processes
async def test_a_desk_that_cannot_be_reached_approves_nothing(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*_: Any, **__: Any) -> Any:
        raise StoreUnavailable("the store is away")

    monkeypatch.setattr(type(house.desk), "post", away)
    house.api.script = [write("toolu_1", house.folder)]
    await house.run(can_use_tool=asking(house.desk))
    hook = deferring(house.desk)
    house.api.script = [write("toolu_2", house.folder)]
    await house.run(hook=hook)
    assert written(house, "toolu_1") is written(house, "toolu_2") is None


async def test_what_cannot_be_asked_is_told_to_claude_and_nobody_is_asked(house: House) -> None:
    calls = ToolCalls(house.desk)
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
    assert not (await house.desk.pending()).questions


async def test_an_id_that_comes_with_another_call_is_refused(house: House) -> None:
    calls = ToolCalls(house.desk)

    def hook(content: str) -> dict[str, Any]:
        call = write("toolu_1", house.folder, content)
        return {
            "hook_event_name": "PreToolUse",
            "tool_name": "Write",
            "tool_input": call["input"],
            "tool_use_id": "1",
        }

    assert (await answer_hook(calls, hook("a"), "defer"))["hookSpecificOutput"][
        "permissionDecision"
    ] == "defer"
    [question] = await asked(house.desk)
    await house.desk.answer(question.id, "approve", by="ana")
    for content, wanted in (("b", "deny"), ("a", "allow"), ("a", "deny")):
        said = (await answer_hook(calls, hook(content), "defer"))["hookSpecificOutput"]
        assert (content, said["permissionDecision"]) == (content, wanted)


@shows("claude-agent-sdk", "resumes elsewhere", "asks once", "edit")
@more_processes
async def test_a_deferred_call_is_resumed_with_what_people_decided(house: House) -> None:
    house.api.script = [write("toolu_1", house.folder)]
    hook = deferring(house.desk, "Write", editable={"Write": ["content"]})
    first = await house.run(hook=hook)
    assert (first.stop_reason, first.deferred_tool_use and first.deferred_tool_use.id) == (
        "tool_deferred",
        "toolu_1",
    )
    again = await house.run(hook=hook, resume=first.session_id)
    assert again.stop_reason == "tool_deferred"
    [question] = await asked(house.desk)
    assert question.state["claude"]["session_id"] == first.session_id
    assert written(house, "toolu_1") is None
    await house.desk.answer(
        question.id, {"decision": "approve", "arguments": {"content": "changed"}}, by="ana"
    )
    assert len(await settled(house.desk, "toolu_1")) == 1
    last = await house.run(hook=hook, resume=first.session_id)
    assert (last.stop_reason, written(house, "toolu_1")) == ("end_turn", "changed")


@more_processes
async def test_of_two_deferred_calls_claude_code_resumes_the_last(house: House) -> None:
    house.api.script = [[write("toolu_1", house.folder), write("toolu_2", house.folder)]]
    hook = deferring(house.desk, "Write")
    first = await house.run(hook=hook)
    assert first.deferred_tool_use is not None
    assert first.deferred_tool_use.id == "toolu_2"
    for question in await asked(house.desk, number=2):
        await house.desk.answer(question.id, "approve", by="ana")
    await house.run(hook=hook, resume=first.session_id)
    assert house.api.seen[1] == {"toolu_2"}


@shows("claude-agent-sdk", "survives kill", "resumes elsewhere")
@pytest.mark.parametrize("address", ON_BOTH, indirect=True)
@killed_in_the_gate
async def test_the_page_shows_a_program_that_survives_a_kill(empty_address: str, tmp_path: Path) -> None:
    page = (ROOT / "docs" / "integrations" / "claude.md").read_text(encoding="utf-8")
    assert f"```python\n{EXAMPLE.read_text(encoding='utf-8')}```" in page
    log = tmp_path / "log"
    prepare = tool_use("toolu_1", "Bash", command=f"echo prepared >> {log}", description="prepare")
    ask = tool_use("toolu_2", "AskUserQuestion", questions=[COLOUR])
    async with house_with(tmp_path, empty_address, prepare, ask) as house:
        async with started(EXAMPLE, "Go.", folder=tmp_path, **house.environment) as first:
            [preparing] = await asked(house.desk)
            await house.desk.answer(preparing.id, "approve", by="ana")
            session = (await first.says("resume")).split()[1]
            await first.kill()
        [question] = await asked(house.desk)
        await house.desk.answer(question.id, "Green", by="ana")
        assert question.state["claude"]["session_id"] == session
        async with started(EXAMPLE, "Go.", session, folder=tmp_path, **house.environment) as second:
            await second.says("All done.")
            assert await second.ends() == 0
        assert '"Which colour?"="Green"' in house.api.text_of("toolu_2")
        settled_questions = (await house.desk.settled()).questions
        assert [each.id for each in settled_questions] == [question.id, preparing.id]
    assert log.read_text() == "prepared\n"


@shows("claude-code", "ask", "several at once")
@more_processes
async def test_a_hook_answers_what_claude_code_asks(house: House) -> None:
    """Through the SDK, for `claude -p` has no `AskUserQuestion`; the hook is the one of `settings.json`."""
    house.api.script = [tool_use("toolu_1", "AskUserQuestion", questions=[COLOUR, PARTS])]
    house.set_hook(f"{HOOK} wait")

    async def nobody(*_: Any) -> PermissionResultDeny:
        return PermissionResultDeny(message="the hook was passed by")

    run = asyncio.create_task(house.run(can_use_tool=nobody, settings=house.folder / "settings.json"))
    colour, parts = await asked(house.desk, number=2)
    await house.desk.answer(parts.id, ["Green"], by="ana")
    await house.desk.answer(colour.id, "Blue", by="ana")
    assert (await run).result == "All done."
    assert '"Which colour?"="Blue"' in house.api.text_of("toolu_1")
    assert '"Which parts?"="Green"' in house.api.text_of("toolu_1")


@shows("claude-code", "approve", "edit")
@more_processes
async def test_claude_code_runs_a_call_as_the_person_changed_it(house: House) -> None:
    house.api.script = [write("toolu_1", house.folder)]
    house.set_hook(f"{HOOK} wait --editable Write.content")
    run = asyncio.create_task(house.claude("Go."))
    [question] = await asked(house.desk)
    await house.desk.answer(
        question.id, {"decision": "approve", "arguments": {"content": "changed"}}, by="ana"
    )
    assert (await run)["result"] == "All done."
    assert written(house, "toolu_1") == "changed"


@shows("claude-code", "approve", "other endings")
@pytest.mark.parametrize("event", ["PreToolUse", "PermissionRequest"])
@more_processes
async def test_what_is_denied_or_declined_does_not_run_in_claude_code(house: House, event: str) -> None:
    house.api.script = [write(f"toolu_{each}", house.folder) for each in (1, 2, 3)]
    house.set_hook(f"{HOOK} wait", event)
    run = asyncio.create_task(house.claude("Go."))
    [first] = await asked(house.desk)
    await house.desk.answer(first.id, {"decision": "deny", "reason": "not on a Sunday"}, by="ana")
    [second] = await asked(house.desk)
    await house.desk.decline(second.id, by="ana", reason="not my business")
    [third] = await asked(house.desk)
    await house.desk.answer(third.id, "approve", by="ana")
    assert (await run)["result"] == "All done."
    assert "not on a Sunday" in house.api.text_of("toolu_1")
    assert '"status":"declined"' in house.api.text_of("toolu_2")
    assert [written(house, f"toolu_{each}") for each in (1, 2, 3)] == [None, None, "asked"]


@shows("claude-code", "other endings")
@more_processes
async def test_a_hook_that_cannot_reach_its_desk_blocks_the_call(house: House) -> None:
    house.api.script = [write("toolu_1", house.folder)]
    house.url = "postgresql://127.0.0.1:1/nowhere"
    house.set_hook(f"{HOOK} wait")
    assert (await house.claude("Go.", "--permission-mode", "acceptEdits"))["result"] == "All done."
    assert written(house, "toolu_1") is None
    assert "nobody could be asked" in house.api.text_of("toolu_1")


@shows("claude-code", "survives kill", "resumes elsewhere", "asks once")
@killed_in_the_gate
async def test_claude_code_is_killed_at_the_question_and_resumed_with_the_answer(house: House) -> None:
    """A deferred session ends by itself: a last hook holds it there, so that there is something to kill."""
    log, ending = house.folder / "log", house.folder / "ending"
    prepare = tool_use("toolu_1", "Bash", command=f"echo prepared >> {log}", description="prepare")
    house.api.script = [prepare, write("toolu_2", house.folder)]
    house.set_hook(f"{HOOK} defer", at_the_end=f"touch {ending}; sleep 60")
    first = await house.start("Go.", "--allowedTools", "Bash")
    [question] = await asked(house.desk)
    await until(ending.exists)
    assert first.returncode is None
    await house.kill(first)
    session = question.state["claude"]["session_id"]
    house.set_hook(f"{HOOK} defer")
    again = await house.claude("--resume", session, "--allowedTools", "Bash")
    assert again["stop_reason"] == "tool_deferred"
    assert [each.id for each in await asked(house.desk)] == [question.id]
    await house.desk.answer(question.id, "approve", by="ana")
    last = await house.claude("--resume", session, "--allowedTools", "Bash")
    assert (last["result"], written(house, "toolu_2")) == ("All done.", "asked")
    assert log.read_text() == "prepared\n"
    assert [each.id for each in (await house.desk.settled()).questions] == [question.id]

"""Claude Code: its tool calls and its questions go to people through a desk, from a hook in `settings.json`.

`python -m handraise.integrations.claude_code wait` waits in the hook; with `defer` the session ends instead
and is resumed when the answer is there. It needs only Handraise. `handraise.integrations.claude_agent` is for
the SDK.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Literal, Unpack

from handraise import (
    AlreadySettled,
    Answered,
    Approval,
    Choice,
    Desk,
    HandraiseError,
    InvalidQuestion,
    KeyConflict,
    MultiChoice,
    NotApproved,
    Open,
    Option,
    Outcome,
    Problem,
    Question,
    QuestionNotFound,
    open_desk,
)
from handraise.errors import AlreadyConsumed
from handraise.model.json_values import Json, digest
from handraise.questions import QuestionOptions
from handraise.tools import ToolResult, to_tool_result
from handraise.tools.asked_back import settled_or_asked_back
from handraise.tools.reply_tool import invalid_reply, reply_from, reply_once

ASK_USER_QUESTION = "AskUserQuestion"


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A tool call by Claude. `id` comes from the model and identifies the call permanently."""

    tool: str
    arguments: dict[str, Json] = field(repr=False)
    id: str | None
    session: str | None = None
    folder: str | None = None


@dataclass(frozen=True, slots=True)
class Allow:
    """The call runs, with these arguments."""

    arguments: dict[str, Json] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Deny:
    """The call does not run; the reason is for the model."""

    reason: str = field(repr=False)


class ToolCalls:
    """Asks people about tool calls: one approval for a call, or the questions of `AskUserQuestion`.

    `editable` names the arguments of each tool that a person may change. The rest is as in `QuestionOptions`.
    """

    def __init__(
        self,
        desk: Desk,
        *,
        editable: Mapping[str, Sequence[str]] | None = None,
        **about: Unpack[QuestionOptions],
    ) -> None:
        self._desk = desk
        self._editable = editable or {}
        self._about = about
        self._replied: dict[str, str] = {}

    async def decide(self, call: Call) -> Allow | Deny | None:
        """People's decision about a call, or None if there is none yet.

        It is asked once, however often this is called.
        """
        asked = await self._asked(call)
        if isinstance(asked, Deny):
            return asked
        outcomes = [question.outcome for question in asked]
        return None if None in outcomes else await self._decision(call, asked)

    async def wait(self, call: Call) -> Allow | Deny:
        """People's decision about a call, as soon as there is one."""
        asked = await self._asked(call)
        if isinstance(asked, Deny):
            return asked
        for question in asked:
            await settled_or_asked_back(self._desk, question.id)
        ended = [await settled_or_asked_back(self._desk, question.id, timeout=0) for question in asked]
        if any(result.status == "asked_back" for _, result in ended):
            return Deny("Not decided yet. " + " ".join(result.content for _, result in ended))
        return await self._decision(call, [question for question, _ in ended])

    async def reply(self, arguments: Mapping[str, Json]) -> ToolResult:
        """Reply to people who asked back about a call, wait on, and return the result for Claude.

        If the call is approved then, it runs when Claude makes it again with the same arguments.
        """
        try:
            given = reply_from(dict(arguments))
            await reply_once(self._desk, await self._own(given.question_id), given)
        except InvalidQuestion as refusal:
            return invalid_reply(refusal.problems)
        question, result = await settled_or_asked_back(self._desk, given.question_id)
        if not (question.decision and isinstance(question.form, Approval)):
            return result
        action = question.form.action
        self._replied[digest([action.tool, action.arguments])] = question.id
        again = f"Approved, and not executed yet: call {action.tool} again, with exactly the same arguments."
        return replace(result, reason=again)

    async def _own(self, question_id: str) -> Question:
        with suppress(QuestionNotFound):
            question = await self._desk.get(question_id)
            asked_here = isinstance(question.state, dict) and "claude" in question.state
            if asked_here and (question.asker, question.replies) == (self._desk.asker, "model"):
                return question
        raise InvalidQuestion([Problem("question_id", "you have asked no such question")])

    async def _asked(self, call: Call) -> list[Question] | Deny:
        """The questions of a call; if one of them cannot be asked, none stays pending."""
        if earlier := self._replied.pop(digest([call.tool, call.arguments]), None):
            return [await self._desk.get(earlier)]
        asked: list[Question] = []
        try:
            for place, (prompt, options) in enumerate(self._questions(call)):
                asked.append(await self._post(call, place, prompt, options))
        except (InvalidQuestion, KeyConflict) as refusal:
            await self._withdraw(asked)
            return Deny(f"Nobody was asked. {refusal}" if isinstance(refusal, InvalidQuestion) else _REUSED)
        return asked

    def _questions(self, call: Call) -> list[tuple[str, QuestionOptions]]:
        if call.tool == ASK_USER_QUESTION:
            return [(prompt, {"form": form}) for prompt, form in _read(call.arguments)]
        editable = [name for name in self._editable.get(call.tool, ()) if name in call.arguments]
        form = Approval.of(call.tool, call.arguments, editable=editable)
        return [(f"May Claude use {call.tool}?", {"form": form})]

    async def _post(self, call: Call, place: int, prompt: str, options: QuestionOptions) -> Question:
        state = {"claude": {"session_id": call.session, "cwd": call.folder, "tool_use_id": call.id}}
        said: QuestionOptions = {**self._about, **options, "state": state}
        if call.folder is not None:
            said["context"] = {"folder": call.folder}
        if call.id is not None:
            said["tool_call"] = call.id
            said["key"] = f"claude:{digest([self._desk.asker, call.id, place])}"
        question = await self._desk.post(prompt, **said)
        if isinstance(question.form, Approval) and question.outcome is None:
            return await self._desk.apply_grant(question.id) or question
        return question

    async def _decision(self, call: Call, asked: Sequence[Question]) -> Allow | Deny:
        if call.tool == ASK_USER_QUESTION:
            if unanswered := [each for each in asked if not isinstance(each.outcome, Answered)]:
                return Deny("Not answered. " + " ".join(to_tool_result(each).content for each in unanswered))
            # Claude Code looks answers up by the text of the question.
            answers = {each.prompt: to_tool_result(each).text for each in asked}
            return Allow({**call.arguments, "answers": answers})
        [question] = asked
        try:
            action = await self._desk.consume_approval(question.id)
        except AlreadyConsumed as used:
            return Deny(str(used))
        except NotApproved as refused:
            why = str(refused) if question.decision else to_tool_result(question).content
            return Deny(f"Not approved. {why}")
        return Allow(action.arguments)

    async def _withdraw(self, asked: Sequence[Question]) -> None:
        for question in asked:
            with suppress(AlreadySettled):
                await self._desk.withdraw(
                    question.id, reason="another question of the same call cannot be asked"
                )


_REUSED = "Nobody was asked. The id of this call was used for another call."


def _read(arguments: Mapping[str, Json]) -> list[tuple[str, Choice | MultiChoice | Open]]:
    """The questions of an `AskUserQuestion` call; a person may always use their own words."""
    questions = arguments.get("questions")
    if not isinstance(questions, list) or not questions:
        raise InvalidQuestion([Problem("questions", "expected a list of questions")])
    read = [_question(f"questions[{place}]", each) for place, each in enumerate(questions)]
    if len({prompt for prompt, _ in read}) < len(read):
        raise InvalidQuestion([Problem("questions", "two of them have the same text")])
    return read


def _question(path: str, question: Json) -> tuple[str, Choice | MultiChoice | Open]:
    match question:
        case {"question": str(prompt), "options": list(options), **rest}:
            read = tuple(_option(f"{path}.options[{place}]", each) for place, each in enumerate(options))
            kind = MultiChoice if rest.get("multiSelect") is True else Choice
            return prompt, kind(options=read, allow_other=True) if read else Open()
        case {"question": str(prompt)}:
            return prompt, Open()
    raise InvalidQuestion([Problem(path, "expected a question with a text and options")])


def _option(path: str, option: Json) -> Option:
    match option:
        case {"label": str(label), **rest}:
            return Option(
                id=label,
                label=label,
                description=_text(rest.get("description")),
                preview=_text(rest.get("preview")),
            )
    raise InvalidQuestion([Problem(path, "expected an option with a label")])


def _text(value: Json) -> str | None:
    return value if isinstance(value, str) and value.strip() else None


Mode = Literal["wait", "defer"]


async def answer_hook(calls: ToolCalls, hook: Mapping[str, Json], mode: Mode) -> dict[str, Json]:
    """A hook's response to Claude Code: allow, deny, or end the session here and resume it later.

    Any error is a denial.
    """
    event = str(hook.get("hook_event_name"))
    try:
        call = Call(
            tool=str(hook["tool_name"]),
            arguments=dict(hook["tool_input"]),
            id=hook.get("tool_use_id"),
            session=hook.get("session_id"),
            folder=hook.get("cwd"),
        )
        # Only a call before its decision can be deferred; a request for permission comes too late for that.
        waits = mode == "wait" or event != "PreToolUse"
        decision = await (calls.wait(call) if waits else calls.decide(call))
    except (HandraiseError, KeyError, TypeError, ValueError) as error:
        decision = Deny(f"Not approved. {type(error).__name__}")
    return _spoken(event, decision)


def _spoken(event: str, decision: Allow | Deny | None) -> dict[str, Json]:
    said: dict[str, Json] = {"hookEventName": event}
    match decision:
        case None:
            said |= {"permissionDecision": "defer"}
        case Allow(arguments) if event == "PermissionRequest":
            said |= {"decision": {"behavior": "allow", "updatedInput": arguments}}
        case Deny(reason) if event == "PermissionRequest":
            said |= {"decision": {"behavior": "deny", "message": reason}}
        case Allow(arguments):
            said |= {"permissionDecision": "allow", "updatedInput": arguments}
        case Deny(reason):
            said |= {"permissionDecision": "deny", "permissionDecisionReason": reason}
    return {"hookSpecificOutput": said}


async def settled(desk: Desk, tool_use_id: str) -> list[Outcome]:
    """Wait until people have decided about a deferred call; then its session can be resumed."""
    outcomes: list[Outcome] = []
    while question := await desk.find_by_key(f"claude:{digest([desk.asker, tool_use_id, len(outcomes)])}"):
        outcomes.append(await desk.wait(question.id))
    return outcomes


async def _run(mode: Mode, editable: Sequence[str]) -> dict[str, Json]:
    by_tool: dict[str, list[str]] = {}
    for each in editable:
        tool, _, name = each.rpartition(".")
        by_tool.setdefault(tool, []).append(name)
    hook = json.load(sys.stdin)
    async with open_desk() as desk:
        return await answer_hook(ToolCalls(desk, editable=by_tool), hook, mode)


def main() -> None:
    """The hook as a program: reads the call from stdin, writes the decision. Any failure blocks the call."""
    parser = argparse.ArgumentParser(description="Ask people about Claude Code's tool calls, as a hook.")
    parser.add_argument(
        "mode", choices=["wait", "defer"], help="wait in the hook, or end the session and resume it"
    )
    parser.add_argument(
        "--editable", action="append", default=[], metavar="TOOL.ARGUMENT", help="what a person may change"
    )
    given = parser.parse_args()
    try:
        said = asyncio.run(_run(given.mode, given.editable))
    except Exception as error:  # noqa: BLE001 -- whatever it is, it must not let the call run
        sys.stderr.write(f"Not approved: nobody could be asked ({type(error).__name__}).\n")
        sys.exit(2)
    sys.stdout.write(json.dumps(said))


if __name__ == "__main__":
    main()

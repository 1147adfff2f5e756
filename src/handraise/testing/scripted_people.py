"""The people of one test, and the task that does for them what the test has said."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import assert_never

from handraise import AlreadySettled, Desk, HandraiseError, InvalidAnswer, Provenance, Question, Responder
from handraise.desk.blocking_desk import BlockingDesk, LoopThread
from handraise.errors import DeskClosed
from handraise.model.forms import AnyForm, Approval, Choice, Confirm, Form, MultiChoice
from handraise.model.json_values import Json
from handraise.ports.desk import running_loop
from handraise.testing.clock import ManualClock
from handraise.testing.reactions import After, Answer, AskBack, Attempt, Decline, Never, Reaction, SendBack

_PAUSE = 0.002
_QUIET = 0.02
"""How long, in seconds, nothing must happen before the clock of the test moves on."""
_GRACE = 0.25
"""How long a question waits for a rule, or for `next_question`, before it counts as unexpected."""
_REPLY = 5.0
"""How long a person who asked back waits for the reply, in real time."""
_ENDED = "the test did not expect this question"
_LONGEST = 60


class PersonError(AssertionError):
    """The test did not say what a person does about a question, or what it said is impossible."""


@dataclass
class Rule:
    """What a person does about some questions, and how often; None is any number of times."""

    matches: Callable[[Question], bool]
    steps: Sequence[Reaction]
    times: int | None


@dataclass
class Part:
    """What the test has said about one person, and what came of it."""

    name: str
    by: str | Responder
    rules: list[Rule] = field(default_factory=list)
    script: list[Reaction] = field(default_factory=list)
    asked: list[Question] = field(default_factory=list)
    plans: dict[str, deque[Reaction]] = field(default_factory=dict)
    """What is left to do about each question that a rule or the script is for."""

    def meet(self, question: Question) -> None:
        """Note that this person was asked a question, and plan what they do about it, if the test has said."""
        if question.id not in {each.id for each in self.asked}:
            self.asked.append(question)
        if question.id in self.plans:
            return
        for rule in self.rules:
            if rule.times != 0 and rule.matches(question):
                rule.times = None if rule.times is None else rule.times - 1
                self.plans[question.id] = deque(rule.steps)
                return
        if self.script:
            self.plans[question.id] = deque([self.script.pop(0)])


class ScriptedPeople:
    """Looks whenever something happens at the desk, and does everything that a person would do now."""

    def __init__(self, desk: Desk | BlockingDesk, clock: ManualClock | None) -> None:
        self.clock = clock
        self._thread: LoopThread | None = None
        if isinstance(desk, BlockingDesk):
            self._thread, desk = desk._loop, desk._desk  # noqa: SLF001 -- people answer on the same loop
        self._desk = desk
        self._parts: list[Part] = []
        self._by_hand: set[str] = set()
        self._failures: list[PersonError] = []
        self._failed: set[str] = set()
        self._stuck_since: dict[str, float] = {}
        self._wakeup = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def is_in_thread(self) -> bool:
        """Whether the desk is a blocking one."""
        return self._thread is not None

    def add(self, name: str, groups: Iterable[str]) -> Part:
        """Another person."""
        known = frozenset(groups)
        # A text lets the directory say which groups the person is in.
        part = Part(name, Responder(name, known) if known else name)
        self._parts.append(part)
        self.changed()
        return part

    def start(self) -> None:
        """Start to answer, on the loop that is running. Starting again does nothing."""
        if self._task is None or self._task.done():
            self._wakeup = asyncio.Event()
            self._task = asyncio.get_running_loop().create_task(self._run(), name="handraise people")

    def start_in_thread(self) -> None:
        """Start to answer at a blocking desk."""
        if self._thread is None:
            raise TypeError("Write `async with Person(desk) as person:`; this desk is asynchronous.")
        self._thread.open(self._start())

    async def _start(self) -> None:
        self.start()

    def changed(self) -> None:
        """Look again: the test has said something new."""
        if running_loop() is not None and (self._thread is None or self._task is not None):
            if self._thread is None:
                self.start()
            self._wakeup.set()
        elif self._thread is not None and self._task is not None:
            self._thread.open(self._poke())

    async def _poke(self) -> None:
        self._wakeup.set()

    async def stop(self, error: BaseException | None = None) -> None:
        """Stop answering; raise `PersonError` if something was unexpected. It comes from the error that ended the test."""
        with suppress(DeskClosed):
            await self.check_pending()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self.verify(error)

    def stop_in_thread(self, error: BaseException | None = None) -> None:
        """The same at a blocking desk."""
        if self._thread is not None:
            self._thread.open(self.stop(error))

    def verify(self, error: BaseException | None = None) -> None:
        """Raise `PersonError` if something was unexpected, or if a script was not used up by a test that ended well."""
        __tracebackhide__ = True  # what is said counts, not where
        if error is not None and not isinstance(error, Exception):
            return
        failures = list(self._failures)
        if error is None and not failures:
            failures = [
                PersonError(
                    f"{each.name} was asked {_count(each.asked)}, but the script goes on with "
                    f"{', '.join(map(_shown, each.script))}. Take out what is not asked, or find out why the agent "
                    "did not ask."
                )
                for each in self._parts
                if each.script
            ]
        if failures:
            raise PersonError("\n\n".join(map(str, failures))) from (error or failures[0].__cause__)

    async def check_pending(self) -> None:
        """At the end of a test: what still waits, and nobody was told to answer, was unexpected."""
        pending = await self._meet()
        for question in pending.values():
            if why := self._why_stuck(question):
                self._failures.append(PersonError(why))

    async def next_question(self, part: Part, patience: float) -> Question:
        """See `Person.next_question`."""
        if self._thread is not None:
            raise TypeError(
                "At a blocking desk the agent blocks the test: say what to answer before, with rules."
            )
        self.start()
        with suppress(TimeoutError):
            async with asyncio.timeout(patience):
                while True:
                    async for question in self._list(part.by):
                        part.meet(question)
                        taken = self._by_hand | self._failed
                        if question.id not in taken and not any(question.id in p.plans for p in self._parts):
                            self._by_hand.add(question.id)
                            return question
                    await asyncio.sleep(_PAUSE)
        raise PersonError(
            f"Nobody asked {part.name!r} anything within {patience:g} seconds that no rule answers. Does the agent run "
            "in a task of its own?"
        )

    async def _run(self) -> None:
        following = asyncio.create_task(self._follow(), name="handraise people look")
        try:
            while True:
                self._wakeup.clear()
                if not await self._act():
                    await self._wait_or_go_on()
        except DeskClosed:
            pass
        except Exception as error:  # noqa: BLE001 -- the test is told at its end
            failure = PersonError(f"A person could not answer: {error}")
            failure.__cause__ = error
            self._failures.append(failure)
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)

    async def _follow(self) -> None:
        async with aclosing(self._desk.follow(after="")) as events:
            async for _ in events:
                self._wakeup.set()

    async def _list(self, recipient: str | Responder | None = None) -> AsyncIterator[Question]:
        after: str | None = None
        while True:
            page = await self._desk.list_pending(recipient=recipient, after=after, limit=500)
            for question in page:
                if question.follows is None:  # people are asked the question that it follows
                    yield question
            if (after := page.next) is None:
                return

    async def _meet(self) -> Mapping[str, Question]:
        """Everything that is pending, after all people have seen what they are asked."""
        for part in self._parts:
            async for question in self._list(part.by):
                if question.id not in self._by_hand:
                    part.meet(question)
        return {question.id: question async for question in self._list()}

    async def _act(self) -> bool:
        """Do the next thing that a person can do now; whether there was one."""
        for part in self._parts:
            async for question in self._list(part.by):
                if question.id in self._by_hand:
                    continue
                part.meet(question)
                reaction = self._due(part, question)
                if reaction is not None:
                    part.plans[question.id].popleft()
                    await self._react(part, question, reaction)
                    return True
        return False

    def _due(self, part: Part, question: Question) -> Answer | Attempt | Decline | SendBack | AskBack | None:
        """What a person does about a question now; None if they wait for something."""
        plan = part.plans.get(question.id)
        if not plan or question.id in self._failed or question.is_askers_turn:
            return None
        match plan[0]:
            case Never():
                return None
            case After(span, then):
                return then if self.clock and self.clock.now() >= question.asked_at + span else None
            case reaction:
                return reaction

    async def _react(
        self, part: Part, question: Question, reaction: Answer | Attempt | Decline | SendBack | AskBack
    ) -> None:
        desk, by = self._desk, part.by
        try:
            match reaction:
                case Answer(value):
                    given = value(question) if callable(value) else value
                    await desk.answer(question.id, given, by=by, provenance=Provenance(seen=question.thread))
                case Attempt(value):
                    with suppress(InvalidAnswer):
                        await desk.answer(question.id, value, by=by)
                        said = f"attempt({value!r}) of {part.name} fits {_quoted(question)}."
                        await self._fail(
                            question, f"{said} Write the value alone if it is meant as an answer."
                        )
                case Decline(reason):
                    await desk.decline(question.id, by=by, reason=reason)
                case SendBack(reason):
                    await desk.send_back(question.id, by=by, reason=reason)
                case AskBack(text):
                    await desk.ask_back(question.id, text, by=by)
                case _:
                    assert_never(reaction)
        except AlreadySettled:
            pass  # somebody was faster, or the agent does not need it any more
        except (DeskClosed, asyncio.CancelledError):
            raise
        except Exception as error:  # noqa: BLE001 -- the agent must not wait for somebody who cannot answer
            said = f"{part.name} cannot do what the test says about {_quoted(question)}: {_shown(reaction)}."
            await self._fail(question, f"{said}\n{error}", error)

    async def _wait_or_go_on(self) -> None:
        """Wait for news. If there is none, end what the test does not expect, else let time pass if somebody waits for it."""
        pending = await self._meet()
        stuck = {id_: why for id_, each in pending.items() if (why := self._why_stuck(each))}
        self._stuck_since = {id_: self._stuck_since.get(id_, time.monotonic()) for id_ in stuck}
        ends = {
            id_: since + (_REPLY if pending[id_].is_askers_turn else _GRACE)
            for id_, since in self._stuck_since.items()
        }
        moves = self._next_moment(pending.values())
        within = max(0.0, min(ends.values()) - time.monotonic()) if ends else _QUIET if moves else None
        try:
            async with asyncio.timeout(within):
                await self._wakeup.wait()
        except TimeoutError:
            pass
        else:
            return
        for id_, end in ends.items():
            if end <= time.monotonic():
                await self._fail(pending[id_], stuck[id_])
        if not ends and moves is not None:
            await self._let_time_pass(moves)

    def _next_moment(self, pending: Iterable[Question]) -> datetime | None:
        """When the next thing happens that somebody waits for without answering; None if nobody does."""
        moments = []
        for question in pending:
            for part in self._parts:
                plan = part.plans.get(question.id)
                if plan and isinstance(plan[0], (Never, After)):
                    if isinstance(plan[0], After):
                        moments.append(question.asked_at + plan[0].span)
                    if question.due_at is not None:
                        moments.append(question.due_at)
        return min(moments) if moments and self.clock is not None else None

    async def _let_time_pass(self, until: datetime) -> None:
        if self.clock is not None and until > self.clock.now():
            self.clock.advance(until - self.clock.now())
        await self._desk.run_due()

    def _why_stuck(self, question: Question) -> str | None:
        """Why nothing would ever happen to a question, and what to add to the test; None if something will."""
        if question.id in self._by_hand | self._failed:
            return None
        if question.is_askers_turn:
            return (
                f"Nobody replies to what was asked back about {_quoted(question)}. Pass reply_with= to ask() or wait(), or "
                "call desk.reply(…)."
            )
        reactions = [plan[0] for each in self._parts if (plan := each.plans.get(question.id))]
        if reactions and (
            not all(isinstance(each, Never) for each in reactions)
            or self.clock is None
            or question.due_at is not None
        ):
            return None
        if reactions:
            return (
                f"Nobody answers {_quoted(question)}, and it does not expire: the agent would wait for ever. Ask with "
                "expires_in= or a timeline, or let somebody answer."
            )
        return self._unexpected(question)

    def _unexpected(self, question: Question) -> str:
        asked = [each for each in self._parts if any(question.id == other.id for other in each.asked)]
        if not asked:
            who = ", ".join(question.audience) or "anyone but its asker"
            return (
                f"{_quoted(question)} is for {who}, and the test has no such person. Add one: "
                f"bob = person.colleague({_name_of(question)}); bob.answers(…)"
            )
        done = [each.name for each in asked if question.id in each.plans]
        if done:
            more = f"{question.quorum} people must agree" if question.quorum > 1 else "it still waits"
            return (
                f"{' and '.join(done)} did everything that the test says about {_quoted(question)}, but {more}. Add what "
                "comes next to the rule, or another person: bob = person.colleague('bob'); bob.answers(…)"
            )
        pattern, value = _pattern_of(question), _example(question.form)
        return (
            f"{asked[0].name} was asked something that the test does not expect: {_quoted(question)}. If it is right to "
            f"ask this, add\n    person.answers({pattern!r}, {value!r})"
        )

    async def _fail(self, question: Question, why: str, cause: Exception | None = None) -> None:
        """End a question that nobody can answer, so that the agent does not wait; the test is told at its end."""
        failure = PersonError(why)
        failure.__cause__ = cause
        self._failures.append(failure)
        self._failed.add(question.id)
        try:
            await self._desk.scoped(asker=question.asker).withdraw(question.id, reason=_ENDED)
        except (HandraiseError, ValueError):  # a desk at a server asks in no other name
            with suppress(HandraiseError):
                await self._desk.decline(question.id, by=self._parts[0].by, reason=_ENDED)


def _quoted(question: Question) -> str:
    prompt = question.prompt if len(question.prompt) <= _LONGEST else f"{question.prompt[:_LONGEST]}…"
    return f"the question {prompt!r}"


def _pattern_of(question: Question) -> str:
    first, *rest = question.prompt.split("\n")
    cut = first[:_LONGEST]
    return f"{cut}*" if rest or cut != first else first


def _name_of(question: Question) -> str:
    name = question.audience[0] if question.audience else "bob"
    return f"'bob', groups=[{name.removeprefix('group:')!r}]" if name.startswith("group:") else repr(name)


def _shown(reaction: Reaction) -> str:
    return repr(reaction.value) if isinstance(reaction, Answer) else repr(reaction)


def _count(asked: Sequence[Question]) -> str:
    return "1 question" if len(asked) == 1 else f"{len(asked)} questions"


def _example(form: AnyForm) -> Json:
    """An answer of the right shape, for a person to change."""
    match form:
        case Approval():
            return "approve"
        case Confirm():
            return True
        case Choice():
            return form.options[0].id
        case MultiChoice():
            return [form.options[0].id]
        case Form():
            return {each.name: _example(each.form) for each in form.fields}
        case _:
            return "…"

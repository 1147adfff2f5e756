"""Agents: the class that an author extends, with the verbs for asking inside a chat."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TypedDict, Unpack

from handraise import (
    AlreadySettled,
    Answered,
    Desk,
    InvalidAnswer,
    InvalidQuestion,
    Option,
    Outcome,
    PermissionDenied,
    Problem,
    Question,
)
from handraise.conversations.asks import (
    PendingAsk,
    asks_the_same,
    find_ask,
    oldest_asks,
    put,
    state_of,
)
from handraise.conversations.chat_messages import AgentReply, IncomingMessage
from handraise.conversations.chat_texts import asking_again, giving_up, left_to_others, sent_back
from handraise.conversations.conversation_errors import AgentNotRegistered, NobodyAnswers, NothingTriggered
from handraise.conversations.turns import Turn, current_turn
from handraise.errors import CannotShare, ThreadMoved
from handraise.forms import NotAnAnswer, Understood, read_reply
from handraise.model.answer_types import FormSource, python_value
from handraise.model.durations import Span
from handraise.model.json_values import Json, JsonValue
from handraise.model.provenance import Provenance
from handraise.model.typed_replies import SendsBack, SetsAside, read_deed
from handraise.outcomes import Returned
from handraise.presentation.plain_text import too_late

OnSufficient = Callable[[Json, Json], Awaitable[AgentReply] | AgentReply]
"""Continues with the answer's value and the context that was stored with the question."""

OnInsufficient = Callable[[Json], Awaitable[AgentReply] | AgentReply]
"""Continues without an answer, with the context that was stored with the question."""

Validator = Callable[[Json], str | None]
"""Returns what is wrong with a value that fits the form, for the person who gave it, or None if it is right."""

Judge = Callable[[PendingAsk, Json], Awaitable[str | None]]
"""The same, decided by a model."""


class AskOptions(TypedDict, total=False):
    """The options of a question in a chat; `Agent.ask` takes them as keywords.

    They are those of `handraise.questions.QuestionOptions`. If `recipients` is not given, only the person
    whose message is being handled may answer; if it is empty, anyone in the workspace may.
    """

    choices: Sequence[str | Option]
    form: FormSource
    recipients: Sequence[str]
    expires_in: Span


class Agent(ABC):
    """An agent in a chat: give it a name and write `handle`.

    The name is the asker of its questions. It must stay the same, or a restarted agent will not find them.
    """

    name: str
    description: str = ""
    registry: object = None
    """The started registry that it is in, or None. What belongs to one conversation is in `current_turn`."""

    @abstractmethod
    async def handle(self, message: IncomingMessage) -> AgentReply:
        """Handle a message. Look for a pending ask first: the message may be its reply."""

    async def ask(
        self, question: str, *, context: JsonValue = None, max_retries: int = 2, **options: Unpack[AskOptions]
    ) -> AgentReply:
        """Ask on the channel that the message came from; returns at once, with a reply that says that it waits.

        `context` comes back with the reply's `PendingAsk`. The question is exhausted after `max_retries` + 1
        replies that did not fit. While another question of this agent is pending in the conversation, this
        one is only stored; it is sent when its turn comes. If the channel does not deliver it, it is
        withdrawn, and this raises `Undelivered`. If the process dies before it has sent the question, nothing
        is lost: the next message of the conversation does not count as a reply and makes it sent, and so does
        the next start of a registry. If that message makes the agent ask exactly the same again, it gets that
        question.
        """
        turn = self._turn()
        if turn.channel.is_trigger:
            raise NobodyAnswers(self.name, turn.channel.name)
        unknown = set(options) - set(AskOptions.__annotations__)
        if unknown:
            raise TypeError(f"ask() does not take {', '.join(sorted(unknown))}")
        if max_retries < 0:
            raise InvalidQuestion([Problem("max_retries", f"cannot be {max_retries}; 0 asks only once")])
        # The channel knows everybody who writes in the chat; they need not be in the directory.
        checked = "recipients" in options
        options.setdefault("recipients", [turn.responder.id])
        desk = self._desk(turn)
        earlier = await oldest_asks(desk, turn.conversation, [self.name])
        where, state, attempts = turn.conversation, state_of(turn.channel.name, context), max_retries + 1
        if earlier and asks_the_same(
            earlier[0], question, conversation=where, state=state, max_attempts=attempts, **options
        ):
            return AgentReply(waiting_for=earlier[0].id)
        record = await desk.post(
            question,
            conversation=where,
            state=state,
            max_attempts=attempts,
            check_recipients=checked,
            **options,
        )
        if not earlier:
            await put(desk, turn.channel, PendingAsk(record, turn.channel.name, context))
        return AgentReply(waiting_for=record.id)

    async def get_pending_ask(self) -> PendingAsk | None:
        """This agent's oldest question in this conversation that the writer of the message may answer.

        None if there is none, if it was not sent yet, or if the message was already taken as a reply. A
        question whose time is over is settled as expired.
        """
        turn = self._turn()
        if turn.spent_on is not None:
            return None
        desk = self._desk(turn)
        asks = await oldest_asks(desk, turn.conversation, [self.name], recipient=turn.responder)
        return asks[0] if asks and asks[0].was_sent else None

    async def handle_pending_ask(
        self,
        pending: PendingAsk,
        reply: str,
        on_sufficient: OnSufficient,
        on_insufficient: OnInsufficient | None = None,
        *,
        validator: Validator | None = None,
        judge: Judge | None = None,
    ) -> AgentReply:
        """Judge a reply; then continue with the answer, ask the same question again, or give up.

        "send back: …" sends the question back: that continues without an answer, and `AgentReply.outcome` says what to
        change. "not for me" leaves it to the others who may answer.
        A reply to a question that ended meanwhile is not used, and its author is told.
        """
        turn = self._turn()
        self._own(turn, pending.record)
        turn.spend(pending.id)
        deed = read_deed(pending.record, reply)
        try:
            if isinstance(deed, SetsAside):
                return await self._set_aside(turn, pending)
            if isinstance(deed, SendsBack):
                outcome, reason = await self._send_back(turn, pending, deed)
            else:
                verdict = await self.evaluate_answer(pending, reply, validator=validator, judge=judge)
                outcome, reason = await self._record(turn, pending, reply, verdict)
        except AlreadySettled as late:
            return AgentReply(too_late(late.outcome), outcome=late.outcome)
        if outcome is None:
            await turn.say(asking_again(pending.record, reason))
            return AgentReply(waiting_for=pending.id)
        if isinstance(outcome, Answered):
            value = python_value(pending.record.form, outcome.value)
            return replace(await _result(on_sufficient(value, pending.context)), outcome=outcome)
        await turn.say(sent_back() if isinstance(outcome, Returned) else giving_up(pending.record))
        after = AgentReply() if on_insufficient is None else await _result(on_insufficient(pending.context))
        return replace(after, outcome=outcome)

    async def evaluate_answer(
        self,
        pending: PendingAsk,
        reply: str,
        *,
        validator: Validator | None = None,
        judge: Judge | None = None,
    ) -> Understood | NotAnAnswer:
        """Whether a reply answers the question: its form decides first, then the validator, then the judge."""
        read = read_reply(pending.record, reply)
        if isinstance(read, NotAnAnswer):
            return read
        problem = None if validator is None else validator(read.value)
        if problem is None and judge is not None:
            problem = await judge(pending, read.value)
        if problem is not None and not isinstance(problem, str):
            raise TypeError(f"return what is wrong with the answer, or None if it is right, not {problem!r}")
        return read if problem is None else NotAnAnswer(problem)

    async def resolve_pending_ask(self, question_id: str, value: JsonValue) -> PendingAsk:
        """Answer a question in the name of the person who wrote the message, and return it as it is then.

        For authors who decide themselves. A value that does not fit raises `InvalidAnswer`; a question that
        was not sent to the conversation yet raises `PermissionDenied`.
        """
        turn = self._turn()
        desk = self._desk(turn)
        pending = self._own(turn, await desk.get(question_id))
        answered = await desk.answer(
            question_id, value, by=turn.responder, provenance=Provenance(channel=turn.channel.name)
        )
        turn.spent_on = question_id
        return replace(pending, record=answered)

    async def say(self, text: str) -> None:
        """Send a text to this conversation now, before the reply."""
        await self._turn().say(text)

    def _turn(self) -> Turn:
        """The message that this agent handles now."""
        if self.registry is None:
            raise AgentNotRegistered(self.name)
        turn = current_turn()
        if turn is None:
            raise NothingTriggered(self.name)
        return turn

    def _desk(self, turn: Turn) -> Desk:
        return turn.desk.scoped(asker=self.name)

    def _own(self, turn: Turn, record: Question) -> PendingAsk:
        """The ask of a question, if this agent asked it in this conversation and it was sent there."""
        pending = find_ask(record)
        if pending is None or (pending.agent, pending.conversation) != (self.name, turn.conversation):
            raise PermissionDenied(self.name, "another agent asked that question, or in another conversation")
        if pending.outcome is None and not pending.was_sent:
            raise PermissionDenied(self.name, "that question has not been sent, so nobody has replied to it")
        return pending

    async def _send_back(
        self, turn: Turn, pending: PendingAsk, deed: SendsBack
    ) -> tuple[Outcome | None, str]:
        """Send the question back: returns the outcome, or why that did not work."""
        provenance = Provenance(channel=turn.channel.name)
        try:
            returned = await self._desk(turn).send_back(
                pending.id, by=turn.responder, reason=deed.reason, provenance=provenance
            )
        except InvalidAnswer as misfit:
            return None, "; ".join(problem.message for problem in misfit.problems)
        return returned.outcome, ""

    async def _set_aside(self, turn: Turn, pending: PendingAsk) -> AgentReply:
        """Leave the question to the others who may answer."""
        provenance = Provenance(channel=turn.channel.name)
        try:
            await self._desk(turn).set_aside(pending.id, by=turn.responder, provenance=provenance)
        except CannotShare as impossible:
            await turn.say(asking_again(pending.record, "; ".join(map(str, impossible.problems))))
        else:
            await turn.say(left_to_others())
        return AgentReply(waiting_for=pending.id)

    async def _record(
        self, turn: Turn, pending: PendingAsk, reply: str, verdict: Understood | NotAnAnswer
    ) -> tuple[Outcome | None, str]:
        """Record the reply on the desk, as an answer or as an attempt: returns the outcome, or why it did not fit."""
        desk, by, channel = self._desk(turn), turn.responder, turn.channel.name
        if isinstance(verdict, NotAnAnswer):
            problems = [Problem("", verdict.reason)]
            tried = await desk.reject_answer(
                pending.id, reply, problems, by=by, provenance=Provenance(channel=channel)
            )
            return tried.outcome, verdict.reason
        try:
            answered = await desk.answer(
                pending.id, verdict.value, by=by, provenance=Provenance(channel=channel)
            )
        except InvalidAnswer as misfit:  # the author's own `evaluate_answer` accepted too much
            return misfit.outcome, "; ".join(map(str, misfit.problems))
        except ThreadMoved as moved:  # this chat does not show what people wrote elsewhere: they decide there
            return None, str(moved)
        return answered.outcome, ""


async def _result(made: Awaitable[AgentReply] | AgentReply) -> AgentReply:
    return await made if inspect.isawaitable(made) else made

"""What every client of a run does through a desk, and its record: the calls of a history."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Unpack

from chaos.history import EVERY, REFUSED, Done, Op, Pen, seen
from handraise import Desk, Question
from handraise.model.deliveries import Delivery
from handraise.model.json_values import Json, canonical_json
from handraise.model.provenance import Provenance
from handraise.ports.channel import Message, NotSent
from handraise.questions import QuestionOptions


class Client:
    """A desk and a recorder. Nothing is raised: the history has the result of a call; True means that it is final."""

    def __init__(self, desk: Desk, pen: Pen) -> None:
        self.desk = desk
        self.error: Exception | None = None
        """What the latest call raised."""
        self._pen = pen

    @property
    def is_final(self) -> bool:
        """Whether nothing must be repeated: the latest call was done, or refused."""
        return self.error is None or isinstance(self.error, REFUSED)

    async def ask(
        self, name: str, /, *, prompt: str | None = None, **options: Unpack[QuestionOptions]
    ) -> Question | None:
        """Post a question under this key, which its text shows unless another one is given."""
        options["key"] = name
        question = None
        with self._doing("ask", name) as done:
            question = await self.desk.post(prompt or name, **options)
            done.value = {"id": question.id, "outcome": seen(question.outcome)}
        return question

    async def answer(self, question: Question, value: Json, by: str, *, saw: int | None = None) -> bool:
        """Answer, or vote if several must agree, after reading so many messages."""
        given = value["decision"] if isinstance(value, dict) else value
        op: Op = "vote" if question.quorum > 1 else "answer"
        with self._doing(op, key_of(question), {"by": by, "value": given}) as done:
            provenance = None if saw is None else Provenance(seen=saw)
            done.value = seen(
                (await self.desk.answer(question.id, value, by=by, provenance=provenance)).outcome
            )
        return self.is_final

    async def talk(self, question: Question, by: str) -> bool:
        """Ask back, unless somebody has, and reply if that is due."""
        with self._doing("read", key_of(question)) as done:
            now = await self.desk.get(question.id)
            if not now.thread:
                now = await self.desk.ask_back(question.id, "Which customer?", by=by)
            if now.asked_back:
                now = await self.desk.reply(question.id, "Customer 12.")
            done.value = seen(now.outcome)
        return self.is_final

    async def use_grant(self, question: Question, by: str) -> bool:
        """Answer an approval from what somebody granted."""
        given = {"by": by, "value": "approve"}
        with self._doing("answer", key_of(question), given) as done:
            used = await self.desk.apply_grant(question.id)
            done.value = seen(used.outcome if used else None)
        return self.is_final

    async def decline(self, question: Question, by: str) -> bool:
        """Refuse to answer."""
        with self._doing("decline", key_of(question), {"by": by}) as done:
            done.value = seen((await self.desk.decline(question.id, by=by)).outcome)
        return self.is_final

    async def send_back(self, question: Question, by: str) -> bool:
        """Send a question back, to be asked again."""
        with self._doing("send_back", key_of(question), {"by": by}) as done:
            done.value = seen((await self.desk.send_back(question.id, by=by, reason="Only 30.")).outcome)
        return self.is_final

    async def share(self, question: Question, by: str, to: str) -> bool:
        """Take a question, set it aside, and hand it over, unless that was done before."""
        with self._doing("read", key_of(question)) as done:
            now = await self.desk.get(question.id)
            if to not in now.added:
                await self.desk.take(question.id, by=by)
                await self.desk.set_aside(question.id, by=by)
                await self.desk.put_back(question.id, by=by)
                now = await self.desk.hand_over(question.id, [to], by=by)
            done.value = seen(now.outcome)
        return self.is_final

    async def answer_both(self, question: Question, follower: Question, value: Json, by: str) -> bool:
        """Answer a question, and with it another one that follows it."""
        given = {"by": by, "value": value}
        with (
            self._doing("answer", key_of(follower), given) as other,
            self._doing("answer", key_of(question), given) as done,
        ):
            done.value = seen((await self.desk.answer(question.id, value, by=by)).outcome)
            other.value = done.value
        return self.is_final

    async def ask_again(
        self, name: str, /, value: Json, by: str, *, prompt: str, **options: Unpack[QuestionOptions]
    ) -> Question | None:
        """Post a question that a standing answer of this person may answer at once, with this value."""
        new = None
        with self._doing("answer", name, {"by": by, "value": value}) as done:
            new = await self.ask(name, prompt=prompt, **options)
            if new is None or new.outcome is None:
                raise self.error or TimeoutError("people are asked")
            done.value = seen(new.outcome)
        return new

    async def replace(self, question: Question, name: str) -> Question | None:
        """Post another question instead of this one."""
        new = None
        with self._doing("withdraw", key_of(question), {"by": self.desk.asker}) as done:
            new = await self.ask(name, replaces=question.id)
            if self.error is not None:
                raise self.error
            done.value = seen((await self.desk.get(question.id)).outcome)
        return new

    async def withdraw(self, question: Question) -> bool:
        """Take a question back."""
        with self._doing("withdraw", key_of(question), {"by": self.desk.asker}) as done:
            done.value = seen((await self.desk.withdraw(question.id)).outcome)
        return self.is_final

    async def consume(self, question: Question, request: str | None = None) -> bool:
        """Execute what was approved; if the result is unknown, it is repeated with the same request."""
        with self._doing("consume", key_of(question), {"by": self.desk.asker}) as done:
            done.value = (await self.desk.consume_approval(question.id, request=request)).digest
        return self.is_final

    async def send(self, question: Question) -> bool:
        """Show a question in a chat, and record that, even if another process claimed it before and died."""
        with self._doing("read", key_of(question)) as done:
            await self.desk.claim_sending(question.id)
            done.value = seen((await self.desk.mark_sent(question.id)).outcome)
        return self.is_final

    async def report(self, question: Question) -> bool:
        """Report what came of an answer."""
        with self._doing("read", key_of(question)) as done:
            done.value = seen((await self.desk.report(question.id, ok=True, text="182,441 rows")).outcome)
        return self.is_final

    async def join(self, question: Question) -> bool:
        """Give a question another key, as a call does that waits for the same answer."""
        with self._doing("read", key_of(question)) as done:
            done.value = seen((await self.desk.join(question.id, key=f"joined {question.id}")).outcome)
        return self.is_final

    async def read(self, question: Question) -> None:
        """Look at a question."""
        with self._doing("read", key_of(question)) as done:
            done.value = seen((await self.desk.get(question.id)).outcome)

    async def wait(self, question: Question, timeout: float) -> bool:
        """Wait for the outcome; True once it is known."""
        with self._doing("wait", key_of(question)) as done:
            done.value = seen(await self.desk.wait(question.id, timeout=timeout))
        return self.error is None

    async def expire(self, sweep: Callable[[], Awaitable[int]], key: str = EVERY) -> bool:
        """Do what is due, everywhere or to one question."""
        with self._doing("expire", key) as done:
            done.value = await sweep()
        return self.is_final

    @contextmanager
    def _doing(self, op: Op, question: str, value: Json = None) -> Iterator[Done]:
        with self._pen.doing(op, question, value) as done:
            yield done
        self.error = done.error


def key_of(question: Question) -> str:
    """The name of a question in a history: people do not get its key, but read it in the text."""
    return question.key or question.prompt


class Ledger:
    """A channel that records what it is given, and loses some of it if told to."""

    name = "ledger"
    private = True
    patience = timedelta(seconds=30)

    def __init__(self, pen: Pen, *, dead: bool = False) -> None:
        self._pen = pen
        if dead:
            self.name = "dead"

    def rate_limit_key(self, to: Json) -> str | None:
        """One for each recipient."""
        return f"{self.name} {to}"

    async def send(self, message: Message) -> Json:
        """Record who was told of which question."""
        if self.name == "dead":
            raise NotSent("nobody lives there", again=False)
        self._note(message, message.id, ended=False)
        return {"message": message.id}

    async def update(self, message: Message, receipt: Json) -> None:
        """Record who was told how it ended."""
        del receipt
        self._note(message, f"{message.id}-settled", ended=True)

    def _note(self, message: Message, name: str, *, ended: bool) -> None:
        for notice in message.notices:
            question = notice.question
            shown = [
                name,
                message.recipient,
                message.at.isoformat(),
                question.id,
                question.definition,
                notice.link,
            ]
            told = {
                "message": name,
                "delivery": notice.delivery_id,
                "digest": hashlib.sha256(canonical_json(shown).encode()).hexdigest(),
                "outcome": seen(question.outcome) if ended else None,
            }
            with self._pen.doing("deliver", key_of(question), told):
                pass


async def link_to(delivery: Delivery) -> str:
    """The page of a delivery's question."""
    return f"http://desk.example/questions/{delivery.question_id}"

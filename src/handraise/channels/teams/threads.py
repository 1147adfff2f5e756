"""Which question a typed reply is about: the one whose message it answers, by what is stored of the messages."""

from __future__ import annotations

from collections.abc import Collection

from handraise.channels.chat_references import seen_in
from handraise.channels.inbound_replies import Replies
from handraise.channels.teams.references import CHANNEL, QuestionReference
from handraise.model.deliveries import Delivery
from handraise.model.questions import Question


class Threads:
    """Finds questions by their messages, in one workspace. Buttons name their question, and need none of this."""

    def __init__(self, replies: Replies, workspace: str) -> None:
        self._replies = replies
        self._workspace = workspace

    async def find(
        self, identity: str, conversation: object, messages: Collection[str]
    ) -> QuestionReference | None:
        """The one pending question behind these messages, and how much of its conversation they showed.

        None unless it is exactly one.
        """
        if not isinstance(conversation, str) or not messages:
            return None
        chat = conversation.partition(";messageid=")[0]

        def is_behind(delivery: Delivery, _: Question) -> bool:
            match delivery.receipt:
                case {"conversation": str(where), "activity": str(said)}:
                    return said in messages and where.partition(";")[0] == chat
                case _:
                    return False

        found = await self._replies.find_delivered(self._workspace, CHANNEL, identity, where=is_behind)
        if len(found) != 1:
            return None
        [(question, deliveries)] = found
        shown = [
            seen_in(each.receipt.get("seen")) or 0 for each in deliveries if isinstance(each.receipt, dict)
        ]
        return QuestionReference(question.workspace, question.id, data={"shown": max(shown, default=0)})

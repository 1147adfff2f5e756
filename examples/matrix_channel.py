"""Tell people of questions in rooms of Matrix. An address is `{"room": "!id:example.org"}`."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any
from urllib.parse import quote

import httpx2

from handraise.channels.message_texts import ending_of, heading_of, prompt_of
from handraise.ports.channel import Message, NotSent


class Matrix:
    """Says questions in a room, and edits them there when they have ended."""

    name, private, patience = "matrix", False, timedelta(hours=6)

    def __init__(self, client: httpx2.AsyncClient) -> None:
        self._client = client

    def rate_limit_key(self, to: Any) -> str | None:
        """The homeserver is slow or dead as a whole."""
        return self.name if isinstance(to, dict) and str(to.get("room")).startswith("!") else None

    async def send(self, message: Message) -> Any:
        """Say who asks what, and where to answer."""
        asked = [(heading_of(it.question), prompt_of(it.question)[0], it.link) for it in message.notices]
        texts = [f"{who}:\n{what[: 4_000 // len(asked)]}\n{link}" for who, what, link in asked]
        return {message.id: await self._say(message, message.id, "\n\n".join(texts))}

    async def update(self, message: Message, receipt: Any) -> None:
        """Say how it ended: in the question's place, or below where several stood together."""
        ended, words = ending_of(message.notices[0].question, "")
        text = "\n".join((prompt_of(message.notices[0].question)[0][:500], f"{ended}:", *words))[:4_000]
        await self._say(message, f"{message.id}-ended", text, (receipt or {}).get(message.id))

    async def _say(self, message: Message, name: str, text: str, old: str | None = None) -> Any:
        content: dict[str, Any] = {"msgtype": "m.text", "body": text, "m.mentions": {}}
        if old:
            edit = {"rel_type": "m.replace", "event_id": old}
            content |= {"m.new_content": {**content}, "m.relates_to": edit}
        path = f"/_matrix/client/v3/rooms/{quote(message.to['room'], safe='')}/send/m.room.message/{name}"
        try:
            answer = await self._client.put(path, json=content)
        except httpx2.TransportError:
            raise NotSent("the homeserver gave no answer", arrived_perhaps=True) from None
        if not answer.is_success:
            raise NotSent(f"it says {answer.status_code}", again=answer.status_code not in (400, 403, 404))
        return answer.json()["event_id"]


@asynccontextmanager
async def open_matrix(*_: Any) -> AsyncIterator[Matrix]:
    """The channel, for as long as this context lasts."""
    headers = {"Authorization": f"Bearer {os.environ['MATRIX_TOKEN']}"}
    async with httpx2.AsyncClient(base_url=os.environ["MATRIX_URL"], headers=headers) as client:
        yield Matrix(client)

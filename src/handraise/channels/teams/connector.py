"""Microsoft's connector: what is said in conversations goes through it, in the name of our app."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

import httpx2

from handraise.channels.http_errors import exchange, refusal
from handraise.channels.oauth_tokens import AccessTokens
from handraise.channels.payloads import as_json
from handraise.channels.teams.references import Conversation, Person, read_conversation
from handraise.ports.channel import NotSent

_MOST_CHATS = 10_000
_UNAUTHORIZED = 401
_CODE = re.compile(r"[A-Za-z0-9_. -]{1,60}")


class Connector:
    """Opens chats, says things in them, and changes what was said."""

    def __init__(self, client: httpx2.AsyncClient, tokens: AccessTokens, app_id: str) -> None:
        self._client = client
        self._tokens = tokens
        self._app_id = app_id
        self._chats: OrderedDict[Person, str] = OrderedDict()
        """Only to ask less often: Teams gives the same chat for the same person."""

    async def conversation(self, place: Conversation | Person) -> Conversation:
        """The conversation, or the chat with a person, which is opened if it is not open; raises `NotSent`."""
        if isinstance(place, Conversation):
            return place
        known = self._chats.get(place)
        if known is None:
            known = await self._open(place)
            self._chats[place] = known
            if len(self._chats) > _MOST_CHATS:
                self._chats.popitem(last=False)
        return Conversation(place.service, known)

    async def say(self, where: Conversation, activity: Mapping[str, Any], *, below: str | None = None) -> str:
        """Say something, in answer to something else or not, and return its id; raises `NotSent`."""
        url = where.activities() if below is None else where.activities(below)
        said = (await self._call("POST", url, activity)).get("id")
        if not isinstance(said, str) or not said:
            raise NotSent("Teams did not say where the message is", arrived_perhaps=True)
        return said

    async def change(self, where: Conversation, said: str, activity: Mapping[str, Any]) -> None:
        """Change what was said; raises `NotSent`."""
        await self._call("PUT", where.activities(said), {**activity, "id": said})

    async def _open(self, person: Person) -> str:
        body = {
            "bot": {"id": f"28:{self._app_id}"},
            "isGroup": False,
            "members": [{"id": person.id}],
            "tenantId": person.tenant,
            "channelData": {"tenant": {"id": person.tenant}},
        }
        try:
            opened = (await self._call("POST", f"{person.service}/v3/conversations", body)).get("id")
        except NotSent as failed:
            # Nothing has been said yet, and a chat is the same however often it is opened.
            failed.arrived_perhaps = False
            raise
        found = read_conversation(person.service, opened)
        if found is None:
            raise NotSent("Teams did not say where the chat is")
        return found.id

    async def _call(self, method: str, url: str, body: Mapping[str, Any]) -> dict[str, Any]:
        token = await self._tokens.token()
        headers = {"authorization": f"Bearer {token}", "content-type": "application/json; charset=utf-8"}
        what = f"{method} {'activities' if '/activities' in url else 'conversations'}"
        request = self._client.request(method, url, content=as_json(body), headers=headers)
        answer, told = await exchange(request, "Teams", what, may_be_empty=True)
        if answer.is_success:
            return told
        if answer.status_code == _UNAUTHORIZED:
            self._tokens.refuse(token)
        code = told.get("error")
        code = code.get("code") if isinstance(code, dict) else code
        known = isinstance(code, str) and _CODE.fullmatch(code)
        why = f"{answer.status_code} {code}" if known else str(answer.status_code)
        raise refusal(answer, "Teams", what, why, is_final=True)

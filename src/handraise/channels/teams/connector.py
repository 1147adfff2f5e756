"""Microsoft's connector: what is said in conversations goes through it, in the name of our app."""

from __future__ import annotations

import asyncio
import re
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

import httpx2

from handraise.channels.http_errors import exchange, refusal
from handraise.channels.payloads import as_json
from handraise.channels.teams.references import Conversation, Person, read_conversation
from handraise.ports.channel import NotSent

_BEFORE_ITS_END = 300.0
_SHORTEST = 30.0
_MOST_CHATS = 10_000
_UNAUTHORIZED = 401
_CODE = re.compile(r"[A-Za-z0-9_. -]{1,60}")


class Credentials:
    """The token of our app, fetched with its secret and used again until shortly before its end."""

    def __init__(
        self,
        client: httpx2.AsyncClient,
        *,
        app_id: str,
        secret: str,
        token_url: str,
        scope: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._token_url = token_url
        self._form = {
            "grant_type": "client_credentials",
            "client_id": app_id,
            "client_secret": secret,
            "scope": scope,
        }
        self._clock = clock
        self._token: str | None = None
        self._until = 0.0
        self._fetching = asyncio.Lock()

    async def token(self) -> str:
        """A token that lasts for a while; raises `NotSent`."""
        async with self._fetching:
            if self._token is None or self._clock() >= self._until:
                self._token, lasts = await self._fetch()
                self._until = self._clock() + max(lasts - _BEFORE_ITS_END, min(lasts, _SHORTEST))
            return self._token

    def refuse(self, token: str) -> None:
        """Stop using a token: the connector does not accept it."""
        if token == self._token:
            self._token = None

    async def _fetch(self) -> tuple[str, float]:
        try:
            answer = await self._client.post(self._token_url, data=self._form)
        except httpx2.HTTPError as error:
            # Without the error itself: it contains the request, and the request contains the secret.
            raise NotSent(f"Microsoft gives no token: {type(error).__name__}") from None
        try:
            told = answer.json()
        except ValueError:
            told = None
        match told:
            case {"access_token": str(token), "expires_in": int(lasts)} if answer.is_success and token:
                return token, float(lasts)
            case {"error": str(code)} if _CODE.fullmatch(code):
                raise NotSent(f"Microsoft gives no token: {code}")
            case _:
                raise NotSent(f"Microsoft gives no token: it answered {answer.status_code}")


class Connector:
    """Opens chats, says things in them, and changes what was said."""

    def __init__(self, client: httpx2.AsyncClient, credentials: Credentials, app_id: str) -> None:
        self._client = client
        self._credentials = credentials
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
        token = await self._credentials.token()
        headers = {"authorization": f"Bearer {token}", "content-type": "application/json; charset=utf-8"}
        what = f"{method} {'activities' if '/activities' in url else 'conversations'}"
        request = self._client.request(method, url, content=as_json(body), headers=headers)
        answer, told = await exchange(request, "Teams", what, may_be_empty=True)
        if answer.is_success:
            return told
        if answer.status_code == _UNAUTHORIZED:
            self._credentials.refuse(token)
        code = told.get("error")
        code = code.get("code") if isinstance(code, dict) else code
        known = isinstance(code, str) and _CODE.fullmatch(code)
        why = f"{answer.status_code} {code}" if known else str(answer.status_code)
        raise refusal(answer, "Teams", what, why, is_final=True)

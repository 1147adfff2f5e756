"""Teams as a channel: sends questions to people and rooms, changes them when they end, and takes what comes back."""

from __future__ import annotations

import logging
import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

import httpx2

from handraise.channels.background_tasks import BackgroundTasks
from handraise.channels.inbound_replies import Replies
from handraise.channels.payloads import InvalidPayload, as_json, object_in, read_object
from handraise.channels.teams.card_elements import CARD, Element
from handraise.channels.teams.cards import render_bundle, render_outcome, render_question, summary_of
from handraise.channels.teams.connector import Connector, Credentials
from handraise.channels.teams.interactions import InteractionHandler
from handraise.channels.teams.references import (
    CHANNEL,
    Conversation,
    Person,
    Services,
    read_address,
    read_conversation,
)
from handraise.channels.teams.threads import Threads
from handraise.channels.teams.token_verifier import NotGenuine, Tokens
from handraise.model.errors import HandraiseError
from handraise.model.json_values import Json, digest
from handraise.model.visible import visible
from handraise.ports.channel import Message, NotSent, Response

_log = logging.getLogger(__name__)

LOGIN = "https://login.microsoftonline.com"
ISSUER = "https://api.botframework.com"
METADATA = "https://login.botframework.com/v1/.well-known/openidconfiguration"
_TIMEOUT = httpx2.Timeout(10.0, connect=5.0)


@asynccontextmanager
async def open_teams(
    replies: Replies,
    *,
    app_id: str,
    app_secret: str,
    tenant: str,
    workspace: str = "default",
    service_urls: Sequence[str] = (),
    login_url: str = LOGIN,
    issuer: str = ISSUER,
    metadata_url: str = METADATA,
    verify: ssl.SSLContext | None = None,
) -> AsyncIterator[Teams]:
    """The channel for a bot of one tenant, for as long as this context lasts.

    `workspace` is where a typed reply is looked for. `verify` says whose certificates are trusted, where that is not
    for the machine to say.
    """
    async with httpx2.AsyncClient(timeout=_TIMEOUT, follow_redirects=False, verify=verify or True) as client:
        credentials = Credentials(
            client,
            app_id=app_id,
            secret=app_secret,
            token_url=f"{login_url.rstrip('/')}/{tenant}/oauth2/v2.0/token",
            scope=f"{issuer}/.default",
        )
        teams = Teams(
            Connector(client, credentials, app_id),
            Tokens(client, audience=app_id, issuer=issuer, metadata_url=metadata_url),
            InteractionHandler(replies, Threads(replies, workspace), tenant),
            Services(service_urls),
            tenant,
        )
        try:
            yield teams
        finally:
            await teams.finish()


class Teams:
    """Reaches people through Microsoft Teams."""

    name = CHANNEL
    private = False
    """The administrators of a tenant can read its messages, and people pass them on: no link in one may answer."""
    patience = timedelta(days=1)

    def __init__(
        self,
        connector: Connector,
        tokens: Tokens,
        incoming: InteractionHandler,
        services: Services,
        tenant: str,
    ) -> None:
        self._connector = connector
        self._tokens = tokens
        self._incoming = incoming
        self._services = services
        self._tenant = tenant
        self._tasks = BackgroundTasks(CHANNEL)

    def rate_limit_key(self, to: Json) -> str | None:
        """The connector; None unless `to` is a conversation or a person behind one that we know."""
        place = read_address(to, self._services, self._tenant)
        return None if place is None else f"{CHANNEL} {urlsplit(place.service).netloc}"

    async def send(self, message: Message) -> Json:
        """Post a card. Teams has no name for a message before it is there: a second copy is a second message."""
        one = len(message.notices) == 1
        first = message.notices[0]
        made = (
            render_question(first.question, first.link, first.reason)
            if one
            else render_bundle(message.notices)
        )
        where = await self._connector.conversation(self._place(message.to))
        said = await self._connector.say(where, _activity(made, summary_of(message)))
        receipt = {"service_url": where.service, "conversation": where.id, "activity": said}
        return receipt | ({"shown": digest(made)} if one else {"several": True})

    async def update(self, message: Message, receipt: Json) -> None:
        """Let a card say how its question ended. What has several questions is followed up."""
        ended = _activity(render_outcome(message.notices[0].question), summary_of(message))
        match receipt:
            case {"conversation": str(), "activity": str(said), **rest}:
                where = read_conversation(
                    self._services.known(rest.get("service_url")), receipt["conversation"]
                )
                if where is None:
                    raise NotSent("it was sent through a connector that is not known any more", again=False)
                if rest.get("several"):
                    await self._connector.say(where, {**ended, "replyToId": said}, below=said)
                else:
                    await self._connector.change(where, said, ended)
            case _:
                where = await self._connector.conversation(self._place(message.to))
                await self._connector.say(where, ended)

    async def receive(self, headers: Mapping[str, str], body: bytes) -> Response:
        """Take an activity that came with a token of Microsoft's."""
        try:
            activity = _read(body)
            await self._tokens.check(headers.get("authorization"), activity)
            if self._services.known(activity.get("serviceUrl")) is None:
                return Response(status=401)
            return await self._take(activity)
        except NotGenuine:
            return Response(status=401)
        except InvalidPayload:
            return Response(status=400)
        except (HandraiseError, NotSent) as error:
            _log.warning("something from Teams could not be done (%s)", type(error).__name__)
            return Response(status=503)

    async def finish(self) -> None:
        """See through what is under way, within reason."""
        await self._tasks.finish()

    async def _take(self, activity: Mapping[str, Any]) -> Response:
        match activity.get("type"), activity.get("name"):
            case "invoke", "adaptiveCard/action":
                answer = await self._incoming.press(activity)
                return Response(body=as_json(answer), content_type="application/json; charset=utf-8")
            case "message", _:
                text = await self._incoming.read(activity)
                if text is not None:
                    self._tell(activity, text)
        return Response()

    def _tell(self, activity: Mapping[str, Any], text: str) -> None:
        """Say something in the conversation that an activity came from, beside everything else."""
        where = read_conversation(
            self._services.known(activity.get("serviceUrl")), object_in(activity, "conversation").get("id")
        )
        if where is None:
            return
        said = {
            "type": "message",
            "textFormat": "plain",
            "text": visible(text),
            "replyToId": str(activity.get("id")),
        }
        self._tasks.begin(self._say(where, said))

    async def _say(self, where: Conversation, said: Element) -> None:
        try:
            await self._connector.say(where, said)
        except NotSent as error:
            _log.warning("somebody in Teams could not be told what came of their reply: %s", error)

    def _place(self, to: Json) -> Conversation | Person:
        place = read_address(to, self._services, self._tenant)
        if place is None:
            raise NotSent("the address leads to no connector that is known", again=False)
        return place


def _activity(made: Element, summary: str) -> Element:
    attachment = {"contentType": CARD, "content": made}
    return {"type": "message", "summary": summary, "attachments": [attachment]}


def _read(body: bytes) -> dict[str, Any]:
    """What a request has in it. What cannot be read could not be shown to be genuine either."""
    try:
        return read_object(body)
    except InvalidPayload:
        raise NotGenuine from None

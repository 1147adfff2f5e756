"""Teams as a channel: sends questions to people and rooms, changes them when they end, and takes what comes back."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import httpx2

from handraise.channels.chat_channel import ChatChannel, NotGenuine
from handraise.channels.inbound_replies import Replies
from handraise.channels.oauth_tokens import AccessTokens, ClientCredentials
from handraise.channels.payloads import InvalidPayload, object_in, read_object
from handraise.channels.teams.card_elements import CARD, Element
from handraise.channels.teams.cards import (
    render_bundle,
    render_outcome,
    render_question,
    seen_in_card,
    summary_of,
)
from handraise.channels.teams.connector import Connector
from handraise.channels.teams.interactions import InteractionHandler
from handraise.channels.teams.references import (
    CHANNEL,
    Conversation,
    Person,
    SeenCodes,
    Services,
    read_address,
    read_conversation,
)
from handraise.channels.teams.threads import Threads
from handraise.channels.teams.token_verifier import Tokens
from handraise.model.json_values import Json
from handraise.model.visible import visible
from handraise.ports.channel import Message, NotSent
from handraise.presentation.translation import gettext

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

    `workspace` is where a typed reply is looked for. `verify` says whose certificates are trusted, if not the
    system's.
    """
    async with httpx2.AsyncClient(timeout=_TIMEOUT, follow_redirects=False, verify=verify or True) as client:
        tokens = AccessTokens(
            client,
            ClientCredentials(app_id, app_secret),
            token_url=f"{login_url.rstrip('/')}/{tenant}/oauth2/v2.0/token",
            scope=f"{issuer}/.default",
            issuer="Microsoft",
        )
        codes = SeenCodes(app_secret)
        teams = Teams(
            Connector(client, tokens, app_id),
            Tokens(client, audience=app_id, issuer=issuer, metadata_url=metadata_url),
            InteractionHandler(replies, Threads(replies, workspace), tenant, codes),
            Services(service_urls),
            tenant,
            replies=replies,
            codes=codes,
        )
        try:
            yield teams
        finally:
            await teams.finish()


class Teams(ChatChannel[Conversation | Person, Conversation]):
    """Reaches people through Microsoft Teams."""

    name = CHANNEL
    service = "Teams"
    receipt = ("conversation", "activity")

    def __init__(
        self,
        connector: Connector,
        tokens: Tokens,
        incoming: InteractionHandler,
        services: Services,
        tenant: str,
        *,
        replies: Replies,
        codes: SeenCodes,
    ) -> None:
        super().__init__(replies)
        self._connector = connector
        self._tokens = tokens
        self._incoming = incoming
        self._services = services
        self._tenant = tenant
        self._codes = codes

    def rate_limit_key(self, to: Json) -> str | None:
        """The connector; None unless `to` is a conversation or a person behind one that we know."""
        place = self._read_address(to)
        return None if place is None else f"{CHANNEL} {urlsplit(place.service).netloc}"

    def _read_address(self, to: Json) -> Conversation | Person | None:
        return read_address(to, self._services, self._tenant)

    async def _open(self, address: Conversation | Person, /) -> Conversation:
        return await self._connector.conversation(address)

    def _render(self, message: Message) -> Element:
        first, *more = message.notices
        made = (
            render_bundle(message.notices)
            if more
            else render_question(
                first.question, first.link, first.reason, thread=first.thread, codes=self._codes
            )
        )
        return _activity(made, summary_of(message))

    def _render_outcome(self, message: Message) -> Element:
        return _activity(render_outcome(message.notices[0].question), summary_of(message))

    def _seen(self, message: Message) -> int | None:
        """What a reply to the card covers: it does not say so itself."""
        [notice] = message.notices
        return seen_in_card(notice.question, notice.link, notice.reason, notice.thread)

    async def _post(
        self, place: Conversation, body: Element, _: str, below: Any, /
    ) -> tuple[Conversation, Any]:
        """Post a card. Teams has no name for a message before it exists: a second copy is a second message."""
        activity = body if below is None else {**body, "replyToId": below}
        return place, await self._connector.say(place, activity, below=below)

    async def _edit(self, place: Conversation, sent: Any, body: Element, /) -> None:
        await self._connector.change(place, sent, body)

    def _receipt(self, place: Conversation, sent: Any) -> dict[str, Json]:
        return {"service_url": place.service, "conversation": place.id, "activity": sent}

    def _sent(self, receipt: dict[str, Json]) -> tuple[Conversation, Any] | None:
        if not {*self.receipt} <= receipt.keys():
            return None
        where = read_conversation(self._services.known(receipt.get("service_url")), receipt["conversation"])
        if where is None:
            raise NotSent("it was sent through a connector that is not known any more", again=False)
        return where, receipt["activity"]

    async def _genuine(self, headers: Mapping[str, str], body: bytes) -> dict[str, Any]:
        """An activity that came with a token of Microsoft's. What cannot be read cannot be proven genuine."""
        try:
            activity = read_object(body)
        except InvalidPayload:
            raise NotGenuine from None
        await self._tokens.check(headers.get("authorization"), activity)
        if self._services.known(activity.get("serviceUrl")) is None:
            raise NotGenuine
        return activity

    async def _handle(self, payload: dict[str, Any]) -> Element | None:
        match payload.get("type"), payload.get("name"):
            case "invoke", "adaptiveCard/action":
                return await self._incoming.press(payload)
            case "message", _:
                told = await self._incoming.read(payload)
                if told is not None:
                    self._tasks.begin(self._tell(payload, told))
        return None

    async def _tell(self, activity: Mapping[str, Any], told: str | Element) -> None:
        """Say something in the conversation that an activity came from, or ask with a card."""
        service = self._services.known(activity.get("serviceUrl"))
        where = read_conversation(service, object_in(activity, "conversation").get("id"))
        if isinstance(told, str):
            said: Element = {"type": "message", "textFormat": "plain", "text": visible(told)}
        else:
            said = _activity(told, gettext("About your reply"))
        if where is not None:
            await self._connector.say(where, {**said, "replyToId": str(activity.get("id"))})


def _activity(made: Element, summary: str) -> Element:
    attachment = {"contentType": CARD, "content": made}
    return {"type": "message", "summary": summary, "attachments": [attachment]}

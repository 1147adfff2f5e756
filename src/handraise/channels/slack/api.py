"""Slack's Web API: one call at a time, with Slack's answer.

Written by hand instead of using Slack's own client, which writes what it sends and gets into the log at level debug,
and tries again by itself, which is the outbox's job.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode, urlsplit

import httpx2

from handraise.channels.account_links import ChatAccount
from handraise.channels.http_errors import Refused, answer_to, exchange, refusal
from handraise.channels.payloads import as_json, object_in
from handraise.channels.slack.blocks import Block, escaped, line, rich, words
from handraise.model.identities import fold_email
from handraise.ports.channel import NotSent

CHANNEL = "slack"
_FINAL = frozenset(
    {
        "cannot_dm_bot",
        "cannot_message_user",
        "cant_update_message",
        "channel_is_archived",
        "channel_not_found",
        "edit_window_closed",
        "invalid_arguments",
        "invalid_blocks",
        "is_archived",
        "message_not_found",
        "messages_tab_disabled",
        "msg_blocks_too_long",
        "msg_too_long",
        "not_in_channel",
        "restricted_action",
        "thread_not_found",
        "user_disabled",
        "user_is_bot",
        "user_not_found",
        "user_not_visible",
    }
)
"""Errors that Slack would repeat, however often it is asked."""


@dataclass(frozen=True, slots=True)
class BotIdentity:
    """Who we are at Slack: the team that the token is for, and our own user there."""

    team: str
    user: str


class SlackApi:
    """Calls methods of the Web API as a bot."""

    def __init__(self, client: httpx2.AsyncClient, token: str, url: str) -> None:
        self._client = client
        self._token = token
        self._url = url.rstrip("/")
        self._home: BotIdentity | None = None

    @property
    def is_plain(self) -> bool:
        """Whether the API is reached without TLS, as a stand-in is."""
        return self._url.startswith("http:")

    async def bot_identity(self) -> BotIdentity:
        """Who we are; Slack is asked once."""
        if self._home is None:
            text_message = await self.read("auth.test")
            self._home = BotIdentity(str(text_message.get("team_id")), str(text_message.get("user_id")))
        return self._home

    async def call(self, method: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Call a method that takes JSON; raises `NotSent`."""
        return await self._post(method, as_json(body), "application/json; charset=utf-8")

    async def read(self, method: str, **fields: str) -> dict[str, Any]:
        """Call a method that takes a form, as those do that only read; raises `NotSent`."""
        body = urlencode(fields, errors="replace").encode()
        return await self._post(method, body, "application/x-www-form-urlencoded")

    async def name_of(self, user: str) -> str:
        """What somebody calls themselves; nothing if we may not read it (`users:read`)."""
        try:
            found = await self.read("users.info", user=user)
        except NotSent:
            return ""
        name = object_in(object_in(found, "user"), "profile").get("real_name")
        return name if isinstance(name, str) else ""

    async def find_account(self, email: str) -> ChatAccount | None:
        """The member of our team with this e-mail address; raises `NotSent`. Needs `users:read.email`.

        Bots, people who have left, and people of other teams are nobody. An address that Slack has not confirmed is none.
        """
        try:
            found = await self.read("users.lookupByEmail", email=email)
        except Refused as refused:
            if refused.why == "users_not_found":
                return None
            raise
        user, home = object_in(found, "user"), await self.bot_identity()
        profile = object_in(user, "profile")
        same = fold_email(str(profile.get("email"))) == fold_email(email)
        unfit = user.get("deleted") or user.get("is_bot") or user.get("is_stranger")
        if (
            not isinstance(id_ := user.get("id"), str)
            or user.get("team_id") != home.team
            or user.get("is_email_confirmed") is False
            or unfit
            or not same
        ):
            return None
        return ChatAccount(CHANNEL, id_, {"user": id_}, str(profile.get("real_name") or ""))

    async def upload(self, name: str, data: bytes) -> str:
        """Upload a file that nobody can see yet, and return its id; raises `NotSent`."""
        made = await self.read("files.getUploadURLExternal", filename=name, length=str(len(data)))
        match made:
            case {"upload_url": str(url), "file_id": str(file)} if self._is_own(url, "files"):
                pass
            case _:
                raise NotSent("Slack did not say where to upload a file", again=False)
        # The address is the permission, so our token is not sent there.
        request = self._client.post(url, content=data, headers={"content-type": "application/octet-stream"})
        answer = await answer_to(request, "Slack", "an upload")
        if not answer.is_success:
            raise NotSent(f"Slack answered {answer.status_code} to an upload", again=False)
        return file

    async def tell(self, response_url: object, text: str, *, replaces: bool = False) -> None:
        """Say something that only one person sees, in answer to what they did; raises `NotSent`.

        It `replaces` the message that they pressed, if only they see that one.
        """
        if not isinstance(response_url, str) or not self.is_slack(response_url):
            raise NotSent("that is no address of Slack's", again=False)
        how = (
            {"replace_original": True}
            if replaces
            else {"response_type": "ephemeral", "replace_original": False}
        )
        body = how | text_message(text)
        headers = {"content-type": "application/json; charset=utf-8"}
        request = self._client.post(response_url, content=as_json(body), headers=headers)
        answer = await answer_to(request, "Slack", "a response URL")
        if not answer.is_success:
            raise NotSent(f"Slack answered {answer.status_code} to a response URL", again=False)

    def is_slack(self, url: str) -> bool:
        """Whether an address is Slack's own: where the API is, or where answers to what people do are taken."""
        return self._is_own(url, "hooks")

    def _is_own(self, url: str, name: str) -> bool:
        """Whether an address is where the API is, or at the host of Slack with this name."""
        ours = urlsplit(self._url)
        hosts = {(ours.hostname, ours.port), (f"{name}.{ours.hostname}", None)}
        try:
            given = urlsplit(url)
            host = (given.hostname, given.port)
        except ValueError:
            return False
        return given.scheme == ours.scheme and given.username is None and host in hosts

    async def _post(self, method: str, body: bytes, content_type: str) -> dict[str, Any]:
        headers = {"authorization": f"Bearer {self._token}", "content-type": content_type}
        request = self._client.post(f"{self._url}/{method}", content=body, headers=headers)
        answer, told = await exchange(request, "Slack", method)
        if answer.is_success and told.get("ok") is True:
            return told
        why = str(told.get("error") or answer.status_code)
        raise refusal(answer, "Slack", method, why, is_final=why in _FINAL)


def text_message(text: str) -> Block:
    """One paragraph, as it is."""
    return {"text": escaped(text), "blocks": [rich(line(words(text)))]}

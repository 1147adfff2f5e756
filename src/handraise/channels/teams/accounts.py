"""People of the tenant, found by their e-mail address in Microsoft Graph. This needs no installation of the app for them."""

from __future__ import annotations

from urllib.parse import urlencode

import httpx2

from handraise.channels.account_links import ChatAccount
from handraise.channels.http_errors import exchange, refusal
from handraise.channels.oauth_tokens import AccessTokens
from handraise.channels.payloads import list_in
from handraise.channels.teams.references import CHANNEL, is_id
from handraise.model.identities import fold_email

_UNAUTHORIZED = 401
_FIELDS = "id,displayName,mail,userPrincipalName,accountEnabled,userType"


class Accounts:
    """Reads the directory of the tenant, for which the app needs `User.Read.All`."""

    def __init__(self, client: httpx2.AsyncClient, tokens: AccessTokens, url: str) -> None:
        self._client = client
        self._tokens = tokens
        self._url = url.rstrip("/")

    async def find(self, email: str) -> ChatAccount | None:
        """The one member of the tenant with this address; raises `NotSent`.

        Guests and disabled accounts are nobody: a guest's address is another organisation's business. If two accounts have
        it, neither does.
        """
        quoted = email.replace("'", "''")
        asked = {
            "$filter": f"mail eq '{quoted}' or userPrincipalName eq '{quoted}'",
            "$select": _FIELDS,
            "$top": "3",
        }
        token = await self._tokens.token()
        headers = {"authorization": f"Bearer {token}", "accept": "application/json"}
        request = self._client.get(f"{self._url}/users?{urlencode(asked)}", headers=headers)
        answer, told = await exchange(request, "Microsoft Graph", "users")
        if not answer.is_success:
            if answer.status_code == _UNAUTHORIZED:
                self._tokens.refuse(token)
            raise refusal(answer, "Microsoft Graph", "users", str(answer.status_code), is_final=False)
        found = [each for each in list_in(told, "value") if isinstance(each, dict)]
        if len(found) != 1:
            return None
        [user] = found
        names = {fold_email(str(user.get(each))) for each in ("mail", "userPrincipalName")}
        is_member = user.get("accountEnabled") is True and user.get("userType") == "Member"
        id_ = str(user.get("id")).lower()
        if not is_member or fold_email(email) not in names or not is_id(id_):
            return None
        return ChatAccount(CHANNEL, id_, {"user": id_}, str(user.get("displayName") or ""))

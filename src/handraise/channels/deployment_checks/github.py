"""GitHub: a custom deployment protection rule. GitHub holds the deployment back, and is told as a GitHub App.

Needs `pip install "handraise[github]"`.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Annotated, Any

import pydantic

from handraise.channels.deployment_checks.check_channel import CheckRequest, CheckVerdict
from handraise.channels.http_errors import answer_to, exchange, refusal
from handraise.channels.payloads import as_json
from handraise.model.briefs import Link
from handraise.model.errors import MissingExtra, UnsafeStore
from handraise.model.json_values import Json
from handraise.ports.channel import NotSent, Response

try:
    import httpx2
    from joserfc import jwt
    from joserfc.errors import JoseError
    from joserfc.jwk import RSAKey
except ImportError as error:
    raise MissingExtra(error.name or "joserfc", "github") from error

GITHUB = "https://api.github.com"
_EVENT = "deployment_protection_rule"
_ACCEPT = {
    "accept": "application/vnd.github+json",
    "user-agent": "handraise",
    "x-github-api-version": "2022-11-28",
}
_TIMEOUT = httpx2.Timeout(10.0, connect=5.0)
_WAITS = timedelta(days=30)
"""GitHub ends a run that has waited for longer."""
_BACKDATED, _LASTS = 60, 540
"""Of a token, in seconds: GitHub's clock may be behind ours, and it accepts ten minutes at most."""
_FINAL = frozenset({404, 410, 422})
"""The run is gone, or does not wait any more."""
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,100}/[A-Za-z0-9_.-]{1,100}", re.ASCII)


@asynccontextmanager
async def open_github(
    *,
    app_id: str,
    private_key: bytes,
    webhook_secret: str,
    repositories: Sequence[str],
    api_url: str = GITHUB,
) -> AsyncIterator[GitHub]:
    """Deployment protection rules of one GitHub App, for as long as this context lasts.

    `repositories` are those that may ask, such as `acme/shop` or `acme/*`.
    """
    try:
        key = RSAKey.import_key(private_key)
    except (JoseError, ValueError, TypeError) as error:
        raise UnsafeStore(
            "HANDRAISE_GITHUB_PRIVATE_KEY is not the file with a key that GitHub made."
        ) from error
    async with httpx2.AsyncClient(timeout=_TIMEOUT, follow_redirects=False) as client:
        yield GitHub(
            client,
            app_id=app_id,
            key=key,
            webhook_secret=webhook_secret,
            repositories=repositories,
            api_url=api_url,
        )


class GitHub:
    """Reads webhooks of a GitHub App and decides about deployments. See `CheckService`."""

    name = "github"

    def __init__(
        self,
        client: httpx2.AsyncClient,
        *,
        app_id: str,
        key: RSAKey,
        webhook_secret: str,
        repositories: Sequence[str],
        api_url: str = GITHUB,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.webhook_secret = webhook_secret.encode()
        self._client = client
        self._app_id = app_id
        self._key = key
        self._repositories = frozenset(each.lower() for each in repositories)
        self._api_url = api_url.rstrip("/")
        self._now = now

    def read(self, headers: Mapping[str, str], body: bytes) -> CheckRequest | Response:
        """Read a webhook. Only a requested deployment of a repository that the operator names is a request."""
        if not is_signed(headers.get("x-hub-signature-256", ""), body, self.webhook_secret):
            return Response(status=401)
        if headers.get("x-github-event") != _EVENT:
            return Response(status=204)  # such as ping
        try:
            asked = _Requested.model_validate_json(body)
        except (pydantic.ValidationError, RecursionError):
            return Response(status=400)
        if asked.action != "requested":
            return Response(status=204)
        name = asked.repository.full_name
        if not self._is_allowed(name):
            return Response(status=422, body=b"HANDRAISE_GITHUB_REPOSITORIES does not name this repository.")
        run = self._run_of(asked.deployment_callback_url, name)
        if run is None:
            return Response(status=422, body=b"The callback is not at HANDRAISE_GITHUB_API_URL.")
        return _request(asked, body, run)

    def knows(self, to: Json) -> bool:
        """Whether this is a run of a repository that the operator names, at the configured API."""
        match to:
            case {"url": str(url), "repository": str(name), "installation": int(), "environment": str()}:
                return self._is_allowed(name) and self._run_of(url, name) is not None
            case _:
                return False

    async def tell(self, to: Json, verdict: CheckVerdict) -> None:
        """Approve or reject the deployment, with a token that is good for this repository only."""
        token = await self._token(to["installation"], to["repository"])
        body = {
            "environment_name": to["environment"],
            "state": "approved" if verdict.is_approved else "rejected",
            "comment": verdict.comment,
        }
        headers = {**_ACCEPT, "authorization": f"Bearer {token}", "content-type": "application/json"}
        request = self._client.post(to["url"], content=as_json(body), headers=headers)
        answer = await answer_to(request, "GitHub", _EVENT)
        if not answer.is_success:
            why = str(answer.status_code)
            raise refusal(answer, "GitHub", _EVENT, why, is_final=answer.status_code in _FINAL)

    async def _token(self, installation: int, repository: str) -> str:
        now = int(self._now())
        claims = {"iat": now - _BACKDATED, "exp": now + _LASTS, "iss": self._app_id}
        signed = jwt.encode({"alg": "RS256"}, claims, self._key, algorithms=["RS256"])
        scope = {"repositories": [repository.partition("/")[2]], "permissions": {"deployments": "write"}}
        request = self._client.post(
            f"{self._api_url}/app/installations/{installation}/access_tokens",
            content=as_json(scope),
            headers={**_ACCEPT, "authorization": f"Bearer {signed}", "content-type": "application/json"},
        )
        answer, told = await exchange(request, "GitHub", "access_tokens")
        match told:
            case {"token": str(token)} if answer.is_success and token:
                return token
        if answer.is_success:
            raise NotSent("GitHub gives no token")
        raise refusal(answer, "GitHub", "access_tokens", str(answer.status_code), is_final=False)

    def _is_allowed(self, repository: str) -> bool:
        name = repository.lower()
        owner = f"{name.partition('/')[0]}/*"
        return _NAME.fullmatch(name) is not None and not self._repositories.isdisjoint((name, owner))

    def _run_of(self, url: str, repository: str) -> str | None:
        """The id of the run that a callback decides about; None if it is anywhere else than at our API."""
        runs = f"{self._api_url}/repos/{repository}/actions/runs/"
        if not url.lower().startswith(runs.lower()):
            return None
        found = re.fullmatch(rf"([0-9]{{1,20}})/{_EVENT}", url[len(runs) :], re.ASCII)
        return found[1] if found else None


def is_signed(signature: str, body: bytes, secret: bytes) -> bool:
    """Whether GitHub has signed this body with the secret."""
    expected = f"sha256={hmac.new(secret, body, hashlib.sha256).hexdigest()}"
    return hmac.compare_digest(expected.encode(), signature.encode(errors="replace"))


_Short = Annotated[str, pydantic.Field(max_length=300)]


class _Account(pydantic.BaseModel):
    login: _Short


class _Deployment(pydantic.BaseModel):
    id: int
    ref: _Short | None = None
    sha: _Short | None = None


class _Repository(pydantic.BaseModel):
    id: int
    full_name: _Short
    html_url: str = pydantic.Field(max_length=2_000)


class _Installation(pydantic.BaseModel):
    id: int


class _PullRequest(pydantic.BaseModel):
    number: int


class _Requested(pydantic.BaseModel):
    """The event, as far as it is read here."""

    action: str
    environment: _Short
    event: _Short | None = None
    ref: _Short | None = None
    sha: _Short | None = None
    deployment_callback_url: Annotated[str, pydantic.Field(max_length=2_000)]
    deployment: _Deployment | None = None
    pull_requests: list[_PullRequest] | None = None
    repository: _Repository
    installation: _Installation
    sender: _Account


def _request(asked: _Requested, body: bytes, run: str) -> CheckRequest:
    name, deployment = asked.repository.full_name, asked.deployment
    # A run that is started again has the same id, and another deployment.
    which: Json = hashlib.sha256(body).hexdigest() if deployment is None else deployment.id
    page = f"{asked.repository.html_url}/actions/runs/{run}"
    about: dict[str, Any] = {
        "repository": name,
        "environment": asked.environment,
        "ref": asked.ref or (deployment.ref if deployment else None),
        "sha": asked.sha or (deployment.sha if deployment else None),
        "event": asked.event,
        "run": page,
        "started_by": asked.sender.login,
        "pull_requests": [each.number for each in asked.pull_requests or ()][:20],
    }
    return CheckRequest(
        place=["github", asked.repository.id, run, asked.environment, which],
        subject=f"github:{name}:{run}",
        prompt=f"Deploy {name} to {asked.environment}?",
        tool="github_deployment",
        arguments={key: value for key, value in about.items() if value},
        links=[Link("the run at GitHub", page)],
        started_by=asked.sender.login,
        url=asked.deployment_callback_url,
        details={"repository": name, "installation": asked.installation.id, "environment": asked.environment},
        expires_in=_WAITS,
    )

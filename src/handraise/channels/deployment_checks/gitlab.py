"""GitLab: an external status check. GitLab holds the merge request back, and is told with an access token."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Annotated, Literal

import pydantic

from handraise.channels.deployment_checks.check_channel import CheckEnded, CheckRequest, CheckVerdict
from handraise.channels.http_errors import answer_to, refusal
from handraise.channels.payloads import as_json
from handraise.model.briefs import Link
from handraise.model.errors import MissingExtra
from handraise.model.json_values import Json
from handraise.ports.channel import NotSent, Response

try:
    import httpx2
except ImportError as error:
    raise MissingExtra("httpx2", "server") from error

GITLAB = "https://gitlab.com"
_WHAT = "status_check_responses"
_TIMEOUT = httpx2.Timeout(10.0, connect=5.0)
_WAITS = timedelta(days=90)
_OUTDATED = 409
"""There are newer commits."""
_FINAL = frozenset({404, 410, 422})


@asynccontextmanager
async def open_gitlab(
    *, token: str, webhook_secret: str, projects: Sequence[str], url: str = GITLAB
) -> AsyncIterator[GitLab]:
    """External status checks of one GitLab, for as long as this context lasts.

    `projects` are those that may ask, such as `acme/shop` or `acme/*`.
    """
    async with httpx2.AsyncClient(timeout=_TIMEOUT, follow_redirects=False) as client:
        yield GitLab(client, token=token, webhook_secret=webhook_secret, projects=projects, url=url)


class GitLab:
    """Reads webhooks of external status checks and answers them. See `CheckService`."""

    name = "gitlab"

    def __init__(
        self,
        client: httpx2.AsyncClient,
        *,
        token: str,
        webhook_secret: str,
        projects: Sequence[str],
        url: str = GITLAB,
    ) -> None:
        self.webhook_secret = webhook_secret.encode()
        self._client = client
        self._token = token
        self._projects = [each.lower() for each in projects]
        self._api_url = f"{url.rstrip('/')}/api/v4"

    def read(self, headers: Mapping[str, str], body: bytes) -> CheckRequest | CheckEnded | Response:
        """Read a webhook. GitLab sends one for each change of a merge request: each head commit is one request."""
        if not _is_signed(headers.get("x-gitlab-signature", ""), body, self.webhook_secret):
            return Response(status=401)
        try:
            event = _Event.model_validate_json(body)
        except (pydantic.ValidationError, RecursionError):
            return Response(status=400)
        if not self._is_allowed(event.project.path_with_namespace):
            return Response(status=422, body=b"HANDRAISE_GITLAB_PROJECTS does not name this project.")
        asked, project = event.object_attributes, event.project
        subject = f"gitlab:{project.id}!{asked.iid}:{event.external_approval_rule.id}"
        if asked.state in ("merged", "closed"):
            return CheckEnded(subject, asked.updated_at)
        return CheckRequest(
            place=["gitlab", project.id, asked.iid, event.external_approval_rule.id, asked.last_commit.id],
            subject=subject,
            prompt=f"Merge !{asked.iid} of {project.path_with_namespace} into {asked.target_branch}?",
            tool="gitlab_merge",
            arguments={
                "project": project.path_with_namespace,
                "merge_request": asked.iid,
                "title": asked.title,
                "source_branch": asked.source_branch,
                "target_branch": asked.target_branch,
                "sha": asked.last_commit.id,
                "check": event.external_approval_rule.name,
                "started_by": event.user.username,
            },
            links=[Link("the merge request at GitLab", asked.url)],
            started_by=str(asked.author_id),
            url=self._url_of(project.id, asked.iid),
            details={
                "project": project.id,
                "merge_request": asked.iid,
                "check": event.external_approval_rule.id,
                "sha": asked.last_commit.id,
            },
            expires_in=_WAITS,
            as_of=asked.updated_at,
        )

    def knows(self, to: Json) -> bool:
        """Whether this is a merge request at the configured GitLab."""
        match to:
            case {
                "url": str(url),
                "project": int(project),
                "merge_request": int(number),
                "check": int(),
                "sha": str(),
            }:
                return url == self._url_of(project, number)
            case _:
                return False

    async def tell(self, to: Json, verdict: CheckVerdict) -> None:
        """Let the check pass or fail, for this commit only. GitLab takes no comment."""
        body = {
            "sha": to["sha"],
            "external_status_check_id": to["check"],
            "status": "passed" if verdict.is_approved else "failed",
        }
        headers = {
            "private-token": self._token,
            "content-type": "application/json",
            "user-agent": "handraise",
        }
        request = self._client.post(to["url"], content=as_json(body), headers=headers)
        answer = await answer_to(request, "GitLab", _WHAT)
        if answer.status_code == _OUTDATED:
            raise NotSent("GitLab says that there are newer commits", again=False)
        if not answer.is_success:
            why = str(answer.status_code)
            raise refusal(answer, "GitLab", _WHAT, why, is_final=answer.status_code in _FINAL)

    def _url_of(self, project: int, number: int) -> str:
        return f"{self._api_url}/projects/{project}/merge_requests/{number}/{_WHAT}"

    def _is_allowed(self, path: str) -> bool:
        name = path.lower()
        return any(
            name == each or (each.endswith("/*") and name.startswith(each[:-1])) for each in self._projects
        )


def _is_signed(signature: str, body: bytes, secret: bytes) -> bool:
    expected = hmac.new(secret, body, hashlib.sha256).hexdigest()
    return hmac.compare_digest(expected.encode(), signature.removeprefix("sha256=").encode(errors="replace"))


_Short = Annotated[str, pydantic.Field(max_length=300)]


class _User(pydantic.BaseModel):
    username: _Short


class _Project(pydantic.BaseModel):
    id: int
    path_with_namespace: _Short


class _Commit(pydantic.BaseModel):
    id: Annotated[str, pydantic.Field(pattern=re.compile(r"^[0-9a-f]{40,64}\Z"))]


def _in_iso_8601(instant: object) -> object:
    """GitLab writes an instant as `2022-12-07 07:53:43 UTC`, as `2022-12-07 08:53:43 +0100`, or as ISO 8601 has it."""
    return (
        re.sub(r" (?=[+-][0-9])", "", instant.replace(" UTC", "Z")) if isinstance(instant, str) else instant
    )


class _MergeRequest(pydantic.BaseModel):
    iid: int
    author_id: int
    title: Annotated[str, pydantic.Field(max_length=1_000)]
    source_branch: _Short
    target_branch: _Short
    url: Annotated[str, pydantic.Field(max_length=2_000)]
    state: _Short
    updated_at: Annotated[pydantic.AwareDatetime, pydantic.BeforeValidator(_in_iso_8601)]
    last_commit: _Commit


class _Check(pydantic.BaseModel):
    id: int
    name: _Short


class _Event(pydantic.BaseModel):
    """The event, as far as it is read here."""

    object_kind: Literal["merge_request"]
    user: _User
    project: _Project
    object_attributes: _MergeRequest
    external_approval_rule: _Check

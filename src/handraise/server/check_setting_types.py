"""Types of the settings of deployment checks: each says in its error what is expected, and which other settings it needs."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, TypeVar

import pydantic
from pydantic import SecretStr, ValidationInfo

T = TypeVar("T")
SHORTEST_SECRET = 16
_APP = re.compile(r"[A-Za-z0-9._-]{1,100}", re.ASCII)
_REPOSITORY = re.compile(r"[A-Za-z0-9_.-]{1,100}/(\*|[A-Za-z0-9_.-]{1,100})", re.ASCII)
_PROJECT = re.compile(
    r"[A-Za-z0-9_.-]{1,100}(/[A-Za-z0-9_.-]{1,100}){0,19}/(\*|[A-Za-z0-9_.-]{1,100})", re.ASCII
)


def _needed_with(setting: str, because: str) -> Callable[[T, ValidationInfo], T]:
    """Refuse a setting that is missing although the check is turned on, by another setting before it."""

    def check(value: T, others: ValidationInfo) -> T:
        if not value and others.data.get(setting):
            raise ValueError(because)
        return value

    return check


def _is_an_app(text: str) -> str:
    if not _APP.fullmatch(text):
        raise ValueError("expected the client id or the app id of your GitHub App")
    return text


def _is_long_enough(secret: SecretStr | None) -> SecretStr | None:
    if secret is not None and len(secret.get_secret_value()) < SHORTEST_SECRET:
        raise ValueError(f"expected at least {SHORTEST_SECRET} random characters")
    return secret


def _are_repositories(names: tuple[str, ...]) -> tuple[str, ...]:
    for each in names:
        if not _REPOSITORY.fullmatch(each):
            raise ValueError("expected repositories such as acme/shop, or acme/* for all of an owner")
    return names


def _are_projects(names: tuple[str, ...]) -> tuple[str, ...]:
    for each in names:
        if not _PROJECT.fullmatch(each):
            raise ValueError("expected projects such as acme/shop, or acme/* for all of a group")
    return names


def _lower_case(people: dict[str, str] | None) -> dict[str, str] | None:
    """Logins are the same however they are written."""
    return None if people is None else {login.lower(): person for login, person in people.items()}


GitHubApp = Annotated[str, pydantic.AfterValidator(_is_an_app)]
GitHubKey = Annotated[
    Path | None,
    pydantic.AfterValidator(_needed_with("github_app_id", "give it, to tell GitHub what was decided")),
]
GitHubSecret = Annotated[
    SecretStr | None,
    pydantic.AfterValidator(_is_long_enough),
    pydantic.AfterValidator(_needed_with("github_app_id", "give it, to know GitHub's requests")),
]
GitHubRepositories = Annotated[
    tuple[str, ...],
    pydantic.AfterValidator(_are_repositories),
    pydantic.AfterValidator(_needed_with("github_app_id", "name the repositories that may ask")),
]
GitLabSecret = Annotated[
    SecretStr | None,
    pydantic.AfterValidator(_is_long_enough),
    pydantic.AfterValidator(_needed_with("gitlab_token", "give it, to know GitLab's requests")),
]
GitLabProjects = Annotated[
    tuple[str, ...],
    pydantic.AfterValidator(_are_projects),
    pydantic.AfterValidator(_needed_with("gitlab_token", "name the projects that may ask")),
]
PeopleByLogin = Annotated[dict[str, str] | None, pydantic.AfterValidator(_lower_case)]

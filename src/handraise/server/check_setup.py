"""The deployment checks that the settings turn on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from handraise import Desk
from handraise.channels.deployment_checks import CheckChannel, CheckRules
from handraise.server.settings import ServerSettings


@asynccontextmanager
async def open_checks(settings: ServerSettings, desk: Desk) -> AsyncIterator[Mapping[str, CheckChannel]]:
    """Open the checks of the settings, by the name of their service, while this context is open."""
    checks: list[CheckChannel] = []
    async with AsyncExitStack() as stack:
        if settings.github_app_id is not None:
            checks.append(await _open_github(settings, desk, stack))
        if settings.gitlab_token is not None:
            checks.append(await _open_gitlab(settings, desk, stack))
        yield {check.name: check for check in checks}


async def _open_github(settings: ServerSettings, desk: Desk, stack: AsyncExitStack) -> CheckChannel:
    """Open GitHub; the settings are valid."""
    from handraise.channels.deployment_checks.github import open_github  # noqa: PLC0415 -- an extra
    from handraise.signing.key_files import read_private_file  # noqa: PLC0415 -- cryptography is an extra

    secret = settings.github_webhook_secret
    service = await stack.enter_async_context(
        open_github(
            app_id=settings.github_app_id or "",
            private_key=await asyncio.to_thread(read_private_file, settings.github_private_key or Path()),
            webhook_secret=secret.get_secret_value() if secret else "",
            repositories=settings.github_repositories,
            api_url=settings.github_api_url,
        )
    )
    rules = CheckRules(
        workspace=settings.github_workspace,
        recipients=settings.github_recipients,
        people=settings.github_people,
    )
    return CheckChannel(service, desk, rules, base_url=settings.base_url)


async def _open_gitlab(settings: ServerSettings, desk: Desk, stack: AsyncExitStack) -> CheckChannel:
    """Open GitLab; the settings are valid."""
    from handraise.channels.deployment_checks.gitlab import open_gitlab  # noqa: PLC0415 -- only where it is wanted

    token, secret = settings.gitlab_token, settings.gitlab_webhook_secret
    service = await stack.enter_async_context(
        open_gitlab(
            token=token.get_secret_value() if token else "",
            webhook_secret=secret.get_secret_value() if secret else "",
            projects=settings.gitlab_projects,
            url=settings.gitlab_url,
        )
    )
    rules = CheckRules(
        workspace=settings.gitlab_workspace,
        recipients=settings.gitlab_recipients,
        people=settings.gitlab_people,
    )
    return CheckChannel(service, desk, rules, base_url=settings.base_url)

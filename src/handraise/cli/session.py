"""Who uses the desk: on a store, the name that you give; at a server, the owner of the key or session."""

from __future__ import annotations

import asyncio
import getpass
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Annotated, TypeVar

import typer

from handraise.cli.exit_codes import CommandError
from handraise.cli.sign_in_commands import kept_session
from handraise.desk.rule_suspensions import suspended_rules_for
from handraise.desk_factory import address_from, desk_from_store, open_backend, open_desk, without_secrets
from handraise.model.errors import Unauthenticated
from handraise.model.people import Responder, responder_of
from handraise.ports.desk import Desk
from handraise.presentation.suspension_text import suspension_line
from handraise.presentation.translation import gettext
from handraise.wire.credentials import TokenKind, read_token

T = TypeVar("T")

CHANNEL = "terminal"
ASKER = "agent"

Workspace = Annotated[
    str | None,
    typer.Option(
        "--workspace", "-w", metavar="NAME", help="The workspace. Default: HANDRAISE_WORKSPACE, else default."
    ),
]
AsPerson = Annotated[
    str | None,
    typer.Option(
        "--as",
        metavar="NAME",
        help="Your name, on a store. Default: your login name. With a server, your session counts.",
    ),
]
AsAsker = Annotated[
    str | None,
    typer.Option(
        "--as",
        metavar="NAME",
        help="Who asks, on a store. Default: agent. With a server, the key's name counts.",
    ),
]


async def _no_notices() -> Sequence[str]:
    return ()


@dataclass(frozen=True, slots=True)
class CliSession:
    """A desk and the person or agent who uses it. `may_answer` is False for an agent with its key."""

    desk: Desk
    me: Responder
    may_answer: bool
    find_notices: Callable[[], Awaitable[Sequence[str]]] = _no_notices
    """What this person must know besides questions. At a server, the inbox in the browser tells it."""


def as_person(work: Callable[[CliSession], Awaitable[T]], *, name: str | None, workspace: str | None) -> T:
    """The result of `work`, done by a person."""

    async def run() -> T:
        async with person_session(name=name, workspace=workspace) as session:
            return await work(session)

    return asyncio.run(run())


def as_asker(
    work: Callable[[CliSession], Awaitable[T]],
    *,
    name: str | None,
    workspace: str | None,
    receipt_key: str | None = None,
) -> T:
    """The result of `work`, done by an asker. On a store, `receipt_key` is the file of the key that signs receipts."""

    async def run() -> T:
        async with asker_session(name=name, workspace=workspace, receipt_key=receipt_key) as session:
            return await work(session)

    return asyncio.run(run())


@asynccontextmanager
async def person_session(
    *, name: str | None, workspace: str | None, ignore_key: bool = False
) -> AsyncIterator[CliSession]:
    """A person at a desk: by HANDRAISE_KEY unless that must be ignored, else by the stored session."""
    address = store_address()
    async with AsyncExitStack() as stack:
        if is_server(address):
            key = None if ignore_key else os.environ.get("HANDRAISE_KEY")
            token = key or session_at(address)
            try:
                session = await _at_server(stack, address, token, name=name, workspace=workspace)
            except Unauthenticated:
                if key is not None:
                    raise
                text = gettext("Your session at {address} is over. Sign in again: handraise sign-in LINK")
                raise CommandError(text.format(address=address)) from None
            yield session
        else:
            yield await _on_store(stack, address, name or login_name(), workspace=workspace)


@asynccontextmanager
async def asker_session(
    *, name: str | None, workspace: str | None, receipt_key: str | None = None
) -> AsyncIterator[CliSession]:
    """An asker at a desk."""
    address = store_address()
    async with AsyncExitStack() as stack:
        if is_server(address):
            token = os.environ.get("HANDRAISE_KEY")
            if token is None:
                raise CommandError(
                    gettext("Asking at a server needs the key of an agent: set HANDRAISE_KEY.")
                )
            yield await _at_server(stack, address, token, name=name, workspace=workspace)
        else:
            yield await _on_store(stack, address, name or ASKER, workspace=workspace, receipt_key=receipt_key)


def session_at(address: str) -> str:
    """The stored session of the person at this command line."""
    token = kept_session(address)
    if token is None:
        text = gettext("You are not signed in to {address}. Sign in: handraise sign-in LINK")
        raise CommandError(text.format(address=address))
    return token


def workspace_on_store(named: str | None) -> str:
    """The workspace that a command on a store works in."""
    return named or os.environ.get("HANDRAISE_WORKSPACE") or "default"


def login_name() -> str:
    """The login name of the user on this machine."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        raise CommandError(gettext("Your login name is unknown. Give your name: --as NAME")) from None


async def _at_server(
    stack: AsyncExitStack, address: str, token: str, *, name: str | None, workspace: str | None
) -> CliSession:
    known = read_token(token)
    if known is None:
        raise CommandError(
            gettext("HANDRAISE_KEY is neither the key of an agent or a reader nor the session of a person.")
        )
    desk = await stack.enter_async_context(open_desk(address, credentials=token))
    if (name or desk.asker, workspace or desk.workspace) != (desk.asker, desk.workspace):
        text = gettext("The key or session belongs to {name} in workspace {workspace}.")
        raise CommandError(text.format(name=repr(desk.asker), workspace=repr(desk.workspace)))
    return CliSession(desk, Responder(desk.asker), known.kind is TokenKind.SESSION)


async def _on_store(
    stack: AsyncExitStack, address: str, name: str, *, workspace: str | None, receipt_key: str | None = None
) -> CliSession:
    if address == "memory:":
        raise CommandError(
            gettext("HANDRAISE_URL is memory:, which keeps nothing after this command. Name a file.")
        )
    where = workspace_on_store(workspace)
    me = responder_of(name)
    backend = await stack.enter_async_context(open_backend(address))
    person = await backend.directory.find_person(where, me.id)
    desk = await stack.enter_async_context(
        desk_from_store(
            backend.store,
            backend.bus,
            directory=backend.directory,
            policies=backend.policies,
            files=backend.files,
            blobs=backend.blobs,
            workspace=where,
            asker=me.id,
            receipt_key=receipt_key,
        )
    )

    async def find_notices() -> Sequence[str]:
        is_admin = person is not None and person.is_admin
        found = await suspended_rules_for(backend.policies, where, me.id, is_admin=is_admin)
        return [
            suspension_line(rule.name, rule.suspension, viewer=me.id, is_author=is_author)
            for rule, is_author in found
        ]

    return CliSession(
        desk, me if person is None else person.responder, may_answer=True, find_notices=find_notices
    )


def store_address() -> str:
    """The address of the store, or of a server."""
    return address_from(os.environ)


def shown_address() -> str:
    """The address, for people, without its password."""
    return without_secrets(store_address())


def is_server(address: str) -> bool:
    """Whether this is the address of a server."""
    return address.startswith(("http://", "https://"))

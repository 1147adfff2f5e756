"""`handraise sign-in` and `sign-out`: a person's session at a server, stored for the next command."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated, Any, TypeVar
from urllib.parse import parse_qs, urlsplit

import httpx2
import pydantic
import typer

from handraise.cli.exit_codes import CommandError
from handraise.cli.terminal_output import when
from handraise.cli.terminal_texts import shown
from handraise.desk_factory import default_address
from handraise.model.errors import StoreUnavailable, Unauthenticated
from handraise.model.problems import HandraiseError
from handraise.presentation.translation import gettext
from handraise.wire.credentials import TokenKind, read_token
from handraise.wire.problem_documents import ProblemDocument, error_of
from handraise.wire.records import CallerRecord, SessionRecord

T = TypeVar("T", bound=pydantic.BaseModel)

_PATIENCE = 30.0
_ERROR = 400


def sign_in(
    link: Annotated[str, typer.Argument(metavar="LINK", help="The sign-in link, as it was sent to you.")],
) -> None:
    """Sign in to a server with a link.

    The session is stored in a file that only you can read, and used if HANDRAISE_URL is that server and
    HANDRAISE_KEY is not set. A link works once.
    """
    address, token = _parts(link)
    with httpx2.Client(timeout=_PATIENCE) as http:
        try:
            said = _call(http, "POST", f"{address}/v1/sessions", json={"link": token})
        except Unauthenticated:
            raise CommandError(
                gettext("This link does not work: it was already used, or it has expired. Ask for a new one.")
            ) from None
        session = _read(SessionRecord, said)
        bearer = {"authorization": f"Bearer {session.token}"}
        me = _read(CallerRecord, _call(http, "GET", f"{address}/v1/me", headers=bearer))
    _keep({**_kept(), address: session.token})
    text = gettext("Signed in as {name}, until {when}. Now:")
    signed_in = text.format(name=shown(me.person or "?"), when=when(session.expires_at))
    typer.echo(f"{signed_in}\n\n  export HANDRAISE_URL={address}\n  handraise inbox")


def sign_out() -> None:
    """Sign out of the server at HANDRAISE_URL: the session ends on the server and here."""
    address = os.environ.get("HANDRAISE_URL", "").rstrip("/")
    token = kept_session(address)
    if token is None:
        raise CommandError(gettext("You are not signed in to that server. HANDRAISE_URL selects the server."))
    _keep({each: kept for each, kept in _kept().items() if each != address})
    with httpx2.Client(timeout=_PATIENCE) as http:
        bearer = {"authorization": f"Bearer {token}"}
        _call(http, "DELETE", f"{address}/v1/sessions/current", headers=bearer)
    typer.echo(gettext("Signed out."))


def kept_session(address: str) -> str | None:
    """The session that `sign-in` stored for this server, or None; it is never sent to another server."""
    return _kept().get(address.rstrip("/"))


def call_server(
    method: str,
    path: str,
    *,
    workspace: str | None = None,
    json: object = None,
    address: str | None = None,
) -> tuple[str, bytes]:
    """The workspace of the session or key at a server, and what the server responds to a request there.

    Without an `address`, the server is that of HANDRAISE_URL.
    """
    address = (address or os.environ.get("HANDRAISE_URL", "")).rstrip("/")
    token = os.environ.get("HANDRAISE_KEY") or kept_session(address)
    known = None if token is None else read_token(token)
    if known is None:
        raise CommandError(f"You are not signed in to {address}. Sign in: handraise sign-in LINK")
    if workspace not in (None, known.workspace):
        raise CommandError(f"Your session belongs to workspace {known.workspace!r}.")
    with httpx2.Client(timeout=_PATIENCE) as http:
        bearer = {"authorization": f"Bearer {token}"}
        return known.workspace, _call(http, method, f"{address}{path}", headers=bearer, json=json)


def _parts(link: str) -> tuple[str, str]:
    """The server's address and the token in a sign-in link."""
    found = urlsplit(link.strip())
    token = parse_qs(found.query).get("token", [""])[0]
    known = read_token(token)
    if found.scheme not in ("http", "https") or known is None or known.kind is not TokenKind.LINK:
        raise CommandError(
            gettext(
                "That is not a sign-in link: https://…/sign-in/link?token=… Copy the whole link, in quotes."
            )
        )
    path = found.path.removesuffix("/sign-in/link").rstrip("/")
    return f"{found.scheme}://{found.netloc}{path}", token


def _call(http: httpx2.Client, method: str, url: str, **options: Any) -> bytes:
    try:
        response = http.request(method, url, **options)
    except httpx2.HTTPError as failure:
        text = gettext("The server cannot be reached ({reason})")
        raise StoreUnavailable(text.format(reason=failure)) from failure
    if response.status_code >= _ERROR:
        raise _error(response.content)
    return response.content


def _error(content: bytes) -> HandraiseError:
    try:
        return error_of(ProblemDocument.model_validate_json(content), subject="", workspace="", actor="")
    except pydantic.ValidationError:
        return StoreUnavailable(
            gettext("The server's answer cannot be read: is that the address of a Handraise server?")
        )


def _read(kind: type[T], content: bytes) -> T:
    try:
        return kind.model_validate_json(content)
    except pydantic.ValidationError:
        raise _error(b"") from None


def _file() -> Path:
    return Path(default_address().removeprefix("sqlite:///")).with_name("sessions.json")


def _kept() -> dict[str, str]:
    try:
        found = json.loads(_file().read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return {}
    return {str(name): str(token) for name, token in found.items()} if isinstance(found, dict) else {}


def _keep(sessions: dict[str, str]) -> None:
    """Write a new file and replace the old one atomically; nobody else can ever read it."""
    file = _file()
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = file.with_suffix(f".{os.getpid()}")
    draft.unlink(missing_ok=True)
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as writer:
        json.dump(sessions, writer)
    draft.replace(file)

"""Who is at the door: an agent with a key, a person with a session, or a reader with a key; never two of them.

Everything else in the server gets a caller from here. An agent's key has no way to answer: the routes that
answer or administer ask for a person. A reader's key has no way to do anything: it is refused by every route that does not
ask for a `Looker`.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Annotated, TypeAlias
from urllib.parse import urlsplit

from fastapi import Depends
from fastapi.security import HTTPBearer
from starlette.requests import HTTPConnection

from handraise.desk.batcher import Lanes
from handraise.model.errors import PermissionDenied, Unauthenticated
from handraise.model.identities import READER, Person, Role, Session
from handraise.model.people import may_see
from handraise.model.questions import Question
from handraise.ports import Directory
from handraise.server.context import ServerContext
from handraise.wire.credentials import Token, TokenKind, read_token

_TOGETHER = 1_000
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})


@dataclass(frozen=True, slots=True)
class AgentCaller:
    """An agent, by its key."""

    workspace: str
    agent: str
    key_id: str

    @property
    def name(self) -> str:
        """Who this is, among all callers of the workspace."""
        return f"agent:{self.agent}"

    @property
    def claimant(self) -> str:
        """Whose idempotency keys these are."""
        return self.name

    @property
    def credential(self) -> str:
        """With what this agent came; the id of it and no secret."""
        return self.key_id

    @property
    def sight(self) -> Hashable:
        """The same for all callers of the workspace who see the same."""
        return self.name

    def may_see(self, question: Question) -> bool:
        """Whether a question is this agent's own, or one that agents share."""
        return question.asker == self.agent or question.shared


@dataclass(frozen=True, slots=True)
class PersonCaller:
    """A person who is signed in."""

    workspace: str
    person: Person
    session: Session

    @property
    def name(self) -> str:
        """Who this is, among all callers of the workspace."""
        return f"person:{self.person.id}"

    @property
    def claimant(self) -> str:
        """Whose idempotency keys these are; somebody who comes to have the same name later has others."""
        return f"{self.name} since {self.person.created_at.isoformat()}"

    @property
    def credential(self) -> str:
        """With what this person came; the id of it and no secret."""
        return self.session.id

    @property
    def is_admin(self) -> bool:
        """Whether this person administers the workspace."""
        return self.person.role is Role.ADMIN

    @property
    def sight(self) -> Hashable:
        """The same for all callers of the workspace who see the same."""
        return Role.ADMIN if self.is_admin else self.person.responder

    def may_see(self, question: Question) -> bool:
        """Whether a question is this person's to answer, or was; an administrator sees all of them."""
        return self.is_admin or may_see(question, self.person.responder)


@dataclass(frozen=True, slots=True)
class ReaderCaller:
    """A program that reads what is settled in its workspace, by its key."""

    workspace: str
    reader: str
    key_id: str

    @property
    def name(self) -> str:
        """Who this is, among all callers of the workspace."""
        return READER + self.reader

    @property
    def credential(self) -> str:
        """With what this reader came; the id of it and no secret."""
        return self.key_id

    def may_see(self, question: Question) -> bool:
        """Whether a question has ended: what waits is for those who may answer."""
        return question.outcome is not None


Caller: TypeAlias = AgentCaller | PersonCaller
Looker: TypeAlias = Caller | ReaderCaller

BEARER = HTTPBearer(auto_error=False, description="The key of an agent, or the session of a person.")


def house_of(connection: HTTPConnection) -> ServerContext:
    """The server that serves this request."""
    ctx: ServerContext = connection.app.state.ctx
    return ctx


async def _context(connection: HTTPConnection) -> ServerContext:
    """The same for FastAPI, which would call anything but a coroutine in a thread of its own."""
    return house_of(connection)


class Authenticator:
    """Knows whom tokens stand for. Who come with the same one at the same time are looked up together.

    Never by a look that began before they came: whoever's right has ended is not let in any more.
    """

    def __init__(self, directory: Directory) -> None:
        self._directory = directory
        self._looks: Lanes[Token, Looker | None] = Lanes(self._look, _TOGETHER, lambda token: token)

    async def find(self, token: Token) -> Looker | None:
        """Whoever a token stands for now, or None."""
        return await self._looks(token)

    async def _look(self, tokens: Sequence[Token]) -> Sequence[Looker | None]:
        """The same for as many as have the same one."""
        return [await self._find(tokens[0])] * len(tokens)

    async def _find(self, token: Token) -> Looker | None:
        if token.kind in (TokenKind.AGENT, TokenKind.READER):
            key = await self._directory.find_key(token.workspace, token.digest)
            if key is None or key.agent.startswith(READER) is not (token.kind is TokenKind.READER):
                return None
            if token.kind is TokenKind.READER:
                return ReaderCaller(token.workspace, key.agent.removeprefix(READER), key.id)
            return AgentCaller(token.workspace, key.agent, key.id)
        if token.kind is TokenKind.SESSION:
            found = await self._directory.find_session(token.workspace, token.digest)
            return None if found is None else PersonCaller(token.workspace, found[1], found[0])
        return None


async def looker_of(connection: HTTPConnection) -> Looker:
    """Who makes this request, looked up once, also a reader; raises `Unauthenticated`."""
    known: Looker | None = getattr(connection.state, "caller", None)
    if known is None:
        known = await _look_up(connection)
        connection.state.caller = known
    return known


async def caller_of(connection: HTTPConnection) -> Caller:
    """The agent or the person who makes this request; a reader is refused."""
    caller = await looker_of(connection)
    if isinstance(caller, ReaderCaller):
        raise PermissionDenied(caller.name, "this key reads what is settled, and does nothing else")
    return caller


async def agent_of(connection: HTTPConnection) -> AgentCaller:
    """The agent that makes this request; anybody else is refused."""
    caller = await caller_of(connection)
    if not isinstance(caller, AgentCaller):
        raise PermissionDenied(caller.person.id, "this is for agents, with a key of their own")
    return caller


async def person_of(connection: HTTPConnection) -> PersonCaller:
    """The person who makes this request; an agent is refused."""
    caller = await caller_of(connection)
    if not isinstance(caller, PersonCaller):
        raise PermissionDenied(caller.agent, "this is for people, and an agent is none")
    return caller


async def auditor_of(connection: HTTPConnection) -> PersonCaller | ReaderCaller:
    """The administrator or the reader who makes this request; anybody else is refused."""
    caller = await looker_of(connection)
    return caller if isinstance(caller, ReaderCaller) else await admin_of(connection)


async def admin_of(connection: HTTPConnection) -> PersonCaller:
    """The administrator who makes this request; anybody else is refused."""
    caller = await person_of(connection)
    if not caller.is_admin:
        raise PermissionDenied(caller.person.id, "this is for administrators of the workspace")
    return caller


Context = Annotated[ServerContext, Depends(_context)]
AnyCaller = Annotated[Caller, Depends(caller_of)]
AnyLooker = Annotated[Looker, Depends(looker_of)]
TheAuditor = Annotated[PersonCaller | ReaderCaller, Depends(auditor_of)]
TheAgent = Annotated[AgentCaller, Depends(agent_of)]
ThePerson = Annotated[PersonCaller, Depends(person_of)]
TheAdmin = Annotated[PersonCaller, Depends(admin_of)]


def cookie_name(ctx: ServerContext) -> str:
    """The name of the session's cookie; over https the browser itself guards where it came from."""
    return "__Host-handraise" if ctx.settings.is_https else "handraise"


def check_same_origin(connection: HTTPConnection) -> None:
    """Refuse what another site makes a browser send; raises `PermissionDenied`.

    A browser says where a request comes from and no page can change that. Cookies are `SameSite=Lax` besides.
    """
    fetch_site = connection.headers.get("sec-fetch-site")
    if fetch_site is not None:
        if fetch_site in ("same-origin", "none"):
            return
    elif origin := connection.headers.get("origin"):
        ours = {connection.headers.get("host"), urlsplit(house_of(connection).settings.base_url).netloc}
        if origin.partition("://")[2] in ours:
            return
    raise PermissionDenied("a browser", "the request does not come from a page of this server")


def refuse(connection: HTTPConnection) -> None:
    """Count a credential that was no good; an address that brings too many gets `TooManyRequests`."""
    connection.app.state.rates.count_refusal(connection.client.host if connection.client else "")


async def _look_up(connection: HTTPConnection) -> Looker:
    ctx = house_of(connection)
    scheme, _, text = connection.headers.get("authorization", "").partition(" ")
    if scheme:
        token = read_token(text.strip()) if scheme.lower() == "bearer" else None
    else:
        text = connection.cookies.get(cookie_name(ctx), "")
        token = read_token(text)
        if token is not None and connection.scope.get("method") not in SAFE:
            check_same_origin(connection)
    caller = None if token is None else await _authenticator_of(connection).find(token)
    if caller is None:
        if scheme or text:
            refuse(connection)
        raise Unauthenticated("Come with a key or a session that is valid: Authorization: Bearer …")
    connection.app.state.rates.count_request(caller.workspace, caller.credential)
    if not isinstance(caller, PersonCaller):
        connection.app.state.last_used.note(caller.workspace, caller.key_id)
    connection.state.token = token
    return caller


async def still_there(connection: HTTPConnection) -> bool:
    """Whether the credential of a long request is good still, for the same caller with the same rights."""
    known: Looker = connection.state.caller
    return await _authenticator_of(connection).find(connection.state.token) == known


def _authenticator_of(connection: HTTPConnection) -> Authenticator:
    authenticator: Authenticator = connection.app.state.authenticator
    return authenticator

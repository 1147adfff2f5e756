"""Authentication: a caller is an agent, a reader or an administering program with a key, or a person with a session.

An agent's key cannot answer: the routes that answer or administer depend on a person. A reader's key only reads: every
route that does not depend on an `AnyCaller` refuses it. The token of an administering program is refused in the same way,
except by the routes of what an administrator may keep in a file, which depend on a `CurrentConfigurer`.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Annotated, TypeAlias
from urllib.parse import urlsplit

from fastapi import Depends
from fastapi.security import HTTPBearer
from starlette.requests import HTTPConnection

from handraise.desk.batcher import KeyedBatcher
from handraise.model.errors import PermissionDenied, Unauthenticated
from handraise.model.evidence import check_may_administer
from handraise.model.identities import AgentKey, Person, Role, Session
from handraise.model.people import ADMIN_PROGRAM, READER, may_see
from handraise.model.questions import Question
from handraise.ports import Directory
from handraise.presentation.translation import set_locale
from handraise.server.context import ServerContext
from handraise.server.page_locale import page_locale
from handraise.wire.credentials import Token, TokenKind, kind_of_key, read_token

_BATCH = 1_000
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
        """The id of the key; no secret."""
        return self.key_id

    @property
    def visibility_key(self) -> Hashable:
        """Equal for all callers of the workspace who see the same questions."""
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
        """Whose idempotency keys these are; a later person with the same name has others."""
        return f"{self.name} since {self.person.created_at.isoformat()}"

    @property
    def credential(self) -> str:
        """The id of the session; no secret."""
        return self.session.id

    @property
    def by(self) -> str:
        """The name under which changes are recorded."""
        return self.person.id

    @property
    def is_admin(self) -> bool:
        """Whether this person administers the workspace."""
        return self.person.is_admin

    @property
    def visibility_key(self) -> Hashable:
        """Equal for all callers of the workspace who see the same questions."""
        return Role.ADMIN if self.is_admin else self.person.responder

    def may_see(self, question: Question) -> bool:
        """Whether this person may or could answer a question; an administrator sees all."""
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
        """The id of the key; no secret."""
        return self.key_id

    def may_see(self, question: Question) -> bool:
        """Whether a question is settled."""
        return question.outcome is not None


@dataclass(frozen=True, slots=True)
class AdminTokenCaller:
    """A program that administers its workspace, by its token. It sees no question, and cannot ask, answer or vote."""

    workspace: str
    token_name: str
    key_id: str

    @property
    def name(self) -> str:
        """Who this is, among all callers of the workspace."""
        return ADMIN_PROGRAM + self.token_name

    @property
    def by(self) -> str:
        """The name under which changes are recorded."""
        return self.name

    @property
    def claimant(self) -> str:
        """Whose idempotency keys these are."""
        return self.name

    @property
    def credential(self) -> str:
        """The id of the key; no secret."""
        return self.key_id

    def may_see(self, question: Question) -> bool:
        """No question: it administers, and reads nothing that people or agents wrote."""
        del question
        return False


Caller: TypeAlias = AgentCaller | PersonCaller
AnyCaller: TypeAlias = Caller | ReaderCaller | AdminTokenCaller
CallerOrReader: TypeAlias = Caller | ReaderCaller
Configurer: TypeAlias = PersonCaller | AdminTokenCaller

BEARER = HTTPBearer(auto_error=False, description="The key of an agent, or the session of a person.")


def context_of(connection: HTTPConnection) -> ServerContext:
    """The context of the server that serves this request."""
    ctx: ServerContext = connection.app.state.ctx
    return ctx


async def _context(connection: HTTPConnection) -> ServerContext:
    """The same as a coroutine: FastAPI would call a plain function in a thread."""
    return context_of(connection)


class Authenticator:
    """Finds the callers of tokens. Simultaneous requests of a workspace share one lookup, whatever their tokens.

    A request never shares a lookup that started before it came, so a revoked token is refused at once.
    """

    def __init__(self, directory: Directory) -> None:
        self._directory = directory
        self._batches: KeyedBatcher[Token, AnyCaller | None] = KeyedBatcher(
            self._find_batch, _BATCH, lambda token: (token.workspace, token.kind)
        )

    async def find(self, token: Token) -> AnyCaller | None:
        """Find the caller of a token, or None."""
        return await self._batches(token)

    async def _find_batch(self, tokens: Sequence[Token]) -> Sequence[AnyCaller | None]:
        """Find the callers of tokens of one workspace and one kind."""
        workspace, kind = tokens[0].workspace, tokens[0].kind
        digests = {token.digest for token in tokens}
        callers: dict[str, AnyCaller] = {}
        if kind is TokenKind.SESSION:
            sessions = await self._directory.find_sessions(workspace, digests)
            callers = {
                digest: PersonCaller(workspace, person, session)
                for digest, (session, person) in sessions.items()
            }
        elif kind in (TokenKind.AGENT, TokenKind.READER, TokenKind.ADMIN):
            keys = await self._directory.find_keys(workspace, digests)
            callers = {
                digest: _caller_with(key) for digest, key in keys.items() if kind_of_key(key.agent) is kind
            }
        return [callers.get(token.digest) for token in tokens]


def _caller_with(key: AgentKey) -> AgentCaller | ReaderCaller | AdminTokenCaller:
    match kind_of_key(key.agent):
        case TokenKind.READER:
            return ReaderCaller(key.workspace, key.agent.removeprefix(READER), key.id)
        case TokenKind.ADMIN:
            return AdminTokenCaller(key.workspace, key.agent.removeprefix(ADMIN_PROGRAM), key.id)
        case _:
            return AgentCaller(key.workspace, key.agent, key.id)


async def any_caller_of(connection: HTTPConnection) -> AnyCaller:
    """Who makes this request, whoever it is, looked up once; raises `Unauthenticated`."""
    known: AnyCaller | None = getattr(connection.state, "caller", None)
    if known is None:
        known = await _authenticate(connection)
        connection.state.caller = known
        if isinstance(known, PersonCaller):
            set_locale(page_locale(connection, known.person))
    return known


async def caller_or_reader_of(connection: HTTPConnection) -> CallerOrReader:
    """The agent, the person or the reader who makes this request; an administering program is refused."""
    caller = await any_caller_of(connection)
    if isinstance(caller, AdminTokenCaller):
        raise PermissionDenied(
            caller.name, "this token only administers; it cannot ask, answer, vote or make keys and links"
        )
    return caller


async def configurer_of(connection: HTTPConnection) -> Configurer:
    """The administrator, or the program that administers with a token, who makes this request."""
    caller = await any_caller_of(connection)
    return caller if isinstance(caller, AdminTokenCaller) else await admin_of(connection)


async def caller_of(connection: HTTPConnection) -> Caller:
    """The agent or the person who makes this request; a reader is refused."""
    caller = await caller_or_reader_of(connection)
    if isinstance(caller, ReaderCaller):
        raise PermissionDenied(caller.name, "this key only reads settled questions")
    return caller


async def agent_of(connection: HTTPConnection) -> AgentCaller:
    """The agent that makes this request; anybody else is refused."""
    caller = await caller_of(connection)
    if not isinstance(caller, AgentCaller):
        raise PermissionDenied(caller.person.id, "only agents may do this, with their own key")
    return caller


async def person_of(connection: HTTPConnection) -> PersonCaller:
    """The person who makes this request; an agent is refused."""
    caller = await caller_of(connection)
    if not isinstance(caller, PersonCaller):
        raise PermissionDenied(caller.agent, "only people may do this; this is an agent's key")
    return caller


async def auditor_of(connection: HTTPConnection) -> PersonCaller | ReaderCaller:
    """The administrator or the reader who makes this request; anybody else is refused."""
    caller = await caller_or_reader_of(connection)
    return caller if isinstance(caller, ReaderCaller) else await admin_of(connection)


async def admin_of(connection: HTTPConnection) -> PersonCaller:
    """The administrator who makes this request; anybody else is refused, and a change in a session that is too weak."""
    caller = await stopper_of(connection)
    if connection.scope.get("method") not in SAFE:
        check_may_administer(caller.person.id, caller.session.evidence)
    return caller


async def stopper_of(connection: HTTPConnection) -> PersonCaller:
    """The administrator who makes this request, also in a weak session: it only stops something."""
    caller = await person_of(connection)
    if not caller.is_admin:
        raise PermissionDenied(caller.person.id, "only administrators of the workspace may do this")
    return caller


Context = Annotated[ServerContext, Depends(_context)]
CurrentCaller = Annotated[Caller, Depends(caller_of)]
CurrentAnyCaller = Annotated[AnyCaller, Depends(any_caller_of)]
CurrentCallerOrReader = Annotated[CallerOrReader, Depends(caller_or_reader_of)]
CurrentAuditor = Annotated[PersonCaller | ReaderCaller, Depends(auditor_of)]
CurrentAgent = Annotated[AgentCaller, Depends(agent_of)]
CurrentPerson = Annotated[PersonCaller, Depends(person_of)]
CurrentConfigurer = Annotated[Configurer, Depends(configurer_of)]
CurrentAdmin = Annotated[PersonCaller, Depends(admin_of)]
CurrentStopper = Annotated[PersonCaller, Depends(stopper_of)]


def cookie_name(ctx: ServerContext) -> str:
    """The name of the session's cookie; over https the `__Host-` prefix binds it to this host."""
    return "__Host-handraise" if ctx.settings.is_https else "handraise"


def check_same_origin(connection: HTTPConnection) -> None:
    """Refuse requests that another site makes a browser send; raises `PermissionDenied`.

    The browser sets these headers, and no page can change them. Cookies are also `SameSite=Lax`.
    """
    fetch_site = connection.headers.get("sec-fetch-site")
    if fetch_site is not None:
        if fetch_site in ("same-origin", "none"):
            return
    elif origin := connection.headers.get("origin"):
        ours = {connection.headers.get("host"), urlsplit(context_of(connection).settings.base_url).netloc}
        if origin.partition("://")[2] in ours:
            return
    raise PermissionDenied("a browser", "the request does not come from a page of this server")


def count_refusal(connection: HTTPConnection, credential: str) -> None:
    """Count an invalid credential of this kind; raises `TooManyRequests` if one address sends too many."""
    context_of(connection).metrics.count_refused_credential(credential)
    connection.app.state.rate_limits.count_refusal(connection.client.host if connection.client else "")


async def _authenticate(connection: HTTPConnection) -> AnyCaller:
    ctx = context_of(connection)
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
            count_refusal(connection, "key" if scheme else "session")
        raise Unauthenticated(
            "This server does not know the key or session, or it has ended. Send one as Authorization: Bearer …, or set HANDRAISE_KEY."
        )
    count_request(connection, caller)
    if not isinstance(caller, PersonCaller):
        connection.app.state.last_used.note(caller.workspace, caller.key_id)
    connection.state.token = token
    return caller


def count_request(connection: HTTPConnection, caller: AnyCaller) -> None:
    """Count one more request of this caller; raises `TooManyRequests`."""
    rate_limits = connection.app.state.rate_limits
    rate_limits.count_request(caller.workspace, caller.credential)
    if connection.scope.get("method") not in SAFE:
        rate_limits.check_bytes(caller)


async def still_authorized(connection: HTTPConnection) -> bool:
    """Whether the credential of a long request is still valid, with the same rights."""
    known: AnyCaller = connection.state.caller
    return await _authenticator_of(connection).find(connection.state.token) == known


def _authenticator_of(connection: HTTPConnection) -> Authenticator:
    authenticator: Authenticator = connection.app.state.authenticator
    return authenticator

"""Long polls: responses that come when a question is settled, when time is up, or when the server stops."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial

from starlette.requests import HTTPConnection, Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from handraise.model.errors import Unauthenticated
from handraise.model.outcomes import Outcome
from handraise.model.problems import HandraiseError
from handraise.model.questions import Ref
from handraise.server.auth.authenticator import AgentCaller, Caller, still_authorized
from handraise.server.context import ServerContext
from handraise.server.live.long_responses import continue_outside
from handraise.server.live.stream_limits import Held, limits_of
from handraise.server.middleware.error_handlers import problem_response, unexpected_response


class LongPoll(Response):
    """Waits until one of these questions is settled. `render` makes the response from the outcomes by id.

    Raises `TooManyRequests` if the caller may have no more long polls open.
    """

    def __init__(
        self,
        request: Request,
        ctx: ServerContext,
        ids: Sequence[str],
        patience: float,
        render: Callable[[Mapping[str, Outcome]], Response],
    ) -> None:
        super().__init__()
        del self.body
        self._rest = _Rest(request, ctx, ids, patience, render)

    async def __call__(self, scope: Scope, _: Receive, send: Send) -> None:
        """Wait when the route has returned."""
        self._rest.send = send
        continue_outside(scope, self._rest)


class _Rest:
    """The wait and the whole response."""

    __slots__ = ("_caller", "_context", "_held", "_ids", "_patience", "_render", "_scope", "send")

    def __init__(
        self,
        request: Request,
        ctx: ServerContext,
        ids: Sequence[str],
        patience: float,
        render: Callable[[Mapping[str, Outcome]], Response],
    ) -> None:
        self._scope = request.scope
        self._caller: Caller = request.state.caller
        self._context = ctx
        self._ids = ids
        self._patience = patience
        self._render = render
        self._held: Held = limits_of(request).hold(self._caller)
        self.send: Send | None = None

    async def run(self, _: Send, gone: asyncio.Future[None]) -> None:
        """Wait, and respond with the headers of every response."""
        with self._held:
            try:
                response = self._render(await self._settled(gone))
            except HandraiseError as error:
                response = problem_response(error)
            except Exception as error:  # noqa: BLE001 -- the application's own handler is inside of all this
                response = unexpected_response(error)
        if self.send is not None:
            await response(self._scope, _nothing, self.send)

    async def _settled(self, gone: asyncio.Future[None]) -> Mapping[str, Outcome]:
        """Return the outcomes; none if time is up, if the server stops, or if the client has gone."""
        caller = self._caller
        # Only the wait of an agent says that somebody waits for its questions, whatever agents are called.
        asker = caller.agent if isinstance(caller, AgentCaller) else caller.name
        desk = self._context.desk.scoped(caller.workspace, asker=asker)
        stopping = self._context.stopping
        if stopping.is_set() or gone.done():
            return {}
        try:
            async with asyncio.timeout(None) as until:
                end = partial(_end, until)
                gone.add_done_callback(end)
                stopping.callbacks.add(end)
                try:
                    if len(self._ids) == 1:
                        settled = {self._ids[0]: await desk.wait(self._ids[0], timeout=self._patience)}
                    else:
                        first, outcome = await desk.wait_any(self._ids, timeout=self._patience)
                        settled = {first: outcome}
                finally:
                    gone.remove_done_callback(end)
                    stopping.callbacks.discard(end)
        except TimeoutError:  # `StillPending` is one
            return {}
        if not await still_authorized(HTTPConnection(self._scope)):
            raise Unauthenticated("This key or session has ended meanwhile.")
        if len(self._ids) > 1:  # others may have been settled with it
            refs = [Ref(caller.workspace, each) for each in self._ids]
            now = await self._context.engine.store.outcomes(refs)
            settled |= {ref.id: outcome for ref, outcome in now.items() if outcome is not None}
        return settled


async def _nothing() -> Message:
    """Receive nothing: the response needs no more of the request."""
    return {"type": "http.disconnect"}


def _end(until: asyncio.Timeout, *_: object) -> None:
    """End a wait now, as if its time were up."""
    with suppress(RuntimeError):  # it is ending already
        until.reschedule(asyncio.get_running_loop().time())

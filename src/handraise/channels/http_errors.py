"""What a service's answer over HTTP means: whether and when another try could help, and whether it arrived perhaps."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Container, Mapping
from datetime import timedelta
from typing import Any

from handraise.channels.payloads import InvalidPayload, read_object
from handraise.channels.safe_http import Answered, asked_to_wait
from handraise.model.errors import MissingExtra
from handraise.model.visible import visible_line
from handraise.ports.channel import NotSent

try:
    import httpx2
except ImportError as error:
    raise MissingExtra("httpx2", "server") from error

_LONGEST_WAIT = _A_WHILE = timedelta(hours=1)
_LONGEST_REASON = 120
_REDIRECTS, _TROUBLE = range(300, 400), 500
_BUSY = frozenset({408, 425, 429})
_PASSING = _BUSY | {401, 409, 412}
"""A token can be corrected, and a busy service will be free again."""


class Refused(NotSent):
    """A service did not do what it was asked. `why` and `told` are its own words, `code` its own name for it."""

    def __init__(
        self,
        service: str,
        what: str,
        why: str,
        *,
        status: int = 200,
        code: str | int | None = None,
        told: Mapping[str, Any] | None = None,
        again: bool = True,
        after: timedelta | None = None,
    ) -> None:
        self.why = visible_line(why)[:_LONGEST_REASON]
        super().__init__(f"{service} says “{self.why}” to {what}", again=again, after=after)
        self.status = status
        self.code = code
        self.told = told or {}


async def answer_to(request: Awaitable[httpx2.Response], service: str, what: str) -> httpx2.Response:
    """The answer to a request; raises `NotSent` if none came, or the server was in trouble.

    Without the error itself: it contains the request, and the request contains a token.
    """
    try:
        answer = await request
    except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout) as error:
        raise NotSent(f"{service} cannot be reached: {type(error).__name__}") from None
    except httpx2.HTTPError as error:
        raise NotSent(f"no answer from {service}: {type(error).__name__}", arrived_perhaps=True) from None
    if answer.status_code >= _TROUBLE:
        problem = f"{service} answered {answer.status_code} to {what}"
        raise NotSent(problem, after=wait_of(answer), arrived_perhaps=True)
    return answer


async def exchange(
    request: Awaitable[httpx2.Response], service: str, what: str, *, may_be_empty: bool = False
) -> tuple[httpx2.Response, dict[str, Any]]:
    """The answer to a request and its JSON object; raises `NotSent`. For a refusal without an object, it is empty."""
    answer = await answer_to(request, service, what)
    try:
        return answer, read_object(answer.content)
    except InvalidPayload:
        if not answer.is_success or (may_be_empty and not answer.content):
            return answer, {}
        problem = f"{service} answered {what} with something that is not its own"
        raise NotSent(problem, arrived_perhaps=True) from None


def refusal(
    answer: httpx2.Response,
    service: str,
    what: str,
    why: str,
    *,
    is_final: bool,
    code: str | int | None = None,
    told: Mapping[str, Any] | None = None,
    wait: object = None,
) -> Refused:
    """What a refusal means for another try. `wait` is how many seconds the service asks for besides the header."""
    status = answer.status_code
    return Refused(
        service,
        what,
        why,
        status=status,
        code=code,
        told=told,
        again=status in _PASSING or not is_final,
        after=wait_of(answer, wait),
    )


def wait_of(answer: httpx2.Response, seconds: object = None) -> timedelta | None:
    """How long a service asks to wait, in its answer or in its header, up to a limit."""
    if isinstance(seconds, int | float) and not isinstance(seconds, bool) and seconds >= 0:
        return timedelta(seconds=min(seconds, _LONGEST_WAIT.total_seconds()))
    asked = asked_to_wait(answer.headers.get("retry-after"), time.time())
    return None if asked is None else min(asked, _LONGEST_WAIT)


def status_error(who: str, answered: Answered, *, final: Container[int], now: float) -> NotSent:
    """What a status other than success means for another try, if nothing else is read."""
    status, problem = answered.status, f"{who} answered {answered.status}"
    if status in final:
        return NotSent(problem, again=False)
    if status in _BUSY or status >= _TROUBLE:
        return NotSent(problem, after=asked_to_wait(answered.headers.get("retry-after"), now))
    if status in _REDIRECTS:
        problem += ", and redirects are not followed"
    # A token that is invalid, or a place that is not ours: somebody may fix that.
    return NotSent(problem, within=_A_WHILE)

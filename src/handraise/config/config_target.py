"""The workspace that a configuration is for, and what is known about its server."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from handraise.channels.address_examples import not_an_address
from handraise.channels.push_subscriptions import NAME as WEBPUSH
from handraise.config.config_state import ConfigPorts
from handraise.model.json_values import Json
from handraise.model.seals import Rule
from handraise.ports.channel import Channel


async def _nothing(_group: str) -> None:
    """What a process without the settings of a server does about a new rota: a server fetches it within a minute."""


@dataclass(frozen=True, kw_only=True)
class ConfigTarget:
    """A workspace, who changes it, and what only its server knows.

    Without `channels` no address is checked. `uses_email` says whether the server sends e-mail, `kept_by_default` for how
    long it keeps settled questions (None for ever), `rota_problem` what is wrong with the address of a calendar.
    `may_come` says whether somebody may get a name without being added first. `rota_changed` is called with a group that
    follows another calendar.
    """

    ports: ConfigPorts = field(repr=False)
    workspace: str
    by: str
    channels: Mapping[str, Channel] | None = None
    uses_email: bool = False
    kept_by_default: timedelta | None = None
    checks_recipients: bool = True
    may_come: Callable[[str, str], bool] = lambda _workspace, _name: False
    rota_problem: Callable[[str], str | None] = lambda _address: None
    rota_changed: Callable[[str], Awaitable[None]] = _nothing

    def keeps(self, rule: Rule | None) -> timedelta | None:
        """For how long settled questions are kept with a rule; None for ever."""
        return self.kept_by_default if rule is None else rule.keep

    def address_problems(self, channel: str, to: Json) -> Iterator[str]:
        """What is wrong with an address."""
        if channel == WEBPUSH:
            yield "is added by people's browsers: leave it out"
        elif self.channels is None:
            return
        elif (known := self.channels.get(channel)) is None:
            yield f"this server has no such channel; it has: {', '.join(sorted(self.channels)) or 'none'}"
        elif known.rate_limit_key(to) is None:
            yield not_an_address(channel)

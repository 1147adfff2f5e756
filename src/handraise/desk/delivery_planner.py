"""Decide whom to notify: turns the entries of the outbox into deliveries."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta

import pydantic

from handraise.desk.engine import Engine
from handraise.desk.public_holidays import holidays_of
from handraise.model.deliveries import Address, Reason
from handraise.model.errors import DeskClosed, StoreUnavailable
from handraise.model.events import EventKind
from handraise.model.group_calendars import WorkspaceCalendars
from handraise.model.people import GROUP
from handraise.model.questions import Question, Ref, open_stage
from handraise.model.routing import (
    Notification,
    Recent,
    Routing,
    deputies_among,
    names_for,
    plan,
    with_deputies,
)
from handraise.model.working_hours import NoWorkingTime, next_open
from handraise.ports import Directory
from handraise.ports.outbox import Outbox, OutboxEntry, RoutedEntry

_log = logging.getLogger(__name__)

_AT_ONCE = 200
"""How many entries of one workspace are routed before the other workspaces."""
_WORKSPACES = 1_000
_HOUR = timedelta(hours=1)
_REASONS: Mapping[EventKind, Reason] = {
    EventKind.ASKED: "asked",
    EventKind.OPENED: "asked",
    EventKind.VOTED: "asked",  # of the people of a stage that the vote has opened
    EventKind.REMINDED: "reminded",
    EventKind.ESCALATED: "escalated",
    EventKind.BROUGHT_IN: "brought_in",
    EventKind.HANDED_OVER: "brought_in",
    EventKind.NOTED: "noted",
    EventKind.REPLIED: "replied",
}


class DeliveryPlanner:
    """Routes the entries of every workspace; any number of planners may work at once."""

    def __init__(
        self,
        engine: Engine,
        outbox: Outbox,
        directory: Directory,
        rate_limit_key_of: Callable[[Address], str | None],
    ) -> None:
        self._engine = engine
        self._outbox = outbox
        self._directory = directory
        self._rate_limit_key_of = rate_limit_key_of

    async def route_some(self) -> bool:
        """Route the oldest entries of every workspace, and return whether there may be more."""
        workspaces = await self._outbox.workspaces_with_entries(limit=_WORKSPACES)
        more = len(workspaces) == _WORKSPACES
        for workspace in workspaces:
            try:
                if entries := await self._outbox.entries(workspace, limit=_AT_ONCE):
                    await self._route(workspace, entries)
                    more = more or len(entries) == _AT_ONCE
            except (DeskClosed, StoreUnavailable):
                raise
            except Exception as error:  # noqa: BLE001 -- one workspace must not hold up the others
                _log.error(
                    "the entries of a workspace cannot be routed; they wait",
                    exc_info=error,
                    extra={"event": "routing_failed"},
                )
        return more

    async def _route(self, workspace: str, entries: Sequence[OutboxEntry]) -> None:
        policy = await self._policy(workspace)
        members = await self._directory.groups(workspace)
        away = await self._directory.away(workspace)
        disabled = await self._directory.disabled_people(workspace)
        calendars = await self._directory.calendars(workspace)
        on_duty = {
            name: each.on_duty(calendars.now)
            for name, each in calendars.groups.items()
            if each.rota is not None and each.problem is None
        }
        recent = Recent.nothing()
        if policy.counts:
            recent = await self._outbox.recent(workspace, since=entries[0].now - _HOUR)
        ids = dict.fromkeys(entry.question_id for entry in entries)
        found = await self._engine.store.read([Ref(workspace, each) for each in ids])
        questions = dict(zip(ids, found, strict=True))
        notifications = {
            entry.number: _notification_for(entry, questions[entry.question_id]) for entry in entries
        }
        names = {
            entry.number: _without_aside(
                {
                    name: recipient
                    for name, recipient in names_for(notification, policy, members, on_duty).items()
                    if name not in disabled
                },
                notification,
                entry.now,
            )
            for entry in entries
            if (notification := notifications[entry.number])
        }
        deputies = {
            number: deputies_among(notification, names[number], away, members)
            for number, notification in notifications.items()
            if notification
        }
        wanted = {name for each in names.values() for name in each}
        wanted |= {deputy for each in deputies.values() for deputy in each.values()}
        addresses = await self._outbox.addresses(workspace, wanted)
        reachable = {each.recipient for each in addresses if self._rate_limit_key_of(each) is not None}
        names = {number: with_deputies(each, deputies[number], reachable) for number, each in names.items()}
        routed = []
        for entry in entries:
            notification = notifications[entry.number]
            if notification is None:
                routed.append(RoutedEntry(entry=entry, settled=entry.kind not in _REASONS))
                continue
            planned = plan(
                notification,
                policy,
                names=names[entry.number],
                addresses=[each for each in addresses if each.recipient in names[entry.number]],
                rate_limit_key_of=self._rate_limit_key_of,
                recent=recent,
                now=entry.now,
                opens=_opens(calendars, names[entry.number], entry.now),
            )
            nobody = not planned.deliveries and not planned.left_out
            routed.append(RoutedEntry(entry=entry, deliveries=planned.deliveries, nobody=nobody))
        await self._outbox.route(workspace, routed)
        self._engine.notify_feed(workspace)

    async def _policy(self, workspace: str) -> Routing:
        stored = await self._outbox.routing(workspace)
        try:
            return Routing.model_validate(stored or {})
        except pydantic.ValidationError as error:
            # Probably written by a newer release: better to notify everybody everywhere than nobody.
            _log.warning(
                "the policy of %s cannot be read and is left out: %s",
                workspace,
                error,
                extra={"event": "policy_unreadable"},
            )
            return Routing()


def _without_aside(names: Mapping[str, str], notification: Notification, now: datetime) -> dict[str, str]:
    """Leave out people who do not want the question in their inbox. Who is brought in after that is told once."""
    question = notification.question
    if not question.aside or notification.reason == "brought_in":
        return dict(names)
    return {name: recipient for name, recipient in names.items() if not question.is_aside(name, now)}


def _opens(calendars: WorkspaceCalendars, names: Mapping[str, str], now: datetime) -> Mapping[str, datetime]:
    """When the working hours of each group begin for which somebody is notified, if it has some."""
    found = {}
    for name in set(names.values()):
        group = name.removeprefix(GROUP)
        calendar = calendars.groups.get(group) if name.startswith(GROUP) else None
        if calendar is None or calendar.hours is None:
            continue
        try:
            found[name] = next_open(calendar.hours, now, holidays_of(calendar.hours))
        except NoWorkingTime:
            _log.warning(
                "the group %r never works, so its reminders do not wait",
                group,
                extra={"event": "group_never_works"},
            )
    return found


def _notification_for(entry: OutboxEntry, question: Question | None) -> Notification | None:
    """The notification for an entry, or None if there is nothing to say any more."""
    reason = _REASONS.get(entry.kind)
    if reason is None or question is None or question.outcome is not None or question.follows is not None:
        return None
    to = question.audience
    named: Sequence[str] = entry.data.get("to", ()) if isinstance(entry.data, dict) else ()
    if entry.kind is EventKind.ASKED and question.stage is not None:
        named = question.asked_in(open_stage(question.needs, ()))
    if named and question.needs:  # people of other stages are asked in their turn
        named = [name for name in named if not to or name in to]
        if not named:
            return None
    to = tuple(named) or to
    if entry.kind is EventKind.NOTED and isinstance(entry.data, dict):  # its author knows
        to = tuple(name for name in to if name != entry.data.get("by"))
        if question.audience and not to:
            return None
    turn = 0 if reason == "asked" else question.steps_taken
    return Notification(question, reason, entry.number, turn, to)

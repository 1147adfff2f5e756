"""Tells the author of a rule that it was suspended, through channels that can carry a text.

The outbox carries messages about pending questions only. So this is tried once, by the process in which the spot check
was denied; the notices in the inbox stay until the rule is resumed or the policy changed.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from urllib.parse import quote

from handraise.desk.rule_suspensions import SuspendedRule, find_author, suspended_rules
from handraise.model.policy_versions import Suspension
from handraise.model.problems import HandraiseError
from handraise.model.questions import Question
from handraise.model.visible import visible_line
from handraise.ports import Directory, Outbox, Policies
from handraise.ports.channel import Channel, NotSent, TextSender
from handraise.presentation.names import display_name
from handraise.presentation.suspension_text import suspension_line
from handraise.presentation.translation import Locale, gettext, person_locale, use_locale

_log = logging.getLogger(__name__)
_LONGEST_PROMPT = 200


class SuspensionMails:
    """Sends one message for each rule that a denial in this process suspended."""

    def __init__(
        self,
        policies: Policies,
        directory: Directory,
        outbox: Outbox,
        channels: Mapping[str, Channel],
        *,
        base_url: str,
        locale: Locale,
    ) -> None:
        self._policies = policies
        self._directory = directory
        self._outbox = outbox
        self._channels = {
            name: channel for name, channel in channels.items() if isinstance(channel, TextSender)
        }
        self._base_url = base_url
        self._locale = locale

    async def tell(self, question: Question) -> None:
        """Tell the author of the rule that the denial of this question suspended, if it did."""
        if not self._channels:
            return
        try:
            rule = await self._suspended_by(question)
            if rule is None:
                return
            author = await find_author(self._policies, question.workspace, rule.name)
            if author is not None:
                await self._send(question, rule, author)
        except HandraiseError as error:
            _log.warning(
                "the author of a suspended rule could not be told: %s",
                error,
                extra={"event": "suspension_mail_failed"},
            )

    async def _suspended_by(self, question: Question) -> SuspendedRule | None:
        found = suspended_rules(await self._policies.current(question.workspace))
        return next((each for each in found if each.suspension.question_id == question.id), None)

    async def _send(self, question: Question, rule: SuspendedRule, author: str) -> None:
        person = await self._directory.find_person(question.workspace, author)
        if person is None:
            return
        with use_locale(person_locale(person, self._locale)):
            for address in await self._outbox.addresses(question.workspace, [author]):
                channel = self._channels.get(address.channel)
                if channel is None:
                    continue
                subject, text, lines = self._text(question, rule.name, rule.suspension)
                try:
                    await channel.send_text(
                        address.to,
                        id=f"{question.id}.suspended",
                        at=rule.suspension.at,
                        subject=subject,
                        text=text,
                        lines=lines,
                    )
                except NotSent as error:
                    _log.warning(
                        "the author of a suspended rule could not be told: %s",
                        error,
                        extra={"event": "suspension_mail_failed"},
                    )

    def _text(self, question: Question, rule: str, suspension: Suspension) -> tuple[str, str, list[str]]:
        subject = gettext("Your rule “{rule}” was suspended").format(rule=display_name(rule))
        text = " ".join(
            (
                suspension_line(rule, suspension, is_author=True),
                gettext("It allows nothing until an administrator resumes it or changes the policy."),
            )
        )
        prompt = visible_line(question.prompt[: _LONGEST_PROMPT + 1])
        shown = prompt if len(prompt) <= _LONGEST_PROMPT else f"{prompt[: _LONGEST_PROMPT - 1].rstrip()}…"
        lines = [
            f"{display_name(question.asker)}: {shown}",
            f"{self._base_url}/questions/{quote(question.id, safe='')}",
            f"{self._base_url}/policy",
        ]
        return subject, text, lines

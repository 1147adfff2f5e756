"""What all pages of the administration share: the navigation, notices, and problems shown at their fields."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pydantic
from starlette.responses import RedirectResponse, Response

from handraise.model.errors import InvalidRequest
from handraise.presentation.error_text import error_text
from handraise.presentation.translation import gettext, gettext_noop
from handraise.server.auth.authenticator import PersonCaller
from handraise.server.web.pages import live_page


@dataclass(frozen=True, slots=True)
class Place:
    """One page in the navigation of the administration. Its texts are not translated yet."""

    key: str
    href: str
    title: str
    about: str


NAVIGATION: tuple[tuple[str, tuple[Place, ...]], ...] = (
    (
        gettext_noop("Who"),
        (
            Place(
                "people",
                "/admin/people",
                gettext_noop("People"),
                gettext_noop("Who answers, and how they sign in"),
            ),
            Place(
                "groups", "/admin/groups", gettext_noop("Groups"), gettext_noop("Members, hours and rotas")
            ),
            Place(
                "keys",
                "/admin/keys",
                gettext_noop("Agent keys"),
                gettext_noop("With a key, an agent can ask"),
            ),
        ),
    ),
    (
        gettext_noop("How people are reached"),
        (
            Place(
                "channels",
                "/admin/channels",
                gettext_noop("Channels"),
                gettext_noop("What works, and a test message"),
            ),
            Place(
                "addresses",
                "/admin/addresses",
                gettext_noop("Addresses"),
                gettext_noop("Where each person and group is reached"),
            ),
            Place(
                "routing",
                "/admin/routing",
                gettext_noop("Routing"),
                gettext_noop("Which channel, and when"),
            ),
            Place(
                "deliveries",
                "/admin/deliveries",
                gettext_noop("Failed deliveries"),
                gettext_noop("Messages that did not arrive"),
            ),
        ),
    ),
    (
        gettext_noop("What agents may do"),
        (
            Place("policy", "/policy", gettext_noop("Policy"), gettext_noop("Which questions need whom")),
            Place("stops", "/stops", gettext_noop("Stops"), gettext_noop("Stop an agent or a tool now")),
            Place(
                "grants",
                "/admin/grants",
                gettext_noop("Grants"),
                gettext_noop("Approvals that last longer than once"),
            ),
            Place(
                "standing",
                "/standing-answers",
                gettext_noop("Standing answers"),
                gettext_noop("Answers that are kept for a topic"),
            ),
            Place(
                "limits",
                "/admin/limits",
                gettext_noop("Limits"),
                gettext_noop("Quotas and sizes of this server"),
            ),
        ),
    ),
    (
        gettext_noop("What is recorded"),
        (
            Place(
                "audit",
                "/admin/audit",
                gettext_noop("Audit trail"),
                gettext_noop("Who changed what; verify and export it"),
            ),
            Place(
                "retention",
                "/admin/retention",
                gettext_noop("Retention"),
                gettext_noop("How long things are kept, holds, erasure"),
            ),
        ),
    ),
)
"""All pages, in the order in which they are shown."""

_DONE = {
    "added": gettext_noop("Added."),
    "saved": gettext_noop("Saved."),
    "removed": gettext_noop("Removed."),
    "ended": gettext_noop("Signed out."),
    "revoked": gettext_noop("Revoked."),
    "retried": gettext_noop("It is tried again now."),
    "held": gettext_noop("The hold is in place."),
    "lifted": gettext_noop("The hold is lifted."),
}
"""What a page says after a form has worked. The address only has the word on the left, so no address can lie."""


def admin_page(
    template: str,
    admin: PersonCaller,
    place: str,
    *,
    status: int = 200,
    done: str = "",
    problems: Mapping[str, str] | None = None,
    typed: Mapping[str, Any] | None = None,
    **values: Any,
) -> Response:
    """Render a page of the administration.

    `problems` are sentences by the names of fields; the empty name is for the whole form. `typed` is what was sent, so
    that nothing has to be typed again.
    """
    return live_page(
        f"admin/{template}.html",
        status=status,
        person=admin.person,
        section="admin",
        place=place,
        navigation=NAVIGATION,
        done=gettext(_DONE[done]) if done in _DONE else "",
        problems=dict(problems or {}),
        typed=defaultdict(str, typed or {}),
        **values,
    )


def confirm_page(
    admin: PersonCaller,
    place: str,
    *,
    title: str,
    text: str,
    action: str,
    button: str,
    back: str,
    kept: Mapping[str, str] | None = None,
    left: Sequence[str] = (),
) -> Response:
    """Ask whether something is meant that cannot be undone. The form comes back with `sure`.

    `left` are sentences about what then needs somebody else.
    """
    return admin_page(
        "confirm",
        admin,
        place,
        title=title,
        text=text,
        action=action,
        button=button,
        back=back,
        kept=dict(kept or {}),
        left=left,
    )


def to(path: str, done: str, anchor: str = "") -> Response:
    """Redirect to a page that says that it is done."""
    return RedirectResponse(f"{path}?done={done}{f'#{anchor}' if anchor else ''}", 303)


def field_problems(error: InvalidRequest) -> dict[str, str]:
    """What is wrong with a request, by the last part of its path: `body.email` is the field `email`."""
    found: dict[str, str] = {}
    for each in error.problems:
        name = next((part for part in reversed(each.path.split(".")) if not part.isdecimal()), "")
        found.setdefault(name, error_text(each.message))
    return found


def invalid_fields(error: pydantic.ValidationError, texts: Mapping[str, str]) -> dict[str, str]:
    """What is wrong with what was typed, in the sentences of the form; `texts` are not translated yet."""
    found: dict[str, str] = {}
    for each in error.errors():
        name = next((part for part in reversed(each["loc"]) if isinstance(part, str)), "")
        said = texts.get(name)
        found.setdefault(name, gettext(said) if said else each["msg"].removeprefix("Value error, "))
    return found

"""A suspended rule, in words."""

from __future__ import annotations

from handraise.model.policy_versions import Suspension
from handraise.presentation.names import display_name, person_name
from handraise.presentation.translation import gettext


def suspension_line(rule: str, suspension: Suspension, *, viewer: str = "", is_author: bool = False) -> str:
    """Which rule was suspended and by whose denial, as a sentence to somebody who wrote the rule, or did not."""
    text = (
        gettext("Your rule “{rule}” was suspended: a spot check of it was denied by {person}.")
        if is_author
        else gettext("The rule “{rule}” was suspended: a spot check of it was denied by {person}.")
    )
    return text.format(rule=display_name(rule), person=person_name(suspension.by, viewer=viewer))

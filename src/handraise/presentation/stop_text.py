"""What is stopped, in words."""

from __future__ import annotations

from handraise.model.stops import Stop
from handraise.presentation.names import display_name, person_name
from handraise.presentation.translation import gettext


def stop_title(stop: Stop) -> str:
    """What a stop covers, as a sentence without its end."""
    agent = None if stop.agent is None else display_name(stop.agent)
    tool = None if stop.tool is None else display_name(stop.tool)
    if agent is None and tool is None:
        return gettext("Everything in this workspace is stopped")
    if tool is None:
        return gettext("The agent {agent} is stopped").format(agent=agent)
    if agent is None:
        return gettext("The tool {tool} is stopped").format(tool=tool)
    return gettext("The tool {tool} of the agent {agent} is stopped").format(tool=tool, agent=agent)


def stopped_by(stop: Stop, *, viewer: str = "") -> str:
    """Who stopped it."""
    if stop.by is None:
        return gettext("by an operator")
    return gettext("by {person}").format(person=person_name(stop.by, viewer=viewer))

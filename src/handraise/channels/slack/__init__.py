"""Slack: questions as messages with buttons, answered there; over HTTP or Socket Mode.

Needs `pip install "handraise[slack]"`.
"""

try:
    from handraise.channels.slack.channel import Slack, open_slack
except ImportError as error:
    from handraise.model.errors import MissingExtra

    if isinstance(error, MissingExtra):  # of a part that other channels use too
        raise MissingExtra(error.package, "slack") from error
    if error.name not in ("httpx2", "websockets"):
        raise
    raise MissingExtra(error.name, "slack") from error

__all__ = ["Slack", "open_slack"]

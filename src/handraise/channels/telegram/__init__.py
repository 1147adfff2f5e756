"""Telegram: questions as messages with buttons, answered there or by a reply; over HTTP or long polling.

Needs `pip install "handraise[telegram]"`. Written by hand instead of using a bot framework: little is needed.
"""

try:
    from handraise.channels.telegram.channel import Telegram, open_telegram
except ImportError as error:
    from handraise.model.errors import MissingExtra

    if isinstance(error, MissingExtra):  # of a part that other channels use too
        raise MissingExtra(error.package, "telegram") from error
    if error.name != "httpx2":
        raise
    raise MissingExtra(error.name, "telegram") from error

__all__ = ["Telegram", "open_telegram"]

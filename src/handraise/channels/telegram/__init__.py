"""Telegram: questions as messages with buttons, answered there or by a reply; over HTTP or long polling.

Needs `pip install "handraise[telegram]"`. By hand rather than with a bot framework: the wire is small.
"""

try:
    from handraise.channels.telegram.channel import Telegram, open_telegram
except ModuleNotFoundError as error:
    from handraise.model.errors import MissingExtra

    if error.name != "httpx2":
        raise
    raise MissingExtra(error.name, "telegram") from error

__all__ = ["Telegram", "open_telegram"]

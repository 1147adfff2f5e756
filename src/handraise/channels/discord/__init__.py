"""Discord: questions as messages with buttons, answered there; over its REST API and signed requests.

Written by hand instead of using discord.py, which needs a gateway connection for each process; none is needed here.
Needs `pip install "handraise[discord]"`.
"""

try:
    from handraise.channels.discord.channel import Discord, open_discord
except ImportError as error:
    from handraise.model.errors import MissingExtra

    if isinstance(error, MissingExtra):  # of a part that other channels use too
        raise MissingExtra(error.package, "discord") from error
    missing = (error.name or "").partition(".")[0]
    if missing not in ("httpx2", "cryptography"):
        raise
    raise MissingExtra(missing, "discord") from error

__all__ = ["Discord", "open_discord"]

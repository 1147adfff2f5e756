"""What the addresses of each channel look like, for people who wrote another one."""

from __future__ import annotations

ADDRESS_EXAMPLES = {
    "email": '{"address": "ann@example.com"}',
    "slack": '{"user": "U024BE7LH"} or {"channel": "C024BE91L"}',
    "teams": '{"user": "0a0a0a0a-0000-4000-8000-00000000000a"} or {"conversation": "19:8b0d5a0e@thread.tacv2"}',
    "discord": '{"user": "80351110224678912"} or {"channel": "103735883630395392"}',
    "telegram": '{"chat": 987654321}',
    "ntfy": '{"topic": "ann_Zr81TqLmB4vXw0"}',
    "apprise": '{"url": "pover://user@token"}',
    "webhook": '{"url": "https://pager.example.com/hook", "secret": "whsec_…"}',
}


def not_an_address(channel: str) -> str:
    """What to tell somebody whose address does not fit the channel."""
    if channel in ADDRESS_EXAMPLES:
        return f"is not an address of this channel: write {ADDRESS_EXAMPLES[channel]}"
    return "is not an address of this channel: see what the channel's own documentation says"

"""Ways to reach people, one file each. Each needs its own extra; the file says which.

A channel renders questions for its medium, sends them, and changes them when they have ended; what comes back
goes through `Replies`, which is the same for all.
"""

from handraise.channels.inbound_replies import Replies, Reply, ReplyResult

__all__ = ["Replies", "Reply", "ReplyResult"]

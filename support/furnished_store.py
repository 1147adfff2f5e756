"""A store with an agent and a person, for tests of clients: `python -m support.furnished_store URL` prints their tokens.

The agent is "deployer", the person is "ana"; there are other agents too. One process instead of one for each command.
"""

from __future__ import annotations

import asyncio
import json
import sys

from handraise import Responder
from handraise.desk_factory import open_backend
from handraise.model.identities import Role
from support.issuer import Issuer


async def main(url: str) -> None:
    """Make both, and print their tokens."""
    async with open_backend(url) as backend:
        issuer = Issuer(backend.directory, role=Role.MEMBER)
        key, *others = [await issuer.agent("default", name) for name in ("deployer", "in-deno", "in-bun")]
        session = await issuer.person("default", Responder(id="ana"))
    print(json.dumps({"key": key, "others": others, "session": session}))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))

"""A DBOS application that asks, for the tests to start and kill: `app_dbos.py database log die`.

It says in the log what its steps did. With `die` it kills itself right behind posting, before DBOS has the step's result.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Unpack

from dbos import DBOS, SetWorkflowID

from handraise import Question
from handraise.blocking import BlockingDesk, open_desk
from handraise.integrations.dbos import ask
from handraise.questions import QuestionOptions

_, DATABASE, LOG, *REST = sys.argv


def write(line: str) -> None:
    with Path(LOG).open("a", encoding="utf-8") as log:
        log.write(line + "\n")


@DBOS.step()
def prepare() -> None:
    write("prepared")


@DBOS.workflow()
def deploy() -> str:
    prepare()
    strategy = ask(desk, "How?", choices=["Canary", "Rolling"])
    write(f"goes on with {strategy}")
    return str(strategy)


def post_and_die(self: BlockingDesk, prompt: str, **options: Unpack[QuestionOptions]) -> Question:
    posted = post(self, prompt, **options)
    os.kill(os.getpid(), signal.SIGKILL)
    return posted


if "die" in REST:
    post = BlockingDesk.post
    setattr(BlockingDesk, "post", post_and_die)  # noqa: B010 -- a type checker minds the plain form

with open_desk() as desk:
    DBOS(
        config={
            "name": "app",
            "system_database_url": DATABASE,
            "application_version": "1",
            "notification_listener_polling_interval_sec": 0.02,
        }
    )
    DBOS.launch()
    with SetWorkflowID("deploy-1"):
        print("result:", DBOS.start_workflow(deploy).get_result(), flush=True)
    DBOS.destroy()

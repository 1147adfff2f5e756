"""Flows that ask, served by a process that tests start and kill. They say in the log at `APP_LOG` what they did."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from unittest import mock

from prefect import flow, serve, suspend_flow_run, task

from handraise import Answered, Approval, NotAnswered, NotApproved
from handraise.blocking import open_desk
from handraise.integrations import prefect as asking
from handraise.integrations.prefect import ask, ask_async, post, request_approval, wait
from handraise.outcomes import Returned
from handraise.questions import QuestionOptions


def write(line: str) -> None:
    with Path(os.environ["APP_LOG"]).open("a", encoding="utf-8") as log:
        log.write(line + "\n")


@task(persist_result=True)
def prepare() -> str:
    write("prepared")
    return "prepared"


@flow
def deploy() -> None:
    prepare()
    with open_desk() as desk:
        strategy = ask(desk, "How?", choices=["Canary", "Rolling"])
    write(f"goes on with {strategy}")


@flow
async def deploy_async() -> None:
    with open_desk() as desk:
        strategy = await ask_async(desk, "How, async?", choices=["Canary", "Rolling"])
    write(f"goes on with {strategy}")


@flow
def two() -> None:
    with open_desk() as desk:
        asked = [post(desk, f"{name}?", choices=["a", "b"]) for name in ("First", "Second")]
        found = [wait(desk, each) for each in asked]
    write(f"goes on with {[each.value for each in found if isinstance(each, Answered)]}")


@flow
def refund() -> None:
    approval = Approval.of("send_refund", {"order": "A-17", "amount": 40}, editable=["amount"])
    with open_desk() as desk:
        try:
            write(f"refunds {request_approval(desk, approval, replies='program').arguments}")
        except NotApproved as refused:
            write(f"refunds nothing: {refused}")


@flow
def ending(expires_in: str = "1h") -> None:
    with open_desk() as desk:
        try:
            ask(desk, "Now?", expires_in=expires_in)
        except NotAnswered as ended:
            write(f"{ended.outcome.status}: {getattr(ended.outcome, 'reason', None)}")


@flow
def sent_back() -> None:
    amount, options = 300, QuestionOptions()
    with open_desk() as desk:
        while True:
            try:
                action = request_approval(desk, Approval.of("refund", {"amount": amount}), **options)
                write(f"refunds {action.arguments}")
                break
            except NotApproved as refused:
                if not isinstance(refused.outcome, Returned):
                    raise
                amount, options["replaces"] = int(refused.outcome.reason), refused.question_id


@flow
def answered_meanwhile() -> None:
    """Somebody answers after the flow has looked for an answer, and before it is suspended."""

    def answer_and_suspend(**options: Any) -> None:
        [question] = [each for each in desk.list_pending().items if each.prompt == "Meanwhile?"]
        desk.answer(question.id, "yes", by="ana")
        write("answered")
        suspend_flow_run(**options)

    with open_desk() as desk, mock.patch.object(asking, "suspend_flow_run", answer_and_suspend):
        write(f"goes on with {ask(desk, 'Meanwhile?', choices=['yes', 'no'])}")


@flow
def other() -> None:
    write("other")


FLOWS: list[Any] = [deploy, deploy_async, two, refund, ending, sent_back, answered_meanwhile, other]

if __name__ == "__main__":
    serve(*(each.to_deployment("it") for each in FLOWS), limit=1)

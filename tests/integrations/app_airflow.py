"""DAGs that ask, for a real Airflow that tests start and kill. They say in the log at `APP_LOG` what their tasks did."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, task

from handraise.integrations.airflow import AskOperator, RequestApprovalOperator
from handraise.questions import QuestionOptions


def write(line: str) -> None:
    with Path(os.environ["APP_LOG"]).open("a", encoding="utf-8") as log:
        log.write(line + "\n")


@task
def prepare() -> None:
    write("prepared")


@task
def go_on(given: Any) -> None:
    write(f"goes on with {given}")


@task(trigger_rule="all_done")
def read_ending(ti: Any = None) -> None:
    outcome = ti.xcom_pull(task_ids="how", key="outcome")
    write(f"{outcome['status']}: {outcome.get('reason', '')}")


CHOICES: QuestionOptions = {"choices": ["Canary", "Rolling"]}

with DAG("deploy", schedule=None):
    how = AskOperator(task_id="how", prompt="How?", options=CHOICES)
    prepare() >> how >> go_on(how.output)

with DAG("two", schedule=None):
    asked = [
        AskOperator(task_id=name, prompt=f"{name}?", options={"choices": ["a", "b"]})
        for name in ("First", "Second")
    ]
    go_on([each.output for each in asked])

with DAG("refund", schedule=None):
    refund = RequestApprovalOperator(
        task_id="refund",
        tool="send_refund",
        arguments={"order": "A-17", "amount": 40},
        editable=["amount"],
        options={"replies": "program"},
    )
    go_on(refund.output)

with DAG("ending", schedule=None):
    (
        AskOperator(
            task_id="how",
            prompt="Now, {{ dag_run.run_id }}?",
            options={**CHOICES, "expires_in": "{{ dag_run.conf.get('expires_in', '1h') }}"},
        )
        >> read_ending()
    )

with DAG("sent_back", schedule=None, render_template_as_native_obj=True):
    first = RequestApprovalOperator(task_id="first", tool="refund", arguments={"amount": 300})
    second = RequestApprovalOperator(
        task_id="second",
        tool="refund",
        arguments={"amount": "{{ ti.xcom_pull(task_ids='first', key='outcome')['reason'] | int }}"},
        options={"replaces": "{{ ti.xcom_pull(task_ids='first', key='question') }}"},
        trigger_rule="one_failed",
    )
    first >> second
    go_on(second.output)

with DAG("other", schedule=None):
    prepare()

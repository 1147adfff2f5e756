"""The programs of the page that sends scores, with the real SDKs: to stand-ins of two clouds, and to a real MLflow."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from handraise import Approval, Desk, open_desk
from support.doc_pages import DOCS, blocks_of
from tests.integrations.evaluation_peers import (
    API_KEY,
    PROJECT,
    PUBLIC_KEY,
    SECRET_KEY,
    langfuse_cloud,
    langsmith_cloud,
)

pytestmark = pytest.mark.slow("starts programs with large SDKs; tests/evaluation has what is sent")

PAGE = DOCS / "how-to" / "use-answers-for-evaluation.md"
TRACE_ID = "0af7651916cd43dd8448eb211c80319c"
TRACE = f"00-{TRACE_ID}-b7ad6b7169203331-01"
SCORES = {
    ("handraise_outcome", "approved_with_edits", None),
    ("handraise_approval", 0.5, None),
    ("handraise_outcome", "denied", "too much"),
    ("handraise_approval", 0.0, "too much"),
    ("handraise_outcome", "answered", None),
    ("handraise_choice", "b", None),
}


def program(name: str) -> str:
    """A program as the page has it."""
    (found,) = (block.text for block in blocks_of(PAGE) if block.text.startswith(f"# {name}.py\n"))
    return found


def run(text: str, folder: Path, **environment: str) -> str:
    """What a program prints."""
    done = ended(text, folder, **environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def ended(text: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """A program that has run, with nothing of these services in its environment but what is given."""
    clean = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith(("HANDRAISE_", "LANG", "MLFLOW_", "OTEL_"))
    }
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", text],
        cwd=folder,
        env={**clean, **environment},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


async def settle_some(desk: Desk, trace: str) -> None:
    """An approval with edits, a denial, a choice; and something without a trace."""
    pay = Approval.of("pay", {"amount": 7}, editable=["amount"])
    edited, denied = [await desk.post("Pay?", form=pay, trace=trace) for _ in range(2)]
    await desk.answer(edited.id, {"decision": "approve", "arguments": {"amount": 5}}, by="ana")
    await desk.answer(denied.id, {"decision": "deny", "reason": "too much"}, by="bo")
    choice = await desk.post("Which?", choices=["a", "b"], trace=trace)
    await desk.answer(choice.id, "b", by="ana")
    await desk.answer((await desk.post("Untraced?")).id, "yes", by="ana")


def fill(url: str, trace: str = TRACE) -> None:
    async def work() -> None:
        async with open_desk(url) as desk:
            await settle_some(desk, trace)

    asyncio.run(work())


def test_langfuse_gets_scores_on_the_trace_and_none_twice(url: str, tmp_path: Path) -> None:
    fill(url)
    with langfuse_cloud() as cloud:
        settings = {
            "HANDRAISE_URL": url,
            "LANGFUSE_PUBLIC_KEY": PUBLIC_KEY,
            "LANGFUSE_SECRET_KEY": SECRET_KEY,
            "LANGFUSE_BASE_URL": cloud.address,
        }
        for sent in (6, 12):
            assert run(program("langfuse_scores"), tmp_path, **settings) == "6 scores sent\n"
            assert (len(cloud.kept), cloud.received) == (6, sent)
    found = cloud.kept.values()
    assert {(each["name"], each["value"], each.get("comment")) for each in found} == SCORES
    assert {each["traceId"] for each in found} == {TRACE_ID}
    assert {each["dataType"] for each in found if each["name"] == "handraise_approval"} == {"NUMERIC"}
    assert {each["dataType"] for each in found if each["name"] != "handraise_approval"} == {"CATEGORICAL"}
    assert {each["metadata"]["handraise_by"] for each in found} == {"ana", "bo"}


def test_langsmith_gets_feedback_on_the_root_run_and_none_twice(url: str, tmp_path: Path) -> None:
    fill(url)
    with langsmith_cloud() as cloud:
        settings = {
            "HANDRAISE_URL": url,
            "LANGSMITH_API_KEY": API_KEY,
            "LANGSMITH_ENDPOINT": cloud.address,
        }
        for sent in (6, 12):
            assert run(program("langsmith_feedback"), tmp_path, **settings) == "6 scores sent\n"
            assert (len(cloud.kept), cloud.received) == (6, sent)
    found = cloud.kept.values()
    said = {
        (each["key"], each["value"] if each.get("score") is None else each["score"], each.get("comment"))
        for each in found
    }
    assert said == SCORES
    assert (
        {each["trace_id"] for each in found}
        == {str(uuid.UUID(TRACE_ID))}
        == {each["run_id"] for each in found}
    )
    assert {each["session_id"] for each in found} == {PROJECT}
    assert {each["feedback_source"]["metadata"]["handraise_by"] for each in found} == {"ana", "bo"}


TRACED = """
import mlflow

with mlflow.start_span("refund") as span:
    print(f"00-{span.trace_id.removeprefix('tr-')}-{span.span_id}-01")
mlflow.flush_trace_async_logging()
"""
ASSESSED = """
import json, mlflow

found = mlflow.get_trace({trace_id!r}).info.assessments
print(json.dumps([[each.name, each.value, each.rationale, each.source.source_type, each.source.source_id] for each in found]))
"""


def test_mlflow_has_feedback_of_people_on_the_trace_and_none_twice(url: str, tmp_path: Path) -> None:
    settings = {"HANDRAISE_URL": url, "MLFLOW_TRACKING_URI": f"sqlite:///{tmp_path / 'mlflow.db'}"}
    trace = run(TRACED, tmp_path, **settings).strip()
    fill(url, trace)
    fill(url)  # of a trace that MLflow does not have
    for logged in (6, 0):
        assert run(program("mlflow_feedback"), tmp_path, **settings) == f"{logged} scores logged\n"
    found = json.loads(run(ASSESSED.format(trace_id=f"tr-{trace[3:35]}"), tmp_path, **settings))
    assert {(name, value, rationale) for name, value, rationale, *_ in found} == SCORES
    assert len(found) == 6
    assert {(kind, person) for *_, kind, person in found} == {("HUMAN", "ana"), ("HUMAN", "bo")}


def test_an_mlflow_that_cannot_be_reached_is_an_error(url: str, tmp_path: Path) -> None:
    """And not a trace that is not there, which is left out."""
    fill(url)
    with socket.create_server(("127.0.0.1", 0)) as closed:
        address = f"http://127.0.0.1:{closed.getsockname()[1]}"
    settings = {"MLFLOW_TRACKING_URI": address, "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0"}
    done = ended(program("mlflow_feedback"), tmp_path, HANDRAISE_URL=url, **settings)
    assert done.returncode != 0
    assert "MlflowException" in done.stderr
    assert "scores" not in done.stdout


def test_a_langfuse_that_refuses_the_keys_is_an_error(url: str, tmp_path: Path) -> None:
    """Its SDK only logs what it could not send."""
    fill(url)
    with langfuse_cloud() as cloud:
        keys = {"LANGFUSE_PUBLIC_KEY": PUBLIC_KEY, "LANGFUSE_SECRET_KEY": "sk-lf-revoked"}
        done = ended(
            program("langfuse_scores"),
            tmp_path,
            HANDRAISE_URL=url,
            LANGFUSE_BASE_URL=cloud.address,
            **keys,
        )
        assert cloud.received == 0
    assert done.returncode != 0
    assert "scores" not in done.stdout

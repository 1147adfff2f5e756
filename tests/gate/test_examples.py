"""The examples of gates: a FastAPI dependency, a step of a CI job, a Kubernetes admission webhook."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import httpx2
import pytest
import yaml

from handraise import Approval
from handraise.desk.local_desk import LocalDesk
from handraise.testing.promises import promise
from tests.test_deploy import tool

EXAMPLES = Path(__file__).parent.parent.parent / "examples" / "gate"


@pytest.fixture
def settings() -> dict[str, Any]:
    return {"workspace": "acme"}


@pytest.fixture
def environment(server: str, public_key: Path) -> dict[str, str]:
    return {
        "HANDRAISE_URL": server,
        "HANDRAISE_WORKSPACE": "acme",
        "RECEIPT_PUBLIC_KEY": str(public_key),
    }


@pytest.fixture
def load(environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Callable[[str], ModuleType]:
    """Loads an example as its process would."""

    def module(name: str) -> ModuleType:
        for variable, value in environment.items():
            monkeypatch.setenv(variable, value)
        spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        loaded = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, name, loaded)
        spec.loader.exec_module(loaded)
        return loaded

    return module


def client_of(module: ModuleType) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(transport=httpx2.ASGITransport(app=module.app), base_url="http://example")


async def receipt(desk: LocalDesk, tool: str, arguments: dict[str, Any]) -> str:
    question = await desk.post("May I?", form=Approval.of(tool, arguments))
    await desk.answer(question.id, "approve", by="ana")
    return await desk.receipt(question.id)


@promise("P16")
async def test_payment_service_py_pays_what_was_approved_once(
    load: Callable[[str], ModuleType], desk: LocalDesk
) -> None:
    refund = {"order": "A-17", "amount": 40}
    token = await receipt(desk, "refund", refund)
    async with client_of(load("payment_service")) as client:

        async def pay(body: dict[str, Any], **headers: str) -> int:
            return (await client.post("/refunds", json=body, headers=headers)).status_code

        assert await pay(refund) == 403
        assert await pay({**refund, "amount": 4_000}, **{"handraise-receipt": token}) == 403
        got = await client.post("/refunds", json=refund, headers={"handraise-receipt": token})
        assert got.json() == {"paid": "40 for order A-17", "approved by": "ana (no evidence)"}
        assert await pay(refund, **{"handraise-receipt": token}) == 403


@promise("P16")
@pytest.mark.only_proof_of("a shell step does not deploy without a receipt")
async def test_deploy_step_sh_deploys_what_was_approved_once(
    environment: dict[str, str], desk: LocalDesk
) -> None:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    token = await receipt(desk, "deploy", {"version": "1.4.2", "environment": "production"})

    async def step(version: str, **more: str) -> subprocess.CompletedProcess[str]:
        line = ["sh", str(EXAMPLES / "deploy_step.sh"), version, "production"]
        variables = {**os.environ, **environment, "PATH": path, **more}
        return await asyncio.to_thread(
            subprocess.run, line, env=variables, capture_output=True, text=True, check=False
        )

    assert (await step("1.4.2")).returncode != 0
    other = await step("1.4.3", RECEIPT=token)
    assert (other.returncode, "other arguments were approved" in other.stderr) == (1, True)
    done = await step("1.4.2", RECEIPT=token, CI_JOB_ID="7")
    assert (done.returncode, done.stdout.endswith("deploying 1.4.2 to production\n")) == (0, True), (
        done.stderr
    )
    again = await step("1.4.2", RECEIPT=token, CI_JOB_ID="8")
    assert (again.returncode, "deploying" in again.stdout) == (1, False)


def review(spec: Any, token: str | None, uid: str = "u1", **request: Any) -> dict[str, Any]:
    """What the API server sends."""
    annotations = {} if token is None else {"handraise.dev/receipt": token}
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": uid,
            "kind": {"group": "apps", "version": "v1", "kind": "Deployment"},
            "namespace": "shop",
            "name": "web",
            "operation": "CREATE",
            "object": {"metadata": {"name": "web", "annotations": annotations}, "spec": spec},
            "oldObject": None,
            "dryRun": False,
            **request,
        },
    }


@promise("P16")
async def test_admission_webhook_py_admits_what_was_approved_once(
    load: Callable[[str], ModuleType], desk: LocalDesk
) -> None:
    spec = {"replicas": 3, "template": {"spec": {"containers": [{"name": "web", "image": "web:1.4.2"}]}}}
    module = load("admission_webhook")
    approved = module.arguments_of(review(spec, None)["request"])
    token = await receipt(desk, "kubernetes", approved)
    async with client_of(module) as client:

        async def allowed(*args: Any, **request: Any) -> tuple[bool, str]:
            got = (await client.post("/validate", json=review(*args, **request))).json()
            assert (got["apiVersion"], got["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
            response = got["response"]
            return response["allowed"], response.get("status", {}).get("message", "")

        assert await allowed(spec, None) == (
            False,
            "It needs an approval. Put its receipt into the annotation handraise.dev/receipt.",
        )
        assert "other arguments" in (await allowed({**spec, "replicas": 30}, token))[1]
        assert "other arguments" in (await allowed(spec, token, namespace="kube-system"))[1]
        assert "other arguments" in (await allowed(spec, token, operation="UPDATE"))[1]
        assert await allowed(spec, "nonsense") == (False, "The receipt is refused: it is not a receipt.")
        assert not (await allowed(spec, token, operation="DELETE", object=None))[0]
        assert not (await allowed(spec, token, object={"metadata": {"name": "web"}}))[0]
        assert await allowed(spec, None, dryRun=True) == (True, "")
        assert await allowed(spec, token) == (True, "")
        assert await allowed(spec, token) == (True, "")  # the API server calls again
        assert "already been used" in (await allowed(spec, token, uid="u2"))[1]
        unchanged = {"operation": "UPDATE", "oldObject": {"metadata": {}, "spec": spec}}
        assert await allowed(spec, token, uid="u3", **unchanged) == (True, "")


def test_the_registration_of_the_webhook_fails_closed() -> None:
    document = yaml.safe_load((EXAMPLES / "admission_webhook.yaml").read_text(encoding="utf-8"))
    [webhook] = document["webhooks"]
    assert (webhook["failurePolicy"], webhook["sideEffects"]) == ("Fail", "NoneOnDryRun")
    assert webhook["admissionReviewVersions"] == ["v1"]


@pytest.mark.slow("loads a large schema; the test above reads what matters")
def test_the_registration_of_the_webhook_fits_the_schema_of_kubernetes() -> None:
    line = [tool("kubernetes-validate"), "--strict", "--kubernetes-version", "1.31"]
    subprocess.run([*line, str(EXAMPLES / "admission_webhook.yaml")], check=True)

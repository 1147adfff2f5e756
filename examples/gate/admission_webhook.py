"""A Kubernetes admission webhook: an object is created or changed only if a person approved exactly its specification.

The agent puts the receipt of the approval into the annotation `handraise.dev/receipt` of the object. The webhook looks at
what the API server is about to store: the operation, the kind, the namespace, the name and the whole specification. Those
are the arguments that must have been approved. The API server fills in defaults before, so let the agent ask about what
`kubectl apply --dry-run=server -o json` prints. The API server may call twice for one request; both have the same uid, and
get the same answer.

Run it with: HANDRAISE_URL=https://handraise.example python examples/gate/admission_webhook.py [PORT]
It needs: pip install "handraise[gate]" fastapi uvicorn, and the public key: RECEIPT_PUBLIC_KEY=receipts.key.pub
Register it with admission_webhook.yaml. In a cluster it needs a certificate, and should be reachable only for the API server.
"""

import os
import sys
from typing import Annotated, Any

import uvicorn
from fastapi import Body, FastAPI

from handraise.gate import Gate, ReceiptRefused, ServerUses

RECEIPT = "handraise.dev/receipt"
TOOL = "kubernetes"

app = FastAPI(title="Admission")
gate = Gate(
    key=os.environ.get("RECEIPT_PUBLIC_KEY", "receipts.key.pub"),
    workspace=os.environ.get("HANDRAISE_WORKSPACE", "default"),
    uses=ServerUses(os.environ["HANDRAISE_URL"]),
)


def arguments_of(request: dict[str, Any]) -> dict[str, Any]:
    """What the webhook sees, as the arguments of the action."""
    return {
        "operation": request["operation"],
        "kind": request["kind"]["kind"],
        "namespace": request.get("namespace", ""),
        "name": request["name"],
        "spec": request["object"]["spec"],
    }


async def problem_with(request: dict[str, Any]) -> str | None:
    """Why an object must not be stored, or None."""
    if request.get("dryRun"):
        return None  # nothing is stored, so nothing needs an approval
    if request["operation"] not in ("CREATE", "UPDATE"):
        return f"{request['operation']} is not possible with a receipt."
    old, new = request.get("oldObject") or {}, request["object"]
    if request["operation"] == "UPDATE" and old.get("spec") == new["spec"]:
        return None  # only labels or the status change
    token = (new["metadata"].get("annotations") or {}).get(RECEIPT)
    if token is None:
        return f"It needs an approval. Put its receipt into the annotation {RECEIPT}."
    try:
        await gate.check(token, tool=TOOL, arguments=arguments_of(request), use_id=request["uid"])
    except ReceiptRefused as refused:
        return str(refused)
    return None


@app.post("/validate")
async def validate(review: Annotated[dict[str, Any], Body()]) -> dict[str, Any]:
    """Answer an AdmissionReview."""
    request = review["request"]
    try:
        problem = await problem_with(request)
    except (KeyError, TypeError, AttributeError) as error:  # an object of a kind that was not expected
        problem = f"It cannot be checked: {error!r}"
    response: dict[str, Any] = {"uid": request["uid"], "allowed": problem is None}
    if problem is not None:
        response["status"] = {"code": 403, "message": problem}
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}


if __name__ == "__main__":
    uvicorn.run(app, host="0.0.0.0", port=int(sys.argv[1]) if sys.argv[1:] else 8443)  # noqa: S104 -- in a pod

"""`handraise receipt`: make a key, get a receipt, verify it without a connection, and use it up once."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from handraise import Approval, open_desk
from handraise.model.provenance import Provenance
from handraise.model.receipts import Approver, Receipt
from handraise.signing.receipt_tokens import load_receipt_key
from handraise.testing.promises import promise
from support.command import Done, handraise, serving

Run = Callable[..., Done]

ARGUMENTS = {"amount": 40}
RECEIPT = Receipt(
    workspace="default",
    question_id="q1",
    asker="bot",
    tool="refund",
    digest=Approval.of("refund", ARGUMENTS).digest,
    source="person",
    approvers=(Approver(by="ana\x1b[2J", at=datetime.now(UTC), evidence="session"),),
    policy_version=3,
    thread=None,
    issued_at=datetime.now(UTC),
    expires_at=datetime.now(UTC) + timedelta(hours=4),  # after this whole run
)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    def command(*line: str, **settings: str) -> Done:
        url = f"sqlite:///{tmp_path / 'questions.db'}"
        return handraise(*line, **{"url": url, "XDG_DATA_HOME": str(tmp_path), **settings})

    return command


@pytest.fixture
def key(run: Run, tmp_path: Path) -> Path:
    made = run("receipt", "key", str(tmp_path / "receipts.key"))
    assert made.returncode == 0
    assert f"HANDRAISE_RECEIPT_KEY={tmp_path / 'receipts.key'}" in made.stdout
    return tmp_path / "receipts.key"


def test_a_key_is_readable_for_its_owner_only_and_never_replaced(run: Run, key: Path) -> None:
    assert (key.stat().st_mode & 0o777, run("receipt", "key", str(key)).returncode) == (0o600, 1)
    key.chmod(0o644)
    refused = run("receipt", "get", "q1", receipt_key=str(key))
    assert (refused.returncode, "chmod 600" in refused.stderr) == (78, True)
    missing = run("receipt", "get", "q1", receipt_key=str(key.with_name("nothing")))
    assert (missing.returncode, "Check HANDRAISE_RECEIPT_KEY" in missing.stderr) == (78, True)
    assert "handraise receipt key FILE" in run("receipt", "get", "q1").stderr


@promise("P16")
def test_a_receipt_is_got_from_a_store_verified_and_used_once(run: Run, key: Path, tmp_path: Path) -> None:
    async def approved() -> str:
        async with open_desk(f"sqlite:///{tmp_path / 'questions.db'}") as desk:
            question = await desk.post("Refund?", form=Approval.of("refund", ARGUMENTS))
            await desk.answer(question.id, "approve", by="ana", provenance=Provenance(evidence="session"))
            return question.id

    got = run("receipt", "get", asyncio.run(approved()), "--timeout", "5s", receipt_key=str(key))
    assert got.returncode == 0, got.stderr
    said = ("--key", f"{key}.pub", "--tool", "refund", "--arguments", json.dumps(ARGUMENTS))
    verified = run("receipt", "verify", got.stdout.strip(), *said)
    assert (verified.returncode, "evidence: session" in verified.stdout) == (0, True)
    used = ("receipt", "use", got.stdout.strip(), *said, "--used", str(tmp_path / "used.db"))
    assert [run(*used).returncode for _ in range(2)] == [0, 1]
    assert "already been used" in run(*used).stderr


@promise("P16")
def test_verifying_says_who_approved_or_why_not(run: Run, key: Path, tmp_path: Path) -> None:
    token = load_receipt_key(key).sign(RECEIPT)
    verify = ("receipt", "verify", token, "--key", f"{key}.pub")
    good = run(*verify)
    assert good.returncode == 0, good.stderr
    assert "refund, asked by bot in workspace default, question q1" in good.stdout
    assert "evidence: session" in good.stdout
    assert "Version 3 of the policy" in good.stdout
    assert "\x1b" not in good.stdout
    (tmp_path / "arguments.json").write_text(json.dumps(ARGUMENTS), encoding="utf-8")
    assert run(*verify, "--arguments", f"@{tmp_path / 'arguments.json'}", "-w", "default").returncode == 0
    for more, why in (
        (("--workspace", "acme"), "workspace"),
        (("--tool", "pay"), "for the tool 'refund'"),
        (("--arguments", '{"amount": 41}'), "other arguments"),
        (("--arguments", "[]"), "must be a JSON object"),
        (("--arguments", "{"), "not JSON"),
    ):
        bad = run(*verify, *more)
        assert (bad.returncode, why in bad.stderr) == (1, True), (more, bad.stderr)
    old = load_receipt_key(key).sign(replace(RECEIPT, expires_at=RECEIPT.issued_at))
    assert "expired" in run("receipt", "verify", old, "--key", f"{key}.pub").stderr
    forged = run("receipt", "verify", token[:-3], "--key", f"{key}.pub")
    assert (forged.returncode, "signature" in forged.stderr) == (1, True)
    assert run("receipt", "verify", token, "--key", str(tmp_path / "nothing")).returncode == 78
    assert run("receipt", "verify", token).returncode == 2
    no_key = run("receipt", "verify", token, "--key", str(tmp_path / "arguments.json"))
    assert (no_key.returncode, "no key set" in no_key.stderr) == (1, True)


def test_a_use_needs_a_place_that_decides(run: Run, key: Path) -> None:
    token = load_receipt_key(key).sign(RECEIPT)
    use = (
        "receipt",
        "use",
        token,
        "--key",
        f"{key}.pub",
        "--tool",
        "refund",
        "--arguments",
        '{"amount": 40}',
    )
    nowhere = run(*use)
    assert (nowhere.returncode, "--server URL" in nowhere.stderr) == (1, True)
    away = run(*use, "--server", "http://127.0.0.1:1")
    assert (away.returncode, "cannot be reached" in away.stderr) == (69, True)


@pytest.mark.only_proof_of("a shell step uses a receipt through the server")
def test_at_a_server_a_receipt_is_got_with_the_agents_key_and_used_once(
    run: Run, key: Path, tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path / 'questions.db'}"
    agents_key = json.loads(run("keys", "create", "bot", "--json").stdout)["key"]
    with serving(url, tmp_path, receipt_key=str(key)) as server:

        async def approved() -> str:
            async with open_desk(server.address, credentials=agents_key) as desk:
                question = await desk.post("Refund?", form=Approval.of("refund", ARGUMENTS))
            async with open_desk(url) as operator:
                await operator.answer(question.id, "approve", by="ana")
            return question.id

        got = run("receipt", "get", asyncio.run(approved()), url=server.address, key=agents_key)
        assert got.returncode == 0, got.stderr
        use = ("receipt", "use", got.stdout.strip(), "--key", f"{key}.pub", "--tool", "refund")
        where = ("--arguments", json.dumps(ARGUMENTS), "--server", server.address, "--use-id")
        assert [run(*use, *where, each).returncode for each in ("job-1", "job-1", "job-2")] == [0, 0, 1]

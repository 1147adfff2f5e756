"""The gate: what lets an action through where it is executed, and everything that does not."""

from __future__ import annotations

import asyncio
import json
import socket
import sqlite3
import subprocess
import sys
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI, Response
from joserfc import jws
from joserfc.jwk import OKPKey

from handraise import Approval, open_desk
from handraise.desk.local_desk import LocalDesk
from handraise.errors import NoReceiptKey, WrongLoop
from handraise.gate import FileUses, Gate, ReceiptRefused, ServerUses
from handraise.model.provenance import Provenance
from handraise.model.receipts import Receipt
from handraise.signing.key_files import load_signer, make_key
from handraise.signing.receipt_tokens import load_receipt_key
from handraise.testing.promises import promise
from support.free_port import free_port
from support.http_server import listening

ARGUMENTS = {"amount": 40, "to": "ana"}
NOW = datetime(2026, 1, 1, tzinfo=UTC)

RECEIPT = Receipt(
    workspace="acme",
    question_id="q1",
    asker="bot",
    tool="refund",
    digest=Approval.of("refund", ARGUMENTS).digest,
    source="person",
    approvers=(),
    policy_version=None,
    thread=None,
    issued_at=datetime.now(UTC),
    expires_at=datetime.now(UTC) + timedelta(hours=4),  # after this whole run
)


@pytest.fixture(params=["server", "file"])
async def gate(request: pytest.FixtureRequest, server: str, public_key: Path, tmp_path: Path) -> Gate:
    uses = ServerUses(server) if request.param == "server" else FileUses(tmp_path / "used.db")
    return Gate(key=public_key, workspace="acme", uses=uses)


async def approve(desk: LocalDesk, **options: Any) -> str:
    """The id of an approved question."""
    question = await desk.post("Refund?", form=Approval.of("refund", ARGUMENTS, **options))
    await desk.answer(question.id, "approve", by="ana", provenance=Provenance(evidence="session"))
    return question.id


@promise("P16")
async def test_exactly_what_was_approved_is_let_through_once(gate: Gate, desk: LocalDesk) -> None:
    question_id = await approve(desk)
    token = await desk.receipt(question_id)
    approved = await gate.check(token, tool="refund", arguments={"to": "ana", "amount": 40.0}, use_id="one")
    assert (approved.question_id, [(each.by, each.evidence) for each in approved.approvers]) == (
        question_id,
        [("ana", "session")],
    )
    # The same execution again, after its answer was lost, and then another one.
    assert await gate.check(token, tool="refund", arguments=ARGUMENTS, use_id="one") == approved
    for use_id in (None, "two"):
        with pytest.raises(ReceiptRefused, match="already been used"):
            await gate.check(token, tool="refund", arguments=ARGUMENTS, use_id=use_id)


@promise("P16")
async def test_another_receipt_of_the_same_approval_allows_no_second_use(gate: Gate, desk: LocalDesk) -> None:
    question_id = await approve(desk)
    first, second = [await desk.receipt(question_id) for _ in range(2)]
    await gate.check(first, tool="refund", arguments=ARGUMENTS)
    with pytest.raises(ReceiptRefused, match="already been used"):
        await gate.check(second, tool="refund", arguments=ARGUMENTS)


@promise("P16")
@pytest.mark.parametrize(
    ("tool", "arguments", "reason"),
    [
        ("pay", ARGUMENTS, "for the tool 'refund', not for 'pay'"),
        ("refund", {**ARGUMENTS, "amount": 41}, "other arguments were approved"),
        ("refund", {"amount": 40}, "other arguments were approved"),
        ("refund", {**ARGUMENTS, "note": None}, "other arguments were approved"),
        ("refund", {}, "other arguments were approved"),
        ("refund", {"amount": float("nan")}, "not a JSON number"),
        ("refund", {"amount": object()}, "not JSON"),
    ],
)
async def test_another_tool_or_other_arguments_are_refused_and_use_nothing_up(
    gate: Gate, desk: LocalDesk, tool: str, arguments: dict[str, Any], reason: str
) -> None:
    token = await desk.receipt(await approve(desk))
    with pytest.raises(ReceiptRefused, match=reason):
        await gate.check(token, tool=tool, arguments=arguments)
    await gate.check(token, tool="refund", arguments=ARGUMENTS)


@promise("P8", "P16")
async def test_a_receipt_of_another_workspace_is_refused(gate: Gate, desk: LocalDesk) -> None:
    elsewhere = desk.scoped("elsewhere")
    token = await elsewhere.receipt(await approve(elsewhere))
    with pytest.raises(ReceiptRefused, match="another workspace"):
        await gate.check(token, tool="refund", arguments=ARGUMENTS)


@promise("P16")
async def test_an_expired_receipt_is_refused(gate: Gate, key: Path) -> None:
    claims = {name: getattr(RECEIPT, name) for name in Receipt.__dataclass_fields__}
    token = load_receipt_key(key).sign(Receipt(**{**claims, "issued_at": NOW, "expires_at": NOW}))
    with pytest.raises(ReceiptRefused, match="expired at 2026-01-01 00:00:00 UTC"):
        await gate.check(token, tool="refund", arguments=ARGUMENTS)


@promise("P16", "P18")
async def test_the_server_refuses_what_was_taken_back_used_or_stopped(
    server: str, public_key: Path, desk: LocalDesk, ctx: Any
) -> None:
    gate = Gate(key=public_key, workspace="acme", uses=ServerUses(server))
    ids = [await approve(desk) for _ in range(3)]
    tokens = [await desk.receipt(each) for each in ids]
    await desk.take_back(ids[0], by="ana")
    await desk.consume_approval(ids[1])
    for token, reason in zip(tokens, ("taken back", "already been used", "wrong account"), strict=True):
        if reason == "wrong account":
            await ctx.policies.stop("acme", agent=None, tool=None, why=reason, by="boss")
        with pytest.raises(ReceiptRefused, match=reason) as refused:
            await gate.check(token, tool="refund", arguments=ARGUMENTS)
        assert not refused.value.try_again


_RACER = """
import sys
from handraise.gate import FileUses, Gate, ReceiptRefused, ServerUses
where, key, token, arguments = sys.argv[1:]
uses = ServerUses(where) if where.startswith("http") else FileUses(where)
gate = Gate(key=key, workspace="acme", uses=uses)
print("ready", flush=True)
sys.stdin.readline()
try:
    gate.check_blocking(token, tool="refund", arguments=__import__("json").loads(arguments))
    print("executed", flush=True)
except ReceiptRefused as refused:
    print(refused.reason, flush=True)
"""


@promise("P16")
@pytest.mark.only_proof_of("two processes use one receipt at the same time")
@pytest.mark.parametrize("where", ["server", "file"])
async def test_of_two_processes_with_one_receipt_exactly_one_executes(
    server: str, public_key: Path, desk: LocalDesk, tmp_path: Path, where: str
) -> None:
    token = await desk.receipt(await approve(desk))
    place = server if where == "server" else str(tmp_path / "used.db")
    line = [sys.executable, "-c", _RACER, place, str(public_key), token, json.dumps(ARGUMENTS)]

    def start() -> subprocess.Popen[str]:
        return subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    racers = [start() for _ in range(2)]
    try:
        for racer in racers:
            assert racer.stdout is not None
            assert await asyncio.to_thread(racer.stdout.readline) == "ready\n"
        said = await asyncio.gather(*(asyncio.to_thread(racer.communicate, "\n", 60) for racer in racers))
    finally:
        for racer in racers:
            racer.kill()
            racer.wait()
    assert sorted(out.strip() for out, _ in said).count("executed") == 1
    assert sum("already been used" in out for out, _ in said) == len(racers) - 1


@promise("P11", "P16")
async def test_a_server_that_cannot_be_reached_approves_nothing(public_key: Path, key: Path) -> None:
    token = load_receipt_key(key).sign(RECEIPT)
    gate = Gate(key=public_key, workspace="acme", uses=ServerUses(f"http://127.0.0.1:{free_port()}"))
    with pytest.raises(ReceiptRefused, match="cannot be reached") as refused:
        await gate.check(token, tool="refund", arguments=ARGUMENTS)
    assert refused.value.try_again


@promise("P11", "P16")
@pytest.mark.parametrize(
    ("status", "body", "try_again"),
    [
        (200, b"", False),
        (200, b"{}", False),
        (200, b'{"question_id": "q1", "use_id": "another"}', False),
        (200, b'{"question_id": "q2", "use_id": "one"}', False),
        (204, b"", False),
        (302, b"", False),
        (404, b"nothing", False),
        (500, b"", True),
        (503, b"", True),
    ],
)
async def test_an_answer_that_is_not_ours_approves_nothing(
    public_key: Path, key: Path, status: int, body: bytes, *, try_again: bool
) -> None:
    app, asked = FastAPI(), 0

    @app.post("/v1/receipts/use")
    async def answer() -> Response:
        nonlocal asked
        asked += 1
        return Response(body, status_code=status, headers={"location": "/elsewhere"})

    async with AsyncExitStack() as stack:
        door = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        await stack.enter_async_context(listening(app, door))
        address = f"http://127.0.0.1:{door.getsockname()[1]}"
        gate = Gate(key=public_key, workspace="acme", uses=ServerUses(address))
        with pytest.raises(ReceiptRefused) as refused:
            await gate.check(
                load_receipt_key(key).sign(RECEIPT), tool="refund", arguments=ARGUMENTS, use_id="one"
            )
    assert (refused.value.try_again, asked) == (try_again, 4 if try_again else 1)


@promise("P11")
async def test_a_use_that_cannot_be_written_down_approves_nothing(
    public_key: Path, key: Path, tmp_path: Path
) -> None:
    token = load_receipt_key(key).sign(RECEIPT)
    (tmp_path / "broken.db").write_bytes(b"not a database" * 100)
    for path in (tmp_path / "no" / "used.db", tmp_path, tmp_path / "broken.db"):
        gate = Gate(key=public_key, workspace="acme", uses=FileUses(path))
        with pytest.raises(ReceiptRefused, match="cannot be written"):
            await gate.check(token, tool="refund", arguments=ARGUMENTS)


async def test_a_file_keeps_its_uses_when_it_is_opened_again(
    public_key: Path, key: Path, tmp_path: Path
) -> None:
    token = load_receipt_key(key).sign(RECEIPT)
    await Gate(key=public_key, workspace="acme", uses=FileUses(tmp_path / "used.db")).check(
        token, tool="refund", arguments=ARGUMENTS, use_id="one"
    )
    with sqlite3.connect(tmp_path / "used.db") as connection:
        assert connection.execute("select receipt, use_id, question from uses").fetchall() == [
            (RECEIPT.id, "one", "q1")
        ]
    connection.close()
    with pytest.raises(ReceiptRefused, match="already been used"):
        await Gate(key=public_key, workspace="acme", uses=FileUses(tmp_path / "used.db")).check(
            token, tool="refund", arguments=ARGUMENTS
        )


async def test_while_a_key_is_replaced_the_gate_knows_both(
    public_key: Path, key: Path, tmp_path: Path
) -> None:
    make_key(tmp_path / "next.key")
    gate = Gate(key=[public_key, tmp_path / "next.key.pub"], workspace="acme", uses=FileUses(tmp_path / "u"))
    for each in (key, tmp_path / "next.key"):
        token = load_receipt_key(each).sign(RECEIPT)
        assert gate.verify(token, tool="refund", arguments=ARGUMENTS) == _in_seconds(RECEIPT)
    only_next = Gate(key=tmp_path / "next.key.pub", workspace="acme", uses=FileUses(tmp_path / "u"))
    with pytest.raises(ReceiptRefused, match="another key"):
        only_next.verify(load_receipt_key(key).sign(RECEIPT), tool="refund", arguments=ARGUMENTS)


def _in_seconds(receipt: Receipt) -> Receipt:
    claims = {name: getattr(receipt, name) for name in Receipt.__dataclass_fields__}
    whole = {name: claims[name].replace(microsecond=0) for name in ("issued_at", "expires_at")}
    return Receipt(**{**claims, **whole})


@promise("P11")
@pytest.mark.parametrize(
    "change",
    [
        {"workspace": 1},
        {"tool": None},
        {"source": "nobody"},
        {"approvers": 1},
        {"approvers": [{"by": "ana"}]},
        {"exp": None},
        {"exp": "tomorrow"},
        {"exp": True},
        {"exp": 10**30},
        {"policy_version": "1"},
        {"jti": "another"},
        {"question": "q2"},
    ],
    ids=str,
)
def test_claims_that_are_not_those_of_a_receipt_are_refused_even_with_a_signature(
    public_key: Path, key: Path, tmp_path: Path, change: dict[str, Any]
) -> None:
    header = {"alg": "Ed25519", "typ": "handraise-receipt+jwt", "kid": load_signer(key).key_id}
    claims = json.dumps({**RECEIPT.to_claims(), **change})
    signed = jws.serialize_compact(
        header, claims, OKPKey.import_key(key.read_bytes()), algorithms=["Ed25519"]
    )
    gate = Gate(key=public_key, workspace="acme", uses=FileUses(tmp_path / "used.db"))
    with pytest.raises(ReceiptRefused):
        gate.verify(signed, tool="refund", arguments=ARGUMENTS)


async def test_a_desk_without_a_key_says_what_to_set(key: Path) -> None:
    async with open_desk("memory:") as desk:
        with pytest.raises(NoReceiptKey, match=r"open_desk\(…, receipt_key=FILE\)"):
            await desk.receipt("q1")
    with pytest.raises(ValueError, match="HANDRAISE_RECEIPT_KEY at the server"):
        await open_desk("http://127.0.0.1:1", receipt_key=key)


async def test_the_blocking_check_does_not_block_an_event_loop(public_key: Path, tmp_path: Path) -> None:
    gate = Gate(key=public_key, workspace="acme", uses=FileUses(tmp_path / "used.db"))
    with pytest.raises(WrongLoop):
        gate.check_blocking("token", tool="refund", arguments=ARGUMENTS)


@pytest.mark.parametrize(
    "text", [b"", b"{}", b'{"keys": []}', b'{"keys": [{"kty": "oct", "k": "AAAA"}]}', b"{"]
)
def test_a_file_without_a_key_is_refused(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "key").write_bytes(text)
    with pytest.raises(ValueError, match=str(tmp_path)):
        Gate(key=tmp_path / "key", workspace="acme", uses=FileUses(tmp_path / "used.db"))

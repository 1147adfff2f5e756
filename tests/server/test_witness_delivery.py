"""When heads go to a witness, and what happens if it is slow, away, or answers with something else."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_network
from pathlib import Path

import pytest

from handraise.channels.safe_http import URL, open_safe_client
from handraise.model.seals import NOTHING_BEFORE, Seal
from handraise.model.witnesses import ChainHead
from handraise.ports.channel import NotSent
from handraise.server.observability import Metrics
from handraise.server.witness_addresses import read_witness_address
from handraise.server.witnesses import witness_file
from handraise.server.witnesses.timestamp_authority import TimestampVerifier, TimestampWitness
from handraise.server.witnesses.witness_delivery import WitnessDelivery
from handraise.server.witnesses.witness_file import FileWitness
from handraise.server.witnesses.witness_queue import WitnessQueue
from handraise.server.witnesses.witness_senders import HttpWitness
from support.webhook_receiver import Got, Says, receiving
from tests.server.timestamp_server import Authority, timestamp_authority

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
INTERVAL, LEASE = 3_600.0, 300.0
LOOPBACK = (ip_network("127.0.0.0/8"),)


def seal(number: int, *, workspace: str = "default", minute: int | None = None, leaf: int = 0) -> Seal:
    return Seal(
        workspace=workspace,
        number=number,
        oldest=1,
        previous=NOTHING_BEFORE,
        sealed_at=START + timedelta(minutes=number if minute is None else minute),
        cursor="1.0",
        cursors=("1.0",),
        leaves=(bytes([leaf]),),
    )


@dataclass
class Machine:
    """Two processes on one machine that send to one file, and its clock."""

    queue: WitnessQueue
    kept: Path
    now: float = 1_000_000.0

    def process(self) -> WitnessDelivery:
        address = read_witness_address(f"file://{self.kept}", ())
        return WitnessDelivery(
            address,
            FileWitness(self.kept),
            self.queue,
            interval=INTERVAL,
            label="file",
            metrics=Metrics(),
            now=lambda: self.now,
        )

    def numbers(self, workspace: str = "default") -> list[int]:
        heads = [ChainHead.from_record(json.loads(line)) for line in self.kept.read_text().splitlines()]
        return [head.number for head in heads if head.workspace == workspace]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    (tmp_path / "kept.jsonl").touch()
    return Machine(WitnessQueue.prepare(tmp_path / "audit.heads"), tmp_path / "kept.jsonl")


async def test_a_witness_gets_the_newest_head_once_in_an_interval_however_many_processes_there_are(
    machine: Machine,
) -> None:
    one, other = machine.process(), machine.process()
    await machine.queue.take(seal(1))
    await asyncio.gather(one.run(), other.run())
    assert machine.numbers() == [1]
    for number in (2, 4, 3):
        await machine.queue.take(seal(number))
    machine.now += INTERVAL - 1
    await asyncio.gather(one.run(), other.run())
    assert machine.numbers() == [1]
    machine.now += 2
    await asyncio.gather(one.run(), other.run())
    assert machine.numbers() == [1, 4]
    machine.now += INTERVAL + 1
    await asyncio.gather(one.run(), other.run())
    assert machine.numbers() == [1, 4]


async def test_after_a_restored_backup_the_lower_numbers_are_sent(machine: Machine) -> None:
    process = machine.process()
    await machine.queue.take(seal(9, minute=9))
    await process.run()
    await machine.queue.take(seal(7, minute=60, leaf=1))
    machine.now += INTERVAL + 1
    await process.run()
    assert machine.numbers() == [9, 7]


async def test_a_clock_that_was_wrong_does_not_silence_a_witness(machine: Machine) -> None:
    process = machine.process()
    await machine.queue.take(seal(1))
    await process.run()
    await machine.queue.take(seal(2))
    machine.now -= 365 * 86_400.0
    await process.run()
    assert machine.numbers() == [1, 2]


async def test_a_witness_that_is_away_is_tried_less_and_less_often(machine: Machine) -> None:
    process, witness = machine.process(), read_witness_address(f"file://{machine.kept}", ()).id
    machine.kept.unlink()
    await machine.queue.take(seal(1))
    for failures, wait in enumerate([30, 60, 120, 240, 480, 960, 1_920, INTERVAL, INTERVAL], 1):
        await process.run()
        machine.now += wait - 1
        await process.run()
        assert (await machine.queue.state(witness)).failures == failures
        machine.now += 2
    machine.kept.touch()
    await process.run()
    assert machine.numbers() == [1]
    assert (await machine.queue.state(witness)).failing_since is None


async def test_a_process_that_died_while_it_sent_is_replaced(machine: Machine) -> None:
    address = read_witness_address(f"file://{machine.kept}", ())
    await machine.queue.take(seal(1))
    assert await machine.queue.claim(address.id, now=machine.now, lease=LEASE, longest=INTERVAL)
    other = machine.process()
    await other.run()
    assert machine.numbers() == []
    machine.now += LEASE + 1
    await other.run()
    assert machine.numbers() == [1]


async def test_a_file_system_that_hangs_holds_up_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(witness_file, "_WRITTEN_WITHIN", 0.05)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)  # a write to it hangs until somebody reads
    sender = FileWitness(pipe)
    head = ChainHead.from_seal(seal(1))
    with pytest.raises(NotSent, match="takes too long"):
        await sender.send([head])
    with pytest.raises(NotSent, match="has not ended"):
        await sender.send([head])
    read = await asyncio.to_thread(pipe.read_text)
    assert json.loads(read)["number"] == 1


async def test_a_line_that_was_only_half_written_spoils_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "heads.jsonl"
    path.touch()
    sender, write = FileWitness(path), os.write
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", lambda file, text: write(file, text[:20]))
        with pytest.raises(NotSent, match="only a part"):
            await sender.send([ChainHead.from_seal(seal(1))])
    await sender.send([ChainHead.from_seal(seal(1))])
    torn, whole = path.read_text().splitlines()
    assert len(torn) == 20
    assert json.loads(whole)["number"] == 1


async def test_a_write_that_has_just_ended_holds_up_no_other(tmp_path: Path) -> None:
    path = tmp_path / "heads.jsonl"
    path.touch()
    sender = FileWitness(path)
    for number in range(1, 301):
        await sender.send([ChainHead.from_seal(seal(number))])
    assert len(path.read_text().splitlines()) == 300


def url_of(witness: str) -> URL:
    place = read_witness_address(witness, LOOPBACK).place
    assert isinstance(place, URL)
    return place


async def test_an_endpoint_must_say_yes_and_gets_nothing_secret() -> None:
    async def answer(got: Got) -> Says:
        assert got.headers["content-type"] == "application/json"
        return answers.pop(0)

    answers = [Says(500, {"retry-after": "120"}), Says(302, {"location": "http://127.0.0.1/"}), Says(201)]
    async with receiving(answer) as receiver, open_safe_client(LOOPBACK) as client:
        sender = HttpWitness(client, url_of(receiver.url))
        head = ChainHead.from_seal(seal(1))
        with pytest.raises(NotSent, match="answered 500") as busy:
            await sender.send([head])
        assert busy.value.after == timedelta(seconds=120)
        with pytest.raises(NotSent, match="redirects are not followed"):
            await sender.send([head])
        await sender.send([head])
        assert json.loads(receiver.got[-1].body) == head.record
    assert set(head.record) == {
        "type",
        "workspace",
        "number",
        "digest",
        "sealed_at",
        "key_id",
        "signature",
    }


@asynccontextmanager
async def stamping(tmp_path: Path) -> AsyncIterator[tuple[Authority, TimestampWitness, Path]]:
    stamps = tmp_path / "stamps.jsonl"
    stamps.touch()
    async with timestamp_authority(tmp_path / "authority") as authority, open_safe_client(LOOPBACK) as client:
        yield authority, TimestampWitness(client, url_of(authority.url), FileWitness(stamps)), stamps


@pytest.mark.slow(
    "each answer is refused by its own line; the gate has a genuine timestamp in test_witnesses.py"
)
async def test_what_is_no_timestamp_of_this_digest_is_refused(tmp_path: Path) -> None:
    one, other = ChainHead.from_seal(seal(1)), ChainHead.from_seal(seal(2))
    async with stamping(tmp_path) as (authority, sender, stamps):
        for says, why in (
            (Says(503), "answered 503"),
            (Says(200, {}, b"<html>"), "not a timestamp"),
            # The ASN.1 of a response without a token: rejected.
            (Says(200, {}, bytes.fromhex("30053003020102")), "refused to give a timestamp|not a timestamp"),
        ):
            authority.says = says
            with pytest.raises(NotSent, match=why):
                await sender.send([one])
        authority.says = None
        await sender.send([one])
        authority.says = Says(200, {}, (authority.folder / "reply.tsr").read_bytes())
        for head in (one, other):  # of another nonce, of another digest
            with pytest.raises(NotSent, match="of something else"):
                await sender.send([head])
        [line] = stamps.read_text().splitlines()
        token = json.loads(line)["timestamp"]
        verifier = TimestampVerifier([authority.root])
        assert abs(verifier.stamped_at(token, one.digest) - datetime.now(UTC)) < timedelta(minutes=1)
        with pytest.raises(ValueError, match="not valid"):
            verifier.stamped_at(token, other.digest)
    async with timestamp_authority(tmp_path / "another") as another:
        with pytest.raises(ValueError, match="not valid"):
            TimestampVerifier([another.root]).stamped_at(token, one.digest)
    with pytest.raises(ValueError, match="None of the certificates is a root"):
        TimestampVerifier([tmp_path / "authority" / "authority.pem"])
    (tmp_path / "empty").touch()
    with pytest.raises(ValueError, match="no certificate"):
        TimestampVerifier([tmp_path / "empty"])

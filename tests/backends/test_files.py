"""What becomes of the bytes of files: they go with the last question that refers to them."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from handraise import Desk
from handraise.backends.blobs.folder import FolderBlobs, place_of
from handraise.backends.blobs.objects import ObjectBlobs
from handraise.desk.attachment_store import remove_unused_files
from handraise.desk_factory import desk_from_store, open_backend, open_blobs
from handraise.errors import InvalidQuestion, StoreUnavailable, UnknownAddress
from handraise.forms import File
from handraise.model.attachments import attachment_of
from handraise.model.questions import Ref
from handraise.ports import Backend, Blobs
from handraise.ports.files import UNUSED_FOR, owner_of_asker, owner_of_person
from handraise.testing import ManualClock

DAY = timedelta(days=1)
MEBIBYTE = bytes(range(256)) * 4096


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(params=["memory", "sqlite", "postgres", "folder", "objects"])
def places(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[str, str | None]:
    """The address of each store, and where the bytes of its files are; those of the last two are elsewhere."""
    files = None
    match request.param:
        case "memory":
            address = "memory:"
        case "postgres":
            address = request.getfixturevalue("postgres")
        case _:
            address = f"sqlite:///{tmp_path / 'questions.db'}"
    if request.param == "folder":
        files = str(tmp_path / "files")
    if request.param == "objects":
        for name, value in request.getfixturevalue("bucket").items():
            monkeypatch.setenv(name, value)
        files = "s3://files/of/handraise"
    return address, files


@pytest.fixture
async def ports(places: tuple[str, str | None], clock: ManualClock) -> AsyncIterator[Backend]:
    address, files = places
    async with open_backend(address, clock=clock, files=files) as opened:
        yield opened


@pytest.fixture
async def desk(ports: Backend, clock: ManualClock, workspace: str) -> AsyncIterator[Desk]:
    async with desk_from_store(
        ports.store, ports.bus, files=ports.files, blobs=ports.blobs, clock=clock, workspace=workspace
    ) as opened:
        yield opened


@pytest.fixture(scope="session")
def bucket() -> Iterator[dict[str, str]]:
    """The settings of a bucket at a server that speaks the protocol of S3."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    address = f"http://127.0.0.1:{port}"
    settings = {
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": address,
        "AWS_ALLOW_HTTP": "true",
    }
    server = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
        env=os.environ | settings,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + 60
        while True:
            try:
                request = urllib.request.Request(f"{address}/files", method="PUT")  # noqa: S310 -- our own
                urllib.request.urlopen(request, timeout=5)  # noqa: S310 -- our own
                break
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)
        yield settings
    finally:
        server.terminate()
        server.wait()


async def taken(ports: Backend, workspace: str) -> set[str]:
    """The keys of files of a workspace whose bytes are to be deleted."""
    found = await ports.files.take_unused(unused_for=UNUSED_FOR, limit=100)
    return {key for place, key in found if place == workspace}


async def key_of(ports: Backend, ref: Ref, digest: str) -> str:
    found = await ports.files.find(ref, digest)
    assert found is not None
    return found.key


async def test_what_no_question_refers_to_is_removed_after_a_day(
    ports: Backend, desk: Desk, clock: ManualClock, workspace: str
) -> None:
    used, unused = await desk.attach(MEBIBYTE, name="used"), await desk.attach(b"unused", name="unused")
    question = await desk.post("Go?", attachments=[used])
    clock.advance(DAY - timedelta(minutes=1))
    assert await taken(ports, workspace) == set()
    clock.advance(timedelta(minutes=2))
    await remove_unused_files(ports.files, ports.blobs)
    assert await desk.read_attachment(question.id, used.digest) == MEBIBYTE
    with pytest.raises(InvalidQuestion, match="have not uploaded"):
        await desk.post("Again?", attachments=[unused])
    await desk.attach(b"unused", name="unused")
    await desk.post("Again?", attachments=[unused])


async def test_bytes_go_with_the_last_question_that_refers_to_them(
    ports: Backend, desk: Desk, clock: ManualClock, workspace: str
) -> None:
    """Erased on demand, or removed by retention."""
    shared, own = await desk.attach(MEBIBYTE, name="shared"), await desk.attach(b"own", name="own")
    one = await desk.post("One?", attachments=[shared, own])
    other = await desk.post("Other?", attachments=[shared])
    keys = {each: await key_of(ports, one.ref, each.digest) for each in (shared, own)}
    assert await ports.ledger.erase(workspace, [one.id], by="root") == [one.id]
    await remove_unused_files(ports.files, ports.blobs)
    assert await ports.blobs.get(workspace, keys[own]) is None
    assert await ports.blobs.get(workspace, keys[shared]) == MEBIBYTE
    assert await desk.read_attachment(other.id, shared.digest) == MEBIBYTE
    await desk.answer(other.id, "yes", by="ana")
    clock.advance(timedelta(days=30))
    await ports.store.tidy(keep=timedelta(days=2), limit=100)
    await remove_unused_files(ports.files, ports.blobs)
    assert await ports.blobs.get(workspace, keys[shared]) is None
    assert await taken(ports, workspace) == set()


async def test_an_erased_person_leaves_no_files(ports: Backend, desk: Desk, workspace: str) -> None:
    question = await desk.post("The receipt?", form=File(), recipients=["ana"])
    receipt = await desk.attach(b"receipt", name="receipt", by="ana")
    await desk.attach(b"never sent", name="other", by="ana")
    await desk.answer(question.id, receipt.record(), by="ana")
    key = await key_of(ports, question.ref, receipt.digest)
    assert await ports.ledger.erase(workspace, await ports.ledger.concerning(workspace, "ana"), by="root")
    await ports.ledger.erase_person(workspace, "ana")
    assert len(await taken(ports, workspace)) == 2
    await remove_unused_files(ports.files, ports.blobs)
    assert await ports.blobs.get(workspace, key) is None
    assert await taken(ports, workspace) == set()


async def test_a_reference_of_a_question_that_was_never_stored_does_not_count(
    ports: Backend, desk: Desk, clock: ManualClock, workspace: str
) -> None:
    """The process died between the two."""
    file = await desk.attach(b"1", name="a")
    limits = {"owner": owner_of_asker("agent"), "most_files": 20, "most_bytes": 1_000}
    never = Ref(workspace, "never stored")
    assert (await ports.files.refer(never, [file], **limits)).accepted  # type: ignore[arg-type]  # each is of its type
    key = await key_of(ports, never, file.digest)
    clock.advance(DAY + timedelta(minutes=1))
    assert await taken(ports, workspace) == {key}


async def test_bytes_that_were_not_completely_stored_cannot_be_used(
    ports: Backend, desk: Desk, clock: ManualClock, workspace: str
) -> None:
    """The process died while it stored them. They are removed, and uploading them again works."""
    file = attachment_of(b"half", name="half")
    owner = owner_of_asker("agent")
    begun = await ports.files.add(workspace, file, owner=owner, key="half-key", most_unused=100)
    assert begun is not None
    assert (begun.key, begun.stored) == ("half-key", False)
    with pytest.raises(InvalidQuestion):
        await desk.post("Go?", attachments=[file])
    clock.advance(DAY * 2)
    assert await taken(ports, workspace) == {"half-key"}
    await remove_unused_files(ports.files, ports.blobs)
    await desk.attach(b"half", name="half")
    question = await desk.post("Go?", attachments=[file])
    assert await desk.read_attachment(question.id, file.digest) == b"half"


async def test_a_file_that_is_removed_is_not_referred_to_at_the_same_time(
    ports: Backend, clock: ManualClock, workspace: str
) -> None:
    """Of many who refer to old files while they are removed, each is refused, or their bytes stay."""
    owner = owner_of_person("ana")
    files = [attachment_of(str(place).encode(), name="a") for place in range(20)]
    for place, file in enumerate(files):
        await ports.files.add(workspace, file, owner=owner, key=f"key-{place}", most_unused=10**6)
        await ports.blobs.put(workspace, f"key-{place}", str(place).encode())
        await ports.files.mark_stored(workspace, f"key-{place}")
    clock.advance(DAY * 2)

    async def refer(place: int) -> bool:
        ref = Ref(workspace, f"q{place}")
        made = await ports.files.refer(ref, [files[place]], owner=owner, most_files=20, most_bytes=10**6)
        return made.accepted

    accepted, *_ = await asyncio.gather(
        asyncio.gather(*map(refer, range(20))),
        remove_unused_files(ports.files, ports.blobs),
        remove_unused_files(ports.files, ports.blobs),
    )
    await remove_unused_files(ports.files, ports.blobs)
    for place, is_there in enumerate(accepted):
        data = await ports.blobs.get(workspace, f"key-{place}")
        assert data == (str(place).encode() if is_there else None)


@pytest.fixture
def folder(tmp_path: Path) -> FolderBlobs:
    return FolderBlobs(tmp_path / "files")


async def test_a_folder_keeps_bytes_for_its_owner_only(folder: FolderBlobs, tmp_path: Path) -> None:
    await folder.put("../../etc", "ab12", b"1")
    path = tmp_path / "files" / place_of("../../etc", "ab12")
    assert path.resolve().is_relative_to(tmp_path / "files")
    assert path.stat().st_mode & 0o777 == 0o600
    assert [each.name for each in path.parent.iterdir()] == ["ab12"]
    assert await folder.get("../../etc", "ab12") == b"1"
    assert await folder.get("other", "ab12") is None
    await folder.delete("../../etc", "ab12")
    await folder.delete("../../etc", "ab12")
    assert await folder.get("../../etc", "ab12") is None


async def test_a_folder_that_cannot_be_used_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StoreUnavailable, match="folder of files"):
        await FolderBlobs(tmp_path / "file").put("w", "ab", b"1")


async def test_object_storage_keeps_bytes(bucket: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in bucket.items():
        monkeypatch.setenv(name, value)
    blobs: Blobs = open_blobs("s3://files/prefix")
    assert isinstance(blobs, ObjectBlobs)
    await blobs.put("w", "ab12", MEBIBYTE * 9)
    assert await blobs.get("w", "ab12") == MEBIBYTE * 9
    assert await blobs.get("other", "ab12") is None
    await blobs.delete("w", "ab12")
    await blobs.delete("w", "ab12")
    assert await blobs.get("w", "ab12") is None
    missing = ObjectBlobs("s3://no-such-bucket/prefix")
    with pytest.raises(StoreUnavailable):
        await missing.put("w", "ab12", b"1")


@pytest.mark.parametrize("call", ["put", "get", "delete"])
async def test_object_storage_that_cannot_be_reached_says_so(
    call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some of its failures are errors of the system, such as a connection that is closed."""

    async def fail(*_arguments: object) -> None:
        raise ConnectionResetError("closed")

    monkeypatch.setattr(f"obstore.{call}_async", fail)
    blobs = ObjectBlobs("s3://files/prefix")
    with pytest.raises(StoreUnavailable, match="object storage"):
        await getattr(blobs, call)("w", "ab12", *([b"1"] if call == "put" else []))


def test_an_unknown_place_for_files_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnknownAddress):
        open_blobs("ftp://host/files")
    assert isinstance(open_blobs(str(tmp_path)), FolderBlobs)
    assert isinstance(open_blobs(f"file://{tmp_path}"), FolderBlobs)

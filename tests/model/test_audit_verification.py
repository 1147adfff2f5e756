"""An export of the audit trail that was tampered with is found out, and the first bad event named."""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from handraise.desk.audit_export import export_lines
from handraise.desk.sealer import Sealer
from handraise.desk_factory import open_backend
from handraise.desks import LocalDesk, desk_from_store
from handraise.errors import UnsafeStore
from handraise.model.audit_verification import (
    TrustedKey,
    Verdict,
    end_digest,
    row_digest,
    rows_digest,
    verify,
)
from handraise.model.provenance import Provenance
from handraise.model.seals import HeadMark, event_leaf, merkle_root, removal_leaf
from handraise.ports import Backend
from handraise.signing.key_files import KeySigner, load_signer, make_key, trusted_key

Lines = list[dict[str, Any]]


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("keys")
    for name in ("old", "new", "other"):
        make_key(folder / name)
    return [folder / name for name in ("old", "new", "other")]


@pytest.fixture(scope="module")
def trusted(keys: list[Path]) -> list[TrustedKey]:
    return [trusted_key(path.with_name(f"{path.name}.pub")) for path in keys[:2]]


@pytest.fixture(scope="module")
def good(keys: list[Path]) -> Lines:
    """Three seals, the last by another key, with a question erased between them."""

    async def made() -> Lines:
        old, new = (load_signer(path) for path in keys[:2])
        async with open_backend("memory:") as ports, desk_from_store(ports.store, ports.bus) as desk:
            await answered(desk, "Deploy now?")
            secret = await answered(desk, "What is your address?")
            await sealed(ports, old)
            await answered(desk, "And tomorrow?")
            await sealed(ports, old)
            await ports.ledger.erase("default", [secret], by="op")
            await desk.post("Still there?")
            await sealed(ports, new)
            return [
                json.loads(line) async for line in export_lines(ports.store, ports.ledger, "default", new)
            ]

    return asyncio.run(made())


@pytest.fixture(scope="module")
def plain(keys: list[Path]) -> Lines:
    return chain_of_three(keys)


def chain_of_three(keys: list[Path], *others: Path) -> Lines:
    """Three seals, the last two by other keys if these are given, and nothing erased."""

    async def made() -> Lines:
        async with open_backend("memory:") as ports, desk_from_store(ports.store, ports.bus) as desk:
            signers = [load_signer(path) for path in (keys[0], *(others or (keys[0], keys[0])))]
            for signer in signers:
                await answered(desk, "Deploy now?")
                await sealed(ports, signer)
            return [
                json.loads(line)
                async for line in export_lines(ports.store, ports.ledger, "default", signers[-1])
            ]

    return asyncio.run(made())


@pytest.fixture
def lines(good: Lines) -> Lines:
    return [json.loads(json.dumps(line)) for line in good]


async def answered(desk: LocalDesk, prompt: str) -> str:
    question = await desk.post(prompt, choices=["yes", "no"])
    await desk.answer(question.id, "yes", by="ana", provenance=Provenance(channel="web", evidence="session"))
    return question.id


async def sealed(ports: Backend, signer: KeySigner | None) -> None:
    assert await Sealer(ports.store, ports.ledger, signer).seal("default") == 1


def judged(lines: Lines, trusted: Sequence[TrustedKey], **options: Any) -> Verdict:
    texts = [json.dumps(line) for line in lines]
    return verify(lambda: texts, keys=trusted, **options)


def places(lines: Lines, kind: str) -> list[int]:
    return [place for place, line in enumerate(lines) if line["type"] == kind]


def cursor_at(lines: Lines, place: int) -> str:
    cursor: str = lines[place]["record"]["cursor"]
    return cursor


def test_what_nobody_touched_is_good(lines: Lines, trusted: list[TrustedKey], keys: list[Path]) -> None:
    verdict = judged(lines, trusted)
    assert verdict.fault is None
    assert (verdict.first, verdict.last, verdict.events, verdict.erased) == (1, 3, 5, 2)
    old, new = (load_signer(path).key_id for path in keys[:2])
    assert verdict.keys == {old: (1, 2), new: (3, 3)}
    assert verdict.end_signed
    assert verdict.head.hex() == lines[places(lines, "seal")[-1]]["digest"]


CHANGES: dict[str, Callable[[dict[str, Any]], None]] = {
    "who": lambda line: line["record"].update(by="mallory"),
    "what": lambda line: line["record"].update(kind="declined"),
    "when": lambda line: line["record"].update(at="2020-01-01T00:00:00.000000+00:00"),
    "where": lambda line: line["record"].update(channel="slack"),
    "data": lambda line: line["record"].update(data={"value": "no"}),
    "asked": lambda line: line["record"].update(asked={"prompt": "Something else?"}),
    "question": lambda line: line["record"].update(question="another"),
    "workspace": lambda line: line["record"].update(workspace="another"),
    "salt": lambda line: line.update(salt="00" * 16),
    "more": lambda line: line["record"].update(note="by hand"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_event_is_named(lines: Lines, trusted: list[TrustedKey], change: str) -> None:
    for place in places(lines, "event"):
        tampered = [json.loads(json.dumps(line)) for line in lines]
        CHANGES[change](tampered[place])
        fault = judged(tampered, trusted).fault
        assert fault is not None
        assert (fault.cursor, fault.line) == (cursor_at(lines, place), place + 1)


def test_a_changed_event_with_a_digest_to_match_is_found_at_its_seal(
    lines: Lines, trusted: list[TrustedKey]
) -> None:
    for place in places(lines, "event"):
        tampered = [json.loads(json.dumps(line)) for line in lines]
        seal = tampered[max(each for each in places(lines, "seal") if each < place)]
        line = tampered[place]
        line["record"]["by"] = "mallory"
        where = seal["cursors"].index(cursor_at(lines, place))
        seal["leaves"][where] = event_leaf(bytes.fromhex(line["salt"]), line["record"]).hex()
        fault = judged(tampered, trusted).fault
        assert fault is not None
        assert fault.seal == seal["number"]


def test_a_removed_event_is_named(lines: Lines, trusted: list[TrustedKey]) -> None:
    for place in places(lines, "event"):
        fault = judged([*lines[:place], *lines[place + 1 :]], trusted).fault
        assert fault is not None
        assert fault.cursor == cursor_at(lines, place)
        assert "missing" in fault.why


def test_an_inserted_event_is_named(lines: Lines, trusted: list[TrustedKey]) -> None:
    for place in places(lines, "event"):
        added = json.loads(json.dumps(lines[place]))
        added["record"]["cursor"] = "999"
        fault = judged([*lines[:place], added, *lines[place:]], trusted).fault
        assert fault is not None
        assert (fault.cursor, fault.line) == ("999", place + 1)


def test_an_event_that_is_there_twice_is_named(lines: Lines, trusted: list[TrustedKey]) -> None:
    for place in places(lines, "event"):
        fault = judged([*lines[:place], lines[place], *lines[place:]], trusted).fault
        assert fault is not None
        assert (fault.cursor, fault.line) == (cursor_at(lines, place), place + 2)


def test_events_that_changed_places_are_found(lines: Lines, trusted: list[TrustedKey]) -> None:
    events = places(lines, "event")
    for one in events:
        for other in events:
            if one < other:
                tampered = list(lines)
                tampered[one], tampered[other] = lines[other], lines[one]
                fault = judged(tampered, trusted).fault
                assert fault is not None
                assert fault.cursor is not None


@pytest.mark.parametrize(
    "name",
    [
        "number",
        "oldest",
        "previous",
        "sealed_at",
        "cursor",
        "cursors",
        "leaves",
        "key_id",
        "digest",
        "signature",
    ],
)
def test_a_changed_seal_is_found(
    lines: Lines, trusted: list[TrustedKey], keys: list[Path], name: str
) -> None:
    others: dict[str, Any] = {
        "number": 7,
        "oldest": 2,
        "previous": "11" * 32,
        "sealed_at": "2020-01-01T00:00:00.000000+00:00",
        "cursor": "1",
        "cursors": [],
        "leaves": [],
        "key_id": load_signer(keys[0]).key_id[::-1],
        "digest": "11" * 32,
        "signature": "11" * 64,
    }
    for place in places(lines, "seal"):
        tampered = [json.loads(json.dumps(line)) for line in lines]
        tampered[place][name] = others[name]
        fault = judged(tampered, trusted).fault
        assert fault is not None
        assert fault.seal in (None, lines[place]["number"], others["number"])


def test_a_seal_that_is_missing_with_all_its_events_is_found(lines: Lines, trusted: list[TrustedKey]) -> None:
    seals = [*places(lines, "seal"), len(lines) - 1]
    for begin, end in itertools.pairwise(seals):
        assert judged([*lines[:begin], *lines[end:]], trusted).fault is not None


def test_what_is_cut_off_anywhere_is_found(lines: Lines, trusted: list[TrustedKey]) -> None:
    for place in range(len(lines)):
        assert judged(lines[:place], trusted).fault is not None
        assert judged([lines[0], *lines[place + 1 :]], trusted).fault is not None or place == 0


def test_seals_that_are_cut_off_with_an_end_to_match_are_found(
    plain: Lines, trusted: list[TrustedKey]
) -> None:
    trusted = trusted[:1]
    assert judged(plain, trusted).fault is None
    lines, seals, end = plain, places(plain, "seal"), plain[-1]
    cut = lines[: seals[1]]
    forged = {**end, "seals": 1, "events": len(places(cut, "event")), "head": lines[seals[0]]["digest"]}
    forged["rows"] = rows_digest([]).hex()
    for other in (forged, {**forged, "signature": None}, {**forged, "signature": None, "key_id": None}):
        fault = judged([*cut, other], trusted).fault
        assert fault is not None
    known = HeadMark(2, bytes.fromhex(lines[seals[1]]["digest"]))
    fault = judged([*cut, {**forged, "signature": None}], trusted, known=[known]).fault
    assert fault is not None
    assert "seal 2 is known" in fault.why


def test_a_seal_of_another_chain_by_the_same_key_is_found(
    plain: Lines, trusted: list[TrustedKey], keys: list[Path]
) -> None:
    other, seals = chain_of_three(keys), places(plain, "seal")
    for first, last in ((0, 1), (1, 2), (2, 3)):
        ends = [*seals, len(plain) - 1]
        mixed = [*plain[: ends[first]], *other[ends[first] : ends[last]], *plain[ends[last] :]]
        end = {**mixed[-1], "head": mixed[seals[-1]]["digest"]}
        mixed[-1] = {**end, "signature": load_signer(keys[0]).sign(end_digest(end)).hex()}
        fault = judged(mixed, trusted).fault
        assert fault is not None
        assert (fault.seal, "does not follow" in fault.why) == (max(first + 1, 2), True)


def test_seals_that_are_cut_off_at_the_beginning_are_found(
    lines: Lines, trusted: list[TrustedKey], keys: list[Path]
) -> None:
    seals, end = places(lines, "seal"), lines[-1]
    cut = [lines[0], *lines[seals[1] : -1]]
    forged = {**end, "seals": 2, "events": len(places(cut, "event"))}
    forged["signature"] = load_signer(keys[1]).sign(end_digest(forged)).hex()
    fault = judged([*cut, forged], trusted).fault
    assert fault is not None
    assert "cut off at the beginning" in fault.why


def test_a_removal_that_was_made_up_changed_or_dropped_is_found(
    lines: Lines, trusted: list[TrustedKey]
) -> None:
    (removal,) = places(lines, "removal")
    fault = judged([*lines[:removal], *lines[removal + 1 :]], trusted).fault
    assert fault is not None
    victim = places(lines, "event")[0]
    for sealed_or_not in (True, False):
        made_up = json.loads(json.dumps(lines[removal]))
        made_up["record"]["cursors"] = [cursor_at(lines, victim)]
        made_up["sealed"] = sealed_or_not
        place = removal if sealed_or_not else len(lines) - 1
        tampered = [*lines[:place], made_up, *lines[place:]]
        del tampered[victim]
        tampered[-1] = {**tampered[-1], "events": tampered[-1]["events"] - 1}
        assert judged(tampered, trusted).fault is not None
        tampered[-1]["loose"] = [] if sealed_or_not else [removal_leaf(made_up["record"]).hex()]
        assert judged(tampered, trusted).fault is not None
    changed = [json.loads(json.dumps(line)) for line in lines]
    changed[removal]["record"]["by"] = "nobody"
    fault = judged(changed, trusted).fault
    assert fault is not None
    assert fault.question_id == lines[removal]["record"]["question"]


def test_a_chain_made_anew_without_the_key_is_found(
    lines: Lines, keys: list[Path], trusted: list[TrustedKey]
) -> None:
    fault = judged(lines, [trusted_key(keys[2].with_name("other.pub"))]).fault
    assert fault is not None
    assert (fault.seal, "was not given" in fault.why) == (1, True)
    stripped = [
        {**line, "key_id": None, "signature": None} if line["type"] == "seal" else line for line in lines
    ]
    assert judged(stripped, trusted).fault is not None


async def test_a_key_that_was_replaced_does_not_come_back(
    keys: list[Path], trusted: list[TrustedKey]
) -> None:
    old, new = (load_signer(path) for path in keys[:2])
    async with open_backend("memory:") as ports, desk_from_store(ports.store, ports.bus) as desk:
        for signer in (old, new, old):
            await answered(desk, "Now?")
            sealer = Sealer(ports.store, ports.ledger, signer)
            # A thief would.
            sealer._may_seal = always  # type: ignore[assignment,method-assign]  # noqa: SLF001
            sealer._of_another_key = never  # type: ignore[assignment,method-assign]  # noqa: SLF001
            assert await sealer.seal("default") == 1
        lines = [json.loads(line) async for line in export_lines(ports.store, ports.ledger, "default", new)]
    fault = judged(lines, trusted).fault
    assert fault is not None
    assert (fault.seal, "had been replaced" in fault.why) == (3, True)


def test_a_key_that_was_replaced_can_neither_cut_the_end_off_nor_make_the_chain_anew(
    plain: Lines, trusted: list[TrustedKey], keys: list[Path]
) -> None:
    rotated = chain_of_three(keys, keys[1], keys[1])
    assert judged(rotated, trusted).fault is None
    old, seals = load_signer(keys[0]), places(rotated, "seal")
    rows = [rotated[place] for place in places(rotated, "question")][:2]
    cut = [*rotated[: seals[2]], *rows]
    end = {**rotated[-1], "seals": 2, "events": len(places(cut, "event")), "key_id": old.key_id}
    end["rows"] = rows_digest(map(row_digest, rows)).hex()
    end["head"] = rotated[seals[1]]["digest"]
    end["signature"] = old.sign(end_digest(end)).hex()
    fault = judged([*cut, end], trusted).fault
    assert fault is not None
    assert "replaced it" in fault.why
    # `plain` is what a thief of the old key makes of everything, behind the back of the new one.
    fault = judged(plain, trusted).fault
    assert fault is not None
    assert "replaced it" in fault.why
    unsigned_end = [*plain[:-1], {**plain[-1], "signature": None, "key_id": None}]
    first = HeadMark(1, bytes.fromhex(plain[places(plain, "seal")[0]]["digest"]))
    fault = judged(unsigned_end, trusted, known=[first]).fault
    assert fault is not None
    assert "replaced it" in fault.why
    assert judged(plain, trusted[:1]).fault is None
    assert judged(unsigned_end, trusted[:1], known=[first]).fault is None


def test_a_key_signs_only_the_seals_of_its_range(good: Lines, keys: list[Path]) -> None:
    old, new = (path.with_name(f"{path.name}.pub") for path in keys[:2])
    assert judged(good, [trusted_key(old, 1, 2), trusted_key(new, 3)]).fault is None
    for ranges in ([trusted_key(old, 1, 1), trusted_key(new)], [trusted_key(old), trusted_key(new, 4)]):
        fault = judged(good, ranges).fault
        assert fault is not None
        assert "was not in use then" in fault.why
    fault = judged(good, [trusted_key(new), trusted_key(old)]).fault
    assert fault is not None
    assert "in the order" in fault.why


async def always(*_: object) -> bool:
    return True


async def never(*_: object) -> None:
    return None


async def test_what_nobody_signed_is_good_only_for_whoever_says_so(trusted: list[TrustedKey]) -> None:
    async with open_backend("memory:") as ports, desk_from_store(ports.store, ports.bus) as desk:
        await answered(desk, "Now?")
        await sealed(ports, None)
        lines = [json.loads(line) async for line in export_lines(ports.store, ports.ledger, "default")]
    assert judged(lines, ()).fault is not None
    assert judged(lines, trusted).fault is not None
    good = judged(lines, (), unsigned=True)
    assert (good.fault, good.unsigned, good.keys) == (None, 1, {})
    head = HeadMark(1, bytes.fromhex(lines[1]["digest"]))
    assert judged(lines, (), known=[head]).fault is None
    assert judged(lines, (), known=[HeadMark(1, bytes(32))]).fault is not None


def test_no_byte_can_be_changed(good: Lines, trusted: list[TrustedKey]) -> None:
    """Of the first seal and its events; what is left alone must still be read as it was."""
    text = "\n".join(json.dumps(line, separators=(",", ":")) for line in good)
    raw = text.encode()
    for place in range(0, len(raw), 5):
        changed = raw[:place] + bytes([raw[place] ^ 1]) + raw[place + 1 :]
        lines = changed.decode(errors="surrogateescape").split("\n")
        assert verify(lambda lines=lines: lines, keys=trusted).fault is not None, raw[place - 20 : place + 20]  # type: ignore[misc]  # a lambda's default has no type


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", "null", '{"type":"export"}', "[" * 100_000])
def test_what_is_no_export_is_not_good(text: str) -> None:
    fault = verify(lambda: [text] if text else [], unsigned=True).fault
    assert fault is not None


def test_the_root_is_that_of_rfc_6962() -> None:
    # The leaves and roots of the certificate transparency test vectors, whose leaves are hashed already.
    leaves = [
        "",
        "00",
        "10",
        "2021",
        "3031",
        "40414243",
        "5051525354555657",
        "606162636465666768696a6b6c6d6e6f",
    ]
    hashed = [hashlib.sha256(b"\x00" + bytes.fromhex(leaf)).digest() for leaf in leaves]
    assert merkle_root([]).hex() == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert merkle_root(hashed[:1]).hex() == "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d"
    assert merkle_root(hashed[:3]).hex() == "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77"
    assert merkle_root(hashed).hex() == "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328"


def test_a_key_that_others_may_read_is_refused(tmp_path: Path) -> None:
    make_key(tmp_path / "key")
    assert (tmp_path / "key").stat().st_mode & 0o077 == 0
    (tmp_path / "key").chmod(0o644)
    with pytest.raises(UnsafeStore, match="chmod 600"):
        load_signer(tmp_path / "key")
    with pytest.raises(FileExistsError):
        make_key(tmp_path / "key")


def test_a_signature_is_of_the_whole_seal(keys: Sequence[Path]) -> None:
    signer = KeySigner(Ed25519PrivateKey.generate())
    mine, public = load_signer(keys[0]), trusted_key(keys[0].with_name("old.pub"))
    for key in (mine, public):
        assert key.key_id == mine.key_id
        assert key.has_signed(b"x", mine.sign(b"x"))
        assert not key.has_signed(b"y", mine.sign(b"x"))
        assert not key.has_signed(b"x", signer.sign(b"x"))

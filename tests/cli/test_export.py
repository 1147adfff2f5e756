"""`handraise export` from outside: every format, on a store and at a server, and what is left if it fails."""

from __future__ import annotations

import asyncio
import csv
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from socket import create_server
from typing import Any

import pytest
from pyarrow import parquet  # type: ignore[import-untyped]  # it has no types

from handraise import Approval, open_desk
from handraise.backends.sqlite.store import SqliteStore
from handraise.desk import answer_pages
from handraise.model.errors import StoreUnavailable
from handraise.ports import SettledRows
from handraise.wire.answer_records import FIELDS
from support.command import handraise, process, serving

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'questions.db'}"


@pytest.fixture
def ids(url: str) -> list[str]:
    """Five settled questions, oldest first, beside one that waits."""
    return asyncio.run(settle_some(url))


async def settle_some(url: str) -> list[str]:
    async with open_desk(url, asker="bot") as desk:
        choice = await desk.post("=Which?", choices=["a", "b"], trace=TRACE)
        await desk.answer(choice.id, "b", by="ana")
        pay = Approval.of("pay", {"amount": 7}, editable=["amount"])
        edited, denied = await desk.post("Pay?", form=pay), await desk.post("Pay again?", form=pay)
        await desk.answer(edited.id, {"decision": "approve", "arguments": {"amount": 5}}, by="ana")
        await desk.answer(denied.id, {"decision": "deny", "reason": "not now"}, by="bo")
        declined, withdrawn = await desk.post("Why?"), await desk.post("When?")
        await desk.decline(declined.id, by="bo", reason="ask Ana")
        await desk.withdraw(withdrawn.id)
        await desk.post("Still waiting")
        return [each.id for each in (choice, edited, denied, declined, withdrawn)]


def exported(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_the_name_of_a_file_says_its_format_and_all_have_the_same_answers(
    url: str, ids: list[str], tmp_path: Path
) -> None:
    files = {kind: tmp_path / f"answers.{kind}" for kind in ("jsonl", "csv", "parquet")}
    for file in files.values():
        done = handraise("export", "answers", str(file), url=url)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout == f"5 settled questions are in {file}.\n"
        assert file.stat().st_mode & 0o077 == 0, "others could read all questions and answers"
    found = exported(files["jsonl"].read_text())
    assert [each["id"] for each in found] == ids
    assert [(each["status"], each["decision"], each["edited"]) for each in found] == [
        ("answered", None, None),
        ("answered", "approved", True),
        ("answered", "denied", False),
        ("declined", None, None),
        ("withdrawn", None, None),
    ]
    assert [each["reason"] for each in found] == [None, None, "not now", "ask Ana", None]
    assert (found[0]["trace_id"], found[0]["span_id"]) == (TRACE[3:35], TRACE[36:52])
    with files["csv"].open(newline="") as lines:
        rows = list(csv.DictReader(lines))
    assert [row["id"] for row in rows] == ids
    assert rows[0]["prompt"] == "'=Which?"
    assert json.loads(rows[1]["arguments"]) == {"amount": 7}
    table = parquet.read_table(files["parquet"]).to_pylist()
    assert [list(row) for row in table] == [list(FIELDS)] * 5
    for row, record in zip(table, found, strict=True):
        assert {
            name: value
            if value is None or kind not in ("json", "time")
            else json.loads(value)
            if kind == "json"
            else value.isoformat()
            for (name, value), kind in zip(row.items(), FIELDS.values(), strict=True)
        } == record
    assert {each.name for each in tmp_path.iterdir() if ".part" in each.name} == set()


def test_a_file_of_another_format_is_refused_and_not_made(url: str, ids: list[str], tmp_path: Path) -> None:
    del ids
    refused = handraise("export", "answers", str(tmp_path / "k2.xlsx"), url=url)
    assert (refused.returncode, "There is no export as .xlsx" in refused.stderr) == (2, True)
    assert list(tmp_path.glob("k2*")) == []


def test_without_a_file_records_go_to_stdout(url: str, ids: list[str]) -> None:
    done = process("export", "answers", "--since", "1h", url=url)
    assert (done.returncode, done.stderr) == (0, "")
    assert [each["id"] for each in exported(done.stdout)] == ids


def test_an_export_of_a_time_or_of_another_workspace(url: str, ids: list[str], tmp_path: Path) -> None:
    file = tmp_path / "answers.csv"
    for line in (("--until", "2020-01-01"), ("-w", "other")):
        assert (
            handraise("export", "answers", str(file), *line, url=url).stdout
            == f"0 settled questions are in {file}.\n"
        )
        assert file.read_text().splitlines() == [",".join(FIELDS)]
        file.unlink()
    assert handraise("export", "answers", str(file), "--since", "soon", url=url).returncode == 2
    assert not file.exists()
    assert len(ids) == 5


@pytest.mark.only_proof_of("the command exports the same from a real server as from its store")
def test_at_a_server_a_key_that_only_reads_exports_the_same_and_others_are_refused(
    url: str, ids: list[str], tmp_path: Path
) -> None:
    made = {
        "reads": handraise("keys", "create", "warehouse", "--read-only", "--json", url=url),
        "asks": handraise("keys", "create", "bot", "--json", url=url),
    }
    keys = {name: json.loads(done.stdout)["key"] for name, done in made.items()}
    with serving(url, tmp_path) as server:
        for kind in ("jsonl", "csv", "parquet"):
            there, here = tmp_path / f"there.{kind}", tmp_path / f"here.{kind}"
            done = handraise("export", "answers", str(there), url=server.address, key=keys["reads"])
            assert (done.returncode, done.stderr) == (0, "")
            assert handraise("export", "answers", str(here), url=url).returncode == 0
            assert there.read_bytes() == here.read_bytes()
        asking = handraise(
            "export", "answers", str(tmp_path / "no.jsonl"), url=server.address, key=keys["asks"]
        )
        assert asking.returncode == 1
        assert "only people may do this" in asking.stderr
        elsewhere = handraise(
            "export",
            "answers",
            str(tmp_path / "no.jsonl"),
            "-w",
            "other",
            url=server.address,
            key=keys["reads"],
        )
        assert elsewhere.returncode == 1
    assert not (tmp_path / "no.jsonl").exists()
    assert len(ids) == 5


def test_a_file_that_exists_is_left_as_it_is(url: str, ids: list[str], tmp_path: Path) -> None:
    file = tmp_path / "answers.jsonl"
    file.write_text("mine")
    done = handraise("export", "answers", str(file), url=url)
    assert (done.returncode, file.read_text()) == (1, "mine")
    assert len(ids) == 5


def test_an_export_that_fails_on_its_way_leaves_no_file(
    url: str, ids: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages: list[SettledRows] = []
    read = SqliteStore.settled_rows

    async def stumbling(*given: Any, **named: Any) -> SettledRows:
        if len(pages) == 2:
            raise StoreUnavailable("The disk is gone.")
        pages.append(await read(*given, **named))
        return pages[-1]

    monkeypatch.setattr(answer_pages, "_EVENTS", 2)
    monkeypatch.setattr(SqliteStore, "settled_rows", stumbling)
    folder = tmp_path / "out"
    folder.mkdir()
    done = handraise("export", "answers", str(folder / "answers.jsonl"), url=url)
    assert done.returncode == 69
    assert any(page.rows for page in pages)
    assert list(folder.iterdir()) == []
    assert len(ids) == 5


@pytest.mark.parametrize("end", ["", "0\r\n\r\n"], ids=["no last chunk", "half a line"])
def test_a_response_that_was_cut_off_leaves_no_file(tmp_path: Path, end: str) -> None:
    line = json.dumps(dict.fromkeys(FIELDS) | {"settled_at": "2026-11-17T09:00:00+00:00"}) + "\n"
    body = f"{len(line):x}\r\n{line}\r\n"
    if end:
        body += '5\r\n{"id"\r\n'
    head = "HTTP/1.1 200 OK\r\ncontent-type: application/jsonl\r\ntransfer-encoding: chunked\r\n\r\n"
    folder = tmp_path / "out"
    folder.mkdir()
    with answering(f"{head}{body}{end}".encode()) as address:
        key = "hrr_mrswmylvnr2a_" + "A" * 43
        done = handraise("export", "answers", str(folder / "answers.jsonl"), url=address, key=key)
    assert (done.returncode, list(folder.iterdir())) == (69, []), done


@contextmanager
def answering(says: bytes) -> Iterator[str]:
    """A server that says this to the first request, and hangs up."""
    with create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            connection, _ = listening.accept()
            with connection:
                while b"\r\n\r\n" not in connection.recv(65_536):
                    pass
                connection.sendall(says)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        thread.join(timeout=30)

"""Heads of the audit trail go to witnesses, and what a witness saw exposes a chain that was rebuilt with the genuine key."""

from __future__ import annotations

import asyncio
import json
import mailbox
import re
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest import mock

import pydantic
import pytest

from handraise import Approval
from handraise.desk import sealer
from handraise.desk.sealer import Sealer
from handraise.desk_factory import open_backend
from handraise.model.witnesses import ChainHead
from handraise.server import ServerSettings
from handraise.server.audit_heads import HeadsFile
from handraise.server.context import ServerContext, open_server
from handraise.signing.key_files import KeySigner, load_signer, make_key
from handraise.testing import ManualClock
from support.command import Done, handraise
from support.webhook_receiver import receiving
from tests.channels.mail_servers import PostOffice, post_office
from tests.server.timestamp_server import timestamp_authority

SOON = 10.0
KINDS = ["file", "http", "mail", "timestamp"]
LOOPBACK = '["127.0.0.0/8"]'


@dataclass
class Kept:
    """A witness: the settings that name it, what it kept, and the options with which that is compared."""

    settings: dict[str, Any]
    heads: Callable[[], list[ChainHead]]
    save: Callable[[], list[str]]


@asynccontextmanager
async def witness(kind: str, folder: Path) -> AsyncIterator[Kept]:
    """A witness of this kind, outside of the store's folder."""
    folder.mkdir()
    match kind:
        case "file":
            file = folder / "heads.jsonl"
            file.touch()
            yield Kept(
                {"audit_witnesses": (f"file://{file}",)},
                lambda: heads_in(file.read_text()),
                lambda: ["--witness", str(file)],
            )
        case "http":
            async with receiving() as receiver:
                got = receiver.got

                def saved() -> list[str]:
                    (folder / "posted").write_bytes(b"\n".join(each.body for each in got))
                    return ["--witness", str(folder / "posted")]

                yield Kept(
                    {"audit_witnesses": (receiver.url,), "audit_witness_allow_private": ("127.0.0.0/8",)},
                    lambda: heads_in("\n".join(each.body.decode() for each in got)),
                    saved,
                )
        case "mail":
            async with post_office() as office:
                yield Kept(
                    {
                        "audit_witnesses": ("mailto:audit@example.com",),
                        "email_smtp_url": f"smtp://127.0.0.1:{office.port}?tls=none",
                        "email_from": "Handraise <desk@example.org>",
                    },
                    lambda: heads_in("\n".join(each.text for each in office.mails)),
                    lambda: saved_mails(office, folder),
                )
        case "timestamp":
            file = folder / "stamps.jsonl"
            file.touch()
            async with timestamp_authority(folder / "authority") as authority:
                yield Kept(
                    {
                        "audit_witnesses": (authority.url,),
                        "audit_witness_allow_private": ("127.0.0.0/8",),
                        "audit_timestamps": file,
                    },
                    lambda: heads_in(file.read_text()),
                    lambda: ["--witness", str(file), "--witness-ca", str(authority.root)],
                )


def saved_mails(office: PostOffice, folder: Path) -> list[str]:
    """The mails of a mailbox in a folder, each in its file."""
    for number, mail in enumerate(office.mails):
        assert mail.to == "audit@example.com"
        (folder / f"{number}.eml").write_bytes(mail.raw)
    (folder / "other.eml").write_bytes(b"From: ann@example.org\r\nSubject: Lunch?\r\n\r\nToday?\r\n")
    return ["--witness", str(folder)]


def heads_in(text: str) -> list[ChainHead]:
    return [ChainHead.from_record(json.loads(line)) for line in text.splitlines() if line.startswith("{")]


@pytest.fixture
def key(tmp_path: Path) -> Path:
    (tmp_path / "etc").mkdir()
    make_key(tmp_path / "etc" / "key")
    return tmp_path / "etc" / "key"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "questions.db"


def settings(file: Path, key: Path | None, kept: dict[str, Any], **more: Any) -> ServerSettings:
    chosen = {"seal_interval": 0.05, "audit_witness_interval": 0.05, **kept, **more}
    return ServerSettings(url=f"sqlite:///{file}", audit_key=key, **chosen)


async def denied(ctx: ServerContext) -> None:
    question = await ctx.desk.post("Pay?", form=Approval.of("pay", {"eur": 5}))
    await ctx.desk.answer(question.id, "deny", by="ana")


async def seen(ctx: ServerContext, kept: Kept, workspace: str = "default") -> ChainHead:
    """The last head of a workspace, once it covers everything and the witness has it."""
    async with asyncio.timeout(SOON):
        while True:
            last = (await ctx.ledger.head(workspace)).seal
            if last is not None and not await ctx.ledger.unsealed(limit=1):
                head = ChainHead.from_seal(last)
                if head in kept.heads():
                    return head
            await asyncio.sleep(0.02)


def exported(file: Path, key: Path, name: str = "trail.jsonl") -> Path:
    trail = file.with_name(name)
    trail.unlink(missing_ok=True)
    done = handraise("audit", "export", str(trail), url=f"sqlite:///{file}", audit_key=str(key))
    assert done.returncode == 0, done.stderr
    return trail


def verified(trail: Path, key: Path, *line: str) -> Done:
    return handraise("audit", "verify", str(trail), "--key", f"{key}.pub", *line)


async def rebuild(file: Path, heads: Path, signer: KeySigner | None) -> None:
    """What somebody does who can write to the store and has the key: every denial becomes an approval, sealed anew."""
    with sqlite3.connect(file) as connection:
        for trigger in ("asked_stays", "settled_stays"):
            connection.execute(f"drop trigger {trigger}")
        for table, column in (("events", "data"), ("questions", "outcome")):
            replaced = f"update {table} set {column} = replace({column}, '\"deny\"', '\"approve\"')"  # noqa: S608 -- our tables
            assert connection.execute(replaced).rowcount > 0
        connection.execute("delete from seals")
    connection.close()
    heads.unlink()
    async with open_backend(f"sqlite:///{file}") as ports:
        # One seal for each event, so that the new chain is not shorter.
        with mock.patch.object(sealer, "AT_ONCE", 1):
            rebuilt = Sealer(ports.store, ports.ledger, signer, HeadsFile.prepare(heads) if signer else None)
            assert await rebuilt.run() == 2


@pytest.mark.parametrize("kind", KINDS)
async def test_a_witness_exposes_a_chain_that_was_rebuilt_with_the_genuine_key(
    kind: str, file: Path, key: Path, tmp_path: Path
) -> None:
    async with witness(kind, tmp_path / "witness") as kept:
        async with open_server(settings(file, key, kept.settings)) as ctx:
            await denied(ctx)
            head = await seen(ctx, kept)
        options = kept.save()
    good = await asyncio.to_thread(lambda: verified(exported(file, key), key, *options))
    assert (good.returncode, good.stderr) == (0, "")
    assert re.search(r"heads? agrees?, (seen|stamped) 20", good.stdout)
    await rebuild(file, key.with_name("audit.heads"), load_signer(key))
    trail = await asyncio.to_thread(exported, file, key)
    alone = await asyncio.to_thread(verified, trail, key)
    assert (alone.returncode, alone.stderr) == (0, ""), "without a witness, nobody can tell"
    assert '"approve"' in trail.read_text()
    bad = await asyncio.to_thread(verified, trail, key, *options)
    assert (bad.returncode, bad.stdout) == (1, "")
    assert "the chain was changed or rebuilt after a witness had seen it" in bad.stderr
    assert f"signed with the key {head.key_id}" in bad.stderr


def heads_file(path: Path) -> Kept:
    """A witness that is a file, which does not exist yet."""
    return Kept(
        {"audit_witnesses": (f"file://{path}",)},
        lambda: heads_in(path.read_text()) if path.exists() else [],
        lambda: ["--witness", str(path)],
    )


async def until(holds: Callable[[], object]) -> None:
    async with asyncio.timeout(SOON):
        while not holds():
            await asyncio.sleep(0.02)


async def test_a_witness_that_fails_is_tried_again_and_shown_and_holds_up_nothing(
    file: Path, key: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "heads.jsonl"
    kept = heads_file(path)
    async with open_server(settings(file, key, {})) as ctx:
        await denied(ctx)
        assert ctx.signed_heads is not None
        async with asyncio.timeout(SOON):
            while await ctx.signed_heads.find("default") is None:
                await asyncio.sleep(0.02)
    # What was sealed before there was a witness is sent to it.
    async with open_server(settings(file, key, kept.settings)) as ctx:
        await until(lambda: b'handraise_audit_witness_failing{witness="file"} 1.0' in ctx.metrics.render())
        await denied(ctx)
        async with asyncio.timeout(SOON):
            while await ctx.ledger.unsealed(limit=1):
                await asyncio.sleep(0.02)
        failed = b'handraise_audit_witness_tries_total{status="failed",witness="file"} 3.0'
        await until(lambda: failed in ctx.metrics.render())
    assert not path.exists(), "a file system that is not mounted must not go unnoticed"
    environment = {"audit_key": str(key), "audit_witnesses": json.dumps(kept.settings["audit_witnesses"])}
    doctor = await asyncio.to_thread(handraise, "doctor", url=f"sqlite:///{file}", **environment)
    assert f"file {path}: FAILING since" in doctor.stdout
    assert "last sent heads never" in doctor.stdout
    path.touch()
    # Nothing new is sealed: what the witness did not get is remembered.
    async with open_server(settings(file, key, kept.settings)) as ctx:
        await seen(ctx, kept)
        await until(lambda: b'handraise_audit_witness_failing{witness="file"} 0.0' in ctx.metrics.render())
        assert (
            b'handraise_audit_witness_tries_total{status="sent",witness="file"} 1.0' in ctx.metrics.render()
        )
    said = [record.message for record in caplog.records if "did not get heads" in record.message]
    assert len(said) == 1
    assert "No such file" in said[0]
    doctor = await asyncio.to_thread(handraise, "doctor", url=f"sqlite:///{file}", **environment)
    assert "FAILING" not in doctor.stdout
    assert "last sent heads 20" in doctor.stdout


def test_the_settings_say_what_a_witness_needs(tmp_path: Path) -> None:
    chosen: dict[str, Any] = {"url": "memory:", "audit_heads": tmp_path / "heads"}
    for witnesses, missing in (
        (["ftp://example.com"], "expected file:"),
        (["file:heads.jsonl"], "a whole path"),
        (["mailto:nobody"], "an e-mail address"),
        (["http://example.com"], "an https address"),
        (["https://user:password@example.com"], "an https address"),
        (["mailto:audit@example.com"], "HANDRAISE_EMAIL_SMTP_URL"),
        (["rfc3161+https://example.com"], "HANDRAISE_AUDIT_TIMESTAMPS"),
    ):
        with pytest.raises(pydantic.ValidationError, match=missing):
            ServerSettings(**chosen, audit_witnesses=witnesses)
    with pytest.raises(pydantic.ValidationError, match="HANDRAISE_AUDIT_HEADS"):
        ServerSettings(url="memory:", audit_witnesses=["https://example.com"])
    fine = ServerSettings(**chosen, audit_witnesses=["https://example.com/hush"])
    assert "hush" not in repr(fine)


@pytest.mark.slow(
    "the rule is in tests/model/test_witness_comparison.py, and the gate has a genuine timestamp"
)
async def test_timestamps_that_were_made_anew_show_that_they_are_late(
    file: Path, key: Path, tmp_path: Path
) -> None:
    # The authority's clock is the real one, and the seals say that they are older.
    clock = ManualClock(datetime.now(UTC) - timedelta(days=10))
    async with witness("timestamp", tmp_path / "witness") as kept:
        async with open_server(settings(file, key, kept.settings), clock=clock) as ctx:
            await denied(ctx)
            await seen(ctx, kept)
        options = kept.save()
    trail = await asyncio.to_thread(exported, file, key)

    async def verify(*line: str) -> tuple[int, str]:
        done = await asyncio.to_thread(verified, trail, key, *line)
        return done.returncode, done.stderr

    assert await verify(*options) == (0, "")
    since = [*options, "--witness-since", f"{clock.now():%Y-%m-%d}"]
    code, why = await verify(*since)
    assert (code, "it could have been rebuilt until then" in why) == (1, True)
    assert await verify(*since, "--witness-within", "11d") == (0, "")
    code, why = await verify(*options[:2])
    assert (code, "--witness-ca" in why) == (1, True)
    code, why = await verify(*options[:2], "--witness-ca", f"{key}.pub")
    assert (code, "no certificate" in why) == (1, True)
    code, why = await verify(*options, "--witness-within", "soon")
    assert (code, "is not a span" in why) == (1, True)


@pytest.mark.slow("the gate has a folder of mails and a file of lines")
async def test_what_a_witness_kept_is_read_in_whatever_form_it_was_kept(
    file: Path, key: Path, tmp_path: Path
) -> None:
    async with post_office() as office:
        mail = {
            "audit_witnesses": ("mailto:audit@example.com",),
            "email_smtp_url": f"smtp://127.0.0.1:{office.port}?tls=none",
            "email_from": "Handraise <desk@example.org>",
            "language": "de",
        }
        kept = Kept(mail, lambda: heads_in("\n".join(each.text for each in office.mails)), list)
        async with open_server(settings(file, key, kept.settings)) as ctx:
            await denied(ctx)
            await seen(ctx, kept)
    assert "Bewahren Sie diese E-Mail auf" in office.mails[0].text
    records = [head.record for head in kept.heads()]
    forms = tmp_path / "forms"
    (forms / "maildir" / "cur").mkdir(parents=True)
    (forms / "maildir" / "tmp").mkdir()
    (forms / "maildir" / "tmp" / "half").write_bytes(b'{"type": "handraise.head", ')
    for number, each in enumerate(office.mails):
        (forms / "maildir" / "cur" / f"{number}:2,S").write_bytes(each.raw)
    box = mailbox.mbox(forms / "mbox")
    for each in office.mails:
        box.add(each.raw)
    box.close()
    (forms / "array.json").write_text(json.dumps(records, indent=2))
    (forms / "lines").write_text("\n".join(["{torn", "", *map(json.dumps, records), "{}"]))
    trail = await asyncio.to_thread(exported, file, key)
    for form in sorted(forms.iterdir()):
        good = await asyncio.to_thread(verified, trail, key, "--witness", str(form))
        assert (good.returncode, good.stderr) == (0, ""), form
        assert re.search(rf"{form.name}: {len(records)} heads? agree", good.stdout)
        assert ("2 could not be read" in good.stdout) == (form.name == "lines")
    (forms / "empty").touch()
    bad = await asyncio.to_thread(verified, trail, key, "--witness", str(forms / "empty"))
    assert (bad.returncode, "no head of this workspace" in bad.stderr) == (1, True)


@pytest.mark.slow("unsigned chains are compared by the same lines")
async def test_a_witness_exposes_an_unsigned_chain_that_was_rebuilt(file: Path, tmp_path: Path) -> None:
    heads = tmp_path / "etc" / "audit.heads"
    heads.parent.mkdir()
    url = f"sqlite:///{file}"
    async with witness("file", tmp_path / "witness") as kept:
        async with open_server(settings(file, None, kept.settings, audit_heads=heads)) as ctx:
            await denied(ctx)
            await seen(ctx, kept)
        await asyncio.to_thread(handraise, "audit", "export", str(tmp_path / "one"), url=url)
        good = await asyncio.to_thread(handraise, "audit", "verify", str(tmp_path / "one"), *kept.save())
        assert (good.returncode, good.stderr) == (0, "")
        await rebuild(file, heads, signer=None)
        await asyncio.to_thread(handraise, "audit", "export", str(tmp_path / "two"), url=url)
        alone = await asyncio.to_thread(handraise, "audit", "verify", str(tmp_path / "two"), "--unsigned")
        assert alone.returncode == 0
        bad = await asyncio.to_thread(handraise, "audit", "verify", str(tmp_path / "two"), *kept.save())
        assert (bad.returncode, "rebuilt after a witness had seen it" in bad.stderr) == (1, True)


@pytest.mark.slow("the command of docs/how-to/audit.md, which shows it too")
async def test_the_command_sends_the_last_seal_now_and_says_who_did_not_get_it(
    file: Path, key: Path, tmp_path: Path
) -> None:
    url, there, away = f"sqlite:///{file}", tmp_path / "there", tmp_path / "away"
    there.touch()
    chosen = {"audit_key": str(key), "audit_witnesses": json.dumps([f"file://{there}", f"file://{away}"])}

    def command(*line: str, **settings: str) -> Done:
        return handraise("audit", *line, url=url, **settings)

    async with open_backend(url):
        pass
    nothing = await asyncio.to_thread(command, "witness", **chosen)
    assert (nothing.returncode, "Nothing is sealed yet" in nothing.stderr) == (1, True)
    async with open_server(settings(file, key, {}, seal_interval=3_600)) as ctx:
        await denied(ctx)
    # What a command seals is for the witnesses too.
    sealed = await asyncio.to_thread(command, "export", str(tmp_path / "trail"), **chosen)
    assert sealed.returncode == 0
    done = await asyncio.to_thread(command, "witness", **chosen)
    assert (done.returncode, done.stdout) == (1, f"file {there}: sent\n")
    assert (
        done.stderr
        == f"file {away}: {away} cannot be written: No such file or directory. Create it once, where it is kept\n"
    )
    [head] = heads_in(there.read_text())
    away.touch()
    async with open_server(settings(file, key, {"audit_witnesses": json.loads(chosen["audit_witnesses"])})):
        await until(lambda: heads_in(away.read_text()) == [head])
    assert heads_in(there.read_text()) == [head], "it has it already"
    none = await asyncio.to_thread(command, "witness", audit_key=str(key))
    assert (none.returncode, "there is no witness" in none.stderr) == (1, True)


@pytest.mark.slow("one head for each workspace; the gate has one workspace")
async def test_one_mail_has_the_heads_of_all_workspaces(file: Path, key: Path, tmp_path: Path) -> None:
    async with witness("mail", tmp_path / "witness") as kept:
        async with open_server(settings(file, key, kept.settings, seal_interval=3_600)) as ctx:
            for name in ("a", "b", "münchen\n{}"):
                await ctx.desk.scoped(name).post("Now?")
            await ctx.sealer().run()
            await until(lambda: len(kept.heads()) >= 3)
        assert [head.workspace for head in kept.heads()] == ["a", "b", "münchen\n{}"]

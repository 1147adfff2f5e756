"""What pages need: a store with people and a question in it, databases, files."""

from __future__ import annotations

import asyncio
import contextlib
import getpass
import json
import re
import shlex
import shutil
import subprocess
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from playwright.sync_api import sync_playwright

from handraise import Approval, Choice, Provenance, Responder, open_desk
from handraise.model.identities import Role
from handraise.model.passkey_signatures import answered
from handraise.model.validation import check_answer
from handraise.server import ServerContext, ServerSettings, open_server
from handraise.server.auth.issuer import issue_key, issue_link, issue_session
from handraise.server.context import open_context
from handraise.server.passkeys.ceremony import PasskeyCeremony
from handraise.server.passkeys.passkey_use import PasskeyUse
from handraise.signing.key_files import make_key
from support.authenticator import SoftAuthenticator
from support.chromium import ARGUMENTS
from support.database import POSTGRES, drop_database
from support.doc_pages import DOCS, ROOT
from support.free_port import free_port
from support.page_runner import SOON, Stranger, sit_down
from support.terminal import ENTER

HOW_TO, REFERENCE = DOCS / "how-to", DOCS / "reference"


@contextlib.contextmanager
def with_people(stranger: Stranger) -> Iterator[None]:
    """People, a key, sessions and a question, in the default store."""
    folder = stranger.folder / "data" / "handraise"
    folder.mkdir(parents=True, exist_ok=True)
    url = f"sqlite:///{folder / 'handraise.db'}"
    asyncio.run(_furnish(url, stranger))
    yield


@contextlib.contextmanager
def with_a_mount(stranger: Stranger) -> Iterator[None]:
    """The same, and a file system of another machine."""
    mount = stranger.folder.parent / "mount"
    mount.mkdir()
    stranger.replaced["/mnt/witness"] = str(mount)
    with with_people(stranger):
        yield


async def _furnish(url: str, stranger: Stranger) -> None:
    port = int(stranger.environment["HANDRAISE_PORT"])
    # Without background tasks: the first seals are those of the page.
    async with open_context(ServerSettings(url=url, port=port)) as ctx:
        for name, role in (
            ("ada", Role.MEMBER),
            ("ana", Role.MEMBER),
            ("boss", Role.ADMIN),
        ):
            await ctx.directory.put_person("default", name, name=name, email=None, role=role)
        await ctx.directory.put_group("default", "ops", {"ana"})
        said = [(await issue_key(ctx, "default", agent="deployer", by="boss")).key]
        link = await issue_link(ctx, "default", person="ada", purpose="sign-in", vouched_by=None)
        session = await issue_session(ctx, "default", person="boss", how="test")
        assert link is not None
        assert session is not None
        said += [link.url, session.token, await _ask(ctx)]
        stranger.environment["SESSION"] = session.token
    stranger.said = "\n".join(said)


async def _ask(ctx: ServerContext) -> str:
    """Four questions, of which one is settled."""
    desk = ctx.desk.scoped("default", asker="deployer")
    settled = await desk.post("Deploy?", choices=["yes", "no"])
    await desk.answer(settled.id, "yes", by=Responder("ana"))
    pending = [await desk.post("Which strategy?", choices=["Canary", "Rolling"]) for _ in range(3)]
    return " ".join(each.id for each in pending)


@contextlib.contextmanager
def with_a_policy(stranger: Stranger) -> Iterator[None]:
    """The same, and the policy of the page in a file."""
    page = (HOW_TO / "write-a-policy.md").read_text(encoding="utf-8")
    policy = page.partition("```yaml\n")[2].partition("```")[0]
    (stranger.folder / "policy.yaml").write_text(policy, encoding="utf-8")
    with with_people(stranger):
        yield


@contextlib.contextmanager
def with_a_passkey(stranger: Stranger) -> Iterator[None]:
    """The same, and a passkey of ana with which she has approved something that needs one."""
    with with_people(stranger):
        key = SoftAuthenticator("https://handraise.example")
        asyncio.run(
            _approve_with(key, f"sqlite:///{stranger.folder / 'data' / 'handraise' / 'handraise.db'}")
        )
        stranger.replaced["q83fZ…"] = key.id
        yield


async def _approve_with(key: SoftAuthenticator, url: str) -> None:
    rule = {"name": "r", "then": {"require": {"evidence": "passkey"}}}
    async with open_server(ServerSettings(url=url)) as ctx:
        ana = await ctx.directory.find_person("default", "ana")
        assert ana is not None
        use = PasskeyUse(ctx.directory, PasskeyCeremony("https://handraise.example"))
        new = await use.ask_new(ana)
        created = json.dumps(key.create(new["create"]))
        await use.add(
            ana, name="Ana's phone", nonce=new["nonce"], created=created, confirmed="", vouched_by=None
        )
        await ctx.policies.put("default", {"rules": [rule]}, by="boss", expected=0)
        desk = ctx.desk.scoped("default", asker="cleaner")
        form = Approval.of("delete_records")
        question = await desk.post("Delete?", form=form)
        decision = answered(check_answer(question.form, "approve"))
        asked = await use.ask_decision(ana, question, None, decision)
        kind, proof = await use.check_decision(
            ana,
            question,
            None,
            decision,
            nonce=asked["nonce"],
            credential=json.dumps(key.get(asked["get"])),
        )
        provenance = Provenance(evidence=kind, passkey=proof)
        await desk.answer(question.id, "approve", by=ana.responder, provenance=provenance)


@contextlib.contextmanager
def with_a_server(stranger: Stranger) -> Iterator[None]:
    """The same, a running server, and somebody who answers new questions."""
    (stranger.folder / "deploy.sh").write_text("#!/bin/sh\necho deployed\n", encoding="utf-8")
    (stranger.folder / "deploy.sh").chmod(0o755)
    stranger.environment["HANDRAISE_WEBHOOKS"] = "true"
    with with_people(stranger), with_somebody(stranger):
        stranger.give("handraise serve", "", "of somebody else")
        yield


@contextlib.contextmanager
def with_old_keys(stranger: Stranger) -> Iterator[None]:
    """The same, on a server that has a secret and a key of receipts to replace, and a database."""
    make_key(stranger.folder / "receipts.key")
    stranger.environment |= {"HANDRAISE_SECRET": "old " * 8, "HANDRAISE_RECEIPT_KEY": "receipts.key"}
    with with_a_database(stranger), with_a_server(stranger):
        try:
            yield
        finally:
            made = f"{stranger.replaced['my_server']}_2027"
            _run("dropuser", "--if-exists", made, env=stranger.environment)


@contextlib.contextmanager
def with_somebody(stranger: Stranger) -> Iterator[None]:
    """Somebody who takes the first option of every new question, and says yes to the rest."""
    folder = stranger.folder / "data" / "handraise"
    folder.mkdir(parents=True, exist_ok=True)
    url = f"sqlite:///{folder / 'handraise.db'}"
    over = threading.Event()

    async def answer() -> None:
        async with open_desk(url) as desk:
            old = {each.id for each in (await desk.list_pending()).items}
            while not over.is_set():
                for question in (await desk.list_pending(recipient="ada")).items:
                    if question.id in old:
                        continue
                    match question.form:
                        case Choice(options=options):
                            await desk.answer(question.id, options[0].id, by="ada")
                        case _:
                            await desk.answer(question.id, True, by="ada")
                await asyncio.sleep(0.02)

    with ThreadPoolExecutor(1) as pool:
        ada = pool.submit(asyncio.run, answer())
        try:
            yield
        finally:
            over.set()
            ada.result()


@contextlib.contextmanager
def with_a_database(stranger: Stranger) -> Iterator[None]:
    """A database called mydb."""
    with without_a_database(stranger):
        _run("createdb", stranger.replaced["mydb"], env=stranger.environment)
        yield


@contextlib.contextmanager
def with_tables(stranger: Stranger) -> Iterator[None]:
    """The same after a desk was opened on it, as a Python block of the page does."""

    async def open_once() -> None:
        async with open_desk(stranger.replaced["postgresql://localhost/mydb"]):
            pass

    with with_a_database(stranger):
        asyncio.run(open_once())
        yield


@contextlib.contextmanager
def without_a_database(stranger: Stranger) -> Iterator[None]:
    """A PostgreSQL in which a page makes databases and roles; all of them are gone at the end."""
    name = f"handraise_page_{uuid.uuid4().hex[:12]}"
    _name_the_database(stranger, urlunsplit(urlsplit(POSTGRES)._replace(path=f"/{name}")))
    try:
        yield
    finally:
        _tidy_up(stranger)


@contextlib.contextmanager
def with_a_full_file(stranger: Stranger) -> Iterator[None]:
    """The same, and questions in a file."""

    async def ask() -> None:
        async with open_desk(f"sqlite:///{stranger.folder / 'questions.db'}") as desk:
            asked = [await desk.post(f"Question {number}?") for number in range(3)]
            await desk.answer(asked[0].id, "yes", by="ana")

    with without_a_database(stranger):
        asyncio.run(ask())
        yield


def _name_the_database(stranger: Stranger, address: str) -> None:
    place, role = urlsplit(address), f"somebody_{uuid.uuid4().hex[:8]}"
    host, port = place.hostname or "127.0.0.1", str(place.port or 5432)
    stranger.replaced |= {
        "postgresql://localhost/mydb": address,
        "postgresql://localhost:5432/mydb": address,
        "postgresql://localhost/mydb_restored": f"{address}_restored",
        "my_agent": role,
        "my_server": role,
        "@localhost/mydb": f"@{host}:{port}{place.path}",
        "mydb": place.path[1:],
    }
    stranger.environment |= {"PGHOST": host, "PGPORT": port, "PGUSER": place.username or getpass.getuser()}


def _tidy_up(stranger: Stranger) -> None:
    stranger.leave()
    _run(
        "dropdb", "--force", "--if-exists", f"{stranger.replaced['mydb']}_restored", env=stranger.environment
    )
    _run("dropdb", "--force", "--if-exists", stranger.replaced["mydb"], env=stranger.environment)
    _run("dropuser", "--if-exists", stranger.replaced["my_agent"], env=stranger.environment)


@contextlib.contextmanager
def with_the_repository(stranger: Stranger) -> Iterator[None]:
    """The files of this repository, and a PostgreSQL whose roles are gone at the end."""
    (stranger.folder / "deploy").symlink_to(ROOT / "deploy")
    mark = uuid.uuid4().hex[:8]
    names = {name: f"{name}_{mark}" for name in ("handraise_owner", "handraise_server")}
    database = f"handraise_{mark}"
    owner, server = names.values()
    given = f"--set owner={owner} --set server={server} --set database={database}"
    with with_a_database(stranger):
        host = stranger.environment["PGHOST"]
        stranger.replaced |= names | {
            "roles.sql": f"roles.sql {given}",
            "--host db.example.com": f"--host {host}",
            "@db.example.com/handraise": f"@{host}:{stranger.environment['PGPORT']}/{database}",
        }
        try:
            yield
        finally:
            _run("dropdb", "--force", "--if-exists", database, env=stranger.environment)
            for role in names.values():
                _run("dropuser", "--if-exists", role, env=stranger.environment)


@contextlib.contextmanager
def with_a_browser(stranger: Stranger) -> Iterator[None]:
    """Somebody who does in the browser and in the inbox what the page says."""
    stranger.acts["the outcome: answered 'Canary' by admin"] = answer_in_the_browser
    stranger.keys = [
        ("Announce it?", ENTER),
        ("y or n", "1"),
        ("❯ 1  Yes", ENTER),
        ("Nothing is waiting", ""),
    ]
    yield


@contextlib.contextmanager
def with_somebody_in_another_terminal(stranger: Stranger) -> Iterator[None]:
    """Somebody who answers in the inbox of a terminal while a program waits."""

    def answer(stranger: Stranger) -> None:
        keys = [
            ("Which strategy?", ENTER),
            ("Blue-green", "2"),
            ("❯ 2", ENTER),
            ("Nothing is waiting", ""),
        ]
        sitting.append(pool.submit(sit_down, "handraise inbox", stranger.terminal("Another terminal"), keys))

    sitting: list[Future[None]] = []
    stranger.acts["$ python deploy.py"] = answer
    with ThreadPoolExecutor(1) as pool:
        yield
    for each in sitting:
        each.result(SOON)


def answer_in_the_browser(stranger: Stranger) -> None:
    """Sign in with the link that was printed, open the question, and answer it."""
    link = re.findall(r"http\S+hrl_[\w-]+", stranger.said)[-1]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=ARGUMENTS)
        tab = browser.new_page()
        tab.goto(link)
        tab.get_by_role("button", name="Sign in").click()
        tab.get_by_text("Which strategy for release 4.2?").first.click()
        tab.locator(
            "[data-pane] [data-question]:not([data-just-shown])"
        ).wait_for()  # it ignores clicks before
        tab.get_by_label("Canary").check()
        tab.get_by_role("button", name="Send the answer").click()
        tab.get_by_role("status").filter(has_text="Answered").first.wait_for()
        browser.close()


@contextlib.contextmanager
def with_a_pager(stranger: Stranger) -> Iterator[None]:
    """A PostgreSQL, a port for the pager, and somebody who stops the agent when the server is stopped."""
    stranger.replaced["8770"] = str(free_port())
    stranger.acts["$ handraise serve"] = lambda it: it.terminal("Agent").interrupt()
    with without_a_database(stranger):
        yield


def _drop(address: str) -> None:
    asyncio.run(drop_database(address))


def _run(*command: str, env: Mapping[str, str]) -> None:
    """Run a command, which must succeed."""
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, (
        f"{shlex.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}"
    )


TUTORIAL = DOCS / "tutorial"
SCENES: dict[Path, Callable[[Stranger], contextlib.AbstractContextManager[None]]] = {
    **dict.fromkeys(HOW_TO.glob("reach-people*.md"), with_people),
    HOW_TO / "answer-in-the-terminal.md": with_a_server,
    HOW_TO / "embed-a-question.md": with_a_server,
    REFERENCE / "cli.md": with_somebody,
    ROOT / "README.md": with_somebody_in_another_terminal,
    HOW_TO / "run-a-server.md": with_the_repository,
    HOW_TO / "write-a-channel.md": with_people,
    HOW_TO / "audit.md": with_a_mount,
    HOW_TO / "provision-people.md": with_people,
    HOW_TO / "stop-an-agent.md": with_people,
    HOW_TO / "use-answers-for-evaluation.md": with_people,
    HOW_TO / "approve-with-a-passkey.md": with_a_passkey,
    HOW_TO / "write-a-policy.md": with_a_policy,
    HOW_TO / "run-on-postgresql.md": with_tables,
    HOW_TO / "back-up-and-restore.md": with_a_database,
    HOW_TO / "move-to-postgresql.md": with_a_full_file,
    HOW_TO / "upgrade.md": with_a_database,
    HOW_TO / "rotate-keys.md": with_old_keys,
    HOW_TO / "wake-up-over-nats.md": with_a_database,
    TUTORIAL / "answer-as-a-person.md": with_a_browser,
    TUTORIAL / "production.md": with_a_pager,
}

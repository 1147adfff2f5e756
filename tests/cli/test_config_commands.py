"""`handraise apply` and `handraise export-config`, on a store and at a server."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from handraise.server import ServerSettings, create_app, open_server
from support.command import Done, handraise
from tests.client.test_remote_desk import served

SECRET = {"PAGER_SECRET": "s3cret"}
OFFICE = """\
people:
  maria: {name: Maria Lopez, role: admin}
  ben:
groups:
  ops:
    people: [maria, ben]
    rota: {file: ops.ics}
addresses:
  group:ops:
    webhook:
      pager: {url: "https://example.com/hook", secret: "${PAGER_SECRET}"}
policy:
  rules:
    - name: reads
      when: tool == 'read'
      then: allow
retention: {keep_settled_days: 30}
"""


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'questions.db'}"


@pytest.fixture
def office(tmp_path: Path) -> Path:
    (tmp_path / "ops.ics").write_text("BEGIN:VCALENDAR\nEND:VCALENDAR\n")
    file = tmp_path / "office.yaml"
    file.write_text(OFFICE)
    return file


def test_a_file_is_shown_applied_exported_and_applied_again(url: str, office: Path, tmp_path: Path) -> None:
    tried = handraise("apply", "--dry-run", str(office), url=url, **SECRET)
    assert (tried.returncode, "Nothing was stored." in tried.stdout) == (0, True)
    for line in (
        "+ people maria",
        "    + role: admin",
        "+ groups ops",
        "    + people: ben, maria",
        "~ policy",
    ):
        assert line in tried.stdout.splitlines()
    assert "cannot be brought back" in tried.stdout
    done = handraise("apply", str(office), url=url, **SECRET)
    assert (done.returncode, done.stderr) == (0, "")
    assert "6 changes applied." in done.stdout
    assert "s3cret" not in done.stdout + tried.stdout
    again = handraise("apply", str(office), "--prune", url=url, **SECRET)
    assert again.stdout == "Nothing to change: the workspace is as the file says.\n"
    exported = tmp_path / "exported.yaml"
    handraise("export-config", str(exported), url=url)
    assert "s3cret" not in exported.read_text()
    same = handraise("apply", "--json", "--dry-run", "--prune", str(exported), url=url)
    assert json.loads(same.stdout) == {"applied": False, "changes": [], "warnings": []}
    smaller = exported.read_text().replace("  - ben\n", "").replace("  ben: {}\n", "")
    exported.write_text(smaller)
    pruned = handraise("apply", "--prune", str(exported), url=url)
    assert "- people ben" in pruned.stdout
    assert "    - people: ben" in pruned.stdout


def test_a_rule_that_nobody_can_fulfil_is_warned_of_and_applied(url: str, office: Path) -> None:
    def applied(quorum: int, *options: str) -> Done:
        rule = "{name: pay, then: {require: {people: [group:ops], quorum: %d}}}" % quorum  # noqa: UP031 -- braces
        office.write_text(OFFICE.replace("  rules:\n", f"  rules:\n    - {rule}\n"))
        return handraise("apply", *options, str(office), url=url, **SECRET)

    short = "Warning: rule 'pay' needs 7 people of group:ops, but there are only 2. Nobody can fulfil it.\n"
    for options in (("--dry-run",), (), ()):
        done = applied(7, *options)
        assert (done.returncode, done.stderr) == (0, short)
    assert applied(7, "--json").stderr == ""
    exact = "Note: rule 'pay' needs 2 people of group:ops, and there are exactly 2. One absence blocks it.\n"
    assert applied(2).stderr == exact
    office.write_text("people: {ben: {disabled: true}}")
    assert "there is only 1" in handraise("apply", str(office), url=url, **SECRET).stderr


def test_every_problem_has_its_line_and_nothing_is_changed(url: str, office: Path) -> None:
    wrong = OFFICE.replace("role: admin", "roll: admin").replace("  rules:", "  ruels:")
    office.write_text(wrong)
    refused = handraise("apply", str(office), url=url, **SECRET)
    assert refused.returncode == 1
    lines = refused.stderr.splitlines()
    assert f"  {office}:2: people.maria.roll: there is no such field; did you mean 'role'?" in lines
    assert f"  {office}:13: policy.ruels: there is no such field; did you mean 'rules'?" in lines
    office.write_text(OFFICE.replace("[maria, ben]", "[maria, bne]"))
    unknown = handraise("apply", str(office), url=url, **SECRET)
    assert (
        f"{office}:6: groups.ops.people.1: 'bne': nobody here has this name; did you mean 'ben'?"
        in unknown.stderr
    )
    office.write_text(OFFICE.replace("ops.ics", "gone.ics"))
    missing = handraise("apply", str(office), url=url)
    assert (
        f"{office}:11: addresses.group:ops.webhook.pager.secret: the variable PAGER_SECRET is not set"
        in missing.stderr
    )
    assert f"{office}:7: groups.ops.rota.file: cannot be read" in missing.stderr
    assert "There is nobody yet" in handraise("people", "list", url=url).stdout


def test_a_token_of_the_command_applies_a_file_at_a_server(url: str, office: Path) -> None:
    def new_key(*line: str) -> str:
        made = handraise("keys", "create", *line, "--json", url=url)
        return str(json.loads(made.stdout)["key"])

    token, agent = new_key("ci", "--admin"), new_key("bot")
    assert "admin:ci" in handraise("keys", "list", url=url).stdout
    office.write_text("people: {maria: {role: admin}}\nquotas: {pending: 3}\n")

    async def at_a_server() -> None:
        async with open_server(ServerSettings(url=url)) as ctx, served(create_app(ctx)) as address:

            async def run(*line: str, key: str = token) -> Done:
                return await asyncio.to_thread(handraise, *line, url=address, key=key)

            assert "Nothing was stored." in (await run("apply", "--dry-run", str(office))).stdout
            assert "2 changes applied." in (await run("apply", str(office))).stdout
            again = await asyncio.to_thread(handraise, "apply", "--server", address, str(office), key=token)
            assert "Nothing to change" in again.stdout, again.stderr
            assert "pending: 3" in (await run("export-config")).stdout
            assert (await ctx.policies.quotas("default")).pending == 3
            assert (await run("ask", "Go?")).returncode != 0
            denied = await run("apply", str(office), key=agent)
            assert (denied.returncode, "this is an agent's key" in denied.stderr) == (1, True)

    asyncio.run(at_a_server())

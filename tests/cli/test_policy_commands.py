"""`handraise policy` from outside: applied, shown, refused with every problem, and its history."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
import yaml

from handraise import open_desk
from handraise.cli.session import person_session
from handraise.desk_factory import open_backend
from handraise.model.forms import Approval
from handraise.model.identities import Role
from support.command import Done, handraise

POLICY = """
time_zone: Europe/Vienna
rules:
  - name: large refunds
    when: tool == 'refund' && args.amount > 100
    then: {require: {people: [group:finance], quorum: 2}}
  - name: small refunds
    when: tool == 'refund' && args.amount <= 40
    then: {allow: {check: 0.05}}
"""


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'questions.db'}"


def policy(url: str, *line: str) -> Done:
    return handraise("policy", *line, url=url)


def test_a_policy_is_applied_shown_changed_and_its_history_listed(url: str, tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(POLICY)
    assert "no policy" in policy(url, "show").stdout
    assert "no policy yet" in policy(url, "history").stdout
    tried = policy(url, "apply", str(file), "--dry-run")
    assert "+ rule large refunds (added)" in tried.stdout
    assert "Nothing was stored." in tried.stdout
    applied = policy(url, "apply", str(file))
    assert (applied.returncode, applied.stderr) == (0, "")
    assert "version 1 of the policy" in applied.stdout
    shown = policy(url, "show").stdout
    assert "# Version 1, by command line" in shown
    assert yaml.safe_load(shown) == yaml.safe_load(POLICY)
    assert "Nothing changed" in policy(url, "apply", str(file)).stdout
    changed = POLICY.replace("quorum: 2", "quorum: 3").replace("small", "tiny")
    file.write_text(changed)
    diff = policy(url, "apply", str(file)).stdout
    assert "~ rule large refunds (changed)" in diff
    assert "- rule small refunds (removed)" in diff
    assert "+ rule tiny refunds (added)" in diff
    assert "quorum: 3" in diff
    history = policy(url, "history").stdout.splitlines()
    assert [line.split()[0] for line in history] == ["VERSION", "2", "1"]
    assert "~ rule large refunds" in history[1]
    assert "command line" in history[1]
    assert yaml.safe_load(policy(url, "show", "--version", "1").stdout) == yaml.safe_load(POLICY)
    missing = policy(url, "show", "--version", "3")
    assert (missing.returncode, missing.stderr) == (1, "The policy has no version 3.\n")


def test_a_rule_that_nobody_can_fulfil_is_warned_of(url: str, tmp_path: Path) -> None:
    for name in ("ada", "bob"):
        handraise("people", "add", name, url=url)
    handraise("groups", "set", "finance", "ada", url=url)
    file = tmp_path / "policy.yaml"
    file.write_text(POLICY)
    short = "Warning: rule 'large refunds' needs 2 people of group:finance, but there is only 1. Nobody can fulfil it.\n"
    for options in (("--dry-run",), (), ()):
        done = policy(url, "apply", str(file), *options)
        assert (done.returncode, done.stderr) == (0, short)


def test_every_problem_is_printed_with_its_rule_and_nothing_is_stored(url: str, tmp_path: Path) -> None:
    file = tmp_path / "policy.json"
    file.write_text(
        '{"rules": [{"name": "first", "when": "args.amount >", "then": "allow"},'
        ' {"name": "second", "then": {"require": {"quorun": 2}}}]}'
    )
    refused = policy(url, "apply", str(file))
    assert refused.returncode == 1
    assert "rule 'first': when" in refused.stderr
    assert "rule 'second': then.require.quorun" in refused.stderr
    assert "no policy yet" in policy(url, "history").stdout
    file.write_text("rules: [")
    assert "This is not YAML" in policy(url, "apply", str(file)).stderr
    file.write_text("rules: !!python/object/apply:os.system ['true']")
    unsafe = policy(url, "apply", str(file))
    assert (unsafe.returncode, "This is not YAML" in unsafe.stderr) == (1, True)


def test_unknown_people_are_refused_unless_it_is_said_otherwise(url: str, tmp_path: Path) -> None:
    async def add() -> None:
        async with open_backend(url) as backend:
            await backend.directory.put_person("default", "ann", name="Ann", email=None, role=Role.MEMBER)
            await backend.directory.put_group("default", "finanz", ["ann"])

    asyncio.run(add())
    file = tmp_path / "policy.yaml"
    file.write_text(POLICY)
    refused = policy(url, "apply", str(file))
    assert refused.returncode == 1
    assert "did you mean 'group:finanz'?" in refused.stderr
    assert policy(url, "apply", str(file), "--no-check-recipients").returncode == 0


def test_a_rule_that_is_not_suspended_cannot_be_resumed(url: str) -> None:
    refused = policy(url, "resume-rule", "small refunds")
    assert refused.returncode == 1
    assert "No rule with the name 'small refunds' is suspended." in refused.stderr


def test_a_policy_is_tried_on_the_record_and_what_it_would_let_through_fails(
    url: str, tmp_path: Path
) -> None:
    async def work() -> None:
        async with open_desk(url, asker="support") as desk:
            for amount, answer in ((5, "approve"), (30, "deny"), (500, "approve"), (900, "deny")):
                question = await desk.post("Refund?", form=Approval.of("refund", {"amount": amount}))
                await desk.answer(question.id, answer, by="ann")

    asyncio.run(work())
    file = tmp_path / "policy.yaml"
    file.write_text(POLICY.replace("{check: 0.05}", "{}"))
    tried = policy(url, "test", str(file), "--since", "1d")
    assert (tried.returncode, tried.stderr) == (1, "")
    assert "2 questions fewer for people" in tried.stdout
    assert "1 question that people denied would be allowed:" in tried.stdout
    assert "2 would go to group:finance" in tried.stdout
    report = json.loads(policy(url, "test", str(file), "--json").stdout)
    assert (report["fewer"], report["denied_but_allowed"]) == (2, 1)
    assert {each["name"]: each["matches"] for each in report["rules"]} == {
        "large refunds": 2,
        "small refunds": 2,
    }
    file.write_text(POLICY.replace("<= 40", "<= 20"))
    assert policy(url, "test", str(file)).returncode == 0
    file.write_text("rules: [{name: a, then: {}}]")
    assert "rule 'a'" in policy(url, "test", str(file)).stderr
    assert "no policy yet" in policy(url, "history").stdout, "nothing is stored"


def test_what_people_always_approve_is_suggested_as_a_rule_that_observes(url: str, tmp_path: Path) -> None:
    async def work() -> None:
        async with open_desk(url, asker="support") as desk:
            for number in range(20):
                question = await desk.post("Refund?", form=Approval.of("refund", {"amount": 2 * number}))
                await desk.answer(question.id, "approve", by=f"person {number % 3}")

    assert "# No agent and tool" in policy(url, "suggest").stdout
    asyncio.run(work())
    found = policy(url, "suggest")
    assert (
        "# support, refund, amount ≤ 38: 20 of 20 approved by 3 people in 30 days, median wait 0 s"
        in found.stdout
    )
    file = tmp_path / "policy.yaml"
    file.write_text(found.stdout)
    assert "enforce" not in found.stdout
    report = json.loads(policy(url, "test", str(file), "--json").stdout)
    assert [(each["matches"], each["mode"]) for each in report["rules"]] == [(20, "observe")]
    assert policy(url, "apply", str(file)).returncode == 0


def test_a_suspended_rule_is_told_of_by_the_doctor_and_in_the_terminal_inbox(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(POLICY.replace("0.05", "1"))
    policy(url, "apply", str(file))
    assert "Suspended" not in handraise("doctor", url=url).stdout
    monkeypatch.setenv("HANDRAISE_URL", url)

    async def work() -> tuple[list[str], list[str]]:
        async with open_backend(url) as backend:
            for name, role in (("ada", Role.ADMIN), ("bo", Role.MEMBER)):
                await backend.directory.put_person("default", name, name=name, email=None, role=role)
        async with open_desk(url) as desk:
            question = await desk.post("Refund?", form=Approval.of("refund", {"amount": 5}))
            await desk.answer(question.id, "deny", by="bo")
        async with person_session(name="ada", workspace=None) as ada:
            told = list(await ada.find_notices())
        async with person_session(name="bo", workspace=None) as bo:
            return told, list(await bo.find_notices())

    told, others = asyncio.run(work())
    assert told == ["The rule “small refunds” was suspended: a spot check of it was denied by bo."]
    assert others == []
    looked = handraise("doctor", url=url)
    assert looked.returncode == 0
    assert "the rule 'small refunds' since" in looked.stdout
    assert "bo denied a spot check of it" in looked.stdout

"""`handraise policy` from outside: applied, shown, refused with every problem, and its history."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
import yaml

from handraise.desk_factory import open_backend
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
    assert "is not YAML" in policy(url, "apply", str(file)).stderr
    file.write_text("rules: !!python/object/apply:os.system ['true']")
    unsafe = policy(url, "apply", str(file))
    assert (unsafe.returncode, "is not YAML" in unsafe.stderr) == (1, True)


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

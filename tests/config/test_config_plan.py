"""A file applied to a workspace: what changes, in which order, and what happens if it is interrupted."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from handraise import Approval
from handraise.config import apply_config, export_config, parse_config, preview_config
from handraise.config.config_plan import ConfigPlan, plan_config
from handraise.config.config_state import read_state
from handraise.config.config_target import ConfigTarget
from handraise.desk_factory import desk_from_store, open_backend
from handraise.errors import InvalidRequest
from handraise.model.deliveries import Address
from handraise.model.errors import PreconditionFailed
from handraise.model.identities import Role
from handraise.ports import Backend
from handraise.testing import promise
from tests.tiers import sized

W = "default"
OFFICE: dict[str, Any] = {
    "people": {
        "maria": {"name": "Maria Lopez", "email": "maria@example.com", "role": "admin"},
        "ben": None,
    },
    "groups": {
        "ops": {
            "people": ["maria", "ben"],
            "hours": {"time_zone": "Europe/Berlin", "hours": "Mon-Fri 09:00-17:30"},
        },
        "night": {"people": ["ben"], "rota": {"address": "https://calendar.example.com/s3cret.ics"}},
    },
    "hours": {"time_zone": "UTC", "hours": "Mon-Fri 08:00-16:00"},
    "addresses": {
        "ben": {"slack": {"U02": {"user": "U02"}}},
        "group:ops": {"webhook": {"pager": {"url": "https://hooks.example.com/t0ken", "secret": "whsec"}}},
    },
    "routing": {"anybody": {"per_hour": 4}},
    "policy": {"rules": [{"name": "reads", "when": "tool == 'read'", "then": "allow"}]},
    "retention": {"keep_settled_days": 90},
    "quotas": {"pending": 100, "agents": {"bot": 5}},
}


@pytest.fixture
async def ports() -> AsyncIterator[Backend]:
    async with open_backend("memory:") as ports:
        yield ports


async def events(ports: Backend) -> list[tuple[str, str | None]]:
    """What was recorded about the workspace, and by whom."""
    found = await ports.store.workspace_events(W, after=None, limit=500)
    return [(each.kind.value, each.by) for each in found]


@promise("P17")
async def test_a_file_applied_again_changes_nothing_and_records_nothing(ports: Backend) -> None:
    assert await events(ports) == []
    previewed = await preview_config(ports, OFFICE, workspace=W)
    assert await events(ports) == []
    assert await apply_config(ports, OFFICE, workspace=W, by="boss") == previewed
    recorded = await events(ports)
    assert {kind for kind, _ in recorded} == {
        "person.added",
        "group.changed",
        "hours.changed",
        "rota.changed",
        "address.added",
        "routing.changed",
        "policy.changed",
        "retention.changed",
        "quotas.changed",
    }
    assert {by for _, by in recorded} == {"boss"}
    assert await apply_config(ports, OFFICE, workspace=W, prune=True) == ()
    assert await events(ports) == recorded


async def test_no_secret_is_in_an_export_or_in_changes_and_applying_the_export_keeps_them(
    ports: Backend,
) -> None:
    changes = await apply_config(ports, OFFICE, workspace=W)
    exported = await export_config(ports, workspace=W)
    for secret in ("s3cret", "t0ken", "whsec"):
        assert secret not in str(exported)
        assert secret not in str(changes)
    assert await apply_config(ports, exported, workspace=W, prune=True) == ()
    state = await read_state(ports, W)
    assert state.calendars["night"].rota == "https://calendar.example.com/s3cret.ics"
    pager = state.addresses["group:ops", "webhook", "pager"]
    assert pager.to == OFFICE["addresses"]["group:ops"]["webhook"]["pager"]


async def test_what_is_kept_must_be_there(ports: Backend) -> None:
    kept = {
        "people": {"ben": {"role": "admin"}},
        "groups": {"night": {"people": ["ben"], "rota": {"source": "calendar.example.com"}}},
        "addresses": {"ben": {"ntfy": {"phone": None}}},
    }
    with pytest.raises(InvalidRequest) as refused:
        await apply_config(ports, kept, workspace=W)
    assert [each.path for each in refused.value.problems] == [
        "groups.night.rota.source",
        "addresses.ben.ntfy.phone",
    ]
    assert await events(ports) == []


async def test_pruning_removes_what_a_part_does_not_name_and_no_question(ports: Backend) -> None:
    await apply_config(ports, OFFICE, workspace=W)
    browser = Address(workspace=W, recipient="maria", channel="webpush", id="b", to={"endpoint": "x"})
    await ports.outbox.put_address(browser)
    async with desk_from_store(
        ports.store, ports.bus, directory=ports.directory, policies=ports.policies, workspace=W
    ) as desk:
        question = await desk.post("Which?", recipients=["ben"])
        smaller = {"people": {"maria": {"role": "admin"}}, "groups": {}, "addresses": {}}
        assert [each.change for each in await apply_config(ports, smaller, workspace=W)] == ["changed"]
        changes = await apply_config(ports, smaller, workspace=W, prune=True)
        assert [(each.part, each.name, each.change) for each in changes] == [
            ("people", "ben", "removed"),
            ("groups", "night", "removed"),
            ("groups", "ops", "removed"),
            ("addresses", "group:ops webhook pager", "removed"),
        ]
        state = await read_state(ports, W)
        assert (list(state.people), dict(state.groups)) == (["maria"], {})
        assert list(state.addresses) == [("maria", "webpush", "b")], "browsers add theirs themselves"
        assert state.calendars[""].hours is not None, "the file has no such part"
        assert state.quotas.pending == 100
        assert (await desk.get(question.id)).status == "pending"


@pytest.mark.parametrize("config", [{"people": {}}, {"people": {"maria": None, "ben": None}}])
async def test_nobody_takes_the_last_administrator_away(ports: Backend, config: dict[str, Any]) -> None:
    await apply_config(ports, OFFICE, workspace=W)
    before = await events(ports)
    with pytest.raises(InvalidRequest, match="nobody would administer"):
        await apply_config(ports, config, workspace=W, prune=True)
    assert await events(ports) == before


async def test_people_swap_their_e_mail_addresses(ports: Backend) -> None:
    def people(ann: str, ben: str) -> dict[str, Any]:
        return {"people": {"ann": {"email": ann, "role": "admin"}, "ben": {"email": ben}}}

    await apply_config(ports, people("one@example.com", "two@example.com"), workspace=W)
    await apply_config(ports, people("TWO@example.com", "one@example.com"), workspace=W)
    found = (await read_state(ports, W)).people
    assert (found["ann"].email, found["ben"].email) == ("TWO@example.com", "one@example.com")


async def test_every_problem_of_names_is_said_at_once(ports: Backend) -> None:
    rule = {"name": "big", "when": "tol == 'pay'", "then": {"require": {"people": ["zo"]}}}
    config = {
        "people": {"zoe": {"email": "z@example.com", "role": "admin"}, "ann": {"email": "Z@example.com"}},
        "groups": {"ops": {"people": ["zoey"]}},
        "addresses": {"anna": {"slack": {"U1": {"user": "U1"}}}},
        "policy": {"rules": [rule]},
    }
    with pytest.raises(InvalidRequest) as refused:
        await apply_config(ports, config, workspace=W)
    said = {each.path: each.message for each in refused.value.problems}
    assert set(said) == {
        "people.ann.email",
        "groups.ops.people.0",
        "addresses.anna",
        "policy.rules.0.when",
        "policy.rules.0.then.require.people.0",
    }
    assert "did you mean 'zoe'?" in said["groups.ops.people.0"]


@promise("P17")
async def test_a_change_of_somebody_else_meanwhile_is_refused_and_not_overwritten(ports: Backend) -> None:
    await apply_config(ports, OFFICE, workspace=W)
    target = ConfigTarget(ports=ports, workspace=W, by="ci")
    changed = {
        "people": {"ben": {"name": "Benjamin"}},
        "groups": {"ops": {"people": ["maria"]}},
        "addresses": {"ben": {"slack": {"U02": {"user": "U03"}}}},
        "routing": {"anybody": {"per_hour": 5}},
        "policy": {"rules": []},
        "hours": None,
        "quotas": {"pending": 7},
        "retention": {"keep_settled_days": 365},
    }
    for part, value in changed.items():
        plan = await plan_config(target, parse_config({part: value}), prune=False)
        theirs = {
            "people": {"ben": {"email": "ben@example.com"}},
            "groups": {"ops": {"people": ["ben"]}},
            "addresses": {"ben": {"slack": {"U02": {"user": "U04"}}}},
            "routing": {"anybody": {"per_hour": 9}},
            "policy": {"rules": [{"name": "mine", "then": {"deny": "no"}}]},
            "hours": {"time_zone": "UTC", "hours": "Mon 08:00-09:00"},
            "quotas": {"pending": 8},
            "retention": {"keep_settled_days": 400},
        }
        await apply_config(ports, {part: theirs[part]}, workspace=W)
        before = await export_config(ports, workspace=W)
        with pytest.raises(PreconditionFailed):
            await run(plan)
        assert await export_config(ports, workspace=W) == before, part


async def run(plan: ConfigPlan) -> None:
    for step in plan.steps:
        await step()


# -- random workspaces --

NAMES = ("ann", "bob", "cid", "dee")
EMAILS = st.sampled_from([None, *(f"{name}@example.com" for name in NAMES)])


@st.composite
def offices(draw: st.DrawFn) -> dict[str, Any]:
    """A file with people, of whom one administers, groups of them, and a policy that names a group or a person."""
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, unique=True))
    emails = draw(st.permutations([None, None, *(f"{name}@example.com" for name in NAMES)]))
    people: dict[str, Any] = {
        name: {"email": email, "role": draw(st.sampled_from(["member", "admin"]))}
        for name, email in zip(names, emails, strict=False)
    }
    people[names[0]]["role"] = "admin"
    some = st.lists(st.sampled_from(names), min_size=1, unique=True)
    groups = draw(st.dictionaries(st.sampled_from(["ops", "law"]), some, min_size=1))
    who = draw(st.sampled_from([*names, *(f"group:{name}" for name in groups)]))
    rule = {"name": "all", "then": {"require": {"people": [who]}}}
    hours = draw(st.sampled_from([None, {"time_zone": "UTC", "hours": "Mon-Fri 09:00-17:00"}]))
    rota = draw(st.sampled_from([None, {"address": "https://calendar.example.com/a"}, {"text": "BEGIN"}]))
    return {
        "people": people,
        "groups": {name: {"people": inside, "hours": hours, "rota": rota} for name, inside in groups.items()},
        "hours": draw(st.sampled_from([None, hours])),
        "addresses": {names[0]: {"slack": {"U1": {"user": "U1"}}}, "*": {"ntfy": {"t": {"topic": "s"}}}},
        "routing": draw(
            st.sampled_from([None, {"anybody": {"per_hour": 3}, "on_call": {"ops": [names[0]]}}])
        ),
        "policy": {"rules": draw(st.sampled_from([[], [rule]]))},
        "retention": {"keep_settled_days": draw(st.sampled_from([None, "forever", 30, 0.5]))},
        "quotas": draw(st.sampled_from([{}, {"pending": 0}, {"agents": {"bot": 3}}])),
    }


RANDOM = settings(
    max_examples=sized(gate=20, nightly=400),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@RANDOM
@given(offices())
async def test_applying_the_export_of_any_workspace_changes_nothing(office: dict[str, Any]) -> None:
    async with open_backend("memory:") as ports:
        await apply_config(ports, office, workspace=W)
        exported = await export_config(ports, workspace=W)
        assert await preview_config(ports, exported, workspace=W, prune=True) == ()
        assert await preview_config(ports, office, workspace=W, prune=True) == ()


@promise("P11")
@RANDOM
@given(offices(), offices())
async def test_nobody_has_more_rights_at_any_step_than_before_or_after(
    one: dict[str, Any], other: dict[str, Any]
) -> None:
    async with open_backend("memory:") as ports:
        await apply_config(ports, one, workspace=W)
        before = await rights(ports)
        async with open_backend("memory:") as wanted:
            await apply_config(wanted, other, workspace=W)
            after = await rights(wanted)
        target = ConfigTarget(ports=ports, workspace=W, by="ci")
        for step in (await plan_config(target, parse_config(other), prune=True)).steps:
            await step()
            now = await rights(ports)
            assert now["administers"], "somebody always administers"
            for right, holders in now.items():
                assert holders <= before.get(right, frozenset()) | after.get(right, frozenset()), right
        assert await rights(ports) == after


async def rights(ports: Backend) -> Mapping[str, frozenset[str]]:
    """Who may do what: administer, answer what is asked of a group, and decide what the policy leaves to somebody."""
    state = await read_state(ports, W)
    found = {
        "administers": frozenset(name for name, person in state.people.items() if person.role is Role.ADMIN)
    }
    found |= {f"answers for {name}": frozenset(people) for name, people in state.groups.items()}
    for rule in state.policy_document["rules"]:
        who = rule["then"]["require"]["people"][0]
        group = state.groups.get(who.removeprefix("group:"), ()) if who.startswith("group:") else [who]
        found["decides"] = frozenset(group) & state.people.keys()
    return found


@RANDOM
@given(offices(), offices(), st.data())
async def test_what_was_interrupted_is_finished_by_applying_it_again(
    one: dict[str, Any], other: dict[str, Any], data: st.DataObject
) -> None:
    async with open_backend("memory:") as ports:
        await apply_config(ports, one, workspace=W)
        target = ConfigTarget(ports=ports, workspace=W, by="ci")
        plan = await plan_config(target, parse_config(other), prune=True)
        for step in plan.steps[: data.draw(st.integers(0, len(plan.steps)))]:
            await step()
        await apply_config(ports, other, workspace=W, prune=True)
        assert await preview_config(ports, other, workspace=W, prune=True) == ()


async def test_somebody_who_is_disabled_stays_so_until_the_file_says_otherwise(ports: Backend) -> None:
    await apply_config(ports, OFFICE, workspace=W)
    await ports.directory.disable_person(W, "ben", by="maria")
    assert await apply_config(ports, OFFICE, workspace=W, prune=True) == ()
    assert await ports.directory.disabled_people(W) == frozenset({"ben"})
    exported = await export_config(ports, workspace=W)
    assert await apply_config(ports, exported, workspace=W, prune=True) == ()
    (change,) = await apply_config(ports, with_ben(disabled=False), workspace=W)
    assert (change.name, change.before, change.after) == ("ben", {"disabled": True}, {})
    assert await ports.directory.disabled_people(W) == frozenset()
    await apply_config(ports, with_ben(disabled=True), workspace=W)
    assert await ports.directory.disabled_people(W) == frozenset({"ben"})


def with_ben(**facts: Any) -> dict[str, Any]:
    return {"people": {**OFFICE["people"], "ben": facts}}


async def test_the_last_administrator_who_can_sign_in_stays_whoever_else_has_the_role(ports: Backend) -> None:
    two = {"people": {**OFFICE["people"], "ben": {"role": "admin", "disabled": True}}}
    await apply_config(ports, two, workspace=W)
    for maria in ({"role": "member"}, {"role": "admin", "disabled": True}):
        with pytest.raises(InvalidRequest, match="nobody would administer"):
            await apply_config(ports, {"people": {**two["people"], "maria": maria}}, workspace=W)
    swapped = {
        "people": {"maria": {"role": "admin", "disabled": True}, "ben": {"role": "admin", "disabled": False}}
    }
    await apply_config(ports, swapped, workspace=W)
    ben = await ports.directory.find_person(W, "ben")
    assert ben is not None
    assert ben.is_admin
    assert await ports.directory.disabled_people(W) == frozenset({"maria"})


async def test_who_is_pruned_loses_sessions_grants_and_addresses(ports: Backend) -> None:
    await apply_config(ports, OFFICE, workspace=W)
    await ports.directory.open_session(W, "s", digest="d", person="ben", how="link", lasts=timedelta(days=1))
    async with desk_from_store(
        ports.store, ports.bus, directory=ports.directory, policies=ports.policies, workspace=W, asker="bot"
    ) as desk:
        asked = await desk.post(
            "Reboot?", form=Approval.of("reboot", {}, scopes=("once", "always")), recipients=["ben"]
        )
        await desk.answer(asked.id, {"decision": "approve", "scope": "always"}, by="ben")
        left = {"people": {"maria": OFFICE["people"]["maria"]}, "groups": {"ops": {"people": ["maria"]}}}
        await apply_config(ports, left, workspace=W, prune=True, by="boss")
        (grant,) = (await desk.list_grants()).items
    assert (grant.granted_by, grant.revoked_by) == ("ben", "boss")
    assert await ports.directory.find_session(W, "d") is None
    assert await ports.outbox.addresses(W, ["ben"]) == []


async def test_what_an_identity_provider_says_is_neither_exported_nor_changed(ports: Backend) -> None:
    await apply_config(ports, OFFICE, workspace=W)
    directory = ports.directory
    for name in ("scim-sue", "oidc-omar"):
        await directory.put_person(W, name, name=name.title(), email=f"{name}@example.com", role=Role.MEMBER)
    await directory.put_provisioned(W, "User", "scim-sue", name="sue", document={})
    await directory.put_provisioned(W, "Group", "staff", name="staff", document={})
    await directory.put_group(W, "staff", ["scim-sue"])
    await directory.put_group(W, "ops", ["ben", "maria", "scim-sue"])
    await directory.set_provided_rights(W, "oidc-omar", groups={"ops", "cloud"}, is_admin=True)
    await directory.disable_person(W, "scim-sue")
    groups = await directory.groups(W)
    exported = await export_config(ports, workspace=W)
    assert (exported["people"]["scim-sue"], exported["people"]["oidc-omar"]["email"]) == (
        {},
        "oidc-omar@example.com",
    )
    assert {name: each.get("people") for name, each in exported["groups"].items()} == {
        "ops": ["ben", "maria", "scim-sue"],
        "night": ["ben"],
    }
    assert await apply_config(ports, exported, workspace=W, prune=True) == ()
    before = [await directory.find_person(W, name) for name in ("scim-sue", "oidc-omar")]
    with_sue = {
        **OFFICE,
        "groups": {**OFFICE["groups"], "ops": {**OFFICE["groups"]["ops"], "people": ["ben", "maria"]}},
    }
    await apply_config(ports, with_sue, workspace=W, prune=True)
    groups = {**groups, "ops": ["ben", "maria", "oidc-omar"]}
    assert await directory.groups(W) == groups
    assert {each.id: each.role for each in before if each} == {
        "scim-sue": Role.MEMBER,
        "oidc-omar": Role.ADMIN,
    }
    for name in ("scim-sue", "oidc-omar"):
        assert await directory.find_person(W, name), "nobody whom a provider brings is pruned"
    theirs = {
        "people": {**OFFICE["people"], "scim-sue": {"name": "Sue", "disabled": False}},
        "groups": {"staff": {"people": ["ben"]}},
    }
    with pytest.raises(InvalidRequest) as refused:
        await apply_config(ports, theirs, workspace=W)
    assert [each.path for each in refused.value.problems] == [
        "people.scim-sue.name",
        "people.scim-sue.disabled",
        "groups.staff.people",
    ]
    assert await directory.disabled_people(W) == frozenset({"scim-sue"})

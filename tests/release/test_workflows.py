"""The workflows are linted, ask for little, and run only what somebody has looked at."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parent.parent.parent
FILES = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
TOOLS = Path(sys.executable).parent


def lint(*line: str) -> str:
    done = subprocess.run(
        [str(TOOLS / line[0]), *line[1:]], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    return "" if done.returncode == 0 else done.stdout + done.stderr


def test_zizmor_finds_nothing() -> None:
    found = lint("zizmor", "--offline", "--no-progress", "--persona", "pedantic", ".github")
    assert not found, found


@pytest.mark.slow(
    "loads large schemas in two processes; workflows seldom change, and GitHub names such a mistake itself"
)
def test_they_are_what_the_schema_of_workflows_asks_for() -> None:
    found = lint(
        "check-jsonschema", "--builtin-schema", "vendor.github-workflows", *(str(each) for each in FILES)
    )
    assert not found, found
    forms = ROOT / ".github" / "ISSUE_TEMPLATE"
    assert not lint("check-jsonschema", "--builtin-schema", "vendor.dependabot", ".github/dependabot.yml")
    for form in forms.glob("[!c]*.yml"):
        assert {"name", "description", "body"} <= {*read(form)}


def read(file: Path) -> dict[Any, Any]:
    read: dict[Any, Any] = yaml.safe_load(file.read_text(encoding="utf-8"))
    return read


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_action_is_pinned_to_a_commit_and_every_job_says_what_it_may(file: Path) -> None:
    workflow = read(file)
    assert workflow["permissions"] == {}
    for job in workflow["jobs"].values():
        assert job["permissions"]
        assert "write-all" not in str(job["permissions"])
    text = file.read_text(encoding="utf-8")
    for used in re.findall(r"uses: (.+)", text):
        assert re.fullmatch(r"(\./\S+|[\w./-]+@[0-9a-f]{40} # v[\d.]+)", used), used
    assert "secrets." not in text
    runs = [
        step["run"] for job in workflow["jobs"].values() for step in job.get("steps", ()) if "run" in step
    ]
    assert not [line for line in runs if "${{" in line], "a value goes into a script through the environment"


def test_only_publishing_may_publish_and_only_after_tests_and_check() -> None:
    jobs = read(ROOT / ".github" / "workflows" / "release.yml")["jobs"]
    publish = jobs["publish"]
    assert publish["permissions"] == {"id-token": "write"}
    assert publish["environment"]["name"] == "pypi"
    assert {"tests", "build", "check"} <= {*publish["needs"]}
    assert [name for name, job in jobs.items() if "gh-action-pypi-publish" in str(job)] == ["publish"]
    lines = {name: [step.get("run", "") for step in jobs[name]["steps"]] for name in ("build", "check")}
    assert [line for line in lines["check"] if "scripts.release" in line] == [
        'python -m scripts.release tag "$GITHUB_REF_NAME"',
        "python -m scripts.release changes",
        "python -m scripts.release check-built dist",
    ]
    install, build = filter(None, lines["build"])
    assert "--require-hashes" in install, "nothing that is not known may change what is published"
    assert build == "python -m build --no-isolation --outdir dist"


def test_an_image_is_published_only_if_it_answers_a_question_on_both_kinds_of_machine() -> None:
    called = read(ROOT / ".github" / "workflows" / "release.yml")["jobs"]["image"]
    assert {"tests", "build", "check"} <= {*called["needs"]}
    assert called["with"] == {"publish": True}
    jobs = read(ROOT / ".github" / "workflows" / "image.yml")["jobs"]
    publish = jobs["publish"]
    assert (publish["if"], {*publish["needs"]}) == ("inputs.publish", {*jobs} - {"publish"})
    assert [name for name, job in jobs.items() if "packages" in job["permissions"]] == ["publish"]
    assert jobs["image"]["strategy"]["matrix"]["machine"] == ["ubuntu-24.04", "ubuntu-24.04-arm"]
    for name in ("image", "compose", "publish"):
        probes = [step["run"] for step in jobs[name]["steps"] if "scripts.image probe" in step.get("run", "")]
        assert len(probes) == 1, name
    (build,) = (step["with"] for step in publish["steps"] if "build-push-action" in step.get("uses", ""))
    assert build["platforms"] == "linux/amd64,linux/arm64"
    assert (build["provenance"], build["sbom"]) == ("mode=max", True)
    attested = [step["with"] for step in publish["steps"] if "attest-build" in step.get("uses", "")]
    assert attested[0]["subject-digest"] == "${{ steps.image.outputs.digest }}"


def test_the_tests_are_the_ones_that_everybody_runs() -> None:
    job = read(ROOT / ".github" / "workflows" / "tests.yml")["jobs"]["tests"]
    assert any('.ci/run "$TIER"' in step.get("run", "") for step in job["steps"])
    assert {*job["services"]} == {"postgres", "nats"}


def test_every_python_and_system_that_the_project_names_is_tested() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    jobs = read(ROOT / ".github" / "workflows" / "tests.yml")["jobs"]
    elsewhere = jobs["elsewhere"]["strategy"]["matrix"]["include"]
    tested = {*jobs["tests"]["strategy"]["matrix"]["python"], *(each["python"] for each in elsewhere)}
    versions = re.findall(r"Python :: (3\.\d+)", "\n".join(project["classifiers"]))
    assert {*versions} == tested
    systems = {each["system"].partition("-")[0] for each in elsewhere}
    assert {"windows", "macos"} <= systems
    page = (ROOT / "docs" / "reference" / "platforms.md").read_text(encoding="utf-8")
    assert all(version in page for version in versions)


@pytest.mark.parametrize("name", ["nightly", "release"])
def test_everything_runs_each_night_and_before_a_release(name: str) -> None:
    workflow = read(ROOT / ".github" / "workflows" / f"{name}.yml")
    assert workflow["jobs"]["tests"]["with"] == {"tier": "nightly"}
    assert ("schedule" in workflow[True]) == (name == "nightly")  # YAML reads the key `on` as true

"""What `deploy/monitoring` asks Prometheus for exists, every alert has a runbook, and Prometheus itself accepts the rules.

`tests/proofs/test_alerts.py` breaks what each alert watches.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import yaml

from handraise.server.observability import Metrics

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "deploy" / "monitoring"
PAGE = ROOT / "docs" / "how-to" / "respond-to-alerts.md"
SITE = "https://handraise.github.io/handraise/how-to/respond-to-alerts/#"

OF_EVERY_SCRAPE = {"job", "instance", "namespace", "le"}
OF_PROCESSES = {
    "process_cpu_seconds_total",
    "process_resident_memory_bytes",
    "process_open_fds",
}


def rules() -> list[dict[str, Any]]:
    document = yaml.safe_load((FOLDER / "alerts.yaml").read_text(encoding="utf-8"))
    return [rule for group in document["groups"] for rule in group["rules"]]


def dashboard() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FOLDER / "dashboard.json").read_text(encoding="utf-8"))
    return found


def dashboard_queries() -> Iterator[str]:
    """Every query of the dashboard, with values for what Grafana fills in."""
    board = dashboard()
    queries = [target["expr"] for panel in board["panels"] for target in panel.get("targets", ())]
    queries += [each["expr"] for each in board["annotations"]["list"]]
    for query in queries:
        filled = query.replace("$__rate_interval", "1m")
        yield re.sub(r"\$(job|instance)\b", ".+", filled)


def names_in(query: str) -> set[tuple[str, str]]:
    """The metrics in a query with the labels by which it selects them."""
    text = re.sub(r"\b(?:by|without|on) \([^)]*\)", "", query)
    return {
        (name, label)
        for name, selector in re.findall(r"\b((?:handraise|process)_\w+)(?:\{([^}]*)\})?", text)
        for label in ["", *re.findall(r'(\w+)(?:=~|!~|!=|=)"', selector)]
    }


def known() -> dict[str, set[str]]:
    """The labels of every sample that a server may show."""
    found: dict[str, set[str]] = {name: set() for name in OF_PROCESSES}
    for each in Metrics().descriptions:
        ends = ("_bucket", "_sum", "_count") if each.kind == "histogram" else ("",)
        found |= {each.name + end: set(each.labels) for end in ends}
    return found


@pytest.mark.parametrize("source", ["alerts", "dashboard", "tests of alerts"])
def test_every_metric_and_label_that_is_asked_for_exists(source: str) -> None:
    match source:
        case "alerts":
            queries = [rule["expr"] for rule in rules()]
        case "dashboard":
            queries = [*dashboard_queries()]
        case _:
            tests = yaml.safe_load((FOLDER / "alerts_test.yaml").read_text(encoding="utf-8"))["tests"]
            queries = [each["series"] for test in tests for each in test["input_series"]]
    there = known()
    asked = {pair for query in queries for pair in names_in(query)}
    assert len(asked) > 20
    missing = [
        (name, label)
        for name, label in sorted(asked)
        if name not in there or label not in {"", *OF_EVERY_SCRAPE, *there[name]}
    ]
    assert missing == []


def test_every_label_by_which_an_alert_groups_exists() -> None:
    for rule in rules():
        labels = {label for name, _ in names_in(rule["expr"]) for label in known()[name]}
        grouped = {
            each for group in re.findall(r"\bby \(([^)]*)\)", rule["expr"]) for each in group.split(", ")
        }
        assert grouped <= labels | OF_EVERY_SCRAPE, rule["alert"]
        shown = set(re.findall(r"\$labels\.(\w+)", str(rule["annotations"])))
        assert shown <= labels | OF_EVERY_SCRAPE, rule["alert"]


def test_every_metric_is_in_the_dashboard() -> None:
    shown = {name for query in dashboard_queries() for name, _ in names_in(query)}
    assert {each.name for each in Metrics().descriptions} - {
        re.sub(r"_(bucket|sum|count)$", "", name) for name in shown
    } == set()


def test_every_alert_says_how_bad_it_is_and_has_a_runbook_and_a_test() -> None:
    names = [rule["alert"] for rule in rules()]
    assert len(names) == len(set(names)) >= 16
    for rule in rules():
        assert rule["labels"]["severity"] in ("critical", "warning"), rule["alert"]
        assert set(rule["annotations"]) == {"summary", "description", "runbook_url"}, rule["alert"]
        assert rule["annotations"]["runbook_url"] == SITE + rule["alert"].lower()
        assert rule["annotations"]["description"].endswith("."), rule["alert"]
    assert re.findall(r"^## (Handraise\w+)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE) == [
        *sorted(names, key=lambda name: PAGE.read_text(encoding="utf-8").index(f"## {name}\n"))
    ]
    tested = (FOLDER / "alerts_test.yaml").read_text(encoding="utf-8")
    assert [name for name in names if f"{name}" not in tested] == []


def test_the_runbook_begins_with_every_alert_and_its_severity() -> None:
    shown = re.findall(
        r"^\| \[(Handraise\w+)\]\(#(\w+)\) \| (\w+) \| .+ \|$",
        PAGE.read_text(encoding="utf-8"),
        re.MULTILINE,
    )
    severities = {rule["alert"]: rule["labels"]["severity"] for rule in rules()}
    assert {name: severity for name, _, severity in shown} == severities
    assert all(anchor == name.lower() for name, anchor, _ in shown)


def test_the_panels_of_the_dashboard_have_their_own_places() -> None:
    panels = dashboard()["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    for panel in panels:
        place = panel["gridPos"]
        assert 0 <= place["x"] < place["x"] + place["w"] <= 24, panel["title"]
        if panel["type"] != "row":
            assert panel["description"], panel["title"]
            assert panel["datasource"]["uid"] == "${datasource}"
    for one, other in combinations((panel["gridPos"] for panel in panels), 2):
        apart = (
            one["x"] + one["w"] <= other["x"]
            or other["x"] + other["w"] <= one["x"]
            or one["y"] + one["h"] <= other["y"]
            or other["y"] + other["h"] <= one["y"]
        )
        assert apart, (one, other)


def test_the_pod_monitor_finds_the_pods_of_the_deployment() -> None:
    monitor = yaml.safe_load((FOLDER / "podmonitor.yaml").read_text(encoding="utf-8"))
    deployment = yaml.safe_load((ROOT / "deploy" / "kubernetes" / "deployment.yaml").read_text("utf-8"))
    pod = deployment["spec"]["template"]
    labels = pod["metadata"]["labels"]
    assert monitor["spec"]["selector"]["matchLabels"].items() <= labels.items()
    ports = {port["name"] for container in pod["spec"]["containers"] for port in container["ports"]}
    assert {each["port"] for each in monitor["spec"]["podMetricsEndpoints"]} <= ports
    # The job is then NAMESPACE/NAME, which an alert expects.
    (down,) = [rule for rule in rules() if rule["alert"] == "HandraiseServerDown"]
    pattern = re.search(r'job=~"([^"]+)"', down["expr"])
    assert pattern
    assert re.fullmatch(pattern[1], f"prod/{monitor['metadata']['name']}")


@pytest.mark.slow("needs promtool; the tests above find what a change of a metric breaks")
def test_prometheus_accepts_the_rules_and_every_query_of_the_dashboard(tmp_path: Path) -> None:
    recorded = [
        {"record": f"query:{number}", "expr": query} for number, query in enumerate(dashboard_queries())
    ]
    queries = tmp_path / "queries.yaml"
    queries.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": recorded}]}))
    promtool("check", "rules", str(FOLDER / "alerts.yaml"))
    promtool("check", "rules", str(queries))
    promtool("test", "rules", "alerts_test.yaml")


def promtool(*line: str) -> None:
    """Run promtool; it must succeed."""
    program = shutil.which("promtool")
    if program is None:
        pytest.fail("This test needs promtool: apt-get install prometheus", pytrace=False)
    done = subprocess.run(
        [program, *line], cwd=FOLDER, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, f"promtool {' '.join(line)}:\n{done.stdout}{done.stderr}"

"""The Helm chart: its values, and what it makes of them.

The gate holds six sets of values against the schema of the chart. Nightly they are rendered by Helm's own library, and what comes out
is held against the schemas of Kubernetes, of the Gateway API and of the operator of Prometheus.
"""

from __future__ import annotations

import copy
import json
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

import handraise
from handraise.server import ServerSettings
from handraise.server.setting_variables import unknown_settings
from scripts import chart as script
from scripts import image

ROOT = Path(__file__).resolve().parent.parent
CHART = ROOT / "deploy" / "helm" / "handraise"
SETS = {path.stem.removesuffix("-values"): path for path in sorted((CHART / "ci").glob("*-values.yaml"))}
MODELS = ROOT / ".cache" / "kubernetes-models"
BUILT_IN = re.compile(r"v1|apps/v1|batch/v1|policy/v1|autoscaling/v2|networking\.k8s\.io/v1")
CUSTOM = {
    "HTTPRoute": "@kubernetes-models/gateway-api/gateway.networking.k8s.io/v1/HTTPRoute",
    "PodMonitor": "@kubernetes-models/prometheus-operator/monitoring.coreos.com/v1/PodMonitor",
    "PrometheusRule": "@kubernetes-models/prometheus-operator/monitoring.coreos.com/v1/PrometheusRule",
}
needs_helm = pytest.mark.slow("needs Helm's library, which is large: pip install --group chart")


def defaults() -> dict[str, Any]:
    parsed: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    return parsed


def given(name: str) -> dict[str, Any]:
    parsed: dict[str, Any] = yaml.safe_load(SETS[name].read_text(encoding="utf-8"))
    return parsed


def merged(values: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Values over others, as Helm does it: maps are merged, everything else is replaced."""
    result = dict(copy.deepcopy(values))
    for name, value in over.items():
        both = isinstance(value, dict) and isinstance(result.get(name), dict)
        result[name] = merged(result[name], value) if both else value
    return result


def problems(values: Mapping[str, Any]) -> list[str]:
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    # The import takes four seconds, in each worker that collects this file.
    from jsonschema import Draft7Validator  # noqa: PLC0415

    Draft7Validator.check_schema(schema)
    return [each.message for each in Draft7Validator(schema).iter_errors(merged(defaults(), values))]


def test_there_are_six_sets_of_values_and_each_fits_the_schema() -> None:
    assert {*SETS} == {"minimal", "ingress", "gateway", "autoscaling", "channels", "airgapped"}
    assert [name for name in SETS if problems(given(name))] == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"replica": 2},
        {"image": {"tags": "1"}},
        {"image": {"digest": "latest"}},
        {"publicUrl": "handraise.example.com"},
        {"database": {"url": "postgresql://server:password@db/handraise"}},
        {"database": {"url": "sqlite:////var/lib/handraise/handraise.db"}},
        {"nats": {"url": "nats://me:password@nats:4222"}},
        {"existingSecret": ""},
        {"secret": {"PGPASSWORD": "password"}},
        {"settings": {"PGPASSWORD": "password"}},
        {"settings": {"HANDRAISE_SECRET": "secret"}},
        {"settings": {"HANDRAISE_SECRET_FALLBACKS": ["secret"]}},
        {"settings": {"HANDRAISE_SLACK_BOT_TOKEN": "xoxb-1"}},
        {"settings": {"HANDRAISE_EMAIL_SMTP_URL": "smtps://mail.example.com"}},
        {"settings": {"HANDRAISE_AUDIT_WITNESSES": ["https://me:password@witness.example.com"]}},
        {"settings": {"HANDRAISE_NTFY_URL": "https://me:password@ntfy.example.com"}},
        {"settings": {"HANDRAISE_LANGUGAE": "de"}},
        {"settings": {"HANDRAISE_DRAIN_SECONDS": 60}},
        {"gateway": {"enabled": True}},
        {"networkPolicy": {"egress": {"channels": {"cidrs": ["0.0.0.0/0"]}}}},
    ],
    ids=str,
)
def test_a_value_that_is_unknown_wrong_or_a_secret_is_refused(wrong: dict[str, Any]) -> None:
    assert problems(wrong)


def test_every_setting_that_is_no_secret_can_be_a_value_and_a_secret_can_be_a_file() -> None:
    names = {*script.setting_names()}
    assert names >= {"HANDRAISE_LANGUAGE", "HANDRAISE_OIDC_ISSUER", "HANDRAISE_SECRET_FILE"}
    assert not [each for each in script.OF_THE_CHART if each not in ServerSettings.model_fields]
    assert not problems({"settings": dict.fromkeys(names, "x")})


def test_what_is_written_by_the_script_is_current() -> None:
    again = "run: python -m scripts.chart write"
    assert (CHART / "README.md").read_text(encoding="utf-8") == script.readme(), again
    assert (CHART / "values.schema.json").read_text(encoding="utf-8") == script.schema(), again
    assert script.ALERTS.read_bytes() == script.MONITORING.read_bytes(), again


def test_every_value_is_explained() -> None:
    assert {path for path, _, _ in script.documented()} == {".".join(path) for path in leaves(defaults())}


def test_the_chart_has_the_version_of_the_release() -> None:
    described = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    assert described["version"] == described["appVersion"] == handraise.__version__
    assert defaults()["image"] == {
        "repository": "handraise",
        "tag": "",
        "digest": "",
        "pullPolicy": "IfNotPresent",
    }


def test_a_published_chart_names_the_image_of_its_release(tmp_path: Path) -> None:
    digest = f"sha256:{'7' * 64}"
    image.write_chart("registry.example.com/handraise", digest, tmp_path)
    values = yaml.safe_load((tmp_path / "handraise" / "values.yaml").read_text(encoding="utf-8"))
    expected = {**defaults()["image"], "repository": "registry.example.com/handraise", "digest": digest}
    assert values == {**defaults(), "image": expected}


@cache
def rendered(name: str) -> dict[str, str]:
    return render(given(name))


def render(values: Mapping[str, Any], *, release: str = "handraise") -> dict[str, str]:
    """What Helm makes of the chart, by the names of its templates."""
    try:
        import helm_python  # noqa: PLC0415 -- only nightly has it
    except ModuleNotFoundError:
        pytest.fail("This test needs Helm's library: pip install --group chart", pytrace=False)
    with helm_python.Chart.load(CHART) as loaded:
        loaded.validate_schema(dict(values))
        made = loaded.render(dict(values), name=release, namespace="office")
    return {Path(path).name: text for path, text in made.items()}


def objects(name: str) -> Iterator[dict[str, Any]]:
    for template, text in rendered(name).items():
        if template.endswith(".yaml"):
            yield from (each for each in yaml.safe_load_all(text) if each)


def one(name: str, kind: str) -> dict[str, Any]:
    (found,) = (each for each in objects(name) if each["kind"] == kind)
    return found


@needs_helm
@pytest.mark.parametrize("name", SETS)
def test_helm_finds_no_fault(name: str) -> None:
    import helm_python  # noqa: PLC0415 -- only nightly has it

    report = helm_python.lint(str(CHART), given(name), strict=True, kube_version="v1.31.0")
    assert [each for each in report["messages"] if "icon is recommended" not in each["error"]] == []
    assert report["errors"] == []


@needs_helm
@pytest.mark.parametrize("version", ["1.31", "1.37"])
@pytest.mark.parametrize("name", SETS)
def test_what_the_chart_makes_fits_the_schema_of_kubernetes(name: str, version: str) -> None:
    import kubernetes_validate  # noqa: PLC0415 -- loads large schemas

    kinds = set()
    for each in objects(name):
        if BUILT_IN.fullmatch(each["apiVersion"]):
            kubernetes_validate.validate(each, version, strict=True)
            kinds.add(each["kind"])
        else:
            assert each["kind"] in CUSTOM
    assert {"Deployment", "Service", "Job", "NetworkPolicy"} <= kinds
    assert "Secret" not in kinds


@needs_helm
def test_what_the_chart_makes_for_the_gateway_and_for_prometheus_fits_their_schemas(tmp_path: Path) -> None:
    made = [each for name in SETS for each in objects(name) if each["kind"] in CUSTOM]
    assert {each["kind"] for each in made} == {*CUSTOM}
    assert custom_problems(made, tmp_path) == []
    wrong = copy.deepcopy(made)
    for each in wrong:
        each["spec"] = {"rules": 1, "groups": 1, "podMetricsEndpoints": 1}
    assert len(custom_problems(wrong, tmp_path)) == len(wrong)


def custom_problems(made: list[dict[str, Any]], folder: Path) -> list[str]:
    """What the schemas of the operators say, read by the library that has them."""
    if not (MODELS / "node_modules").exists():
        pytest.fail(f"This test needs the schemas of operators in {MODELS}: see .ci/run", pytrace=False)
    imports = "\n".join(f"import {{ {kind} }} from {json.dumps(path)};" for kind, path in CUSTOM.items())
    checker = MODELS / "check.mjs"
    checker.write_text(
        f"""{imports}
import {{ readFileSync }} from "node:fs";
const kinds = {{ {", ".join(CUSTOM)} }};
const found = [];
for (const each of JSON.parse(readFileSync(process.argv[2]))) {{
  try {{ new kinds[each.kind](each).validate(); }} catch (error) {{ found.push(error.message); }}
}}
console.log(JSON.stringify(found));
""",
        encoding="utf-8",
    )
    file = folder / "made.json"
    file.write_text(json.dumps(made), encoding="utf-8")
    node = shutil.which("node") or pytest.fail("This test needs node.", pytrace=False)
    done = subprocess.run([node, checker, file], capture_output=True, text=True, timeout=60, check=True)
    found: list[str] = json.loads(done.stdout)
    return found


@needs_helm
@pytest.mark.parametrize("name", SETS)
def test_a_server_accepts_the_settings_that_it_gets(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (container,) = one(name, "Deployment")["spec"]["template"]["spec"]["containers"]
    variables = {each["name"]: each["value"] for each in container["env"] if "value" in each}
    assert all(isinstance(value, str) for value in variables.values())
    for variable, value in variables.items():
        monkeypatch.setenv(variable, value)
    monkeypatch.setenv("HANDRAISE_OIDC_CLIENT_SECRET", "of the secret")
    monkeypatch.setenv("HANDRAISE_SECRET", "of the secret, and thirty-two characters long")
    assert unknown_settings(variables, ServerSettings.model_fields) == []
    settings = ServerSettings()
    assert settings.url == variables["HANDRAISE_URL"]
    expected = {**defaults(), **given(name)}
    assert (settings.drain_seconds, settings.stop_seconds) == (
        expected["drainSeconds"],
        expected["stopSeconds"],
    )
    if name == "channels":
        assert (settings.oidc_join, settings.body_limit, settings.otel) == (("example.com",), 1_048_576, True)
    if name == "ingress":
        assert settings.trusted_proxies == "10.244.0.0/16,fd00:10:244::/56"


@needs_helm
@pytest.mark.parametrize("name", SETS)
def test_a_server_may_finish_before_it_is_killed(name: str) -> None:
    pod = one(name, "Deployment")["spec"]["template"]["spec"]
    variables = {each["name"]: each.get("value") for each in pod["containers"][0]["env"]}
    needed = int(variables["HANDRAISE_DRAIN_SECONDS"]) + int(variables["HANDRAISE_STOP_SECONDS"])
    assert needed < pod["terminationGracePeriodSeconds"] <= needed + 10


@needs_helm
@pytest.mark.parametrize("name", SETS)
def test_what_belongs_together_finds_each_other(name: str) -> None:
    deployment, job = one(name, "Deployment"), one(name, "Job")
    server, migration = (each["spec"]["template"]["metadata"]["labels"] for each in (deployment, job))
    selectors = [deployment["spec"]["selector"]["matchLabels"], one(name, "Service")["spec"]["selector"]]
    selectors += [
        each["spec"]["selector"]["matchLabels"]
        for each in objects(name)
        if each["kind"] in {"PodDisruptionBudget", "PodMonitor"}
    ]
    selectors += [
        each["labelSelector"]["matchLabels"]
        for each in deployment["spec"]["template"]["spec"]["topologySpreadConstraints"]
    ]
    servers, migrations = (
        each["spec"]["podSelector"]["matchLabels"]
        for each in objects(name)
        if each["kind"] == "NetworkPolicy"
    )
    for selector in [*selectors, servers]:
        assert selector.items() <= server.items()
        assert not selector.items() <= migration.items(), "a migration gets no requests"
    assert migrations.items() <= migration.items()
    for each in objects(name):
        if each["kind"] == "Ingress":
            (path,) = each["spec"]["rules"][0]["http"]["paths"]
            assert path["backend"]["service"]["name"] == one(name, "Service")["metadata"]["name"]
            assert each["spec"]["rules"][0]["host"] == "handraise.example.com"
        if each["kind"] == "HTTPRoute":
            (backend,) = each["spec"]["rules"][-1]["backendRefs"]
            (port,) = one(name, "Service")["spec"]["ports"]
            assert backend == {"name": one(name, "Service")["metadata"]["name"], "port": port["port"]}
        if each["kind"] == "HorizontalPodAutoscaler":
            assert each["spec"]["scaleTargetRef"]["name"] == deployment["metadata"]["name"]
            assert "replicas" not in deployment["spec"], "it would undo what the autoscaler did"


@needs_helm
@pytest.mark.parametrize("name", SETS)
def test_the_migration_runs_first_and_has_what_it_needs(name: str) -> None:
    hooks = {
        (each["kind"], each["metadata"]["name"]): each["metadata"]["annotations"]
        for each in objects(name)
        if "helm.sh/hook" in each["metadata"].get("annotations", {})
    }
    job = one(name, "Job")
    assert {each["helm.sh/hook"] for each in hooks.values()} == {"pre-install,pre-upgrade"}
    weights = {kind: int(each["helm.sh/hook-weight"]) for (kind, _), each in hooks.items()}
    assert all(weight < weights["Job"] for kind, weight in weights.items() if kind != "Job")
    account = job["spec"]["template"]["spec"].get("serviceAccountName")
    assert account is None or ("ServiceAccount", account) in hooks
    assert ("NetworkPolicy", job["metadata"]["name"]) in hooks


@needs_helm
def test_a_server_reaches_only_what_the_values_name() -> None:
    def egress(name: str) -> list[tuple[set[int], list[Any]]]:
        policy = next(each for each in objects(name) if each["kind"] == "NetworkPolicy")
        return [
            ({port["port"] for port in rule["ports"]}, rule.get("to", []))
            for rule in policy["spec"]["egress"]
        ]

    assert [ports for ports, _ in egress("minimal")] == [{53}, {5432, 6432}, {443}]
    assert [ports for ports, _ in egress("airgapped")] == [{53}, {5432, 6432}]
    assert [ports for ports, to in egress("channels") if to] == [
        {53},
        {5432, 6432},
        {4222},
        {443, 587, 993},
        {8443},
    ]


@needs_helm
def test_the_notes_say_how_to_get_the_first_link_and_have_none() -> None:
    for name in SETS:
        notes = rendered(name)["NOTES.txt"]
        assert "handraise people link admin" in notes
        assert [each for each in re.findall(r"https?://\S+", notes) if each != given(name)["publicUrl"]] == []


@needs_helm
def test_every_value_changes_something() -> None:
    """A value that the templates do not read would be a promise that nobody keeps."""
    everything = {
        "publicUrl": "https://handraise.example.com",
        "ingress": {"enabled": True},
        "gateway": {"enabled": True, "parentRefs": [{"name": "public"}]},
        "autoscaling": {"enabled": True},
        "monitoring": {"podMonitor": {"enabled": True}, "rules": {"enabled": True}},
        "nats": {"url": "nats://nats:4222"},
        "settings": {"HANDRAISE_OTEL": True},
    }
    base = render(everything)
    without = {"autoscaling": {"enabled": False}}
    dead = []
    for path in leaves(defaults()):
        values: dict[str, Any] = {}
        place = values
        for each in path[:-1]:
            place = place.setdefault(each, {})
        place[path[-1]] = another(path, script.value_at(merged(defaults(), everything), path))
        start, over = (base, {}) if path != ("replicas",) else (render(merged(everything, without)), without)
        if render(merged(merged(everything, over), values)) == start:
            dead.append(".".join(path))
    assert dead == []


def leaves(values: Mapping[str, Any], above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name, value in values.items():
        if isinstance(value, dict) and value and name != "resources":
            yield from leaves(value, (*above, name))
        else:
            yield (*above, name)


ANOTHER: dict[str, Any] = {
    "publicUrl": "https://other.example.com",
    "image.digest": f"sha256:{'7' * 64}",
    "image.pullPolicy": "Never",
    "imagePullSecrets": [{"name": "other"}],
    "database.url": "postgresql://other@db/other",
    "database.ownerUrl": "postgresql://other@db/other",
    "database.listenUrl": "postgresql://other@db/other",
    "nats.url": "",
    "settings": {"HANDRAISE_LANGUAGE": "de"},
    "extraEnv": [{"name": "OTHER", "value": "1"}],
    "migrate.extraEnv": [{"name": "OTHER", "value": "1"}],
    "extraVolumes": [{"name": "other", "emptyDir": {}}],
    "extraVolumeMounts": [{"name": "other", "mountPath": "/other"}],
    "service.type": "NodePort",
    "gateway.parentRefs": [{"name": "other"}],
    "gateway.requestTimeout": "330s",
    "trustedProxies": ["10.0.0.0/8"],
    "podDisruptionBudget.maxUnavailable": "25%",
    "topologySpread": [],
    "tolerations": [{"operator": "Exists"}],
    "affinity": {"nodeAffinity": {}},
    "networkPolicy.ingress.namespaces": [],
    "networkPolicy.egress.channels.cidrs": [],
    "networkPolicy.egress.extra": [{}],
    "monitoring.podMonitor.interval": "15s",
}


def another(path: tuple[str, ...], value: Any) -> Any:
    """A value that is allowed at this path, and is not the one that is there."""
    if (found := ANOTHER.get(".".join(path))) is not None:
        return found
    if path[-1] == "to":
        return [{"ipBlock": {"cidr": "10.0.0.0/8"}}]
    match value:
        case bool():
            return not value
        case int():
            return value + 1
        case str():
            return f"{value}other"
        case [int(), *_]:
            return [*value, 9999]
        case dict():
            return {**value, "other": "1"} if path[-1] != "resources" else {"limits": {"memory": "1Gi"}}
        case _:
            raise AssertionError(path)


@needs_helm
def test_the_plain_manifests_are_what_the_chart_makes_of_its_defaults() -> None:
    assert {
        name: (script.MANIFESTS / name).read_text(encoding="utf-8") for name in script.manifests()
    } == script.manifests(), "run: python -m scripts.chart manifests"


@needs_helm
def test_helm_refuses_what_the_schema_refuses_and_an_address_that_is_missing() -> None:
    import helm_python  # noqa: PLC0415 -- only nightly has it

    with pytest.raises(helm_python.HelmError, match="HANDRAISE_SECRET"):
        render({"publicUrl": "https://handraise.example.com", "settings": {"HANDRAISE_SECRET": "secret"}})
    with pytest.raises(helm_python.HelmError, match="publicUrl is not set"):
        render({})

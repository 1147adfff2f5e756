"""Everything that is made from or for the Helm chart in `deploy/helm/handraise`.

python -m scripts.chart write       write the chart's README.md from values.yaml, the names of settings into its schema, and the
                                    alerts of deploy/monitoring into its files
python -m scripts.chart manifests   write deploy/kubernetes: what the chart makes of its defaults; needs `pip install --group chart`
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

import yaml
from pydantic import SecretStr

from handraise.server import ServerSettings

ROOT = Path(__file__).resolve().parent.parent
CHART = ROOT / "deploy" / "helm" / "handraise"
SCHEMA = CHART / "values.schema.json"
VALUES = CHART / "values.yaml"
README = CHART / "README.md"
ALERTS = CHART / "files" / "alerts.yaml"
MONITORING = ROOT / "deploy" / "monitoring" / "alerts.yaml"
MANIFESTS = ROOT / "deploy" / "kubernetes"
PUBLIC_URL = "https://handraise.example.com"

OF_THE_CHART = frozenset(
    (
        "url",
        "listen_url",
        "bus",
        "public_url",
        "trusted_proxies",
        "drain_seconds",
        "stop_seconds",
        "host",
        "port",
    )
)
"""Settings that are no `settings:` of the chart: it has a value for them, or relies on what the image sets."""
_OF_HELM = re.compile(r"^ *(helm\.sh/.*|app\.kubernetes\.io/managed-by:.*|# Source: .*)\n", re.MULTILINE)
_OF_HOOKS = re.compile(r"^# A hook.*\n|^ *# It stays, so that its log.*\n", re.MULTILINE)
_EMPTY_ANNOTATIONS = re.compile(r"^( *)annotations:\n(?!\1 )", re.MULTILINE)


def main(arguments: Sequence[str]) -> int:
    """Do one of these."""
    match arguments:
        case ["write"]:
            SCHEMA.write_text(schema(), encoding="utf-8")
            README.write_text(readme(), encoding="utf-8")
            ALERTS.write_bytes(MONITORING.read_bytes())
        case ["manifests"]:
            for name, text in manifests().items():
                (MANIFESTS / name).write_text(text, encoding="utf-8")
        case _:
            sys.stderr.write(f"{__doc__}\n")
            return 2
    return 0


def schema() -> str:
    """The schema as it is, with the names that `settings` may have."""
    parsed: dict[str, Any] = json.loads(SCHEMA.read_text(encoding="utf-8"))
    parsed["definitions"]["settingName"] = {"enum": sorted(setting_names())}
    return json.dumps(parsed, indent=2) + "\n"


def setting_names() -> Iterator[str]:
    """What may be in a file of values. A secret may not, but the name of a file with it may."""
    for name, field in ServerSettings.model_fields.items():
        if name in OF_THE_CHART:
            continue
        if not is_secret(field.annotation):
            yield f"HANDRAISE_{name.upper()}"
        yield f"HANDRAISE_{name.upper()}_FILE"


def is_secret(annotation: object) -> bool:
    """Whether values of this type hide themselves."""
    return annotation is SecretStr or any(is_secret(each) for each in get_args(annotation))


def readme() -> str:
    """A page for those who browse charts: what it makes, and a table of its values."""
    rows = "\n".join(
        f"| `{path}` | `{json.dumps(default)}` | {text} |" for path, default, text in documented()
    )
    return f"""# The Helm chart of Handraise

Servers that share a PostgreSQL, the migration of its schema before each release, and what leads to them.
`docs/how-to/run-on-kubernetes.md` has every step from an empty cluster to the first question.

```console
$ helm install handraise deploy/helm/handraise --namespace handraise --set publicUrl={PUBLIC_URL}
```

The chart makes no secret. Two must exist before: `handraise-server` and `handraise-migrate`, each with the `PGPASSWORD` of its
role. The folder `ci` has six complete sets of values.

## Values

Made from the comments in `values.yaml`: `python -m scripts.chart write`.

| value | default | meaning |
|---|---|---|
{rows}
"""


def documented() -> Iterator[tuple[str, Any, str]]:
    """Each value with a comment that begins with `--`: its path, its default, and that comment."""
    defaults: dict[str, Any] = yaml.safe_load(VALUES.read_text(encoding="utf-8"))
    path: list[tuple[int, str]] = []
    comment: list[str] = []
    for line in VALUES.read_text(encoding="utf-8").splitlines():
        words = line.strip()
        if words.startswith("# -- "):
            comment = [words.removeprefix("# -- ")]
        elif words.startswith("#") and comment:
            comment.append(words.removeprefix("#").strip())
        elif key := re.match(r"( *)(\w+):", line):
            depth = len(key[1])
            path = [*(each for each in path if each[0] < depth), (depth, key[2])]
            if comment:
                names = [name for _, name in path]
                yield ".".join(names), value_at(defaults, names), " ".join(comment)
            comment = []


def value_at(values: Mapping[str, Any], names: Sequence[str]) -> Any:
    """The value at a path of names."""
    found: Any = values
    for name in names:
        found = found[name]
    return found


def manifests() -> dict[str, str]:
    """The plain manifests by their file names: what the chart makes of its defaults, without what only Helm reads."""
    from helm_python import Chart  # noqa: PLC0415 -- large, and only this needs it

    with Chart.load(CHART) as chart:
        made = chart.render({"publicUrl": PUBLIC_URL}, name="handraise", namespace="handraise")
    return {
        Path(path).name: _header(Path(path).name) + _without_helm(text)
        for path, text in sorted(made.items())
        if path.endswith(".yaml") and text.strip()
    }


def _header(name: str) -> str:
    said = "# Made from deploy/helm/handraise: python -m scripts.chart manifests\n"
    if name == "migrate.yaml":
        said += "# A job cannot be changed: delete the last one before you apply a new image.\n"
    return f"{said}\n"


def _without_helm(text: str) -> str:
    text = _OF_HOOKS.sub("", _OF_HELM.sub("", text.strip() + "\n"))
    return _EMPTY_ANNOTATIONS.sub("", text).removeprefix("---\n").lstrip("\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

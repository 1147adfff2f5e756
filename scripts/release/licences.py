"""Which packages come with the core and with each extra, and under which licence.

`python -m scripts.release licences` writes the page. The frameworks are in their own environment, so part of it is
found by running this file there: `packaging` is its only dependency.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = ROOT / "docs" / "reference" / "licences.md"
FRAMEWORKS = ROOT / ".venv-integrations" / "bin" / "python"
SEPARATE = ROOT / ".venv-separate" / "bin" / "python"
CORE = "core"
FOREIGN = frozenset(
    {
        "a2a",
        "agent-framework",
        "agno",
        "agui",
        "claude",
        "dbos",
        "google-adk",
        "langfuse",
        "langchain",
        "langgraph",
        "langsmith",
        "llama-index",
        "mcp",
        "mlflow",
        "notebook",
        "openai-agents",
        "pydantic-ai",
        "restate",
        "smolagents",
        "temporal",
    }
)
"""The extras of frameworks: `.ci/run` installs them in that environment, and the others in ours."""
ALONE = {
    "airflow": ROOT / ".venv-airflow" / "bin" / "python",
    "crewai": SEPARATE,
    "prefect": ROOT / ".venv-prefect" / "bin" / "python",
    "strands": SEPARATE,
}
"""The extras that do not fit beside those, and where `.ci/run` installs each of them, nightly."""

COPYLEFT = re.compile(r"\b(A?GPL|LGPL|MPL|EPL|EUPL|CDDL|OSL)\b|copyleft|GNU", re.IGNORECASE)
"""Copyleft licences, weak or strong: they ask for something in return when the package is passed on."""

# What packages call their licence, and its SPDX name.
SPDX = {
    "3-Clause BSD License": "BSD-3-Clause",
    "Apache 2": "Apache-2.0",
    "Apache 2.0": "Apache-2.0",
    "Apache License 2.0": "Apache-2.0",
    "Apache License, Version 2.0": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
    "Apache-2": "Apache-2.0",
    "BSD": "BSD-3-Clause",
    "BSD License": "BSD-3-Clause",
    "ISC License": "ISC",
    "ISC License (ISCL)": "ISC",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "MPL 2.0": "MPL-2.0",
    "Modified BSD License": "BSD-3-Clause",
    "PSF": "PSF-2.0",
    "PSFL": "PSF-2.0",
    "Python Software Foundation License": "PSF-2.0",
}

# These packages state nothing; the licence is in their repository, https://github.com/crewAIInc/crewAI.
IN_REPOSITORY = dict.fromkeys(("crewai", "crewai-cli", "crewai-core"), "MIT")

_FEW = 40
"""A field with more letters contains the whole licence text."""

_HEAD = """# Licences

Made by `python -m scripts.release licences`. Every package that `pip install handraise` and each of its extras bring,
for the versions in the `constraints*.txt` files on Linux and Python 3.11, with the licence that it
states. Handraise itself is Apache-2.0. `tests/release/test_licences.py` compares this page with what is installed.
"""


def parts() -> dict[str, list[Requirement]]:
    """What the core and each extra ask for, as `pyproject.toml` has it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = {CORE: project["dependencies"], **project["optional-dependencies"]}
    return {part: [Requirement(line) for line in lines] for part, lines in named.items()}


def installed() -> dict[str, dict[str, str]]:
    """For each part that is installed here: its packages, each with its licence."""
    return {part: found for part, asked in parts().items() if (found := _closure(asked)) is not None}


def _closure(asked: list[Requirement]) -> dict[str, str] | None:
    found: dict[str, str] = {}
    seen: set[tuple[str, str]] = set()
    unseen = [(each, "") for each in asked]
    while unseen:
        requirement, extra = unseen.pop()
        if requirement.marker and not requirement.marker.evaluate({"extra": extra}):
            continue
        name = canonicalize_name(requirement.name)
        try:
            about = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            return None
        found[name] = licence_of(about)
        for wanted in ("", *requirement.extras):
            if (name, wanted) not in seen:
                seen.add((name, wanted))
                unseen += [(Requirement(line), wanted) for line in about.requires or ()]
    return found


def licence_of(about: metadata.Distribution) -> str:
    """The licence of a package: its expression, else its classifiers, else its own text if that is short."""
    said = about.metadata.json
    if expression := said.get("license_expression"):
        return str(expression)
    classified = [
        each.rpartition(" :: ")[2]
        for each in said.get("classifier", ())
        if each.startswith("License :: ") and each != "License :: OSI Approved"
    ]
    words = str(said.get("license", "")).strip()
    if words and len(words) < _FEW and words != "UNKNOWN" and not (classified and words in {"BSD", "PSF"}):
        return SPDX.get(words, words)
    if classified:
        return " OR ".join(sorted({SPDX.get(each, each) for each in classified}))
    text = next((_text(file) for file in about.files or () if "licen" in str(file).lower()), "")
    return next(
        (SPDX[name] for name in ("MIT License", "Apache License, Version 2.0") if name in text),
        IN_REPOSITORY.get(canonicalize_name(about.name), "not stated"),
    )


def _text(file: metadata.PackagePath) -> str:
    return file.read_text(encoding="utf-8") or ""


def is_copyleft(licence: str) -> bool:
    """Whether every licence that a package offers asks for something in return."""
    while group := re.search(r"\(([^()]*)\)", licence):
        licence = licence.replace(group[0], "MPL" if is_copyleft(group[1]) else "")
    return all(COPYLEFT.search(choice) for choice in re.split(r"\bOR\b", licence))


def installed_with(python: Path) -> dict[str, dict[str, str]]:
    """The same for the environment of this interpreter."""
    line = [str(python), str(Path(__file__).resolve())]
    done = subprocess.run(line, capture_output=True, text=True, check=True)  # noqa: S603 -- our own file
    found: dict[str, dict[str, str]] = json.loads(done.stdout)
    return found


def everywhere() -> dict[str, dict[str, str]]:
    """The parts installed here, in the environment of the frameworks, and in those of what stands alone."""
    there = {part: found for part, found in installed_with(FRAMEWORKS).items() if part in FOREIGN}
    alone = {part: installed_with(python)[part] for part, python in ALONE.items()}
    elsewhere = {*FOREIGN, *ALONE}
    return {**there, **alone, **{part: found for part, found in installed().items() if part not in elsewhere}}


def page(found: Mapping[str, Mapping[str, str]]) -> str:
    """The whole page for these parts."""
    missing = sorted({*parts()} - {*found})
    if missing:
        raise SystemExit(f"not installed anywhere: {', '.join(missing)}")
    return "\n".join([_HEAD, *_core(found[CORE]), "", *_extras(found), "", *_asking(found), ""])


def on_page(text: str) -> dict[str, dict[str, str]]:
    """What a page says of each part, without the packages of the core."""
    said: dict[str, dict[str, str]] = defaultdict(dict)
    for line in re.findall(r"^\| ([\w-].*) \|$", text, re.MULTILINE):
        name, licence, *extras = line.split(" | ")
        for part in extras[0].split(", ") if extras else (CORE,):
            if name != "package":
                said[part][name] = licence
    return dict(said)


def _core(packages: Mapping[str, str]) -> Iterator[str]:
    yield "## The core\n"
    yield "| package | licence |\n|---|---|"
    yield from (f"| {name} | {licence} |" for name, licence in sorted(packages.items()))


def _extras(found: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    yield "## The extras\n"
    yield "What they bring besides the core. A package of several extras is listed once.\n"
    yield "| package | licence | comes with |\n|---|---|---|"
    yield from (
        f"| {name} | {licence} | {', '.join(extras)} |" for (name, licence), extras in rows(found).items()
    )


def rows(found: Mapping[str, Mapping[str, str]]) -> dict[tuple[str, str], list[str]]:
    """Each package with its licence, and the extras that bring it."""
    brought: dict[tuple[str, str], list[str]] = defaultdict(list)
    for part, packages in sorted(found.items()):
        for name, licence in packages.items():
            if part != CORE and name not in found[CORE]:
                brought[name, licence].append(part)
    return dict(sorted(brought.items()))


def _asking(found: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    yield "## Copyleft\n"
    yield "None in the core. In extras:\n"
    yield from (
        f"- {name} ({licence}), with {', '.join(extras)}"
        for (name, licence), extras in rows(found).items()
        if is_copyleft(licence)
    )


if __name__ == "__main__":
    json.dump(installed(), sys.stdout)

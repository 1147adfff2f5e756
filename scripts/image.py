"""What belongs to the image. It needs nothing but Python.

requirements           write requirements-image.txt: what the Dockerfile's extras need, each file by its hash; needs uv
probe URL COMMAND…     use a server that was started a moment ago: its health, its doctor, and one question over HTTP. COMMAND is how
                       `handraise` is run beside it, such as `docker exec server handraise`
chart REPOSITORY DIGEST FOLDER
                       copy the chart into FOLDER, with this image as its default
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

ROOT = Path(__file__).resolve().parent.parent
CHART = ROOT / "deploy" / "helm" / "handraise"
REQUIREMENTS = ROOT / "requirements-image.txt"
_SOON = 60.0


def main(arguments: Sequence[str]) -> int:
    """Do one of these; 0 if all is well."""
    match arguments:
        case ["requirements"]:
            write_requirements()
        case ["probe", url, *command] if command:
            for line in probe(url, command):
                sys.stdout.write(f"{line}\n")
        case ["chart", repository, digest, folder]:
            write_chart(repository, digest, Path(folder))
        case _:
            sys.stderr.write(f"{__doc__}\n")
            return 2
    return 0


def extras() -> list[str]:
    """The extras that the Dockerfile installs."""
    (found,) = re.findall(r"\.whl\)\[([\w,]+)\]", (ROOT / "Dockerfile").read_text(encoding="utf-8"))
    return [str(each) for each in found.split(",")]


def write_requirements() -> None:
    """Keep the head of the file, and replace what follows."""
    text = REQUIREMENTS.read_text(encoding="utf-8")
    head = "".join(line for line in text.splitlines(keepends=True) if line.startswith("#"))
    command = ["uv", "pip", "compile", "pyproject.toml", "--universal", "--python-version", "3.11"]
    command += ["--generate-hashes", "--no-header", "--no-annotate", "--constraint", "constraints.txt"]
    for extra in extras():
        command += ["--extra", extra]
    made = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)  # noqa: S603 -- ours
    REQUIREMENTS.write_text(head + made.stdout, encoding="utf-8")


def probe(url: str, command: Sequence[str]) -> list[str]:
    """Ask a question of the server and answer it, as a new agent and a new person; raises if anything is not as it should be."""
    _wait_until_ready(url)
    said = ["ready"]
    if status(url, "/healthz") != 200:  # noqa: PLR2004 -- HTTP
        raise SystemExit("/healthz does not say 200")
    said.append("healthy")
    _run(command, "doctor")
    said.append("doctor found nothing wrong")
    mark = uuid.uuid4().hex[:8]
    key = json.loads(_run(command, "keys", "create", f"probe-{mark}", "--json"))["key"]
    _run(command, "people", "add", f"person-{mark}")
    link = re.search(r"https?://\S+", _run(command, "people", "link", f"person-{mark}"))
    if link is None:
        raise SystemExit("people link prints no link")
    (token,) = parse_qs(urlsplit(link[0]).query)["token"]
    session = call(url, "POST", "/v1/sessions", None, {"link": token})["token"]
    form = {"kind": "choice", "options": [{"id": "yes", "label": "Yes"}, {"id": "no", "label": "No"}]}
    question = call(url, "POST", "/v1/questions", key, {"prompt": "Does it work?", "form": form, "key": mark})
    where = f"/v1/questions/{question['id']}"
    call(url, "POST", f"{where}/answer", session, {"value": "yes"})
    ended = call(url, "GET", f"{where}/outcome?wait=10", key)
    outcome = ended.get("outcome") or {}
    if (ended["status"], outcome.get("value"), outcome.get("by")) != ("answered", "yes", f"person-{mark}"):
        raise SystemExit(f"the question ended otherwise: {ended}")
    said.append(f"asked by probe-{mark}, answered by person-{mark} over HTTP")
    return said


def write_chart(repository: str, digest: str, folder: Path) -> None:
    """Copy the chart with this image as its default, so that a published chart installs exactly that image."""
    target = folder / CHART.name
    shutil.copytree(CHART, target)
    values = (target / "values.yaml").read_text(encoding="utf-8")
    for line, value in (("  repository: handraise\n", repository), ('  digest: ""\n', digest)):
        if values.count(line) != 1:
            raise SystemExit(f"values.yaml must have this line once: {line.strip()}")
        values = values.replace(line, f"{line.partition(':')[0]}: {value}\n")
    (target / "values.yaml").write_text(values, encoding="utf-8")


def call(url: str, method: str, path: str, credential: str | None, body: Any = None) -> Any:
    """One request with JSON; a refusal is raised with what the server says."""
    request = urllib.request.Request(  # noqa: S310 -- the caller's server
        f"{url}{path}", None if body is None else json.dumps(body).encode(), method=method
    )
    request.add_header("Content-Type", "application/json")
    if method == "POST":
        request.add_header("Idempotency-Key", uuid.uuid4().hex)
    if credential is not None:
        request.add_header("Authorization", f"Bearer {credential}")
    try:
        with urllib.request.urlopen(request, timeout=_SOON) as response:  # noqa: S310 -- the caller's server
            return json.loads(response.read())
    except urllib.error.HTTPError as refused:
        raise SystemExit(f"{method} {path}: {refused.code} {refused.read().decode()}") from None


def status(url: str, path: str) -> int:
    """The status that a path answers with."""
    try:
        with urllib.request.urlopen(f"{url}{path}", timeout=5) as response:  # noqa: S310 -- the caller's server
            return int(response.status)
    except urllib.error.HTTPError as refused:
        return refused.code


def _wait_until_ready(url: str) -> None:
    end = time.monotonic() + _SOON
    while time.monotonic() < end:
        try:
            if status(url, "/readyz") == 200:  # noqa: PLR2004 -- HTTP
                return
        except OSError:
            pass
        time.sleep(0.2)
    raise SystemExit(f"{url}/readyz did not say 200 within {_SOON:.0f} s")


def _run(command: Sequence[str], *arguments: str) -> str:
    """What `handraise` prints with these arguments; it must succeed."""
    done = subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=_SOON, check=False)  # noqa: S603 -- the caller's command
    if done.returncode:
        raise SystemExit(
            f"handraise {' '.join(arguments)} ended with {done.returncode}: {done.stderr}{done.stdout}"
        )
    return done.stdout


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""`handraise[cli]` is enough to ask and to answer. What runs a server says that it needs `handraise[server]`."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from handraise.cli import SERVER_COMMANDS
from handraise.cli.commands import COMMANDS
from support.command import SOON, environment
from tests.tiers import drawn

ROOT = Path(__file__).parent.parent.parent

ONLY_SERVERS = (
    *("fastapi", "starlette", "uvicorn", "pydantic_settings", "httptools", "prometheus_client", "limits"),
    *("opentelemetry", "python_multipart", "multipart", "jinja2", "markupsafe", "nh3", "mcp", "mcp_types"),
)
"""What an installation with `[cli]` does not have, as far as it is imported anywhere."""

WITHOUT_A_SERVER = f"""
import importlib.abc, json, sys
class Missing(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {ONLY_SERVERS!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Missing())
from support.command import handraise
"""


def run_without_a_server(program: str, url: str | None = None) -> str:
    """What a program prints in a process that has nothing of a server's."""
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_A_SERVER + program],
        env=environment(url),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=SOON,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_asking_and_answering_need_nothing_of_a_server(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'questions.db'}"
    printed = run_without_a_server(
        f"""
url = {url!r}
asked = json.loads(handraise("ask", "Deploy?", "--confirm", "--json", url=url).stdout)
lines = [
    ("list",), ("show", asked["id"]), ("answer", asked["id"], "yes", "--as", "ana"), ("wait", asked["id"]),
    ("history", asked["id"]), ("grants", "list"), ("inbox", "--help"), ("sign-in", "--help"), ("--help",),
]
done = [(line, handraise(*line, url=url)) for line in lines]
import handraise.client
print(json.dumps([[line[0], each.returncode, each.stdout + each.stderr] for line, each in done]))
"""
    )
    ended = json.loads(printed)
    assert [(name, code) for name, code, _ in ended if code != 0] == []
    assert "Deploy?" in ended[0][2]
    assert ended[3][2] == "yes\n"


def test_what_needs_a_server_says_so() -> None:
    printed = run_without_a_server(
        f"""
print(json.dumps({{name: handraise(name, "--help").stderr for name in {sorted(COMMANDS)!r}}}))
"""
    )
    named = {
        name: re.findall(r'pip install "handraise\[([\w,]+)\]"', text)
        for name, text in json.loads(printed).items()
    }
    assert {name for name, extras in named.items() if extras} == SERVER_COMMANDS
    assert {name: extras for name, extras in named.items() if extras not in ([], ["server"])} == {}


def test_names_are_completed_without_a_server() -> None:
    printed = run_without_a_server(
        """
done = handraise("", _HANDRAISE_COMPLETE="complete_bash", COMP_WORDS="handraise se", COMP_CWORD="1")
print(done.stdout, done.stderr)
"""
    )
    assert printed.split() == ["search", "send-back", "serve"]


def test_the_server_brings_all_of_the_command() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    assert set(extras["cli"]) <= set(extras["server"])


WITHOUT = """
import importlib.abc, json, sys
class Missing(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == {package!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Missing())
from support.command import handraise
handraise("migrate", url={url!r})
done = handraise("doctor", url={url!r}, **{settings!r})
print(json.dumps([done.returncode, done.stderr]))
"""


def doctor_without(package: str, tmp_path: Path, **settings: str) -> tuple[int, str]:
    """What doctor says where a package is not installed."""
    url = f"sqlite:///{tmp_path / 'questions.db'}"
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT.format(package=package, url=url, settings=settings)],
        env=environment(None),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=SOON,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    code, said = json.loads(done.stdout)
    return code, said


MAIL = {"email_smtp_url": "smtp://127.0.0.1:2525?tls=none", "email_from": "desk@example.com"}
REPLIES = {
    "email_imap_url": "imap://u:p@127.0.0.1:2526?tls=none",
    "email_reply_to": "reply@example.com",
    "secret": "s" * 32,
}
OIDC = {"oidc_issuer": "https://id.example.com", "oidc_client_id": "h", "secret": "s" * 32}
MISSED = {
    "aiosmtplib": (MAIL, 78, 'aiosmtplib is not installed. Run: pip install "handraise[email]"'),
    "imap_tools": (MAIL | REPLIES, 78, "imap-tools is not installed"),
    "imap_tools, and no replies": (MAIL, 0, ""),
    "authlib": (OIDC, 78, "authlib is not installed"),
}


@pytest.mark.parametrize("missing", drawn([*MISSED], 1))
def test_doctor_misses_what_a_server_would_miss(missing: str, tmp_path: Path) -> None:
    settings, expected, says = MISSED[missing]
    code, said = doctor_without(missing.partition(",")[0], tmp_path, **settings)
    assert (code, says in said) == (expected, True)
    assert says or not said

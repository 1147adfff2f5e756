"""Every block that is neither Python nor a console is read by whoever it is for, or compared with the real thing."""

from __future__ import annotations

import ast
import json
import re
import shlex
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest
import typer.main
import yaml

import handraise
from handraise.backends.postgres.durability import durability_of
from handraise.cli.commands import app_with
from handraise.client.http_transport import refusal, unreachable
from handraise.config.config_document import parse_config
from handraise.model.routing import Routing
from handraise.model.unknown_recipients import unknown_recipient
from handraise.policies.decide import compile_document
from handraise.server import ServerSettings
from handraise.wire.requests import PostQuestion
from support.doc_pages import DOCS, ROOT, TEXTS, Block, blocks_of, name_of, prose_of
from support.source_trees import tree_of_text
from tests.test_deploy import objects

ELSEWHERE = {"python", "output", "console", "sh", "js", "ts", "tsx"}
"""Run by test_blocks.py, or written down and run by test_consoles.py; clients/typescript/test/package_tests.ts runs TypeScript, and
clients/react/test/page_blocks.test.ts checks the types of what is for React."""

TEXT = {
    "CONTRIBUTING.md": "the layers; compared below",
    "docs/explanation/architecture.md": "the packages; compared below",
    "docs/reference/errors.md": "tests/docs/test_pages_and_code.py",
    "docs/reference/desk-methods.md": "tests/docs/test_pages_and_code.py",
    "docs/reference/python-api.md": "tests/docs/test_pages_and_code.py",
    "docs/reference/python-api-extend.md": "tests/docs/test_pages_and_code.py",
    "docs/reference/cli.md": "tests/cli/test_pages.py",
    "docs/reference/metrics.md": "queries; their names are compared below",
    "docs/reference/events.md": "an event stream; docs/how-to/ask-over-http.md has a real one",
    "docs/reference/http-api.md": "a header; docs/how-to/ask-over-http.md sends it",
    "docs/how-to/answer-many.md": "tests/cli/test_bulk_answer.py",
    "docs/how-to/embed-a-question.md": "tests/server/inbox/test_browser_embedded.py",
    "docs/how-to/reach-people.md": "requests; compared below",
    "docs/how-to/reach-people-by-apprise.md": "tests/channels/test_apprise.py",
    "docs/explanation/security-model.md": "a drawing",
    "docs/how-to/reach-people-by-discord.md": "tests/channels/test_discord_page.py",
    "docs/how-to/reach-people-by-email.md": "tests/channels/test_email_outbound.py",
    "docs/how-to/reach-people-by-ntfy.md": "tests/channels/test_ntfy.py",
    "docs/how-to/reach-people-by-slack.md": "tests/channels/test_slack_page.py",
    "docs/how-to/reach-people-by-teams.md": "tests/channels/test_teams_page.py",
    "docs/how-to/reach-people-by-telegram.md": "tests/channels/test_telegram_page.py",
    "docs/how-to/test-your-agent.md": "tests/testing/test_person.py",
    "docs/how-to/troubleshooting.md": "errors; compared below",
    "docs/how-to/run-a-server.md": "nginx and an environment file; compared below",
    "docs/how-to/sign-in-with-your-provider.md": "settings; a server takes them below",
    "docs/reference/proofs.md": "made by chaos/release.py of what proofs printed",
}
"""Pages with blocks of text, and what they are compared with."""


def blocks(*languages: str) -> list[Any]:
    return [
        pytest.param(block, id=f"{name_of(page)}:{block.line}")
        for page in TEXTS
        for block in blocks_of(page)
        if block.language in languages
    ]


def test_every_block_is_run_or_read() -> None:
    known = {*ELSEWHERE, *READERS, "text", "py", "html", "mermaid"}
    unknown = [
        f"{name_of(page)}:{block.line} {block.language}"
        for page in TEXTS
        for block in blocks_of(page)
        if block.language not in known
    ]
    assert unknown == []


def test_every_page_with_text_says_where_that_is_compared_and_no_other() -> None:
    pages = {name_of(page) for page in TEXTS if any(each.language == "text" for each in blocks_of(page))}
    assert pages == set(TEXT)
    for page, reason in TEXT.items():
        for path in re.findall(r"tests/[\w/]+\.py", reason):
            assert Path(page).name in (ROOT / path).read_text(encoding="utf-8"), (
                f"{path} does not read {page}"
            )


COMMAND = typer.main.get_command(app_with())
READERS: dict[str, Callable[[str], Any]] = {
    "json": json.loads,
    "yaml": yaml.safe_load,
    "toml": tomllib.loads,
}


@pytest.mark.parametrize("block", blocks(*READERS))
def test_every_block_of_data_can_be_read(block: Block) -> None:
    parsed = READERS[block.language](block.text)
    match parsed:
        case {"prompt": _, "choices": _}:
            PostQuestion.model_validate(parsed)
        case {"rules": [{"then": _}, *_]} | {"close_orphans": _}:
            compile_document(parsed)
        case {"version": 1, "people": _}:
            parse_config(parsed)
        case {"rules": _}:
            Routing.model_validate(parsed)
        case {"mcpServers": {"handraise": {"command": "handraise", "args": words}}}:
            assert unknown_in(words) is None
        case {"hooks": {"PreToolUse": [{"hooks": [{"command": command}]}]}}:
            module = command.split()[2].replace(".", "/")
            assert (ROOT / "src" / f"{module}.py").exists()
        case {"kind": "Kustomization"}:
            check_kustomization(parsed)
        case {"tool": {"pytest": {"ini_options": options}}}:
            real = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
            assert options["asyncio_mode"] == real["tool"]["pytest"]["ini_options"]["asyncio_mode"]


def check_kustomization(parsed: dict[str, Any]) -> None:
    """Every patch changes the setting that it means, and the image is that of this release."""
    assert [each["newTag"] for each in parsed["images"]] == [handraise.__version__]
    assert [path for path in parsed["resources"] if not (ROOT / path).exists()] == []
    for patch in parsed["patches"]:
        kind, name = patch["target"]["kind"], patch["target"]["name"]
        (target,) = (each for each in objects(kind) if each["metadata"]["name"] == name)
        for change in yaml.safe_load(patch["patch"]):
            place: Any = target
            for step in change["path"].strip("/").split("/"):
                place = place[int(step) if step.isdigit() else step]
            assert place.partition(":")[0] == change["value"].partition(":")[0], change


@pytest.mark.parametrize("block", blocks("py"))
def test_every_piece_of_a_program_is_python_and_imports_what_there_is(block: Block) -> None:
    for node in ast.walk(tree_of_text(block.text, name_of(block.page))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("handraise."):
            file = ROOT / "src" / f"{(node.module or '').replace('.', '/')}.py"
            text = (file if file.exists() else file.with_suffix("") / "__init__.py").read_text(
                encoding="utf-8"
            )
            assert [each.name for each in node.names if not re.search(rf"\b{each.name}\b", text)] == []


def test_the_layers_on_the_page_are_those_that_are_checked() -> None:
    contract = next(
        each
        for each in tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"][
            "importlinter"
        ]["contracts"]
        if each["type"] == "layers"
    )
    block = next(each for each in blocks_of(ROOT / "CONTRIBUTING.md") if each.language == "text")
    assert block.text.splitlines() == [
        line.replace("(", "").replace(")", "") for line in contract["layers"][1:]
    ]


def test_the_packages_on_the_page_are_there() -> None:
    block = next(
        each for each in blocks_of(DOCS / "explanation" / "architecture.md") if each.language == "text"
    )
    named = re.findall(r"^  ([\w/]+(?:\.py)?)/? +\S", block.text, re.MULTILINE)
    source = ROOT / "src" / "handraise"
    assert [name for name in named if not (source / name).exists()] == []
    packages = {each.name for each in source.iterdir() if each.is_dir() and each.name != "__pycache__"}
    assert packages - {name.strip("/") for name in named} == set()


def test_every_metric_in_a_query_exists() -> None:
    page = DOCS / "reference" / "metrics.md"
    names = set(
        re.findall(r"\bhandraise_\w+", next(each.text for each in blocks_of(page) if each.language == "text"))
    )
    listed = prose_of(page)
    assert names
    assert [name for name in names if re.sub(r"_bucket$", "", name) not in listed] == []


def test_every_request_in_a_text_has_a_route() -> None:
    from handraise.server import app as server  # noqa: PLC0415 -- the name is taken

    paths = [re.sub(r"\{\w+\}", "[^/]+", path) for path in server.document()["paths"]]
    block = next(each for each in blocks_of(DOCS / "how-to" / "reach-people.md") if each.language == "text")
    for line in block.text.splitlines():
        method, path, body = line.split(maxsplit=2)
        assert method == "PUT"
        assert any(re.fullmatch(each, path) for each in paths), line
        json.loads(body)


def test_the_proxy_on_the_page_leads_to_the_server_and_is_patient() -> None:
    block = next(
        each for each in blocks_of(DOCS / "how-to" / "run-a-server.md") if each.text.startswith("upstream")
    )
    fields = ServerSettings.model_fields
    assert f"server 127.0.0.1:{fields['port'].default};" in block.text
    patience = re.search(r"proxy_read_timeout (\d+)s", block.text)
    assert patience
    assert int(patience[1]) > fields["longest_wait"].default
    assert "proxy_buffering off" in block.text
    assert block.text.count("{") == block.text.count("}")


def test_a_server_takes_the_settings_for_a_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    page = DOCS / "how-to" / "sign-in-with-your-provider.md"
    (block,) = (each for each in blocks_of(page) if each.language == "text")
    for setting in shlex.split(block.text.replace("…", "x" * 32), comments=True):
        monkeypatch.setenv(*setting.split("=", 1))
    settings = ServerSettings()
    assert (settings.admin_emails, settings.oidc_join) == (("ann@example.com",), ("example.com",))


def test_every_setting_on_a_page_exists() -> None:
    known = {
        f"HANDRAISE_{name.upper()}{suffix}"
        for name in ServerSettings.model_fields
        for suffix in ("", "_FILE")
    }
    known |= {"HANDRAISE_KEY", "HANDRAISE_MCP_TOKEN", "HANDRAISE_MCP_STATE_KEY"}
    known |= {"HANDRAISE_TEST_POSTGRES", "HANDRAISE_TEST_NATS", "HANDRAISE_WRITE", "HANDRAISE_INTEGRATIONS"}
    known |= {"HANDRAISE_TIER", "HANDRAISE_SEED"}
    known |= {
        f"HANDRAISE_PROOF_{each}"
        for each in ("REQUESTS", "HISTORIES", "OPERATIONS", "WAITS", "CLIENTS", "SECONDS")
    } | {"HANDRAISE_PEERS"}
    named = {
        (name_of(page), name)
        for page in TEXTS
        for name in re.findall(r"\bHANDRAISE_[A-Z_]+[A-Z]\b", page.read_text(encoding="utf-8"))
    }
    assert {each for each in named if each[1] not in known} == set()


def test_every_command_in_a_sentence_exists() -> None:
    """Those in consoles are given; these are between backticks, in prose and in tables."""
    wrong = [
        f"{name_of(page)}: `handraise {line}`: {problem}"
        for page in TEXTS
        for line in re.findall(r"`handraise ([a-z-][^`\n]*)`", prose_of(page))
        if (problem := unknown_in(shlex.split(line.replace("…", ""))))
    ]
    assert wrong == []


def unknown_in(words: list[str]) -> str | None:
    """What our command does not know of a line."""
    command: Any = COMMAND
    rest = list(words)
    while rest and hasattr(command, "commands") and not rest[0].startswith("-"):
        if rest[0] not in command.commands:
            return f"there is no {rest[0]}"
        command = command.commands[rest.pop(0)]
    options = {option for each in command.params for option in each.opts} | {"--help", "-h", "--version"}
    given = {word.partition("=")[0] for word in rest if re.match(r"--?[a-z]", word)}
    return f"there is no {given - options}" if given - options else None


def test_errors_that_the_page_cannot_raise_read_as_it_shows() -> None:
    with pytest.raises(handraise.errors.UnsafeStore) as unsafe:
        durability_of({"fsync": "off"})
    leeds = unknown_recipient("group:leeds", ["group:leads"])
    nobody = OSError("All connection attempts failed")
    printed = [
        unreachable("http://127.0.0.1:8765", nobody),
        refusal(httpx2.Response(404), "http://127.0.0.1:8000"),
        handraise.errors.MissingExtra("asyncpg", "postgres"),
        unsafe.value,
        handraise.InvalidQuestion([handraise.Problem("recipients[0]", leeds)]),
        handraise.errors.ForkedDesk(71, 84),
    ]
    page = DOCS / "how-to" / "troubleshooting.md"
    shown = [
        line for block in blocks_of(page) if block.language == "text" for line in block.text.splitlines()
    ]
    assert shown == [str(error) for error in printed]

"""The OpenAPI document in the repository is the one that a server gives out."""

from __future__ import annotations

import html
import json
import os
import re
from functools import cache
from pathlib import Path
from typing import Any

import httpx2
import pytest

from handraise.server.app import document

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "openapi.json"


made_once = cache(document)
"""The document, which takes a while to make."""


def text_of(made: dict[str, Any]) -> str:
    return json.dumps(made, indent=2, ensure_ascii=False, sort_keys=True) + "\n"


def test_the_document_in_the_repository_is_that_of_the_application() -> None:
    made = text_of(made_once())
    if os.environ.get("HANDRAISE_WRITE"):
        PAGE.write_text(made, encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == made, (
        "Write it anew: HANDRAISE_WRITE=1 pytest tests/server/test_document.py"
    )


async def test_people_find_it_where_they_look_for_it(client: httpx2.AsyncClient) -> None:
    led = await client.get("/openapi.json")
    assert (led.status_code, led.headers["location"]) == (308, "/v1/openapi.json")


async def test_a_running_server_gives_out_the_same_and_a_page_with_every_operation(
    client: httpx2.AsyncClient,
) -> None:
    response = await client.get("/v1/openapi.json")
    assert text_of(response.json()) == PAGE.read_text(encoding="utf-8")
    shown = await client.get("/docs")
    assert shown.status_code == 200
    text = html.unescape(shown.text)
    for path, methods in made_once()["paths"].items():
        for method in methods:
            assert f"<code>{method.upper()} {path}</code>" in text
    assert """--header "Authorization: Bearer $HANDRAISE_KEY" --json '{"prompt": "…"}'""" in text
    assert "<script" not in text


def test_it_is_openapi_3_1_and_every_reference_leads_somewhere() -> None:
    made = made_once()
    assert made["openapi"].startswith("3.1.")
    named = set(re.findall(r'"#/components/schemas/([^"]+)"', json.dumps(made)))
    assert named <= set(made["components"]["schemas"])


@pytest.mark.parametrize("status", ["401", "403", "404", "409", "422", "429", "503"])
def test_every_operation_of_the_api_documents_what_it_may_refuse(status: str) -> None:
    for path, methods in made_once()["paths"].items():
        for method, operation in methods.items():
            if path.startswith("/v1/"):
                assert "application/problem+json" in operation["responses"][status]["content"], (method, path)


def test_operations_have_names_of_their_own() -> None:
    names = [each["operationId"] for methods in made_once()["paths"].values() for each in methods.values()]
    assert len(names) == len(set(names))

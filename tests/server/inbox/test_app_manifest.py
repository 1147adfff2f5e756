"""The inbox as an app: a manifest and a worker that anybody may read, with nobody in them."""

from __future__ import annotations

import re
import struct

import httpx2

from handraise.server.web.pages import STATIC_FILES


async def test_the_manifest_names_icons_that_are_there_and_as_large_as_it_says(
    client: httpx2.AsyncClient,
) -> None:
    given = await client.get("/manifest.webmanifest")
    assert (given.status_code, given.headers["content-type"]) == (200, "application/manifest+json")
    assert given.headers["cache-control"] == "no-cache"
    manifest = given.json()
    assert (manifest["start_url"], manifest["scope"], manifest["display"]) == ("/", "/", "standalone")
    for icon in manifest["icons"]:
        file = await client.get(icon["src"])
        assert (file.status_code, file.headers["content-type"]) == (200, icon["type"])
        if icon["type"] == "image/png":
            width, height = struct.unpack(">II", file.content[16:24])
            assert f"{width}x{height}" == icon["sizes"]
            assert len(file.content) < 20_000
    assert [icon.get("purpose") for icon in manifest["icons"]].count("maskable") == 1


async def test_the_worker_reaches_every_page_and_speaks_to_nobody_else(client: httpx2.AsyncClient) -> None:
    given = await client.get("/service-worker.js")
    assert given.status_code == 200
    assert given.headers["content-type"].startswith("text/javascript")
    assert given.headers["cache-control"] == "no-cache"
    assert given.headers["content-security-policy"] == "default-src 'none'; connect-src 'self'"
    for path in re.findall(r'"(/static/[^"]+)"', given.text):
        assert (await client.get(path)).status_code == 200, path


async def test_the_pages_allow_just_these(ann: httpx2.AsyncClient) -> None:
    policy = (await ann.get("/")).headers["content-security-policy"].split("; ")
    assert policy == [
        "default-src 'none'",
        "style-src 'self'",
        "img-src 'self'",
        "form-action 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
        "script-src 'self'",
        "connect-src 'self'",
        "manifest-src 'self'",
        "worker-src 'self'",
    ]


async def test_everything_that_the_pages_and_scripts_use_is_there(ann: httpx2.AsyncClient) -> None:
    shown = await ann.get("/")
    used = set(re.findall(r'(?:src|href)="(/static/[^"]+|/manifest[^"]+)"', shown.text))
    assert used >= {"/static/inbox.js", "/static/icon-192.png", "/manifest.webmanifest"}
    for path in used:
        assert (await ann.get(path)).status_code == 200, path
    scripts = [STATIC_FILES / "inbox.js", *(STATIC_FILES / "inbox").glob("*.js")]
    modules = {f"/static/inbox/{each.name}" for each in scripts[1:] if not each.name.startswith("texts_")}
    assert {path for path in used if path.startswith("/static/inbox/")} == modules
    for script in scripts:
        for other in re.findall(r'from "([^"]+)"', script.read_text("utf-8")):
            assert (script.parent / other).is_file(), (script.name, other)


def test_no_script_makes_html_of_text_or_runs_it() -> None:
    scripts = [*STATIC_FILES.glob("*.js"), *(STATIC_FILES / "inbox").glob("*.js")]
    for script in scripts:
        found = re.findall(
            r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|srcdoc",
            script.read_text("utf-8"),
        )
        assert found == [], script.name

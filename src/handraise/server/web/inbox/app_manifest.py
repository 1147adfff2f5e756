"""What a browser needs to keep the inbox as an app: the manifest and the service worker. Both are for everybody."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import FileResponse, JSONResponse, Response

from handraise.presentation.translation import current_locale, gettext, use_locale
from handraise.server.middleware.security import STATIC, WORKER_POLICY
from handraise.server.page_locale import page_locale
from handraise.server.web.pages import STATIC_FILES

pages = APIRouter(include_in_schema=False)

_ACCENT = "#3257d6"
_GROUND = "#f4f3ef"
# The browser checks for a newer one each time; neither contains personal data.
_CACHE = {"cache-control": "no-cache"}


@pages.get("/manifest.webmanifest")
async def give_manifest(request: Request) -> Response:
    """The name, icons and colours of the inbox as an app."""
    with use_locale(page_locale(request)):
        language, description = current_locale().language, gettext("Questions of agents that wait for you.")
    manifest = {
        "id": "/",
        "lang": language,
        "name": "Handraise",
        "short_name": "Handraise",
        "description": description,
        "start_url": "/",
        "scope": "/",
        "display": "standalone",
        "theme_color": _ACCENT,
        "background_color": _GROUND,
        "icons": [
            _icon("mark.svg", "any", "image/svg+xml"),
            _icon("icon-192.png", "192x192"),
            _icon("icon-512.png", "512x512"),
            {**_icon("icon-maskable-512.png", "512x512"), "purpose": "maskable"},
        ],
    }
    return JSONResponse(manifest, media_type="application/manifest+json", headers=_CACHE)


@pages.get("/service-worker.js")
async def give_worker() -> Response:
    """The script that works while no page is open. Its path decides which pages it controls."""
    return FileResponse(
        STATIC_FILES / "service-worker.js",
        media_type="text/javascript",
        headers=_CACHE | {"content-security-policy": WORKER_POLICY},
    )


def _icon(name: str, sizes: str, kind: str = "image/png") -> dict[str, Any]:
    return {"src": f"{STATIC}/{name}", "sizes": sizes, "type": kind}

"""Takes the pictures in docs/images: `python -m scripts.pictures [FOLDER] [NAME …]`.

`python -m scripts.pictures --every-page FOLDER [NAME …]` takes every page at every width in both themes, to look at.

It plays a scene on a scratch store, serves it, and opens it with Debian's Chromium; the terminal's picture is
what a real pseudo-terminal shows. With the packages `fonts-inter` and `fonts-jetbrains-mono` pages look as they do
on most screens.
"""

from __future__ import annotations

import asyncio
import html
import os
import socket
import sys
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from playwright.async_api import Browser, BrowserContext, FloatRect, Page, async_playwright

from handraise.server import create_app
from handraise.server.auth.issuer import issue_session
from scripts.every_page import take_every_page
from scripts.scene import PERSON, WORKSPACE, Scene, open_scene, stopped
from support.http_server import listening
from support.terminal import Screen, at_terminal

FOLDER = Path(__file__).parent.parent / "docs" / "images"
NAMES = (
    "inbox",
    "split",
    "question",
    "approval",
    "phone",
    "dark",
    "terminal",
    "insights",
    "policy",
    "stops",
    "ask-back",
    "away",
)
LARGEST = 150_000
"""Bytes: a page with pictures should still open quickly."""

_WINDOW: dict[str, Any] = {"viewport": {"width": 960, "height": 720}, "device_scale_factor": 2}
_WIDE: dict[str, Any] = {"viewport": {"width": 1280, "height": 800}, "device_scale_factor": 2}
_PHONE: dict[str, Any] = {
    "viewport": {"width": 375, "height": 760},
    "device_scale_factor": 2,
    "is_mobile": True,
    "has_touch": True,
}
_WHOLE = {
    "inbox": ".queue",
    "question": ".actions",
    "approval": ".actions",
    "phone": ".actions",
    "dark": ".panel:nth-of-type(3)",
    "insights": ".panel:nth-of-type(3)",
    "policy": "#report",
    "stops": ".panel",
}
"""The last element that each picture shows."""
_PARTS = {"ask-back": (".send-back", ".write"), "away": ("#away", "#away")}
"""The first and the last element of pictures that show a part of a page."""
_COMPACT = (Path(__file__).parent / "compact.js").read_text()
_COLOURS = {
    "default": "#d8dee9",
    "cyan": "#7fd1e0",
    "brown": "#e5c07b",
    "green": "#98c379",
    "red": "#e88388",
    "brightblack": "#7f8794",
}
_FONTS = """<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "urn:fontconfig:fonts.dtd">
<fontconfig>
  <include>/etc/fonts/fonts.conf</include>
  <match target="pattern"><test name="family"><string>DejaVu Sans</string></test>
    <edit name="family" mode="prepend" binding="strong"><string>Inter</string></edit></match>
  <match target="pattern"><test name="family"><string>ui-monospace</string></test>
    <edit name="family" mode="prepend" binding="strong"><string>JetBrains Mono</string></edit></match>
</fontconfig>
"""


def take_pictures(folder: Path, names: Sequence[str] = NAMES) -> None:
    """Take these pictures into a folder; raises `ValueError` if one is too large for a page."""
    folder.mkdir(parents=True, exist_ok=True)
    asyncio.run(_take(folder, names))
    for name in names:
        size = (folder / f"{name}.png").stat().st_size
        sys.stdout.write(f"{folder / name}.png  {size / 1000:.0f} KB\n")
        if size > LARGEST:
            raise ValueError(f"{name}.png has {size} bytes, more than {LARGEST}")


async def _take(folder: Path, names: Sequence[str]) -> None:
    with TemporaryDirectory(prefix="handraise-pictures-") as scratch:
        url = f"sqlite:///{Path(scratch) / 'scene.db'}"
        async with (
            open_scene(url) as scene,
            _serving(scene) as address,
            open_browser(Path(scratch)) as browser,
        ):
            for name in names:
                if name == "terminal":
                    await _terminal(browser, folder / "terminal.png", scene, url)
                else:
                    await _picture(browser, folder / f"{name}.png", scene, address)


async def _picture(browser: Browser, file: Path, scene: Scene, address: str) -> None:
    name = file.stem
    options = {
        **{"phone": _PHONE, "split": _WIDE}.get(name, _WINDOW),
        "color_scheme": "dark" if name == "dark" else "light",
    }
    window = await _signed_in(browser, scene, address, **options)
    page = await window.new_page()
    match name:
        case "inbox":
            await page.goto("/")
        case "split":
            await page.goto("/")
            await page.locator("[data-pane] [data-question]").wait_for()
        case "question":
            await page.goto(f"/questions/{scene.choice.id}")
            await page.get_by_role("radio", name="Canary").check()
        case "approval":
            await page.goto(f"/questions/{scene.approval.id}")
        case "phone":
            await page.goto(f"/questions/{scene.escalated.id}")
        case "policy":
            await _try_policy(page)
        case "stops":
            async with stopped(scene.ctx):
                await page.goto("/stops")
        case "ask-back":
            await page.goto(f"/questions/{scene.approval.id}")
            await page.get_by_text("Ask the agent, or write a note").click()
            await page.get_by_label("Your question or note").fill("Can we undo the migration?")
        case "away":
            await page.goto("/me")
            await page.get_by_label("First day").fill("2026-12-21")
            await page.get_by_label("Last day").fill("2026-12-31")
            await page.get_by_label("Deputy").fill("bo")
        case _:
            await page.goto("/insights")
    await _quiet(page)
    if name in _WHOLE:
        await _fit(page, _WHOLE[name])
    part = await _clip(page, *_PARTS[name]) if name in _PARTS else None
    picture = await page.screenshot(
        animations="disabled", caret="hide", full_page=part is not None, clip=part
    )
    await _keep(file, picture, browser)
    await window.close()


async def _try_policy(page: Page) -> None:
    """Enforce the rules that only observe, and see what that would have done."""
    await page.goto("/policy")
    rules = page.get_by_label("The rules, in YAML")
    await rules.fill((await rules.input_value()).replace("mode: observe", "mode: enforce"))
    await page.get_by_role("button", name="Try it on the last 30 days").click()
    await page.locator("#report").wait_for()


async def _fit(page: Page, last: str) -> None:
    """Make the window just high enough to show everything down to this element."""
    box = await page.locator(last).last.bounding_box()
    if box is None or page.viewport_size is None:
        raise LookupError(last)
    height = int(box["y"] + box["height"]) + 14
    await page.set_viewport_size({"width": page.viewport_size["width"], "height": height})


async def _clip(page: Page, first: str, last: str) -> FloatRect:
    """What is from one element to another, over the whole width of the window."""
    begins, ends = await page.locator(first).bounding_box(), await page.locator(last).bounding_box()
    if begins is None or ends is None or page.viewport_size is None:
        raise LookupError(first, last)
    top, bottom = begins["y"] - 14, ends["y"] + ends["height"] + 4
    return {"x": 0, "y": top, "width": page.viewport_size["width"], "height": bottom - top}


async def _quiet(page: Page) -> None:
    """Without the marks of a pointer or of the focus."""
    await page.mouse.move(0, 0)
    await page.evaluate("document.activeElement?.blur(); scrollTo(0, 0)")


async def _terminal(browser: Browser, file: Path, scene: Scene, url: str) -> None:
    """What `handraise answer` shows at a terminal of 80 by 24."""
    drawn = await asyncio.to_thread(_at_terminal, scene.choice.id, url)
    window = await browser.new_context(viewport={"width": 860, "height": 620}, device_scale_factor=2)
    page = await window.new_page()
    await page.set_content(drawn)
    await _keep(file, await page.locator("main").screenshot(omit_background=True), browser)
    await window.close()


async def _keep(file: Path, picture: bytes, browser: Browser) -> None:
    """Write a picture as small as it can be without looking worse."""
    page = await browser.new_page()
    small: str = await page.evaluate(_COMPACT, b64encode(picture).decode())
    file.write_bytes(b64decode(small))  # noqa: ASYNC240 -- nobody waits for this loop
    await page.close()


def _at_terminal(question_id: str, url: str) -> str:
    with at_terminal("answer", question_id, "--as", PERSON, url=url, rows=24, columns=80) as screen:
        screen.until("Canary", "Something else")
        screen.look(0.5)
        return _drawn(screen, f"handraise answer {question_id[:8]}…")


def _drawn(screen: Screen, title: str) -> str:
    """A screen as a page."""
    lines = terminal_lines(screen.cells)
    return f"""<!doctype html><meta charset="utf-8"><style>
body {{ margin: 0; background: transparent; }}
main {{ width: max-content; border-radius: 10px; background: #1d2027; color: {_COLOURS["default"]}; }}
header {{ padding: 10px 14px; color: #9aa2af; font: 13px system-ui; text-align: center; }}
header::before {{ content: "● ● ●"; float: left; letter-spacing: 2px; color: #4b5261; }}
pre {{ margin: 0; padding: 4px 20px 20px; font: 14px/1.35 ui-monospace, "DejaVu Sans Mono", monospace; }}
</style><main><header>{html.escape(title)}</header><pre>{lines}</pre></main>"""


def terminal_lines(cells: Sequence[Sequence[tuple[str, str, bool]]]) -> str:
    """The lines of a terminal as HTML."""
    return "\n".join("".join(_spans(line)) for line in cells)


def _spans(line: Sequence[tuple[str, str, bool]]) -> Iterator[str]:
    for text, colour, bold in line:
        weight = ";font-weight:700" if bold else ""
        yield f'<span style="color:{_COLOURS.get(colour, _COLOURS["default"])}{weight}">{html.escape(text)}</span>'


@asynccontextmanager
async def _serving(scene: Scene) -> AsyncIterator[str]:
    with socket.socket() as door:
        door.bind(("127.0.0.1", 0))
        async with listening(create_app(scene.ctx), door):
            yield f"http://127.0.0.1:{door.getsockname()[1]}"


@asynccontextmanager
async def open_browser(scratch: Path) -> AsyncIterator[Browser]:
    """Debian's Chromium, with fonts as they are on most screens."""
    fonts = scratch / "fonts.conf"
    fonts.write_text(_FONTS)
    with _environment("FONTCONFIG_FILE", str(fonts)):
        async with async_playwright() as playwright:
            browser = await playwright.chromium.launch(
                executable_path="/usr/bin/chromium",
                args=["--no-sandbox", "--disable-gpu", "--hide-scrollbars"],
            )
            yield browser
            await browser.close()


@contextmanager
def _environment(name: str, value: str) -> Iterator[None]:
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        os.environ.pop(name) if before is None else os.environ.update({name: before})


async def _signed_in(browser: Browser, scene: Scene, address: str, **options: Any) -> BrowserContext:
    session = await issue_session(scene.ctx, WORKSPACE, person=PERSON, how="sign-in")
    if session is None:
        raise LookupError(PERSON)
    window = await browser.new_context(base_url=address, **options)
    await window.add_cookies([{"name": "handraise", "value": session.token, "url": address}])
    return window


if __name__ == "__main__":
    folder, *wanted = sys.argv[1:] or [str(FOLDER)]
    if folder == "--every-page":
        asyncio.run(take_every_page(Path(wanted[0]), wanted[1:]))
    else:
        take_pictures(Path(folder), wanted or NAMES)

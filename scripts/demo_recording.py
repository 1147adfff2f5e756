"""Records docs/images/demo.gif: `python -m scripts.demo_recording [FILE]`.

It runs `handraise demo` at a real terminal and answers its agent in a real browser. Each frame shows the page above the
terminal, as they were at that moment.
"""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory

from PIL import Image
from playwright.async_api import Locator, Page

from scripts.pictures import FOLDER, open_browser, terminal_lines
from support.terminal import Screen, at_terminal

LARGEST = 2_000_000
"""Bytes: a README should still open quickly."""
_WIDTH, _PAGE_HEIGHT, _ROWS = 1240, 720, 9
_COLOURS = 128


class Recording:
    """Frames of the page and the terminal, each with how long it is shown."""

    def __init__(self, page: Page, stage: Page, screen: Screen) -> None:
        self._page = page
        self._stage = stage
        self._screen = screen
        self._frames: list[tuple[Image.Image, int]] = []

    async def show(self, milliseconds: int) -> None:
        """Add what can be seen now."""
        page = await self._page.screenshot(animations="disabled", caret="hide")
        lines = terminal_lines(self._screen.cells)
        await self._stage.set_content(_stage(lines))
        drawn = await self._stage.locator("main").screenshot()
        both = Image.new("RGB", (_WIDTH, _PAGE_HEIGHT + Image.open(BytesIO(drawn)).height))
        both.paste(Image.open(BytesIO(page)), (0, 0))
        both.paste(Image.open(BytesIO(drawn)), (0, _PAGE_HEIGHT))
        self._frames.append((both, milliseconds))

    async def click(self, target: Locator) -> None:
        """Show where the pointer goes, then click."""
        await target.hover()
        await self._point(target)
        await self.show(700)
        await self._page.evaluate("document.querySelector('#pointer')?.remove()")
        await target.click()

    async def open(self, prompt: str) -> None:
        """Open a question in the list; if it has only been announced, have the list show it first."""
        await (
            self._page.get_by_text(prompt)
            .or_(self._page.get_by_role("link", name="Show", exact=True))
            .first.wait_for()
        )
        if await (new := self._page.get_by_role("link", name="Show", exact=True)).is_visible():
            await self.click(new)
        await self.click(self._page.get_by_role("link", name=prompt))
        await (
            self._page.get_by_role("heading", name=prompt)
            .or_(self._page.locator("[data-pane]").get_by_text(prompt))
            .first.wait_for()
        )
        await self.show(1500)

    async def until(self, *texts: str) -> None:
        """Wait until the terminal shows this."""
        await asyncio.to_thread(self._screen.until, *texts)

    def keep(self, file: Path) -> None:
        """Write all frames into one file, with one palette."""
        pictures = [frame.quantize(_COLOURS, dither=Image.Dither.NONE) for frame, _ in self._frames]
        times = [milliseconds for _, milliseconds in self._frames]
        pictures[0].save(
            file, save_all=True, append_images=pictures[1:], duration=times, loop=0, optimize=True
        )
        if (size := file.stat().st_size) > LARGEST:
            raise ValueError(f"{file} has {size} bytes, more than {LARGEST}")

    async def _point(self, target: Locator) -> None:
        box = await target.bounding_box()
        if box is None:
            raise LookupError(str(target))
        place = [box["x"] + min(box["width"] / 2, 60), box["y"] + box["height"] / 2]
        await self._page.evaluate(_POINTER, place)


_POINTER = """([x, y]) => {
  const pointer = document.createElement("div");
  pointer.id = "pointer";
  pointer.style = `position:fixed;z-index:9999;pointer-events:none;left:${x - 14}px;top:${y - 14}px;width:28px;height:28px;` +
    "border-radius:50%;background:rgb(234 88 12 / .35);border:2px solid rgb(234 88 12)";
  document.body.append(pointer);
}"""


def _stage(lines: str) -> str:
    return f"""<!doctype html><meta charset="utf-8"><style>
body {{ margin: 0; }}
main {{ width: {_WIDTH}px; background: #1d2027; border-top: 3px solid #4b5261; box-sizing: border-box; }}
pre {{ margin: 0; padding: 12px 20px; font: 15px/1.4 ui-monospace, "DejaVu Sans Mono", monospace; }}
</style><main><pre>{lines}</pre></main>"""


async def record(file: Path) -> None:
    """Play the demo to its end, and keep what it looked like."""
    async with _demo() as (recording, page):
        await recording.until("asks: Which strategy")
        await recording.show(1500)
        await recording.open("Which strategy")
        await recording.click(page.get_by_role("radio", name="Canary"))
        await recording.click(page.get_by_role("button", name="Send the answer"))
        await recording.until("asks: Before I begin")
        await recording.open("Before I begin")
        await page.get_by_label("Who is on call?").fill("Ana")
        await page.get_by_role("radio", name="No").check()
        await recording.show(900)
        await recording.click(page.get_by_role("button", name="Send the answer"))
        await recording.until("asks: Everything is ready")
        await recording.open("Everything is ready")
        await recording.click(page.get_by_role("button", name="Approve", exact=True))
        await recording.until("Done, exactly as you approved it")
        await recording.show(4000)
        recording.keep(file)


@asynccontextmanager
async def _demo() -> AsyncIterator[tuple[Recording, Page]]:
    """The demo at a terminal, and a browser that is signed in."""
    with TemporaryDirectory(prefix="handraise-recording-") as scratch:
        async with open_browser(Path(scratch)) as browser:
            with at_terminal("demo", url="", rows=_ROWS, columns=130, HOME=scratch, TMPDIR=scratch) as screen:
                await asyncio.to_thread(screen.until, "Stop with Ctrl+C")
                link = re.search(r"http://\S+/sign-in/link\?token=\S+", screen.all_text)
                if link is None:
                    raise LookupError(screen.all_text)
                window = await browser.new_context(viewport={"width": _WIDTH, "height": _PAGE_HEIGHT})
                page = await window.new_page()
                await page.goto(link[0])
                await page.get_by_role("button", name="Sign in as").click()
                stage = await (
                    await browser.new_context(viewport={"width": _WIDTH, "height": 400})
                ).new_page()
                yield Recording(page, stage, screen), page


if __name__ == "__main__":
    asyncio.run(record(Path(*sys.argv[1:]) if sys.argv[1:] else FOLDER / "demo.gif"))

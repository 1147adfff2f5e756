"""Takes the picture of e-mails in docs/images: `python -m scripts.mail_picture`.

One is a choice, by day, the other an approval, by night, as Debian's Chromium shows them.
"""

from __future__ import annotations

import asyncio
from base64 import b64decode, b64encode
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal

from playwright.async_api import Browser, ViewportSize, async_playwright

from handraise import Approval, Choice, Option, Question
from handraise.channels.email.mail_body import render_question
from handraise.channels.email.mail_texts import on_replying
from handraise.model.forms import AnyForm
from handraise.model.timelines import Step
from handraise.ports.channel import Message, Notice

FOLDER = Path(__file__).parent.parent / "docs" / "images"

_AT = datetime(2026, 11, 16, 9, 30, tzinfo=UTC)
_SIZE = ViewportSize(width=600, height=900)
_COMPACT = (Path(__file__).parent / "compact.js").read_text()
_CHOICE = Choice.of(
    Option(id="bg", label="Blue-green", description="two full sets, one switch"),
    Option(id="canary", label="Canary", description="one in ten at first, the rest after an hour"),
    "Tomorrow",
)
_PAYMENT = Approval.of(
    "transfer_money",
    {
        "to": "Ada Supplies Ltd",
        "iban": "DE89 3704 0044 0532 0130 00",
        "amount": 4820.5,
        "currency": "EUR",
        "note": "Invoice 2026-117\nDue on 20 November",
    },
)


async def main() -> None:
    """Take the picture."""
    choice = mail("deployer", "Release 2.4.0 is built and tested.\nWhich way shall I roll it out?", _CHOICE)
    payment = mail("accountant", "The invoice matches order 88-1043. Shall I pay it?", _PAYMENT)
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        shots = [await shot(browser, choice, "light"), await shot(browser, payment, "dark")]
        page = await browser.new_page(viewport=ViewportSize(width=1200, height=900), device_scale_factor=1.5)
        sides = "".join(f'<img width="600" src="data:image/png;base64,{each}">' for each in shots)
        await page.set_content(f'<body style="margin:0;display:flex">{sides}</body>')
        both = b64encode(await page.screenshot()).decode()
        (FOLDER / "email.png").write_bytes(b64decode(await page.evaluate(_COMPACT, both)))
        await browser.close()


def mail(asker: str, prompt: str, form: AnyForm) -> str:
    """The HTML of a mail."""
    question = Question(
        id="q",
        workspace="acme",
        asker=asker,
        prompt=prompt,
        form=form,
        asked_at=_AT,
        recipients=("ann",),
        steps=(Step(timedelta(hours=8), "expire"),),
    )
    notice = Notice(
        delivery_id="d", question=question, reason="asked", link="https://handraise.example.com/q/…"
    )
    message = Message(
        id="d", workspace="acme", channel="email", recipient="ann", to="", at=_AT, notices=[notice]
    )
    how = on_replying(question, by_reply=True, checked=True, several=False)
    return render_question(message, notice, how=how, server="handraise.example.com").html


async def shot(browser: Browser, page: str, scheme: Literal["light", "dark"]) -> str:
    """A mail as a mail program shows it, as base64."""
    context = await browser.new_context(color_scheme=scheme, viewport=_SIZE, device_scale_factor=1.5)
    tab = await context.new_page()
    await tab.set_content(page)
    taken = b64encode(await tab.screenshot()).decode()
    await context.close()
    return taken


if __name__ == "__main__":
    asyncio.run(main())

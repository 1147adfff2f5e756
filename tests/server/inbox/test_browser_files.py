"""Files at a real browser: images are shown, files are uploaded as they are chosen, and nothing of them is executed."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from playwright.async_api import Page, expect

from handraise import Approval, Confirm, Field, Form
from handraise.desk.local_desk import LocalDesk
from handraise.forms import File
from tests.server import hostile_files
from tests.server.inbox.chromium import *  # noqa: F403 -- fixtures come by name
from tests.server.inbox.chromium import complaints

PDF = b"%PDF-1.7\n" + bytes(9_000)
RECEIPT = Form(
    fields=(
        Field(
            name="receipt",
            title="Receipt",
            form=File(accept=("image/*", "application/pdf"), max_bytes=50_000),
        ),
        Field(name="paid", title="Paid?", form=Confirm()),
    )
)


async def picture(tab: Page, name: str) -> None:
    """Keep what the page looks like, if somebody wants to look at it."""
    if folder := os.environ.get("HANDRAISE_PICTURES"):
        for width in (390, 1200):
            for scheme in ("light", "dark"):
                await tab.set_viewport_size({"width": width, "height": 900})
                await tab.emulate_media(color_scheme=scheme)
                await tab.screenshot(path=Path(folder) / f"{name}-{width}-{scheme}.png", full_page=True)


def photo(colour: str, size: tuple[int, int] = (900, 600)) -> bytes:
    """A picture of one colour."""
    written = io.BytesIO()
    Image.new("RGB", size, colour).save(written, "JPEG")
    return written.getvalue()


@pytest.mark.only_proof_of(
    "a browser shows an image that the server has encoded, and executes nothing of a file"
)
async def test_files_of_a_question_and_of_a_reply_are_shown(tab: Page, desk: LocalDesk) -> None:
    errors = complaints(tab)
    files = [
        await desk.attach(photo("teal"), name="photo.jpg"),
        await desk.attach(PDF, name="Quarterly report 2026, final version.pdf"),
        await desk.attach(hostile_files.SVG, name="logo.svg", media_type="image/svg+xml"),
    ]
    question = await desk.post(
        "Publish these **three** files?",
        form=Approval.of("publish", {"to": "web"}),
        attachments=files,
        replies="program",
    )
    await desk.ask_back(question.id, "Which invoice?", by="ann")
    invoice = await desk.attach(photo("orange", (300, 500)), name="invoice.jpg")
    await desk.reply(question.id, "This one.", attachments=[invoice])
    await tab.goto(f"/questions/{question.id}")
    images = tab.locator(".files img")
    await expect(images).to_have_count(2)
    for place in range(2):
        await images.nth(place).scroll_into_view_if_needed()
        await expect(images.nth(place)).to_have_js_property("complete", True)
        assert await images.nth(place).evaluate("image => image.naturalWidth") > 0
    await picture(tab, "files")
    async with tab.expect_download() as begun:
        await tab.get_by_role("link", name="logo.svg").click()
    download = await begun.value
    assert download.suggested_filename == "logo.svg"
    assert Path(await download.path()).read_bytes() == hostile_files.SVG
    assert await tab.title() != "owned"
    assert errors == []


@pytest.mark.slow("sends megabytes through a browser, which takes its time beside other tests")
async def test_a_file_is_uploaded_when_it_is_chosen_and_sent_with_the_answer(
    tab: Page, desk: LocalDesk
) -> None:
    question = await desk.post("The receipt, please", form=RECEIPT, undo_for=0)
    await tab.goto(f"/questions/{question.id}")
    field = tab.get_by_label("Receipt")
    await field.set_input_files({"name": "page.html", "mimeType": "text/html", "buffer": hostile_files.HTML})
    await expect(tab.locator("[data-file-status]")).to_have_text("Uploaded: page.html")
    await tab.get_by_label("Yes").check()
    await tab.get_by_role("button", name="Send the answer").click()
    await expect(tab.locator(".problem")).to_contain_text("does not fit: expected")
    await picture(tab, "file-refused")
    await tab.get_by_label("Receipt").set_input_files(
        {"name": "large.pdf", "mimeType": "application/pdf", "buffer": b"%PDF-" + bytes(60_000)}
    )
    await expect(tab.locator("[data-file-status]")).to_have_text("This file is too large.")
    await tab.get_by_label("Receipt").set_input_files(
        {"name": "receipt.pdf", "mimeType": "application/pdf", "buffer": PDF}
    )
    await expect(tab.locator("[data-file-status]")).to_have_text("Uploaded: receipt.pdf")
    await picture(tab, "file-answer")
    await tab.get_by_role("button", name="Send the answer").click()
    await expect(tab.get_by_role("heading", name="Answered by you")).to_be_visible()
    await expect(tab.get_by_role("link", name="receipt.pdf")).to_be_visible()
    await picture(tab, "file-settled")
    settled: Any = await desk.wait(question.id)
    assert settled.value["receipt"]["name"] == "receipt.pdf"
    assert await desk.read_attachment(question.id, settled.value["receipt"]["digest"]) == PDF


@pytest.mark.slow("takes seconds in Chromium, and no right depends on it")
async def test_an_answer_with_a_file_can_be_undone_and_is_sent_when_the_page_is_left(
    tab: Page, desk: LocalDesk
) -> None:
    question = await desk.post("The receipt, please", form=RECEIPT, undo_for=60)
    await tab.goto(f"/questions/{question.id}")
    await tab.get_by_label("Receipt").set_input_files(
        {"name": "receipt.pdf", "mimeType": "application/pdf", "buffer": PDF}
    )
    await expect(tab.locator("[data-file-status]")).to_have_text("Uploaded: receipt.pdf")
    await tab.get_by_label("Yes").check()
    await tab.get_by_role("button", name="Send the answer").click()
    await tab.get_by_role("button", name="Undo").press("Enter")
    assert (await desk.get(question.id)).outcome is None
    await tab.get_by_role("button", name="Send the answer").click()
    await expect(tab.get_by_role("button", name="Undo")).to_be_visible()
    await tab.goto("/settled")
    settled: Any = await desk.wait(question.id, timeout=10)
    assert settled.value["receipt"]["name"] == "receipt.pdf"

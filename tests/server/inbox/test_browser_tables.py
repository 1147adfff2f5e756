"""Tables on a phone, on a page and in a mail: moved sideways by themselves, and no word is broken."""

from __future__ import annotations

import pytest

from handraise import Approval
from handraise.desk.local_desk import LocalDesk
from tests.presentation.test_markdown import mail
from tests.server.inbox.chromium import *  # noqa: F403 -- fixtures
from tests.server.inbox.chromium import NewWindow

PHONE = {"width": 360, "height": 640}
RECORD = {"invoice": "invoice17", "customer": "Contoso", "cause": "duplicated_charge", "since": "yesterday"}
PAY = Approval.of("payments.refund", {"lines": [RECORD, RECORD], "account_number": "DE02"})
PROMPT = "| Invoice | Customer | Cause | Since |\n|---|---|---|---|\n| invoice17 | Contoso | duplicated_charge | yesterday |"
BROKEN = """() => [...document.querySelectorAll("td, th")].filter((cell) => {
    const text = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT).nextNode();
    if (!text || cell.querySelector("table") || /\\s/.test(text.data.trim()) || !text.data.trim()) return false;
    const range = document.createRange();
    range.selectNodeContents(text);
    return range.getClientRects().length > 1;
}).map((cell) => cell.textContent)"""


@pytest.mark.slow("a browser at a phone's width; the gate looks at the styles of a mail")
async def test_a_wide_table_stays_in_its_box_on_a_phone_and_breaks_no_word(
    person: NewWindow, desk: LocalDesk
) -> None:
    question = await desk.post(PROMPT, form=PAY, context={"lines": [RECORD, RECORD]})
    async with person("ann", viewport=PHONE) as window:
        tab = await window.new_page()
        await tab.goto(f"/questions/{question.id}")
        assert await tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert await tab.locator("td, th").count() > 20
        assert await tab.evaluate(BROKEN) == []
        tab = await window.new_page()
        await tab.set_content(mail(question).html)
        assert await tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert await tab.evaluate(BROKEN) == []

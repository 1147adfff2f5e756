"""The files of a question in chats: below its message, where its people are, and never in the way of the question."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from PIL import Image

from handraise import Approval, Confirm, Question
from handraise.channels import chat_channel
from handraise.model.deliveries import Address, DeliveryStatus
from handraise.ports.channel import Message, Notice
from tests.channels import discord_peer, slack_peer, telegram_peer
from tests.channels.chat_peer import PostedFile
from tests.channels.chat_team import ChatTeam
from tests.channels.test_chat_flow import SERVICES

pytestmark = pytest.mark.asyncio(loop_scope="module")

AnyTeam = ChatTeam[Any, Any]
HOSTILE = "a; filename=b <!channel> @everyone.html"
PAGE = b"<script>alert(1)</script>"
BYTES = "application/octet-stream"
REFUSALS: dict[str, tuple[str, Any]] = {
    "slack": ("files.getUploadURLExternal", slack_peer.Fault(error="missing_scope")),
    "discord": (
        "POST /channels with files",
        discord_peer.Fault(413, {"message": "Too large", "code": 40005}),
    ),
    "telegram": ("sendDocument", telegram_peer.Fault(413, "Request Entity Too Large")),
}


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["slack", "discord", "telegram"])
async def shared(request: pytest.FixtureRequest) -> AsyncIterator[AnyTeam]:
    async with SERVICES[request.param]() as team:
        yield team


@pytest.fixture
def team(shared: AnyTeam) -> AnyTeam:
    shared.anew()
    shared.peer.files.clear()
    return shared


def picture(comment: bytes = b"") -> bytes:
    written = io.BytesIO()
    Image.new("RGB", (40, 30), "red").save(written, "JPEG", comment=comment)
    return written.getvalue()


async def ask(team: AnyTeam, *files: tuple[str, bytes], **options: Any) -> tuple[Question, Any]:
    given = [await team.desk.attach(data, name=name) for name, data in files]
    return await team.ask("Publish this?", attachments=given, **({"form": Confirm()} | options))


async def files(team: AnyTeam, number: int) -> list[PostedFile]:
    await team.peer.until(lambda: len(team.peer.files) >= number)
    found: list[PostedFile] = list(team.peer.files)
    return found


def place_of(message: Any) -> Any:
    return getattr(message, "channel", None) or getattr(message, "room", None) or message.chat


def id_of(message: Any) -> Any:
    return message.ts if hasattr(message, "ts") else message.id


async def test_files_come_below_the_message_as_bytes_and_images_as_new_pixels(team: AnyTeam) -> None:
    image = picture(comment=b"where it was taken")
    question, message = await ask(
        team,
        ("report.pdf", b"%PDF-1.7 ..."),
        (HOSTILE, PAGE),
        ("chart.jpg", image),
        form=Approval.of("publish", {}, risk="high"),
    )
    report, page, chart = await files(team, 3)
    assert {(each.place, each.reply_to) for each in (report, page, chart)} == {
        (place_of(message), id_of(message))
    }
    assert (report.name, report.data) == ("report.pdf", b"%PDF-1.7 ...")
    assert (page.name, page.data) == (HOSTILE, PAGE)
    assert chart.name == "chart.jpg"
    assert b"where it was taken" in image
    assert chart.data != image
    assert b"where it was taken" not in chart.data
    assert Image.open(io.BytesIO(chart.data)).size == (40, 30)
    if team.channel != "slack":  # which is told the names only
        assert [report.kind, page.kind, chart.kind] == [BYTES, BYTES, "image/jpeg"]
    assert "report.pdf" in message.shown
    assert [each.status for each in await team.ctx.outbox.deliveries(question.ref)] == [DeliveryStatus.SENT]


async def test_the_question_is_told_if_its_files_cannot_be_sent(
    team: AnyTeam, caplog: pytest.LogCaptureFixture
) -> None:
    what, fault = REFUSALS[team.channel]
    team.peer.fail(what, fault)
    question, message = await ask(team, ("report.pdf", b"%PDF"))
    assert [each.status for each in await team.ctx.outbox.deliveries(question.ref)] == [DeliveryStatus.SENT]
    assert "report.pdf (4 bytes)" in message.shown
    assert "the files of a message could not be sent" in caplog.text
    assert team.peer.files == []
    await team.press(team.people["ann"], message, "no")
    assert getattr(await team.outcome(question), "value", None) is False


async def test_a_service_that_never_takes_a_file_holds_nothing_up(
    team: AnyTeam, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chat_channel, "_FILES_WITHIN", 0.0)
    question, _ = await ask(team, ("report.pdf", b"%PDF"))
    assert [each.status for each in await team.ctx.outbox.deliveries(question.ref)] == [DeliveryStatus.SENT]
    assert team.peer.files == []


async def test_too_much_stays_on_the_page(team: AnyTeam) -> None:
    large = ("large.bin", b"x" * 6_000_000)
    _, message = await ask(team, large, ("other.bin", b"y" * 6_000_000))
    assert "large.bin (6.0 MB)" in message.shown
    await ask(team, *((f"{place}.txt", b"%d" % place) for place in range(11)))
    assert team.peer.files == []


async def test_a_reply_brings_its_own_files_and_a_reminder_none(team: AnyTeam) -> None:
    question, message = await ask(
        team, ("report.pdf", b"%PDF"), form=Approval.of("publish", {}), replies="program"
    )
    assert len(await files(team, 1)) == 1
    await team.desk.ask_back(question.id, "And the invoice?", by="ann")
    invoice = await team.desk.attach(b"42 EUR", name="invoice.txt")
    await team.desk.reply(question.id, "Here.", attachments=[invoice])
    later = await team.later(question, message)
    sent = await files(team, 2)
    assert [(each.name, each.reply_to) for each in sent] == [
        ("report.pdf", id_of(message)),
        ("invoice.txt", id_of(later)),
    ]


async def test_files_go_only_where_the_question_goes(team: AnyTeam) -> None:
    """Bob has an address here and may not see the question."""
    bob = Address(
        workspace="default",
        recipient="bob",
        channel=team.channel,
        id=str(team.people["bob"]),
        to=team.address(team.people["bob"]),
    )
    await team.ctx.outbox.put_address(bob)
    question, message = await ask(team, ("report.pdf", b"%PDF"))
    [sent] = await files(team, 1)
    assert sent.place == place_of(message)
    assert {each.recipient for each in await team.ctx.outbox.deliveries(question.ref)} == {"ann"}


async def test_a_message_that_is_sent_again_has_the_same_files(team: AnyTeam) -> None:
    """As after a crash between sending and recording it. Only Discord can tell that they are the same."""
    question, _ = await ask(team, ("report.pdf", b"%PDF"))
    await files(team, 1)
    [delivery] = await team.ctx.outbox.deliveries(question.ref)
    channel = team.ctx.channels[team.channel]
    notice = Notice(
        delivery_id=delivery.id,
        question=question,
        reason="asked",
        link=f"{team.ctx.settings.base_url}/questions/{question.id}",
    )
    again = Message(
        id=delivery.id,
        workspace="default",
        channel=team.channel,
        recipient="ann",
        to=delivery.to,
        at=delivery.created_at,
        notices=[notice],
    )
    await channel.send(again)
    assert len(team.peer.files) == (1 if team.channel == "discord" else 2)
    assert {(each.name, each.data) for each in team.peer.files} == {("report.pdf", b"%PDF")}

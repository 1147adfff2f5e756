"""Files: what is attached is kept exactly, is only for those who may see the question, and nobody refers to others' files."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from handraise import (
    Approval,
    Confirm,
    Desk,
    Field,
    Form,
    InvalidAnswer,
    InvalidQuestion,
    KeyConflict,
    QuestionNotFound,
    Timeline,
)
from handraise.errors import AttachmentNotFound, AttachmentTooLarge, InvalidAttachment, InvalidMessage
from handraise.forms import File
from handraise.questions import Attachment, Limits
from handraise.testing.clock import ManualClock
from handraise.testing.contract.backend import REFUSED, Backend, ContractFixtures
from handraise.testing.promises import promise

_PDF = b"%PDF-1.7\n" + bytes(range(256)) * 9
_PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 40
_RECEIPT = Form(
    fields=(
        Field(name="receipt", form=File(accept=("image/*", "application/pdf"), max_bytes=5_000)),
        Field(name="paid", form=Confirm()),
    )
)
_WRONG_NAMES = (
    "",
    "  ",
    ".",
    "..",
    "../secret",
    "a/b.pdf",
    "a\\b.pdf",
    "a\0.pdf",
    "a\n.pdf",
    "a\u202efdp.exe",
    "a\u2066b",
    "a\u200bb",
    " a.pdf",
    "a.pdf ",
    "x" * 201,
)
_WRONG_TYPES = ("", "pdf", "text/html; charset=utf-8", "Text/HTML", "a/b/c", "text/\r\nx", "x" * 300 + "/y")


class AttachmentCases(ContractFixtures):
    """Files in questions and replies."""

    async def test_a_file_is_kept_exactly(self, desk: Desk) -> None:
        file = await desk.attach(_PDF, name="report.pdf", media_type="application/pdf")
        digest = hashlib.sha256(_PDF).hexdigest()
        assert file == Attachment("report.pdf", "application/pdf", len(_PDF), digest)
        question = await desk.post("Publish this?", form=Confirm(), attachments=[file])
        assert question.attachments == (file,)
        assert (await desk.get(question.id)).attachments == (file,)
        assert await desk.read_attachment(question.id, digest) == _PDF

    async def test_a_large_file_and_an_empty_one_are_kept(self, desk: Desk) -> None:
        large = bytes(range(256)) * 4_500
        files = [await desk.attach(large, name="large.bin"), await desk.attach(b"", name="empty.txt")]
        question = await desk.post("Go?", attachments=files)
        assert [file.size for file in question.attachments] == [len(large), 0]
        assert await desk.read_attachment(question.id, files[0].digest) == large
        assert await desk.read_attachment(question.id, files[1].digest) == b""

    async def test_a_path_is_attached_under_its_own_name(self, desk: Desk, tmp_path: Path) -> None:
        path = tmp_path / "Bericht März.pdf"
        path.write_bytes(_PDF)
        file = await desk.attach(path)
        assert (file.name, file.media_type, file.size) == (path.name, "application/pdf", len(_PDF))

    async def test_a_type_is_guessed_unless_the_bytes_contradict_it(self, desk: Desk) -> None:
        assert (await desk.attach(_PNG, name="a.png")).media_type == "image/png"
        assert (await desk.attach(b"<script>", name="a.png")).media_type == "application/octet-stream"
        assert (await desk.attach(b"?", name="a")).media_type == "application/octet-stream"

    @pytest.mark.parametrize(
        "media_type", ["image/png", "image/jpeg", "image/gif", "image/webp", "application/pdf"]
    )
    async def test_a_type_that_the_bytes_contradict_is_refused(self, desk: Desk, media_type: str) -> None:
        with pytest.raises(InvalidAttachment, match="begin differently"):
            await desk.attach(b"<svg onload=alert(1)>", name="a", media_type=media_type)

    @pytest.mark.parametrize("name", _WRONG_NAMES, ids=range(len(_WRONG_NAMES)))
    async def test_a_name_that_could_mislead_is_refused(self, desk: Desk, name: str) -> None:
        with pytest.raises(InvalidAttachment):
            await desk.attach(b"x", name=name)
        file = await desk.attach(b"x", name="x")
        with pytest.raises(InvalidQuestion):
            await desk.post("Go?", attachments=[replace(file, name=name)])

    @pytest.mark.parametrize("media_type", _WRONG_TYPES, ids=range(len(_WRONG_TYPES)))
    async def test_a_type_that_is_none_is_refused(self, desk: Desk, media_type: str) -> None:
        file = await desk.attach(b"x", name="x")
        if media_type:
            with pytest.raises(InvalidAttachment):
                await desk.attach(b"x", name="x", media_type=media_type)
        with pytest.raises(InvalidQuestion):
            await desk.post("Go?", attachments=[replace(file, media_type=media_type)])

    async def test_bytes_need_a_name_and_a_text_is_no_path(self, desk: Desk) -> None:
        with pytest.raises(InvalidAttachment):
            await desk.attach(b"x")
        wrong: Any = "report.pdf"
        with pytest.raises(TypeError, match="Path"):
            await desk.attach(wrong)

    async def test_what_nobody_uploaded_cannot_be_attached(self, desk: Desk) -> None:
        file = await desk.attach(_PDF, name="report.pdf")
        for unknown in (
            replace(file, digest="0" * 64),
            replace(file, size=file.size - 1),
            replace(file, media_type="text/plain"),
        ):
            with pytest.raises(InvalidQuestion):
                await desk.post("Go?", attachments=[unknown])
        assert not list(await desk.list_pending())

    async def test_an_asker_cannot_attach_what_others_uploaded(self, desk: Desk) -> None:
        theirs = await desk.attach(_PDF, name="salaries.pdf")
        of_ana = await desk.attach(_PNG, name="a.png", by="ana")
        other = desk.scoped(asker="intruder")
        for file in (theirs, of_ana):
            with pytest.raises(InvalidQuestion):
                await other.post("Go?", attachments=[file])
        with pytest.raises(InvalidQuestion):
            await desk.post("Go?", attachments=[of_ana])
        elsewhere = desk.scoped(f"{desk.workspace}-2")
        with pytest.raises(InvalidQuestion):
            await elsewhere.post("Go?", attachments=[theirs])
        same_name = desk.scoped(asker="ana")
        with pytest.raises(InvalidQuestion):
            await same_name.post("Go?", attachments=[of_ana])

    async def test_a_question_has_only_its_own_files(self, desk: Desk) -> None:
        one, other = await desk.attach(b"1", name="1"), await desk.attach(b"2", name="2")
        asked = await desk.post("One?", attachments=[one])
        await desk.post("Other?", attachments=[other])
        for digest in (other.digest, "0" * 64, "", "..", one.digest.upper()):
            with pytest.raises(AttachmentNotFound):
                await desk.read_attachment(asked.id, digest)
        with pytest.raises(QuestionNotFound):
            await desk.read_attachment("unknown", one.digest)

    async def test_too_many_files_are_refused(self, desk: Desk) -> None:
        files = [await desk.attach(bytes([place]), name=f"{place}") for place in range(21)]
        with pytest.raises(InvalidQuestion, match="20 files"):
            await desk.post("Go?", attachments=files)
        question = await desk.post("Go?", attachments=files[:20], replies="program")
        await desk.ask_back(question.id, "And?", by="ana")
        with pytest.raises(InvalidMessage):
            await desk.reply(question.id, "This.", attachments=files[20:])
        assert (await desk.get(question.id)).thread == 1

    async def test_the_same_file_twice_is_refused(self, desk: Desk) -> None:
        file = await desk.attach(b"1", name="1")
        with pytest.raises(InvalidQuestion, match="twice"):
            await desk.post("Go?", attachments=[file, replace(file, name="2")])

    async def test_what_is_no_attachment_is_refused(self, desk: Desk) -> None:
        wrong: Any
        for wrong in ("report.pdf", ["report.pdf"], [b"x"], [None], [7]):
            with pytest.raises(InvalidQuestion):
                await desk.post("Go?", attachments=wrong)

    async def test_a_file_that_is_too_large_is_refused(self, backend: Backend, workspace: str) -> None:
        async with backend.open(workspace=workspace, limits=Limits(file_bytes=10, files_bytes=15)) as desk:
            with pytest.raises(AttachmentTooLarge):
                await desk.attach(b"12345678901", name="a")
            files = [await desk.attach(each * 10, name="a") for each in (b"1", b"2")]
            with pytest.raises(InvalidQuestion, match="together"):
                await desk.post("Go?", attachments=files)

    @promise("P1")
    async def test_the_same_key_with_another_file_is_another_question(self, desk: Desk) -> None:
        one, other = await desk.attach(b"1", name="a"), await desk.attach(b"2", name="a")
        asked = await desk.post("Go?", key="k", attachments=[one])
        assert (await desk.post("Go?", key="k", attachments=[one])).id == asked.id
        with pytest.raises(KeyConflict) as conflict:
            await desk.post("Go?", key="k", attachments=[other])
        assert [each.field for each in conflict.value.differences] == ["attachments"]

    async def test_questions_of_a_topic_with_other_files_are_asked_by_themselves(self, desk: Desk) -> None:
        files = [await desk.attach(name.encode(), name=f"{name}.txt") for name in ("one", "two")]
        first, second, third = [
            await desk.post("Which rate?", topic="rate", attachments=[files[place]]) for place in (0, 1, 0)
        ]
        assert (first.follows, second.follows, third.follows) == (None, None, first.id)

    async def test_a_reply_has_files(self, desk: Desk) -> None:
        question = await desk.post("Refund?", form=Approval.of("refund"), replies="program")
        await desk.ask_back(question.id, "Which invoice?", by="ana")
        invoice = await desk.attach(_PDF, name="invoice.pdf")
        with pytest.raises(AttachmentNotFound):
            await desk.read_attachment(question.id, invoice.digest)
        await desk.reply(question.id, "This one.", attachments=[invoice])
        _, reply = await desk.thread(question.id)
        assert (reply.text, reply.attachments) == ("This one.", (invoice,))
        event = (await desk.history(question.id))[-1]
        assert event.data == {"text": "This one.", "replies_to": 1, "attachments": [invoice.record()]}
        assert await desk.read_attachment(question.id, invoice.digest) == _PDF

    async def test_a_reply_cannot_have_what_others_uploaded(self, desk: Desk) -> None:
        question = await desk.post("Refund?", replies="program")
        await desk.ask_back(question.id, "Which invoice?", by="ana")
        theirs = await desk.attach(_PDF, name="invoice.pdf", by="ana")
        with pytest.raises(InvalidMessage):
            await desk.reply(question.id, "This one.", attachments=[theirs])
        with pytest.raises(REFUSED):
            await desk.scoped(asker="intruder").reply(question.id, "This one.")
        assert [message.kind for message in await desk.thread(question.id)] == ["asked_back"]

    async def test_files_stay_when_the_question_is_settled(self, desk: Desk) -> None:
        file = await desk.attach(_PDF, name="report.pdf")
        question = await desk.post("Publish?", form=Confirm(), attachments=[file])
        settled = await desk.answer(question.id, value=True, by="ana")
        assert settled.attachments == (file,)
        assert await desk.read_attachment(question.id, file.digest) == _PDF
        assert (await desk.list_settled()).items[0].attachments == (file,)


class FileAnswerCases(ContractFixtures):
    """Files in answers."""

    async def test_a_file_is_an_answer(self, desk: Desk) -> None:
        question = await desk.post("Your receipt, please", form=File(accept=("image/*",)))
        receipt = await desk.attach(_PNG, name="receipt.png", by="ana")
        settled = await desk.answer(question.id, receipt.record(), by="ana")
        assert settled.outcome is not None
        assert (await desk.wait(question.id)).value == receipt.record()  # type: ignore[union-attr]  # it is answered
        assert await desk.read_attachment(question.id, receipt.digest) == _PNG

    async def test_what_attach_returns_is_an_answer(self, desk: Desk) -> None:
        question = await desk.post("The receipt?", form=_RECEIPT)
        receipt: Any = await desk.attach(_PDF, name="receipt.pdf", by="ana")
        await desk.answer(question.id, {"receipt": receipt, "paid": True}, by="ana")
        answered: Any = await desk.wait(question.id)
        assert answered.value == {"receipt": receipt.record(), "paid": True}
        assert await desk.read_attachment(question.id, receipt.digest) == _PDF

    async def test_a_person_cannot_answer_with_a_file_of_somebody_else(self, desk: Desk) -> None:
        question = await desk.post("The receipt?", form=File())
        of_bo = await desk.attach(_PDF, name="salaries.pdf", by="bo")
        of_asker = await desk.attach(_PNG, name="a.png")
        unknown = Attachment("a", "text/plain", 3, "0" * 64)
        for file in (of_bo, of_asker, unknown):
            with pytest.raises(InvalidAnswer, match="have not uploaded"):
                await desk.answer(question.id, file.record(), by="ana")
            with pytest.raises(AttachmentNotFound):
                await desk.read_attachment(question.id, file.digest)
        assert (await desk.get(question.id)).attempts == 3

    async def test_a_file_must_be_what_was_asked_for(self, desk: Desk) -> None:
        question = await desk.post("The receipt?", form=_RECEIPT)
        text = await desk.attach(b"hi", name="a.txt", media_type="text/plain", by="ana")
        large = await desk.attach(_PDF * 3, name="a.pdf", by="ana")
        with pytest.raises(InvalidAnswer, match="text/plain does not fit"):
            await desk.answer(question.id, {"receipt": text.record(), "paid": True}, by="ana")
        with pytest.raises(InvalidAnswer, match="larger than 5000"):
            await desk.answer(question.id, {"receipt": large.record(), "paid": True}, by="ana")
        spoofed = replace(text, media_type="application/pdf")
        with pytest.raises(InvalidAnswer, match="have not uploaded"):
            await desk.answer(question.id, {"receipt": spoofed.record(), "paid": True}, by="ana")

    @pytest.mark.parametrize(
        "value",
        [
            "receipt.pdf",
            {},
            {"name": "a", "digest": "0" * 64},
            {"name": "a", "media_type": "text/plain", "size": "3", "digest": "0" * 64},
            {"name": "a", "media_type": "text/plain", "size": True, "digest": "0" * 64},
            {"name": "a", "media_type": "text/plain", "size": -1, "digest": "0" * 64},
            {"name": "../a", "media_type": "text/plain", "size": 1, "digest": "0" * 64},
            {"name": "a", "media_type": "text/plain", "size": 1, "digest": "../../etc/passwd"},
            {"name": "a", "media_type": "text/plain", "size": 1, "digest": "0" * 64, "url": "http://x"},
            ["a"],
            7,
        ],
        ids=range(11),
    )
    async def test_what_is_no_file_is_refused(self, desk: Desk, value: Any) -> None:
        question = await desk.post("The receipt?", form=File())
        with pytest.raises(InvalidAnswer):
            await desk.answer(question.id, value, by="ana")

    async def test_a_file_that_cannot_be_asked_for_is_refused(self, desk: Desk) -> None:
        for form in (
            File(accept=("pdf",)),
            File(accept=("*/*",)),
            File(accept=("image/png",) * 21),
            File(max_bytes=0),
            File(max_bytes=10_000_001),
            Form(fields=(Field(name="a", form=File(), default={"name": "a"}),)),
            Approval.of("refund", {"a": "x"}, editable=[Field(name="a", form=File())]),
        ):
            with pytest.raises(InvalidQuestion):
                await desk.post("Go?", form=form)
        default = Attachment("a", "text/plain", 1, "0" * 64).record()
        with pytest.raises(InvalidQuestion):
            await desk.post("Go?", form=File(), timeline=Timeline(expire=timedelta(1), default=default))

    async def test_an_optional_file_may_be_left_out(self, desk: Desk) -> None:
        form = Form(
            fields=(Field(name="receipt", form=File(), required=False), Field(name="paid", form=Confirm()))
        )
        question = await desk.post("Paid?", form=form)
        await desk.answer(question.id, {"paid": True}, by="ana")
        answered: Any = await desk.wait(question.id)
        assert answered.value == {"paid": True}

    async def test_each_vote_has_its_own_file(self, desk: Desk) -> None:
        question = await desk.post("The receipt?", form=File(), quorum=2)
        of_ana = await desk.attach(_PDF, name="a.pdf", by="ana")
        of_bo = await desk.attach(_PDF, name="a.pdf", by="bo")
        assert of_ana == of_bo
        await desk.answer(question.id, of_ana.record(), by="ana")
        assert await desk.read_attachment(question.id, of_ana.digest) == _PDF
        settled = await desk.answer(question.id, of_bo.record(), by="bo")
        assert settled.outcome is not None

    async def test_an_old_upload_can_be_repeated(self, desk: Desk, clock: ManualClock) -> None:
        await desk.attach(_PDF, name="a.pdf", by="ana")
        clock.advance(timedelta(days=3))
        again = await desk.attach(_PDF, name="b.pdf", by="ana")
        question = await desk.post("The receipt?", form=File())
        assert (await desk.answer(question.id, again.record(), by="ana")).outcome is not None

"""Files over HTTP: who gets them, how they are served, and that hostile ones cost little and do nothing."""

from __future__ import annotations

import asyncio
import hashlib
import io
import json
import re
import resource
from collections.abc import AsyncIterator
from datetime import timedelta

import httpx2
import pytest
from PIL import Image

from handraise import Confirm, Field, Form, Question
from handraise.errors import AttachmentTooLarge
from handraise.forms import File
from handraise.model.attachments import Attachment
from handraise.model.identities import Role
from handraise.questions import Limits
from handraise.server import ServerContext
from handraise.server.auth.issuer import issue_question_link, issue_reader_key
from handraise.testing import promise
from support.issuer import Issuer
from tests.server import hostile_files
from tests.server.conftest import ORIGIN, bearer
from tests.tiers import drawn

PDF = b"%PDF-1.7\n" + bytes(range(256))


@pytest.fixture
async def report(ctx: ServerContext, workspace: str) -> Attachment:
    """A file that the agent `bot` has uploaded."""
    return await ctx.desk.scoped(workspace, asker="bot").attach(PDF, name="Bericht „März“.pdf")


@pytest.fixture
async def question(ctx: ServerContext, workspace: str, report: Attachment) -> Question:
    """A question of the agent `bot` to ana, with a file."""
    desk = ctx.desk.scoped(workspace, asker="bot")
    return await desk.post("Publish?", form=Confirm(), recipients=["ana"], attachments=[report])


async def upload(client: httpx2.AsyncClient, token: str, data: bytes, **query: str) -> httpx2.Response:
    return await client.post(
        "/v1/files", params={"name": "a.bin", **query}, content=data, headers=bearer(token)
    )


@promise("P8")
async def test_only_those_who_may_see_a_question_get_its_files(
    client: httpx2.AsyncClient,
    issuer: Issuer,
    ctx: ServerContext,
    workspace: str,
    question: Question,
    report: Attachment,
) -> None:
    where = f"/v1/questions/{question.id}/files/{report.digest}"
    strangers = {
        "a colleague who is not asked": (await issuer.person(workspace, "cy", role=Role.MEMBER), 404),
        "another agent": (await issuer.agent(workspace, "other"), 404),
        "an agent with the name of a person": (await issuer.agent(workspace, "ana"), 404),
        "somebody of another workspace": (await issuer.person(f"{workspace}-2", "ana"), 404),
        "the agent of another workspace": (await issuer.agent(f"{workspace}-2", "bot"), 404),
        "a key that reads": ((await issue_reader_key(ctx, workspace, "board", by="root")).key, 403),
        "nobody": ("hrs_nothing", 401),
    }
    for name, (token, status) in strangers.items():
        said = await client.get(where, headers=bearer(token))
        assert said.status_code == status, (name, said.text)
        assert PDF not in said.content
    for token in (
        await issuer.person(workspace, "ana", role=Role.MEMBER),
        await issuer.agent(workspace, "bot"),
    ):
        said = await client.get(where, headers=bearer(token))
        assert (said.status_code, said.content) == (200, PDF)


async def test_a_file_is_served_as_a_download_that_nothing_executes(
    client: httpx2.AsyncClient, issuer: Issuer, workspace: str, question: Question, report: Attachment
) -> None:
    ana = await issuer.person(workspace, "ana", role=Role.MEMBER)
    said = await client.get(f"/v1/questions/{question.id}/files/{report.digest}", headers=bearer(ana))
    assert said.headers["content-type"] == "application/octet-stream"
    assert said.headers["x-content-type-options"] == "nosniff"
    assert said.headers["content-security-policy"].startswith("sandbox; default-src 'none'")
    assert said.headers["cross-origin-resource-policy"] == "same-origin"
    disposition = said.headers["content-disposition"]
    assert disposition.startswith('attachment; filename="Bericht__M_rz_.pdf"; filename*=UTF-8')
    assert disposition.isascii()


@promise("P8")
async def test_a_digest_is_no_key_to_a_file_of_another_question(
    client: httpx2.AsyncClient, issuer: Issuer, ctx: ServerContext, workspace: str, report: Attachment
) -> None:
    """Who knows the digest of a file, and may see another question, does not get it there, nor can they refer to it."""
    mallory = ctx.desk.scoped(workspace, asker="mallory")
    own = await mallory.post("Look?", form=File(), recipients=["cy"])
    cy = await issuer.person(workspace, "cy", role=Role.MEMBER)
    assert (
        await client.get(f"/v1/questions/{own.id}/files/{report.digest}", headers=bearer(cy))
    ).status_code == 404
    key = await issuer.agent(workspace, "mallory")
    body = {"prompt": "Look?", "attachments": [report.record()]}
    stolen = await client.post("/v1/questions", json=body, headers=bearer(key))
    assert (stolen.status_code, stolen.json()["code"]) == (422, "invalid_question")
    answered = await client.post(
        f"/v1/questions/{own.id}/answer", json={"value": report.record()}, headers=bearer(cy)
    )
    assert (answered.status_code, answered.json()["code"]) == (422, "invalid_answer")
    assert (
        await client.get(f"/v1/questions/{own.id}/files/{report.digest}", headers=bearer(key))
    ).status_code == 404


async def test_an_upload_says_what_is_stored(
    client: httpx2.AsyncClient, issuer: Issuer, workspace: str
) -> None:
    for token in (await issuer.agent(workspace, "bot"), await issuer.person(workspace, "ana")):
        said = await upload(client, token, PDF, name="März.pdf")
        assert said.status_code == 201, said.text
        assert said.json() == {
            "name": "März.pdf",
            "media_type": "application/pdf",
            "size": len(PDF),
            "digest": hashlib.sha256(PDF).hexdigest(),
        }


@pytest.mark.parametrize(
    "name",
    ["../../etc/passwd", "a/b", "a\\b", "a\0b", "a\u202efdp.exe", "..", " ", "x" * 201, "a\r\nset-cookie: x"],
)
async def test_a_name_that_could_mislead_is_refused(
    client: httpx2.AsyncClient, issuer: Issuer, workspace: str, name: str
) -> None:
    said = await upload(client, await issuer.agent(workspace, "bot"), b"x", name=name)
    assert (said.status_code, said.json()["code"]) == (422, "invalid_attachment")


async def test_nobody_uploads_without_a_key(
    client: httpx2.AsyncClient, issuer: Issuer, ctx: ServerContext, workspace: str
) -> None:
    reader = (await issue_reader_key(ctx, workspace, "board", by="root")).key
    assert (await upload(client, reader, b"x")).status_code == 403
    assert (await upload(client, "hra_nothing", b"x")).status_code == 401
    client.cookies.set("handraise", await issuer.person(workspace, "ana"))
    forged = await client.post(
        "/v1/files", params={"name": "a"}, content=b"x", headers={"sec-fetch-site": "cross-site"}
    )
    assert forged.status_code in (401, 403)


async def test_what_is_announced_as_too_large_is_not_even_read(
    client: httpx2.AsyncClient, issuer: Issuer, workspace: str
) -> None:
    read = 0

    async def body() -> AsyncIterator[bytes]:
        nonlocal read
        for _ in range(1_000):
            read += 65_536
            yield bytes(65_536)

    key = await issuer.agent(workspace, "bot")
    headers = {**bearer(key), "content-length": str(10 * 1024**3)}
    said = await client.post("/v1/files?name=a", content=body(), headers=headers)
    assert said.status_code == 413
    assert read <= 65_536


async def test_a_chunked_body_that_never_ends_is_cut_off(
    client: httpx2.AsyncClient, issuer: Issuer, workspace: str
) -> None:
    key = await issuer.agent(workspace, "bot")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    async def body() -> AsyncIterator[bytes]:
        while True:
            yield bytes(1_000_000)

    async with asyncio.timeout(30):
        said = await client.post("/v1/files?name=a", content=body(), headers=bearer(key))
    assert said.status_code == 413
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    assert grown < 100_000_000, f"{grown:,} bytes"


async def test_one_caller_cannot_fill_the_memory_or_the_store(
    client: httpx2.AsyncClient, issuer: Issuer, workspace: str
) -> None:
    """Four uploads at once, and 200 MB that no question refers to."""
    key = await issuer.agent(workspace, "bot")
    release = asyncio.Event()

    async def slow() -> AsyncIterator[bytes]:
        yield b"x"
        await release.wait()

    held = [
        asyncio.create_task(client.post("/v1/files?name=a", content=slow(), headers=bearer(key)))
        for _ in range(4)
    ]
    await asyncio.sleep(0.2)
    assert (await upload(client, key, b"x")).status_code == 429
    other = await issuer.agent(workspace, "other")
    assert (await upload(client, other, b"x")).status_code == 201
    release.set()
    assert {each.status_code for each in await asyncio.gather(*held)} == {201}


async def test_too_many_bytes_that_nothing_refers_to_are_refused(
    ctx: ServerContext, workspace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = ctx.desk.scoped(workspace, asker="bot")
    monkeypatch.setattr(desk, "_limits", Limits(unused_bytes=100))
    kept = await desk.attach(b"1" * 60, name="a")
    with pytest.raises(AttachmentTooLarge):
        await desk.attach(b"2" * 60, name="a")
    await desk.attach(b"1" * 60, name="again")
    await desk.post("Go?", attachments=[kept])
    await desk.attach(b"2" * 60, name="a")


HOSTILE = {
    "a GIF that is a script": (hostile_files.gif_script(), "image/gif"),
    "a PDF that is an archive": (hostile_files.pdf_zip(), "application/pdf"),
    "an SVG with a script": (hostile_files.SVG, "image/svg+xml"),
    "a page with a script": (hostile_files.HTML, "text/html"),
    "a PNG of 900 million pixels": (hostile_files.bomb_png(), "image/png"),
    "a PNG with more rows than it says": (hostile_files.false_head_png(), "image/png"),
    "a GIF with hundreds of frames": (hostile_files.animated_bomb(), "image/gif"),
    "a WebP that is none": (b"RIFF\0\0\0\0WEBPVP8 " + b"\xff" * 500, "image/webp"),
    "a PNG that ends in its head": (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "image/png"),
}


@pytest.mark.parametrize("name", drawn(list(HOSTILE), 5))
async def test_a_hostile_file_is_only_bytes(
    client: httpx2.AsyncClient, issuer: Issuer, ctx: ServerContext, workspace: str, name: str
) -> None:
    """It is downloaded as it is; where a browser would show it, there is an image of our own making, or nothing."""
    data, media_type = HOSTILE[name]
    desk = ctx.desk.scoped(workspace, asker="bot")
    file = await desk.attach(data, name="invoice", media_type=media_type)
    question = await desk.post("Look?", recipients=["ana"], attachments=[file])
    client.cookies.set("handraise", await issuer.person(workspace, "ana", role=Role.MEMBER))
    for where in (f"/v1/questions/{question.id}/files", f"/questions/{question.id}/files"):
        said = await client.get(f"{where}/{file.digest}")
        assert (said.status_code, said.content) == (200, data)
        assert said.headers["content-type"] == "application/octet-stream"
        assert said.headers["content-disposition"].startswith("attachment;")
        assert "sandbox" in said.headers["content-security-policy"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    image = await client.get(f"/questions/{question.id}/images/{file.digest}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    # Another child of the tests, such as a browser, may have been larger, and a child begins with the size of its parent.
    own = resource.getrusage(resource.RUSAGE_SELF)
    if after.ru_maxrss > max(before.ru_maxrss, own.ru_maxrss):
        assert after.ru_maxrss * 1024 < 500_000_000, f"{after.ru_maxrss:,} kB"
    assert after.ru_utime - before.ru_utime < 11
    if image.status_code == 200:
        assert image.headers["content-type"] in ("image/png", "image/jpeg")
        shown = Image.open(io.BytesIO(image.content))
        shown.load()
        assert max(shown.size) <= 2_000
    else:
        assert image.status_code == 404
    assert b"owned" not in image.content


async def test_an_image_is_shown_without_anything_but_its_pixels(
    client: httpx2.AsyncClient, issuer: Issuer, ctx: ServerContext, workspace: str
) -> None:
    data = hostile_files.jpeg_with_script()
    assert data.count(hostile_files.SCRIPT) == 2
    desk = ctx.desk.scoped(workspace, asker="bot")
    file = await desk.attach(data, name="a.jpg")
    question = await desk.post("Look?", recipients=["ana"], attachments=[file])
    where = f"/questions/{question.id}/images/{file.digest}"
    client.cookies.set("handraise", await issuer.person(workspace, "ana", role=Role.MEMBER))
    said = await client.get(where)
    assert (said.status_code, said.headers["content-type"]) == (200, "image/jpeg")
    assert said.headers["x-content-type-options"] == "nosniff"
    assert "sandbox" in said.headers["content-security-policy"]
    assert hostile_files.SCRIPT not in said.content
    assert Image.open(io.BytesIO(said.content)).size == (30, 20)
    page = (await client.get(f"/questions/{question.id}")).text
    assert f'src="{where}"' in page
    client.cookies.set("handraise", await issuer.person(workspace, "cy", role=Role.MEMBER))
    assert (await client.get(where)).status_code == 404


async def test_without_pillow_images_are_downloads(
    client: httpx2.AsyncClient, issuer: Issuer, ctx: ServerContext, workspace: str, app: object
) -> None:
    app.state.image_encoder.is_available = False  # type: ignore[attr-defined]  # as if it were not installed
    desk = ctx.desk.scoped(workspace, asker="bot")
    file = await desk.attach(hostile_files.jpeg_with_script(), name="a.jpg")
    question = await desk.post("Look?", recipients=["ana"], attachments=[file])
    client.cookies.set("handraise", await issuer.person(workspace, "ana", role=Role.MEMBER))
    page = (await client.get(f"/questions/{question.id}")).text
    assert "/images/" not in page
    assert f"/questions/{question.id}/files/{file.digest}" in page
    assert (await client.get(f"/questions/{question.id}/images/{file.digest}")).status_code == 404


RECEIPT = Form(
    fields=(
        Field(name="receipt", form=File(accept=("image/*", "application/pdf"), max_bytes=100_000)),
        Field(name="paid", form=Confirm()),
    )
)


async def test_a_person_answers_with_a_file_on_a_page_without_scripts(
    client: httpx2.AsyncClient, issuer: Issuer, ctx: ServerContext, workspace: str
) -> None:
    desk = ctx.desk.scoped(workspace, asker="bot")
    question = await desk.post("The receipt?", form=RECEIPT, recipients=["ana"])
    client.cookies.set("handraise", await issuer.person(workspace, "ana", role=Role.MEMBER))
    page = (await client.get(f"/questions/{question.id}")).text
    assert 'enctype="multipart/form-data"' in page
    assert 'accept="image/*,application/pdf"' in page
    files = {"v0": ("Beleg.pdf", PDF, "application/pdf")}
    missing = await client.post(f"/questions/{question.id}", files=files, headers=ORIGIN)
    assert missing.status_code == 422
    kept = re.search(r'name="v0.file" value="([^"]*)"', missing.text)
    assert kept is not None, "the file need not be chosen again"
    record = json.loads(kept[1].replace("&#34;", '"'))
    assert record["name"] == "Beleg.pdf"
    sent = {"v0.file": json.dumps(record), "v1": "yes"}
    done = await client.post(f"/questions/{question.id}", data=sent, headers=ORIGIN)
    assert done.status_code == 303, done.text
    settled = await desk.get(question.id)
    assert settled.outcome.value == {"receipt": record, "paid": True}  # type: ignore[union-attr]  # it is answered
    assert await desk.read_attachment(question.id, record["digest"]) == PDF
    shown = (await client.get(f"/questions/{question.id}")).text
    assert f"/questions/{question.id}/files/{record['digest']}" in shown


@pytest.mark.parametrize(
    ("file", "status"),
    [
        (("a.pdf", b"%PDF-" + bytes(200_000), "application/pdf"), 422),
        (("a.txt", b"hi", "text/plain"), 422),
        (("../a\u202e.pdf", PDF, "application/pdf"), 422),
        (("a.pdf", b"%PDF-" + bytes(10_000_001), "application/pdf"), 422),
        (("a.pdf", b"%PDF-" + bytes(11_000_000), "application/pdf"), 413),
    ],
    ids=["too large for the form", "another type", "a name that misleads", "too large", "far too large"],
)
async def test_a_file_that_does_not_fit_is_refused_on_the_page(
    client: httpx2.AsyncClient,
    issuer: Issuer,
    ctx: ServerContext,
    workspace: str,
    file: tuple[str, bytes, str],
    status: int,
) -> None:
    desk = ctx.desk.scoped(workspace, asker="bot")
    question = await desk.post("The receipt?", form=RECEIPT, recipients=["ana"])
    client.cookies.set("handraise", await issuer.person(workspace, "ana", role=Role.MEMBER))
    said = await client.post(
        f"/questions/{question.id}", files={"v0": file}, data={"v1": "yes"}, headers=ORIGIN
    )
    assert said.status_code == status, said.text
    assert (await desk.get(question.id)).outcome is None


async def test_a_page_takes_no_file_that_nobody_asked_for(
    client: httpx2.AsyncClient, issuer: Issuer, ctx: ServerContext, workspace: str
) -> None:
    desk = ctx.desk.scoped(workspace, asker="bot")
    question = await desk.post("Go?", form=Confirm(), recipients=["ana"])
    client.cookies.set("handraise", await issuer.person(workspace, "ana", role=Role.MEMBER))
    said = await client.post(
        f"/questions/{question.id}", files={"v": ("a", b"x", "text/plain")}, headers=ORIGIN
    )
    assert said.status_code in (400, 422)
    assert (await desk.get(question.id)).outcome is None


async def test_a_link_shows_names_and_sends_people_to_sign_in(
    client: httpx2.AsyncClient, issuer: Issuer, ctx: ServerContext, workspace: str, question: Question
) -> None:
    await issuer.person(workspace, "ana", role=Role.MEMBER)
    ana = await ctx.directory.find_person(workspace, "ana")
    assert ana is not None
    link = await issue_question_link(ctx, question, ana, channel="email", by="root", lasts=timedelta(days=1))
    assert link is not None
    page = await client.get(f"/q/{link.url.rpartition('/')[2]}")
    assert page.status_code == 200
    assert "Bericht" in page.text
    assert "/files/" not in page.text

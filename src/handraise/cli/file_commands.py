"""`handraise files` and `save`: the files of a question. What is saved is exactly what was uploaded, and untrusted."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from handraise.cli.exit_codes import CommandError
from handraise.cli.session import AsPerson, CliSession, Workspace, as_person
from handraise.cli.terminal_texts import json_line, shown
from handraise.model.attachments import Attachment
from handraise.model.forms import AnyForm, File, Form
from handraise.model.json_values import Json
from handraise.model.thread_messages import attached_to
from handraise.presentation.file_text import file_text, size_text
from handraise.presentation.translation import gettext
from handraise.wire.records import AttachmentRecord

QuestionId = Annotated[str, typer.Argument(metavar="ID", help="The question's id, as `list` shows it.")]


def files(
    question_id: QuestionId,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print each file as one line of JSON.")] = False,
    name: AsPerson = None,
    workspace: Workspace = None,
) -> None:
    """List the files of a question, of its conversation and of its answers."""
    found = as_person(lambda session: _files_of(session, question_id), name=name, workspace=workspace)
    if not found:
        typer.echo(gettext("This question has no files."))
    for file in found:
        if as_json:
            typer.echo(json_line(AttachmentRecord(**file.record())))
        else:
            typer.echo(f"{file.digest}  {shown(file_text(file))}  {shown(file.media_type)}")
    if found and not as_json:
        typer.echo(gettext("To save one: handraise save {id} DIGEST PATH").format(id=shown(question_id)))


def save(
    question_id: QuestionId,
    digest: Annotated[
        str,
        typer.Argument(metavar="DIGEST", help="The file's digest, or how it begins, as `files` shows it."),
    ],
    path: Annotated[Path, typer.Argument(metavar="PATH", help="Where to save it. Nothing is overwritten.")],
    *,
    name: AsPerson = None,
    workspace: Workspace = None,
) -> None:
    """Save a file of a question. It is untrusted: nobody has looked into it."""

    async def work(session: CliSession) -> tuple[Attachment, bytes]:
        fitting = [each for each in await _files_of(session, question_id) if each.digest.startswith(digest)]
        if len({each.digest for each in fitting}) != 1:
            raise CommandError(
                gettext("Which file? To see them: handraise files {id}").format(id=shown(question_id))
            )
        return fitting[0], await session.desk.read_attachment(question_id, fitting[0].digest)

    file, data = as_person(work, name=name, workspace=workspace)
    try:
        # Only for you, and not as a program.
        with os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as saved:
            saved.write(data)
    except OSError as error:
        text = gettext("{path} could not be written: {why}")
        raise CommandError(text.format(path=shown(str(path)), why=error.strerror)) from None
    told = gettext("Saved {name} as {path}, {size}.")
    typer.echo(told.format(name=shown(file.name), path=shown(str(path)), size=size_text(file.size)))


async def attach_paths(session: CliSession, paths: Sequence[Path]) -> list[Attachment]:
    """Upload files for the asker."""
    return [await _uploaded(session, path, by_person=False) for path in paths]


async def answer_with_files(session: CliSession, form: AnyForm, value: Json, given: Sequence[str]) -> Json:
    """The answer with its files, which are given as NAME=PATH, or as PATH if the answer is a file itself."""
    if isinstance(form, File):
        if len(given) != 1 or value is not None:
            raise CommandError(gettext("This is answered with one file: handraise answer ID --file PATH"))
        return (await _uploaded(session, Path(given[0]), by_person=True)).record()
    names = (
        {entry.name for entry in form.fields if isinstance(entry.form, File)}
        if isinstance(form, Form)
        else set()
    )
    answer = dict(value) if isinstance(value, Mapping) else {}
    for each in given:
        field, is_named, path = each.partition("=")
        if not is_named or field not in names:
            raise CommandError(
                gettext("Write --file NAME=PATH, with the name of a field that takes a file: {names}").format(
                    names=shown(", ".join(sorted(names))) or "–"
                )
            )
        answer[field] = (await _uploaded(session, Path(path), by_person=True)).record()
    return answer


async def upload_answer(session: CliSession, path: str) -> Json:
    """The description of a file that a person answers with, who typed its path."""
    return (await _uploaded(session, _typed_path(path), by_person=True)).record()


def _typed_path(text: str) -> Path:
    return Path(text.strip().removeprefix("@")).expanduser()


async def _uploaded(session: CliSession, path: Path, *, by_person: bool) -> Attachment:
    try:
        return await session.desk.attach(path, by=session.me if by_person else None)
    except OSError as error:
        text = gettext("{path} could not be read: {why}")
        raise CommandError(text.format(path=shown(str(path)), why=error.strerror)) from None


async def _files_of(session: CliSession, question_id: str) -> Sequence[Attachment]:
    question = await session.desk.get(question_id)
    return attached_to(question, await session.desk.history(question_id))

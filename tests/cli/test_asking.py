"""Commands for scripts: the answer on stdout, everything else on stderr, and a code that says how it stands."""

from __future__ import annotations

import asyncio
import json
import stat
import threading
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from handraise import Approval, Desk, Question, open_desk
from tests.cli.command import Done, Serving, handraise, serving

Run = Callable[..., Done]


@pytest.fixture
def file(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'questions.db'}"


@pytest.fixture
def server(file: str, tmp_path: Path) -> Iterator[Serving]:
    with serving(file, tmp_path) as running:
        yield running


@pytest.fixture
def run(file: str, tmp_path: Path) -> Run:
    """A command on the store, by ada."""

    def command(*line: str, **settings: str) -> Done:
        return handraise(*line, **{"url": file, "LOGNAME": "ada", "XDG_DATA_HOME": str(tmp_path), **settings})

    return command


def at_desk(url: str, work: Callable[[Desk], Awaitable[Any]], asker: str = "agent") -> Any:
    async def inside() -> Any:
        async with open_desk(url, asker=asker) as desk:
            return await work(desk)

    return asyncio.run(inside())


def only(url: str) -> Question:
    """The one pending question."""

    async def look(desk: Desk) -> Question:
        (question,) = (await desk.pending()).questions
        return question

    found: Question = at_desk(url, look)
    return found


def test_a_question_is_left_pending_and_its_answer_found_under_its_key(run: Run, file: str) -> None:
    line = ("ask", "Deploy?", "--choice", "Canary", "--choice", "Rolling", "--to", "ada", "--key", "k1")
    left = run(*line)
    question = only(file)
    assert (left.returncode, left.stdout) == (7, "")
    assert left.stderr == f"Pending: {question.id}\nTo answer: handraise answer {question.id}\n"
    assert (question.asker, question.recipients) == ("agent", ("ada",))
    assert run("answer", question.id, "rolling").stdout == "Settled: ada answered: Rolling.\n"
    assert run(*line) == Done(0, "Rolling\n", "")
    assert run("wait", question.id) == Done(0, "Rolling\n", "")


def test_a_waiting_script_goes_on_as_soon_as_somebody_answers(run: Run, file: str) -> None:
    async def answer(desk: Desk) -> None:
        while (question := await desk.find_by_key("k")) is None:
            await asyncio.sleep(0.02)
        await desk.answer(question.id, "green", by="bob")

    person = threading.Thread(target=at_desk, args=(file, answer))
    person.start()
    done = run("ask", "Which colour?", "--key", "k", "--wait")
    person.join()
    assert (done.returncode, done.stdout) == (0, "green\n")
    assert done.stderr.startswith("Waiting for an answer. To give it: handraise answer ")


@pytest.mark.parametrize(
    ("verb", "code", "says"),
    [
        ("decline", 3, "Not answered: bob would not answer (busy).\n"),
        ("expire", 4, "Not answered: expired without an answer.\n"),
        ("withdraw", 5, "Not answered: withdrawn by agent.\n"),
        ("exhaust", 6, "Not answered: too many answers did not fit, the last by bob.\n"),
        ("nothing", 7, "Pending: "),
    ],
)
def test_every_ending_has_its_code(run: Run, file: str, verb: str, code: int, says: str) -> None:
    async def settle(desk: Desk) -> str:
        soon = 0.05 if verb == "expire" else 3_600.0
        question = await desk.post("Which?", choices=["A", "B"], max_attempts=1, expires_in=soon)
        if verb == "decline":
            await desk.decline(question.id, by="bob", reason="busy")
        elif verb == "withdraw":
            await desk.withdraw(question.id)
        elif verb == "exhaust":
            with pytest.raises(ValueError, match="not fit"):
                await desk.answer(question.id, "C", by="bob")
        return question.id

    done = run("wait", at_desk(file, settle), *(["--timeout", "0.2"] if verb == "nothing" else []))
    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr.startswith(says)


APPROVAL = Approval.of("deploy", {"service": "payments"})


@pytest.mark.parametrize(
    ("options", "value", "code", "stdout"),
    [
        (["--confirm"], "yes", 0, "yes\n"),
        (["--confirm"], "no", 8, "no\n"),
        (["--form", "approval"], "approve", 0, "approve\n"),
        (["--form", "approval"], "deny: not now", 8, "deny\n"),
        (["--choice", "A", "--choice", "B", "--several"], "B, A", 0, "A\nB\n"),
        (["--form", "schema"], '{"seats": 3}', 0, '{"seats": 3}\n'),
        ([], " as it is ", 0, " as it is \n"),
    ],
)
def test_a_script_gets_bare_answers_and_no_no_is_taken_for_a_yes(
    run: Run, file: str, tmp_path: Path, options: list[str], value: str, code: int, stdout: str
) -> None:
    forms = {
        "approval": {"kind": "approval", "action": APPROVAL.action.model_dump()},
        "schema": {"type": "object", "properties": {"seats": {"type": "integer"}}, "required": ["seats"]},
    }
    if options[:1] == ["--form"]:
        form = tmp_path / "form.json"
        form.write_text(json.dumps(forms[options[1]]))
        options = ["--form", str(form)]
    assert run("ask", "Well?", *options).returncode == 7
    question = only(file)
    answered = run("answer", question.id, value)
    assert answered.returncode == 0, answered.stderr
    assert run("wait", question.id) == Done(code, stdout, "")
    record = json.loads(run("wait", question.id, "--json").stdout)
    assert (record["id"], record["status"]) == (question.id, "answered")


def test_what_does_not_fit_is_said_and_kept_as_an_attempt(run: Run, file: str) -> None:
    run("ask", "Which?", "--choice", "A", "--choice", "B")
    question = only(file)
    refused = run("answer", question.id, "C")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr.startswith("That answer does not fit. “C” is not one of the options: A, B.")
    shown = run("history", question.id).stdout
    assert "agent asked" in shown
    assert "ada gave an answer that does not fit (terminal)" in shown
    assert only(file).attempts == 1


def test_questions_are_listed_shown_declined_and_withdrawn(run: Run) -> None:
    assert run("list").stdout.startswith("Nothing is pending.")
    run("ask", "First?", "--to", "ada", "--context", '{"service": "payments"}', "--expires", "2h")
    run("ask", "Second?", "--to", "bob", "--as", "other-bot")
    listed = run("list").stdout
    assert "First?" in listed
    assert "Second?" not in listed
    assert "Second?" in run("list", "--all").stdout
    first, second = (json.loads(line) for line in run("list", "--all", "--json").stdout.splitlines())
    shown = run("show", first["id"]).stdout
    assert "│ First?" in shown
    assert "│ service  payments" in shown
    assert "To ada" in shown
    assert run("decline", second["id"]).stderr.startswith("'ada' may not do this: the question is addressed")
    assert run("decline", first["id"], "--reason", "no time").stdout == (
        "Settled: ada would not answer (no time).\n"
    )
    assert run("withdraw", second["id"]).stderr.startswith("'agent' may not do this: only whoever asked")
    assert run("withdraw", second["id"], "--as", "other-bot").stdout == "Settled: withdrawn by other-bot.\n"
    again = run("answer", first["id"], "late")
    assert (again.returncode, again.stdout) == (1, "")
    assert "is settled: declined by ada" in again.stderr


def test_what_has_ended_is_listed_newest_first_and_how(run: Run, file: str) -> None:
    assert run("list", "--settled").stdout == "Nothing has ended yet.\n"

    async def settle(desk: Desk) -> list[str]:
        questions = [
            await desk.post("First?", recipients=["ada"]),
            await desk.post("Second?", recipients=["bob"]),
            await desk.post("Third?", choices=["A", "B"]),
            await desk.post("Fourth?"),
        ]
        await desk.answer(questions[0].id, "x" * 5_000 + "\x1b[2J", by="ada")
        await desk.decline(questions[1].id, by="bob", reason="busy")
        await desk.answer(questions[2].id, "A", by="bob")
        return [question.id for question in questions]

    first, second, third, _ = at_desk(file, settle)
    mine, all_of_it = run("list", "--settled").stdout, run("list", "--settled", "--all").stdout
    assert [line for line in mine.splitlines() if line.endswith("?")] == ["Third?", "First?"]
    assert [line for line in all_of_it.splitlines() if line.endswith("?")] == ["Third?", "Second?", "First?"]
    assert "bob answered: A" in mine
    assert "bob would not answer (busy)" in " ".join(all_of_it.split())
    assert (mine.count("x") < 250, "…" in mine, "\x1b" in mine) == (True, True, False)
    told = [json.loads(line) for line in run("list", "--settled", "--all", "--json").stdout.splitlines()]
    assert [each["id"] for each in told] == [third, second, first]
    assert [each["outcome"]["status"] for each in told] == ["answered", "declined", "answered"]


def test_groups_of_the_store_count(run: Run, file: str) -> None:
    run("people", "add", "ada")
    run("groups", "set", "release", "ada")
    run("ask", "For us?", "--to", "group:release")
    assert "For us?" in run("list").stdout
    assert "For us?" not in run("list", "--as", "eve").stdout
    assert run("answer", only(file).id, "yes").returncode == 0


def test_grants_are_listed_and_revoked(run: Run, file: str) -> None:
    assert run("grants", "list").stdout.startswith("There are no grants")

    async def approve(desk: Desk) -> None:
        form = Approval.of("deploy", {"service": "payments"}, scopes=("once", "always"))
        question = await desk.post("May I?", form=form)
        await desk.answer(question.id, {"decision": "approve", "scope": "always"}, by="ada")

    at_desk(file, approve)
    heading, row = run("grants", "list").stdout.splitlines()
    assert heading.split()[:4] == ["ID", "AGENT", "TOOL", "SCOPE"]
    assert row.split()[1:5] == ["agent", "deploy", "always", "ada"]
    revoked = run("grants", "revoke", row.split()[0])
    assert "agent has to ask again before it runs deploy" in revoked.stdout
    assert run("grants", "list").stdout.startswith("There are no grants")
    assert "revoked 2" in run("grants", "list", "--all").stdout
    assert run("grants", "revoke", "nothing").stderr.startswith("There is no grant 'nothing'")


@pytest.mark.parametrize(
    ("line", "code", "says"),
    [
        (["ask", "Which?", "--choice", "A", "--choice", "a"], 1, "This question cannot be asked:"),
        (["ask", "Which?", "--choice", "A", "--confirm"], 2, "only one of them"),
        (["ask", "Which?", "--expires", "soon"], 2, "is not a span such as"),
        (["ask", "Which?", "--form", "/nowhere.json"], 78, "/nowhere.json: No such file"),
        (["show", "nothing"], 1, "There is no question 'nothing'"),
        (["answer", "nothing"], 1, "There is no question 'nothing'"),
        (["sign-in", "https://example.com/"], 1, "That is not a sign-in link"),
        (["sign-out"], 1, "Nobody is signed in"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(run: Run, line: list[str], code: int, says: str) -> None:
    done = run(*line)
    assert (done.returncode, done.stdout) == (code, "")
    assert says in done.stderr
    assert "Traceback" not in done.stderr


def test_at_a_server_an_agent_asks_by_its_key_and_a_person_answers_by_a_session(
    run: Run, server: Serving, tmp_path: Path
) -> None:
    key = json.loads(run("keys", "create", "deploy-bot", "--json").stdout)["key"]
    assert server.link is not None
    asked = run("ask", "Deploy?", "--choice", "Canary", "--choice", "Rolling", url=server.address, key=key)
    assert asked.returncode == 7
    question_id = asked.stderr.split()[1]
    assert "You are not signed in" in run("list", url=server.address).stderr
    assert (
        "an agent cannot answer" in run("answer", question_id, "Canary", url=server.address, key=key).stderr
    )
    signed = run("sign-in", server.link)
    assert signed.stdout.startswith("Signed in as admin, until ")
    kept = tmp_path / "handraise" / "sessions.json"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert "This link does not work: it was used already" in run("sign-in", server.link).stderr
    assert "deploy-bot" in run("list", url=server.address).stdout
    assert "to nobody else" in run("list", "--as", "ada", url=server.address).stderr
    answered = run("answer", question_id, "Canary", url=server.address)
    assert answered.stdout == "Settled: admin answered: Canary.\n"
    assert run("wait", question_id, url=server.address, key=key) == Done(0, "Canary\n", "")
    assert "admin answered (terminal): Canary" in run("history", question_id, url=server.address).stdout
    token = json.loads(kept.read_text())[server.address]
    assert run("sign-out", url=server.address).stdout == "Signed out.\n"
    assert run("list", url=server.address, key=token).returncode == 1
    assert "You are not signed in" in run("list", url=server.address).stderr

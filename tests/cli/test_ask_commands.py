"""Commands for scripts: the answer on stdout, everything else on stderr, and a code that says how it stands."""

from __future__ import annotations

import asyncio
import json
import stat
import threading
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from handraise import (
    Answered,
    Approval,
    Choice,
    Desk,
    Escalation,
    MultiChoice,
    Open,
    Question,
    Timeline,
    open_desk,
)
from handraise.forms import AnyForm
from support.command import Done, Serving, handraise, serving

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
        (question,) = (await desk.list_pending()).items
        return question

    found: Question = at_desk(url, look)
    return found


def test_a_question_is_left_pending_and_its_answer_found_under_its_key(run: Run, file: str) -> None:
    line = (
        "ask",
        "Deploy?",
        "--choice",
        "Canary",
        "--choice",
        "Rolling",
        "--recipient",
        "ada",
        "--key",
        "k1",
    )
    left = run(*line)
    question = only(file)
    assert (left.returncode, left.stdout) == (7, "")
    assert left.stderr == f"Pending: {question.id}\nTo answer: handraise answer {question.id}\n"
    assert (question.asker, question.recipients) == ("agent", ("ada",))
    assert run("answer", question.id, "rolling").stdout == "Settled: answered by ada: Rolling.\n"
    assert run(*line) == Done(0, "Rolling\n", "")
    assert run("wait", question.id) == Done(0, "Rolling\n", "")


def test_a_key_that_names_another_question_says_only_what_this_command_can_do(run: Run) -> None:
    run("ask", "Deploy?", "--key", "k1")
    refused = run("ask", "Deploy now?", "--key", "k1")
    assert refused.returncode == 1
    assert refused.stderr.endswith("Post the same question again, or choose another key.\n")


def test_a_recipient_whom_nobody_added_is_refused_with_the_nearest_name(run: Run) -> None:
    run("people", "add", "ada")
    run("groups", "set", "leads", "ada")
    refused = run("ask", "Deploy?", "--recipient", "group:leeds", "--escalate", "1h=adda")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "'group:leeds': there is no such group here; did you mean 'group:leads'?" in refused.stderr
    assert "timeline.escalate: 'adda': nobody here has this name; did you mean 'ada'?" in refused.stderr
    assert run("ask", "Deploy?", "--recipient", "group:leads").returncode == 7


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
        ("decline", 3, "Not answered: declined by bob (busy).\n"),
        ("expire", 4, "Not answered: expired without an answer.\n"),
        ("withdraw", 5, "Not answered: withdrawn by the agent.\n"),
        ("exhaust", 6, "Not answered: closed after too many answers that did not fit, the last by bob.\n"),
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


def test_it_reminds_escalates_takes_a_default_and_needs_several(file: str, run: Run) -> None:
    timeline = [
        "--remind",
        "10m",
        "--escalate",
        "2h=group:leads,zoe",
        "--expires-in",
        "3d",
        "--default",
        "Canary",
    ]
    run("ask", "Which?", "--choice", "Canary", "--choice", "Rolling", "--quorum", "2", *timeline)
    question = only(file)
    assert question.quorum == 2
    assert question.timeline == Timeline(
        remind=["10m"],
        escalate=[Escalation(after="2h", to=["group:leads", "zoe"])],
        expire="3d",
        default="Canary",
    )
    for wrong in (["--escalate", "2h"], ["--argument", "n=1"], ["--approval", "pay", "--argument", "n"]):
        assert run("ask", "Which?", *wrong).returncode == 2


def test_an_approval_is_used_up_by_the_command_that_prints_it(file: str, run: Run) -> None:
    line = (
        "ask",
        "Pay?",
        "--approval",
        "pay",
        "--argument",
        "amount=40",
        "--argument",
        "to=Bo",
        "--key",
        "pay",
    )
    assert run(*line).returncode == 7
    question = only(file)
    assert isinstance(question.form, Approval)
    assert question.form.action.arguments == {"amount": 40, "to": "Bo"}
    at_desk(file, lambda desk: desk.answer(question.id, "approve", by="bob"))
    first, again = run(*line), run(*line)
    assert (first.returncode, first.stdout) == (0, "approve\n")
    assert (again.returncode, again.stdout) == (1, "")
    assert "already been used" in again.stderr


def test_a_form_that_is_given_in_place_of_its_file_says_so(run: Run) -> None:
    told = run("ask", "How much?", "--form", '{"amount": "number"}')
    assert "--form takes the name of a file" in told.stderr


def test_what_ended_is_listed_by_date_and_beyond_the_first_hundred(file: str, run: Run) -> None:
    async def settle(desk: Desk) -> None:
        questions = [await desk.post(f"Number {n}?") for n in range(103)]
        for question in questions:
            await desk.answer(question.id, "a", by="ana")

    at_desk(file, settle)

    def listed(*line: str) -> list[str]:
        done = run("list", "--settled", "--all", "--json", *line)
        assert done.returncode == 0, done.stderr
        return [json.loads(each)["prompt"] for each in done.stdout.splitlines()]

    assert len(listed()) == 100
    assert len(listed("--limit", "0")) == 103
    assert listed("--limit", "2") == ["Number 102?", "Number 101?"]
    assert len(listed("--since", "1h", "--limit", "0")) == 103
    assert listed("--since", "2999-01-01") == []
    assert listed("--until", "2001-01-01T00:00Z", "--limit", "0") == []
    assert len(listed("--by", "ana", "--outcome", "answered", "--limit", "0")) == 103
    assert listed("--by", "bob") == listed("--outcome", "denied") == []
    assert "--outcome is one of" in run("list", "--settled", "--outcome", "approve").stderr
    assert "is not a date such as" in run("list", "--settled", "--since", "yesterday").stderr
    assert "is not a date such as" in run("list", "--settled", "--since", "0001-01-01T00:00+14:00").stderr
    assert "give --settled too" in run("list", "--since", "7d").stderr


def test_an_empty_list_says_if_others_have_something_to_answer(run: Run) -> None:
    assert run("list").stdout.startswith("Nothing is pending in sqlite:///")
    run("ask", "Which?", "--recipient", "bob")
    assert run("list").stdout == (
        "Nothing is pending for you. To see what others may answer: handraise list --all\n"
    )


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
    assert refused.stderr.startswith("That answer does not fit: “C” is not one of the options: A, B.")
    shown = run("history", question.id).stdout
    assert "Asked by agent" in shown
    assert "An answer by ada through the terminal did not fit" in shown
    assert only(file).attempts == 1


OWN = Choice.of("Office", "Production", allow_other=True)
SEVERAL = MultiChoice.of("Office", "Production", at_least=2, allow_other=True)
INVOICE = "4711 project tower"


def post(url: str, form: AnyForm) -> str:
    """The id of a new question."""

    async def work(desk: Desk) -> str:
        return (await desk.post("Which cost centre?", form=form)).id

    found: str = at_desk(url, work)
    return found


def value_in(url: str, question_id: str) -> Any:
    async def work(desk: Desk) -> Any:
        outcome = (await desk.get(question_id)).outcome
        assert isinstance(outcome, Answered)
        return outcome.value

    return at_desk(url, work)


def test_the_terminal_says_that_own_words_are_an_answer_and_how_to_give_them(run: Run, file: str) -> None:
    question_id = post(file, OWN)
    assert "Choose one of 2, or answer in your own words" in run("list").stdout
    how = f"In your own words: handraise answer {question_id} --other TEXT"
    assert "To answer in your own words, add: --other TEXT\n" in run("show", question_id).stdout
    refused = run("answer", question_id, INVOICE)
    assert refused.returncode == 1
    assert 'An answer in your own words must be marked as "other"' in refused.stderr
    assert refused.stderr.rstrip().endswith(how)
    assert run("answer", question_id, "--other", INVOICE).returncode == 0
    assert value_in(file, question_id) == {"other": INVOICE}


def test_own_words_are_one_of_several_answers(run: Run, file: str) -> None:
    question_id = post(file, SEVERAL)
    assert run("answer", question_id, "2", "--other", INVOICE).returncode == 0
    assert value_in(file, question_id) == ["Production", {"other": INVOICE}]


@pytest.mark.parametrize(
    ("form", "line", "says"),
    [
        (Choice.of("A", "B"), ["--other", "C"], "--other is not possible here"),
        (Open(), ["--other", "C"], "--other is not possible here"),
        (OWN, ["Office", "--other", "C"], "This question takes one answer"),
        (OWN, ["approve", "--argument", "amount=1"], "--argument changes an action that you approve"),
        (
            Approval.of("pay", {"amount": 6000, "to": "ada"}, editable=["amount"]),
            ["approve", "--argument", "to=bob"],
            "to may not be changed. You may change: amount",
        ),
        (
            Approval.of("pay", {"amount": 6000}, editable=["amount"]),
            ["deny", "--argument", "amount=1"],
            "--argument changes an action that you approve",
        ),
        (
            Approval.of("pay", {"amount": 6000}, editable=["amount"]),
            ['{"decision": "approve", "arguments": {"amount": 1}}', "--argument", "amount=1"],
            "not both",
        ),
    ],
)
def test_what_an_option_does_not_fit_is_said_and_is_no_attempt(
    run: Run, file: str, form: AnyForm, line: list[str], says: str
) -> None:
    question_id = post(file, form)
    refused = run("answer", question_id, *line)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert says in refused.stderr
    assert only(file).attempts == 0


def test_an_argument_is_changed_while_approving(run: Run, file: str) -> None:
    form = Approval.of(
        "pay", {"amount": 6000, "invoice": "4711", "urgent": False}, editable=["amount", "invoice", "urgent"]
    )
    question_id = post(file, form)
    how = "To approve with a changed argument, add: approve --argument NAME=VALUE\n"
    assert how in run("show", question_id).stdout
    changes = ["--argument", "amount=5500", "--argument", "invoice=4712", "--argument", "urgent=yes"]
    done = run("answer", question_id, "approve", *changes)
    assert done.returncode == 0, done.stderr
    given = {"amount": 5500, "invoice": "4712", "urgent": True}
    assert value_in(file, question_id)["arguments"] == given


def test_questions_are_listed_shown_declined_and_withdrawn(run: Run) -> None:
    assert run("list").stdout.startswith("Nothing is pending in ")
    run("ask", "First?", "--recipient", "ada", "--context", '{"service": "payments"}', "--expires-in", "2h")
    run("ask", "Second?", "--recipient", "bob", "--as", "other-bot")
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
        "Settled: declined by ada (no time).\n"
    )
    assert run("withdraw", second["id"]).stderr.startswith(
        f"There is no question {second['id']!r} that 'agent' asked"
    )
    assert run("withdraw", second["id"], "--as", "other-bot").stdout == "Settled: withdrawn by the agent.\n"
    for _ in range(3):
        run("ask", "Third?", "--as", "runaway")
    assert "Say which" in run("withdraw").stderr
    third = json.loads(run("list", "--json").stdout.splitlines()[0])
    assert "runaway asked that" in run("withdraw", third["id"], "--asker", "other-bot").stderr
    assert run("withdraw", third["id"], "--asker", "runaway", "--reason", "a loop").stdout == (
        "Settled: withdrawn by ada (a loop).\n"
    )
    assert run("withdraw", "--asker", "runaway").stdout == "Withdrawn: 2 questions of runaway.\n"
    again = run("answer", first["id"], "late")
    assert (again.returncode, again.stdout) == (1, "")
    assert "is settled: declined by ada" in again.stderr


def test_what_has_ended_is_listed_newest_first_and_how(run: Run, file: str) -> None:
    assert run("list", "--settled", "--all").stdout == "Nothing has ended yet.\n"
    assert run("list", "--settled").stdout == (
        "Nothing of yours has ended yet. To see what others had: handraise list --settled --all\n"
    )

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
    assert "answered by bob: A" in mine
    assert "declined by bob (busy)" in " ".join(all_of_it.split())
    assert (mine.count("x") < 250, "…" in mine, "\x1b" in mine) == (True, True, False)
    told = [json.loads(line) for line in run("list", "--settled", "--all", "--json").stdout.splitlines()]
    assert [each["id"] for each in told] == [third, second, first]
    assert [each["outcome"]["status"] for each in told] == ["answered", "declined", "answered"]


def test_groups_of_the_store_count(run: Run, file: str) -> None:
    run("people", "add", "ada")
    run("groups", "set", "release", "ada")
    run("ask", "For us?", "--recipient", "group:release")
    assert "For us?" in run("list").stdout
    assert "For us?" not in run("list", "--as", "eve").stdout
    assert run("answer", only(file).id, "yes").returncode == 0


def test_show_has_what_everybody_voted_and_whether_they_can_still_agree(run: Run, file: str) -> None:
    refund = Approval.of("refund", {"order": "A-7", "amount": 500}, editable=["amount"])

    async def vote(desk: Desk) -> str:
        question = await desk.post("Refund?", form=refund, quorum=2, recipients=["ann", "bob", "cid"])
        for name, amount in (("ann", 400), ("bob", 420)):
            await desk.answer(question.id, {"decision": "approve", "arguments": {"amount": amount}}, by=name)
        await desk.decline(question.id, by="cid")
        return question.id

    shown = run("show", at_desk(file, vote), name="ann").stdout
    for text in ("ann voted: Approved with changed arguments", "+ 400", "+ 420", "cid declined"):
        assert text in shown
    assert "These votes cannot lead to an agreement." in shown


def test_an_approval_is_taken_back_until_it_is_used(run: Run, file: str) -> None:
    async def approve(desk: Desk) -> str:
        question = await desk.post("May I?", form=Approval.of("deploy", {"service": "payments"}))
        await desk.answer(question.id, "approve", by="ada")
        return question.id

    question_id = at_desk(file, approve)
    refused = run("take-back", question_id, "--as", "bob")
    assert (refused.returncode, "only people who approved" in refused.stderr) == (1, True)
    taken = run("take-back", question_id, "--reason", "the wrong release")
    assert taken.stdout == "Taken back: agent cannot execute the action.\n"
    assert "The approval was taken back by ada: the wrong release" in run("history", question_id).stdout


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


def test_an_answer_is_kept_listed_and_revoked(run: Run, file: str) -> None:
    async def ask(desk: Desk) -> Question:
        return await desk.post("Which rate?", choices=["7", "19"], recipients=["ada"], topic="rate")

    until = (datetime.now(UTC) + timedelta(days=30)).date().isoformat()
    assert run("standing-answers", "list").stdout.startswith("No answer is kept")
    question = at_desk(file, ask).id
    keep = ("standing-answers", "keep", question, "--spot-check", "0", "--until")
    assert "only an answer that a person gave can be kept" in run(*keep, until).stderr
    run("answer", question, "19")
    assert "at most 366 days" in run(*keep, "2099-12-31").stderr
    assert run(*keep, until).stdout.startswith(
        f"Until {until} 00:00, questions about rate get the answer 19."
    )
    heading, row = run("standing-answers", "list").stdout.splitlines()
    assert heading.split() == ["ID", "TOPIC", "ANSWER", "GIVEN", "BY", "UNTIL"]
    assert row.split()[1:5] == ["rate", "19", "ada", until]
    assert str(at_desk(file, ask).outcome) == "answered '19' by a standing answer of ada"
    revoked = run("standing-answers", "revoke", row.split()[0])
    assert "People are asked again about rate: the answer of ada is revoked" in revoked.stdout
    assert run("standing-answers", "list").stdout.startswith("No answer is kept")
    assert "revoked 2" in run("standing-answers", "list", "--all").stdout
    assert "There is no standing answer 'none'" in run("standing-answers", "revoke", "none").stderr


@pytest.mark.parametrize(
    ("line", "code", "says"),
    [
        (["ask", "Which?", "--choice", "A", "--choice", "a"], 1, "This question cannot be asked:"),
        (["ask", "Which?", "--choice", "A", "--confirm"], 2, "only one of them"),
        (["ask", "Which?", "--expires-in", "soon"], 2, "is not a span such as"),
        (["ask", "Which?", "--form", "/nowhere.json"], 78, "/nowhere.json: No such file"),
        (["show", "nothing"], 1, "There is no question 'nothing'"),
        (["answer", "nothing"], 1, "There is no question 'nothing'"),
        (["sign-in", "https://example.com/"], 1, "That is not a sign-in link"),
        (["sign-out"], 1, "You are not signed in"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(run: Run, line: list[str], code: int, says: str) -> None:
    done = run(*line)
    assert (done.returncode, done.stdout) == (code, "")
    assert says in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.only_proof_of("the terminal asks and answers at a server")
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
    assert "This link does not work: it was already used" in run("sign-in", server.link).stderr
    assert "deploy-bot" in run("list", url=server.address).stdout
    assert "belongs to 'admin'" in run("list", "--as", "ada", url=server.address).stderr
    answered = run("answer", question_id, "Canary", url=server.address)
    assert answered.stdout == "Settled: answered by admin: Canary.\n"
    assert run("wait", question_id, url=server.address, key=key) == Done(0, "Canary\n", "")
    assert (
        "Answered by admin through the terminal: Canary"
        in run("history", question_id, url=server.address).stdout
    )
    reading = json.loads(run("keys", "create", "dashboard", "--read-only", "--json").stdout)["key"]
    listed = run("list", "--settled", "--json", url=server.address, key=reading)
    assert [json.loads(line)["id"] for line in listed.stdout.splitlines()] == [question_id]
    for refused in (("ask", "Deploy?"), ("answer", question_id, "Canary"), ("list",)):
        assert run(*refused, url=server.address, key=reading).returncode == 1
    token = json.loads(kept.read_text())[server.address]
    assert run("sign-out", url=server.address).stdout == "Signed out.\n"
    assert run("list", url=server.address, key=token).returncode == 1
    assert "You are not signed in" in run("list", url=server.address).stderr

"""`handraise demo`: a server, an office with agents, and a person for a few minutes; nothing is left behind."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from handraise.cli.demo_office import BILLING, DATA, SUPPORT, Waiting, fill_office
from handraise.cli.demo_programs import choosing_programs, offer_programs
from handraise.cli.environment import settings_with
from handraise.cli.question_view import say
from handraise.cli.terminal_texts import outcome_words, shown
from handraise.desk_factory import open_desk
from handraise.model.drafting import QuestionOptions
from handraise.model.errors import NotApproved
from handraise.model.forms import Approval, Choice, Confirm, Field, Form, Open, Option
from handraise.model.json_values import Json
from handraise.model.outcomes import Answered
from handraise.model.questions import Question
from handraise.ports.desk import Desk
from handraise.server import ServerSettings, process
from handraise.server.auth.issuer import issue_key
from handraise.server.context import open_context
from handraise.server.observability.logs import configure_logs

AGENT = "release-agent"
YOURS = "your-agent"
_PERSON = "you"


def demo(
    *,
    host: Annotated[
        str, typer.Option(metavar="HOST", help="The address to listen on; 0.0.0.0 in a container.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(metavar="PORT", min=0, max=65_535, help="The port; 0 for a free one.")
    ] = 0,
) -> None:
    """See how it works in a minute: agents ask, you answer, they continue.

    Starts a server with a temporary store, colleagues and a week of past questions, and prints a link to sign in. Ctrl+C stops
    it.
    """
    with _settings(host, port) as settings:
        configure_logs(settings)
        asyncio.run(_play(settings))
    typer.echo("\nStopped, and the demo's store is gone. To run your own: handraise serve")


@contextmanager
def _settings(host: str, port: int) -> Iterator[ServerSettings]:
    """Settings that the environment does not change."""
    with TemporaryDirectory(prefix="handraise-demo-") as folder:
        settings = settings_with(
            url=f"sqlite:///{Path(folder) / 'demo.db'}",
            host=host,
            port=port,
            workspace="default",
            admin=_PERSON,
            log_level="error",
        )
        yield settings.model_copy(update={"public_url": None, "oidc_issuer": None, "otel": False})


async def _play(settings: ServerSettings) -> None:
    waiting = await fill_office(settings, person=_PERSON)
    names = (AGENT, BILLING, SUPPORT, DATA, YOURS)
    async with open_context(settings) as ctx:
        keys = {each: (await issue_key(ctx, settings.workspace, agent=each, by="demo")).key for each in names}
    async with asyncio.TaskGroup() as tasks:
        agents: list[asyncio.Task[None]] = []

        def listening(told: process.RunningServer) -> None:
            _welcome(told)
            address = told.settings.base_url
            agents.append(tasks.create_task(_agent(address, keys[AGENT], keys[YOURS])))
            for question, result, reply in _actions(waiting):
                work = _act(address, keys[question.asker], question, result, reply)
                agents.append(tasks.create_task(work))

        with choosing_programs():
            await process.serve(settings, listening, show_link=True)
        for agent in agents:
            agent.cancel()


def _welcome(told: process.RunningServer) -> None:
    say("\nHandraise: agents ask, you answer, they continue.\n", bold=True)
    if told.link is not None:
        typer.echo("Open this link in the browser. It works once:\n")
        say(f"{told.link.url}\n", fg=typer.colors.CYAN, bold=True)
    typer.echo("Or answer in another terminal:\n")
    say(f"HANDRAISE_URL={told.settings.url} handraise inbox --as {_PERSON}\n", fg=typer.colors.CYAN)
    typer.echo("Stop with Ctrl+C.\n")


def _actions(waiting: Waiting) -> tuple[tuple[Question, str, str], ...]:
    """What else agents do when they are allowed to: the question, what they report then, and what they reply."""
    return (
        (
            waiting.invoice,
            "Paid. The bank will book it tomorrow.",
            "The bank account has not changed since 2024.",
        ),
        (waiting.refund, "The refund is on its way.", "The customer has sent a photo: it is broken."),
        (waiting.change, "48,210 rows in 12 s.", "I have run it on last week's copy. Nothing else changed."),
    )


async def _act(address: str, key: str, question: Question, result: str, reply: str) -> None:
    """Wait for the decision about one action, reply if somebody asks back, and report what came of it."""
    async with open_desk(address, credentials=key) as desk:
        await desk.wait(question.id, reply_with=lambda _: reply)
        try:
            action = await desk.consume_approval(question.id)
        except NotApproved as error:
            _print_status(f"Not done: {error}", question.asker)
            return
        await desk.report(question.id, ok=True, text=result)
        _print_status(f"{action.tool}: {result}", question.asker)


async def _agent(address: str, key: str, key_of_yours: str) -> None:
    """The script: three questions of three kinds, each built on the answer before."""
    async with open_desk(address, credentials=key) as desk:
        _print_status("I have built release 4.2 and may deploy it now.")
        how = await _ask(
            desk,
            "Which strategy should I use to deploy release 4.2?",
            form=_STRATEGY,
            context={"service": "payments", "replicas": 12, "changes": _CHANGES, "error budget left": "71 %"},
        )
        await _ask(
            desk,
            "Before I begin: who is on call, and what should the release notes say?",
            form=_DETAILS,
            context={"strategy": how},
        )
        approval = Approval.of(
            "deploy",
            {"service": "payments", "release": "4.2", "strategy": how, "percent": 10, "notify": True},
            editable=["percent", "notify"],
        )
        question = await _settled(
            desk, "Everything is ready. May I start?", {"form": approval, "context": {"dry run": "passed"}}
        )
        try:
            action = await desk.consume_approval(question.id)
        except NotApproved:
            _print_status("Not approved: I deploy nothing.")
        else:
            arguments = ", ".join(f"{name}={value!r}" for name, value in action.arguments.items())
            _print_status(f"Done, exactly as you approved it: {action.tool}({arguments})")
    say(
        "\nThat was it. Each question was kept in a store, so the agent could have been restarted, or have\n"
        "waited for two weeks. Have a look around.",
        bold=True,
    )
    offer_programs(address, key_of_yours)


async def _ask(desk: Desk, prompt: str, *, form: Choice | Form, context: Json) -> Json:
    """The answer's text, or what the agent assumes if nobody answers."""
    outcome = (await _settled(desk, prompt, {"form": form, "context": context})).outcome
    if not isinstance(outcome, Answered):
        return "canary"
    return outcome.value.get("other", "as agreed") if isinstance(outcome.value, dict) else outcome.value


async def _settled(desk: Desk, prompt: str, options: QuestionOptions) -> Question:
    question = await desk.post(prompt, **options)
    typer.echo(f"  {AGENT} asks: {prompt}")
    await desk.wait(question.id)
    question = await desk.get(question.id)
    say(f"  → {outcome_words(question)}", fg=typer.colors.GREEN)
    return question


def _print_status(text: str, agent: str = AGENT) -> None:
    typer.echo(f"  {agent}: {shown(text)}")


_CHANGES = [
    "Faster checkout",
    "Refunds in several currencies",
    "One migration, 40 s on the copy of production",
]
_STRATEGY = Choice(
    options=(
        Option(id="canary", label="Canary", description="One server in ten first, the others an hour later"),
        Option(id="rolling", label="Rolling", description="One server after the other, at once"),
        Option(id="blue-green", label="Blue-green", description="A second set of servers, then a switch"),
    ),
    allow_other=True,
)
_DETAILS = Form(
    fields=(
        Field(
            name="on_call", title="Who is on call?", form=Open(), description="I page them if errors rise."
        ),
        Field(
            name="minutes",
            title="Minutes to watch it",
            form=Open(type="integer", minimum=5, maximum=240),
            default=30,
        ),
        Field(name="notes", title="Release notes", form=Open(max_length=500), required=False),
        Field(name="announce", title="Announce it to customers?", form=Confirm()),
    )
)

"""What pages say is what the code says."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute

import handraise
from handraise import Desk, HandraiseError, Question, Status, open_desk
from handraise.blocking import BlockingDesk
from handraise.conversations import Agent
from handraise.desks import LocalDesk
from handraise.events import EventKind
from handraise.questions import Limits, QuestionOptions
from handraise.server import app
from handraise.server.api import health_routes
from handraise.server.auth import authenticator
from handraise.testing import PROMISES
from handraise.wire.problem_documents import STATUSES
from support.doc_pages import DOCS, blocks_of, prose_of, rows_of

API = [DOCS / "reference" / name for name in ("python-api.md", "desk-methods.md", "python-api-extend.md")]


def api_text() -> str:
    """The pages of the Python API, as one text."""
    return "\n".join(page.read_text(encoding="utf-8") for page in API)


PUBLIC_MODULES = [
    "handraise.blocking",
    "handraise.channels",
    "handraise.client",
    "handraise.conversations",
    "handraise.desks",
    "handraise.errors",
    "handraise.events",
    "handraise.forms",
    "handraise.gate",
    "handraise.outcomes",
    "handraise.questions",
    "handraise.ports",
    "handraise.server",
    "handraise.testing",
    "handraise.testing.contract",
    "handraise.tools",
]
AGAIN = {f"handraise.{name}" for name in ("desks", "errors", "events", "forms", "outcomes", "questions")}
"""These repeat names of `handraise` itself, which the page has without a module."""


def test_the_api_page_lists_every_public_name_and_no_other() -> None:
    listed = [cells[0].strip("`") for page in API for cells in rows_of(page) if cells[0].startswith("`")]
    names = [name for name in listed if re.fullmatch(r"\w+", name)]
    assert sorted(name for name in names if name in handraise.__all__) == sorted(handraise.__all__)
    options = {*inspect.signature(open_desk).parameters, *handraise.desks.DeskOptions.__annotations__} - {
        "options"
    }
    options |= {*QuestionOptions.__annotations__, *Limits.__dataclass_fields__}
    attributes = {name for name in (*dir(Question), *Question.__dataclass_fields__) if name[0] != "_"}
    assert set(names) - set(handraise.__all__) == options | attributes
    for name in listed:
        if "." in name:
            module, _, attribute = name.rpartition(".")
            assert hasattr(importlib.import_module(module), attribute), f"there is no {name}"


@pytest.mark.parametrize("module", PUBLIC_MODULES)
def test_the_api_page_lists_every_name_of_the_smaller_modules(module: str) -> None:
    text = api_text()
    names = set(importlib.import_module(module).__all__) - set(handraise.__all__ if module in AGAIN else ())
    assert [name for name in sorted(names) if f"`{module}.{name}`" not in text] == []


def test_the_api_page_has_every_verb_of_a_desk_with_its_signature() -> None:
    text = " ".join(api_text().split())
    verbs = {name for name, _ in inspect.getmembers(Desk, inspect.isfunction) if name[0] != "_"}
    missing = [line for name in sorted(verbs) if (line := signature(Desk, name)) not in text]
    assert not missing, "\n".join(missing)
    blocking = {name for name, _ in inspect.getmembers(BlockingDesk, inspect.isfunction) if name[0] != "_"}
    assert blocking == verbs


def test_the_api_page_has_what_only_a_local_desk_has() -> None:
    text = " ".join(api_text().split())
    verbs = {name for name, _ in inspect.getmembers(LocalDesk, inspect.isfunction) if name[0] != "_"}
    own = [name for name in sorted(verbs) if name in {"scoped", *verbs - set(dir(Desk))}]
    missing = [line for name in own if (line := signature(LocalDesk, name)) not in text]
    assert not missing, "\n".join(missing)


def test_the_api_page_has_every_verb_of_an_agent_with_its_signature() -> None:
    text = " ".join(api_text().split())
    verbs = {name for name, _ in inspect.getmembers(Agent, inspect.isfunction) if name[0] != "_"}
    missing = [line for name in sorted(verbs - {"handle"}) if (line := signature(Agent, name)) not in text]
    assert not missing, "\n".join(missing)


def signature(owner: type, verb: str) -> str:
    """A verb as its source has it, without `self`."""
    real = str(inspect.signature(getattr(owner, verb))).replace("'", "")
    return f"{verb}{real}".replace("(self, ", "(").replace("(self)", "()")


INSIDE = {"ConflictingQuestion", "ProblemsError"}
"""Errors that nobody gets: a `RemoteDesk` makes a `KeyConflict` of the first; only kinds of the second are raised."""


def errors() -> list[type[HandraiseError]]:
    for module in PUBLIC_MODULES:
        importlib.import_module(module)
    found, unseen = [HandraiseError], [HandraiseError]
    while unseen:
        below = unseen.pop().__subclasses__()
        unseen += below
        found += [each for each in below if each.__name__[0] != "_" and each.__name__ not in INSIDE]
    return found


def test_the_errors_page_has_every_error_with_its_code_and_status_and_no_other() -> None:
    page = DOCS / "reference" / "errors.md"
    listed = {tuple(cell.strip("`") for cell in cells[:3]) for cells in rows_of(page) if "`" in cells[0]}
    assert listed == {(error.__name__, error.code, str(STATUSES.get(error, ""))) for error in errors()}
    tree = next(block.text for block in blocks_of(page) if block.language == "text")
    assert [error.__name__ for error in errors() if not re.search(rf"\b{error.__name__}\b", tree)] == []


WHO = {
    authenticator.admin_of: "administrator",
    authenticator.stopper_of: "administrator",
    authenticator.configurer_of: "administrator, admin token",
    authenticator.any_caller_of: "agent, person, reader, admin token",
    authenticator.person_of: "person",
    authenticator.agent_of: "agent",
    authenticator.caller_of: "agent, person",
    authenticator.caller_or_reader_of: "agent, person, reader",
    authenticator.auditor_of: "administrator, reader",
}


def test_the_http_page_has_every_operation_and_who_may_call_it() -> None:
    page = DOCS / "reference" / "http-api.md"
    table = [
        f"| {method.upper()} | `{path}` | {who(method.upper(), path)} | {first_sentence(operation['description'])} |"
        for path, methods in app.document()["paths"].items()
        for method, operation in methods.items()
    ]
    lines = prose_of(page).splitlines()
    shown = [line for line in lines if re.match(r"\| [A-Z]+ \|", line)]
    assert shown == table, "\n".join(["The table should be:", *table])


def first_sentence(text: str) -> str:
    return re.split(r"(?<=\.)\s", text)[0]


def who(method: str, path: str) -> str:
    """Whom an operation asks for, by what its route depends on."""
    routes = (route for router in (*app.API, *app.OPEN_API, health_routes.router) for route in router.routes)
    for route in routes:
        if isinstance(route, APIRoute) and route.path == path and method in (route.methods or ()):
            asked = [WHO[call] for call in needed(route.dependant) if call in WHO]
            return asked[0] if asked else "anybody"
    raise AssertionError(f"no route is {method} {path}")


def needed(dependant: Dependant) -> Iterator[Callable[..., Any] | None]:
    for each in dependant.dependencies:
        yield each.call
        yield from needed(each)


def test_the_events_page_has_every_kind_and_no_other() -> None:
    page = DOCS / "reference" / "events.md"
    listed = {cells[0].strip("`") for cells in rows_of(page) if cells[0].startswith("`")}
    fields = {*handraise.Event.__dataclass_fields__}
    assert listed == {kind.value for kind in EventKind} | fields


def test_the_promises_are_those_that_the_tests_keep() -> None:
    rows = [
        cells[:2]
        for cells in rows_of(DOCS / "explanation" / "promises.md")
        if re.fullmatch(r"P\d+", cells[0])
    ]
    assert [*map(tuple, rows)] == [*PROMISES.items()]


def test_the_glossary_and_the_five_endings_agree() -> None:
    text = (DOCS / "reference" / "glossary.md").read_text(encoding="utf-8")
    assert [status for status in Status if f"`{status}`" not in text] == []

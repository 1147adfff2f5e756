"""What has a name in the code is explained on a page, in the words of its docstring."""

from __future__ import annotations

import ast
import inspect
import re
import tomllib
from collections.abc import Collection, Iterator
from functools import cache
from pathlib import Path
from typing import get_args

import pytest

from handraise import Desk, Status
from handraise.forms import AnyForm, Risk, Scope
from handraise.model.deliveries import DeliveryStatus
from handraise.model.evidence import _STRONG, _WHY_WEAK, VOUCHED
from handraise.model.identities import Role
from handraise.tools import ResultStatus
from support.doc_pages import DOCS, ROOT, prose_of, rows_of
from support.source_trees import tree_of
from tests.docs.test_pages_and_code import API, PUBLIC_MODULES, api_text

SOURCE = ROOT / "src"
INTEGRATIONS = SOURCE / "handraise" / "integrations"
PAGES = {
    "claude_agent": "integrations/claude.md",
    "langchain": "integrations/langgraph.md",
    "notebook": "how-to/use-in-a-notebook.md",
}
"""Integrations whose page has another name than their module."""


@cache
def module_tree(module: str) -> ast.Module:
    file = SOURCE / Path(*module.split("."))
    return tree_of(file / "__init__.py" if file.is_dir() else file.with_suffix(".py"))


def statements(body: list[ast.stmt]) -> Iterator[tuple[ast.stmt, ast.stmt | None]]:
    """The statements of a module, each with the one behind it; what is tried is done, as is what type checkers see."""
    for statement, following in zip(body, [*body[1:], None], strict=True):
        if isinstance(statement, ast.Try) or (
            isinstance(statement, ast.If) and ast.unparse(statement.test) == "TYPE_CHECKING"
        ):
            yield from statements(statement.body)
        else:
            yield statement, following


def docstring(module: str, name: str) -> str | None:
    """What a name's own docstring says, wherever it is defined; no framework needs to be there for it."""
    found = None
    for statement, following in statements(module_tree(module).body):
        match statement:
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef() if statement.name == name:
                found = ast.get_docstring(statement) or found
            case ast.ImportFrom(module=str(origin)) if name in {each.name for each in statement.names}:
                found = docstring(origin, name)
            case (
                ast.Assign(targets=[ast.Name(id=assigned)]) | ast.AnnAssign(target=ast.Name(id=assigned))
            ) if assigned == name:
                match following:
                    case ast.Expr(value=ast.Constant(value=str(text))):
                        found = text
    return found


def sentence(text: str) -> str:
    """The first sentence of a docstring."""
    return re.split(r"(?<=\.)\s", " ".join(text.split("\n\n", maxsplit=1)[0].split()))[0]


def public(module: str) -> list[str]:
    """The names in a module's `__all__`."""
    for statement, _ in statements(module_tree(module).body):
        match statement:
            case ast.Assign(targets=[ast.Name(id="__all__")], value=value):
                return list(ast.literal_eval(value))
    return []


def integrations() -> list[str]:
    """The modules of integrations that say what is public in them."""
    files = [*INTEGRATIONS.glob("[!_]*.py"), *INTEGRATIONS.glob("*/__init__.py")]
    names = sorted(file.parent.name if file.stem == "__init__" else file.stem for file in files)
    return [name for name in names if public(f"handraise.integrations.{name}")]


@pytest.mark.parametrize(
    "module", ["handraise", *PUBLIC_MODULES, *(f"handraise.integrations.{name}" for name in integrations())]
)
def test_every_public_name_has_a_docstring(module: str) -> None:
    assert [name for name in public(module) if not docstring(module, name)] == []


def test_the_api_page_says_of_every_name_what_its_docstring_says() -> None:
    wrong = []
    for cells in (row for page in API for row in rows_of(page)):
        module, _, name = f"handraise.{cells[0].strip('`')}".replace(
            "handraise.handraise.", "handraise."
        ).rpartition(".")
        if cells[0].startswith("`handraise.") or (module == "handraise" and name in public("handraise")):
            told = sentence(docstring(module, name) or "")
            wrong += [] if told and cells[1].startswith(told) else [f"{cells[0]} should begin with: {told}"]
    assert not wrong, "\n".join(wrong)


def test_the_api_page_says_of_every_verb_what_its_docstring_says() -> None:
    text = " ".join(api_text().split())
    for verb, function in inspect.getmembers(Desk, inspect.isfunction):
        if verb[0] != "_":
            told = sentence(inspect.getdoc(function) or "")
            assert re.search(rf"```text {verb}\([^`]*``` {re.escape(told)}", text), f"{verb}: {told}"


@pytest.mark.parametrize("name", integrations())
def test_the_page_of_an_integration_has_every_public_name(name: str) -> None:
    page = DOCS / PAGES.get(name, f"integrations/{name.replace('_', '-')}.md")
    text = page.read_text(encoding="utf-8")
    names = public(f"handraise.integrations.{name}")
    assert [each for each in names if not re.search(rf"\b{each}\b", text)] == []


def test_every_code_of_an_error_is_on_a_page() -> None:
    pages = [DOCS / "reference" / "errors.md", *(DOCS / "integrations").glob("*.md")]
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    codes = [code for file in sources() for code in re.findall(r'^    code = "(\w+)"', file, re.MULTILINE)]
    assert len(codes) > 30
    assert [code for code in codes if f"`{code}`" not in text and code != "conflicting_question"] == []


def sources() -> list[str]:
    return [file.read_text(encoding="utf-8") for file in SOURCE.rglob("*.py")]


def test_every_variable_of_the_environment_is_on_a_page() -> None:
    pages = "\n".join(page.read_text(encoding="utf-8") for page in DOCS.rglob("*.md"))
    names = {name for file in sources() for name in re.findall(r"\bHANDRAISE_[A-Z_]*[A-Z]\b", file)}
    assert len(names) > 3
    assert sorted(name for name in names if name not in pages) == []


def test_every_extra_is_on_a_page() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    pages = "\n".join(page.read_text(encoding="utf-8") for page in (ROOT / "README.md", *DOCS.rglob("*.md")))
    named = {
        each.strip() for extras in re.findall(r"handraise\[([\w, -]+)\]", pages) for each in extras.split(",")
    }
    assert sorted(set(project["optional-dependencies"]) - named) == []


def test_the_page_of_identities_has_every_evidence() -> None:
    listed = {cells[0].strip("`") for cells in rows_of(DOCS / "explanation" / "identities.md")}
    assert {*_WHY_WEAK, *_STRONG, f"{VOUCHED}NAME"} <= listed


SETS: dict[str, Collection[str]] = {
    "reference/forms.md": [each.model_fields["kind"].default for each in get_args(get_args(AnyForm)[0])],
    "reference/tool-calls.md": get_args(ResultStatus),
    "reference/python-api.md": [*get_args(Scope), *get_args(Risk), *Status],
    "reference/addresses.md": [
        "memory:",
        "sqlite:///",
        "postgresql://",
        "https://",
        "nats://",
    ],
    "how-to/reach-people.md": list(DeliveryStatus),
    "reference/glossary.md": list(Role),
}
"""Fixed sets of the code, and the page that has all of each."""


@pytest.mark.parametrize("page", SETS)
def test_a_page_has_the_whole_of_a_set(page: str) -> None:
    text = (DOCS / page).read_text(encoding="utf-8")
    assert [
        word
        for word in SETS[page]
        if not re.search(rf"(?<!\w){re.escape(word)}" + r"(?![\w-])" * word[-1].isalnum(), text)
    ] == []


DECISIONS = sorted((DOCS / "decisions").glob("*.md"))


@pytest.mark.parametrize("page", DECISIONS, ids=lambda page: page.stem)
def test_a_decision_says_what_was_chosen_what_it_costs_and_what_would_change_it(page: Path) -> None:
    text = prose_of(page)
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == [
        "Context",
        "Choice",
        "What it costs",
        "What would change our mind",
    ]
    number = DECISIONS.index(page) + 1
    assert page.name.startswith(f"{number:04}-")
    assert text.startswith(f"# {number}. ")
    assert 25 <= len(text.splitlines()) <= 50


def test_every_wall_of_the_security_model_has_a_test() -> None:
    rows = [cells for cells in rows_of(DOCS / "explanation" / "security-model.md") if len(cells) == 3]
    at = next(place for place, cells in enumerate(rows) if cells == ["wall", "what it stops", "test"])
    walls = rows[at + 1 :]
    assert len(walls) > 20
    assert [
        cells[0] for cells in walls if not re.search(r"`(tests|src)/[\w/]+\.py::test_\w+`", cells[2])
    ] == []

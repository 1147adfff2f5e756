"""Every Python block of the documentation runs, and prints what the page shows."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import io
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.doc_pages import FOREIGN, PAGES, ROOT, Block, blocks_of, matches, name_of

ADDRESS = "postgresql://localhost/mydb"

CELL = "is a cell of a notebook; tests/integrations/test_notebook.py runs it"

# A block marked `python no-run` is not run where it stands. Each needs its reason here.
NOT_RUN = {
    ("README.md", "# deploy.py"): "waits for a person; test_consoles.py runs it",
    ("docs/tutorial/first-question.md", "# agent.py"): "waits for a person; test_consoles.py runs it",
    ("docs/how-to/test-your-agent.md", "# tests/test_my_store.py"): "stands for a backend that is not ours",
    ("docs/tutorial/answer-as-a-person.md", "# release.py"): "waits for a person; test_consoles.py runs it",
    ("docs/tutorial/approve-an-action.md", "# refund.py"): "waits for a person; test_consoles.py runs it",
    ("docs/tutorial/production.md", "# pager.py"): "serves for ever; test_consoles.py runs it",
    ("docs/tutorial/production.md", "# rollout.py"): "needs a server; test_consoles.py runs it",
    ("docs/how-to/be-called-back.md", "# handler.py"): "serves for ever; test_consoles.py runs it",
    ("docs/how-to/be-called-back.md", "# refund.py"): "needs a server; test_consoles.py runs it",
    ("docs/how-to/ask-over-http.md", "# agent.py"): "waits for a person; test_consoles.py runs it",
    ("docs/how-to/ask-over-http.md", "# person.py"): "needs a server; test_consoles.py runs it",
    ("docs/how-to/ask-over-http.md", "# threads.py"): "needs a server; test_consoles.py runs it",
    (
        "docs/how-to/check-an-approval-where-it-runs.md",
        "# refund.py",
    ): "needs the key that a command makes; test_consoles.py runs it",
    **{
        (
            "docs/how-to/use-answers-for-evaluation.md",
            f"# {name}.py",
        ): "tests/integrations/test_evaluation.py runs it"
        for name in ("langfuse_scores", "langsmith_feedback", "mlflow_feedback")
    },
    ("docs/how-to/workers-that-fork.md", "# desks.py"): "pool.py imports it",
    ("docs/how-to/workers-that-fork.md", "# pool.py"): "forks; test_consoles.py runs it",
    ("docs/how-to/workers-that-fork.md", "# tasks.py"): "needs Celery",
    ("docs/how-to/workers-that-fork.md", "# gunicorn.conf.py"): "is for gunicorn",
    ("docs/how-to/use-in-a-notebook.md", "import handraise"): CELL,
    (
        "docs/how-to/use-in-a-notebook.md",
        'question = await desk.post("Which outliers shall I drop?", choices=["None", "Above 3 sigma"])',
    ): CELL,
    ("docs/how-to/use-in-a-notebook.md", "print(await desk.wait(question.id))"): CELL,
    ("docs/how-to/use-in-a-notebook.md", "await desk.close()"): CELL,
    ("docs/how-to/use-in-a-notebook.md", "from IPython.display import display"): CELL,
}

RUNNABLE = [
    page
    for page in PAGES
    if page not in FOREIGN and any(block.language == "python" for block in blocks_of(page))
]


@pytest.mark.usefixtures("elsewhere")
@pytest.mark.parametrize("page", RUNNABLE, ids=name_of)
def test_every_python_block_runs_and_prints_what_the_page_shows(
    page: Path, request: pytest.FixtureRequest
) -> None:
    namespace: dict[str, Any] = {"__name__": "__main__"}
    printed = None
    for block in blocks_of(page):
        where = f"{name_of(page)}:{block.line}"
        if block.language == "python" and not block.marks:
            printed = run(block, namespace, request)
        elif block.language == "python":
            assert block.marks == ("no-run",), f"{where}: {block.marks}"
            assert block.place in NOT_RUN, f"{where} is not run and gives no reason"
            printed = None
        elif block.language == "output":
            assert printed is not None, f"{where} shows the output of nothing"
            assert matches(block.text, printed), f"{where} shows\n{block.text}\nbut it prints\n{printed}"
            printed = None


def run(block: Block, namespace: dict[str, Any], request: pytest.FixtureRequest) -> str:
    """Run a block, then the tests it defines; what it printed."""
    text = block.text
    if ADDRESS in text:
        text = text.replace(ADDRESS, request.getfixturevalue("postgres"))
    known = set(namespace)
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        # The empty lines make a traceback name the line of the page.
        code = compile("\n" * block.line + text, name_of(block.page), "exec", dont_inherit=True)
        exec(code, namespace)  # noqa: S102 -- running our own pages is the point
        for name in sorted(set(namespace) - known):
            if name.startswith("test_") and not inspect.signature(namespace[name]).parameters:
                asyncio.run(namespace[name]())
    return printed.getvalue()


WITH_FIXTURES = [
    page
    for page in RUNNABLE
    if any("(handraise_" in block.text for block in blocks_of(page) if block.language == "python")
]


@pytest.mark.parametrize("page", WITH_FIXTURES, ids=name_of)
def test_the_tests_of_a_page_pass_in_an_empty_folder(page: Path, elsewhere: Path) -> None:
    blocks = [each.text for each in blocks_of(page) if each.language == "python" and not each.marks]
    shown = "\n\n".join(blocks)
    # The contract suite has its own tests, and needs settings.
    tests = elsewhere / "test_page.py"
    tests.write_text(shown[: shown.index("from handraise.testing.contract")])
    options = ["-q", "-p", "handraise.testing.plugin", "-o", "asyncio_mode=auto"]
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", *options, str(tests)],
        cwd=elsewhere,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert f"{shown.count('def test_')} passed" in ran.stdout


def test_every_reason_for_not_running_is_still_needed() -> None:
    marked = {
        block.place
        for page in PAGES
        if page not in FOREIGN
        for block in blocks_of(page)
        if "no-run" in block.marks
    }
    assert marked == set(NOT_RUN)


@pytest.mark.parametrize("page", FOREIGN, ids=name_of)
def test_what_a_page_of_an_integration_shows_stands_in_a_program_that_its_tests_run(page: Path) -> None:
    programs = [each.read_text(encoding="utf-8") for each in (ROOT / "examples").rglob("*.py")]
    for block in blocks_of(page):
        if block.language == "python":
            assert any(block.text in program for program in programs), f"{name_of(page)}:{block.line}"

"""Writes the programs that `handraise demo` shows at its end: `python -m scripts.demo_programs`.

They are the first programs of the pages, which tests run, without what only our tests need.
"""

from __future__ import annotations

import re

from handraise.cli.demo_programs import FOLDER
from support.doc_pages import DOCS, ROOT, blocks_of

PAGES = {
    "python": (ROOT / "README.md", "python"),
    "langgraph": (DOCS / "integrations" / "langgraph.md", "python"),
    "openai-agents": (DOCS / "integrations" / "openai-agents.md", "python"),
    "pydantic-ai": (DOCS / "integrations" / "pydantic-ai.md", "python"),
    "crewai": (DOCS / "integrations" / "crewai.md", "python"),
    "mcp": (DOCS / "integrations" / "mcp.md", "json"),
    "typescript": (DOCS / "how-to" / "ask-from-typescript.md", "ts"),
}
"""Where the program for a framework is: a page, and the language of the block."""


def program_of(name: str) -> str:
    """The program for a framework, as the demo shows it."""
    page, language = PAGES[name]
    text = next(block.text for block in blocks_of(page) if block.language == language)
    text = re.sub(r'^""".*?"""\n\n|^(?:#|//) \S+\n', "", text, count=1, flags=re.DOTALL)
    # A scripted model plays yours in the test; the line says what to write instead.
    scripted = re.search(
        r"^from scripted_\w+ import \w+  # beside this file; yours is (.+)\n", text, re.MULTILINE
    )
    if scripted:
        text = text.replace(scripted[0], "").replace("\n\n\n", f"\n\n{scripted[1]}\n\n\n", 1)
    # With a server, people answer in its inbox.
    return text.replace(', "--person", "ana"', "").strip() + "\n"


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for each in PAGES:
        (FOLDER / f"{each}.txt").write_text(program_of(each), encoding="utf-8")

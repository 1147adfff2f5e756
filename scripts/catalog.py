"""The catalogue of sentences: `python -m scripts.catalog` takes new sentences from the code into every language.

It prints what is not translated yet, and compiles the files that the program reads. Translate in
`src/handraise/presentation/catalog/LANGUAGE/LC_MESSAGES/handraise.po`, then run it again.
"""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from babel.messages.catalog import Catalog
from babel.messages.extract import extract
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po, write_po

SOURCE = Path("src/handraise")
CATALOG = SOURCE / "presentation" / "catalog"
SCRIPTS = SOURCE / "server" / "web" / "static" / "inbox"
_DATE = datetime(2026, 1, 1, tzinfo=UTC)
"""A fixed value: the real one would change the files without need."""
_KEYWORDS = {
    "gettext": None,
    "_": None,
    "gettext_noop": None,
    "ngettext": (1, 2),
    "pgettext": ((1, "c"), 2),
}
_SCRIPT_KEYWORDS = {"text": None, "counted": (2, 3)}
_METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    ".py": ("python", _KEYWORDS),
    ".html": ("jinja2", _KEYWORDS),
    ".txt": ("jinja2", _KEYWORDS),
    ".js": ("javascript", _SCRIPT_KEYWORDS),
}


def sentences() -> Catalog:
    """Every sentence in the code, with the file that says it."""
    found = Catalog(project="handraise", charset="utf-8", creation_date=_DATE)
    for path, message, context in _extracted():
        found.add(message, locations=[(path, 0)], context=context)
    return found


def read(language: str) -> Catalog:
    """A language's translations as they are."""
    with po_file(language).open("rb") as file:
        catalog = read_po(file, locale=language)
    catalog.creation_date = catalog.revision_date = _DATE
    catalog.last_translator = catalog.language_team = catalog.msgid_bugs_address = "Handraise"
    return catalog


def updated(language: str) -> Catalog:
    """A language's translations with the sentences that the code has now."""
    catalog = read(language)
    catalog.update(sentences(), no_fuzzy_matching=True)
    catalog.obsolete.clear()
    return catalog


def missing(catalog: Catalog) -> list[str]:
    """The sentences without a translation."""
    return [str(each.id) for each in catalog if each.id and not _is_translated(each.string)]


def as_po(catalog: Catalog) -> bytes:
    """A catalogue as the file that people edit."""
    file = io.BytesIO()
    write_po(file, catalog, width=0, sort_output=True, omit_header=False, include_lineno=False)
    return file.getvalue()


def as_mo(catalog: Catalog) -> bytes:
    """A catalogue as the file that the program reads."""
    file = io.BytesIO()
    write_mo(file, catalog)
    return file.getvalue()


def as_script(catalog: Catalog) -> bytes:
    """The sentences that scripts say, as the module that a browser loads."""
    said = {
        each.id if isinstance(each.id, str) else each.id[0]: each.string
        for each in catalog
        if _is_translated(each.string) and any(path.endswith(".js") for path, _ in each.locations)
    }
    texts = json.dumps(said, ensure_ascii=False, indent=2, sort_keys=True)
    return f"// Made by `python -m scripts.catalog`.\n\nexport default {texts};\n".encode()


def po_file(language: str) -> Path:
    """The file that people edit."""
    return CATALOG / language / "LC_MESSAGES" / "handraise.po"


def script_file(language: str) -> Path:
    """The module that a browser loads."""
    return SCRIPTS / f"texts_{language}.js"


def main() -> int:
    """Update, compile, and print what is missing."""
    left = 0
    for folder in sorted(CATALOG.iterdir()):
        language = folder.name
        catalog = updated(language)
        po_file(language).write_bytes(as_po(catalog))
        po_file(language).with_suffix(".mo").write_bytes(as_mo(catalog))
        script_file(language).write_bytes(as_script(catalog))
        untranslated = missing(catalog)
        left += len(untranslated)
        for each in untranslated:
            sys.stdout.write(f"{language}: {each}\n")
        done = len(catalog) - len(untranslated)
        sys.stdout.write(f"{language}: {done} of {len(catalog)} sentences are translated\n")
    return 1 if left else 0


def _extracted() -> Iterator[tuple[str, str | tuple[str, ...], str | None]]:
    for path in sorted(SOURCE.rglob("*")):
        if path.suffix not in _METHODS:
            continue
        method, keywords = _METHODS[path.suffix]
        with path.open("rb") as file:
            for _, message, _, context in extract(
                method, file, keywords=keywords, options={"extensions": "jinja2.ext.i18n", "trimmed": "true"}
            ):
                yield path.relative_to(SOURCE).as_posix(), message, context


def _is_translated(string: str | tuple[str, ...] | list[str] | None) -> bool:
    return all(string) if isinstance(string, tuple | list) else bool(string)


if __name__ == "__main__":
    sys.exit(main())

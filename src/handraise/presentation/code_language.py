"""Which language a text is in: as it was declared, or as a few simple rules tell. None if it is none that we colour."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Literal, TypeAlias

from handraise.model.json_values import Json

Language: TypeAlias = Literal[
    "bash",
    "css",
    "diff",
    "dockerfile",
    "go",
    "html",
    "ini",
    "java",
    "javascript",
    "json",
    "python",
    "rust",
    "sql",
    "terraform",
    "toml",
    "xml",
    "yaml",
]

LONGEST_COLOURED = 50_000
"""Longer texts are shown in one colour."""

_NAMES: dict[str, Language] = {
    "bash": "bash",
    "sh": "bash",
    "shell": "bash",
    "zsh": "bash",
    "console": "bash",
    "command": "bash",
    "cmd": "bash",
    "commands": "bash",
    "css": "css",
    "diff": "diff",
    "patch": "diff",
    "dockerfile": "dockerfile",
    "docker": "dockerfile",
    "go": "go",
    "golang": "go",
    "html": "html",
    "htm": "html",
    "ini": "ini",
    "cfg": "ini",
    "conf": "ini",
    "properties": "ini",
    "java": "java",
    "kotlin": "java",
    "kt": "java",
    "c": "java",
    "cpp": "java",
    "cs": "java",
    "csharp": "java",
    "javascript": "javascript",
    "js": "javascript",
    "jsx": "javascript",
    "mjs": "javascript",
    "typescript": "javascript",
    "ts": "javascript",
    "tsx": "javascript",
    "json": "json",
    "python": "python",
    "py": "python",
    "rust": "rust",
    "rs": "rust",
    "sql": "sql",
    "postgresql": "sql",
    "mysql": "sql",
    "sqlite": "sql",
    "terraform": "terraform",
    "hcl": "terraform",
    "tf": "terraform",
    "toml": "toml",
    "xml": "xml",
    "svg": "xml",
    "yaml": "yaml",
    "yml": "yaml",
}
_DECLARES = ("language", "lang", "syntax")
_FILES = ("path", "file", "filename", "file_name", "file_path")
_SQL = re.compile(
    r"\s*(select|insert|update|delete|create|alter|drop|truncate|merge|grant|with)\s.*?"
    r"\b(from|into|set|table|where|values|index|view|schema|database|on)\b",
    re.IGNORECASE | re.DOTALL,
)
_BEGINNINGS: tuple[tuple[re.Pattern[str], Language], ...] = (
    (re.compile(r"#!\S*(?:/| )(?:ba|z|da)?sh\b"), "bash"),
    (re.compile(r"#!\S*(?:/| )python"), "python"),
    (re.compile(r"diff --git |--- \S.*\n\+\+\+ |@@ -\d"), "diff"),
    (re.compile(r"<!doctype html|<html[\s>]", re.IGNORECASE), "html"),
    (re.compile(r"<\?xml\s"), "xml"),
    (re.compile(r"FROM \S[^\n]*+\n(?:[^\n]*+\n){0,20}?(?:RUN|COPY|CMD|ENTRYPOINT|WORKDIR) "), "dockerfile"),
    (
        re.compile(r'(?:resource|provider|variable|module|terraform|data) (?:"[^"\n]*" ?){0,2}\{'),
        "terraform",
    ),
    (re.compile(r"(?:import \w|from [\w.]+ import |def \w+\(|class \w+[(:])"), "python"),
    (re.compile(r"package \w+\n"), "go"),
    (re.compile(r"(?:const|let|var) \w+ =|function \w+\(|import .{1,200}? from ['\"]"), "javascript"),
    (re.compile(r"---\n\s{0,20}[\w-]+:|apiVersion: "), "yaml"),
)


def named_language(name: str) -> Language | None:
    """The language with this name, as after the fence of a block of code, or at the end of a file's name."""
    return _NAMES.get(name.strip().casefold())


def declared_language(name: str, around: Mapping[str, Json]) -> Language | None:
    """The language that the name of an argument says, or another argument next to it.

    The language of a text is declared by `language`, or by the end of the name of its file, such as `path`.
    """
    if name.casefold() in (*_DECLARES, *_FILES):
        return None
    for other in _DECLARES:
        value = around.get(other)
        if isinstance(value, str) and (found := named_language(value)):
            return found
    if found := named_language(name):
        return found
    for other in _FILES:
        value = around.get(other)
        if isinstance(value, str) and (found := _of_file(value)):
            return found
    return None


def detected_language(text: str) -> Language | None:
    """The language that a text begins like."""
    if len(text) > LONGEST_COLOURED:
        return None
    text = text.strip()
    if text[:1] in ("{", "["):
        return "json" if _is_json(text) else None
    for pattern, language in _BEGINNINGS:
        if pattern.match(text):
            return language
    return "sql" if _SQL.match(text) else None


def _of_file(path: str) -> Language | None:
    base = path.replace("\\", "/").rsplit("/", 1)[-1]
    return named_language(base.rsplit(".", 1)[-1])


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True

"""Trees of Python source.

CPython before 3.11.8 and 3.12.2 counts the depth of a tree once for the whole process (gh-106905). If the garbage collector, or
another thread, formats a traceback while a tree is made, that makes a tree too, and the first one fails with `SystemError`.
"""

from __future__ import annotations

import ast
from pathlib import Path

_TRIES = 10


def tree_of(file: Path) -> ast.Module:
    """The tree of a Python file."""
    return tree_of_text(file.read_text(encoding="utf-8"), str(file))


def tree_of_text(text: str, name: str = "<text>") -> ast.Module:
    """The tree of Python source, which may await at its top level."""
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT | ast.PyCF_ONLY_AST
    for _ in range(_TRIES):
        try:
            tree = compile(text, name, "exec", flags=flags, dont_inherit=True)
        except SystemError as error:
            if "recursion depth" not in str(error):
                raise
        else:
            assert isinstance(tree, ast.Module)
            return tree
    raise AssertionError(f"{name} is never parsed undisturbed")

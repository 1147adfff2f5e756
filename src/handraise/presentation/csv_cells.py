"""Cells of CSV files. Whatever an agent or a person wrote, nothing in a cell can become a formula."""

from __future__ import annotations

import re

_FORMULA = re.compile(r"""(?:^|(?<=[;,"'\t\r\n]))(?=[ ]*[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20])""")
"""Where a cell begins that a spreadsheet may run. Some also split a line at semicolons, whatever the quotes say."""


def safe_cell(text: str) -> str:
    """The text with an apostrophe before everything that a spreadsheet might take for a formula."""
    return _FORMULA.sub("'", text)

"""What comes along with an answer and is kept: refused where no store could, for it goes there in a batch."""

from __future__ import annotations

import re
from collections.abc import Sequence

from handraise.model.drafting import Limits
from handraise.model.errors import InvalidAnswer, Problem
from handraise.model.json_values import Json, canonical_json, json_problems, text_problem

_DIGEST = re.compile(r"[0-9a-f]{64}", re.ASCII)


def check_kept(limits: Limits, *, details: Json = None, **texts: str | None) -> None:
    """Raise `InvalidAnswer` unless all of these can be kept; texts are named as their caller gave them.

    `shown` must be a digest.
    """
    given = {name: text for name, text in texts.items() if text is not None}
    if not given and details is None:
        return
    problems = [Problem(name, why) for name, text in given.items() if (why := text_problem(text))]
    problems += [
        Problem(name, f"has more than {limits.prompt} characters")
        for name, text in given.items()
        if len(text) > limits.prompt
    ]
    if "shown" in given and not _DIGEST.fullmatch(given["shown"]):
        problems.append(Problem("shown", "expected a SHA-256 in hexadecimal"))
    unfit = list(json_problems(details, "details", depth=limits.json_depth))
    if not unfit and details is not None and len(canonical_json(details)) > 2 * limits.json_bytes:
        unfit = [Problem("details", f"are larger than {2 * limits.json_bytes} characters")]
    if problems or unfit:
        raise InvalidAnswer([*problems, *unfit])


def check_problems(limits: Limits, problems: Sequence[Problem], *, channel: str | None) -> None:
    """Raise `InvalidAnswer` unless these reasons for an attempt can be kept, `ValueError` where there are none."""
    if not problems:
        raise ValueError("attempt needs at least one problem: say why the answer does not fit")
    texts = {f"problems[{place}]": str(each) for place, each in enumerate(problems)}
    check_kept(limits, channel=channel, **texts)


def keepable(limits: Limits, value: Json) -> Json:
    """An answer that did not fit, or None if it is no JSON or too large to be kept."""
    if any(json_problems(value, "", depth=limits.json_depth)):
        return None
    return value if len(canonical_json(value)) <= limits.json_bytes else None

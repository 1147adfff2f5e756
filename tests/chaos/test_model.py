"""The lifecycle as a TLA+ model: no promise is broken in any of its states, and mistakes in it are found.

The full size: python -m chaos model --full
"""

from __future__ import annotations

import pytest

from chaos.model import LARGE, LIVE, PARTS
from chaos.model.mistakes import MISTAKES
from chaos.model.tlc import check

pytestmark = [
    pytest.mark.proof,
    pytest.mark.slow("TLC checks the model of the lifecycle, and not the product"),
    pytest.mark.timeout(900),
]


def test_in_no_state_of_the_model_a_promise_is_broken() -> None:
    checked = check("Handraise", LARGE)
    print(f"\n  {checked}", end="")
    assert not checked.violated, checked.output
    assert checked.distinct >= 1_000_000


@pytest.mark.parametrize("part", PARTS)
def test_in_no_state_of_a_part_a_promise_is_broken(part: str) -> None:
    checked = check("Handraise", part)
    print(f"\n  {part}: {checked}", end="")
    assert not checked.violated, checked.output
    assert checked.distinct > 10_000


def test_in_the_model_everybody_who_waits_is_woken_at_last() -> None:
    checked = check("Handraise", LIVE)
    assert not checked.violated, checked.output
    assert checked.distinct > 100


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_in_the_model_is_found(name: str) -> None:
    mistake = MISTAKES[name]
    assert check("Handraise", mistake.config, changes=mistake.changes).violated

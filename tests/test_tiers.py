"""What the gate runs of the contract, and that nothing leaves the gate without a reason."""

from __future__ import annotations

from typing import Any

import pytest

from tests import tiers
from tests.tiers import drawn, mark_what_leaves_the_gate, sized


class Item:
    """As much of a test as the tiers look at."""

    nodeid = "tests/test_some.py::test_some"

    def __init__(self, *marks: pytest.MarkDecorator, **indices: int) -> None:
        self.marks = [each.mark for each in marks]
        self.callspec = type("Spec", (), {"indices": indices})

    def iter_markers(self, name: str) -> list[pytest.Mark]:
        return [each for each in self.marks if each.name == name]

    def get_closest_marker(self, name: str) -> pytest.Mark | None:
        return next(iter(self.iter_markers(name)), None)

    def add_marker(self, mark: pytest.MarkDecorator) -> None:
        self.marks.append(mark.mark)

    @property
    def is_slow(self) -> bool:
        return bool(self.iter_markers("slow"))


ONLY = pytest.mark.promises_only("memory runs all of it")
PROMISE = pytest.mark.promise("P1")
LONG = pytest.mark.parametrize("row", range(9))
SHORT = pytest.mark.parametrize("row", range(8))


@pytest.mark.parametrize(
    ("item", "leaves"),
    [
        (Item(PROMISE), False),
        (Item(), False),
        (Item(ONLY), True),
        (Item(ONLY, PROMISE), False),
        (Item(ONLY, PROMISE, SHORT, row=7), False),
        (Item(ONLY, PROMISE, LONG, row=0), False),
        (Item(ONLY, PROMISE, LONG, row=1), True),
        (Item(ONLY, LONG, row=0), False),
    ],
)
def test_of_a_contract_the_gate_runs_promises_and_one_row_of_each_long_table(
    item: Any, *, leaves: bool
) -> None:
    mark_what_leaves_the_gate([item])
    assert item.is_slow == leaves


@pytest.mark.parametrize("name", ["slow", "promises_only", "only_proof_of"])
@pytest.mark.parametrize("given", [(), ("",), (" ",), ("why", "twice")])
def test_a_marker_without_a_reason_is_refused(name: str, given: tuple[str, ...]) -> None:
    with pytest.raises(pytest.UsageError, match=f"test_some: the marker {name} needs one sentence"):
        mark_what_leaves_the_gate([Item(getattr(pytest.mark, name)(*given))])


def test_the_gate_draws_some_and_nightly_has_all(monkeypatch: pytest.MonkeyPatch) -> None:
    cases = range(100)
    monkeypatch.setattr(tiers, "NIGHTLY", False)
    some = drawn(cases, 10)
    assert (len(some), list(some), sized(gate=1, nightly=2)) == (10, sorted(some), 1)
    assert drawn(cases, 10) == some
    monkeypatch.setattr(tiers, "SEED", tiers.SEED + 1)
    assert drawn(cases, 10) != some
    monkeypatch.setattr(tiers, "NIGHTLY", True)
    assert (drawn(cases, 10), sized(gate=1, nightly=2)) == (cases, 2)

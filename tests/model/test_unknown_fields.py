"""What somebody reads who wrote a field that does not exist."""

from __future__ import annotations

import pytest

from handraise.model.unknown_fields import unknown_field
from handraise.wire.requests import PostQuestion


@pytest.mark.parametrize(
    ("place", "said"),
    [
        (["choises"], "there is no such field; did you mean 'choices'?"),
        (["colour"], "there is no such field"),
        (["timeline", "expires"], "there is no such field; did you mean 'expire'?"),
        (["nowhere", "at", "all"], "there is no such field"),
    ],
)
def test_the_field_that_was_probably_meant_is_named(place: list[str], said: str) -> None:
    assert unknown_field(PostQuestion.model_json_schema(), place) == said

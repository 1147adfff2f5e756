"""Hypothesis for everybody here: the same examples in every run, no deadline, its files in the cache."""

from __future__ import annotations

from pathlib import Path

from hypothesis import settings
from hypothesis.configuration import set_hypothesis_home_dir

from tests.tiers import sized

set_hypothesis_home_dir(Path(__file__).parents[2] / ".cache" / "hypothesis")
settings.register_profile(
    "handraise", derandomize=True, deadline=None, max_examples=sized(gate=50, nightly=200)
)
settings.load_profile("handraise")

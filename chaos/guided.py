"""One parser under atheris: `python -m chaos.guided <name> [options of libFuzzer]`.

It is not in `chaos.fuzzing`, which would import everything before atheris can instrument it.
"""

from __future__ import annotations

import importlib
import random
import sys
from typing import Any


def main(arguments: list[str]) -> None:
    """Fuzz until the time is over or a bug is found."""
    atheris: Any = importlib.import_module("atheris")
    with atheris.instrument_imports(include=["handraise"]):
        from chaos.fuzzing import changed  # noqa: PLC0415 -- what is imported here can be instrumented
        from chaos.fuzzing.parsers import PARSERS  # noqa: PLC0415 -- the same
    [parser] = [each for each in PARSERS if each.name == arguments[0]]

    def one(data: bytes) -> None:
        parser.parse(data)

    def mutate(data: bytes, longest: int, seed: int) -> bytes:
        chance = random.Random(seed)
        if chance.random() < 0.5:
            grown: bytes = atheris.Mutate(data, longest)
            return grown
        return changed(data or chance.choice(parser.seeds), chance)[:longest]

    atheris.Setup([sys.argv[0], *arguments[1:]], one, custom_mutator=mutate)
    atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1:])

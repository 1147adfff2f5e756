"""The public names with their signatures, one a line: what a release promises, and what the next one changes.

It needs only the standard library, so that it can read the previous release as well:
`PYTHONPATH=path/to/older/src python scripts/release/surface.py`.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import importlib
import inspect
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

FILE = Path(__file__).with_name("surface.txt")
PUBLIC_MODULES = (
    "handraise",
    "handraise.blocking",
    "handraise.client",
    "handraise.conversations",
    "handraise.desks",
    "handraise.errors",
    "handraise.events",
    "handraise.forms",
    "handraise.gate",
    "handraise.outcomes",
    "handraise.questions",
    "handraise.server",
    "handraise.testing",
    "handraise.testing.contract",
    "handraise.tools",
)
"""Every module whose `__all__` is a promise. The integrations use their frameworks' words, and have their own pages."""


def surface() -> list[str]:
    """Every public name of the release that is imported here, sorted."""
    return sorted({line for name in PUBLIC_MODULES for line in _module_names(name)})


def _module_names(name: str) -> Iterator[str]:
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError:  # an older release has fewer
        return
    for public in module.__all__:
        yield from _named(f"{name}.{public}", getattr(module, public))


def _named(name: str, thing: object) -> Iterator[str]:
    if inspect.isclass(thing) and not hasattr(thing, "__origin__"):
        yield f"class {name}({', '.join(each.__name__ for each in thing.__bases__ if each is not object)})"
        yield from _members(name, thing)
    elif inspect.isroutine(thing):
        yield f"{name}{_signature(thing)}"
    else:
        yield f"{name}: {type(thing).__name__}"


def _members(name: str, owner: type) -> Iterator[str]:
    if issubclass(owner, enum.Enum):
        yield from (f"{name}.{each.name} = {each.value!r}" for each in owner)
    seen = set()
    for base in owner.__mro__:
        if not base.__module__.startswith("handraise"):
            continue
        members: Mapping[str, object] = {**inspect.get_annotations(base), **base.__dict__}
        for member, value in members.items():
            # An enumeration's members are above. A contract may get more tests at any time.
            if member in seen or member.startswith(("_", "test_")) or type(value) is owner:
                continue
            seen.add(member)
            yield from _member(f"{name}.{member}", base, member, value)


def _member(name: str, owner: type, member: str, value: object) -> Iterator[str]:
    fields = getattr(owner, "__dataclass_fields__", {})
    called = value.__func__ if isinstance(value, classmethod | staticmethod) else value
    if isinstance(value, property | functools.cached_property):
        yield f"{name}: property"
    elif inspect.isroutine(called):
        yield f"{name}{_signature(called)}"
    elif (annotation := inspect.get_annotations(owner).get(member)) is not None:
        optional = member in fields and not _is_needed(fields[member])
        yield f"{name}: {_plain(annotation)}{' = …' if optional else ''}"


def _is_needed(field: dataclasses.Field[object]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _signature(called: object) -> str:
    try:
        real = inspect.signature(called)  # type: ignore[arg-type]  # a routine is callable
    except ValueError:
        return "(…)"
    return _plain(real)


def _plain(thing: object) -> str:
    """Annotations are texts in our modules, and the same on every Python; memory addresses are not."""
    text = thing.__name__ if inspect.isclass(thing) else str(thing)
    text = re.sub(r"ForwardRef\('([^']*)'[^)]*\)", r"\1", text)
    return re.sub(r" at 0x[0-9a-f]+", "", text).replace("'", "")


@dataclasses.dataclass(frozen=True)
class Changes:
    """What is different from one surface to the next."""

    removed: list[str]
    added: list[str]

    @property
    def broken(self) -> list[str]:
        """The names that are gone, or that are no longer what they were; without their module and signature."""
        return sorted({bare(line) for line in self.removed})

    def __str__(self) -> str:
        return "\n".join([*(f"- {line}" for line in self.removed), *(f"+ {line}" for line in self.added)])


def bare(line: str) -> str:
    """The last two parts of a name, such as `Desk.ask`, or its last if it belongs to a module."""
    name = re.split(r"[(:=]", line.removeprefix("class "), maxsplit=1)[0].strip()
    module = max((each for each in PUBLIC_MODULES if name.startswith(f"{each}.")), key=len)
    return name.removeprefix(f"{module}.")


def changes(before: list[str], after: list[str]) -> Changes:
    """What happened to each line."""
    return Changes(sorted({*before} - {*after}), sorted({*after} - {*before}))


def unmentioned(changed: Changes, text: str) -> list[str]:
    """The broken names that a changelog does not mention in code: `Desk.ask`, or just `ask`."""
    said = set(re.findall(r"[\w.]+", " ".join(re.findall(r"`([^`]+)`", text))))
    return [name for name in changed.broken if not {name, name.rpartition(".")[2]} & said]


if __name__ == "__main__":
    sys.stdout.write("\n".join(surface()) + "\n")

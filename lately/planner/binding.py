"""Constraints that keep smaller filters from meeting a requirement."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..golden import FilterSpec
from . import cost
from .requirement import Requirement
from .space import (
    GENERATIONS,
    PARTS,
    RUNS,
    Shapes,
    aged_generations,
    part_bits,
    sizes,
    too_large,
)

_NAMES = {
    "apbf": ("k", "l", "", "slice_bits"),
    "apbbf": ("k", "l", "hashes_per_block", "blocks"),
    "gebf": ("", "epochs", "hashes", "cells"),
    "blocked-gebf": ("", "epochs", "hashes", "blocks"),
}
"""Fields that run, generations, parts and size are; a size of a GEBF is the cells of a part."""


@dataclass(frozen=True)
class Binding:
    """A smaller filter, and the constraint that it breaks.

    Attributes
    ----------
    field : str
        Parameter that is smaller in it: one of the specification's fields, or ``cells``.
    value : int
        That, in the smaller filter.
    constraint : str
        "rate", "slack" or "clearing"; of filters with timestamps also "stash", "moves" or "sweep".
    reached : float
        Its rate; its slack in windows; its bits to zero per clock; entries in its stash on
        average; its share of insertions that find no cell; clocks of which its sweep needs one.
    """

    field: str
    value: int
    constraint: str
    reached: float

    def __str__(self) -> str:
        # Four digits, so that what is just above a round figure shows it.
        reached = f"{100 * self.reached:.4g}%" if self.reached >= 1e-4 else f"{self.reached:.3e}"
        text = {
            "rate": f"rate {reached}",
            "slack": f"slack {self.reached:.3g}",
            "clearing": "not cleared in time",
            "stash": f"{self.reached:.3g} in the stash",
            "moves": f"{reached} find no cell",
            "sweep": "not swept in time",
        }
        return f"{self.field} {self.value:,}: {text[self.constraint]}"


def bindings(spec: FilterSpec, requirement: Requirement) -> list[Binding]:
    """Tell, for every parameter that can be one step smaller, what breaks then.

    Steps are those of the space. A smaller filter that breaks nothing is left
    out: it is not cheaper, or a candidate of its own.
    """
    found = []
    for field, value, shape, size in _smaller(spec, requirement):
        broken = _broken(shape, size, requirement)
        if broken is not None:
            found.append(Binding(field, value, *broken))
    return found


def _smaller(
    spec: FilterSpec, requirement: Requirement
) -> Iterator[tuple[str, int, Shapes, np.ndarray[Any, Any]]]:
    shape, size = cost.of_spec(spec, requirement)
    run, generations, parts, sized = _NAMES[spec.family]
    if (less := _below(sizes(requirement.any_size).tolist(), int(size[0]))) is not None:
        yield sized, less, shape, np.array([less])
    choices = (
        (generations, "generations", GENERATIONS),
        (run, "run", RUNS[spec.family]),
        (parts, "parts", PARTS[spec.family]),
    )
    for name, attribute, values in choices:
        less = _below(values, int(getattr(shape, attribute)[0]))
        if less is None or not name:
            continue
        if name == "hashes" and spec.blocked and not requirement.any_size:
            less = 1 << less.bit_length() - 1
        changed: dict[str, Any] = {attribute: np.array([less])}
        smaller = replace(shape, **changed)
        yield name, less, replace(smaller, aged=aged_generations(smaller.run, requirement)), size


def _below(values: Any, value: int) -> int | None:
    return max((one for one in values if one < value), default=None)


def _broken(
    shape: Shapes, size: "np.ndarray[Any, Any]", requirement: Requirement
) -> tuple[str, float] | None:
    longest = requirement.longest_trace
    if longest is not None and shape.trace[0] > longest:
        return "slack", float(shape.trace[0]) / shape.window - 1
    if shape.aged[0] >= shape.generations[0]:
        return "slack", float(shape.run[0]) / int(shape.generations[0])
    if too_large(shape, size, requirement)[0]:
        return "clearing", float(part_bits(shape, size)[0])
    if part_bits(shape, size)[0] < 2:
        return "rate", 1.0
    rate = shape.spec(0, int(size[0]), requirement).worst_false_positive_rate
    return ("rate", rate) if rate > requirement.false_positive_rate else None

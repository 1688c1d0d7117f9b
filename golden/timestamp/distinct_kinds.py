"""Descriptions of D(j) by name, for parameters and state files."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from ..errors import SpecificationError
from ..filter import require_count
from .distinct import (
    Distinct,
    Reals,
    all_distinct,
    interpolated_distinct,
    power_law_distinct,
    uniform_distinct,
)

_KINDS: dict[str, tuple[Callable[..., Reals], dict[str, str]]] = {
    "all-distinct": (all_distinct, {}),
    "uniform": (uniform_distinct, {"universe": "universe"}),
    "power-law": (power_law_distinct, {"universe": "universe"}),
    "sampled": (interpolated_distinct, {"at": "at", "values": "distinct"}),
}
"""Function of each kind, and its parameters by their names in a description."""
_LARGEST_UNIVERSE = 1 << 64
_LONGEST = 1 << 62


def checked_distinct(distinct: Mapping[str, Any], *, reach: int) -> dict[str, Any]:
    """Return the description of a stream's D(j) as values for JSON.

    Parameters
    ----------
    distinct : mapping
        ``{"kind": "all-distinct"}`` for a stream in which no key occurs twice. Or
        ``{"kind": "uniform", "universe": 5000}`` (equation 16). Or
        ``{"kind": "power-law", "universe": 5000}`` (equation 17). Or
        ``{"kind": "sampled", "at": [1, 10, 100], "values": [1, 9.2, 61]}``, which is
        interpolated (equation 18): "at" ascends from 1 to `reach` or more, and each value is
        between 1 and its "at".
    reach : int
        Largest number of insertions j for which D(j) is needed.

    Raises
    ------
    TypeError
        If the description is not a mapping, or a value in it has the wrong type.
    SpecificationError
        If the kind is unknown, or a value breaks a rule.
    """
    if not isinstance(distinct, Mapping):
        raise TypeError(f"distinct: must be a mapping that has a kind, not {distinct!r}")
    kind = distinct.get("kind")
    if not isinstance(kind, str) or kind not in _KINDS:
        *others, last = _KINDS
        either = f"{', '.join(others)} or {last}"
        raise SpecificationError(f"distinct: kind must be {either}, not {kind!r}")
    names = [*_KINDS[kind][1]]
    if {*distinct} != {"kind", *names}:
        found = ", ".join(map(str, distinct))
        raise SpecificationError(f"distinct: must have {', '.join(['kind', *names])}, not {found}")
    if kind == "sampled":
        return {"kind": kind, **_sample(distinct["at"], distinct["values"], reach)}
    for name in names:
        require_count(f"distinct: {name}", distinct[name], most=_LARGEST_UNIVERSE)
    return {"kind": kind, **{name: int(distinct[name]) for name in names}}


def distinct_function(distinct: Mapping[str, Any]) -> Distinct:
    """Return the function D of a description, for arrays of any shape; see `Distinct`.

    Parameters
    ----------
    distinct : mapping
        Result of `checked_distinct`.
    """
    function, parameters = _KINDS[distinct["kind"]]
    return partial(function, **{name: distinct[own] for own, name in parameters.items()})


def _sample(at: object, values: object, reach: int) -> dict[str, list[Any]]:
    lengths, numbers = _listed("at", at), _listed("values", values)
    if len(lengths) != len(numbers) or not lengths:
        raise SpecificationError(
            "distinct: must have as many values as at, one or more, "
            f"not {len(numbers)} beside {len(lengths)}"
        )
    for length in lengths:
        require_count("distinct: at", length, most=_LONGEST)
    if lengths[0] != 1 or sorted({*lengths}) != lengths:
        raise SpecificationError(f"distinct: at must ascend from 1, not {lengths}")
    if lengths[-1] < reach:
        raise SpecificationError(
            f"distinct: at must reach {reach} insertions, not end at {lengths[-1]}"
        )
    for length, number in zip(lengths, numbers, strict=True):
        if isinstance(number, bool) or not isinstance(
            number, int | float | np.integer | np.floating
        ):
            raise TypeError(f"distinct: values must be numbers, not {number!r}")
        if not 1 <= number <= length:
            raise SpecificationError(
                f"distinct: values must be between 1 and {length} at {length}, not {number}"
            )
    return {"at": [int(length) for length in lengths], "values": [float(n) for n in numbers]}


def _listed(name: str, value: object) -> list[Any]:
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if not isinstance(value, list | tuple):
        raise TypeError(f"distinct: {name} must be a list, not {value!r}")
    return [*value]

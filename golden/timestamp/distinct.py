"""Expected number D(j) of distinct keys in j insertions (inferential paper, section 2.5)."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import log
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import require, require_count, require_number

Reals = NDArray[np.float64]
# function from numbers of insertions, of any shape, to expected numbers of distinct keys
Distinct = Callable[[ArrayLike], Reals]


def all_distinct(insertions: ArrayLike) -> Reals:
    """Return D(j) = j, for a stream of distinct keys; `insertions` has any shape."""
    return _counts(insertions).astype(np.float64)


def expected_distinct(insertions: ArrayLike, probabilities: ArrayLike) -> Reals:
    """Return D(j) for a stream whose keys have the given `probabilities` (equation 15)."""
    counts = _counts(insertions)
    chances = checked_probabilities(probabilities).reshape(-1)
    with np.errstate(divide="ignore"):
        logarithms = np.log1p(-chances)
    result = np.zeros(counts.size)
    for index, count in enumerate(counts.reshape(-1).tolist()):
        if count:
            result[index] = -np.expm1(count * logarithms).sum()
    return result.reshape(counts.shape)


def uniform_distinct(insertions: ArrayLike, universe: int) -> Reals:
    """Return D(j) for a stream of `universe` equally likely keys (equation 16)."""
    require_count("universe", universe)
    counts = _counts(insertions)
    if universe == 1:
        return (counts > 0).astype(np.float64)
    result: Reals = -universe * np.expm1(counts * np.log1p(-1 / universe))
    return result


def power_law_distinct(insertions: ArrayLike, universe: int) -> Reals:
    """Return D(j) for a stream with key probabilities proportional to 1/x (equation 17)."""
    require_count("universe", universe)
    # The equation falls beyond its peak, where its maximum is returned, and exceeds j for small j.
    harmonic = _harmonic(universe)
    total = universe * harmonic
    counts = _counts(insertions).astype(np.float64)
    clipped = np.clip(counts, 1, total * np.exp(-np.euler_gamma))
    value = clipped / harmonic * (1 - np.euler_gamma + np.log(total / clipped))
    return np.minimum(value, counts)


def interpolated_distinct(insertions: ArrayLike, at: ArrayLike, distinct: ArrayLike) -> Reals:
    """Interpolate D(j) between its values `distinct` at the lengths `at` (equation 18).

    The interpolation is linear in the logarithms of j and D(j).
    """
    counts, known = _counts(insertions), _counts(at)
    values = np.asarray(distinct, np.float64)
    if known.ndim != 1 or known.shape != values.shape or len(known) == 0:
        raise ValueError(
            f"distinct, at: must have the same shape (n,), not {values.shape} and {known.shape}"
        )
    if known[0] < 1 or (np.diff(known) <= 0).any():
        raise ValueError(f"at: must increase and start at 1 or more, not {known.tolist()}")
    if not (values > 0).all():
        raise ValueError(f"distinct: must be positive, not {values.min()}")
    some = counts[counts > 0]
    if some.size and (some.min() < known[0] or some.max() > known[-1]):
        raise ValueError(
            f"insertions: must be 0 or between {known[0]} and {known[-1]}, "
            f"not {some.min()} to {some.max()}"
        )
    logarithms = np.interp(np.log(np.maximum(counts, 1)), np.log(known), np.log(values))
    return np.where(counts > 0, np.exp(logarithms), 0.0)


def sampled_distinct(keys: ArrayLike, at: Sequence[int], trials: int) -> Reals:
    """Return the mean number of distinct keys for each length in `at` (section 5.3.2).

    Each mean is over `trials` parts of the stream `keys`, with equally spaced starts.
    """
    require_count("trials", trials)
    stream = np.unique(np.asarray(keys), return_inverse=True)[1].reshape(-1)
    for length in at:
        require_count("at", length, high=len(stream))
    totals = np.zeros(len(at))
    for trial in range(trials):
        turned = np.roll(stream, -(trial * len(stream) // trials))
        first = np.unique(turned, return_index=True)[1]
        totals += [(first < length).sum() for length in at]
    return totals / trials


def checked_probabilities(probabilities: ArrayLike) -> Reals:
    """Convert `probabilities` to an array; ValueError if one is not between 0 and 1."""
    chances = np.asarray(probabilities, np.float64)
    wrong = ~((chances >= 0) & (chances <= 1))
    if wrong.any():
        raise ValueError(f"probabilities: must be between 0 and 1, not {chances[wrong].flat[0]}")
    return chances


def _harmonic(universe: int) -> float:
    if universe <= 1 << 20:
        return float((1 / np.arange(1, universe + 1)).sum())
    # The asymptotic series is exact to universe**-4 / 120.
    return log(universe) + np.euler_gamma + 1 / (2 * universe) - 1 / (12 * universe**2)


def _counts(insertions: ArrayLike) -> NDArray[np.int64]:
    counts = np.asarray(insertions)
    if counts.dtype.kind not in "ui":
        raise TypeError(f"insertions: must be integers, not {counts.dtype}")
    if counts.size and counts.min() < 0:
        raise ValueError(f"insertions: must be at least 0, not {counts.min()}")
    return counts.astype(np.int64)


# Descriptions of D(j) as mappings, for parameters and state files

# by kind: the function, and the names of its parameters in a description
_KINDS: dict[str, tuple[Callable[..., Reals], dict[str, str]]] = {
    "all-distinct": (all_distinct, {}),
    "uniform": (uniform_distinct, {"universe": "universe"}),
    "power-law": (power_law_distinct, {"universe": "universe"}),
    "sampled": (interpolated_distinct, {"at": "at", "values": "distinct"}),
}
_LARGEST_UNIVERSE = 1 << 64
_LONGEST = 1 << 62


def checked_distinct(distinct: Mapping[str, Any], *, reach: int) -> dict[str, Any]:
    """Check a description of a stream's D(j) for j up to `reach`; return it as JSON values.

    The description is ``{"kind": "all-distinct"}``, ``{"kind": "uniform", "universe": 5000}``
    (equation 16), ``{"kind": "power-law", "universe": 5000}`` (equation 17) or ``{"kind":
    "sampled", "at": [1, 10, 100], "values": [1, 9.2, 61]}`` (equation 18), where "at" increases
    from 1 to at least `reach`.
    """
    if not isinstance(distinct, Mapping):
        raise TypeError(f"distinct: must be a mapping with the key 'kind', not {distinct!r}")
    kind: Any = distinct.get("kind")
    rule = f"kind must be one of {', '.join(_KINDS)}"
    require(isinstance(kind, str) and kind in _KINDS, "distinct", rule, kind)
    names = [*_KINDS[kind][1]]
    rule = f"must have the entries {', '.join(['kind', *names])}"
    require({*distinct} == {"kind", *names}, "distinct", rule, [*distinct])
    if kind == "sampled":
        return {"kind": kind, **_sample(distinct["at"], distinct["values"], reach)}
    for name in names:
        require_count(f"distinct: {name}", distinct[name], high=_LARGEST_UNIVERSE)
    return {"kind": kind, **{name: int(distinct[name]) for name in names}}


def distinct_function(distinct: Mapping[str, Any]) -> Distinct:
    function, parameters = _KINDS[distinct["kind"]]
    return partial(function, **{name: distinct[field] for field, name in parameters.items()})


def _sample(at: Any, values: Any, reach: int) -> dict[str, list[Any]]:
    columns = [value.tolist() if isinstance(value, np.ndarray) else value for value in (at, values)]
    for name, column in zip(("at", "values"), columns, strict=True):
        if not isinstance(column, list | tuple):
            raise TypeError(f"distinct: {name} must be a list, not {column!r}")
    lengths, numbers = map(list, columns)
    sizes = len(lengths), len(numbers)
    rule = "at and values must have the same length"
    require(sizes[0] == sizes[1] > 0, "distinct", rule, sizes)
    for length in lengths:
        require_count("distinct: at", length, high=_LONGEST)
    increases = lengths[0] == 1 and sorted({*lengths}) == lengths
    require(increases, "distinct", "at must increase from 1", lengths)
    require(lengths[-1] >= reach, "distinct", f"at must end at {reach} or more", lengths[-1])
    for length, number in zip(lengths, numbers, strict=True):
        require_number("distinct: values", number)
        rule = f"the value at {length} must be between 1 and {length}"
        require(1 <= number <= length, "distinct", rule, number)
    return {"at": [int(length) for length in lengths], "values": [float(n) for n in numbers]}

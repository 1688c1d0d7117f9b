"""Models for a window of time that have no hardware."""

import math
from dataclasses import dataclass, replace

import numpy as np

from ..golden.sizing import bloom_rate
from ..golden.spec import APBFSpec
from ..golden.timestamp.timing_sizes import timing_bits, timing_sizes
from .rates import lower_bounds
from .requirement import Requirement
from .space import shapes


@dataclass(frozen=True)
class TimedModel:
    """A golden model, without hardware, for a span of time at a rate.

    Attributes
    ----------
    model : str
        Class of `lately.golden`.
    parameters : dict of str to int
        Arguments of its constructor, except `span`, which has the unit of the timestamps.
    bits : int
        Memory of cells or slices, without timestamps of slices, at the required rate.
    worst_false_positive_rate : float
        Rate at the required rate of insertions, with distinct keys.
    slack : float
        Slack in spans, at the required rate of insertions.
    when_the_rate_changes : str
    """

    model: str
    parameters: dict[str, int]
    bits: int
    worst_false_positive_rate: float
    slack: float
    when_the_rate_changes: str


def timed_models(requirement: Requirement) -> list[TimedModel]:
    """Return the cheapest model of each kind for ``requirement.window`` keys in a span.

    Only window, rate, slack and `any_size` of the requirement are used.
    """
    counted = replace(requirement, span=None)
    found = (_growing(counted), _timing(counted))
    return [model for model in found if model is not None]


def _growing(requirement: Requirement) -> TimedModel | None:
    """Size slices as the model does: k generations set half of the bits."""
    found = shapes("apbf", requirement)
    if (longest := requirement.longest_trace) is not None:
        found = found[found.trace <= longest]
    if not len(found):
        return None
    slices = np.ceil(found.run * found.generation / math.log(2)).astype(np.int64)
    bits = slices * found.ring_segments
    meets = lower_bounds(found, slices) <= requirement.false_positive_rate
    for index in sorted(np.flatnonzero(meets), key=lambda i: (bits[i], found.run[i])):
        k, l, g = (int(a[index]) for a in (found.run, found.generations, found.generation))
        spec = APBFSpec(k=k, l=l, slice_bits=int(slices[index]), generation=g)
        if spec.worst_false_positive_rate <= requirement.false_positive_rate:
            return TimedModel(
                "TimeLimitedAPBF",
                {"k": k, "l": l, "capacity": requirement.window},
                int(bits[index]),
                spec.worst_false_positive_rate,
                spec.ring_segments * g / requirement.window - 1,
                "slices grow and shrink with the rate; no key of the span is missed",
            )
    return None


def _timing(requirement: Requirement) -> TimedModel | None:
    """Choose the cells that the rate needs, for each number of hash functions."""
    window = requirement.window
    sizes = timing_sizes(window, requirement.false_positive_rate)
    cells, hashes = sizes["cells"], sizes["hashes"]
    if max(cells, window) > 1 << 30:
        return None
    return TimedModel(
        "TimingBloomFilter",
        dict(sizes),
        timing_bits(**sizes),
        bloom_rate(window, cells, hashes),
        0.0,
        "counts insertions: at half the rate its window lasts 2 T, at twice the rate T / 2, and "
        "keys of the span are missed; a query may ask for a shorter window",
    )

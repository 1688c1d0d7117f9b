"""The plan: candidates, the cheapest of them, and why nothing smaller does."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from itertools import islice
from typing import Any

import numpy as np

from ..golden import FilterSpec, analysis
from ..golden.analysis import bloom_accesses
from ..golden.spec.timestamp import PartitionedTimingSpec, StampedPartsSpec
from ..hdl.build import UnitSpec, unit_profile
from ..hdl.profile import HardwareProfile
from ..hdl.target_clocks import limit_mhz
from ..hdl.timing.sweep_rules import rest_interval
from . import cost
from .abilities import ABILITIES, Abilities
from .binding import Binding, bindings
from .failure import explain
from .requirement import Requirement, Span
from .search import Found, by_cost, sized
from .timestamp_cost import StampSpec, memories, stamp_models
from .timestamped import StampFound, stamp_bindings, timestamped

POOL = 60
"""Cheapest shapes of a family among which alternatives are looked for."""

ALTERNATIVES = 3
"""Candidates of a family that are told of, if it is not said how many."""

FRONT = (1.0, 0.3, 0.1, 0.03, 0.01, 0.001)
"""Shares of the asked rate at which the front is drawn."""


@dataclass(frozen=True)
class Candidate:
    """A specification that meets the requirement.

    Attributes
    ----------
    spec : FilterSpec, WindowDictionarySpec or StampedPartsSpec
    cost : float
        Memories of 16 kbit; if only bits count, bits; on a device, the shares of its block RAMs and
        LUTs, added.
    worst_rate, mean_rate : float
        Expected false-positive rates, keys distinct: at the worst moment, and on average.
    bits : int
        With the spare; without, if sizes are any.
    memories : int or None
        Memories of 16 kbit that hold them; None if sizes are any.
    slack : float
        Insertions past the asked window after which no trace is left, in windows; with a span,
        ticks past it, in spans, while none passes without an insertion.
    accesses : float
        Segments that a query of a fresh key looks at one after another
        (APBF, section 5.4), at the worst moment; hardware looks at all at once. Of filters with
        timestamps, the cells.
    latency : int or None
        Clocks of the hardware; None if sizes are any.
    limit_mhz : float or None
        On a device: the highest clock that the vendor allows the unit.
    clock_share : float
        Share of the clocks in which an operation can be accepted, at least; of a dictionary, but
        for keys that always write one column.
    area : dict of str to int, or None
        On a device: ``bram``, and ``lut`` and ``ff`` as predicted.
    bindings : list of Binding
        Constraints that keep the next smaller filters from meeting the requirement.
    """

    spec: FilterSpec | StampSpec
    cost: float
    worst_rate: float
    mean_rate: float
    bits: int
    memories: int | None
    slack: float
    accesses: float
    latency: int | None
    limit_mhz: float | None
    area: dict[str, int] | None
    bindings: list[Binding]
    clock_share: float = 1.0

    @property
    def abilities(self) -> Abilities:
        """Abilities of its family."""
        return ABILITIES[self.spec.family]

    @property
    def most_operations(self) -> float | None:
        """On a device: operations per second at the highest clock that the vendor allows."""
        return self.limit_mhz and self.limit_mhz * 1e6 * self.clock_share

    @property
    def merits(self) -> tuple[float, ...]:
        """Figures of which less is better."""
        accesses = self.accesses if self.latency is None else self.latency
        # Entries that move take fewer block RAMs and more logic, of a lower clock.
        return (self.cost, self.slack, accesses, bool(getattr(self.spec, "moves", None)))

    def to_dict(self) -> dict[str, Any]:
        """Return what JSON can hold."""
        spec = self.spec
        return {
            "spec": spec.to_dict(),
            "cost": self.cost,
            "worst_false_positive_rate": self.worst_rate,
            "mean_false_positive_rate": self.mean_rate,
            "guaranteed_window": spec.guaranteed_window,
            "slack": self.slack,
            "bits": self.bits,
            "memories": self.memories,
            "accesses": self.accesses,
            "latency_clocks": self.latency,
            "limit_mhz": self.limit_mhz,
            "most_operations_per_second": self.most_operations,
            "area": self.area,
            **{name: getattr(self.abilities, name) for name in _ANSWERED},
            "binds": [asdict(binding) for binding in self.bindings],
        }


_ANSWERED = ("window_per_query", "exact_age", "remove")


@dataclass(frozen=True)
class Plan:
    """Filters that meet a requirement.

    Attributes
    ----------
    requirement : Requirement
    candidates : list of Candidate
        Cheapest first.
    front : list of Candidate
        The cheapest of each family at the asked rate and at lower ones, of
        which none is both dearer and worse than another of its family. Empty
        if it was not asked for.
    """

    requirement: Requirement
    candidates: list[Candidate]
    front: list[Candidate]

    @property
    def chosen(self) -> Candidate:
        """The cheapest."""
        return self.candidates[0]

    @property
    def stamped(self) -> bool:
        """Whether any of them has timestamps, and answers tell more than those of rings."""
        return any(not isinstance(one.spec, FilterSpec) for one in self.candidates)

    @property
    def errors(self) -> tuple[float, float]:
        """Largest relative errors of predicted LUTs and flip-flops, of these candidates."""
        found = [_errors(one.spec, self.requirement) for one in self.candidates]
        return max(lut for lut, _ in found), max(ff for _, ff in found)

    def to_dict(self) -> dict[str, Any]:
        """Return what JSON can hold."""
        asked = self.requirement
        return {
            "requirement": {
                "window": asked.window,
                "false_positive_rate": asked.false_positive_rate,
                "slack": asked.slack,
                "span": asked.span and _span(asked.span),
                **{name: getattr(asked, name) for name in _ANSWERED},
                "families": list(asked.families),
                "device": asked.device.name if asked.device else None,
                "any_size": asked.any_size,
                "bits_only": asked.bits_only,
            },
            "candidates": [candidate.to_dict() for candidate in self.candidates],
            "chosen": self.chosen.to_dict(),
            "front": [candidate.to_dict() for candidate in self.front],
        }


def _span(span: Span) -> dict[str, Any]:
    tick = float(span.tick)
    return {"ticks": span.ticks, "tick_seconds": tick, "when_full": span.when_full}


def plan(
    requirement: Requirement, *, front: bool = False, alternatives: int = ALTERNATIVES
) -> Plan:
    """Find the cheapest specifications that meet a requirement.

    Of a family there are at most as many `alternatives`: the cheapest, and dearer ones with less
    slack or latency (accesses, if sizes are any) than all before. The `front` tells what lower
    rates cost, too.

    Raises
    ------
    RequirementError
        If nothing in the space meets it; the message says what binds and what
        could be met.
    """
    candidates = []
    for family in requirement.able:
        pool = islice(_by_cost(family, requirement), POOL)
        candidates += _alternatives(pool, requirement, alternatives)
    if not candidates:
        raise explain(requirement)
    candidates.sort(key=lambda candidate: _order(candidate, requirement))
    return Plan(requirement, candidates, _front(requirement) if front else [])


def choose(requirement: Requirement) -> UnitSpec:
    """Return the cheapest specification that meets a requirement; errors as for `plan`."""
    found: list[Found | StampFound] = []
    for family in requirement.able:
        found += islice(_by_cost(family, requirement), 1)
    if not found:
        raise explain(requirement)
    return min(found, key=lambda one: _order(one, requirement)).spec


def _order(one: Found | StampFound | Candidate, requirement: Requirement) -> tuple[float, ...]:
    """Return the figures by which filters of different families are compared."""
    return one.cost, _bits(one.spec, requirement), _memories(one.spec)


def _bits(spec: FilterSpec | StampSpec, requirement: Requirement) -> int:
    if requirement.any_size and isinstance(spec, FilterSpec):
        return spec.memory_bits
    return spec.storage_bits


def _by_cost(family: str, requirement: Requirement) -> Iterable[Found | StampFound]:
    """Return what meets a requirement, cheapest first."""
    if family in requirement.rings:
        return by_cost(sized(family, requirement), requirement)
    return timestamped(family, requirement)


def _memories(spec: FilterSpec | StampSpec) -> int:
    return spec.segments * spec.parts if isinstance(spec, FilterSpec) else memories(spec)


def _alternatives(
    pool: Iterable[Found | StampFound], requirement: Requirement, count: int
) -> list[Candidate]:
    """Return the cheapest, and those that beat all cheaper ones in something else."""
    kept: list[Candidate] = []
    for found in pool:
        new = describe(found, requirement)
        if not any(_dominates(old, new) for old in kept):
            kept.append(new)
        if len(kept) == count:
            break
    return [replace(new, bindings=_bindings(new.spec, requirement)) for new in kept]


def _bindings(spec: FilterSpec | StampSpec, requirement: Requirement) -> list[Binding]:
    bind: Any = bindings if isinstance(spec, FilterSpec) else stamp_bindings
    found: list[Binding] = bind(spec, requirement)
    return found


def _dominates(old: Candidate, new: Candidate) -> bool:
    return all(a <= b for a, b in zip(old.merits, new.merits, strict=True))


def describe(found: Found | StampFound, requirement: Requirement) -> Candidate:
    """Return the figures of a specification, but for what binds it."""
    if isinstance(found, StampFound):
        return _describe_stamped(found, requirement)
    spec, device = found.spec, requirement.device
    area = None
    if device is not None:
        figures = cost.area(found.shapes, np.array([found.part_size]), device, spec.key_bits)
        area = _rounded(figures)
    fills = spec.segment_false_positive_rates(phase=1.0)
    return Candidate(
        spec=spec,
        cost=found.cost,
        worst_rate=spec.worst_false_positive_rate,
        mean_rate=spec.mean_false_positive_rate,
        bits=_bits(spec, requirement),
        memories=None if requirement.any_size else HardwareProfile(spec).block_rams,
        slack=_slack(spec),
        accesses=analysis.apbf_accesses(spec.run, spec.window_generations, "false", fills=fills),
        latency=None if requirement.any_size else HardwareProfile(spec).latency,
        limit_mhz=None if device is None else limit_mhz(device.name),
        area=area,
        bindings=[],
    )


def _describe_stamped(found: StampFound, requirement: Requirement) -> Candidate:
    spec, device = found.spec, requirement.device
    rest, accesses = 0, float(memories(spec))
    if isinstance(spec, StampedPartsSpec):
        fill = min(found.worst_rate ** (1 / spec.hashes), 1 - 1e-12)
        accesses = bloom_accesses(spec.hashes, "false", fill)
    if isinstance(spec, PartitionedTimingSpec) and not requirement.any_size:
        rest = rest_interval(spec)
    return Candidate(
        spec=spec,
        cost=found.cost,
        worst_rate=found.worst_rate,
        mean_rate=found.mean_rate,
        bits=_bits(spec, requirement),
        memories=None if requirement.any_size else unit_profile(spec).block_rams,
        slack=found.slack,
        accesses=accesses,
        latency=None if requirement.any_size else unit_profile(spec).latency,
        limit_mhz=None if device is None else limit_mhz(device.name),
        area=None if found.area is None else _rounded(found.area),
        bindings=[],
        clock_share=1 - 1 / rest if rest else 1.0,
    )


def _errors(spec: FilterSpec | StampSpec, requirement: Requirement) -> tuple[float, float]:
    device = requirement.device
    assert device is not None
    if isinstance(spec, FilterSpec):
        model = cost.models()[device.family]
    else:
        model = stamp_models()[device.family][spec.family]
    return model["lut_error"], model["ff_error"]


def _rounded(area: cost.Area) -> dict[str, int]:
    return {name: round(float(getattr(area, name)[0])) for name in ("bram", "lut", "ff")}


def _slack(spec: FilterSpec) -> float:
    if spec.timed:
        return spec.run * (spec.generation_span - 1) / spec.span
    return (spec.guaranteed_window + spec.slack) / spec.window - 1


def _front(requirement: Requirement) -> list[Candidate]:
    kept: dict[str, list[Candidate]] = {family: [] for family in requirement.able}
    for share in FRONT:
        lower = replace(requirement, false_positive_rate=requirement.false_positive_rate * share)
        for family, ones in kept.items():
            ones += [describe(one, requirement) for one in islice(_by_cost(family, lower), 1)]
    return [one for ones in kept.values() for one in _undominated(ones)]


def _undominated(ones: list[Candidate]) -> list[Candidate]:
    """Drop what another one beats in cost and rate, or equals."""
    kept: list[Candidate] = []
    for one in sorted(ones, key=lambda candidate: (candidate.cost, candidate.worst_rate)):
        if not kept or one.worst_rate < kept[-1].worst_rate:
            kept.append(one)
    return kept

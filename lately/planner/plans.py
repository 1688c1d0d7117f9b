"""The plan: candidates, the cheapest candidate, and why no smaller filter suffices."""

import json
import math
import operator
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

from ..golden.spec.base import import_families
from . import rings as rings
from . import stamped as stamped
from .failure import cheapest, explain
from .requirement import (
    PLANNER_FAMILIES,
    Binding,
    Found,
    PlannerFamily,
    Requirement,
    Span,
    unit_profile,
)
from .requirement import RequirementError as RequirementError

POOL = 60
"""Cheapest filters per family in the search for alternatives."""

ALTERNATIVES = 3
"""Candidates of a family that are listed by default."""

FRONT = (1.0, 0.3, 0.1, 0.03, 0.01, 0.001)
"""Fractions of the required rate at which the front is drawn."""

_ANSWERED = ("window_per_query", "exact_age", "remove")


@dataclass(frozen=True)
class Candidate:
    """A specification that meets the requirement."""

    spec: Any
    cost: int  # as in `Found`
    worst_rate: float  # expected false-positive rate for distinct keys at the worst moment
    mean_rate: float  # expected false-positive rate for distinct keys, on average
    bits: int  # bits of the hardware's memory, which has a spare segment if the filter is a ring
    memories: int | None
    """Memories of 16 kbit that hold the bits, or exact block RAMs of the device; None with
    `any_size`."""
    slack: float
    """Insertions past the required window after which no trace remains, in windows. With a span:
    ticks past the span, in spans, if every tick has an insertion."""
    accesses: float
    """Memories that a query of a fresh key reads one after another in the worst case; hardware
    reads all at once."""
    latency: int | None  # latency of the hardware in cycles; None with `any_size`
    # On a device: the highest clock frequency that the vendor allows the unit.
    limit_mhz: float | None
    # Constraints that keep the next smaller filters from meeting the requirement.
    bindings: list[Binding]
    cycle_share: float
    """Minimum share of cycles in which an operation can be accepted. For a dictionary, keys that
    always write the same column are excluded."""
    edges: tuple[int, int] | None  # as `lately.hdl.profile.Profile.edges`
    least_period: int  # as `lately.hdl.profile.Profile.least_period`

    @property
    def family(self) -> PlannerFamily:
        """Family of the filter."""
        return PLANNER_FAMILIES[self.spec.family]

    @property
    def most_operations(self) -> float | None:
        """On a device: operations per second at the highest clock that the vendor allows."""
        return self.limit_mhz and self.limit_mhz * 1e6 * self.cycle_share

    def to_dict(self) -> dict[str, Any]:
        """Return the content as values for JSON."""
        return {
            "spec": self.spec.to_dict(),
            "cost": self.cost,
            "worst_false_positive_rate": self.worst_rate,
            "mean_false_positive_rate": self.mean_rate,
            "guaranteed_window": self.spec.guaranteed_window,
            "reported_until": self.edges and self.edges[0],
            "forgotten_from": self.edges and self.edges[1],
            "slack": self.slack,
            "slack_above_window": self.slack > 1,
            "least_period_cycles": self.least_period,
            "bits": self.bits,
            "memories": self.memories,
            "accesses": self.accesses,
            "latency_cycles": self.latency,
            "limit_mhz": self.limit_mhz,
            "most_operations_per_second": self.most_operations,
            **{name: getattr(self.family, name) for name in _ANSWERED},
            "binds": [asdict(binding) for binding in self.bindings],
        }


@dataclass(frozen=True)
class Plan:
    """Filters that meet a requirement."""

    requirement: Requirement
    candidates: list[Candidate]  # cheapest first
    front: list[Candidate]
    """The cheapest filters of each family at the required rate and at lower rates, without those
    that another filter of the family beats in cost and rate. Empty by default."""

    @property
    def chosen(self) -> Candidate:
        """The cheapest candidate."""
        return self.candidates[0]

    @property
    def nearest(self) -> dict[str, Any] | None:
        """Measured figures of the unit that is most like the chosen filter; None for golden models.

        It is of the same family, if possible on the same kind of device, and nearest in bits.
        """
        spec, device = self.chosen.spec, self.requirement.device
        same = [one for one in measured() if one["family"] == spec.family]
        if self.requirement.any_size or not same:
            return None

        def distance(one: dict[str, Any]) -> tuple[Any, ...]:
            elsewhere = device is not None and one["device_family"] != device.family
            traits = one["timed"] != spec.timed, one["moves"] != bool(getattr(spec, "moves", None))
            return elsewhere, *traits, abs(math.log(one["bits"] / spec.storage_bits))

        return min(same, key=distance)

    @property
    def shows_answers(self) -> bool:
        """Whether the answers of some candidates have a form that not every family has."""
        return any(one.family.answers != PlannerFamily.answers for one in self.candidates)

    def to_dict(self) -> dict[str, Any]:
        """Return the content as values for JSON."""
        required = self.requirement
        return {
            "requirement": {
                "window": required.window,
                "false_positive_rate": required.false_positive_rate,
                "slack": required.slack,
                "span": required.span and _span(required.span),
                **{name: getattr(required, name) for name in _ANSWERED},
                "families": list(required.families),
                "device": required.device.name if required.device else None,
                "most_bits": required.most_bits,
                "most_block_rams": required.most_block_rams,
                "any_size": required.any_size,
                "bits_only": required.bits_only,
            },
            "candidates": [candidate.to_dict() for candidate in self.candidates],
            "chosen": self.chosen.to_dict(),
            "front": [candidate.to_dict() for candidate in self.front],
            "nearest_measured": self.nearest,
        }


@cache
def measured() -> list[dict[str, Any]]:
    """Return the figures of placed units, which `campaigns.pages` writes from its results."""
    text = Path(__file__).with_name("measured.json").read_text("utf-8")
    return list(json.loads(text))


def _span(span: Span) -> dict[str, Any]:
    tick = float(span.tick)
    return {"ticks": span.ticks, "tick_seconds": tick, "when_full": span.when_full}


def plan(
    requirement: Requirement, *, front: bool = False, alternatives: int = ALTERNATIVES
) -> Plan:
    """Find the cheapest specifications that meet a requirement.

    Each family has at most `alternatives` candidates: the cheapest, and costlier ones with less
    slack or latency than all cheaper ones; with `any_size`, accesses replace latency. If there are
    none, a `RequirementError` names the binding constraint and a requirement that can be met.
    """
    candidates = []
    for family in requirement.able:
        pool = islice(family.search(requirement), POOL)
        candidates += _alternatives(pool, requirement, alternatives)
    if not candidates:
        raise explain(requirement)
    candidates.sort(key=lambda candidate: _order(candidate, requirement))
    return Plan(requirement, candidates, _front(requirement) if front else [])


def choose(requirement: Requirement) -> Any:
    """Return the cheapest specification that meets a requirement; errors as for `plan`."""
    found = cheapest(requirement)
    if not found:
        raise explain(requirement)
    return min(found, key=lambda one: _order(one, requirement)).spec


def _order(one: Found | Candidate, requirement: Requirement) -> tuple[float, ...]:
    """Return the figures that order filters of different families."""
    family = PLANNER_FAMILIES[one.spec.family]
    return one.cost, one.spec.storage_bits, family.memories(one.spec)


def _alternatives(pool: Iterable[Found], requirement: Requirement, count: int) -> list[Candidate]:
    """Return the cheapest filter, and filters that beat all cheaper ones in another figure."""
    kept: list[tuple[tuple[float, ...], Found]] = []
    for found in pool:
        merits = _merits(found, requirement)
        if not any(all(map(operator.le, old, merits)) for old, _ in kept):
            kept.append((merits, found))
        if len(kept) == count:
            break
    candidates = [describe(found, requirement) for _, found in kept]
    return [replace(new, bindings=new.family.bindings(new.spec, requirement)) for new in candidates]


def _merits(found: Found, requirement: Requirement) -> tuple[float, ...]:
    """Return figures to minimise."""
    spec, family = found.spec, PLANNER_FAMILIES[found.spec.family]
    slack = family.slack(spec, requirement)
    any_size = requirement.any_size
    steps = family.accesses(spec, requirement) if any_size else unit_profile(spec).latency
    # With moves, a dictionary takes fewer block RAMs and more logic, at a lower clock frequency.
    return found.cost, slack, steps, bool(getattr(spec, "moves", None))


def describe(found: Found, requirement: Requirement) -> Candidate:
    """Return the figures of a specification, without its binding constraints."""
    spec, device = found.spec, requirement.device
    family = PLANNER_FAMILIES[spec.family]
    worst, mean = family.rates(spec, requirement)
    unit = unit_profile(spec)
    profile = None if requirement.any_size else unit
    return Candidate(
        spec=spec,
        cost=found.cost,
        worst_rate=worst,
        mean_rate=mean,
        bits=spec.storage_bits,
        memories=None if profile is None else family.block_rams(spec, device),
        slack=family.slack(spec, requirement),
        accesses=family.accesses(spec, requirement),
        latency=None if profile is None else profile.latency,
        limit_mhz=None if device is None else device.limit_mhz,
        bindings=[],
        cycle_share=1.0 if profile is None else family.cycle_share(spec),
        edges=unit.edges,
        least_period=unit.least_period,
    )


def _front(requirement: Requirement) -> list[Candidate]:
    kept: dict[str, list[Candidate]] = {family.name: [] for family in requirement.able}
    for share in FRONT:
        lower = replace(requirement, false_positive_rate=requirement.false_positive_rate * share)
        for family, ones in kept.items():
            cheapest = islice(PLANNER_FAMILIES[family].search(lower), 1)
            ones += [describe(one, requirement) for one in cheapest]
    return [one for ones in kept.values() for one in _undominated(ones)]


def _undominated(ones: list[Candidate]) -> list[Candidate]:
    """Drop candidates that another one beats in cost and rate, or equals."""
    kept: list[Candidate] = []
    for one in sorted(ones, key=lambda candidate: (candidate.cost, candidate.worst_rate)):
        if not kept or one.worst_rate < kept[-1].worst_rate:
            kept.append(one)
    return kept


import_families()

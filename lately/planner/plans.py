"""Find the cheapest filters that meet a requirement, or the reason why none does."""

import json
import math
import operator
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from itertools import islice
from pathlib import Path
from typing import Any

from ..golden.durations import time_text
from ..golden.spec.base import import_families
from ..golden.times import TIME_LIMIT
from . import rings as rings
from . import stamped as stamped
from .requirement import (
    MAX_WINDOW,
    OPTIONS,
    PLANNER_FAMILIES,
    USELESS,
    Binding,
    PlannerFamily,
    PricedSpec,
    Requirement,
    RequirementError,
    unit_profile,
)

POOL = 60  # number of cheapest filters per family among which alternatives are sought
ALTERNATIVES = 3  # default number of candidates listed per family

# Fractions of the required rate for which the Pareto front is computed.
FRONT = (1.0, 0.3, 0.1, 0.03, 0.01, 0.001)
_ABILITIES = ("window_per_query", "exact_age", "remove")


@dataclass(frozen=True)
class Candidate:
    """A specification that meets the requirement."""

    spec: Any
    cost: int  # see `PricedSpec`
    worst_rate: float  # expected false-positive rate, for distinct keys, at its worst
    mean_rate: float  # expected false-positive rate, for distinct keys, on average
    bits: int  # memory bits in hardware, where a ring has a spare segment
    # 16-kbit memories that hold the bits, or the exact block RAMs of the device; None if any_size.
    memories: int | None
    slack: float  # see `Requirement`; with a span, if every tick has an insertion
    accesses: float  # maximum number of sequential memory reads for a new key in software
    latency: int | None  # hardware latency in cycles; None if any_size
    limit_mhz: float | None  # maximum clock that the vendor allows for the unit on the device
    bindings: list[Binding]  # why the next smaller filters fail the requirement
    cycle_share: float  # minimum fraction of cycles in which an operation is accepted
    edges: tuple[int, int] | None  # see `lately.hdl.profile.Profile.edges`
    min_period: int  # see `lately.hdl.profile.Profile.min_period`

    @property
    def family(self) -> PlannerFamily:
        return PLANNER_FAMILIES[self.spec.family]

    @property
    def max_operations(self) -> float | None:
        """The operations per second at the vendor's maximum clock, or None if it is unknown."""
        return self.limit_mhz and self.limit_mhz * 1e6 * self.cycle_share

    def to_dict(self) -> dict[str, Any]:
        return {
            "spec": self.spec.to_dict(), "cost": self.cost,
            "worst_false_positive_rate": self.worst_rate,
            "mean_false_positive_rate": self.mean_rate,
            "guaranteed_window": self.spec.guaranteed_window,
            "reported_until": self.edges and self.edges[0],
            "forgotten_from": self.edges and self.edges[1], "slack": self.slack,
            "slack_above_window": self.slack > 1, "least_period_cycles": self.min_period,
            "bits": self.bits, "memories": self.memories, "accesses": self.accesses,
            "latency_cycles": self.latency, "limit_mhz": self.limit_mhz,
            "most_operations_per_second": self.max_operations,
            **{name: getattr(self.family, name) for name in _ABILITIES},
            "binds": [asdict(binding) for binding in self.bindings],
        }  # fmt: skip


@dataclass(frozen=True)
class Plan:
    """Filters that meet a requirement."""

    requirement: Requirement
    candidates: list[Candidate]  # cheapest first
    front: list[Candidate]  # Pareto front of cost and rate for each family; empty by default

    @property
    def chosen(self) -> Candidate:
        return self.candidates[0]

    @property
    def nearest(self) -> dict[str, Any] | None:
        """The measured area and clock of the unit most similar to the chosen filter, or None."""
        spec, device = self.chosen.spec, self.requirement.device
        units = json.loads(Path(__file__).with_name("measured.json").read_text("utf-8"))
        same = [unit for unit in units if unit["family"] == spec.family]
        if self.requirement.any_size or not same:
            return None

        def distance(unit: dict[str, Any]) -> tuple[Any, ...]:
            elsewhere = device is not None and unit["device_family"] != device.family
            moves = bool(getattr(spec, "moves", None))
            traits = unit["timed"] != spec.timed, unit["moves"] != moves
            return elsewhere, *traits, abs(math.log(unit["bits"] / spec.storage_bits))

        return min(same, key=distance)

    @property
    def shows_answers(self) -> bool:
        return any(each.family.answers != PlannerFamily.answers for each in self.candidates)

    def to_dict(self) -> dict[str, Any]:
        required, span = self.requirement, self.requirement.span
        return {
            "requirement": {
                "window": required.window,
                "false_positive_rate": required.false_positive_rate,
                "slack": required.slack,
                "span": span and span.to_dict(),
                **{name: getattr(required, name) for name in _ABILITIES},
                "families": list(required.families),
                "device": required.device.name if required.device else None,
                "most_bits": required.max_bits,
                "most_block_rams": required.max_block_rams,
                "any_size": required.any_size,
                "bits_only": required.bits_only,
            },
            "candidates": [candidate.to_dict() for candidate in self.candidates],
            "chosen": self.chosen.to_dict(),
            "front": [candidate.to_dict() for candidate in self.front],
            "nearest_measured": self.nearest,
        }


def plan(
    requirement: Requirement, *, front: bool = False, alternatives: int = ALTERNATIVES
) -> Plan:
    """Find the cheapest specifications that meet a requirement.

    Each family has at most `alternatives` candidates: the cheapest filter, and costlier filters
    with less slack or latency than all cheaper ones. If there are none, a `RequirementError` states
    the binding constraint and a requirement that can be met.
    """
    candidates = []
    for family in requirement.able:
        pool = islice(family.search(requirement), POOL)
        candidates += _alternatives(pool, requirement, alternatives)
    if not candidates:
        raise RequirementError(_reason(requirement))
    candidates.sort(key=_order)
    return Plan(requirement, candidates, _front(requirement) if front else [])


def choose(requirement: Requirement) -> Any:
    """Return the cheapest specification for a requirement. Raises the same errors as `plan`."""
    priced = cheapest(requirement)
    if not priced:
        raise RequirementError(_reason(requirement))
    return min(priced, key=_order).spec


def cheapest(requirement: Requirement, count: int = 1) -> list[PricedSpec]:
    searches = (family.search(requirement) for family in requirement.able)
    return [priced for search in searches for priced in islice(search, count)]


def _order(priced: PricedSpec | Candidate) -> tuple[float, ...]:
    family = PLANNER_FAMILIES[priced.spec.family]
    return priced.cost, priced.spec.storage_bits, family.memories(priced.spec)


def _alternatives(
    pool: Iterable[PricedSpec], requirement: Requirement, count: int
) -> list[Candidate]:
    """Return the cheapest filter, and costlier ones with less slack, lower latency or no moves."""
    kept: list[tuple[tuple[float, ...], PricedSpec]] = []
    for priced in pool:
        spec, family = priced.spec, PLANNER_FAMILIES[priced.spec.family]
        any_size = requirement.any_size
        steps = family.accesses(spec, requirement) if any_size else unit_profile(spec).latency
        # Moves save block RAMs, but use more logic at a lower clock frequency.
        moves = bool(getattr(spec, "moves", None))
        merits = priced.cost, family.slack(spec, requirement), steps, moves
        if not any(all(map(operator.le, old, merits)) for old, _ in kept):
            kept.append((merits, priced))
        if len(kept) == count:
            break
    candidates = [describe(priced, requirement) for _, priced in kept]
    return [replace(new, bindings=new.family.bindings(new.spec, requirement)) for new in candidates]


def describe(priced: PricedSpec, requirement: Requirement) -> Candidate:
    spec, device = priced.spec, requirement.device
    family = PLANNER_FAMILIES[spec.family]
    worst, mean = family.rates(spec, requirement)
    unit = unit_profile(spec)
    profile = None if requirement.any_size else unit
    return Candidate(
        spec=spec, cost=priced.cost, worst_rate=worst, mean_rate=mean, bits=spec.storage_bits,
        memories=None if profile is None else family.block_rams(spec, device),
        slack=family.slack(spec, requirement), accesses=family.accesses(spec, requirement),
        latency=None if profile is None else profile.latency,
        limit_mhz=None if device is None else device.limit_mhz, bindings=[],
        cycle_share=1.0 if profile is None else family.cycle_share(spec), edges=unit.edges,
        min_period=unit.min_period,
    )  # fmt: skip


def _front(requirement: Requirement) -> list[Candidate]:
    front = []
    for family in requirement.able:
        candidates = []
        for fraction in FRONT:
            rate = requirement.false_positive_rate * fraction
            cheapest = islice(family.search(replace(requirement, false_positive_rate=rate)), 1)
            candidates += [describe(priced, requirement) for priced in cheapest]
        best = math.inf
        for candidate in sorted(candidates, key=lambda each: (each.cost, each.worst_rate)):
            if candidate.worst_rate < best:
                front.append(candidate)
                best = candidate.worst_rate
    return front


def within_limits(requirement: Requirement, *, window: bool) -> Requirement:
    """Lower the rate, or increase the window if `window` is set, as far as the limits permit."""
    if requirement.max_bits is not None and requirement.device is None:
        requirement = replace(requirement, bits_only=not requirement.any_size)
    if window:
        largest = largest_window(replace(requirement, window=MAX_WINDOW), digits=3)
        if largest is not None:
            return replace(requirement, window=largest)
        wanted = f"rate of {requirement.false_positive_rate:g}"
    else:
        lowest = _lowest_rate(requirement)
        if lowest is not None:
            return replace(requirement, false_positive_rate=lowest)
        wanted = requirement.window_text()
    option, limit = next(iter(requirement.limits.items()))
    device = f" on {requirement.device.name}" if requirement.device else ""
    raise RequirementError(
        f"{option}: {limit:,} is too few for {_filters(requirement)} with a {wanted}{device}"
    )


def largest_window(requirement: Requirement, digits: int = 2) -> int | None:
    """Return the largest feasible window below the required one, to `digits` digits, or None."""
    first = 10 ** (digits - 1)
    windows = [*range(2, first), *(d * 10**e for e in range(10) for d in range(first, 10 * first))]
    windows = [window for window in windows if window < requirement.window]

    def is_unmet(window: int) -> bool:
        return not cheapest(replace(requirement, window=window))

    count = bisect_left(windows, True, key=is_unmet)
    return windows[count - 1] if count else None


def _lowest_rate(requirement: Requirement) -> float | None:
    rates = [family.lowest_rate(requirement) for family in requirement.able]
    return min((rate for rate in rates if rate is not None and rate < USELESS), default=None)


def _reason(requirement: Requirement) -> str:
    if not requirement.able:
        unit = "insertions" if requirement.span is None else "time"
        options = (OPTIONS[name] for name in requirement.special)
        wanted = " and ".join([f"a window in {unit}", *options])
        able = replace(requirement, families=tuple(PLANNER_FAMILIES)).able
        families = " or ".join(requirement.families)
        if not able:
            return f"span: no family has {wanted}"
        return f"family: must be {_names(able)} for {wanted}, not {families}"
    slacks = [family.min_slack(requirement) for family in requirement.able]
    slack = min((slack for slack in slacks if slack is not None), default=None)
    if slack is None:
        return f"window: must be at least 2 insertions for hardware, not {requirement.window}"
    if requirement.slack is not None and slack > requirement.slack:
        return (
            f"slack: must be at least {_rounded_up(slack)} for {_filters(requirement)} with a "
            f"{requirement.window_text()}, not {requirement.slack:g}"
        )
    lowest = _lowest_rate(replace(requirement, device=None))
    if requirement.device is None or lowest is None or lowest > requirement.false_positive_rate:
        bound = "" if requirement.slack is None else f" and a slack of {requirement.slack:g}"
        limits = [] if requirement.any_size else [family.limit for family in requirement.able]
        limit = next((f", {limit}" for limit in limits if limit), "")
        filters = f"{_filters(requirement)} with a {requirement.window_text()}{bound}{limit}"
        if lowest is None:
            return f"fpr: {filters} cannot reach any rate below {USELESS}"
        rate = requirement.false_positive_rate
        return f"fpr: must be at least {_rounded_up(lowest)} for {filters}, not {rate:g}"
    return _short_tick(requirement) or _small_device(requirement)


def _short_tick(requirement: Requirement) -> str | None:
    """Return an error message if a filter fits the device but needs longer ticks, else None."""
    span, device = requirement.span, requirement.device
    if span is None or device is None or device.limit_mhz is None:
        return None
    fit = cheapest(replace(requirement, span=replace(span, tick=Fraction(TIME_LIMIT))), POOL)
    if not fit:
        return None
    cycles = min(unit_profile(priced.spec).min_period for priced in fit)
    tick = Fraction(cycles) / Fraction(device.limit_mhz * 1e6)
    return (
        f"tick: must be at least {time_text(tick)} ({cycles} clock cycles) on {device.name}, "
        f"not {time_text(span.tick)}"
    )


def _small_device(requirement: Requirement) -> str:
    from ..boards.flow.devices import DEVICES

    device = requirement.device
    assert device is not None
    unfit = cheapest(replace(requirement, device=replace(device, bram=1 << 62)))
    if unfit:
        best = min(unfit, key=lambda priced: priced.cost)
        family, count = best.spec.family, f"{best.cost:,} block RAMs, but {device.bram:,} exist"
        needed = f"the cheapest filter, of family {family}, needs {count}"
    else:
        specs = [priced.spec for priced in cheapest(replace(requirement, device=None))]
        families = [PLANNER_FAMILIES[spec.family] for spec in specs]
        pairs = list(zip(families, specs, strict=True))
        known = {
            other.family for other in DEVICES.values()
            if any(family.is_counted(spec, other) for family, spec in pairs)
        }  # fmt: skip
        if device.family not in known:
            return (
                f"device: must be of family {' or '.join(sorted(known))} for "
                f"{_filters(requirement)}, whose block RAM count is known only for these, "
                f"not {device.name}"
            )
        needed = "a filter would need more block RAMs than a unit can use"
    window, lowest = largest_window(requirement), _lowest_rate(requirement)
    possible = [] if window is None else [f"a window of {window:,} at this rate"]
    if lowest is not None:
        possible.append(f"this window at a rate of {_rounded_up(lowest)}")
    nearest = " or ".join(possible) or "no window with this slack"
    wanted = requirement.text().split(" on ")[0]
    return f"device: {device.name} cannot hold a {wanted}: {needed}; it can hold {nearest}"


def _filters(requirement: Requirement) -> str:
    kind = "" if requirement.any_size else "buildable "
    return f"a {kind}filter of family {_names(requirement.able)}"


def _names(families: tuple[PlannerFamily, ...]) -> str:
    return " or ".join(family.name for family in families)


def _rounded_up(value: float) -> str:
    text = f"{value:.3g}"
    return text if float(text) >= value else f"{value * 1.005:.3g}"


import_families()

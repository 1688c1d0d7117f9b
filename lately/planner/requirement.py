"""Requirements for filters, and the planner's interface to each family."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

from ..golden.durations import NANOSECONDS, default_tick, span_ticks, time_text
from ..golden.errors import LatelyError, SpecificationError
from ..golden.spec.ring import WHEN_FULL
from ..golden.times import TIME_LIMIT

if TYPE_CHECKING:
    from ..boards.flow.devices import Device
    from ..hdl.profile import Profile


class RequirementError(LatelyError, ValueError):
    """A requirement is out of range, or no filter meets it."""


MAX_KEY_BITS = 4096
MAX_WINDOW = 1 << 32  # insertions
USELESS = 0.5  # filters with this rate or a higher one are not offered
SLACK_IN_TIME = 1.0  # default slack limit with a span

# Optional abilities of families: attribute of `PlannerFamily`, and its text.
OPTIONS: Mapping[str, str] = {
    "exact_window": "a slack of 0",
    "window_per_query": "a window for each query",
    "exact_age": "exact ages",
    "remove": "removal",
}


@dataclass(frozen=True, kw_only=True)
class Span:
    """A time window in ticks."""

    ticks: int  # span in ticks, see `lately.golden.durations.span_ticks`
    tick: Fraction  # length of a tick in seconds
    when_full: str = WHEN_FULL[0]  # one of `lately.golden.spec.ring.WHEN_FULL`

    def __post_init__(self) -> None:
        _require(self.when_full in WHEN_FULL, "when-full", " or ".join(WHEN_FULL), self.when_full)
        tick = f"{float(self.tick):g} s"
        _require(self.tick > 0, "tick", "a time above 0", tick)
        _require(self.ticks < TIME_LIMIT, "tick", "at least the span divided by 2**62", tick)

    @classmethod
    def of(
        cls, seconds: Fraction, tick: Fraction | None = None, *, when_full: str = WHEN_FULL[0]
    ) -> Self:
        if tick is None:
            tick = Fraction(default_tick(seconds * NANOSECONDS), NANOSECONDS)
        return cls(ticks=span_ticks(seconds, tick), tick=tick, when_full=when_full)

    def keys(self, rate: float) -> int:
        """Return the maximum number of keys within the span, at `rate` keys per second."""
        _require(0 < rate < math.inf, "rate", "above 0 keys per second", f"{rate:g}")
        return math.ceil((self.ticks + 1) * self.tick * Fraction(str(rate)))

    def to_dict(self) -> dict[str, Any]:
        seconds = float(self.tick)
        return {"ticks": self.ticks, "tick_seconds": seconds, "when_full": self.when_full}


@dataclass(frozen=True, kw_only=True)
class Requirement:
    """Requirements for a filter; a value out of range raises a `RequirementError`.

    With slack F, a key is forgotten after at most (1 + F) N insertions or, for a time window, after
    at most 1 + F spans, provided that every span has an insertion. Apart from rounding to whole
    generations, F is k/l for an APBF (section 5.2) and 1/r for a GEBF (proposition 1).
    """

    # N: the keys of the last N insertions must be reported. With `span`: maximum keys within it.
    window: int
    # P: limit for the expected rate at the worst point of a generation, with distinct keys.
    false_positive_rate: float
    # F: limit for the slack, in windows. With 0, a key is forgotten when its window ends.
    slack: float | None = None
    span: Span | None = None  # time for which a key must be reported, instead of insertions
    window_per_query: bool = False  # whether each query must be able to choose a shorter window
    exact_age: bool = False  # whether answers must contain the exact age in insertions
    remove: bool = False  # whether keys must be removable
    families: tuple[str, ...] = field(default_factory=lambda: tuple(PLANNER_FAMILIES))
    device: "Device | None" = None  # device that the filter must fit
    max_bits: int | None = None  # limit for the bits of memory
    max_block_rams: int | None = None  # limit for the block RAMs of `device`, else 16-kbit memories
    any_size: bool = False  # whether sizes that exist only as golden models are permitted
    bits_only: bool = False  # whether the cost is the number of bits, not of 16-kbit memories
    key_bits: int = 64  # width of a key in bits
    seed: int = 0  # selects the hash functions

    def __post_init__(self) -> None:
        window, rate, slack = self.window, self.false_positive_rate, self.slack
        _require(1 <= window <= MAX_WINDOW, "window", "between 1 and 2**32 insertions", window)
        _require(0 < rate < 1, "fpr", "above 0 and below 1", f"{rate:g}")
        is_fraction = slack is None or 0 <= slack < math.inf
        _require(is_fraction, "slack", "a fraction of the window, 0 or more", f"{slack or 0:g}")
        for family in self.families:
            known = ", ".join(PLANNER_FAMILIES)
            _require(family in PLANNER_FAMILIES, "family", f"one of {known}", family)
        if not self.families:
            raise RequirementError("give at least one family")
        pairs = ("device any_size", "device bits_only", "max_block_rams any_size")
        for name, other in map(str.split, pairs):
            if getattr(self, name) is not None and getattr(self, other):
                raise RequirementError(f"{name} cannot be combined with {other}")
        for option, limit in self.limits.items():
            _require(limit >= 1, option, "at least 1", limit)
        rule = f"between 1 and {MAX_KEY_BITS}"
        _require(1 <= self.key_bits <= MAX_KEY_BITS, "key-bits", rule, self.key_bits)
        if self.span is not None and slack is None:
            object.__setattr__(self, "slack", SLACK_IN_TIME)

    @property
    def counts_bits(self) -> bool:
        return self.bits_only or self.any_size

    @property
    def limits(self) -> dict[str, int]:
        both = {"bits": self.max_bits, "block-rams": self.max_block_rams}
        return {option: limit for option, limit in both.items() if limit is not None}

    @property
    def max_memories(self) -> int | None:
        """The maximum number of block RAMs or of 16-kbit memories, or None if unlimited."""
        limits = [self.max_block_rams, None if self.device is None else self.device.bram]
        return min((limit for limit in limits if limit is not None), default=None)

    @property
    def able(self) -> "tuple[PlannerFamily, ...]":
        unit = "insertions" if self.span is None else "time"
        return tuple(
            family
            for family in (PLANNER_FAMILIES[name] for name in self.families)
            if unit in family.counts and all(getattr(family, name) for name in self.special)
        )

    @property
    def special(self) -> tuple[str, ...]:
        wanted = {"exact_window": self.slack == 0}
        return tuple(name for name in OPTIONS if wanted.get(name) or getattr(self, name, False))

    @property
    def longest_trace(self) -> int | None:
        """The number of insertions after which a key must be forgotten, or None if unlimited."""
        if self.slack is None or self.span is not None:
            return None
        return math.floor((1 + Fraction(str(self.slack))) * self.window)

    def text(self) -> str:
        unit = "window" if self.span is None else "span"
        slack = "" if self.slack is None else f", slack of at most {self.slack:g} of the {unit}"
        if self.slack == 0:
            slack = ", no slack"
        special = "".join(f", {OPTIONS[name]}" for name in self.special if name != "exact_window")
        units = {"bits": "bits", "block-rams": "block RAMs"}
        limits = "".join(f", at most {limit:,} {units[key]}" for key, limit in self.limits.items())
        device = f" on {self.device.name}" if self.device else ""
        rate = f"{self.false_positive_rate:.3g}"
        return f"{self.window_text()} at {rate}{slack}{special}{limits}{device}"

    def window_text(self) -> str:
        if self.span is None:
            return f"window of {self.window:,}"
        span = f"{self.span.ticks:,} ticks of {time_text(self.span.tick)}"
        return f"span of {span} with at most {self.window:,} keys"


def _require(condition: bool, name: str, rule: str, value: object) -> None:
    if not condition:
        raise RequirementError(f"{name}: must be {rule}, not {value}")


def distinct(families: Sequence[str]) -> tuple[str, ...]:
    """Return the given families, or all if none is given, in standard order without duplicates."""
    known = tuple(f for f in PLANNER_FAMILIES if f in families or not families)
    return known + tuple(f for f in families if f not in PLANNER_FAMILIES)


@dataclass(frozen=True)
class Binding:
    """A constraint that rules out the next smaller value of a field."""

    field: str  # the parameter made smaller: a specification field, or ``cells``
    value: int
    constraint: str  # one of `CONSTRAINTS`
    reached: float  # value that the smaller filter reaches

    def __str__(self) -> str:
        # Four digits, so that a value just above a round limit is visible.
        rate = f"{100 * self.reached:.4g}%" if self.reached >= 1e-4 else f"{self.reached:.3e}"
        text = CONSTRAINTS[self.constraint].format(rate=rate, reached=self.reached)
        return f"{self.field} {self.value:,}: {text}"


CONSTRAINTS: Mapping[str, str] = {
    # Values reached: rate, slack in windows, bits to zero per cycle.
    "rate": "rate {rate}",
    "slack": "slack {reached:.3g}",
    "clearing": "segments are not cleared in time",
    # Mean number of stash entries, fraction of insertions without a free cell, cycles per access.
    "stash": "{reached:.3g} entries in the stash on average",
    "moves": "{rate} of insertions find no free cell",
    "sweep": "cells are not swept in time",
}


class PricedSpec(NamedTuple):
    """A specification that meets a requirement, and its cost."""

    spec: Any
    cost: int  # block RAMs of the device, else 16-kbit memories; bits if `bits_only`


class PlannerFamily:
    """Plans the filters of a family; subclasses implement `specs` and `rates`."""

    exact_window: ClassVar[bool] = False  # a key can be forgotten exactly when its window ends
    window_per_query: ClassVar[bool] = False  # each query has its own window
    exact_age: ClassVar[bool] = False  # answers contain the exact age in insertions
    remove: ClassVar[bool] = False  # keys can be removed
    counts: ClassVar[tuple[str, ...]] = ("insertions", "time")  # units of its windows
    answers: ClassVar[str] = "age in generations"  # kind of answers, in short
    limit: ClassVar[str] = ""  # reason why the rate cannot be lower in hardware

    def __init__(self, name: str) -> None:
        self.name = name

    def specs(self, requirement: Requirement) -> Iterable[Any]:
        raise NotImplementedError

    def rates(self, spec: Any, requirement: Requirement) -> tuple[float, float]:
        """Return the worst and the mean expected false-positive rate for distinct keys."""
        raise NotImplementedError

    def slack(self, spec: Any, requirement: Requirement) -> float:
        return 0.0

    def memories(self, spec: Any) -> int:
        return 1

    def accesses(self, spec: Any, requirement: Requirement) -> float:
        """Return the number of sequential memory reads for a new key in software."""
        return float(self.memories(spec))

    def cycle_share(self, spec: Any) -> float:
        return 1.0

    def bindings(self, spec: Any, requirement: Requirement) -> list[Binding]:
        return []

    def block_rams(self, spec: Any, device: "Device | None") -> int:
        """Return the exact number of block RAMs or, without a device, of 16-kbit memories."""
        if device is None:
            return unit_profile(spec).block_rams
        from ..boards.flow.inference import unit_blocks

        return unit_blocks(spec, device)

    def is_counted(self, spec: Any, device: "Device") -> bool:
        from ..boards.flow.inference import is_exact

        return is_exact(spec, device.family)

    def cost(self, spec: Any, requirement: Requirement) -> int:
        bits: int = spec.storage_bits
        return bits if requirement.counts_bits else self.block_rams(spec, requirement.device)

    def is_permitted(self, spec: Any, requirement: Requirement) -> bool:
        max_bits, max_memories = requirement.max_bits, requirement.max_memories
        device = requirement.device
        return (
            (max_bits is None or spec.storage_bits <= max_bits)
            and (max_memories is None or self.block_rams(spec, device) <= max_memories)
            and (device is None or self.is_counted(spec, device))
            and is_buildable(spec, requirement)
        )

    def search(self, requirement: Requirement) -> Iterator[PricedSpec]:
        """Yield the filters that meet a requirement, cheapest first."""
        ranked = []
        for spec in self.specs(requirement):
            if self.is_permitted(spec, requirement):
                cost, worst = self.cost(spec, requirement), self.rates(spec, requirement)[0]
                ranked.append(((cost, spec.storage_bits, self.memories(spec), worst), spec))
        ranked.sort(key=lambda entry: entry[0])
        yield from (PricedSpec(spec, rank[0]) for rank, spec in ranked)

    def lowest_rate(self, requirement: Requirement) -> float | None:
        low, high, best = 0, 3000, None  # tenths of a decade
        while high - low > 1:
            middle = (low + high) // 2
            lower = replace(requirement, false_positive_rate=10.0 ** (-middle / 10))
            rates = [self.rates(priced.spec, lower)[0] for priced in self.search(lower)]
            low, high, best = (middle, high, min(rates)) if rates else (low, middle, best)
        return best

    def min_slack(self, requirement: Requirement) -> float | None:
        """Return the minimum slack at the required window, or None if no filter has this window."""
        return 0.0


def is_buildable(spec: Any, requirement: Requirement) -> bool:
    """Return whether hardware for the filter exists and meets its timing on the device."""
    if requirement.any_size:
        return True
    profile = unit_profile(spec, requirement.device)
    try:
        profile.check_buildable()
    except SpecificationError:
        return False
    return is_in_time(spec, requirement)


def is_in_time(spec: Any, requirement: Requirement) -> bool:
    span, device = requirement.span, requirement.device
    if span is None or device is None or device.limit_mhz is None:
        return True
    period = unit_profile(spec, device).min_period
    return period <= span.tick * Fraction(device.limit_mhz * 1e6)


def unit_profile(spec: Any, device: "Device | None" = None) -> "Profile":
    # Imported here, because a requirement alone needs no hardware.
    from ..boards.flow.devices import device_memory
    from ..hdl.build import unit_profile as profile

    return profile(spec) if device is None else profile(spec, memory=device_memory(device, spec))


PLANNER_FAMILIES: dict[str, PlannerFamily] = {}

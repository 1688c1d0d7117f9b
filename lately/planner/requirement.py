"""Requirements of a filter."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Self

from ..boards.flow.devices import Device
from ..durations import NANOSECONDS, default_tick, span_ticks, time_text
from ..golden import FAMILIES
from ..golden.errors import LatelyError
from ..golden.spec.span import WHEN_FULL
from ..golden.times import TIME_LIMIT
from .abilities import ABILITIES, OPTIONS


class RequirementError(LatelyError, ValueError):
    """A requirement is out of range, or nothing meets it; the message says what binds."""


MOST_KEY_BITS = 4096
"""Width of a key, at most."""

LARGEST_WINDOW = 1 << 32
"""In insertions."""

SLACK_IN_TIME = 1.0
"""Bound of the slack of a span, if none is asked for: without one, a key could be reported for
several spans at a low rate."""


@dataclass(frozen=True, kw_only=True)
class Span:
    """Window that is a span of time, as hardware counts it.

    Attributes
    ----------
    ticks : int
        Span of the filter; see `lately.durations.span_ticks`.
    tick : Fraction
        P, in seconds.
    when_full : str
        One of `lately.golden.spec.span.WHEN_FULL`.

    Raises
    ------
    RequirementError
        If an attribute is out of range.
    """

    ticks: int
    tick: Fraction
    when_full: str = WHEN_FULL[0]

    def __post_init__(self) -> None:
        _require(self.when_full in WHEN_FULL, "when-full", " or ".join(WHEN_FULL), self.when_full)
        _require(self.tick > 0, "tick", "a time above 0", f"{float(self.tick):g} s")
        rule = f"at least the span / {TIME_LIMIT}"
        _require(self.ticks < TIME_LIMIT, "tick", rule, f"{float(self.tick):g} s")

    @classmethod
    def of(
        cls, seconds: Fraction, tick: Fraction | None = None, *, when_full: str = WHEN_FULL[0]
    ) -> Self:
        """Return the span of a time in `seconds`, with a `tick` of as many.

        By default that of `lately.durations.default_tick`. The attribute `when_full` is as given.
        """
        if tick is None:
            tick = Fraction(default_tick(seconds * NANOSECONDS), NANOSECONDS)
        return cls(ticks=span_ticks(seconds, tick), tick=tick, when_full=when_full)

    def keys(self, rate: float) -> int:
        """Return the most keys between whose ticks the span lies, at `rate` keys per second.

        Errors: as `window_of_span`.
        """
        return window_of_span((self.ticks + 1) * self.tick, rate)

    def text(self) -> str:
        """Return the span in words."""
        return f"{self.ticks:,} ticks of {time_text(self.tick)}"


@dataclass(frozen=True, kw_only=True)
class Requirement:
    """Requirements of a filter.

    Attributes
    ----------
    window : int
        Last insertions whose keys must be reported, N; at most 2**32. With a `span`, the most
        insertions within it.
    false_positive_rate : float
        Bound of the expected rate at the worst moment of a generation, keys
        distinct, P; above 0 and below 1.
    slack : float or None
        Bound of how much longer a key may leave a trace, in windows, F: none
        is left after (1 + F) N insertions. The k/l of an age-partitioned
        filter (APBF, section 5.2) and the 1/r of a guarded-epoch filter
        (GEBF, proposition 1), and what rounding to whole generations adds. With a `span`, in
        spans, while none passes without an insertion. With 0 a key is forgotten just when its
        window ends.
    span : Span or None
        Time for which a key must be reported, in place of a number of insertions.
    window_per_query, exact_age, remove : bool
        Whether each query must be able to ask for a shorter window; an answer must tell how many
        insertions ago the key came, and not only about how many; keys must be removable.
    families : tuple of str
        Families of `lately.planner.abilities.ABILITIES` that may be chosen.
    device : Device or None
        Device that the filter must fit.
    any_size : bool
        Whether sizes need not be powers of two, nor the spare be cleared in
        time: for golden models alone, which no hardware can follow.
    bits_only : bool
        Whether the cheapest filter has the fewest bits. Otherwise it has the fewest memories of
        16 kbit; on a `device`, the smallest share. With `any_size`, bits are the cost too.
    key_bits : int
        Width of a key.
    seed : int
        Selects the hash functions.

    Raises
    ------
    RequirementError
        If an attribute is out of range.
    """

    window: int
    false_positive_rate: float
    slack: float | None = None
    span: Span | None = None
    window_per_query: bool = False
    exact_age: bool = False
    remove: bool = False
    families: tuple[str, ...] = tuple(ABILITIES)
    device: Device | None = None
    any_size: bool = False
    bits_only: bool = False
    key_bits: int = 64
    seed: int = 0

    def __post_init__(self) -> None:
        window, rate, slack, bits = (
            self.window, self.false_positive_rate, self.slack, self.key_bits
        )  # fmt: skip
        _require(1 <= window <= LARGEST_WINDOW, "window", "1 to 2**32 insertions", window)
        _require(0 < rate < 1, "fpr", "a rate above 0 and below 1", f"{rate:g}")
        if slack is not None:
            rule = "a fraction of the window, 0 or more"
            _require(0 <= slack < math.inf, "slack", rule, f"{slack:g}")
        for family in self.families:
            _require(family in ABILITIES, "family", f"one of {', '.join(ABILITIES)}", family)
        _require(len(self.families) > 0, "family", "one at least", "none")
        if self.device is not None and self.any_size:
            raise RequirementError(
                f"device: must not be given for sizes that no hardware has, not {self.device.name}"
            )
        if self.device is not None and self.bits_only:
            raise RequirementError(
                f"device: must not be given if only bits are the cost, not {self.device.name}"
            )
        _require(1 <= bits <= MOST_KEY_BITS, "key-bits", f"1 to {MOST_KEY_BITS}", bits)
        if self.span is not None and slack is None:
            object.__setattr__(self, "slack", SLACK_IN_TIME)

    @property
    def counts_memories(self) -> bool:
        """Whether the cost is the number of memories of 16 kbit, then the number of bits."""
        return self.device is None and not (self.bits_only or self.any_size)

    @property
    def able(self) -> tuple[str, ...]:
        """Families that may be chosen and can do all that is asked."""
        unit = "insertions" if self.span is None else "time"
        return tuple(
            family
            for family in self.families
            if unit in ABILITIES[family].counts
            and all(getattr(ABILITIES[family], name) for name in self.special)
        )

    @property
    def special(self) -> tuple[str, ...]:
        """What is asked that not every family can do, as names of `OPTIONS`."""
        asked = {
            "exact_window": self.slack == 0,
            "window_per_query": self.window_per_query,
            "exact_age": self.exact_age,
            "remove": self.remove,
        }
        return tuple(name for name in OPTIONS if asked[name])

    @property
    def rings(self) -> tuple[str, ...]:
        """Those of them that are rings of segments."""
        return tuple(family for family in self.able if family in FAMILIES)

    @property
    def stamped(self) -> tuple[str, ...]:
        """Those of them whose cells hold timestamps."""
        return tuple(family for family in self.able if family not in FAMILIES)

    @property
    def longest_trace(self) -> int | None:
        """Insertions after which there must be no trace of a key; None if slack is not bounded."""
        if self.slack is None or self.span is not None:
            return None
        return math.floor((1 + Fraction(str(self.slack))) * self.window)

    def text(self) -> str:
        """Return the requirement in words."""
        unit = "window" if self.span is None else "span"
        slack = "" if self.slack is None else f", slack of at most {self.slack:g} of the {unit}"
        if self.slack == 0:
            slack = ", no slack"
        special = "".join(f", {OPTIONS[name]}" for name in self.special if name != "exact_window")
        place = f" on {self.device.name}" if self.device else ""
        return f"{self.window_text()} at {self.false_positive_rate:.3g}{slack}{special}{place}"

    def window_text(self) -> str:
        """Return the window in words."""
        if self.span is None:
            return f"window of {self.window:,}"
        return f"span of {self.span.text()} with at most {self.window:,} keys"


def _require(condition: bool, name: str, rule: str, value: object) -> None:
    if not condition:
        raise RequirementError(f"{name}: must be {rule}, not {value}")


def window_of_span(span: Fraction, rate: float) -> int:
    """Return the insertions in a span of T seconds at a rate of R keys per second: ceil(T R).

    Raises
    ------
    RequirementError
        If the rate is not above 0 and finite.
    """
    _require(0 < rate < math.inf, "rate", "keys per second above 0", f"{rate:g}")
    return math.ceil(span * Fraction(str(rate)))


def distinct(families: Sequence[str]) -> tuple[str, ...]:
    """Return the families that are named, each once and in the order of all; all if none is."""
    known = tuple(f for f in ABILITIES if f in families or not families)
    return known + tuple(f for f in families if f not in ABILITIES)

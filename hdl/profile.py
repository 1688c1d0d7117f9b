"""Options, latency and limits of a unit that is not yet built.

This module does not import Amaranth.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Self

from ..golden.errors import SpecificationError
from ..golden.spec.base import require, require_integer
from .latencies import (
    ACCEPT_LAG,
    DEFAULT_LEVELS,
    PAUSE,
    PROTECTIONS,
    SPARE_SETTLE,
    STAMP_LATENCY,
    VOTES,
)
from .parameters import alternatives, ceil_log


def option(default: Any, *, minimum: int | None = None, choices: Iterable[str] = ()) -> Any:
    return field(default=default, metadata={"minimum": minimum, "choices": tuple(choices)})


@dataclass(frozen=True, kw_only=True)
class UnitOptions:
    """Options of a unit of any family. An invalid option raises SpecificationError."""

    memory: Any = "portable"
    """Name of a memory variant that the family supports. Dictionaries and timing filters also
    accept a memory class."""

    levels: int = option(DEFAULT_LEVELS, minimum=1)
    """Maximum number of LUT levels between two registers. Fewer levels allow a faster clock; more
    levels give a smaller unit with a lower latency. `lately.hdl.target_clocks.levels` returns the
    number for a device and a clock frequency."""

    tag_bits: int = option(8, minimum=0)
    """Width of the tag."""

    statistics_bits: int = option(32, minimum=0)
    """Width of the counters, which wrap around. With 0 the unit has no counters."""

    ticks: str = "tick"
    """Source of the ticks, for specifications with ticks. "tick" is a port that is high for one
    cycle per tick. "period" is a counter that generates a tick every `period` cycles; `period` is
    a port. "time" is a field of each request, see `lately.hdl.frontend.ticks.Stamps`; timing
    filters do not support it. Ticks on the port `tick` should be at least `Profile.min_period`
    cycles apart; up to `lately.hdl.latencies.TICKS_WAITING` ticks that arrive sooner wait, and
    further ticks are lost."""

    period: int = option(0, minimum=0)
    """Initial value of the port `period`, in cycles; 0 if the surrounding design sets the port."""

    time_bits: int | None = option(None, minimum=1)
    """Width of the tick counter, and of the ``time`` of requests and results; by default the
    minimum that the specification needs."""

    report_covered: bool = False
    """Whether results have the field ``covered``; requires a ring with a time-based window."""

    protect: str = option("none", choices=PROTECTIONS)
    """Memory protection. With "none" an upset can cause any error. With "parity" it can only cause
    false positives. With "tmr" it has no effect, unless a second upset hits the same bit before the
    bit is cleared or written."""

    self_check: bool = False
    """Whether the unit checks its own state, and resets itself if the state is illegal."""

    omit: Sequence[str] = ()
    """Result fields to leave out, such as "age". ``seen`` and ``tag`` cannot be omitted."""

    def __post_init__(self) -> None:
        for item in fields(self):
            value, minimum = getattr(self, item.name), item.metadata.get("minimum")
            if minimum is not None and not (value is None and item.default is None):
                require_integer(item.name, value, minimum)
            if choices := item.metadata.get("choices"):
                require(value in choices, item.name, f"must be {alternatives(choices)}", value)


@dataclass(frozen=True)
class Profile:
    """Latency and limits of a unit. Each family has a subclass."""

    spec: Any
    options: UnitOptions = field(default_factory=UnitOptions)

    MEMORIES: ClassVar[tuple[str, ...]] = ("portable",)  # memory variants that every family has
    PROTECTIONS: ClassVar[tuple[str, ...]] = ("none",)  # memory protections that every family has
    # Maximum levels of LUTs between two registers; with more, logic limits the clock, not memories.
    MAX_LEVELS: ClassVar[int] = 16

    @classmethod
    def of(cls, spec: Any, **options: Any) -> Self:
        """Return the profile of a specification; `options` are fields of `UnitOptions`."""
        return cls(spec, UnitOptions(**options))

    # Options

    @property
    def memory(self) -> Any:
        return self.options.memory

    @property
    def levels(self) -> int:
        return self.options.levels

    @property
    def protect(self) -> str:
        return self.options.protect

    @property
    def self_check(self) -> bool:
        return self.options.self_check

    @property
    def ticks(self) -> tuple[str, ...]:
        """Tick sources that the unit supports; empty if the unit has no ticks."""
        return ()

    @property
    def time_bits(self) -> int:
        """Minimum width of the tick counter; 0 if the unit has no ticks."""
        return 0

    @property
    def covers(self) -> bool:
        """Whether the unit has ``covered``, the number of ticks whose keys are all reported."""
        return False

    # Size

    @property
    def lanes(self) -> int:
        """Number of operations that the unit accepts per cycle."""
        return 1

    @property
    def segments(self) -> int:
        """Number of equal parts of the memory: segments of a ring, or columns of a dictionary."""
        return 1

    @property
    def block_rams(self) -> int:
        """Number of block RAMs that the memory would occupy on an ECP5."""
        return 0

    @property
    def votes(self) -> int:
        """Number of replicas of each small memory, such as a queue, outside the filter's memory."""
        return 1 if self.protect == "none" else VOTES

    # Time

    @property
    def latency_terms(self) -> dict[str, int]:
        """Number of cycles of each part of the pipeline, by name and in pipeline order."""
        raise NotImplementedError

    @property
    def latency(self) -> int:
        """Minimum number of cycles from the acceptance of a request to the result.

        Requests with times take longer: see `unit_latency`.
        """
        return sum(self.latency_terms.values())

    @property
    def unit_latency(self) -> int:
        """`latency`, plus `STAMP_LATENCY` if requests have times."""
        stamped = bool(self.ticks) and self.options.ticks == "time"
        return self.latency + (STAMP_LATENCY if stamped else 0)

    @property
    def result_depth(self) -> int:
        """Capacity of the result queue: a power of two above the number of results in flight."""
        return 1 << ceil_log(2, self.latency + ACCEPT_LAG + 1)

    @property
    def min_period(self) -> int:
        """Minimum number of cycles between two ticks; 0 if the unit has no ticks."""
        return 0

    @property
    def generation_bits(self) -> int:
        """Width of the port `generation`; 0 if the unit has no generations."""
        return 0

    @property
    def minimum_generation(self) -> int:
        """Minimum number of insertions in a generation that never stalls the input.

        The value is 0 if the unit has no generations.
        """
        return 0

    @property
    def longest_pause(self) -> int:
        """Maximum number of cycles for which an operation stalls the input."""
        return PAUSE

    @property
    def reset_pause(self) -> int:
        """Maximum number of cycles from the end of a reset to the first accepted operation."""
        return self.longest_pause + SPARE_SETTLE + 1

    @property
    def pauses(self) -> list[str]:
        """Sentences that state when the input stalls for reasons other than back-pressure."""
        return []

    def promise(self, key: str, *, flags: bool) -> list[str]:
        """Return sentences that state how long the unit reports a key."""
        raise NotImplementedError

    @property
    def edges(self) -> tuple[int, int] | None:
        """Maximum age of keys that are always reported, and minimum age of keys that are forgotten.

        The property is None if the specification has query classes.
        """
        if self.spec.classes is not None:
            return None
        last = self.spec.guaranteed_window - (not self.spec.timed)
        return last, last + 1 + self.spec.slack

    def _both_ends(self) -> str:
        last, first = self.edges or (0, 0)
        maybe = f"it may be reported while {last:,} < d < {first:,}, and " * (first > last + 1)
        return (
            "Let d be the number of insertions after a key's own insertion. The key is reported "
            f"while d ≤ {last:,}, {maybe}it is forgotten at d ≥ {first:,}."
        )

    # Limits

    def check_buildable(self) -> None:
        """Check that the hardware can implement the specification and the options.

        Raises
        ------
        SpecificationError
            If the hardware cannot implement the specification or an option.
        """
        memory, named = self.memory, f"for family {self.spec.family}"
        known = not isinstance(memory, str) or memory in self.MEMORIES
        require(known, "memory", f"must be {alternatives(self.MEMORIES)} {named}", memory)
        known, rule = self.protect in self.PROTECTIONS, f"must be {alternatives(self.PROTECTIONS)}"
        require(known, "protect", f"{rule} {named}", self.protect)
        ticks = self.options.ticks
        if self.ticks:
            rule = f"must be {alternatives(self.ticks)} {named}"
            require(ticks in self.ticks, "ticks", rule, ticks)
        if self.options.omit and self.lanes > 1:
            raise SpecificationError("omit: a unit with several lanes cannot omit result fields")
        covered = self.options.report_covered
        if covered and not self.covers:
            raise SpecificationError("report_covered: requires a ring with a time-based window")

"""Options of a unit, and its latency and limits before it is built. Does not import Amaranth."""

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
    """Declare a unit option with a default and, optionally, a minimum or choices."""
    return field(default=default, metadata={"minimum": minimum, "choices": tuple(choices)})


@dataclass(frozen=True, kw_only=True)
class UnitOptions:
    """Options of a unit of any family; raises SpecificationError for an invalid option."""

    memory: Any = "portable"
    """Memory variant, one that the family supports. Units of dictionaries and timing filters also
    accept a memory class."""

    levels: int = option(DEFAULT_LEVELS, minimum=1)
    """Levels of LUTs between two registers: fewer for a fast clock, more for a small unit of low
    latency. See `lately.hdl.target_clocks.levels`."""

    tag_bits: int = option(8, minimum=0)
    """Width of the tag."""

    statistics_bits: int = option(32, minimum=0)
    """Width of the counters, which wrap around. With 0 the unit has no counters."""

    ticks: str = "tick"
    """Source of the ticks, if the specification has any. "tick" is a port that is high for one
    cycle per tick. "period" counts cycles up to the value of the port `period`. "time" is a field
    of each request, see `lately.hdl.frontend.ticks.Stamps`; not for timing filters. Ticks on the
    port must be at least `Profile.min_period` cycles apart; up to
    `lately.hdl.latencies.TICKS_WAITING` ticks that arrive sooner wait."""

    period: int = option(0, minimum=0)
    """Value of the port `period` after reset, in cycles; 0 leaves the value to whatever drives the
    port."""

    time_bits: int | None = option(None, minimum=1)
    """Width of the tick counter, and of the ``time`` of requests and results; by default the
    minimum that the specification needs."""

    report_covered: bool = False
    """Whether results have the field ``covered``; only with a time-based window."""

    protect: str = option("none", choices=PROTECTIONS)
    """Memory protection, by what an upset can cause: any error with "none"; false positives with
    "parity"; nothing with "tmr", unless a second upset hits the same bit before the bit is cleared
    or written."""

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
    """Latency and limits of a unit: the base class of each family's profile."""

    spec: Any
    options: UnitOptions = field(default_factory=UnitOptions)

    MEMORIES: ClassVar[tuple[str, ...]] = ("portable",)  # memory variants that every family has
    PROTECTIONS: ClassVar[tuple[str, ...]] = ("none",)  # memory protections that every family has
    # Maximum levels of LUTs between two registers; with more, logic limits the clock, not memories.
    MAX_LEVELS: ClassVar[int] = 16

    @classmethod
    def of(cls, spec: Any, **options: Any) -> Self:
        """Return the profile of a unit; `options` are fields of `UnitOptions`."""
        return cls(spec, UnitOptions(**options))

    # Options

    @property
    def memory(self) -> Any:
        return self.options.memory

    @property
    def levels(self) -> int:
        """Levels of LUTs between two registers, see `lately.hdl.pipeline.Pipeline`."""
        return self.options.levels

    @property
    def protect(self) -> str:
        return self.options.protect

    @property
    def self_check(self) -> bool:
        """Whether the unit checks its own state."""
        return self.options.self_check

    @property
    def ticks(self) -> tuple[str, ...]:
        """Possible sources of ticks; none if the unit has no ticks."""
        return ()

    @property
    def time_bits(self) -> int:
        """Minimum bits of the tick counter; 0 if the unit has no ticks."""
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
        """Number of block RAMs of the memory, counted in blocks of an ECP5."""
        return 0

    @property
    def votes(self) -> int:
        """Number of copies of each small memory of the unit, outside the filter's memory."""
        return 1 if self.protect == "none" else VOTES

    # Time

    @property
    def latency_terms(self) -> dict[str, int]:
        """Cycles of each part of the pipeline, by name and in order."""
        raise NotImplementedError

    @property
    def latency(self) -> int:
        """Minimum cycles from a request without times to its result on an idle output."""
        return sum(self.latency_terms.values())

    @property
    def unit_latency(self) -> int:
        """Like `latency`, but with `STAMP_LATENCY` if requests have times."""
        stamped = bool(self.ticks) and self.options.ticks == "time"
        return self.latency + (STAMP_LATENCY if stamped else 0)

    @property
    def result_depth(self) -> int:
        """Capacity of the result queue: a power of two above the number of results in flight."""
        return 1 << ceil_log(2, self.latency + ACCEPT_LAG + 1)

    @property
    def min_period(self) -> int:
        """Minimum cycles between two ticks; 0 if the unit has no ticks."""
        return 0

    @property
    def generation_bits(self) -> int:
        """Width of the generation length, which is set at run time; 0 without generations."""
        return 0

    @property
    def minimum_generation(self) -> int:
        """Shortest generation without input stalls, in insertions; 0 without generations."""
        return 0

    @property
    def longest_pause(self) -> int:
        """Maximum cycles for which a CLEAR, or another operation, closes the input."""
        return PAUSE

    @property
    def reset_pause(self) -> int:
        """Maximum cycles from the end of a reset to the first acceptance."""
        return self.longest_pause + SPARE_SETTLE + 1

    @property
    def pauses(self) -> list[str]:
        """Sentences that state when the input closes for a reason other than back-pressure."""
        return []

    def promise(self, key: str, *, flags: bool) -> list[str]:
        """Return sentences that state which keys are reported."""
        raise NotImplementedError

    @property
    def edges(self) -> tuple[int, int] | None:
        """Maximum age of keys always reported, and minimum age of forgotten keys, or None."""
        if self.spec.classes is not None:
            return None
        last = self.spec.guaranteed_window - (not self.spec.timed)
        return last, last + 1 + self.spec.slack

    def _both_ends(self) -> str:
        """Return the sentence that states when a window of insertions reports and forgets a key."""
        last, first = self.edges or (0, 0)
        maybe = f"it may be reported while {last:,} < d < {first:,}, and " * (first > last + 1)
        return (
            "Let d be the number of insertions after a key's own insertion. The key is reported "
            f"while d ≤ {last:,}, {maybe}it is forgotten at d ≥ {first:,}."
        )

    # Limits

    def check_buildable(self) -> None:
        """Reject a specification or option that the hardware cannot implement."""
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
            raise SpecificationError("omit: not supported with several lanes")
        covered = self.options.report_covered
        if covered and not self.covers:
            raise SpecificationError("report_covered: needs a ring with a span")

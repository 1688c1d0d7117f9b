"""Fields of specifications whose window may be a span of time."""

from dataclasses import dataclass, replace
from typing import Any, Self, cast

from ..times import TIME_LIMIT
from .base import Specification, optional

WHEN_FULL = ("shorten", "overfill")
"""Effects of a full generation while the oldest segment is within the span."""

TIME_FIELDS = ("span", "generation_span", "when_full")
"""Fields of specifications whose window is a span of time."""


@dataclass(frozen=True, kw_only=True)
class SpanSpecification(Specification):
    """A specification whose window is a span of time, or a number of insertions without `span`."""

    span: int = optional(most=TIME_LIMIT - 1)
    """Time for which a key is guaranteed to be reported, in units of the timestamps. Without
    `span`, the window is counted in insertions, and `generation_span` and `when_full` must be
    omitted."""
    generation_span: int = optional(most=TIME_LIMIT)
    """Time after which a generation ends even if it is not full; by default the least time with
    which the generations of the window take longer than `span`."""
    when_full: str = cast(str, None)
    """What a full generation does while the oldest segment is within the span: "shorten", the
    default, retires that segment, and "overfill" goes on in the same generation."""

    @property
    def timed(self) -> bool:
        """Whether the window is a span of time."""
        return self.span is not None

    @property
    def untimed(self) -> Self:
        """The same filter, whose window is counted in insertions."""
        none: dict[str, Any] = dict.fromkeys(TIME_FIELDS)
        return replace(self, **none)

    def _complete_times(self, generations: int) -> None:
        """Derive and check the fields that end a generation."""
        if not self.timed:
            for name in TIME_FIELDS[1:]:
                self._hold(name, getattr(self, name) is None, "must not be given without span")
            return
        least, most = self.span // generations + 1, self.span + 1
        if self.generation_span is None:
            object.__setattr__(self, "generation_span", least)
        if self.when_full is None:
            object.__setattr__(self, "when_full", WHEN_FULL[0])
        rule = f"must be at least {least} for {generations} generations to take longer than span"
        self._hold("generation_span", self.generation_span >= least, f"{rule} = {self.span}")
        rule = f"must be at most {most}, one more than span"
        self._hold("generation_span", self.generation_span <= most, rule)
        choices = ", ".join(WHEN_FULL)
        self._hold("when_full", self.when_full in WHEN_FULL, f"must be one of {choices}")

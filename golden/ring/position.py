"""Position of a filter's ring: its youngest segment, and the secrets of the segments.

With a keyed hash, each segment keeps one secret from the shift at which it enters the ring until it
leaves the ring. Insertions and queries use the secret of each segment. Hence no key is forgotten
when a new secret arrives. The spare is empty, so its secret is irrelevant.
"""

from dataclasses import dataclass, field
from typing import Any

from ..hash.siphash import check_secret
from ..spec import FilterSpec


@dataclass
class RingPosition:
    """State of a filter apart from its bits.

    The current generation has `length` insertions, and `filled` of them have occurred. `insertions`
    and `shifts` count from construction. The `older` oldest segments of the ring have the secret
    `older_secret`; the others have `secret`.
    """

    spec: FilterSpec
    generation: int
    """Insertions of each later generation."""
    length: int
    filled: int = 0
    base: int = 0
    """Physical index of the youngest segment."""
    secret: int = field(default=0, repr=False)
    older_secret: int = field(default=0, repr=False)
    older: int = 0
    waiting: int | None = field(default=None, repr=False)
    """Secret that is loaded but not in use yet."""
    insertions: int = 0
    shifts: int = 0

    @classmethod
    def first(cls, spec: FilterSpec, secret: int) -> "RingPosition":
        """Return the position of a new filter, whose segments all have one secret."""
        return cls(spec, generation=spec.generation, length=spec.generation, secret=secret)

    def ring(self) -> list[int]:
        """Physical segments in the ring, youngest to oldest."""
        segments = self.spec.segments
        return [(self.base + index) % segments for index in range(self.spec.ring_segments)]

    @property
    def spare(self) -> int:
        """Physical segment outside the ring."""
        return (self.base - 1) % self.spec.segments

    def secret_of(self, index: int) -> int:
        """Secret of the segment `index` of the ring, 0 being the youngest."""
        older = index >= self.spec.ring_segments - self.older
        return self.older_secret if older else self.secret

    def turn(self) -> None:
        """Make the spare the youngest segment, and the oldest segment the spare."""
        self.base = self.spare
        self.filled = 0
        self.length = self.generation
        self.shifts += 1
        self.older = max(0, self.older - 1)
        if self.spec.rekey and self.waiting is not None:
            self.older_secret, self.older = self.secret, self.spec.ring_segments - 1
            self.secret, self.waiting = self.waiting, None
        if self.older == 0:
            self.older_secret = 0

    def restart(self) -> None:
        """Return to the first position, all segments with the newest secret."""
        self.base = self.filled = 0
        self.length = self.generation
        if self.waiting is not None:
            self.secret, self.waiting = self.waiting, None
        self.older = self.older_secret = 0

    def identity(self) -> tuple[Any, ...]:
        """Return the part of the state on which equality depends: all except the counters."""
        secrets = [self.secret_of(index) for index in range(self.spec.ring_segments)]
        return (
            self.spec, self.base, self.filled, self.length, self.generation, secrets, self.waiting,
        )  # fmt: skip

    # Files

    def numbers(self) -> list[int]:
        """Return the numbers that a state file calls "state"."""
        return [self.base, self.filled, self.length, self.generation]

    def set_numbers(self, numbers: list[Any], insertions: Any, shifts: Any) -> None:
        """Restore the numbers that `numbers` returned, and the counters `insertions` and `shifts`.

        Raises
        ------
        ValueError
            If the numbers do not fit the specification.
        """
        self.base, self.filled, self.length, self.generation = numbers
        self.insertions, self.shifts = insertions, shifts
        possible = (
            all(type(number) is int and number >= 0 for number in [*numbers, insertions, shifts])
            and self.base < self.spec.segments
            and self.filled <= self.length
            and min(self.length, self.generation) >= 1
        )
        if not possible:
            raise ValueError(f"numbers {numbers} do not fit the specification")

    def set_secrets(self, secret: Any, older_secret: Any, older: Any, waiting: Any) -> None:
        """Restore `secret`, `older_secret`, `older` and `waiting` from a state file.

        Raises
        ------
        TypeError, ValueError
            If they are not secrets, or do not fit the specification.
        """
        self.secret, self.older_secret = check_secret(secret), check_secret(older_secret)
        self.waiting = None if waiting is None else check_secret(waiting)
        most = self.spec.ring_segments - 1 if self.spec.rekey else 0
        if type(older) is not int or not 0 <= older <= most:
            raise ValueError(f"{older} segments of an older secret do not fit the specification")
        if older and self.spec.rekey and waiting is not None:
            raise ValueError("three secrets, where two are possible")
        self.older = older

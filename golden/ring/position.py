"""Position of a filter's ring: its youngest segment, and the secrets of the segments.

With a keyed hash, each segment keeps one secret from the shift at which it enters the ring until it
leaves the ring. Insertions and queries use the secret of each segment. Hence no key is forgotten
when a new secret arrives. The spare is empty, so its secret is irrelevant.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..hash.siphash import check_secret
from ..spec import FilterSpec

NUMBERS = 21
"""Numbers of a ring: four counters of its filter, the position, three secrets of two words each,
and how far the extension has cleared the segment that left the ring last."""

BASE = 4
"""Place of the first number of the position."""

CLEARED = 19
"""Place of the cleared bytes of the segment that left the ring last."""

MOST = 1 << 62
"""Largest length of a generation."""

_WORD = (1 << 64) - 1


class _Number:
    """A number of a position, from the place `index` on."""

    def __init__(self, index: int) -> None:
        self._index = index

    def __get__(self, owner: "RingPosition", kind: type) -> int:
        return int(owner._numbers[self._index])

    def __set__(self, owner: "RingPosition", value: int) -> None:
        owner._numbers[self._index] = value


class _Secret(_Number):
    """A secret of two words, low word first."""

    def __get__(self, owner: "RingPosition", kind: type) -> int:
        low, high = owner._words[self._index : self._index + 2].tolist()
        return int(high << 64 | low)

    def __set__(self, owner: "RingPosition", value: int) -> None:
        owner._words[self._index : self._index + 2] = value & _WORD, value >> 64


class RingPosition:
    """State of a filter apart from its bits, in numbers that the extension changes too.

    The current generation has `length` insertions, and `filled` of them have occurred; later ones
    have `generation`. `base` is the physical index of the youngest segment. `insertions` and
    `shifts` count from construction. The `older` oldest segments of the ring have the secret
    `older_secret`; the others have `secret`. If one `waits`, `_waiting` is not in use yet.
    """

    base, filled, length, generation = map(_Number, range(BASE, 8))
    insertions, shifts, older, waits = map(_Number, range(8, 12))
    secret, older_secret, _waiting = map(_Secret, (12, 14, 16))

    def __init__(self, spec: FilterSpec, secret: int, numbers: NDArray[np.int64]) -> None:
        self.spec, self._numbers, self._words = spec, numbers, numbers.view(np.uint64)
        self.generation = self.length = spec.generation
        self.secret = secret

    @property
    def waiting(self) -> int | None:
        """Secret that is loaded but not in use yet."""
        return self._waiting if self.waits else None

    @waiting.setter
    def waiting(self, secret: int | None) -> None:
        self.waits, self._waiting = secret is not None, secret or 0

    def ring(self) -> list[int]:
        """Physical segments in the ring, youngest to oldest."""
        segments, base = self.spec.segments, self.base
        return [(base + index) % segments for index in range(self.spec.ring_segments)]

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
        return self.spec, *self.numbers(), secrets, self.waiting

    # Files

    def numbers(self) -> list[int]:
        """Return the numbers that a state file calls "state"."""
        return [self.base, self.filled, self.length, self.generation]

    def set_numbers(self, numbers: list[Any], insertions: Any, shifts: Any) -> None:
        """Restore what `numbers` returned, and counters; ValueError if they do not fit."""
        base, filled, length, generation = numbers
        whole = all(type(number) is int for number in [*numbers, insertions, shifts])
        if not (
            whole
            and 0 <= base < self.spec.segments
            and 0 <= filled <= length
            and 1 <= min(length, generation) <= max(length, generation) <= MOST
            and 0 <= min(insertions, shifts) <= max(insertions, shifts) < MOST
        ):
            found = f"{[*numbers, insertions, shifts]}"
            raise ValueError(f"numbers {found} do not fit the specification")
        self._numbers[BASE:10] = *numbers, insertions, shifts

    def set_secrets(self, secret: Any, older_secret: Any, older: Any, waiting: Any) -> None:
        """Restore what `numbers` of a filter has; TypeError or ValueError if it does not fit."""
        self.secret, self.older_secret = check_secret(secret), check_secret(older_secret)
        self.waiting = None if waiting is None else check_secret(waiting)
        most = self.spec.ring_segments - 1 if self.spec.rekey else 0
        if type(older) is not int or not 0 <= older <= most:
            raise ValueError(f"{older} segments of an older secret do not fit the specification")
        if older and self.spec.rekey and waiting is not None:
            raise ValueError("three secrets, where two are possible")
        self.older = older

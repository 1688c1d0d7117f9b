"""Ring of slices of one size: the memory of the time-limited filter of a bounded pool."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..times import NEVER
from .slices import check_whole, unpacked


class SliceRing:
    """Slices in a ring with an empty spare, with the age and load of each.

    There are `slices` in the ring, each of `bits` bits, m. Positions count from the
    youngest, which is 0; -1 is the spare.

    Attributes
    ----------
    memory : ndarray of bool, shape (slices + 1, m)
        Bits of the physical slices.
    base : int
        Physical slice that is the youngest.
    settled : list of int
        Time of the last insertion into each slice that takes no more, by
        position; else `NEVER`.
    overfull : list of bool
        Whether a slice has more insertions than it should, by position.
    """

    def __init__(self, *, slices: int, bits: int) -> None:
        self.memory = np.zeros((slices + 1, bits), bool)
        self.base = 0
        self.settled = [NEVER] * slices
        self.overfull = [False] * slices

    def __len__(self) -> int:
        return len(self.settled)

    def physical(self, i: int) -> int:
        """Physical slice at position `i`."""
        return (self.base + i) % len(self.memory)

    def bits(self, i: int) -> NDArray[np.bool_]:
        """Bits of the slice at position `i`, shape (m,); to be written, too."""
        bits: NDArray[np.bool_] = self.memory[self.physical(i)]
        return bits

    def turn(self) -> None:
        """Let the spare become the youngest slice, and the oldest, zeroed, the spare."""
        self.settled = [NEVER, *self.settled[:-1]]
        self.overfull = [False, *self.overfull[:-1]]
        self.base = self.physical(-1)
        self.bits(-1)[:] = False

    def restore(
        self, *, base: Any, settled: Any, overfull: Any, packed: NDArray[Any], latest: list[int]
    ) -> None:
        """Take the contents of a state file.

        Parameters
        ----------
        base, settled, overfull
            The attributes.
        packed : ndarray of uint8, shape (bytes,)
            Bits of `memory`, 8 in a byte.
        latest : list of int
            Greatest possible settled time, by position.

        Raises
        ------
        ValueError
            If they cannot be those of a ring of this size.
        """
        check_whole("ring position", base, 0, len(self))
        check_whole("settled times", len(settled), len(self), len(self))
        check_whole("overfull slices", len(overfull), len(self), len(self))
        for time, most in zip(settled, latest, strict=True):
            check_whole("settled time", time, NEVER, most)
        if any(type(flag) is not bool for flag in overfull):
            raise ValueError(f"overfull slices: {overfull!r} does not fit the filter")
        bits = unpacked(packed, self.memory.size)
        self.base, self.settled, self.overfull = base, list(settled), list(overfull)
        self.memory[:] = bits.reshape(self.memory.shape)

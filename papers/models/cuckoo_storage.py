"""Tables and list of a time-decaying cuckoo dictionary, with their counters and state.

Near-optimal Approximate Membership Query over Time-decaying Windows, section IV.B.
"""

from array import array
from collections import OrderedDict
from sys import getsizeof
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from lately.golden.filter import AnyWindowFilter
from lately.golden.hash.functions import ConstantStream, KeyHash
from lately.golden.results import Ages

WORD = (1 << 64) - 1
"""Mask of the generator of random bits."""

Name = int | tuple[int, ...]
"""A key as the list holds it: its words, or its only word."""


class CuckooTables(AnyWindowFilter):
    """Storage of a cuckoo dictionary; built as a `CuckooDictionary`, which has the attributes."""

    _uncompared = ("moved", "overflow_peak")
    _counts: ClassVar = {"insertions": None, "moved": None, "overflow_peak": None}

    window: int
    signature_bits: int
    positions: int
    moves: int
    _hash: KeyHash

    def _empty(self) -> None:
        # Both tables one after the other: an entry is a timestamp and a code,
        # signature * 2 positions + address of its position in the other table.
        zeros = bytes(2 * self.positions * 8)
        self._times, self._codes = array("q", zeros), array("q", zeros)
        self._overflow: OrderedDict[Name, int] = OrderedDict()
        self._coin = ConstantStream(label="cuckoo", seed=self.seed).word() | 1
        self.insertions = self.moved = self.overflow_peak = 0

    @property
    def entry_bits(self) -> int:
        """Bits of a timestamp of 0 to 2 n, a position and a signature."""
        timestamp = (2 * self.window).bit_length()
        return timestamp + (self.positions - 1).bit_length() + self.signature_bits

    @property
    def storage_bits(self) -> int:
        """Bits of both tables, with all entries of full length; the list is not among them."""
        return 2 * self.positions * self.entry_bits

    @property
    def nbytes(self) -> int:
        """Bytes that both tables and the list take in this process, without the list's keys."""
        return sum(map(getsizeof, (self._times, self._codes, self._overflow)))

    @property
    def variable_length_bits(self) -> int:
        """Bits of both tables as variable-bit-length arrays now: one for an empty position.

        The paper's count, except the constant of such an array, which the paper does not give.
        """
        return self.occupied * self.entry_bits + 2 * self.positions

    @property
    def overflow_bits(self) -> int:
        """Bits of the keys and timestamps in the list now, links not counted."""
        return len(self._overflow) * (self.key_bits + (2 * self.window).bit_length())

    @property
    def overflow(self) -> int:
        """Keys in the list now."""
        return len(self._overflow)

    @property
    def overflow_entries(self) -> tuple[NDArray[np.uint64], Ages]:
        """The list: keys of shape (overflow, words), timestamps of shape (overflow,).

        The oldest is the first.
        """
        words = -(-self.key_bits // 64)
        keys = np.array(list(self._overflow), np.uint64).reshape(-1, words)
        return keys, np.array(list(self._overflow.values()), np.int64)

    @property
    def occupied(self) -> int:
        """Positions of both tables that are not empty; their entries may have expired."""
        return int(np.count_nonzero(self._times_view))

    @property
    def memory(self) -> Ages:
        """`timestamps`, `other_positions` and `signatures`, shape (3, 2, positions)."""
        return np.stack([self.timestamps, self.other_positions, self.signatures])

    @property
    def timestamps(self) -> Ages:
        """T: timestamps of 1 to 2 n, 0 for an empty position, shape (2, positions)."""
        return self._times_view.reshape(2, -1).copy()

    @property
    def other_positions(self) -> Ages:
        """P: position of each entry in the other table, 0 for an empty one; as `timestamps`."""
        others = self._codes_view % self.positions * (self._times_view > 0)
        return others.reshape(2, -1)

    @property
    def signatures(self) -> Ages:
        """S: signatures, 0 for an empty position; as `timestamps`."""
        signatures = self._codes_view // (2 * self.positions) * (self._times_view > 0)
        return signatures.reshape(2, -1)

    @property
    def _now(self) -> int:
        """The present timestamp (3)."""
        return self.insertions % (2 * self.window) + 1

    @property
    def _times_view(self) -> Ages:
        return np.frombuffer(self._times, np.int64)

    @property
    def _codes_view(self) -> Ages:
        return np.frombuffer(self._codes, np.int64)

    def _distances(self, times: Ages) -> Ages:
        """Return the timestamps from each to the present one, both counted (4)."""
        return (self._now - times) % (2 * self.window) + 1

    # State files

    def _state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        keys, times = self.overflow_entries
        numbers = super()._state()[0] | {"coin": self._coin}
        arrays = {
            "timestamps": self.timestamps,
            "other_positions": self.other_positions,
            "signatures": self.signatures,
            "overflow_keys": keys,
            "overflow_timestamps": times,
        }
        return numbers, arrays

    def _restore(self, numbers: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        super()._restore(numbers, {})
        self._coin = numbers["coin"]
        if type(self._coin) is not int or not 0 < self._coin <= WORD:
            raise ValueError(f"{self._coin!r} is no state of the generator")
        self._restore_tables(arrays)
        self._restore_overflow(arrays["overflow_keys"], arrays["overflow_timestamps"])

    def _restore_tables(self, arrays: dict[str, NDArray[Any]]) -> None:
        limits = {
            "timestamps": 2 * self.window,
            "other_positions": self.positions - 1,
            "signatures": (1 << self.signature_bits) - 1,
        }
        for name, most in limits.items():
            _require_entries(name, arrays[name], (2, self.positions), most)
        times, others = arrays["timestamps"], arrays["other_positions"].copy()
        others[0] += self.positions
        codes = arrays["signatures"] * (2 * self.positions) + others
        self._times = array("q", times.tobytes())
        self._codes = array("q", codes.tobytes())

    def _restore_overflow(self, keys: NDArray[Any], times: NDArray[Any]) -> None:
        if keys.dtype != np.uint64 or keys.ndim != 2:
            raise ValueError("the keys in the list are not such")
        names = names_of(self._words(keys))
        _require_entries("overflow_timestamps", times, (len(names),), 2 * self.window)
        distances = self._distances(times)
        if (times == 0).any() or (distances > self.window).any() or (np.diff(distances) >= 0).any():
            raise ValueError("the keys in the list are not in the order of their insertion")
        self._overflow = OrderedDict(zip(names, times.tolist(), strict=True))
        if len(self._overflow) != len(names):
            raise ValueError("a key is in the list twice")
        if self.overflow_peak < len(names):
            raise ValueError(f"{len(names)} keys are in the list, more than there ever were")


def names_of(keys: NDArray[np.uint64]) -> list[Any]:
    """Return keys of shape (n, words) in a form that a dictionary can hold."""
    return keys[:, 0].tolist() if keys.shape[1] == 1 else [tuple(key) for key in keys.tolist()]


def _require_entries(name: str, values: NDArray[Any], shape: tuple[int, ...], most: int) -> None:
    if values.dtype != np.int64 or values.shape != shape:
        raise ValueError(
            f"{name}: must be int64 of shape {shape}, not {values.dtype}{values.shape}"
        )
    if values.size and not 0 <= values.min() <= values.max() <= most:
        raise ValueError(f"{name}: must be between 0 and {most}, not all are")

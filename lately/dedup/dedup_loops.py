"""Loops of a deduplication: the time that passes, the bound in packets, and the kept records."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..captures.capture_loops import NO_TIME
from ..golden.compilation import core
from ..golden.times import Times

MOST_ELAPSED = 1 << 62
"""Nanoseconds that can pass; a clock stops there."""


class ClockState(NamedTuple):
    """State of a `PacketClock`."""

    reached: int = NO_TIME
    """Latest time since the beginning or the last step; `NO_TIME` before the first."""
    elapsed: int = 0
    """Nanoseconds that have passed."""
    late: int = 0
    """Packets before the latest time."""
    most_late: int = 0
    """Most nanoseconds before the latest time."""
    steps: int = 0
    """Steps back."""
    untimed: int = 0
    """Packets without a time."""


class PacketClock:
    """Measures the time that passes with each packet.

    A time that is at most `span` before the latest counts as the latest. An earlier one is a step
    of the clock: then `silence` passes, and the latest time starts from there. A gap longer than
    `silence` counts as `silence`.

    Parameters
    ----------
    span, silence : int
        In nanoseconds; `silence` is longer.
    """

    def __init__(self, span: int, silence: int) -> None:
        self._span = span
        self._silence = silence
        self._state = np.array(ClockState(), np.int64)

    @property
    def state(self) -> ClockState:
        """Counts until now."""
        return ClockState(*self._state.tolist())

    def follow(self, times: Times) -> Times:
        """Return the nanoseconds from the beginning to each packet, which never decrease.

        Parameters
        ----------
        times : ndarray of int64, shape (n,)
            In nanoseconds, or `NO_TIME`, which counts as the latest.
        """
        elapsed = np.empty(len(times), np.int64)
        if (compiled := core()) is not None:
            times = np.ascontiguousarray(times)
            compiled.follow_clock(times, self._span, self._silence, self._state, elapsed)
            return elapsed
        reached, passed, late, most_late, steps, untimed = self.state
        for number, time in enumerate(times.tolist()):
            before = reached - time
            if passed >= MOST_ELAPSED:
                pass
            elif time == NO_TIME:
                untimed += 1
            elif reached == NO_TIME:
                reached = time
            elif before > self._span:
                reached, passed, steps = time, passed + self._silence, steps + 1
            elif before > 0:
                late, most_late = late + 1, max(most_late, before)
            else:
                reached, passed = time, passed + min(-before, self._silence)
            elapsed[number] = passed
        self._state[:] = reached, passed, late, most_late, steps, untimed
        return elapsed


class PacketWindow:
    """Finds the last packet of a digest, to bound a deduplication in packets.

    Two tables find at least the last `most` digests. They take turns: a table that is half full
    becomes the older one, and the older one is cleared for new digests.

    Parameters
    ----------
    window : int
        Packets within which a copy is dropped.
    most : int
        Packets that are found at least.
    """

    def __init__(self, window: int, most: int) -> None:
        self._window = window
        self._packets = 0
        rows = 1 << (2 * most - 1).bit_length()
        self._half = rows // 2
        self._new: dict[int, int] = {}
        self._old: dict[int, int] = {}
        self._core = core()
        if self._core is not None:
            # Digests and the numbers of their last packets; table in use and its digests.
            self._tables = (
                np.zeros((2, rows), np.uint64), np.zeros((2, rows), np.int64), np.zeros(2, np.int64)
            )  # fmt: skip

    def hold(self, digests: NDArray[np.uint64], seen: NDArray[np.bool_]) -> None:
        """Clear `seen` where the last packet of the digest is further back than the window.

        `seen` stays set where the digest is not found, as for a false positive.

        Parameters
        ----------
        digests : ndarray of uint64, shape (n,)
        seen : ndarray of bool, shape (n,)
        """
        first = self._packets + 1
        self._packets += len(digests)
        if self._core is not None:
            self._core.hold_window(digests, seen, first, self._window, *self._tables)
            return
        for number, digest in enumerate(digests.tolist(), first):
            last = self._new.get(digest) or self._old.get(digest)
            if last is not None and number - last > self._window:
                seen[number - first] = False
            self._new[digest] = number
            if len(self._new) >= self._half:
                self._old, self._new = self._new, {}


def keep_lines(
    data: NDArray[np.uint8],
    bounds: NDArray[np.int64],
    keep: NDArray[np.bool_],
    out: NDArray[np.uint8],
) -> int:
    """Copy the lines or records of `data` that are kept to `out`, and return their bytes.

    `bounds` has shape (n + 1,): the begins of all lines, then the end; `keep` has shape (n,).
    """
    if native := core():
        return int(native.keep_lines(data, bounds, keep.view(np.uint8), out))
    kept = data[bounds[0] : bounds[-1]][np.repeat(keep, np.diff(bounds))]
    out[: len(kept)] = kept
    return len(kept)

"""Compiled models behind the driver: clocks, beats of operations, counters and memories."""

import ctypes
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...golden.hash.siphash import check_secret
from ..toolchain import ToolError
from .model import Closable, Signatures, load_model

DRIVER = Path(__file__).with_name("driver.cpp")
"""Source of the driver."""

_CHUNK = 1 << 16

Progress = Callable[[int], None]
"""Called with the number of operations done since the last call."""


def counter_macro(names: Sequence[str]) -> str:
    """Return the macro that tells the driver the counters of a unit.

    Parameters
    ----------
    names : sequence of str
    """
    counts = " ".join(f"COUNTER({number}, {name})" for number, name in enumerate(names))
    return f"COUNTERS {counts}"


class DrivenModel(Closable):
    """A unit in compiled simulation, clocked only while it is asked something.

    Parameters
    ----------
    library : path
        The compiled model.
    lanes : int
    counters : sequence of str
        Names of its counters, in the order of `counter_macro`.
    keyed : bool
        Whether it takes a secret.
    latency : int
        Clocks after which operations under way have left, if results are taken.
    progress : callable, optional
        Called with the number of operations done since the last call.
    """

    def __init__(
        self,
        library: Path,
        *,
        lanes: int,
        counters: Sequence[str],
        keyed: bool,
        latency: int,
        progress: Progress | None = None,
    ) -> None:
        self._lanes = lanes
        self._counters = counters
        self._latency = latency
        self._progress = progress
        self._library = load_model(library, _signatures(keyed))
        self._unit = ctypes.c_void_p(self._library.lately_new())

    def close(self) -> None:
        """Free the model; nothing can be asked of it afterwards."""
        if self._unit:
            self._library.lately_delete(self._unit)
            self._unit = ctypes.c_void_p()

    def idle(self, cycles: int) -> None:
        """Let cycles pass without an operation.

        Parameters
        ----------
        cycles : int
        """
        self._library.lately_idle(self._unit, cycles)

    @property
    def cycles(self) -> int:
        """Cycles so far."""
        return int(self._library.lately_cycles(self._unit))

    @property
    def statistics(self) -> dict[str, int]:
        """The unit's counters: events since reset."""
        self.idle(2 * self._latency)
        counts = np.zeros(len(self._counters), np.uint64)
        self._library.lately_statistics(self._unit, counts.ctypes.data)
        return dict(zip(self._counters, counts.tolist(), strict=True))

    def _load_secret(self, secret: int, settle: int) -> bool:
        """Offer a secret after so many cycles; return whether the unit takes it."""
        check_secret(secret)
        low, high = secret & (1 << 64) - 1, secret >> 64
        self.idle(settle)
        return bool(self._library.lately_secret(self._unit, low, high))

    def _read(self, number: int, words: int, width: int) -> NDArray[np.bool_]:
        """Return the bits of a memory, shape (words, width), lowest bit first."""
        held = np.empty((words, -(-width // 64)), np.uint64)
        self._library.lately_memory(self._unit, number, words, width, held.ctypes.data)
        bits = held[:, :, None] >> np.arange(64, dtype=np.uint64) & np.uint64(1)
        return bits.reshape(words, -1)[:, :width] > 0

    def _drive(self, arrays: tuple[NDArray[Any], ...], pauses: tuple[int, int], seed: int) -> None:
        """Have the driver send beats, the first four arrays, and fill in results, the others.

        These are the operation before the lanes of each beat; of each lane the code, the key and
        the time or window; and of each lane whether the key was seen, its age and a status.
        """
        self._library.lately_begin(self._unit, seed)
        alone, codes, *_ = arrays
        pointers = [array.ctypes.data for array in arrays]
        chunk = max(1, _CHUNK // self._lanes)
        # In parts, so that an interrupt is heard between them; the unit knows nothing of them.
        for start in range(0, len(alone), chunk):
            enough = min(start + chunk, len(alone))
            failed = self._library.lately_run(self._unit, len(alone), enough, *pointers, *pauses)
            if failed:
                reason = "one of another" if failed < 0 else f"none in {failed} cycles"
                raise ToolError(f"replay: expected one result per operation, found {reason}")
            if self._progress is not None:
                self._progress(int((codes[start * self._lanes : enough * self._lanes] > 0).sum()))


def _signatures(keyed: bool) -> Signatures:
    """Return what the driver offers."""
    unit, count, array = ctypes.c_void_p, ctypes.c_uint64, ctypes.c_void_p
    chance = ctypes.c_uint32
    functions: Signatures = {
        "lately_new": (unit, ()),
        "lately_delete": (None, (unit,)),
        "lately_reset": (None, (unit,)),
        "lately_cycles": (count, (unit,)),
        "lately_generation": (None, (unit, count)),
        "lately_idle": (None, (unit, count)),
        "lately_statistics": (None, (unit, array)),
        "lately_memory": (None, (unit, count, count, count, array)),
        "lately_begin": (None, (unit, count)),
        "lately_run": (ctypes.c_int64, (unit, count, count, *(array,) * 7, chance, chance)),
    }
    if keyed:
        functions["lately_secret"] = (ctypes.c_int, (unit, count, count))
    return functions

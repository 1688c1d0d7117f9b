"""Drivers of compiled units, which send beats of operations, and read counters and memories."""

import ctypes
from abc import abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...golden.errors import SpecificationError
from ...golden.hash.siphash import check_secret
from ...golden.operations import Operation
from ...golden.results import Results
from ..toolchain import ToolError
from .beats import Beats, RawResults
from .model import Closable, Signatures, load_model
from .upset_runs import SentBeats, Upsets, upset_signatures

DRIVER = Path(__file__).with_name("driver.cpp")
PATIENCE = 1 << 24  # cycles without a result after which the simulation fails

_CHUNK = 1 << 16

Progress = Callable[[int], None]  # gets the number of operations done since the last call


def counter_macro(names: Sequence[str]) -> str:
    counts = " ".join(f"COUNTER({number}, {name})" for number, name in enumerate(names))
    return f"COUNTERS {counts}"


class DrivenModel(Closable):
    """Compiled simulation of a unit; the clock runs only during calls.

    If the model supports upsets, `upsets` repeats the last sequence of operations with flipped
    bits.
    """

    def __init__(
        self,
        library: Path,
        *,
        lanes: int,
        counters: Sequence[str],
        keyed: bool,
        deciding: bool = False,
        latency: int,
        progress: Progress | None = None,
        upsets: bool = False,
    ) -> None:
        self._lanes = lanes
        self._counters = counters
        self._latency = latency
        self._progress = progress
        self._interrupted: int | None = None
        more = upset_signatures() if upsets else {}
        self._library = load_model(library, _signatures(keyed, deciding) | more)
        self._unit = ctypes.c_void_p(self._library.lately_new())
        self.upsets = Upsets(self._library, self._unit, lanes) if upsets else None

    def close(self) -> None:
        if self._unit:
            self._library.lately_delete(self._unit)
            self._unit = ctypes.c_void_p()

    def __exit__(self, *error: object) -> None:
        """Close the model; if no error occurred, first check that it produces no extra results."""
        try:
            if self._unit and error[:1] == (None,):
                self.idle(2 * self._latency)
        finally:
            super().__exit__(*error)

    def idle(self, cycles: int) -> None:
        """Run cycles without an operation; a surplus result raises a `ToolError`."""
        self._library.lately_idle(self._unit, cycles)
        if surplus := self._library.lately_surplus(self._unit):
            raise ToolError(f"replay: {surplus} more results than operations at the end")

    @property
    def cycles(self) -> int:
        return int(self._library.lately_cycles(self._unit))

    @property
    def statistics(self) -> dict[str, int]:
        """Event counters of the unit, since reset."""
        self.idle(2 * self._latency)
        counts = np.zeros(len(self._counters), np.uint64)
        self._library.lately_statistics(self._unit, counts.ctypes.data)
        return dict(zip(self._counters, counts.tolist(), strict=True))

    def interrupt(self, operations: ArrayLike, keys: ArrayLike, beats: int) -> None:
        """Perform operations, and reset the unit once `beats` beats have returned their results."""
        self._interrupted = beats
        try:
            self.perform(operations, keys)
        finally:
            self._interrupted = None
        self.reset()

    @abstractmethod
    def reset(self) -> None:
        pass

    @abstractmethod
    def perform(
        self, operations: ArrayLike, keys: ArrayLike, *operands: Any, **options: Any
    ) -> Results:
        """Perform a mixed sequence of operations on keys, shape (n,) or (n, words)."""

    def check_and_insert(self, keys: ArrayLike) -> NDArray[np.bool_]:
        """Query and insert keys, one beat per cycle; return the verdicts, shape (n,)."""
        count = len(np.asarray(keys))
        return self.perform(np.full(count, Operation.CHECK_AND_INSERT, np.uint8), keys).seen

    def _load_secret(self, hash: str, secret: int, settle: int) -> bool:
        """Offer a secret after `settle` cycles; return whether the unit accepts it."""
        if hash != "siphash":
            raise SpecificationError(f"secret: hash {hash!r} has no secret")
        check_secret(secret)
        low, high = secret & (1 << 64) - 1, secret >> 64
        self.idle(settle)
        return bool(self._library.lately_secret(self._unit, low, high))

    def _read(self, number: int, words: int, width: int) -> NDArray[np.bool_]:
        held = np.empty((words, -(-width // 64)), np.uint64)
        self._library.lately_memory(self._unit, number, words, width, held.ctypes.data)
        bits = held[:, :, None] >> np.arange(64, dtype=np.uint64) & np.uint64(1)
        return bits.reshape(words, -1)[:, :width] > 0

    def _send(
        self,
        codes: NDArray[np.uint8],
        keys: NDArray[np.uint64],
        numbers: NDArray[np.int64],
        *,
        skips: NDArray[np.bool_] | None = None,
        holes: NDArray[np.bool_] | None = None,
        **pauses: Any,
    ) -> Results:
        beats = Beats(codes, self._lanes, skips, holes)
        lane_codes, lane_keys = beats.spread(codes, keys, self._lanes)
        spread = np.zeros(len(lane_codes) + 1, np.uint64)
        spread[beats.slots] = numbers
        raw = self._drive(beats.alone, lane_codes, lane_keys, spread, **pauses)
        # Operations without a lane have the last slot, which has no result.
        fields = raw.part(beats.slots)._asdict()
        del fields["tag"]
        return Results.of(**fields)

    def _drive(
        self,
        alone: NDArray[np.uint8],
        codes: NDArray[np.uint8],
        keys: NDArray[np.uint64],
        numbers: NDArray[np.uint64],
        *,
        pause_before: float = 0.0,
        pause_after: float = 0.0,
        seed: int = 1,
    ) -> RawResults:
        self._library.lately_begin(self._unit, seed)
        if self.upsets is not None:
            self.upsets.begin(SentBeats(alone, codes, keys, numbers))
        raw = RawResults.nothing(len(codes) + 1)
        raw.age.fill(-1)
        results = np.array([array.ctypes.data for array in raw[:-1]], np.uintp)
        sent = (alone, codes, keys, numbers, results)
        pointers = [array.ctypes.data for array in sent]
        pauses = (round(256 * pause_before), round(256 * pause_after))
        chunk = max(1, _CHUNK // self._lanes)
        # In parts, so that interrupts are handled between them.
        last = len(alone) if self._interrupted is None else min(self._interrupted, len(alone))
        for start in range(0, last, chunk):
            enough = min(start + chunk, last)
            failed = self._library.lately_run(
                self._unit, len(alone), enough, *pointers, *pauses, PATIENCE
            )
            if failed:
                reason = "another result" if failed < 0 else f"no result for {failed} cycles"
                raise ToolError(f"replay: expected the result of the next operation, got {reason}")
            if self._progress is not None:
                done = codes[start * self._lanes : enough * self._lanes], alone[start:enough]
                self._progress(sum(int(np.count_nonzero(part)) for part in done))
        return raw


def _signatures(keyed: bool, deciding: bool) -> Signatures:
    unit, count, array = ctypes.c_void_p, ctypes.c_uint64, ctypes.c_void_p
    chance = ctypes.c_uint32
    functions: Signatures = {
        "lately_new": (unit, ()),
        "lately_delete": (None, (unit,)),
        "lately_reset": (None, (unit,)),
        "lately_cycles": (count, (unit,)),
        "lately_surplus": (count, (unit,)),
        "lately_generation": (None, (unit, count)),
        "lately_idle": (None, (unit, count)),
        "lately_period": (None, (unit, count)),
        "lately_ticks": (count, (unit,)),
        "lately_statistics": (None, (unit, array)),
        "lately_memory": (None, (unit, count, count, count, array)),
        "lately_begin": (None, (unit, count)),
        "lately_load": (None, (unit, *(count,) * 5, array)),
        "lately_loaded": (count, (unit,)),
        "lately_run": (ctypes.c_int64, (unit, count, count, *(array,) * 5, chance, chance, count)),
    }
    if keyed:
        functions["lately_secret"] = (ctypes.c_int, (unit, count, count))
    if deciding:
        functions["lately_table"] = (ctypes.c_int64, (unit, count, array))
    return functions

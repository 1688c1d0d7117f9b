"""Repeat the runs of a compiled unit, with and without a flipped bit."""

import ctypes
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .beats import RawResults
from .model import Signatures
from .upset_elements import Element, named_elements

_FOREVER = (1 << 64) - 1

_BEGIN, _END, _INJECTED = range(3)  # slots for saved states


def flip_signatures() -> Signatures:
    unit, count = ctypes.c_void_p, ctypes.c_uint64
    return {
        "lately_elements": (ctypes.c_char_p, ()),
        "lately_save": (None, (unit, count)),
        "lately_restore": (None, (unit, count)),
        "lately_flip": (None, (unit, count, count, count)),
        "lately_state": (count, (unit,)),
        "lately_reported": (count, (unit,)),
        "lately_cycles": (count, (unit,)),
    }


def upset_signatures() -> Signatures:
    follow = (ctypes.c_void_p, *(ctypes.c_uint64,) * 4, *(ctypes.c_void_p,) * 7)
    return flip_signatures() | {"lately_follow": (ctypes.c_uint64, follow)}


class SentBeats(NamedTuple):
    alone: NDArray[np.uint8]  # operation before the lanes, shape (beats,)
    codes: NDArray[np.uint8]  # codes of all lanes in beat order, with `beats.VALID` if used
    keys: NDArray[np.uint64]  # shape (lanes times beats, words)
    numbers: NDArray[np.uint64]  # time or window of each operation


class Upset(NamedTuple):
    """A bit that flips between two clock edges."""

    clock: int  # cycles from the start of the sequence to the flip
    element: int
    word: int
    bit: int


class UpsetOutcomes(NamedTuple):
    first: NDArray[np.int64]  # number of the first beat whose result was due after the upset
    beats: NDArray[np.int64]  # number of beats with results after the upset
    reported: NDArray[np.bool_]  # whether the unit reported a fault
    # Whether all registers and memories except counters finally equal those without the upset.
    healed: NDArray[np.bool_]
    results: RawResults  # shape (n, lanes times beats)


class Flips:
    def __init__(self, library: ctypes.CDLL, unit: ctypes.c_void_p) -> None:
        self._library = library
        self._unit = unit
        # The file name of a compiled model is the digest of its sources.
        self.digest = Path(library._name).stem
        self.elements: list[Element] = named_elements(library.lately_elements().decode())


class Upsets(Flips):
    """Repeats the last sequence of operations that a unit performed, with flipped bits."""

    def __init__(self, library: ctypes.CDLL, unit: ctypes.c_void_p, lanes: int) -> None:
        super().__init__(library, unit)
        self._lanes = lanes

    def begin(self, sent: SentBeats) -> None:
        self._library.lately_save(self._unit, _BEGIN)
        self._sent = sent

    @property
    def sent(self) -> SentBeats:
        return self._sent

    @property
    def beats(self) -> int:
        return len(self._sent.alone)

    @property
    def reported(self) -> bool:
        return bool(self._library.lately_reported(self._unit))

    def reference(self, clocks: int, *marks: int) -> tuple[RawResults, list[int]]:
        """Repeat the sequence without upsets, in at most `clocks` cycles.

        `marks` are increasing numbers of beats. Returns the results and, for each mark, the cycle
        by which that many beats had returned their results.
        """
        library, unit = self._library, self._unit
        self._states = np.zeros(clocks, np.uint64)
        library.lately_save(unit, _END)
        library.lately_restore(unit, _BEGIN)
        results = RawResults.nothing(self.beats * self._lanes)
        begun, came, passed = library.lately_cycles(unit), 0, [0]
        for mark in (*marks, self.beats):
            left = results.part(slice(came * self._lanes, None))
            came = self._follow(mark, clocks, clocks, left, self._states[passed[-1] :])
            passed.append(library.lately_cycles(unit) - begun)
        library.lately_restore(unit, _END)
        return results, passed[1:-1]

    def inject(self, upsets: list[Upset], *, beats: int, patience: int) -> UpsetOutcomes:
        """Repeat the sequence once for each upset; upsets must be ordered by cycle.

        Each run waits for the results of `beats` beats after the upset, but ends after `patience`
        cycles without a result.
        """
        count, library, unit = len(upsets), self._library, self._unit
        results = RawResults.nothing(count, beats * self._lanes)
        first, came = np.zeros((2, count), np.int64)
        reported, healed = np.zeros((2, count), np.bool_)
        library.lately_restore(unit, _BEGIN)
        begun = library.lately_cycles(unit)
        for number, upset in enumerate(upsets):
            passed = library.lately_cycles(unit) - begun
            first[number] = self._follow(self.beats, upset.clock - passed, _FOREVER)
            library.lately_save(unit, _INJECTED)
            before = library.lately_reported(unit)
            library.lately_flip(unit, *upset[1:])
            due = int(first[number]) + beats
            came[number] = self._follow(due, _FOREVER, patience, results.part(number))
            reported[number] = library.lately_reported(unit) != before
            at = library.lately_cycles(unit) - begun - 1
            healed[number] = library.lately_state(unit) == self._states[at]
            library.lately_restore(unit, _INJECTED)
        library.lately_restore(unit, _END)
        return UpsetOutcomes(first, came - first, reported, healed, results)

    def _follow(
        self,
        enough: int,
        clocks: int,
        patience: int,
        raw: RawResults | None = None,
        states: NDArray[np.uint64] | None = None,
    ) -> int:
        """Run at most `clocks` cycles, until `enough` beats have results.

        Returns the number of beats with results.
        """
        results, tags = None, None
        if raw is not None:
            *fields, tags = (array.ctypes.data for array in raw)
            pointers = np.array(fields, np.uintp)
            results = pointers.ctypes.data
        sent = (array.ctypes.data for array in self._sent)
        kept = None if states is None else states.ctypes.data
        limits = (self.beats, enough, clocks, patience)
        return int(self._library.lately_follow(self._unit, *limits, *sent, results, tags, kept))

"""Runs of a compiled unit in which single bits flip, beside the run in which none does."""

import ctypes
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .model import Signatures
from .raw_results import RawResults
from .upset_elements import Element, named_elements

_FOREVER = (1 << 64) - 1

_BEGIN, _END, _STRUCK = range(3)
"""Places of states that are kept."""


def _signatures() -> Signatures:
    unit, count, array = ctypes.c_void_p, ctypes.c_uint64, ctypes.c_void_p
    return {
        "lately_elements": (ctypes.c_char_p, ()),
        "lately_save": (None, (unit, count)),
        "lately_restore": (None, (unit, count)),
        "lately_flip": (None, (unit, count, count, count)),
        "lately_state": (count, (unit,)),
        "lately_told": (count, (unit,)),
        "lately_follow": (count, (unit, *(count,) * 4, *(array,) * 7)),
    }


UPSET_SIGNATURES = _signatures()
"""What the driver offers besides, of a model in which bits can be flipped."""


class SentBeats(NamedTuple):
    """A sequence of beats, as the driver takes it."""

    alone: NDArray[np.uint8]
    """Operation before those of the lanes, shape (beats,)."""
    codes: NDArray[np.uint8]
    """Operation of each lane of each beat, with `lately.sim.replay.beats.VALID` if there is one."""
    keys: NDArray[np.uint64]
    """Shape (lanes times beats, words)."""
    numbers: NDArray[np.uint64]
    """Time of each operation, or the window that it asks for."""


class Upset(NamedTuple):
    """A bit that flips between two clock edges."""

    clock: int
    """Clocks of the sequence before."""
    element: int
    word: int
    bit: int


class UpsetOutcomes(NamedTuple):
    """What came of upsets, shape (n,) each, and shape (n, lanes times beats) of what was beheld."""

    first: NDArray[np.int64]
    """Beat whose result was due first after each."""
    beats: NDArray[np.int64]
    """Results after each: fewer than were due, if no more came."""
    told: NDArray[np.bool_]
    """Whether the unit told of a fault of its own."""
    healed: NDArray[np.bool_]
    """Whether registers and memories were at the end as without it, but for counters."""
    beheld: RawResults


class Upsets:
    """Runs with flipped bits of the sequence of operations that a unit performed last.

    Parameters
    ----------
    library : CDLL
        Of a model that was compiled for it.
    unit : c_void_p
    lanes : int

    Attributes
    ----------
    elements : list of Element
        What can be struck.
    digest : str
        Of the hardware, the driver and the version of Verilator.
    """

    def __init__(self, library: ctypes.CDLL, unit: ctypes.c_void_p, lanes: int) -> None:
        self._library = library
        self._unit = unit
        self._lanes = lanes
        # A compiled model is called after the digest of what it is made of.
        self.digest = Path(library._name).stem
        self.elements: list[Element] = named_elements(library.lately_elements().decode())

    def begin(self, sent: SentBeats) -> None:
        """Keep the state of the unit, and the sequence that it is about to perform.

        Parameters
        ----------
        sent : SentBeats
        """
        self._library.lately_save(self._unit, _BEGIN)
        self._sent = sent

    @property
    def sent(self) -> SentBeats:
        """The sequence."""
        return self._sent

    @property
    def beats(self) -> int:
        """Beats of the sequence."""
        return len(self._sent.alone)

    @property
    def told(self) -> bool:
        """Whether the unit tells of a fault of its own, or has counted one."""
        return bool(self._library.lately_told(self._unit))

    def reference(self, clocks: int, *marks: int) -> tuple[RawResults, list[int]]:
        """Perform the sequence again as it was performed.

        Parameters
        ----------
        clocks : int
            At least as many as it takes.
        marks : int
            Numbers of beats, in order.

        Returns
        -------
        beheld : RawResults
        marks : list of int
            Cycles until so many beats had been answered.
        """
        library, unit = self._library, self._unit
        self._states = np.zeros(clocks, np.uint64)
        library.lately_save(unit, _END)
        library.lately_restore(unit, _BEGIN)
        beheld = RawResults.nothing(self.beats * self._lanes)
        begun, came, passed = library.lately_cycles(unit), 0, [0]
        for mark in (*marks, self.beats):
            left = beheld.part(slice(came * self._lanes, None))
            came = self._follow(mark, clocks, clocks, left, self._states[passed[-1] :])
            passed.append(library.lately_cycles(unit) - begun)
        library.lately_restore(unit, _END)
        return beheld, passed[1:-1]

    def strike(self, upsets: list[Upset], *, beats: int, patience: int) -> UpsetOutcomes:
        """Flip bits, each in a separate run that otherwise equals the last run of `reference`.

        Parameters
        ----------
        upsets : list of Upset
            In order of their clocks.
        beats : int
            Results that are awaited after each.
        patience : int
            Cycles after which no more results are awaited.
        """
        count, library, unit = len(upsets), self._library, self._unit
        beheld = RawResults.nothing(count, beats * self._lanes)
        first, came = np.zeros((2, count), np.int64)
        told, healed = np.zeros((2, count), np.bool_)
        library.lately_restore(unit, _BEGIN)
        begun = library.lately_cycles(unit)
        for number, upset in enumerate(upsets):
            passed = library.lately_cycles(unit) - begun
            first[number] = self._follow(self.beats, upset.clock - passed, _FOREVER)
            library.lately_save(unit, _STRUCK)
            before = library.lately_told(unit)
            library.lately_flip(unit, *upset[1:])
            due = int(first[number]) + beats
            came[number] = self._follow(due, _FOREVER, patience, beheld.part(number))
            told[number] = library.lately_told(unit) != before
            at = library.lately_cycles(unit) - begun - 1
            healed[number] = library.lately_state(unit) == self._states[at]
            library.lately_restore(unit, _STRUCK)
        library.lately_restore(unit, _END)
        return UpsetOutcomes(first, came - first, told, healed, beheld)

    def _follow(
        self,
        enough: int,
        clocks: int,
        patience: int,
        beheld: RawResults | None = None,
        states: NDArray[np.uint64] | None = None,
    ) -> int:
        """Go on until so many beats are answered in all, or for so many cycles; return how many."""
        results, tags = None, None
        if beheld is not None:
            *told, tags = (array.ctypes.data for array in beheld)
            pointers = np.array(told, np.uintp)
            results = pointers.ctypes.data
        sent = (array.ctypes.data for array in self._sent)
        kept = None if states is None else states.ctypes.data
        limits = (self.beats, enough, clocks, patience)
        return int(self._library.lately_follow(self._unit, *limits, *sent, results, tags, kept))

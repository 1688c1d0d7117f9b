"""Compiled deduplicators of frames, in which bits can be flipped."""

import ctypes
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...golden.packets.comparison import DEFAULT_FIELDS
from ...golden.packets.frame_actions import Action
from ...hdl.packets.deduplicator import Deduplicator
from ...hdl.verilog import TOP, convert
from .model import Closable, Signatures, cached_model, defines, load_model
from .upset_runs import Flips, Upset, flip_signatures

_DRIVER = Path(__file__).with_name("frames.cpp")
_FACTOR = 0x100000001B3
_BEGIN, _INJECTED = range(2)


class FrameSlots(NamedTuple):
    """Inputs of a deduplicator, one slot for each of n cycles."""

    octets: NDArray[np.uint8]  # bytes of each transfer, shape (n, bytes)
    sizes: NDArray[np.uint8]  # number of valid bytes; 0 without a transfer
    flags: NDArray[np.uint8]  # 1: last transfer of a frame, 2: tick


class LeavingFrames(NamedTuple):
    digests: NDArray[np.uint64]  # `frame_digest` of the bytes
    marked: NDArray[np.bool_]
    cycles: NDArray[np.int64]  # cycle of the last transfer, counted from the end of the reset


def frame_digest(frame: bytes) -> int:
    total = 0
    for byte in frame:
        total = (total ^ (byte + 1)) * _FACTOR & (1 << 64) - 1
    return total


class CompiledFrames(Closable):
    """A deduplicator in compiled simulation, which marks duplicates and supports upsets.

    One slot is offered per cycle while the input is ready, and the output is always accepted.
    """

    def __init__(self, unit: Deduplicator, *, settle: int, optimisation: int = 3) -> None:
        self._settle = settle
        octets = unit.frame_options.width // 8
        header = defines(f"BYTES {octets}", f"DIGEST_FACTOR {_FACTOR}ull")
        path = cached_model(
            convert(unit),
            top=TOP,
            driver=_DRIVER,
            header=header,
            optimisation=optimisation,
            upsets=True,
        )
        self._library = load_model(path, _signatures())
        self._unit = ctypes.c_void_p(self._library.lately_new())
        self.upsets = Flips(self._library, self._unit)

    def close(self) -> None:
        self._library.lately_delete(self._unit)

    def reference(self, slots: FrameSlots, cycles: int) -> LeavingFrames:
        """Reset the deduplicator, and send a sequence for `cycles` cycles without an upset."""
        self._library.lately_reset(
            self._unit, int(Action.MARK), int(DEFAULT_FIELDS.value), self._settle
        )
        self._library.lately_save(self._unit, _BEGIN)
        self._slots, self._states = slots, np.zeros(cycles, np.uint64)
        left = self._follow(cycles, self._states)
        self._library.lately_restore(self._unit, _BEGIN)
        return left

    def inject(self, upset: Upset, cycles: int) -> tuple[LeavingFrames, bool]:
        """Repeat the last sequence with an upset; upsets must be ordered by cycle.

        Returns the frames that end after the upset and before `cycles`, and whether at the end all
        registers and memories, except counters, equal those of the reference.
        """
        library, unit = self._library, self._unit
        self._follow(upset.clock)
        library.lately_save(unit, _INJECTED)
        library.lately_flip(unit, *upset[1:])
        left = self._follow(cycles)
        healed = library.lately_state(unit) == self._states[cycles - 1]
        library.lately_restore(unit, _INJECTED)
        return left, healed

    def _follow(self, cycles: int, states: NDArray[np.uint64] | None = None) -> LeavingFrames:
        # With a flipped bit, a frame may end in every cycle.
        room = max(0, cycles - int(self._library.lately_cycles(self._unit)))
        ended = np.zeros((room, 3), np.uint64)
        kept = None if states is None else states.ctypes.data
        sent = (array.ctypes.data for array in self._slots)
        left = self._library.lately_follow(
            self._unit, len(self._slots.sizes), cycles, *sent, ended.ctypes.data, kept
        )
        digests, marked, ends = ended[:left].T
        return LeavingFrames(digests, marked > 0, ends.astype(np.int64))


def _signatures() -> Signatures:
    unit, count, array = ctypes.c_void_p, ctypes.c_uint64, ctypes.c_void_p
    return flip_signatures() | {
        "lately_new": (unit, ()),
        "lately_delete": (None, (unit,)),
        "lately_reset": (None, (unit, *(count,) * 3)),
        "lately_follow": (count, (unit, count, count, *(array,) * 5)),
    }

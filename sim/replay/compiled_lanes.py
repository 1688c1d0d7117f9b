"""Compiled replay of a unit of several lanes."""

import ctypes
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...golden.hash.functions import KeyHash
from ...golden.operations import Operation, OperationBit, Verdicts
from ...golden.spec import FilterSpec
from ...hdl.memory.map import memory_map
from ...hdl.profile import HardwareProfile
from ...hdl.verilog import TOP, unit_verilog
from ..toolchain import ToolError
from .compiled import CompiledModel, CompiledUnit, Progress, Signatures, cached_model, defines

_DRIVER = Path(__file__).with_name("lanes_driver.cpp")
_CHUNK = 1 << 14
_VALID = 0x80


def compiled_lanes(spec: FilterSpec) -> Path:
    """Return the compiled model of a unit of several lanes; as `compiled_model`."""
    return cached_model(
        unit_verilog(spec),
        top=TOP,
        driver=_DRIVER,
        defines=defines(spec, memory_map(spec)),
    )


class Beats:
    """A sequence of operations, laid out in beats.

    Lanes are filled in order. SHIFT and CLEAR come before the operations of a
    beat and have no lane.

    Parameters
    ----------
    operations : ndarray of uint8, shape (n,)
    lanes : int
    skips : ndarray of bool, shape (n,), optional
        Operations before which the rest of the beat stays empty.

    Attributes
    ----------
    alone : ndarray of uint8, shape (beats,)
        Operation before those of the lanes.
    places : ndarray of intp, shape (n,)
        Beat times lanes, and lane, of each operation; -1 for SHIFT and CLEAR.
    """

    def __init__(
        self,
        operations: NDArray[np.uint8],
        lanes: int,
        skips: NDArray[np.bool_] | None = None,
    ) -> None:
        turning = operations & OperationBit.ALONE != 0
        self.places = np.full(len(operations), -1, np.intp)
        if not turning.any() and skips is None:
            self.places[:] = np.arange(len(operations))
            self.alone = np.zeros(-(-len(operations) // lanes), np.uint8)
            return
        alone: list[int] = []
        lane = lanes
        for number, operation in enumerate(operations.tolist()):
            if turning[number]:
                alone.append(operation)
                lane = 0
                continue
            if lane == lanes or (skips is not None and skips[number]):
                alone.append(Operation.NONE)
                lane = 0
            self.places[number] = (len(alone) - 1) * lanes + lane
            lane += 1
        self.alone = np.array(alone, np.uint8)


class CompiledLanes(CompiledModel):
    """A unit of several lanes in compiled simulation.

    Parameters
    ----------
    spec : FilterSpec
        What to build, of several lanes.
    progress : callable, optional
        Called with the number of operations done since the last call.

    Raises
    ------
    ToolError
        If a tool is missing or fails.
    SpecificationError
        If the hardware cannot hold the specification.
    """

    def __init__(self, spec: FilterSpec, *, progress: Progress | None = None) -> None:
        self._hash = KeyHash(
            key_bits=spec.key_bits, sizes=spec.index_sizes, functions=1, seed=spec.seed
        )
        unit, count, array = ctypes.c_void_p, ctypes.c_uint64, ctypes.c_void_p
        number = ctypes.c_uint32
        signatures: Signatures = {
            "lately_reset": (None, (unit,)),
            "lately_begin": (None, (unit, count)),
            "lately_run": (ctypes.c_int64, (unit, count, count, *(array,) * 5, number, number)),
        }
        profile = HardwareProfile(spec)
        super().__init__(profile, compiled_lanes(spec), signatures, progress=progress)
        self.reset()

    def reset(self) -> None:
        """Reset the unit, which clears its memory. Counts one clock."""
        self._library.lately_reset(self._unit)

    @property
    def statistics(self) -> dict[str, int]:
        """Event counters: none."""
        return {}

    @property
    def memory(self) -> NDArray[np.bool_]:
        """Bits of all physical segments, once the spare is clear; as the golden model's.

        Returns
        -------
        ndarray of bool, shape (segments, parts, part_bits)
        """
        spec = self.spec
        self.idle(4 * self.profile.latency + 2 * self.profile.clear_cycles)
        return self._read(memory_map(spec))

    def check_and_insert(self, keys: ArrayLike) -> NDArray[np.bool_]:
        """Query and insert keys, as many per clock as there are lanes.

        Parameters
        ----------
        keys : array_like of int
            As for `SlidingFilter.check_and_insert`.

        Raises
        ------
        ToolError
            If there are not as many results as operations.
        """
        checked = self._hash.check_keys(keys)
        operations = np.full(len(checked), Operation.CHECK_AND_INSERT, np.uint8)
        return self._run(operations, checked, None, 0, 0, 1).seen

    def apply(
        self,
        operations: ArrayLike,
        keys: ArrayLike,
        *,
        skips: NDArray[np.bool_] | None = None,
        pause_before: float = 0.0,
        pause_after: float = 0.0,
        seed: int = 1,
    ) -> Verdicts:
        """Perform a mixed sequence of operations; as the golden model's method.

        Parameters
        ----------
        operations, keys
            As for `SlidingFilter.apply`.
        skips : ndarray of bool, shape (n,), optional
            Operations before which the rest of the beat stays empty.
        pause_before, pause_after : float
            Shares of the clocks in which no beat is offered, and no answer taken.
        seed : int
            Of the pauses.

        Raises
        ------
        ToolError
            If the hardware does not answer any longer.
        """
        codes = np.ascontiguousarray(operations, np.uint8)
        pauses = (round(256 * pause_before), round(256 * pause_after))
        return self._run(codes, self._hash.check_keys(keys), skips, *pauses, seed)

    def _run(
        self,
        operations: NDArray[np.uint8],
        keys: NDArray[np.uint64],
        skips: NDArray[np.bool_] | None,
        pause_before: int,
        pause_after: int,
        seed: int,
    ) -> Verdicts:
        lanes = self.spec.lanes
        beats = Beats(operations, lanes, skips)
        placed = beats.places >= 0
        places = beats.places[placed]
        codes = np.zeros(len(beats.alone) * lanes, np.uint8)
        lane_keys = np.zeros((len(codes), keys.shape[1]), np.uint64)
        codes[places] = operations[placed] | _VALID
        lane_keys[places] = keys[placed]
        seen = np.zeros(len(codes), np.uint8)
        age = np.full(len(codes), -1, np.int16)
        arrays = (beats.alone, codes, lane_keys, seen, age)
        pointers = [array.ctypes.data for array in arrays]
        count = len(beats.alone)
        self._library.lately_begin(self._unit, seed)
        # In parts, so that an interrupt is heard between them; the unit knows nothing of them.
        for start in range(0, count, _CHUNK):
            enough = min(start + _CHUNK, count)
            failed = self._library.lately_run(
                self._unit, count, enough, *pointers, pause_before, pause_after
            )
            if failed:
                reason = "an answer of others" if failed < 0 else f"none in {failed} clocks"
                raise ToolError(f"replay: expected one answer per beat, found {reason}")
            if self._progress is not None:
                self._progress(int((codes[start * lanes : enough * lanes] > 0).sum()))
        verdicts = Verdicts(
            np.zeros(len(operations), np.bool_), np.full(len(operations), -1, np.int64)
        )
        verdicts.seen[placed] = seen[places] > 0
        verdicts.age[placed] = age[places]
        return verdicts


def compiled_unit(
    spec: FilterSpec, *, progress: Progress | None = None
) -> CompiledUnit | CompiledLanes:
    """Open the unit for a specification: `CompiledUnit`, or `CompiledLanes` for several lanes.

    Parameters
    ----------
    spec : FilterSpec
    progress : callable, optional
        As for the classes.
    """
    kind = CompiledUnit if spec.lanes == 1 else CompiledLanes
    return kind(spec, progress=progress)

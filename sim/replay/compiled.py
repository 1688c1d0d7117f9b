"""Compiled replay: a unit as generated Verilog, verilated to a library and driven from arrays."""

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...golden.errors import RekeyError, SpecificationError
from ...golden.hash.siphash import check_secret
from ...golden.operations import Operation, Verdicts
from ...golden.ring.layout import Layout
from ...golden.spec import FilterSpec
from ...golden.times import check_timestamps
from ...hdl.interface import UnitSignature
from ...hdl.lanes.unit import LaneUnit
from ...hdl.latencies import GENERATION_LEAD, PAUSE
from ...hdl.memory.map import PhysicalMemory, memory_map
from ...hdl.profile import HardwareProfile
from ...hdl.registers import Holder, counters
from ...hdl.unit import FilterUnit
from ...hdl.verilog import LONGEST_SILENCE, TAG_BITS, TOP, time_options, unit_verilog
from ..toolchain import ToolError, models
from .beats import Beats
from .model import Closable, Signatures, cached_model, defines, load_model

_CHUNK = 1 << 16
_DRIVER = Path(__file__).with_name("driver.cpp")

Progress = Callable[[int], None]
"""Called with the number of operations done since the last call."""


def compiled_model(
    spec: FilterSpec,
    organisation: str = "separate",
    memory: str = "portable",
    *,
    optimisation: int = 3,
) -> Path:
    """Return the compiled model of a filter unit, built now if it is not in the cache.

    The cache is keyed by the generated Verilog, the driver and the version of
    Verilator, so that a change to any of them builds anew. A model appears in
    the cache complete or not at all.

    Parameters
    ----------
    spec : FilterSpec
    organisation, memory : str
        As for `lately.hdl.unit.FilterUnit`; explicit block RAMs are simulated with the models
        that answer with garbage what vendors leave undefined.
    optimisation : int
        As for `lately.sim.toolchain.verilate`.

    Raises
    ------
    ToolError
        If a tool is missing or fails.
    SpecificationError
        If the hardware cannot hold the specification.
    """
    unit = unit_verilog(spec, organisation=organisation, memory=memory)
    blocks = models(memory)
    return cached_model(
        "\n".join([unit, *(path.read_text() for path in blocks)]),
        top=TOP,
        driver=_DRIVER,
        header=unit_header(spec, organisation, memory),
        optimisation=optimisation,
        # Otherwise the driver finds no block RAM under its name.
        options=["--flatten"] if blocks else [],
    )


def unit_header(spec: FilterSpec, organisation: str = "separate", memory: str = "portable") -> str:
    """Return the header that describes a unit to the driver.

    Parameters
    ----------
    spec : FilterSpec
    organisation, memory : str
        As for `lately.hdl.unit.FilterUnit`.
    """
    memories = memory_map(spec, organisation=organisation, memory=memory).memories
    paths = ((TOP, *held.path, *(["words"] if held.cell else [])) for held in memories)
    rows = " ".join(
        f"MEMORY({number}, {'__DOT__'.join(path)})" for number, path in enumerate(paths)
    )
    names = enumerate(unit_counters(spec))
    counts = " ".join(f"COUNTER({number}, {name})" for number, name in names)
    return defines(
        *UnitSignature.from_spec(spec, tag_bits=TAG_BITS, **time_options(spec)).macros(),
        f"MEMORIES {rows}",
        f"COUNTERS {counts}",
        *(["KEYED"] if spec.hash == "siphash" else []),
    )


def unit_counters(spec: FilterSpec) -> list[str]:
    """Return the names of the counters that a unit has.

    Parameters
    ----------
    spec : FilterSpec
    """
    held = counters(Holder.UNIT) + (counters(Holder.WINDOW) if spec.timed else [])
    return [register.name for register in held]


class CompiledModel(Closable):
    """A unit in compiled simulation, clocked only while it is asked something.

    Parameters
    ----------
    spec : FilterSpec
        What to build.
    organisation, memory : str
        Organisation and variant of the memory, as for `FilterUnit`.
    optimisation : int
        Level of the C++ compiler: 1 for a few thousand operations, of which compiling takes
        longer than performing them.
    progress : callable, optional
        Called with the number of operations done since the last call.

    Raises
    ------
    ToolError
        If a tool is missing or fails.
    SpecificationError
        If the hardware cannot hold the specification, or has none of `LANES`.
    """

    LANES: tuple[int, ...]
    """Lanes that the unit may have."""

    UNIT: type[FilterUnit] | type[LaneUnit]
    """Component that is simulated."""

    def __init__(
        self,
        spec: FilterSpec,
        *,
        organisation: str = "separate",
        memory: str = "portable",
        optimisation: int = 3,
        progress: Progress | None = None,
    ) -> None:
        if spec.lanes not in self.LANES:
            raise SpecificationError(
                f"lanes: must be {' or '.join(map(str, self.LANES))} for {type(self).__name__}, "
                f"not {spec.lanes}"
            )
        self.spec = spec
        self.profile = HardwareProfile(spec, organisation=organisation)
        self._map = memory_map(spec, organisation=organisation, memory=memory)
        self._progress = progress
        self._hash = Layout.of(spec, partitioned=True).hash
        model = compiled_model(spec, organisation, memory, optimisation=optimisation)
        self._library = load_model(model, self._signatures())
        self._unit = ctypes.c_void_p(self._library.lately_new())
        self.reset()

    def _signatures(self) -> Signatures:
        """Return what the driver offers for such a unit."""
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
        if self.spec.hash == "siphash":
            functions["lately_secret"] = (ctypes.c_int, (unit, count, count))
        return functions

    def close(self) -> None:
        """Free the model; nothing can be asked of it afterwards."""
        if self._unit:
            self._library.lately_delete(self._unit)
            self._unit = ctypes.c_void_p()

    def reset(self) -> None:
        """Reset the unit and its generation length, which clears its memory. Counts one cycle."""
        self._library.lately_generation(self._unit, self.spec.generation)
        self._library.lately_reset(self._unit)

    def set_generation(self, generation: int) -> None:
        """Drive the generation length, in insertions; it counts from the next shift on."""
        self._library.lately_generation(self._unit, generation)
        self.idle(GENERATION_LEAD)

    def rekey(self, secret: int) -> None:
        """Load a new secret, as the golden model's method.

        It applies from the next clear on or, with re-keying, from the next shift.

        Raises
        ------
        RekeyError
            If the unit takes none now. Cycles have passed then, nothing else has changed.
        SpecificationError
            If ``spec.hash`` takes no secret.
        TypeError, ValueError
            If the secret is not an integer of 128 bits.
        """
        if self.spec.hash != "siphash":
            raise SpecificationError(
                f"secret: must not be given for hash {self.spec.hash}, which takes none"
            )
        check_secret(secret)
        low, high = secret & (1 << 64) - 1, secret >> 64
        # Until what is under way has had its effect.
        self.idle(self.profile.latency + PAUSE)
        if not self._library.lately_secret(self._unit, low, high):
            raise RekeyError("rekey: must come when all segments of the ring have one secret")
        self.idle(self.UNIT.SECRET_LEAD)

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
        """The unit's counters of `lately.hdl.registers`: events since reset."""
        self.idle(2 * self.profile.latency)
        names = unit_counters(self.spec)
        counts = np.zeros(len(names), np.uint64)
        self._library.lately_statistics(self._unit, counts.ctypes.data)
        return dict(zip(names, counts.tolist(), strict=True))

    @property
    def memory(self) -> NDArray[np.bool_]:
        """Bits of all physical segments, once the spare is clear; as the golden model's.

        Returns
        -------
        ndarray of bool, shape (segments, parts, part_bits)
        """
        # An operation of several lanes may wait for a shard.
        rounds = 1 if self.spec.lanes == 1 else 2
        self.idle(rounds * (2 * self.profile.latency + self.profile.clear_cycles))
        numbers = {memory.path: number for number, memory in enumerate(self._map.memories)}

        def read(memory: PhysicalMemory) -> NDArray[np.bool_]:
            words = np.empty((memory.words, -(-memory.width // 64)), np.uint64)
            number = numbers[memory.path]
            self._library.lately_memory(
                self._unit, number, memory.words, memory.width, words.ctypes.data
            )
            bits = words[:, :, None] >> np.arange(64, dtype=np.uint64) & np.uint64(1)
            return bits.reshape(memory.words, -1)[:, : memory.width] > 0

        return self._map.gather(read)

    def check_and_insert(self, keys: ArrayLike) -> NDArray[np.bool_]:
        """Query and insert keys, a beat per cycle; as the golden model's method.

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
        return self.apply(operations, checked).seen

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
        operations : array_like of int, shape (n,)
        keys : array_like of int
            As for `SlidingFilter.apply`.
        skips : ndarray of bool, shape (n,), optional
            Operations before which the rest of the beat stays empty.
        pause_before, pause_after : float
            Shares of the cycles in which no beat is offered, and no answer taken.
        seed : int
            Seed of the pauses.

        Raises
        ------
        ToolError
            If there are not as many results as operations.
        """
        return self._perform(
            operations,
            keys,
            skips=skips,
            pause_before=pause_before,
            pause_after=pause_after,
            seed=seed,
        )[0]

    def _perform(
        self,
        operations: ArrayLike,
        keys: ArrayLike,
        times: ArrayLike = 0,
        *,
        skips: NDArray[np.bool_] | None = None,
        pause_before: float = 0.0,
        pause_after: float = 0.0,
        seed: int = 1,
    ) -> tuple[Verdicts, NDArray[np.uint8]]:
        """Perform operations at `times` as the unit has them; return its statuses, too."""
        wanted = np.ascontiguousarray(operations, np.uint8)
        pauses = (round(256 * pause_before), round(256 * pause_after))
        beats = Beats(wanted, self.spec.lanes, skips)
        codes, lane_keys = beats.spread(wanted, self._hash.check_keys(keys), self.spec.lanes)
        # The last of each, which the driver leaves as it is, is for operations without a lane.
        seen = np.zeros(len(codes) + 1, np.bool_)
        age = np.full(len(codes) + 1, -1, np.int16)
        status = np.zeros(len(codes) + 1, np.uint8)
        stamps = np.zeros(len(codes) + 1, np.uint64)
        stamps[beats.places] = times
        self._library.lately_begin(self._unit, seed)
        self._drive((beats.alone, codes, lane_keys, stamps, seen, age, status), pauses)
        verdicts = Verdicts(seen[beats.places], age[beats.places].astype(np.int64))
        return verdicts, status[beats.places]

    def _drive(self, arrays: tuple[NDArray[Any], ...], pauses: tuple[int, int]) -> None:
        """Have the driver send beats, the first four arrays, and fill in results, the others."""
        alone, codes, *_ = arrays
        lanes = self.spec.lanes
        pointers = [array.ctypes.data for array in arrays]
        chunk = max(1, _CHUNK // lanes)
        # In parts, so that an interrupt is heard between them; the unit knows nothing of them.
        for start in range(0, len(alone), chunk):
            enough = min(start + chunk, len(alone))
            failed = self._library.lately_run(self._unit, len(alone), enough, *pointers, *pauses)
            if failed:
                reason = "one of another" if failed < 0 else f"none in {failed} cycles"
                raise ToolError(f"replay: expected one result per operation, found {reason}")
            if self._progress is not None:
                self._progress(int((codes[start * lanes : enough * lanes] > 0).sum()))


class TimedAnswers(NamedTuple):
    """Results of a unit whose window is one in time."""

    seen: NDArray[np.bool_]
    """As `Verdicts`."""
    age: NDArray[np.int64]
    """As `Verdicts`."""
    status: NDArray[np.uint8]
    """Code of the `PoolStatus` of each answer, shape (n,)."""


class CompiledUnit(CompiledModel):
    """A filter unit of one lane in compiled simulation; see `CompiledModel`.

    If its window is one in time, operations without times come at the time that was reached.
    """

    LANES = (1,)
    UNIT = FilterUnit

    # The greatest time so far, and what the unit was told for it.
    _reached = 0
    _told = 0

    def reset(self) -> None:
        """Reset the unit, its generation length and its time. Counts one cycle."""
        super().reset()
        self._reached = self._told = 0

    def perform(
        self,
        operations: ArrayLike,
        keys: ArrayLike,
        timestamps: ArrayLike,
        *,
        pause_before: float = 0.0,
        pause_after: float = 0.0,
        seed: int = 1,
    ) -> TimedAnswers:
        """Perform a mixed sequence of operations at times; as `TimeLimitedRing.perform`.

        A silence may be of any length: the unit is told of none above
        `lately.hdl.verilog.LONGEST_SILENCE`, which is longer than any span.

        Parameters
        ----------
        operations, timestamps : array_like of int, shape (n,)
        keys : array_like of int
            As for `SlidingFilter.apply`.
        pause_before, pause_after, seed
            As for `apply`.

        Raises
        ------
        ToolError
            If there are not as many results as operations.
        SpecificationError
            If the window counts insertions.
        ValueError
            If the timestamps decrease, or one is before that which was reached.
        """
        if not self.spec.timed:
            raise SpecificationError("span: must be given for operations with times, but is not")
        times = check_timestamps(timestamps, len(np.asarray(operations)), self._reached)
        gaps = np.minimum(np.diff(times, prepend=self._reached), LONGEST_SILENCE)
        told = self._told + np.cumsum(gaps)
        if len(times):
            self._reached, self._told = int(times[-1]), int(told[-1])
        verdicts, status = self._perform(
            operations,
            keys,
            told,
            pause_before=pause_before,
            pause_after=pause_after,
            seed=seed,
        )
        return TimedAnswers(*verdicts, status)


class CompiledLanes(CompiledModel):
    """A unit of several lanes in compiled simulation; see `CompiledModel`."""

    LANES = (2, 4)
    UNIT = LaneUnit


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


def replay(
    spec: FilterSpec, keys: ArrayLike, *, progress: Progress | None = None
) -> tuple[NDArray[np.bool_], int]:
    """Check and insert keys in the compiled unit of a specification.

    Parameters
    ----------
    spec : FilterSpec
        What to build.
    keys : array_like of int
        As for `SlidingFilter.check_and_insert`.
    progress : callable, optional
        Called with the number of operations done since the last call.

    Returns
    -------
    verdicts : ndarray of bool, shape (n,)
    cycles : int
        Cycles from reset to the last result.

    Raises
    ------
    ToolError
        If a tool is missing or fails.
    SpecificationError
        If the hardware cannot hold the specification.
    """
    with CompiledUnit(spec, progress=progress) as unit:
        return unit.check_and_insert(keys), unit.cycles

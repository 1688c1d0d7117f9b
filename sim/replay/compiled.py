"""Compiled replay: a unit as generated Verilog, verilated to a library and driven from arrays."""

from pathlib import Path
from typing import Any, NamedTuple, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...golden.errors import RekeyError, SpecificationError
from ...golden.results import Results
from ...golden.ring.layout import Layout
from ...golden.spec import FilterSpec
from ...golden.spec.dictionary_sizes import WindowDictionarySpec
from ...golden.spec.timestamp import PartitionedTimingSpec, TimedTimingSpec
from ...golden.times import Times, check_timestamps
from ...hdl.build import UnitSpec
from ...hdl.interface import UnitSignature
from ...hdl.lanes.unit import LaneUnit
from ...hdl.latencies import DEFAULT_LEVELS, GENERATION_LEAD, PAUSE, TICKS_WAITING
from ...hdl.memory.map import PhysicalMemory, memory_map
from ...hdl.parameters import require_integer
from ...hdl.profile import HardwareProfile
from ...hdl.registers import Holder, counters
from ...hdl.unit import FilterUnit
from ...hdl.verilog import LONGEST_SILENCE, TAG_BITS, TOP, time_options, unit_verilog
from .beats import Beats
from .compiled_dictionary import CompiledDictionary
from .compiled_stamps import CompiledCountedTiming, CompiledTiming
from .driven import DRIVER, DrivenModel, Progress, counter_macro
from .model import cached_model, defines


def compiled_model(
    spec: FilterSpec,
    memory: str = "portable",
    protect: str = "none",
    *,
    ticks: str = "time",
    levels: int = DEFAULT_LEVELS,
    check: bool = False,
    inverted: bool = False,
    optimisation: int = 3,
    upsets: bool = False,
) -> Path:
    """Return the compiled model of a filter unit, built now if it is not in the cache.

    The cache is keyed by the generated Verilog, the driver and the version of
    Verilator, so that a change to any of them builds anew. A model appears in
    the cache complete or not at all.

    Parameters
    ----------
    spec : FilterSpec
    memory, protect : str
        As for `lately.hdl.unit.FilterUnit`; explicit block RAMs are simulated with the models
        that answer with garbage what vendors leave undefined.
    ticks, levels, check
        As for `lately.hdl.unit.FilterUnit`.
    inverted : bool
        Whether garbage is the inverse of what was there, and not at random.
    optimisation : int
        As for `lately.sim.toolchain.verilate`.
    upsets : bool
        As for `lately.sim.replay.model.cached_model`.

    Raises
    ------
    ToolError
        If a tool is missing or fails.
    SpecificationError
        If the hardware cannot hold the specification, or as `lately.sim.replay.model.cached_model`.
    """
    unit = unit_verilog(
        spec, memory=memory, protect=protect, check=check, ticks=ticks, levels=levels
    )
    return cached_model(
        unit,
        top=TOP,
        driver=DRIVER,
        header=unit_header(spec, memory, protect, ticks=ticks, check=check),
        memory=memory,
        inverted=inverted,
        optimisation=optimisation,
        upsets=upsets,
    )


def unit_header(
    spec: FilterSpec,
    memory: str = "portable",
    protect: str = "none",
    *,
    ticks: str = "time",
    check: bool = False,
) -> str:
    """Return the header that describes a unit to the driver.

    Parameters
    ----------
    spec : FilterSpec
    memory, protect, ticks : str
    check : bool
        As for `lately.hdl.unit.FilterUnit`.
    """
    held = memory_map(spec, memory=memory, protect=protect)
    paths = ((TOP, *one.path, *(["words"] if one.cell else [])) for one in held.memories)
    rows = " ".join(
        f"MEMORY({number}, {'__DOT__'.join(path)})" for number, path in enumerate(paths)
    )
    return defines(
        *UnitSignature.from_spec(
            spec, tag_bits=TAG_BITS, **time_options(spec, ticks=ticks)
        ).macros(),
        f"MEMORIES {rows}",
        counter_macro(unit_counters(spec, protect, check=check)),
        *(["KEYED"] if spec.hash == "siphash" else []),
    )


def unit_counters(spec: FilterSpec, protect: str = "none", *, check: bool = False) -> list[str]:
    """Return the names of the counters that a unit has.

    Parameters
    ----------
    spec : FilterSpec
    protect : str
    check : bool
        As for `lately.hdl.unit.FilterUnit`.
    """
    held = counters(Holder.UNIT) + (counters(Holder.WINDOW) if spec.timed else [])
    held += counters(Holder.PROTECTION) if protect != "none" else []
    return [register.name for register in held] + ["alarms"] * check


class CompiledModel(DrivenModel):
    """A filter unit in compiled simulation, clocked only while it is asked something.

    Parameters
    ----------
    spec : FilterSpec
        What to build.
    memory, protect : str
        Variant and protection of the memory, as for `FilterUnit`.
    ticks : str
        Where the ticks of a window in time come from, as for `FilterUnit`.
    levels : int
        As for `FilterUnit`.
    check : bool
        Whether the unit watches its own state, as for `FilterUnit`.
    inverted : bool
        As for `compiled_model`.
    optimisation : int
        Level of the C++ compiler: 0 for up to a million operations, of which compiling takes
        longer than performing them.
    progress : callable, optional
        Called with the number of operations done since the last call.
    upsets : bool
        Whether bits can be flipped, as for `DrivenModel`.

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
        memory: str = "portable",
        protect: str = "none",
        ticks: str = "time",
        levels: int = DEFAULT_LEVELS,
        check: bool = False,
        inverted: bool = False,
        optimisation: int = 3,
        progress: Progress | None = None,
        upsets: bool = False,
    ) -> None:
        if spec.lanes not in self.LANES:
            raise SpecificationError(
                f"lanes: must be {' or '.join(map(str, self.LANES))} for {type(self).__name__}, "
                f"not {spec.lanes}"
            )
        self.spec = spec
        build: Any = {"memory": memory, "protect": protect}
        self.profile = HardwareProfile(spec, **build, levels=levels)
        self._ticks = ticks
        self._map = memory_map(spec, **build)
        self._hash = Layout.of(spec, partitioned=True).hash
        how: Any = {"check": check, "inverted": inverted, "upsets": upsets, "ticks": ticks}
        super().__init__(
            compiled_model(spec, **build, **how, levels=levels, optimisation=optimisation),
            lanes=spec.lanes,
            counters=unit_counters(spec, protect, check=check),
            keyed=spec.hash == "siphash",
            latency=self.profile.latency,
            progress=progress,
            upsets=upsets,
        )
        self.reset()

    def reset(self) -> None:
        """Reset the unit and its generation length, which clears its memory. Counts one cycle."""
        self._library.lately_generation(self._unit, self.spec.generation)
        self._library.lately_reset(self._unit)

    def set_generation(self, generation: int) -> None:
        """Drive the generation length, in insertions; it counts from the next shift on.

        Raises
        ------
        TypeError
            If the length is not an integer.
        ValueError
            If the port of the unit cannot hold the length.
        """
        most = (2 << self.spec.generation.bit_length()) - 1
        require_integer("generation", generation, least=0, most=most)
        # A clear under way would begin a generation of the new length.
        self.idle(2 * self.profile.latency + self.profile.longest_pause)
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
        # Until what is under way has had its effect.
        if not self._load_secret(self.spec.hash, secret, self.profile.latency + PAUSE):
            raise RekeyError("rekey: must come when all segments of the ring have one secret")
        self.idle(self.UNIT.SECRET_LEAD)

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
            return self._read(numbers[memory.path], memory.words, memory.width)

        return self._map.gather(read)

    def apply(
        self,
        operations: ArrayLike,
        keys: ArrayLike,
        *,
        skips: NDArray[np.bool_] | None = None,
        holes: NDArray[np.bool_] | None = None,
        pause_before: float = 0.0,
        pause_after: float = 0.0,
        seed: int = 1,
    ) -> Results:
        """Perform a mixed sequence of operations; as the golden model's method.

        Parameters
        ----------
        operations : array_like of int, shape (n,)
        keys : array_like of int
            As for `SlidingFilter.apply`.
        skips, holes : ndarray of bool, shape (n,), optional
            Operations before which the rest of the beat, or a lane, stays empty; as for `Beats`.
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
            holes=holes,
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
        holes: NDArray[np.bool_] | None = None,
        **pauses: Any,
    ) -> tuple[Results, NDArray[np.uint8], Times]:
        """Perform operations at `times` as the unit has them; return statuses and times, too."""
        wanted = np.ascontiguousarray(operations, np.uint8)
        beats = Beats(wanted, self.spec.lanes, skips, holes)
        codes, lane_keys = beats.spread(wanted, self._hash.check_keys(keys), self.spec.lanes)
        stamps = np.zeros(len(codes) + 1, np.uint64)
        stamps[beats.places] = times
        told = self._drive(beats.alone, codes, lane_keys, stamps, **pauses)
        # Operations without a lane are in the last place, which tells nothing.
        verdicts = Results.of(told.seen[beats.places], told.age[beats.places].astype(np.int64))
        return verdicts, told.status[beats.places], told.time[beats.places].astype(np.int64)


class TimedAnswers(NamedTuple):
    """Results of a unit whose window is one in time."""

    seen: NDArray[np.bool_]
    """As `Verdicts`."""
    age: NDArray[np.int64]
    """As `Verdicts`."""
    status: NDArray[np.uint8]
    """Code of the `PoolStatus` of each answer, shape (n,)."""


class FreeAnswers(NamedTuple):
    """Results of a unit to which ticks come by themselves."""

    seen: NDArray[np.bool_]
    """As `Verdicts`."""
    age: NDArray[np.int64]
    """As `Verdicts`."""
    status: NDArray[np.uint8]
    """As `TimedAnswers`."""
    time: Times
    """Ticks before each operation since reset, shape (n,)."""


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
        windows: None = None,
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
        if self._ticks != "time":
            raise SpecificationError(f"ticks: must be time for given times, not {self._ticks}")
        times = check_timestamps(timestamps, len(np.asarray(operations)), self._reached)
        gaps = np.minimum(np.diff(times, prepend=self._reached), LONGEST_SILENCE)
        told = self._told + np.cumsum(gaps)
        if len(times):
            self._reached, self._told = int(times[-1]), int(told[-1])
        verdicts, status, _ = self._perform(
            operations,
            keys,
            told,
            pause_before=pause_before,
            pause_after=pause_after,
            seed=seed,
        )
        return TimedAnswers(*verdicts[:2], status)

    @property
    def ticks(self) -> int:
        """Ticks that came to the port since reset."""
        return int(self._library.lately_ticks(self._unit))

    def perform_freely(
        self,
        operations: ArrayLike,
        keys: ArrayLike,
        *,
        period: int,
        silence: int = 0,
        **pauses: Any,
    ) -> FreeAnswers:
        """Perform operations while ticks come to the port, or from the unit's own counter.

        Parameters
        ----------
        operations, keys, pauses
            As for `apply`.
        period : int
            Cycles from one tick to the next. A unit that counts them itself goes on.
        silence : int
            Cycles without an operation afterwards, in which ticks come.

        Raises
        ------
        ToolError
            If there are not as many results as operations.
        """
        self._library.lately_period(self._unit, period)
        verdicts, status, times = self._perform(operations, keys, **pauses)
        self.idle(silence)
        if self._ticks == "tick":
            self._library.lately_period(self._unit, 0)
        # Until the last tick has had its effect.
        self.idle(TICKS_WAITING * self.profile.least_period + self.profile.longest_pause)
        return FreeAnswers(*verdicts[:2], status, times)


class CompiledLanes(CompiledModel):
    """A unit of several lanes in compiled simulation; see `CompiledModel`."""

    LANES = (2, 4)
    UNIT = LaneUnit


Compiled = (
    CompiledUnit | CompiledLanes | CompiledDictionary | CompiledTiming | CompiledCountedTiming
)
"""Units in compiled simulation."""


@overload
def compiled_unit(spec: FilterSpec, **options: Any) -> CompiledUnit | CompiledLanes: ...


@overload
def compiled_unit(spec: UnitSpec, **options: Any) -> Compiled: ...


def compiled_unit(spec: UnitSpec, **options: Any) -> Compiled:
    """Open the unit for a specification: `CompiledUnit`, or `CompiledLanes` for several lanes.

    Of a dictionary, `CompiledDictionary`; of timing filters `CompiledTiming` and
    `CompiledCountedTiming`.

    Parameters
    ----------
    spec : UnitSpec
    options
        As for the classes.
    """
    if isinstance(spec, WindowDictionarySpec):
        return CompiledDictionary(spec, **options)
    if isinstance(spec, TimedTimingSpec):
        return CompiledTiming(spec, **options)
    if isinstance(spec, PartitionedTimingSpec):
        return CompiledCountedTiming(spec, **options)
    kind = CompiledUnit if spec.lanes == 1 else CompiledLanes
    return kind(spec, **options)


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

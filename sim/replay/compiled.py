"""Compiled units: Verilator compiles a unit to a library, which is driven from arrays."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...golden.errors import RekeyError, SpecificationError
from ...golden.hash.keys import KeyDigest, check_keys
from ...golden.operations import Operation
from ...golden.results import Results
from ...golden.spec.base import Specification
from ...golden.times import Times, check_timestamps
from ...golden.timestamp.decisions import packed_entries
from ...hdl.build import filter_unit
from ...hdl.latencies import CONTROL_LAG, GENERATION_LEAD, PAUSE, TICKS_WAITING
from ...hdl.memory.map import MemoryMap, PhysicalMemory
from ...hdl.parameters import require_integer
from ...hdl.verilog import LONGEST_SILENCE, TAG_BITS, TOP, convert, time_options
from ..toolchain import ToolError
from .driven import DRIVER, DrivenModel, Progress, counter_macro
from .model import cached_model, defines

_IDLE = 1 << 20


def compiled_model(unit: Any, memories: MemoryMap, **options: Any) -> Path:
    header = unit_header(unit, memories)
    return cached_model(convert(unit), top=TOP, driver=DRIVER, header=header, **options)


def unit_header(unit: Any, memories: MemoryMap) -> str:
    paths = (
        (TOP, *memory.path, *(["words"] if memory.cell else [])) for memory in memories.memories
    )
    rows = " ".join(
        f"MEMORY({number}, {'__DOT__'.join(path)})" for number, path in enumerate(paths)
    )
    ports = unit.signature.members
    return defines(
        *unit.signature.macros(),
        f"MEMORIES {rows}",
        counter_macro(unit_counters(unit)),
        *(["KEYED"] if "secret" in ports else []),
        *(["DECIDING"] if "table" in ports else []),
    )


def unit_counters(unit: Any) -> list[str]:
    return [*unit.counters, *(["alarms"] if "alarms" in unit.signature.members else [])]


class CompiledUnit(DrivenModel):
    """Compiled simulation of the unit for a specification; the clock runs only during calls.

    A missing or failing tool raises a `ToolError`; a specification that the hardware cannot
    implement raises a `SpecificationError`. Further options are ``inverted`` (block RAM reads that
    the vendor leaves undefined return the inverse of the contents) and, as in
    `lately.hdl.build.filter_unit`, ``protect``, ``levels`` and ``check`` (there called
    ``self_check``). `profile` holds the latency, pauses and limits of the unit.
    """

    def __init__(
        self,
        spec: Specification,
        *,
        memory: str = "portable",  # memory variant
        # Source of the ticks for a time-based window; the default is "tick" for timing filters and
        # "time" for rings. With "period" the unit generates ticks, and only `perform_freely` works.
        ticks: str | None = None,
        # Optimisation level of the C++ compiler; 0 is faster for up to a million operations.
        optimisation: int = 3,
        progress: Progress | None = None,
        upsets: bool = False,  # whether bits can be flipped with `upsets`
        **options: Any,
    ) -> None:
        # The fields depend on the family, so the type is Any.
        self.spec: Any = spec
        self._source = ticks or ("tick" if spec.kind == "timing" else "time")
        build: Any = {"inverted": options.pop("inverted", False), "optimisation": optimisation}
        timing = time_options(spec, ticks=self._source)
        options["self_check"] = options.pop("check", False)
        unit = filter_unit(spec, tag_bits=TAG_BITS, memory=memory, **timing, **options)
        self._map = unit.memory_map
        self.profile: Any = unit.profile
        ports = unit.signature.members
        self._has_generation = "generation" in ports
        super().__init__(
            compiled_model(unit, self._map, memory=memory, upsets=upsets, **build),
            lanes=spec.lanes,
            counters=unit_counters(unit),
            keyed="secret" in ports,
            deciding="table" in ports,
            latency=self.profile.latency,
            progress=progress,
            upsets=upsets,
        )
        self._secret_lead = unit.SECRET_LEAD
        self.reset()

    def reset(self) -> None:
        """Reset the unit: its memory, generation length, time and counters."""
        # The highest time so far, and the time that the unit got for it.
        self._reached = self._given = 0
        # Complete blocks, and insertions into the current block.
        self._blocks = self._of_block = 0
        if self._has_generation:
            self._library.lately_generation(self._unit, self.spec.generation)
        self._library.lately_reset(self._unit)
        if not self._has_generation:
            self.idle(self.profile.longest_pause)

    def set_generation(self, generation: int) -> None:
        """Set the generation length of a ring, in insertions; it applies from the next shift on.

        A length that does not fit the unit's port raises a ValueError; a length that is not an
        integer raises a TypeError.
        """
        longest = (2 << self.spec.generation.bit_length()) - 1
        require_integer("generation", generation, minimum=0, maximum=longest)
        # A clear in progress would start a generation of the new length, so wait for its end.
        self.idle(2 * self.profile.latency + self.profile.longest_pause)
        self._library.lately_generation(self._unit, generation)
        self.idle(GENERATION_LEAD)

    def rekey(self, secret: int) -> None:
        """Load a new 128-bit secret, as the golden model's `rekey` does.

        The secret applies from the next clear on or, with re-keying, from the next shift on. If the
        unit cannot accept a secret now, a `RekeyError` is raised and nothing changes.
        """
        # Wait until operations in flight have taken effect.
        hash = getattr(self.spec, "hash", "h3")
        if not self._load_secret(hash, secret, self.profile.latency + PAUSE):
            raise RekeyError("rekey: an earlier secret is still in use")
        self.idle(self._secret_lead)

    def decide_by(self, thresholds: ArrayLike) -> None:
        """Load a table of thresholds, which applies from the next operation on.

        The thresholds have shape (classes, ages, 2**phase_bits), as for the golden model's
        `decide_by`. If the unit does not accept them, a `ToolError` is raised.
        """
        entries = np.ascontiguousarray(packed_entries(thresholds))
        if idle := self._library.lately_table(self._unit, len(entries), entries.ctypes.data):
            raise ToolError(f"replay: the unit accepted no table entry for {idle} cycles")

    @property
    def ticks(self) -> int:
        """Number of ticks at the port since reset; a long silence is replayed with fewer ticks."""
        return int(self._library.lately_ticks(self._unit))

    @property
    def memory(self) -> NDArray[Any]:
        """Memory contents in the golden model's format, read once the spare segment is clear.

        For a timing filter with a time-based window, they equal the golden model's `memory_at` for
        the time after `ticks` ticks.
        """
        # With several lanes, operations may still wait for a shard.
        rounds = 1 if self.spec.lanes == 1 else 2
        self.idle(rounds * (2 * self._latency + getattr(self.profile, "clear_cycles", 0)))
        numbers = {memory.path: number for number, memory in enumerate(self._map.memories)}

        def read(memory: PhysicalMemory) -> NDArray[np.bool_]:
            return self._read(numbers[memory.path], memory.words, memory.width)

        now = 0
        if self.spec.kind == "timing":
            now = self.ticks if self.spec.timed else self._blocks
        elif self.spec.kind == "dictionary":
            now = self.statistics["insertions"]
        return self._map.view(read, now)

    def perform(
        self,
        operations: ArrayLike,
        keys: ArrayLike,
        times: ArrayLike | None = None,
        windows: ArrayLike | None = None,
        **options: Any,
    ) -> Results:
        """Perform a mixed sequence of operations, as the golden model's `perform` does.

        Operations and times have shape (n,); for keys and windows see
        `lately.golden.Filter.perform`. If `times` is None, the operations have the time of the last
        operation. For a long silence, a ring receives at most `lately.hdl.verilog.LONGEST_SILENCE`
        ticks, and a timing filter only as many ticks as expire all cells. Decreasing times raise a
        ValueError; times for a count-based window raise a `SpecificationError`. Options are
        ``pause_before`` (fraction of cycles in which no beat is offered), ``pause_after`` (fraction
        of cycles in which no result is accepted), ``seed`` (of these pauses), and ``skips`` and
        ``holes`` (see `Beats`).
        """
        codes = np.ascontiguousarray(operations, np.uint8)
        words = check_keys(keys, KeyDigest.of(self.spec))
        asked = self.spec.query_numbers(windows, len(codes))
        if times is not None:
            times = self._checked_times(times, len(codes))
            if self.spec.kind == "timing":
                return self._perform_ticking(codes, words, asked, times, **options)
            gaps = np.minimum(np.diff(times, prepend=self._reached), LONGEST_SILENCE)
            asked = self._given + np.cumsum(gaps)
            if len(times):
                self._reached, self._given = int(times[-1]), int(asked[-1])
        results = self._send(codes, words, asked, **options)
        if self.spec.kind == "timing" and not self.spec.timed:
            self._count_blocks(codes)
        return results

    def perform_beside(
        self,
        operations: ArrayLike,
        keys: ArrayLike,
        windows: ArrayLike | None = None,
        *,
        after: int,
        secret: int = 0,
        thresholds: ArrayLike | None = None,
        **options: Any,
    ) -> tuple[Results, int | None]:
        """Perform operations while a secret or a table is loaded, in a single-lane unit.

        The secret, or the first table entry, is offered after `after` accepted operations. A secret
        must not be loaded while a reset still clears the memory. Returns the results, and the
        number of the first operation to which the secret or table applies, or None if it applies to
        none of them.
        """
        entries = np.zeros(0, np.uint64)
        # A table applies one cycle after the swap. A secret without re-keying applies immediately.
        lead = self._secret_lead if getattr(self.spec, "rekey", False) else 0
        if thresholds is not None:
            entries, lead = np.ascontiguousarray(packed_entries(thresholds)), 1
        halves = secret & (1 << 64) - 1, secret >> 64
        self._library.lately_load(
            self._unit, after, lead, *halves, len(entries), entries.ctypes.data
        )
        try:
            results = self.perform(operations, keys, None, windows, **options)
        finally:
            # This call also makes the driver drop its pointer to the entries.
            applied = int(self._library.lately_loaded(self._unit))
        return results, applied if applied < len(results.seen) else None

    def perform_freely(
        self,
        operations: ArrayLike,
        keys: ArrayLike,
        windows: ArrayLike | None = None,
        *,
        period: int | None = None,
        silence: int = 0,
        **options: Any,
    ) -> Results:
        """Perform operations while ticks arrive at the port or are generated by the unit.

        A tick arrives every `period` cycles; the default is the minimum period. Ticks continue for
        `silence` cycles after the operations. A unit that generates its ticks ignores `period`.
        Other options are those of `perform`.
        """
        codes = np.ascontiguousarray(operations, np.uint8)
        words = check_keys(keys, KeyDigest.of(self.spec))
        asked = self.spec.query_numbers(windows, len(codes))
        self._library.lately_period(self._unit, period or self.profile.min_period)
        results = self._send(codes, words, asked, **options)
        self.idle(silence)
        self._end_ticks()
        return results

    def pass_ticks(self, ticks: int) -> None:
        """Send ticks at the minimum interval, with no operations in between."""
        period = self.profile.min_period
        self._library.lately_period(self._unit, period)
        # In parts, so that interrupts are handled between them.
        for done in range(0, ticks * period, _IDLE):
            self.idle(min(_IDLE, ticks * period - done))
        self._end_ticks()

    def _end_ticks(self) -> None:
        if self._source == "tick":
            self._library.lately_period(self._unit, 0)
        lag = CONTROL_LAG
        if self.spec.kind == "ring":
            lag = TICKS_WAITING * self.profile.min_period + self.profile.longest_pause
        self.idle(lag)

    def _checked_times(self, times: ArrayLike, count: int) -> Times:
        if not self.spec.timed:
            raise SpecificationError("span: operations with times need a time-based window")
        if self._source == "period" or (self.spec.kind == "ring" and self._source != "time"):
            raise SpecificationError(
                f"ticks: operations with times are not supported with {self._source!r}"
            )
        return check_timestamps(times, count, self._reached)

    def _perform_ticking(
        self, codes: NDArray[np.uint8], keys: Any, asked: Any, times: Times, **options: Any
    ) -> Results:
        each = self.spec.block_units
        gaps = np.diff(times // each, prepend=self._reached // each)
        starts = np.union1d(np.flatnonzero(gaps), [0])
        parts = []
        for start, stop in pairwise([*starts.tolist(), len(codes)]):
            if start < stop and gaps[start]:
                self.pass_ticks(int(min(gaps[start], self.spec.window_blocks + 1)))
            part = slice(start, stop)
            parts.append(self._send(codes[part], keys[part], asked[part], **options))
        if len(times):
            self._reached = int(times[-1])
        return Results.joined(parts)

    def _count_blocks(self, codes: NDArray[np.uint8]) -> None:
        inserts = np.isin(codes, (Operation.INSERT, Operation.CHECK_AND_INSERT))
        for number, part in enumerate(np.split(inserts, np.flatnonzero(codes == Operation.CLEAR))):
            held = 0 if number else self._of_block
            blocks, self._of_block = divmod(held + int(part.sum()), self.spec.block_units)
            self._blocks += blocks


def compiled_unit(spec: Specification, **options: Any) -> CompiledUnit:
    """Return a `CompiledUnit` with these options."""
    return CompiledUnit(spec, **options)


def replay(
    spec: Specification, keys: ArrayLike, *, progress: Progress | None = None
) -> tuple[NDArray[np.bool_], int]:
    """Check and insert keys in the compiled unit of a specification.

    Returns the verdicts, shape (n,), and the number of cycles from reset to the last result.
    `progress` is called with the number of operations done since the last call.
    """
    with CompiledUnit(spec, progress=progress) as unit:
        return unit.check_and_insert(keys), unit.cycles

"""Latency, clearing, memories and limits of ring units.

This module does not import Amaranth.
"""

from dataclasses import dataclass, replace

from ...golden.errors import SpecificationError
from ...golden.spec import FilterSpec
from ...golden.spec.base import require
from ..latencies import (
    ACCEPT_LAG,
    BEAT_CAPACITY,
    CONTROL_LAG,
    CROWDED_BLOCKS,
    DISPATCH_LATENCY,
    ENTRY_LATENCY,
    GENERATION_LEAD,
    LANE_HASH_LATENCY,
    LANE_SLOTS,
    MAX_CLEAR,
    MAX_MEMORIES,
    MAX_SEGMENTS,
    MAX_WORDS,
    MINIMUM_BEATS,
    PAUSE,
    PROTECTIONS,
    QUEUE_LATENCY,
    SECRET_SETTLE,
    SHARD_CAPACITY,
    SHIFT_PAUSE,
    TICKS,
    TIMED_GENERATION,
    VOTE_LATENCY,
)
from ..memory.map import BLOCK_KINDS, PORTABLE, memory_latency, memory_shape
from ..parameters import ceil_log, stamp_bits
from ..profile import Profile
from ..stages import detector_stages, hash_stages, paged_stages


@dataclass(frozen=True)
class RingProfile(Profile):
    """Latency and limits of a ring unit with one lane or several lanes."""

    spec: FilterSpec

    MEMORIES = (*PORTABLE, *BLOCK_KINDS)
    PROTECTIONS = tuple(PROTECTIONS)

    @property
    def ticks(self) -> tuple[str, ...]:
        return TICKS if self.spec.timed else ()

    @property
    def time_bits(self) -> int:
        return stamp_bits(self.spec.span) if self.spec.timed else 0

    @property
    def covers(self) -> bool:
        return bool(self.spec.timed)

    @property
    def lanes(self) -> int:
        return self.spec.lanes

    # Memories

    @property
    def segments(self) -> int:
        return self.spec.segments

    @property
    def memories(self) -> int:
        """Number of memories in all shards: one for each part of each segment and of the spare."""
        return self.spec.shards * self.spec.segments * self.spec.parts

    @property
    def copies(self) -> int:
        return PROTECTIONS[self.protect]

    @property
    def memory_shape(self) -> tuple[int, int]:
        """Number of columns and number of rows of block RAMs (`BLOCK_BITS` each) in a memory."""
        return memory_shape(bits=self.spec.shard_bits, clear=self.spec.clear)

    @property
    def block_rams(self) -> int:
        columns, rows = self.memory_shape
        return self.memories * columns * rows * self.copies

    @property
    def address_registers(self) -> int:
        """Number of registers on the address path of each memory; many block RAMs need more."""
        return 1 + (2 if self.spec.lanes == 1 else 1) * (self.block_rams > CROWDED_BLOCKS)

    @property
    def shard_spec(self) -> FilterSpec:
        """Specification of one shard, whose keys are 64-bit hash states."""
        return replace(self.spec, lanes=1, key_bits=64, **self.spec.shard_sizes)

    # Clearing

    @property
    def clear_cycles(self) -> int:
        """Number of cycles to clear a segment at `clear` bits of every part per cycle."""
        return -(-self.spec.shard_bits // self.spec.clear)

    @property
    def generation_bits(self) -> int:
        return self.spec.generation.bit_length() + 1

    @property
    def minimum_generation(self) -> int:
        return max(self._cleared_generation, TIMED_GENERATION if self.spec.timed else 0)

    @property
    def _cleared_generation(self) -> int:
        """Minimum number of insertions in a generation during which the spare can be cleared.

        At most `lanes` insertions arrive per cycle. The spare is cleared in `clear_cycles` cycles,
        starting after the shift. Several lanes need at least `MINIMUM_BEATS` cycles.
        """
        if self.spec.lanes == 1:
            return self.clear_cycles + 1
        return self.spec.lanes * max(MINIMUM_BEATS, self.clear_cycles + 1)

    @property
    def min_period(self) -> int:
        """Minimum number of cycles between two ticks; 0 if the unit has no ticks.

        Within these cycles, all segments are scanned and the spare is cleared.
        """
        if not self.spec.timed:
            return 0
        scanned = 8 * (self.spec.window_generations + 2)
        cleaned = self.longest_pause + TIMED_GENERATION
        return max(scanned, -(-cleaned // (self.spec.generation_span - 1)))

    @property
    def longest_pause(self) -> int:
        return max(SHIFT_PAUSE, self.clear_cycles + PAUSE)

    @property
    def reset_pause(self) -> int:
        return self.longest_pause + GENERATION_LEAD + 2

    # The pipeline

    @property
    def latency_terms(self) -> dict[str, int]:
        spec = self.spec
        detector = detector_stages(
            parts=spec.parts,
            segments=spec.segments,
            run=spec.run,
            starts=spec.window_generations + 1,
            levels=self.levels,
        )
        core = {"memory": self._memory_latency, "detector": detector}
        if spec.lanes == 1:
            core |= {"span": 1} if spec.timed else {}
            return {"hash": self._hash_latency, **core, "queue": QUEUE_LATENCY - 1}
        return {
            "accept": 1,
            "hash": self.lane_hash_latency,
            "dispatch": DISPATCH_LATENCY,
            "distribution": 3 + paged_stages(self.waiting_beats, far=True),
            "entries": ENTRY_LATENCY + QUEUE_LATENCY,
            "step": 1 + paged_stages(SHARD_CAPACITY) - (-ceil_log(2, spec.lanes) // self.levels),
            **core,
            "done": 2,
            "check": 8,
            "results": 2 + paged_stages(self.lane_slots, far=True),
            "selection": ceil_log(2, spec.shards),
            "answers": QUEUE_LATENCY,
        }

    @property
    def _hash_latency(self) -> int:
        hashed = hash_stages(self.spec.key_bits, self.spec.hash, self.levels)
        return max(CONTROL_LAG, hashed)

    @property
    def lane_hash_latency(self) -> int:
        settle = SECRET_SETTLE if self.spec.hash == "siphash" else 0
        hashed = hash_stages(self.spec.key_bits, self.spec.hash, self.lane_hash_levels)
        return settle + max(LANE_HASH_LATENCY, hashed)

    @property
    def lane_hash_levels(self) -> int:
        """LUT levels between registers in a lane's hash: half of `levels`, as wires are long."""
        return max(1, self.levels // 2)

    @property
    def lane_slots(self) -> int:
        """Maximum number of beats in flight, a power of two; only with several lanes."""
        return 1 << ceil_log(2, LANE_SLOTS + self.lane_hash_latency)

    @property
    def waiting_beats(self) -> int:
        """Maximum number of beats that wait for shards, a power of two; only with several lanes."""
        return 1 << ceil_log(2, BEAT_CAPACITY + self.lane_hash_latency)

    @property
    def result_depth(self) -> int:
        return 1 << ceil_log(2, self.latency + ACCEPT_LAG + 5)

    @property
    def _memory_latency(self) -> int:
        """Number of cycles from addresses to bits; re-keying adds one to select the hash."""
        vote = VOTE_LATENCY if self.copies > 1 else 0
        return (
            self.spec.rekey
            + vote
            + memory_latency(
                bits=self.spec.shard_bits, clear=self.spec.clear, registers=self.address_registers
            )
        )

    # Sentences

    @property
    def pauses(self) -> list[str]:
        return [
            f"A SHIFT stalls the input for {SHIFT_PAUSE} cycles, or for up to "
            f"{self.longest_pause} cycles if it follows soon after another shift.",
            f"If `generation` is below {self.minimum_generation}, the unit accepts requests one at "
            "a time.",
        ]

    @property
    def edges(self) -> tuple[int, int]:
        spec = self.spec
        if spec.timed:
            # A trace lasts longer than `run` aged generations if no key ends them.
            return spec.span, spec.span + spec.run * (spec.generation_span - 1) + 1
        return spec.guaranteed_window, spec.guaranteed_window + spec.slack

    def promise(self, key: str, *, flags: bool) -> list[str]:
        spec = self.spec
        if not spec.timed:
            return [
                self._both_ends(),
                "A SHIFT, or a smaller `generation`, shortens the window.",
            ]
        shortens = spec.when_full == "shorten"
        status = f", and `status` is {1 if shortens else 2}" if flags else ""
        late = "false positives are more frequent, and keys are forgotten later"
        cost = "the window is shorter" if shortens else late
        trace = ", although it may be reported later with falling probability" * (spec.run > 1)
        return [
            f"A {key} is reported for at least {spec.span:,} ticks after its insertion, and "
            f"forgotten {spec.span + spec.generation_span:,} ticks after it{trace}.",
            f"If more than {spec.generation} insertions arrive in {spec.generation_span} ticks, "
            f"{cost}{status}.",
        ]

    # Limits

    def check_buildable(self) -> None:
        super().check_buildable()
        spec, cycles = self.spec, self.clear_cycles
        for size in spec.index_sizes:
            _require(
                size & (size - 1) == 0,
                f"{spec.family}: block and part sizes must be powers of two in hardware, "
                f"not {size}",
            )
        where = "segment" if spec.lanes == 1 else "shard"
        rule = f"must give at least 2 bits per part of a {where} in hardware"
        size = getattr(spec, spec.size_field)
        require(spec.shard_bits > 1, spec.size_field, rule, size)
        _require(
            spec.clear <= spec.shard_bits,
            f"clear: must be at most the {spec.shard_bits} bits of a part, not {spec.clear}",
        )
        several = f", {spec.lanes} insertions in each" if spec.lanes > 1 else ""
        _require(
            spec.generation >= self._cleared_generation,
            f"generation: must be at least {self._cleared_generation} "
            f"({spec.shard_bits} bits per part / {spec.clear} cleared per cycle = "
            f"{cycles} cycles, plus one to shift{several}), not {spec.generation}",
        )
        if spec.timed:
            _check_timed(spec)
        if spec.lanes > 1:
            # The filter of a shard is checked like any other filter.
            assert self.shard_spec.lanes == 1
        _check_size(self)


def _check_size(profile: RingProfile) -> None:
    spec = profile.spec
    rule = f"must give at most {MAX_SEGMENTS} segments in hardware, including the spare"
    field = "epochs" if spec.run == 1 and spec.hash_functions == 1 else "l"
    require(spec.segments <= MAX_SEGMENTS, field, rule, spec.segments)
    rule = f"must be at most {MAX_CLEAR} in hardware"
    require(spec.clear <= MAX_CLEAR, "clear", rule, spec.clear)
    memories = profile.memories * profile.copies
    rule = f"must give at most {MAX_MEMORIES} memories in hardware"
    require(memories <= MAX_MEMORIES, spec.size_field, rule, memories)
    if profile.memory in PORTABLE:
        words = memories * profile.clear_cycles
        rule = f"must give at most {MAX_WORDS} words of memory in hardware"
        require(words <= MAX_WORDS, spec.size_field, rule, words)
    else:
        require(profile.block_rams <= MAX_MEMORIES, spec.size_field,
                f"must give at most {MAX_MEMORIES} block RAMs", profile.block_rams)  # fmt: skip


def _check_timed(spec: FilterSpec) -> None:
    _require(
        spec.generation >= TIMED_GENERATION,
        f"generation: must be at least {TIMED_GENERATION} for a time-based window, "
        f"not {spec.generation}",
    )
    _require(
        spec.generation_span >= 2,
        f"generation_span: must be at least 2 ticks in hardware, not {spec.generation_span}",
    )


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise SpecificationError(message)

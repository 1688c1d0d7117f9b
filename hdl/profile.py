"""Hardware figures of a specification: latency, cycles of a clear, memories and limits.

The one place from which components, planner, simulation and documentation take them. Needs no
Amaranth. Functions of numbers also take arrays of integers, element by element, which is how the
planner reckons with thousands of filters at once.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..golden.errors import SpecificationError
from ..golden.hash.functions import MIX_ROUNDS
from ..golden.hash.siphash import COMPRESSION_ROUNDS, FINALIZATION_ROUNDS, message_words
from ..golden.spec import FilterSpec

ORGANISATIONS = ("separate", "bit-sliced")
"""Organisations of the memory."""

FAN_IN = 4
"""Inputs of the look-up tables that a step of a pipeline is cut for."""

BLOCK_BITS = 1 << 14
"""Bits of the block RAM that pipelines are laid out for."""

BLOCK_CLEAR_BITS = 16
"""Bits that a block RAM zeroes per cycle at most, and the width of its words."""

CROWDED_BLOCKS = 56
"""Block RAMs up to which one address register leads to each; more where there are more."""

SELECTED_DIGITS = 2
"""Binary digits by which a bit is selected from the words of block RAMs in a clock."""

DEFAULT_LEVELS = 2
"""Levels of look-up tables between two registers, if no clock is asked for."""

CONTROL_LAG = 3
"""Cycles by which the control of a core comes after its key."""

QUEUE_LATENCY = 3
"""Cycles to a result from the cycle before its verdict."""

ACCEPT_LAG = 6
"""Cycles from an acceptance until `i.ready` knows of it, and one to spare."""

GENERATION_LEAD = 16
"""Cycles from a change of the generation length to the first acceptance that it applies to."""

SECRET_LEAD = 2
"""Cycles from a secret's acceptance to the first acceptance that it applies to."""

SPARE_SETTLE = 3
"""Cycles until earlier operations have had their effect on what is known of the spare."""

SHIFT_PAUSE = SPARE_SETTLE + 6
"""Cycles for which a SHIFT keeps the input closed if the spare is clean."""

PAUSE = 2 * SPARE_SETTLE + 16
"""Longest time in cycles for which a SHIFT or CLEAR keeps the input closed after clearing."""

GENERATION_SAMPLE = GENERATION_LEAD // 2
"""Cycles after which the generation length is looked at again."""

END_LEFT = 16
"""Insertions before the end of a generation at which a dirty spare is looked at."""

WATCHED_GENERATION = END_LEFT + 8
"""Shortest generation that is not near its end from the beginning, if the spare may be dirty."""

COLUMN_RING_LATENCY = 2
"""Cycles from control to the columns of bit-sliced segments."""

MINIMUM_BEATS = 8
"""Fewest cycles between two shifts with several lanes."""

LANE_SLOTS = 112
"""Beats that may be under way with several lanes, beside those whose keys are being hashed."""

BEAT_PLACES = 48
"""Beats that wait for room in a shard, at most, beside those whose keys are being hashed."""

SECRET_SETTLE = 2
"""Cycles by which a beat of several lanes waits for the secret that its clear brings in."""

SHARD_PLACES = 32
"""Entries that wait in a shard, at most."""

STEP_LATENCY = 3
"""Cycles from a step of a shard to its control."""

PAGE_WORDS = 16
"""Words that one page of a `PagedMemory` holds, as the distributed memory of an ECP5."""

WORD_LATENCY = 6
"""Cycles of a bank of words from a row to its word."""

BANK_ROWS = 1024
"""Rows of a bank of words at most, as a block RAM of ECP5 has them."""

BANK_VARIANTS = ("portable", "ecp5")
"""Variants of the banks of words."""

BLOCK_MODES: Mapping[str, Mapping[str, str]] = {
    "separate": {"ecp5": "NORMAL", "ice40": "NORMAL", "gowin": "NORMAL"},
    "bit-sliced": {"ecp5": "NORMAL"},
}
"""Slowest write mode of a block RAM's port, by organisation and variant of the memory.

Variants that instantiate no block RAM are missing.
"""


@dataclass(frozen=True)
class HardwareProfile:
    """Figures of the unit that a specification and build options give.

    Attributes
    ----------
    spec : FilterSpec
    organisation : str
        One of `ORGANISATIONS`.
    memory : str
        Variant of the memories; only `check_buildable` asks for it.
    levels : int
        Levels of look-up tables between two registers, see `lately.hdl.pipeline.Pipeline`.

    Raises
    ------
    ValueError
        If there is no such organisation, or no level.
    """

    spec: FilterSpec
    organisation: str = "separate"
    memory: str = "portable"
    levels: int = DEFAULT_LEVELS

    def __post_init__(self) -> None:
        if self.organisation not in ORGANISATIONS:
            raise ValueError(
                f"Organisation must be one of {', '.join(ORGANISATIONS)}, not {self.organisation!r}"
            )
        if self.levels < 1:
            raise ValueError(f"Levels must be at least 1, not {self.levels}")

    # Memories

    @property
    def sliced(self) -> bool:
        """Whether a word holds one cell of every segment."""
        return self.organisation == "bit-sliced"

    @property
    def memories(self) -> int:
        """Memories of one part of one segment, in all shards, the spare's included."""
        return self.spec.shards * self.spec.segments * self.spec.parts

    @property
    def memory_shape(self) -> tuple[int, int]:
        """Columns and rows of the block RAMs of one memory, as the pipeline counts them."""
        return memory_shape(bits=self.spec.shard_bits, clear=self.spec.clear)

    @property
    def address_registers(self) -> int:
        """Registers that lead to each memory."""
        columns, rows = self.memory_shape
        blocks = self.memories * columns * rows
        return int(address_registers(blocks, lanes=self.spec.lanes))

    @property
    def shard_spec(self) -> FilterSpec:
        """The filter that one shard is, whose keys are states of 64 bits.

        Its ring turns with those of the others; its generation is that of all.
        """
        return replace(self.spec, lanes=1, key_bits=64, **self.spec.shard_sizes)

    # Clearing

    @property
    def clear_cycles(self) -> int:
        """Cycles that zeroing a segment takes, `clear` bits of every part at a time."""
        return -(-self.spec.shard_bits // (self.banks if self.sliced else self.spec.clear))

    @property
    def banks(self) -> int:
        """Banks of a part in the bit-sliced organisation, each of which zeroes a word per cycle."""
        return max(self.spec.clear, -(-self.spec.part_bits // BANK_ROWS))

    @property
    def spare_lag(self) -> int:
        """Cycles after a shift or clear from which on the core's `clean` can be relied on."""
        if not self.sliced:
            return self.clear_cycles
        banks, parts = ceil_log(FAN_IN, self.banks), ceil_log(FAN_IN, self.spec.parts)
        return self._hash_latency - CONTROL_LAG + COLUMN_RING_LATENCY + 2 + banks + parts

    @property
    def minimum_generation(self) -> int:
        """Shortest generation in which operations are not let in one at a time, in insertions."""
        return max(self._cleared_generation, WATCHED_GENERATION if self.sliced else 0)

    @property
    def _cleared_generation(self) -> int:
        """Shortest generation in which the spare can be cleared, in insertions.

        Insertions come at most `lanes` per cycle; the spare is zeroed in
        `clear_cycles` cycles, the first of them after the shift. With several lanes at least
        `MINIMUM_BEATS` cycles.
        """
        if self.spec.lanes == 1:
            return self.clear_cycles + 1
        return self.spec.lanes * max(MINIMUM_BEATS, self.clear_cycles + 1)

    @property
    def longest_pause(self) -> int:
        """Most cycles for which a SHIFT or CLEAR, or the spare, keeps the input closed."""
        # A sweep that starts late, and is told of late.
        late = 2 * self.spare_lag if self.sliced else 0
        return max(SHIFT_PAUSE, self.clear_cycles + late + PAUSE)

    # The pipeline

    @property
    def latency(self) -> int:
        """Cycles from the acceptance of an operation to its result, on an idle output.

        The least of them for several lanes.
        """
        return sum(self.latency_terms.values())

    @property
    def latency_terms(self) -> dict[str, int]:
        """Cycles of the pipeline, stage by stage, in order."""
        spec = self.spec
        core = {
            "memory": self._memory_latency,
            "detector": detector_latency(
                levels=self.levels,
                parts=spec.parts,
                segments=spec.segments,
                run=spec.run,
                generations=spec.window_generations,
            ),
        }
        if spec.lanes == 1:
            return {"hash": self._hash_latency, **core, "queue": QUEUE_LATENCY - 1}
        return {
            "accept": 1,
            "hash": self.lane_hash_latency,
            "dispatch": 8,
            "distribution": 3 + paged_latency(self.beat_places),
            "entries": 4 + QUEUE_LATENCY,
            "step": 1 + paged_latency(SHARD_PLACES) - (-ceil_log(2, spec.lanes) // self.levels),
            **core,
            "done": 2,
            "check": 8,
            "results": 3 + paged_latency(self.lane_slots),
            "selection": ceil_log(2, spec.shards),
            "answers": QUEUE_LATENCY,
        }

    @property
    def _hash_latency(self) -> int:
        """Cycles from a key to its addresses, which wait for the control."""
        return max(
            CONTROL_LAG, hash_latency(self.spec.key_bits, self.spec.hash, levels=self.levels)
        )

    @property
    def lane_hash_latency(self) -> int:
        """Cycles from the keys of a beat to their states."""
        settle = SECRET_SETTLE if self.spec.hash == "siphash" else 0
        return settle + hash_latency(
            self.spec.key_bits, self.spec.hash, levels=self.lane_hash_levels
        )

    @property
    def lane_hash_levels(self) -> int:
        """Levels of look-up tables of the lanes' hashes, half of the others, as wires are long."""
        return max(1, self.levels // 2)

    @property
    def lane_slots(self) -> int:
        """Beats that may be under way with several lanes, a power of two."""
        return 1 << ceil_log(2, LANE_SLOTS + self.lane_hash_latency)

    @property
    def beat_places(self) -> int:
        """Beats that may be on their way to the shards with several lanes, a power of two."""
        return 1 << ceil_log(2, BEAT_PLACES + self.lane_hash_latency)

    @property
    def result_places(self) -> int:
        """Results for which the queue of a unit of one lane has places."""
        return result_places(self.latency)

    @property
    def _memory_latency(self) -> int:
        """Cycles from addresses to bits; with two hashes, a register behind their selection."""
        if self.sliced:
            return COLUMN_RING_LATENCY + 1 + WORD_LATENCY + ceil_log(2, self.banks)
        return self.spec.rekey + memory_latency(
            bits=self.spec.shard_bits, clear=self.spec.clear, registers=self.address_registers
        )

    # Limits

    def check_buildable(self) -> None:
        """Refuse what the hardware cannot hold.

        Raises
        ------
        SpecificationError
            If the window is a span of time, a size is not a power of two, the spare
            is not zeroed within a generation, or the organisation cannot have it.
        """
        spec, cycles = self.spec, self.clear_cycles
        _require(
            not spec.timed,
            f"span: must not be given for hardware, which counts insertions, not {spec.span}",
        )
        for size in spec.index_sizes:
            _require(
                size & (size - 1) == 0,
                f"{spec.family}: hardware needs blocks and parts of a power of two bits, "
                f"not {size}",
            )
        _require(
            spec.clear <= spec.shard_bits,
            f"clear: must be at most the {spec.shard_bits} bits of a part, not {spec.clear}",
        )
        several = f", {spec.lanes} insertions in each" if spec.lanes > 1 else ""
        _require(
            spec.generation >= self._cleared_generation,
            f"generation: must be at least {self._cleared_generation} "
            f"({spec.shard_bits} bits of a part / {spec.clear} cleared per clock = "
            f"{cycles} clocks, and one to shift{several}), not {spec.generation}",
        )
        if self.sliced:
            self._check_sliced()

    def _check_sliced(self) -> None:
        spec = self.spec
        _require(
            spec.lanes == 1, f"lanes: must be 1 for {self.organisation} memory, not {spec.lanes}"
        )
        _require(
            not spec.rekey,
            f"rekey: must be false for {self.organisation} memory, whose segments share their "
            "words",
        )
        _require(
            spec.hash_functions == 1,
            f"organisation: must be separate for family {spec.family}, "
            "whose segments have hash functions of their own, not 'bit-sliced'",
        )
        _require(
            self.memory in BANK_VARIANTS,
            f"memory: must be {' or '.join(BANK_VARIANTS)} in the bit-sliced organisation, "
            f"not {self.memory!r}",
        )
        _require(
            spec.clear <= spec.part_bits // 2,
            f"clear: must be at most {spec.part_bits // 2} in the bit-sliced organisation, "
            f"half the cells of a part, not {spec.clear}",
        )


def memory_shape(*, bits: Any, clear: Any, block_bits: int = BLOCK_BITS) -> tuple[Any, Any]:
    """Return columns and rows of the block RAMs that hold `bits`, `clear` zeroed at a time.

    Parameters
    ----------
    bits, clear : int or ndarray of int
    block_bits : int
        Bits of a block RAM. Pipelines are the same on all devices: they count in `BLOCK_BITS`.
    """
    columns = _at_least_one(clear // BLOCK_CLEAR_BITS)
    return columns, _at_least_one(bits // columns // block_bits)


def address_registers(blocks: Any, *, lanes: int = 1) -> Any:
    """Return how many registers lead to each memory of a unit of so many block RAMs.

    Many block RAMs lie far apart, but those of a shard of several lanes lie side by side.
    """
    return 1 + (2 if lanes == 1 else 1) * (blocks > CROWDED_BLOCKS)


def memory_latency(*, bits: Any, clear: Any, registers: Any = 1) -> Any:
    """Return the cycles from an address to its bit, for a part of `bits`, `clear` at a time.

    `registers` lead to the memory, and two are the block RAM. The bit is selected from the words
    of all block RAMs by `SELECTED_DIGITS` binary digits per clock; where more than two registers
    lead to the memory, one leads from it.
    """
    _, rows = memory_shape(bits=bits, clear=clear)
    selection = ceil_log(1 << SELECTED_DIGITS, rows * clear)
    return 2 + registers + _at_least_one(selection) + (registers > 2)


def fold_steps(key_bits: int) -> int:
    """Return the steps in which a key of `key_bits` is folded into a state."""
    return int(_at_least_one(ceil_log(FAN_IN, key_bits)))


def hash_steps(key_bits: int) -> int:
    """Return the steps from a key of `key_bits` to its state: the fold, and a step per round."""
    return fold_steps(key_bits) + MIX_ROUNDS


def siphash_latency(key_bits: int) -> int:
    """Return the cycles from a key of `key_bits` to its SipHash.

    One to add the first word, 5 for each round, in the last of which the sum
    of the four words comes in place of what it does not need.
    """
    return 1 + 5 * (message_words(key_bits) * COMPRESSION_ROUNDS + FINALIZATION_ROUNDS)


def hash_latency(key_bits: int, hash: str = "h3", *, levels: int = DEFAULT_LEVELS) -> int:
    """Return the cycles from a key to its addresses, which do not come from registers.

    Parameters
    ----------
    key_bits : int
    hash : str
        As `FilterSpec` has it.
    levels : int
        Levels of look-up tables between two registers.
    """
    return siphash_latency(key_bits) if hash == "siphash" else -(-hash_steps(key_bits) // levels)


def detector_steps(*, parts: Any, segments: Any, run: Any, generations: Any) -> dict[str, Any]:
    """Return the steps from the bits of a key to its verdict, in order.

    Parameters
    ----------
    parts, segments, run, generations : int or ndarray of int
        As `FilterSpec` has them.

    Returns
    -------
    dict of str to int or ndarray of int
    """
    return {
        # Bits come through a level of tables from the registers of their memories.
        "match": 1 + _at_least_one(ceil_log(FAN_IN, parts)),
        "rotate": ceil_log(2, segments),
        "run": ceil_log(FAN_IN, run),
        "age": _at_least_one(ceil_log(2, generations + 1)),
    }


def detector_latency(*, levels: int = DEFAULT_LEVELS, **figures: Any) -> Any:
    """Return the cycles from the bits of a key to its verdict.

    Parameters
    ----------
    levels : int
        Levels of look-up tables between two registers.
    figures : int or ndarray of int
        As for `detector_steps`.
    """
    return -(-sum(detector_steps(**figures).values()) // levels)


def paged_latency(depth: int) -> int:
    """Return the cycles of a `PagedMemory` of `depth` words, whose read makes the first choice."""
    return 2 + int(ceil_log(2, -(-depth // PAGE_WORDS))) // 2


def result_places(latency: Any, *, lag: int = ACCEPT_LAG) -> Any:
    """Return the places of the result queue of a unit of that latency: a power of two.

    Parameters
    ----------
    latency : int or ndarray of int
    lag : int
        Cycles from an acceptance until `i.ready` depends on it.
    """
    return 1 << ceil_log(2, latency + lag + 5)


def ceil_log(base: int, value: Any) -> Any:
    """Return the smallest n with ``base**n >= value``, element by element for an array."""
    exponent, power = 0 * value, 1
    while np.any(short := power < value):
        exponent, power = exponent + short, power * base
    return exponent


def _at_least_one(value: Any) -> Any:
    return value + (value < 1)


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise SpecificationError(message)

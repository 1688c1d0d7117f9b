"""Latencies and sizes of the hardware as functions of numbers, with their constants.

Components, profiles, planner, simulation and documentation take these numbers from here. This
module does not import Amaranth.
"""

from collections.abc import Mapping

from ..golden.hash.functions import MIX_ROUNDS
from ..golden.hash.siphash import COMPRESSION_ROUNDS, FINALIZATION_ROUNDS, message_words

PROTECTIONS: Mapping[str, int] = {"none": 1, "parity": 2, "tmr": 3}
"""Protections of a unit's memories, and a ring's copies of each memory."""

TICKS = ("tick", "period", "time")
"""Sources of the ticks of a window in time."""

TIMING_TICKS = ("tick", "period")
"""Sources of the ticks of a timing filter."""

VOTES = 3
"""Copies of a small memory with a majority vote, as protected filters have them."""

VOTE_LATENCY = 1
"""Cycles that the vote of several copies adds to an answer."""

FAN_IN = 4
"""Inputs of the LUT for which pipelines are cut into steps."""

BLOCK_BITS = 1 << 14
"""Bits of the block RAM for which pipelines are designed."""

BLOCK_CLEAR_BITS = 16
"""Bits that a block RAM zeroes per cycle at most, and the width of its words."""

CROWDED_BLOCKS = 56
"""Block RAMs of a unit whose memories need only one address register each."""

SELECTED_DIGITS = 2
"""Binary digits of an address that one cycle uses to select a bit from block RAM words."""

DEFAULT_LEVELS = 2
"""Levels of LUTs between two registers if no clock frequency is given."""

CONTROL_LAG = 3
"""Cycles from a core's key to its control."""

QUEUE_LATENCY = 3
"""Cycles from the cycle before a verdict to the result."""

ACCEPT_LAG = 6
"""Cycles from an acceptance until `i.ready` depends on it, and one to spare."""

GENERATION_LEAD = 16
"""Cycles from a change of the generation length to the first acceptance that it applies to."""

SECRET_LEAD = 3
"""Cycles from a secret's acceptance to the first acceptance that it applies to."""

STAMP_LATENCY = 3
"""Cycles until the time of a request has been compared, if the request does not wait."""

SPARE_SETTLE = 3
"""Cycles until earlier operations have updated the state of the spare."""

SHIFT_PAUSE = SPARE_SETTLE + 6
"""Cycles for which a SHIFT closes the input if the spare is clean."""

PAUSE = 2 * SPARE_SETTLE + 16
"""Longest time in cycles for which a SHIFT or CLEAR closes the input after clearing."""

GENERATION_SAMPLE = GENERATION_LEAD // 2
"""Cycles after which the generation length is sampled again."""

STATUS_BITS = 2
"""Width of the status of a window in time."""

TICKS_WAITING = 15
"""Maximum number of ticks that wait to take effect."""

PERIOD_BITS = 24
"""Width of the tick period, in cycles, which is set at run time."""

TIMED_GENERATION = 16
"""Shortest generation without input stalls, for a window in time."""

MINIMUM_BEATS = 8
"""Minimum cycles between two shifts with several lanes."""

LANE_SLOTS = 112
"""Beats in flight with several lanes, in addition to beats whose keys are being hashed."""

BEAT_PLACES = 48
"""Beats that wait for room in a shard, in addition to beats whose keys are being hashed."""

SECRET_SETTLE = 3
"""Cycles that a beat of several lanes waits for the secret that its clear activates."""

SHARD_PLACES = 32
"""Maximum number of entries that wait in a shard."""

STEP_LATENCY = 3
"""Cycles from a step of a shard to its control."""

PAGE_WORDS = 16
"""Words of one page of a `PagedMemory`: the depth of an ECP5's distributed memory."""

BANK_COLUMNS = 18
"""Bits of the widest word of one DP16KD."""

BANK_ROWS = 1024
"""Words of `BANK_COLUMNS` bits in one DP16KD."""

LANE_HASH_LATENCY = 3
"""Minimum cycles from the keys of a beat to their states; the beat's type is known by then."""

MOST_WORDS = 1 << 26
"""Maximum words of all memories of a unit, except explicit block RAMs. Elaboration of more
words takes hours or too much memory."""

MOST_MEMORIES = 1 << 11
"""Maximum memories of a unit, for the same reason; each explicit block RAM counts as one."""

MOST_CLEAR = 1 << 12
"""Maximum bits of each memory that are zeroed per cycle, for the same reason."""

MOST_SEGMENTS = 1 << 8
"""Maximum segments of a ring; the size of masks and runs grows faster than their number."""

MOST_PARTS = 64
"""Maximum number of hash functions of a timing filter in hardware."""

BLOCK_MODES: Mapping[str, str] = dict.fromkeys(("ecp5", "ice40", "gowin", "lcmxo3lf"), "NORMAL")
"""Slowest write mode of a block RAM port, by variant of the memory.

Variants without explicit block RAMs are missing.
"""


def memory_shape(*, bits: int, clear: int, block_bits: int = BLOCK_BITS) -> tuple[int, int]:
    """Return columns and rows of block RAMs that hold `bits` and zero `clear` bits per cycle.

    All pipelines use `BLOCK_BITS`, so they are equal on all devices.
    """
    columns = max(1, clear // BLOCK_CLEAR_BITS)
    return columns, max(1, bits // columns // block_bits)


def address_registers(blocks: int, *, lanes: int = 1) -> int:
    """Return the number of address registers of each memory, for the block RAMs of a unit.

    Many block RAMs spread across the chip; the block RAMs of one shard are placed side by side.
    """
    return 1 + (2 if lanes == 1 else 1) * (blocks > CROWDED_BLOCKS)


def memory_latency(*, bits: int, clear: int, registers: int = 1) -> int:
    """Return the cycles from an address to its bit, for a part of `bits`.

    `registers` precede the memory, and the block RAM has two. `SELECTED_DIGITS` address bits per
    cycle then select the bit from the words of all block RAMs. If more than two registers precede
    the memory, one follows it.
    """
    _, rows = memory_shape(bits=bits, clear=clear)
    selection = ceil_log(1 << SELECTED_DIGITS, rows * clear)
    return 2 + registers + max(1, selection) + (registers > 2)


def stamp_bits(span: int) -> int:
    """Return the bits of a time stamp for ages up to twice a `span` in ticks."""
    return (2 * span + 1).bit_length()


def fold_steps(key_bits: int) -> int:
    """Return the steps that fold a key of `key_bits` into a state."""
    return max(1, ceil_log(FAN_IN, key_bits))


def hash_steps(key_bits: int) -> int:
    """Return the steps from a key of `key_bits` to its state: the fold, and one step per round."""
    return fold_steps(key_bits) + MIX_ROUNDS


def siphash_latency(key_bits: int) -> int:
    """Return the cycles from a key of `key_bits` to its SipHash.

    The first word takes one cycle, and each round takes five. The sum of the four words replaces
    unused work of the last round.
    """
    return 1 + 5 * (message_words(key_bits) * COMPRESSION_ROUNDS + FINALIZATION_ROUNDS)


def hash_latency(key_bits: int, hash: str = "h3", *, levels: int = DEFAULT_LEVELS) -> int:
    """Return the cycles from a key to its addresses, which are not registered.

    Parameters
    ----------
    key_bits : int
    hash : str
        As in `FilterSpec`.
    levels : int
        Levels of LUTs between two registers.
    """
    return siphash_latency(key_bits) if hash == "siphash" else -(-hash_steps(key_bits) // levels)


def detector_steps(*, parts: int, segments: int, run: int, generations: int) -> dict[str, int]:
    """Return the steps from the bits of a key to its verdict, in order; as in `FilterSpec`."""
    return {
        # The bits pass a level of LUTs after the registers of their memories.
        "match": 1 + max(1, ceil_log(FAN_IN, parts)),
        "rotate": ceil_log(2, segments),
        "run": ceil_log(FAN_IN, run),
        "age": max(1, ceil_log(2, generations + 1)),
    }


def detector_latency(*, levels: int = DEFAULT_LEVELS, **figures: int) -> int:
    """Return the cycles from the bits of a key to its verdict.

    Parameters
    ----------
    levels : int
        Levels of LUTs between two registers.
    figures : int
        As for `detector_steps`.
    """
    return -(-sum(detector_steps(**figures).values()) // levels)


def paged_latency(depth: int, *, far: bool = False) -> int:
    """Return the cycles from a read address of a `PagedMemory` to its word.

    A read includes the first choice among the pages; each later cycle makes two choices.

    Parameters
    ----------
    depth : int
        Words.
    far : bool
        As for `lately.hdl.memory.paged.PagedMemory`.
    """
    return 2 + 2 * far + ceil_log(2, -(-depth // PAGE_WORDS)) // 2


def result_places(latency: int, *, lag: int = ACCEPT_LAG) -> int:
    """Return the places of the result queue of a unit with this latency: a power of two.

    Parameters
    ----------
    latency : int
    lag : int
        Cycles from an acceptance until `i.ready` depends on it.
    """
    return 1 << ceil_log(2, latency + lag + 5)


def check_bits(held_bits: int) -> int:
    """Return the parity bits of a cell with `held_bits`; the total number of bits is even.

    Parameters
    ----------
    held_bits : int
    """
    return 1 + (held_bits + 1) % 2


def ceil_log(base: int, value: int) -> int:
    """Return the smallest n with ``base**n >= value``."""
    exponent, power = 0, 1
    while power < value:
        exponent, power = exponent + 1, power * base
    return exponent

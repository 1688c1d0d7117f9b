"""Latencies and sizes of the hardware as functions of numbers, and the constants in them.

Components, profiles, planner, simulation and documentation take these numbers from here. This
module does not import Amaranth. The functions also accept arrays of integers, element by element,
so that the planner can evaluate thousands of filters at once.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..golden.hash.functions import MIX_ROUNDS
from ..golden.hash.siphash import COMPRESSION_ROUNDS, FINALIZATION_ROUNDS, message_words

PROTECTIONS: Mapping[str, int] = {"none": 1, "parity": 2, "tmr": 3}
"""Protections of a unit's memories, and how many of each memory a ring has for it."""

TICKS = ("tick", "period", "time")
"""Sources of the ticks of a window in time."""

TIMING_TICKS = ("tick", "period")
"""Sources of the ticks of a timing filter."""

VOTES = 3
"""Copies of which most count, also of the small memories beside those of a protected filter."""

VOTE_LATENCY = 1
"""Cycles by which an answer of several copies of a memory comes later."""

FAN_IN = 4
"""Inputs of the LUTs that a step of a pipeline is cut for."""

BLOCK_BITS = 1 << 14
"""Bits of the block RAM that pipelines are laid out for."""

BLOCK_CLEAR_BITS = 16
"""Bits that a block RAM zeroes per cycle at most, and the width of its words."""

CROWDED_BLOCKS = 56
"""Block RAMs up to which one address register leads to each; more where there are more."""

SELECTED_DIGITS = 2
"""Binary digits by which a bit is selected from the words of block RAMs in a cycle."""

DEFAULT_LEVELS = 2
"""Levels of LUTs between two registers, if no clock is named."""

CONTROL_LAG = 3
"""Cycles by which the control of a core comes after its key."""

QUEUE_LATENCY = 3
"""Cycles to a result from the cycle before its verdict."""

ACCEPT_LAG = 6
"""Cycles from an acceptance until `i.ready` knows of it, and one to spare."""

GENERATION_LEAD = 16
"""Cycles from a change of the generation length to the first acceptance that it applies to."""

SECRET_LEAD = 3
"""Cycles from a secret's acceptance to the first acceptance that it applies to."""

STAMP_LATENCY = 3
"""Cycles that a request takes until its time has been compared, if it does not wait."""

SPARE_SETTLE = 3
"""Cycles until earlier operations have had their effect on what is known of the spare."""

SHIFT_PAUSE = SPARE_SETTLE + 6
"""Cycles for which a SHIFT keeps the input closed if the spare is clean."""

PAUSE = 2 * SPARE_SETTLE + 16
"""Longest time in cycles for which a SHIFT or CLEAR keeps the input closed after clearing."""

GENERATION_SAMPLE = GENERATION_LEAD // 2
"""Cycles after which the generation length is looked at again."""

STATUS_BITS = 2
"""Width of the status of a window in time."""

TICKS_WAITING = 15
"""Ticks that wait for their effect at most."""

PERIOD_BITS = 24
"""Width of the number of cycles between two ticks that is set at run time."""

TIMED_GENERATION = 16
"""Shortest generation at which operations flow, if the window is one in time."""

MINIMUM_BEATS = 8
"""Fewest cycles between two shifts with several lanes."""

LANE_SLOTS = 112
"""Beats that may be under way with several lanes, beside those whose keys are being hashed."""

BEAT_PLACES = 48
"""Beats that wait for room in a shard, at most, beside those whose keys are being hashed."""

SECRET_SETTLE = 3
"""Cycles by which a beat of several lanes waits for the secret that its clear brings in."""

SHARD_PLACES = 32
"""Entries that wait in a shard, at most."""

STEP_LATENCY = 3
"""Cycles from a step of a shard to its control."""

PAGE_WORDS = 16
"""Words that one page of a `PagedMemory` holds, as the distributed memory of an ECP5."""

BANK_COLUMNS = 18
"""Bits of the widest word of one DP16KD."""

BANK_ROWS = 1024
"""Words of `BANK_COLUMNS` bits that one DP16KD holds."""

LANE_HASH_LATENCY = 3
"""Cycles from the keys of a beat to their states, at least: what a beat asks for is known then."""

MOST_WORDS = 1 << 26
"""Words of all memories of a unit that are no explicit block RAMs, at most: elaboration of more
takes hours, or more memory than there is."""

MOST_MEMORIES = 1 << 11
"""Memories of a unit, at most, for the same reason; of explicit block RAMs each is one."""

MOST_CLEAR = 1 << 12
"""Bits of each memory that are zeroed per cycle, at most, for the same reason."""

MOST_SEGMENTS = 1 << 8
"""Segments of a ring, at most: the size of their masks and runs grows faster than their number."""

MOST_PARTS = 64
"""Hash functions of a timing filter in hardware, at most."""

BLOCK_MODES: Mapping[str, str] = {"ecp5": "NORMAL", "ice40": "NORMAL", "gowin": "NORMAL"}
"""Slowest write mode of a block RAM's port, by variant of the memory.

Variants that instantiate no block RAM are missing.
"""


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

    `registers` are in front of the memory, and the block RAM has two. `SELECTED_DIGITS` address
    bits per cycle then select the bit from the words of all block RAMs. If more than two registers
    are in front of the memory, one follows it.
    """
    _, rows = memory_shape(bits=bits, clear=clear)
    selection = ceil_log(1 << SELECTED_DIGITS, rows * clear)
    return 2 + registers + _at_least_one(selection) + (registers > 2)


def stamp_bits(span: int) -> int:
    """Return the bits of a time in a window of `span` ticks: ages to twice that are told apart."""
    return (2 * span + 1).bit_length()


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
        Levels of LUTs between two registers.
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
        Levels of LUTs between two registers.
    figures : int or ndarray of int
        As for `detector_steps`.
    """
    return -(-sum(detector_steps(**figures).values()) // levels)


def paged_latency(depth: int, *, far: bool = False) -> int:
    """Return the cycles from a read address of a `PagedMemory` to its word.

    A read makes the first choice among the pages; each cycle after it makes two.

    Parameters
    ----------
    depth : int
        Words.
    far : bool
        As for `lately.hdl.memory.paged.PagedMemory`.
    """
    return 2 + 2 * far + int(ceil_log(2, -(-depth // PAGE_WORDS))) // 2


def result_places(latency: Any, *, lag: int = ACCEPT_LAG) -> Any:
    """Return the places of the result queue of a unit of that latency: a power of two.

    Parameters
    ----------
    latency : int or ndarray of int
    lag : int
        Cycles from an acceptance until `i.ready` depends on it.
    """
    return 1 << ceil_log(2, latency + lag + 5)


def check_bits(held_bits: int) -> int:
    """Return the bits of the parity of what a cell holds, with which its bits are even in number.

    Parameters
    ----------
    held_bits : int
    """
    return 1 + (held_bits + 1) % 2


def ceil_log(base: int, value: Any) -> Any:
    """Return the smallest n with ``base**n >= value``, element by element for an array."""
    exponent, power = 0 * value, 1
    while np.any(short := power < value):
        exponent, power = exponent + short, power * base
    return exponent


def _at_least_one(value: Any) -> Any:
    return value + (value < 1)

"""Constants of the hardware that components, profiles, simulation and documentation share.

This module does not import Amaranth.
"""

from collections.abc import Mapping

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

CELL_LATENCY = 2
"""Cycles from an address of a memory of cells to its word."""

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

DISPATCH_LATENCY = 8
"""Cycles from the states of a beat to the work of each shard."""

ENTRY_LATENCY = 4
"""Cycles from an entry of a shard until its queue holds the entry."""

LANE_HASH_LATENCY = 3
"""Minimum cycles from the keys of a beat to their states; the beat's type is known by then."""

MAX_WORDS = 1 << 26
"""Maximum words of all memories of a unit, except explicit block RAMs. Elaboration of more
words takes hours or too much memory."""

MAX_MEMORIES = 1 << 11
"""Maximum memories of a unit, for the same reason; each explicit block RAM counts as one."""

MAX_CLEAR = 1 << 12
"""Maximum bits of each memory that are zeroed per cycle, for the same reason."""

MAX_SEGMENTS = 1 << 8
"""Maximum segments of a ring; the size of masks and runs grows faster than their number."""

MAX_PARTS = 64
"""Maximum number of hash functions of a timing filter in hardware."""

BLOCK_MODES: Mapping[str, str] = dict.fromkeys(("ecp5", "ice40", "gowin", "lcmxo3lf"), "NORMAL")
"""Slowest write mode of a block RAM port, by variant of the memory.

Variants without explicit block RAMs are missing.
"""

"""Constants of the hardware that components, profiles, simulation and documentation share.

This module does not import Amaranth.
"""

from collections.abc import Mapping

PROTECTIONS: Mapping[str, int] = {"none": 1, "parity": 2, "tmr": 3}
"""Memory protections of a unit, with the number of copies that a ring keeps of each memory."""

TICKS = ("tick", "period", "time")
"""Tick sources of a time-based window."""

TIMING_TICKS = ("tick", "period")
"""Tick sources of a timing filter."""

VOTES = 3
"""Number of copies of each small memory in a protected filter; a majority vote decides each
read."""

VOTE_LATENCY = 1
"""Cycles that voting among copies adds to each read."""

BLOCK_BITS = 1 << 14
"""Capacity, in bits, of the block RAM that pipelines are designed for."""

BLOCK_CLEAR_BITS = 16
"""Maximum bits that a block RAM zeroes per cycle, and the width of its words."""

CROWDED_BLOCKS = 56
"""Maximum block RAMs of a unit whose memories need only one address register each."""

SELECTED_DIGITS = 2
"""Address bits used per cycle to select a bit from the block RAM words."""

DEFAULT_LEVELS = 2
"""Levels of LUTs between two registers when no clock frequency is given."""

CELL_LATENCY = 2
"""Cycles from an address of a cell memory to its word."""

CONTROL_LAG = 3
"""Cycles by which a core's control flags follow the key."""

QUEUE_LATENCY = 3
"""Cycles from `valid_next`, one cycle before the verdict, to the result."""

ACCEPT_LAG = 6
"""Cycles until `i.ready` reflects an acceptance, plus one spare cycle."""

GENERATION_LEAD = 16
"""Cycles from a change of the generation length to the first accepted operation that it affects."""

SECRET_LEAD = 3
"""Cycles from a secret's acceptance to the first accepted operation that it affects."""

STAMP_LATENCY = 3
"""Cycles to compare the time of a request that need not wait."""

SPARE_SETTLE = 3
"""Cycles until the state of the spare segment reflects earlier operations."""

SHIFT_PAUSE = SPARE_SETTLE + 6
"""Cycles for which a SHIFT closes the input if the spare segment is clean."""

PAUSE = 2 * SPARE_SETTLE + 16
"""Maximum cycles for which a SHIFT or CLEAR keeps the input closed after the clearing has ended."""

GENERATION_SAMPLE = GENERATION_LEAD // 2
"""Cycles between two samples of the generation length."""

STATUS_BITS = 2
"""Width of the status field of a time-based window."""

TICKS_WAITING = 15
"""Maximum number of ticks that wait to take effect."""

PERIOD_BITS = 24
"""Width of the tick period, which is in cycles and set at run time."""

TIMED_GENERATION = 16
"""Shortest generation, in insertions, that causes no input stalls in a time-based window."""

MINIMUM_BEATS = 8
"""Minimum cycles between two shifts with several lanes."""

LANE_SLOTS = 112
"""Maximum beats in flight with several lanes, in addition to beats whose keys are being hashed."""

BEAT_PLACES = 48
"""Number of beats that can wait for room in a shard, in addition to beats whose keys are being
hashed."""

SECRET_SETTLE = 3
"""Cycles that a beat waits for the secret that its clear activates."""

SHARD_PLACES = 32
"""Maximum number of entries that wait in a shard."""

STEP_LATENCY = 3
"""Cycles from a shard's step to the control flags of the step."""

PAGE_WORDS = 16
"""Words per page of a `PagedMemory`: the depth of an ECP5's distributed memory."""

BANK_COLUMNS = 18
"""Width of the widest word of a DP16KD."""

BANK_ROWS = 1024
"""Number of words of `BANK_COLUMNS` bits in a DP16KD."""

DISPATCH_LATENCY = 8
"""Cycles from the hash states of a beat to the work of each shard."""

ENTRY_LATENCY = 4
"""Cycles from an entry's arrival at a shard until the shard's queue holds it."""

LANE_HASH_LATENCY = 3
"""Minimum cycles from a beat's keys to their hash states; by then the beat's type is known."""

MAX_WORDS = 1 << 26
"""Maximum words in all memories of a unit, not counting explicit block RAMs. Elaborating more takes
hours or too much memory."""

MAX_MEMORIES = 1 << 11
"""Maximum memories in a unit, for the same reason; each explicit block RAM counts as one."""

MAX_CLEAR = 1 << 12
"""Maximum bits of each memory that are zeroed per cycle, for the same reason."""

MAX_SEGMENTS = 1 << 8
"""Maximum segments in a ring; the logic for masks and runs grows faster than their number."""

MAX_PARTS = 64
"""Maximum number of hash functions of a timing filter in hardware."""

BLOCK_MODES: Mapping[str, str] = dict.fromkeys(("ecp5", "ice40", "gowin", "lcmxo3lf"), "NORMAL")
"""Slowest write mode of a block RAM port, by memory variant.

Variants without explicit block RAMs are not listed.
"""

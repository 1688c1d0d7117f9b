"""Hardware constants that components, profiles, simulation and documentation share.

This module does not import Amaranth.
"""

from collections.abc import Mapping

# memory protections of a unit, with the number of replicas of each memory in a ring
PROTECTIONS: Mapping[str, int] = {"none": 1, "parity": 2, "tmr": 3}
TICKS = ("tick", "period", "time")  # tick sources of a time-based window
TIMING_TICKS = ("tick", "period")  # tick sources of a timing filter
# Number of replicas of each small memory in a protected filter; each read is a majority vote.
VOTES = 3
VOTE_LATENCY = 1  # cycles that a vote among replicas adds to each read
BLOCK_BITS = 1 << 14  # capacity, in bits, of the block RAM that pipelines are designed for
BLOCK_CLEAR_BITS = 16  # maximum bits that a block RAM zeroes per cycle, and the width of its words
# maximum block RAMs of a unit whose memories need only one address register each
CROWDED_BLOCKS = 56
SELECTED_DIGITS = 2  # address bits used per cycle to select a bit from the block RAM words
DEFAULT_LEVELS = 2  # levels of LUTs between two registers when no clock frequency is given
CELL_LATENCY = 2  # cycles from an address of a cell memory to the word
CONTROL_LAG = 3  # cycles by which a core's control flags follow the key
QUEUE_LATENCY = 3  # cycles from `valid_next`, one cycle before the verdict, to the result
ACCEPT_LAG = 6  # cycles until `i.ready` reflects an acceptance, plus one spare cycle
# cycles from a change of the generation length to the first accepted operation that it affects
GENERATION_LEAD = 16
SECRET_LEAD = 3  # cycles from a secret's acceptance to the first accepted operation that it affects
STAMP_LATENCY = 3  # cycles to compare the time of a request that need not wait
SPARE_SETTLE = 3  # cycles until the state of the spare segment reflects earlier operations
# cycles for which a SHIFT stalls the input if the spare segment is clean
SHIFT_PAUSE = SPARE_SETTLE + 6
# maximum cycles for which a SHIFT or CLEAR stalls the input after the clearing has ended
PAUSE = 2 * SPARE_SETTLE + 16
GENERATION_SAMPLE = GENERATION_LEAD // 2  # cycles between two samples of the generation length
STATUS_BITS = 2  # width of the status field of a time-based window
TICKS_WAITING = 15  # maximum number of ticks that wait to take effect
PERIOD_BITS = 24  # width of the tick period, which is in cycles and set at run time
# shortest generation, in insertions, that causes no input stalls in a time-based window
TIMED_GENERATION = 16
MINIMUM_BEATS = 8  # minimum cycles between two shifts with several lanes
# maximum beats in flight with several lanes, in addition to beats whose keys are being hashed
LANE_SLOTS = 112
# Number of beats that can wait for room in a shard, in addition to beats whose keys are being
# hashed.
BEAT_CAPACITY = 48
SECRET_SETTLE = 3  # cycles that a beat waits for the secret that its clear activates
SHARD_CAPACITY = 32  # maximum number of entries that wait in a shard
STEP_LATENCY = 3  # cycles from a shard's step to the control flags of the step
PAGE_WORDS = 16  # words per page of a `PagedMemory`: the depth of an ECP5's distributed memory
BANK_COLUMNS = 18  # width of the widest word of a DP16KD
BANK_ROWS = 1024  # number of words of `BANK_COLUMNS` bits in a DP16KD
DISPATCH_LATENCY = 8  # cycles from the hash states of a beat to the work of each shard
ENTRY_LATENCY = 4  # cycles from an entry's arrival at a shard until the shard's queue holds it
# Minimum cycles from a beat's keys to their hash states; by then the beat's type is known.
LANE_HASH_LATENCY = 3
# Maximum words in all memories of a unit, not counting explicit block RAMs. Elaborating more takes
# hours or too much memory.
MAX_WORDS = 1 << 26
# Maximum number of memories in a unit, for the same reason; each explicit block RAM counts as one.
MAX_MEMORIES = 1 << 11
MAX_CLEAR = 1 << 12  # maximum bits of each memory that are zeroed per cycle, for the same reason
# Maximum segments in a ring; the logic for masks and runs grows faster than their number.
MAX_SEGMENTS = 1 << 8
MAX_PARTS = 64  # maximum number of hash functions of a timing filter in hardware
# Slowest write mode of a block RAM port, by memory variant. Variants without explicit block RAMs
# are not listed.
BLOCK_MODES: Mapping[str, str] = dict.fromkeys(("ecp5", "ice40", "gowin", "lcmxo3lf"), "NORMAL")

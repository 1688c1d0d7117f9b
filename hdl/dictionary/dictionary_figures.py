"""Pipeline stages and sweep rate of a dictionary.

This module does not import Amaranth.
"""

from ...golden.spec.dictionary_sizes import SWEEP_MARGIN, WindowDictionarySpec
from ..latencies import CELL_LATENCY

COMPARISON = 2  # cycles to compare the row of an operation with the rows of earlier operations
WORD = CELL_LATENCY  # cycles from the address of a cell memory to the word
MATCH = WORD + 2  # cycles from the read of the cells to the results of the columns
DECISION = MATCH + 2  # cycles from the read to the decision about the write
WRITE = DECISION + 2  # cycles from the read to the write
HAZARDS = WRITE  # number of earlier operations that have not written yet when an operation reads
# number of earlier operations that may change the stash during the search for a digest
STASH_HAZARDS = 3
VERDICT = 3  # cycles from the distances of a digest in column and stash to the verdict
# Cycles from the read to the verdict; the search of the stash ends two cycles after the write.
ANSWER = WRITE + 2 + VERDICT
# shortest window: longer than the pipeline, so that no operation in flight has expired
MIN_WINDOW = 16
# maximum insertions per row of the sweep, so that a late sweep keeps its margin
MAX_SWEPT_PER_ROW = 24
# Backlog of rows at which a column's sweep stalls the input for one cycle per row. At twice
# this backlog, the input stalls until the backlog is smaller.
SWEEP_BACKLOG = 4
MAX_STALL = 64  # with moves: maximum cycles for which a nearly full stash stalls the input
STALL_PERIOD = 1024  # minimum cycles from one such stall to the next, a power of two
# Backlog of rows at which a column accepts no more entries: less than the backlog that stalls the
# input.
BEHIND_ROWS = SWEEP_BACKLOG // 2
# cycles from an entry's arrival in a column to the comparison of operations with its row
WATCHED = 3
KNOWN = 3  # cycles from the word of a cell to its digest and to the check of its age
# Minimum cycles from an entry's arrival to its exchange. The sweep leaves the port in one cycle,
# and the entry waits two cycles for its write. By then, operations in flight at the arrival have
# been compared with the row, as they leave, `HAZARDS` cycles after their read.
EARLIEST = WATCHED + 1 + WORD + KNOWN + 2


def crowded_stash(spec: WindowDictionarySpec) -> int:
    """Return the number of stash entries at which the input stalls: three quarters of the slots."""
    return -(-3 * spec.stash // 4)


def swept_per_row(spec: WindowDictionarySpec) -> int:
    """Return the number of insertions after which the sweep processes one more row.

    At this rate, expired entries are erased before insertion numbers repeat.
    """
    limit = ((1 << spec.timestamp_bits) - spec.window - SWEEP_MARGIN) // spec.rows
    return min(MAX_SWEPT_PER_ROW, limit)

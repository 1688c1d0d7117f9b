"""Pipeline depths of a unit that is not yet built, computed without Amaranth."""

from ..golden.hash.functions import MIX_ROUNDS
from ..golden.hash.siphash import COMPRESSION_ROUNDS, FINALIZATION_ROUNDS, message_words
from .latencies import PAGE_WORDS
from .parameters import ceil_log

LUT_INPUTS = 4  # number of LUT inputs of a step: equal to `lately.hdl.pipeline.FAN_IN`


def hash_stages(key_bits: int, hash: str, levels: int) -> int:
    """Return the number of cycles from a key to its hash state."""
    if hash == "siphash":
        # The first word takes one cycle, and each round takes five.
        rounds = message_words(key_bits) * COMPRESSION_ROUNDS + FINALIZATION_ROUNDS
        return 1 + 5 * rounds
    return -(-(max(1, ceil_log(LUT_INPUTS, key_bits)) + MIX_ROUNDS) // levels)


def detector_stages(*, parts: int, segments: int, run: int, starts: int, levels: int) -> int:
    """Return the number of cycles from the bits of a key to the verdict."""
    # The bits pass a level of LUTs after the registers of their memories.
    match = 1 + max(1, ceil_log(LUT_INPUTS, parts))
    rotate, runs = ceil_log(2, segments), ceil_log(LUT_INPUTS, run)
    return -(-(match + rotate + runs + max(1, ceil_log(2, starts))) // levels)


def paged_stages(depth: int, *, far: bool = False) -> int:
    """Return the read latency of a `PagedMemory`, in cycles."""
    return 2 + 2 * far + ceil_log(2, -(-depth // PAGE_WORDS)) // 2


def oldest_stages(hashes: int) -> int:
    """Return the number of cycles from the ages of a key's cells to the verdict."""
    return 2 * ceil_log(2, hashes) + (3 if hashes > 1 else 2)

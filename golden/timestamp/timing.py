"""Timing Bloom filter and its blocked form (inferential paper, section 3).

`TimingBloomFilter` has a timestamp for every insertion (section 3.1),
`BlockTimingBloomFilter` one for a block of insertions (section 3.2).
`timestamps` implements their operations.
"""

from typing import Any

from ..spec.timestamp import BlockTimingSpec, TimingSpec
from .timestamps import TimestampFilter
from .timing_sizes import timing_sizes


class TimingBloomFilter(TimestampFilter):
    """Timing Bloom filter: every insertion has its own timestamp (section 3.1).

    A key is reported for all d < W = `window`, where d is the number of insertions after its
    own. Any other key is reported only if other keys have touched all its cells within the window.

    Parameters
    ----------
    window : int
        Insertions for which a key is guaranteed to be reported, w; at most 2**30.
    cells : int
        Cells, m.
    hashes : int
        Hash functions, k. All share the cells.
    padding : int, optional
        Timestamps beyond the ``window + 2`` that are needed. By default the fewest
        with which at most `hashes` cells are swept after an insertion, as in the
        paper: about ``cells / hashes``.
    """

    specification = TimingSpec
    block = 1
    _sizes = staticmethod(timing_sizes)


class BlockTimingBloomFilter(TimestampFilter):
    """Block timing Bloom filter: a block of insertions shares a timestamp (section 3.2).

    A key is reported for all d < W = `window`, where d is the number of insertions after its
    own. Timestamps are shorter than in `TimingBloomFilter`. The end of the
    window is less sharp: a key may be reported for up to ``block - 1``
    more insertions, because a later key of its block is in the window.

    Parameters
    ----------
    window, cells, hashes : int
        As for `TimingBloomFilter`.
    block : int
        Insertions that share a timestamp, B; may be longer than the window.
    padding : int, optional
        Timestamps beyond the ``ceil(window / block) + 2`` that are needed. By default
        the fewest with which at most `hashes` cells are swept after an insertion, as
        in the paper: about ``cells / (hashes block)``.
    """

    specification = BlockTimingSpec

    @classmethod
    def _sizes(cls, keys: int, fpr: float) -> dict[str, Any]:
        block = -(-keys // 32)
        return {**timing_sizes(keys, fpr, block), "block": block}

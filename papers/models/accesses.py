"""Counts the segments that a query reads, in the search orders of the APBF paper (section 5.4).

All functions accept matches, a bool array of shape (ring_segments, n), as `SlidingFilter.matches`
returns them: whether each segment, youngest first, contains each of n keys.
"""

import numpy as np
from numpy.typing import NDArray

Accesses = NDArray[np.int64]  # Segments read for each key, shape (n,).
Matches = NDArray[np.bool_]


def backward(matches: Matches, run: int) -> Accesses:
    """Count the accesses of Algorithm 1, which starts near the oldest segment and skips some."""
    segments, count = matches.shape
    at = np.full(count, segments - run)
    before, now, accesses = np.zeros((3, count), np.int64)
    walking = np.arange(count)
    while len(walking):
        accesses[walking] += 1
        hit = matches[at[walking], walking]
        matched, lost = walking[hit], walking[~hit]
        now[matched] += 1
        at[matched] += 1
        before[lost], now[lost] = now[lost], 0
        at[lost] -= run
        walking = walking[(at[walking] >= 0) & (before[walking] + now[walking] < run)]
    return accesses


def forward(matches: Matches, run: int) -> Accesses:
    return backward(matches[::-1], run)


def linear(matches: Matches, run: int) -> Accesses:
    """Count the accesses of a scan, youngest first, that ends once a run is found or impossible."""
    segments, count = matches.shape
    accesses, now = np.zeros((2, count), np.int64)
    for number, match in enumerate(matches):
        walking = (now < run) & (now + segments - number >= run)
        accesses += walking
        now = np.where(walking, (now + 1) * match, now)
    return accesses

"""Ring of slices: what a turn moves, and what it refuses to take from a file."""

import numpy as np
import pytest

from lately.golden.ring.slice_ring import SliceRing
from lately.golden.times import NEVER


def test_turn_moves_all_by_one_and_zeroes_the_spare():
    ring = SliceRing(slices=3, bits=5)
    assert (len(ring), ring.memory.shape) == (3, (4, 5))
    for i in range(3):
        ring.bits(i)[i] = True
    ring.settled, ring.overfull = [NEVER, 10, 5], [True, False, True]
    ring.turn()
    assert not ring.bits(-1).any()
    assert [np.flatnonzero(ring.bits(i)).tolist() for i in range(3)] == [[], [0], [1]]
    assert ring.settled == [NEVER, NEVER, 10]
    assert ring.overfull == [False, True, False]


def test_turns_come_round():
    ring = SliceRing(slices=3, bits=2)
    positions = []
    for _ in range(5):
        positions.append([ring.physical(i) for i in range(-1, 3)])
        ring.turn()
    assert positions[0] == [3, 0, 1, 2]
    assert positions[1] == [2, 3, 0, 1]
    assert positions[4] == positions[0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"base": 4}, "ring position: 4 does not fit"),
        ({"settled": [NEVER, 8, 8]}, "settled time: 8 does not fit"),
        ({"overfull": [0, False, False]}, r"overfull slices: \[0, "),
        ({"packed": np.zeros(2, np.uint8)}, "bits: uint8 "),
    ],
)
def test_contents_wrong(change, message):
    ring = SliceRing(slices=3, bits=5)
    right = {
        "base": 3,
        "settled": [NEVER, 7, 3],
        "overfull": [False, True, False],
        "packed": np.packbits(np.arange(20) % 3 == 0),
        "latest": [NEVER, 7, 7],
    }
    with pytest.raises(ValueError, match=message):
        ring.restore(**right | change)
    assert (ring.base, ring.memory.any()) == (0, False)
    ring.restore(**right)
    assert ring.base == 3
    assert np.flatnonzero(ring.memory).tolist() == list(range(0, 20, 3))

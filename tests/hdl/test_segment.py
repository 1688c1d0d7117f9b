"""Segment memories: the constructor's rules. Proofs compare each variant with a flip-flop."""

import pytest

from lately.hdl.memory.segment import PortableSegmentMemory
from lately.hdl.memory.variants import VARIANTS, segment_memory


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("depth", [0, 3, -4, 4.0, "8"])
def test_depth_wrong(variant, depth):
    with pytest.raises(ValueError, match=r"^Depth must be a power of two, not "):
        segment_memory(variant, depth=depth, clear_bits=1)


def test_depth_too_small():
    with pytest.raises(ValueError, match=r"^Depth must be at least 2, not 1$"):
        PortableSegmentMemory(depth=1, clear_bits=1)


@pytest.mark.parametrize("clear_bits", [0, 3, 0.5])
def test_clear_bits_wrong(clear_bits):
    with pytest.raises(ValueError, match=r"^Clear width must be a power of two, not "):
        PortableSegmentMemory(depth=16, clear_bits=clear_bits)


def test_clear_bits_above_depth():
    with pytest.raises(ValueError, match=r"^Clear width must be at most the depth of 16, not 32$"):
        PortableSegmentMemory(depth=16, clear_bits=32)


def test_variant_wrong():
    with pytest.raises(
        ValueError,
        match=r"^Memory must be one of portable, portable-registered, ecp5, .*, not 'x'$",
    ):
        segment_memory("x", depth=16, clear_bits=8)

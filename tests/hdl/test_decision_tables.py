"""Tables of thresholds: where they lie, and parameters; the test plan has their contract."""

from dataclasses import replace

import pytest
from amaranth.back import rtlil
from cases import daily

from lately.golden import PartitionedTimingSpec, TimedTimingSpec
from lately.hdl.build import filter_unit

SPEC = PartitionedTimingSpec(
    window=32, block=8, hashes=3, cells=16, stamp_bits=6, key_bits=10, seed=2
)
TIMED = TimedTimingSpec(span=12, period=2, hashes=3, cells=16, stamp_bits=5, key_bits=10, seed=2)


@pytest.mark.parametrize(
    ("spec", "memory", "blocks"),
    daily(
        2,
        [
            (TIMED, "portable", 0),
            (TIMED, "ecp5", 1),
            (SPEC, "portable", 0),
            (SPEC, "ecp5", 1),
        ],
    ),
)
def test_tables_lie_in_memories_of_the_device(spec, memory, blocks):
    text = rtlil.convert(filter_unit(replace(spec, classes=2), memory=memory), emit_src=False)
    (tables,) = (part for part in text.split("\nmodule ") if "thresholds" in part.split("\n")[0])
    assert tables.count("cell \\DP16KD") == blocks


@pytest.mark.parametrize("spec", [SPEC, TIMED])
def test_latency(spec):
    built = filter_unit(replace(spec, classes=2))
    assert built.latency == built.profile.latency == filter_unit(spec).latency + 3

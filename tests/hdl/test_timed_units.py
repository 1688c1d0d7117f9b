"""Parameters of units whose window is one in time; the test plan has their contract."""

from dataclasses import replace

import pytest

from lately.golden import preset
from lately.hdl.build import filter_unit

SPEC = preset("timed-tiny")


@pytest.mark.parametrize("memory", ["portable", "ecp5", "gowin", "ice40", "ice40-strict"])
def test_times_are_read_with_the_clock_where_tables_hold_no_memories(memory):
    unit = filter_unit(SPEC, memory=memory)
    assert unit.clock._synchronous == memory.startswith("ice40")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"lanes": 2, "blocks": 48}, "lanes: must be 1 with a span, not 2"),
        ({"generation": 15, "clear": 16}, "generation: must be at least 16 for a window in time"),
        ({"span": 1}, "generation_span: must be at least 2 ticks for hardware, not 1"),
    ],
)
def test_span_wrong(changes, message):
    with pytest.raises(ValueError, match=message):
        filter_unit(replace(SPEC, window=None, generation_span=None, **changes))

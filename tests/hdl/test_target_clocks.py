"""Target clocks of units."""

import pytest

from lately.hdl.profile import BLOCK_MODES
from lately.hdl.target_clocks import CLOCK_MHZ, target_mhz


@pytest.mark.parametrize("size", ["25k", "45k", "85k"])
@pytest.mark.parametrize("organisation", ["separate", "bit-sliced"])
def test_the_size_of_a_device_does_not_matter(size, organisation):
    mode = BLOCK_MODES[organisation]["ecp5"]
    mhz = CLOCK_MHZ["ecp5-6"][mode]
    assert target_mhz(f"ecp5-{size}-6", organisation=organisation) == int(mhz)


def test_slower_where_block_rams_bind():
    assert target_mhz("ice40-up5k") == 150
    assert target_mhz("ice40-hx8k") == 275


def test_unknown_device_wrong():
    with pytest.raises(KeyError):
        target_mhz("ecp5-25k-5")

"""Target clocks of units."""

import pytest

from lately.hdl.latencies import BLOCK_MODES
from lately.hdl.target_clocks import CLOCK_MHZ, LEVELS_MHZ, levels, limit_mhz, target_mhz


@pytest.mark.parametrize("size", ["25k", "45k", "85k"])
def test_the_size_of_a_device_does_not_matter(size):
    mhz = CLOCK_MHZ["ecp5-6"][BLOCK_MODES["ecp5"]]
    assert target_mhz(f"ecp5-{size}-6") == int(mhz)


def test_slower_where_logic_binds():
    assert target_mhz("ice40-up5k") == 48 < limit_mhz("ice40-up5k")
    assert target_mhz("ice40-hx8k") == 150 < limit_mhz("ice40-hx8k")


@pytest.mark.parametrize("clock_class", LEVELS_MHZ)
def test_levels_become_fewer_as_the_clock_rises(clock_class):
    device = clock_class.replace("ecp5-", "ecp5-25k-")
    numbers = [levels(device, mhz) for mhz in range(20, 700, 5)]
    assert numbers == sorted(numbers, reverse=True)
    assert (numbers[0], numbers[-1]) == (1 + len(LEVELS_MHZ[clock_class]), 1)


def test_levels_at_the_target():
    for grade in (6, 7, 8):
        device = f"ecp5-85k-{grade}"
        assert levels(device, target_mhz(device)) == 2
    assert levels("ice40-up5k", 48) == 3
    assert levels("ice40-up5k", 59) == 2


@pytest.mark.parametrize(
    ("device", "highest"),
    [
        ("ecp5-25k-6", (225, 150)),
        ("ecp5-45k-7", (265, 180)),
        ("ecp5-85k-8", (300, 200)),
        ("ice40-hx8k", (150, 110, 90)),
        ("ice40-up5k", (70, 58)),
        ("gowin-gw1nr-9c", (190, 130)),
        ("gowin-gw2ar-18c", (380, 200)),
    ],
)
def test_highest_clock_of_each_number_of_levels(device, highest):
    for number, mhz in enumerate(highest, 2):
        assert (levels(device, mhz), levels(device, mhz + 1)) == (number, number - 1)


def test_unknown_device_wrong():
    with pytest.raises(KeyError):
        target_mhz("ecp5-25k-5")

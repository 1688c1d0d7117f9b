"""Target clock frequencies of units on each device, and the limits stated by the vendors.

`lately.boards.flow.limits` lists the sources of the frequencies. This module does not import
Amaranth.
"""

from collections.abc import Mapping
from math import inf

from .latencies import BLOCK_MODES, DEFAULT_LEVELS

# Maximum MHz, by device class and write mode of the block RAMs; "" is a unit without block RAM.
# Other classes have no known limit.
CLOCK_MHZ: Mapping[str, Mapping[str, float]] = {
    "ecp5-6": {"": 257, "NORMAL": 212.0, "WRITETHROUGH": 213.6, "READBEFOREWRITE": 154.6},
    "ecp5-7": {"": 303, "NORMAL": 254.2, "WRITETHROUGH": 255.9, "READBEFOREWRITE": 193.7},
    "ecp5-8": {"": 370, "NORMAL": 271.4, "WRITETHROUGH": 273.1, "READBEFOREWRITE": 214.1},
    "ice40-hx8k": {"": 275, "NORMAL": 275},
    "ice40-up5k": {"": 185, "NORMAL": 150},
    "lcmxo3lf-6900": {"NORMAL": 182.5, "READBEFOREWRITE": 120},
    "gowin-gw1nr-9c": {"": 600, "NORMAL": 190},
    "gowin-gw2ar-18c": {"": 625, "NORMAL": 380, "READBEFOREWRITE": 230},
}


# target clocks for device classes whose logic is far slower than their block RAMs
WITHIN_REACH_MHZ: Mapping[str, int] = {
    "ice40-hx8k": 150,
    "ice40-up5k": 48,
    "ccgm1a1": 70,
    "gw5a-25a": 200,
    "lifcl-40": 200,
    "lcmxo3lf-6900": 100,
}

# highest clocks for 2, 3 and more levels of LUTs, by device class
LEVELS_MHZ: Mapping[str, tuple[int, ...]] = {
    "ecp5-6": (225, 150),
    "ecp5-7": (265, 180),
    "ecp5-8": (300, 200),
    "ice40-hx8k": (150, 110, 90),
    "ice40-up5k": (70, 58),
    "gowin-gw1nr-9c": (190, 130),
    "gowin-gw2ar-18c": (380, 200),
}

GMII_HZ = 125_000_000  # clock of gigabit Ethernet between MAC and PHY


def device_class(device: str) -> str:
    """Return the class of a device; all devices of a class have the same clock limits."""
    family, _, rest = device.partition("-")
    return f"{family}-{rest.rpartition('-')[2]}" if family == "ecp5" else device


def limit_mhz(device: str) -> float | None:
    """Return the vendor's clock limit in MHz for a unit with block RAMs, or None if unknown."""
    kind = device_class(device)
    if kind not in CLOCK_MHZ and kind in WITHIN_REACH_MHZ:
        return None
    return CLOCK_MHZ[kind][BLOCK_MODES.get(device.partition("-")[0], "")]


def target_mhz(device: str) -> int:
    """Return the target clock of a unit in whole MHz, which is at most the vendor's limit."""
    within_reach = WITHIN_REACH_MHZ.get(device_class(device), inf)
    return int(min(limit_mhz(device) or inf, within_reach))


def levels(device: str, mhz: float) -> int:
    """Return the number of LUT levels that fit between two registers at a clock frequency."""
    kind = device_class(device)
    if kind not in LEVELS_MHZ and kind in WITHIN_REACH_MHZ:
        return DEFAULT_LEVELS
    return 1 + sum(mhz <= limit for limit in LEVELS_MHZ[kind])

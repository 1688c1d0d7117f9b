"""Deduplicators of frames on devices: cases, rates of lines, and the table."""

import pytest

from campaigns.engine import Record
from campaigns.frames import CASES, FILTERS, identity, line_rate, points, rates, rows
from lately.boards.flow.devices import device
from lately.hdl.build import unit_profile

RESULT = {"timing_mhz": 160.0, "lut": 20_000, "ff": 15_000, "bram": 30}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_case_can_be_built(case):
    profile = unit_profile(FILTERS[case.filter])
    profile.check_buildable()
    assert profile.block_rams < device(case.device).bram


@pytest.mark.parametrize(
    ("width", "mhz", "rate"),
    [(8, 125, 1.0), (64, 156.25, 10), (128, 175.6, 25), (256, 168.5, 40), (128, 281, 40),
     (512, 281, 100)],
)  # fmt: skip
def test_rate_of_every_length(width, mhz, rate):
    """The clocks that docs/deduplicator.md states, rounded."""
    assert line_rate(width, mhz + 0.1) >= rate
    if width >= 128:
        assert line_rate(width, mhz - 0.2) < rate


def test_table_has_every_case():
    case = "128/small/ecp5-85k-8"
    failed = Record({"case": "512/small/ecp5-85k-8", "seed": 1}, {}, {"failure": "time limit"})
    placed = [
        Record({"case": case, "seed": seed}, {}, RESULT | {"timing_mhz": mhz})
        for seed, mhz in ((2, 150.0), (1, 160.0))
    ]
    table = dict(zip(CASES, rows([*placed, failed]), strict=True))
    clocks = {name: row["static timing by seed, MHz"] for name, row in table.items()}
    assert clocks == dict.fromkeys(CASES, "not placed") | {
        case: "160.0, 150.0", "512/small/ecp5-85k-8": "time limit"
    }  # fmt: skip
    assert table[case]["Gb/s at every length"] == "21.4"
    evidence = {(row["bits"], row["line"]): row["evidence"] for row in rates([*placed, failed])}
    assert evidence[128, "25 Gb/s"] == "simulated, placed on ecp5-85k-8 at 150.0 MHz"
    assert evidence[512, "100 Gb/s"] == "simulated, not placed"


def test_points_and_identity():
    point = {"case": "8/10-ms/ecp5-25k-6", "seed": 1}
    assert points(case=(point["case"],)) == [point]
    assert [point["seed"] for point in points(case=("128/1-ms/*",))] == [1, 2, 3]
    assert identity(point) == identity(point)

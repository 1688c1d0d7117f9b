"""Latencies and limits that users rely on, compared with a table."""

import tomllib
from pathlib import Path

import pytest
from amaranth.hdl import Fragment
from amaranth.hdl._mem import MemoryInstance

from lately.golden.spec.presets import ALL_PRESETS
from lately.hdl.build import filter_unit

TABLE = Path(__file__).parents[1] / "data" / "figures.toml"
FIGURES = tomllib.loads(TABLE.read_text("utf-8"))


def figures(unit):
    """Return the latency and limits of a unit before elaboration."""
    profile = unit.profile
    # The sum over the unit's parts, and the latency in the profile.
    assert unit.latency == profile.unit_latency
    return {
        "latency": unit.latency,
        "longest_pause": profile.longest_pause,
        "minimum_generation": profile.minimum_generation,
        "least_tick_distance": profile.min_period,
        "poll": getattr(unit, "poll", 0),
    }


def lut_ram_words(fragment):
    """Return the number of words in memories with asynchronous read ports."""
    if isinstance(fragment, MemoryInstance):
        in_luts = any(port._domain == "comb" for port in fragment._read_ports)
        return fragment._data.depth if in_luts else 0
    return sum(lut_ram_words(part) for part, *_ in fragment.subfragments)


def changes(name, figures):
    """Return a line for each value that differs from the table."""
    return [
        f"{name}: {figure} is {value}, and {FIGURES[name][figure]} in {TABLE.name}"
        for figure, value in figures.items()
        if value != FIGURES[name][figure]
    ]


def test_latencies_match_the_table():
    assert FIGURES.keys() == ALL_PRESETS.keys()
    differences = [change for name, spec in ALL_PRESETS.items()
             for change in changes(name, figures(filter_unit(spec)))]  # fmt: skip
    assert not differences, "\n".join(differences)


@pytest.mark.parametrize("name", [
    pytest.param(name, marks=() if "tiny" in name else pytest.mark.slow) for name in ALL_PRESETS
])  # fmt: skip
def test_words_in_luts_are_those_of_the_table(name):
    words = lut_ram_words(Fragment.get(filter_unit(ALL_PRESETS[name]), None))
    differences = changes(name, {"lut_ram_words": words})
    assert not differences, "\n".join(differences)

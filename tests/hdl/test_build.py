"""Units that `filter_unit` builds, and their latency and limits."""

import random
import re
import subprocess
import sys

import pytest
from unit_streams import UnitStreams

from lately.boards.flow.devices import device, device_memory
from lately.golden import SpecificationError, any_preset, dictionary_preset, preset
from lately.golden.spec.presets import Specification
from lately.hdl.build import FAMILIES, family_of, filter_unit, unit_profile
from lately.hdl.lanes.unit import LaneUnit
from lately.hdl.memory.segment import VARIANTS
from lately.hdl.unit import Unit
from lately.hdl.verilog import unit_verilog

TIMING = Specification(family="timing", window=10, cells=64, hashes=2)


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("gebf-tiny", Unit),
        ("two-lanes-tiny", LaneUnit),
        ("dictionary-tiny", Unit),
        ("timing-tiny", Unit),
        ("timing-counted-tiny", Unit),
    ],
)
@pytest.mark.parametrize("levels", [1, 2])
def test_unit_and_its_figures(name, unit, levels):
    spec = any_preset(name)
    built = filter_unit(spec, levels=levels, tag_bits=4)
    assert type(built) is unit
    profile = unit_profile(spec, levels=levels)
    assert profile.latency == built.latency


@pytest.mark.parametrize(
    "name", ["tiny", "two-lanes-tiny", "timed-tiny", "timing-tiny", "timing-counted-tiny"]
)
@pytest.mark.parametrize("protect", ["parity", "tmr"])
def test_protection_reaches_the_unit(name, protect):
    assert "upsets" in filter_unit(any_preset(name), protect=protect).signature.members
    assert "upsets" not in filter_unit(any_preset(name)).signature.members


def test_block_rams():
    names = ("default", "small", "two-lanes", "dictionary-1000", "dictionary-10000")
    assert [unit_profile(any_preset(name)).block_rams for name in names] == [32, 28, 96, 10, 30]


def test_equal_parts():
    assert unit_profile(preset("default")).segments == preset("default").segments
    assert unit_profile(dictionary_preset("1000")).segments == 5
    assert unit_profile(preset("two-lanes")).lanes == 2
    assert unit_profile(dictionary_preset("1000")).lanes == 1


def test_profile_lists_the_memories_that_exist():
    rings, *others = FAMILIES.values()
    assert set(rings.profile.MEMORIES) == set(VARIANTS)
    presets = ("dictionary-tiny", "timing-tiny", "timing-counted-default")
    for kind, name in zip(others, presets, strict=True):
        for memory in kind.profile.MEMORIES:
            filter_unit(any_preset(name), memory=memory)
    for memory in ("ice40", "ecp5-strict"):
        message = (
            f"^memory: must be 'portable' or 'ecp5' for family window-dictionary, not '{memory}'$"
        )
        with pytest.raises(SpecificationError, match=message):
            filter_unit(dictionary_preset("tiny"), memory=memory)


def test_memory_of_a_device():
    spec, ring = dictionary_preset("tiny"), preset("tiny")
    assert device_memory(device("ecp5-25k-6"), spec) == "ecp5"
    assert device_memory(device("ice40-up5k"), spec) == "portable"
    assert device_memory(device("ice40-up5k"), ring) == "ice40"
    assert device_memory(device("ecp5-25k-6"), ring, strict=True) == "ecp5-strict"
    assert device_memory(device("ecp5-25k-6"), spec, strict=True) == "ecp5-strict"


@pytest.mark.parametrize("memory", ["portable", "ecp5", "gowin", "ice40", "ice40-strict"])
def test_times_are_read_with_the_clock_where_tables_hold_no_memories(memory):
    unit = filter_unit(preset("timed-tiny"), memory=memory)
    assert unit.clock._synchronous == memory.startswith("ice40")


def test_family_without_hardware():
    with pytest.raises(
        SpecificationError,
        match=r"^family: must be one of apbf, apbbf, gebf, blocked-gebf, window-dictionary, "
        "timed-timing, partitioned-timing for hardware, not 'timing'$",
    ):
        family_of(TIMING)


def test_figures_need_no_amaranth():
    program = (
        "from lately.golden import dictionary_preset; from lately.hdl.build import unit_profile;"
        "import sys; unit_profile(dictionary_preset('tiny')); sys.exit('amaranth' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_every_process_starts_in_every_simulator():
    """Otherwise Icarus would leave X at the outputs of a process whose inputs never change."""
    modules = unit_verilog(any_preset("dictionary-tiny")).split("endmodule")
    waiting = [module for module in modules if "begin end" in module]
    assert len(waiting) > 10
    assert all("initial _start_ <= 1'h1;" in module for module in waiting)
    assert not any(re.search(r"if \((?!_start_ ).* begin end", module) for module in modules)


@pytest.mark.parametrize(
    ("name", "omit"),
    [("tiny", ["age"]), ("timed-tiny", ["status", "age"]), ("timed-tiny", ["status", "time"]),
     ("dictionary-tiny", ["status"]), ("timing-tiny", ["time", "oldest"])],
)  # fmt: skip
def test_omitted_fields_change_no_other(name, omit):
    spec, choose = any_preset(name), random.Random(5)
    whole, less = filter_unit(spec), filter_unit(spec, omit=omit)
    kept = [field for field in whole.signature.result.members if field not in omit]
    assert [*less.signature.result.members] == kept
    # Codes of operations with a key.
    requests = [{"key": choose.randrange(12), "operation": choose.randrange(4)} for _ in range(80)]
    if "window" in whole.signature.request.members:
        requests = [request | {"window": 9} for request in requests]
    taken = tuple(field for field in kept if field != "tag")
    results = UnitStreams(whole, taken).run(requests)
    assert UnitStreams(less, taken).run(requests) == results
    assert any(seen for seen, *_ in results)


@pytest.mark.parametrize(
    ("name", "omit", "message"),
    [
        ("tiny", "seen", "omit: must be 'age' for this unit, not 'seen'"),
        ("timing-tiny", "tag", "omit: must be 'age', 'oldest' or 'time' for this unit, not 'tag'"),
        ("two-lanes-tiny", "age", "omit: a unit with several lanes cannot omit result fields"),
    ],
)
def test_fields_that_cannot_be_omitted(name, omit, message):
    with pytest.raises(SpecificationError, match=f"^{re.escape(message)}$"):
        filter_unit(any_preset(name), omit=[omit])

"""The table of registers, and all that read it."""

import re
import struct
import subprocess
import sys
from types import SimpleNamespace

import pytest
from amaranth.sim import Simulator

from lately.boards.link.protocol import MAX_ANSWER, STATISTICS, TIMED_STATISTICS
from lately.boards.link.register_file import RegisterFile
from lately.golden import FilterSpec, any_preset, preset
from lately.hdl import FilterUnit, LaneUnit
from lately.hdl.build import filter_unit
from lately.hdl.registers import (
    EXPORTED,
    REGISTERS,
    Access,
    Holder,
    Register,
    board_registers,
    counters,
    readable,
    registers_header,
    registers_table,
)
from lately.host import Host
from lately.session import HostError

TIMED = FilterSpec(
    family="apbbf", k=2, l=2, block_bits=8, hashes_per_block=2, blocks=16, clear=8, span=40
)  # fmt: skip


def test_words_of_the_serial_protocol_keep_their_places():
    assert STATISTICS[:11] == (
        "operations", "insertions", "hits", "shifts", "frames_good", "frames_bad",
        "frames_dropped", "frames_repeated", "frames_out_of_order", "line_errors", "generation",
    )  # fmt: skip
    assert TIMED_STATISTICS[:15] == (
        *STATISTICS[:11], "shortened", "overfilled", "period", "covered"
    )  # fmt: skip


def test_names_and_events_are_unique():
    names = [register.name for register in REGISTERS]
    assert len(set(names)) == len(names)
    of_boards = {one.name for one in REGISTERS if one.holder not in EXPORTED}
    assert of_boards - set(TIMED_STATISTICS) == {
        "secret", "lost", "guaranteed", "upsets", "alarms"
    }  # fmt: skip
    assert set(TIMED_STATISTICS) - set(STATISTICS) == {
        one.name for one in REGISTERS if one.holder is Holder.WINDOW
    }
    events = [register.event for holder in Holder for register in counters(holder)]
    assert len(set(events)) == len(events)


@pytest.mark.parametrize("timed", [False, True])
def test_registers_of_a_ring_are_those_of_its_ports(timed):
    ports = FilterUnit(TIMED if timed else preset("tiny")).signature.members
    assert board_registers(ports) == readable(timed=timed)


def test_registers_of_units_that_are_no_rings():
    counted = ["operations", "insertions", "hits", *STATISTICS[4:10]]
    more = {"dictionary-tiny": ["guaranteed", "lost"], "timing-tiny": ["period"],
            "timing-counted-tiny": []}  # fmt: skip
    for name, others in more.items():
        ports = filter_unit(any_preset(name)).signature.members
        assert [one.name for one in board_registers(ports)] == counted + others


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"name": "two words"}, r"^Name must be an identifier, not 'two words'$"),
        ({"name": "a", "width": 0}, r"^Width must be at least 1, not 0$"),
        ({"name": "a", "width": 33}, r"^Width must be at most 32 to be read, not 33$"),
    ],
)
def test_register_wrong(row, message):
    with pytest.raises(ValueError, match=message):
        Register(meaning="", **row)


def test_widest_registers():
    assert Register(name="a", width=32, meaning="").readable
    assert not Register(name="a", width=33, access=Access.WRITE, meaning="").readable
    assert Register(name="a", width=64, holder=Holder.BUS, meaning="").readable


def test_header():
    header = registers_header(FilterUnit(preset("tiny")))
    defined = dict(re.findall(r"#define LATELY_(\w+) (\d+)", header))
    assert defined["WORDS"] == str(len(STATISTICS))
    for word, name in enumerate(STATISTICS):
        assert defined[f"{name.upper()}_WORD"] == str(word)
    assert defined["HITS_BITS"] == "32"
    spec = preset("tiny")
    assert defined["GENERATION_RESET"] == str(spec.generation)
    assert defined["GENERATION_BITS"] == str(spec.generation.bit_length() + 1)
    assert "SECRET_BITS" not in defined
    keyed = registers_header(FilterUnit(preset("siphash-tiny")))
    assert "#define LATELY_SECRET_BITS 128\n" in keyed
    assert "LATELY_SECRET_WORD" not in keyed
    timed = registers_header(FilterUnit(TIMED))
    assert "#define LATELY_WORDS 15\n" in timed
    assert "#define LATELY_PERIOD_WORD 13\n#define LATELY_PERIOD_BITS 24\n\n" in timed
    # Of 41 ticks at most.
    assert "#define LATELY_COVERED_WORD 14\n#define LATELY_COVERED_BITS 6\n\n" in timed
    assert "PERIOD" not in header
    exact = registers_header(filter_unit(any_preset("dictionary-tiny")))
    assert "#define LATELY_WORDS 11\n" in exact
    assert "#define LATELY_GUARANTEED_WORD 9\n#define LATELY_GUARANTEED_BITS 6\n" in exact
    assert "SHIFTS" not in exact
    several = registers_header(LaneUnit(preset("two-lanes-tiny")))
    assert "#define LATELY_HITS_BITS 32\n" in several


def test_table_has_a_row_for_each():
    assert [row[0] for row in registers_table()] == [
        f"`{one.name}`" for one in REGISTERS if one.holder not in EXPORTED
    ]
    assert ["`generation`", "read, write", "as specified", "as specified"] in [
        list(row[:4]) for row in registers_table()
    ]


@pytest.mark.parametrize("timed", [False, True])
def test_register_file(timed):
    """Each register answers at its number; a length that is set is the next word."""
    unit = FilterUnit(TIMED if timed else preset("tiny"))
    file = RegisterFile(unit=unit, period=77)
    names = TIMED_STATISTICS if timed else STATISTICS
    held = [*counters(Holder.UNIT), *(counters(Holder.WINDOW) if timed else [])]
    settings = {"generation": unit.spec.generation} | ({"period": 77} if timed else {})
    simulator = Simulator(file)
    simulator.add_clock(1e-6)

    async def words(ctx):
        values = []
        for number in range(len(names)):
            ctx.set(file.number, number)
            values.append(ctx.get(file.word))
        return values

    async def bench(ctx):
        expected = dict.fromkeys(names, 0) | settings
        if timed:
            expected["covered"] = 41
            ctx.set(file.covered, 41)
        for number, register in enumerate(held):
            expected[register.name] = (1 << 32) - 1 - number
            ctx.set(getattr(file, register.name), expected[register.name])
        for number, register in enumerate(counters(Holder.LINE)):
            expected[register.name] = number + 1
            event = getattr(file, register.event)
            ctx.set(event, 1)
            await ctx.tick().repeat(number + 1)
            ctx.set(event, 0)
        await ctx.tick().repeat(16)
        assert await words(ctx) == list(expected.values())
        for value, name in enumerate(settings, 5):
            ctx.set(file.value, value)
            await ctx.tick()
            assert await words(ctx) == list(expected.values())
            ctx.set(getattr(file, f"set_{name}"), 1)
            await ctx.tick()
            ctx.set(getattr(file, f"set_{name}"), 0)
            assert ctx.get(getattr(file, name)) == value
            expected[name] = value
            assert await words(ctx) == list(expected.values())

    simulator.add_testbench(bench)
    simulator.run()


ONE_MORE = """
from lately.hdl import registers
registers.REGISTERS += (
    registers.Register(name="reports", event="hit", meaning="Reports once more."),
)
from amaranth.sim import Simulator
from lately.boards.link.protocol import STATISTICS
from lately.boards.link.register_file import RegisterFile
from lately.golden import FilterSpec, preset
from lately.hdl import FilterUnit
assert STATISTICS[-2:] == ("generation", "reports")
unit = FilterUnit(preset("tiny"))
assert "#define LATELY_REPORTS_WORD 11" in registers.registers_header(unit)
assert "#define LATELY_WORDS 12" in registers.registers_header(unit)
assert registers.registers_table()[-1] == [
    "`reports`", "read", "32", "0", "Reports once more."
]
assert len(RegisterFile(unit=unit).reports) == 32
async def bench(ctx):
    ctx.set(unit.o.ready, 1)
    ctx.set(unit.i.valid, 1)
    ctx.set(unit.i.p.operation, 3)
    await ctx.tick().until(unit.o.valid)
    await ctx.tick().repeat(20)
    ctx.set(unit.i.valid, 0)
    await ctx.tick().repeat(unit.latency + 32)
    assert ctx.get(unit.reports) == ctx.get(unit.hits) > 10
simulator = Simulator(unit)
simulator.add_clock(1e-6)
simulator.add_testbench(bench)
simulator.run()
"""


def test_counter_is_one_line():
    """One more row is a port that counts, a word of STATISTICS, and stands in header and table."""
    subprocess.run([sys.executable, "-W", "error", "-c", ONE_MORE], check=True)


@pytest.mark.parametrize("words", [10, 11, 12, 15, 16])
def test_host_reads_older_and_newer_boards(monkeypatch, words):
    answer = struct.pack(f"<{words}I", *range(words))
    monkeypatch.setattr(Host, "_ask", lambda host, request: answer)
    host = Host.__new__(Host)
    for names in (STATISTICS, TIMED_STATISTICS):
        host.information = SimpleNamespace(statistics=names)
        known = dict(zip(names, range(words), strict=False))
        assert host.statistics() == known
        assert len(known) == min(words, len(names))


def test_statistics_in_part_of_a_word(monkeypatch):
    monkeypatch.setattr(Host, "_ask", lambda host, request: bytes(43))
    host = Host.__new__(Host)
    host.port = "port"
    with pytest.raises(
        HostError, match=r"^port: must answer statistics in words of 4 bytes, not 43"
    ):
        host.statistics()


def test_table_needs_no_hardware():
    code = "import sys, lately.hdl.registers; assert 'amaranth' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_everything_readable_fits_an_answer():
    assert 4 * len(TIMED_STATISTICS) <= MAX_ANSWER
    assert all(register.width is None or register.width <= 32 for register in readable())

"""Stuck bits of every memory, which the probes name."""

import json
from contextlib import nullcontext
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from amaranth.hdl import Mux, Signal
from amaranth.sim import Simulator
from click.testing import CliRunner

from lately.boards.link.protocol import Check
from lately.cli import host_commands
from lately.cli.app import main
from lately.golden import (
    FilterSpec,
    PartitionedTimingSpec,
    TimedTimingSpec,
    WindowDictionarySpec,
    any_preset,
)
from lately.hdl.build import filter_unit
from lately.hdl.dictionary.unit import DictionaryUnit
from lately.hdl.memory import variants
from lately.hdl.memory.cells import PortableCellMemory
from lately.hdl.memory.segment import PortableSegmentMemory
from lately.hdl.timing.unit import CountedTimingUnit, TimingUnit
from lately.host import Results
from lately.memory_faults import probe

SPECS = {
    "ring": FilterSpec(
        family="apbbf", k=2, l=1, block_bits=16, hashes_per_block=2, blocks=32, key_bits=16, clear=8
    ),
    "epochs": FilterSpec(
        family="gebf", window=64, epochs=1, hashes=2, bits=256, key_bits=16, clear=8
    ),
    "timed": TimedTimingSpec(span=12, hashes=3, cells=16, stamp_bits=5, key_bits=16),
    "counted": PartitionedTimingSpec(window=24, hashes=3, cells=16, stamp_bits=7, key_bits=16),
    "dictionary": WindowDictionarySpec(
        window=56, columns=3, rows=32, digest_bits=16, stash=8, key_bits=16
    ),
}
UNITS = {"timed": TimingUnit, "counted": CountedTimingUnit, "dictionary": DictionaryUnit}


class Fault:
    """A bit of the words of one memory, or none, that is read as a value."""

    FAULTY, LEVEL = Signal(8, init=255), Signal()
    built = 0

    def __init__(self, **parameters):
        super().__init__(**parameters)
        self._number = Fault.built
        Fault.built += 1

    def _read(self, m, read, *writes):
        word = read.data
        # Not the flag of an entry: a column that always seems full makes no answer wrong.
        bit = 2 if len(word) > 16 else 0
        stuck = (word & ~(1 << bit)) | (Fault.LEVEL << bit)
        return Mux(self._number == Fault.FAULTY, stuck, word)[: len(word)]


class StuckSegment(Fault, PortableSegmentMemory):
    """The portable memory of a segment with such a bit."""


class StuckCells(Fault, PortableCellMemory):
    """The portable memory of cells with such a bit."""


def built(name, protect="none"):
    Fault.built, spec = 0, SPECS[name]
    if name in UNITS:
        count = spec.columns if name == "dictionary" else 3
        return UNITS[name](spec, memory=StuckCells, protect=protect), count
    return filter_unit(spec, memory="stuck", protect=protect), spec.segments * spec.parts


def names(name):
    """Names of the memories in the order in which they are built."""
    spec = SPECS[name]
    if isinstance(spec, FilterSpec):
        return [f"segment {at // spec.parts}, part {at % spec.parts}"
                for at in range(spec.segments * spec.parts)]  # fmt: skip
    word = "column" if name == "dictionary" else "part"
    return [f"{word} {at}" for at in range(getattr(spec, "columns", 0) or spec.hashes)]


def results(unit, asked, faults, upsets=None):
    """What the unit answers to a probe with each fault, one after another; `upsets` gets counts."""
    found = []
    fields = ["seen", "age", *({"oldest", "time"} & unit.signature.result.members.keys())]

    async def send(ctx):
        window = getattr(unit.i.p, "window", None)
        if window is not None:
            ctx.set(window, unit.spec.window_blocks if hasattr(unit, "spec") else 56)
        for memory, value in faults:
            ctx.set(Fault.FAULTY, memory)
            ctx.set(Fault.LEVEL, value)
            for code, key in zip(asked.codes.tolist(), asked.keys.tolist(), strict=True):
                ctx.set(unit.i.p.operation, code)
                ctx.set(unit.i.p.key, key)
                ctx.set(unit.i.valid, 1)
                await ctx.tick().until(unit.i.ready)
            ctx.set(unit.i.valid, 0)
            # All that is under way is still the fault's.
            for _ in range(60):
                await ctx.tick()
            if upsets is not None:
                upsets.append(ctx.get(unit.upsets))

    async def tick(ctx):
        while "tick" in unit.signature.members:
            ctx.set(unit.tick, 1)
            await ctx.tick()
            ctx.set(unit.tick, 0)
            for _ in range(unit.profile.least_period):
                await ctx.tick()

    async def take(ctx):
        ctx.set(unit.o.ready, 1)
        ports = [getattr(unit.o.p, name) for name in fields]
        while len(found) < len(asked.codes) * len(faults):
            _, _, valid, *values = await ctx.tick().sample(unit.o.valid, *ports)
            if valid:
                found.append(values)

    simulator = Simulator(unit)
    simulator.add_clock(1e-6)
    simulator.add_testbench(send, background=True)
    simulator.add_testbench(tick, background=True)
    simulator.add_testbench(take)
    simulator.run()
    for answers in np.split(np.array(found), len(faults)):
        told = dict(zip(fields, answers.T, strict=True))
        seen, none = told["seen"] > 0, np.zeros(len(answers), np.int64)
        time = np.cumsum(np.diff(told.get("time", none), prepend=0) % 32)
        yield Results(seen, np.where(seen, told["age"], -1), none, time, told["age"],
                      told.get("oldest", none))  # fmt: skip


@pytest.fixture(autouse=True)
def stuck(monkeypatch):
    monkeypatch.setitem(variants.VARIANTS, "stuck", StuckSegment)


@pytest.mark.slow
@pytest.mark.parametrize("name", SPECS)
def test_each_stuck_bit_is_named(name):
    """Of one bit of all words, of each memory, at either value; and no sound one is."""
    unit, count = built(name)
    asked = probe(SPECS[name], seed=3)
    faults = [(255, 0), *((memory, value) for memory in range(count) for value in (0, 1))]
    sound, *wrong = (asked.suspects(told) for told in results(unit, asked, faults))
    print(name, len(asked.codes), sound, *wrong, sep="\n")
    assert sound == []
    assert wrong == [[one] for one in names(name) for _ in range(2)]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ring", "counted", "dictionary"])
def test_copies_hide_a_stuck_bit_and_count_it(name):
    """Of any of three copies: no memory is named, and upsets are told."""
    unit, count = built(name, "ecc")
    asked, upsets = probe(SPECS[name], seed=3), []
    faults = [
        (255, 0),
        *((3 * memory + memory % 3, memory % 2) for memory in range(count)),
        (255, 0),
    ]
    assert all(asked.suspects(told) == [] for told in results(unit, asked, faults, upsets))
    print(name, upsets)
    sound, *struck, _ = upsets
    assert sound == 0
    assert all(after > before for before, after in pairwise([sound, *struck]))


@pytest.mark.slow
def test_a_stuck_bit_that_one_of_two_copies_shows_is_named():
    unit, count = built("ring", "parity")
    asked = probe(SPECS["ring"], seed=3)
    faults = [(2 * memory + memory % 2, 1) for memory in range(count)]
    wrong = [asked.suspects(told) for told in results(unit, asked, faults)]
    assert wrong == [[one] for one in names("ring")]


class FaultyBoard:
    """Stands in for the host of a board with a timing filter; a bit of one part is stuck."""

    spec = any_preset("timing-counted-tiny")
    information = SimpleNamespace(digest=spec.digest, statistics=("upsets",))
    upsets, failed, part = 0, Check.KEEP | Check.AGE, 1

    def self_test(self):
        self.upsets += 17
        return self.failed

    def statistics(self):
        return {"upsets": self.upsets % 2**32}

    def check_spec(self, spec):
        assert spec == self.spec

    def perform(self, codes, keys):
        asked, none = probe(self.spec), np.zeros(len(codes), np.int64)
        assert np.array_equal(asked.codes, codes)
        _, blocks, ages = asked._ages(none)
        given = (blocks - ages)[self.part]
        ages[self.part] = np.minimum(blocks - (given & ~1), self.spec.window_blocks + 1)
        told = np.zeros((2, len(codes)), np.int64)
        told[:, 1:] = ages.max(axis=0), (ages == ages.max(axis=0)).sum(axis=0)
        return Results(none > 0, none, none, none, *told)

    def clear(self):
        self.cleared = True


def self_test(monkeypatch, board, *arguments):
    monkeypatch.setattr(host_commands, "_open", lambda *_: nullcontext(board))
    return CliRunner().invoke(main, ["host", "--port", "x", "self-test", *arguments])


@pytest.mark.parametrize("part", [0, 2])
def test_command_names_the_part(part, monkeypatch):
    board = FaultyBoard()
    board.part = part
    result = self_test(monkeypatch, board)
    assert (result.exit_code, board.cleared) == (1, True)
    text = f"self-test: must pass all checks, but failed keep, age; faulty: part {part}"
    assert text in result.stderr
    told = json.loads(self_test(monkeypatch, board, "--json").stdout)
    assert (told["suspects"], told["keep"], told["empty"]) == ([f"part {part}"], False, True)


def test_command_without_a_fault_or_a_filter(monkeypatch):
    board = FaultyBoard()
    board.information = SimpleNamespace(digest=b"", statistics=())
    assert "faulty" not in self_test(monkeypatch, board).stderr
    board.failed = Check(0)
    result = self_test(monkeypatch, board, "--json")
    assert result.exit_code == 0
    assert all(json.loads(result.stdout).values())
    assert "upsets" not in result.stdout


def test_command_tells_upsets_of_a_protected_board(monkeypatch):
    """That it hides a fault does not make it fail; the counter may come round."""
    board = FaultyBoard()
    board.failed, board.upsets = Check(0), 2**32 - 5
    result = self_test(monkeypatch, board, "--json")
    assert (result.exit_code, json.loads(result.stdout)["upsets"]) == (0, 17)


def test_several_faults_are_no_single_memory():
    """Answers that no memory alone explains name none."""
    asked = probe(SPECS["ring"])
    count = len(asked.codes)
    random = np.random.default_rng(1).integers(-1, 2, count)
    none = np.zeros(count, np.int64)
    assert asked.suspects(Results(random >= 0, random, none, none, random, none)) == []


def test_filters_without_a_probe():
    assert probe(any_preset("siphash-tiny")) is None
    assert probe(any_preset("dictionary-ring-tiny")) is None

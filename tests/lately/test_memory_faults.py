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
    dictionary_preset,
    from_spec,
)
from lately.hdl.build import filter_unit
from lately.hdl.dictionary.unit import DictionaryUnit
from lately.hdl.latencies import SECRET_LEAD
from lately.hdl.memory import variants
from lately.hdl.memory.cells import PortableCellMemory
from lately.hdl.memory.segment import PortableSegmentMemory
from lately.hdl.timing.unit import CountedTimingUnit, TimingUnit
from lately.host import Results
from lately.memory_faults import locate, probe
from papers.models.specs import CuckooSpec

SPECS = {
    "ring": FilterSpec(
        family="apbbf", k=2, l=1, block_bits=16, hashes_per_block=2, blocks=32, key_bits=16, clear=8
    ),
    "epochs": FilterSpec(
        family="gebf", window=64, epochs=1, hashes=2, bits=256, key_bits=16, clear=8
    ),
    "ring in time": FilterSpec(
        family="apbbf",
        k=2,
        l=1,
        block_bits=16,
        hashes_per_block=2,
        blocks=32,
        key_bits=16,
        clear=8,
        span=12,
    ),
    "epochs under a secret": FilterSpec(
        family="gebf",
        window=64,
        epochs=1,
        hashes=2,
        bits=256,
        key_bits=16,
        clear=8,
        hash="siphash",
        rekey=True,
    ),
    "timed": TimedTimingSpec(span=12, hashes=3, cells=16, stamp_bits=5, key_bits=16),
    "counted": PartitionedTimingSpec(window=24, hashes=3, cells=16, stamp_bits=7, key_bits=16),
    "dictionary": WindowDictionarySpec(
        window=56, columns=3, rows=32, digest_bits=16, stash=8, key_bits=16
    ),
    "dictionary under a secret": WindowDictionarySpec(
        window=56, columns=3, rows=32, digest_bits=16, stash=8, key_bits=16, hash="siphash"
    ),
    "ring of columns": WindowDictionarySpec(
        window=64, columns=3, rows=32, digest_bits=16, stash=8, moves=64, key_bits=16
    ),
}
UNITS = {"timed": TimingUnit, "counted": CountedTimingUnit}
RING_PERIOD = 60
"""Clocks between two ticks of a ring's time."""
SECRET = 0x0123456789ABCDEF << 57


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
    if isinstance(spec, FilterSpec):
        return filter_unit(spec, memory="stuck", protect=protect), len(names(name))
    kind = UNITS.get(name, DictionaryUnit)
    return kind(spec, memory=StuckCells, protect=protect), len(names(name))


def names(name):
    """Names of the memories in the order in which they are built."""
    spec = SPECS[name]
    if isinstance(spec, FilterSpec):
        return [f"segment {at // spec.parts}, part {at % spec.parts}"
                for at in range(spec.segments * spec.parts)]  # fmt: skip
    if isinstance(spec, WindowDictionarySpec):
        return [f"column {at}" for at in range(spec.columns)]
    return [f"part {at}" for at in range(spec.hashes)]


def results(unit, asked, faults, upsets=None):
    """What the unit answers to a probe with each fault, one after another; `upsets` gets counts."""
    found = []
    fields = ["seen", "age", *({"oldest", "time"} & unit.signature.result.members.keys())]

    async def send(ctx):
        window = getattr(unit.i.p, "window", None)
        if window is not None:
            ctx.set(window, asked._spec.window_blocks)
        if hasattr(unit, "secret"):
            ctx.set(unit.secret.payload, SECRET)
            ctx.set(unit.secret.valid, 1)
            await ctx.tick().until(unit.secret.ready)
            ctx.set(unit.secret.valid, 0)
            await ctx.tick().repeat(SECRET_LEAD)
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
        if "tick" not in unit.signature.members:
            return
        # In a ring some segments are to count, and others not.
        ring = isinstance(asked._spec, FilterSpec)
        period = RING_PERIOD if ring else unit.profile.least_period
        while True:
            ctx.set(unit.tick, 1)
            await ctx.tick()
            ctx.set(unit.tick, 0)
            for _ in range(period):
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
        wrap = 1 << len(unit.o.p.time) if "time" in told else 1
        time = np.cumsum(np.diff(told.get("time", none), prepend=0) % wrap)
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
    asked = probe(SPECS[name], seed=3, secret=SECRET)
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
    information = SimpleNamespace(digest=spec.digest, statistics=("upsets",), keyed=False)
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
    assert probe(CuckooSpec(window=100)) is None
    board = SoundBoard(CuckooSpec(window=100))
    assert (locate(board, board.spec), board.calls) == ([], [])


class SoundBoard:
    """Stands in for the host of a board that answers as golden does; remembers what it is told."""

    def __init__(self, spec):
        self.spec, self.calls = spec, []
        self.information = SimpleNamespace(keyed=getattr(spec, "hash", "") == "siphash")
        self.secret = 0

    def configure(self, **values):
        self.calls.append(values)
        self.secret = values.get("secret", self.secret)

    def clear(self):
        self.calls.append("clear")

    def statistics(self):
        return {"period": 5000}

    def perform(self, codes, keys):
        self.calls.append("probe")
        golden, none = from_spec(self.spec), np.zeros(len(codes), np.int64)
        if self.information.keyed:
            # The sequence begins with a CLEAR.
            golden.rekey(self.secret)
        times = np.arange(len(codes)) // 500 + 77
        timed = [times] if getattr(self.spec, "timed", False) else []
        seen, age, *_ = golden.apply(codes, keys, *timed)
        return Results(seen, age, none, times, age, none)


@pytest.mark.parametrize("name", [name for name in SPECS if name not in UNITS])
def test_a_sound_board_is_not_suspected_and_is_as_before(name):
    """Of a board whose ticks go on during the probe, too; it has another secret then."""
    board = SoundBoard(SPECS[name])
    assert locate(board, board.spec) == []
    ring, slow = isinstance(board.spec, FilterSpec), {"period": (1 << 24) - 1}
    timed = ring and board.spec.timed
    assert 0 < board.secret < 1 << 128 if board.information.keyed else board.secret == 0
    assert board.calls == [
        *(["clear", {"secret": board.secret}] if board.information.keyed else []),
        *([{"generation": board.spec.generation}] if ring else []),
        *([slow] if timed else []),
        "probe",
        "clear",
        *([{"period": 5000}] if timed else []),
    ]


def test_keys_of_a_dictionary_reach_every_column():
    """As many in each, and none of them has to move or to wait in the stash."""
    spec = dictionary_preset("ring-1000")
    asked = probe(spec)
    golden, count = from_spec(spec), spec.window // spec.columns * spec.columns
    golden.apply(asked.codes[: count + 1], asked.keys[: count + 1])
    assert (golden.memory[0] > 0).sum(axis=1).tolist() == [333] * 3
    assert golden.stash_peak == 0
    ages = golden.apply(asked.codes[count + 1 :], asked.keys[count + 1 :]).age
    assert (golden.lost, golden.stash_peak, golden.insertions >> spec.timestamp_bits) == (0, 0, 1)
    assert (ages.reshape(-1, count)[::2] == np.arange(count)[::-1]).all()

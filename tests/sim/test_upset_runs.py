"""Bits that flip in compiled units: where they can, and what comes of them."""

import re
from functools import cache, partial
from itertools import product

import numpy as np
import pytest
from amaranth.back import verilog
from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from cases import daily

from campaigns import upsets
from lately.golden import Operation, SpecificationError, any_preset, preset
from lately.sim import compiled_unit
from lately.sim.replay.upset_elements import Element, elements, named_elements, opened
from lately.sim.replay.upset_runs import Upset

TINY = preset("tiny")
BEATS = 60
PATIENCE = 300


class Store(wiring.Component):
    """A memory, and registers with names that C++ does not have."""

    def __init__(self):
        super().__init__({"i": In(5), "o": Out(5), "wide__name": Out(40)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.memory = memory = Memory(shape=5, depth=8, init=[])
        write, read = memory.write_port(), memory.read_port()
        single = Signal()
        dotted = Signal(name="a.b")
        same, again = (Signal(3, name="same") for _ in range(2))
        m.d.sync += [single.eq(self.i[0]), dotted.eq(single), self.wide__name.eq(self.i)]
        m.d.sync += [same.eq(self.i), again.eq(same + dotted)]
        m.d.comb += [write.data.eq(self.i), write.addr.eq(again), write.en.eq(1),
                     read.addr.eq(same), read.en.eq(1), self.o.eq(read.data)]  # fmt: skip
        return m


class Parent(wiring.Component):
    i: In(5)
    o: Out(5)

    def elaborate(self, platform):
        m = Module()
        m.submodules.store = store = Store()
        m.d.comb += [store.i.eq(self.i), self.o.eq(store.o)]
        return m


def test_elements():
    text = verilog.convert(Parent(), name="top", emit_src=False)
    by_name = {element.name: element for element in elements(text)}
    memories = [element for element in by_name.values() if element.array]
    assert [(element.words, element.width, element.bits, element.kind) for element in memories] == [
        (8, 5, 40, "memory")
    ]
    sizes = {name: element.width for name, element in by_name.items() if not element.array}
    named = {"store.single": 1, "store.a.b": 1, "store.wide__name": 40, "store.same": 3}
    assert named.items() <= sizes.items()
    # One more of the same name, and that of the memory's read port.
    assert sorted(sizes[name] for name in sizes.keys() - named.keys()) == [3, 5]
    assert by_name["store.wide__name"].member == "top__DOT__store__DOT__wide___05Fname"
    assert by_name["store.a.b"].member == "top__DOT__store__DOT__a__02Eb"
    assert opened(text).count("/*verilator public_flat_rw*/") == len(by_name) == 7
    assert opened(text).replace(" /*verilator public_flat_rw*/", "") == text


@pytest.mark.parametrize(
    ("path", "array", "kind"),
    [(("top", "core", "store", "words"), True, "memory"),
     (("top", "memory", "words"), True, "memory"),
     (("top", "queue", "tags"), True, "buffer"),
     (("top", "store", "count"), False, "register"),
     (("top", "hits$55", "digit0"), False, "counter"),
     (("top", "shifts", "digit0"), False, "counter"),
     (("top", "hits"), False, "register"),
     (("top", "alarms"), False, "counter"),
     (("top", "fault"), False, "register"),
     (("top", "core", "fault"), False, "register"),
     (("top", "core", "lost", "any"), False, "register"),
     (("top", "unit", "core", "store", "words"), True, "memory"),
     (("top", "store", "ring", "words"), True, "buffer"),
     (("top", "unit", "hits", "digit0"), False, "counter"),
     (("top", "frames_in", "digit0"), False, "counter")],
)  # fmt: skip
def test_kinds(path, array, kind):
    assert Element(path, 2, 3, array).kind == kind


def test_named_elements():
    assert named_elements('[[["top", "a"], 1, 3, false]]') == [Element(("top", "a"), 1, 3, False)]


@cache
def tiny():
    return compiled_unit(TINY, upsets=True, check=True, optimisation=0)


def performed(*operations):
    """Have the tiny unit perform operations and nothing after them; return golden's answers."""
    unit = tiny()
    unit.reset()
    codes = np.zeros(len(operations) + 2 * BEATS, np.uint8)
    keys = np.zeros_like(codes, np.uint64)
    for at, (code, key) in enumerate(operations):
        codes[at], keys[at] = code, key
    unit.perform(codes, keys)
    return unit.upsets


def inject(upsets, *struck):
    return upsets.inject(list(struck), beats=BEATS, patience=PATIENCE)


def numbered(upsets, pattern):
    """The number of the one element of that name."""
    (number,) = (
        at for at, element in enumerate(upsets.elements) if re.fullmatch(pattern, element.name)
    )
    return number


@pytest.mark.rtl
def test_upsets_of_a_memory():
    """A key is lost with any of the bits that it has set, and with no other bit."""
    waiting = [(Operation.NONE, 0)] * 30
    upsets = performed((Operation.INSERT, 77), *waiting, (Operation.QUERY, 77))
    reference, _ = upsets.reference(1000)
    assert np.flatnonzero(reference.seen == 2).tolist() == [31]
    memories = [at for at, element in enumerate(upsets.elements) if element.kind == "memory"]
    assert sum(upsets.elements[at].bits for at in memories) == TINY.storage_bits
    positions = [
        (at, word, bit)
        for at in memories
        for word, bit in product(range(upsets.elements[at].words), range(upsets.elements[at].width))
    ]
    ready = 40 + tiny().profile.longest_pause
    outcome = inject(upsets, *(Upset(ready, *position) for position in positions))
    assert (outcome.beats == BEATS).all()
    lost = [
        row[31 - first] == 1 for row, first in zip(outcome.results.seen, outcome.first, strict=True)
    ]
    held = tiny().memory.sum()
    assert sum(lost) == held == TINY.k * TINY.parts
    # What was lost is not set again; other bits stay until a generation ends.
    assert not outcome.healed.any()
    assert not outcome.reported.any()


@pytest.mark.rtl
def test_an_upset_is_of_its_run_alone():
    upsets = performed(*[(Operation.CHECK_AND_INSERT, key) for key in range(100)] * 2)
    before = tiny().memory
    reference, (early, late) = upsets.reference(1000, 20, 200)
    assert early < late
    element = numbered(upsets, r"operations\$\d+\.digit16")
    outcome = inject(upsets, *(Upset(clock, element, 0, 3) for clock in range(early, late, 7)))
    assert outcome.first[0] == 20
    for number, first in enumerate(outcome.first.tolist()):
        for actual, due in zip(outcome.results.part(number), reference, strict=True):
            assert np.array_equal(actual, due[first : first + BEATS])
    # A counter is no part of what is compared at the end.
    assert upsets.elements[element].kind == "counter"
    assert outcome.healed.all()
    again, marks = upsets.reference(1000, 20, 200)
    assert marks == [early, late]
    assert all(map(np.array_equal, again, reference))
    assert np.array_equal(tiny().memory, before)


@pytest.mark.rtl
@pytest.mark.parametrize("name", ["accepted", "queue.o__valid"])
def test_upsets_that_lose_results(name):
    upsets = performed(*[(Operation.CHECK_AND_INSERT, key) for key in range(100)] * 2)
    reference, (clock,) = upsets.reference(1000, 50)
    outcome = inject(upsets, Upset(clock, numbered(upsets, name), 0, 0))
    due = reference.tag[50 : 50 + BEATS]
    assert outcome.beats[0] < BEATS or (outcome.results.tag[0] != due).sum() > BEATS // 2
    assert not outcome.healed[0]


@pytest.mark.parametrize(
    ("name", "memory"), daily(1, [("tiny", "ice40"), ("dictionary-tiny", "ecp5")])
)
def test_upsets_of_explicit_block_rams_are_refused(name, memory):
    """Their bits are no elements, so that no campaign would hit them."""
    message = f"^memory: must be 'portable' with upsets, not '{memory}'$"
    with pytest.raises(SpecificationError, match=message):
        compiled_unit(any_preset(name), memory=memory, upsets=True)


PROTECTED = [("tiny", "parity")]


@pytest.mark.rtl
@pytest.mark.parametrize(
    ("name", "protect"),
    [*PROTECTED,
     *(pytest.param(name, protect, marks=pytest.mark.slow)
       for name in upsets.TRIPLICATED for protect in ("none", "parity", "tmr")
       if (name, protect) not in PROTECTED)],
)  # fmt: skip
def test_bits_of_protected_memories(name, protect, monkeypatch):
    """No upset loses a key silently, and with three copies none changes a result."""
    monkeypatch.setattr(upsets, "BATCH", 100)
    monkeypatch.setattr(upsets, "tell", lambda *message: None)
    monkeypatch.setattr("lately.sim.compiled_unit", partial(compiled_unit, optimisation=0))
    (point,) = upsets.points(preset=(name,), protect=protect, kind=("memory",), upsets=400)
    figures = upsets.run(point)
    assert figures["mismatches"] == 0
    silent = {row["outcome"]: row["silent"] for row in figures["found"]}
    reported_count = sum(row["told"] for row in figures["found"])
    print(f"seed {point['seed']}: {silent}, reported {reported_count}")
    assert (silent["false negative"] > 0) == (protect == "none")
    assert (reported_count > 0) == (protect != "none")
    if protect == "tmr":
        assert not any(silent[kind] for kind in ("false positive", "other", "lost result"))

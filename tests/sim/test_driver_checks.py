"""The driver of compiled units finds results that are not those of the operations."""

from functools import cache

import numpy as np
import pytest
from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import Out
from signatures import signature

from lately.golden import Operation
from lately.hdl.verilog import TAG_BITS, TOP, convert
from lately.sim import ToolError
from lately.sim.replay import driven
from lately.sim.replay.driven import DRIVER, DrivenModel, counter_macro
from lately.sim.replay.model import cached_model, defines

pytestmark = pytest.mark.rtl

LANES, BEATS = 2, 6
TAG, VALID, MISSING, SURPLUS = range(1, 5)
"""Keys of the first lane that make the unit fail."""
WORDS = [(number << 96) + (3 << 63) + (number + 1) for number in range(4)]
"""Of which each has two words of the driver's."""
WIDTH = 100
SIGNATURE = signature(key=8, tag=TAG_BITS, ages=2, lanes=LANES, ports={"operations": Out(8)})


class Echo(wiring.Component):
    """Gives the tags of beats back, one after the other, less the faults that keys stand for."""

    def __init__(self):
        super().__init__(SIGNATURE)

    def elaborate(self, _platform):
        m = Module()
        m.submodules.words = words = Memory(shape=WIDTH, depth=len(WORDS), init=WORDS)
        port = words.read_port()
        m.d.comb += [port.addr.eq(self.i.p.lanes[0].key), self.operations.eq(port.data)]
        full, again = Signal(), Signal()
        fault = self.i.p.lanes[0].key
        m.d.comb += [self.i.ready.eq(~full), self.o.valid.eq(full)]
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += [full.eq(fault != MISSING), again.eq(fault == SURPLUS)]
            for number, (lane, answer) in enumerate(
                zip(self.i.p.lanes, self.o.p.lanes, strict=True)
            ):
                last = number == LANES - 1
                m.d.sync += [
                    answer.valid.eq(lane.valid ^ (last & (fault == VALID))),
                    answer.tag.eq(lane.tag ^ (last & (fault == TAG))),
                ]
        with m.Elif(self.o.valid & self.o.ready):
            m.d.sync += [full.eq(again), again.eq(0)]
        return m


@cache
def library():
    """Return the unit in compiled simulation, with the driver."""
    header = defines(
        *SIGNATURE.macros(),
        f"MEMORIES MEMORY(0, {TOP}__DOT__words)",
        counter_macro(("operations",)),
    )
    return cached_model(convert(Echo()), top=TOP, driver=DRIVER, header=header, optimisation=0)


class CompiledEcho(DrivenModel):
    def __init__(self):
        super().__init__(library(), lanes=LANES, counters=("operations",), keyed=False, latency=8)
        self.reset()

    def reset(self):
        self._library.lately_reset(self._unit)

    def perform(self, operations, keys):
        codes = np.asarray(operations, np.uint8)
        words = np.asarray(keys, np.uint64).reshape(-1, 1)
        return self._send(codes, words, np.zeros(len(codes), np.int64))


@pytest.fixture
def unit(monkeypatch):
    monkeypatch.setattr(driven, "PATIENCE", 50)
    with CompiledEcho() as opened:
        yield opened
        opened.reset()


def perform(unit, fault=0, beat=0, beats=BEATS):
    keys = np.full(LANES * beats, 99)
    keys[LANES * beat] = fault or 99
    unit.perform(np.full(len(keys), Operation.QUERY), keys)


OTHER = r"^replay: expected the result of the next operation, got another result$"
MORE = r"^replay: 1 more results than operations at the end$"
NONE = r"^replay: expected the result of the next operation, got no result for 50 cycles$"


@pytest.mark.parametrize(
    ("fault", "beat", "message"),
    [
        *[(fault, beat, OTHER) for fault in (TAG, VALID) for beat in (0, 3, BEATS - 1)],
        (MISSING, 2, OTHER), (SURPLUS, 2, OTHER), (MISSING, BEATS - 1, NONE),
    ],
)  # fmt: skip
def test_results_are_those_of_the_operations(unit, fault, beat, message):
    with pytest.raises(ToolError, match=message):
        perform(unit, fault, beat)


@pytest.mark.parametrize("beats", [1, BEATS])
def test_surplus_result_at_the_end(unit, beats):
    """It is found by what follows: cycles without an operation, counters, or operations."""
    for follow in (lambda: unit.idle(4), lambda: unit.statistics, lambda: perform(unit, beats=1)):
        perform(unit, SURPLUS, beats - 1, beats)
        with pytest.raises(ToolError, match=f"{MORE}|{OTHER}"):
            follow()
        unit.reset()
        perform(unit)


@pytest.mark.parametrize("error", [None, KeyError])
def test_surplus_result_before_the_model_is_closed(error):
    """An error is not hidden by it."""
    expected = pytest.raises(error) if error else pytest.raises(ToolError, match=MORE)
    with expected, CompiledEcho() as unit:
        perform(unit, SURPLUS, BEATS - 1)
        if error:
            raise error


def test_words_of_more_than_64_bits():
    """The driver copies a memory in pieces of 64 bits."""
    with CompiledEcho() as unit:
        bits = unit._read(0, len(WORDS), WIDTH)
    actual = [sum(int(bit) << shift for shift, bit in enumerate(word)) for word in bits]
    assert actual == WORDS

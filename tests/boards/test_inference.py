"""Block RAMs that `lately.boards.flow.inference` expects of yosys, against those that it takes."""

import pytest
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from cases import daily

from lately.boards.flow.devices import DEVICES
from lately.boards.flow.inference import inferred_memory
from lately.boards.flow.synthesis import count_cells
from lately.golden.ring.rotation import RotationPolicy
from lately.hdl.frontend.time_window import TimeWindow
from lately.hdl.memory.cells import PortableCellMemory
from lately.hdl.memory.paged import DelayLine
from lately.hdl.parameters import stamp_bits

ON = {"ice40": DEVICES["ice40-hx8k"], "gowin": DEVICES["gowin-gw2ar-18c"]}

MEMORIES = [
    # Registers, and a block for each port that reads once these are dearer.
    ("ice40", 16, 9, 0),
    ("ice40", 32, 5, 2),
    # Words of 2 bits, of which the last bit of each row of blocks shares one with another row.
    ("ice40", 4096, 19, 38),
    # Look-up tables, and blocks.
    ("gowin", 128, 11, 0),
    ("gowin", 128, 12, 2),
    # Words of 9 bits with the ninth, as 27 bits are 3 of them, and of 4 bits for 23.
    ("gowin", 16384, 27, 48),
    ("gowin", 4096, 23, 12),
]


@pytest.mark.parametrize(("family", "depth", "width", "blocks"), MEMORIES)
def test_block_rams_are_as_counted(family, depth, width, blocks):
    whole = range(width)
    assert inferred_memory(family, depth=depth, width=width, reads=[whole] * 2).blocks == blocks


@pytest.mark.rtl
@pytest.mark.parametrize(
    ("family", "depth", "width", "blocks"),
    daily(1, sorted(MEMORIES, key=lambda memory: memory[1])),
)
def test_yosys_takes_as_many(family, depth, width, blocks):
    counted = count_cells(PortableCellMemory(depth=depth, width=width), ON[family])
    assert counted.bram == blocks


@pytest.mark.slow
@pytest.mark.rtl
@pytest.mark.parametrize(("width", "cycles", "blocks"), daily(1, [(6, 16, 1), (6, 15, 0)]))
def test_delay_lines(width, cycles, blocks):
    reads = [range(width)]
    inferred = inferred_memory("ice40", depth=cycles - 1, width=width, reads=reads, new=True)
    assert inferred.blocks == blocks
    assert count_cells(DelayLine(width=width, cycles=cycles), ON["ice40"]).bram == blocks


@pytest.mark.slow
@pytest.mark.rtl
def test_times_of_a_window_are_in_a_block_ram_and_nothing_gives_old_ones():
    """The word and the register of the address go into the block RAM, and no others come."""
    policy = RotationPolicy(writes=1, settled=8, generation=16, span=2000, generation_span=251)
    beside, inside = (
        count_cells(TimeWindow(policy, synchronous_read=read), ON["ice40"])
        for read in (False, True)
    )
    assert (beside.bram, inside.bram) == (0, 1)
    assert beside.ff - inside.ff >= 16 * stamp_bits(policy.span)


class PartlyRead(wiring.Component):
    """A memory of which the second port reads a few low bits alone."""

    def __init__(self, *, depth, width, low):
        self.memory = PortableCellMemory(depth=depth, width=width)
        ports = {name: In(member.shape) for name, member in self.memory.signature.members.items()
                 if member.flow is In}  # fmt: skip
        super().__init__(ports | {"a_word": Out(width), "low": Out(low)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.memory = memory = self.memory
        for name, member in memory.signature.members.items():
            if member.flow is In:
                m.d.comb += getattr(memory, name).eq(getattr(self, name))
        m.d.comb += [self.a_word.eq(memory.a_word), self.low.eq(memory.b_word)]
        return m


@pytest.mark.slow
@pytest.mark.rtl
@pytest.mark.parametrize(("low", "blocks"), daily(1, [(16, 3), (17, 4)]))
def test_blocks_of_which_no_bit_is_used_go_away(low, blocks):
    reads = [range(24), range(low)]
    assert inferred_memory("ice40", depth=256, width=24, reads=reads).blocks == blocks
    assert count_cells(PartlyRead(depth=256, width=24, low=low), ON["ice40"]).bram == blocks

"""ECP5 netlists of the wide-frame components that once limited the clock."""

from amaranth.hdl import Module
from amaranth.lib import wiring
from netlists import mapped, unmapped

from lately.boards.flow.devices import device
from lately.boards.flow.synthesis import count_cells
from lately.golden.spec import GEBFSpec
from lately.hdl.packets.deduplicator import Deduplicator
from lately.hdl.packets.header_parser import HeaderParser
from lately.hdl.packets.polynomials import PolynomialDigest
from lately.hdl.queue import Queue
from lately.sim.proofs.frame_ports import digest_signature

SPEC = GEBFSpec(window=72, epochs=3, hashes=3, bits=6144, key_bits=64, span=20)


class Inside(wiring.Component):
    """The polynomial digest as a named part of a design."""

    def __init__(self):
        self._part = PolynomialDigest(128, table_bits=4)
        super().__init__(self._part.signature)

    def elaborate(self, platform):
        m = Module()
        m.submodules.polynomials = self._part
        wiring.connect(m, wiring.flipped(self), self._part)
        return m


def test_levels_of_polynomials(tmp_path):
    netlists = mapped(Inside(), tmp_path)
    levels = {
        "polynomials": {"before": 4, "values": 4, r"sum\d_\d+": 3},
        "key": {"changed": 2, "differs": 3, "walk": 2, "total": 1, r"digits\d": 1, "columns": 0,
                "value": 3, "writes": 2},
    }  # fmt: skip
    assert levels == {
        part: {name: netlists[f"unit.polynomials.{part}"].deepest(name) for name in names}
        for part, names in levels.items()
    }


def test_end_of_layer_3_is_added_from_registers(tmp_path):
    netlist = mapped(HeaderParser(128), tmp_path)["unit"]
    judged = [cell["connections"]["DI"][0] for cell in netlist.registers("judged")]
    assert len(judged) > 40
    assert not any(cell["type"] == "CCU2C" for bit in judged for cell in netlist.cone(bit))
    assert netlist.deepest("layers") <= 9  # 17 bits, two for each cell of the chain


class StandIn(wiring.Component):
    """Stand-in for a digest: the first bytes of each beat."""

    def __init__(self, width):
        super().__init__(digest_signature(width))

    def elaborate(self, platform):
        m = Module()
        m.d.comb += [
            self.i.ready.eq(self.o.ready),
            self.o.valid.eq(self.i.valid & self.i.p.last),
            self.o.p.digest.eq(self.i.p.data),
        ]
        return m


def test_a_register_follows_the_block_ram_of_the_questions(tmp_path):
    part = Deduplicator(SPEC, width=128, digest=StandIn(128), statistics_bits=1)
    netlist = unmapped(part, tmp_path)
    words = {
        bit
        for name, cell in netlist.cells.items()
        if cell["type"] == "DP16KD" and name.startswith("questions.")
        for pin, (bit,) in cell["connections"].items()
        if pin.startswith(("DOA", "DOB")) and isinstance(bit, int)
    }
    choices = netlist.readers(words)
    assert [cell["type"] for cell, _ in choices] == ["$_MUX_"] * 64
    after = netlist.readers({cell["connections"]["Y"][0] for cell, _ in choices})
    assert [(cell["type"], pin) for cell, pin in after] == [("TRELLIS_FF", "DI")] * 64


def test_queues_are_block_rams_without_memories_of_luts():
    queue = Queue(32, depth=32, distributed=True)
    assert count_cells(queue, device("ice40-hx8k")).bram == 2

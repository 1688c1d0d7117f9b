"""What the parts of a timing filter have in common: their ports, and reads that meet writes."""

from functools import partial

from amaranth.hdl import Cat, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..latencies import PROTECTIONS, VOTES, check_bits
from ..memory.cells import PortableCellMemory
from ..memory.copies import OF_CELLS, Mending, protected
from ..memory.parity import sums
from ..pipeline import registered
from .doubt import Doubt, NoDoubt, Parity
from .ticks import stamp_checks
from .timing_profile import PART_LATENCY


class CellPart(wiring.Component):
    """Base of parts: cells of one hash function, each of which holds the stamp of its insertion.

    A stamp is the number of its tick modulo ``2**stamp_bits``. One operation per clock, latency
    `LATENCY` clocks.

    Parameters
    ----------
    cells : int
        Power of two.
    stamp_bits : int
        Width of a cell.
    limit : int
        Age from which on a cell has expired, in ticks.
    memory : callable
        Builds the memory; as the classes of `lately.hdl.memory.cells`.
    protect : str
        One of `lately.hdl.latencies.PROTECTIONS`. With "parity" a cell holds that of its stamp. If
        it is wrong, the age is 0, until the sweep gives the cell the present stamp: no younger one
        was ever there, so no window misses the key, and in `limit` ticks the cell has expired. With
        "ecc" there are three copies of the memory, of which most count, and the sweep writes one
        anew that differs from the other two.
    others
        Further ports of the part, by name.

    Members
    -------
    address : In(range(cells))
    insert : In(1)
    tick : In(1)
        A tick comes before the operation, whether there is one or not.
    now, stamp, restamp : In(stamp_bits)
        Of a `TickCount` that has the same ticks.
    now_check, stamp_check, restamp_check : In(check_bits(stamp_bits))
        With parity, of the same.
    age : Out(range(limit))
        In ticks, unless expired.
    expired : Out(1)
        Whether the age is `limit` or more.
    upset : Out(1)
        If protected: the cell that is read was found upset.
    renewed : Out(1)
        If protected: the sweep writes a cell that was found upset.
    """

    LATENCY = PART_LATENCY

    def __init__(
        self,
        *,
        cells,
        stamp_bits,
        limit,
        memory=PortableCellMemory,
        protect="none",
        **others,
    ):
        self._checked, self._voted = protect == "parity", protect == "ecc"
        self._protected = self._checked or self._voted
        self.memory = protected(
            partial(
                memory,
                depth=cells,
                width=stamp_bits + (check_bits(stamp_bits) if self._checked else 0),
            ),
            copies=PROTECTIONS[protect] if self._voted else 1,
            **OF_CELLS,
        )
        self._bits = stamp_bits
        self._limit = limit
        others |= dict.fromkeys(stamp_checks(self._checked), In(check_bits(stamp_bits)))
        others |= {"upset": Out(1), "renewed": Out(1)} if self._protected else {}
        super().__init__(
            {
                "address": In(range(cells)),
                "insert": In(1),
                "tick": In(1),
                "now": In(stamp_bits),
                "stamp": In(stamp_bits),
                "restamp": In(stamp_bits),
                "age": Out(range(limit)),
                "expired": Out(1),
            }
            | others
        )

    def _age(self, now, word):
        stamp = word[: self._bits] if self._checked else word
        return (now - stamp)[: self._bits]

    def _word(self, name):
        """Return what a cell holds for the stamp of a port."""
        stamp = getattr(self, name)
        return Cat(stamp, getattr(self, f"{name}_check")) if self._checked else stamp

    def _elaborate_doubt(self, m, pipe, word, port, known, dead):
        """Return what there is to doubt of the cell that is read, two stages after its word.

        Known or dead it is a stage after its word, if what was read does not count.
        """
        if self._voted:
            unlike = self._elaborate_unlike(pipe, word.stage - 1)
            wrong = pipe.register("wrong", lambda unlike: unlike.any(), unlike)
            return Doubt(m, self, wrong.at(word.stage + 2))
        if not self._checked:
            return NoDoubt()
        added = pipe.register("sums", sums, word)
        wrong = pipe.register("wrong", lambda sums: ~sums.xor(), added)
        renewed = pipe.enter(port.renews, "renews", stage=1).at(dead.stage)
        met = pipe.register(
            "met", lambda dead, known, renewed: dead & ~known & renewed, dead, known, renewed
        )
        return Parity(m, self, wrong, pipe, met)

    def _elaborate_unlike(self, pipe, stage):
        """Return, a stage after a word, where its copies differ; of the second, and the third."""
        unlike = Cat(self.memory.unlike("a_word"))
        return pipe.enter(unlike, "unlike", stage=stage).at(stage + 1)

    def _elaborate_swept(self, m, port, word, free):
        """Return what the sweep writes, and whether it does so in all copies there are.

        With parity a `word` is that of port B, a clock before its age, or two; the sweep writes if
        the port is `free`.
        """
        sweep, value = self.sweep, self._word("restamp")
        if not self._protected:
            return value, sweep.write
        renews = sweep.write & sweep.renew & free
        m.d.comb += self.renewed.eq(renews)
        if self._checked:
            self._elaborate_renewal(m, word)
            m.d.sync += port.renews.eq(renews)
            return Mux(sweep.renew, self._word("stamp"), value), sweep.write
        mending = Mending(m, self.memory, sweep.read)
        mends = registered(m, mending.copies & renews.replicate(VOTES), "mends")
        m.d.comb += [sweep.wrong.eq(mending.copies.any()), self.memory.mend.eq(mends)]
        return Mux(sweep.renew, mending.word, value), sweep.write & ~sweep.renew

    def _elaborate_renewal(self, m, swept):
        """Have a cell written that the sweep finds wrong, two clocks after its word."""
        added = registered(m, sums(swept), "swept_sums")
        m.d.comb += self.sweep.wrong.eq(registered(m, ~added.xor(), "swept_wrong"))

    def _elaborate_same(self, pipe, name, address, other, flag, *, stage=1):
        """Return whether a flag of a stage is set and its address the operation's, two later."""
        pairs = pipe.register(
            f"{name}_pairs",
            lambda here: Cat(
                flag, (here[at : at + 2] == other[at : at + 2] for at in range(0, len(here), 2))
            ),
            address.at(stage),
        )
        return pipe.register(name, lambda pairs: pairs.all(), pairs)


class WritePort:
    """Registers ahead of the port that writes: of an operation, or of the sweep.

    Parameters
    ----------
    m : Module
        Gets the connections.
    memory : CellMemory
    """

    def __init__(self, m, memory):
        self.address = Signal.like(memory.b_address, name="b_address", reset_less=True)
        self.value = Signal.like(memory.value, name="b_value", reset_less=True)
        self.write, self.inserts, self.sweeps = Signal(), Signal(), Signal()
        self.renews = Signal()
        m.d.comb += [
            memory.b_address.eq(self.address),
            memory.value.eq(self.value),
            memory.write.eq(self.write),
        ]

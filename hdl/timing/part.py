"""Part of a timing filter: the cells of one hash function."""

from dataclasses import dataclass

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..memory.cells import PortableCellMemory
from ..memory.protection import CELL_PROTECTIONS
from ..pipeline import Pipeline, Staged
from .recent import SAME_LATENCY, recent_insertion, same_address
from .sweep_rules import BETWEEN
from .ticks import StampSignature, constant_flags, is_at_least, joined_flags
from .timing_profile import PART_LATENCY


class TimingPart(wiring.Component):
    """Cells of one hash function, each with the time stamp of its last insertion.

    A stamp is a tick modulo ``2**stamp_bits``. One access per cycle, latency `LATENCY` cycles. An
    access is an operation, or a visit of the sweep to a cell. An insertion writes the current
    stamp. The sweep gives each cell of age `limit` or more a stamp of age `limit`, before the old
    stamp could be mistaken for a new one.

    The part never uses a word that is undefined in the memory:

    - If one of the `BETWEEN` previous accesses has not yet written the cell, or writes it in the
      cycle of the read, the part uses the stamp of that access, whose age is known.
    - If the sweep writes the cell in the cycle of the read, the cell has expired. If the sweep
      writes it because its content is lost, its age is 0.
    - The sweep never overwrites an insertion that follows the read of the sweep.

    Parameters
    ----------
    cells : int
        Power of two.
    stamp_bits : int
        Width of a stamp.
    limit : int
        Age from which a cell has expired, in ticks.
    sweep : type
        Type of the sweep: `lately.hdl.timing.sweep.PortSweep`, for which ticks must be more than
        `BETWEEN` cycles apart, or `lately.hdl.timing.sweep.VisitSweep`.
    memory : callable
        Builds the memory, like the classes of `lately.hdl.memory.cells`.
    protect : str
        One of `lately.hdl.latencies.PROTECTIONS`. A cell whose content is lost has age 0 until the
        sweep writes the current stamp. So no window misses the key.

    Members
    -------
    address : In(range(cells))
    insert : In(1)
    visit, wipe : In(1)
        The access is a visit of the sweep; with `wipe` the cell expires, independent of its
        content.
    tick : In(1)
        A tick occurs before the access, or without an access.
    clean : In(1)
        Low from the cycle after a clear until all cells are wiped.
    stamps : In(StampSignature)
        From a `TickCount` with the same ticks.
    age : Out(range(limit))
        Age in ticks, unless expired.
    expired : Out(1)
        Whether the age is `limit` or more.
    upset : Out(1)
        The access reads a cell that the protection reports as upset.
    renewed : Out(1)
        The sweep writes a cell that was upset.
    """

    LATENCY = PART_LATENCY

    def __init__(
        self, *, cells, stamp_bits, limit, sweep, memory=PortableCellMemory, protect="none"
    ):
        self._protection = CELL_PROTECTIONS[protect]
        checks = self._protection.check_bits(stamp_bits)
        self._bits = stamp_bits
        self._limit = limit
        self.memory = self._protection.memory(memory, depth=cells, width=stamp_bits + checks)
        self.sweep = sweep(cells=cells, stamp_bits=stamp_bits, limit=limit)
        flags = ("insert", "visit", "wipe", "tick", "clean")
        super().__init__(
            {
                "address": In(range(cells)),
                **dict.fromkeys(flags, In(1)),
                "stamps": In(StampSignature(stamp_bits=stamp_bits, check_bits=checks)),
                "age": Out(range(limit)),
                **dict.fromkeys(("expired", "upset", "renewed"), Out(1)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.memory = memory = self.memory
        m.submodules.sweep = self.sweep
        pipe = Pipeline(m)
        port = WritePort(m, memory)
        access = {
            name: pipe.enter(
                getattr(self, name), name, reset_less=name == "address", levels=1
            ).settled()
            for name in ("address", "insert", "visit", "wipe", "tick")
        }
        read = pipe.drive(memory, a_address=access["address"])
        word = pipe.enter(memory.a_word, "word", stage=read + memory.LATENCY, reset_less=True)
        operation = (access[name] for name in ("address", "insert", "tick"))
        ticks = self.sweep.MOST_TICKS
        known = recent_insertion(pipe, *operation, port, distance=BETWEEN, most_ticks=ticks)
        swept = same_address(pipe, "swept", access["address"], port.address, port.sweeps)
        swept = swept.at(known[0].stage)
        renewed = pipe.enter(port.renews, "renews", stage=read).at(swept.stage)
        wrong = pipe.enter(self._protection.wrong(m, memory, "a"), "wrong", stage=word.stage + 1)
        trust = self._elaborate_trust(pipe, known, (swept, renewed), wrong)
        age = self._elaborate_age(pipe, word)
        due = self._elaborate_due(pipe, age, access["insert"], known, trust)
        expired = self._elaborate_answer(m, pipe, age, known, trust)
        pipe.leave(due, expired, latency=self.LATENCY)
        self._elaborate_sweep(m, pipe, access, {"due": due, "expired": expired})
        self._elaborate_write(m, port, self._elaborate_repair(m, expired.stage - word.stage))
        return m

    def _elaborate_age(self, pipe, word):
        """Return the difference between the current stamp and the stamp of a cell."""
        stamp = word.at(word.stage + 1)[: self._bits]
        now = pipe.enter(self.stamps.now, "now", stage=stamp.stage)
        return pipe.register("age", lambda now, stamp: (now - stamp)[: self._bits], now, stamp)

    def _elaborate_trust(self, pipe, known, swept, wrong):
        """Return how far the word that was read is valid, one stage after `known`.

        Parameters
        ----------
        pipe : Pipeline
        known : tuple of Staged
            As returned by `recent_insertion`.
        swept : tuple of Staged
            Whether the sweep writes the cell during the read, and whether its content was lost.
        wrong : Staged
            Whether the cell is upset.
        """
        held = pipe.register("held", lambda recent, swept: ~(recent | swept), known[0], swept[0])
        gone = pipe.register(
            "gone",
            lambda recent, since, swept, renewed: Mux(
                recent, since >= self._limit, swept & ~renewed
            ),
            *known,
            *swept,
        )
        met = pipe.register(
            "met", lambda recent, swept, renewed: ~recent & swept & renewed, known[0], *swept
        )
        upset = wrong.at(held.stage) & held
        lost = pipe.combine("lost", self._protection.lost, upset)
        return Trust(trusted=held & ~lost, gone=gone, young=lost | met, upset=upset)

    def _elaborate_due(self, pipe, age, insert, known, trust):
        """Return whether the access inserts, and the cell does not hold the current stamp."""
        zero = pipe.register(
            "zero", lambda age: Cat(age[at : at + 4] == 0 for at in range(0, len(age), 4)), age
        )
        pending = pipe.register(
            "pending",
            lambda insert, recent, since: insert & ~(recent & (since == 0)),
            insert,
            *known,
        )
        return pipe.register(
            "due",
            lambda pending, trusted, zero: pending & ~(trusted & zero.all()),
            pending,
            trust.trusted,
            zero,
        )

    def _elaborate_answer(self, m, pipe, age, known, trust):
        """Drive the answer; return whether the cell has expired."""
        low = len(self.age)
        answer = pipe.register(
            "answer",
            lambda recent, since, age: Mux(recent, since, age)[:low],
            *known,
            age,
            reset_less=True,
        )
        answer = pipe.register(
            "reported",
            lambda answer, young: answer & ~young.replicate(low),
            answer,
            trust.young,
            reset_less=True,
        )
        past = pipe.register(
            "past", lambda age: joined_flags(constant_flags(age, self._limit)), age
        )
        expired = pipe.register(
            "expired",
            lambda past, trusted, gone: is_at_least(past) & trusted | gone,
            past,
            trust.trusted,
            trust.gone,
        )
        upset = trust.upset.at(expired.stage)
        m.d.comb += [
            self.age.eq(answer.value),
            self.expired.eq(expired.value),
            self.upset.eq(upset.value),
        ]
        pipe.leave(answer, expired, upset, latency=self.LATENCY)
        return expired

    def _elaborate_sweep(self, m, pipe, access, decided):
        """Connect the sweep to the decided access, to the next operation, and to its word."""
        sweep, stage = self.sweep, decided["due"].stage
        soon = {name: access[name].at(stage - SAME_LATENCY) for name in ("address", "insert")}
        decided |= {name: flag.at(stage) for name, flag in access.items() if name != "tick"}
        m.d.comb += [
            *(sweep.soon[name].eq(value.value) for name, value in soon.items()),
            *(sweep.decided[name].eq(value.value) for name, value in decided.items()),
            sweep.decided.upset.eq(self.upset),
            sweep.clean.eq(self.clean),
            sweep.now.eq(self.stamps.now),
            sweep.stamp.eq(self.memory.b_word[: self._bits]),
        ]

    def _elaborate_repair(self, m, lag):
        """Return the repair of the cell that the sweep is about to write."""
        sweep = self.sweep
        if sweep.PORT == "a":
            repair = self._protection.repair(m, self.memory, port="a")
            repair = repair.delayed(m, lag - repair.LATENCY)
        else:
            repair = self._protection.repair(m, self.memory, sweep.read)
        m.d.comb += [sweep.wrong.eq(repair.wrong), sweep.lost.eq(repair.lost)]
        return repair

    def _elaborate_write(self, m, port, repair):
        """Write the decided word of the operation or the sweep, one cycle later."""
        stamps, writes = self.stamps, self.sweep.writes
        renews = writes.repairs & repair.lost
        value = repair.value(writes.repairs, stamps.restamp)
        m.d.comb += self.renewed.eq(writes.repairs)
        m.d.sync += [
            port.address.eq(writes.address),
            port.value.eq(Mux(writes.inserts | renews, stamps.stamp, value)),
            port.write.eq(
                writes.inserts | writes.sweeps | repair.write(m, writes.repairs, domain="sync")
            ),
            port.inserts.eq(writes.inserts),
            port.sweeps.eq(writes.sweeps | renews),
            port.renews.eq(renews),
        ]


@dataclass(frozen=True)
class Trust:
    """Validity of a word that was read from a cell.

    Attributes
    ----------
    trusted : Staged
        The word is the content of the cell.
    gone : Staged
        The cell has expired, independent of the word.
    young : Staged
        The content of the cell is unknown, so its age is 0.
    upset : Staged
        The protection reports the cell as upset.
    """

    trusted: Staged
    gone: Staged
    young: Staged
    upset: Staged


class WritePort:
    """Registers before the write port.

    Parameters
    ----------
    m : Module
        Gets the connections.
    memory : CellMemory

    Attributes
    ----------
    address, value, write : Signal
        As for the ports of the memory.
    inserts, sweeps : Signal
        An operation writes; the sweep writes.
    renews : Signal
        With `sweeps`: the content of the cell was lost.
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

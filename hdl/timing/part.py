"""Part of a timing filter: the cells of one hash function, and the ticks that stamp them."""

from dataclasses import dataclass
from functools import partial

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..memory.cells import CellMemory, PortableCellMemory
from ..memory.protection import CELL_PROTECTIONS, parity
from ..pipeline import Pipeline, Staged
from .sweep import SAME_LATENCY, constant_flags, joined_flags, reaches_limit, same_address
from .sweep_rules import BETWEEN, PART_LATENCY


class StampSignature(wiring.Signature):
    def __init__(self, *, stamp_bits, check_bits=0):
        word = Out(stamp_bits + check_bits)
        super().__init__(
            {
                # stamp of the access that arrived `TickCount.NOW` cycles ago
                "now": Out(stamp_bits),
                # For the access that arrived `TickCount.STAMP` cycles ago:
                "stamp": word,  # word of a cell with its stamp
                "restamp": word,  # word of an expired cell
            }
        )


class TickCount(wiring.Component):
    """Counts the ticks for all parts. A tick takes effect before an access in the same cycle."""

    NOW = 2 + CellMemory.LATENCY
    STAMP = PART_LATENCY

    def __init__(self, *, stamp_bits, limit, check_bits=0):
        self._limit = limit
        self._check_bits = check_bits
        stamps = StampSignature(stamp_bits=stamp_bits, check_bits=check_bits)
        super().__init__({"tick": In(1), "stamps": Out(stamps)})

    def elaborate(self, platform):
        m = Module()
        stamps = self.stamps
        pipe = Pipeline(m)
        tick = pipe.enter(self.tick, "tick")
        m.d.sync += stamps.now.eq(stamps.now + tick.at(self.NOW - 1).value)
        for name, age in (("stamp", 0), ("restamp", self._limit)):
            count = Signal(
                len(stamps.now), name=f"{name}_count", init=-age % (1 << len(stamps.now))
            )
            m.d.sync += count.eq(count + tick.at(self.STAMP - 1).value)
            check = self._elaborate_check(m, count, tick.at(self.STAMP - 2).value)
            m.d.comb += getattr(stamps, name).eq(Cat(count, check))
        return m

    def _elaborate_check(self, m, count, tick):
        """Return the parity of `count`, computed from a copy that runs one cycle ahead."""
        if not self._check_bits:
            return Cat()
        ahead = Signal.like(count, name_suffix="_ahead")
        # The first cells are wiped with this parity right after reset.
        odd = count.init.bit_count() & 1
        check = Signal(self._check_bits, name=f"{count.name}_parity", init=1 - odd)
        m.d.sync += [ahead.eq(ahead + tick), check.eq(parity(ahead))]
        return check


def recent_insertion(pipe, address, insert, tick, port, *, distance, max_ticks):
    """Return whether a recent access inserted into the cell, and the number of ticks since then."""
    recent, since, passed = [], [], Const(0)
    for ahead in range(1, distance + 1):
        other, flag = port.address, port.inserts
        if ahead < distance:
            stage = address.stage + ahead
            other, flag = address.at(stage).value, insert.at(stage).value
        recent.append(same_address(pipe, f"same{ahead}", address, other, flag))
        # The tick of the access itself, and the ticks of the accesses between.
        count = partial(_counted, passed, max_ticks)
        ticks = pipe.register(f"passed{ahead}", count, tick.at(address.stage + 1))
        since.append(ticks)
        passed = ticks.value
    for size in (2, distance):
        groups = [slice(at, at + size) for at in range(0, len(recent), size)]
        since = [_last(pipe, recent[group], since[group]) for group in groups]
        recent = [pipe.register("recent", lambda *flags: Cat(flags).any(), *recent[group])
                  for group in groups]  # fmt: skip
    return recent[0], since[0]


def _counted(passed, limit, tick):
    return (passed + tick)[: limit.bit_length()]


def _last(pipe, recent, since):
    """Return, one stage later, the number of ticks since the latest of the `recent` insertions."""

    def chosen(*values):
        flags, ticks = values[: len(recent)], values[len(recent) :]
        result = ticks[-1]
        for flag, count in list(zip(flags, ticks, strict=True))[-2::-1]:
            result = Mux(flag, count, result)
        return result

    return pipe.register("since", chosen, *recent, *since, reset_less=True)


class TimingPart(wiring.Component):
    """Cells of one hash function, each with the time stamp of its last insertion.

    A stamp is a tick modulo ``2**stamp_bits``. The part accepts one access per cycle: an operation,
    or a visit of the sweep to a cell. The sweep gives each cell of age `limit` or more a stamp of
    age `limit`, before the old stamp could be mistaken for a new one.

    The part never uses a word that is undefined in the memory. If one of the `BETWEEN` previous
    accesses writes the cell, the part uses the stamp of that access. If the sweep writes the cell
    in the cycle of the read, the cell has expired, or has age 0 if its content was lost. The sweep
    never overwrites an insertion that follows the read of the sweep.
    """

    LATENCY = PART_LATENCY

    def __init__(
        self,
        *,
        cells,
        stamp_bits,  # width of a stamp
        limit,  # age from which a cell has expired, in ticks
        # type of the sweep: `lately.hdl.timing.sweep.PortSweep`, for which ticks must be more than
        # `BETWEEN` cycles apart, or `lately.hdl.timing.sweep.VisitSweep`
        sweep,
        # builds the memory, like the classes of `lately.hdl.memory.cells`
        memory=PortableCellMemory,
        # one of `lately.hdl.latencies.PROTECTIONS`. A cell whose content is lost has age 0 until
        # the sweep writes the current stamp. So no window misses the key.
        protect="none",
    ):
        self._protection = CELL_PROTECTIONS[protect]
        checks = self._protection.check_bits(stamp_bits)
        self._bits = stamp_bits
        self._limit = limit
        self.memory = self._protection.memory(memory, depth=cells, width=stamp_bits + checks)
        self.sweep = sweep(cells=cells, stamp_bits=stamp_bits, limit=limit)
        # `visit`: the access is a visit of the sweep. `wipe`: the cell expires, independent of its
        # content. `tick`: a tick occurs before the access, or without an access. `clean`: low from
        # the cycle after a clear until all cells are wiped.
        flags = ("insert", "visit", "wipe", "tick", "clean")
        super().__init__(
            {
                "address": In(range(cells)),
                **dict.fromkeys(flags, In(1)),
                # from a `TickCount` with the same ticks
                "stamps": In(StampSignature(stamp_bits=stamp_bits, check_bits=checks)),
                "age": Out(range(limit)),  # age in ticks, unless expired
                # `expired`: whether the age is `limit` or more
                # `upset`: the access reads a cell that the protection reports as upset
                # `renewed`: the sweep writes a cell that was upset
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
        ticks = self.sweep.MAX_TICKS
        known = recent_insertion(pipe, *operation, port, distance=BETWEEN, max_ticks=ticks)
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
        stamp = word.at(word.stage + 1)[: self._bits]
        now = pipe.enter(self.stamps.now, "now", stage=stamp.stage)
        return pipe.register("age", lambda now, stamp: (now - stamp)[: self._bits], now, stamp)

    def _elaborate_trust(self, pipe, known, swept, wrong):
        """Return, one stage after `known`, whether the word that was read can be trusted."""
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
        """Return whether an insertion must write because the cell lacks the current stamp."""
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
        """Drive the outputs; return whether the cell has expired."""
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
            lambda past, trusted, gone: reaches_limit(past) & trusted | gone,
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
        """Return the `Repair` of the cell that the sweep is about to write."""
        sweep = self.sweep
        if sweep.PORT == "a":
            repair = self._protection.repair(m, self.memory, port="a")
            repair = repair.delayed(m, lag - repair.LATENCY)
        else:
            repair = self._protection.repair(m, self.memory, sweep.read)
        m.d.comb += [sweep.wrong.eq(repair.wrong), sweep.lost.eq(repair.lost)]
        return repair

    def _elaborate_write(self, m, port, repair):
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
    trusted: Staged  # the word is the content of the cell
    gone: Staged  # the cell has expired, independent of the word
    young: Staged  # the content of the cell is unknown, so its age is 0
    upset: Staged  # the protection reports the cell as upset


class WritePort:
    """Registers in front of the memory's write port."""

    def __init__(self, m, memory):
        self.address = Signal.like(memory.b_address, name="b_address", reset_less=True)
        self.value = Signal.like(memory.value, name="b_value", reset_less=True)
        # `write`: anything is written; `inserts`: by an operation; `sweeps`: by the sweep.
        self.write, self.inserts, self.sweeps = Signal(), Signal(), Signal()
        self.renews = Signal()  # with `sweeps`: the content of the cell was lost
        m.d.comb += [
            memory.b_address.eq(self.address),
            memory.value.eq(self.value),
            memory.write.eq(self.write),
        ]

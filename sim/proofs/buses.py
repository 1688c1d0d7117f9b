"""Proofs for units behind a bus: bus protocols, register commands, and fault bits.

A netlist test shows that no bus output depends combinationally on an input.
"""

from functools import partial

from amaranth.hdl import Assume, Cat, Module, Mux, Shape, Signal, Value
from amaranth.hdl._ast import AnySeq
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ...golden.spec import APBBFSpec
from ...hdl.bus.buses import OKAY, SLAVEERROR, AvalonMm, Axi4Lite, Wishbone
from ...hdl.bus.controlled import MARK_BITS, ControlledUnit
from ...hdl.interface import Operation, UnitSignature
from ...hdl.pipeline import delayed
from .formal import Proof
from .harness import Harness, latched, opened, sampled
from .results import kept_while_waiting

_SPEC = APBBFSpec(k=1, l=1, block_bits=2, blocks=2, hashes_per_block=1, generation=4, key_bits=2)
_TAG_BITS = 1
_TIME_BITS = 2


def under_way(m, access):
    held = Signal(name="under_way")
    starts = access.read | access.write
    m.d.sync += held.eq((held | starts) & ~access.done)
    # An access ends at least one cycle after its start.
    m.d.comb += Assume(~access.done | held)
    return held


def steady(m, condition, *values):
    """Return whether all values are unchanged if `condition` held in the previous cycle."""
    value = Cat(Value.cast(value) for value in values)
    return ~delayed(m, condition, 1, "held") | (value == delayed(m, value, 1, "value"))


class Axi4LiteRules(Harness):
    make = Axi4Lite

    def build(self, m):
        m.submodules.front = front = self._part
        access = front.access
        busy = under_way(m, access)
        last = {}
        for channel, parts in {"aw": ["addr"], "w": ["data", "strb"], "ar": ["addr"]}.items():
            taken = self._port(channel, "valid") & self._port(channel, "ready")
            payload = Cat(self._port(channel, part) for part in parts)
            # Accepted requests that still wait for their response.
            count = Signal(3, name=f"{channel}_count")
            back = "r" if channel == "ar" else "b"
            gone = self._port(back, "valid") & self._port(back, "ready")
            m.d.sync += count.eq(count + taken - gone)
            last[channel] = count, sampled(m, taken, payload, f"{channel}_last")
            self.require(count <= 2, ~self._port(back, "valid") | (count != 0))
        for back, parts in {"b": ["resp"], "r": ["resp", "data"]}.items():
            waits = self._port(back, "valid") & ~self._port(back, "ready")
            payload = [self._port(back, part) for part in parts]
            self.require(
                ~delayed(m, waits, 1, f"{back}_waits") | self._port(back, "valid"),
                steady(m, waits, *payload),
            )
        low = len(last["aw"][1]) - len(access.address)
        writes = sampled(m, access.read | access.write, access.write, "writes")
        self.require(
            ~(access.read & access.write),
            ~((access.read | access.write) & busy),
            ~access.write | (access.address == last["aw"][1][low:]),
            ~access.write | (Cat(access.data, access.strobe) == last["w"][1]),
            ~access.read | (access.address == last["ar"][1][low:]),
            steady(m, busy & ~access.done, access.address),
            steady(m, busy & ~access.done & writes, access.data, access.strobe),
        )
        # At most one write overtakes a read whose response channel is free.
        overtaken = Signal(range(3))
        waits = (last["ar"][0] != 0) & ~front.s_axil_rvalid
        with m.If(~waits | access.read):
            m.d.sync += overtaken.eq(0)
        with m.Elif(access.write):
            m.d.sync += overtaken.eq(overtaken + 1)
        self.require(overtaken <= 1)
        first = latched(m, (last["w"][0] == 1) & (last["aw"][0] == 0))
        self.reach("data arrive before their address", first & access.write)
        self.reach("a write begins while a read waits", access.write & (last["ar"][0] != 0))
        self.reach("both responses wait", front.s_axil_bvalid & front.s_axil_rvalid)

    def _port(self, channel, part):
        return getattr(self._part, f"{Axi4Lite.PREFIX}_{channel}{part}")


class WishboneRules(Harness):
    make = Wishbone

    def build(self, m):
        m.submodules.front = front = self._part
        access = front.access
        busy = under_way(m, access)
        asks, answers = Signal(), Signal()
        m.d.comb += [
            asks.eq(front.wb_cyc_i & front.wb_stb_i),
            answers.eq(front.wb_ack_o | front.wb_err_o),
        ]
        # The access that was started for the pending request.
        pending = Signal()
        starts = access.read | access.write
        m.d.sync += pending.eq((pending | starts) & asks & ~access.done)
        asked = delayed(m, asks, 1, "asked")
        request = Cat(front.wb_adr_i, front.wb_dat_i, front.wb_sel_i)
        performed = Cat(access.address, access.data, access.strobe)
        done = delayed(m, access.done & (pending | starts), 1, "done")
        self.require_within(m, 1, asks & ~busy & ~starts & ~answers)
        self.require(
            ~(front.wb_ack_o & front.wb_err_o),
            answers == (asked & done),
            ~answers | (front.wb_err_o == delayed(m, access.error, 1, "error")),
            ~answers | (front.wb_dat_o == delayed(m, access.word, 1, "word")),
            front.wb_stall_o == ~answers,
            ~(access.read & access.write),
            ~(starts & busy),
            # A request is answered only once.
            ~(starts & delayed(m, answers, 1, "answered")),
            ~starts | (asked & (performed == delayed(m, request, 1, "request"))),
            ~starts | (access.write == delayed(m, front.wb_we_i, 1, "we")),
            steady(m, busy & ~access.done, performed),
        )
        withdrawn = latched(m, busy & ~asks)
        self.reach("a withdrawn request is followed by another", withdrawn & answers)
        self.reach("an access fails", front.wb_err_o)


class AvalonMmRules(Harness):
    make = AvalonMm

    def build(self, m):
        m.submodules.front = front = self._part
        access = front.access
        busy = under_way(m, access)
        reads, writes = front.avs_read, front.avs_write
        m.d.comb += Assume(~(reads & writes))
        taken = delayed(m, (reads | writes) & ~front.avs_waitrequest, 1, "taken")
        request = Cat(front.avs_address, front.avs_writedata, front.avs_byteenable, writes)
        performed = Cat(access.address, access.data, access.strobe)
        answers = front.avs_readdatavalid | front.avs_writeresponsevalid
        wrote = sampled(m, taken, access.write, "wrote")
        response = Mux(delayed(m, access.error, 1, "error"), SLAVEERROR, OKAY)
        self.require(
            # Each accepted request starts one access, and each access has one response.
            (access.read | access.write) == taken,
            ~(access.read & access.write),
            ~taken | (Cat(performed, access.write) == delayed(m, request, 1, "request")),
            steady(m, busy & ~access.done, performed),
            answers == delayed(m, access.done, 1, "done"),
            ~(front.avs_readdatavalid & front.avs_writeresponsevalid),
            ~answers | (front.avs_writeresponsevalid == wrote),
            ~answers | (front.avs_response == response),
            ~answers | (front.avs_readdata == delayed(m, access.word, 1, "word")),
            front.avs_waitrequest == (busy | taken),
        )
        self.reach("a request arrives with the response to another", answers & reads)
        self.reach("an access fails", answers & (front.avs_response == SLAVEERROR))


class _AnyUnit(wiring.Component):
    """Stand-in for a unit, with arbitrary `ready` and results; waiting results do not change."""

    latency = 1

    def __init__(self):
        super().__init__(
            UnitSignature(
                {
                    "key": _SPEC.key_bits,
                    "operation": Operation,
                    "tag": _TAG_BITS + MARK_BITS,
                    "time": _TIME_BITS,
                },
                {"seen": 1, "age": 1, "tag": _TAG_BITS + MARK_BITS},
                ports={
                    "generation": In(3, init=_SPEC.generation),
                    "operations": Out(2),
                    "shortened": Out(2),
                },
            )
        )

    def elaborate(self, platform):
        m = Module()
        m.d.comb += [
            self.o.valid.eq(AnySeq(1)),
            self.o.p.as_value().eq(AnySeq(Shape.cast(self.o.p.shape()).width)),
            self.i.ready.eq(AnySeq(1)),
            self.shortened.eq(AnySeq(2)),
            Assume(kept_while_waiting(m, self.o)),
        ]
        return m


def _controlled(**options):
    return ControlledUnit(
        _AnyUnit(), spec=_SPEC, bus="wishbone", version=(0, 0, 0), status_bits=_TAG_BITS, **options
    )


class Commands(Harness):
    make = staticmethod(_controlled)

    def build(self, m):
        part, inner = self._part, self._part.unit
        m.submodules.controlled, signals = opened(part)
        taken, passes = inner.i.valid & inner.i.ready, part.i.valid & part.i.ready
        request, given = part.i.p, inner.i.p
        command = Signal()
        m.d.comb += command.eq(taken & ~passes)
        marked = inner.o.p.tag[-MARK_BITS:].any()
        asked = signals["bank.control_clear"] | signals["bank.control_shift"]
        waiting = Signal()
        m.d.sync += waiting.eq((waiting | asked) & ~command)
        disabled = delayed(m, ~signals["bank.control_enable"], 1, "disabled")
        came, went = inner.o.valid & inner.o.ready, part.o.valid & part.o.ready
        # Timestamp of the last accepted request.
        reached = sampled(m, passes, request.time, "reached")
        self.require(
            kept_while_waiting(m, part.o),
            # Accepted requests enter the unit at once, unchanged; all other operations that enter
            # are commands.
            ~passes | taken,
            ~passes | (given.key == request.key),
            ~passes | (given.operation.as_value() == request.operation.as_value()),
            ~passes | (given.tag == request.tag),
            ~passes | (given.time == request.time),
            ~command | (given.time == reached),
            ~command | given.tag[-MARK_BITS:].all(),
            ~command
            | (given.operation.as_value() == Operation.SHIFT.value)
            | (given.operation.as_value() == Operation.CLEAR.value),
            # Each command takes effect once. No command or request is accepted while one waits.
            ~command | waiting,
            ~(asked & waiting),
            ~(passes & waiting),
            ~(passes & disabled),
            # Results leave unchanged, except that the results of commands are discarded.
            went == (came & ~marked),
            ~inner.o.valid | (inner.o.ready == (part.o.ready | marked)),
            ~part.o.valid | (part.o.p.seen == inner.o.p.seen),
            ~part.o.valid | (part.o.p.age == inner.o.p.age),
            ~part.o.valid | (part.o.p.tag == inner.o.p.tag[:-MARK_BITS]),
        )
        self.reach("a command is accepted", command)
        self.reach("a later request waits for a command", command & part.i.valid
                   & (request.time > reached) & (reached != 0))  # fmt: skip
        self.reach(
            "an operation is accepted after a command", passes & delayed(m, command, 1, "was")
        )


class Faults(Harness):
    make = staticmethod(partial(_controlled, waits=False))

    def build(self, m):
        part = self._part
        m.submodules.controlled, signals = opened(part)
        count, access = part.unit.shortened, part._bank.access
        events = {
            "overrun": part.i.valid & ~part.i.ready,
            "shortened": count[0] != delayed(m, count[0], 1, "count"),
        }
        (word,), (mask,) = (part.registers.find(name) for name in ("faults", "irq_mask"))
        raised = [signals[f"bank.{field.signal}_held"] & signals[f"bank.{other.signal}"]
                  for field, other in zip(word.fields, mask.fields, strict=True)]  # fmt: skip
        self.require(part.irq == delayed(m, Cat(raised).any(), 1, "raised"))
        self.reach("an interrupt is raised and then masked", ~part.irq & Cat(raised).any())
        for field in word.fields:
            held, event = signals[f"bank.{field.signal}_held"], events[field.name]
            given = access.data[field.low] & access.strobe[field.low // 8]
            clears = signals["bank.write_faults"] & given
            kept = delayed(m, held & ~clears, 1, f"{field.name}_kept")
            came = delayed(m, event, 1, f"{field.name}_came")
            self.require(held == (kept | came))
            self.reach(f"{field.name} occurs while it is cleared", held & event & clears)


PROOFS = (
    Proof(
        name="axi4-lite",
        statement="Each access has the address, data and strobes of its request, and each response "
        "belongs to a request. Responses do not change until accepted. At most one write overtakes "
        "a waiting read.",
        design="AXI4-Lite interface, any master, registers with any delay",
        build=Axi4LiteRules,
    ),
    Proof(
        name="wishbone",
        statement="Each request that is not withdrawn gets exactly one response, with the result "
        "of its access. A withdrawn request gets no response.",
        design="Wishbone interface, any master, registers with any delay",
        build=WishboneRules,
    ),
    Proof(
        name="avalon-mm",
        statement="Each accepted request gets exactly one response, of the right kind, with the "
        "right data and response code. No access starts while another is in progress.",
        design="Avalon-MM interface, any host, registers with any delay",
        build=AvalonMmRules,
    ),
    Proof(
        name="commands of registers",
        statement="Each SHIFT or CLEAR that is written to a register enters the unit exactly once, "
        "with the timestamp of the previous operation. Other operations and their results pass "
        "unchanged. Results of commands are discarded. Results do not change until accepted.",
        design="registers on Wishbone, any unit, any master, any requests",
        build=Commands,
    ),
    Proof(
        name="faults of registers",
        statement="An event sets its fault bit, even in the cycle in which the bus clears the bit. "
        "Nothing else sets or clears the bit. `irq` is high exactly if a bit that the mask selects "
        "was set in the previous cycle.",
        design="registers on Wishbone, any unit and events, any master, any requests",
        build=Faults,
    ),
)

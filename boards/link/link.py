"""A filter unit behind a serial line."""

from typing import Any

from amaranth.hdl import Module, Mux, ResetInserter, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ...golden.operations import OperationBit
from ...hdl.build import filter_unit, unit_profile
from ...hdl.frontend.prescaler import Prescaler
from ...hdl.latencies import DEFAULT_LEVELS, PERIOD_BITS
from ...hdl.registers import WORD_BITS, Holder, board_registers, counters
from ...hdl.statistics import EventCounter
from .celltest import CellTest
from .frames import FrameReceiver, FrameSender
from .information import (
    Information,
    TableShape,
    check_slots,
    check_spec,
    register_mask,
    whole_bytes,
)
from .protocol import TIME_BITS
from .register_file import RegisterFile
from .requests import Requests
from .selftest import SelfTest
from .sessions import connect_line, copied
from .uart import BaudRate, Receiver, Transmitter


class Link(wiring.Component):
    """Serial line, protocol, filter unit and self-test, in one clock domain.

    The unit may be of any kind that has one lane: requests, registers and records are those that
    its ports need. Ticks come every millisecond after reset, or as rarely as the unit asks for,
    until another period is set; during the self-test it makes them.

    Parameters
    ----------
    spec : Specification
        What to build; must pass `check_buildable` of its `lately.hdl.build.unit_profile`.
    clock_hz : int
        Cycles in a second.
    baud : int
        Bits in a second on the line.
    memory : str
        Variant of the memories.
    levels : int
        As for `lately.hdl.build.filter_unit`.
    protect : str
        As for `lately.hdl.build.filter_unit`.
    check : bool
        Whether the unit watches its own state, as for `lately.hdl.unit.FilterUnit`. The link is
        reset with it.
    slots : int
        Requests that may be under way: a power of two, 2 to 16. Each
        takes 256 bytes of memory for itself and 128 for its answer.

    Members
    -------
    rx : In(1, init=1)
        Line from the host; may change at any time.
    tx : Out(1, init=1)
        Line to the host.
    alive : Out(1)
        Turns about once in a second, for an LED.
    hit : Out(1)
        A key was reported in the last tenth of a second or so.
    fault : Out(1)
        The last self-test failed; or a frame was damaged or dropped in the
        last second or so; or, since reset, the unit has found its own state
        wrong. The link was then reset together with it.
    busy : Out(1)
        A request waits, or an answer is on its way.

    Raises
    ------
    SpecificationError
        If the hardware cannot hold the specification.
    ProtocolError
        If the protocol cannot speak of it.
    ValueError
        If the rate cannot be made, or the slots are not as required.
    """

    def __init__(
        self,
        spec,
        *,
        clock_hz,
        baud,
        memory="portable",
        levels=DEFAULT_LEVELS,
        protect="none",
        check=False,
        slots=4,
    ):
        check_spec(spec)
        check_slots(slots)
        self._rate = BaudRate(clock_hz=clock_hz, baud=baud)
        self._second = (clock_hz - 1).bit_length()
        shape = {"memory": memory, "levels": levels, "protect": protect}
        self._profile = unit_profile(spec, **shape)
        ticks: Any = {"time_bits": TIME_BITS} if self._profile.least_period else {}
        self.unit = filter_unit(spec, statistics_bits=WORD_BITS, check=check, **shape, **ticks)
        ports = self.unit.signature.members
        cells = "table" in ports or "window" in self.unit.signature.request.members
        test = CellTest if cells else SelfTest
        self._test = test(spec=spec, unit=self.unit, profile=self._profile)
        self.information = self._describe(spec, slots=slots, clock_hz=clock_hz)
        check_spec(spec, asked=self.information.most_asked)
        lights = dict.fromkeys(("alive", "hit", "fault", "busy"), Out(1))
        super().__init__({"rx": In(1, init=1), "tx": Out(1, init=1)} | lights)

    def _describe(self, spec, *, slots, clock_hz):
        """Return what the board tells of its unit."""
        ports, result = self.unit.signature.members, self.unit.signature.result.members
        bits = {name: len(getattr(self.unit.o.p, name)) if name in result else 0
                for name in ("age", "oldest", "status", "time")}  # fmt: skip
        generations = "generation" in ports
        table = TableShape()
        if "table" in ports:
            classes, ages, _ = spec.table_shape
            table = TableShape(classes, ages, spec.phase_bits, spec.hashes)
        return Information(
            slots=slots,
            key_bits=spec.key_bits,
            window_generations=spec.window_generations if generations else 0,
            generation=ports["generation"].init if generations else 0,
            digest=spec.digest,
            clock_hz=clock_hz,
            keyed="secret" in ports,
            time_bits=bits["time"],
            self_test_cycles=self._test.cycles,
            window=spec.window_blocks if "window" in self.unit.signature.request.members else 0,
            age_bits=8 * whole_bytes(1 + bits["age"]) - 1,
            oldest_bits=bits["oldest"],
            status_bits=bits["status"],
            removes=len(Value.cast(self.unit.i.p.operation)) == len(OperationBit),
            registers=register_mask(board_registers(ports)),
            table=table,
        )

    def elaborate(self, platform):
        m = Module()
        slots = self.information.slots
        m.submodules.uart_receiver = receiver = Receiver(rate=self._rate)
        m.submodules.uart_transmitter = transmitter = Transmitter(rate=self._rate)
        m.submodules.frame_receiver = frames = FrameReceiver(slots=slots)
        m.submodules.frame_sender = sender = FrameSender(slots=slots)
        m.submodules.unit = unit = self.unit
        m.submodules.requests = requests = Requests(
            information=self.information, unit=unit, least_period=self._profile.least_period
        )
        m.submodules.self_test = test = self._test
        connect_line(self, m, requests, receiver, transmitter, frames, sender)
        m.d.comb += [
            test.start.eq(requests.start),
            requests.running.eq(test.busy),
            requests.failed.eq(test.failed),
        ]
        registers = self._elaborate_registers(m, requests, frames, receiver)
        if "tick" in unit.signature.members:
            self._elaborate_ticks(m, requests, test, registers)
        self._elaborate_unit(m, requests, test, registers)
        self._elaborate_leds(m, requests, test, frames)
        if "alarms" in unit.signature.members:
            # Nothing waits for results that were lost.
            return ResetInserter(unit.fault)(m)
        return m

    def _elaborate_unit(self, m, requests, test, registers):
        """Give the unit to the requests or to the self-test."""
        unit = self.unit
        testing = requests.testing
        m.d.comb += [
            unit.i.valid.eq(Mux(testing, test.i.valid, requests.i.valid)),
            unit.i.p.eq(Mux(testing, test.i.p.as_value(), requests.i.p.as_value())),
            test.i.ready.eq(unit.i.ready & testing),
            requests.i.ready.eq(unit.i.ready & ~testing),
            unit.o.ready.eq(1),
        ]
        for taker in (test, requests):
            m.d.comb += [taker.o.valid.eq(unit.o.valid), taker.o.p.eq(unit.o.p)]
        if "generation" in unit.signature.members:
            specified = self.information.generation
            m.d.sync += unit.generation.eq(Mux(testing, specified, registers.generation))
        if "secret" in unit.signature.members:
            wiring.connect(m, requests.secret, unit.secret)
        if "table" in unit.signature.members:
            wiring.connect(m, requests.table, unit.table)
            m.d.comb += unit.swap.eq(requests.swap)

    def _elaborate_registers(self, m, requests, frames, receiver):
        """Count events, and let the requests read the registers and set them."""
        millisecond = -(-self.information.clock_hz // 1000)
        period = max(millisecond, self._profile.least_period)
        m.submodules.registers = registers = RegisterFile(unit=self.unit, period=period)
        settable = [name for name in ("set_generation", "set_period")
                    if name in registers.signature.members]  # fmt: skip
        m.d.comb += [
            *copied(registers, requests, "number", *settable, "value"),
            requests.word.eq(registers.word),
        ]
        sources = {"good": frames, "bad": frames, "dropped": frames, "error": receiver}
        for register in counters(Holder.LINE):
            event = getattr(sources.get(register.event, requests), register.event)
            m.d.comb += getattr(registers, register.event).eq(event)
        m.d.comb += copied(registers, self.unit, *registers.held)
        return registers

    def _elaborate_ticks(self, m, requests, test, registers):
        """Make the ticks; during the self-test they are its own, if it makes any."""
        unit = self.unit
        m.submodules.prescaler = prescaler = Prescaler(
            width=PERIOD_BITS, least=self._profile.least_period
        )
        tick = prescaler.tick & ~requests.testing
        tested = "tick" in test.signature.members
        m.d.comb += [
            prescaler.period.eq(registers.period),
            unit.tick.eq(tick | (test.tick & requests.testing) if tested else tick),
        ]

    def _elaborate_leds(self, m, requests, test, frames):
        """Stretch events until an eye can see them."""
        m.submodules.time = time = EventCounter(width=self._second)
        m.d.comb += [time.event.eq(1), self.alive.eq(time.count[-1])]
        wrong = Signal()
        m.d.comb += self.hit.eq(self._stretch(m, "hit", self._reported(m, requests), time, 4))
        m.d.comb += wrong.eq(self._stretch(m, "wrong", frames.bad | frames.dropped, time, 1))
        failed = ~requests.testing & (test.failed != 0)
        if "alarms" in self.unit.signature.members:
            failed |= self.unit.alarms.any()
        m.d.sync += self.fault.eq(wrong | failed)

    def _reported(self, m, requests):
        reported = Signal()
        m.d.sync += reported.eq(self.unit.o.valid & self.unit.o.p.seen & ~requests.testing)
        return reported

    def _stretch(self, m, name, event, time, place):
        """Return whether there was an event in the last one or two ticks of a bit of the time."""
        past = Signal(name=f"{name}_past")
        tick = Signal(name=f"{name}_tick")
        lit = Signal(2, name=f"{name}_lit")
        m.d.sync += [past.eq(time.count[-place]), tick.eq(past & ~time.count[-place])]
        with m.If(tick):
            m.d.sync += lit.eq(lit >> 1)
        with m.If(event):
            m.d.sync += lit.eq(3)
        return lit[0]

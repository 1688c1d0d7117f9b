"""Self-test of a board: random operations at full rate, and a CRC of all results."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.crc import catalog
from amaranth.lib.wiring import In, Out

from ...golden.operations import Operation
from .information import SelfTestPlan
from .operation_port import result_bytes
from .self_test_operations import (
    AGAIN,
    CLEAR,
    DISTANCE_AT,
    FRESH,
    KIND_BITS,
    NEAR_BITS,
    NEAR_DISTANCE_BITS,
    NUMBER_BITS,
    RARE_AT,
    REMOVE,
    SEED,
    SHIFT,
    SHIFTS,
    TICK_AT,
    WINDOW_AT,
)

_MOST_MISSING = 1 << 10
"""More operations than are in flight in any unit."""

_LEAST_OPERATIONS = 1 << 13
"""Minimum operations of a test."""

_LEAST_WINDOW = 64
"""Window for a filter without one."""

_MOST_RARE_BITS, _MOST_DISTANCE_BITS = 14, NUMBER_BITS - 1


def plan(spec):
    """Return the plan of a filter's self-test.

    Half of the operations insert. Distances reach two windows back, a filter is cleared every four
    windows, and timestamps wrap at least once.

    Parameters
    ----------
    spec : Specification
    """

    def value(*names):
        return next(filter(None, (getattr(spec, name, None) for name in names)), 0)

    window, span = value("window", "cells") or _LEAST_WINDOW, value("span")
    generation = value("generation") or window
    # Operations per tick, or per block of insertions.
    rate = max(1, 2 * window // span) if span else 2 * (value("block_units") or 1)
    wrap = rate << value("stamp_bits", "timestamp_bits")
    return SelfTestPlan(
        operations=max(_LEAST_OPERATIONS, 8 * window, wrap + wrap // 4),
        distance_bits=min(_MOST_DISTANCE_BITS, max(NEAR_DISTANCE_BITS, window.bit_length() + 1)),
        clear_bits=min(_MOST_RARE_BITS, (window // 8).bit_length()),
        shift_bits=min(_MOST_RARE_BITS, (generation // 8).bit_length()),
        tick_bits=min(8, rate.bit_length() - 1) if span else 0,
    )


class SelfTest(wiring.Component):
    """Performs random operations in a unit after reset, and computes a CRC of the results.

    `lately.boards.link.self_test_operations` computes the same operations. The signature is the
    CRC-32 of the records of their results in order, except the results of CLEARs.

    Parameters
    ----------
    unit : Component
        With a `lately.hdl.interface.UnitSignature` of one lane.
    information : Information
        Description of the board, with the plan of the test.
    least_period : int
        Minimum cycles between two ticks; 0 without ticks.
    patience : int
        Cycles without an accepted operation or a result after which the test ends.

    Members
    -------
    start : In(1)
        Starts a test.
    busy : Out(1)
    crc : Out(32)
        The signature.
    i, o
        Streams of the unit, with opposite directions.
    tick : Out(1)
        A tick for the unit.
    """

    def __init__(self, unit, information, *, least_period, patience):
        self._information = information
        self._least_period = least_period
        self._patience = max(patience, least_period + 1)
        super().__init__(
            {
                "start": In(1),
                "busy": Out(1),
                "crc": Out(32),
                "i": Out(stream.Signature(unit.signature.request)),
                "o": In(stream.Signature(unit.signature.result)),
                "tick": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        state, newest = Signal(64), Signal(NUMBER_BITS)
        left = Signal(range(self._information.plan.operations + 1))
        missing, idle, clearing = Signal(range(_MOST_MISSING)), Signal(), Signal()
        accepted, answered = self.i.valid & self.i.ready, self.o.valid
        quiet, late = self._elaborate_quiet(m, accepted | answered | self.tick | self.start)
        m.d.comb += [self.o.ready.eq(1), idle.eq((missing == 0) & ~self.i.valid)]
        m.d.sync += [
            missing.eq(missing + accepted - answered),
            self.busy.eq((left != 0) | ~idle),
        ]
        # No operation follows a CLEAR before its result, which depends on no key.
        cleared = clearing & ~self.i.valid & (missing == 1) & answered
        may = self._elaborate_ticks(m, state, left, idle, quiet) & ~clearing
        with m.If(cleared | self.start):
            m.d.sync += clearing.eq(0)
        with m.If(~self.i.valid | self.i.ready):
            m.d.sync += self.i.valid.eq((left != 0) & may)
            with m.If((left != 0) & may):
                m.d.sync += [state.eq(_advanced(m, state)), left.eq(left - 1)]
                self._elaborate_operation(m, state, newest, clearing)
        with m.If(self.start):
            m.d.sync += [state.eq(SEED), newest.eq(0), self.busy.eq(1)]
            m.d.sync += left.eq(self._information.plan.operations)
        with m.If(late):
            m.d.sync += [left.eq(0), missing.eq(0), self.i.valid.eq(0)]
        self._elaborate_signature(m, answered & ~cleared & self.busy)
        return m

    def _elaborate_quiet(self, m, moves):
        """Count the cycles without progress; return the count, and whether it is too high."""
        quiet, late = Signal(range(self._patience + 1)), Signal()
        m.d.sync += late.eq((quiet == self._patience - 1) & ~moves)
        with m.If(moves):
            m.d.sync += quiet.eq(0)
        with m.Elif(quiet != self._patience):
            m.d.sync += quiet.eq(quiet + 1)
        return quiet, late

    def _elaborate_ticks(self, m, state, left, idle, quiet):
        """Tick before some operations; return whether the next operation may enter."""
        if not self._least_period:
            return Const(1)
        wanted, ticked, waited = Signal(), Signal(), Signal()
        bits = self._information.plan.tick_bits
        m.d.comb += wanted.eq(state[TICK_AT : TICK_AT + bits] == 0)
        m.d.sync += [self.tick.eq(0), waited.eq((quiet >= self._least_period) & ~self.tick)]
        with m.If(wanted & ~ticked & idle & (left != 0) & ~self.start):
            m.d.sync += [self.tick.eq(1), ticked.eq(1), waited.eq(0)]
        with m.If(self.start):
            m.d.sync += ticked.eq(0)
        may = ~wanted | (ticked & waited)
        with m.If(may & (~self.i.valid | self.i.ready)):
            m.d.sync += ticked.eq(0)
        return may

    def _elaborate_operation(self, m, state, newest, clearing):
        """Offer the operation of a state; assert `clearing` with a CLEAR."""
        information, plan = self._information, self._information.plan
        kind, near = state[:KIND_BITS], state[KIND_BITS : KIND_BITS + NEAR_BITS] == 0
        rare = {bits: state[RARE_AT : RARE_AT + bits] == 0
                for bits in (plan.clear_bits, plan.shift_bits)}  # fmt: skip
        distance = state[DISTANCE_AT : DISTANCE_AT + plan.distance_bits]
        distance = Mux(near, state[DISTANCE_AT : DISTANCE_AT + NEAR_DISTANCE_BITS], distance)
        fresh = kind < FRESH
        number = (newest + Mux(fresh, 1, -distance))[:NUMBER_BITS]
        copies = -(-information.key_bits // NUMBER_BITS)
        m.d.sync += [
            newest.eq(newest + fresh),
            self.i.p.key.eq(Cat(number for _ in range(copies))),
            self.i.p.operation.eq(Operation.QUERY),
        ]
        chosen = [(kind < AGAIN, Operation.CHECK_AND_INSERT),
                  ((kind == CLEAR) & rare[plan.clear_bits], Operation.CLEAR)]  # fmt: skip
        if information.shifts:
            chosen.append(((kind == SHIFT) & rare[plan.shift_bits], Operation.SHIFT))
        if information.removes:
            chosen.append((kind == REMOVE, Operation.REMOVE))
        for condition, operation in chosen:
            with m.If(condition):
                m.d.sync += self.i.p.operation.eq(operation)
                m.d.sync += clearing.eq(operation is Operation.CLEAR)
        longest = information.longest
        drawn = state[WINDOW_AT : WINDOW_AT + longest.bit_length()]
        if "query_class" in information.request:
            m.d.sync += self.i.p.query_class.eq(Mux(drawn > longest, 0, drawn))
        elif "window" in information.request:
            m.d.sync += self.i.p.window.eq(Mux((drawn > longest) | (drawn == 0), longest, drawn))

    def _elaborate_signature(self, m, counts):
        """Compute the CRC of the result records, one record per cycle."""
        record = result_bytes(self.o.p, self._information)
        m.submodules.crc = crc = catalog.CRC32_ISO_HDLC(data_width=len(record)).create()
        valid, data = Signal(), Signal(len(record))
        m.d.sync += [valid.eq(counts), data.eq(record)]
        m.d.comb += [
            crc.start.eq(self.start),
            crc.valid.eq(valid),
            crc.data.eq(data),
            self.crc.eq(crc.crc),
        ]


def _advanced(m, state):
    """Return the next state of the generator."""
    left, right, again = SHIFTS
    first, second = Signal(64), Signal(64)
    m.d.comb += [first.eq(state ^ (state << left)), second.eq(first ^ (first >> right))]
    return (second ^ (second << again))[:64]

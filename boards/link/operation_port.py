"""Port of operations of a board: records of operations in, records of results out."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ...golden.operations import Operation
from .information import whole_bytes

_MOST_MISSING = 255
"""Maximum operations of a request."""


def result_bytes(result, information):
    """Return the record of a result, in the format of `Information.unpack_results`.

    Parameters
    ----------
    result : View
        Payload of a unit's result.
    information : Information
        Description of the board.
    """
    parts = []
    for size, names in information.result_parts:
        low = Cat(getattr(result, name) for name in names if name != "seen")
        high = [result.seen] if "seen" in names else []
        parts.append(Cat(low, Const(0, 8 * size - len(low) - len(high)), *high))
    return Cat(parts)


class OperationPort(wiring.Component):
    """Converts records of bytes to operations, and results to records of bytes.

    An unknown operation becomes NONE. Bits of a key or window beyond its width are ignored.

    Parameters
    ----------
    unit : Component
        With a `lately.hdl.interface.UnitSignature` of one lane.
    information : Information
        Description of the board.

    Members
    -------
    i, o
        Streams of the unit, with opposite directions.
    operations : In(stream.Signature(8))
    results : Out(stream.Signature(8))
    begin : In(1)
        The next byte of `operations` is the first of a record.
    idle : Out(1)
        No result is outstanding.
    """

    def __init__(self, unit, information):
        self._information = information
        super().__init__(
            {
                "i": Out(stream.Signature(unit.signature.request)),
                "o": In(stream.Signature(unit.signature.result)),
                "operations": In(stream.Signature(8)),
                "results": Out(stream.Signature(8)),
                "begin": In(1),
                "idle": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        missing = Signal(range(_MOST_MISSING + 1))
        sent = self._elaborate_results(m)
        accepted = self.i.valid & self.i.ready
        m.d.sync += [
            missing.eq(missing + accepted - sent),
            self.idle.eq((missing == 0) & ~self.i.valid),
        ]
        self._elaborate_operations(m)
        return m

    def _elaborate_operations(self, m):
        """Collect the bytes of a record, and offer its operation."""
        information = self._information
        size, key = information.record_bytes, 8 * whole_bytes(information.key_bits)
        record, position = Signal(8 * size), Signal(range(size))
        code = record[:8]
        known = [one for one in Operation if one is not Operation.REMOVE or information.removes]
        m.d.comb += [
            self.operations.ready.eq(~self.i.valid),
            self.i.p.operation.eq(Mux(code.matches(*known), code, Operation.NONE)),
            self.i.p.key.eq(record[8 : 8 + key]),
        ]
        for name in ("window", "query_class"):
            if name in information.request:
                m.d.comb += getattr(self.i.p, name).eq(record[8 + key :])
        with m.If(self.i.ready):
            m.d.sync += self.i.valid.eq(0)
        with m.If(self.operations.valid & self.operations.ready):
            m.d.sync += [
                record.eq(Cat(record[8:], self.operations.payload)),
                position.eq(position + 1),
            ]
            with m.If(position == size - 1):
                m.d.sync += [position.eq(0), self.i.valid.eq(1)]
        with m.If(self.begin):
            m.d.sync += position.eq(0)

    def _elaborate_results(self, m):
        """Send the bytes of results; return whether the last byte of a result is accepted."""
        size = self._information.result_bytes
        record, left = Signal(8 * size), Signal(range(size + 1))
        m.d.comb += [
            self.o.ready.eq(left == 0),
            self.results.valid.eq(left != 0),
            self.results.payload.eq(record[:8]),
        ]
        taken = self.results.valid & self.results.ready
        with m.If(taken):
            m.d.sync += [record.eq(record >> 8), left.eq(left - 1)]
        with m.If(self.o.valid & self.o.ready):
            m.d.sync += [record.eq(result_bytes(self.o.p, self._information)), left.eq(size)]
        return taken & (left == 1)

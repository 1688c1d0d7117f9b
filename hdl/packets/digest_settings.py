"""Settings of digests, which change between frames."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ...golden.hash.siphash import SECRET_BITS
from ...golden.packets.comparison import DEFAULT_FIELDS, HARDWARE_FIELDS

MOST_UNDER_WAY = 63
"""Default maximum of frames whose digests are in progress."""


class DigestSettings(wiring.Component):
    """Keeps fields and secret stable from the first beat of a frame to its digest.

    After a change, no frame may begin until the digests of all earlier frames are complete. Then
    the change takes effect.

    Members
    -------
    fields : In(5)
    secret : In(stream.Signature(128))
    begins, ends : In(1)
        A frame begins; a digest is complete.
    open : Out(1)
        Frames may begin.
    steady_fields, steady_secret : Out
        Settings in effect. The secret is 0 after reset.
    """

    def __init__(self, most=MOST_UNDER_WAY):
        self._most = most
        super().__init__(
            {
                "fields": In(len(HARDWARE_FIELDS)),
                "secret": In(stream.Signature(SECRET_BITS)),
                "begins": In(1),
                "ends": In(1),
                "open": Out(1, init=1),
                "steady_fields": Out(len(HARDWARE_FIELDS), init=DEFAULT_FIELDS.value),
                "steady_secret": Out(SECRET_BITS),
            }
        )

    def elaborate(self, platform):
        m = Module()
        under_way = Signal(range(self._most + 1))
        m.d.sync += self.open.eq(~(self.secret.valid | (self.fields != self.steady_fields)))
        with m.If(self.begins ^ self.ends):
            m.d.sync += under_way.eq(Mux(self.ends, under_way - 1, under_way + 1))
        with m.If(~self.open & (under_way == 0)):
            m.d.comb += self.secret.ready.eq(1)
            m.d.sync += [self.steady_fields.eq(self.fields), self.open.eq(1)]
            with m.If(self.secret.valid):
                m.d.sync += self.steady_secret.eq(self.secret.payload)
        return m

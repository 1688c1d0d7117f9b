"""Innermost layer 3 of Ethernet frames: golden `inner_layers` in hardware."""

from itertools import pairwise

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ...golden.packets.packet_layers import MOST_HEADERS, MOST_READ, UNKNOWN_END
from ..latencies import QUEUE_LATENCY
from ..pipeline import delayed, registered
from ..queue import ResultQueue
from .frames import BEAT_BYTES, FrameBeat
from .header_parser import BEGIN_BITS, FoundLayers
from .inner_step import InnerStep, begin_walk


class InnerParser(wiring.Component):
    """Finds the innermost layer 3 of Ethernet frames from their beats, at most one per cycle.

    Each step of a ring parses one header. A frame goes around the ring until `MOST_HEADERS` steps
    are done. With one step for each 64 bits of a beat, frames of 60 bytes enter at full rate.

    Layers are found in the order of frames. With beats of 512 bits they are found a fixed time
    after beat `decisive` of a frame, or after the last beat of a shorter frame. With narrower beats
    this may take another turn of the ring. Frames shorter than 60 bytes may wait.

    Parameters
    ----------
    width : int
        Bits of a beat.
    beats : int
        Number of stored beats, a power of two. The layers of a frame must be found before this
        number of beats has followed its first beat.
    frames : int
        Maximum number of waiting frames, a power of two.

    Members
    -------
    valid, beat : In(1), In(FrameBeat(width))
    found_valid, found : Out(1), Out(FoundLayers(inner=True))
    """

    def __init__(self, width, *, beats, frames):
        self._width = width
        self._frames = frames
        self._steps = width // (8 * BEAT_BYTES)
        self._turns = MOST_HEADERS // self._steps
        self._size = width // 8
        self.decisive = (MOST_READ - 1) // self._size
        self._cycles = InnerStep.LATENCY * self._steps + 1
        # A frame that passes the ring once waits only for the queue, and needs no more beats.
        once = self.decisive + 1 + QUEUE_LATENCY + self._cycles
        self._beats = beats if self._turns > 1 else min(beats, 1 << (once - 1).bit_length())
        super().__init__(
            {
                "valid": In(1),
                "beat": In(FrameBeat(width)),
                "found_valid": Out(1),
                "found": Out(FoundLayers(inner=True)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        base_bits = (self._beats - 1).bit_length()
        m.submodules.waiting = waiting = ResultQueue(
            depth=self._frames, tag_bits=0, verdict_bits=base_bits + BEGIN_BITS, distributed=True
        )
        steps = [InnerStep(self._width, self._beats) for _ in range(self._steps)]
        self._collect(m, steps, waiting)
        enters, turn = Signal(), Signal(range(self._turns))
        for number, step in enumerate(steps):
            m.submodules[f"step{number}"] = step
        for step, following in pairwise(steps):
            m.d.comb += following.i.eq(step.o)
        ends = steps[-1].o
        valid = delayed(m, enters, self._cycles, "valid")
        turns = delayed(m, turn, self._cycles, "turn", reset_less=True)
        stays = valid & (turns != self._turns - 1)
        start = begin_walk(base_bits, waiting.o.p[:base_bits], waiting.o.p[base_bits:])
        m.d.comb += [
            waiting.o.ready.eq(~stays),
            enters.eq(stays | waiting.o.valid),
            turn.eq(Mux(stays, turns + 1, 0)),
            steps[0].i.eq(registered(m, Mux(stays, ends, start), "walk", reset_less=True)),
            self.found_valid.eq(registered(m, valid & ~stays, "found_now")),
            self.found.eq(registered(m, _found(ends), "found_layers", reset_less=True)),
        ]
        return m

    def _collect(self, m, steps, waiting):
        """Keep the beats; have a frame wait when as much of it as is read has come."""
        address, base = Signal(len(steps[0].address)), Signal(len(steps[0].address))
        index = Signal(range(self.decisive + 2))
        decided, reach = Signal(), Signal(BEGIN_BITS)
        last, size = self.beat.last, self.beat.size
        writes = registered(m, self.valid, "writes")
        target = registered(m, address, "target", reset_less=True)
        word = registered(m, self.beat.data, "word", reset_less=True)
        for step in steps:
            m.d.comb += [step.write.eq(writes), step.address.eq(target), step.word.eq(word)]
        m.d.sync += [
            decided.eq(self.valid & ((index == self.decisive) | (last & (index < self.decisive)))),
            reach.eq(Cat(size | ~last.replicate(len(size)), index) + 1),
        ]
        with m.If(self.valid):
            m.d.sync += [
                address.eq(address + 1),
                index.eq(Mux(last, 0, index + (index <= self.decisive))),
            ]
            with m.If(index == 0):
                m.d.sync += base.eq(address)
        m.d.comb += waiting.valid_next.eq(decided)
        m.d.comb += waiting.verdict.eq(registered(m, Cat(base, reach), "known", reset_less=True))


def _found(walk):
    """Return the layers at the end of the search."""
    values = {
        "half": walk.half,
        "count": walk.outer,
        "tags": Cat(tag & (walk.outer > n).replicate(len(tag)) for n, tag in enumerate(walk.tags)),
        "open": walk.last == UNKNOWN_END,
        "end": (walk.last - 1)[: len(walk.last)],
        "malformed": walk.malformed,
        "begin": walk.begin,
        "lenient": walk.lenient,
    }
    layout = FoundLayers(inner=True)
    return data.View(layout, Cat(values[name] for name, _ in layout))

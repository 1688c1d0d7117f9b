"""Memories of cells for simulation, with noise wherever their ports promise nothing."""

import itertools
import random

from amaranth.hdl import Cat, Mux, Signal

from lately.hdl.memory.cells import PortableCellMemory


def noise(m, seed):
    """Return a word that is another in each clock."""
    word = Signal(64, init=0x9E3779B97F4A7C15)
    m.d.sync += word.eq(Cat(word[63] ^ word[62] ^ word[60] ^ word[59], word[:-1]) ^ seed)
    return word


def read(m, port, write, mask=0):
    """Return what a port reads, which is noise where a write meets it, by a mask another."""
    met, word = Signal(), noise(m, port.addr)
    m.d.sync += met.eq(write.en & (port.addr == write.addr))
    return Mux(met, (word ^ mask)[: len(port.data)], port.data)


class Filled:
    """Mixin of memories that hold bits at random at first, as no reset clears them."""

    def __init__(self, *, mask=0, **shape):
        super().__init__(**shape)
        draw = random.Random(f"{shape} {mask}")
        self.words.init = [draw.getrandbits(shape["width"]) for _ in range(shape["depth"])]


class GarbageMemory(Filled, PortableCellMemory):
    """Memory that answers with any word where that is undefined."""

    def _read(self, m, port, write):
        return read(m, port, write)


def with_own_garbage(kind):
    """Return a kind of memory each of which answers with garbage of its own."""
    masks = itertools.count(1)

    class Own(kind):
        def __init__(self, **shape):
            self._mask = next(masks)
            super().__init__(mask=self._mask, **shape)

        def _read(self, m, port, write):
            return read(m, port, write, mask=self._mask)

    return Own

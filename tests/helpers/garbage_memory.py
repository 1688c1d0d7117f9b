"""Memories of cells for simulation, with noise wherever their ports promise nothing."""

from amaranth.hdl import Cat, Mux, Signal

from lately.hdl.memory.cells import PortableCellMemory, PortableReadBeforeWriteMemory


def noise(m, seed):
    """Return a word that is another in each clock."""
    word = Signal(64, init=0x9E3779B97F4A7C15)
    m.d.sync += word.eq(Cat(word[63] ^ word[62] ^ word[60] ^ word[59], word[:-1]) ^ seed)
    return word


def read(m, port, *writes):
    """Return what a port reads, which is noise where a write meets it."""
    met, word = Signal(), noise(m, port.addr)
    m.d.sync += met.eq(Cat(write.en & (port.addr == write.addr) for write in writes).any())
    return Mux(met, word[: len(port.data)], port.data)


class GarbageMemory(PortableCellMemory):
    """Memory that answers with any word where that is undefined."""

    def _read(self, m, port, *writes):
        return read(m, port, *writes)


class GarbageExchange(PortableReadBeforeWriteMemory):
    """The same that reads before it writes; keeps any word where both ports write."""

    def _read(self, m, port, *writes):
        return read(m, port, *writes)

    def _written(self, m, value, both):
        return Mux(both, noise(m, self.b_address)[: len(value)], value)

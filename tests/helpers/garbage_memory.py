"""Memory of cells for simulation, with noise wherever its ports promise nothing."""

from amaranth.hdl import Cat, Mux, Signal

from lately.hdl.memory.cells import PortableCellMemory


class GarbageMemory(PortableCellMemory):
    """Memory that answers with any word where that is undefined."""

    def _read(self, m, read, write):
        met, noise = Signal(), Signal(64, init=0x9E3779B97F4A7C15)
        turned = Cat(noise[63] ^ noise[62] ^ noise[60] ^ noise[59], noise[:-1]) ^ read.addr
        m.d.sync += [met.eq(write.en & (read.addr == write.addr)), noise.eq(turned)]
        return Mux(met, noise[: len(read.data)], read.data)

"""A LiteX system with a filter on its bus, for a host that is connected to the bus from outside.

    lately export --preset tiny --name seen_lately --bus wishbone --out ip
    python seen_lately_soc.py

The filter's registers are at `REGISTERS`. `seen_lately.sink` takes keys and `seen_lately.source`
gives results; here no key is sent.
"""

import sys

from litex.build.generic_platform import GenericPlatform, Pins, Subsignal
from litex.gen import LiteXModule
from litex.soc.integration.soc import SoCRegion
from litex.soc.integration.soc_core import SoCMini
from litex.soc.interconnect import wishbone
from migen import ClockDomain

sys.path.insert(0, "ip")
from seen_lately_litex import SeenLately

REGISTERS = 0x1000_0000

HOST = {"adr": 30, "dat_w": 32, "dat_r": 32, "sel": 4, "cyc": 1, "stb": 1, "ack": 1, "we": 1,
        "err": 1, "cti": 3, "bte": 2}  # fmt: skip

PINS = [
    ("clk", 0, Pins(1)),
    ("rst", 0, Pins(1)),
    ("host", 0, *(Subsignal(name, Pins(width)) for name, width in HOST.items())),
]


class Clock(LiteXModule):
    """Clock and reset from pins."""

    def __init__(self, platform):
        self.cd_sys = ClockDomain()
        self.comb += [
            self.cd_sys.clk.eq(platform.request("clk")),
            self.cd_sys.rst.eq(platform.request("rst")),
        ]


class System(SoCMini):
    """Bus without a processor, with the host as its master."""

    def __init__(self, platform):
        self.crg = Clock(platform)
        super().__init__(platform, clk_freq=100_000_000)
        host = wishbone.Interface(data_width=32, adr_width=32, addressing="word")
        self.comb += host.connect_to_pads(platform.request("host"), mode="slave")
        self.bus.add_master("host", host)
        self.seen_lately = SeenLately(platform)
        self.comb += self.seen_lately.source.ready.eq(1)
        region = SoCRegion(REGISTERS, size=0x100)
        self.bus.add_slave("seen_lately", self.seen_lately.bus, region)


if __name__ == "__main__":
    platform = GenericPlatform("", PINS)
    platform.get_verilog(System(platform), name="seen_lately_soc").write("seen_lately_soc.v")

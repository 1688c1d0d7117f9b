"""Platform of the Tang Nano 20K, which is missing in amaranth-boards.

Pins and part are from ``litex_boards/platforms/sipeed_tang_nano_20k.py`` of LiteX-Boards, commit
0d2cdd69326d: clock, serial port, LEDs, buttons.
"""

from typing import Any

from amaranth.build import Attrs, Clock, Pins, Resource
from amaranth.vendor import GowinPlatform
from amaranth_boards.resources import ButtonResources, LEDResources, UARTResource


class TangNano20kPlatform(GowinPlatform):
    part = "GW2AR-LV18QN88C8/I7"
    family = "GW2AR-18C"
    default_clk = "clk27"
    resources: tuple[Any, ...] = (
        Resource("clk27", 0, Pins("4", dir="i"), Clock(27e6), Attrs(IO_TYPE="LVCMOS33")),
        *ButtonResources(pins="88 87", attrs=Attrs(IO_TYPE="LVCMOS33", PULL_MODE="DOWN")),
        *LEDResources(pins="15 16 17 18 19 20", invert=True, attrs=Attrs(IO_TYPE="LVCMOS33")),
        UARTResource(0, rx="70", tx="69", attrs=Attrs(IO_TYPE="LVCMOS33", PULL_MODE="UP")),
    )
    connectors: tuple[Any, ...] = ()

"""Platforms and resources that amaranth-boards lacks."""

from typing import Any

from amaranth.build import Attrs, Clock, Pins, PinsN, Resource, Subsignal
from amaranth.vendor import GowinPlatform
from amaranth_boards.resources import ButtonResources, LEDResources, UARTResource

from ...hdl.target_clocks import GMII_HZ

_PULLED_UP = Attrs(IO_TYPE="LVCMOS33", PULL_MODE="UP")


class TangNano20kPlatform(GowinPlatform):
    # Pins and part are from litex_boards/platforms/sipeed_tang_nano_20k.py of LiteX-Boards, commit
    # 0d2cdd69326d.
    part = "GW2AR-LV18QN88C8/I7"
    family = "GW2AR-18C"
    default_clk = "clk27"
    resources: tuple[Any, ...] = (
        Resource("clk27", 0, Pins("4", dir="i"), Clock(27e6), Attrs(IO_TYPE="LVCMOS33")),
        *ButtonResources(pins="88 87", attrs=Attrs(IO_TYPE="LVCMOS33", PULL_MODE="DOWN")),
        *LEDResources(pins="15 16 17 18 19 20", invert=True, attrs=Attrs(IO_TYPE="LVCMOS33")),
        UARTResource(0, rx="70", tx="69", attrs=_PULLED_UP),
    )
    connectors: tuple[Any, ...] = ()


def add_resources(platform: Any, board: str) -> None:
    if board == "icebreaker":
        platform.add_resources(platform.break_off_pmod)
    elif board == "upduino-v3":
        platform.default_clk = "clk12"
        attributes = Attrs(IO_STANDARD="SB_LVCMOS")
        platform.add_resources([UARTResource(0, rx="28", tx="38", attrs=attributes)])
    elif board == "orangecrab-25f":
        # The board has no USB serial chip, so pins 0 and 1 of its edge connector are used.
        attributes = Attrs(IO_TYPE="LVCMOS33", PULLMODE="UP")
        uart = UARTResource(0, rx="0", tx="1", conn=("io", 0), attrs=attributes)
        platform.add_resources([uart])
    elif board == "tang-nano-9k":
        # As in amaranth-boards, with a pull-up.
        button = Resource("reset_button", 0, PinsN("4", dir="i"), _PULLED_UP)
        platform.add_resources([button])
    elif board == "colorlight-5a-75b":
        # As in amaranth-boards, without the pins that the two PHYs share.
        platform.add_resources([
            _phy(0, rx_clk="M1", rx_ctl="N6", rx_data="N1 M5 N5 M6",
                 tx_clk="M2", tx_ctl="M3", tx_data="L1 L3 P2 L4"),
            _phy(1, rx_clk="M16", rx_ctl="L15", rx_data="P13 N13 P14 M15",
                 tx_clk="M12", tx_ctl="R15", tx_data="T14 R12 R13 R14"),
            Resource("phy_running", 0, Pins("P5", dir="o"), Attrs(IO_TYPE="LVCMOS33")),
        ])  # fmt: skip


def _phy(number: int, **pins: str) -> Resource:
    signals = []
    for name, names in pins.items():
        clock = [Clock(GMII_HZ)] if name == "rx_clk" else []
        signals.append(Subsignal(name, Pins(names, dir="i" if name[:2] == "rx" else "o"), *clock))
    return Resource("rgmii", number, *signals, Attrs(IO_TYPE="LVCMOS33"))

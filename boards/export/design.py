"""An exported unit: its component, Verilog text and ports."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from math import ceil
from typing import Any, NamedTuple

from amaranth.lib.wiring import In

from ... import __version__
from ...golden.errors import SpecificationError
from ...golden.packets.frame_actions import WIDTHS
from ...golden.spec.base import Specification
from ...hdl.build import filter_unit, unit_profile
from ...hdl.bus.controlled import BUSES, COUNTER_BITS, MARK_BITS, ControlledUnit
from ...hdl.bus.flat import AvalonUnit, AxisUnit, ExternUnit, FlatUnit, RawUnit
from ...hdl.bus.register_map import RegisterMap
from ...hdl.latencies import DEFAULT_LEVELS
from ...hdl.packets.deduplicator import AxisFrames, ControlledDeduplicator, Deduplicator
from ...hdl.packets.frames import FrameOptions
from ...hdl.profile import Profile
from ...hdl.target_clocks import target_mhz
from ..flow.devices import Device, device
from .folder import ExportError as ExportError
from .memories import RAM_STYLES, with_templates
from .verilog import keywords, verilog_text

WRAPS: dict[str, Callable[..., FlatUnit]] = {
    "axis": AxisUnit, "avalon-st": AvalonUnit, "raw": RawUnit, "extern": ExternUnit,
}  # fmt: skip

# Stream widths of frame deduplicators by wrap.
FRAMES = {f"frames-{width}": width for width in WIDTHS}

# Without a bus, settings and counters are ports.
NO_BUS = "none"

# Default synthesis device for each kind of memory.
DEVICES = {"portable": "ecp5-25k-6", "ecp5": "ecp5-25k-6", "ice40": "ice40-hx8k",
           "gowin": "gowin-gw1nr-9c"}  # fmt: skip

# Initial contents of memories called `words`. They are never read: units zero their memories after
# reset, and delays fill them first. yosys takes minutes to parse large ones.
ZEROES = re.compile(r" *initial begin\n(?: *words\[\d+\] = \d+'h0+;\n)+ *end\n")

# Vendor tools with scripts in exports, and the part for each supported device. For other devices,
# the first part is an example.
TOOLS = {
    "vivado": {
        "xc7a35t": "xc7a35tcpg236-1",
        "xc7a100t": "xc7a100tcsg324-1",
        "xc7k325t": "xc7k325tffg900-2",
        "xcku5p": "xcku5p-ffvb676-2-e",
        "xczu7ev": "xczu7ev-ffvc1156-2-e",
        "xcu50": "xcu50-fsvh2104-2-e",
        "xcu55c": "xcu55c-fsvh2892-2L-e",
    },
    "quartus": {"5ceba4": "5CEBA4F23C7"},
    "radiant": {
        "lifcl-40": "LIFCL-40-7BG400I",
        "lifcl-17": "LIFCL-17-7BG256I",
        "lfcpnx-100": "LFCPNX-100-9LFG672I",
    },
    "diamond": {
        "ecp5-25k-6": "LFE5U-25F-6BG256C",
        "ecp5-12k-6": "LFE5U-12F-6BG256C",
        "ecp5-25k-7": "LFE5U-25F-7BG256C",
        "ecp5-25k-8": "LFE5U-25F-8BG256C",
        "ecp5-45k-6": "LFE5U-45F-6BG256C",
        "ecp5-45k-8": "LFE5U-45F-8BG256C",
        "ecp5-um5g-45k-8": "LFE5UM5G-45F-8BG381C",
        "ecp5-85k-6": "LFE5U-85F-6BG381C",
        "ecp5-85k-8": "LFE5U-85F-8BG381C",
        "lcmxo2-7000": "LCMXO2-7000HC-5TG144C",
        "lcmxo3lf-6900": "LCMXO3LF-6900C-6BG256C",
    },
    # Device name with version, then the part, as `set_device` expects them.
    "gowin": {
        "gowin-gw2ar-18c": "GW2AR-18C GW2AR-LV18QN88C8/I7",
        "gowin-gw1nr-9c": "GW1NR-9C GW1NR-LV9QN88PC6/I5",
        "gw5a-25a": "GW5A-25A GW5A-LV25MG121NES",
        "gw5ast-138c": "GW5AST-138C GW5AST-LV138PG484AC1/I0",
    },
    "efinity": {"t20": "T20F256"},
    "libero": {"mpf100t": "MPF100T"},
}

# Clock in MHz by stream width, for 1 and 10 Gb/s Ethernet; wider streams carry higher rates.
LINE_MHZ = {8: 125.0} | dict.fromkeys((64, 128, 256, 512), 156.25)

MAX_TAG_BITS = 64
_NAME = re.compile(r"[A-Za-z](?:_?[A-Za-z0-9])*")


def check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise ExportError(
            "name: must begin with a letter and contain only letters, digits and single "
            f"underscores, not {name!r}"
        )
    if name.lower() in keywords():
        raise ExportError(f"name: {name!r} is a keyword of Verilog, VHDL or Python")


def release() -> tuple[int, int, int]:
    major, minor, patch, *_ = map(int, re.findall(r"\d+", f"{__version__}.0.0"))
    return major, minor, patch


class Port(NamedTuple):
    name: str
    inward: bool
    width: int

    @property
    def range(self) -> str:
        return f"[{self.width - 1}:0]" if self.width > 1 else ""


@dataclass(frozen=True, kw_only=True)
class Design:
    """A unit to export and the settings of the export.

    Unsupported settings raise `ExportError` or `SpecificationError`.
    """

    spec: Specification
    name: str  # name of the module, and prefix of all files
    wrap: str = "axis"  # one of `WRAPS` or `FRAMES`
    bus: str = NO_BUS  # `NO_BUS` or one of `BUSES`
    memory: str = "portable"
    target: str | None = None  # device for scripts and clock; None: example devices
    tick: Fraction | None = None  # tick in seconds for which the filter was planned
    tag_bits: int = 8  # width of the tag, without TLAST
    tlast: bool = False  # whether the streams have TLAST
    levels: int = DEFAULT_LEVELS
    protect: str = "none"
    ram_style: str = "auto"  # memory attribute for the tools, one of `RAM_STYLES`
    initial_values: bool = True  # initial values of registers; without them, a reset is required
    tools: Sequence[str] = ()  # tools from `TOOLS` for which scripts are written
    options: dict[str, Any] = field(default_factory=dict)  # unit or deduplicator
    models: Sequence[str] = ()  # simulation models of block RAMs, in compilation order

    def __post_init__(self) -> None:
        check_name(self.name)
        for name, value, known in (
            ("wrap", self.wrap, [*WRAPS, *FRAMES]),
            ("bus", self.bus, [*BUSES, NO_BUS]),
            *(("tool", tool, TOOLS) for tool in self.tools),
            ("ram_style", self.ram_style, RAM_STYLES),
        ):
            if value not in known:
                raise ExportError(f"{name}: must be one of {', '.join(known)}, not {value!r}")
        if self.tlast and self.wrap != "axis":
            raise ExportError(f"tlast cannot be combined with wrap {self.wrap!r}")
        if self.tag_bits > MAX_TAG_BITS:
            raise ExportError(f"tag_bits: must be at most {MAX_TAG_BITS}, not {self.tag_bits}")
        if self.ram_style != "auto" and self._kind != "portable":
            raise ExportError(
                f"ram_style {self.ram_style!r} cannot be combined with memory {self.memory!r}"
            )
        if self._kind in DEVICES.keys() - {"portable", self.device.family}:
            raise ExportError(
                f"memory: must be 'portable' or {self.device.family!r} for {self.device.name}, "
                f"not {self.memory!r}"
            )

    @property
    def _kind(self) -> str:
        return self.memory.split("-")[0]

    @property
    def device(self) -> Device:
        return device(self.target or DEVICES.get(self._kind, DEVICES["portable"]))

    @property
    def clock_mhz(self) -> float | None:
        """Clock in MHz of the Ethernet line, or else of the target device; None if unknown."""
        if self.frames:
            return LINE_MHZ[FRAMES[self.wrap]]
        return target_mhz(self.device.name) if self.target and self.device.placed else None

    @property
    def planned_period(self) -> int | None:
        """Clock cycles per `tick`, rounded up; None if the tick or the clock is unknown."""
        if self.tick is None or self.clock_mhz is None:
            return None
        return ceil(self.tick * Fraction(self.clock_mhz) * 10**6)

    def part(self, tool: str) -> str:
        parts = TOOLS[tool]
        return parts.get(self.device.name if self.target else "", next(iter(parts.values())))

    @property
    def frames(self) -> bool:
        return self.wrap in FRAMES

    @property
    def waits(self) -> bool:
        """Whether the streams have a `ready` signal and so support back-pressure."""
        return self.wrap != "extern"

    @property
    def input_waits(self) -> bool:
        return self.frame_options.tready if self.frames else self.waits

    @cached_property
    def component(self) -> FlatUnit:
        if self.frames:
            return AxisFrames(self.unit)
        return AxisUnit(self.unit, last=True) if self.tlast else WRAPS[self.wrap](self.unit)

    @cached_property
    def unit(self) -> Any:
        try:
            return self._make_unit()
        except SpecificationError:
            raise
        except ValueError as error:
            # An option that this kind of unit does not have.
            raise ExportError(str(error)) from None

    def _make_unit(self) -> Any:
        has_bus = self.bus != NO_BUS
        options = {"statistics_bits": COUNTER_BITS} | self.options if has_bus else self.options
        version = release()
        if self.frames:
            if self.planned_period is not None and options.get("ticks") != "tick":
                options = {"period": self.planned_period} | options
            if self.target or self._kind != "portable":
                options = {"table_bits": self.device.lut_address_bits} | options
            frames = Deduplicator(self.spec, width=FRAMES[self.wrap], **self._shape, **options)
            if not has_bus:
                return frames
            return ControlledDeduplicator(frames, bus=self.bus, version=version)
        tag_bits = self.tag_bits + self.tlast + MARK_BITS * has_bus
        unit = filter_unit(self.spec, **self._shape, tag_bits=tag_bits, **options)
        if not has_bus:
            return unit
        status = {"status_bits": self.tag_bits, "waits": self.waits}
        return ControlledUnit(unit, spec=self.spec, bus=self.bus, version=version, **status)

    @property
    def frame_options(self) -> FrameOptions:
        return FrameOptions.taken_from({"width": FRAMES[self.wrap], **self.options})

    @property
    def registers(self) -> RegisterMap | None:
        return getattr(self.unit, "registers", None)

    @property
    def ports(self) -> list[Port]:
        component = self.component
        return [
            Port(name, member.flow is In, len(getattr(component, name)))
            for name, member in component.signature.members.items()
        ]

    @property
    def digest(self) -> str:
        return self.spec.fingerprint.hex()

    @property
    def profile(self) -> Profile:
        return unit_profile(self.spec, **self._shape)

    @property
    def _shape(self) -> dict[str, Any]:
        return {"memory": self.memory, "levels": self.levels, "protect": self.protect}

    @cached_property
    def verilog(self) -> str:
        """Verilog of the module and of its submodules, which have the module's name as a prefix."""
        text = verilog_text(self.component, self.name, initial_values=self.initial_values)
        return ZEROES.sub("", with_templates(text, self.ram_style))

"""Synthesise, place and route units, and report area and timing."""

import os
import re
import tempfile
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from math import ceil, inf
from pathlib import Path
from typing import Any

from amaranth.back import rtlil
from amaranth.lib import wiring

from ...golden.spec.base import Specification
from ...hdl.build import filter_unit, unit_profile
from ...hdl.target_clocks import target_mhz as default_target
from .devices import COUNTED, Device, device_memory
from .limits import block_ports, lowest_limit, undocumented
from .timing_harness import TimingHarness
from .tools import TIME_LIMIT, Flow, Progress, SynthesisError, refuse_excess, versions

_CELL_SUFFIX = re.compile(
    r"_(TRELLIS_FF|FD1P3[A-Z]{2}|SB_DFF[A-Z]*|DFFN?[SRPC]?E?)_Q.*$|_(DFF)?LC$"
)


@dataclass(frozen=True, kw_only=True)
class Resources:
    lut: int
    ff: int
    bram: int
    usram: int = 0

    def fields(self) -> dict[str, Any]:
        return {kind: count for kind, count in asdict(self).items() if count or kind != "usram"}


@dataclass(frozen=True, kw_only=True)
class Placement:
    device: str
    seed: int  # placement seed
    # Maximum clock in MHz by static timing after routing: slowest path between registers.
    timing_mhz: float
    # Maximum clock in MHz that the vendor permits with these block RAMs; None if no limit with a
    # source is known.
    limit_mhz: float | None
    limit: str  # part of the device with this limit, see `Limit.name`
    # Counts in the netlist before placement. A carry cell counts as the 4-input LUTs that it
    # occupies: two on ECP5, one on Gowin.
    lut: int
    ff: int
    bram: int
    # nextpnr's cell counts by type, including cells added for routing and carry chains.
    utilisation: dict[str, int]
    critical_path: str  # text from `describe_critical_path`
    versions: dict[str, str]  # versions of the tools and libraries on PyPI
    caveat: str = ""  # remark about the timing, or empty

    @property
    def fmax_mhz(self) -> float:
        """Maximum clock in MHz that both static timing and the vendor permit."""
        return min(self.timing_mhz, self.limit_mhz or inf)

    @property
    def limited_by(self) -> str:
        return self.limit if (self.limit_mhz or inf) < self.timing_mhz else "timing"

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {"fmax_mhz": self.fmax_mhz, "limited_by": self.limited_by}


@dataclass(frozen=True, kw_only=True)
class CountReport(Resources):
    """Cell counts of a unit that was synthesised but not placed."""

    device: str
    lanes: int = 1  # operations that the unit accepts per cycle
    latency_cycles: int | None = None  # cycles from an operation to its result
    versions: dict[str, str]  # versions of the tools and libraries on PyPI
    figures: str = COUNTED

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class SynthesisReport(Placement):
    """Maximum clock and cell counts of a placed unit; the counts exclude the harness."""

    harness_lut: int
    harness_ff: int
    lanes: int = 1  # operations that the unit accepts per cycle
    latency_cycles: int | None = None  # cycles from an operation to its result, if given

    @property
    def operations_per_second(self) -> float:
        return self.fmax_mhz * 1e6 * self.lanes

    @property
    def latency_ns(self) -> float | None:
        return None if self.latency_cycles is None else self.latency_cycles * 1e3 / self.fmax_mhz

    def to_dict(self) -> dict[str, Any]:
        return super().to_dict() | {
            "operations_per_second": self.operations_per_second,
            "latency_ns": self.latency_ns,
        }


def synthesize(
    unit: wiring.Component,
    *,
    device: Device,
    seed: int = 1,
    directory: str | os.PathLike[str] | None = None,
    target_mhz: float | None = None,
    time_limit: float = TIME_LIMIT,
    progress: Progress | None = None,
    netlists: Path | None = None,
) -> SynthesisReport | CountReport:
    """Synthesise, place and route a unit, and report its area and timing.

    On a device that nextpnr does not support, the unit is only synthesised and its cells are
    counted. The unit is timed inside a `TimingHarness`. nextpnr aims for `target_mhz`, by default
    the vendor's limit for the unit. A tool may run for `time_limit` seconds. `directory` receives
    ``top.il``, ``netlist.json``, ``report.json`` and the tools' logs; on failure it stays empty.
    The folder `netlists` caches netlists, without logs, for other seeds.

    Raises DoesNotFitError if the device is too small, and SynthesisError if a tool is missing,
    fails or reaches the time limit, or if no path can be timed.
    """
    with tempfile.TemporaryDirectory(prefix="lately-") as name:
        flow = Flow(Path(name), device, progress, time_limit=time_limit)
        netlist = flow.synthesise(_convert(unit, device), netlists)
        cells, harness = count_resources(netlist, device)
        check_fit(device, cells, harness)
        if not device.placed:
            if directory is not None:
                flow.keep(Path(directory))
            return CountReport(device=device.name, versions=versions(device), **cells.fields())
        flow.complete(netlist, getattr(unit, "floorplan_groups", ()))
        limit = lowest_limit(device.name, block_ports(netlist)).mhz
        target = default_target(device.name) if limit == inf else ceil(limit)
        timing = flow.place_and_route(seed, target_mhz or target)
        flow.report("timing", 1.0)
        if directory is not None:
            flow.keep(Path(directory))
    return SynthesisReport(
        **placement(device, netlist, timing),
        **cells.fields(),
        seed=seed,
        harness_lut=harness.lut,
        harness_ff=harness.ff,
    )


def placement(
    device: Device, netlist: dict[str, Any], timing: dict[str, Any], unit: str = "unit"
) -> dict[str, Any]:
    clock, mhz = slowest_clock(timing)
    used = {kind: count["used"] for kind, count in timing["utilization"].items() if count["used"]}
    ports = block_ports(netlist)
    limit = lowest_limit(device.name, ports)
    return {
        "device": device.name,
        "timing_mhz": mhz,
        "utilisation": used,
        "critical_path": describe_critical_path(timing, clock, unit),
        "versions": versions(device),
        "limit_mhz": None if limit.mhz == inf else limit.mhz,
        "limit": limit.name,
        "caveat": "; ".join(filter(None, (device.caveat, undocumented(device.name, ports)))),
    }


def synthesize_unit(
    spec: Specification,
    *,
    device: Device,
    memory: str | None = None,
    strict: bool = False,
    protect: str = "none",
    self_check: bool = False,
    **options: Any,
) -> SynthesisReport | CountReport:
    """Synthesise the unit of a specification; `options` are passed on to `synthesize`."""
    clock = options.get("target_mhz")
    unit = filter_unit(
        spec,
        memory=memory or device_memory(device, spec, strict=strict),
        levels=device.levels_at(clock),
        protect=protect,
        self_check=self_check,
    )
    figures = {"lanes": unit_profile(spec).lanes, "latency_cycles": unit.latency}
    return replace(synthesize(unit, device=device, **options), **figures)


def count_unit(spec: Specification, *, device: Device) -> Resources:
    unit = filter_unit(spec, memory=device_memory(device, spec), levels=device.levels)
    return count_cells(unit, device)


def count_cells(unit: wiring.Component, device: Device) -> Resources:
    """Synthesise a unit and count its cells, without placing it."""
    device = replace(device, place_and_route=())
    with tempfile.TemporaryDirectory(prefix="lately-") as name:
        netlist = Flow(Path(name), device).synthesise(_convert(unit, device))
    return count_resources(netlist, device)[0]


def _convert(unit: wiring.Component, device: Device) -> str:
    harness = TimingHarness(unit, reset=device.family == "ice40")
    # No source locations, so that the text does not depend on the path of the checkout.
    return rtlil.convert(harness, name="top", ports=harness.ports, emit_src=False)


# Resources


def count_resources(netlist: dict[str, Any], device: Device) -> tuple[Resources, Resources]:
    kept = [module for name, module in netlist.items() if name.startswith("top.unit")]
    top = _count([netlist["top"]], device)
    return (_count(kept, device), top) if kept else (top, Resources(lut=0, ff=0, bram=0))


def _count(modules: Iterable[dict[str, Any]], device: Device) -> Resources:
    kinds = Counter(cell["type"] for module in modules for cell in module["cells"].values())
    return Resources(
        **{
            kind: sum(device.count(kind, cell) * number for cell, number in kinds.items())
            for kind in device.cells
        }
    )


def check_fit(device: Device, *needed: Resources) -> None:
    kinds = {"bram": "block RAMs", "usram": "uSRAMs", "lut": "LUTs", "ff": "flip-flops"}
    counts = (
        (name, sum(getattr(part, kind) for part in needed), getattr(device, kind))
        for kind, name in kinds.items()
    )
    refuse_excess(device, counts)


# Timing


def slowest_clock(report: dict[str, Any]) -> tuple[str, float]:
    if not report["fmax"]:
        raise SynthesisError("the unit has no register-to-register path, so its clock is unknown")
    clock = min(report["fmax"], key=lambda name: report["fmax"][name]["achieved"])
    return clock, round(report["fmax"][clock]["achieved"], 2)


def describe_critical_path(report: dict[str, Any], clock: str, unit: str = "unit") -> str:
    steps = next(
        entry["path"]
        for entry in report["critical_paths"]
        if entry["from"].endswith(f" {clock}") and entry["to"].endswith(f" {clock}")
    )
    routing = sum(step["delay"] for step in steps if step["type"] == "routing")
    total = sum(step["delay"] for step in steps)
    start, end = steps[0]["from"], steps[-1]["to"]
    cells = [step["from"]["cell"] for step in steps if step["type"] == "logic"]
    net = next((step["net"] for step in steps if step["type"] == "routing"), None)
    sentence = (
        f"from {_endpoint(start, net)} to {_endpoint(end)}: {total:.2f} ns, "
        f"{total - routing:.2f} logic and {routing:.2f} routing"
    )
    if cells:
        scopes = dict.fromkeys(cell.rpartition(".")[0] or "top" for cell in cells)
        many = f"{len(cells)} cell{'s' * (len(cells) > 1)}"
        sentence += f", through {many} of {', '.join(scopes)}"
    if not any(cell.startswith(f"{unit}.") for cell in (start["cell"], end["cell"], *cells)):
        sentence += " (outside the unit)"
    return sentence


def _endpoint(pin: dict[str, Any], net: str | None = None) -> str:
    """Name a register after its output net, and any other pin after its cell and port."""
    cell, port = pin["cell"], pin["port"]
    signal = _CELL_SUFFIX.sub("", cell)
    if signal == cell:
        return f"{cell.removesuffix('_RAM')}.{port}"
    return f"register {net or signal}"

"""Measures the maximum clock and area of frame deduplicators after placement and routing."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from lately.boards.export.design import Design
from lately.boards.export.design_synthesis import synthesize_design
from lately.boards.flow.devices import device, device_memory
from lately.boards.flow.kept_netlists import cache_directory
from lately.boards.flow.tools import DoesNotFitError, SynthesisError, versions
from lately.golden import Specification
from lately.golden.spec import GEBFSpec

from . import hardware
from .engine import Campaign, Point, Records, Result
from .workers import tell

BUS = "axi4-lite"

_PLANNED: dict[str, Any] = {
    "key_bits": 64, "span": 1001, "generation_span": 1002, "when_full": "shorten", "clear": 4,
}  # fmt: skip

FILTERS: Mapping[str, Specification] = {
    # Remembers only 72 frames, so that the frame path limits the clock, not the filter.
    "small": GEBFSpec(window=72, epochs=3, hashes=3, bits=6144, key_bits=64, span=20),
    # Spans for 60-byte frames at full line rate: 10 ms at 1 Gb/s, 2 ms at 10 Gb/s, 1 ms at
    # 25 Gb/s, from `lately plan --span 1ms --rate 37202381 --fpr 1e-4 --device ecp5-85k-8`.
    "10-ms": GEBFSpec(
        window=14_910, epochs=3, hashes=8, bits=524_288, generation=4970, **_PLANNED
    ),
    "2-ms": GEBFSpec(
        window=29_821, epochs=4, hashes=11, bits=901_120, generation=7456, **_PLANNED
    ),
    "1-ms": GEBFSpec(
        window=37_276, epochs=5, hashes=11, bits=1_081_344, generation=7456, **_PLANNED
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Case(hardware.Case):
    """A deduplicator on a device.

    `unit` consists of the width in bits and the name of the filter, such as "64/2-ms".
    """

    mhz: int = 0  # target clock for nextpnr

    @property
    def width(self) -> int:
        return int(self.unit.partition("/")[0])

    @property
    def filter(self) -> str:
        return self.unit.partition("/")[2]

    @property
    def spec(self) -> Specification:
        return FILTERS[self.filter]


CASES = {
    case.name: case
    for case in (
        Case("8/10-ms", "ecp5-25k-6", seeds=(1,), mhz=125),
        Case("64/2-ms", "ecp5-85k-8", seeds=(1,), mhz=157),
        Case("128/small", "ecp5-85k-8", mhz=145),
        Case("128/1-ms", "ecp5-85k-8", mhz=145),
        Case("256/small", "ecp5-85k-8", seeds=(1,), mhz=130),
        Case("128/small", "lifcl-40", mhz=120),
        Case("512/small", "ecp5-85k-8", seeds=(1,), mhz=100),
    )
}
"""Cases by name. If a clock cannot be reached, the router rips up the paths that miss it 50 times,
which takes hours in WebAssembly. So from 128 bits on, the target is a clock in reach, not the clock
that the line rate in docs/deduplicator.md requires."""

TIME_LIMIT = 7200.0  # maximum run time of one tool, in seconds


def points(*, case: tuple[str, ...] = (), seeds: str = "") -> list[Point]:
    return hardware.points_of(CASES, case, seeds)


def run(point: Point) -> Result:
    case = CASES[point["case"]]
    try:
        report = synthesize_design(
            case.spec,
            device=device(case.device),
            wrap=f"frames-{case.width}",
            bus=BUS,
            seed=point["seed"],
            target_mhz=case.mhz,
            time_limit=TIME_LIMIT,
            progress=tell,
            netlists=cache_directory(),
        )
    except (SynthesisError, DoesNotFitError) as error:
        return {"failure": str(error).splitlines()[0]}
    result = hardware.figures(report)
    return {name: result[name] for name in result if name not in ("lanes", "latency_cycles")}


def identity(point: Point) -> dict[str, Any]:
    case = CASES[point["case"]]
    target = device(case.device)
    options = (hardware.synthesis_flow(target), *target.place_and_route, str(case.mhz))
    return {"rtlil": _digest(case), "flow": " ".join(options), "versions": versions(target)}


@cache
def _digest(case: Case) -> str:
    target = device(case.device)
    design = Design(
        spec=case.spec,
        name="unit",
        wrap=f"frames-{case.width}",
        bus=BUS,
        memory=device_memory(target, case.spec),
        target=target.name,
        levels=target.levels_at(case.mhz),
    )
    return hardware.digest(design.unit)


def rows(records: Records) -> list[dict[str, object]]:
    table = []
    for name, case in CASES.items():
        runs = sorted(
            (record for record in records if record.point["case"] == name),
            key=lambda record: int(record.point["seed"]),
        )
        results = [record.result for record in runs]
        placed = [result for result in results if "failure" not in result]
        clocks = [
            result["failure"] if "failure" in result else f"{result['timing_mhz']:.1f}"
            for result in results
        ]
        slowest = min((result["timing_mhz"] for result in placed), default=None)
        table.append({
            "bits": case.width,
            "filter": case.filter.replace("-", " "),
            "device": case.device,
            "LUTs": placed[0]["lut"] if placed else None,
            "flip-flops": placed[0]["ff"] if placed else None,
            "block RAMs": placed[0]["bram"] if placed else None,
            "static timing by seed, MHz": ", ".join(clocks) or "not placed",
            "Gb/s at every length": f"{line_rate(case.width, slowest):.1f}" if slowest else None,
        })  # fmt: skip
    return table


def line_rate(width: int, mhz: float) -> float:
    """Return the highest line rate, in Gb/s, at which a unit with this clock accepts all frames.

    On the line, each frame has 24 bytes of overhead: preamble, check sequence and gap. The worst
    case is a frame of at least 60 bytes whose last beat has only one byte.
    """
    beat = width // 8
    shortest = 60
    sizes = range(shortest, shortest + beat + 1)
    return min(8 * (size + 24) / -(-size // beat) for size in sizes) * mhz / 1000


LINES = ((8, 1), (64, 10), (128, 25), (256, 40), (128, 40), (512, 100))
"""Pairs of stream width in bits and line rate in Gb/s."""


def rates(records: Records) -> list[dict[str, object]]:
    table: list[dict[str, object]] = []
    for width, line in LINES:
        # Up to 64 bits, the MAC for this line rate uses this clock.
        needed = line * 1000 / width if width <= 64 else round(line / line_rate(width, 1), 1)
        placed = {
            CASES[record.point["case"]].device: record.result["timing_mhz"]
            for record in sorted(records, key=lambda record: -record.result.get("timing_mhz", 0))
            if CASES[record.point["case"]].width == width and "failure" not in record.result
        }
        clocks = [f"placed on {name} at {mhz:.1f} MHz" for name, mhz in placed.items()]
        table.append({
            "bits": width,
            "line": f"{line} Gb/s",
            "clock for every length": f"{needed:g} MHz",
            "evidence": "simulated, " + (", ".join(clocks) or "not placed"),
        })  # fmt: skip
    return table


FRAMES = Campaign(
    name="frames",
    about="""Measure clock frequency and area of frame deduplicators on devices.

    Each case is synthesised, placed and routed with its seeds. A run can take hours. It is repeated
    only if the unit's RTLIL, the device options or the tools have changed.
    """,
    packages=("lately.golden", "lately.hdl", "lately.boards"),
    tools=("amaranth",),
    points=points,
    run=run,
    identity=identity,
    label=lambda point: f"{point['case']} seed {point['seed']}",
    rows=rows,
)

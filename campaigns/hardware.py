"""Measures the maximum clock and area of units on devices, after placement and routing."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from math import ceil, inf
from typing import Any

from amaranth.back import rtlil

from lately.boards.flow.devices import Device, device, device_memory
from lately.boards.flow.floorplan import SITES, options_for
from lately.boards.flow.kept_netlists import cache_directory
from lately.boards.flow.limits import unit_limit
from lately.boards.flow.synthesis import CountReport, SynthesisReport, synthesize_unit
from lately.boards.flow.timing_harness import TimingHarness
from lately.boards.flow.tools import versions
from lately.cli.options import parse_seeds
from lately.golden import Specification, any_preset
from lately.golden.spec import APBFSpec, BlockedGEBFSpec, GEBFSpec
from lately.golden.spec.dictionary_sizes import WindowDictionarySpec
from lately.golden.spec.timestamp import PartitionedTimingSpec
from lately.hdl.build import filter_unit, unit_profile
from lately.hdl.target_clocks import target_mhz

from .engine import Campaign, Point, Record, Records, Result
from .options import select
from .workers import tell

SEEDS = (1, 2, 3)  # placement seeds

PART = 4096
"""Bits of an iCE40 block RAM, which holds one part of a small ring."""

DEFAULT: Any = any_preset("default")

SPECS: Mapping[str, Specification] = {
    "apbbf": DEFAULT,
    "apbbf-span": replace(DEFAULT, span=2000),
    "apbbf-l3": DEFAULT.with_generations(3),
    "gebf": GEBFSpec(window=20_000, epochs=8, hashes=8, bits=294_912),
    "apbf-small": APBFSpec(k=10, l=7, slice_bits=PART),
    "gebf-small": GEBFSpec(window=5000, epochs=8, hashes=2, bits=18 * PART),
    "blocked-gebf-small": BlockedGEBFSpec(
        window=5000, epochs=8, hashes=2, bits=18 * PART, block_bits=32
    ),
    "timing-counted-small": PartitionedTimingSpec(
        window=700, hashes=4, cells=1024, stamp_bits=16
    ),
    "dictionary-300": WindowDictionarySpec(
        window=300, columns=5, rows=256, digest_bits=20, stash=4
    ),
    "tiny": any_preset("tiny"),
}  # fmt: skip
"""Specifications of units by name. Other units are presets, with or without "-default"."""

UNITS: Mapping[str, Sequence[str]] = {
    "ecp5-25k-6": ("apbbf", "apbf", "blocked-gebf", "dictionary-1000", "timing", "timing-counted",
                   "apbbf-span", "dictionary-ring-1000", "dictionary-10000"),
    "ecp5-85k-6": ("gebf", "large"),
    "ecp5-25k-8": ("apbbf", "apbf", "blocked-gebf", "dictionary-1000", "timing",
                   "timing-counted"),
    "ecp5-85k-8": ("gebf",),
    "ice40-hx8k": ("small", "apbf-small", "gebf-small", "blocked-gebf-small", "dictionary-300",
                   "timing-small", "timing-counted-small"),
    "ice40-up5k": ("small",),
    "gowin-gw2ar-18c": ("apbbf", "apbf-small", "gebf-small", "blocked-gebf-small",
                        "dictionary-300", "timing-small", "timing-counted-small"),
    "gowin-gw1nr-9c": ("apbbf-l3",),
    "lifcl-40": ("small", "dictionary-300", "timing-counted-small"),
    "lcmxo3lf-6900": ("apbf-small", "dictionary-300", "timing-counted-small"),
    "ccgm1a1": ("tiny", "dictionary-300", "timing-counted-small"),
    "gw5a-25a": ("small", "dictionary-300", "timing-counted-small"),
}  # fmt: skip

LANES: Mapping[str, Sequence[str]] = {
    "ecp5-85k-6": ("default", "two-lanes", "four-lanes"),
    "ecp5-85k-8": ("four-lanes",),
}

TINY: Mapping[str, Sequence[str]] = {
    "ecp5-25k-6": ("tiny", "apbf-tiny", "gebf-tiny", "blocked-gebf-tiny"),
    "ice40-hx8k": ("tiny",),
}
"""Units that CI compares with the recorded results, by device."""


@dataclass(frozen=True)
class Case:
    unit: str
    device: str
    group: str = ""
    seeds: tuple[int, ...] = SEEDS

    @property
    def name(self) -> str:
        return f"{self.unit}/{self.device}"

    @property
    def spec(self) -> Specification:
        presets = ("apbf", "blocked-gebf", "timing", "timing-counted")
        name = f"{self.unit}-default" if self.unit in presets else self.unit
        return SPECS.get(self.unit) or any_preset(name)


CASES = {
    case.name: case
    for group, units in (("units", UNITS), ("lanes", LANES), ("tiny", TINY))
    for where, names in units.items()
    for case in (Case(name, where, group, SEEDS[: 1 if group == "tiny" else 3]) for name in names)
}


def points(*, case: tuple[str, ...] = (), seeds: str = "") -> list[Point]:
    return points_of(CASES, case, seeds)


def points_of(cases: Mapping[str, Case], patterns: Sequence[str], seeds: str) -> list[Point]:
    groups = dict.fromkeys(case.group for case in cases.values() if case.group)
    names = select(patterns, [*groups, *cases])
    chosen = parse_seeds(seeds) if seeds else None
    return [
        {"case": name, "seed": seed}
        for name, case in cases.items()
        if name in names or case.group in names
        for seed in chosen or case.seeds
    ]


def run(point: Point) -> Result:
    case = CASES[point["case"]]
    report = synthesize_unit(
        case.spec,
        device=device(case.device),
        seed=point["seed"],
        progress=tell,
        netlists=cache_directory(),
    )
    return figures(report)


def figures(report: SynthesisReport | CountReport) -> Result:
    dropped = ("device", "seed", "versions", "utilisation")
    return {name: value for name, value in asdict(report).items() if name not in dropped}


def identity(point: Point) -> dict[str, Any]:
    case = CASES[point["case"]]
    target = device(case.device)
    return {
        "rtlil": _unit_digest(case.spec, device_memory(target, case.spec), target.levels),
        "flow": flow(case.spec, target),
        "versions": versions(target),
    }


@cache
def _unit_digest(spec: Specification, memory: str, levels: int) -> str:
    return digest(filter_unit(spec, memory=memory, levels=levels))


def digest(unit: Any) -> str:
    harness = TimingHarness(unit, reset=False)
    text = rtlil.convert(harness, name="top", ports=harness.ports, emit_src=False)
    return hashlib.sha256(text.encode()).hexdigest()


def flow(spec: Specification, target: Device) -> str:
    limit = unit_limit(target.name).mhz
    mhz = target_mhz(target.name) if limit == inf else ceil(limit)
    numbers = (str(mhz), *target.pins)
    placement: tuple[str, ...] = (*target.place_and_route, *numbers)
    if target.place_and_route[1] in SITES:
        options = options_for(target.place_and_route, shards=unit_profile(spec).lanes > 1)
        placement = (*options, *numbers, "near places")
    return " ".join((synthesis_flow(target), *placement))


def synthesis_flow(target: Device) -> str:
    delay = str(target.delay_ps or "")
    options = (*target.before, *target.synthesis, target.mapping, delay, target.pads)
    return " ".join(filter(None, options))


@dataclass(frozen=True)
class Summary:
    case: Case
    records: Sequence[Record]

    @property
    def reports(self) -> list[SynthesisReport]:
        return sorted(map(report_of, self.records), key=lambda report: report.timing_mhz)

    @property
    def seeds(self) -> list[int]:
        return sorted(record.point["seed"] for record in self.records)

    @property
    def median(self) -> SynthesisReport:
        """Report with the median static timing, or the slower of two middle reports."""
        return self.reports[(len(self.records) - 1) // 2]

    @property
    def at_limit(self) -> int:
        """Number of seeds for which only the vendor's maximum limits the clock."""
        return sum(report.fmax_mhz == report.limit_mhz for report in self.reports)

    @property
    def earlier(self) -> bool:
        return any(record.earlier for record in self.records)


def report_of(record: Record) -> SynthesisReport:
    return SynthesisReport(
        device=CASES[record.point["case"]].device,
        seed=record.point["seed"],
        versions=record.identity["versions"],
        utilisation={},
        **record.result,
    )


def summarise(records: Iterable[Record], group: str = "") -> list[Summary]:
    by_case: dict[str, list[Record]] = {}
    for record in records:
        by_case.setdefault(record.point["case"], []).append(record)
    return [
        Summary(case, by_case[name])
        for name, case in CASES.items()
        if name in by_case and group in ("", case.group)
    ]


def rows(records: Records) -> list[dict[str, object]]:
    return [
        {
            "case": summary.case.name,
            "seeds": len(summary.seeds),
            "timing, MHz": f"{median.timing_mhz:.1f}",
            "limit": f"{median.limit_mhz:g}" if median.limit_mhz else "none known",
            "usable": f"{median.fmax_mhz:.1f}",
            "M ops/s": f"{median.operations_per_second / 1e6:.1f}",
            "cycles": median.latency_cycles,
            "LUTs": median.lut,
            "FFs": median.ff,
            "block RAMs": median.bram,
            "limited by": median.limited_by,
        }
        for summary in summarise(records)
        for median in (summary.median,)
    ]


def worse(now: Result, before: Result) -> Iterator[str]:
    mhz, baseline = (
        min(result["timing_mhz"], result["limit_mhz"] or inf) for result in (now, before)
    )
    if mhz < baseline:
        yield f"{mhz:.2f} MHz, baseline {baseline:.2f}"
    for name, noun in (("lut", "LUTs"), ("ff", "flip-flops"), ("bram", "block RAMs")):
        if now[name] > before[name]:
            yield f"{now[name]} {noun}, baseline {before[name]}"


HARDWARE = Campaign(
    name="hardware",
    about="""Measure clock frequency and area of units on devices.

    Each case is synthesised, placed and routed with several seeds. A run is repeated only if the
    unit's RTLIL, the device options or the tools have changed. A case fails `check` if its clock is
    slower, or its area larger, than with the same seed in the baseline.
    """,
    packages=("lately.golden", "lately.hdl", "lately.boards"),
    tools=("amaranth",),
    points=points,
    run=run,
    identity=identity,
    label=lambda point: f"{point['case']} seed {point['seed']}",
    rows=rows,
    worse=worse,
)

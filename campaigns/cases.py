"""Units whose speed and area are measured on devices, and what is asked of them."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from itertools import count
from typing import cast

from lately.boards.flow.devices import DEVICES, Device
from lately.golden import FilterSpec, Specification, any_preset, preset
from lately.golden.errors import LatelyError
from lately.golden.spec import APBBFSpec, APBFSpec, BlockedGEBFSpec, GEBFSpec
from lately.golden.spec.dictionary_sizes import WindowDictionarySpec
from lately.golden.spec.timestamp import PartitionedTimingSpec, TimedTimingSpec
from lately.hdl.build import UnitProfile, unit_profile
from lately.hdl.profile import HardwareProfile
from lately.hdl.target_clocks import target_mhz

SEEDS = (1, 2, 3, 4, 5)
"""Seeds of the placement, where a median is wanted."""

GROUPS = ("units", "tiny", "growth", "lanes")
"""Cases with targets; cases that CI compares with a baseline; sizes of one shape; lanes."""

GOALS = {
    "fmax_mhz": "MHz",
    "lut": "LUTs",
    "ff": "FFs",
    "bram": "block RAMs",
    "logic_cells": "logic cells",
    "latency_cycles": "clocks",
}
"""Figures that a case may have a goal for, in words: the first at least, the others at most."""


class UnknownCaseError(LatelyError, ValueError):
    """A pattern matches no case."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """A unit of a short name, with its filter, on a device that is named, and its goals."""

    unit: str
    spec: Specification
    device: str
    group: str = "units"
    """One of `GROUPS`."""
    seeds: tuple[int, ...] = SEEDS
    """Seeds of the placement."""
    goals: Mapping[str, int] = field(default_factory=dict)
    """Goals by figure, of `GOALS`."""

    @property
    def name(self) -> str:
        """Unit and device."""
        return f"{self.unit}/{self.device}"

    @property
    def profile(self) -> UnitProfile:
        """Figures of the unit that follow from the specification."""
        return unit_profile(self.spec)

    @property
    def asked(self) -> str:
        """Goals in words."""
        return "; ".join(f"{goal:,} {GOALS[name]}" for name, goal in self.goals.items())


def segment_block_rams(spec: FilterSpec, device: Device) -> int:
    """Count the block RAMs of the segments alone, each part in memories of its own."""
    of_part = -(-spec.shard_bits // device.bram_bits)
    return spec.shards * spec.segments * spec.parts * of_part


# The GEBF

GEBF_WINDOW = 20_000
"""Window of the GEBF paper's study, in insertions."""
GEBF_EPOCHS = 8
"""Epochs of that window, r."""
GEBF_BITS_PER_ITEM = 14
"""Memory that is asked for, for each item of the window."""


def gebf_choices() -> Iterator[GEBFSpec]:
    """Yield the buildable GEBFs of 1 to 16 hash functions in the memory that is asked for.

    Hardware has parts of a power of two bits. A segment may take up to the next
    power of two above its share of `GEBF_BITS_PER_ITEM` bits per item, and every
    number of hash functions gets the largest parts that this holds.
    """
    segments = GEBF_EPOCHS + 1
    share = -(-GEBF_BITS_PER_ITEM * GEBF_WINDOW // segments)
    segment = 1 << (share - 1).bit_length()
    for hashes in range(1, 17):
        part = 1 << ((segment // hashes).bit_length() - 1)
        bits = segments * hashes * part
        spec = GEBFSpec(window=GEBF_WINDOW, epochs=GEBF_EPOCHS, hashes=hashes, bits=bits)
        HardwareProfile(spec).check_buildable()
        yield spec


def best_gebf() -> GEBFSpec:
    """Return the choice with the lowest worst false-positive rate."""
    return min(gebf_choices(), key=lambda spec: spec.worst_false_positive_rate)


# The cases


def _case(unit: str, spec: Specification, device: str, **goals: int) -> Case:
    """Return a case whose clock is to be the device's limit, if there is no other goal."""
    goals = {"fmax_mhz": target_mhz(device)} | goals
    return Case(unit=unit, spec=spec, device=device, goals=goals)


def _gebf() -> Case:
    """Put the best GEBF on the smaller device if its segments fit there."""
    spec, small = best_gebf(), DEVICES["ecp5-25k-6"]
    fits = segment_block_rams(spec, small) <= small.bram
    return _case("gebf", spec, small.name if fits else "ecp5-85k-6", ff=4717)


_SMALL_DEVICES = ("ice40-hx8k", "gowin-gw2ar-18c", "gowin-gw1nr-9c")

_SPAN = 2000
"""Span in ticks, where the window is one in time."""

_QUERIES = {"hashes": 4, "cells": 8192, "classes": 6}
DECIDED: Mapping[str, TimedTimingSpec | PartitionedTimingSpec] = {
    "timing-decided": TimedTimingSpec(span=64, **_QUERIES),
    "timing-counted-decided": PartitionedTimingSpec(
        window=4096, block=512, stamp_bits=9, phase_bits=4, **_QUERIES
    ),
}
"""Timing filters whose queries have classes and are answered by tables of thresholds, by name."""


def _units() -> Iterator[Case]:
    default = preset("default")
    area = {"lut": 1600, "ff": 1700, "bram": 32, "latency_cycles": 15}
    yield _case("apbbf", default, "ecp5-25k-6", **area)
    yield _case("apbbf", default, "ecp5-25k-8", **area)
    yield from _spans()
    longer = APBBFSpec(k=3, l=8, block_bits=64, hashes_per_block=4, blocks=1024)
    yield _case("apbbf-k3-l8", longer, "ecp5-25k-6", ff=2707)
    yield _case("apbf", preset("apbf-default"), "ecp5-25k-6", ff=1853)
    yield _gebf()
    yield _case("blocked-gebf", preset("blocked-gebf-default"), "ecp5-25k-6", ff=1964)
    large = min(200, target_mhz("ecp5-85k-6"))
    yield _case("large", preset("large"), "ecp5-85k-6", fmax_mhz=large)
    yield _case("small", preset("small"), "ice40-hx8k", fmax_mhz=150)
    yield _case("small", preset("small"), "ice40-up5k", fmax_mhz=48, logic_cells=2500)
    yield _case("small-span", replace(preset("small"), span=_SPAN), "ice40-hx8k", fmax_mhz=150)
    for gowin in DEVICES.values():
        if gowin.name.startswith("gowin"):
            unit, spec = _gowin(gowin)
            yield Case(unit=unit, spec=spec, device=gowin.name)
            timed = replace(spec, span=_SPAN)
            yield Case(unit=f"{unit}-span", spec=timed, device=gowin.name)
    yield from _small_rings()
    for name, blocks in (("dictionary-1000", 10), ("dictionary-10000", 30)):
        yield _case(name, any_preset(name), "ecp5-25k-6", fmax_mhz=190, bram=blocks)
    ring = "dictionary-ring-1000"
    yield Case(unit=ring, spec=any_preset(ring), device="ecp5-25k-6", goals={"bram": 6})
    yield _case("timing", any_preset("timing-default"), "ecp5-25k-6", bram=32)
    yield _case("timing-counted", any_preset("timing-counted-default"), "ecp5-25k-6", bram=36)
    for name in (
        "dictionary-1000", "dictionary-10000", ring, "timing-default", "timing-counted-default"
    ):  # fmt: skip
        for device in ("ecp5-25k-8", "ecp5-85k-6"):
            yield Case(unit=name.removesuffix("-default"), spec=any_preset(name), device=device)
    yield from _large_ring()
    for unit, cells in _small_cells().items():
        for device in _SMALL_DEVICES:
            yield Case(unit=unit, spec=cells, device=device)
    for unit, decided in DECIDED.items():
        yield replace(_case(unit, decided, "ecp5-25k-6"), seeds=SEEDS[:3])
        for device in ("ecp5-25k-8", "ecp5-85k-6"):
            yield Case(unit=unit, spec=decided, device=device, seeds=SEEDS[:3])


def _large_ring() -> Iterator[Case]:
    """Yield the ring for 10,000 keys, each of whose runs takes nextpnr 15 minutes and more."""
    ring = "dictionary-ring-10000"
    for device in ("ecp5-25k-6", "ecp5-25k-8", "ecp5-85k-6"):
        yield Case(
            unit=ring, spec=any_preset(ring), device=device, seeds=SEEDS[:3], goals={"bram": 24}
        )


def _spans() -> Iterator[Case]:
    """Yield the rings of bits with windows in time, on each device that holds them."""
    # At most 450 LUTs and 350 flip-flops more than without the span, and no block RAM.
    for unit, spec, lut, ff, bram in (
        ("apbbf", preset("default"), 2045, 2011, 32),
        ("apbf", preset("apbf-default"), 2395, 2201, 18),
        ("gebf", best_gebf(), 3250, 4551, 80),
        ("blocked-gebf", preset("blocked-gebf-default"), 1960, 1944, 40),
    ):
        for device in ("ecp5-25k-6", "ecp5-25k-8", "ecp5-85k-6"):
            if bram <= DEVICES[device].bram:
                timed = replace(spec, span=_SPAN)
                yield _case(f"{unit}-span", timed, device, lut=lut, ff=ff, bram=bram)


def _small_rings() -> Iterator[Case]:
    """Yield rings of which each part fits one block RAM of small devices, by count and in time."""
    part = DEVICES["ice40-hx8k"].bram_bits
    # 9 segments of 2 parts.
    bits = 9 * 2 * part
    specs: dict[str, FilterSpec] = {
        "apbf-small": APBFSpec(k=10, l=7, slice_bits=part),
        "gebf-small": GEBFSpec(window=5000, epochs=8, hashes=2, bits=bits),
        "blocked-gebf-small": BlockedGEBFSpec(
            window=5000, epochs=8, hashes=2, bits=bits, block_bits=32
        ),
    }
    for unit, spec in specs.items():
        for device in _SMALL_DEVICES:
            yield Case(unit=unit, spec=spec, device=device)
            yield Case(unit=f"{unit}-span", spec=replace(spec, span=_SPAN), device=device)


def _small_cells() -> dict[str, Specification]:
    """Return filters with cells of times that fit into small devices, by name."""
    # 4 block RAMs of 4 x 1,024 bits for each part of an iCE40, and 2 of 16 x 256 for each column.
    counted = PartitionedTimingSpec(window=700, hashes=4, cells=1024, stamp_bits=16)
    exact = WindowDictionarySpec(window=300, columns=5, rows=256, digest_bits=20, stash=4)
    return {
        "timing-small": any_preset("timing-small"),
        "timing-counted-small": counted,
        "dictionary-300": exact,
    }


def _gowin(device: Device) -> tuple[str, FilterSpec]:
    """Return a name, and as many generations of the default as there are block RAMs for."""
    spec = cast(APBBFSpec, preset("default"))
    while segment_block_rams(spec, device) > device.bram:
        spec = spec.with_generations(spec.l - 1)
    return "apbbf" if spec == preset("default") else f"apbbf-l{spec.l}", spec


def _once(group: str, unit: str, spec: FilterSpec, device: str) -> Case:
    """Return a case of a group that is placed with one seed and has no goals."""
    return Case(unit=unit, spec=spec, device=device, group=group, seeds=SEEDS[:1])


def _tiny() -> Iterator[Case]:
    for unit in ("tiny", "apbf-tiny", "gebf-tiny", "blocked-gebf-tiny"):
        yield _once("tiny", unit, preset(unit), "ecp5-25k-6")
    yield _once("tiny", "tiny", preset("tiny"), "ice40-hx8k")


def _lanes() -> Iterator[Case]:
    """As many blocks in each shard as the default has."""
    for unit, grade in (("default", 6), ("two-lanes", 6), ("four-lanes", 6), ("four-lanes", 8)):
        goals = {"lut": 26000, "ff": 32000} if unit == "four-lanes" else {}
        case = _case(unit, preset(unit), f"ecp5-85k-{grade}", **goals)
        yield replace(case, group="lanes")


def _growth() -> Iterator[Case]:
    """Double the blocks from a window near 2**10 for as long as the block RAMs suffice."""
    device = DEVICES["ecp5-85k-6"]
    for blocks in (32 << doubled for doubled in count()):
        spec = APBBFSpec(k=2, l=5, block_bits=64, hashes_per_block=4, blocks=blocks)
        if segment_block_rams(spec, device) > device.bram:
            return
        yield _once("growth", f"growth-{blocks}", spec, device.name)


CASES: tuple[Case, ...] = (*_units(), *_tiny(), *_growth(), *_lanes())
"""All cases, group by group."""


def select(patterns: Iterable[str]) -> list[Case]:
    """Return the cases that a pattern matches, in order; all if there is no pattern.

    A pattern is a name, the name of a group, or either with ``*`` and ``?`` in it.

    Raises
    ------
    UnknownCaseError
        If a pattern matches none.
    """
    patterns = list(patterns) or ["*"]
    for pattern in patterns:
        if not any(_matches(case, pattern) for case in CASES):
            raise UnknownCaseError(
                f"case: must match a case that --list names, or be one of the groups "
                f"{', '.join(GROUPS)}, not {pattern!r}"
            )
    return [case for case in CASES if any(_matches(case, pattern) for pattern in patterns)]


def _matches(case: Case, pattern: str) -> bool:
    return fnmatchcase(case.name, pattern) or fnmatchcase(case.group, pattern)

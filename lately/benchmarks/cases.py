"""Units whose speed and area are measured on devices, and what is asked of them."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import cast

from ..boards.flow.devices import DEVICES, Device
from ..golden import FilterSpec, preset
from ..golden.errors import LatelyError
from ..golden.spec import APBBFSpec, GEBFSpec
from ..hdl.profile import HardwareProfile

SEEDS = (1, 2, 3, 4, 5)
"""Seeds of the placement, where a median is wanted."""

GROUPS = ("units", "tiny", "growth", "lanes")
"""Cases with targets; cases that CI compares with a baseline; sizes of one shape; lanes."""


class UnknownCaseError(LatelyError, ValueError):
    """A pattern matches no case."""


LIMITS = ("minimum_mhz", "target_mhz", "maximum_lut", "target_lut", "maximum_bram")
"""Fields of a case that limit its figures."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """A unit on a device, and what is asked of it.

    Attributes
    ----------
    unit : str
        Short name of the unit.
    spec : FilterSpec
        Filter that is built.
    device : str
        Name of the device.
    group : str
        One of `GROUPS`.
    seeds : tuple of int
        Seeds of the placement.
    minimum_mhz, target_mhz : int or None
        Minimum and target of the clock frequency.
    maximum_lut, target_lut, maximum_bram : int or None
        Maximum and target of the lookup tables, and maximum of the block RAMs.
    """

    unit: str
    spec: FilterSpec
    device: str
    group: str = "units"
    seeds: tuple[int, ...] = SEEDS
    minimum_mhz: int | None = None
    target_mhz: int | None = None
    maximum_lut: int | None = None
    target_lut: int | None = None
    maximum_bram: int | None = None

    @property
    def name(self) -> str:
        """Unit and device."""
        return f"{self.unit}/{self.device}"


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
        spec = GEBFSpec(
            window=GEBF_WINDOW,
            epochs=GEBF_EPOCHS,
            hashes=hashes,
            bits=segments * hashes * part,
        )
        HardwareProfile(spec).check_buildable()
        yield spec


def best_gebf() -> GEBFSpec:
    """Return the choice with the lowest worst false-positive rate."""
    return min(gebf_choices(), key=lambda spec: spec.worst_false_positive_rate)


# The cases


def _gebf() -> Case:
    """Put the best GEBF on the smaller device if its segments fit there."""
    spec = best_gebf()
    if segment_block_rams(spec, DEVICES["ecp5-25k-6"]) <= DEVICES["ecp5-25k-6"].bram:
        return Case(unit="gebf", spec=spec, device="ecp5-25k-6", minimum_mhz=300, target_mhz=340)
    return Case(unit="gebf", spec=spec, device="ecp5-85k-6", minimum_mhz=280, target_mhz=320)


def _units() -> Iterator[Case]:
    default = Case(
        unit="apbbf",
        spec=preset("default"),
        device="ecp5-25k-6",
        minimum_mhz=320,
        target_mhz=360,
        maximum_lut=1900,
        target_lut=1500,
        maximum_bram=32,
    )
    yield default
    yield replace(default, device="ecp5-25k-8", minimum_mhz=410, target_mhz=450)
    yield Case(
        unit="apbbf-k3-l8",
        spec=APBBFSpec(k=3, l=8, block_bits=64, hashes_per_block=4, blocks=1024),
        device="ecp5-25k-6",
        minimum_mhz=320,
        target_mhz=350,
    )
    yield Case(
        unit="apbf",
        spec=preset("apbf-default"),
        device="ecp5-25k-6",
        minimum_mhz=300,
        target_mhz=340,
    )
    yield _gebf()
    yield Case(
        unit="blocked-gebf",
        spec=preset("blocked-gebf-default"),
        device="ecp5-25k-6",
        minimum_mhz=300,
        target_mhz=340,
    )
    yield Case(
        unit="large", spec=preset("large"), device="ecp5-85k-6", minimum_mhz=280, target_mhz=330
    )
    small = preset("small")
    yield Case(unit="small", spec=small, device="ice40-hx8k", minimum_mhz=125, target_mhz=160)
    yield Case(unit="small", spec=small, device="ice40-up5k", minimum_mhz=70, target_mhz=85)
    for device in DEVICES.values():
        if device.name.startswith("gowin"):
            yield _gowin(device)


def _gowin(device: Device) -> Case:
    """Take as many generations of the default as the block RAMs hold, and 5 at most."""
    spec = cast(APBBFSpec, preset("default"))
    while segment_block_rams(spec, device) > device.bram:
        spec = spec.with_generations(spec.l - 1)
    unit = "apbbf" if spec == preset("default") else f"apbbf-l{spec.l}"
    return Case(unit=unit, spec=spec, device=device.name)


def _tiny() -> Iterator[Case]:
    for unit in ("tiny", "apbf-tiny", "gebf-tiny", "blocked-gebf-tiny"):
        yield Case(unit=unit, spec=preset(unit), device="ecp5-25k-6", group="tiny", seeds=SEEDS[:1])
    yield Case(unit="tiny", spec=preset("tiny"), device="ice40-hx8k", group="tiny", seeds=SEEDS[:1])


def _lanes() -> Iterator[Case]:
    """As many blocks in each shard as the default has."""
    for unit in ("default", "two-lanes", "four-lanes"):
        yield Case(unit=unit, spec=preset(unit), device="ecp5-85k-6", group="lanes")


def _growth() -> Iterator[Case]:
    """Double the blocks from a window near 2**10 for as long as the block RAMs suffice."""
    device = DEVICES["ecp5-85k-6"]
    blocks = 32
    while True:
        spec = APBBFSpec(k=2, l=5, block_bits=64, hashes_per_block=4, blocks=blocks)
        if segment_block_rams(spec, device) > device.bram:
            return
        yield Case(
            unit=f"growth-{blocks}",
            spec=spec,
            device=device.name,
            group="growth",
            seeds=SEEDS[:1],
        )
        blocks *= 2


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
    patterns = list(patterns)
    for pattern in patterns:
        if not any(_matches(case, pattern) for case in CASES):
            raise UnknownCaseError(
                f"case: must match a case that --list names, or be one of the groups "
                f"{', '.join(GROUPS)}, not {pattern!r}"
            )
    return [
        case
        for case in CASES
        if not patterns or any(_matches(case, pattern) for pattern in patterns)
    ]


def _matches(case: Case, pattern: str) -> bool:
    return fnmatchcase(case.name, pattern) or fnmatchcase(case.group, pattern)

"""Dictionaries and timing filters that meet a requirement, by the sizes of the golden models."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from ..boards.flow.devices import own_memory
from ..golden.analysis import stashed_entries
from ..golden.errors import SpecificationError
from ..golden.sizing import HASHES, parts_cells, parts_rate
from ..golden.spec.dictionary_sizes import (
    MOST_MOVED,
    MOST_STASHED,
    MOVING,
    WindowDictionarySpec,
    least_columns,
    least_digest_bits,
)
from ..golden.spec.timestamp import PartitionedTimingSpec, TimedTimingSpec
from ..hdl.build import unit_profile
from ..hdl.target_clocks import limit_mhz
from ..hdl.timing.sweep_rules import rest_interval
from .binding import Binding
from .cost import Area
from .requirement import Requirement
from .timestamp_cost import StampSpec, memories, stamp_area

MOST_DEPTH = 1 << 14
"""Cells of a memory in hardware, at most: the bits of a block RAM of an ECP5."""

MOST_ROWS = 1 << 30
"""Rows of a golden dictionary, at most."""

LEAST_REST = 16
"""Clocks of which the sweep of a timing filter that counts insertions takes one, at least."""

MOST_STAMP_BITS = 64
"""Bits of a stamp, at most."""


@dataclass(frozen=True)
class StampFound:
    """A filter whose cells hold timestamps, and that meets the requirement.

    Attributes
    ----------
    spec : WindowDictionarySpec or StampedPartsSpec
    cost : float
        As of `lately.planner.search.Found`.
    worst_rate, mean_rate : float
        Expected false-positive rates, keys distinct: at the end of a block, and over one.
    slack : float
        Insertions past the asked window after which no trace is left, in windows.
    area : Area or None
        On a device.
    """

    spec: StampSpec
    cost: float
    worst_rate: float
    mean_rate: float
    slack: float
    area: Area | None


def timestamped(family: str, requirement: Requirement, *, fitting: bool = True) -> list[StampFound]:
    """Return the filters of a family that meet a requirement, cheapest first.

    One for each number of rows of a dictionary, with moves and without, and of hashes and block of
    a timing filter. Ties go to fewer bits, then to fewer memories, then to
    the lower rate. If `fitting`, only what fits on the device counts.
    """
    specs = (spec for spec in _SPECS[family](requirement) if buildable(spec, requirement))
    found = [_found(spec, requirement) for spec in specs]
    if fitting and (device := requirement.device) is not None:
        found = [one for one in found if one.area and not _beyond(one.area.excess(device))]
    return sorted(
        found,
        key=lambda one: (one.cost, one.spec.storage_bits, memories(one.spec), one.worst_rate),
    )


def lowest_stamp_rate(requirement: Requirement) -> float | None:
    """Return a rate that can be met, and is about the lowest, whatever is asked; None if none."""
    low, high = 0, _DECADES
    best = None
    while high - low > 1:
        middle = (low + high) // 2
        lower = replace(requirement, false_positive_rate=10.0 ** (-middle / 10))
        rates = [one.worst_rate for family in lower.stamped for one in timestamped(family, lower)]
        low, high, best = (middle, high, min(rates)) if rates else (low, middle, best)
    return best


_DECADES = 3000
"""Tenths of decades of the lowest rate that is looked for."""


def buildable(spec: StampSpec, requirement: Requirement) -> bool:
    """Tell whether there is hardware of a filter, if it is asked for, in time on the device."""
    if requirement.any_size:
        return True
    device = requirement.device
    memory = "portable" if device is None else own_memory(device, spec)
    profile = unit_profile(spec, memory=memory)
    try:
        profile.check_buildable()
    except SpecificationError:
        return False
    span = requirement.span
    if span is None or device is None:
        return True
    return profile.least_period <= span.tick * Fraction(limit_mhz(device.name) * 1e6)


def _beyond(excess: Mapping[str, "np.ndarray[tuple[int], np.dtype[np.bool_]]"]) -> bool:
    return any(bool(scarce[0]) for scarce in excess.values())


def _found(spec: StampSpec, requirement: Requirement) -> StampFound:
    device = requirement.device
    area = None if device is None else stamp_area(spec, device)
    cost = float(spec.storage_bits)
    if requirement.counts_memories:
        cost = float(unit_profile(spec).block_rams)
    elif device is not None and area is not None:
        cost = float(area.share(device)[0])
    rates, slack = stamp_rates(spec, requirement), 0.0
    if isinstance(spec, PartitionedTimingSpec):
        slack = (spec.window + spec.slack) / requirement.window - 1
    return StampFound(spec, cost, float(max(rates)), float(np.mean(rates)), slack, area)


def stamp_rates(spec: StampSpec, requirement: Requirement) -> list[float]:
    """Return expected false-positive rates at moments of a block or a tick, the last is its end.

    While as many distinct keys come as the requirement has; of a dictionary the only one.
    """
    if isinstance(spec, WindowDictionarySpec):
        return [spec.mean_false_positive_rate]
    if isinstance(spec, PartitionedTimingSpec):
        first, last = spec.window, spec.window + spec.slack
    else:
        # Keys of the span's ticks, and those of the present one so far.
        ticks, last = spec.window_blocks, requirement.window
        first = last * ticks // (ticks + 1)
    moments = np.linspace(first, last, min(_MOMENTS, last - first + 1)).round().astype(int)
    return [parts_rate(keys, spec.cells, spec.hashes) for keys in moments.tolist()]


_MOMENTS = 33
"""Moments of a block at which rates are taken, at most."""


_ROWS_PER_KEY = 32
"""Rows that are tried, to a key of the window, at most: more of them save no column."""


def _dictionaries(requirement: Requirement) -> Iterator[StampSpec]:
    window = requirement.window
    if window > MOST_ROWS:
        return
    least = least_digest_bits(window, requirement.false_positive_rate)
    most = min(_ROWS_PER_KEY * window, MOST_ROWS if requirement.any_size else MOST_DEPTH)
    for bits in range(1, most.bit_length()):
        for moves in (False, True):
            columns = least_columns(window, 1 << bits, moves=moves)
            try:
                if columns is not None:
                    yield WindowDictionarySpec(
                        window=window,
                        columns=columns,
                        rows=1 << bits,
                        digest_bits=max(least, bits + 1),
                        key_bits=requirement.key_bits,
                        seed=requirement.seed,
                        **(MOVING if moves else {}),
                    )
            except SpecificationError:
                # Digests that are too long for so few rows.
                pass


def _counted(requirement: Requirement) -> Iterator[StampSpec]:
    block = 1
    while block <= requirement.window:
        window = -(-requirement.window // block) * block
        longest = requirement.longest_trace
        if longest is None or window + block - 1 <= longest:
            for hashes, cells in _parts(window + block - 1, requirement):
                yield from _swept(window, block, hashes, cells, requirement)
        block *= 2


def _swept(
    window: int, block: int, hashes: int, cells: int, requirement: Requirement
) -> Iterator[StampSpec]:
    """Yield the filter of fewest bits of a stamp that leave the sweep its time, if there is one."""
    for bits in range((window // block + 2).bit_length(), MOST_STAMP_BITS + 1):
        spec = PartitionedTimingSpec(
            window=window,
            block=block,
            hashes=hashes,
            cells=cells,
            stamp_bits=bits,
            key_bits=requirement.key_bits,
            seed=requirement.seed,
        )
        if requirement.any_size or rest_interval(spec) >= LEAST_REST:
            yield spec
            return


def _timed(requirement: Requirement) -> Iterator[StampSpec]:
    span = requirement.span
    assert span is not None
    for hashes, cells in _parts(requirement.window, requirement):
        least = TimedTimingSpec(
            span=span.ticks,
            hashes=hashes,
            cells=cells,
            key_bits=requirement.key_bits,
            seed=requirement.seed,
        )
        longer = (
            replace(least, stamp_bits=bits) for bits in range(least.stamp_bits, MOST_STAMP_BITS + 1)
        )
        yield next((one for one in longer if buildable(one, requirement)), least)


def _parts(keys: int, requirement: Requirement) -> Iterator[tuple[int, int]]:
    """Yield numbers of hashes, with the fewest cells of a part that keep the rate."""
    for hashes in HASHES:
        if requirement.false_positive_rate ** (1 / hashes) < _LEAST_SHARE:
            continue
        cells = parts_cells(keys, requirement.false_positive_rate, hashes)
        if not requirement.any_size:
            cells = 1 << (cells - 1).bit_length()
        if cells <= (MOST_ROWS if requirement.any_size else MOST_DEPTH):
            yield hashes, cells


_LEAST_SHARE = 1e-12
"""Share of the cells that may be touched from which on there are not too many cells."""

_SPECS: Mapping[str, Callable[[Requirement], Iterator[StampSpec]]] = {
    "window-dictionary": _dictionaries,
    "partitioned-timing": _counted,
    "timed-timing": _timed,
}


def stamp_bindings(spec: StampSpec, requirement: Requirement) -> list[Binding]:
    """Tell, for every parameter that can be one step smaller, what breaks then.

    A smaller filter that breaks nothing is left out, as in `lately.planner.binding.bindings`.
    """
    if isinstance(spec, WindowDictionarySpec):
        return _dictionary_bindings(spec, requirement)
    found = []
    fewer = spec.cells - 1 if requirement.any_size else spec.cells // 2
    for name, less in (("cells", fewer), ("hashes", spec.hashes - 1)):
        if less > 0:
            changed: dict[str, Any] = {name: less}
            rate = max(stamp_rates(replace(spec, **changed), requirement))
            found.append(Binding(name, less, "rate", rate))
    if isinstance(spec, PartitionedTimingSpec) and not requirement.any_size:
        bits = spec.stamp_bits - 1
        least = (spec.window_blocks + 2).bit_length()
        rest = rest_interval(replace(spec, stamp_bits=bits)) if bits >= least else 0
        found.append(Binding("stamp_bits", bits, "sweep", float(rest)))
    limit = requirement.false_positive_rate
    return [one for one in found if one.constraint != "rate" or one.reached > limit]


def _dictionary_bindings(spec: WindowDictionarySpec, requirement: Requirement) -> list[Binding]:
    found = []
    if spec.digest_bits - 1 > spec.row_bits:
        rate = replace(spec, digest_bits=spec.digest_bits - 1).mean_false_positive_rate
        if rate > requirement.false_positive_rate:
            found.append(Binding("digest_bits", spec.digest_bits - 1, "rate", rate))
    for name, columns, rows in (
        ("columns", spec.columns - 1, spec.rows),
        ("rows", spec.columns, spec.rows // 2),
    ):
        if columns > bool(spec.moves) and rows:
            less = columns if name == "columns" else rows
            stashed = stashed_entries(spec.window, columns=columns, rows=rows)
            if spec.moves and (share := stashed / spec.window) > MOST_MOVED:
                found.append(Binding(name, less, "moves", share))
            elif not spec.moves and stashed > MOST_STASHED:
                found.append(Binding(name, less, "stash", stashed))
    return found

"""Families whose cells hold timestamps: dictionaries, timing filters. All sizes are tried."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np

from ..boards.flow.devices import Device
from ..boards.flow.inference import (
    INFERRED,
    has_lut_memory,
    inferred_memory,
    is_inferred,
)
from ..golden.analysis import bloom_accesses, stashed_entries
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
from ..hdl.latencies import PAGE_WORDS
from ..hdl.timing.sweep_rules import rest_interval
from .requirement import (
    PLANNER_FAMILIES,
    TAG_BITS,
    Binding,
    PlannerFamily,
    Requirement,
    inferred_blocks,
    is_buildable,
)

MOST_DEPTH = 1 << 14
"""Most cells of a memory in hardware: the bits of a block RAM of an ECP5."""

MOST_ROWS = 1 << 30
"""Most rows of a golden dictionary."""

LEAST_REST = 16
"""Fewest cycles between two sweep accesses of a timing filter that counts insertions."""

MOST_STAMP_BITS = 64
"""Most bits of a stamp."""

_MOMENTS = 33
"""Most moments of a block at which rates are computed."""

_ROWS_PER_KEY = 32
"""Most rows per key of the window that are tried: more rows save no column."""

INEXACT = ("cyclonev", "gatemate")
"""Families of devices where yosys takes one block RAM more or fewer for a column than is known."""

_LEAST_SHARE = 1e-12
"""Share of touched cells below which a filter has too many cells."""


class Stamped(PlannerFamily, ABC):
    """Filters with memories of cells, each of which holds a timestamp."""

    exact_window = window_per_query = True

    @abstractmethod
    def cells(self, spec: Any) -> tuple[int, int, list[range]]:
        """Return words and width of each memory of `spec`, and the bits that each port reads."""

    @abstractmethod
    def result_bits(self, spec: Any) -> tuple[int, ...]:
        """Return the width of a verdict of `spec`, then the width of its time if it has one."""

    def waiting(self, spec: Any, profile: Any) -> Iterator[tuple[int, int]]:
        """Yield words and width of memories in which windows of `spec` wait, by its `profile`."""
        yield from ()

    def is_counted(self, spec: Any, device: Device) -> bool:
        """Return whether block RAMs are known: where Lately chooses them, or yosys as predicted."""
        return not is_inferred(device.family)

    def block_rams(self, spec: Any, device: Device | None) -> int:
        """Return the block RAMs of the cells of `spec`; on iCE40, small memories are included."""
        if device is None or device.family not in INFERRED:
            return super().block_rams(spec, device)
        family, (depth, width, reads) = device.family, self.cells(spec)
        each = inferred_memory(
            family, depth=depth, width=width, reads=reads, forced=is_inferred(family)
        )
        blocks = self.memories(spec) * each.blocks
        if not has_lut_memory(family):
            profile: Any = unit_profile(spec, levels=device.levels)
            places = profile.result_places
            results = [(places, width) for width in (TAG_BITS, *self.result_bits(spec))]
            for depth, width in (*results, *self.waiting(spec, profile)):
                blocks += inferred_blocks(family, depth, width, new=True)
        return blocks


class Dictionary(Stamped):
    """Window dictionaries: one for each number of rows, with moves and without."""

    exact_age = remove = True
    counts = ("insertions",)
    answers = "exact age, any window, remove"

    def specs(self, requirement: Requirement) -> Iterator[WindowDictionarySpec]:
        """Yield the fewest columns for each number of rows."""
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

    def rates(self, spec: WindowDictionarySpec, requirement: Requirement) -> tuple[float, float]:
        """Return the rate twice: the worst case and the mean are equal."""
        return spec.mean_false_positive_rate, spec.mean_false_positive_rate

    def memories(self, spec: WindowDictionarySpec) -> int:
        """Return the number of columns."""
        return spec.columns

    def is_counted(self, spec: WindowDictionarySpec, device: Device) -> bool:
        """Return whether block RAMs are known; with moves, only where Lately chooses them."""
        inexact = bool(spec.moves) or device.family in INEXACT
        return super().is_counted(spec, device) or not inexact

    def cells(self, spec: WindowDictionarySpec) -> tuple[int, int, list[range]]:
        """Return words and width; the sweep reads valid bit and time, with moves the whole cell."""
        whole = range(spec.cell_bits)
        swept = whole if spec.moves else range(1 + spec.timestamp_bits)
        return spec.rows, spec.cell_bits, [whole, swept]

    def result_bits(self, spec: WindowDictionarySpec) -> tuple[int, ...]:
        """Return the width of a verdict."""
        return (2 + (spec.window - 1).bit_length(),)

    def bindings(self, spec: WindowDictionarySpec, requirement: Requirement) -> list[Binding]:
        """Return constraints that break with a shorter digest, fewer columns or half the rows."""
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


class Timing(Stamped):
    """Timing filters; the search includes all numbers of hashes."""

    @abstractmethod
    def keys(self, spec: Any, requirement: Requirement) -> tuple[int, int]:
        """Return the keys in `spec` at the beginning and the end of a block or a tick."""

    def rates(self, spec: Any, requirement: Requirement) -> tuple[float, float]:
        """Return the rates of `spec`: at the end of a block or tick, and the mean over one."""
        rates = self.moments(spec, requirement)
        return float(max(rates)), float(np.mean(rates))

    def moments(self, spec: Any, requirement: Requirement) -> list[float]:
        """Return the rates of `spec` at several moments of a block or tick; the last is its end."""
        first, last = self.keys(spec, requirement)
        moments = np.linspace(first, last, min(_MOMENTS, last - first + 1)).round().astype(int)
        return [parts_rate(keys, spec.cells, spec.hashes) for keys in moments.tolist()]

    def memories(self, spec: Any) -> int:
        """Return the parts of `spec`."""
        return int(spec.hashes)

    def accesses(self, spec: Any, requirement: Requirement) -> float:
        """Return the cells of `spec` that a query reads at the worst moment."""
        worst = self.rates(spec, requirement)[0]
        fill = min(worst ** (1 / spec.hashes), 1 - 1e-12)
        return bloom_accesses(spec.hashes, "false", fill)

    def cells(self, spec: Any) -> tuple[int, int, list[range]]:
        """Return words and width of each memory of `spec`; both ports read whole stamps."""
        return spec.cells, spec.stamp_bits, [range(spec.stamp_bits)] * 2

    def result_bits(self, spec: Any) -> tuple[int, ...]:
        """Return the width of a verdict of `spec`."""
        return (1 + (spec.window_blocks + 1).bit_length() + spec.hashes.bit_length(),)

    def waiting(self, spec: Any, profile: Any) -> Iterator[tuple[int, int]]:
        """Yield the delay lines in which windows wait for the hash and the cells of `spec`."""
        left = profile.latency_terms["hash"] + profile.latency_terms["cells"]
        while (cycles := min(left, PAGE_WORDS + 1)) > 1:
            yield cycles - 1, spec.window_blocks.bit_length()
            left -= cycles

    def bindings(self, spec: Any, requirement: Requirement) -> list[Binding]:
        """Return the constraints that break in `spec` with fewer cells, or one hash fewer."""
        found = []
        fewer = spec.cells - 1 if requirement.any_size else spec.cells // 2
        for name, less in (("cells", fewer), ("hashes", spec.hashes - 1)):
            if less > 0:
                changed: dict[str, Any] = {name: less}
                rate = self.rates(replace(spec, **changed), requirement)[0]
                if rate > requirement.false_positive_rate:
                    found.append(Binding(name, less, "rate", rate))
        return found


class CountedTiming(Timing):
    """Timing filters whose clock counts insertions; the search includes all block sizes."""

    counts = ("insertions",)
    answers = "age in blocks, any window"

    def specs(self, requirement: Requirement) -> Iterator[PartitionedTimingSpec]:
        """Yield filters with the shortest stamps that leave enough time for the sweep."""
        block = 1
        while block <= requirement.window:
            window = -(-requirement.window // block) * block
            longest = requirement.longest_trace
            if longest is None or window + block - 1 <= longest:
                for parts in _parts(window + block - 1, requirement):
                    spec = PartitionedTimingSpec(window=window, block=block, **parts)
                    yield from _shortest(
                        spec,
                        (window // block + 2).bit_length(),
                        lambda one: requirement.any_size or rest_interval(one) >= LEAST_REST,
                    )
            block *= 2

    def keys(self, spec: PartitionedTimingSpec, requirement: Requirement) -> tuple[int, int]:
        """Return the keys of the window, without and with its slack."""
        return spec.window, spec.window + spec.slack

    def slack(self, spec: PartitionedTimingSpec, requirement: Requirement) -> float:
        """Return the slack: the rest of the oldest block, in windows."""
        return (spec.window + spec.slack) / requirement.window - 1

    def cycle_share(self, spec: PartitionedTimingSpec) -> float:
        """Return the share of cycles that the sweep leaves."""
        return 1 - 1 / rest_interval(spec)

    def cells(self, spec: PartitionedTimingSpec) -> tuple[int, int, list[range]]:
        """Return words and width of each memory; one port reads whole stamps."""
        return spec.cells, spec.stamp_bits, [range(spec.stamp_bits)]

    def bindings(self, spec: PartitionedTimingSpec, requirement: Requirement) -> list[Binding]:
        """Return the constraints that break with fewer cells, one hash fewer, or shorter stamps."""
        found = super().bindings(spec, requirement)
        if not requirement.any_size:
            bits = spec.stamp_bits - 1
            least = (spec.window_blocks + 2).bit_length()
            rest = rest_interval(replace(spec, stamp_bits=bits)) if bits >= least else 0
            found.append(Binding("stamp_bits", bits, "sweep", float(rest)))
        return found


class TimedTiming(Timing):
    """Timing filters whose window is a span of time."""

    counts = ("time",)
    answers = "age in ticks, any window"

    def specs(self, requirement: Requirement) -> Iterator[TimedTimingSpec]:
        """Yield filters with the shortest stamps with which hardware can be built."""
        span = requirement.span
        assert span is not None
        for parts in _parts(requirement.window, requirement):
            spec = TimedTimingSpec(span=span.ticks, **parts)
            yield from _shortest(spec, spec.stamp_bits, lambda one: is_buildable(one, requirement))

    def keys(self, spec: TimedTimingSpec, requirement: Requirement) -> tuple[int, int]:
        """Return the keys of the span's ticks, without and with the current tick."""
        ticks, last = spec.window_blocks, requirement.window
        return last * ticks // (ticks + 1), last

    def result_bits(self, spec: TimedTimingSpec) -> tuple[int, ...]:
        """Return the width of a verdict, and of the time."""
        return (*super().result_bits(spec), spec.stamp_bits)


def _shortest(spec: Any, least: int, suits: Callable[[Any], bool]) -> Iterator[Any]:
    """Yield the filter with the shortest possible stamps of at least `least` bits, if any."""
    longer = (replace(spec, stamp_bits=bits) for bits in range(least, MOST_STAMP_BITS + 1))
    yield from islice(filter(suits, longer), 1)


def _parts(keys: int, requirement: Requirement) -> Iterator[dict[str, Any]]:
    """Yield numbers of hashes, the fewest cells per part that meet the rate, and the keys."""
    key = {"key_bits": requirement.key_bits, "seed": requirement.seed}
    for hashes in HASHES:
        if requirement.false_positive_rate ** (1 / hashes) < _LEAST_SHARE:
            continue
        cells = parts_cells(keys, requirement.false_positive_rate, hashes)
        if not requirement.any_size:
            cells = 1 << (cells - 1).bit_length()
        if cells <= (MOST_ROWS if requirement.any_size else MOST_DEPTH):
            yield {"hashes": hashes, "cells": cells, **key}


PLANNER_FAMILIES["window-dictionary"] = Dictionary("window-dictionary")
PLANNER_FAMILIES["partitioned-timing"] = CountedTiming("partitioned-timing")
PLANNER_FAMILIES["timed-timing"] = TimedTiming("timed-timing")

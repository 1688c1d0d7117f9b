"""Planning of filters whose cells hold timestamps: dictionaries and timing filters."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np

from ..golden.analysis import bloom_accesses, stashed_entries
from ..golden.errors import SpecificationError
from ..golden.sizing import HASHES, parts_cells, parts_rate
from ..golden.spec.dictionary_sizes import (
    MAX_MOVED,
    MAX_STASHED,
    MOVING,
    WindowDictionarySpec,
    min_columns,
    min_digest_bits,
)
from ..golden.spec.timestamp import PartitionedTimingSpec, TimedTimingSpec
from ..hdl.timing.sweep_rules import rest_interval
from .requirement import PLANNER_FAMILIES, Binding, PlannerFamily, Requirement, is_buildable

MAX_DEPTH = 1 << 14  # maximum cells per memory in hardware: the bits of an ECP5 block RAM
MAX_ROWS = 1 << 30  # maximum rows of a golden dictionary
MIN_REST = 16  # minimum cycles between two sweep accesses if insertions are counted
MAX_STAMP_BITS = 64  # maximum width of a timestamp
_MOMENTS = 33  # maximum number of points in a block at which rates are computed
_ROWS_PER_KEY = 32  # maximum rows tried per key in the window; more rows save no column
_MIN_SHARE = 1e-12  # fraction of touched cells below which a filter has too many cells


class Dictionary(PlannerFamily):
    exact_window = window_per_query = exact_age = remove = True
    counts = ("insertions",)
    answers = "exact age, any window, remove"

    def specs(self, requirement: Requirement) -> Iterator[WindowDictionarySpec]:
        window = requirement.window
        if window > MAX_ROWS:
            return
        digest_bits = min_digest_bits(window, requirement.false_positive_rate)
        max_rows = min(_ROWS_PER_KEY * window, MAX_ROWS if requirement.any_size else MAX_DEPTH)
        for bits in range(1, max_rows.bit_length()):
            for moves in (False, True):
                columns = min_columns(window, 1 << bits, moves=moves)
                try:
                    if columns is not None:
                        yield WindowDictionarySpec(
                            window=window, columns=columns, rows=1 << bits,
                            digest_bits=max(digest_bits, bits + 1), seed=requirement.seed,
                            key_bits=requirement.key_bits, **(MOVING if moves else {}),
                        )  # fmt: skip
                except SpecificationError:
                    # The digest would be too long for so few rows.
                    pass

    def rates(self, spec: WindowDictionarySpec, requirement: Requirement) -> tuple[float, float]:
        return spec.mean_false_positive_rate, spec.mean_false_positive_rate

    def memories(self, spec: WindowDictionarySpec) -> int:
        return spec.columns

    def bindings(self, spec: WindowDictionarySpec, requirement: Requirement) -> list[Binding]:
        bindings = []
        if spec.digest_bits - 1 > spec.row_bits:
            rate = replace(spec, digest_bits=spec.digest_bits - 1).mean_false_positive_rate
            if rate > requirement.false_positive_rate:
                bindings.append(Binding("digest_bits", spec.digest_bits - 1, "rate", rate))
        for name, columns, rows in (
            ("columns", spec.columns - 1, spec.rows),
            ("rows", spec.columns, spec.rows // 2),
        ):
            if columns > bool(spec.moves) and rows:
                less = columns if name == "columns" else rows
                stashed = stashed_entries(spec.window, columns=columns, rows=rows)
                if spec.moves and (share := stashed / spec.window) > MAX_MOVED:
                    bindings.append(Binding(name, less, "moves", share))
                elif not spec.moves and stashed > MAX_STASHED:
                    bindings.append(Binding(name, less, "stash", stashed))
        return bindings


class Timing(PlannerFamily, ABC):
    exact_window = window_per_query = True

    @abstractmethod
    def keys(self, spec: Any, requirement: Requirement) -> tuple[int, int]:
        """Return the numbers of keys in the filter at the beginning and end of a block or tick."""

    def rates(self, spec: Any, requirement: Requirement) -> tuple[float, float]:
        first, last = self.keys(spec, requirement)
        moments = np.linspace(first, last, min(_MOMENTS, last - first + 1)).round().astype(int)
        rates = [parts_rate(keys, spec.cells, spec.hashes) for keys in moments.tolist()]
        return max(rates), float(np.mean(rates))

    def memories(self, spec: Any) -> int:
        return int(spec.hashes)

    def accesses(self, spec: Any, requirement: Requirement) -> float:
        worst = self.rates(spec, requirement)[0]
        fill = min(worst ** (1 / spec.hashes), 1 - 1e-12)
        return bloom_accesses(spec.hashes, "false", fill)

    def bindings(self, spec: Any, requirement: Requirement) -> list[Binding]:
        bindings = []
        fewer = spec.cells - 1 if requirement.any_size else spec.cells // 2
        for name, less in (("cells", fewer), ("hashes", spec.hashes - 1)):
            if less > 0:
                changed: dict[str, Any] = {name: less}
                rate = self.rates(replace(spec, **changed), requirement)[0]
                if rate > requirement.false_positive_rate:
                    bindings.append(Binding(name, less, "rate", rate))
        return bindings


class CountedTiming(Timing):
    counts = ("insertions",)
    answers = "age in blocks, any window"

    def specs(self, requirement: Requirement) -> Iterator[PartitionedTimingSpec]:
        def is_swept(spec: PartitionedTimingSpec) -> bool:
            return requirement.any_size or rest_interval(spec) >= MIN_REST

        block = 1
        while block <= requirement.window:
            window = -(-requirement.window // block) * block
            longest = requirement.longest_trace
            if longest is None or window + block - 1 <= longest:
                bits = (window // block + 2).bit_length()
                for parts in _parts(window + block - 1, requirement):
                    spec = PartitionedTimingSpec(window=window, block=block, **parts)
                    yield from _shortest(spec, bits, is_swept)
            block *= 2

    def keys(self, spec: PartitionedTimingSpec, requirement: Requirement) -> tuple[int, int]:
        return spec.window, spec.window + spec.slack

    def slack(self, spec: PartitionedTimingSpec, requirement: Requirement) -> float:
        return (spec.window + spec.slack) / requirement.window - 1

    def cycle_share(self, spec: PartitionedTimingSpec) -> float:
        return 1 - 1 / rest_interval(spec)

    def bindings(self, spec: PartitionedTimingSpec, requirement: Requirement) -> list[Binding]:
        bindings = super().bindings(spec, requirement)
        if not requirement.any_size:
            bits = spec.stamp_bits - 1
            enough = bits >= (spec.window_blocks + 2).bit_length()
            rest = rest_interval(replace(spec, stamp_bits=bits)) if enough else 0
            bindings.append(Binding("stamp_bits", bits, "sweep", float(rest)))
        return bindings


class TimedTiming(Timing):
    counts = ("time",)
    answers = "age in ticks, any window"

    def specs(self, requirement: Requirement) -> Iterator[TimedTimingSpec]:
        span = requirement.span
        assert span is not None
        for parts in _parts(requirement.window, requirement):
            spec = TimedTimingSpec(span=span.ticks, **parts)
            yield from _shortest(
                spec, spec.stamp_bits, lambda spec: is_buildable(spec, requirement)
            )

    def keys(self, spec: TimedTimingSpec, requirement: Requirement) -> tuple[int, int]:
        ticks, last = spec.window_blocks, requirement.window
        return last * ticks // (ticks + 1), last


def _shortest(spec: Any, min_bits: int, suits: Callable[[Any], bool]) -> Iterator[Any]:
    longer = (replace(spec, stamp_bits=bits) for bits in range(min_bits, MAX_STAMP_BITS + 1))
    yield from islice(filter(suits, longer), 1)


def _parts(keys: int, requirement: Requirement) -> Iterator[dict[str, Any]]:
    """For each number of hashes, yield the fields of the smallest filter that meets the rate."""
    key = {"key_bits": requirement.key_bits, "seed": requirement.seed}
    before = 0
    for hashes in HASHES:
        if requirement.false_positive_rate ** (1 / hashes) < _MIN_SHARE:
            continue
        cells = parts_cells(keys, requirement.false_positive_rate, hashes)
        if not requirement.any_size:
            cells = 1 << (cells - 1).bit_length()
        # More hashes with the same cells per part only use more memory.
        if cells != before and cells <= (MAX_ROWS if requirement.any_size else MAX_DEPTH):
            yield {"hashes": hashes, "cells": cells, **key}
        before = cells


PLANNER_FAMILIES["window-dictionary"] = Dictionary("window-dictionary")
PLANNER_FAMILIES["partitioned-timing"] = CountedTiming("partitioned-timing")
PLANNER_FAMILIES["timed-timing"] = TimedTiming("timed-timing")

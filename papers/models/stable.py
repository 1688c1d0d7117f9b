"""Stable Bloom Filter (Deng, Rafiei)."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from lately.golden.errors import require_count
from lately.golden.hash.functions import ConstantStream
from lately.golden.sizing import check_rate
from lately.golden.spec.base import Specification, optional, required

from .bits import ByteCells


@dataclass(frozen=True, kw_only=True)
class StableBloomSpec(Specification, family="stable-bloom"):
    cells: int = required(low=2, high=1 << 32)  # m
    hashes: int = required()  # K
    decrements: int = required()  # P, cells that an insertion decrements; at most `cells`
    cell_bits: int = optional(1, high=8)  # d


_WORD = (1 << 64) - 1
_DOWN = bytes([0, *range(255)])


class StableBloomFilter(ByteCells):
    """Cells that insertions set to their maximum, and that decay at random.

    Source: Fan Deng and Davood Rafiei, "Approximately Detecting Duplicates for Streaming Data Using
    Stable Bloom Filters", SIGMOD 2006.

    An insertion decrements `decrements` cells by one, but not below 0, then sets the cells of its
    hash functions to ``2**cell_bits - 1``. A key is reported if none of its cells is 0, so a key
    that was just inserted may be missed. The decremented cells are consecutive, starting at a
    random one, so that each cell is decremented with the probability that the paper's formulas
    need. Random numbers come from SplitMix64, whose state is the number of insertions.
    """

    specification = StableBloomSpec
    _counts: ClassVar = {"insertions": (1 << 63) - 1}

    cells: int
    decrements: int
    cell_bits: int

    def _prepare(self) -> None:
        require_count("decrements", self.decrements, high=self.cells)
        self._make_hash([self.cells] * self.hashes)
        self._start = ConstantStream(label="stable", seed=self.seed).word()
        self._max = (1 << self.cell_bits) - 1

    @property
    def storage_bits(self) -> int:
        return self.cells * self.cell_bits

    @property
    def zero_fraction(self) -> float:
        return float(np.mean(self._view() == 0))

    def _empty(self) -> None:
        self._cells = bytearray(self.cells)
        self.insertions = 0

    def _write(self, positions: list[int]) -> None:
        cells, size = self._cells, self.cells
        first = (self._draw() >> 32) * size >> 32
        last = first + self.decrements
        cells[first:last] = cells[first:last].translate(_DOWN)
        if last > size:
            cells[: last - size] = cells[: last - size].translate(_DOWN)
        for cell in positions:
            cells[cell] = self._max

    def _draw(self) -> int:
        word = self._start + (self.insertions + 1) * 0x9E3779B97F4A7C15 & _WORD
        word = (word ^ word >> 30) * 0xBF58476D1CE4E5B9 & _WORD
        word = (word ^ word >> 27) * 0x94D049BB133111EB & _WORD
        return word ^ word >> 31

    def _arrays(self) -> dict[str, tuple[NDArray[Any], int]]:
        return {"cells": (self._view(), self._max)}


def stable_zero_fraction(cells: int, hashes: int, decrements: int, cell_bits: int) -> float:
    """Return the fraction of cells that are 0 in the limit, at the stable point (theorem 2).

    It is (1 / (1 + 1 / (P (1/K - 1/m)))) ^ Max, where Max = 2^d - 1, for more cells than hash
    functions. It holds for any stream if the cells of its keys are uniformly distributed; for other
    streams, it holds as a mean over hash functions if all keys are distinct.
    """
    for name, value in (("hashes", hashes), ("decrements", decrements), ("cell_bits", cell_bits)):
        require_count(name, value)
    require_count("cells", cells, low=hashes + 1)
    ratio = 1 / (decrements * (1 / hashes - 1 / cells))
    return float((1 + ratio) ** -((1 << cell_bits) - 1))


def stable_false_positive_rate(cells: int, hashes: int, decrements: int, cell_bits: int) -> float:
    """Return the probability that a fresh key is reported in the limit: (1 - zeros) ^ K."""
    return float((1 - stable_zero_fraction(cells, hashes, decrements, cell_bits)) ** hashes)


def stable_decrements(cells: int, hashes: int, cell_bits: int, false_positive_rate: float) -> int:
    """Return the smallest P for which fresh keys are reported at no more than this rate.

    P = 1 / ((1 / (1 - rate^(1/K))^(1/Max) - 1) (1/K - 1/m)), rounded up.
    """
    require_count("hashes", hashes)
    require_count("cells", cells, low=hashes + 1)
    require_count("cell_bits", cell_bits)
    check_rate(false_positive_rate, "false_positive_rate")
    zeros: float = 1 - false_positive_rate ** (1 / hashes)
    base: float = zeros ** (-1 / ((1 << cell_bits) - 1)) - 1
    return math.ceil(1 / (base * (1 / hashes - 1 / cells)))

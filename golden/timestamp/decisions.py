"""Decisions of an inferential filter as a table of thresholds for hardware."""

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from operator import index
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import SpecificationError, require, require_count
from ..files import replace_file
from .inferential import InferentialFilter, minimum_penalty
from .timing import Evidence

_MANY = 1 << 40  # so many insertions that no window reaches back to the start of the stream


@dataclass(frozen=True, kw_only=True)
class QueryClass:
    """Queries with the same prior, costs and window; see `InferentialFilter.query`."""

    probability: float  # probability p_x that the key is next in the stream; 0 < p_x < 1
    false_positive: float  # cost of an error; finite, at least 0
    false_negative: float
    window: int | None = None  # in insertions; by default the filter's window


@dataclass(frozen=True, eq=False)
class DecisionTable:
    """Thresholds that encode the decisions with the minimum expected penalty (section 2.6).

    The more cells of a key have the oldest timestamp, the more likely the key is in the window.
    There is therefore one threshold for each query class, each age of the oldest timestamp and each
    phase of the current block. A key is reported if at least that many of its cells have the oldest
    timestamp. The insertions into a block are numbered, and all insertions whose numbers have the
    same leading `bits` bits are in the same phase. If `bits` is the full width of these numbers,
    the answers equal the filter's, except in the first window of a stream: the filter allows for
    the smaller number of insertions, but the table does not.

    The thresholds, shape (classes, ages, 2**bits), are from 1 to ``hashes + 1``; if a threshold is
    ``hashes + 1``, the answer is always False. The last age stands for keys with expired cells: the
    answer for such a key is True if the threshold is 1.
    """

    thresholds: NDArray[np.uint8]
    hashes: int  # cells per key
    block: int  # insertions per block
    bits: int  # width of the phase

    @classmethod
    def of(cls, filter: InferentialFilter, classes: Sequence[QueryClass], bits: int) -> Self:
        """Compute the table for one or more classes from the parameters of a `filter`.

        `bits`, from 0 to ``log2(filter.block)``, is the width of the phase. Raises TypeError or
        ValueError if a value is out of range, or if a decision cannot be expressed as a threshold.
        """
        require_count("bits", bits, low=0, high=filter.block.bit_length() - 1)
        if not classes:
            raise ValueError("classes: must not be empty")
        hashes, block = filter.hashes, filter.block
        ages = np.append(np.arange(-(-filter.window // block) + 1), -1)
        shape = (len(ages), block, hashes)
        grid = np.meshgrid(ages, np.arange(block), np.arange(1, hashes + 1), indexing="ij")
        age, filled, cells = (values.ravel() for values in grid)
        # The current block has at least one insertion if it contains the key.
        filled = np.where(age == 0, np.maximum(filled, 1), filled)
        evidence = Evidence(age, cells, cells, filled, np.full(age.size, _MANY))
        begins = -(-np.arange(1 << bits) * block >> bits)
        thresholds = []
        for query_class in classes:
            window = filter.model.checked_window(query_class.window)
            inferred = filter._ages(evidence, np.asarray(query_class.probability, np.float64))
            posterior = inferred.within(window).reshape(shape)
            # The cost of a phase is the sum of the costs at its insertions.
            shares = np.diff(begins, append=block)[:, None]
            mean = np.add.reduceat(posterior, begins, axis=1) / shares
            decided = minimum_penalty(
                np.clip(mean, 0, 1),
                false_positive=query_class.false_positive,
                false_negative=query_class.false_negative,
            )
            if (decided[..., :-1] & ~decided[..., 1:]).any():
                raise ValueError("classes: a decision cannot be expressed as a threshold")
            thresholds.append(hashes + 1 - decided.sum(axis=-1))
        return cls(np.array(thresholds, np.uint8), hashes, block, bits)

    @property
    def entry_bits(self) -> int:
        """Width of an entry in bits."""
        return (self.hashes + 1).bit_length()

    @property
    def storage_bits(self) -> int:
        """Total width of all entries in bits."""
        return self.thresholds.size * self.entry_bits

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the table to a JSON file at `path`, atomically."""
        values = vars(self) | {"thresholds": self.thresholds.tolist()}
        with replace_file(path) as file:
            file.write(json.dumps(values).encode() + b"\n")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a table from a file that `save` wrote; SpecificationError for any other file."""
        with open(path, "rb") as file:
            content = file.read()
        try:
            values = json.loads(content)
            numbers = {name: index(values[name]) for name in ("hashes", "block", "bits")}
            wide = np.array(values["thresholds"])
            if wide.ndim != 3 or wide.dtype.kind != "i" or not 0 <= wide.min() <= wide.max() < 256:
                raise ValueError("the thresholds are not a three-dimensional array of 0 to 255")
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            reason = " ".join(str(error).split())
            raise SpecificationError(
                f"{os.fspath(path)}: must be a table that DecisionTable.save wrote: {reason}"
            ) from None
        return cls(wide.astype(np.uint8), **numbers)

    def check_fits(
        self, *, hashes: int, bits: int, shape: tuple[int, int, int], block: int | None = None
    ) -> None:
        """Raise SpecificationError unless the table fits a filter with these parameters."""
        for name, needed, has in (
            ("hashes", hashes, self.hashes),
            ("bits", bits, self.bits),
            ("shape", shape, self.thresholds.shape),
            ("block", block or self.block, self.block),
        ):
            require(needed == has, "table", f"{name} must be {needed} for this filter", has)
        highest = int(self.thresholds.max())
        rule = f"thresholds must be at most {hashes + 1} for this filter"
        require(highest <= hashes + 1, "table", rule, highest)

    def answers(self, evidence: Evidence, classes: ArrayLike = 0) -> NDArray[np.bool_]:
        """Return whether each key is reported, given its evidence and class; shape (n,)."""
        phase = evidence.filled * (1 << self.bits) // self.block
        cells = np.where(evidence.age < 0, 1, evidence.oldest)
        chosen = np.asarray(classes, np.intp)
        return np.asarray(cells >= self.thresholds[chosen, evidence.age, phase])


def entry_widths(shape: tuple[int, int, int], hashes: int) -> tuple[int, int, int, int]:
    """Return the widths of an entry's fields from the lowest: phase, age, class, threshold."""
    phase, age, query_class = ((count - 1).bit_length() for count in reversed(shape))
    return phase, age, query_class, (hashes + 1).bit_length()


def packed_entries(thresholds: ArrayLike) -> NDArray[np.uint64]:
    """Pack a table of thresholds into entries for hardware; see `entry_widths`."""
    table = np.asarray(thresholds)
    widths = entry_widths(table.shape, 0)
    entries, low = np.zeros(table.shape, np.uint64), 0
    for axis, width in zip((2, 1, 0), widths, strict=False):
        entries |= np.indices(table.shape, np.uint64)[axis] << np.uint64(low)
        low += width
    return (entries | table.astype(np.uint64) << np.uint64(low)).ravel()

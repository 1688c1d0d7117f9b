"""Decisions of an inferential filter as a table of thresholds, for hardware."""

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from operator import index
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import SpecificationError
from ..files import replace_file
from ..filter import require_count
from ..spec.base import require
from .inferential import InferentialFilter, minimum_penalty
from .timing import Evidence

_MANY = 1 << 40
"""Insertions after which the beginning of the stream shortens no window."""


@dataclass(frozen=True, kw_only=True)
class QueryClass:
    """Queries with the same prior, costs and window; see `InferentialFilter.query`.

    Attributes
    ----------
    probability : float
        p_x, the probability that the key is the next one; between 0 and 1, both excluded.
    false_positive, false_negative : float
        Cost of an error, at least 0 and finite.
    window : int, optional
        Window of the query, in insertions; by default the filter's window.
    """

    probability: float
    false_positive: float
    false_negative: float
    window: int | None = None


@dataclass(frozen=True, eq=False)
class DecisionTable:
    """Thresholds that encode the decisions of least expected penalty (section 2.6).

    The more cells of a key have the oldest timestamp, the more likely the key is in the window. So
    a threshold exists for each class of queries, each age of the oldest timestamp and each phase of
    the current block. A key is reported if at least this number of its cells have the oldest
    timestamp. A phase covers all insertions into the block whose numbers share their `bits` highest
    digits. With all digits of the block, the answers equal the filter's. In the first window of a
    stream the filter counts fewer insertions, but the table does not.

    Attributes
    ----------
    thresholds : ndarray of uint8, shape (classes, ages, 2**bits)
        Minimum number of cells, at least 1, with which the answer is True; ``hashes + 1`` if the
        answer is never True. The last age belongs to keys with expired cells: 1 stands for True.
    hashes, block, bits : int
        Cells per key, insertions per block, and digits of the phase.
    """

    thresholds: NDArray[np.uint8]
    hashes: int
    block: int
    bits: int

    @classmethod
    def of(cls, filter: InferentialFilter, classes: Sequence[QueryClass], bits: int) -> Self:
        """Compute the table of a filter.

        Parameters
        ----------
        filter : InferentialFilter
            Only its parameters and its prior are used, not its cells.
        classes : sequence of QueryClass
            At least one class.
        bits : int
            Digits of the phase, q, 0 to ``log2(filter.block)``.

        Raises
        ------
        TypeError
            If `bits` is not an integer.
        ValueError
            If there is no class, if `bits` or a field of a class is out of range, or if a decision
            is not a threshold.
        """
        require_count("bits", bits, least=0, most=filter.block.bit_length() - 1)
        if not classes:
            raise ValueError("classes: must be at least one, not none")
        hashes, block = filter.hashes, filter.block
        ages = np.append(np.arange(-(-filter.window // block) + 1), -1)
        shape = (len(ages), block, hashes)
        age, filled, cells = (
            np.broadcast_to(values, shape).ravel()
            for values in (
                ages[:, None, None], np.arange(block)[:, None], np.arange(1, hashes + 1)
            )
        )  # fmt: skip
        # A key of the current block was one of its insertions.
        filled = np.where(age == 0, np.maximum(filled, 1), filled)
        evidence = Evidence(age, cells, cells, filled, np.full(age.size, _MANY))
        begins = -(-np.arange(1 << bits) * block >> bits)
        thresholds = []
        for one in classes:
            window = filter.model.checked_window(one.window)
            inferred = filter._ages(evidence, np.asarray(one.probability, np.float64))
            posterior = inferred.within(window).reshape(shape)
            # The cost of a phase is the sum over its insertions.
            shares = np.diff(begins, append=block)[:, None]
            mean = np.add.reduceat(posterior, begins, axis=1) / shares
            costs = {"false_positive": one.false_positive, "false_negative": one.false_negative}
            decided = minimum_penalty(np.clip(mean, 0, 1), **costs)
            thresholds.append(_thresholds(decided, hashes))
        return cls(np.array(thresholds, np.uint8), hashes, block, bits)

    @property
    def entry_bits(self) -> int:
        """Bits of an entry."""
        return (self.hashes + 1).bit_length()

    @property
    def storage_bits(self) -> int:
        """Bits of all entries."""
        return self.thresholds.size * self.entry_bits

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the table to a JSON file at `path`, which appears complete or not at all."""
        values = vars(self) | {"thresholds": self.thresholds.tolist()}
        with replace_file(path) as file:
            file.write(json.dumps(values).encode() + b"\n")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a file at `path` that `save` wrote.

        Raises
        ------
        SpecificationError
            If the file is not a decision table.
        OSError
            If it cannot be read.
        """
        with open(path, "rb") as file:
            content = file.read()
        try:
            values = json.loads(content)
            numbers = {name: index(values[name]) for name in ("hashes", "block", "bits")}
            wide = np.array(values["thresholds"])
            if wide.ndim != 3 or wide.dtype.kind != "i" or not 0 <= wide.min() <= wide.max() < 256:
                raise ValueError("thresholds are no array of three dimensions, of 0 to 255")
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            reason = " ".join(str(error).split())
            raise SpecificationError(
                f"{os.fspath(path)}: must be a table that DecisionTable.save wrote: {reason}"
            ) from None
        return cls(wide.astype(np.uint8), **numbers)

    def check_fits(
        self, *, hashes: int, bits: int, shape: tuple[int, int, int], block: int | None = None
    ) -> None:
        """Check that the table fits a filter.

        Parameters
        ----------
        hashes, bits : int
            Cells of a key, and digits of the phase.
        shape : tuple of int
            Shape of `thresholds`.
        block : int, optional
            Insertions per block, if the number is known.

        Raises
        ------
        SpecificationError
            If a value differs, or a threshold exceeds ``hashes + 1``.
        """
        for name, needed, has in (
            ("hashes", hashes, self.hashes),
            ("digits", bits, self.bits),
            ("shape", shape, self.thresholds.shape),
            ("block", block or self.block, self.block),
        ):
            require(needed == has, "table", f"must have {name} {needed} for this filter", has)
        highest = int(self.thresholds.max())
        rule = f"must have thresholds of at most {hashes + 1} for this filter"
        require(highest <= hashes + 1, "table", rule, highest)

    def answers(self, evidence: Evidence, classes: ArrayLike = 0) -> NDArray[np.bool_]:
        """Return the answer to each query, from the evidence of its cells.

        Parameters
        ----------
        evidence : Evidence
            Evidence for n keys, as `inspect` of the filter's model returns it.
        classes : array_like of int, shape (n,) or ()
            Class of each query.

        Returns
        -------
        ndarray of bool, shape (n,)

        Raises
        ------
        IndexError
            If the class does not exist.
        """
        phase = evidence.filled * (1 << self.bits) // self.block
        cells = np.where(evidence.age < 0, 1, evidence.oldest)
        chosen = np.asarray(classes, np.intp)
        answers: NDArray[np.bool_] = cells >= self.thresholds[chosen, evidence.age, phase]
        return answers


def entry_fields(shape: tuple[int, int, int], hashes: int) -> tuple[int, int, int, int]:
    """Return the bits of an entry in hardware: phase, age, class and threshold, the lowest first.

    Parameters
    ----------
    shape : tuple of int
        Shape of the thresholds: classes, ages and phases.
    hashes : int
        Cells of a key.
    """
    classes, ages, phases = ((count - 1).bit_length() for count in shape)
    return phases, ages, classes, (hashes + 1).bit_length()


def packed_entries(thresholds: ArrayLike, hashes: int) -> NDArray[np.uint64]:
    """Return the entries of a table for hardware, packed as `entry_fields`; shape (n,).

    Parameters
    ----------
    thresholds : array_like of int, shape (classes, ages, 2**bits)
        Thresholds of a `DecisionTable`, each at most ``hashes + 1``.
    hashes : int
        Cells of a key.
    """
    table = np.asarray(thresholds)
    classes, ages, phases = np.indices(table.shape)
    fields = np.stack([phases, ages, classes, table]).astype(np.uint64)
    bits = entry_fields(table.shape, hashes)
    places = np.cumsum([0, *bits[:-1]]).astype(np.uint64)
    entries: NDArray[np.uint64] = (fields << places[:, None, None, None]).sum(axis=0).ravel()
    return entries


def _thresholds(decided: NDArray[np.bool_], hashes: int) -> NDArray[np.int64]:
    """Return the position of the first True, from 1, along the last axis; else one past the end."""
    if (decided[..., :-1] & ~decided[..., 1:]).any():
        raise ValueError("classes: a decision is no threshold of the number of cells")
    first: NDArray[np.int64] = hashes + 1 - decided.sum(axis=-1)
    return first

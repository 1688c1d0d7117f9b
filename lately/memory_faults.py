"""Which memory of a board is faulty: of which a fault explains all answers that are wrong."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from secrets import randbits
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .chosen_digests import dictionary_hash, rows_of
from .golden import FilterSpec, Operation, WindowDictionarySpec, from_spec
from .golden.hash.functions import KeyHash
from .golden.hash.keys import Keys, random_keys
from .golden.hash.siphash import SECRET_BITS
from .golden.operations import OperationBit
from .golden.ring.layout import Layout
from .golden.ring.turn_policy import TurnPolicy, Turns
from .golden.spec.base import Specification
from .golden.spec.timestamp import StampedPartsSpec
from .golden.times import Times
from .hdl.latencies import PERIOD_BITS
from .host import Host, Results

_MOST = 2048
"""Keys of a stretch of a probe, at most."""

_NEVER = -(1 << 62)
"""Earlier than any stamp."""

_MOST_ENTRIES = 1 << 16
"""Keys of the probe of a dictionary, at most."""

_BATCH, _BATCHES = 1 << 14, 64
"""Keys that are drawn at a time, and how often at most, for those of one column."""


class Probe(ABC):
    """Operations that tell the memories of a filter apart, and what their answers mean.

    A fault is taken to be in one memory. What the others hold is known, as no operation writes by
    what another memory holds; so memories that cannot make an answer what it was, whatever they
    hold, are no suspects. Of the others those come first that need not read a cell now right and
    now wrong, though the same was written: bits are stuck.

    Attributes
    ----------
    codes : ndarray of uint8, shape (n,)
        Operations, from a CLEAR on.
    keys : ndarray of uint64
        As `Host.perform` takes them.

    Parameters
    ----------
    spec : Specification
    seed : int
        Of the keys.
    secret : int
        Of the filter from the CLEAR on, if its hash takes one.
    """

    def __init__(self, spec: Any, seed: int, secret: int = 0) -> None:
        self._spec, self._secret = spec, secret
        self._random = np.random.default_rng(seed)
        codes, numbers = zip(*self._stretches(), strict=True)
        self.codes = np.concatenate([[Operation.CLEAR], *codes]).astype(np.uint8)
        pool = self._pool(1 + max(map(np.max, numbers)))
        self.keys = pool[np.concatenate([[0], *numbers]).astype(np.intp)]

    def _pool(self, count: int) -> NDArray[np.uint64]:
        """Return the keys, by their numbers."""
        return random_keys(self._random, count, self._spec.key_bits)

    @abstractmethod
    def _stretches(self) -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
        """Yield operations and the numbers of their keys."""

    @abstractmethod
    def suspects(self, results: Results) -> list[str]:
        """Return the memories of which one may be faulty; none if all answers are right.

        None, too, if a fault of no single memory explains the `results`.
        """


def probe(spec: Specification, seed: int = 0, secret: int = 0) -> Probe | None:
    """Return the probe for a filter, or None if there is none for such filters.

    Parameters
    ----------
    spec : Specification
    seed, secret : int
        As for `Probe`.
    """
    if isinstance(spec, StampedPartsSpec):
        return PartsProbe(spec, seed)
    if isinstance(spec, WindowDictionarySpec):
        return ColumnsProbe(spec, seed, secret)
    return RingProbe(spec, seed, secret) if isinstance(spec, FilterSpec) else None


def locate(host: Host, spec: Specification) -> list[str]:
    """Have a board perform the probe for its filter; return the suspects, and leave it clear.

    A ring has generations as specified from then on, and a filter that takes a secret has one that
    nobody knows.

    Parameters
    ----------
    host : Host
    spec : Specification
        Of the board's filter.

    Errors: as for `Host.perform`.
    """
    keyed = host.information.keyed
    secret = randbits(SECRET_BITS) if keyed else 0
    found = probe(spec, secret=secret)
    if found is None:
        return []
    if keyed:
        # A ring that has two secrets takes none.
        host.clear()
        host.configure(secret=secret)
    if isinstance(spec, FilterSpec):
        host.configure(generation=spec.generation)
    with _slow_ticks(host, spec):
        results = host.perform(found.codes, found.keys)
        host.clear()
    return found.suspects(results)


@contextmanager
def _slow_ticks(host: Host, spec: Specification) -> Iterator[None]:
    """Have keys stay in a ring with a window in time for as long as they can."""
    if not isinstance(spec, FilterSpec) or not spec.timed:
        yield
        return
    period = host.statistics()["period"]
    host.configure(period=(1 << PERIOD_BITS) - 1)
    yield
    host.configure(period=period)


class PartsProbe(Probe):
    """Probe of timing filters in parts: keys that share cells, at ages that differ."""

    def _stretches(self) -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
        draw, keys = self._random, min(8 * _MOST, 2 * self._spec.cells)
        count = min(16 * _MOST, 60 * keys)
        codes = draw.choice([Operation.QUERY, Operation.CHECK_AND_INSERT], count, p=[0.7, 0.3])
        yield codes, draw.integers(0, keys, count)

    def suspects(self, results: Results) -> list[str]:
        """Return the parts of which one may be faulty; see `Probe.suspects`."""
        cells, blocks, ages = self._ages(results.time)
        told, oldest = results.oldest_age[1:], results.oldest[1:]
        if ((told == ages.max(axis=0)) & (oldest == (ages == told).sum(axis=0))).all():
            return []
        possible, likely = [], []
        for part in range(self._spec.hashes):
            most = np.delete(ages, part, axis=0).max(axis=0, initial=-1)
            same = (np.delete(ages, part, axis=0) == most).sum(axis=0)
            older = (told > most) & (oldest == 1)
            equal, younger = ((told == most) & (oldest == same + more) for more in (1, 0))
            if not (older | equal | younger).all():
                continue
            possible.append(f"part {part}")
            # Bounds of the stamp that is read of a cell, for each stamp that it was given.
            lost = older & (told > self._spec.window_blocks)
            low = np.where(younger, blocks - most + 1, np.where(lost, _NEVER, blocks - told))
            high = np.where(younger, -_NEVER, blocks - told)
            known = ages[part] <= self._spec.window_blocks
            given = np.stack([cells[part], blocks - ages[part]])[:, known]
            groups = np.unique(given, axis=1, return_inverse=True)[1].ravel()
            ends = np.full((2, known.sum()), [[_NEVER], [-_NEVER]])
            np.maximum.at(ends[0], groups, low[known])
            np.minimum.at(ends[1], groups, high[known])
            if (ends[0] <= ends[1]).all():
                likely.append(f"part {part}")
        return likely or possible

    def _ages(self, times: NDArray[np.int64]) -> tuple[NDArray[np.int64], ...]:
        """Return cells of each key, blocks of operations, and ages of cells: (hashes, n), (n,)."""
        spec = self._spec
        hashed = KeyHash(
            key_bits=spec.key_bits, sizes=spec.index_sizes, functions=1, seed=spec.seed
        )
        cells = np.array(hashed.indices(hashed.state(hashed.check_keys(self.keys[1:])), 0))
        inserts = self.codes[1:] & OperationBit.INSERT.value > 0
        before: NDArray[np.int64] = np.cumsum(inserts) - inserts
        blocks = times[1:] - times[1] if spec.timed else before // spec.block_units
        stamps = np.full((spec.hashes, spec.cells), -spec.window_blocks - 1)
        ages = np.empty(cells.shape, np.int64)
        parts = np.arange(spec.hashes)
        for at, block in enumerate(blocks):
            ages[:, at] = block - stamps[parts, cells[:, at]]
            if inserts[at]:
                stamps[parts, cells[:, at]] = block
        return cells, blocks, np.minimum(ages, spec.window_blocks + 1)


class RingProbe(Probe):
    """Probe of rings: each segment once in each place, as long as time leaves it there."""

    def _stretches(self) -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
        spec = self._spec
        keys = min(_MOST, spec.generation)
        self._asked: list[slice] = []
        start = 1
        # The fewer keys, the more often.
        turns = spec.segments * max(2, 300 // keys)
        for turn in range(turns):
            own = np.arange(turn * keys, (turn + 1) * keys)
            asked = self._random.integers(0, (turns + 2) * keys, 2 * keys)
            numbers = np.concatenate([own, own, asked, own[:1]])
            codes = np.full(len(numbers), Operation.QUERY)
            codes[:keys], codes[-1] = Operation.INSERT, Operation.SHIFT
            self._asked.append(slice(start + keys, start + 4 * keys))
            start += len(numbers)
            yield codes, numbers

    def suspects(self, results: Results) -> list[str]:
        """Return the segments and parts of which one may be faulty; see `Probe.suspects`."""
        operands: list[NDArray[Any]] = [self.codes, self.keys]
        operands += [results.time] if self._spec.timed else []
        spec, golden, alive = self._spec, self._golden(), self._alive(results.time)
        shape = (spec.segments, spec.parts)
        possible, wrong, start = np.ones(shape, np.bool_), False, 0
        # Whether a cell was read wrong, as 0 and as 1.
        read = np.zeros((3, *shape, spec.part_bits), np.bool_)
        for asked in self._asked:
            before = slice(start, asked.start)
            golden.apply(*(each[before] for each in operands))
            start, told, counting = asked.start, results.age[asked], alive[asked]
            cells, bits = self._bits(golden.memory, self.keys[asked])
            ring = (golden.ring_position + np.arange(spec.ring_segments)) % spec.segments
            wrong |= bool((told != self._age(bits[ring].all(axis=1), counting)).any())
            for place, segment in enumerate(ring):
                for part in range(spec.parts):
                    ages = self._ages(bits[ring], place, part, counting)
                    possible[segment, part] &= bool((told == ages).any(axis=0).all())
                    matters = ages[0] != ages[1]
                    value, cell = told == ages[1], cells[segment, part]
                    right = value == bits[segment, part]
                    for kind, shown in enumerate((~right, ~value, value)):
                        read[kind, segment, part, cell[matters & shown]] = True
        likely = possible & ~read.all(axis=0).any(axis=-1)
        found = np.argwhere(likely if likely.any() else possible)
        return [f"segment {segment}, part {part}" for segment, part in found] if wrong else []

    def _golden(self) -> Any:
        keyed = self._spec.hash == "siphash"
        return from_spec(self._spec, secret=self._secret) if keyed else from_spec(self._spec)

    def _alive(self, times: Times) -> NDArray[np.int64]:
        """Return how many of the youngest segments count in each operation, shape (n,)."""
        spec = self._spec
        if not spec.timed:
            return np.full(len(times), spec.ring_segments)
        return Turns(TurnPolicy.of(spec)).follow(self.codes, times).alive

    def _ages(
        self, bits: NDArray[np.bool_], place: int, part: int, alive: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Return the ages of keys if the bits of a memory were 0, and 1; shape (2, n)."""
        matches: NDArray[np.bool_] = np.array(bits.all(axis=1))
        others = np.delete(bits[place], part, axis=0).all(axis=0)
        ages = []
        for value in (np.zeros_like(others), others):
            matches[place] = value
            ages.append(self._age(matches, alive))
        return np.array(ages)

    def _bits(
        self, memory: NDArray[np.bool_], keys: Keys
    ) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
        """Return cells and bits of keys in each memory, of shape (segments, parts, n)."""
        layout = Layout.of(self._spec, True)
        state = layout.hash.state(layout.hash.check_keys(keys), self._secret)
        held = memory.reshape(len(memory), -1)
        places = np.array([layout.positions(state, at) for at in range(len(held))])
        bits = np.array([one[at] for one, at in zip(held, places, strict=True)])
        return places % self._spec.part_bits, bits

    def _age(self, matches: NDArray[np.bool_], alive: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the ages of keys by matches from the youngest segment on, (ring_segments, n)."""
        starts, run = self._spec.window_generations + 1, self._spec.run
        runs = np.array([matches[at : at + run].all(axis=0) for at in range(starts)])
        ages = runs.argmax(axis=0)
        return np.where(runs.any(axis=0) & (ages + run <= alive), ages, -1)


class ColumnsProbe(Probe):
    """Probe of dictionaries: keys that find a free cell each, as many in one column as in another.

    An entry goes to the first column that has room, and none has to move. So the columns before
    the faulty one are as they should be, and of those with a wrong answer the first is named. Keys
    are inserted and asked for again and again until timestamps come round. A column that
    always seems full makes no answer wrong as long as the others have room, and is not found.
    """

    def _stretches(self) -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
        self._chosen, self._columns = self._choice()
        numbers = np.arange(len(self._columns))
        for _ in range(1 + -(-(1 << self._spec.timestamp_bits) // len(numbers))):
            yield np.full(len(numbers), Operation.INSERT), numbers
            yield np.full(len(numbers), Operation.QUERY), numbers

    def _pool(self, count: int) -> NDArray[np.uint64]:
        return self._chosen

    def _choice(self) -> tuple[NDArray[np.uint64], NDArray[np.intp]]:
        """Return keys, and the column that each goes to; in the order of the columns."""
        spec = self._spec
        taken, found = np.zeros((spec.columns, spec.rows), np.bool_), []
        most = max(1, min(_MOST_ENTRIES, spec.window) // spec.columns)
        digests = np.empty(0, np.int64)
        for column in range(spec.columns):
            left = most
            for _ in range(_BATCHES):
                keys, drawn, rows = self._drawn()
                free = ~taken[column, rows[column]] & ~np.isin(drawn, digests)
                for before in range(column):
                    free &= taken[before, rows[before]]
                fits = np.flatnonzero(free)
                # The first of those that want the same cell.
                fits = fits[np.sort(np.unique(rows[column, fits], return_index=True)[1])[:left]]
                taken[column, rows[column, fits]] = True
                digests = np.append(digests, drawn[fits])
                found.append((keys[fits], np.full(len(fits), column)))
                left -= len(fits)
                if not left:
                    break
        chosen, columns = zip(*found, strict=True)
        return np.concatenate(chosen), np.concatenate(columns)

    def _drawn(self) -> tuple[NDArray[np.uint64], NDArray[np.int64], NDArray[np.int64]]:
        """Draw keys; return them, their digests, (n,), and rows in each column, (columns, n)."""
        spec, hashed = self._spec, dictionary_hash(self._spec)
        keys = random_keys(self._random, _BATCH, spec.key_bits)
        low, rest = hashed.indices(hashed.state(hashed.check_keys(keys), self._secret), 0)
        digests = rest << spec.row_bits | low
        return keys, digests, rows_of(spec, digests)

    def suspects(self, results: Results) -> list[str]:
        """Return the column that is faulty; see `Probe.suspects`."""
        count = len(self._columns)
        told = results.age[1:].reshape(-1, 2, count)[:, 1]
        wrong = told != np.arange(count)[::-1]
        if not wrong.any():
            return []
        first = wrong[wrong.any(axis=1).argmax()]
        return [f"column {self._columns[first].min()}"]

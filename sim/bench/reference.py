"""The golden model of a unit, one operation at a time.

`Reference` is for units whose answers depend only on the state of the model. Other families have
one subclass each; `reference` selects it.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...golden import Operation, from_spec
from ...golden.hash.functions import KeyHash, offset_terms
from ...golden.operations import OperationBit
from ...golden.ring.layout import Layout
from ...golden.spec.base import Specification
from ...hdl.interface import UnitSignature

Item = dict[str, int]
"""Fields of a request; its ``operation`` may be undefined."""

Cells = NDArray[np.int64]
"""Cell of each key in each part of the memory, shape (parts, keys)."""


class Reference:
    """Golden model of a unit; performs each operation at the time in its result or request.

    Attributes
    ----------
    spec : Specification
    golden : Filter
    now : int
        Ticks so far; results and requests contain its low bits.
    generation : int
        Length of generations, if programmable.
    records : bool
        Whether `facts` are collected, which takes time.
    still : bool
        Whether time stops while outputs and memory are compared.
    """

    FACTS: tuple[str, ...] = ()
    """Attributes of the model for functional coverage."""

    def __init__(self, spec: Specification, signature: UnitSignature) -> None:
        self.spec: Any = spec
        self.signature = signature
        self.records, self.still = False, True
        self._lane = signature.of_lane(signature.result, 0)
        self._times = 1 << (self._lane["time"].width if "time" in self._lane.members else 0)
        self.generation: int = getattr(spec, "generation", 0)
        self._secrets: deque[tuple[float, int]] = deque()
        self.reset()

    @property
    def round_length(self) -> int:
        """Insertions after which the behaviour of the unit repeats."""
        return 600

    def reset(self) -> None:
        """Restart, as the unit does at reset."""
        self.golden: Any = self._model()
        self.now = 0
        self._secrets.clear()

    def _model(self) -> Any:
        return from_spec(self.spec)

    def rekey(self, time: float, secret: int) -> None:
        """Load a secret before the first operation that is accepted at `time` or later, in ns."""
        self._secrets.append((time, secret))

    def perform(self, item: Item, given: Item, accepted: float) -> dict[str, int]:
        """Perform an operation; return the defined fields of its result.

        Parameters
        ----------
        item : dict
            Fields of the request.
        given : dict
            Fields of the unit's result.
        accepted : float
            Time at which the unit accepted the operation, in ns.
        """
        while self._secrets and accepted >= self._secrets[0][0]:
            self.golden.rekey(self._secrets.popleft()[1])
        if "time" in given:
            self._pass(item, given["time"])
        due = self._answer(item, given, accepted)
        if "time" in given:
            due["time"] = self.now % self._times
        return due | {"tag": item.get("tag", 0)}

    def _pass(self, item: Item, time: int) -> None:
        """Advance time to the time of the result, or of the request if it carries a time."""
        passed = (item.get("time", time) - self.now) % self._times
        # An earlier time of a request counts as the current time.
        self.now += 0 if "time" in item and 2 * passed >= self._times else passed

    def _answer(self, item: Item, given: Item, accepted: float) -> dict[str, int]:
        """Perform an operation; return its answer about the key."""
        known = item["operation"] in self.golden.supported
        return self._performed(item["operation"] if known else Operation.NONE, item["key"])

    def _performed(self, operation: int, key: int, **windows: Any) -> dict[str, int]:
        """Perform an operation of the model; return its results except the time."""
        times = {"times": [self.now * self.spec.block_units]} if self._times > 1 else {}
        results = self.golden.perform([operation], self.keys([key]), **times, **windows)
        names = [name for name in self._lane.members if name in results._fields and name != "time"]
        due = {name: int(getattr(results, name)[0]) for name in names}
        # A key that is not reported has no age, unless its cells have one.
        return due | {"age": max(due["age"], 0)} if "age" in due else due

    def keys(self, keys: Sequence[int]) -> NDArray[np.uint64]:
        """Return integers in the format of golden's keys."""
        words = -(-self.spec.key_bits // 64)
        mask = (1 << 64) - 1
        rows = [[key >> 64 * word & mask for word in range(words)] for key in keys]
        array = np.array(rows, np.uint64)
        return array if words > 1 else array[:, 0]

    def facts(self) -> dict[str, int]:
        """Return the facts for functional coverage, or nothing if they are not collected."""
        if not self.records:
            return {}
        return {name: int(getattr(self.golden, name)) for name in self.FACTS} | self._facts()

    def _facts(self) -> dict[str, int]:
        return {}

    @property
    def outputs(self) -> dict[str, int]:
        """Values of the counters, and of other outputs of the unit."""
        counters, members = self.golden.counters, self.signature.members
        return {name: value for name, value in counters.items() if name in members}

    def check_outputs(self, dut) -> None:
        """Compare the outputs of the unit, which wrap around, with golden's outputs."""
        for name, value in self.outputs.items():
            port = getattr(dut, name)
            found, expected = int(port.value), value % (1 << len(port))
            assert found == expected, f"{name}: expected {expected}, got {found}"

    def check_memory(self, memory: Any) -> None:
        """Compare the memory of the unit with the golden model."""
        differing = np.argwhere(memory.view(self._count) != self._memory)
        assert len(differing) == 0, f"memory differs at {differing[0]} and {len(differing)} places"

    @property
    def _count(self) -> int:
        """Ticks, blocks or insertions so far, for `lately.hdl.memory.map.MemoryMap.view`."""
        return 0

    @property
    def _memory(self) -> NDArray[Any]:
        """Expected contents of the memory."""
        memory: NDArray[Any] = self.golden.memory
        return memory

    def cells_of(self, keys: Sequence[int]) -> Cells:
        """Return the cells of keys; by default, keys share no cells."""
        return np.array([keys])


class RingReference(Reference):
    """Reference of a ring of segments, by count or in time."""

    FACTS = ("shifts", "insertions")

    @property
    def round_length(self) -> int:
        """Insertions after which each segment has been the youngest."""
        return int(self.spec.segments * self.generation)

    def _model(self) -> Any:
        golden = from_spec(self.spec)
        golden.generation = self.generation
        # The first generation also has the programmed length.
        golden.clear()
        golden.operations = 0
        return golden

    def _facts(self) -> dict[str, int]:
        counters = self.golden.counters
        return {name: counters[name] for name in ("shortened", "overfilled") if name in counters}

    @property
    def outputs(self) -> dict[str, int]:
        """Counters of the model, and the ticks that are covered."""
        ticks = self.still and "covered" in self.signature.members
        covered = {"covered": self.golden.guaranteed_span(self.now) + 1} if ticks else {}
        return super().outputs | covered

    def cells_of(self, keys: Sequence[int]) -> Cells:
        """Return indices in the segments that a new filter writes first, hash by hash."""
        states = self._hash.state(self._hash.check_keys(self.keys(keys)))
        functions = range(min(self.spec.run, self.spec.hash_functions))
        return np.concatenate([self._hash.indices(states, function) for function in functions])

    def shards_of(self, keys: Sequence[int]) -> NDArray[np.int64]:
        """Return the shard of each key."""
        shards = self._hash.shard(self._hash.state(self._hash.check_keys(self.keys(keys))))
        return np.asarray(shards, np.int64)

    @property
    def _hash(self) -> KeyHash:
        return Layout.of(self.spec, partitioned=True).hash


class TimingReference(Reference):
    """Reference of a timing filter, whose clock counts ticks or insertions.

    Attributes
    ----------
    tables : list of ndarray
        All tables in the order of use. The first element stands for the time before the first
        table, when every key is reported.
    """

    def reset(self) -> None:
        """Restart, as the unit does at reset."""
        super().reset()
        self.tables = [np.zeros(self.spec.table_shape, np.int64)] if self._decides else []
        self._swaps: list[float] = []
        # Blocks that ended before the last clear, if the clock counts insertions.
        self._ended = self._table = 0

    @property
    def _decides(self) -> bool:
        return self.spec.classes is not None

    @property
    def block(self) -> int:
        """Number of the current block since reset, as the unit counts them."""
        if not self.spec.timed:
            return self._ended + int(self.golden.insertions // self.spec.block_units)
        return self.now

    def swap(self, time: float, thresholds: NDArray[np.int64]) -> None:
        """Use a table for operations that are accepted after a time, in ns."""
        self.tables.append(thresholds.copy())
        self._swaps.append(time)

    def _answer(self, item: Item, given: Item, accepted: float) -> dict[str, int]:
        clear = item["operation"] == Operation.CLEAR
        alone = bool(item["operation"] & OperationBit.ALONE)
        if clear:
            self._ended = self.block
        if self._decides:
            self._table = bisect_left(self._swaps, accepted)
            self.golden.decide_by(self.tables[self._table])
            limit = item.get("query_class", 0)
        else:
            limit = min(item["window"], self.spec.window_blocks) * self.spec.block_units
        # What the model lacks does nothing in a unit.
        operation = item["operation"] if clear or not alone else Operation.NONE
        due = self._performed(operation, item["key"], windows=[limit])
        return {"seen": due["seen"]} if alone else due

    def _facts(self) -> dict[str, int]:
        table = {"table": self._table, "phase": self.golden.phase} if self._decides else {}
        return {"block": self.block, **table}

    @property
    def _count(self) -> int:
        return self.block

    @property
    def _memory(self) -> NDArray[Any]:
        if not self.spec.timed:
            return super()._memory
        ages: NDArray[Any] = self.golden.memory_at(self.now * self.spec.block_units)
        return ages

    def check_memory(self, memory: Any) -> None:
        """Compare the ages of all cells, unless time advances."""
        if self.still:
            super().check_memory(memory)

    def cells_of(self, keys: Sequence[int]) -> Cells:
        """Return the cell in each part."""
        spec = self.spec
        key_hash = KeyHash(
            key_bits=spec.key_bits, sizes=spec.index_sizes, functions=1, seed=spec.seed
        )
        return np.array(key_hash.indices(key_hash.state(key_hash.check_keys(self.keys(keys))), 0))


class DictionaryReference(Reference):
    """Reference of a dictionary, whose codes are sums of bits, performed one after another."""

    FACTS = ("insertions", "lost", "stashed", "guaranteed_window")

    @property
    def round_length(self) -> int:
        """Insertions after which timestamps repeat."""
        return int(1 << self.spec.timestamp_bits)

    def _model(self) -> Any:
        # Operations of the model in addition to one per operation of the unit.
        self._more = 0
        return super()._model()

    def _answer(self, item: Item, given: Item, accepted: float) -> dict[str, int]:
        window = item.get("window", self.spec.window)
        # The model has no window 0, for which no key is seen.
        windows = {"windows": [min(max(window, 1), self.spec.window)]}
        codes = steps(item["operation"]) or (Operation.NONE,)
        guaranteed, hits = self.golden.guaranteed_window, self.golden.hits
        first, *_ = [self._performed(code, item["key"], **windows) for code in codes]
        self._more += len(codes) - 1
        if not window:
            self.golden.hits = hits
            first |= {"seen": 0, "age": 0}
        return first | {"status": int(asks(item["operation"]) and window > guaranteed)}

    @property
    def outputs(self) -> dict[str, int]:
        """Counters, and the guaranteed window."""
        counters = super().outputs
        counters["operations"] -= self._more
        return counters | {"guaranteed": self.golden.guaranteed_window}

    @property
    def _count(self) -> int:
        return int(self.golden.counters["insertions"])

    def cells_of(self, keys: Sequence[int]) -> Cells:
        """Return the row in each column."""
        spec = self.spec
        key_hash = KeyHash(
            key_bits=spec.key_bits, sizes=[spec.rows, 1 << spec.rest_bits], functions=1,
            seed=spec.seed, hash=spec.hash,
        )  # fmt: skip
        # Before a secret is loaded.
        states = key_hash.state(key_hash.check_keys(self.keys(keys)), 0)
        low, rest = (np.asarray(part, np.int64) for part in key_hash.indices(states, 0))
        columns = offset_terms(
            columns=spec.columns, row_bits=spec.row_bits, rest_bits=spec.rest_bits, seed=spec.seed
        )
        rows = np.repeat(low[None], spec.columns, axis=0)
        for row, terms in zip(rows, columns, strict=True):
            for bit, added in enumerate(terms):
                for term in added:
                    row ^= (rest >> term & 1) << bit
        return rows


class MovingDictionaryReference(DictionaryReference):
    """Exact list of digests, for a dictionary with moves.

    The evicted entry depends on the timing of the unit. So a query may miss its key if the status
    reports that the window exceeds the guaranteed window.

    Attributes
    ----------
    missed : int
        Keys that were missed with this status.
    unsure : int
        Results with this status.
    """

    STASH = 256
    """Entries in the model's stash, so that the model evicts none."""

    def _model(self) -> Any:
        self.missed = self.unsure = self._more = 0
        return from_spec(replace(self.spec, stash=self.STASH))

    def _answer(self, item: Item, given: Item, accepted: float) -> dict[str, int]:
        due = super()._answer(item, given, accepted)
        if asks(item["operation"]) and given.get("status"):
            self.unsure += 1
            due["status"] = 1
            if due["seen"] and not given["seen"]:
                self.missed += 1
                self.golden.hits -= 1
                due |= {"seen": 0, "age": 0}
        return due

    def _facts(self) -> dict[str, int]:
        return {"missed": self.missed, "unsure": self.unsure}

    @property
    def outputs(self) -> dict[str, int]:
        """Counters that do not depend on the timing of the unit."""
        found = super().outputs
        return {name: found[name] for name in ("operations", "insertions", "hits")}

    def check_outputs(self, dut) -> None:
        """Compare counters; a unit without evictions must guarantee the whole window."""
        super().check_outputs(dut)
        self._guaranteed = int(dut.guaranteed.value)
        # A narrow counter may have wrapped.
        if not dut.lost.value and len(dut.lost) > 8:
            assert self._guaranteed == self.spec.window, f"{self._guaranteed} guaranteed, no loss"
            assert not self.unsure, f"{self.unsure} unsure results without a loss"

    def check_memory(self, memory: Any) -> None:
        """Compare the entries in all cells; at most `stash` entries may be in no cell."""
        there = {*map(tuple, self.golden.entries_of(memory.view(self._count)).tolist())}
        due = {*map(tuple, self.golden.entries.tolist())}
        assert there <= due, f"memory differs: {len(there - due)} entries that golden has not"
        away = sum(age <= self._guaranteed for _, age in due - there)
        assert away <= self.spec.stash, f"memory differs: {away} entries in no cell"


def steps(code: int) -> tuple[Operation, ...]:
    """Return the operations of a dictionary for a code; empty if the code is undefined."""
    bits = OperationBit(code)
    if bits & OperationBit.ALONE:
        return (Operation.CLEAR,) if code == Operation.CLEAR else ()
    if bits & OperationBit.REMOVE:
        before = (Operation.QUERY,) if bits & OperationBit.QUERY else ()
        return (*before, Operation.REMOVE)
    return (Operation(code),)


def asks(code: int) -> bool:
    """Return whether an operation queries its key."""
    bits = OperationBit(code)
    return bool(bits & OperationBit.QUERY) and not bits & OperationBit.ALONE


def reference(spec: Specification, signature: UnitSignature) -> Reference:
    """Return the reference of a unit, selected by its signature."""
    lane = signature.of_lane(signature.result, 0).members
    kind: type[Reference] = Reference
    if "oldest" in lane:
        kind = TimingReference
    elif "generation" in signature.members:
        kind = RingReference
    elif signature.of_lane(signature.request, 0)["operation"].width > 3:
        kind = MovingDictionaryReference if getattr(spec, "moves", None) else DictionaryReference
    return kind(spec, signature)

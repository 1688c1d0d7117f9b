"""Golden model of a unit, which performs one request at a time."""

from bisect import bisect_left
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from amaranth.hdl import Shape
from numpy.typing import NDArray

from ...golden import Operation, from_spec
from ...golden.hash.functions import KeyHash, offset_terms
from ...golden.hash.keys import check_keys
from ...golden.operations import OperationBit
from ...golden.results import Results
from ...golden.ring.segments import Layout
from ...golden.spec.base import Specification
from ...hdl.interface import UnitSignature

Item = dict[str, int]  # fields of a request; the ``operation`` may be undefined
Cells = NDArray[np.int64]  # cell of each key in each part of the memory, shape (parts, keys)

STASH = 256  # stash size in the model of a unit with moves; so large that no entry is evicted


def operations_of(code: int, supported: Sequence[Operation]) -> tuple[Operation, ...]:
    """Return the model's operations for an operation code; undefined codes do nothing."""
    bits = OperationBit(code)
    if bits & OperationBit.REMOVE and not bits & OperationBit.ALONE:
        before = (Operation.QUERY,) if bits & OperationBit.QUERY else ()
        return (*before, Operation.REMOVE)
    return (Operation(code) if code in supported else Operation.NONE,)


def queries(code: int) -> bool:
    bits = OperationBit(code)
    return bool(bits & OperationBit.QUERY) and not bits & OperationBit.ALONE


class Reference:
    """Golden model that performs a unit's requests and predicts its results, outputs and memory."""

    # Attributes of the model that are recorded for functional coverage.
    FACTS = ("shifts", "insertions", "shortened", "overfilled", "lost", "stashed",
             "guaranteed_window", "phase")  # fmt: skip

    def __init__(self, spec: Specification, signature: UnitSignature) -> None:
        self.spec: Any = spec
        self.signature = signature
        self.records = False  # whether to collect `facts`, which takes time
        self.still = True  # whether time stands still while outputs and memory are compared
        results = signature.of_lane(signature.result, 0).members
        self._timed = "time" in results
        self._answers = [name for name in results if name in Results._fields and name != "time"]
        # Number of different times that a result can report before they wrap.
        self.times = 1 << Shape.cast(results.get("time", 0)).width
        self._dictionary = spec.kind == "dictionary"
        self._generations = "generation" in signature.members
        self.generation: int = getattr(spec, "generation", 0)
        self.reset()

    @property
    def round_length(self) -> int:
        """Number of insertions after which the behaviour of the unit repeats."""
        if self._generations:
            return int(self.spec.segments * self.generation)
        return int(1 << self.spec.timestamp_bits) if self._dictionary else 600

    def reset(self) -> None:
        self.golden: Any = self._model()
        if self._generations:
            self.golden.generation = self.generation
            # CLEAR, so that the first generation has the programmed length as well.
            self.golden.clear()
            self.golden.operations = 0
        self.now = 0  # number of ticks before the next operation; updated by the scoreboard
        # Number of additional model operations, where one unit operation needs two.
        self._additional = 0
        # Blocks that ended before the last clear, if a timing filter counts insertions.
        self._ended = self._table = 0
        self._secrets: deque[tuple[float, int]] = deque()
        self._swaps: list[float] = []
        # Tables in order of use; the initial table reports every key.
        self.tables = [np.zeros(self.spec.table_shape, np.int64)] if self._decides else []

    def _model(self) -> Any:
        return from_spec(self.spec)

    @property
    def _decides(self) -> bool:
        return self.spec.query_field == "query_class"

    def rekey(self, time: float, secret: int) -> None:
        self._secrets.append((time, secret))

    def swap(self, time: float, thresholds: NDArray[np.int64]) -> None:
        self.tables.append(thresholds.copy())
        self._swaps.append(time)

    def perform(self, item: Item, given: Item, accepted: float) -> dict[str, int]:
        """Perform a request accepted at time `accepted` in ns; return the expected result fields.

        `given` contains the fields of the unit's result.
        """
        while self._secrets and accepted >= self._secrets[0][0]:
            self.golden.rekey(self._secrets.popleft()[1])
        if self._decides:
            self._table = bisect_left(self._swaps, accepted)
            self.golden.decide_by(self.tables[self._table])
        due = self._answer(item, given)
        if self._timed:
            due["time"] = self.now % self.times
        return due | {"tag": item.get("tag", 0)}

    def _answer(self, item: Item, given: Item) -> dict[str, int]:
        code = item["operation"]
        if code == Operation.CLEAR:
            self._ended = self.block
        operations = operations_of(code, self.golden.supported)
        self._additional += len(operations) - 1
        hits, windows = self.golden.hits, self._windows(item)
        due, *_ = [self._performed(operation, item["key"], **windows) for operation in operations]
        if "oldest" in due and code & OperationBit.ALONE:
            return {"seen": due["seen"]}
        if self._dictionary and not item.get("window", 1):
            # The model has no window of 0, in which no key is seen.
            self.golden.hits = hits
            due |= {"seen": 0, "age": 0, "status": 0}
        return due

    def _windows(self, item: Item) -> dict[str, Any]:
        field, spec = self.spec.query_field, self.spec
        number = item.get(field, spec.window_blocks if field == "window" else 0)
        if field == "window":
            number = min(max(number, int(self._dictionary)), spec.window_blocks) * spec.block_units
        return {"windows": [number]} if field else {}

    def _performed(self, operation: int, key: int, **windows: Any) -> dict[str, int]:
        times = {"times": [self.now * self.spec.block_units]} if self._timed else {}
        results = self.golden.perform([operation], words_of(self.spec, [key]), **times, **windows)
        due = {name: int(getattr(results, name)[0]) for name in self._answers}
        # Where the model has an age of -1, the unit has 0.
        return due | {"age": max(due["age"], 0)} if "age" in due else due

    @property
    def block(self) -> int:
        if self.spec.kind != "timing" or self.spec.timed:
            return self.now
        return self._ended + int(self.golden.insertions // self.spec.block_units)

    def facts(self) -> dict[str, int]:
        if not self.records:
            return {}
        held = {name: getattr(self.golden, name, None) for name in self.FACTS}
        facts = {name: int(value) for name, value in held.items() if value is not None}
        return facts | {"block": self.block, "table": self._table}

    @property
    def outputs(self) -> dict[str, int]:
        members = self.signature.members
        counters = {name: value for name, value in self.golden.counters.items() if name in members}
        counters["operations"] -= self._additional
        if "covered" in members and self.still:
            counters["covered"] = self.golden.guaranteed_span(self.now) + 1
        if self._dictionary:
            counters["guaranteed"] = self.golden.guaranteed_window
        return counters

    def check_outputs(self, dut) -> None:
        """Compare the unit's outputs with the expected values, modulo the width of each output."""
        for name, value in self.outputs.items():
            port = getattr(dut, name)
            actual, expected = int(port.value), value % (1 << len(port))
            assert actual == expected, f"{name}: expected {expected}, got {actual}"

    def check_memory(self, memory: Any) -> None:
        """Compare the memories of the unit and the golden model, unless ages change meanwhile."""
        if self.still or self.spec.kind != "timing":
            differing = np.argwhere(memory.view(self._count) != self._memory)
            at = f"{differing[:1].tolist()}; {len(differing)} elements differ"
            assert len(differing) == 0, f"memory differs at {at}"

    @property
    def _count(self) -> int:
        return self.golden.counters["insertions"] if self._dictionary else self.block

    @property
    def _memory(self) -> NDArray[Any]:
        ages = self.spec.kind == "timing" and self.spec.timed
        memory: NDArray[Any] = (
            self.golden.memory_at(self.now * self.spec.block_units) if ages else self.golden.memory
        )
        return memory


class MovingReference(Reference):
    """Reference for a dictionary with moves.

    The timing of the unit determines which entry is lost, so a query with a set status may miss its
    key. All statuses, missed keys and cells must be consistent with each other and with the number
    of losses that the unit counts. Entries are numbered from the last clear on.
    """

    def _model(self) -> Any:
        # This model does not lose the same entries as the unit, but about as many.
        self._peer, self._played = from_spec(self.spec), list[tuple[int, int]]()
        self.missed = self._earlier = 0  # results that missed their key
        self._forget()
        return from_spec(replace(self.spec, stash=STASH))

    def _forget(self) -> None:
        # Entries that must be lost, because of a missed key or two statuses.
        self._gone: set[int] = set()
        # Minimum number of the youngest lost entry, and its maximum when a status was last 0.
        self._min_lost = self._max_lost = -int(self.spec.window)
        self._changes = 0  # minimum number of times that the youngest lost entry has changed

    @property
    def losses(self) -> int:
        return self._earlier + max(self._changes, len(self._gone))

    def _answer(self, item: Item, given: Item) -> dict[str, int]:
        insertions = int(self.golden.insertions)
        due = super()._answer(item, given)
        operations = operations_of(item["operation"], self.golden.supported)
        self._played += [(operation, item["key"]) for operation in operations]
        if item["operation"] == Operation.CLEAR:
            self._earlier = self.losses
            self._forget()
        if not queries(item["operation"]):
            return due
        window = min(item.get("window", self.spec.window), self.spec.window)
        due["status"] = self._status(given.get("status", 0), window, insertions)
        number = insertions - due["age"]
        if due["seen"] and (not given.get("seen") or number in self._gone) and due["status"]:
            self.golden.hits -= 1
            self.missed += 1
            self._gone.add(number)
            self._status(1, due["age"] + 1, insertions)
            due |= {"seen": 0, "age": 0}
        return due

    def _status(self, status: int, window: int, insertions: int) -> int:
        """Return the expected status of a query: `status`, unless earlier results exclude it."""
        oldest = insertions - window + 1
        if not window:
            return 0
        if not status and self._min_lost < oldest:
            self._max_lost = min(self._max_lost, oldest - 1)
            if self._min_lost == oldest - 1 > 0:
                self._gone.add(self._min_lost)
            return 0
        if oldest > self._max_lost:
            self._changes += 1
            self._max_lost = insertions
        self._min_lost = max(self._min_lost, oldest)
        return 1

    def facts(self) -> dict[str, int]:
        return super().facts() | ({"missed": self.missed} if self.records else {})

    @property
    def outputs(self) -> dict[str, int]:
        outputs = super().outputs
        return {name: outputs[name] for name in ("operations", "insertions", "hits")}

    def check_outputs(self, dut) -> None:
        super().check_outputs(dut)
        self._guaranteed, insertions = int(dut.guaranteed.value), int(self.golden.insertions)
        excluded = self._status(0, self._guaranteed, insertions)
        possible = self._guaranteed <= self.spec.window and not excluded
        assert possible, f"guaranteed: {self._guaranteed} contradicts the window or a result"
        if self._guaranteed < self.spec.window:
            self._status(1, self._guaranteed + 1, insertions)
        if self._played:
            codes, keys = zip(*self._played, strict=True)
            self._peer.perform(codes, words_of(self.spec, keys))
            self._played.clear()
        fewest, limit = self.losses, 2 * self._peer.counters["lost"] + self.spec.stash
        # A narrow counter may have wrapped, so only a wide one is checked.
        self._counted = lost = int(dut.lost.value) if len(dut.lost) > 8 else limit
        assert fewest <= lost <= limit, f"lost: expected {fewest} to {limit}, got {lost}"

    def check_memory(self, memory: Any) -> None:
        """Compare the entries in all cells; entries in no cell must be in the stash or lost."""
        there = {*map(tuple, self.golden.entries_of(memory.view(self._count)).tolist())}
        due = {*map(tuple, self.golden.entries.tolist())}
        assert there <= due, f"memory differs: the golden model lacks {len(there - due)} entries"
        away = sum(age <= self._guaranteed for _, age in due - there)
        assert away <= self.spec.stash, f"memory differs: {away} entries missing from all cells"
        fewest = self._earlier + len(due - there) - self.spec.stash
        assert fewest <= self._counted, f"lost: expected {fewest} or more, got {self._counted}"
        oldest = self._guaranteed + 1
        held = oldest <= self.spec.window and oldest in {age for _, age in there}
        assert not held, (
            f"guaranteed: {self._guaranteed}, but a cell still holds the next older entry"
        )


def reference(spec: Specification, signature: UnitSignature) -> Reference:
    kind = MovingReference if getattr(spec, "moves", None) else Reference
    return kind(spec, signature)


def words_of(spec: Any, keys: Sequence[int]) -> NDArray[np.uint64]:
    words = -(-spec.key_bits // 64)
    rows = [[key >> 64 * word & (1 << 64) - 1 for word in range(words)] for key in keys]
    array = np.array(rows, np.uint64)
    return array if words > 1 else array[:, 0]


def cells_of(spec: Any, keys: Sequence[int]) -> Cells:
    """Return the cell of each key in each part of the memory, before a secret is loaded.

    The parts are the first segments of a ring, the parts of a timing filter, or the columns of a
    dictionary. In other families, keys share no cells.
    """
    if spec.kind == "ring":
        key_hash = Layout.of(spec, partitioned=True).hash
    elif spec.kind in ("timing", "dictionary"):
        rows = (spec.rows, 1 << spec.rest_bits) if spec.kind == "dictionary" else ()
        key_hash = KeyHash(
            key_bits=spec.key_bits, sizes=rows or spec.index_sizes, functions=1, seed=spec.seed,
            hash=getattr(spec, "hash", "h3"),
        )  # fmt: skip
    else:
        return np.array([keys])
    states = key_hash.state(check_keys(words_of(spec, keys), key_hash.key_bits), 0)
    if spec.kind == "ring":
        functions = range(min(spec.run, spec.hash_functions))
        return np.concatenate([key_hash.indices(states, function) for function in functions])
    indices = np.array(key_hash.indices(states, 0), np.int64)
    if spec.kind == "timing":
        return indices
    columns = offset_terms(
        columns=spec.columns, row_bits=spec.row_bits, rest_bits=spec.rest_bits, seed=spec.seed
    )
    cells = np.repeat(indices[:1], spec.columns, axis=0)
    for row, terms in zip(cells, columns, strict=True):
        for bit, added in enumerate(terms):
            for term in added:
                row ^= (indices[1] >> term & 1) << bit
    return cells


def shards_of(spec: Any, keys: Sequence[int]) -> NDArray[np.int64]:
    key_hash = Layout.of(spec, partitioned=True).hash
    return np.asarray(
        key_hash.shard(key_hash.state(check_keys(words_of(spec, keys), key_hash.key_bits)))
    )

"""Parts of the cocotb bench of a dictionary unit: monitor, scoreboard, and where digests lie."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from cocotb.utils import get_sim_time
from numpy.typing import NDArray

from ...golden import Operation
from ...golden.hash.functions import KeyHash, offset_terms
from ...golden.operations import OperationBit
from ...golden.spec.dictionary_sizes import WindowDictionarySpec
from .parts import Monitor, Scoreboard, key_array


class DictionaryItem(NamedTuple):
    """An operation with the window of its query; `operation` is any sum of `OperationBit`."""

    operation: int
    key: int
    tag: int
    window: int


class DictionaryOutcome(NamedTuple):
    """One result as the unit delivers it; `age` is 0 where `seen` is False."""

    seen: bool
    age: int
    status: int
    tag: int


class Performed(NamedTuple):
    """An operation: when it was accepted, in ns, and its result."""

    item: DictionaryItem
    accepted: float
    outcome: DictionaryOutcome


class DictionaryMonitor(Monitor):
    """Takes results with their status."""

    def decode(self, payload: int) -> DictionaryOutcome:
        """Take a result apart."""
        fields = self._signature.unpack_result(payload)[0]
        assert fields is not None
        return DictionaryOutcome(seen=bool(fields.pop("seen")), **fields)


def steps(code: int) -> tuple[Operation, ...]:
    """Return the operations that a code makes, one after the other; none if it is undefined."""
    bits = OperationBit(code)
    if bits & OperationBit.ALONE:
        return (Operation.CLEAR,) if code == Operation.CLEAR else ()
    if bits & OperationBit.REMOVE:
        asks = (Operation.QUERY,) if bits & OperationBit.QUERY else ()
        return (*asks, Operation.REMOVE)
    return (Operation(code),)


def asks(code: int) -> bool:
    """Whether an operation asks for its key."""
    bits = OperationBit(code)
    return bool(bits & OperationBit.QUERY) and not bits & OperationBit.ALONE


class DictionaryScoreboard(Scoreboard):
    """Holds the unit against the golden model.

    Attributes
    ----------
    counts : Counter
        What the counters of the unit count, since reset.
    performed : list of Performed
        All operations that were accepted since reset.
    """

    def __init__(self, spec: WindowDictionarySpec) -> None:
        super().__init__(spec)
        self.counts: Counter[str] = Counter()
        self.performed: list[Performed] = []
        self.golden = self._renewed()

    def expect(self, item: Any) -> None:
        """Perform an accepted operation on the reference, and expect its result."""
        super().expect(item)
        self.performed.append(Performed(item, get_sim_time("ns"), self._expected[-1]))

    def perform(self, item: Any) -> DictionaryOutcome:
        """Perform an accepted operation on the reference."""
        while self._secrets and get_sim_time("ns") >= self._secrets[0][0]:
            self.golden.rekey(self._secrets.popleft()[1])
        guaranteed: int = self.golden.guaranteed_window
        age = max([self._age(step, item) for step in steps(item.operation)], default=-1)
        self.counts.update(operations=1, hits=int(age >= 0))
        short = int(asks(item.operation) and item.window > guaranteed)
        return DictionaryOutcome(age >= 0, max(age, 0), short, item.tag)

    def _age(self, step: Operation, item: DictionaryItem) -> int:
        """Perform a step; return the age of the key, or -1."""
        golden, lost = self.golden, self.golden.lost
        # The reference knows no window of 0, with which nothing is seen.
        verdicts = golden.apply(
            [step], key_array([item.key], golden.spec), windows=[max(item.window, 1)]
        )
        given_up = golden.lost - lost if step != Operation.CLEAR else 0
        self.counts.update(insertions=step & OperationBit.INSERT > 0, lost=given_up)
        return int(verdicts.age[0]) if item.window else -1

    def _renewed(self) -> Any:
        self.counts.clear()
        self.performed.clear()
        golden = type(self.golden).from_spec(self.golden.spec)
        # For one operation at a time it takes an interpreter no longer.
        golden.compiled = False
        return golden


class RingScoreboard(DictionaryScoreboard):
    """Holds a unit with moves against an exact list of digests.

    Which entry it gives up, if any, depends on clocks; so a key may be missed where the status says
    that the window asked for is not guaranteed.

    Attributes
    ----------
    told : Counter
        Results that were vouched for, or not, and right, or missing.
    """

    ROOM = 256
    """Entries of the stash of the reference, so that it gives nothing up."""

    def __init__(self, spec: WindowDictionarySpec) -> None:
        super().__init__(replace(spec, stash=self.ROOM))
        self.told: Counter[str] = Counter()

    def compare(self, outcome: Any) -> None:
        """Hold a result against the oldest that is expected."""
        how = "vouched for"
        if self._expected and outcome.status and asks(self.performed[self.compared].item.operation):
            due = self._expected[0]._replace(status=1)
            how = "not vouched for, and right"
            if due.seen and not outcome.seen:
                how = "missing, and told"
                self.counts["hits"] -= 1
                due = due._replace(seen=False, age=0)
            self._expected[0] = due
        self.told[how] += 1
        super().compare(outcome)

    def forget(self) -> None:
        """Start again, as the unit does at reset."""
        super().forget()
        self.told.clear()


class Places(NamedTuple):
    """Digests of keys, shape (n,), and the row of each in each column, shape (columns, n)."""

    digests: NDArray[np.int64]
    rows: NDArray[np.int64]

    @classmethod
    def of(cls, spec: WindowDictionarySpec, keys: Sequence[int], secret: int = 0) -> "Places":
        """Return those of some keys."""
        key_hash = KeyHash(
            key_bits=spec.key_bits, sizes=[spec.rows, 1 << spec.rest_bits], functions=1,
            seed=spec.seed, hash=spec.hash,
        )  # fmt: skip
        states = key_hash.state(key_hash.check_keys(key_array(keys, spec)), secret)
        low, rest = (np.asarray(part, np.int64) for part in key_hash.indices(states, 0))
        columns = offset_terms(
            columns=spec.columns, row_bits=spec.row_bits, rest_bits=spec.rest_bits, seed=spec.seed
        )
        rows = np.repeat(low[None], spec.columns, axis=0)
        for row, terms in zip(rows, columns, strict=True):
            for bit, added in enumerate(terms):
                for term in added:
                    row ^= (rest >> term & 1) << bit
        return cls(rest << spec.row_bits | low, rows)

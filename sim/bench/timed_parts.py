"""Parts of the cocotb bench of a unit whose window is one in time: monitor and scoreboard."""

from typing import Any, NamedTuple, cast

from cocotb.utils import get_sim_time

from ...golden import Operation, TimeLimitedRing
from ...golden.spec.base import Specification
from ...hdl.interface import UnitSignature
from .parts import Monitor, Scoreboard, key_array


class TimedItem(NamedTuple):
    """An operation with the time that it carries."""

    operation: int
    key: int
    tag: int
    time: int


class TimedOutcome(NamedTuple):
    """One result as the unit delivers it; `age` is 0 where `seen` is False."""

    seen: bool
    age: int
    tag: int
    status: int
    time: int


class Answered(NamedTuple):
    """An operation whose result came: when it was accepted, in ns, and the tick of its effect."""

    item: Any
    accepted: float
    time: int


class TimedMonitor(Monitor):
    """Takes results with their status and time."""

    def decode(self, payload: int) -> TimedOutcome:
        """Take a result apart."""
        fields = self._signature.unpack_result(payload)[0]
        assert fields is not None
        seen = bool(fields.pop("seen"))
        return TimedOutcome(seen=seen, **fields)


class TimedScoreboard(Scoreboard):
    """Holds the unit against the golden model at the times that the results tell.

    Attributes
    ----------
    now : int
        Time of the last result; results tell its low bits.
    answered : list of Answered
        All operations whose results came since reset.
    """

    def __init__(self, spec: Specification, signature: UnitSignature) -> None:
        super().__init__(spec)
        told = signature.result.members
        self._times = 1 << (signature.result["time"].width if "time" in told else 0)
        self.now = 0
        self.answered: list[Answered] = []

    def expect(self, item: Any) -> None:
        """Expect the result of an accepted operation."""
        self._expected.append((item, get_sim_time("ns")))

    def compare(self, outcome: Any) -> None:
        """Perform the oldest operation on the reference at the result's time, and compare."""
        assert self._expected, f"result {self.compared}: expected none, got {outcome}"
        item, accepted = self._expected.popleft()
        told = item.time if isinstance(item, TimedItem) else outcome.time
        passed = (told - self.now) % self._times
        # An earlier time of a request counts as that which has been reached.
        self.now += 0 if isinstance(item, TimedItem) and 2 * passed >= self._times else passed
        expected = self._answer(item, accepted, outcome)
        assert outcome == expected, f"result {self.compared}: expected {expected}, got {outcome}"
        self.compared += 1
        self.answered.append(Answered(item, accepted, self.now))

    def _answer(self, item: Any, accepted: float, outcome: Any) -> Any:
        """Perform an operation on the reference; return its result, and told what means nothing."""
        known = item.operation in list(Operation)
        operation = item.operation if known else Operation.NONE
        golden = cast(TimeLimitedRing, self.golden)
        keys = key_array([item.key], golden.spec)
        verdicts = golden.perform([operation], keys, [self.now])
        seen = bool(verdicts.seen[0])
        age = int(verdicts.age[0]) if seen else 0
        status, time = int(verdicts.status[0]), self.now % self._times
        return TimedOutcome(seen, age, item.tag, status, time)

    def forget(self) -> None:
        """Start again, as the unit does at reset."""
        super().forget()
        self.now = 0
        self.answered.clear()

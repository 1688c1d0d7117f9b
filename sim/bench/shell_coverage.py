"""Functional coverage of units of timing filters and dictionaries: what all of them have.

As `lately.sim.bench.coverage` does for rings, from the ports, clock by clock.
"""

from collections import Counter

from ...golden import Operation
from ...golden.operations import OperationBit
from ...hdl.interface import UnitSignature, unpack
from .coverage import RUNS, Collector, Ports, run_bin


def code_name(code: int) -> str:
    """Return the bin of an operation: its name, or its code if it has none."""
    return Operation(code).name if code in list(Operation) else f"code {code}"


def shell_points(codes: int, *, sweep: bool) -> dict[str, tuple[str, ...]]:
    """Return the bins of every point that `ShellSampler` has.

    Parameters
    ----------
    codes : int
        Operations, those that are undefined included.
    sweep : bool
        Whether the sweep closes the input at times.
    """
    names = [code_name(code) for code in range(codes)]
    reasons = ("results wait", "after CLEAR", "after another operation alone")
    return {
        "operation pairs": tuple(f"{first}, {second}" for first in names for second in names),
        "clocks without o.ready": RUNS,
        "clocks without i.valid": RUNS,
        "clocks closed for waiting results": RUNS,
        "input closed": (*reasons, "for the sweep") if sweep else reasons,
        "CLEAR": ("behind insertions under way", "behind another", "behind nothing"),
    }


class ShellSampler:
    """Follows one test from its reset on, and tells a collector what happens at the ports.

    Parameters
    ----------
    collector : Collector
        Counts what is seen.
    latency : int
        Of the unit, in clocks.
    most_rest : int
        Clocks for which the sweep closes the input at most; 0 if never.
    """

    def __init__(self, collector: Collector, *, latency: int, most_rest: int) -> None:
        self._sample = collector.sample
        self._latency = latency
        self._most_rest = most_rest
        self._now = 0
        self._reset()

    def _reset(self) -> None:
        self._last: int | None = None
        self._inserted = self._waited = -(1 << 30)
        self._lasting: Counter[str] = Counter()

    def _ended(self, point: str, lasts: bool) -> int:
        """Return for how many clocks that lasted which ends in this one, or 0."""
        clocks = self._lasting[point]
        self._lasting[point] = clocks + 1 if lasts else 0
        return 0 if lasts else clocks

    def clock(self, ports: Ports) -> None:
        """Look at one clock; all clocks have to be shown, in order."""
        self._now += 1
        if ports.rst:
            self._reset()
            return
        waits = ports.valid and not ports.taken
        if waits:
            self._waited = self._now
        for point, lasts in (
            ("clocks without o.ready", waits),
            ("clocks without i.valid", not ports.offered),
        ):
            clocks = self._ended(point, lasts)
            if clocks and self._last is not None:
                self._sample(point, run_bin(clocks))
        closed = self._ended("input closed", not ports.ready)
        if closed and self._last is not None:
            self._reopened(closed)
        if ports.offered and ports.ready:
            self._accept(ports.operation)

    def _reopened(self, clocks: int) -> None:
        """Tell why the input was closed: the unit's contract knows these reasons only."""
        assert self._last is not None
        if self._last & OperationBit.ALONE:
            clear = self._last == Operation.CLEAR
            reason = "after CLEAR" if clear else "after another operation alone"
        elif clocks <= self._most_rest and self._now - self._waited > 2 * self._latency:
            # Results that wait close the input later.
            reason = "for the sweep"
        else:
            reason = "results wait"
            self._sample("clocks closed for waiting results", run_bin(clocks))
        self._sample("input closed", reason)

    def _accept(self, operation: int) -> None:
        if self._last is not None:
            self._sample("operation pairs", f"{code_name(self._last)}, {code_name(operation)}")
        if operation == Operation.CLEAR:
            behind = "nothing"
            if self._last == Operation.CLEAR:
                behind = "another"
            elif self._now - self._inserted <= self._latency:
                behind = "insertions under way"
            self._sample("CLEAR", f"behind {behind}")
        self._last = operation
        if operation & OperationBit.INSERT and not operation & OperationBit.ALONE:
            self._inserted = self._now


def read_ports(dut, signature: UnitSignature) -> Ports:
    """Read what a `ShellSampler` looks at, and the key."""
    offered = bool(dut.i__valid.value)
    request = unpack(signature.request, int(dut.i__payload.value)) if offered else {}
    return Ports(
        rst=bool(dut.rst.value),
        offered=offered,
        ready=bool(dut.i__ready.value),
        operation=request.get("operation", 0),
        key=request.get("key", 0),
        valid=bool(dut.o__valid.value),
        taken=bool(dut.o__ready.value),
    )

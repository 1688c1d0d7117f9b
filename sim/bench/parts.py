"""Driver, monitor and scoreboard of the cocotb bench, for any unit.

Signals are driven after the rising edge and sampled at the falling edge, so all simulators see the
same values at the next rising edge.
"""

import random
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from cocotb.triggers import FallingEdge, RisingEdge
from cocotb.utils import get_sim_time

from ...golden import Operation
from ...golden.operations import OperationBit
from ...hdl.interface import UnitSignature, unpack
from .reference import Item, Reference

PERIOD_NS = 10  # clock period
MAX_WAIT = 10_000  # cycles within which an operation must be accepted

# Operation codes without an effect, before the lanes of a beat and in one of several lanes.
IDLE_BEAT = [code for code in range(8) if code not in (Operation.SHIFT, Operation.CLEAR)]
IDLE_LANE = [0, *(code for code in range(8) if code & OperationBit.ALONE)]


class Beat(NamedTuple):
    alone: int  # SHIFT, CLEAR or NONE; takes effect before the lanes
    lanes: tuple[Item | None, ...]


@dataclass(frozen=True)
class Performed:
    item: Item
    outcome: dict[str, int]  # fields of the result; empty for a SHIFT or CLEAR before the lanes
    accepted: float  # time of acceptance, in ns
    delivered: float  # time of delivery, in ns
    wait: int = 0  # cycles in which the operation was offered but not accepted
    held: int = 0  # cycles in which the result was offered but not accepted
    time: int = 0  # number of ticks before the operation
    facts: dict[str, int] = field(default_factory=dict)  # `Reference.facts` after the operation

    @property
    def operation(self) -> int:
        return self.item["operation"]

    @property
    def seen(self) -> bool:
        return bool(self.outcome.get("seen"))


@dataclass
class Stalls:
    probability: float = 0.0  # probability that the side pauses in a cycle
    seed: int = 0

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)

    def __call__(self) -> bool:
        return self._random.random() < self.probability


class Pattern(Stalls):
    """Pauses of given lengths in cycles, with one active cycle between them."""

    def __init__(self, lengths: Sequence[int]) -> None:
        super().__init__()
        self.lengths = lengths
        self.rounds = 0  # number of passes through `lengths`
        self._index = 0
        self._left = lengths[0]

    def __call__(self) -> bool:
        if self._left:
            self._left -= 1
            return True
        self._index = (self._index + 1) % len(self.lengths)
        self.rounds += self._index == 0
        self._left = self.lengths[self._index]
        return False


class Scoreboard:
    def __init__(self, reference: Reference) -> None:
        self.reference = reference
        # With ticks: `TickSource.legal_times`. In this range, the time in the result is accepted.
        self.legal_times: Callable[[Item, int, float], tuple[int, int]] | None = None
        self.compared = 0  # number of beats whose results were compared
        self.performed: list[Performed] = []  # operations since the last reset
        self._expected: deque[tuple[Beat, float, int]] = deque()

    def expect(self, beat: Beat, wait: int) -> None:
        self._expected.append((beat, get_sim_time("ns"), wait))

    def compare(self, outcomes: list[dict[str, int] | None], held: int) -> None:
        number, now = self.compared, get_sim_time("ns")
        assert self._expected, f"result {number}: expected none, got {outcomes}"
        beat, accepted, wait = self._expected.popleft()
        if beat.alone != Operation.NONE:
            alone = {"operation": beat.alone, "key": 0}
            self.reference.perform(alone, {}, accepted)
            self.performed.append(Performed(alone, {}, accepted, now, wait, held, *self._state))
        for item, outcome in zip(beat.lanes, outcomes, strict=True):
            due: dict[str, int] | None = None
            if item is not None:
                if self.legal_times is not None and outcome is not None:
                    self._advance(item, outcome["time"], accepted)
                due = self.reference.perform(item, outcome or {}, accepted)
            # Undefined fields are not compared.
            shown = outcome if due is None or outcome is None else {n: outcome[n] for n in due}
            assert shown == due, f"result {number}: expected {due}, got {outcome}"
            if item is not None and outcome is not None:
                when = (accepted, now, wait, held)
                self.performed.append(Performed(item, outcome, *when, *self._state))
        self.compared += 1

    def _advance(self, item: Item, time: int, accepted: float) -> None:
        assert self.legal_times is not None
        now = self.reference.now
        first, last = self.legal_times(item, now, accepted)
        given = now + (time - now) % self.reference.times
        self.reference.now = min(max(given, first), last)

    @property
    def _state(self) -> tuple[int, dict[str, int]]:
        return self.reference.now, self.reference.facts()

    def forget(self) -> None:
        self._expected.clear()
        self.performed.clear()
        self.compared = 0
        self.reference.reset()

    @property
    def outstanding(self) -> int:
        return len(self._expected)


class Driver:
    """Sends beats to the unit's input stream.

    Bits that the unit must ignore are random: the payload of an idle cycle, the request of an idle
    lane, and the code of an operation without effect.
    """

    def __init__(self, dut, signature: UnitSignature, scoreboard: Scoreboard, *, seed: int) -> None:
        self._dut = dut
        self._signature = signature
        self._bits = signature.request.size
        self._lane = signature.of_lane(signature.request, 0)
        self._lane_bits = self._lane.size
        self._scoreboard = scoreboard
        self._random = random.Random(seed)
        self._offers = True
        self.forget()
        self.release()

    def forget(self) -> None:
        self.accepted = 0  # number of accepted beats
        self.waits: list[int] = []  # cycles that each beat waited for acceptance
        self.times: list[float] = []  # time of each acceptance, in ns

    def release(self) -> None:
        if self._offers:
            self._dut.i__payload.value = self._random.getrandbits(self._bits)
        self._set_valid(False)

    def _set_valid(self, valid: bool) -> None:
        # Writing a signal takes as long as the rest of a cycle, so write only changes.
        if valid != self._offers:
            self._dut.i__valid.value = int(valid)
        self._offers = valid

    def _pack(self, beat: Beat) -> int:
        if self._signature.lanes == 1:
            return self._signature.pack_request(beat.lanes)
        requests = []
        for item in beat.lanes:
            if item is None:
                request = unpack(self._lane, self._random.getrandbits(self._lane_bits))
                request["valid"] = 0
            else:
                request = dict(item)
                if item["operation"] == Operation.NONE:
                    request["operation"] = self._random.choice(IDLE_LANE)
            requests.append(request)
        return self._signature.pack_request(
            requests, alone=beat.alone or self._random.choice(IDLE_BEAT)
        )

    async def send(self, beats: Sequence[Beat], *, stalls: Stalls | None = None) -> None:
        """Offer beats until all are accepted.

        The coroutine starts and ends just after a clock edge.
        """
        stalls = stalls or Stalls()
        clk, ready = self._dut.clk, self._dut.i__ready
        for beat in beats:
            while stalls():
                self.release()
                await RisingEdge(clk)
            self._dut.i__payload.value = self._pack(beat)
            self._set_valid(True)
            wait = 0
            await FallingEdge(clk)
            while not ready.value:
                wait += 1
                assert wait < MAX_WAIT, f"beat {self.accepted}: not accepted within {wait} cycles"
                await FallingEdge(clk)
            self.accepted += 1
            self.waits.append(wait)
            self.times.append(get_sim_time("ns"))
            self._scoreboard.expect(beat, wait)
            await RisingEdge(clk)
        self.release()


class Monitor:
    """Accepts results from the unit's output stream, and checks that waiting results are stable."""

    def __init__(self, dut, signature: UnitSignature, scoreboard: Scoreboard) -> None:
        self._dut = dut
        self._signature = signature
        self._scoreboard = scoreboard
        self.forget()
        self._dut.o__ready.value = 0

    def forget(self) -> None:
        self.times: list[float] = []  # time at which each beat's results were delivered, in ns
        self.held = 0  # cycles for which the current result has waited
        self.stalls = Stalls()

    async def run(self) -> None:
        waiting, ready, held = None, False, 0
        dut = self._dut
        clk, valid, rst = dut.clk, dut.o__valid, dut.rst
        while True:
            await RisingEdge(clk)
            before, ready = ready, not self.stalls()
            if ready != before:
                dut.o__ready.value = int(ready)
            await FallingEdge(clk)
            payload = int(dut.o__payload.value) if valid.value else None
            if payload is None and waiting is None:
                continue
            if rst.value:
                waiting, held = None, 0
                continue
            unchanged = waiting is None or payload == waiting
            number = self._scoreboard.compared
            assert unchanged, f"result {number} changed while it waited: {payload}"
            waiting = None if ready else payload
            if not ready:
                held += 1
                self.held += 1
            elif payload is not None:
                self.times.append(get_sim_time("ns"))
                self._scoreboard.compare(self._signature.unpack_result(payload), held)
                held = 0

"""Parts of the cocotb bench of a unit of several lanes: driver, monitor, scoreboard.

Signals are driven and sampled as in `bench`.
"""

import random
from collections import Counter
from typing import NamedTuple

from cocotb.triggers import FallingEdge, RisingEdge
from cocotb.utils import get_sim_time

from ...golden import Operation
from ...golden.operations import OperationBit
from ...golden.spec import FilterSpec
from ...hdl.interface import UnitSignature, unpack
from ...hdl.verilog import TAG_BITS
from .parts import Item, Outcome, Scoreboard, Stalls

PATIENCE = 10_000
"""Clocks for which a beat is offered at most."""

NOTHING_ALONE = [code for code in range(8) if code not in (Operation.SHIFT, Operation.CLEAR)]
"""Codes that do nothing before the operations of a beat."""

NOTHING_IN_LANE = [0, *(code for code in range(8) if code & OperationBit.ALONE)]
"""Codes that do nothing in a lane."""


class Beat(NamedTuple):
    """A beat: NONE, SHIFT or CLEAR, which comes first, and each lane's operation or None."""

    turn: Operation
    lanes: tuple[Item | None, ...]


class BeatDriver:
    """Sends beats to the unit's input stream.

    Whatever the unit is to ignore is drawn at random: all of the payload while nothing is
    offered, the rest of a lane that has no operation, and which code it is that does nothing.

    Attributes
    ----------
    accepted : list of Beat
        What the unit took, in order.
    waits : list of int
        Clocks that each accepted beat was offered in vain before.
    times : list of float
        When each was accepted, in ns.
    """

    def __init__(self, dut, spec: FilterSpec, scoreboard: "BeatScoreboard", *, seed: int) -> None:
        self._dut = dut
        self._lanes = spec.lanes
        self._signature = UnitSignature.from_spec(spec, tag_bits=TAG_BITS)
        self._scoreboard = scoreboard
        self._random = random.Random(seed)
        self.accepted: list[Beat] = []
        self.waits: list[int] = []
        self.times: list[float] = []
        self.release()

    def release(self) -> None:
        """Offer nothing."""
        self._dut.i__payload.value = self._random.getrandbits(self._signature.request.size)
        self._dut.i__valid.value = 0

    def _offer(self, beat: Beat) -> None:
        lane = self._signature.of_lane(self._signature.request, 0)
        requests = []
        for item in beat.lanes:
            if item is None:
                request = unpack(lane, self._random.getrandbits(lane.size)) | {"valid": 0}
            else:
                request = item._asdict()
                if item.operation == Operation.NONE:
                    request["operation"] = self._random.choice(NOTHING_IN_LANE)
            requests.append(request)
        alone = beat.turn or self._random.choice(NOTHING_ALONE)
        payload = self._signature.pack_request(requests, alone=alone)
        self._dut.i__payload.value = payload
        self._dut.i__valid.value = 1

    async def send(self, beats: list[Beat], *, stalls: Stalls | None = None) -> None:
        """Offer beats one after another until all are accepted; must start after an edge."""
        stalls = stalls or Stalls()
        for beat in beats:
            while stalls():
                self.release()
                await RisingEdge(self._dut.clk)
            self._offer(beat)
            wait = 0
            await FallingEdge(self._dut.clk)
            while not self._dut.i__ready.value:
                wait += 1
                assert wait < PATIENCE, f"beat {len(self.accepted)}: not taken in {wait} clocks"
                await FallingEdge(self._dut.clk)
            self.accepted.append(beat)
            self.waits.append(wait)
            self.times.append(get_sim_time("ns"))
            self._scoreboard.expect_beat(beat)
            await RisingEdge(self._dut.clk)
        self.release()


class BeatMonitor:
    """Takes answers from the unit's output stream, for ever; one that waits must not change.

    Attributes
    ----------
    answers : list of tuple
        What was delivered, in order: for each lane an `Outcome`, or None if it is not valid.
    times : list of float
        When each was delivered, in ns.
    held : int
        Clocks in which an answer waited.
    """

    def __init__(self, dut, spec: FilterSpec, scoreboard: "BeatScoreboard") -> None:
        self._dut = dut
        self._signature = UnitSignature.from_spec(spec, tag_bits=TAG_BITS)
        self._scoreboard = scoreboard
        self.answers: list[tuple[Outcome | None, ...]] = []
        self.times: list[float] = []
        self.held = 0
        self.stalls = Stalls()
        self._dut.o__ready.value = 0

    async def run(self) -> None:
        """Take answers, pausing as `stalls` says."""
        waiting = None
        dut, ready = self._dut, False
        clk, valid, rst = dut.clk, dut.o__valid, dut.rst
        while True:
            await RisingEdge(clk)
            before, ready = ready, not self.stalls()
            if ready != before:
                dut.o__ready.value = int(ready)
            await FallingEdge(clk)
            payload = int(dut.o__payload.value) if valid.value else None
            if rst.value:
                waiting = None
                continue
            if waiting is not None:
                number = len(self.answers)
                assert payload == waiting, f"answer {number} changed while it waited: {payload}"
            waiting = None if ready else payload
            self.held += waiting is not None
            if ready and payload is not None:
                self._take(payload)

    def _take(self, payload: int) -> None:
        answer = self.decode(payload)
        self.answers.append(answer)
        self.times.append(get_sim_time("ns"))
        self._scoreboard.compare(answer)

    def decode(self, payload: int) -> tuple[Outcome | None, ...]:
        """Take an answer apart."""
        return tuple(
            Outcome(bool(lane["seen"]), lane["age"], lane["tag"]) if lane else None
            for lane in self._signature.unpack_result(payload)
        )


class BeatScoreboard(Scoreboard):
    """Holds a unit of several lanes against the golden model.

    Attributes
    ----------
    turned : Counter of int
        Insertions for which the ring turned, by their lane.
    """

    def __init__(self, spec: FilterSpec) -> None:
        super().__init__(spec)
        self.turned: Counter[int] = Counter()

    def expect_beat(self, beat: Beat) -> None:
        """Perform an accepted beat on the reference: its turn, then lane by lane."""
        if beat.turn != Operation.NONE:
            self.perform(Item(beat.turn, 0, 0))
        expected = []
        for lane, item in enumerate(beat.lanes):
            before = self.golden.shifts
            expected.append(None if item is None else self.perform(item))
            self.turned[lane] += self.golden.shifts - before
        self._expected.append(tuple(expected))

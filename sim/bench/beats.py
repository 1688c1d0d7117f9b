"""Parts of the cocotb bench of a unit of several lanes: driver and scoreboard."""

import random
from collections import Counter
from typing import NamedTuple

from ...golden import Operation
from ...golden.operations import OperationBit
from ...golden.spec import FilterSpec
from ...hdl.interface import UnitSignature, unpack
from .parts import Driver, Item, Scoreboard

NOTHING_ALONE = [code for code in range(8) if code not in (Operation.SHIFT, Operation.CLEAR)]
"""Codes that do nothing before the operations of a beat."""

NOTHING_IN_LANE = [0, *(code for code in range(8) if code & OperationBit.ALONE)]
"""Codes that do nothing in a lane."""


class Beat(NamedTuple):
    """A beat: NONE, SHIFT or CLEAR, which comes first, and each lane's operation or None."""

    turn: Operation
    lanes: tuple[Item | None, ...]


class BeatDriver(Driver):
    """Sends beats to the unit's input stream.

    Whatever the unit is to ignore is drawn at random: all of the payload while nothing is
    offered, the rest of a lane that has no operation, and which code it is that does nothing.
    """

    def __init__(
        self, dut, signature: UnitSignature, scoreboard: "BeatScoreboard", *, seed: int
    ) -> None:
        self._random = random.Random(seed)
        super().__init__(dut, signature, scoreboard)

    def release(self) -> None:
        """Offer nothing."""
        self._dut.i__payload.value = self._random.getrandbits(self._signature.request.size)
        super().release()

    def _pack(self, beat: Beat) -> int:
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
        return self._signature.pack_request(requests, alone=alone)


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

    def forget(self) -> None:
        """Start again, as the unit does at reset."""
        super().forget()
        self.turned.clear()

    def expect(self, beat: Beat) -> None:
        """Perform an accepted beat on the reference: its turn, then lane by lane."""
        if beat.turn != Operation.NONE:
            self.perform(Item(beat.turn, 0, 0))
        expected = []
        for lane, item in enumerate(beat.lanes):
            before = self.golden.shifts
            expected.append(None if item is None else self.perform(item))
            self.turned[lane] += self.golden.shifts - before
        self._expected.append(tuple(expected))

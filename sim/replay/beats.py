"""Sequences of operations, arranged in beats."""

import numpy as np
from numpy.typing import NDArray

from ...golden.operations import Operation, OperationBit

VALID = 0x80  # bit in the code of an operation for the driver: the lane has an operation


class Beats:
    """A sequence of operations, arranged in beats.

    Lanes are filled in order. With several lanes, SHIFT and CLEAR take effect before the lanes of a
    beat and use no lane. Before an operation in `skips` the rest of the beat stays idle; before one
    in `holes` a lane of its beat, except after the last lane.

    `alone` has the operation before the lanes of each beat, and `places` the index of the lane of
    each operation (lanes times beat, plus lane), or -1 without a lane.
    """

    def __init__(
        self,
        operations: NDArray[np.uint8],
        lanes: int,
        skips: NDArray[np.bool_] | None = None,
        holes: NDArray[np.bool_] | None = None,
    ) -> None:
        turning = (operations & OperationBit.ALONE != 0) & (lanes > 1)
        if lanes == 1 or (skips is None and holes is None and not turning.any()):
            self.places = np.arange(len(operations))
            self.alone = np.zeros(-(-len(operations) // lanes), np.uint8)
            return
        self.places = np.full(len(operations), -1, np.intp)
        alone: list[int] = []
        lane = lanes
        for number, operation in enumerate(operations.tolist()):
            if turning[number]:
                alone.append(operation)
                lane = 0
                continue
            if lane == lanes or (skips is not None and skips[number]):
                alone.append(Operation.NONE)
                lane = 0
            if holes is not None and holes[number]:
                lane = min(lane + 1, lanes - 1)
            self.places[number] = (len(alone) - 1) * lanes + lane
            lane += 1
        self.alone = np.array(alone, np.uint8)

    def spread(
        self, operations: NDArray[np.uint8], keys: NDArray[np.uint64], lanes: int
    ) -> tuple[NDArray[np.uint8], NDArray[np.uint64]]:
        """Return code and key of each lane of each beat, for the driver."""
        placed = self.places >= 0
        codes = np.zeros(len(self.alone) * lanes, np.uint8)
        spread_keys = np.zeros((len(codes), keys.shape[1]), np.uint64)
        codes[self.places[placed]] = operations[placed] | VALID
        spread_keys[self.places[placed]] = keys[placed]
        return codes, spread_keys

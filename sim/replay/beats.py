"""Beats of operations and their results, in the format of the C++ driver."""

from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from ...golden.operations import Operation, OperationBit

VALID = 0x80  # bit of an operation code for the driver: the lane has an operation


class Beats:
    """A sequence of operations, arranged in beats, lane by lane.

    With several lanes, SHIFT and CLEAR take effect before the lanes of a beat and use no lane. An
    operation marked in `skips` starts a new beat. Before an operation marked in `holes`, one lane
    stays idle, unless only the last lane of the beat is free.
    """

    def __init__(
        self,
        operations: NDArray[np.uint8],
        lanes: int,
        skips: NDArray[np.bool_] | None = None,
        holes: NDArray[np.bool_] | None = None,
    ) -> None:
        is_alone = (operations & OperationBit.ALONE != 0) & (lanes > 1)
        if lanes == 1 or (skips is None and holes is None and not is_alone.any()):
            self.slots = np.arange(len(operations))
            self.alone = np.zeros(-(-len(operations) // lanes), np.uint8)
            return
        self.slots = np.full(len(operations), -1, np.intp)
        alone: list[int] = []
        lane = lanes
        for number, operation in enumerate(operations.tolist()):
            if is_alone[number]:
                alone.append(operation)
                lane = 0
                continue
            if lane == lanes or (skips is not None and skips[number]):
                alone.append(Operation.NONE)
                lane = 0
            if holes is not None and holes[number]:
                lane = min(lane + 1, lanes - 1)
            self.slots[number] = (len(alone) - 1) * lanes + lane
            lane += 1
        self.alone = np.array(alone, np.uint8)

    def spread(
        self, operations: NDArray[np.uint8], keys: NDArray[np.uint64], lanes: int
    ) -> tuple[NDArray[np.uint8], NDArray[np.uint64]]:
        used = self.slots >= 0
        codes = np.zeros(len(self.alone) * lanes, np.uint8)
        spread_keys = np.zeros((len(codes), keys.shape[1]), np.uint64)
        codes[self.slots[used]] = operations[used] | VALID
        spread_keys[self.slots[used]] = keys[used]
        return codes, spread_keys


class RawResults(NamedTuple):
    """The results of all lanes in beat order, as arrays of shape (n,).

    Fields that the unit lacks are 0, and all fields of a lane without a result are 0.
    """

    # 1 for a reported key. In runs with upsets: 2 for a reported key, and 1 for other results.
    seen: NDArray[np.uint8]
    age: NDArray[np.int32]  # -1 if the key was not seen, unless the unit has `oldest`
    status: NDArray[np.uint8]
    oldest: NDArray[np.uint16]
    time: NDArray[np.uint32]
    tag: NDArray[np.uint8]  # only in runs with upsets

    @classmethod
    def nothing(cls, *shape: int) -> Self:
        kinds = (np.uint8, np.int32, np.uint8, np.uint16, np.uint32, np.uint8)
        return cls(*(np.zeros(shape, kind) for kind in kinds))

    def part(self, index: Any) -> Self:
        return type(self)(*(array[index] for array in self))

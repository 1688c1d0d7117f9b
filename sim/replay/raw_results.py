"""Results in the format of a compiled unit's driver."""

from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray


class RawResults(NamedTuple):
    """Fields of the result of each lane of each beat, in the order of the beats, shape (n,).

    Fields that the unit lacks are 0, and so are all fields of a lane without a result.
    """

    seen: NDArray[np.uint8]
    """1 for a reported key. In runs with upsets, 2 for a reported key and 1 for other results."""
    age: NDArray[np.int32]  # -1 if the key was not seen, unless the unit has `oldest`
    status: NDArray[np.uint8]
    oldest: NDArray[np.uint16]
    time: NDArray[np.uint32]
    tag: NDArray[np.uint8]  # in runs with upsets only

    @classmethod
    def nothing(cls, *shape: int) -> Self:
        """Return arrays of a shape without results."""
        kinds = (np.uint8, np.int32, np.uint8, np.uint16, np.uint32, np.uint8)
        return cls(*(np.zeros(shape, kind) for kind in kinds))

    def part(self, index: Any) -> Self:
        """Return the results that an index selects in each array."""
        return type(self)(*(array[index] for array in self))

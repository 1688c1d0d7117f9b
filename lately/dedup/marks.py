"""List of the packets that were dropped."""

from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from ..captures.capture_loops import NO_TIME
from ..golden.times import Times

HEAD = b"number,time,digest\n"
"""First line of the list: number of the packet from 1, seconds since the epoch, hexadecimal."""


class Marks:
    """Writes a line for each packet that was dropped, as CSV, to a binary `file`."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        file.write(HEAD)

    def __call__(
        self, start: int, times: Times, digests: NDArray[np.uint64], dropped: NDArray[np.bool_]
    ) -> None:
        """Write lines for some packets; `start` were before them, arrays have shape (n,)."""
        at = np.flatnonzero(dropped)
        columns = (start + 1 + at, times[at], digests[at])
        for number, time, digest in zip(*(c.tolist() for c in columns), strict=True):
            seconds = "" if time == NO_TIME else f"{time // 10**9}.{time % 10**9:09}"
            self._file.write(f"{number},{seconds},{digest:016x}\n".encode())

"""Keyed digests of the packets of a capture."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..golden.packets.compiled_packets import digest_packets
from ..golden.packets.packet_digest import DEFAULT_FIELDS, Field
from .capture_reader import Packets


class Digests(NamedTuple):
    """What is known of some packets; all arrays have shape (n,)."""

    values: NDArray[np.uint64]
    """As `lately.golden.packets.packet_digest.packet_digest`."""
    versions: NDArray[np.uint8]
    """`lately.golden.packets.packet_layers.Version` of each."""
    faults: NDArray[np.uint8]
    """`lately.golden.packets.packet_layers.Fault` of each."""


def digest(packets: Packets, *, fields: Field = DEFAULT_FIELDS, secret: int = 0) -> Digests:
    """Digest some packets.

    Parameters
    ----------
    packets : Packets
    fields : Field
    secret : int
        Of 128 bits.
    """
    count = len(packets)
    found = Digests(
        np.empty(count, np.uint64), np.empty(count, np.uint8), np.empty(count, np.uint8)
    )
    low, high = np.uint64(secret & (1 << 64) - 1), np.uint64(secret >> 64)
    digest_packets(
        packets.buffer, packets.words, packets.places, int(fields), low, high, found.versions,
        found.faults, found.values,
    )  # fmt: skip
    return found

"""Let a SYN pass only if the same SYN arrived before, neither too recently nor too long ago.

A TCP client retransmits an unanswered SYN after one second (RFC 6298, section 2.1). A flood of SYNs
from random addresses contains no repeats. Install Lately and run this file to simulate 200 clients
during a flood.
"""

from pathlib import Path

import numpy as np

from lately import from_spec
from lately.golden import Operation
from lately.golden.spec.timestamp import TimedTimingSpec

SPEC = Path(__file__).with_suffix(".toml")
"""Specification of a filter for 5,000 SYNs per second; its span of 26 ticks covers 2.5 s."""

TICK = 100
"""Length of a tick in milliseconds."""

MIN_AGE = 9
"""Minimum age of a repeated SYN in ticks. As ages are rounded, it is more than 0.8 s old."""


class SynCheck:
    """Decides which SYNs reach the server."""

    def __init__(self):
        self._filter = from_spec(TimedTimingSpec.from_toml(SPEC))

    def passes(self, keys, times):
        """Return whether each SYN passes.

        `keys`, a uint64 array of shape (n, 2), holds the addresses, ports and sequence number of
        each SYN, 128 bits for IPv4. `times`, an array of shape (n,), holds the times in
        milliseconds, in ascending order.
        """
        codes = np.full(len(keys), Operation.CHECK_AND_INSERT, np.uint8)
        results = self._filter.perform(codes, keys, times // TICK)
        return results.seen & (results.age >= MIN_AGE)


def main():
    """Check the SYNs of 200 clients during a flood of 50,000 SYNs within ten seconds."""
    rng = np.random.default_rng(6298)
    flood, clients = 50_000, 200
    first = rng.integers(0, 8_000, clients)
    again = first + 1_000 + rng.integers(0, 50, clients)
    times = np.concatenate([rng.integers(0, 10_000, flood), first, again])
    keys = rng.integers(0, 1 << 64, (flood + clients, 2), np.uint64)
    keys = np.concatenate([keys, keys[flood:]])
    order = np.argsort(times, kind="stable")
    passed = np.empty(len(keys), np.bool_)
    passed[order] = SynCheck().passes(keys[order], times[order])
    print(f"SYNs of the flood that passed: {passed[:flood].sum():,} of {flood:,}")
    print(f"first SYNs of clients that passed: {passed[flood:-clients].sum():,} of {clients:,}")
    print(f"second SYNs of clients that passed: {passed[-clients:].sum():,} of {clients:,}")


if __name__ == "__main__":
    main()

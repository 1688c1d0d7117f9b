"""Record the ClientHellos whose early data a TLS 1.3 server has accepted (RFC 8446, section 8.2).

Install Lately and run this file to simulate a server that receives every ClientHello twice.
"""

import secrets
from pathlib import Path

import numpy as np

from lately import from_spec
from lately.golden.spec import FilterSpec

TICK = 10
"""Length of a tick in milliseconds."""

CLOCK_ERROR = 5_000
"""Maximum time in milliseconds between the expected and the actual arrival of a ClientHello."""

SPAN = 2 * CLOCK_ERROR // TICK + 1
"""Number of ticks for which a ClientHello must be remembered: from the earliest to the latest
arrival, plus one tick because times are rounded to ticks."""

SPEC = Path(__file__).with_suffix(".toml")
"""Specification of a filter for 50,000 ClientHellos within a span of 1,001 ticks."""


class EarlyDataRegister:
    """Decides whether a server may accept the early data of a ClientHello.

    `spec` is the specification of the filter. The span must be at least twice `CLOCK_ERROR`, and
    `when_full` must be "overfill": if more ClientHellos arrive than planned, none is forgotten, but
    more new ClientHellos are rejected. `started` is the time at which the server started, in
    milliseconds. `secret` is the 128-bit secret of the hash; by default it is random.
    """

    def __init__(self, spec, *, started, secret=None):
        self._filter = from_spec(spec, secret=secrets.randbits(128) if secret is None else secret)
        self._bytes = spec.key_bits // 8
        self._started = started

    def accept(self, binder, expected, now):
        """Return whether the server may accept the early data.

        If not, the handshake continues without the early data.

        Parameters
        ----------
        binder : bytes
            Verified binder of the selected pre-shared key.
        expected : int
            Expected arrival of the ClientHello (RFC 8446, section 8.3), in milliseconds.
        now : int
            Current time in milliseconds, which must not decrease from call to call.
        """
        if abs(now - expected) > CLOCK_ERROR:
            return False
        if now < self._started + 2 * CLOCK_ERROR:
            # ClientHellos accepted before the server started are unknown.
            return False
        key = int.from_bytes(binder[: self._bytes], "little")
        return not self._filter.check_and_insert(key, now // TICK)


def main():
    """Send 10,000 ClientHellos within a minute, and replay each as early or late as possible."""
    rng = np.random.default_rng(8446)
    register = EarlyDataRegister(FilterSpec.from_toml(SPEC), started=0)
    first = rng.integers(10_000, 70_000, 10_000)
    expected = first + rng.integers(-CLOCK_ERROR, CLOCK_ERROR + 1, len(first))
    latest = expected + CLOCK_ERROR
    again = np.where(rng.random(len(first)) < 0.5, latest, rng.integers(first, latest + 1))
    times = np.concatenate([first, again])
    taken = [0, 0]
    for at in np.argsort(times, kind="stable").tolist():
        replay, hello = divmod(at, len(first))
        binder = hello.to_bytes(32, "little")
        taken[replay] += register.accept(binder, int(expected[hello]), int(times[at]))
    print(f"first ClientHellos whose early data were accepted: {taken[0]:,} of {len(first):,}")
    print(f"replays whose early data were accepted: {taken[1]:,} of {len(first):,}")


if __name__ == "__main__":
    main()

"""Remove copies from the packets of a mirror port, like an FPGA behind the port.

A switch that mirrors incoming and outgoing frames sends every frame twice to the mirror port. Run
this file, with Lately installed, to see it with a stream of 500 frames.
"""

import secrets
from pathlib import Path

from lately.captures.made_packets import MadePackets
from lately.golden.packets.frame_deduplicator import FrameDeduplicator
from lately.golden.spec import FilterSpec

SPEC = Path(__file__).with_suffix(".toml")
"""Filter for the shortest frames at the full rate of gigabit Ethernet within a span of 10 ms."""

TICK = 10_000
"""Nanoseconds of a tick."""

TAG = bytes.fromhex("81000007")
"""VLAN tag that the switch adds to frames when they leave."""


class MirrorPort:
    """Decides which frames of a mirror port to forward."""

    def __init__(self):
        spec = FilterSpec.from_toml(SPEC)
        self.deduplicator = FrameDeduplicator(spec, secret=secrets.randbits(128))

    def forwards(self, frame, now):
        """Whether `frame`, which arrives at time `now` in ns, is not a copy of a recent frame."""
        return bool(self.deduplicator.perform([frame], [now // TICK]))


def generated(count, seed=1):
    """Generate distinct frames, each with the time in ns at which it enters the switch."""
    packets = MadePackets(count, seed=seed).read()
    return [(packets.frame(index), time) for index, time in enumerate(packets.times.tolist())]


def mirrored(frames, delay=20_000):
    """Return the frames at the mirror port, with times: each enters, then leaves with a tag."""
    both = [(time, frame) for frame, time in frames]
    both += [(time + delay, frame[:12] + TAG + frame[12:]) for frame, time in frames]
    return sorted(both)


def main():
    """Forward each of 500 mirrored frames once."""
    port = MirrorPort()
    forwarded = [frame for time, frame in mirrored(generated(500)) if port.forwards(frame, time)]
    counts = port.deduplicator.counts
    print(f"frames at the mirror port: {counts.frames_in:,}")
    print(f"forwarded: {len(forwarded):,}, of them {len(set(forwarded)):,} different")
    print(f"copies dropped: {counts.hits:,}")


if __name__ == "__main__":
    main()

"""Remove duplicates from the packets of a mirror port, like an FPGA behind the port.

A switch that mirrors incoming and outgoing frames sends every frame twice to the mirror port. Run
this file, with Lately installed, to process a stream of 500 frames.
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
        """Return whether a frame that arrives at `now`, in ns, repeats no recent frame."""
        return bool(self.deduplicator.perform([frame], [now // TICK]))


def generated(count, seed=1):
    """Generate distinct frames, with the times in ns at which they enter the switch."""
    packets = MadePackets(count, seed=seed).read()
    return [(packets.frame(index), time) for index, time in enumerate(packets.times.tolist())]


def mirrored(frames, delay=20_000):
    """Return the frames at the mirror port, in order: each enters, and leaves with a tag."""
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

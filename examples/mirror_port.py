"""Remove duplicate frames at a mirror port, as an FPGA behind the port would.

A switch that mirrors incoming and outgoing frames sends every frame to the mirror port twice.
Install Lately and run this file to simulate a switch that receives 500 frames.
"""

import secrets
from pathlib import Path

from lately.captures.two_taps import MadePackets
from lately.golden.packets.frame_deduplicator import FrameDeduplicator
from lately.golden.spec import FilterSpec

SPEC = Path(__file__).with_suffix(".toml")
"""Specification of a filter for the shortest frames of gigabit Ethernet within a span of 10 ms."""

TICK = 10_000
"""Length of a tick in nanoseconds."""

TAG = bytes.fromhex("81000007")
"""VLAN tag that the switch adds to outgoing frames."""


class MirrorPort:
    """Decides which frames of a mirror port to forward."""

    def __init__(self):
        spec = FilterSpec.from_toml(SPEC)
        self.deduplicator = FrameDeduplicator(spec, secret=secrets.randbits(128))

    def forwards(self, frame, now):
        """Return whether to forward a frame that arrives at the time `now`, in nanoseconds."""
        return bool(self.deduplicator.perform([frame], [now // TICK]))


def generated(count, seed=1):
    """Generate `count` distinct frames and the times, in ns, at which they enter the switch."""
    packets = MadePackets(count, seed=seed).read()
    return [(packets.frame(index), time) for index, time in enumerate(packets.times.tolist())]


def mirrored(frames, delay=20_000):
    """Return the frames at the mirror port in time order.

    Each frame occurs twice: once as it enters the switch, and once, `delay` ns later and with a
    tag, as it leaves the switch.
    """
    both = [(time, frame) for frame, time in frames]
    both += [(time + delay, frame[:12] + TAG + frame[12:]) for frame, time in frames]
    return sorted(both)


def main():
    """Mirror 500 frames, and forward each of them once."""
    port = MirrorPort()
    forwarded = [frame for time, frame in mirrored(generated(500)) if port.forwards(frame, time)]
    counts = port.deduplicator.counts
    print(f"frames at the mirror port: {counts.frames_in:,}")
    print(f"forwarded: {len(forwarded):,}, of them {len(set(forwarded)):,} different")
    print(f"duplicates dropped: {counts.hits:,}")


if __name__ == "__main__":
    main()

"""The golden deduplicator of frames: a sentence of its contract each."""

from dataclasses import asdict

import numpy as np
import pytest

from lately.golden.packets.comparison import Field
from lately.golden.packets.frame_actions import LONGEST_FRAME, Action, longest_buffered
from lately.golden.packets.frame_deduplicator import FrameCounts, FrameDeduplicator, Sent
from lately.golden.spec import GEBFSpec
from lately.sim.bench.packets import CONTROL, LAYER2, TUNNELS, ethernet, ip4, ip6, udp

SPEC = GEBFSpec(window=72, epochs=3, hashes=3, bits=6144, key_bits=64, span=20)


def frame(payload, ttl=64):
    return ethernet(0x0800, ip4(udp(payload), ttl=ttl))


A, B = frame(b"a"), frame(b"b")
AGAIN = frame(b"a", ttl=63)


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        (Action.COUNT, [(A, False), (B, False), (AGAIN, False)]),
        (Action.MARK, [(A, False), (B, False), (AGAIN, True)]),
        (Action.DROP, [(A, False), (B, False)]),
    ],
)
def test_actions(action, expected):
    """A router between two taps changes nothing that counts."""
    model = FrameDeduplicator(SPEC, action=action)
    assert model.perform([A, B, AGAIN], [0, 0, 20]) == [Sent(*frame) for frame in expected]
    assert model.counts.hits == 1
    assert (model.counts.frames_in, model.counts.frames_out) == (3, len(expected))
    assert model.counts.bytes_out == sum(len(frame) for frame, _ in expected)


def test_settings_count_from_the_next_frame_on():
    model = FrameDeduplicator(SPEC)
    assert len(model.perform([A, A], [0, 0])) == 1
    model.action, model.fields = Action.MARK, Field.TTL | Field.TOS
    # Under other fields it is another digest.
    assert [frame.marked for frame in model.perform([A, AGAIN, A], [0, 0, 0])] == [
        False,
        False,
        True,
    ]
    model.secret = 1
    assert [frame.marked for frame in model.perform([A], [0])] == [False]


def test_span_is_over():
    model = FrameDeduplicator(SPEC)
    assert len(model.perform([A, A, A], [0, SPEC.span, 3 * SPEC.span])) == 2


def test_discarded_frames_are_not_remembered():
    """The first reason that holds is counted."""
    long, longest = A.ljust(LONGEST_FRAME + 1, b"x"), A.ljust(LONGEST_FRAME, b"x")
    frames = [A, long, B, long, A, B, longest]
    model = FrameDeduplicator(SPEC)
    errored = np.isin(np.arange(7), [0, 1])
    lost = np.isin(np.arange(7), [0, 1, 2, 3])
    sent = model.perform(frames, np.zeros(7, int), errored=errored, lost=lost)
    # Padding behind a packet does not count.
    assert [frame.frame for frame in sent] == [A, B]
    assert asdict(model.counts) == asdict(
        FrameCounts(
            frames_in=7,
            bytes_in=sum(map(len, frames)),
            frames_out=2,
            bytes_out=len(A) + len(B),
            hits=1,
            frames_ip4=3,
            frames_errored=2,
            frames_oversize=1,
            frames_no_room=1,
        )
    )
    assert model.counts.discarded("drop") == 7 - 2 - 1


def test_frames_above_the_maximum_pass_unrecorded():
    """A frame of which the store cannot hold two has no room."""
    limit = longest_buffered(32768, 512)
    long, longest_stored, longer = (
        A.ljust(size, b"x") for size in (LONGEST_FRAME + 1, limit, limit + 1)
    )
    frames = [long, long, longest_stored, longer, A, A]
    model = FrameDeduplicator(SPEC, width=512, on_oversize="pass")
    sent = model.perform(frames, [0] * 6, lost=[0, 1, 0, 0, 0, 0])
    assert [frame.frame for frame in sent] == [long, longest_stored, A]
    counts = model.counts
    assert (counts.frames_oversize, counts.frames_no_room, counts.hits) == (2, 2, 1)
    assert counts.frames_in == counts.frames_out + counts.hits + counts.discarded("pass")


def test_versions():
    """What contradicts itself is compared as a whole frame."""
    six = ethernet(0x86DD, ip6(b"abc"))
    wrong = ethernet(0x0800, ip6(b"abc"))
    other = ethernet(0x0806, bytes(28))
    model = FrameDeduplicator(SPEC)
    model.perform([A, six, wrong, other, A[:20]], [0] * 5)
    counts = model.counts
    assert (counts.frames_ip4, counts.frames_ip6, counts.frames_other) == (1, 1, 3)
    assert counts.frames_malformed == 2


def test_hardware_compares_labels_and_tunnels_whole():
    """Hardware knows three tags and IP; what software passes in addition is a whole frame."""
    model = FrameDeduplicator(SPEC)
    frames = [LAYER2["one label"], TUNNELS["VXLAN"], CONTROL["ARP"], A]
    assert len(model.perform(frames, [0] * 4)) == 4
    assert (model.counts.frames_ip4, model.counts.frames_other) == (2, 2)
    padded = [frame + bytes(9) for frame in frames]
    assert len(model.perform(padded, [0] * 4)) == 2

"""Random frames and the expected output of the deduplicator, as port values."""

import random

from ...golden.packets.frame_actions import ROOM_LAG
from ...golden.packets.frame_deduplicator import FrameDeduplicator
from ...hdl.packets.frame_intake import beats_of
from ...hdl.packets.frame_options import FrameOptions, Sideband
from .design import Design
from .vectors import Vectors

_FRAMES = 24
_SHORTEST, MOST_FRAME = 14, 80
"""Bytes of a frame."""
_SHORTEST_OF_LINE = 60
"""Minimum bytes of a frame if the input has no back-pressure."""
_AGAIN = 0.4
"""Probability that a frame repeats an earlier frame."""
_IP4 = b"\x08\x00\x45"
"""EtherType and first byte of IPv4."""
_LABEL = b"\x88\x47\x00\x01\x41\x40"
"""EtherType and label of MPLS."""


def all_fit(how: FrameOptions) -> bool:
    """Return whether every frame of the test bench fits into the store, at any input rate."""
    beats = _FRAMES * beats_of(MOST_FRAME, how.beat) + ROOM_LAG
    slow = how.ready or how.longest >= _SHORTEST_OF_LINE
    fits = beats * how.beat <= 8 * (how.store or 0) and (how.frames or 0) >= _FRAMES + ROOM_LAG
    return how.when_full == "wait" or (slow and fits)


def frame_vectors(design: Design, *, seed: int) -> Vectors:
    """Return the transfers of random frames, and of the output without duplicates."""
    choose = random.Random(seed)
    how = design.frame_options
    shortest = _SHORTEST if how.ready else min(_SHORTEST_OF_LINE, how.longest)
    frames: list[bytes] = []
    for _ in range(_FRAMES):
        if frames and choose.random() < _AGAIN:
            frames.append(_copy(choose, choose.choice(frames), inner=how.inner))
        else:
            frames.append(_frame(choose, choose.randint(shortest, MOST_FRAME)))
    if how.longest < MOST_FRAME:
        # At least this frame leaves.
        frames[0] = frames[0][: how.longest]
    side = how.side
    beside = [_beside(side, choose) for _ in frames]
    model = FrameDeduplicator(
        design.spec,
        longest=how.longest,
        width=how.width,
        store=how.store,
        oversize=how.oversize,
        inner=how.inner,
    )
    requests, results = [], []
    for frame, signals in zip(frames, beside, strict=True):
        requests += _transfers("s_axis", frame, how.width // 8, signals)
        if model.perform([frame], [0]):
            carried = sum(signals["user"] & 1 << at for at in side.carried)
            results += _transfers("m_axis", frame, how.width // 8, signals | {"user": carried})
    names = {port.name for port in design.ports}
    return Vectors(
        *(
            [{name: one[name] for name in one if name in names} for one in found]
            for found in (requests, results)
        )
    )


def _frame(choose: random.Random, size: int) -> bytes:
    """Return a random frame, which holds a packet of IPv4 if it has room for one."""
    frame = choose.randbytes(size)
    if size < 34:
        return frame
    return frame[:12] + _IP4 + frame[15:16] + (size - 14).to_bytes(2, "big") + frame[18:]


def _copy(choose: random.Random, frame: bytes, *, inner: bool) -> bytes:
    """Return a frame as another link has it: same packet, other addresses, TTL and checksum."""
    if frame[12:15] != _IP4:
        return frame
    hop = choose.randbytes(15)
    if inner and len(frame) + 4 <= MOST_FRAME and choose.random() < 0.5:
        return hop[:12] + _LABEL + frame[14:]
    return hop[:12] + frame[12:22] + hop[12:13] + frame[23:24] + hop[13:] + frame[26:]


def _beside(side: Sideband, choose: random.Random) -> dict[str, int]:
    """Return random sideband signals of an intact frame."""
    widths = side.widths(leaves=False)
    found = {name: choose.getrandbits(width) if width else 0 for name, width in widths.items()}
    return found | {"user": found["user"] & ~(1 << side.bad)}


def _transfers(
    prefix: str, frame: bytes, size: int, beside: dict[str, int]
) -> list[dict[str, int]]:
    """Return the values of the ports of a stream of `size` bytes for a frame."""
    transfers = []
    for at in range(0, len(frame), size):
        part = frame[at : at + size]
        values = {"data": int.from_bytes(part, "little"), "last": int(at + size >= len(frame)),
                  "keep": (1 << len(part)) - 1} | beside  # fmt: skip
        transfers.append({f"{prefix}_t{name}": value for name, value in values.items()})
    return transfers

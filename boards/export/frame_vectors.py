"""Frames and what the golden deduplicator lets through, as values of an exported module's ports."""

import random

from ...golden.packets.frame_deduplicator import FrameDeduplicator
from ...hdl.packets.frames import BEAT_BYTES
from .design import FRAMES, Design
from .vectors import Vectors

_FRAMES = 24
_SHORTEST, _LONGEST = 14, 80
_AGAIN = 0.4
"""How often a frame is one of those before."""


def frame_vectors(design: Design, *, seed: int) -> Vectors:
    """Return the transfers of random frames and of those that leave; duplicates are dropped.

    Parameters
    ----------
    design : Design
        A deduplicator of frames. No tick comes between its frames.
    seed : int
    """
    choose = random.Random(seed)
    frames: list[bytes] = []
    for _ in range(_FRAMES):
        if frames and choose.random() < _AGAIN:
            frames.append(choose.choice(frames))
        else:
            frames.append(choose.randbytes(choose.randint(_SHORTEST, _LONGEST)))
    left = FrameDeduplicator(design.spec).perform(frames, [0] * len(frames))
    size = FRAMES[design.wrap] // 8
    return Vectors(
        [one for frame in frames for one in _transfers("s_axis", frame, size)],
        [one for sent in left for one in _transfers("m_axis", sent.frame, size)],
    )


def _transfers(prefix: str, frame: bytes, size: int) -> list[dict[str, int]]:
    """Return the values of the ports of a stream of `size` bytes for a frame."""
    transfers = []
    for at in range(0, len(frame), size):
        part = frame[at : at + size]
        keep = {"tkeep": (1 << len(part)) - 1} if size == BEAT_BYTES else {}
        values = {"tdata": int.from_bytes(part, "little"), "tlast": int(at + size >= len(frame))}
        transfers.append({f"{prefix}_{name}": value for name, value in (values | keep).items()})
        transfers[-1][f"{prefix}_tuser"] = 0
    return transfers

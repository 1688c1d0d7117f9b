"""Upsets of deduplicators of frames: their sequences, and how each run is judged."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lately.golden.packets.frame_actions import Action
from lately.golden.packets.frame_deduplicator import FrameDeduplicator
from lately.golden.spec import GEBFSpec
from lately.golden.spec.base import require

from .upset_outcomes import OUTCOMES, judge_frames

FRAME_SPEC = GEBFSpec(window=72, epochs=3, hashes=3, bits=6144, key_bits=64, span=20)
"""Filter of the deduplicators."""

FRAME_OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "frames-64": {"width": 64, "store": 1024, "frames": 32},
    # The search takes longer than a store of 1,024 bytes lasts.
    "frames-64-inner": {"width": 64, "store": 4096, "frames": 32, "inner": True},
    "frames-512": {"width": 512, "store": 8192, "frames": 64},
}
"""Deduplicators whose bits flip."""

LONGEST = 198  # bytes of the longest frame
WINDOWS = 3  # windows for which frames are compared after an upset
BURST = {64: 24, 512: 96}  # frames in a burst, without gaps, for each width

QUIET, SPACING = 300, 50
"""Cycles of silence between bursts, and between the ticks in the second half of a silence."""

SETTLE = {64: 150, 512: 4200}
"""Cycles after a reset until the filter is clear and a wide digest has its keys."""

REPEATED = 0.5  # share of the frames that come again


class FrameCourse:
    """A sequence of frames, as `campaigns.upsets.OperationCourse` of operations."""

    def __init__(self, unit: Any, point: Any, random: np.random.Generator) -> None:
        self._unit = unit
        options = FRAME_OPTIONS[point["preset"]]
        width = options["width"]
        self._followed = -(-WINDOWS * FRAME_SPEC.window // BURST[width])
        frames, times = _frames(random, BURST[width], 2 * self._followed)
        slots, self._ends = _slots(frames, times, width // 8)
        self._left = unit.reference(slots, self._ends[-1])
        golden = FrameDeduplicator(
            FRAME_SPEC, action=Action.MARK, longest=LONGEST,
            **{name: options[name] for name in ("width", "store", "inner") if name in options},
        )  # fmt: skip
        expected = golden.perform(frames, times)
        self.mismatches = mismatches(self._left, expected)
        marked = np.array([one.marked for one in expected])
        self._promised = promised(frames, times) & marked
        self.cycles = self._ends[0], self._ends[-self._followed - 1]

    @staticmethod
    def opened(point: Any) -> Any:
        """Return the deduplicator of a point in compiled simulation with upsets."""
        from lately.hdl.packets.deduplicator import Deduplicator
        from lately.sim.replay.frames import CompiledFrames

        plain = point["protect"] == "none" and not point["self_check"]
        require(plain, "preset", "must be a filter's for protection and checks", point["preset"])
        options = FRAME_OPTIONS[point["preset"]]
        unit = Deduplicator(FRAME_SPEC, ticks="tick", longest=LONGEST, **options)
        return CompiledFrames(unit, settle=SETTLE[options["width"]])

    def strike(self, upsets: Any) -> tuple[NDArray[np.int64], NDArray[np.bool_], NDArray[np.bool_]]:
        """Flip bits, as `campaigns.upsets.OperationCourse.strike` does; there are no reports."""
        ranks, healed = np.zeros(len(upsets), np.int64), np.zeros(len(upsets), np.bool_)
        for number, upset in enumerate(upsets):
            burst = int(np.searchsorted(self._ends, upset.clock))
            end = self._ends[burst + self._followed]
            left, healed[number] = self._unit.strike(upset, end)
            due = slice(*np.searchsorted(self._left.cycles, (upset.clock, end)))
            expected = type(left)(*(part[due] for part in self._left))
            ranks[number] = judge_frames(expected, self._promised[due], left)
        ranks[(ranks == 0) & ~healed] = [*OUTCOMES].index("latent")
        return ranks, np.zeros(len(upsets), np.bool_), healed


def mismatches(left: Any, expected: Any) -> int:
    """Return how many frames differ from those that leave the golden model."""
    from lately.sim.replay.frames import frame_digest

    wrong = abs(len(left.digests) - len(expected))
    for digest, marked, one in zip(left.digests.tolist(), left.marked, expected, strict=False):
        wrong += int(digest != frame_digest(one.frame) or bool(marked) != one.marked)
    return wrong


def promised(frames: list[bytes], times: list[int]) -> NDArray[np.bool_]:
    """Return which frames came before, within the span."""
    last: dict[bytes, int] = {}
    found = np.zeros(len(frames), np.bool_)
    for at, (frame, time) in enumerate(zip(frames, times, strict=True)):
        found[at] = frame in last and time - last[frame] <= FRAME_SPEC.span
        last[frame] = time
    return found


def _frames(random: np.random.Generator, burst: int, bursts: int) -> tuple[list[bytes], list[int]]:
    """Return bursts of UDP frames, of which many come again, and the tick of each frame."""
    frames: list[bytes] = []
    times = np.repeat(np.cumsum(random.integers(1, 4, bursts)), burst).tolist()
    for at in range(len(times)):
        if frames and random.random() < REPEATED:
            frames.append(frames[int(random.integers(max(0, at - FRAME_SPEC.window), at))])
            continue
        size = int(random.integers(60, LONGEST + 1))
        ports = random.bytes(4)
        head = bytes.fromhex("02000000000102000000000208004500")
        head += (size - 14).to_bytes(2, "big") + random.bytes(2) + bytes.fromhex("000040110000")
        head += bytes.fromhex("0a0000010a000002") + ports + (size - 34).to_bytes(2, "big")
        frames.append(head + random.bytes(size - len(head)))
    return frames, times


def _slots(frames: list[bytes], times: list[int], octets: int) -> tuple[Any, list[int]]:
    """Return a sequence with a silence and ticks before each burst, and the ends of silences."""
    from lately.sim.replay.frames import FrameSlots

    parts: list[tuple[bytes, int, int]] = []
    ends, now = [], 0
    for frame, time in zip([*frames, b""], [*times, times[-1] + 1], strict=True):
        if time > now:
            silence = [(b"", 0, 0)] * QUIET
            for tick in range(time - now):
                silence[QUIET // 2 + SPACING * tick] = (b"", 0, 2)
            parts += silence
            ends.append(len(parts))
            now = time
        for at in range(0, len(frame), octets):
            word = frame[at : at + octets]
            parts.append((word, len(word), int(at + octets >= len(frame))))
    words, sizes, flags = zip(*parts, strict=True)
    table = np.frombuffer(b"".join(word.ljust(octets, b"\0") for word in words), np.uint8)
    slots = FrameSlots(
        table.reshape(-1, octets), np.array(sizes, np.uint8), np.array(flags, np.uint8)
    )
    return slots, ends

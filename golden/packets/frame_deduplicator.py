"""Golden model of the frame deduplicator, which predicts output frames, marks and counters."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from .. import locks
from ..errors import require
from ..models import from_spec
from ..operations import Operation
from ..spec.base import Specification
from .comparison import DEFAULT_FIELDS, HARDWARE_FIELDS, Comparison, Field, FieldError
from .frame_actions import (
    LONGEST_FRAME,
    ON_OVERSIZE,
    WIDTHS,
    Action,
    default_buffer,
    longest_buffered,
)
from .packet_digest import message, message_digest
from .packet_layers import ETHERNET, Fault, Reach, Version, inner_layers, layers


class Sent(NamedTuple):
    frame: bytes
    marked: bool


@dataclass
class FrameCounts:
    """Counters of the deduplicator, under the names of its registers."""

    frames_in: int = 0  # all received frames
    bytes_in: int = 0
    frames_out: int = 0  # forwarded frames
    bytes_out: int = 0
    hits: int = 0  # duplicate frames
    frames_ip4: int = 0  # digested frames, by version
    frames_ip6: int = 0
    frames_other: int = 0
    frames_malformed: int = 0  # digested frames with contradictory headers
    frames_errored: int = 0  # damaged frames, discarded
    frames_oversize: int = 0  # undamaged frames above the maximum length, never recorded
    frames_no_room: int = 0  # undamaged frames discarded because the store was full

    def add(self, name: str, amount: int = 1) -> None:
        setattr(self, name, getattr(self, name) + amount)

    def discarded(self, on_oversize: str) -> int:
        dropped = self.frames_oversize if on_oversize == "drop" else 0
        return self.frames_errored + self.frames_no_room + dropped


_OF_VERSION = {
    Version.OTHER: "frames_other", Version.IP4: "frames_ip4", Version.IP6: "frames_ip6",
}  # fmt: skip


@dataclass
class FrameDeduplicator:
    """Golden model of `lately.hdl.packets.deduplicator.Deduplicator`.

    Frames are Ethernet frames without their check sequence. A frame that is damaged, or arrives
    while the store is full, is discarded and not recorded. A frame above the maximum length is
    discarded, or forwarded without being recorded. The digests of all other frames are queried and
    inserted in order.
    """

    spec: Specification  # must have a span, and keys of 64 bits
    fields: Field = DEFAULT_FIELDS
    secret: int = field(default=0, repr=False)  # 128 bits
    action: Action = Action.DROP
    max_frame: int = LONGEST_FRAME  # maximum length of a recorded frame, in bytes
    width: int = 64  # bits of the stream; 128 or more select `polynomial_digest`
    buffer: int | None = None  # bytes of the frame buffer; see `default_buffer`
    on_oversize: str = "drop"  # or "pass": forwards frames up to `longest_buffered`
    inner: bool = False  # whether to compare the packets that `inner_layers` finds
    counts: FrameCounts = field(default_factory=FrameCounts)

    def __post_init__(self) -> None:
        if self.fields & ~HARDWARE_FIELDS:
            names = ", ".join(field.name.lower() for field in HARDWARE_FIELDS if field.name)
            raise FieldError(f"fields: must be among {names} for hardware, not {self.fields!r}")
        if self.inner and Field.LAYER2 in self.fields:
            raise FieldError("fields: must not include layer2 if inner packets are compared")
        for name, known in (("width", WIDTHS), ("on_oversize", ON_OVERSIZE)):
            value = getattr(self, name)
            require(value in known, name, f"must be one of {', '.join(map(str, known))}", value)
        locks.give_lock(self)
        self._filter: Any = from_spec(self.spec)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        locks.give_lock(self)

    @locks.holding
    def perform(
        self,
        frames: Sequence[bytes],
        times: ArrayLike,
        *,
        errored: ArrayLike | None = None,
        lost: ArrayLike | None = None,
    ) -> list[Sent]:
        """Process frames in order, each at its tick in `times`, and return the forwarded frames.

        `errored` marks damaged frames, and `lost` marks frames that arrive while the store is full;
        all arrays have shape (n,).
        """
        none = np.zeros(len(frames), bool)
        damaged = none if errored is None else np.asarray(errored, bool)
        missed = none if lost is None else np.asarray(lost, bool)
        taken = np.array(
            [self._takes(*item) for item in zip(frames, damaged, missed, strict=True)], bool
        )
        kept = [frame for frame, takes in zip(frames, taken, strict=True) if takes]
        digests = np.array([self._digest(frame) for frame in kept], np.uint64)
        recorded = np.array([len(frame) <= self.max_frame for frame in kept], bool)
        codes = np.full(int(recorded.sum()), Operation.CHECK_AND_INSERT, np.uint8)
        result = self._filter.perform(
            codes, digests[recorded], np.asarray(times, np.int64)[taken][recorded]
        )
        seen = np.zeros(len(kept), bool)
        seen[recorded] = result.seen
        sent = [self._send(*item) for item in zip(kept, seen.tolist(), strict=True)]
        return [item for item in sent if item is not None]

    def _takes(self, frame: bytes, damaged: bool, missed: bool) -> bool:
        """Count a received frame, and return whether the store accepts it."""
        self.counts.add("frames_in")
        self.counts.add("bytes_in", len(frame))
        passes = self.on_oversize == "pass"
        buffer = default_buffer(self.width) if self.buffer is None else self.buffer
        missed |= passes and len(frame) > longest_buffered(buffer, self.width)
        long = len(frame) > self.max_frame
        reasons = {
            "frames_errored": damaged,
            "frames_oversize": long and not (passes and missed),
            "frames_no_room": missed,
        }
        reason = next((name for name, holds in reasons.items() if holds), None)
        if reason is not None:
            self.counts.add(reason)
        return reason is None or (passes and reason == "frames_oversize")

    def _digest(self, frame: bytes) -> int:
        by_tags = frame, len(frame), ETHERNET, Reach.HARDWARE
        result = inner_layers(frame) if self.inner else layers(*by_tags)
        self.counts.add(_OF_VERSION[result.version])
        self.counts.add("frames_malformed", int(Fault.MALFORMED in result.faults))
        compared = message(frame, len(frame), result, Comparison(self.fields))
        return message_digest(compared, self.secret, self.width)

    def _send(self, frame: bytes, seen: bool) -> Sent | None:
        self.counts.add("hits", int(seen))
        if seen and self.action == Action.DROP:
            return None
        self.counts.add("frames_out")
        self.counts.add("bytes_out", len(frame))
        return Sent(frame, seen and self.action == Action.MARK)

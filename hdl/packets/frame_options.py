"""Options of a deduplicator: its streams, its store and its rules."""

from dataclasses import dataclass, fields
from typing import Any

from ...golden.packets.frame_actions import (
    LONGEST_FRAME,
    OVERSIZE,
    WIDTHS,
    beat_bytes,
    default_store,
    longest_stored,
)
from ..parameters import require_integer

WHEN_FULL = ("wait", "drop")
"""Rules for a frame without room: it waits outside, or it is discarded."""

SIDE_OPTIONS = {
    "user_bits": "user", "id_bits": "id", "dest_bits": "dest", "bad_bit": "bad", "mark_bit": "mark",
}  # fmt: skip
"""Options of a deduplicator that are attributes of its `Sideband`."""


@dataclass(frozen=True, kw_only=True)
class Sideband:
    """Signals of an AXI4-Stream in addition to the bytes of frames.

    TUSER, TID and TDEST of a transfer leave with the same bytes. A beat of several transfers
    leaves with the signals of its last transfer. Two bits of TUSER are exceptions: the bad bit
    of an outgoing frame is low, and the mark bit reports that the frame was seen lately.

    Attributes
    ----------
    user, id, dest : int
        Bits of TUSER, TID and TDEST of the input. 0: the signal does not exist.
    bad : int
        Bit of TUSER that marks a frame as damaged, in the last transfer of the frame.
        Without TUSER no frame is damaged.
    mark : int, optional
        Bit of TUSER of the output that marks a frame; by default the bad bit. It may be the bit
        above the last one; then TUSER of the output is one bit wider.

    Raises
    ------
    ValueError
        If a width is negative, or a bit does not exist.
    """

    user: int = 1
    id: int = 0
    dest: int = 0
    bad: int = 0
    mark: int | None = None

    def __post_init__(self) -> None:
        for name in ("user", "id", "dest"):
            require_integer(f"Bits of T{name.upper()}", getattr(self, name))
        require_integer("Bad bit", self.bad, maximum=max(self.user - 1, 0))
        if self.mark is None:
            object.__setattr__(self, "mark", self.bad)
        require_integer("Mark bit", self.mark, maximum=self.user)

    @property
    def carried(self) -> list[int]:
        """Bits of TUSER that leave unchanged."""
        return [at for at in range(self.user) if at not in (self.bad, self.mark)]

    @property
    def bits(self) -> int:
        """Sideband bits of each beat."""
        return len(self.carried) + self.id + self.dest

    def widths(self, *, leaves: bool) -> dict[str, int]:
        """Return the bits of each signal of the input, or of the output if it `leaves`."""
        user = max(self.user, self.mark + 1) if leaves and self.mark is not None else self.user
        return {"user": user, "id": self.id, "dest": self.dest}


ONLY_BAD = Sideband()
"""TUSER with one bit: the bad bit of the input, and the mark bit of the output."""


@dataclass(frozen=True, kw_only=True)
class FrameOptions:
    """Options of a `lately.hdl.packets.deduplicator.Deduplicator`, except its filter's options.

    Attributes
    ----------
    width : int
        Bits of a transfer, one of 8, 64, 128, 256 and 512.
    store : int, optional
        Bytes in which frames wait, a power of two. By default 8,192, or 512 beats if these are
        more.
    frames : int, optional
        Frames that can wait, a power of two. By default 64, or 256 for more than 64 bits.
    longest : int
        Maximum bytes of a frame.
    oversize : str
        "drop": frames above the maximum are discarded. "pass": they leave without a record, if
        the store has room for two of them.
    when_full : str
        One of `WHEN_FULL`.
    ready : bool
        Whether the input has TREADY. Without TREADY `when_full` must be "drop".
    inner : bool
        Whether innermost packets are compared, as golden's `inner_layers` finds them.
        Then the field ``layer2`` has no effect.
    side : Sideband

    Raises
    ------
    TypeError, ValueError
        If an option is invalid, or two options conflict.
    """

    width: int = 64
    store: int | None = None
    frames: int | None = None
    longest: int = LONGEST_FRAME
    oversize: str = "drop"
    when_full: str = "wait"
    ready: bool = True
    inner: bool = False
    side: Sideband = ONLY_BAD

    def __post_init__(self) -> None:
        check_width(self.width)
        if self.store is None:
            object.__setattr__(self, "store", default_store(self.width))
        if self.frames is None:
            object.__setattr__(self, "frames", 64 if self.width <= 64 else 256)
        if self.oversize not in OVERSIZE:
            raise ValueError(f"Oversize must be {' or '.join(OVERSIZE)}, not {self.oversize!r}")
        if not self.ready and self.when_full != "drop":
            raise ValueError(
                f"When full must be drop for an input without TREADY, not {self.when_full!r}"
            )

    @classmethod
    def taken_from(cls, options: dict[str, Any]) -> "FrameOptions":
        """Remove the fields of this class, and `SIDE_OPTIONS`, from `options`; return them."""
        names = [one.name for one in fields(cls) if one.name in options]
        chosen = {name: options.pop(name) for name in names}
        found = {field: name for name, field in SIDE_OPTIONS.items() if name in options}
        if found:
            chosen["side"] = Sideband(**{field: options.pop(name) for field, name in found.items()})
        return cls(**chosen)

    @property
    def beat(self) -> int:
        """Bits of a beat inside the hardware."""
        return 8 * beat_bytes(self.width)

    @property
    def most(self) -> int:
        """Bytes of the longest frame that is forwarded."""
        if self.oversize == "drop" or self.store is None:
            return self.longest
        return max(self.longest, longest_stored(self.store, self.width))


def check_width(width: int) -> None:
    """Reject an unsupported width of streams of frames.

    Raises
    ------
    ValueError
        If the width is not in `lately.golden.packets.frame_actions.WIDTHS`.
    """
    if width not in WIDTHS:
        raise ValueError(f"Width must be one of {', '.join(map(str, WIDTHS))}, not {width!r}")

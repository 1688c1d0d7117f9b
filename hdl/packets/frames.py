"""Frame streams: internal beats, AXI4-Stream transfers, and the options for both."""

from dataclasses import dataclass, fields
from typing import Any

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ...golden.packets.frame_actions import (
    LONGEST_FRAME,
    ON_OVERSIZE,
    WIDTHS,
    beat_bytes,
    default_buffer,
    longest_buffered,
)
from ..parameters import alternatives, require_integer

BEAT_BYTES = 8  # default number of bytes in a beat
# what happens to a frame without room: it waits at the input, or it is discarded
ON_OVERFLOW = ("wait", "drop")

# options of a deduplicator that set attributes of its `Sideband`, and names of these attributes
SIDE_OPTIONS = {
    "user_bits": "user", "id_bits": "id", "dest_bits": "dest", "bad_bit": "bad", "mark_bit": "mark",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Sideband:
    """Signals of an AXI4-Stream that accompany the bytes of frames: TUSER, TID and TDEST.

    The signals of a transfer leave with the bytes of the transfer. A beat that consists of several
    transfers leaves with the signals of its last transfer. Two bits of TUSER are exceptions: the
    bad bit of an outgoing frame is low, and the mark bit is high if the frame is a duplicate.
    """

    user: int = 1  # width of TUSER at the input; 0 if the signal does not exist
    id: int = 0  # width of TID
    dest: int = 0  # width of TDEST
    bad: int = 0  # bit of TUSER that marks a damaged frame, in its last transfer
    # Bit of TUSER at the output that marks a duplicate; by default the bad bit. It may be the bit
    # above the highest one; then TUSER is one bit wider at the output.
    mark: int | None = None

    def __post_init__(self) -> None:
        for name in ("user", "id", "dest"):
            require_integer(f"T{name.upper()} width", getattr(self, name))
        require_integer("Bad bit", self.bad, maximum=max(self.user - 1, 0))
        if self.mark is None:
            object.__setattr__(self, "mark", self.bad)
        require_integer("Mark bit", self.mark, maximum=self.user)

    @property
    def carried(self) -> list[int]:
        """Bits of TUSER that leave unchanged."""
        return [bit for bit in range(self.user) if bit not in (self.bad, self.mark)]

    @property
    def bits(self) -> int:
        """Width of the sideband of each beat."""
        return len(self.carried) + self.id + self.dest

    def widths(self, *, leaves: bool) -> dict[str, int]:
        """Return the width of each signal at the input or, if `leaves` is set, at the output."""
        user = max(self.user, self.mark + 1) if leaves and self.mark is not None else self.user
        return {"user": user, "id": self.id, "dest": self.dest}


# TUSER with one bit: the bad bit of the input, and the mark bit of the output
ONLY_BAD = Sideband()


@dataclass(frozen=True, kw_only=True)
class FrameOptions:
    """Options of a `lately.hdl.packets.deduplicator.Deduplicator`, except those of its filter."""

    width: int = 64  # width of a transfer, one of 8, 64, 128, 256 and 512
    # Size of the frame buffer in bytes, a power of two. By default the larger of 8,192 bytes and
    # 512 beats.
    buffer: int | None = None
    # Maximum number of waiting frames, a power of two. By default 64, or 256 for more than 64 bits.
    frames: int | None = None
    max_frame: int = LONGEST_FRAME  # maximum bytes of a frame
    # "drop": longer frames are discarded. "pass": they are forwarded but not recorded, if the
    # buffer has room for two of them.
    on_oversize: str = "drop"
    on_overflow: str = "wait"  # one of `ON_OVERFLOW`
    tready: bool = True  # the input has TREADY; otherwise `on_overflow` must be "drop"
    # Whether to compare innermost packets, as found by golden's `inner_layers`. The field
    # ``layer2`` then has no effect.
    inner: bool = False
    side: Sideband = ONLY_BAD

    def __post_init__(self) -> None:
        check_width(self.width)
        if self.buffer is None:
            object.__setattr__(self, "buffer", default_buffer(self.width))
        if self.frames is None:
            object.__setattr__(self, "frames", 64 if self.width <= 64 else 256)
        if self.on_oversize not in ON_OVERSIZE:
            raise ValueError(
                f"on_oversize: must be {alternatives(ON_OVERSIZE)}, not {self.on_oversize!r}"
            )
        if not self.tready and self.on_overflow != "drop":
            raise ValueError(
                f"on_overflow: must be 'drop' for an input without TREADY, not {self.on_overflow!r}"
            )

    @classmethod
    def taken_from(cls, options: dict[str, Any]) -> "FrameOptions":
        """Remove the frame and sideband options from `options`, and return them as an instance."""
        names = [field.name for field in fields(cls) if field.name in options]
        chosen = {name: options.pop(name) for name in names}
        side = {field: name for name, field in SIDE_OPTIONS.items() if name in options}
        if side:
            chosen["side"] = Sideband(**{field: options.pop(name) for field, name in side.items()})
        return cls(**chosen)

    @property
    def beat(self) -> int:
        """Width of an internal beat, in bits."""
        return 8 * beat_bytes(self.width)

    @property
    def longest_forwarded(self) -> int:
        """Maximum length of a forwarded frame, in bytes."""
        if self.on_oversize == "drop" or self.buffer is None:
            return self.max_frame
        return max(self.max_frame, longest_buffered(self.buffer, self.width))


def check_width(width: int) -> None:
    if width not in WIDTHS:
        raise ValueError(f"Width must be one of {', '.join(map(str, WIDTHS))}, not {width!r}")


class FrameBeat(data.StructLayout):
    """Beat of a frame, with at least one byte. Bytes beyond `size` are undefined."""

    def __init__(self, width=8 * BEAT_BYTES):
        super().__init__(
            {
                "data": width,  # first byte lowest; the width is 8 times a power of two
                "size": range(width // 8),  # bytes minus one; maximum except in the last beat
                "last": 1,
                "error": 1,  # with `last`: damaged, must be neither recorded nor forwarded
            }
        )


class MarkedBeat(data.StructLayout):
    """Beat of an outgoing frame, like `FrameBeat`, with the frame's mark and sideband bits."""

    def __init__(self, width=8 * BEAT_BYTES, side=0):
        super().__init__(
            {"data": width, "size": range(width // 8), "last": 1, "mark": 1}
            | ({"side": side} if side else {})
        )


def kept_bytes(size):
    """Return a byte mask for a beat, with the lowest ``size + 1`` bits set."""
    return Cat(1, *(size >= byte for byte in range(1, 1 << len(size))))


class AxisBeat(data.StructLayout):
    """AXI4-Stream transfer of a frame, at the output if `leaves` is set, otherwise at the input.

    TKEEP is contiguous from the lowest byte, and full except in the last transfer. With `last`, the
    bad bit of `user` marks an incoming frame as damaged. The mark bit is the same in all transfers
    of an outgoing frame, and high if the frame is a duplicate.
    """

    def __init__(self, width, side=ONLY_BAD, *, leaves=False):
        check_width(width)
        beside = side.widths(leaves=leaves)
        super().__init__(
            {"data": width, "keep": width // 8, "last": 1}
            | {name: bits for name, bits in beside.items() if bits or name == "user"}
        )


class FrameWidener(wiring.Component):
    """Converts stream transfers into beats; eight 8-bit transfers form a 64-bit beat.

    Each beat leaves in the cycle after its last byte arrives. A transfer with an illegal TKEEP
    marks its frame as damaged. Without `ready`, the receiver must accept each beat at once.
    """

    def __init__(self, width, side=ONLY_BAD, *, ready=True):
        self._side = side
        incoming = stream.Signature(AxisBeat(width, side), always_ready=not ready)
        beat = FrameBeat(8 * beat_bytes(width))
        super().__init__(
            {"i": In(incoming), "o": Out(stream.Signature(beat))}
            # Sideband bits of the beat at `o`.
            | ({"beside": Out(side.bits)} if side.bits else {})
        )

    def elaborate(self, platform):
        m = Module()
        transfer, broken, irregular = Signal(), Signal(), Signal()
        if not self.signature.members["i"].signature.always_ready:
            m.d.comb += self.i.ready.eq(~self.o.valid | self.o.ready)
        m.d.comb += transfer.eq(self.i.valid & self.i.ready)
        bad = self.i.p.user[self._side.bad] if self._side.user else 0
        with m.If(self.o.ready):
            m.d.sync += self.o.valid.eq(0)
        with m.If(transfer):
            m.d.sync += [
                broken.eq((broken | irregular) & ~self.i.p.last),
                self.o.p.last.eq(self.i.p.last),
                self.o.p.error.eq(self.i.p.last & (broken | irregular | bad)),
            ]
            if self._side.bits:
                others = [getattr(self.i.p, name) for name in ("id", "dest")
                          if getattr(self._side, name)]  # fmt: skip
                user = [self.i.p.user[bit] for bit in self._side.carried]
                m.d.sync += self.beside.eq(Cat(*user, *others))
        elaborate = self._elaborate_bytes if len(self.i.p.keep) == 1 else self._elaborate_words
        elaborate(m, transfer, irregular)
        return m

    def _elaborate_bytes(self, m, transfer, irregular):
        m.d.comb += irregular.eq(~self.i.p.keep)
        index = Signal(range(BEAT_BYTES))
        with m.If(transfer):
            m.d.sync += [
                self.o.p.data.word_select(index, 8).eq(self.i.p.data),
                self.o.p.size.eq(index),
                index.eq(index + 1),
                self.o.valid.eq(self.i.p.last | index.all()),
            ]
            with m.If(self.i.p.last):
                m.d.sync += index.eq(0)

    def _elaborate_words(self, m, transfer, irregular):
        keep, size = self.i.p.keep, Signal(range(len(self.i.p.keep)))
        gaps = Cat(keep[byte] & ~keep[byte - 1] for byte in range(1, len(keep)))
        m.d.comb += irregular.eq(~keep[0] | gaps.any() | ~(self.i.p.last | keep.all()))
        if len(keep) == BEAT_BYTES:
            for byte in range(1, BEAT_BYTES):
                with m.If(keep[byte]):
                    m.d.comb += size.eq(byte)
        else:
            # The last kept byte is the one before a byte that is not kept. Finding it this way
            # avoids a long logic chain.
            ends = keep & ~(keep >> 1)
            m.d.comb += size.eq(Cat(
                Cat(ends[byte] for byte in range(len(keep)) if byte >> bit & 1).any()
                for bit in range(len(size))
            ))  # fmt: skip
        with m.If(transfer):
            m.d.sync += [
                self.o.p.data.eq(self.i.p.data),
                self.o.p.size.eq(size),
                self.o.valid.eq(1),
            ]
            with m.If(~self.i.p.last):
                m.d.sync += self.o.p.size.eq(len(keep) - 1)


class FrameNarrower(wiring.Component):
    """Converts beats of frames into transfers; each transfer carries the mark of its frame."""

    def __init__(self, width, side=ONLY_BAD):
        self._side = side
        beat = MarkedBeat(8 * beat_bytes(width), side.bits)
        leaving = AxisBeat(width, side, leaves=True)
        super().__init__({"i": In(stream.Signature(beat)), "o": Out(stream.Signature(leaving))})

    def elaborate(self, platform):
        m = Module()
        if len(self.o.p.keep) == 1:
            self._elaborate_bytes(m)
            return m
        m.d.comb += [
            self.i.ready.eq(self.o.ready),
            self.o.valid.eq(self.i.valid),
            self.o.p.data.eq(self.i.p.data),
            self.o.p.keep.eq(kept_bytes(self.i.p.size)),
            self.o.p.last.eq(self.i.p.last),
            self.o.p.user[self._side.mark].eq(self.i.p.mark),
            *self._beside(self.i.p),
        ]
        return m

    def _beside(self, beat):
        side = self._side
        targets = [self.o.p.user[bit] for bit in side.carried]
        targets += [getattr(self.o.p, name) for name in ("id", "dest") if getattr(side, name)]
        return [Cat(targets).eq(beat.side)] if targets else []

    def _elaborate_bytes(self, m):
        beat = Signal(self.i.p.shape())
        ends = Signal()
        m.d.comb += [
            ends.eq(beat.size == 0),
            self.i.ready.eq(~self.o.valid | (self.o.ready & ends)),
            self.o.p.data.eq(beat.data[:8]),
            self.o.p.keep.eq(1),
            self.o.p.last.eq(beat.last & ends),
            self.o.p.user[self._side.mark].eq(beat.mark),
            *self._beside(beat),
        ]
        with m.If(self.i.ready):
            m.d.sync += [self.o.valid.eq(self.i.valid), beat.eq(self.i.p)]
        with m.Elif(self.o.ready):
            m.d.sync += [beat.data.eq(beat.data[8:]), beat.size.eq(beat.size - 1)]

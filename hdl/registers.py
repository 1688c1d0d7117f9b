"""Registers of units and boards: one list for hardware, host software and documentation.

A unit behind a bus has the registers that correspond to its ports: see
`lately.hdl.bus.register_map`. A board adds the registers of its serial line at higher addresses.
This module does not import Amaranth.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from ..golden.hash.siphash import SECRET_BITS
from ..golden.packets.comparison import DEFAULT_FIELDS, HARDWARE_FIELDS
from ..golden.packets.frame_actions import Action
from .latencies import PERIOD_BITS

_FAULTS = {
    "overrun": "A request was refused.",
    "shortened": "A shift retired a segment with keys within the span.",
    "overfilled": "A generation exceeded its capacity.",
    "lost": "An entry was evicted.",
    "upsets": "A memory upset was detected.",
    "fault": "The unit reset itself after an illegal state.",
    "tick_lost": "A tick was lost, because too many ticks waited already.",
}
"""Events that a unit behind a bus records in `faults`, by reporting port, starting at bit 0."""

WORD_BITS = 32
"""Width of a word on the bus."""

ID = 0x4C41544C
"""Content of the first register: the letters LATL."""


class Access(Enum):
    """Kind of software access to a register."""

    READ = "read"
    WRITE = "write"
    READ_WRITE = "read, write"
    PULSE = "write 1 to act"
    """Reads as 0."""
    STICKY = "read, write 1 to clear"


class Block(Enum):
    """Part of a unit or board that a register belongs to."""

    UNIT = "unit"
    WINDOW = "window"
    """Unit with a time-based window."""
    DIGESTS = "digests"
    """Dictionary unit."""
    LINE = "line"
    """Serial line of a board."""
    BUS = "bus"
    """Registers of exported units only."""
    FRAMES = "frames"
    """Frame deduplicator."""
    PROTECTION = "protection"
    """Unit whose memories are protected."""
    CHECKS = "checks"
    """Unit that checks its own state."""


@dataclass(frozen=True, kw_only=True)
class RegisterField:
    name: str
    low: int  # lowest bit
    width: int = 1
    access: Access = Access.READ
    reset: int = 0
    needs: str = ""  # port of the unit that the field requires; empty if every unit has the field
    meaning: str  # one sentence


@dataclass(frozen=True, kw_only=True)
class Register:
    name: str  # name of the register, and of the unit's port if the unit holds the register
    access: Access = Access.READ
    width: int | None = WORD_BITS  # bits; None if the specification determines them
    reset: int | None = 0  # value after reset; None if the specification determines it
    meaning: str  # one sentence
    holder: Block = Block.UNIT
    event: str = ""  # signal that the register counts; empty if the register is not a counter
    address: int  # byte address on a bus. Words have 32 bits, the lowest bits first.
    # fields of the register; empty if the register is one number
    fields: tuple[RegisterField, ...] = ()

    def __post_init__(self) -> None:
        if not self.name.isidentifier():
            raise ValueError(f"Name must be an identifier, not {self.name!r}")
        if self.width is not None and self.width < 1:
            raise ValueError(f"Width must be at least 1, not {self.width}")

    @property
    def readable(self) -> bool:
        return self.access is not Access.WRITE


REGISTERS = (
    Register(name="operations", address=0x80, event="valid",
             meaning="Operations performed."),
    Register(name="insertions", address=0x88, event="insert", meaning="Keys inserted."),
    Register(name="hits", address=0x90, event="hit", meaning="Queries that reported their key."),
    Register(name="shifts", address=0x98, event="shift",
             meaning="Shifts of the ring."),
    Register(name="blocks_rejected", event="rejected", holder=Block.LINE, address=0x108,
             meaning="Blocks of operations with a wrong trailer."),
    Register(name="bytes_dropped", event="dropped", holder=Block.LINE, address=0x10C,
             meaning="Bytes received while the queue was full."),
    Register(name="line_errors", event="error", holder=Block.LINE, address=0x110,
             meaning="Bytes without a stop bit."),
    Register(name="generation", access=Access.READ_WRITE, width=None, reset=None, address=0x20,
             meaning="Insertions per generation; a change applies from the next generation."),
    Register(name="secret", access=Access.WRITE, width=SECRET_BITS, address=0x30,
             meaning="Secret of the hash; applies from the next clear or, with re-keying, shift."),
    Register(name="shortened", event="shortened", holder=Block.WINDOW, address=0xA0,
             meaning="Shifts that retired a segment with keys within the span."),
    Register(name="overfilled", event="overfilled", holder=Block.WINDOW, address=0xA8,
             meaning="Insertions beyond the capacity of their generation."),
    Register(name="period", access=Access.READ_WRITE, width=PERIOD_BITS, reset=None,
             holder=Block.WINDOW, address=0x24,
             meaning="Cycles per tick; a change applies from the next tick."),
    Register(name="covered", width=None, reset=None, holder=Block.WINDOW, address=0x28,
             meaning="Ticks, including the current one, whose keys are all still reported."),
    Register(name="id", reset=ID, holder=Block.BUS, address=0x00,
             meaning="The letters LATL."),
    Register(name="version", reset=None, holder=Block.BUS, address=0x04,
             meaning="Version of Lately that generated the unit.",
             fields=(RegisterField(name="patch", low=0, width=8, meaning="Patch version."),
                     RegisterField(name="minor", low=8, width=8, meaning="Minor version."),
                     RegisterField(name="major", low=16, width=16, meaning="Major version."))),
    Register(name="digest", width=64, reset=None, holder=Block.BUS, address=0x08,
             meaning="Digest of the specification."),
    Register(name="widths", reset=None, holder=Block.BUS, address=0x10,
             meaning="Sizes of the unit.",
             fields=(RegisterField(name="key", low=0, width=16, meaning="Bits of a key."),
                     RegisterField(name="tag", low=16, width=8, meaning="Bits of a tag."),
                     RegisterField(name="lanes", low=24, width=8,
                                   meaning="Operations per transfer."))),
    Register(name="control", holder=Block.BUS, address=0x14,
             meaning="Commands to the unit.",
             fields=(RegisterField(name="enable", low=0, access=Access.READ_WRITE, reset=1,
                                   meaning="Accept operations."),
                     RegisterField(name="shift", low=1, access=Access.PULSE, needs="generation",
                                   meaning="Perform a SHIFT."),
                     RegisterField(name="clear", low=2, access=Access.PULSE,
                                   meaning="Perform a CLEAR."),
                     RegisterField(name="snapshot", low=3, access=Access.PULSE,
                                   meaning="Capture all counters at the same moment."),
                     RegisterField(name="swap", low=4, access=Access.PULSE, needs="swap",
                                   meaning="Use the loaded table for later requests."))),
    Register(name="status", holder=Block.BUS, address=0x18,
             meaning="Pending commands.",
             fields=(RegisterField(name="order", low=0,
                                   meaning="A SHIFT or CLEAR of `control` is pending."),
                     RegisterField(name="secret", low=1, needs="secret",
                                   meaning="A secret is pending until the unit accepts it."),
                     RegisterField(name="table", low=2, needs="table",
                                   meaning="A table entry is pending until it can be loaded."))),
    Register(name="faults", holder=Block.BUS, address=0x1C,
             meaning="Sticky bits: events since each bit was cleared.",
             fields=tuple(RegisterField(name=name, low=low, access=Access.STICKY, needs=name,
                                        meaning=meaning)
                          for low, (name, meaning) in enumerate(_FAULTS.items()))),
    Register(name="irq_mask", holder=Block.BUS, address=0x4C,
             meaning="Bits of `faults` that raise `irq`.",
             fields=tuple(RegisterField(name=name, low=low, access=Access.READ_WRITE,
                                        needs=name, meaning=f"Raise `irq` while `{name}` is set.")
                          for low, name in enumerate(_FAULTS))),
    Register(name="guaranteed", width=None, holder=Block.DIGESTS, address=0x2C, reset=None,
             meaning="Largest window for which answers are exact."),
    Register(name="table", access=Access.WRITE, width=None, holder=Block.BUS, address=0x40,
             meaning="Entry of the inactive table."),
    Register(name="lost", event="lost", holder=Block.DIGESTS, address=0xB0,
             meaning="Entries evicted."),
    Register(name="digest_secret", access=Access.WRITE, width=SECRET_BITS, holder=Block.FRAMES,
             address=0x50, meaning="Secret of the digest, for frames that begin later."),
    Register(name="frames", holder=Block.FRAMES, address=0x60,
             meaning="Treatment of frames.",
             fields=(RegisterField(name="action", low=0, width=2, access=Access.READ_WRITE,
                                   reset=Action.DROP.value, needs="action",
                                   meaning="Frames seen lately are counted (0), marked (1) or "
                                   "dropped (2)."),
                     RegisterField(name="fields", low=8, width=len(HARDWARE_FIELDS),
                                   access=Access.READ_WRITE, reset=DEFAULT_FIELDS.value,
                                   needs="fields",
                                   meaning="Additional fields of the digest, from the lowest bit: "
                                   "TOS, TTL, VLAN, layer 2, whole frame."))),
    Register(name="frames_errored", event="errored", holder=Block.FRAMES, address=0x68,
             meaning="Damaged frames that were discarded."),
    Register(name="frames_oversize", event="oversize", holder=Block.FRAMES, address=0x70,
             meaning="Frames above the maximum: discarded, or sent without a lookup."),
    Register(name="frames_no_room", event="no_room", holder=Block.FRAMES, address=0x78,
             meaning="Frames discarded for lack of room."),
    Register(name="frames_in", event="came", holder=Block.FRAMES, address=0xB8,
             meaning="Frames received."),
    Register(name="bytes_in", event="came_bytes", holder=Block.FRAMES, address=0xC0,
             meaning="Bytes of all frames received."),
    Register(name="frames_out", event="left", holder=Block.FRAMES, address=0xC8,
             meaning="Frames sent."),
    Register(name="bytes_out", event="left_bytes", holder=Block.FRAMES, address=0xD0,
             meaning="Bytes of all frames sent."),
    Register(name="frames_ip4", event="ip4", holder=Block.FRAMES, address=0xD8,
             meaning="IPv4 frames that were not discarded."),
    Register(name="frames_ip6", event="ip6", holder=Block.FRAMES, address=0xE0,
             meaning="IPv6 frames that were not discarded."),
    Register(name="frames_other", event="other", holder=Block.FRAMES, address=0xE8,
             meaning="Other frames that were not discarded; their digest covers all bytes."),
    Register(name="frames_malformed", event="malformed", holder=Block.FRAMES, address=0xF0,
             meaning="Frames with inconsistent headers that were not discarded."),
    Register(name="upsets", event="upset", holder=Block.PROTECTION, address=0xF8,
             meaning="Cycles in which a memory upset was detected."),
    Register(name="alarms", width=16, holder=Block.CHECKS, address=0x48,
             meaning="Number of times the unit detected an illegal state and reset itself."),
    Register(name="reset", access=Access.WRITE, width=1, holder=Block.LINE, address=0x100,
             meaning="Writing any value resets the unit."),
    Register(name="clock", holder=Block.LINE, address=0x104, reset=None,
             meaning="Cycles per second."),
    Register(name="write_check", holder=Block.LINE, address=0x114,
             meaning="Checksum of all writes to registers."),
)  # fmt: skip
"""All registers. A register with an event is a counter."""

ADDRESSES = {register.name: register.address for register in REGISTERS}
"""Byte address of each register, by name."""


def counters(
    holder: Block,  # part of a board whose registers are returned
) -> list[Register]:
    return [register for register in REGISTERS if register.event and register.holder is holder]


def registers_table() -> Sequence[Sequence[str]]:
    """Return one row per register: name, address, access, width, value after reset, and meaning."""
    return [
        [
            f"`{register.name}`",
            f"0x{register.address:02X}",
            register.access.value,
            _stated(register.width),
            _stated(register.reset),
            register.meaning,
        ]
        for register in sorted(REGISTERS, key=lambda register: register.address)
    ]


def _stated(value: int | None) -> str:
    return "as specified" if value is None else str(value)

"""Host side of a board with a deduplicator of frames: its registers, over a serial port."""

import struct
from typing import Any

from .boards.link.protocol import SECRET_BYTES, Request
from .golden.hash.siphash import check_secret
from .golden.packets.frame_actions import Action
from .golden.packets.packet_digest import Field
from .hdl.bus.register_map import WORD_BYTES
from .hdl.latencies import PERIOD_BITS
from .hdl.registers import REGISTERS, Register
from .session import HostError, Session

_ROWS = {register.name: register for register in REGISTERS}
_COUNTER_WORDS = 2

_TOLD = ("period", "covered")
"""Registers that are told beside the counters."""

_QUESTIONS = 100
"""Questions whether a clear has ended; it takes less time than one of them."""


class FrameHost(Session):
    """A board with a deduplicator of frames at a serial port; one thread at a time.

    Parameters
    ----------
    port : str
        As for `Session`, and so are its other options.

    Raises
    ------
    HostError
        If the board has none; else as `Session`.
    """

    def __init__(self, port: str, **options: Any) -> None:
        super().__init__(port, **options)
        if not self.information.frames:
            self.close()
            raise HostError(
                f"{port}: must be a board with a deduplicator of frames, but it has a filter alone"
            )

    def statistics(self) -> dict[str, int]:
        """Return the counters, all of one moment, and the period and what else can be read.

        They count since reset, modulo 2**64; their names are those of `lately.hdl.registers`.

        Raises
        ------
        HostError
            If the board cannot be reached any longer, or its answer is not one.
        """
        self._order("snapshot")
        held = [_ROWS[name] for name in self.information.statistics]
        told = [one for one in held if one.readable and (one.event or one.name in _TOLD)]
        return {one.name: self._read(one) for one in told}

    def clear(self) -> None:
        """Forget all frames; errors as of `statistics`."""
        self._order("clear")
        if all(self._field("status", "order") for _ in range(_QUESTIONS)):
            raise HostError(f"{self.port}: must end a clear, but its status tells that it goes on")

    def configure(
        self,
        *,
        action: Action | None = None,
        fields: Field | None = None,
        secret: int | None = None,
        period: int | None = None,
    ) -> None:
        """Set what is done with frames that were seen lately, what is digested, and the tick.

        Fields and secret count for frames that begin after this; those of before look new then.

        Parameters
        ----------
        action : Action, optional
            A line has no marks: frames that are to be marked leave like any other.
        fields : Field, optional
            What counts besides.
        secret : int, optional
            Secret of the digest, of 128 bits; 0 after reset.
        period : int, optional
            Clocks between two ticks of the filter.

        Raises
        ------
        TypeError, ValueError
            If the period is no integer or out of range, or the secret is not one of 128 bits.
        HostError
            As of `statistics`.
        """
        most = (1 << PERIOD_BITS) - 1
        if period is not None and not isinstance(period, int):
            raise TypeError(f"period: must be an integer, not {period!r}")
        if period is not None and not 1 <= period <= most:
            raise ValueError(f"period: must be 1 to {most} for this board, not {period}")
        words = b"" if secret is None else check_secret(secret).to_bytes(SECRET_BYTES, "little")
        if action is not None or fields is not None:
            present = self._read(_ROWS["frames"])
            for name, value in (("action", action), ("fields", fields)):
                if value is not None:
                    place, mask = _place("frames", name)
                    present = present & ~(mask << place) | value << place
            self._write(_ROWS["frames"], 0, present)
        if period is not None:
            self._write(_ROWS["period"], 0, period)
        for number, word in enumerate(struct.unpack(f"<{len(words) // WORD_BYTES}I", words)):
            self._write(_ROWS["digest_secret"], number, word)

    # Registers

    def _order(self, name: str) -> None:
        """Write 1 to a field of control, and leave the others as they are."""
        place, _ = _place("control", name)
        self._write(_ROWS["control"], 0, self._read(_ROWS["control"]) | 1 << place)

    def _field(self, register: str, name: str) -> int:
        place, mask = _place(register, name)
        return self._read(_ROWS[register]) >> place & mask

    def _read(self, register: Register) -> int:
        count = _COUNTER_WORDS if register.event else 1
        requests = (bytes([_address(register, number)]) for number in range(count))
        answers = b"".join(self._exchange(Request.READ, requests))
        if len(answers) != count * WORD_BYTES:
            raise HostError(
                f"{self.port}: must answer {register.name} with {count * WORD_BYTES} bytes, "
                f"not {len(answers)}"
            )
        return int.from_bytes(answers, "little")

    def _write(self, register: Register, number: int, word: int) -> None:
        self._ask(Request.WRITE, struct.pack("<BI", _address(register, number), word))


def _address(register: Register, number: int) -> int:
    """Return the address of a word of a register."""
    assert register.address is not None
    return register.address + number * WORD_BYTES


def _place(register: str, name: str) -> tuple[int, int]:
    """Return the lowest bit of a field, and its bits if it were at the lowest."""
    (found,) = (field for field in _ROWS[register].fields if field.name == name)
    return found.place, (1 << found.width) - 1

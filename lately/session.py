"""Requests to a board over a serial port; each is performed once and in order."""

import os
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Self

from .boards.link.information import MOST_ROM_BYTES, ROM_ADDRESS, Information
from .boards.link.protocol import (
    ANSWER,
    MAX_READ,
    MAX_SLOTS,
    NONCE_BYTES,
    VERSION,
    WORD_BYTES,
    Decoder,
    Frame,
    Request,
    Status,
    encode_request,
)
from .golden.errors import LatelyError

DEFAULT_BAUD = 1_000_000
"""Default rate of the serial line, in bits per second."""

_REASONS = {
    Status.BAD_VERSION: f"protocol: must be version {VERSION}, which the board does not support",
    Status.BAD_TYPE: "request: must be one that the board supports",
    Status.BAD_ADDRESS: "register: must take what is written, but the board refused a word",
    Status.NO_SESSION: "session: must have begun, but the board has none; was it reset?",
}


class HostError(LatelyError, RuntimeError):
    """The board, or the serial line, does not work as required."""


class PortError(HostError):
    """A port cannot be opened, or has disappeared."""


class NoAnswerError(HostError):
    """The board did not answer repeated requests."""


@dataclass
class _Open:
    """A request in flight."""

    request: Request
    payload: bytes
    timeout: float
    deadline: float = 0.0
    attempts: int = 0


class Session:
    """A session with a board on a serial port.

    The number of requests in flight equals the slots of the board, so that the line is never idle.
    Lost requests are sent again, and the board performs each request once and in order. Use a
    session from one thread at a time.

    Parameters
    ----------
    port : str
        A port such as ``/dev/ttyUSB0`` or ``COM3``, or a URL that pyserial accepts.
    baud : int
        Rate for which the board was built.
    timeout : float
        Seconds without an answer after which a request is sent again, in addition to the time that
        line and board need.
    attempts : int
        Maximum number of times that a request is sent.

    Attributes
    ----------
    information : Information
        Description that the board reports.
    repeated : int
        Requests sent again so far.

    Raises
    ------
    PortError
        If the port cannot be opened.
    NoAnswerError
        If no device with this protocol answers.
    HostError
        If the description is invalid.
    ValueError
        If timeout or attempts are not above 0.
    """

    def __init__(
        self,
        port: str,
        *,
        baud: int = DEFAULT_BAUD,
        timeout: float = 0.5,
        attempts: int = 6,
    ) -> None:
        if not timeout > 0 or attempts < 1:
            raise ValueError(
                f"timeout and attempts must be above 0 and at least 1, not {timeout}, {attempts}"
            )
        self.port = port
        self.repeated = 0
        self._baud = baud
        self._timeout = timeout
        self._attempts = attempts
        self._decoder = Decoder()
        self._open: dict[int, _Open] = {}
        self._answers: dict[int, bytes] = {}
        self._went_back = False
        self._slots = 1
        import serial

        with _explained(port):
            # A short wait, so that requests are repeated in time.
            self._serial = serial.serial_for_url(
                port, baudrate=baud, timeout=0.02, write_timeout=30, exclusive=True
            )
            self._serial.reset_input_buffer()
        try:
            # A session begins with a nonce, and with any sequence number.
            self._sequence = os.urandom(1)[0]
            greeting = self._ask(Request.HELLO, os.urandom(NONCE_BYTES))
            told = greeting[NONCE_BYTES:]
            if len(told) != 1 or not 1 <= told[0] <= MAX_SLOTS:
                raise HostError(f"{self.port}: must have 1 to {MAX_SLOTS} slots, not {told.hex()}")
            self._slots = told[0]
            self.information = self._description()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the port; the board keeps its contents."""
        self._serial.close()

    def _description(self) -> Information:
        """Read the description of the board."""
        size = int.from_bytes(self._words(ROM_ADDRESS, 1), "little")
        if size > MOST_ROM_BYTES:
            raise HostError(
                f"{self.port}: must be described in at most {MOST_ROM_BYTES} bytes, not {size}"
            )
        return Information.unpack(self._words(ROM_ADDRESS + 1, -(-size // WORD_BYTES))[:size])

    # Registers

    def _words(self, address: int, count: int) -> bytes:
        """Read words at ascending addresses; missing words read as 0."""
        starts = range(0, count, MAX_READ)
        counts = [min(MAX_READ, count - start) for start in starts]
        payloads = (struct.pack("<HB", address + start, part)
                    for start, part in zip(starts, counts, strict=True))  # fmt: skip
        found = []
        for part, answer in zip(counts, self._exchange(Request.READ, payloads), strict=True):
            if len(answer) != part * WORD_BYTES:
                raise HostError(
                    f"{self.port}: must answer {part} words with {part * WORD_BYTES} bytes, "
                    f"not {len(answer)}"
                )
            found.append(answer)
        return b"".join(found)

    def _write_words(self, address: int, words: bytes) -> None:
        self._ask(Request.WRITE, struct.pack("<H", address) + words)

    # Requests

    def _ask(self, request: Request, payload: bytes = b"") -> bytes:
        (answer,) = self._exchange(request, iter([payload]))
        return answer

    def _exchange(self, request: Request, payloads: Iterator[bytes]) -> Iterator[bytes]:
        """Perform requests and yield the payloads of their answers, in order."""
        # The board performs requests that an interrupt left in flight; their answers are discarded.
        while self._open:
            self._pump()
        self._answers.clear()
        due = self._sequence
        more = True
        while True:
            while more and (self._sequence - due) % 256 < self._slots:
                payload = next(payloads, None)
                more = payload is not None
                if payload is not None:
                    self._begin(request, payload)
            if not more and due == self._sequence:
                return
            while due not in self._answers:
                self._pump()
            answer = self._answers.pop(due)
            due = (due + 1) % 256
            yield answer

    def _begin(self, request: Request, payload: bytes) -> None:
        # In the worst case all requests in flight are stuffed and arrive first.
        line = 10 * 600 * self._slots / self._baud
        begun = _Open(request, payload, self._timeout + line)
        self._open[self._sequence] = begun
        self._send(self._sequence, begun)
        self._sequence = (self._sequence + 1) % 256

    def _send(self, sequence: int, begun: _Open) -> None:
        if begun.attempts == self._attempts:
            raise NoAnswerError(
                f"{self.port}: expected an answer to {begun.request.name} within "
                f"{begun.timeout:.2g} s, found none in {begun.attempts} attempts; "
                f"is it a board of Lately, built for {self._baud} baud?"
            )
        self.repeated += begun.attempts > 0
        begun.attempts += 1
        with _explained(self.port):
            self._serial.write(encode_request(begun.request, sequence, begun.payload))
        begun.deadline = time.monotonic() + begun.timeout

    def _pump(self) -> None:
        """Take the frames that have arrived; repeat requests that have timed out."""
        with _explained(self.port):
            data = self._serial.read(max(1, self._serial.in_waiting))
        for frame in self._decoder.feed(data):
            self._take(frame)
        if self._open and time.monotonic() > min(open.deadline for open in self._open.values()):
            self._go_back()

    def _go_back(self) -> None:
        """Repeat all unanswered requests, oldest first."""
        for sequence, begun in self._open.items():
            self._send(sequence, begun)
        self._went_back = True

    def _take(self, frame: Frame) -> None:
        begun = self._open.get(frame.sequence)
        if begun is None or not frame.body or frame.type & ~0x70 != ANSWER | begun.request:
            return
        status, payload = frame.body[0], frame.body[1:]
        if status == Status.OUT_OF_ORDER:
            # All requests after a lost one are out of order: going back once is enough.
            if not self._went_back:
                self._go_back()
            return
        old = begun.request is Request.HELLO and payload[:NONCE_BYTES] != begun.payload
        if old and status == Status.OK:
            return
        if status != Status.OK:
            self._refuse(status)
        del self._open[frame.sequence]
        self._went_back = False
        self._answers[frame.sequence] = payload

    def _refuse(self, status: int) -> None:
        self._open.clear()
        known = status in list(Status)
        reason = _REASONS.get(Status(status)) if known else None
        raise HostError(f"{self.port}: {reason or f'must answer a status, not {status}'}")


@contextmanager
def _explained(port: str) -> Iterator[None]:
    """Turn an error of a port into a message of one line."""
    import serial

    try:
        yield
    except serial.SerialTimeoutException:
        raise PortError(f"{port}: must take what is written, but has taken nothing") from None
    except (serial.SerialException, OSError, ValueError) as error:
        number = getattr(error, "errno", None)
        text = os.strerror(number) if number else str(error)
        raise PortError(f"{port}: must be a serial port with a board: {text}") from None

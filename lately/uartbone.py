"""Client of a bus behind LiteX's UARTBone, on pyserial."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Self

import numpy as np

from .boards.link.layout import READ, WRITE, WRITE_SAME
from .golden.errors import LatelyError

DEFAULT_BAUD = 1_000_000
"""Default rate of the serial line, in bits per second."""

MOST_WORDS = 255
"""Maximum words of a command."""

QUIET = 0.3
"""Seconds without a byte after which no answer is on its way."""


class HostError(LatelyError, RuntimeError):
    """The board, or the serial line, does not work as required."""


class PortError(HostError):
    """A port cannot be opened, or has disappeared."""


class NoAnswerError(HostError):
    """The board did not answer, or answered something else, in all attempts."""


class UartBone:
    """Words of a bus, at byte addresses, behind a serial `port` such as ``/dev/ttyUSB0``.

    UARTBone has no check sequence, so a read must give the same words twice in succession. After a
    write, a constant word is read, so that a lost or doubled byte is noticed: `known` is its
    address and value. An answer may take `timeout` seconds, and the time of its bytes at `baud`; a
    command is sent up to `attempts` times. PortError if the port cannot be opened.
    """

    def __init__(
        self, port: str, *, known: tuple[int, int], baud: int, timeout: float, attempts: int
    ) -> None:
        if not timeout > 0 or attempts < 1:
            raise ValueError(f"timeout and attempts must be above 0, not {timeout}, {attempts}")
        self.port, self.baud, self.attempts = port, baud, attempts
        self._known, self._timeout = known, timeout
        import serial

        with self._explained():
            self._serial = serial.serial_for_url(
                port, baudrate=baud, timeout=0.05, write_timeout=30, exclusive=True
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the port; the board keeps its contents."""
        self._serial.close()

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Turn an error of the port into a message of one line."""
        import serial

        try:
            yield
        except serial.SerialTimeoutException:
            raise PortError(f"{self.port}: takes no bytes") from None
        except (serial.SerialException, OSError, ValueError) as error:
            number = getattr(error, "errno", None)
            text = os.strerror(number) if number else str(error)
            raise PortError(f"{self.port}: must be a serial port with a board: {text}") from None

    # Without a check

    def send(self, command: int, address: int, words: Any = (), count: int = 0) -> None:
        """Send a command with `words` to be written, or a `count` to be read."""
        header = bytes([command, count or len(words)]) + (address // 4).to_bytes(4, "big")
        with self._explained():
            self._serial.write(header + np.asarray(words, ">u4").tobytes())

    def receive(self, count: int) -> list[int]:
        """Return the words of an answer; NoAnswerError if they do not arrive in time."""
        data, size = b"", 4 * count
        # A whole block may be on its way in the other direction.
        end = time.monotonic() + self._timeout + 10 * (size + 4096) / self.baud
        while len(data) < size and time.monotonic() < end:
            with self._explained():
                data += self._serial.read(size - len(data))
        if len(data) < size:
            raise NoAnswerError(f"{self.port}: {len(data)} bytes of an answer of {size} arrived")
        words: list[int] = np.frombuffer(data, ">u4").tolist()
        return words

    def try_write(self, address: int, words: Any, *, same: bool = False) -> bool:
        """Write words with one command, and return whether no byte was lost or doubled."""
        # With a wrong length, a single word does not reach the registers behind it.
        self.send(WRITE_SAME if same or len(words) == 1 else WRITE, address, words)
        self.send(READ, self._known[0], count=1)
        with suppress(NoAnswerError):
            if self.receive(1) == [self._known[1]]:
                return True
        self.synchronise()
        return False

    def synchronise(self) -> None:
        """Discard what is on the line, until the board answers a command again.

        The board may take some commands for the rest of an earlier write.
        """
        for _ in range(self.attempts):
            start = last = time.monotonic()
            # An answer that is late must not be taken for the next one.
            while time.monotonic() < last + QUIET and last < start + 10 * QUIET:
                with self._explained():
                    last = time.monotonic() if self._serial.read(4096) else last
            self.send(READ, self._known[0], count=1)
            with suppress(NoAnswerError):
                if self.receive(1) == [self._known[1]]:
                    return
        raise NoAnswerError(
            f"{self.port}: no answer in {self.attempts} attempts of {self._timeout:.2g} s; "
            f"is it a board of Lately, built for {self.baud} baud?"
        )

    # With a check

    def read(self, address: int, count: int = 1) -> list[int]:
        """Return words at ascending addresses."""
        last: list[int] = []
        for _ in range(2 * self.attempts):
            self.send(READ, address, count=count)
            try:
                words = self.receive(count)
            except NoAnswerError:
                self.synchronise()
                continue
            if words == last:
                return words
            last = words
        raise NoAnswerError(f"{self.port}: no two answers in succession are equal")

    def write(self, address: int, words: Any, *, same: bool = False) -> None:
        """Write words at ascending addresses, or at the `same`; repeat what went wrong."""
        for start in range(0, len(words), MOST_WORDS):
            at, part = address + 4 * start * (not same), words[start : start + MOST_WORDS]
            if not any(self.try_write(at, part, same=same) for _ in range(self.attempts)):
                raise NoAnswerError(f"{self.port}: a write went wrong {self.attempts} times")

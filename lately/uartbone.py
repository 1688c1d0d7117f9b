"""Client of a board behind LiteX's UARTBone, on pyserial."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Self

import numpy as np

from .boards.link.layout import READ, WRITE, WRITE_SAME, register_address, write_check
from .golden.errors import LatelyError
from .hdl.registers import ID

DEFAULT_BAUD = 1_000_000
"""Default rate of the serial line, in bits per second."""

MAX_WORDS = 255
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
    """Words of a board's bus, at byte addresses, behind a serial `port` such as ``/dev/ttyUSB0``.

    UARTBone has no check sequence, so a read must give the same words twice in succession. After a
    write, the board's checksum of all writes must be as expected, which shows lost, doubled and
    damaged bytes. An answer may take `timeout` seconds, and the time of its bytes at `baud`; a
    command is sent up to `attempts` times. PortError if the port cannot be opened.
    """

    repeated = 0  # exchanges repeated, because bytes were lost, doubled or damaged

    def __init__(self, port: str, *, baud: int, timeout: float, attempts: int) -> None:
        if not timeout > 0 or attempts < 1:
            raise ValueError(f"timeout, attempts: must be above 0, not {timeout}, {attempts}")
        self.port, self.baud, self.attempts = port, baud, attempts
        self._timeout = timeout
        self._check: int | None = None  # the checksum of writes, if known
        import serial

        with self._explained():
            self._serial = serial.serial_for_url(
                port, baudrate=baud, write_timeout=30, exclusive=True
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
            raise PortError(f"{self.port}: the port accepts no bytes") from None
        except (serial.SerialException, OSError, ValueError) as error:
            number = getattr(error, "errno", None)
            text = os.strerror(number) if number else str(error)
            raise PortError(f"{self.port}: no serial port with a board: {text}") from None

    # Without a check

    def send(self, command: int, address: int, words: Any = (), count: int = 0) -> None:
        """Send a command with `words` to be written, or a `count` to be read."""
        header = bytes([command, count or len(words)]) + (address // 4).to_bytes(4, "big")
        with self._explained():
            self._serial.write(header + np.asarray(words, ">u4").tobytes())

    def receive(self, count: int) -> list[int]:
        """Return the words of an answer; NoAnswerError if they do not arrive in time."""
        size = 4 * count
        # A whole block may be on its way in the other direction.
        data = self._read_bytes(size, self._timeout + 10 * (size + 4096) / self.baud)
        if len(data) < size:
            raise NoAnswerError(f"{self.port}: {len(data)} bytes of an answer of {size} arrived")
        words: list[int] = np.frombuffer(data, ">u4").tolist()
        return words

    def _read_bytes(self, size: int, seconds: float) -> bytes:
        with self._explained():
            self._serial.timeout = seconds
            data: bytes = self._serial.read(size)
        return data

    def synchronise(self) -> None:
        """Discard what is on the line, until the board answers a command again.

        The board may take some commands for the rest of an earlier write.
        """
        self._check = None
        for _ in range(self.attempts):
            # Until the line is quiet: a late answer must not be taken for the next one.
            all(self._read_bytes(4096, QUIET) for _ in range(10))
            self.send(READ, register_address("id"), count=1)
            with suppress(NoAnswerError):
                if self.receive(1) == [ID]:
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
                self.repeated += 1
                self.synchronise()
                continue
            if words == last:
                return words
            last = words
        raise NoAnswerError(f"{self.port}: no two answers in succession are equal")

    def try_write(self, address: int, words: Any, *, same: bool = False) -> bool:
        """Write words with one command, and return whether the board took these and no others."""
        check = register_address("write_check")
        before = self.read(check)[0] if self._check is None else self._check
        # With a wrong length, a single word does not reach the registers behind it.
        same = same or len(words) == 1
        self.send(WRITE_SAME if same else WRITE, address, words)
        self.send(READ, check, count=1)
        expected = write_check(before, address, words, same=same)
        with suppress(NoAnswerError):
            (self._check,) = self.receive(1)
            if self._check == expected:
                return True
        # The answer may be wrong instead of the write.
        self.repeated += 1
        self.synchronise()
        (self._check,) = self.read(check)
        return self._check == expected

    def write(self, address: int, words: Any, *, same: bool = False) -> None:
        """Write words at ascending addresses, or at the `same`; repeat what went wrong."""
        for start in range(0, len(words), MAX_WORDS):
            first, part = address + 4 * start * (not same), words[start : start + MAX_WORDS]
            if not any(self.try_write(first, part, same=same) for _ in range(self.attempts)):
                raise NoAnswerError(f"{self.port}: a write failed {self.attempts} times")

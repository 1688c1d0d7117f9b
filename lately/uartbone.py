"""Client for a board behind LiteX's UARTBone, based on pyserial."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Self

import numpy as np

from .boards.link.layout import READ, WRITE, WRITE_SAME, register_address, write_check
from .golden.errors import LatelyError
from .hdl.registers import ID

DEFAULT_BAUD = 1_000_000
"""Default baud rate of the serial line."""

MAX_WORDS = 255  # maximum number of words in a command
QUIET = 0.3  # seconds of silence after which no answer can still be in transit


class HostError(LatelyError, RuntimeError):
    """The board or the serial line does not work as required."""


class PortError(HostError):
    """The port cannot be opened, or has disappeared."""


class NoAnswerError(HostError):
    """The board did not answer, or answered incorrectly, in all attempts."""


class UartBone:
    """Accesses words on a board's bus through a serial `port` such as ``/dev/ttyUSB0``.

    Addresses are in bytes. UARTBone has no checksum, so every word is read until two consecutive
    reads agree. After a write, the board's checksum of all writes must be as expected; this detects
    lost, duplicated and corrupted bytes. An answer may take `timeout` seconds, plus the time for
    its bytes at `baud`. A command is sent up to `attempts` times. Raises PortError if the port
    cannot be opened.
    """

    repeated = 0  # number of exchanges repeated because of bad bytes

    def __init__(self, port: str, *, baud: int, timeout: float, attempts: int) -> None:
        if not timeout > 0 or attempts < 1:
            raise ValueError(f"timeout and attempts: must be above 0, not {timeout} and {attempts}")
        self.port, self.baud, self.attempts = port, baud, attempts
        self._timeout = timeout
        self._check: int | None = None  # checksum of all writes, if known
        import serial

        with self._one_line_errors():
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
    def _one_line_errors(self) -> Iterator[None]:
        import serial

        try:
            yield
        except serial.SerialTimeoutException:
            raise PortError(f"{self.port}: the port accepts no bytes") from None
        except (serial.SerialException, OSError, ValueError) as error:
            number = getattr(error, "errno", None)
            text = os.strerror(number) if number else str(error)
            raise PortError(f"{self.port}: cannot communicate with a board: {text}") from None

    def send(self, command: int, address: int, words: Any = (), count: int = 0) -> None:
        """Send a command to write `words`, or to read `count` words."""
        header = bytes([command, count or len(words)]) + (address // 4).to_bytes(4, "big")
        with self._one_line_errors():
            self._serial.write(header + np.asarray(words, ">u4").tobytes())

    def receive(self, count: int) -> list[int]:
        """Receive the words of an answer, or raise NoAnswerError if they do not arrive in time."""
        size = 4 * count
        # A whole block may be in transit in the other direction.
        data = self._read_bytes(size, self._timeout + 10 * (size + 4096) / self.baud)
        if len(data) < size:
            raise NoAnswerError(
                f"{self.port}: received only {len(data)} of {size} bytes of a response"
            )
        words: list[int] = np.frombuffer(data, ">u4").tolist()
        return words

    def _read_bytes(self, size: int, seconds: float) -> bytes:
        with self._one_line_errors():
            self._serial.timeout = seconds
            data: bytes = self._serial.read(size)
        return data

    def synchronise(self) -> None:
        """Discard all bytes on the line until the board answers a command again."""
        self._check = None
        # The board may mistake some commands for the rest of an earlier write.
        for _ in range(self.attempts):
            # Wait until the line is quiet: a late answer must not be mistaken for the next one.
            all(self._read_bytes(4096, QUIET) for _ in range(10))
            self.send(READ, register_address("id"), count=1)
            with suppress(NoAnswerError):
                if self.receive(1) == [ID]:
                    return
        raise NoAnswerError(
            f"{self.port}: no answer in {self.attempts} attempts of {self._timeout:.2g} s; "
            f"check that a Lately board, built for {self.baud} baud, is at this port"
        )

    def read(self, address: int, count: int = 1) -> list[int]:
        """Return `count` words at consecutive addresses, once two consecutive reads agree."""
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
        raise NoAnswerError(f"{self.port}: no two consecutive reads of a register agree")

    def try_write(self, address: int, words: Any, *, same: bool = False) -> bool:
        """Write words with one command; return whether the board received exactly these words."""
        check = register_address("write_check")
        before = self.read(check)[0] if self._check is None else self._check
        # If its length is corrupted, a single word still does not reach the following registers.
        same = same or len(words) == 1
        self.send(WRITE_SAME if same else WRITE, address, words)
        self.send(READ, check, count=1)
        expected = write_check(before, address, words, same=same)
        with suppress(NoAnswerError):
            (self._check,) = self.receive(1)
            if self._check == expected:
                return True
        # Perhaps the answer was wrong, not the write.
        self.repeated += 1
        self.synchronise()
        (self._check,) = self.read(check)
        return self._check == expected

    def write(self, address: int, words: Any, *, same: bool = False) -> None:
        """Write words to consecutive addresses or, if `same` is set, all of them to `address`."""
        for start in range(0, len(words), MAX_WORDS):
            first, part = address + 4 * start * (not same), words[start : start + MAX_WORDS]
            if not any(self.try_write(first, part, same=same) for _ in range(self.attempts)):
                raise NoAnswerError(f"{self.port}: a write failed {self.attempts} times")

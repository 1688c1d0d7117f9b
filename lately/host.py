"""Host side of a board: keys in, verdicts out, over a serial port."""

import os
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .boards.link.protocol import (
    ANSWER,
    NONCE_BYTES,
    SECRET_BYTES,
    STATISTICS,
    VERSION,
    Check,
    Decoder,
    Frame,
    Information,
    Request,
    Status,
    batch_operations,
    encode_request,
    key_bytes,
    spec_digest,
)
from .golden.errors import LatelyError, RekeyError, SpecificationError
from .golden.hash.keys import check_keys
from .golden.hash.siphash import check_secret
from .golden.operations import Operation, Verdicts
from .golden.spec import PRESETS, FilterSpec

DEFAULT_BAUD = 1_000_000
"""Rate of the line unless another is named, in bits per second."""

_REASONS = {
    Status.BAD_VERSION: f"protocol: must be version {VERSION}, which the board does not speak",
    Status.BAD_TYPE: "request: must be one that the board has, which it has not",
    Status.BAD_LENGTH: "request: must have the length that the board expects, but has another",
    Status.BAD_OPERATION: "operation: must be one of those of a filter, but the board knows none",
    Status.BAD_KEY: "key: must fit into the width of the board's filter, but does not",
    Status.NO_SESSION: "session: must have begun, but the board has forgotten it; was it reset?",
}


class HostError(LatelyError, RuntimeError):
    """The board, or the line to it, is not as required."""


class PortError(HostError):
    """A port cannot be opened, or is gone."""


class NoAnswerError(HostError):
    """The board did not answer, however often it was asked."""


@dataclass
class _Open:
    """A request under way."""

    request: Request
    payload: bytes
    timeout: float
    deadline: float = 0.0
    attempts: int = 0


class Host(AbstractContextManager["Host"]):
    """A board at a serial port.

    Requests are kept under way, as many as the board has room for, so that
    the line is never idle. What is lost is sent again, and the board performs
    each request once and in order, however often that was needed; see
    `lately.boards.link.protocol`.

    Operations take effect one after another, as those of the golden model,
    whose methods these are like. One thread at a time.

    Parameters
    ----------
    port : str
        Such as ``/dev/ttyUSB0``, ``COM3``, or a URL that pyserial knows.
    baud : int
        As the board was built for.
    spec : FilterSpec, optional
        The filter that the board must have.
    timeout : float
        Seconds to wait for an answer, beyond what the line and the board
        need, before the request is sent again.
    attempts : int
        How often a request is sent at most.

    Attributes
    ----------
    information : Information
        Description that the board gives of itself.
    repeated : int
        Requests sent again so far.

    Raises
    ------
    PortError
        If the port cannot be opened.
    NoAnswerError
        If nothing that speaks the protocol answers.
    HostError
        If the board has another filter than `spec`.
    ValueError
        If timeout or attempts are not above 0.
    """

    def __init__(
        self,
        port: str,
        *,
        baud: int = DEFAULT_BAUD,
        spec: FilterSpec | None = None,
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
            # A short wait, so that what has waited for too long is sent again in time.
            self._serial = serial.serial_for_url(
                port, baudrate=baud, timeout=0.02, write_timeout=30, exclusive=True
            )
            self._serial.reset_input_buffer()
        try:
            # A session begins with a nonce, and with any number.
            self._sequence = os.urandom(1)[0]
            greeting = self._ask(Request.HELLO, os.urandom(NONCE_BYTES))
            self.information = Information.unpack(greeting[NONCE_BYTES:])
            self._slots = self.information.slots
            if spec is not None:
                self.check_spec(spec)
        except BaseException:
            self.close()
            raise

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the port; the board keeps what it holds."""
        self._serial.close()

    # Operations

    def apply(
        self,
        operations: ArrayLike,
        keys: ArrayLike,
        *,
        progress: Callable[[int], None] | None = None,
    ) -> Verdicts:
        """Perform a mixed sequence of operations.

        Parameters
        ----------
        operations : array_like of int, shape (n,)
            `Operation` codes.
        keys : array_like of int, shape (n,) or (n, words)
            As for the golden model; those of SHIFT and CLEAR do not matter.
        progress : callable, optional
            Called with the number of operations done since the last call.

        Returns
        -------
        Verdicts

        Raises
        ------
        TypeError, ValueError
            If a key or code is not as required. Nothing was sent then.
        HostError
            If the board cannot be reached any longer. What it has performed by then is a
            beginning of the sequence.
        """
        records = self._records(operations, keys)
        batch = batch_operations(self.information.key_bits)
        verdicts = np.empty(len(records), np.uint8)
        starts = range(0, len(records), batch)
        payloads = (records[start : start + batch].tobytes() for start in starts)
        for start, answer in zip(starts, self._exchange(Request.OPERATIONS, payloads), strict=True):
            count = min(batch, len(records) - start)
            if len(answer) != count:
                raise HostError(f"{self.port}: must answer {count} operations, not {len(answer)}")
            verdicts[start : start + count] = np.frombuffer(answer, np.uint8)
            if progress is not None:
                progress(count)
        seen = verdicts >= 0x80
        return Verdicts(seen, np.where(seen, verdicts.astype(np.int64) & 0x7F, -1))

    def insert(self, keys: ArrayLike) -> None:
        """Insert keys in order; parameters, errors as for `apply`."""
        self._apply_all(Operation.INSERT, keys)

    def query(self, keys: ArrayLike) -> Verdicts:
        """Ask which keys are in the filter, and how old they are; errors as for `apply`."""
        return self._apply_all(Operation.QUERY, keys)

    def check_and_insert(self, keys: ArrayLike) -> Verdicts:
        """Query, then insert each key in order; errors as for `apply`."""
        return self._apply_all(Operation.CHECK_AND_INSERT, keys)

    def shift(self) -> None:
        """Start a new generation now."""
        self._apply_single(Operation.SHIFT)

    def clear(self) -> None:
        """Forget everything."""
        self._apply_single(Operation.CLEAR)

    # The board

    def statistics(self) -> dict[str, int]:
        """Return the board's registers of `lately.hdl.registers` that can be read, by their names.

        Counts are since reset and modulo 2**32, those of a self-test's operations included. A
        board that is newer may have more registers, and an older one fewer, than are known here.

        Raises
        ------
        HostError
            If the board cannot be reached any longer, or its answer is not one.
        """
        answer = self._ask(Request.STATISTICS)
        if len(answer) % 4:
            raise HostError(
                f"{self.port}: must answer statistics in words of 4 bytes, not {len(answer)} bytes"
            )
        words = struct.unpack(f"<{len(answer) // 4}I", answer)
        return dict(zip(STATISTICS, words, strict=False))

    def configure(self, *, generation: int | None = None, secret: int | None = None) -> None:
        """Set the generation length, and load a secret.

        A length counts from the first generation on that begins after this; a
        secret from the next CLEAR on, or, with re-keying, from the next shift.

        Raises
        ------
        TypeError
            If the length or the secret is not an integer.
        ValueError
            If the length is 0 or more than the hardware counts to, or the secret
            is not one of 128 bits.
        HostError
            If the board cannot be reached any longer.
        SpecificationError
            If the board's hash takes no secret.
        RekeyError
            If the board still needs the two secrets that it has.
        """
        if secret is not None:
            if not self.information.keyed:
                raise SpecificationError(
                    f"secret: must not be given for the filter of {self.port}, which takes none"
                )
            check_secret(secret)
        if generation is not None:
            most = (1 << self.information.generation.bit_length() + 1) - 1
            if not isinstance(generation, int):
                raise TypeError(f"generation: must be an integer, not {generation!r}")
            if not 1 <= generation <= most:
                limits = f"1 to {most} for this board"
                raise ValueError(f"generation: must be {limits}, not {generation}")
            self._ask(Request.GENERATION, struct.pack("<I", generation))
        if secret is not None:
            self._ask(Request.SECRET, secret.to_bytes(SECRET_BYTES, "little"))

    def self_test(self) -> Check:
        """Have the board test its memories; return the checks that failed.

        The filter is clear afterwards.

        Raises
        ------
        HostError
            If the board cannot be reached any longer.
        """
        answer = self._ask(Request.SELF_TEST, wait=self.information.self_test_seconds)
        if len(answer) != 1:
            raise HostError(f"{self.port}: must answer a self-test with 1 byte, not {len(answer)}")
        return Check(answer[0])

    # Requests

    def _records(self, operations: ArrayLike, keys: ArrayLike) -> NDArray[np.uint8]:
        """Return the bytes of each operation, shape (n, bytes)."""
        key_bits = self.information.key_bits
        words = check_keys(keys, key_bits)
        codes = np.asarray(operations)
        if codes.shape != (len(words),) or codes.dtype.kind not in "ui":
            raise ValueError(
                f"operations: must be {len(words)} integers, one for each key, "
                f"not {codes.dtype} of shape {codes.shape}"
            )
        if len(codes) and not 0 <= int(codes.min()) <= int(codes.max()) <= Operation.CLEAR:
            raise ValueError(f"operations: must be 0 to {Operation.CLEAR:d}, not {codes.max()}")
        octets = np.ascontiguousarray(words, "<u8").view(np.uint8)
        return np.hstack([codes.astype(np.uint8)[:, None], octets[:, : key_bytes(key_bits)]])

    def _apply_all(self, operation: Operation, keys: ArrayLike) -> Verdicts:
        checked = check_keys(keys, self.information.key_bits)
        return self.apply(np.full(len(checked), operation, np.uint8), checked)

    def _apply_single(self, operation: Operation) -> None:
        words = -(-self.information.key_bits // 64)
        self._apply_all(operation, np.zeros(1 if words == 1 else (1, words), np.uint64))

    def _ask(self, request: Request, payload: bytes = b"", *, wait: float = 0.0) -> bytes:
        (answer,) = self._exchange(request, iter([payload]), wait=wait)
        return answer

    def _exchange(
        self, request: Request, payloads: Iterator[bytes], *, wait: float = 0.0
    ) -> Iterator[bytes]:
        """Perform requests and yield the payloads of their answers, in order."""
        # What an interrupt has left under way has been performed or will be; nobody asks for it.
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
                    self._begin(request, payload, wait)
            if not more and due == self._sequence:
                return
            while due not in self._answers:
                self._pump()
            answer = self._answers.pop(due)
            due = (due + 1) % 256
            yield answer

    def _begin(self, request: Request, payload: bytes, wait: float) -> None:
        # All that may be under way has to pass the line, stuffed at the worst.
        line = 10 * 600 * self._slots / self._baud
        begun = _Open(request, payload, self._timeout + line + wait)
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
        """Take what has come; send again what has waited for too long."""
        with _explained(self.port):
            data = self._serial.read(max(1, self._serial.in_waiting))
        for frame in self._decoder.feed(data):
            self._take(frame)
        if self._open and time.monotonic() > min(open.deadline for open in self._open.values()):
            self._go_back()

    def _go_back(self) -> None:
        """Send all again that has no answer, oldest first."""
        for sequence, begun in self._open.items():
            self._send(sequence, begun)
        self._went_back = True

    def _take(self, frame: Frame) -> None:
        begun = self._open.get(frame.sequence)
        if begun is None or not frame.body or frame.type & ~0x70 != ANSWER | begun.request:
            return
        status, payload = frame.body[0], frame.body[1:]
        if status == Status.OUT_OF_ORDER:
            # One that was lost makes all behind it so: going back once is enough.
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
        if status == Status.BUSY:
            raise RekeyError("rekey: must come when all segments of the ring have one secret")
        if status == Status.BAD_VALUE:
            raise HostError(f"{self.port}: must be given a length that the board can count to")
        known = status in list(Status)
        reason = _REASONS.get(Status(status)) if known else None
        raise HostError(f"{self.port}: {reason or f'must answer a status, not {status}'}")

    def check_spec(self, spec: FilterSpec) -> None:
        """Refuse a board that holds another filter.

        Raises
        ------
        HostError
            If it does.
        """
        found = self.information
        if found.digest == spec_digest(spec):
            return
        for name, wanted, has in (
            ("key_bits", spec.key_bits, found.key_bits),
            ("generation", spec.generation, found.generation),
            ("generations in the window", spec.window_generations, found.window_generations),
        ):
            if wanted != has:
                raise HostError(f"{self.port}: {name} must be {wanted}, but the board has {has}")
        raise HostError(
            f"{self.port}: filter must have digest {spec_digest(spec).hex()}, "
            f"but the board's has {found.digest.hex()}"
        )


def preset_of(information: Information) -> str | None:
    """Return the name of the preset that a board was built from, if it was one."""
    found = (name for name, spec in PRESETS.items() if spec_digest(spec) == information.digest)
    return next(found, None)


def failed_checks(failed: Check) -> dict[str, bool]:
    """Say of each check of the self-test, by its name in lower case, whether it passed."""
    return {check.name.lower(): check not in failed for check in Check if check.name}


@contextmanager
def _explained(port: str) -> Iterator[None]:
    """Turn what goes wrong with a port into one line."""
    import serial

    try:
        yield
    except serial.SerialTimeoutException:
        raise PortError(f"{port}: must take what is written, but has taken nothing") from None
    except (serial.SerialException, OSError, ValueError) as error:
        number = getattr(error, "errno", None)
        text = os.strerror(number) if number else str(error)
        raise PortError(f"{port}: must be a serial port with a board: {text}") from None

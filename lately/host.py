"""Host side of a board: keys in, verdicts out, over a serial port."""

import struct
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .boards.link.protocol import (
    SECRET_BYTES,
    STATISTICS,
    TIMED_STATISTICS,
    Check,
    Information,
    Request,
    key_bytes,
    verdict_bytes,
)
from .golden.errors import SpecificationError
from .golden.hash.keys import check_keys
from .golden.hash.siphash import check_secret
from .golden.operations import Ages, Operation, Verdicts
from .golden.spec import PRESETS, FilterSpec
from .golden.times import Times
from .hdl.latencies import PERIOD_BITS
from .session import HostError, Session


class TimedResults(NamedTuple):
    """Results of a sequence of operations of a board whose window is one in time."""

    seen: NDArray[np.bool_]
    """As `Verdicts`."""
    age: Ages
    """As `Verdicts`."""
    status: NDArray[np.uint8]
    """Code of the `lately.golden.PoolStatus` of each answer, before its own effects, shape (n,)."""
    time: Times
    """Ticks at each operation, shape (n,): those of its board modulo 2**30 at the first operation
    of the host, and counted on from there."""


class Host(Session):
    """A board at a serial port.

    Operations take effect one after another, as those of the golden model,
    whose methods these are like. One thread at a time.

    Parameters
    ----------
    port : str
        As for `Session`, and so are its other options.
    spec : FilterSpec, optional
        The filter that the board must have.

    Raises
    ------
    HostError
        If the board has another filter than `spec`; else as `Session`.
    """

    def __init__(self, port: str, *, spec: FilterSpec | None = None, **options: Any) -> None:
        super().__init__(port, **options)
        if spec is not None:
            try:
                self.check_spec(spec)
            except BaseException:
                self.close()
                raise
        self._time = 0

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
        return _verdicts(self._perform(operations, keys, progress))

    def perform(
        self,
        operations: ArrayLike,
        keys: ArrayLike,
        *,
        progress: Callable[[int], None] | None = None,
    ) -> TimedResults:
        """Perform a mixed sequence of operations; tell time and status of each answer, too.

        The golden model's `lately.golden.TimeLimitedRing.perform` gives the same for the same
        times, if it was cleared together with the board.

        The board tells the low 30 bits of its tick counter. The host makes whole times of them,
        as long as less than 2**30 ticks pass from one of its operations to the next: 12 days of
        milliseconds. A longer silence looks shorter by a multiple of these; the board's own
        answers are right after any silence.

        Parameters, errors: as `apply`.

        Raises
        ------
        SpecificationError
            If the board's window is counted in insertions.
        """
        if not self.information.timed:
            raise SpecificationError(
                f"span: must be that of the filter of {self.port}, which has none and no times"
            )
        answers = self._perform(operations, keys, progress)
        stamps = np.ascontiguousarray(answers[:, 1:]).view("<u4")[:, 0].astype(np.int64)
        bits = self.information.time_bits
        steps = np.diff(stamps, prepend=self._time) % (1 << bits)
        times = self._time + np.cumsum(steps)
        self._time = int(times[-1]) if len(times) else self._time
        return TimedResults(*_verdicts(answers), (stamps >> bits).astype(np.uint8), times)

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

        Counts are since reset and modulo 2**32, those of a self-test's operations included. Boards
        whose window is one in time have further registers, of which `window_seconds` makes
        seconds. A board that is newer may have more registers, and an older one
        fewer, than are known here.

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
        names = TIMED_STATISTICS if self.information.timed else STATISTICS
        return dict(zip(names, words, strict=False))

    def configure(
        self,
        *,
        generation: int | None = None,
        secret: int | None = None,
        period: int | None = None,
    ) -> None:
        """Set the generation length, load a secret, and set the clocks between two ticks.

        A length counts from the first generation on that begins after this; a
        secret from the next CLEAR on, or, with re-keying, from the next shift;
        a period from the next tick on.

        Raises
        ------
        TypeError
            If the length, the secret or the period is not an integer.
        ValueError
            If the length or the period is 0 or more than the hardware counts to,
            or the secret is not one of 128 bits.
        HostError
            If the period is shorter than the board's filter can have, see
            `lately.hdl.profile.HardwareProfile.least_period`, or the board cannot
            be reached any longer.
        SpecificationError
            If the board's hash takes no secret, or its window is counted in insertions.
        RekeyError
            If the board still needs the two secrets that it has.
        """
        if secret is not None:
            if not self.information.keyed:
                raise SpecificationError(
                    f"secret: must not be given for the filter of {self.port}, which takes none"
                )
            check_secret(secret)
        if period is not None and not self.information.timed:
            raise SpecificationError(
                f"period: must not be given for the filter of {self.port}, which has no span"
            )
        if generation is not None:
            bits = self.information.generation.bit_length() + 1
            self._set(Request.GENERATION, "generation", generation, bits)
        if period is not None:
            self._set(Request.PERIOD, "period", period, PERIOD_BITS)
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

    def _set(self, request: Request, name: str, value: int, bits: int) -> None:
        """Have the board take a value of some `bits`."""
        if not isinstance(value, int):
            raise TypeError(f"{name}: must be an integer, not {value!r}")
        most = (1 << bits) - 1
        if not 1 <= value <= most:
            raise ValueError(f"{name}: must be 1 to {most} for this board, not {value}")
        self._ask(request, struct.pack("<I", value))

    def _perform(
        self,
        operations: ArrayLike,
        keys: ArrayLike,
        progress: Callable[[int], None] | None,
    ) -> NDArray[np.uint8]:
        """Return the bytes of each answer, shape (n, bytes)."""
        records = self._records(operations, keys)
        batch = self.information.batch_operations
        size = verdict_bytes(timed=self.information.timed)
        answers = np.empty((len(records), size), np.uint8)
        starts = range(0, len(records), batch)
        payloads = (records[start : start + batch].tobytes() for start in starts)
        for start, answer in zip(starts, self._exchange(Request.OPERATIONS, payloads), strict=True):
            count = min(batch, len(records) - start)
            if len(answer) != count * size:
                raise HostError(
                    f"{self.port}: must answer {count} operations with {count * size} bytes, "
                    f"not {len(answer)}"
                )
            answers[start : start + count] = np.frombuffer(answer, np.uint8).reshape(count, size)
            if progress is not None:
                progress(count)
        return answers

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

    def check_spec(self, spec: FilterSpec) -> None:
        """Refuse a board that holds another filter.

        Raises
        ------
        HostError
            If it does.
        """
        found = self.information
        if found.digest == spec.digest:
            return
        for name, wanted, has in (
            ("key_bits", spec.key_bits, found.key_bits),
            ("generation", spec.generation, found.generation),
            ("generations in the window", spec.window_generations, found.window_generations),
        ):
            if wanted != has:
                raise HostError(f"{self.port}: {name} must be {wanted}, but the board has {has}")
        raise HostError(
            f"{self.port}: filter must have digest {spec.digest.hex()}, "
            f"but the board's has {found.digest.hex()}"
        )


def _verdicts(answers: NDArray[np.uint8]) -> Verdicts:
    """Return what the first bytes of answers, shape (n, bytes), say."""
    seen = answers[:, 0] >= 0x80
    return Verdicts(seen, np.where(seen, answers[:, 0].astype(np.int64) & 0x7F, -1))


def window_seconds(information: Information, statistics: Mapping[str, int]) -> dict[str, float]:
    """Return the seconds of a tick, and those for which every key is still reported.

    Parameters
    ----------
    information : Information
        Of the board.
    statistics : mapping of str to int
        What its `Host.statistics` are.

    Returns
    -------
    dict
        ``tick_seconds`` and ``covered_seconds``; nothing if the window is counted in insertions.
    """
    if not information.timed:
        return {}
    tick = statistics["period"] / information.clock_hz
    # The present tick has just begun, at the worst.
    return {"tick_seconds": tick, "covered_seconds": tick * max(0, statistics["covered"] - 1)}


def preset_of(information: Information) -> str | None:
    """Return the name of the preset that a board was built from, if it was one."""
    found = (name for name, spec in PRESETS.items() if spec.digest == information.digest)
    return next(found, None)


def failed_checks(failed: Check) -> dict[str, bool]:
    """Say of each check of the self-test, by its name in lower case, whether it passed."""
    return {check.name.lower(): check not in failed for check in Check if check.name}

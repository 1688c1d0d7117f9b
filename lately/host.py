"""Host side of a board: keys in, verdicts out, over a serial port."""

import struct
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .boards.link.information import Information, whole_bytes
from .boards.link.protocol import MAX_PAYLOAD, SECRET_BYTES, Check, Request
from .golden.errors import SpecificationError
from .golden.hash.keys import check_keys
from .golden.hash.siphash import check_secret
from .golden.operations import Operation
from .golden.results import Ages, Verdicts
from .golden.spec.all_presets import ALL_PRESETS
from .golden.spec.base import Specification
from .golden.times import Times, check_each
from .golden.timestamp.decisions import DecisionTable, packed_entries
from .hdl.latencies import PERIOD_BITS
from .session import HostError, Session


class Results(NamedTuple):
    """Results of a sequence of operations: all that a board tells, and 0 where it tells nothing."""

    seen: NDArray[np.bool_]
    """As `Verdicts`."""
    age: Ages
    """As `Verdicts`."""
    status: NDArray[np.uint8]
    """Status of each answer, before its own effects, shape (n,): the code of the
    `lately.golden.PoolStatus` of a ring with a window in time; 1 where a dictionary may have missed
    keys of the window."""
    time: Times
    """Ticks at each operation, shape (n,): those of its board modulo 2**30 at the first operation
    of the host, and counted on from there."""
    oldest_age: Ages
    """Age of the oldest cell of each key, whether it was seen or not, shape (n,)."""
    oldest: NDArray[np.int64]
    """Cells of the key that have that age, shape (n,)."""


Windows = ArrayLike | None
"""Window of all queries, or one for each, shape (n,); None for the longest. Where a table answers,
the class of all queries, or of each; None for class 0."""


class Host(Session):
    """A board at a serial port.

    Operations take effect one after another, as those of the golden model,
    whose methods these are like. One thread at a time.

    Parameters
    ----------
    port : str
        As for `Session`, and so are its other options.
    spec : Specification, optional
        The filter that the board must have.

    Raises
    ------
    HostError
        If the board has another filter than `spec`, or a deduplicator of frames, see
        `lately.frame_host.FrameHost`; else as `Session`.
    """

    def __init__(self, port: str, *, spec: Specification | None = None, **options: Any) -> None:
        super().__init__(port, **options)
        try:
            if self.information.frames:
                raise HostError(
                    f"{port}: must be a board with a filter alone, "
                    "but it has a deduplicator of frames"
                )
            if spec is not None:
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
        windows: Windows = None,
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
        windows : array_like of int, shape (n,) or (), optional
            Windows of queries, in the unit of the hardware: insertions, blocks of them, or ticks;
            by default the longest. Where a table answers, their classes, by default 0.
        progress : callable, optional
            Called with the number of operations done since the last call.

        Returns
        -------
        Verdicts

        Raises
        ------
        TypeError, ValueError
            If a key, code or window is not as required. Nothing was sent then.
        SpecificationError
            If there are windows, and queries of the board's filter have neither these nor classes.
        HostError
            If the board cannot be reached any longer. What it has performed by then is a
            beginning of the sequence.
        """
        return Verdicts.of(*self.perform(operations, keys, windows, progress=progress)[:2])

    def perform(
        self,
        operations: ArrayLike,
        keys: ArrayLike,
        windows: Windows = None,
        *,
        progress: Callable[[int], None] | None = None,
    ) -> Results:
        """Perform a mixed sequence of operations; return all that the board tells.

        The golden model's method of this name gives the same, for the same times, if it was
        cleared together with the board.

        The board tells the low 30 bits of its tick counter. The host makes whole times of them,
        as long as less than 2**30 ticks pass from one of its operations to the next: 12 days of
        milliseconds. A longer silence looks shorter by a multiple of these; the board's own
        answers are right after any silence.

        Parameters, errors: as `apply`.
        """
        answers = self._perform(operations, keys, windows, progress)
        verdict, oldest, _ = np.cumsum(self.information.verdict_parts)
        told = _numbers(answers[:, :verdict])
        seen = told >> self.information.age_bits != 0
        ages = told & (1 << self.information.age_bits) - 1
        beside = _numbers(answers[:, oldest:])
        return Results(
            seen,
            np.where(seen, ages, -1),
            (beside >> self.information.time_bits).astype(np.uint8),
            self._times(beside),
            ages,
            _numbers(answers[:, verdict:oldest]),
        )

    def _times(self, stamps: NDArray[np.int64]) -> Times:
        """Return whole times of the low bits of `stamps`, shape (n,), and go on from there."""
        steps = np.diff(stamps, prepend=self._time) % (1 << self.information.time_bits)
        times = self._time + np.cumsum(steps)
        self._time = int(times[-1]) if len(times) else self._time
        return times

    def insert(self, keys: ArrayLike) -> None:
        """Insert `keys`, of shape (n,), in order; errors as for `apply`."""
        self._apply_all(Operation.INSERT, keys)

    def query(self, keys: ArrayLike, window: Windows = None) -> Verdicts:
        """Ask which keys are in the filter, and how old they are.

        The `keys`, of shape (n,), and the `window`, or class, are as `keys` and `windows` of
        `apply`, and so are the errors.
        """
        return self._apply_all(Operation.QUERY, keys, window)

    def check_and_insert(self, keys: ArrayLike, window: Windows = None) -> Verdicts:
        """Query, then insert each key in order; parameters, errors as for `query`."""
        return self._apply_all(Operation.CHECK_AND_INSERT, keys, window)

    def remove(self, keys: ArrayLike) -> None:
        """Remove `keys`, of shape (n,); errors as for `apply`.

        Raises
        ------
        SpecificationError
            If the board's filter removes no keys.
        """
        self._require("remove", self.information.removes, "removes no keys")
        self._apply_all(Operation.REMOVE, keys)

    def shift(self) -> None:
        """Start a new generation now.

        Raises
        ------
        SpecificationError
            If the board's filter has no generations.
        """
        self._require("shift", self.information.generation > 0, "has no generations")
        self._apply_single(Operation.SHIFT)

    def clear(self) -> None:
        """Forget everything."""
        self._apply_single(Operation.CLEAR)

    # The board

    def statistics(self) -> dict[str, int]:
        """Return the board's registers of `lately.hdl.registers` that can be read, by their names.

        Counts are since reset and modulo 2**32, those of a self-test's operations included. Which
        registers there are depends on the filter; of those of time `window_seconds` makes
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
        return dict(zip(self.information.statistics, words, strict=False))

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
            `lately.hdl.build.UnitProfile.least_period`, or the board cannot be reached any longer.
        SpecificationError
            If the board's filter takes no secret, has no generations, or no ticks.
        RekeyError
            If the board still needs the two secrets that it has.
        """
        information = self.information
        for name, value, has, lacks in (
            ("secret", secret, information.keyed, "takes none"),
            ("period", period, information.timed, "has no span"),
            ("generation", generation, information.generation > 0, "has no generations"),
        ):
            self._require(name, value is None or has, lacks)
        if secret is not None:
            check_secret(secret)
        if generation is not None:
            bits = information.generation.bit_length() + 1
            self._set(Request.GENERATION, "generation", generation, bits)
        if period is not None:
            self._set(Request.PERIOD, "period", period, PERIOD_BITS)
        if secret is not None:
            self._ask(Request.SECRET, secret.to_bytes(SECRET_BYTES, "little"))

    def decide_by(self, table: DecisionTable) -> None:
        """Load a table of thresholds, which answers from the next operation on.

        Parameters
        ----------
        table : DecisionTable

        Raises
        ------
        SpecificationError
            If no table answers for the board's filter, or it is one of another shape.
        HostError
            If the board cannot be reached any longer. Until it has all of the table, the one before
            answers.
        """
        shape = self.information.table
        self._require("table", shape.classes > 0, "has no classes")
        table.check_fits(hashes=shape.hashes, bits=shape.phase_bits, shape=shape.thresholds)
        octets = _octets(packed_entries(table.thresholds, shape.hashes)[:, None], shape.entry_bytes)
        most = MAX_PAYLOAD // shape.entry_bytes
        payloads = (octets[start : start + most].tobytes() for start in range(0, len(octets), most))
        for _ in self._exchange(Request.TABLE, payloads):
            pass
        self._ask(Request.SWAP)

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

    def _require(self, name: str, has: bool, lacks: str) -> None:
        """Refuse what the board's filter has no use for."""
        if not has:
            raise SpecificationError(
                f"{name}: must not be given for the filter of {self.port}, which {lacks}"
            )

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
        windows: Windows,
        progress: Callable[[int], None] | None,
    ) -> NDArray[np.uint8]:
        """Return the bytes of each answer, shape (n, bytes)."""
        records = self._records(operations, keys, windows)
        batch, size = self.information.batch_operations, self.information.verdict_bytes
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

    def _records(
        self, operations: ArrayLike, keys: ArrayLike, windows: Windows
    ) -> NDArray[np.uint8]:
        """Return the bytes of each operation, shape (n, bytes)."""
        key_bits = self.information.key_bits
        words = check_keys(keys, key_bits)
        codes = np.asarray(operations)
        if codes.shape != (len(words),) or codes.dtype.kind not in "ui":
            raise ValueError(
                f"operations: must be {len(words)} integers, one for each key, "
                f"not {codes.dtype} of shape {codes.shape}"
            )
        known = [*range(Operation.CLEAR + 1), *([Operation.REMOVE] * self.information.removes)]
        if len(wrong := codes[~np.isin(codes, known)]):
            removing = f" or {Operation.REMOVE:d}" if self.information.removes else ""
            raise ValueError(
                f"operations: must be 0 to {Operation.CLEAR:d}{removing}, not {wrong[0]}"
            )
        parts = [codes.astype(np.uint8)[:, None], _octets(words, whole_bytes(key_bits))]
        asked = self.checked_windows(windows, len(words))
        return np.hstack([*parts, _octets(asked[:, None], self.information.asked_bytes)])

    def checked_windows(self, windows: Windows, count: int) -> Times:
        """Return the window, or the class, of each of `count` operations, shape (count,).

        Parameters
        ----------
        windows : int or array_like of int, shape (count,) or (); or None
            As for `apply`.
        count : int

        Raises
        ------
        TypeError, ValueError
            If a window or a class is not as required.
        SpecificationError
            If there are windows, and queries of the board's filter have neither these nor classes.
        """
        information = self.information
        most, decides = information.most_asked, information.table.classes > 0
        if windows is None:
            return np.full(count, 0 if decides else most)
        name = "classes" if decides else "windows"
        self._require(name, decides or most > 0, "has none for queries")
        asked = check_each(name, windows, count)
        if len(wrong := asked[asked > most]):
            raise ValueError(f"{name}: must be at most {most} for this board, not {wrong[0]}")
        return asked

    def _apply_all(
        self, operation: Operation, keys: ArrayLike, windows: Windows = None
    ) -> Verdicts:
        checked = check_keys(keys, self.information.key_bits)
        return self.apply(np.full(len(checked), operation, np.uint8), checked, windows)

    def _apply_single(self, operation: Operation) -> None:
        words = -(-self.information.key_bits // 64)
        self._apply_all(operation, np.zeros(1 if words == 1 else (1, words), np.uint64))

    def check_spec(self, spec: Specification) -> None:
        """Refuse a board that holds another filter.

        Parameters
        ----------
        spec : Specification

        Raises
        ------
        HostError
            If it does.
        """
        found = self.information
        if found.digest == spec.digest:
            return
        longest = found.table.ages - 2 if found.table.classes else found.window
        for name, field, has in (
            ("key_bits", "key_bits", found.key_bits),
            ("window of a query", "window_blocks", longest),
            ("classes of queries", "classes", found.table.classes),
            ("generation", "generation", found.generation),
            ("generations in the window", "window_generations", found.window_generations),
        ):
            wanted = getattr(spec, field, 0)
            if wanted and wanted != has:
                raise HostError(
                    f"{self.port}: {name} must be {wanted}, but the board has {has or 'none'}"
                )
        preset = preset_of(found)
        named = f", that of the preset {preset}" if preset else ""
        raise HostError(
            f"{self.port}: filter must have digest {spec.digest.hex()}, "
            f"but the board's has {found.digest.hex()}{named}"
        )


def _octets(words: NDArray[Any], count: int) -> NDArray[np.uint8]:
    """Return the lowest `count` bytes of each number, whose words of 64 bits have shape (n, k)."""
    return np.ascontiguousarray(words, "<u8").view(np.uint8)[:, :count]


def _numbers(octets: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Return the numbers of some bytes, the lowest first, shape (n, bytes)."""
    places = 8 * np.arange(octets.shape[1])
    numbers: NDArray[np.int64] = (octets.astype(np.int64) << places).sum(axis=1)
    return numbers


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
        ``tick_seconds``, if there are ticks, and ``covered_seconds``, if the board tells it.
    """
    if not information.timed:
        return {}
    tick = statistics["period"] / information.clock_hz
    if "covered" not in statistics:
        return {"tick_seconds": tick}
    # The present tick has just begun, at the worst.
    return {"tick_seconds": tick, "covered_seconds": tick * max(0, statistics["covered"] - 1)}


def preset_of(information: Information) -> str | None:
    """Return the name of the preset that a board was built from, if it was one."""
    found = (name for name, spec in ALL_PRESETS.items() if spec.digest == information.digest)
    return next(found, None)


def failed_checks(failed: Check) -> dict[str, bool]:
    """Say of each check of the self-test, by its name in lower case, whether it passed."""
    return {check.name.lower(): check not in failed for check in Check if check.name}

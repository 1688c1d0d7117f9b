"""Host side of a board: operations, registers and self-test over a serial port."""

import struct
import time
import zlib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .boards.link.information import LINE_ADDRESS, Information
from .boards.link.protocol import MAX_READ, MAX_WRITE, SAME, WORD_BYTES, Request
from .boards.link.self_test_operations import self_test_operations
from .golden import from_spec
from .golden.errors import LatelyError, RekeyError, SpecificationError
from .golden.hash.keys import check_keys
from .golden.hash.siphash import check_secret
from .golden.operations import Operation
from .golden.packets.comparison import Field
from .golden.packets.frame_actions import Action
from .golden.results import Results
from .golden.spec.all_presets import ALL_PRESETS
from .golden.spec.base import Specification
from .golden.times import Times, check_each
from .golden.timestamp.decisions import DecisionTable, packed_entries
from .hdl.registers import REGISTERS, WORD_BITS, Register
from .session import HostError, Session

Windows = ArrayLike | None
"""Window of all queries, or of each query, shape (n,); None for the longest window. If the board
answers from a table, the class of all queries, or of each; None for class 0."""

_ROWS: Mapping[str, Register] = {register.name: register for register in REGISTERS}

_STATES = ("generation", "period", "covered", "guaranteed", "alarms")
"""Registers of `Board.statistics` that are not event counters."""

_MOST_POLLS = 100
"""Reads of the status until an order is complete; one read takes longer than an order."""

_SLOWEST = 100
"""Greatest factor by which a simulated board is slower than a board."""


class SelfTestResult(NamedTuple):
    """Result of a self-test."""

    passed: bool
    """Whether the signature is as expected."""
    signature: int
    """CRC-32 of the results of the board."""
    expected: int
    """CRC-32 of the results of the golden model."""
    upsets: int
    """Cycles of the test in which a protected memory was found upset."""


class BoardSession(Session):
    """A session that reads and writes registers by name, and performs operations."""

    _time = 0

    # Registers

    def _number(self, words: bytes, address: int, width: int) -> int:
        """Return the value of a register from the words that start at address 0."""
        start = address * WORD_BYTES
        return int.from_bytes(words[start : start + -(-width // 8)], "little")

    def _read(self, name: str) -> int:
        address, width = self.information.registers[name]
        return int.from_bytes(self._words(address, -(-width // WORD_BITS)), "little")

    def _write(self, name: str, value: int) -> None:
        address, width = self.information.registers[name]
        count = -(-width // WORD_BITS) * WORD_BYTES
        self._write_words(address, value.to_bytes(count, "little"))

    def _field(self, register: str, name: str) -> int:
        place, mask = _place(register, name)
        return self._read(register) >> place & mask

    def _set_fields(self, register: str, **values: int | None) -> None:
        """Set some fields of a register, and keep the others."""
        word = self._read(register)
        for name, value in values.items():
            if value is not None:
                place, mask = _place(register, name)
                word = word & ~(mask << place) | value << place
        self._write(register, word)

    def _order(self, name: str) -> None:
        self._set_fields("control", **{name: 1})

    def _check_setting(self, name: str, value: int) -> None:
        if not isinstance(value, int):
            raise TypeError(f"{name}: must be an integer, not {value!r}")
        most = (1 << self.information.registers[name][1]) - 1
        if not 1 <= value <= most:
            raise ValueError(f"{name}: must be 1 to {most} for this board, not {value}")

    def _require(self, name: str, has: bool, lacks: str) -> None:
        """Refuse an operation that the board does not support."""
        if not has:
            raise SpecificationError(
                f"{name}: must not be given for the board at {self.port}, which {lacks}"
            )

    # Records

    def _perform(
        self,
        operations: ArrayLike,
        keys: ArrayLike,
        windows: Windows,
        progress: Callable[[int], None] | None,
    ) -> NDArray[np.uint8]:
        """Return the record of each result, shape (n, bytes)."""
        self._require("operations", not self.information.frames, "takes frames")
        records = self._records(operations, keys, windows)
        batch, size = self.information.batch_operations, self.information.result_bytes
        results = np.empty((len(records), size), np.uint8)
        starts = range(0, len(records), batch)
        payloads = (records[start : start + batch].tobytes() for start in starts)
        for start, answer in zip(starts, self._exchange(Request.OPERATE, payloads), strict=True):
            count = min(batch, len(records) - start)
            if len(answer) != count * size:
                raise HostError(
                    f"{self.port}: must answer {count} operations with {count * size} bytes, "
                    f"not {len(answer)}"
                )
            results[start : start + count] = np.frombuffer(answer, np.uint8).reshape(count, size)
            if progress is not None:
                progress(count)
        return results

    def _records(
        self, operations: ArrayLike, keys: ArrayLike, windows: Windows
    ) -> NDArray[np.uint8]:
        """Return the record of each operation, shape (n, bytes)."""
        information = self.information
        words = check_keys(keys, information.key_digest)
        codes = np.asarray(operations)
        if codes.shape != (len(words),) or codes.dtype.kind not in "ui":
            raise ValueError(
                f"operations: must be {len(words)} integers, one for each key, "
                f"not {codes.dtype} of shape {codes.shape}"
            )
        known = [*range(Operation.CLEAR + 1), *([Operation.REMOVE] * information.removes)]
        if len(wrong := codes[~np.isin(codes, known)]):
            removing = f" or {Operation.REMOVE:d}" if information.removes else ""
            raise ValueError(
                f"operations: must be 0 to {Operation.CLEAR:d}{removing}, not {wrong[0]}"
            )
        return information.pack_operations(codes, words, self.checked_windows(windows, len(words)))

    def checked_windows(self, windows: Windows, count: int) -> Times:
        """Return the window, or the class, of each of `count` operations, shape (count,).

        Parameters and errors are as for `perform`.
        """
        longest, decides = self.information.longest, self.information.decides
        if windows is None:
            return np.full(count, 0 if decides else longest)
        name = "classes" if decides else "windows"
        self._require(name, decides or longest > 0, "has none for queries")
        checked = check_each(name, windows, count)
        if len(wrong := checked[checked > longest]):
            raise ValueError(f"{name}: must be at most {longest} for this board, not {wrong[0]}")
        return checked

    def _times(self, stamps: NDArray[np.int64]) -> Times:
        """Return full times from the low bits of `stamps`, shape (n,), and continue from them."""
        steps = np.diff(stamps, prepend=self._time) % (1 << self.information.result.get("time", 0))
        times = self._time + np.cumsum(steps)
        self._time = int(times[-1]) if len(times) else self._time
        return times


class Board(BoardSession):
    """A board with a filter or a frame deduplicator on a serial port.

    Operations take effect one after another, as in the golden model, whose methods have the same
    names. Use the board from one thread at a time.

    Parameters
    ----------
    port : str
        As for `Session`; the other options of `Session` are accepted too.
    spec : Specification, optional
        Filter that the board must have.

    Raises
    ------
    HostError
        If the board has a filter other than `spec`; otherwise as for `Session`.
    """

    def __init__(self, port: str, *, spec: Specification | None = None, **options: Any) -> None:
        super().__init__(port, **options)
        try:
            if spec is not None:
                self.check_spec(spec)
        except BaseException:
            self.close()
            raise

    # The filter

    def check_spec(self, spec: Specification) -> None:
        """Raise `HostError` if the board's filter is not `spec`."""
        wanted, found = spec.to_dict(), self.information.spec
        for name in [*wanted, *found]:
            if wanted.get(name) != found.get(name):
                preset = preset_of(self.information)
                raise HostError(
                    f"{self.port}: {name} must be {wanted.get(name)}, but the board has "
                    f"{found.get(name)}" + (f", that of preset {preset}" if preset else "")
                )

    # Operations

    def perform(
        self,
        operations: ArrayLike,
        keys: ArrayLike,
        windows: Windows = None,
        *,
        progress: Callable[[int], None] | None = None,
    ) -> Results:
        """Perform a mixed sequence of operations.

        The golden model's method `perform` returns the same results at the same times, if both were
        cleared together. The board reports the low bits of its tick counter, and the host extends
        them. This needs fewer than 2**30 ticks between two operations: 12 days of milliseconds. The
        board's answers are correct after a pause of any length.

        Parameters
        ----------
        operations : array_like of int, shape (n,)
            `Operation` codes.
        keys : array_like of int, shape (n,) or (n, words)
            As for the golden model; the keys of SHIFT and CLEAR are ignored.
        windows : array_like of int, shape (n,) or (), optional
            Windows of queries, in the unit of the hardware: insertions, blocks of insertions, or
            ticks; by default the longest. If the board answers from a table, classes; by default 0.
        progress : callable, optional
            Called with the number of operations since the last call.

        Raises
        ------
        TypeError, ValueError
            If a key, code or window is invalid. Nothing is sent then.
        SpecificationError
            If windows are given but queries have neither windows nor classes, or if the board takes
            frames.
        HostError
            If the board no longer answers. It may have performed a first part of the sequence.
        """
        values = self.information.unpack_results(self._perform(operations, keys, windows, progress))
        none = np.zeros(len(values["seen"]), np.int64)
        seen, age = values["seen"] > 0, values.get("age", none)
        if "oldest" not in values:
            age = np.where(seen, age, -1)
        others = {name: values.get(name, none) for name in ("status", "oldest")}
        return Results.of(seen, age, time=self._times(values.get("time", none)), **others)

    def insert(self, keys: ArrayLike) -> None:
        """Insert `keys`, of shape (n,), in order; errors as `perform`."""
        self._perform_all(Operation.INSERT, keys)

    def query(self, keys: ArrayLike, window: Windows = None) -> Results:
        """Report which keys are in the filter; `keys`, `window` and errors as for `perform`."""
        return self._perform_all(Operation.QUERY, keys, window)

    def check_and_insert(self, keys: ArrayLike, window: Windows = None) -> Results:
        """Query, then insert each key in order; `keys`, `window` and errors as for `perform`."""
        return self._perform_all(Operation.CHECK_AND_INSERT, keys, window)

    def remove(self, keys: ArrayLike) -> None:
        """Remove `keys`, of shape (n,); SpecificationError if the filter cannot remove keys."""
        self._require("remove", self.information.removes, "removes no keys")
        self._perform_all(Operation.REMOVE, keys)

    def shift(self) -> None:
        """Start a new generation; SpecificationError if the filter has no generations."""
        self._require("shift", self.information.shifts, "has no generations")
        self._perform_one(Operation.SHIFT)

    def clear(self) -> None:
        """Forget everything."""
        if not self.information.frames:
            self._perform_one(Operation.CLEAR)
            return
        self._order("clear")
        if all(self._field("status", "order") for _ in range(_MOST_POLLS)):
            raise HostError(f"{self.port}: must end a clear, but its status shows that it waits")

    def _perform_all(
        self, operation: Operation, keys: ArrayLike, windows: Windows = None
    ) -> Results:
        checked = check_keys(keys, self.information.key_digest)
        return self.perform(np.full(len(checked), operation, np.uint8), checked, windows)

    def _perform_one(self, operation: Operation) -> None:
        words = -(-self.information.key_bits // 64)
        self._perform_all(operation, np.zeros(1 if words == 1 else (1, words), np.uint64))

    # The board

    def statistics(self) -> dict[str, int]:
        """Return a snapshot of the counters, and other registers, by name.

        `lately.hdl.registers` has the names. Counters count since reset, and wrap at their width.
        """
        self._order("snapshot")
        words = self._words(0, LINE_ADDRESS + MAX_READ)
        return {
            name: self._number(words, *self.information.registers[name])
            for name, row in _ROWS.items()
            if name in self.information.registers and (row.event or name in _STATES)
        }

    def configure(
        self,
        *,
        generation: int | None = None,
        secret: int | None = None,
        period: int | None = None,
        action: Action | None = None,
        fields: Field | None = None,
    ) -> None:
        """Set the length of a generation or of a tick, load a secret, or set the use of frames.

        Parameters
        ----------
        generation : int, optional
            Insertions in a generation; takes effect with the next generation.
        secret : int, optional
            Secret of 128 bits. The secret of a filter takes effect at the next CLEAR or, with
            re-keying, at the next shift. It waits while two secrets are in use. The secret of a
            digest applies to frames that begin later.
        period : int, optional
            Cycles of a tick; takes effect with the next tick.
        action : Action, optional
            Action on duplicate frames. A serial line cannot mark frames: frames to be marked leave
            unchanged.
        fields : Field, optional
            Further parts of a frame in its digest, for frames that begin later.

        Raises
        ------
        TypeError, ValueError
            If a value is not an integer or out of range.
        SpecificationError
            If the board has no such setting.
        RekeyError
            If another secret waits.
        HostError
            If the period is too short for the filter, or the board no longer answers.
        """
        registers = self.information.registers
        keyed = "digest_secret" if self.information.frames else "secret"
        for name, register, value, lacks in (
            ("generation", "generation", generation, "has no generations"),
            ("period", "period", period, "has no span"),
            ("secret", keyed, secret, "takes none"),
            ("action", "frames", action, "takes no frames"),
            ("fields", "frames", fields, "takes no frames"),
        ):
            self._require(name, value is None or register in registers, lacks)
        for name, value in (("generation", generation), ("period", period)):
            if value is not None:
                self._check_setting(name, value)
        if secret is not None:
            check_secret(secret)
        if action is not None or fields is not None:
            self._set_fields("frames", action=action, fields=fields)
        for name, value in (("generation", generation), ("period", period)):
            if value is not None:
                self._write(name, value)
        if secret is not None:
            if keyed == "secret" and self._field("status", "secret"):
                raise RekeyError("rekey: must come when all segments of the ring have one secret")
            self._write(keyed, secret)

    def decide_by(self, table: DecisionTable) -> None:
        """Load a table of thresholds that answers from the next operation on.

        Parameters
        ----------
        table : DecisionTable

        Raises
        ------
        SpecificationError
            If the filter does not answer from a table, or needs a table of another shape.
        HostError
            If the board no longer answers. The previous table answers until the whole table is
            loaded.
        """
        self._require("table", self.information.decides, "has no classes")
        spec: Any = self.information.specification
        table.check_fits(hashes=spec.hashes, bits=spec.phase_bits, shape=spec.table_shape)
        address, width = self.information.registers["table"]
        count = -(-width // WORD_BITS)
        words = packed_entries(table.thresholds).astype("<u8").view("<u4")
        words = words.reshape(-1, 2)[:, :count]
        # Entries of one word are written to the same address.
        most, address = (MAX_WRITE, address | SAME) if count == 1 else (1, address)
        payloads = (struct.pack("<H", address) + words[start : start + most].tobytes()
                    for start in range(0, len(words), most))  # fmt: skip
        for _ in self._exchange(Request.WRITE, payloads):
            pass
        self._order("swap")

    def reset(self) -> None:
        """Reset the unit: contents, counters and settings are as after configuration."""
        self._require("reset", "reset" in self.information.registers, "takes frames")
        self._write("reset", 1)
        self._time = 0

    def self_test(self) -> SelfTestResult:
        """Make the board perform random operations, and compare their signature with the model's.

        The filter is reset before and after the test. The lengths of generations and ticks are
        restored; you must load a secret or a table again.

        Raises
        ------
        SpecificationError
            If the board takes frames, or its filter is unknown to this version.
        HostError
            If the test does not end, or the board no longer answers.
        """
        information = self.information
        self._require("self-test", "self_test" in information.registers, "takes frames")
        try:
            expected = signature(information, self_test_results(information))
        except LatelyError:
            raise
        except (TypeError, ValueError) as error:
            raise HostError(f"{self.port}: must be described as its filter is: {error}") from None
        settings = {name: self._read(name) for name in ("generation", "period")
                    if name in information.registers}  # fmt: skip
        self._write("self_test", 1)
        limit = self._timeout + _SLOWEST * information.cycles / information.clock_hz
        end = time.monotonic() + limit
        while self._read("self_test"):
            if time.monotonic() > end:
                raise HostError(f"{self.port}: must end a self-test within {limit:.2g} s")
            time.sleep(min(0.1, limit / 100))
        found = self._read("signature")
        upsets = self.statistics().get("upsets", 0)
        self.reset()
        self._write("failed", int(found != expected))
        for name, value in settings.items():
            self._write(name, value)
        return SelfTestResult(found == expected, found, expected, upsets)


def _place(register: str, name: str) -> tuple[int, int]:
    """Return the lowest bit of a field, and its mask at the lowest bit."""
    (found,) = (field for field in _ROWS[register].fields if field.name == name)
    return found.place, (1 << found.width) - 1


def golden_operands(
    information: Information, times: Times, windows: Any
) -> tuple[Times | None, Any]:
    """Return times and windows of a board's operations in the units of the golden model.

    Parameters
    ----------
    information : Information
        Description of the board.
    times : ndarray of int, shape (n,)
        Ticks, as in results.
    windows : int, or array of int, shape (n,); or None
        As for `Board.perform`.
    """
    unit = getattr(information.specification, "block_units", 1)
    if windows is not None and not information.decides:
        windows = windows * unit
    return times * unit if information.timed else None, windows


def self_test_results(information: Information) -> Results:
    """Return the golden model's results of a board's self-test, without CLEAR operations."""
    golden = from_spec(information.specification)
    codes, keys, windows, ticks = self_test_operations(information)
    asked = windows if information.longest or information.decides else None
    operands = golden_operands(information, ticks, asked)
    results = golden.perform(codes, keys if keys.shape[1] > 1 else keys[:, 0], *operands)
    return results._replace(time=ticks).part(codes != Operation.CLEAR)


def signature(information: Information, results: Results) -> int:
    """Return the CRC-32 of the records of results of a board."""
    values = results._replace(age=np.maximum(results.age, 0))._asdict()
    return zlib.crc32(information.pack_results(values).tobytes())


def window_seconds(information: Information, statistics: Mapping[str, int]) -> dict[str, float]:
    """Return the seconds of a tick, and the seconds for which every key is still reported.

    Parameters
    ----------
    information : Information
        Description of the board.
    statistics : mapping of str to int
        As `Board.statistics` returns.

    Returns
    -------
    dict
        ``tick_seconds`` if the filter has ticks, and ``covered_seconds`` if the board reports it.
    """
    if not information.timed:
        return {}
    tick = statistics["period"] / information.clock_hz
    if "covered" not in statistics:
        return {"tick_seconds": tick}
    # In the worst case the present tick has just begun.
    return {"tick_seconds": tick, "covered_seconds": tick * max(0, statistics["covered"] - 1)}


def preset_of(information: Information) -> str | None:
    """Return the name of the preset from which a board was built, or None."""
    found = (name for name, spec in ALL_PRESETS.items() if spec.to_dict() == information.spec)
    return next(found, None)

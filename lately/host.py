"""Control a board over a serial port: perform operations, access registers, run the self-test."""

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .boards.link import layout
from .boards.link.layout import MISSING, register_address
from .golden import DecisionTable, Operation, RekeyError, Results, SpecificationError, from_spec
from .golden.hash.keys import KeyDigest, check_keys
from .golden.hash.siphash import check_secret
from .golden.packets.comparison import Field
from .golden.packets.frame_actions import Action
from .golden.spec.base import Specification
from .golden.spec.presets import ALL_PRESETS
from .golden.times import Times, check_each
from .golden.timestamp.decisions import entry_widths, packed_entries
from .hdl.latencies import PERIOD_BITS
from .hdl.registers import ADDRESSES, REGISTERS
from .uartbone import DEFAULT_BAUD, HostError, NoAnswerError, UartBone

Windows = ArrayLike | None
"""Windows of queries, or classes if the filter has a table: a number for all queries, or an array
with a number for each query, shape (n,). None means the longest window, or class 0."""

_FIELDS = {register.name: register.fields for register in REGISTERS}

# Registers in `Board.statistics` that are not event counters.
_STATES = ("generation", "period", "covered", "guaranteed", "alarms")

# Maximum status reads until a command is complete; one read takes longer than a command.
_MAX_POLLS = 100

_MIN_OPERATIONS = 1 << 11  # of a self-test


class SelfTestResult(NamedTuple):
    """The result of `Board.self_test`."""

    passed: bool
    operations: int
    mismatches: int  # results that differ from those of the golden model
    first_mismatch: int | None  # operation with the first such result
    upsets: int  # cycles in which an upset of a protected memory was detected


class Board(UartBone):
    """A board with a filter or a frame deduplicator on a serial port.

    Operations take effect one after another, as in the golden model, whose methods have the same
    names. Use a board from only one thread at a time.

    `spec` is required unless the filter is a preset; for the other parameters see
    `lately.uartbone.UartBone`. Raises `HostError` if the board has a different filter.
    """

    spec: Specification
    preset: str | None  # name of the filter if it is a preset
    frames: bool  # whether the board processes frames instead of operations
    longest: int  # longest window, or highest class, of a query
    clock_hz: int

    def __init__(
        self,
        port: str,
        *,
        spec: Specification | None = None,
        baud: int = DEFAULT_BAUD,
        timeout: float = 0.5,
        attempts: int = 6,
    ) -> None:
        super().__init__(port, baud=baud, timeout=timeout, attempts=attempts)
        self._time = 0
        self._count: int | None = None  # number of operations performed, if known
        try:
            self.synchronise()
            low, high = self.read(register_address("digest"), 2)
            digest = (high << 32 | low).to_bytes(8, "big")
            presets = {preset.fingerprint: name for name, preset in ALL_PRESETS.items()}
            self.preset = presets.get(digest)
            name = (
                f"preset {self.preset}" if self.preset else f"a filter with digest {digest.hex()}"
            )
            if spec is not None and spec.fingerprint != digest:
                raise HostError(
                    f"{port}: the board has {name}, "
                    f"not the given filter with digest {spec.fingerprint.hex()}"
                )
            if spec is None and self.preset is None:
                raise HostError(f"{port}: the board has {name}, which is not a preset; give --spec")
            self.spec = spec or ALL_PRESETS[self.preset or ""]
            self.longest = layout.longest_query(self.spec)
            self.frames = self._read("frames") != MISSING
            self.clock_hz = self._read("clock")
        except BaseException:
            self.close()
            raise

    @property
    def _has_generations(self) -> bool:
        return self.spec.kind == "ring" and not self.frames

    # Registers

    def _read(self, name: str) -> int:
        return self.read(register_address(name))[0]

    def _changed(self, register: str, **values: int | None) -> list[int]:
        """Read a register, and return its word with the given fields replaced."""
        word = self._read(register)
        for field in _FIELDS[register]:
            if (value := values.get(field.name)) is not None:
                word = word & ~((1 << field.width) - 1 << field.low) | value << field.low
        return [word]

    def _pending(self, name: str) -> bool:
        (bit,) = (field.low for field in _FIELDS["status"] if field.name == name)
        return bool(self._read("status") >> bit & 1)

    def _set(self, name: str, value: int) -> None:
        """Write a register; if the board stores a different value, restore the old one."""
        if not isinstance(value, int) or not 1 <= value < MISSING:
            raise ValueError(f"{name}: must be an integer from 1 to {MISSING - 1}, not {value!r}")
        former = self._read(name)
        self.write(register_address(name), [value])
        if (stored := self._read(name)) != value:
            self.write(register_address(name), [former])
            raise HostError(f"{self.port}: {name}: the board stored {stored}, not {value}")

    def _require(self, name: str, has: bool, lacks: str) -> None:
        if not has:
            raise SpecificationError(f"{name}: the board at {self.port} {lacks}")

    # Operations

    def perform(
        self,
        operations: ArrayLike,
        keys: ArrayLike,
        windows: Windows = None,
        *,
        progress: Callable[[int], None] | None = None,
    ) -> Results:
        """Perform a sequence of operations, given as `Operation` codes of shape (n,) or ().

        The results equal those of the golden model's method `perform` for the same `keys`, of shape
        (n,) or (n, words), at the same times. `windows`, of shape (n,) or (), are in the unit of
        the hardware: insertions, blocks of insertions, or ticks. `progress` is called with the
        number of operations since its last call. Times are correct if fewer than 2**30 ticks pass
        between two operations: 12 days with ticks of a millisecond.

        Raises TypeError, ValueError or SpecificationError before it sends anything, and HostError
        if the board stops answering; the board may then have performed some of the operations.
        """
        self._require("operations", not self.frames, "processes frames, not operations")
        spec = self.spec
        words = check_keys(keys, KeyDigest.of(spec))
        codes = np.broadcast_to(np.asarray(operations), len(words))
        known = [*range(Operation.CLEAR + 1), *[Operation.REMOVE] * (spec.kind == "dictionary")]
        if len(unknown := codes[~np.isin(codes, known)]):
            raise ValueError(f"operations: must be one of {[*map(int, known)]}, not {unknown[0]}")
        checked = self.checked_windows(windows, len(words))
        answers = [np.empty((0, layout.result_words(spec)), np.uint32)]
        for answer in self._perform(list(layout.pack_blocks(spec, codes, words, checked))):
            answers.append(answer)
            if progress is not None:
                progress(len(answer))
        results = layout.unpack_results(spec, np.concatenate(answers))
        if spec.timed and len(words):
            # The board sends the low bits of times.
            steps = np.diff(results.time, prepend=self._time) % (1 << layout.TIME_BITS)
            results = results._replace(time=self._time + np.cumsum(steps))
            self._time = int(results.time[-1])
        return results

    def _perform(self, blocks: Sequence[layout.Block]) -> Iterator[NDArray[np.uint32]]:
        # The words of the next block are sent while results arrive, but its trailer is sent only
        # when these results are correct. After an interrupted or damaged exchange, the board's
        # count of performed operations shows what is left to do.
        performed, ahead = self._count if self._count is not None else self._performed(), False
        self._count = None
        for block, following in zip(blocks, [*blocks, None][1:], strict=True):
            before, after = performed, (performed + block.operations) & MISSING
            size = block.operations * layout.result_words(self.spec)
            for _ in range(self.attempts):
                if performed == before:
                    if not ahead:
                        self._send_words(block)
                    trailer = block.trailer(before)
                    self.send(layout.WRITE, layout.BLOCK + 4 * layout.TRAILER, trailer)
                self.send(layout.READ, layout.RESULTS, count=2 + size)
                if ahead := following is not None:
                    self._send_words(following)
                with suppress(NoAnswerError):
                    performed, signature, *words = self.receive(2 + size)
                    answer = np.array(words, "<u4")
                    if performed == after and zlib.crc32(answer.tobytes()) == signature:
                        break
                self.repeated += 1
                ahead, performed = False, self._performed()
                if performed not in (before, after):
                    raise HostError(
                        f"{self.port}: the board has performed {performed} operations, "
                        f"not {before}; it was probably reset"
                    )
            else:
                raise NoAnswerError(
                    f"{self.port}: a block of operations failed {self.attempts} times"
                )
            yield answer.reshape(block.operations, -1)
        self._count = performed

    def _performed(self) -> int:
        """Resynchronise, and read the number of operations that the board has performed."""
        self.synchronise()
        return self.read(layout.RESULTS)[0]

    def _send_words(self, block: layout.Block) -> None:
        address = layout.BLOCK + 4 * (layout.TRAILER - len(block.words))
        self.send(layout.WRITE, address, block.words)

    def checked_windows(self, windows: Windows, count: int) -> Times:
        """Check windows or classes as `perform` does; return one for each operation."""
        longest, has_classes = self.longest, self.spec.classes is not None
        if windows is None:
            return np.full(count, 0 if has_classes else longest)
        name = "classes" if has_classes else "windows"
        self._require(name, has_classes or longest > 0, "has no query windows")
        checked = check_each(name, windows, count)
        if len(longer := checked[checked > longest]):
            raise ValueError(f"{name}: must be at most {longest} for this board, not {longer[0]}")
        return checked

    def insert(self, keys: ArrayLike) -> None:
        """Insert `keys`, of shape (n,), in order. Raises the same errors as `perform`."""
        self.perform(Operation.INSERT, keys)

    def query(self, keys: ArrayLike, window: Windows = None) -> Results:
        """Report which keys are in the filter; see `perform`."""
        return self.perform(Operation.QUERY, keys, window)

    def check_and_insert(self, keys: ArrayLike, window: Windows = None) -> Results:
        """Query and then insert each key, in order; see `perform`."""
        return self.perform(Operation.CHECK_AND_INSERT, keys, window)

    def remove(self, keys: ArrayLike) -> None:
        """Remove `keys`, of shape (n,). Raises SpecificationError if keys cannot be removed."""
        self._require("remove", self.spec.kind == "dictionary", "cannot remove keys")
        self.perform(Operation.REMOVE, keys)

    def shift(self) -> None:
        """Start a new generation. Raises SpecificationError if the filter has no generations."""
        self._require("shift", self._has_generations, "has no generations")
        self.perform(Operation.SHIFT, [0])

    def clear(self) -> None:
        """Forget all keys."""
        if not self.frames:
            self.perform(Operation.CLEAR, [0])
            return
        self.write(register_address("control"), self._changed("control", clear=1))
        if all(self._pending("order") for _ in range(_MAX_POLLS)):
            raise HostError(f"{self.port}: the board did not complete the clear")

    # The board

    def statistics(self) -> dict[str, int]:
        """Return the state registers and the counters since reset, all sampled at the same time."""
        self.write(register_address("control"), self._changed("control", snapshot=1))
        figures = {}
        for register in REGISTERS:
            if register.event or register.name in _STATES:
                # The unit's counters have 64 bits.
                count = 1 + (bool(register.event) and register.address < ADDRESSES["reset"])
                words = self.read(register_address(register.name), count)
                if any(word != MISSING for word in words):
                    figures[register.name] = sum(word << 32 * n for n, word in enumerate(words))
        return figures

    def window_seconds(self, statistics: Mapping[str, int]) -> dict[str, float]:
        """Compute the tick length and the covered time, both in seconds, from `statistics`."""
        if "period" not in statistics:
            return {}
        tick = statistics["period"] / self.clock_hz
        # In the worst case, the current tick has just begun.
        covered = {"covered_seconds": tick * max(0, statistics.get("covered", 0) - 1)}
        return {"tick_seconds": tick} | (covered if "covered" in statistics else {})

    def configure(
        self,
        *,
        generation: int | None = None,
        secret: int | None = None,
        period: int | None = None,
        action: Action | None = None,
        fields: Field | None = None,
    ) -> None:
        """Change settings of the board; None leaves a setting unchanged.

        `generation` is the generation length in insertions, and `period` the tick length in clock
        cycles. Both take effect at the next generation or tick. `secret` has 128 bits. In a filter,
        it takes effect at the next CLEAR or, with re-keying, at the next shift; while two secrets
        are in use, it waits. In a frame deduplicator, `secret` and `fields`, the additional digest
        fields, apply to frames that begin afterwards, and `action` to duplicate frames.

        Raises TypeError or ValueError if a value is invalid, SpecificationError if the board does
        not have the setting, RekeyError if another secret is waiting, and HostError if the board
        rejects a length.
        """
        spec, frames = self.spec, self.frames
        for name, value, has, lacks in (
            ("generation", generation, self._has_generations, "has no generations"),
            ("period", period, spec.timed or frames, "has no time window"),
            ("secret", secret, spec.keyed or frames, "does not use a secret"),
            ("action", action, frames, "does not process frames"),
            ("fields", fields, frames, "does not process frames"),
        ):
            self._require(name, value is None or has, lacks)
        if secret is not None:
            check_secret(secret)
        if action is not None or fields is not None:
            word = self._changed("frames", action=action, fields=fields)
            self.write(register_address("frames"), word)
        for name, length in (("generation", generation), ("period", period)):
            if length is not None:
                self._set(name, length)
        if secret is not None:
            if not frames and self._pending("secret"):
                raise RekeyError("rekey: another secret is still in use; shift until it is retired")
            words = np.frombuffer(secret.to_bytes(16, "little"), "<u4")
            self.write(register_address("digest_secret" if frames else "secret"), words)

    def decide_by(self, table: DecisionTable) -> None:
        """Load a threshold table, which takes effect at the next operation.

        If the board stops answering, it keeps its previous table. Raises SpecificationError if the
        filter has no table, or a table of a different shape.
        """
        self._require("table", self.spec.classes is not None, "has no classes")
        spec: Any = self.spec
        table.check_fits(hashes=spec.hashes, bits=spec.phase_bits, shape=spec.table_shape)
        entries = packed_entries(table.thresholds).astype("<u8").view("<u4").reshape(-1, 2)
        # The unit stores an entry when its last word arrives.
        if sum(entry_widths(spec.table_shape, spec.hashes)) <= 32:
            entries = entries[:, 0].reshape(1, -1)
        # Repeating the swap would bring the old table back, so load the table again first.
        for _ in range(self.attempts):
            for words in entries:
                self.write(register_address("table"), words, same=len(entries) == 1)
            if self.try_write(register_address("control"), self._changed("control", swap=1)):
                return
        raise NoAnswerError(f"{self.port}: loading the table failed {self.attempts} times")

    def reset(self) -> None:
        """Reset contents, counters and settings to their state after FPGA configuration."""
        self._require("reset", not self.frames, "processes frames and has no reset")
        self.write(register_address("reset"), [1])
        self._time, self._count = 0, None

    def self_test(self) -> SelfTestResult:
        """Perform random operations, and compare the results with those of the golden model.

        Resets the filter before and after the test, so the secret and the table are lost.
        """
        self._require("self-test", not self.frames, "processes frames and has no self-test")
        spec, names = self.spec, ["generation"] * self._has_generations
        settings = {name: self._read(name) for name in names + ["period"] * self.spec.timed}
        self.reset()
        codes, keys, windows, rate = self_test_operations(spec)
        if spec.timed:
            # An operation takes about 90 bits on the line.
            cycles = 90 * rate * self.clock_hz // self.baud + 1
            self._set("period", min(cycles, (1 << PERIOD_BITS) - 1))
        results = self.perform(codes, keys, windows)
        wrong = differing(spec, from_spec(spec), codes, keys, windows, results).tolist()
        upsets = self.statistics().get("upsets", 0)
        self.reset()
        for name, value in settings.items():
            self._set(name, value)
        return SelfTestResult(not wrong, len(codes), len(wrong), next(iter(wrong), None), upsets)


def differing(
    spec: Specification, golden: Any, codes: Any, keys: Any, windows: Any, results: Results
) -> NDArray[np.int64]:
    unit = spec.block_units
    if windows is not None and spec.classes is None:
        windows = windows * unit
    expected = golden.perform(codes, keys, results.time * unit if spec.timed else None, windows)
    names = ("seen", "age", "status", "oldest")
    wrong = [getattr(results, name) != getattr(expected, name) for name in names]
    return np.flatnonzero(np.any(wrong, axis=0))


def self_test_operations(spec: Specification) -> tuple[Any, Any, Any, int]:
    """Return the operation codes, keys and windows of a self-test, and the operations per tick."""
    # Half of the operations insert, at least two windows of keys. Keys repeat at distances of up to
    # two windows, short ones as often as long ones, and timestamps wrap around at least once.
    fields: dict[str, Any] = spec.to_dict()
    window = fields.get("window") or fields.get("cells") or 64
    # Number of operations per tick, or per block of insertions.
    rate = max(1, 2 * window // fields["span"]) if spec.timed else 2 * spec.block_units
    wrap = rate << (fields.get("stamp_bits") or fields.get("timestamp_bits") or 0)
    count, words = max(_MIN_OPERATIONS, 4 * window, wrap + wrap // 4), -(-spec.key_bits // 64)
    random = np.random.default_rng(1)
    rare = {"ring": Operation.SHIFT, "dictionary": Operation.REMOVE}.get(spec.kind, Operation.QUERY)
    codes = random.choice([Operation.QUERY, Operation.CHECK_AND_INSERT], count).astype(np.uint8)
    codes[random.integers(0, count, count // window)] = rare
    distances = random.integers(0, 1 << random.integers(0, (2 * window).bit_length() + 1, count))
    numbers = np.cumsum(codes == Operation.CHECK_AND_INSERT) - distances
    keys = numbers.astype(np.uint64)[:, None] * random.integers(0, 1 << 64, words, np.uint64)
    keys[:, -1] >>= np.uint64(-spec.key_bits % 64)
    first, last = int(spec.classes is None), layout.longest_query(spec)
    windows = random.integers(first, last + 1, count) if spec.query_field else None
    return codes, keys if words > 1 else keys[:, 0], windows, rate

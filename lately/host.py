"""Host side of a board: keys in, verdicts out, over a serial port."""

import struct
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .boards.link.protocol import (
    SECRET_BYTES,
    STATISTICS,
    Check,
    Information,
    Request,
    batch_operations,
    key_bytes,
    spec_digest,
)
from .golden.errors import SpecificationError
from .golden.hash.keys import check_keys
from .golden.hash.siphash import check_secret
from .golden.operations import Operation, Verdicts
from .golden.spec import PRESETS, FilterSpec
from .session import HostError, Session


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

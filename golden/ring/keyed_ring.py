"""Secrets and state files of rings that count insertions."""

from typing import Any, Self

from numpy.typing import NDArray

from ..convenience import State
from ..errors import RekeyError, SpecificationError
from ..filter import CountedFilter
from ..hash.siphash import check_secret
from ..spec import FilterSpec
from .compiled_segments import CompiledSegments, PackedSegments
from .layout import Layout
from .position import RingPosition
from .segments import Segments
from .slices import unpacked


class KeyedRing(CountedFilter):
    """Mixin of `SlidingFilter` for secrets and state files."""

    partitioned: bool
    _spec: FilterSpec
    _ring: RingPosition
    _layout: Layout
    _segments: Segments | CompiledSegments

    @property
    def spec(self) -> FilterSpec:
        """Specification of the filter."""
        return self._spec

    # Secrets

    def rekey(self, secret: int) -> None:
        """Load a new secret: at most 128 bits, random, and unknown to any attacker.

        With ``spec.rekey``, the segment that enters the ring at the next shift gets the secret.
        Older segments keep their secret, and no key is forgotten. Without ``spec.rekey``, the
        secret takes effect in all segments at the next clear; a later secret replaces it. In either
        case a clear gives all segments the newest secret.

        Raises
        ------
        RekeyError
            If `rekey_ready` is False. Nothing changes then.
        TypeError, ValueError, SpecificationError
            If the `secret` is wrong; as for `SlidingFilter`.
        """
        secret = self._checked_secret(secret)
        if not self.rekey_ready:
            # A waiting secret enters at one shift; then all segments except one are older.
            ring = self._ring
            left = ring.older if ring.waiting is None else self.spec.ring_segments
            raise RekeyError(
                f"rekey: must come when all segments of the ring have one secret, "
                f"not {left} shift{'s' if left > 1 else ''} before"
            )
        self._ring.waiting = secret

    @property
    def rekey_ready(self) -> bool:
        """Whether `rekey` takes a secret now.

        With ``spec.rekey``, True when no secret waits for its shift and all segments of the ring
        have the same secret: at most two secrets are in use, and the spare does not count. Without
        ``spec.rekey``, always True.
        """
        return not self.spec.rekey or (self._ring.waiting is None and self._ring.older == 0)

    @property
    def secrets(self) -> list[int]:
        """Secrets of the ring's segments, youngest to oldest; zeros if the hash takes none."""
        return [self._ring.secret_of(index) for index in range(self.spec.ring_segments)]

    def _checked_secret(self, secret: int) -> int:
        if self.spec.hash != "siphash":
            raise SpecificationError(
                f"secret: must not be given for hash {self.spec.hash}, which takes none"
            )
        return check_secret(secret)

    # Files

    @property
    def parameters(self) -> dict[str, Any]:
        """Specification and form, from which a state file builds the filter."""
        return {"spec": self.spec.to_dict(), "partitioned": self.partitioned}

    @classmethod
    def _specified(cls, parameters: dict[str, Any]) -> FilterSpec:
        return FilterSpec.from_dict(parameters["spec"])

    @classmethod
    def _build(cls, parameters: dict[str, Any]) -> Self:
        return cls(spec=cls._specified(parameters), partitioned=parameters["partitioned"])

    @property
    def _private(self) -> bool:
        return self.spec.hash == "siphash"

    def _state(self) -> State:
        ring = self._ring
        numbers: dict[str, Any] = {
            "ring": ring.numbers(),
            "counters": [self.operations, ring.insertions, self.hits, ring.shifts],
        }
        if self._private:
            # Without the secrets the bits are useless.
            numbers["secrets"] = [ring.secret, ring.older_secret, ring.older, ring.waiting]
        return numbers, super()._state()[1]

    def _arrays(self) -> dict[str, tuple[NDArray[Any], int]]:
        packed = self._segments.packed()
        return {"memory": (packed.memory, packed.largest)}

    def _hold(self, arrays: dict[str, NDArray[Any]]) -> None:
        self._segments = self._segments.holding(arrays["memory"])
        self._engine = self._segments.engine

    def _restore(self, numbers: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        operations, insertions, hits, shifts = numbers["counters"]
        self._ring.set_numbers(numbers["ring"], insertions, shifts)
        if not all(type(number) is int and number >= 0 for number in (operations, hits)):
            raise ValueError(f"counters {operations}, {hits} do not fit the specification")
        self.operations, self._inserted_keys, self.hits = operations, insertions, hits
        if self._private:
            self._ring.set_secrets(*numbers["secrets"])
        if "bits" in arrays:  # Format 2.
            shape, packed = (self.spec.segments, self._layout.bits), PackedSegments(self._layout)
            packed.bits = unpacked(arrays["bits"], shape[0] * shape[1]).reshape(shape)
            arrays = {"memory": packed.memory}
        super()._restore(numbers, arrays)

    def _identity(self) -> Any:
        return self._ring.identity()

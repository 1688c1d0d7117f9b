"""What the count-based filters have in common: a ring of segments that turns.

A segment is a Bloom filter that is written for some generations, then only
read, then cleared. An insertion writes the `run` youngest segments. A key is
reported when `run` consecutive segments match. The age-partitioned filters
are this with a hash function per segment (APBF, sections 5.1 and 6); the
guarded-epoch filters are this with a run of 1 and the same hash function
everywhere (GEBF, methodology).

The papers' rings have no spare. Here there is one segment more, always empty,
which takes the place of the one that a shift retires: physical segments keep
their hash functions in hardware, so the spare has one too, and golden turns
through the same positions.

With a keyed hash, a secret belongs to a segment from the shift on with which
the segment comes into the ring until it leaves it: an insertion writes each
segment, and a query asks each, by that segment's own secret. Hence a new
secret forgets no key. The spare is empty, and its secret counts for nothing.
"""

import os
from copy import copy
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import analysis
from .errors import RekeyError, SpecificationError, StateFileError
from .hashing import KeyHash
from .operations import Operation, Verdicts
from .siphash import check_secret
from .spec import FilterSpec
from .states import read_state, write_state

_Filter = TypeVar("_Filter", bound="SlidingFilter")

_CHUNK = 1 << 15
FORMAT = "lately-filter-1"
"""Of the state files that `SlidingFilter.save` writes."""


class SlidingFilter:
    """Base of the count-based filters; built through a subclass or `from_spec`.

    Parameters
    ----------
    spec : FilterSpec
        What to build.
    partitioned : bool
        Whether each hash function of a segment has a part of its own. False
        lets all of them share the segment's (or block's) bits.
    secret : int
        For ``spec.hash`` "siphash", 128 bits at most: what all segments start
        with. It must be random and known to no one who chooses keys.

    Attributes
    ----------
    spec : FilterSpec
    partitioned : bool
    insertions : int
        Insertions since construction.
    hits : int
        Queries of `check_and_insert` and `apply` that reported a key.
    operations : int
        Operations of `insert`, `check_and_insert` and `apply`.
    shifts : int
        Shifts since construction, forced ones included.

    Raises
    ------
    TypeError
        If the secret is not an integer.
    ValueError
        If it has more than 128 bits.
    SpecificationError
        If there is one, and the hash of the specification takes none.
    """

    families: tuple[str, ...] = ()

    def __init__(self, spec: FilterSpec, *, partitioned: bool = True, secret: int = 0) -> None:
        if spec.family not in self.families:
            raise SpecificationError(
                f"family: must be {' or '.join(self.families)} for {type(self).__name__}, "
                f"not {spec.family!r}"
            )
        self.spec = spec
        self.partitioned = partitioned
        sizes = spec.index_sizes
        if not partitioned:
            if spec.family not in ("gebf", "blocked-gebf"):
                raise SpecificationError(f"partitioned: must be True for {spec.family}, not False")
            if spec.shards > 1:
                raise SpecificationError("partitioned: must be True for several lanes, not False")
            together = spec.block_bits or spec.bits // spec.ring_segments
            sizes = sizes[: -spec.parts] + (together,) * spec.parts
        self._hash = KeyHash(
            key_bits=spec.key_bits,
            sizes=sizes,
            functions=spec.hash_functions,
            seed=spec.seed,
            hash=spec.hash,
            shards=spec.shards,
        )
        keyed = secret or spec.hash == "siphash"
        self._secret = self._checked_secret(secret) if keyed else 0
        self._waiting: int | None = None
        # The oldest segments of the ring that have the secret before the present one.
        self._older = 0
        self._older_secret = 0
        self._cells = sizes[-1] if not partitioned else spec.cells
        self._blocks = spec.segment_blocks
        self._bits = self._blocks * self._cells * (spec.parts if partitioned else 1)
        self._memory = np.zeros((spec.segments, self._bits), np.bool_)
        self._first = np.zeros(self._bits, np.int32)
        self._base = 0
        self._filled = 0
        self._generation = self._length = spec.generation
        self.operations = self.insertions = self.hits = self.shifts = 0

    @classmethod
    def from_spec(cls, spec: FilterSpec, *, secret: int = 0) -> Self:
        """Build the filter that a specification of the class's family describes.

        Parameters
        ----------
        spec : FilterSpec
            What to build.
        secret : int
            What all segments start with, if ``spec.hash`` is "siphash".

        Raises
        ------
        SpecificationError
            If the family is another, or the hash takes no secret.
        TypeError
            If the secret is not an integer.
        ValueError
            If the secret is negative, or has more than 128 bits.
        """
        self = cls.__new__(cls)
        SlidingFilter.__init__(self, spec, secret=secret)
        return self

    # Operations

    def insert(self, keys: ArrayLike) -> None:
        """Insert keys one after another.

        Parameters
        ----------
        keys : array_like of int
            Shape (n,) for keys of 64 bits or fewer; else shape (n, words),
            least significant 64-bit word first.

        Raises
        ------
        TypeError
            If the keys are not integers.
        ValueError
            If the shape is wrong, or a key does not fit into ``spec.key_bits``.
        """
        self._apply_all(Operation.INSERT, keys)

    def check_and_insert(self, keys: ArrayLike) -> NDArray[np.bool_]:
        """Query and insert keys one after another; each answer is from before its insertion.

        Parameters, errors: as `insert`.

        Returns
        -------
        ndarray of bool, shape (n,)
        """
        return self._apply_all(Operation.CHECK_AND_INSERT, keys).seen

    def query(self, keys: ArrayLike) -> NDArray[np.bool_]:
        """Ask for keys; changes nothing, the counters included.

        Parameters, errors: as `insert`.

        Returns
        -------
        ndarray of bool, shape (n,)
        """
        return self.age(keys) >= 0

    def age(self, keys: ArrayLike) -> NDArray[np.int16]:
        """Find the youngest generation that each key can be of; changes nothing.

        Parameters, errors: as `insert`.

        Returns
        -------
        ndarray of int16, shape (n,)
            0 for the current generation, -1 for a key that is not reported.
        """
        checked = self._hash.check_keys(keys)
        ages = np.empty(len(checked), np.int16)
        for start in range(0, len(checked), _CHUNK):
            part = slice(start, start + _CHUNK)
            states = _States(self._hash, checked[part])
            matches = [
                self._memory[segment][
                    self._positions(states.under(self._secret_of(index)), segment)
                ].all(axis=1)
                for index, segment in enumerate(self._ring())
            ]
            ages[part] = self._ages(np.array(matches))
        return ages

    def apply(self, operations: ArrayLike, keys: ArrayLike) -> Verdicts:
        """Perform a mixed sequence of operations, one after another.

        Parameters
        ----------
        operations : array_like of int, shape (n,)
            Values of `Operation`.
        keys : array_like of int
            One key per operation, also for those that ignore it; as `insert`.

        Returns
        -------
        Verdicts

        Raises
        ------
        TypeError
            If the operations are not integers; and as `insert`.
        ValueError
            If the lengths differ, or a value is not an `Operation`; and as
            `insert`. Nothing is performed then.
        """
        checked = self._hash.check_keys(keys)
        codes = np.asarray(operations)
        if codes.shape != (len(checked),):
            raise ValueError(
                f"operations: must have shape ({len(checked)},) like the keys, not {codes.shape}"
            )
        if len(codes) and codes.dtype.kind not in "ui":
            raise TypeError(f"operations: must be integers, not {codes.dtype}")
        known = np.isin(codes, list(Operation))
        if not known.all():
            raise ValueError(f"operations: must be values of Operation, not {codes[~known][0]}")
        verdicts = Verdicts(np.zeros(len(codes), np.bool_), np.full(len(codes), -1, np.int16))
        for start in range(0, len(codes), _CHUNK):
            part = slice(start, start + _CHUNK)
            states = _States(self._hash, checked[part])
            verdicts.age[part] = self._apply_chunk(codes[part].astype(np.uint8), states)
        np.greater_equal(verdicts.age, 0, out=verdicts.seen)
        self.operations += len(codes)
        self.hits += int(verdicts.seen.sum())
        return verdicts

    def shift(self) -> None:
        """Start a new generation now; as the operation SHIFT."""
        self._apply_all(Operation.SHIFT, np.zeros(self._key_shape(1), np.uint64))

    def clear(self) -> None:
        """Forget everything; as the operation CLEAR. The counters go on.

        All segments take the newest secret, one that waits included.
        """
        self._apply_all(Operation.CLEAR, np.zeros(self._key_shape(1), np.uint64))

    @property
    def generation(self) -> int:
        """Insertions in a generation. A new value counts from the next shift or clear on.

        Raises
        ------
        TypeError
            On setting what is not an integer.
        ValueError
            On setting less than 1.
        """
        return self._generation

    @generation.setter
    def generation(self, value: int) -> None:
        if isinstance(value, bool) or not isinstance(value, int | np.integer):
            raise TypeError(f"generation: must be an integer, not {value!r}")
        if value < 1:
            raise ValueError(f"generation: must be at least 1, not {value!r}")
        self._generation = int(value)

    # Secrets

    def rekey(self, secret: int) -> None:
        """Load a new secret.

        With ``spec.rekey`` it is that of the next segment that comes into the
        ring, at the next shift, whatever causes it. The segments before keep
        theirs, and no key is forgotten. Without ``spec.rekey`` it is that of
        all segments from the next clear on; one loaded later takes its place.
        A clear gives all segments the newest secret in either case.

        Parameters
        ----------
        secret : int
            128 bits at most, random, and known to no one who chooses keys.

        Raises
        ------
        RekeyError
            If `rekey_ready` is False. Nothing is changed then.
        SpecificationError
            If ``spec.hash`` takes no secret.
        TypeError
            If the secret is not an integer.
        ValueError
            If the secret is negative, or has more than 128 bits.
        """
        secret = self._checked_secret(secret)
        if not self.rekey_ready:
            # A secret that waits comes in at one shift; then all segments but one are older.
            left = self._older if self._waiting is None else self.spec.ring_segments
            raise RekeyError(
                f"rekey: must come when all segments of the ring have one secret, "
                f"not {left} shift{'s' if left > 1 else ''} before"
            )
        self._waiting = secret

    @property
    def rekey_ready(self) -> bool:
        """Whether `rekey` takes a secret now.

        With ``spec.rekey``, when no secret waits for its shift and all
        segments of the ring have the same one: two are alive at most, and the
        spare counts for nothing. Without ``spec.rekey``, always.
        """
        return not self.spec.rekey or (self._waiting is None and self._older == 0)

    @property
    def secrets(self) -> list[int]:
        """Secrets of the segments of the ring, youngest to oldest; zeros if the hash has none."""
        return [self._secret_of(index) for index in range(self.spec.ring_segments)]

    # State

    @property
    def ring_position(self) -> int:
        """Physical segment that is the youngest now."""
        return self._base

    @property
    def memory(self) -> NDArray[np.bool_]:
        """Bits of all physical segments, the empty spare included.

        Returns
        -------
        ndarray of bool, shape (segments, parts, part_bits)
            ``part_bits`` counts blocks first, then the cells of a block. The
            middle axis has length 1 if the filter is not partitioned.
        """
        parts = self.spec.parts if self.partitioned else 1
        return np.array(self._memory.reshape(len(self._memory), parts, -1))

    def segment(self, index: int) -> NDArray[np.bool_]:
        """Bits of the segment `index` of the ring, 0 being the youngest; as in `memory`."""
        memory: NDArray[np.bool_] = self.memory[self._ring()[index]]
        return memory

    def fill_ratios(self) -> NDArray[np.float64]:
        """Share of set bits of each segment of the ring, youngest to oldest.

        Returns
        -------
        ndarray of float64, shape (ring_segments,)
        """
        ratios: NDArray[np.float64] = self._memory[self._ring()].mean(axis=1)
        return ratios

    def estimated_false_positive_rate(self) -> float:
        """Probability that a fresh key is reported now, from the bits that are set.

        The recursion F (APBF, section 5.3) over the probability of a match in
        each segment, which for blocks is the mean over the blocks.
        """
        parts = self.spec.parts
        fills = []
        for segment in self._ring():
            shape = (parts if self.partitioned else 1, self._blocks, self._cells)
            shares = self._memory[segment].reshape(shape).mean(axis=2)
            matches = shares.prod(axis=0) if self.partitioned else shares[0] ** parts
            fills.append(float(matches.mean()))
        return analysis.apbf_false_positive_rate(
            self.spec.run, self.spec.window_generations, fills=fills
        )

    def __eq__(self, other: object) -> bool:
        """Whether both filters are of one specification and in one state, counters apart.

        Secrets are part of the state.
        """
        if not isinstance(other, SlidingFilter):
            return NotImplemented
        return self._position() == other._position() and bool(
            np.array_equal(self._memory, other._memory)
        )

    __hash__ = None  # type: ignore[assignment]

    # Files

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the whole state to an npz file, which appears complete or not at all.

        If ``spec.hash`` is "siphash", the secrets are part of it, as the bits
        say nothing without them. They are not encrypted: who reads the file
        can choose keys that collide. Its mode lets none but the owner read it.

        Parameters
        ----------
        path : path

        Raises
        ------
        OSError
            If the file cannot be written.
        """
        keyed = self.spec.hash == "siphash"
        values: dict[str, Any] = {
            "format": FORMAT,
            "spec": self.spec.to_dict(),
            "partitioned": self.partitioned,
            "state": [self._base, self._filled, self._length, self._generation],
            "counters": [self.operations, self.insertions, self.hits, self.shifts],
        }
        if keyed:
            values["secrets"] = [self._secret, self._older_secret, self._older, self._waiting]
        write_state(path, values, {"bits": np.packbits(self._memory)}, private=keyed)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a state that `save` wrote.

        Parameters
        ----------
        path : path

        Raises
        ------
        StateFileError
            If the file is not one, is damaged, or holds another family.
        OSError
            If the file cannot be read.
        """
        return cls.from_state(os.fspath(path), *read_state(path, (FORMAT,)))

    @classmethod
    def from_state(cls, name: str, header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Self:
        """Build the filter of a state file; parameters, errors as for `Filter.from_state`."""
        try:
            bits = arrays["bits"]
            spec = FilterSpec.from_dict(header["spec"])
            owner = next(known for known in _subclasses(cls) if spec.family in known.families)
            self = owner.__new__(owner)
            SlidingFilter.__init__(self, spec, partitioned=bool(header["partitioned"]))
            self._base, self._filled, self._length, self._generation = header["state"]
            self.operations, self.insertions, self.hits, self.shifts = header["counters"]
            self._check_loaded(header["state"] + header["counters"], bits)
            if spec.hash == "siphash":
                self._load_secrets(*header["secrets"])
            unpacked = np.unpackbits(bits, count=self._memory.size)
        except StopIteration:
            raise StateFileError(
                f"{name}: expected the state of {cls.__name__}, found family {spec.family}"
            ) from None
        except (KeyError, TypeError, ValueError) as error:
            raise StateFileError(f"{name}: damaged filter state: {error}") from None
        self._memory[:] = unpacked.reshape(self._memory.shape)
        return self

    # Inside

    def _check_loaded(self, numbers: list[Any], bits: NDArray[np.uint8]) -> None:
        possible = (
            all(type(number) is int and number >= 0 for number in numbers)
            and self._base < self.spec.segments
            and self._filled <= self._length
            and min(self._length, self._generation) >= 1
            and bits.size == -(-self._memory.size // 8)
        )
        if not possible:
            raise ValueError(f"numbers {numbers} or {bits.size} bytes do not fit the specification")

    def _load_secrets(self, secret: Any, older_secret: Any, older: Any, waiting: Any) -> None:
        self._secret, self._older_secret = check_secret(secret), check_secret(older_secret)
        self._waiting = None if waiting is None else check_secret(waiting)
        most = self.spec.ring_segments - 1 if self.spec.rekey else 0
        if type(older) is not int or not 0 <= older <= most:
            raise ValueError(f"{older} segments of an older secret do not fit the specification")
        if older and self.spec.rekey and waiting is not None:
            raise ValueError("three secrets, where two are possible")
        self._older = older

    def _checked_secret(self, secret: int) -> int:
        if self.spec.hash != "siphash":
            raise SpecificationError(
                f"secret: must not be given for hash {self.spec.hash}, which takes none"
            )
        return check_secret(secret)

    def _apply_all(self, operation: Operation, keys: ArrayLike) -> Verdicts:
        checked = self._hash.check_keys(keys)
        if checked.shape[1] == 1:
            checked = checked[:, 0]
        return self.apply(np.full(len(checked), operation, np.uint8), checked)

    def _key_shape(self, count: int) -> tuple[int, ...]:
        words = -(-self.spec.key_bits // 64)
        return (count,) if words == 1 else (count, words)

    def _position(self) -> tuple[Any, ...]:
        return (
            self.spec, self.partitioned,
            self._base, self._filled, self._length, self._generation,
            self.secrets, self._waiting,
        )  # fmt: skip

    def _ring(self) -> list[int]:
        """Physical segments in the ring, youngest to oldest."""
        segments = self.spec.segments
        return [(self._base + index) % segments for index in range(self.spec.ring_segments)]

    def _secret_of(self, index: int) -> int:
        """Secret of a segment of the ring, 0 being the youngest."""
        older = index >= self.spec.ring_segments - self._older
        return self._older_secret if older else self._secret

    def _positions(self, state: NDArray[np.uint64], segment: int) -> NDArray[np.intp]:
        """Bits of a segment that each state stands for, shape (n, parts)."""
        indices = self._hash.indices(state, segment % self._hash.functions)
        parts = self.spec.parts
        block = indices[0] * self._cells if len(indices) > parts else 0
        stride = self._blocks * self._cells if self.partitioned else 0
        if self.spec.shards > 1:
            block = block + self._hash.shard(state) * self.spec.shard_bits
        return np.stack(
            [part * stride + block + indices[part - parts] for part in range(parts)], axis=1
        )

    def _ages(self, matches: NDArray[np.bool_]) -> NDArray[np.int16]:
        """Reduce matches of shape (ring_segments, n), youngest first, to ages of shape (n,)."""
        starts = self.spec.window_generations + 1
        runs = matches[:starts].copy()
        for step in range(1, self.spec.run):
            runs &= matches[step : step + starts]
        return np.where(runs.any(axis=0), runs.argmax(axis=0), -1).astype(np.int16)

    def _turn(self) -> None:
        """Let the spare become the youngest segment, and the oldest the spare."""
        self._base = (self._base - 1) % self.spec.segments
        self._memory[(self._base - 1) % self.spec.segments] = False
        self._filled = 0
        self._length = self._generation
        self.shifts += 1
        self._older = max(0, self._older - 1)
        if self.spec.rekey and self._waiting is not None:
            self._older_secret, self._older = self._secret, self.spec.ring_segments - 1
            self._secret, self._waiting = self._waiting, None
        if self._older == 0:
            self._older_secret = 0

    def _erase(self) -> None:
        self._memory[:] = False
        self._base = self._filled = 0
        self._length = self._generation
        if self._waiting is not None:
            self._secret, self._waiting = self._waiting, None
        self._older = self._older_secret = 0

    def _apply_chunk(self, codes: NDArray[np.uint8], states: "_States") -> NDArray[np.int16]:
        queries = np.isin(codes, (Operation.QUERY, Operation.CHECK_AND_INSERT))
        inserts = np.isin(codes, (Operation.INSERT, Operation.CHECK_AND_INSERT))
        inserted = np.flatnonzero(inserts)
        controls = np.flatnonzero((codes == Operation.SHIFT) | (codes == Operation.CLEAR))
        ages = np.full(len(codes), -1, np.int16)
        start = 0
        while start < len(codes):
            if codes[start] == Operation.SHIFT:
                self._turn()
            elif codes[start] == Operation.CLEAR:
                self._erase()
            if inserts[start] and self._filled >= self._length:
                # Its query still sees the ring as it was; its insertion does not.
                if queries[start]:
                    one = slice(start, start + 1)
                    self._stretch(states.part(one), queries[one], ~queries[one], ages[one])
                    queries[start] = False
                self._turn()
            stop = len(codes)
            ahead = np.searchsorted(inserted, start)
            full = ahead + self._length - self._filled
            if full < len(inserted):
                stop = int(inserted[full])
            control = np.searchsorted(controls, start, side="right")
            if control < len(controls):
                stop = min(stop, int(controls[control]))
            stop = max(stop, start + 1)
            span = slice(start, stop)
            self._stretch(states.part(span), queries[span], inserts[span], ages[span])
            start = stop
        return ages

    def _stretch(
        self,
        states: "_States",
        queries: NDArray[np.bool_],
        inserts: NDArray[np.bool_],
        ages: NDArray[np.int16],
    ) -> None:
        """Perform operations during which the ring does not turn."""
        asked = bool(queries.any())
        written = bool(inserts.any())
        order = np.arange(len(queries), dtype=np.int32)[:, None]
        matches = []
        for index, segment in enumerate(self._ring()):
            writing = written and index < self.spec.run
            if not (asked or writing):
                continue
            positions = self._positions(states.under(self._secret_of(index)), segment)
            memory = self._memory[segment]
            before = memory[positions]
            if writing:
                if asked:
                    self._first[positions] = len(queries)
                    setters = np.broadcast_to(order, positions.shape)[inserts]
                    np.minimum.at(self._first, positions[inserts].ravel(), setters.ravel())
                    before |= self._first[positions] < order
                memory[positions[inserts]] = True
            matches.append(before.all(axis=1))
        if asked:
            ages[queries] = self._ages(np.array(matches))[queries]
        count = int(inserts.sum())
        self._filled += count
        self.insertions += count


class _States:
    """Hash states of keys under each of the secrets that are asked for, computed once."""

    def __init__(self, key_hash: KeyHash, keys: NDArray[np.uint64]) -> None:
        self._hash = key_hash
        self._keys = keys
        self._known: dict[int, NDArray[np.uint64]] = {}
        self._span = slice(None)

    def part(self, span: slice) -> "_States":
        """Return the same of a part of the keys."""
        part = copy(self)
        part._span = span
        return part

    def under(self, secret: int) -> NDArray[np.uint64]:
        """Return the states under a secret, shape (n,)."""
        if secret not in self._known:
            self._known[secret] = self._hash.state(self._keys, secret)
        return self._known[secret][self._span]


def _subclasses(cls: type[_Filter]) -> list[type[_Filter]]:
    return [cls, *(below for child in cls.__subclasses__() for below in _subclasses(child))]

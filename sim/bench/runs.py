"""The units of the test plan, and their daily and nightly runs."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from ...golden import Specification
from ...golden.spec.presets import any_preset
from .frames import FrameSettings
from .runner import SIMULATORS, run_filter_bench, run_frame_bench, unit_options
from .testplan import PLAN
from .unit import Settings

SEED = 20260807  # for all random choices
DAYS = 14  # every nightly run is due once in this many days


@dataclass(frozen=True)
class PlannedUnit:
    spec: Specification
    # Options of `run_filter_bench` or `run_frame_bench`.
    options: Mapping[str, Any] = field(default_factory=dict)
    daily: str = "icarus"  # `Run.words` of the daily run
    nightly: tuple[str, ...] = SIMULATORS  # `Run.words` of the nightly runs
    tests: tuple[str, ...] = ()  # run only these tests; empty: all that apply
    coverage: bool = False  # whether `campaigns.coverage_report` measures this unit

    @property
    def of_frames(self) -> bool:
        return "width" in self.options

    @cached_property
    def traits(self) -> frozenset[str]:
        if self.of_frames:
            unit = {name: value for name, value in self.options.items() if name != "count"}
            return FrameSettings(self.spec, unit).traits
        return Settings(self.spec, unit_options(self.spec, **self.options)).traits

    @cached_property
    def sentences(self) -> tuple[str, ...]:
        applying = [name for name, row in PLAN.items() if row.applies(self.traits)]
        return tuple(name for name in applying if name in (self.tests or applying))

    def run(
        self, simulator: str, directory: Path, tests: tuple[str, ...], **options: Any
    ) -> dict[str, bool]:
        bench = run_frame_bench if self.of_frames else run_filter_bench
        chosen = rf"\b({'|'.join(tests)})(/|$)"
        return bench(
            self.spec, simulator, directory, testcase=chosen, **{**self.options, **options}
        )


class Run(NamedTuple):
    unit: str
    words: str  # the simulator, then options: a memory, "inverted", or ``name=number``
    tests: tuple[str, ...]

    @property
    def name(self) -> str:
        return "-".join([self.unit, *self.words.split()])

    def perform(self, directory: Path) -> dict[str, bool]:
        simulator, *words = self.words.split()
        options: dict[str, Any] = {"seed": SEED}
        for word in words:
            name, _, number = word.partition("=")
            if number:
                options[name] = int(number)
            else:
                options |= {"inverted": True} if word == "inverted" else {"memory": word}
        return UNITS[self.unit].run(simulator, directory, self.tests, **options)


def _read() -> tuple[tuple[str, ...], dict[str, PlannedUnit]]:
    plan = tomllib.loads(files(__package__).joinpath("testplan.toml").read_text("utf-8"))
    units: dict[str, PlannedUnit] = {}
    for name, row in plan["units"].items():
        like, fields = row.pop("like", None), row.pop("spec", {})
        options = row.pop("options", {})
        if like in units:
            options = {**units[like].options, **options}
            spec: Any = replace(units[like].spec, **fields)
        elif like is None:
            spec = Specification.from_dict(fields)
        else:
            spec = replace(any_preset(like), **fields)
        lists = {"nightly", "tests"}
        others: dict[str, Any] = {
            key: tuple(value) if key in lists else value for key, value in row.items()
        }
        units[name] = PlannedUnit(spec, options, **others)
    return tuple(plan["kinds"]), units


# Kinds of units, given by traits, and all units by name. One unit of each kind runs daily.
KINDS, UNITS = _read()


def daily_runs() -> list[Run]:
    return [
        Run(name, unit.daily, tests)
        for name, unit in UNITS.items()
        if (tests := tuple(test for test, row in PLAN.items() if name in row.daily))
    ]


def nightly_runs(day: int | None = None) -> list[Run]:
    """Return the runs of all tests on all units; with `day`, only the runs due on that day."""
    runs = [
        Run(name, words, unit.sentences) for name, unit in UNITS.items() for words in unit.nightly
    ]
    return runs if day is None else runs[day % DAYS :: DAYS]

"""The test plan: each statement of the units' contract, with its test and its units.

The plan is the file `testplan.toml`. A test is an ordinary coroutine; `sentence` registers it for
the units in the plan.
"""

import functools
import os
import tomllib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import cocotb

from .unit import Settings, UnitUnderTest

MODULES = ("contract", "ring_contract", "lane_contract", "timing_contract", "dictionary_contract",
           "frame_contract")  # fmt: skip
"""Modules of this package that contain tests; each name is also a heading in the plan."""


@dataclass(frozen=True)
class Sentence:
    module: str
    test: str  # name of the function, in the module of this package
    text: str
    families: tuple[str, ...]  # traits of its units, comma-separated; or "all" filters
    daily: tuple[str, ...]  # names of the units on which the test runs daily

    def applies(self, traits: frozenset[str]) -> bool:
        return any(
            "frames" not in traits if family == "all" else traits.issuperset(family.split(", "))
            for family in self.families
        )


def _read() -> dict[str, Sentence]:
    plan = tomllib.loads(files(__package__).joinpath("testplan.toml").read_text("utf-8"))
    return {
        test: Sentence(module, test, row["sentence"], tuple(row["families"]), tuple(row["daily"]))
        for module in MODULES
        for test, row in plan[module].items()
    }


PLAN = _read()  # all statements, by the names of their tests


def sentence(**parameters: Any) -> Callable[[Callable[..., Awaitable[None]]], Any]:
    """Register a test of the plan, if its statement applies to the unit in the environment.

    The test receives a unit after reset. `parameters` are those of `cocotb.parametrize`.
    """

    def register(function: Callable[..., Awaitable[None]]) -> Any:
        row = PLAN[function.__name__]
        function.__doc__ = row.text
        if "LATELY_SPEC" not in os.environ or not row.applies(_settings().traits):
            return function

        @functools.wraps(function)
        async def test(dut, **values: Any) -> None:
            await check(function, dut, _settings(), **values)

        return cocotb.test()(cocotb.parametrize(**parameters)(test) if parameters else test)

    return register


@functools.cache
def _settings() -> Settings:
    return Settings.of_environment()


async def check(
    function: Callable[..., Awaitable[None]], dut, settings: Settings, **values: Any
) -> None:
    bench = await UnitUnderTest.start(dut, settings)
    await function(bench, **values)
    await bench.finish()
    if settings.coverage:
        from .coverage import collect, count, moments, unit_points

        performed = moments(bench.performed, bench.secrets)
        collect(settings.coverage, count(unit_points(settings), performed))

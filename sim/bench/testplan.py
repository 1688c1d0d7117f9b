"""The test plan: each statement of the units' contract, with its test and its units.

The plan is the file `testplan.toml`. Tests are coroutines that a decorator registers.
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

# Modules of this package that contain tests; each name is also a heading in the plan.
MODULES = ("contract", "ring_contract", "lane_contract", "timing_contract", "dictionary_contract",
           "frame_contract")  # fmt: skip


@dataclass(frozen=True)
class Sentence:
    module: str
    test: str  # name of the function
    text: str
    families: tuple[str, ...]  # "all" (filters), or required traits, separated by commas
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


def register(
    settings: Callable[[], Settings],
    check: Callable[..., Awaitable[None]],
    *,
    parameters: dict[str, Any] | None = None,
    **options: Any,
) -> Callable[[Callable[..., Awaitable[None]]], Any]:
    """Return a decorator that registers a test if its statement applies to the unit under test.

    `check` is called with the decorated function and the design; `options` are those of
    `cocotb.test`, and `parameters` those of `cocotb.parametrize`.
    """

    def decorate(function: Callable[..., Awaitable[None]]) -> Any:
        row = PLAN[function.__name__]
        function.__doc__ = row.text
        if "LATELY_SPEC" not in os.environ or not row.applies(settings().traits):
            return function

        @functools.wraps(function)
        async def test(dut, **values: Any) -> None:
            await check(function, dut, **values)

        return cocotb.test(**options)(
            cocotb.parametrize(**parameters)(test) if parameters else test
        )

    return decorate


_settings = functools.cache(Settings.of_environment)


def sentence(**parameters: Any) -> Callable[[Callable[..., Awaitable[None]]], Any]:
    """Return a decorator that registers a test; the test receives a `UnitUnderTest` after reset."""
    return register(_settings, _check, parameters=parameters)


async def _check(function: Callable[..., Awaitable[None]], dut, **values: Any) -> None:
    settings = _settings()
    bench = await UnitUnderTest.start(dut, settings)
    await function(bench, **values)
    await bench.finish()
    if settings.coverage:
        from .coverage import collect, count, moments, unit_points

        performed = moments(bench.performed, bench.secrets)
        collect(settings.coverage, count(unit_points(settings), performed))

"""Run the cocotb benches under Verilator and Icarus."""

import json
import os
import random
import re
import shutil
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import cocotb_tools.config
from cocotb_tools.runner import get_runner

from ...golden.spec.base import VARIABLE as FAMILIES
from ...golden.spec.base import Specification
from ...hdl.bus.controlled import COUNTER_BITS
from ...hdl.packets.deduplicator import AxisFrames
from ...hdl.verilog import TOP, convert, time_options, unit_verilog
from ..toolchain import (
    PRECOMPILED_HEADER_FLAG,
    ToolError,
    cell_models,
    models,
    path_without_spaces,
    shared_runtime,
    verilator_environment,
)
from .frames import FrameSettings
from .netlist import unit_netlist
from .testplan import PLAN
from .unit import Settings

SIMULATORS = ("verilator", "icarus")
BENCH_TIME_BITS = 8  # width of times in the benches; so small that times soon wrap
# In a run with coverage: the files of situations and of line and toggle counts, the width of the
# unit's counters, and the maximum widths of signals whose toggles are counted.
FUNCTIONAL = "functional.json"
COUNTS = "verilator/coverage.dat"
COVERED_STATISTICS_BITS = 4
COVERED_BITS = 256
COVERED_BEAT_BITS = 1024  # for deduplicators, whose beats have up to 512 bits

# A bench runs for few cycles, so optimised code would take longer to compile than it saves.
_MAKE_FLAGS = "OPT_FAST=-O0 OPT_SLOW=-O0 OPT_GLOBAL=-O0"


def run_filter_bench(
    spec: Specification,
    simulator: str,
    directory: Path,
    *,
    synthesis: Sequence[str] = (),
    testcase: str | None = None,
    coverage: bool = False,
    **options: Any,
) -> dict[str, bool]:
    """Run the test plan on a unit of any family; return whether each test passed, by name.

    `simulator` is one of `SIMULATORS`, and all files are written to `directory`. `testcase` is a
    regular expression that selects tests. If `synthesis` contains a yosys synthesis command and its
    options, the design is the netlist that the command generates; the bits of a portable memory in
    a netlist are not compared. With `coverage`, situations are written to `FUNCTIONAL`, and line
    and toggle counts to `COUNTS`. Options are the ``seed`` of all random choices, ``inverted`` (see
    `lately.sim.toolchain.models`), and the options of the unit.
    """
    run, unit = _split(options), unit_options(spec, **options)
    environment = _environment(spec, directory, run["seed"], unit)
    # Units without ticks ignore this option.
    timed: dict[str, Any] = {"ticks": "tick", "time_bits": BENCH_TIME_BITS} | unit
    if synthesis:
        netlist = unit_netlist(spec, synthesis, directory=directory, **timed)
        cells = directory.resolve() / "cells.v"
        cells.write_text(netlist.cells)
        environment["LATELY_NETLIST"] = "1"
        text = netlist.text
        blocks = [cells, *cell_models(*netlist.unmodelled, inverted=run["inverted"])]
    else:
        counter_bits = COVERED_STATISTICS_BITS if coverage else 32
        text = unit_verilog(spec, statistics_bits=counter_bits, **timed)
        blocks = models(unit.get("memory", "portable"), inverted=run["inverted"])
    traits = Settings(spec, unit).traits
    modules = [f"{__package__}.{row.module}" for row in PLAN.values() if row.applies(traits)]
    return run_bench(
        text,
        list(dict.fromkeys(modules)),
        simulator,
        directory,
        environment=environment,
        models=blocks,
        testcase=testcase,
        coverage=COVERED_BITS if coverage else 0,
    )


def replay_steps(
    spec: Specification,
    steps: Sequence[tuple[str, dict[str, Any]]],
    simulator: str,
    directory: Path,
    **options: Any,
) -> tuple[bool, Path]:
    """Play the steps of a scenario on a unit; return whether it passed, and the waveform file.

    Options are the ``seed``, and the options of `lately.sim.CompiledUnit`.
    """
    directory.mkdir(parents=True, exist_ok=True)
    options["self_check"] = options.pop("check", False)
    run = _split(options)
    unit = time_options(spec, ticks=options.pop("ticks", None)) | options
    path = directory / "steps.json"
    path.write_text(json.dumps(steps))
    environment = _environment(spec, directory, run["seed"], unit)
    passed = run_bench(
        unit_verilog(spec, **unit),
        [f"{__package__}.scenario_bench"],
        simulator,
        directory,
        environment=environment | {"LATELY_STEPS": str(path.resolve())},
        models=models(unit.get("memory", "portable"), inverted=run["inverted"]),
        waves=True,
    )
    (path,) = (directory / simulator).glob("*.fst" if simulator == "icarus" else "dump.*")
    return all(passed.values()) and bool(passed), path


def run_frame_bench(
    spec: Specification,
    simulator: str,
    directory: Path,
    *,
    modules: Sequence[str] = (f"{__package__}.frame_contract",),
    count: int = 20,
    testcase: str | None = None,
    coverage: bool = False,
    **options: Any,
) -> dict[str, bool]:
    """Run the tests in `modules` on a frame deduplicator; return whether each passed, by name.

    `count` is the number of frames that a test sends at a time. The other parameters are those of
    `run_filter_bench`.
    """
    run = _split(options)
    unit = options | {"statistics_bits": COVERED_STATISTICS_BITS if coverage else COUNTER_BITS}
    frames = FrameSettings(spec, unit).unit
    environment = _environment(spec, directory, run["seed"], unit)
    return run_bench(
        convert(AxisFrames(frames)),
        modules,
        simulator,
        directory,
        environment=environment | {"LATELY_COUNT": str(count)},
        models=models(unit.get("memory", "portable"), inverted=run["inverted"]),
        testcase=testcase,
        coverage=COVERED_BEAT_BITS if coverage else 0,
    )


def unit_options(spec: Specification, *, ticks: str = "tick", **options: Any) -> dict[str, Any]:
    return time_options(spec, ticks=ticks, time_bits=BENCH_TIME_BITS) | options


def _split(options: dict[str, Any]) -> dict[str, Any]:
    return {name: options.pop(name, default) for name, default in (("seed", 1), ("inverted", 0))}


def _environment(
    spec: Specification, directory: Path, seed: int, unit: dict[str, Any]
) -> dict[str, str]:
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / "spec.toml"
    spec.to_toml(path)
    return {
        "LATELY_SPEC": str(path.resolve()),
        FAMILIES: type(spec).__module__,
        "LATELY_SEED": str(seed),
        "LATELY_UNIT": json.dumps(unit),
    }


def run_bench(
    text: str,
    modules: Sequence[str],
    simulator: str,
    directory: Path,
    *,
    environment: dict[str, str],
    models: Sequence[Path] = (),
    testcase: str | None = None,
    coverage: int = 0,
    waves: bool = False,
) -> dict[str, bool]:
    """Run cocotb tests on the design in `text`, whose top module is `lately.hdl.verilog.TOP`.

    Memories have random initial contents. `coverage` is the maximum width of a signal whose toggles
    are counted; 0 means that no coverage is collected.
    """
    # Each simulator runs in its own folder.
    directory = directory.resolve()
    directory.mkdir(parents=True, exist_ok=True)
    if coverage:
        environment = environment | {"LATELY_COVERAGE": str(directory / FUNCTIONAL)}
    arguments: list[str] = []
    building: AbstractContextManager[None] = nullcontext()
    if simulator == "verilator":
        # The runner calls `verilator`, so ours must be first on PATH.
        os.environ.update(verilator_environment())
        for name in ("libs_dir", "share_dir"):
            folder = path_without_spaces(getattr(cocotb_tools.config, name))
            setattr(cocotb_tools.config, name, folder)
        os.environ["MAKEFLAGS"] = f"{PRECOMPILED_HEADER_FLAG} {_MAKE_FLAGS}"
        arguments = ["-Wno-fatal", "-Wno-lint", "-Wno-style", "--x-initial", "fast"]
        if coverage:
            arguments += ["--coverage-line", "--coverage-toggle"]
            arguments += ["--coverage-max-width", str(coverage)]
        building = shared_runtime(directory / simulator, f"bench, coverage {coverage > 0}")
    elif shutil.which("iverilog") is None:
        raise ToolError("iverilog not found on PATH; install Icarus Verilog")
    else:
        text = _woken(text)
    (directory / "top.v").write_text(_filled(text, environment["LATELY_SEED"]))
    runner = get_runner(simulator)
    with building:
        runner.build(
            sources=[directory / "top.v", *models],
            hdl_toplevel=TOP,
            build_dir=directory / simulator,
            build_args=arguments,
            defines={"LATELY_SEED": environment["LATELY_SEED"], "LATELY_FILLED": "1"},
            timescale=("1ns", "1ps"),
            waves=waves,
            log_file=directory / f"{simulator}-build.log",
        )
    results = directory / f"{simulator}.xml"
    # Under pytest, the runner exits if a test fails. The results file lists the failures.
    with suppress(SystemExit):
        runner.test(
            hdl_toplevel=TOP,
            test_module=list(modules),
            build_dir=directory / simulator,
            test_dir=directory / simulator,
            results_xml=str(results),
            plusargs=[f"+verilator+seed+{environment['LATELY_SEED']}"],
            # By default pytest rewrites every import, which takes longer than most benches.
            extra_env=environment | {"COCOTB_REWRITE_ASSERTION_FILES": "*contract.py *_bench.py"},
            test_filter=testcase,
            waves=waves,
            log_file=directory / f"{simulator}.log",
        )
    cases = ElementTree.parse(results).iter("testcase")
    return {case.get("name", "?"): case.find("failure") is None for case in cases}


def _woken(text: str) -> str:
    """Make Icarus run every `always @*` once at the start.

    In the output of yosys, each block depends on a variable that only has an initial value. Icarus
    does not treat an initial value as an event, so the variable is changed at time 1.
    """
    return re.sub(
        r"(\n  reg (\\\$auto\$verilog_backend\S+) +=) 0;", r"\1 0;\n  initial #1 \2 = 1;", text
    )


def _filled(text: str, seed: str) -> str:
    """Replace the zeros in the initial contents of memories with random bits."""
    draw = random.Random(seed)

    def contents(block: re.Match[str]) -> str:
        return re.sub(
            r"(\d+)'h0+;", lambda word: f"{word[1]}'h{draw.getrandbits(int(word[1])):x};", block[0]
        )

    return re.sub(r"\n  initial begin\n(    \S+\[\d+\] = \d+'h0+;\n)+  end\n", contents, text)

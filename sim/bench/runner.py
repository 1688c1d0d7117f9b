"""Runs the cocotb benches under Verilator and Icarus."""

import json
import os
import random
import re
import shutil
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from xml.etree import ElementTree

import cocotb_tools.config
from amaranth.back import verilog
from cocotb_tools.runner import get_runner

from ...golden.spec import FilterSpec
from ...golden.spec.base import Specification
from ...golden.spec.dictionary_sizes import WindowDictionarySpec
from ...golden.spec.timestamp import StampedPartsSpec, TimedTimingSpec
from ...hdl.memory.variants import segment_memory
from ...hdl.verilog import TOP, unit_verilog
from ..netlist import unit_netlist
from ..toolchain import (
    PRECOMPILED_HEADER_FLAG,
    ToolError,
    cell_models,
    models,
    path_without_spaces,
    shared_runtime,
    verilator_environment,
)

SIMULATORS = ("verilator", "icarus")
"""Simulators that a bench runs under."""

FUNCTIONAL = "functional.json"
"""File of the functional bins that a run with coverage adds to."""

COUNTS = "verilator/coverage.dat"
"""File of the counts of lines and toggles that a run with coverage writes."""

COVERED_STATISTICS_BITS = 4
"""Width of a unit's counters in a run with coverage."""

BENCH_TIME_BITS = 8
"""Width of the times of units in benches: what comes round again comes soon."""

# A bench has few cycles: optimised code would take longer to compile than it saves.
_MAKE_FLAGS = "OPT_FAST=-O0 OPT_SLOW=-O0 OPT_GLOBAL=-O0"


def run_filter_bench(
    spec: Specification,
    simulator: str,
    directory: Path,
    *,
    seed: int = 1,
    memory: str = "portable",
    ticks: str = "tick",
    testcase: str | None = None,
    coverage: bool = False,
    inverted: bool = False,
) -> dict[str, bool]:
    """Run the bench of a unit: of a ring filter, a timing filter or a dictionary.

    Parameters
    ----------
    spec : Specification
        Of any family that has hardware.
    simulator : str
        One of `SIMULATORS`.
    directory : Path
        Working folder; its build is reused.
    seed : int
        Seed of all random choices.
    memory : str
        Variant of the memories; explicit block RAMs are simulated
        with models of their own, which answer with garbage what vendors leave undefined.
    ticks : str
        Where those of a window in time come from, as for `lately.hdl.unit.FilterUnit`, or those of
        a timing filter, as for `lately.hdl.timing.unit.TimingUnit`.
    testcase : str, optional
        Regular expression of the tests to run; all by default.
    coverage : bool
        Collect what the tests reach: functional bins in `FUNCTIONAL`, and lines and toggles in
        `COUNTS`, both in the folder; Verilator only. The counters of the unit are
        then `COVERED_STATISTICS_BITS` wide, so that they wrap within a test.
    inverted : bool
        The garbage of block RAMs is the inverse of what they hold, not random.

    Returns
    -------
    dict of str to bool
        Whether each test passed, by name.

    Raises
    ------
    ToolError
        If the simulator is missing.
    """
    directory.mkdir(parents=True, exist_ok=True)
    spec.to_toml(directory / "spec.toml")
    return run_bench(
        unit_verilog(
            spec,
            memory=memory,
            statistics_bits=COVERED_STATISTICS_BITS if coverage else 32,
            ticks=ticks,
            time_bits=BENCH_TIME_BITS,
        ),
        _modules(*_benches(spec, ticks)),
        simulator,
        directory,
        environment=_unit_environment(spec, directory, seed, memory, ticks)
        | ({"LATELY_COVERAGE": str(directory / FUNCTIONAL)} if coverage else {}),
        models=models(memory, inverted=inverted),
        testcase=testcase,
        coverage=coverage,
    )


def run_netlist_bench(
    spec: Specification,
    simulator: str,
    directory: Path,
    *,
    synthesis: Sequence[str],
    seed: int = 1,
    memory: str = "portable",
    ticks: str = "tick",
    testcase: str | None = None,
    inverted: bool = False,
) -> dict[str, bool]:
    """Run the bench of a unit on its netlist, made of the cells of a family.

    The cells are simulated with the models that yosys brings along, explicit
    block RAMs that have none with those of `lately.sim.toolchain`. The bits of memory
    are compared where a variant of explicit block RAMs holds them; the
    portable memory has no place of its own in a netlist, and its bits show in
    the verdicts only.

    Parameters
    ----------
    synthesis : sequence of str
        yosys pass and its options, as `lately.boards.flow.devices.Device` has them.
    spec, simulator, directory, seed, memory, ticks, testcase, inverted
        As `run_filter_bench`, and so are result and errors.
    """
    netlist = unit_netlist(
        spec,
        synthesis,
        memory=memory,
        directory=directory,
        ticks=ticks,
        time_bits=BENCH_TIME_BITS,
    )
    (directory / "cells.v").write_text(netlist.cells)
    spec.to_toml(directory / "spec.toml")
    return run_bench(
        netlist.text,
        _modules(*_benches(spec, ticks)),
        simulator,
        directory,
        environment=_unit_environment(spec, directory, seed, memory, ticks)
        | {"LATELY_NETLIST": "1"},
        models=[directory / "cells.v", *cell_models(*netlist.unmodelled, inverted=inverted)],
        testcase=testcase,
    )


def _benches(spec: Specification, ticks: str) -> list[str]:
    """Return the modules whose tests a unit has to pass."""
    if isinstance(spec, StampedPartsSpec):
        return ["timing_bench" if spec.classes is None else "deciding_bench"]
    if isinstance(spec, WindowDictionarySpec):
        return ["dictionary_bench"]
    assert isinstance(spec, FilterSpec)
    if spec.lanes > 1:
        return ["lane_bench"]
    benches = ["filter_bench"]
    if spec.timed:
        # Generations end by number alone while no tick comes, and what is full is retired.
        counts = ticks == "tick" and spec.when_full == "shorten"
        return [*(benches if counts else []), "timed_bench"]
    return [*benches, "secret_bench"] if spec.hash == "siphash" else benches


def _unit_environment(
    spec: Specification, directory: Path, seed: int, memory: str, ticks: str
) -> dict[str, str]:
    timed = (isinstance(spec, FilterSpec) and spec.timed) or isinstance(spec, TimedTimingSpec)
    time = {"ticks": ticks, "time_bits": BENCH_TIME_BITS} if timed else {}
    return {
        "LATELY_TIME": json.dumps(time),
        "LATELY_SPEC": str(directory / "spec.toml"),
        "LATELY_SEED": str(seed),
        "LATELY_MEMORY": memory,
    }


def run_segment_bench(
    memory: str,
    simulator: str,
    directory: Path,
    *,
    depth: int,
    clear_bits: int,
    address_registers: int = 1,
    shared_bits: int = 0,
    seed: int = 1,
    inverted: bool = False,
) -> dict[str, bool]:
    """Run the bench of a segment memory; other parameters, result: as `run_filter_bench`.

    Parameters
    ----------
    depth, clear_bits, address_registers, shared_bits : int
        As for `lately.hdl.memory.segment.SegmentMemory`.
    """
    directory.mkdir(parents=True, exist_ok=True)
    component = segment_memory(
        memory,
        depth=depth,
        clear_bits=clear_bits,
        address_registers=address_registers,
        shared_bits=shared_bits,
    )
    return run_bench(
        verilog.convert(component, name=TOP, emit_src=False),
        _modules("segment_bench"),
        simulator,
        directory,
        environment={
            "LATELY_DEPTH": str(depth),
            "LATELY_CLEAR_BITS": str(clear_bits),
            "LATELY_ADDRESS_REGISTERS": str(address_registers),
            "LATELY_SEED": str(seed),
        },
        models=models(memory, inverted=inverted),
    )


def _modules(*benches: str) -> list[str]:
    return [f"{__package__}.{bench}" for bench in benches]


def run_bench(
    text: str,
    modules: Sequence[str],
    simulator: str,
    directory: Path,
    *,
    environment: dict[str, str],
    models: Sequence[Path] = (),
    testcase: str | None = None,
    coverage: bool = False,
) -> dict[str, bool]:
    """Run cocotb tests of a design; other parameters, result, errors: as `run_filter_bench`.

    Its memories hold bits at random at first, as no reset clears them.

    Parameters
    ----------
    text : str
        Verilog, whose top module is called `lately.hdl.verilog.TOP`.
    modules : sequence of str
        Whose tests are run.
    environment : dict of str to str
        What they find in ``os.environ``, with ``LATELY_SEED``.
    models : sequence of Path
        Further Verilog.
    """
    directory.mkdir(parents=True, exist_ok=True)
    arguments: list[str] = []
    building: AbstractContextManager[None] = nullcontext()
    if simulator == "verilator":
        # The runner calls Verilator by name, and it must be this one.
        os.environ.update(verilator_environment())
        for name in ("libs_dir", "share_dir"):
            folder = path_without_spaces(getattr(cocotb_tools.config, name))
            setattr(cocotb_tools.config, name, folder)
        os.environ["MAKEFLAGS"] = f"{PRECOMPILED_HEADER_FLAG} {_MAKE_FLAGS}"
        arguments = ["-Wno-fatal", "-Wno-lint", "-Wno-style", "--x-initial", "fast"]
        if coverage:
            arguments += ["--coverage-line", "--coverage-toggle"]
        building = shared_runtime(directory / simulator, f"bench, coverage {coverage}")
    elif shutil.which("iverilog") is None:
        raise ToolError("iverilog: expected it on PATH, found none; install Icarus Verilog")
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
            log_file=directory / f"{simulator}-build.log",
        )
    results = directory / f"{simulator}.xml"
    # Under pytest the runner exits when a test fails; the results say which.
    with suppress(SystemExit):
        runner.test(
            hdl_toplevel=TOP,
            test_module=list(modules),
            build_dir=directory / simulator,
            test_dir=directory / simulator,
            results_xml=str(results),
            plusargs=[f"+verilator+seed+{environment['LATELY_SEED']}"],
            # All that is imported would be rewritten, which takes longer than most benches.
            extra_env=environment | {"COCOTB_REWRITE_ASSERTION_FILES": "*_bench.py"},
            test_filter=testcase,
            log_file=directory / f"{simulator}.log",
        )
    return _outcomes(results)


def _woken(text: str) -> str:
    """Return Verilog of which every `always @*` runs at the start, under Icarus too.

    yosys has each of them read a variable whose initial value is to be the event; for Icarus it
    is none, and what has no other event keeps its unknown value. Here it changes a little later.
    """
    return re.sub(
        r"(\n  reg (\\\$auto\$verilog_backend\S+) +=) 0;", r"\1 0;\n  initial #1 \2 = 1;", text
    )


def _filled(text: str, seed: str) -> str:
    """Return Verilog whose memories begin with bits at random, not with zeros."""
    draw = random.Random(seed)

    def contents(block: re.Match[str]) -> str:
        return re.sub(
            r"(\d+)'h0+;", lambda word: f"{word[1]}'h{draw.getrandbits(int(word[1])):x};", block[0]
        )

    return re.sub(r"\n  initial begin\n(    \S+\[\d+\] = \d+'h0+;\n)+  end\n", contents, text)


def _outcomes(results: Path) -> dict[str, bool]:
    cases = ElementTree.parse(results).iter("testcase")
    return {case.get("name", "?"): case.find("failure") is None for case in cases}

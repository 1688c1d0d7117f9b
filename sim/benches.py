"""Runs the cocotb benches under Verilator and Icarus."""

import os
import shutil
from contextlib import suppress
from pathlib import Path
from xml.etree import ElementTree

from cocotb_tools.runner import get_runner

from ..golden.spec import FilterSpec
from .toolchain import PRECOMPILED_HEADER_FLAG, ToolError, verilator_environment
from .verilog import TOP, unit_verilog

SIMULATORS = ("verilator", "icarus")
_BENCH = "lately.sim.filter_bench"


def run_filter_bench(
    spec: FilterSpec,
    simulator: str,
    directory: Path,
    *,
    seed: int = 1,
    memory: str = "portable",
    testcase: str | None = None,
) -> dict[str, bool]:
    """Run the bench of a filter unit.

    Parameters
    ----------
    spec : FilterSpec
        What to build.
    simulator : str
        One of `SIMULATORS`.
    directory : Path
        Working folder; its build is reused.
    seed : int
        Of all random choices.
    memory : str
        Variant of the segment memories.
    testcase : str, optional
        Regular expression of the tests to run; all by default.

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
    (directory / "unit.v").write_text(unit_verilog(spec, memory=memory))
    spec.to_toml(directory / "spec.toml")
    environment = {"LATELY_SPEC": str(directory / "spec.toml"), "LATELY_SEED": str(seed)}
    arguments = []
    if simulator == "verilator":
        # The runner calls Verilator by name, and it must be this one.
        os.environ.update(verilator_environment())
        os.environ["MAKEFLAGS"] = PRECOMPILED_HEADER_FLAG
        arguments = ["-Wno-fatal", "-Wno-lint", "-Wno-style", "--x-initial", "fast"]
    elif shutil.which("iverilog") is None:
        raise ToolError("iverilog: expected it on PATH, found none; install Icarus Verilog")
    runner = get_runner(simulator)
    runner.build(
        sources=[directory / "unit.v"],
        hdl_toplevel=TOP,
        build_dir=directory / simulator,
        build_args=arguments,
        timescale=("1ns", "1ps"),
        log_file=directory / f"{simulator}-build.log",
    )
    results = directory / f"{simulator}-{seed}.xml"
    # Under pytest the runner exits when a test fails; the results say which.
    with suppress(SystemExit):
        runner.test(
            hdl_toplevel=TOP,
            test_module=_BENCH,
            build_dir=directory / simulator,
            test_dir=directory / simulator,
            results_xml=str(results),
            extra_env=environment,
            test_filter=testcase,
            log_file=directory / f"{simulator}-{seed}.log",
        )
    return _outcomes(results)


def _outcomes(results: Path) -> dict[str, bool]:
    cases = ElementTree.parse(results).iter("testcase")
    return {case.get("name", "?"): case.find("failure") is None for case in cases}

"""Runs the cocotb benches under Verilator and Icarus."""

import os
import shutil
from contextlib import suppress
from pathlib import Path
from xml.etree import ElementTree

from amaranth.back import verilog
from cocotb_tools.runner import get_runner

from ..golden.spec import FilterSpec
from ..hdl.memories import segment_memory
from .toolchain import PRECOMPILED_HEADER_FLAG, ToolError, verilator_environment
from .verilog import TOP, unit_verilog

SIMULATORS = ("verilator", "icarus")

PRIMITIVES = {"portable": (), "ecp5": ("DP16KD.v",), "ice40": ("SB_RAM40_4K.v",)}
"""Models of the block RAMs that each variant of the segment memory instantiates."""

_MODELS = Path(__file__).with_name("models")


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
        Variant of the segment memories; explicit block RAMs are simulated
        with models of their own.
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
    spec.to_toml(directory / "spec.toml")
    return _run(
        unit_verilog(spec, memory=memory),
        "lately.sim.filter_bench",
        simulator,
        directory,
        environment={
            "LATELY_SPEC": str(directory / "spec.toml"),
            "LATELY_SEED": str(seed),
            "LATELY_MEMORY": memory,
        },
        memory=memory,
        testcase=testcase,
    )


def run_segment_bench(
    memory: str,
    simulator: str,
    directory: Path,
    *,
    depth: int,
    clear_bits: int,
    seed: int = 1,
) -> dict[str, bool]:
    """Run the bench of a segment memory; parameters and result as `run_filter_bench`."""
    directory.mkdir(parents=True, exist_ok=True)
    component = segment_memory(memory, depth=depth, clear_bits=clear_bits)
    return _run(
        verilog.convert(component, name=TOP, emit_src=False),
        "lately.sim.segment_bench",
        simulator,
        directory,
        environment={
            "LATELY_DEPTH": str(depth),
            "LATELY_CLEAR_BITS": str(clear_bits),
            "LATELY_SEED": str(seed),
        },
        memory=memory,
    )


def _run(
    text: str,
    bench: str,
    simulator: str,
    directory: Path,
    *,
    environment: dict[str, str],
    memory: str,
    testcase: str | None = None,
) -> dict[str, bool]:
    arguments = []
    if simulator == "verilator":
        # The runner calls Verilator by name, and it must be this one.
        os.environ.update(verilator_environment())
        os.environ["MAKEFLAGS"] = PRECOMPILED_HEADER_FLAG
        arguments = ["-Wno-fatal", "-Wno-lint", "-Wno-style", "--x-initial", "fast"]
    elif shutil.which("iverilog") is None:
        raise ToolError("iverilog: expected it on PATH, found none; install Icarus Verilog")
    (directory / "top.v").write_text(text)
    models = [_MODELS / name for name in PRIMITIVES[memory]]
    runner = get_runner(simulator)
    runner.build(
        sources=[directory / "top.v", *models],
        hdl_toplevel=TOP,
        build_dir=directory / simulator,
        build_args=arguments,
        timescale=("1ns", "1ps"),
        log_file=directory / f"{simulator}-build.log",
    )
    results = directory / f"{simulator}.xml"
    # Under pytest the runner exits when a test fails; the results say which.
    with suppress(SystemExit):
        runner.test(
            hdl_toplevel=TOP,
            test_module=bench,
            build_dir=directory / simulator,
            test_dir=directory / simulator,
            results_xml=str(results),
            extra_env=environment,
            test_filter=testcase,
            log_file=directory / f"{simulator}.log",
        )
    return _outcomes(results)


def _outcomes(results: Path) -> dict[str, bool]:
    cases = ElementTree.parse(results).iter("testcase")
    return {case.get("name", "?"): case.find("failure") is None for case in cases}

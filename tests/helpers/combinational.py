"""Paths through exported units that meet no register."""

from lately.sim.toolchain import run_yosys

REGISTERS_END = "".join(f":-${kind}" for kind in (
    "dff", "dffe", "sdff", "sdffe", "sdffce", "adff", "adffe", "dffsr", "dffsre", "aldff", "aldffe"
))  # fmt: skip


def assert_registered(folder, name):
    """Find no path from an input to an output but through a register, in the whole netlist."""
    script = [
        f"read_verilog {name}.v", f"hierarchy -top {name}", "proc", "flatten",
        "memory_dff", "memory_collect", "memory_map", "opt_clean",
        f"select -assert-none i:* %co*{REGISTERS_END} o:* %i",
        # What stops at no register reaches them.
        "select -assert-any i:* %co* o:m_axis_tvalid %i",
    ]  # fmt: skip
    done = run_yosys("-q", "-p", "; ".join(script), directory=folder)
    assert (done.returncode, done.stdout) == (0, "")

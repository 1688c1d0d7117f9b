"""Verilog wrappers that connect a frame deduplicator to public NIC shells and MACs.

    lately export --spec dedup.toml --name dedup OPTIONS --out-dir ip
    python shells.py corundum --spec dedup.toml > ip/dedup_corundum.v

`python shells.py corundum --options` prints OPTIONS. The tick comes from the plan or
from `--tick`. The parameter PERIOD is the tick in cycles of the clock that `--mhz` gives, by
default of the target's own clock. Each wrapper has the ports that its target requires: `ports.toml`
lists these ports, and the source file that defines them. If an attacker can send frames, load a
secret through the ports `s_axis_digest_secret_*` of `dedup`.
"""

import argparse
import tomllib
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil
from pathlib import Path

from lately.cli.filter_choice import planned
from lately.golden.durations import time_seconds

PORTS = tomllib.loads((Path(__file__).parent / "ports.toml").read_text("utf-8"))
"""Ports of the targets, and of their modules inside the wrappers."""


@dataclass(frozen=True)
class Shell:
    """Ports of a target, its frame format, and the logic that connects the ports to `dedup`."""

    options: str  # options for `lately export`
    clock: str
    reset: str  # active low with the suffix "n"
    ports: tuple[str, ...]  # ports other than the two frame streams
    came: str  # prefix of the ports for incoming frames
    left: str  # prefix of the ports for outgoing frames
    width: int = 512  # width of a stream in bits
    # Ports that form TUSER, without the prefix, with their widths; the lowest bits come first.
    user: dict[str, int] = field(default_factory=lambda: {"tuser": 1})
    # Widths of other signals that are forwarded with a frame, under their names in the export.
    beside: dict[str, int] = field(default_factory=dict)
    ready: tuple[bool, bool] = (True, True)  # whether input and output have TREADY
    padded: bool = False  # whether only `dedup` has a bad-frame bit in TUSER
    last_be: bool = False  # whether a one-hot `last_be` replaces TKEEP
    kept: str = ""  # prefix of the output wires of `dedup`, if `more` forwards them
    more: str = ""  # additional statements in the wrapper

    @property
    def user_bits(self) -> int:
        """Width of TUSER at the input of the exported module."""
        return sum(self.user.values()) + self.padded


OPENNIC_RESET = """\
  // mod_rstn is low for one cycle of axil_aclk.
  wire axil_rstn, rstn;
  generic_reset #(.NUM_INPUT_CLK(2)) reset (
      .mod_rstn(mod_rstn), .mod_rst_done(mod_rst_done),
      .clk({CLOCK, axil_aclk}), .rstn({rstn, axil_rstn})
  );
"""

CROSSING = """\
  wire [63:0] kept_tdata;
  wire kept_tvalid, kept_tready, kept_tlast;
  // The MAC accepts no pause within a frame, so it gets whole frames. DEPTH, in bytes, must hold
  // the longest one.
  axis_async_fifo #(.DEPTH(4096), .DATA_WIDTH(64), .FRAME_FIFO(1)) crossing (
      .s_clk(rx_clk), .s_rst(rx_rst), .s_axis_tdata(kept_tdata), .s_axis_tkeep(keep),
      .s_axis_tvalid(kept_tvalid), .s_axis_tready(kept_tready), .s_axis_tlast(kept_tlast),
      .s_axis_tid(8'd0), .s_axis_tdest(8'd0), .s_axis_tuser(user[0]),
      .m_clk(tx_clk), .m_rst(tx_rst), .m_axis_tdata(tx_axis_tdata), .m_axis_tkeep(tx_axis_tkeep),
      .m_axis_tvalid(tx_axis_tvalid), .m_axis_tready(tx_axis_tready),
      .m_axis_tlast(tx_axis_tlast), .m_axis_tuser(tx_axis_tuser)
  );
"""

_OPENNIC_PORTS = ("input wire axil_aclk", "input wire mod_rstn", "output wire mod_rst_done")
_ESNET_ZERO = {"trunc_enable": 1, "trunc_length": 16, "rss_enable": 1, "rss_entropy": 12}

SHELLS = {
    "corundum": Shell(
        options="--wrap frames-512 --user-bits 97 --bad-bit 0 --mark-bit 97",
        clock="clk", reset="rst", ports=("input wire clk", "input wire rst"),
        came="s_axis_sync_rx_", left="m_axis_sync_rx_", user={"tuser": 97},
    ),
    "opennic-250": Shell(
        options="--wrap frames-512 --user-bits 49 --bad-bit 0 --mark-bit 49",
        clock="axis_aclk", reset="rstn", ports=("input wire axis_aclk", *_OPENNIC_PORTS),
        came="s_axis_adap_rx_250mhz_", left="m_axis_qdma_c2h_",
        user={"tuser_size": 16, "tuser_src": 16, "tuser_dst": 16}, padded=True,
        more=OPENNIC_RESET.replace("CLOCK", "axis_aclk"),
    ),
    "opennic-322": Shell(
        options="--wrap frames-512 --no-tready --mark-bit 1",
        clock="cmac_clk", reset="rstn", ports=("input wire cmac_clk", *_OPENNIC_PORTS),
        came="s_axis_cmac_rx_", left="m_axis_adap_rx_322mhz_",
        user={"tuser_err": 1}, ready=(False, False),
        more=OPENNIC_RESET.replace("CLOCK", "cmac_clk"),
    ),
    "liteeth": Shell(
        options="--wrap frames-64 --mark-bit 1",
        clock="sys_clk", reset="sys_rst", ports=("input wire sys_clk", "input wire sys_rst"),
        came="sink_", left="source_", width=64, user={"error": 1}, last_be=True,
    ),
    "verilog-ethernet": Shell(
        options="--wrap frames-64 --no-tready --mark-bit 1",
        clock="rx_clk", reset="rx_rst",
        ports=tuple(f"input wire {name}" for name in ("rx_clk", "rx_rst", "tx_clk", "tx_rst")),
        came="rx_axis_", left="tx_axis_", width=64, ready=(False, True),
        kept="kept_", more=CROSSING,
    ),
    "esnet": Shell(
        options="--wrap frames-512 --user-bits 17 --bad-bit 0 --mark-bit 17 --id-bits 4 "
        "--dest-bits 4",
        clock="core_clk", reset="core_rstn",
        ports=("input wire core_clk", "input wire core_rstn", *(
            f"output wire [{bits - 1}:0] axis_app_egr_tuser_{name}"
            for name, bits in _ESNET_ZERO.items())),
        came="axis_app_igr_", left="axis_app_egr_",
        user={"tuser_pid": 16}, beside={"tid": 4, "tdest": 4}, padded=True,
        more="".join(f"  assign axis_app_egr_tuser_{name} = {bits}'d0;\n"
                     for name, bits in _ESNET_ZERO.items()),
    ),
}  # fmt: skip
"""Targets by name."""

SETTINGS = {
    "enable": "1'b1", "clear": "1'b0", "action": "2'd2", "fields": "5'd1", "period": "PERIOD",
    "s_axis_digest_secret_tdata": "128'd0", "s_axis_digest_secret_tvalid": "1'b0",
}  # fmt: skip
"""Inputs of an export without a bus, and the values for which duplicates are dropped."""


def cycles(name: str, tick: Fraction, mhz: float | None) -> int:
    """Convert a tick in seconds to cycles at `mhz`, or at the target's default clock."""
    mhz = mhz or PORTS[name]["mhz"]
    # The period is rounded up, because a shorter tick would shorten the span.
    period = ceil(tick * round(mhz * 10**6))
    if not 0 < period < 1 << 24:
        raise ValueError(
            f"tick: must be 1 to {(1 << 24) - 1:,} cycles at {mhz} MHz, not {period:,}"
        )
    return period


def wrapper(name: str, period: int) -> str:
    """Return the Verilog wrapper for a target, with a tick of `period` cycles."""
    shell = SHELLS[name]
    t = "" if shell.last_be else "t"
    octets = shell.width // 8
    parts = {f"{t}data": shell.width, f"{t}valid": 1, f"{t}last": 1}
    parts |= {"last_be": octets, "error": octets} if shell.last_be else {"tkeep": octets}
    parts |= ({} if shell.last_be else shell.user) | shell.beside
    ports = [*shell.ports]
    for prefix, there, back, waits in (
        (shell.came, "input", "output", shell.ready[0]),
        (shell.left, "output", "input", shell.ready[1]),
    ):
        ports += [f"{there} wire [{bits - 1}:0] {prefix}{part}" for part, bits in parts.items()]
        ports += [f"{back} wire {prefix}{t}ready"] if waits else []
    lines = [
        f"// Deduplicator of frames for {name}. Ports: {PORTS[name]['source']}.",
        f"// Export: {shell.options}",
        f"module dedup_{name.replace('-', '_')} #(parameter [23:0] PERIOD = 24'd{period}) (",
        ",\n".join(f"    {port}" for port in ports),
        ");",
        f"  wire [{octets - 1}:0] keep;",
        f"  wire [{shell.user_bits}:0] user;",
        *shell.more.splitlines(),
        "  dedup dedup (",
        ",\n".join(f"      .{port}({value})" for port, value in _connections(shell, t).items()),
        "  );",
        *_leaving(shell),
        "endmodule",
    ]
    return "\n".join(lines) + "\n"


def _connections(shell: Shell, t: str) -> dict[str, str]:
    """Return the expression that is connected to each port of the exported module."""
    came, left = shell.came, shell.kept or shell.left
    bad = [f"|{came}error"] if shell.last_be else [f"{came}{part}" for part in shell.user]
    user = [*reversed(bad), *(["1'b0"] if shell.padded else [])]
    # `(last_be << 1) - 1` has a bit for each byte up to the last; all bits if none is marked.
    keep = (
        f"{came}last ? ({came}last_be << 1) - 1'b1 : {{{shell.width // 8}{{1'b1}}}}"
        if shell.last_be
        else f"{came}tkeep"
    )
    connections = {
        "aclk": shell.clock,
        "aresetn": shell.reset if shell.reset.endswith("n") else f"~{shell.reset}",
        "s_axis_tdata": f"{came}{t}data",
        "s_axis_tlast": f"{came}{t}last",
        "s_axis_tuser": f"{{{', '.join(user)}}}",
        "s_axis_tkeep": keep,
        "s_axis_tvalid": f"{came}{t}valid",
        "m_axis_tdata": f"{left}{t}data",
        "m_axis_tlast": f"{left}{t}last",
        "m_axis_tuser": "user",
        "m_axis_tkeep": "keep",
        "m_axis_tvalid": f"{left}{t}valid",
        "m_axis_tready": f"{left}{t}ready" if shell.ready[1] else "1'b1",
    }
    connections |= {"s_axis_tready": f"{came}{t}ready"} if shell.ready[0] else {}
    for name in shell.beside:
        connections |= {f"s_axis_{name}": f"{came}{name}", f"m_axis_{name}": f"{left}{name}"}
    return connections | SETTINGS


def _leaving(shell: Shell) -> list[str]:
    """Return assignments for the signals that accompany outgoing frames."""
    left = shell.left
    if shell.kept:
        return []
    if shell.last_be:
        return [
            f"  assign {left}last_be = {left}last ? keep & ~(keep >> 1) : {shell.width // 8}'d0;",
            f"  assign {left}error = {shell.width // 8}'d0;",
        ]
    padded, lines = int(shell.padded), [f"  assign {left}tkeep = keep;"]
    for name, bits in shell.user.items():
        lines.append(f"  assign {left}{name} = user[{padded + bits - 1}:{padded}];")
        padded += bits
    return lines


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("target", choices=SHELLS)
    parser.add_argument("--spec", help="specification file from `lately plan`")
    parser.add_argument("--tick", help="length of a tick, such as 10us  [default: from the file]")
    parser.add_argument("--mhz", type=float, help="clock frequency  [default: by target]")
    parser.add_argument("--options", action="store_true", help="print the options for the export")
    asked = parser.parse_args()
    if asked.options:
        print(SHELLS[asked.target].options)
    else:
        try:
            tick = time_seconds(asked.tick, "tick") if asked.tick else planned(asked.spec)[0]
            if tick is None:
                parser.error("give --tick, or --spec with a file that states the tick")
            period = cycles(asked.target, tick, asked.mhz)
        except (OSError, ValueError) as error:
            parser.error(str(error))
        print(wrapper(asked.target, period), end="")

"""Deduplicators of frames behind the ports of public NIC shells and MACs, in Verilog.

    lately export --spec dedup.toml --name dedup OPTIONS --out-dir ip
    python shells.py corundum > ip/dedup_corundum.v

`python shells.py corundum --options` prints OPTIONS. Each wrapper has the ports of one port of its
target, with the target's names; the source of the names is `Shell.source`. PERIOD is the tick of
the filter in cycles. Load a secret through the ports of `dedup` where an attacker sends frames.
"""

import sys
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Shell:
    """A target: its ports, and how the signals of its frames are laid out.

    Attributes
    ----------
    source : str
        Repository and file with the port list.
    options : str
        Options of the export.
    clock, reset : str
        Ports; a reset with the suffix "n" is active low.
    came, left : str
        Prefixes of the ports of frames that come and leave.
    width : int
        Bits of a transfer.
    user : dict of str to int
        Ports that TUSER consists of, after the prefix, with their bits; the first one lowest.
    beside : dict of str to int
        Further ports that leave as they came, by the names of the export.
    ready : tuple of bool
        Whether the input and the output have TREADY.
    padded : bool
        Whether TUSER has a bad bit below `user`, which the target has not.
    last_be : bool
        Whether the last byte is one-hot in `last_be`, instead of a TKEEP.
    """

    source: str
    options: str
    clock: str
    reset: str
    came: str
    left: str
    width: int = 512
    user: dict[str, int] = field(default_factory=lambda: {"tuser": 1})
    beside: dict[str, int] = field(default_factory=dict)
    ready: tuple[bool, bool] = (True, True)
    padded: bool = False
    last_be: bool = False

    @property
    def user_bits(self) -> int:
        """Bits of TUSER of the export."""
        return sum(self.user.values()) + self.padded


SHELLS = {
    "corundum": Shell(
        source="corundum/corundum, fpga/app/template/rtl/mqnic_app_block.v",
        options="--wrap frames-512 --user-bits 97 --bad-bit 0 --mark-bit 97",
        clock="clk", reset="rst", came="s_axis_sync_rx_", left="m_axis_sync_rx_",
        user={"tuser": 97},
    ),
    "opennic-250": Shell(
        source="Xilinx/open-nic-shell, src/box_250mhz/box_250mhz.sv",
        options="--wrap frames-512 --user-bits 49 --bad-bit 0 --mark-bit 49",
        clock="axis_aclk", reset="axis_aresetn",
        came="s_axis_adap_rx_250mhz_", left="m_axis_qdma_c2h_",
        user={"tuser_size": 16, "tuser_src": 16, "tuser_dst": 16}, padded=True,
    ),
    "opennic-322": Shell(
        source="Xilinx/open-nic-shell, src/box_322mhz/box_322mhz.sv",
        options="--wrap frames-512 --no-tready --mark-bit 1",
        clock="cmac_clk", reset="cmac_rstn",
        came="s_axis_cmac_rx_", left="m_axis_adap_rx_322mhz_",
        user={"tuser_err": 1}, ready=(False, False),
    ),
    "liteeth": Shell(
        source="enjoy-digital/liteeth, liteeth/common.py, eth_phy_description",
        options="--wrap frames-64 --mark-bit 1",
        clock="sys_clk", reset="sys_rst", came="sink_", left="source_",
        width=64, user={"error": 1}, last_be=True,
    ),
    "verilog-ethernet": Shell(
        source="alexforencich/verilog-ethernet, rtl/eth_mac_10g.v",
        options="--wrap frames-64 --no-tready --mark-bit 1",
        clock="rx_clk", reset="rx_rst", came="rx_axis_", left="tx_axis_",
        width=64, ready=(False, True),
    ),
    "esnet": Shell(
        source="esnet/esnet-smartnic-hw, src/smartnic_app/rtl/src/smartnic_app.sv",
        options="--wrap frames-512 --user-bits 17 --bad-bit 0 --mark-bit 17 --id-bits 4 "
        "--dest-bits 4",
        clock="core_clk", reset="core_rstn", came="axis_app_igr_", left="axis_app_egr_",
        user={"tuser_pid": 16}, beside={"tid": 4, "tdest": 4}, padded=True,
    ),
}  # fmt: skip
"""Targets by name."""

SETTINGS = {
    "enable": "1'b1", "clear": "1'b0", "action": "2'd2", "fields": "5'd1", "period": "PERIOD",
    "s_axis_digest_secret_tdata": "128'd0", "s_axis_digest_secret_tvalid": "1'b0",
}  # fmt: skip
"""Inputs of an export without a bus, and their values: duplicates are dropped."""


def wrapper(name: str) -> str:
    """Return the Verilog of the wrapper for a target.

    Parameters
    ----------
    name : str
        One of `SHELLS`.
    """
    shell = SHELLS[name]
    t = "" if shell.last_be else "t"
    octets = shell.width // 8
    parts = {f"{t}data": shell.width, f"{t}valid": 1, f"{t}last": 1}
    parts |= {"last_be": octets, "error": octets} if shell.last_be else {"tkeep": octets}
    parts |= ({} if shell.last_be else shell.user) | shell.beside
    ports = [f"input wire {shell.clock}", f"input wire {shell.reset}"]
    for prefix, there, back, waits in (
        (shell.came, "input", "output", shell.ready[0]),
        (shell.left, "output", "input", shell.ready[1]),
    ):
        ports += [f"{there} wire [{bits - 1}:0] {prefix}{part}" for part, bits in parts.items()]
        ports += [f"{back} wire {prefix}{t}ready"] if waits else []
    lines = [
        f"// Deduplicator of frames for {name}. Ports: {shell.source}.",
        f"// Export: {shell.options}",
        f"module dedup_{name.replace('-', '_')} #(parameter [31:0] PERIOD = 32'd1562) (",
        ",\n".join(f"    {port}" for port in ports),
        ");",
        f"  wire [{octets - 1}:0] keep;",
        f"  wire [{shell.user_bits}:0] user;",
        "  dedup dedup (",
        ",\n".join(f"      .{port}({value})" for port, value in _connections(shell, t).items()),
        "  );",
        *_leaving(shell),
        "endmodule",
    ]
    return "\n".join(lines) + "\n"


def _connections(shell: Shell, t: str) -> dict[str, str]:
    """Return what is connected to the ports of the exported module."""
    came, left = shell.came, shell.left
    bad = [f"|{came}error"] if shell.last_be else [f"{came}{part}" for part in shell.user]
    user = [*reversed(bad), *(["1'b0"] if shell.padded else [])]
    # One more than twice a one-hot byte is all bytes below, and nothing marked is all bytes.
    keep = (
        f"{came}last ? ({came}last_be << 1) - 1'b1 : {{{shell.width // 8}{{1'b1}}}}"
        if shell.last_be
        else f"{came}tkeep"
    )
    found = {
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
    found |= {"s_axis_tready": f"{came}{t}ready"} if shell.ready[0] else {}
    for name in shell.beside:
        found |= {f"s_axis_{name}": f"{came}{name}", f"m_axis_{name}": f"{left}{name}"}
    return found | SETTINGS


def _leaving(shell: Shell) -> list[str]:
    """Return the assignments of the signals beside frames that leave."""
    left = shell.left
    if shell.last_be:
        return [
            f"  assign {left}last_be = {left}last ? keep & ~(keep >> 1) : {shell.width // 8}'d0;",
            f"  assign {left}error = {shell.width // 8}'d0;",
        ]
    place, lines = int(shell.padded), [f"  assign {left}tkeep = keep;"]
    for name, bits in shell.user.items():
        lines.append(f"  assign {left}{name} = user[{place + bits - 1}:{place}];")
        place += bits
    return lines


if __name__ == "__main__":
    target, *flags = sys.argv[1:] or ["--help"]
    if target not in SHELLS:
        sys.exit(f"target: must be one of {', '.join(SHELLS)}, not {target!r}")
    print(SHELLS[target].options if flags == ["--options"] else wrapper(target), end="")

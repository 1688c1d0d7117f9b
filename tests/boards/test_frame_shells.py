"""Wrappers of the deduplicator of frames for shells and MACs: each port leads where it should."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest
from exports import icarus

from lately.boards.export.bundle import write
from lately.boards.export.design import Design
from lately.golden.spec import GEBFSpec

pytestmark = pytest.mark.rtl

FILE = Path(__file__).parents[2] / "examples" / "frame_shells" / "shells.py"
_spec = importlib.util.spec_from_file_location("frame_shells", FILE)
shells = importlib.util.module_from_spec(_spec)
sys.modules["frame_shells"] = shells
_spec.loader.exec_module(shells)

SPEC = GEBFSpec(window=72, epochs=3, hashes=3, bits=6144, key_bits=64, span=20)


def design(name):
    """Return the export that a wrapper is for, from the options that it states."""
    words = iter(shells.SHELLS[name].options.split())
    options, wrap = {}, ""
    for word in words:
        if word == "--wrap":
            wrap = next(words)
        elif word == "--no-tready":
            options |= {"tready": False, "on_overflow": "drop"}
        else:
            options[word.removeprefix("--").replace("-", "_")] = int(next(words))
    return Design(spec=SPEC, name="dedup", wrap=wrap, options=options)


def listed(name):
    """Return the ports that a module of the list has: direction, bits and clock by name.

    Streams of a wrapper outside its target have the other direction.
    """
    entry, ports = shells.PORTS[name], {}
    for clock, sides in entry.items():
        if isinstance(sides, dict):
            ports[clock] = ("input", 1, clock)
            for side, text in sides.items():
                for prefix, parts in re.findall(r"([\w\[\]]+:?\d*)(?:\{(.*?)\})?", text):
                    for part in parts.split(","):
                        port, _, bits = f"{prefix}{part}".partition(":")
                        turned = entry.get("outside", False) and "axis" in port
                        way = "input" if (side == "in") != turned else "output"
                        ports[port] = (way, int(bits or 1), clock)
    return ports


def connections(text):
    """Return what is connected to the ports of each instance, by module."""
    ports = {}
    for module, body in re.findall(r"^  (\w+) (?:#\(.*\) )?\w+ \(\n(.*?)^  \);", text, re.M | re.S):
        ports[module] = dict(re.findall(r"\.(\w+)\(((?:[^()]|\([^()]*\))*)\)", body))
    return ports


def clocks(text):
    """Return the clocks that every signal of a wrapper belongs to."""
    domains = {}
    for module, wires in connections(text).items():
        if module == "dedup":
            belongs = dict.fromkeys(wires, "aclk")
        else:
            belongs = {port: clock for port, (_, _, clock) in listed(module).items()}
            for port in ("clk", "rstn"):  # the highest bit first
                bits = wires.pop(port, "{}").strip("{}").split(", ")[::-1]
                wires |= {f"{port}[{at}]": bit for at, bit in enumerate(bits)}
        for port, value in wires.items():
            for signal in re.findall(r"(?<!')\b[a-z_]\w*", value):
                domains.setdefault(signal, set()).add(wires[belongs[port]])
    for signal, value in re.findall(r"^  assign (\w+) = (.*);", text, re.M):
        for source in re.findall(r"(?<!')\b[a-z_]\w*", value):
            domains.setdefault(signal, set()).update(domains[source])
    return domains


def differences(name, text):
    """Return the ports in which a wrapper differs from the list of its target."""
    belongs, wanted, ports = clocks(text), listed(name), {}
    header = text.partition("module ")[2].partition(");")[0]
    for way, high, port in re.findall(r"(input|output) wire (?:\[(\d+):0\] )?(\w+)", header):
        right = wanted.get(port, ("", 0, ""))[2]
        constant = {right} if way == "output" else {"none"}
        ports[port] = (way, int(high or 0) + 1, *belongs.get(port, constant))
    return {port for port, _ in ports.items() ^ wanted.items()}


@pytest.mark.parametrize("name", shells.SHELLS)
def test_ports_are_those_of_the_real_file(name):
    assert differences(name, shells.wrapper(name, 5)) == set()
    assert re.fullmatch(r"\S+/\S+ \S+ [0-9a-f]{40}", shells.PORTS[name]["source"])


@pytest.mark.parametrize(("name", "old", "new", "expected"), [
    ("corundum", "rst", "aresetn", {"rst", "aresetn"}),
    ("corundum", "[96:0]", "[95:0]", {"s_axis_sync_rx_tuser", "m_axis_sync_rx_tuser"}),
    ("opennic-250", "wire mod_rstn", "wire box_rstn", {"mod_rstn", "box_rstn"}),
    ("opennic-322", "resetn(rstn", "resetn(mod_rstn", {"mod_rstn"}),
    ("verilog-ethernet", "m_clk(tx_clk", "m_clk(rx_clk",
     {port for port in listed("verilog-ethernet") if port.startswith("tx")}),
    ("verilog-ethernet", "input wire tx_axis", "output wire tx_axis", {"tx_axis_tready"}),
])  # fmt: skip
def test_wrong_ports_are_found(name, old, new, expected):
    text = shells.wrapper(name, 5)
    assert differences(name, text.replace(old, new)) == expected


@pytest.mark.parametrize(("name", "options", "period"), [
    ("corundum", ["--tick", "10us"], 2500),
    ("verilog-ethernet", ["--tick", "10us"], 1563),  # 1562.5: never shorter than the plan
    ("esnet", ["--tick", "2ms", "--mhz", "100"], 200_000),
    ("opennic-322", ["--spec", "plan.toml"], 6446),
    ("opennic-322", ["--spec", "plan.toml", "--tick", "10us"], 3223),
    ("corundum", ["--tick", "1s"], None),
    ("corundum", [], None),
])  # fmt: skip
def test_period_is_the_tick_of_the_plan(name, options, period, tmp_path):
    (tmp_path / "plan.toml").write_text("[plan]\ntick_seconds = 2e-5\n")
    command = [sys.executable, FILE, name, *options]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == (0 if period else 2)
    assert re.findall(r"\[23:0\] PERIOD = 24'd(\d+)", done.stdout) == [str(period)] * bool(period)
    assert bool(re.search("error: .*tick", done.stderr)) == (period is None)


def stub(name, ports):
    """Return a module with the ports of another that passes its frames on at once."""
    heads = ",\n".join(f"  {way} [{bits - 1}:0] {port}" for port, (way, bits, *_) in ports.items())
    lines = [f"module {name} #(parameter DEPTH = 0, DATA_WIDTH = 0, FRAME_FIFO = 0) (", heads, ");"]
    lines += [f"  assign {port} = s{port[1:]};" for port, (way, *_) in ports.items()
              if port.startswith("m_axis_") and way == "output"]  # fmt: skip
    lines += ["  assign s_axis_tready = m_axis_tready;"] if "s_axis_tready" in ports else []
    return "\n".join([*lines, "endmodule\n"])


INSIDE = stub("axis_async_fifo", listed("axis_async_fifo")) + """
module generic_reset #(parameter NUM_INPUT_CLK = 1) (
  input mod_rstn, output mod_rst_done, input [1:0] clk, output [1:0] rstn
);
endmodule
"""  # fmt: skip

BENCH = """
module bench;
  reg [{width}-1:0] data = {{{octets}{{8'hA5}}}};
  integer errors = 0;
  {wires}
  dedup_{module} dut ({ports});
  initial begin
    #1;
    {checks}
    $display("%0d errors", errors);
  end
endmodule
"""


@pytest.mark.parametrize("name", shells.SHELLS)
def test_signals_of_frames_pass(name, tmp_path):
    """The export has all ports that the wrapper connects, and each signal comes out as it came."""
    shell, asked = shells.SHELLS[name], design(name)
    text = shells.wrapper(name, 5)
    inward = {port.name for port in asked.ports if port.inward}
    connected = connections(text)["dedup"].keys()
    assert inward <= connected
    assert connected <= {port.name for port in asked.ports}
    t, octets = "" if shell.last_be else "t", shell.width // 8
    came = {f"{t}data": (shell.width, "data"), f"{t}valid": (1, "1'd1"), f"{t}last": (1, "1'd1")}
    came |= {part: (bits, f"{bits}'d{3 + at}") for at, (part, bits) in enumerate(
        ({} if shell.last_be else shell.user | shell.beside).items()) if bits > 1}  # fmt: skip
    came |= {"last_be": (octets, f"{octets}'d4")} if shell.last_be else {
        "tkeep": (octets, f"{octets}'d7")}  # fmt: skip
    ports = [f".{port.split()[-1]}(1'b0)" for port in shell.ports if port.startswith("input")]
    ports += [f".{shell.came}{part}({value})" for part, (_, value) in came.items()]
    ports += [f".{shell.came}{part}({octets if shell.last_be else 1}'d0)"
              for part, bits in shell.user.items() if bits == 1]  # fmt: skip
    ports += [f".{shell.left}{part}(o_{part})" for part in came]
    ports += [f".{shell.left}{t}ready(1'b1)"] if shell.ready[1] else []
    wires = [f"wire [{bits - 1}:0] o_{part};" for part, (bits, _) in came.items()]
    checks = [f"if (o_{part} !== {value}) begin errors = errors + 1; $display(\"{part} %h\", "
              f"o_{part}); end" for part, (_, value) in came.items()]  # fmt: skip
    bench = BENCH.format(width=shell.width, octets=octets, module=name.replace("-", "_"),
                         wires="\n  ".join(wires), ports=", ".join(ports),
                         checks="\n    ".join(checks))  # fmt: skip
    ways = {port.name: ("input" if port.inward else "output", port.width) for port in asked.ports}
    (tmp_path / "all.v").write_text(stub("dedup", ways) + INSIDE + text + bench)
    assert icarus(tmp_path, "all.v") == ["0 errors"]


@pytest.mark.slow
def test_wrapper_and_export_fit(tmp_path):
    """Icarus Verilog reads a wrapper with the module itself."""
    write(design("verilog-ethernet"), tmp_path / "ip")
    (tmp_path / "ip" / "top.v").write_text(INSIDE + shells.wrapper("verilog-ethernet", 5))
    command = ["iverilog", "-g2005", "-Wall", "-o", "sim", "-s", "dedup_verilog_ethernet"]
    done = subprocess.run([*command, "top.v", "dedup.v"], cwd=tmp_path / "ip", text=True,
                          capture_output=True, check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr

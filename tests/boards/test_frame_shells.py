"""Wrappers of the deduplicator of frames for shells and MACs: each port leads where it should."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

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
            options |= {"ready": False, "when_full": "drop"}
        else:
            options[word.removeprefix("--").replace("-", "_")] = int(next(words))
    return Design(spec=SPEC, name="dedup", wrap=wrap, options=options)


def stub(ports):
    """Return a module with the ports of the export that passes its frames on at once."""
    names = {port.name for port in ports}
    lines = [f"  {'input' if one.inward else 'output'} [{one.width - 1}:0] {one.name}"
             for one in ports]  # fmt: skip
    passed = [name for name in names if name.startswith("m_axis_") and name != "m_axis_tready"]
    body = [f"  assign {name} = s{name[1:]};" for name in sorted(passed)]
    body += ["  assign s_axis_tready = m_axis_tready;"] if "s_axis_tready" in names else []
    return "\n".join(["module dedup (", ",\n".join(lines), ");", *body, "endmodule", ""])


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
    text = shells.wrapper(name)
    inward = {port.name for port in asked.ports if port.inward}
    connected = {line.split("(")[0].strip(" .") for line in text.splitlines() if " ." in line}
    assert inward <= connected
    assert connected <= {port.name for port in asked.ports}
    t, octets = "" if shell.last_be else "t", shell.width // 8
    came = {f"{t}data": (shell.width, "data"), f"{t}valid": (1, "1"), f"{t}last": (1, "1")}
    came |= {part: (bits, f"{bits}'d{3 + at}") for at, (part, bits) in enumerate(
        ({} if shell.last_be else shell.user | shell.beside).items()) if bits > 1}  # fmt: skip
    one = "1'b1"
    last = {"last_be": (octets, f"{octets}'d4")} if shell.last_be else {
        "tkeep": (octets, f"{octets}'d7")}  # fmt: skip
    came |= last
    ports = [f".{shell.clock}(1'b0)", f".{shell.reset}(1'b0)"]
    ports += [f".{shell.came}{part}({value})" for part, (_, value) in came.items()]
    ports += [f".{shell.came}{part}({bits}'d0)" for part, bits in shell.user.items() if bits == 1]
    ports += [f".{shell.left}{part}(o_{part})" for part in came]
    ports += [f".{shell.left}{t}ready({one})"] if shell.ready[1] else []
    wires = [f"wire [{bits - 1}:0] o_{part};" for part, (bits, _) in came.items()]
    checks = [f"if (o_{part} !== {value}) begin errors = errors + 1; $display(\"{part} %h\", "
              f"o_{part}); end" for part, (_, value) in came.items()]  # fmt: skip
    bench = BENCH.format(width=shell.width, octets=octets, module=name.replace("-", "_"),
                         wires="\n  ".join(wires), ports=", ".join(ports),
                         checks="\n    ".join(checks))  # fmt: skip
    (tmp_path / "all.v").write_text(stub(asked.ports) + text + bench)
    subprocess.run(["iverilog", "-g2005", "-o", "sim", "all.v"], cwd=tmp_path, check=True)
    told = subprocess.run(["vvp", "sim"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert told.stdout == "0 errors\n"


@pytest.mark.slow
def test_wrapper_and_export_fit(tmp_path):
    """Verilator reads a wrapper with the module itself."""
    write(design("verilog-ethernet"), tmp_path / "ip")
    (tmp_path / "ip" / "top.v").write_text(shells.wrapper("verilog-ethernet"))
    command = ["iverilog", "-g2005", "-Wall", "-o", "sim", "-s", "dedup_verilog_ethernet"]
    done = subprocess.run([*command, "top.v", "dedup.v"], cwd=tmp_path / "ip", text=True,
                          capture_output=True, check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr

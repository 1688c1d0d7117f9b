"""What the page of an exported unit says of reset and clear, beside a simulation of its Verilog."""

import dataclasses
import re
import subprocess
from fractions import Fraction

import pytest

from lately.boards.export.bundle import descriptions
from lately.boards.export.design import Design
from lately.golden import any_preset
from lately.golden.spec import GEBFSpec
from lately.hdl.interface import Operation

pytestmark = pytest.mark.rtl

TIMED = dataclasses.replace(any_preset("tiny"), span=20, generation=16, window=None)
SPECS = {
    "ring": any_preset("tiny"),
    "timing": any_preset("timing-tiny"),
    "dictionary": any_preset("dictionary-tiny"),
    "large segments": GEBFSpec(window=72, epochs=3, hashes=3, bits=6144, key_bits=64),
    "secret": any_preset("siphash-tiny"),
    "time": TIMED,
    "counted timing": any_preset("timing-counted-tiny"),
}
FAST = ("ring", "dictionary")

BENCH = """\
`timescale 1ns / 1ps
module bench;
  reg clk = 0, rst = 1, valid = 0;
  reg [2:0] operation = 0;
  wire ready, result, seen;
  integer count, number;
  always #5 clk = ~clk;
  unit dut (
    .clk(clk), .rst(rst), .in_valid(valid), .in_ready(ready), .in_operation(operation),
    .out_valid(result), .out_ready(1'b1), .out_seen(seen){others}
  );
  always @(posedge clk) if (result) $display("seen %b", seen);

  task send(input [2:0] what);
    begin
      operation = what;
      valid = 1;
      while (!ready) @(negedge clk);
      @(negedge clk) valid = 0;
    end
  endtask

  task wait_until_ready(input [8 * 5:1] after);
    begin
      count = 0;
      while (!ready) begin
        @(negedge clk);
        count = count + 1;
      end
      $display("%0s %0d", after, count);
    end
  endtask

  initial begin
    repeat (4) @(negedge clk);
    rst = 0;
    wait_until_ready("reset");
    send({check_and_insert});
    send({query});
    repeat (100) @(negedge clk);
    // One cycle of reset while requests are in flight.
    for (number = 0; number < 5; number = number + 1) send({check_and_insert});
    rst = 1;
    @(negedge clk) rst = 0;
    wait_until_ready("reset");
    send({query});
    repeat (100) @(negedge clk);
    send({check_and_insert});
    send({clear});
    wait_until_ready("clear");
    send({query});
    repeat (100) @(negedge clk);
    $finish;
  end
endmodule
"""


def connections(asked):
    """Return what the other inputs are connected to: one key, the longest window, no tick."""
    members = asked.component.signature.members
    values = {name: member.init or 0 for name, member in members.items()}
    window = asked.spec.window_blocks if asked.spec.query_field else 0
    values |= {"in_key": 1, "in_window": window}
    named = ("clk", "rst", "in_valid", "in_operation", "out_ready")
    return "".join(
        f",\n    .{port.name}({port.width}'d{values[port.name]})"
        for port in asked.ports
        if port.inward and port.name not in named
    )


RING = dataclasses.replace(TIMED, key_bits=64)
FRAMES = {"wrap": "frames-8", "bus": "wishbone"}
PLANNED = "The filter is planned for ticks of 2 us"


@pytest.mark.parametrize(
    ("spec", "options", "sentence", "cycles"),
    [
        (RING, {"wrap": "frames-64"}, f"{PLANNED}: 313 cycles at 156.25 MHz.", ".period(24'd313)"),
        (RING, FRAMES, "After reset it lasts 250 cycles, 2 us at 125 MHz.", "`0xfa`"),
        (RING, FRAMES | {"options": {"period": 500}},
         "After reset it lasts 500 cycles, 4 us at 125 MHz.", "`0x1f4`"),
        (RING, FRAMES | {"tick": None},
         "After reset it lasts 16,777,215 cycles, 134.218 ms at 125 MHz.", "`0xffffff`"),
        (SPECS["timing"], {}, f"{PLANNED}.", ""),
        (SPECS["timing"], {"target": "ecp5-25k-6"}, f"{PLANNED}: 424 cycles at 212 MHz.", ""),
    ],
)  # fmt: skip
def test_length_of_a_tick(spec, options, sentence, cycles):
    """On the page, and where it is set: in the register, or in the instance to copy."""
    files = descriptions(Design(**{"spec": spec, "name": "x", "tick": Fraction("2e-6")} | options))
    assert sentence in files["x.md"]
    assert cycles in files["x.md"] + files["x_template.v"]


@pytest.mark.parametrize(
    "case",
    [name if name in FAST else pytest.param(name, marks=pytest.mark.slow) for name in SPECS],
)
def test_page_agrees_with_simulation(case, tmp_path):
    """The input opens within the cycles of the page, and soon enough that they mean something."""
    asked = Design(spec=SPECS[case], name="unit", wrap="raw")
    page = descriptions(asked)["unit.md"]
    longest = {
        "reset": int(re.search(r"first request at most (\d+) cycles after the reset", page)[1]),
        "clear": int(re.search(r"next request at most (\d+) cycles after a CLEAR", page)[1]),
    }
    text = BENCH.replace("{others}", connections(asked))
    for name in ("check_and_insert", "query", "clear"):
        text = text.replace(f"{{{name}}}", f"3'd{Operation[name.upper()].value}")
    (tmp_path / "unit.v").write_text(asked.verilog)
    (tmp_path / "bench.v").write_text(text)
    build = ["iverilog", "-g2005", "-o", "bench", "unit.v", "bench.v"]
    subprocess.run(build, cwd=tmp_path, check=True)
    run = subprocess.run(
        ["vvp", "-n", "bench"], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60
    )
    lines = [line.split() for line in run.stdout.splitlines() if not line.startswith("bench.v")]
    for name, count in lines:
        if name != "seen":
            assert longest[name] - 40 <= int(count) <= longest[name], (name, count)
    # The key is new, then seen; after the reset, and after the CLEAR, it is new again.
    assert [name for name, _ in lines if name != "seen"] == ["reset", "reset", "clear"]
    assert [int(value) for name, value in lines if name == "seen"] == [0, 1, 0, 0, 0, 0]

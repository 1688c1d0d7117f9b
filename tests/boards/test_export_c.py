"""The command that exports C, and the exported model beside the exported unit in one bench."""

import json
import re
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner
from verilators import verilator

from lately.boards.export.bundle import write
from lately.boards.export.design import Design
from lately.boards.export.folder import write_folder
from lately.cli.app import main
from lately.golden import any_preset, from_spec, load
from lately.golden.c_header import files
from lately.sim.toolchain import PRECOMPILED_HEADER_FLAG

DRIVEN = ("out_seen", "out_age", "out_valid", "out_ready")
COUNTERS = ("operations", "insertions", "hits", "shifts", "lost", "guaranteed")
ROOT = Path(__file__).parents[2]
BENCH = """
module bench;
  import {name}_dpi::*;
  reg clk = 0, rst = 1;
  always #5 clk = !clk;
  reg [{top}:0] in_key = 0;
  reg [{code}:0] in_operation = 0;
  reg [7:0] in_tag = 0;
  reg in_valid = 0, out_ready = 0;
  {window}
  wire in_ready, out_valid, out_seen;
  wire [63:0] age;
  {unit} dut (.clk(clk), .rst(rst), .in_key(in_key), .in_operation(in_operation), .in_tag(in_tag),
    .in_valid(in_valid), .in_ready(in_ready), .out_valid(out_valid), .out_ready(out_ready),
    .out_seen(out_seen), .out_age(age[{age}:0]){more});
  longint wanted[$];
  int results = 0, hits = 0, wrong = 0;
  chandle model;
  longint answer;
  initial begin
    model = {name}_dpi_new(0, 0);
    repeat (4) @(negedge clk);
    rst = 0;
    while (results < 3000) begin
      @(negedge clk);
      if (!(in_valid && !in_ready)) begin
        in_valid = $urandom_range(9) > 1;
        in_key = {keys};
        in_operation = {codes};
        {draw}
      end
      out_ready = $urandom_range(9) > 1;
      #1;
      if (in_valid && in_ready)
        wanted.push_back({name}_dpi_perform(model, int'(in_operation), in_key, 0, {asked}));
      if (out_valid && out_ready) begin
        answer = wanted.pop_front();
        results++;
        if (out_seen) hits++;
        if (out_seen != (answer >= 0) || (out_seen && longint'(age[{age}:0]) != answer)) wrong++;
      end
      @(posedge clk);
      #1;
      in_valid = in_valid && !in_ready;
    end
    $display("%0d results, %0d wrong, hits: %0d", results, wrong, hits > 300);
    $finish;
  end
endmodule
"""


@pytest.mark.parametrize(
    ("preset", "codes", "window"),
    [("gebf-tiny", [1, 2, 3, 3, 3, 4], 0), ("dictionary-tiny", [1, 2, 3, 3, 3, 8], 40)],
)
def test_model_beside_the_unit(preset, codes, window, tmp_path):
    """Random operations, with pauses on both sides: each result is that of the model in C."""
    spec = any_preset(preset)
    write(Design(spec=spec, name="seen", wrap="raw"), tmp_path / "unit")
    write_folder(files(spec, "seen_c"), tmp_path / "c")
    template = (tmp_path / "unit" / "seen_template.v").read_text()
    width = {
        field: int(bits)
        for bits, field in re.findall(r"(\d+) bits? of (\w+)", template)
    }  # fmt: skip
    choose = " : ".join(f"pick == {at} ? {code}" for at, code in enumerate(codes))
    asks = f"reg [{width['in_window'] - 1}:0] in_window = 0;" if window else ""
    more = [", .in_window(in_window)"] * bool(window)
    if spec.kind == "ring":
        more.append(f", .generation({spec.generation})")
    more += [
        f", .{port}()"
        for port in re.findall(r"\.(\w+)\(", template)
        if (port.startswith("out_") and port not in DRIVEN) or port in COUNTERS
    ]
    text = BENCH.format(
        name="seen_c", unit="seen", top=spec.key_bits - 1, code=width["in_operation"] - 1,
        age=width["out_age"] - 1, window=f"{asks} int pick = 0;", more="".join(more),
        keys="8'($urandom_range(60))", codes="0", asked="64'(in_window)" if window else "0",
        draw=f"pick = $urandom_range({len(codes) - 1}); in_operation = {choose} : 0;"
        + (f" in_window = 6'($urandom_range({window - 1}) + 1);" if window else ""),
    )  # fmt: skip
    (tmp_path / "bench.sv").write_text(text)
    verilator(
        "verilator", tmp_path, "--binary", "--timing", "-Wno-fatal", "-Wno-WIDTH",
        "-Wno-TIMESCALEMOD", "-CFLAGS", f"-fcoroutines -I{tmp_path}/c", "-MAKEFLAGS",
        f"OPT_FAST=-O0 OPT_SLOW=-O0 OPT_GLOBAL=-O0 {PRECOMPILED_HEADER_FLAG}", "--top-module",
        "bench", "c/seen_c_dpi.sv", "unit/seen.v", "bench.sv", "c/seen_c_dpi.c",
    )  # fmt: skip
    done = subprocess.run(
        ["obj_dir/Vbench", "+verilator+seed+5"], cwd=tmp_path, capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    assert done.stdout.splitlines()[0] == "3000 results, 0 wrong, hits: 1"


def test_command(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = CliRunner().invoke

    def lately(*arguments):
        return run(main, [*arguments])

    done = lately("export", "--preset", "gebf-tiny", "--name", "seen", "--c", "--json")
    assert done.exit_code == 0
    assert json.loads(done.stdout)["files"] == ["seen.h", "seen.toml", "seen_dpi.c", "seen_dpi.sv"]
    model = from_spec(any_preset("gebf-tiny"))
    model.insert(range(50))
    model.save("seen.npz")
    assert lately("convert", "seen.npz", "seen.bin").exit_code == 0
    assert lately("convert", "seen.bin", "back.npz", "--spec", "seen/seen.toml").exit_code == 0
    assert load("back.npz") == model
    for arguments, message in (
        (["convert", "seen.bin", "x.npz"], "give --spec, the TOML file that was exported"),
        (["convert", "seen.npz", "x.bin", "--spec", "seen/seen.toml"], "--spec applies only "),
        (["convert", "seen/seen.h", "x.npz", "--spec", "seen/seen.toml"], "state: expected 208"),
        (["export", "--preset", "tiny", "--name", "a", "--c", "--bus", "wishbone"],
         "--c cannot be combined with --bus"),
        (["export", "--preset", "tiny", "--name", "3a", "--c"], "name: must be a C identifier"),
    ):  # fmt: skip
        wrong = lately(*arguments)
        assert wrong.exit_code == 2
        assert message in wrong.stderr
    assert sorted(path.name for path in tmp_path.glob("x.*")) == []


def test_example_of_the_page(tmp_path):
    """What the page compiles prints what the page shows."""
    page = (ROOT / "docs" / "c.md").read_text()
    source, shown = re.search(r"```c\n(.*?)```.*?\./main\n(.*?)```", page, re.DOTALL).groups()
    write_folder(files(any_preset("gebf-tiny"), "seen"), tmp_path / "c")
    (tmp_path / "main.c").write_text(source)
    for options in (["cc", "-std=c99"], ["c++", "-x", "c++", "-std=c++11"]):
        command = [
            *options,
            "-Wall",
            "-Wextra",
            "-Werror",
            "-pedantic",
            "-Ic",
            "main.c",
            "-o",
            "main",
        ]
        subprocess.run(command, cwd=tmp_path, check=True)
        done = subprocess.run(["./main"], cwd=tmp_path, capture_output=True, text=True, check=True)
        assert done.stdout == shown

"""Figures in reports of vendors' tools.

The reports were written by hand, in the formats of the vendors' documents and of public reports;
no tool of these vendors wrote them.
"""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from campaigns.pages import tables
from lately.boards.export.vendor_reports import FORMATS, ReportError, read_report
from lately.cli.app import main
from lately.golden import any_preset

REPORTS = Path(__file__).parents[1] / "data" / "reports"

FIGURES = {
    # 5 ns and 0.25 ns too long; 15.5 tiles of two blocks.
    "vivado": ("2023.2", "xc7a35tcpg236-1", 1559, "LUTs", 1245, 31, 190.5),
    # The slower model, and no faster than the pins of the clock.
    "quartus": ("23.1std.0", "5CEBA4F23C7", 1102, "ALMs", 1981, 32, 183.5),
    "radiant": ("2023.2.0.38.1", "LIFCL-40CABGA400", 1653, "LUTs", 1357, 32, 120.3),
}


def text(tool):
    return (REPORTS / f"{tool}.rpt").read_text()


@pytest.mark.parametrize("tool", FORMATS)
def test_figures(tool):
    names = ("version", "device", "luts", "lut_name", "ff", "bram", "timing_mhz")
    expected = dict(zip(names, FIGURES[tool], strict=True))
    figures = read_report(text(tool))
    assert figures == expected | {"uram": 0, "tool": tool, "kind": "reported by users"}


@pytest.mark.parametrize(
    ("tool", "cut", "missing"),
    [
        ("vivado", "| Slice LUTs", "LUTs"),
        ("vivado", "WNS(ns)", "slack"),
        ("vivado", "seen_aclk  {", "period"),
        ("quartus", "Total RAM Blocks", "block RAMs"),
        ("quartus", "MHz ; 1", "clock"),
        ("radiant", "Number of registers", "registers"),
        ("radiant", "Actual (all paths)", "clock"),
    ],
)
def test_report_without_a_figure(tool, cut, missing):
    lines = [line for line in text(tool).splitlines() if cut not in line]
    message = f"^report: {missing} not found; X_{tool}.tcl writes a complete report"
    with pytest.raises(ReportError, match=message):
        read_report("\n".join(lines))


def test_damaged_report():
    """A number is damaged, or the design was not routed."""
    for tool, old, new, message in (
        ("vivado", " -0.250 ", " 5.000 ", "the slack must be below the period of 5.000 ns"),
        ("vivado", " -0.250 ", " -0..25 ", "slack not found"),
        ("vivado", "| 1559 |", "| 15.59 |", "LUTs not found"),
        ("quartus", "1,102", ",", "ALMs not found"),
        ("radiant", "120.337 MHz", "120.3.37 MHz", "clock not found"),
        *(("vivado", "Routed", state, "the design is not routed; X_vivado.tcl routes it")
          for state in ("Synthesized", "Optimized", "Fully Placed", "Physopt preRoute")),
    ):  # fmt: skip
        assert old in text(tool)
        with pytest.raises(ReportError, match=f"^report: {message}"):
            read_report(text(tool).replace(old, new))


@pytest.mark.parametrize(
    ("tool", "old", "new", "figure"),
    [
        # After phys_opt_design.
        ("vivado", "Design State : Routed", "Design State : Physopt postRoute", {}),
        ("vivado", "| Slice ", "| CLB ", {}),
        ("vivado", "| Block RAM", "| URAM | 74 | 0 | 0 | 960 | 7.71 |\n| Block RAM", {"uram": 74}),
        ("quartus", "; Fmax       ; Restricted Fmax ; Clock Name ; Note ;\n", "", {}),
        # The Pro Edition.
        ("quartus", "Total registers :", "Total dedicated logic registers :", {}),
        ("radiant", "Target Device:        LIFCL-40CABGA400", "Device:  LIFCL-40",
         {"device": "LIFCL-40"}),
        ("radiant", "Number of registers:", "Number of slice registers:", {}),
        ("radiant", "Number of Block RAMs:", "Number of EBRs:", {}),
    ],
)  # fmt: skip
def test_other_editions_of_a_report(tool, old, new, figure):
    assert old in text(tool)
    assert read_report(text(tool).replace(old, new)) == read_report(text(tool)) | figure


def collect(*arguments):
    return CliRunner().invoke(main, ["collect", *map(str, arguments)], standalone_mode=True)


def test_line_is_shown_by_the_page(tmp_path):
    any_preset("small").to_toml(tmp_path / "seen.toml")
    done = collect(REPORTS / "vivado.rpt", "--spec", tmp_path / "seen.toml")
    assert done.exit_code == 0
    (line,) = done.stdout.splitlines()
    figures = json.loads(line)
    block = tables.performance([], [figures])["reported"]
    row = (
        "| apbbf, 64-bit keys | xc7a35tcpg236-1 | vivado 2023.2 | 1,559 LUTs | 1,245 | 31 | 190.5 |"
    )
    assert row in block
    ultra = tables.performance([], [figures | {"uram": 74}])["reported"]
    assert "| 31 and 74 UltraRAMs |" in ultra
    assert "No user" in tables.performance([])["reported"]


@pytest.mark.parametrize("content", [b"", b"\x00\xff", b"Total registers : 5\n"])
def test_other_file(content, tmp_path):
    (tmp_path / "other.rpt").write_bytes(content)
    any_preset("small").to_toml(tmp_path / "seen.toml")
    done = collect(tmp_path / "other.rpt", "--spec", tmp_path / "seen.toml")
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.splitlines()[-1] == (
        "lately: error: report: not recognised as a report of Vivado, Quartus or Radiant"
    )


def test_specification_is_needed():
    done = collect(REPORTS / "vivado.rpt")
    assert done.exit_code == 2
    assert "--spec" in done.stderr


def test_reports_are_samples():
    assert {path.stem for path in REPORTS.iterdir()} == set(FORMATS)

"""`lately plan` as a program: tables, files, JSON, messages."""

import json
from fractions import Fraction

import pytest
from click.testing import CliRunner
from command_runs import figures_of, lately

from lately.cli import app as cli
from lately.cli.filter_choice import planned
from lately.golden import FilterSpec, Specification, TimedTimingSpec, WindowDictionarySpec
from lately.golden.errors import SpecificationError
from lately.hdl.build import filter_unit
from lately.hdl.ring.profile import RingProfile
from lately.planner import Requirement, choose

SMALL = ("--window", "500", "--fpr", "0.05", "--family", "gebf")


def test_help_has_examples_and_says_what_slack_is():
    text = " ".join(lately("plan", "--help").stdout.split())
    assert "lately plan --span 30s --rate 200e3" in text
    assert "as a fraction of the window: a key is forgotten after (1 + F) N insertions" in text


def test_table():
    text = lately("plan", *SMALL).stdout
    assert text.startswith("Requirement: window of 500 at 0.05\n")
    (line,) = [line for line in text.splitlines() if line.startswith(" *   gebf")]
    spec = choose(Requirement(window=500, false_positive_rate=0.05, families=("gebf",)))
    assert f"r={spec.epochs} k={spec.hashes}, {spec.cells:,} bits" in line
    assert f"{spec.storage_bits:,}" in line
    assert f"\n    cells {spec.cells // 2:,}: rate" in text


def test_cost_without_a_device_is_memories():
    """README's example, which took 348 memories of 1,024 bits where only bits counted."""
    options = ("--window", 20_000, "--fpr", 0.01, "--family", "gebf", "--candidates", 1)
    result = figures_of("plan", *options)["chosen"]
    spec = FilterSpec.from_dict(result["spec"])
    assert result["cost"] == result["memories"] == RingProfile.of(spec).block_rams < 40
    assert f"  {result['memories']}  " in lately("plan", *options).stdout
    assert "memories" in lately("plan", *options).stdout
    assert "memories" not in lately("plan", *options, "--any-size").stdout
    fewer_bits = figures_of("plan", *options, "--bits-only")["chosen"]
    assert fewer_bits["cost"] == fewer_bits["bits"] < result["bits"]
    assert fewer_bits["memories"] == 348


def test_files_and_json(tmp_path):
    toml, plot = tmp_path / "filter.toml", tmp_path / "front.svg"
    result = figures_of("plan", *SMALL, "--out", toml, "--plot", plot)
    assert sorted(result) == ["candidates", "chosen", "front", "nearest_measured", "requirement"]
    assert result["requirement"] == {
        "window": 500, "false_positive_rate": 0.05, "slack": None, "families": ["gebf"],
        "device": None, "any_size": False, "span": None, "window_per_query": False,
        "exact_age": False, "remove": False, "bits_only": False, "most_bits": None,
        "most_block_rams": None,
    }  # fmt: skip
    assert result["chosen"] == result["candidates"][0]
    spec = FilterSpec.from_toml(toml)
    assert spec.to_dict() == result["chosen"]["spec"]
    RingProfile.of(spec).check_buildable()
    assert plot.read_bytes().startswith(b"<svg")
    assert {binding["constraint"] for binding in result["chosen"]["binds"]} == {"rate"}


def test_what_is_planned_runs(tmp_path):
    toml, keys = tmp_path / "filter.toml", tmp_path / "keys"
    lately("plan", *SMALL, "--out", toml)
    keys.write_text("".join(f"{number % 300}\n" for number in range(2000)))
    arguments = ["run", str(keys), "--engine", "golden", "--json", "--spec", str(toml)]
    done = CliRunner().invoke(cli.main, arguments)
    assert (done.exit_code, done.stderr) == (0, "")
    assert json.loads(done.stdout)["false_negatives"] == 0


@pytest.mark.parametrize("options", [("--bits-only",), ("--any-size",), ()])
def test_plan_and_show_agree(options, tmp_path):
    """In the bits, which include the spare, and in both ends of the window."""
    toml, same = tmp_path / "filter.toml", ("bits", "reported_until", "forgotten_from", "slack")
    arguments = (*SMALL, "--family", "apbf", *options, "--candidates", 1, "--out", toml)
    result, text = figures_of("plan", *arguments)["chosen"], lately("plan", *arguments).stdout
    done = CliRunner().invoke(cli.main, ["show", "--spec", str(toml), "--json"])
    assert [json.loads(done.stdout)[name] for name in same] == [result[name] for name in same]
    spec = FilterSpec.from_toml(toml)
    assert result["bits"] == spec.segments * spec.parts * spec.part_bits
    assert "Bits include the spare segment" in text
    assert (result["latency_cycles"] is None) == ("accesses" in text) == ("--any-size" in options)


@pytest.mark.parametrize("slack", [2, 1])
def test_a_long_slack_is_marked(slack):
    options = ("--window", 1000, "--fpr", 0.01, "--family", "apbbf", "--slack", slack)
    candidates, text = figures_of("plan", *options)["candidates"], lately("plan", *options).stdout
    for entry in candidates:
        assert entry["slack_above_window"] == (entry["slack"] > 1)
    assert sum(entry["slack_above_window"] for entry in candidates) == text.count(" ! ")
    assert ("! A key may be reported for more than twice its window" in text) == (slack > 1)


def test_a_file_keeps_tick_and_device_of_its_plan(tmp_path):
    """Readers of specifications pass over them; `show` uses them."""
    toml, span = tmp_path / "filter.toml", ("--span", "50ms", "--rate", 1e3, "--fpr", 0.05)
    result = figures_of("plan", *span, "--device", "ecp5-25k-6", "--out", toml)["chosen"]
    assert planned(str(toml)) == (Fraction("5e-5"), "ecp5-25k-6")
    spec = Specification.from_toml(toml)
    assert spec == Specification.from_dict(result["spec"])
    shown = CliRunner().invoke(cli.main, ["show", "--spec", str(toml), "--json"]).stdout
    assert (json.loads(shown)["tick_seconds"], json.loads(shown)["memories"]) == (
        5e-5,
        result["memories"],
    )
    for plan in ("3", "{ tick_seconds = 0 }"):
        toml.write_text(f"{spec.toml()}plan = {plan}\n")
        with pytest.raises(
            SpecificationError, match=r"^(plan: must be a table|tick_seconds: must)"
        ):
            planned(str(toml))


def test_what_only_timestamps_can_do(tmp_path):
    toml = tmp_path / "filter.toml"
    exact = ("--window", 1000, "--fpr", 0.001, "--slack", 0, "--device", "ecp5-25k-6")
    result = figures_of("plan", *exact, "--out", toml)
    assert result["chosen"]["spec"]["family"] == "window-dictionary"
    assert result["requirement"]["slack"] == 0
    dictionary, timing = (
        next(entry for entry in result["candidates"] if entry["spec"]["family"] == family)
        for family in ("window-dictionary", "partitioned-timing")
    )
    can = ("window_per_query", "exact_age", "remove")
    assert [dictionary[name] for name in can] == [True, True, True]
    assert [timing[name] for name in can] == [True, False, False]
    assert timing["most_operations_per_second"] < 212e6
    spec = WindowDictionarySpec.from_toml(toml)
    assert spec.to_dict() == result["chosen"]["spec"]
    near = {"unit": "dictionary-ring-1000", "device": "ecp5-25k-6", "block_rams": 6}
    assert result["nearest_measured"] == result["nearest_measured"] | near
    assert filter_unit(spec, memory="ecp5").latency == result["chosen"]["latency_cycles"]
    table = lately("plan", *exact).stdout
    assert "window of 1,000 at 0.001, no slack on ecp5-25k-6\n" in table
    assert all(word in table for word in ("answers", "exact", "remove", "blocks"))
    assert "dictionary-ring-1000 on ecp5-25k-6, 6 block RAMs, 4,289 LUTs, " in table
    assert "answers" not in lately("plan", *SMALL).stdout


def test_span_that_ends_at_once(tmp_path):
    toml = tmp_path / "filter.toml"
    span = ("--span", "500ms", "--rate", 2000, "--fpr", 0.05, "--slack", 0)
    result = figures_of("plan", *span, "--out", toml)["chosen"]
    assert (result["spec"]["family"], result["spec"]["span"]) == ("timed-timing", 1001)
    filter_unit(TimedTimingSpec.from_toml(toml))
    assert "in ticks" in lately("plan", *span, "--window-per-query").stdout


# Limits of memory


def test_lowest_rate_within_block_rams():
    options = ("--window", 2000, "--block-rams", 6, "--family", "gebf", "--candidates", 1)
    report = figures_of("plan", *options)
    result, rate = report["chosen"], report["requirement"]["false_positive_rate"]
    assert result["memories"] <= report["requirement"]["most_block_rams"] == 6
    assert result["worst_false_positive_rate"] <= rate
    for share, fits in ((1, True), (0.995, False)):
        wanted = Requirement(window=2000, false_positive_rate=share * rate, families=("gebf",))
        assert (RingProfile.of(choose(wanted)).block_rams <= 6) == fits
    assert lately("plan", *options).stdout.startswith(
        f"Requirement: window of 2,000 at {rate:.3g}, at most 6 block RAMs\n"
    )


def test_largest_window_within_bits():
    options = ("--fpr", 0.05, "--bits", 30_000, "--family", "gebf", "--candidates", 1)
    report = figures_of("plan", *options)
    window = report["requirement"]["window"]
    assert report["chosen"]["bits"] <= report["requirement"]["most_bits"] == 30_000
    step = 10 ** (len(str(window)) - 3)
    for size, fits in ((window, True), (window + step, False)):
        wanted = Requirement(
            window=size, false_positive_rate=0.05, families=("gebf",), bits_only=True
        )
        assert (choose(wanted).storage_bits <= 30_000) == fits


@pytest.mark.slow
def test_largest_window_within_block_rams_of_a_device():
    options = ("--fpr", 0.05, "--block-rams", 8, "--device", "ecp5-25k-6", "--family", "apbbf")
    report = figures_of("plan", *options, "--candidates", 1)
    assert report["chosen"]["memories"] <= 8
    assert report["requirement"]["window"] > 1000

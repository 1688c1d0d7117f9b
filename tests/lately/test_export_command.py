"""`lately export` as a program: files, figures, messages."""

import json
import re
import subprocess

import pytest
from click.testing import CliRunner

from lately.cli import app as cli
from lately.golden import any_preset
from lately.golden.spec import GEBFSpec
from lately.golden.spec.base import Specification

SPEC = GEBFSpec(window=72, epochs=3, hashes=3, bits=6144, key_bits=64, span=20)
FRAMES = "frames.toml"


def run(*arguments):
    return CliRunner().invoke(cli.main, ["export", *map(str, arguments)])


def test_files_and_figures(tmp_path):
    done = run("--preset", "tiny", "--name", "seen", "--out-dir", tmp_path / "ip", "--json")
    assert (done.exit_code, done.stderr) == (0, "")
    figures = json.loads(done.stdout)
    assert figures["files"] == sorted(path.name for path in (tmp_path / "ip").iterdir())
    assert figures["spec"] == any_preset("tiny").to_dict()
    assert Specification.from_toml(tmp_path / "ip" / "seen.toml") == any_preset("tiny")
    text = run("--preset", "tiny", "--name", "seen", "--out-dir", tmp_path / "again").stdout
    latency, digest = figures["latency_cycles"], figures["digest"]
    assert f"1 lane, latency {latency} cycles, specification {digest}" in text


@pytest.mark.slow
def test_deduplicator_of_frames(tmp_path):
    """Its test bench finds what the golden model lets through."""
    SPEC.to_toml(tmp_path / FRAMES)
    arguments = ("--spec", tmp_path / FRAMES, "--name", "dedup", "--wrap", "frames-64")
    sizes = ("--max-frame", 1518, "--buffer", 4096, "--on-overflow", "drop", "--period", 1562)
    done = run(*arguments, *sizes, "--bus", "wishbone", "--out-dir", tmp_path / "ip")
    assert (done.exit_code, done.stderr) == (0, "")
    assert "ip: frame deduplicator, specification " in done.stdout
    assert "`0x61a`" in (tmp_path / "ip" / "dedup.md").read_text()
    build = ["iverilog", "-g2005", "-o", "bench", "dedup.v", "dedup_tb.v"]
    subprocess.run(build, cwd=tmp_path / "ip", check=True)
    bench = subprocess.run(
        ["vvp", "bench"], cwd=tmp_path / "ip", capture_output=True, text=True, check=True
    )
    assert re.search(r"^PASS: \d+ results", bench.stdout, re.M), bench.stdout


@pytest.mark.parametrize("options", [[], ["--period", 9], ["--ticks", "tick"]])
@pytest.mark.parametrize("plan", [None, {"tick_seconds": 1e-6, "device": "ecp5-85k-8"}])
def test_a_plan_gives_tick_and_device(plan, options, tmp_path, monkeypatch):
    designs = []
    monkeypatch.setattr(
        "lately.boards.export.bundle.write", lambda asked, *_, **__: designs.append(asked) or []
    )
    SPEC.to_toml(tmp_path / FRAMES, plan=plan)
    done = run("--spec", tmp_path / FRAMES, "--name", "x", "--wrap", "frames-8", *options)
    missing = f"The tick is not in {tmp_path / FRAMES}: give --period." in done.stdout
    assert (done.exit_code, missing) == (0, not plan and not options), done.output
    assert (designs[0].target, designs[0].planned_period) == (plan and "ecp5-85k-8", plan and 125)

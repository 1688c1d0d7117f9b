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
    told = json.loads(done.stdout)
    assert told["files"] == sorted(path.name for path in (tmp_path / "ip").iterdir())
    assert told["spec"] == any_preset("tiny").to_dict()
    assert Specification.from_toml(tmp_path / "ip" / "seen.toml") == any_preset("tiny")
    text = run("--preset", "tiny", "--name", "seen", "--out-dir", tmp_path / "again").stdout
    latency, digest = told["latency_cycles"], told["digest"]
    assert f"1 lane, latency {latency} cycles, specification {digest}" in text


@pytest.mark.slow
def test_deduplicator_of_frames(tmp_path):
    """Its test bench finds what the golden model lets through."""
    SPEC.to_toml(tmp_path / FRAMES)
    arguments = ("--spec", tmp_path / FRAMES, "--name", "dedup", "--wrap", "frames-64")
    sizes = ("--max-frame", 1518, "--buffer", 4096, "--on-overflow", "drop", "--period", 1562)
    done = run(*arguments, *sizes, "--bus", "wishbone", "--out-dir", tmp_path / "ip")
    assert (done.exit_code, done.stderr) == (0, "")
    assert "ip: deduplicator of frames, specification " in done.stdout
    assert "`0x61a`" in (tmp_path / "ip" / "dedup_registers.md").read_text()
    build = ["iverilog", "-g2005", "-o", "bench", "dedup.v", "dedup_tb.v"]
    subprocess.run(build, cwd=tmp_path / "ip", check=True)
    told = subprocess.run(
        ["vvp", "bench"], cwd=tmp_path / "ip", capture_output=True, text=True, check=True
    )
    assert re.search(r"^PASS: \d+ results", told.stdout, re.M), told.stdout


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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--preset", "tiny"), "give --name, the name of the module (see 'lately export --help')"),
        (("--name", "a b"), "name: must begin with a letter and go on with letters, digits and "
                            "single underscores, not 'a b'"),
        (("--name", "x", "--preset", "none"), "preset: unknown 'none'; "),
        (("--name", "x", "--preset", "tiny", "--memory", "sram"), "memory: must be portable or "),
        (("--name", "x", "--preset", "timing-tiny", "--covered"),
         "--covered needs results, of a ring with a window in time (see"),
        (("--name", "x", "--preset", "tiny", "--ticks", "tick"),
         "--ticks needs a filter whose window is one in time (see"),
        (("--name", "x", "--preset", "tiny", "--tag-bits", "1000000"),
         "tag_bits: must be at most 64, not 1000000"),
        (("--name", "x", "--preset", "tiny", "--device", "none"), "device: unknown 'none'; "),
        (("--name", "x", "--preset", "tiny", "--out-dir", "/proc/none/x"), "/proc/none/x: "),
        (("--name", "x", "--spec", "none.toml"), "none.toml: "),
        (("--name", "x", "--preset", "tiny", "--bus", "avalon"),
         "Invalid value for '--bus': 'avalon' is not one of "),
        (("--name", "x", "--preset", "tiny", "--wrap", "frames-8"),
         "span: must be given for a deduplicator of frames"),
        (("--name", "x", "--spec", FRAMES, "--wrap", "frames-8", "--buffer", "3000"),
         "Buffer must be a power of two, not 3000"),
        (("--name", "x", "--spec", FRAMES, "--wrap", "frames-8", "--bad-bit", "1"),
         "Bad bit must be at most 0, not 1"),
        (("--name", "x", "--spec", FRAMES, "--wrap", "frames-8", "--no-tready", "--on-overflow",
          "wait"), "When full must be drop for an input without TREADY, not 'wait'"),
        (("--name", "x", "--spec", FRAMES, "--wrap", "frames-8", "--max-frame", "9000"),
         "Buffer must be of at least 18024 bytes for two frames of 9000, not 8192"),
    ],
)  # fmt: skip
def test_wrong(arguments, message, tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    SPEC.to_toml(tmp_path / FRAMES)
    done = run(*(f"../{one}" if one == FRAMES else one for one in arguments))
    assert done.exit_code != 0
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"lately: error: {message}")
    assert not list((tmp_path / "here").iterdir())

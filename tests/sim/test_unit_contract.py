"""The test plan on units of every family, under two simulators; broken units fail it."""

import ast
import os
from dataclasses import replace
from pathlib import Path

import cocotb_tools.config
import pytest

from campaigns.coverage_report import FRAMES, FRAMES_FILTER
from lately.golden import PRESETS, FilterSpec, any_preset, preset
from lately.sim import toolchain
from lately.sim.bench.frames import FrameSettings
from lately.sim.bench.runner import SIMULATORS, planned, run_filter_bench
from lately.sim.bench.testplan import MODULES, PLAN

SEED = 20260807
LANES = preset("two-lanes-tiny")
CROWDED = replace(any_preset("dictionary-ring-tiny"),
                  window=60, columns=2, rows=16, digest_bits=8, stash=4)  # fmt: skip
SMALL = replace(
    any_preset("dictionary-tiny"), window=20, columns=3, rows=4, digest_bits=6, stash=3, seed=2
)
"""Few cells, which the digests of 256 keys overfill, and in which operations meet."""
TABLES = replace(any_preset("timing-tiny"), classes=2)
UNITS = {
    **{name: PRESETS[name] for name in ("apbbf-tiny", "apbf-tiny", "gebf-tiny", "siphash-tiny",
                                        "blocked-gebf-tiny", "two-lanes-tiny", "four-lanes-tiny")},
    # Several words and parts, a key wider than the hash state, and a run of three.
    "apbbf-wide": FilterSpec(family="apbbf", k=3, l=4, block_bits=32, hashes_per_block=4,
                             blocks=16, key_bits=104, seed=7, clear=16),
    # A key of two words of the hash; a secret without re-keying; and one for all lanes.
    "gebf-rekey": replace(PRESETS["gebf-tiny"], hash="siphash", rekey=True, key_bits=70),
    "blocked-gebf-siphash": replace(PRESETS["blocked-gebf-tiny"], hash="siphash"),
    "lanes-siphash": replace(LANES, hash="siphash"),
    "lanes-wide": replace(LANES, hash="siphash", key_bits=256),
    "timed-tiny": PRESETS["timed-tiny"],
    "timed-period": PRESETS["timed-tiny"],
    # A spare that takes longer to clear than a later time to arrive.
    "timed-requests": replace(PRESETS["timed-tiny"], blocks=32),
    "timed-overfill": replace(PRESETS["timed-tiny"], when_full="overfill"),
    "timed-overfill-requests": replace(PRESETS["timed-tiny"], when_full="overfill"),
    "timed-gebf": replace(PRESETS["gebf-tiny"], window=48, generation=None, bits=192, span=12),
    "timed-gebf-requests": replace(PRESETS["gebf-tiny"], window=48, generation=None, bits=192,
                                   span=12),
    **{name: any_preset(name) for name in ("timing-tiny", "timing-counted-tiny",
                                           "dictionary-tiny", "dictionary-ring-tiny")},
    "timing-period": any_preset("timing-tiny"),
    # 32 places for the results of a latency of 26 cycles; ages of which the last has a fifth bit.
    "timing-wide": replace(any_preset("timing-tiny"), key_bits=300, hashes=4, cells=4),
    "timing-counted-ages": replace(any_preset("timing-counted-tiny"), window=120, block=8,
                                   classes=1, phase_bits=0, stamp_bits=6),
    "timing-tables": TABLES,
    "timing-counted-tables": replace(any_preset("timing-counted-tiny"), classes=3, block=4,
                                     stamp_bits=5, phase_bits=2),
    "dictionary-siphash": replace(any_preset("dictionary-tiny"), hash="siphash"),
    "dictionary-crowded": CROWDED,
    "dictionary-small": SMALL,
}  # fmt: skip
"""Units of every family."""


def options_of(name):
    """The source of ticks, as the name of a unit has it; results that say what is covered."""
    return {
        "period": {"ticks": "period"}, "requests": {"ticks": "time"},
        "overfill": {"report_covered": True},
    }.get(name.rpartition("-")[2], {})  # fmt: skip


QUICK = {
    ("apbbf-tiny", "verilator"): "^(?!.*(pauses=(none|input|output)|pauses_of|between_keys))",
    **dict.fromkeys((("apbf-tiny", "icarus"), ("blocked-gebf-tiny", "icarus")), "documented"),
    ("gebf-tiny", "icarus"): "short|generation_is|reset_in|documented",
    ("timed-overfill", "icarus"): "come_close|documented|whole_span|latency|silence|bursts",
    ("timed-requests", "icarus"): "later_times|shift_that|an_earlier|pauses=both",
    ("timed-period", "icarus"): "period",
    ("timing-counted-tiny", "icarus"): "windows_of|documented",
    (
        "timing-tables",
        "icarus",
    ): "documented|swap_between|no_entry|reset_in|come_close|latency|blocked_output",
    ("dictionary-tiny", "icarus"): "documented|=cell|removed_and|losses|windows_of|reset_in",
    ("dictionary-crowded", "icarus"): "pauses=both",
}
"""Runs of every day, with the tests of each: a test that many units pass, on one unit of a family.
`test_compiled.py` compares random operations of each family. In a long run all units run the whole
plan under both simulators; Icarus starts at once, Verilator compiles for long."""

LONG = [
    # Sentences about the sweep need more than a few cells.
    *((name, simulator, {}) for name in UNITS if UNITS[name] != SMALL for simulator in SIMULATORS),
    *((name, "icarus", {"memory": memory})
      for name in ("apbbf-tiny", "timed-tiny") for memory in ("ecp5", "ice40", "gowin")),
    *((name, "icarus", {"memory": "ecp5", "inverted": inverted})
      for name in ("timing-tiny", "timing-counted-tiny", "dictionary-tiny", "dictionary-crowded")
      for inverted in (False, True)),
]  # fmt: skip


def check(name, simulator, folder, testcase=None, **options):
    """Run tests of the plan, and compare their names with the plan."""
    options |= options_of(name)
    outcomes = run_filter_bench(
        UNITS[name], simulator, folder, seed=SEED, testcase=testcase, **options
    )
    print(f"seed {SEED}: {sum(outcomes.values())} of {len(outcomes)} tests passed")
    ran = {test.partition("/")[0] for test in outcomes}
    assert ran
    options.pop("inverted", None)
    assert testcase or ran == planned(UNITS[name], **options)
    assert all(outcomes.values()), [test for test, passed in outcomes.items() if not passed]


@pytest.mark.rtl
@pytest.mark.parametrize(("name", "simulator"), QUICK)
def test_unit(name, simulator, tmp_path, capfd):
    """With memories that answer with garbage, where there are cells."""
    garbage = {"memory": "ecp5"} if name.startswith(("timing", "dictionary")) else {}
    check(name, simulator, tmp_path, QUICK[name, simulator], **garbage)


@pytest.mark.slow
@pytest.mark.rtl
@pytest.mark.parametrize(
    ("name", "simulator", "options"), LONG, ids=lambda one: "-".join(map(str, one.values()))
    if isinstance(one, dict) else one,
)  # fmt: skip
def test_whole_plan(name, simulator, options, tmp_path, capfd):
    check(name, simulator, tmp_path, **options)


@pytest.mark.slow
@pytest.mark.rtl
def test_packages_in_a_path_with_spaces(tmp_path, monkeypatch, capfd):
    """Makefiles cannot hold such a path; the bench builds and runs nevertheless."""
    spaced = tmp_path / "with spaces"
    spaced.mkdir()
    for name in ("libs_dir", "share_dir"):
        link = spaced / name
        link.symlink_to(getattr(cocotb_tools.config, name))
        monkeypatch.setattr(cocotb_tools.config, name, link)
    link = spaced / "verilator"
    link.symlink_to(toolchain.verilator_root())
    monkeypatch.setattr(toolchain, "verilator_root", lambda: link)
    monkeypatch.setattr(os, "environ", os.environ.copy())
    check("gebf-tiny", "verilator", tmp_path, "same_key_back_to_back")


def test_every_sentence_has_a_test_and_every_test_a_sentence():
    folder = Path(__file__).parents[2] / "sim" / "bench"
    found = {
        (path.stem, node.name)
        for path in folder.glob("*contract.py")
        for node in ast.parse(path.read_text("utf-8")).body
        if isinstance(node, ast.AsyncFunctionDef) and node.decorator_list
    }
    assert found == {(row.module, row.test) for row in PLAN.values()}
    assert {module for module, _ in found} == {*MODULES}


def test_every_sentence_is_for_some_unit_of_the_long_run():
    ran = set()
    for name in UNITS:
        ran |= planned(UNITS[name], **options_of(name))
    for options in FRAMES.values():
        traits = FrameSettings(FRAMES_FILTER, options).traits
        ran |= {name for name, row in PLAN.items() if row.applies(traits)}
    assert ran == {*PLAN}

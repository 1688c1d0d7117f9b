"""The test plan on units of every family, under two simulators; broken units fail it."""

import ast
import os
import re
from dataclasses import replace
from pathlib import Path

import cocotb_tools.config
import pytest
from mutants import broken

from campaigns.coverage_report import FRAMES, FRAMES_FILTER
from lately.golden import PRESETS, FilterSpec, any_preset, preset
from lately.hdl import unit
from lately.hdl.dictionary import column, stash
from lately.hdl.dictionary import core as dictionary_core
from lately.hdl.dictionary.column import Column
from lately.hdl.dictionary.placement import Placement
from lately.hdl.dictionary.places import SparePlace
from lately.hdl.dictionary.stash import Stash
from lately.hdl.dictionary.sweep import Sweep
from lately.hdl.frontend.front import PlainFrontEnd
from lately.hdl.lanes import unit as lanes
from lately.hdl.lanes.collector import Collector
from lately.hdl.lanes.unit import LaneUnit
from lately.hdl.timing import core as timing_core
from lately.hdl.timing import part
from lately.hdl.timing.core import TimingCore
from lately.hdl.timing.decision_tables import DecidingCore
from lately.hdl.timing.part import TimingPart
from lately.hdl.timing.recent import recent_insertion
from lately.hdl.timing.sweep import VisitSweep
from lately.hdl.timing.sweep_rules import BETWEEN
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


WRONG = (
    r"result \d+(: expected | changed)|memory differs|lost: expected|guaranteed|swap|apart|"
    "the unit says"
)
TINY, TIMING, COUNTED = (
    any_preset(f"{name}-tiny") for name in ("dictionary", "timing", "timing-counted")
)
MIXED, PAIRS = "random_operations", "every_distance_between_kinds"
BROKEN = {
    # Of lanes: a verdict, an answer that is lost, a payload that changes, and a beat too early.
    "verdict": (lanes, Collector, " | (kept.known & kept.query)", "", LANES, "one_key_flows"),
    "answer": (lanes, Collector, "queue.valid_next.eq(coming.value)",
               "queue.valid_next.eq(coming.value & (answer.lanes[0].tag != 77))",
               LANES, "hot_key"),
    "payload": (lanes, LaneUnit, "self.o.p.eq(collector.o.p)",
                "self.o.p.eq(collector.o.p.as_value() & self.o.ready.as_signed())",
                LANES, "reset_in_mid_stream"),
    "beat": (lanes, LaneUnit, "pace.all()", "pace[:2].all()", UNITS["lanes-siphash"],
             "secret_comes_in_with_a_clear_at_full_rate/into=0.0"),
    "pace": (lanes, LaneUnit, "Mux(secrets.waits, pace + 1, 0)", "pace + 1", UNITS["lanes-siphash"],
             "secret_comes_in_with_a_clear_at_full_rate/into=0.0"),
    # Of dictionaries: the digest of an operation in flight, and the cells that it fills or empties.
    "digest": (dictionary_core, Placement,
               "mine = acts & self._same.at(stage).value[distance - 1]", "mine = acts & 0",
               TINY, "removed_and_inserted"),
    "filled": (dictionary_core, Placement, "& ~(fills & rows)),", "),", SMALL, MIXED),
    "emptied": (dictionary_core, Placement, "(state.free | (empties & rows))", "state.free", SMALL,
                MIXED),
    "informed": (dictionary_core, Placement,
                 "state = self._informed(m, state, HAZARDS, reports_before)", "pass", TINY, PAIRS),
    "written": (dictionary_core, Placement, "(self.free & ~state.written)", "self.free", TINY,
                PAIRS),
    "absorbed": (dictionary_core, Placement, "(self._fills & ~absorbed) | self._empties",
                 "(self._fills | self._empties) & ~absorbed", TINY, "removed_and_inserted"),
    # A cell that is read while it is written, an erasure called off, and entries that expire.
    "garbage": (dictionary_core, Column, 'cell.used & ~met, "used")', 'cell.used, "used")', TINY,
                "random_operations"),
    "erasure": (column, Sweep, "pending & ~self._elaborate_cancelled(m, start)", "pending",
                TINY, "insertions_into_the_rows"),
    "sweep": (column, Sweep, "self.writes.eq(flight[-1] & pending &",
              "self.writes.eq(0 & pending &", TINY, "entries_expire"),
    # The stash: digests that come and go while another is looked for, and a loss.
    "match": (dictionary_core, Stash, "return (match & ~changed) |", "return match |", SMALL,
              MIXED),
    "pushed 1": (dictionary_core, Stash, "same.at(1).value[2])", "Const(0))", SMALL, MIXED),
    "pushed 2": (dictionary_core, Stash, "same.at(2).value[1])", "Const(0))", SMALL, MIXED),
    "pushed 3": (dictionary_core, Stash, "same.at(2).value[0])", "Const(0))", SMALL, MIXED),
    "loss": (dictionary_core, Stash, "self.lost.eq(displaces & (gone < self._spec.window))",
             "self.lost.eq(0)", TINY, "losses_are_reported"),
    # Of moves: an entry given up in silence.
    "silence": (stash, SparePlace, "(self.valid & spare & ~self.match).any()", "0",
                CROWDED, "moves_report"),
    # Of timing filters: insertions that a read does not see, alone or with a tick between.
    **{f"write {distance}": (part, recent_insertion, "address, other, flag))",
                             f"address, other, flag & (ahead != {distance})))", TIMING,
                             "every_distance_between_keys") for distance in (1, 4, BETWEEN)},
    "tick": (part, recent_insertion, "(passed + tick)", "(tick + 0)", TIMING, "tick_between"),
    "block": (part, recent_insertion, "(passed + tick)", "(tick + 0)", COUNTED,
              "every_distance_between_equal"),
    "expired": (timing_core, TimingPart, "since >= self._limit, swept & ~renewed",
                "since >= self._limit, 0", COUNTED, "insertions_into"),
    # Their sweep: of cells that expire, of all others, of those after a CLEAR; and too slow.
    "stamps": (timing_core, VisitSweep, "(decided.wipe | decided.expired)", "decided.wipe",
               COUNTED, "no_silence"),
    "visit": (timing_core, VisitSweep, "decided.visit & (decided.wipe | decided.expired)",
              "decided.visit", COUNTED, "random_operations"),
    "wipe": (timing_core, VisitSweep, "decided.wipe | decided.expired", "decided.expired",
             COUNTED, "clear_forgets"),
    "clean": (timing_core, TimingCore, "visits.clean & ~clearing", "visits.clean", TIMING,
              "clear_forgets"),
    # Of a core without generations: a SHIFT that counts as a tick.
    "SHIFT": (unit, PlainFrontEnd, "self.control.shift.eq(clock.shift)",
              "self.control.shift.eq(clock.shift | (gate.event & ~gate.insert & ~gate.clears))",
              TIMING, "documented"),
    # Of tables: a swap too early or too late, an entry too soon, and another operation's phase.
    "swap -1": (timing_core, DecidingCore, '"swap").at(CONTROL_LAG)', '"swap").at(CONTROL_LAG - 1)',
                TABLES, "swap_between"),
    "swap +1": (timing_core, DecidingCore, '"swap").at(CONTROL_LAG)', '"swap").at(CONTROL_LAG + 1)',
                TABLES, "swap_between"),
    "entry": (timing_core, DecidingCore, "(settling == 0) & ~self.swap", "1", TABLES, "no_entry"),
    "phase": (timing_core, DecidingCore, 'asked["phase"].at(told)', 'asked["phase"].at(told + 1)',
              UNITS["timing-counted-tables"], "answers_are"),
}  # fmt: skip
"""Where a component is looked up, the component, the text that leaves and the text that comes, the
unit, and tests of the plan, of which at least one fails."""


@pytest.mark.parametrize("defect", BROKEN)
def test_defect_can_be_made(defect):
    """Also those of a long run, which must not have been left behind by a change of the source."""
    _, component, old, new, *_ = BROKEN[defect]
    assert broken(component, old, new) is not component


@pytest.mark.rtl
@pytest.mark.parametrize("defect", [
    pytest.param(defect, marks=() if defect == "verdict" else pytest.mark.slow)
    for defect in BROKEN
])  # fmt: skip
def test_broken_unit_fails(defect, tmp_path, monkeypatch, capfd):
    home, component, old, new, spec, testcase = BROKEN[defect]
    monkeypatch.setattr(home, component.__name__, broken(component, old, new))
    memory = {"memory": "portable" if spec.lanes > 1 else "ecp5"}
    outcomes = run_filter_bench(spec, "icarus", tmp_path, seed=SEED, testcase=testcase, **memory)
    assert outcomes
    assert not all(outcomes.values())
    log = (tmp_path / "icarus.log").read_text()
    assert re.search(WRONG, log), log

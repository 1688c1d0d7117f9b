"""Figures that commands report with --json, and the lines that they print without."""

import shlex

import pytest
from capture_files import pcap
from command_runs import figures_of, lately, write_files
from protocol_frames import frame, timed_capture

from lately.boards.targets.catalogue import BOARDS
from lately.golden import any_preset
from lately.sim.bench.packets import ethernet

MS = 10**6
LOG = '10.0.0.1 - - [17/May/2015:10:05:03 +0000] "GET /{} HTTP/1.1" 200 1\n'
BURSTS = [at + when for at in range(4) for when in [*(n / 50 for n in range(30)), *[0.6] * 470]]


FILES = {
    "keys": "".join(f"{number % 700}\n" for number in range(2000)),
    "[bold]keys": "a\n",
    # As many keys as fit into 50 ms, 500, come at even times: those of the span, again.
    "steady.csv": "time,key\n" + "".join(
        f"{1.7e9 + n / 10_000:.4f},{n % 500}\n" for n in range(9000)),
    # A burst of all that a span may hold comes after a trickle that makes generations old.
    "bursts.csv": "time,key\n" + "".join(f"{time:.2f},{n}\n" for n, time in enumerate(BURSTS)),
    "log": "".join(map(LOG.format, range(9))) + "garbage\n",
    "slices.toml": 'family = "apbf"\nk = 3\nl = 2\nslice_bits = 1024\n',
    "span.toml": 'family = "apbf"\nk = 3\nl = 2\nslice_bits = 1024\nspan = 200\n',
    "other.pcap": pcap([(0, frame(1)), (1, ethernet(0x0806, bytes(28))), (2, b"x" * 60)]),
    "late.pcapng": timed_capture([(10**18, 1), (10**18 - MS, 1), (10**18 - 10**10, 1)]),
    "some.pcapng": timed_capture([(None, 1), (10**18, 2), (None, 1)]),
    "untimed.pcapng": timed_capture([(None, 1), (None, 1)]),
}  # fmt: skip

RUN = "run --engine golden"
SPAN = f"{RUN} steady.csv --span 50ms --fpr 0.01"
PLAN = "plan --window 500 --fpr 0.05 --family gebf"
IN_TIME = "plan --span 500ms --rate 2000.5 --fpr 0.05 --family gebf"
ICEBREAKER = BOARDS["icebreaker"].spec.to_dict()

FIGURES = {
    f"{RUN} keys": (
        {"operations": 2000, "repeats": 1300, "false_negatives": 0, "mismatches": None,
         "cycles": None, "cycles_per_operation": None, "stale_positive_rate": None,
         "false_positive_rate": lambda rate: rate < 0.01,
         "predicted_false_positive_rate": lambda rate: 0 < rate < 0.03, "shifts": 0},
        ["1,300 of 1,300 within 27,490 insertions", "guaranteed"]),
    f"{RUN} '[bold]keys'": ({"operations": 1}, ["[bold]keys"]),
    f"{RUN} keys --preset tiny": ({"spec.key_bits": 8}, []),
    f"{RUN} keys --spec slices.toml": ({"spec.family": "apbf"}, []),
    f"{RUN} keys --window 500 --fpr 0.01": (
        {"spec.window": 500, "repeats": 0,
         "predicted_false_positive_rate": lambda rate: rate <= 0.01}, []),
    f"{RUN} log": (
        {"distinct_keys": 9, "malformed_lines": 1,
         "malformed_examples": lambda rows: rows[0]["line"] == 10}, []),
    f"{RUN} log --key client": ({"distinct_keys": 1}, []),
    f"{SPAN} --rate 10k": (
        {"span.ticks": 1001, "span.tick_seconds": 5e-5, "span.shortened": 0, "false_negatives": 0,
         "repeats": 8500, "repeats_found": 8500}, []),
    f"{SPAN} --window 500 --tick 1ms": (
        {"span.ticks": 51, "span.tick_seconds": 0.001, "span.shortened": 0, "false_negatives": 0,
         "repeats": 8500, "repeats_found": 8500}, []),
    # More keys than it is sized for.
    f"{SPAN} --window 250 --when-full shorten": (
        {"span.shortened": lambda count: count > 0, "false_negatives": 0,
         "repeats_found": lambda count: count < 8500}, []),
    f"{SPAN} --window 250 --when-full overfill": (
        {"span.overfilled": lambda count: count > 0, "false_negatives": 0, "repeats_found": 8500},
        []),
    f"{RUN} bursts.csv --span 900ms --fpr 0.01 --window 500": (
        {"span.shortened": 0, "spec.window": lambda window: window >= 500}, []),
    f"{RUN} steady.csv --spec span.toml --tick 1us": ({"span.seconds": 0.0002}, []),
    f"{RUN} steady.csv --spec span.toml --span 2ms": ({"span.tick_seconds": 1.0001e-5}, []),
    f"{RUN} steady.csv --span 50ms": (
        {"span.late_times": 0},
        ["1,001 ticks of 50 us: keys are reported if younger than 50.05 ms", "window shortened",
         "8,500 of 8,500 within 1,001 ticks", "after 5,498 insertions or 201 ticks",
         "no: late times"]),
    "dedup other.pcap --dry-run": (
        {"packets": 3},
        ["(pcap): 1 IPv4, 0 IPv6", "whole frames 1 packets of other protocols",
         "compared tos fields of the outermost layer 3"]),
    "dedup other.pcap --dry-run --fields frame": (
        {"dropped": 0}, ["frame each whole frame", "no: whole frames"]),
    "dedup late.pcapng --dry-run": (
        {"late": 1, "latest": MS, "clock_steps": 1},
        ["dropped 1 seen within 50 ms and 65,536 packets; 33.3% of all",
         "late times 1 up to 1 ms before the latest time, which is used instead",
         "clock steps 1 back by more than 50 ms; packets before a step ", "no: without time"]),
    "dedup some.pcapng --dry-run": (
        {"untimed": 2},
        ["dropped 1 seen within 50 ms and 65,536 packets; 33.3% of all",
         "without time 2 packets; the latest time is used, so only "]),
    "dedup untimed.pcapng --dry-run": (
        {"untimed": 2},
        ["dropped 1 seen within 65,536 packets; 50% of all", "no: late times", "no: clock steps"]),
    f"{PLAN} --device ice40-hx8k": (
        {"requirement.device": "ice40-hx8k", "chosen.memories": lambda count: 0 < count <= 32,
         "chosen.limit_mhz": 275, "chosen.most_operations_per_second": 275e6},
        ["block RAMs", "The vendor allows at most 275 MHz, 275 million operations a second"]),
    # In one tick more than the span, which is one more than 1000 ticks.
    IN_TIME: (
        {"requirement.window": 1003, "chosen.spec.span": 1001, "chosen.spec.window": 1002,
         "chosen.spec.when_full": "shorten", "requirement.span":
         {"ticks": 1001, "tick_seconds": 0.0005, "when_full": "shorten"}}, []),
    f"{IN_TIME} --tick 100us --when-full overfill": (
        {"chosen.spec.span": 5001, "chosen.spec.when_full": "overfill"}, []),
    "list presets": ({"tiny": any_preset("tiny").to_dict()}, [" tiny "]),
    "list devices": (
        {"5ceba4": {"description": "Intel Cyclone V 5CEBA4", "family": "cyclonev",
                    "figures": "counted, not placed", "lut": 36960, "ff": 73920, "bram": 308,
                    "bram_bits": 8192, "usram": 0}}, [" 5ceba4 "]),
    "list boards": (
        {"icebreaker.device": "ice40-up5k", "icebreaker.clock_mhz": 24,
         "icebreaker.baud": 1_000_000, "icebreaker.spec": ICEBREAKER}, [" icebreaker "]),
    "show --preset small": ({"area": None}, ["no: block RAMs"]),
    "show --preset small --device ecp5-25k-6": ({}, ["block RAMs"]),
}  # fmt: skip
"""Command lines, figures by their paths, and lines without their columns, or "no:" and a text."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_files(tmp_path_factory.mktemp("figures"), FILES)


@pytest.mark.parametrize("command", sorted({line.split()[0] for line in FIGURES}))
def test_figures(command, folder, monkeypatch):
    monkeypatch.chdir(folder)
    for line, (figures, texts) in FIGURES.items():
        if line.split()[0] != command:
            continue
        words = shlex.split(line)
        report = figures_of(*words) if figures else {}
        for path, value in figures.items():
            outcome = report
            for name in path.split("."):
                outcome = outcome.get(name) if outcome else None
            assert value(outcome) if callable(value) else outcome == value, (line, path, outcome)
        shown = ""
        if texts:
            result = lately(*words)
            assert result.stderr == "", line
            shown = " ".join(result.stdout.split())
        for text in texts:
            assert (text.removeprefix("no: ") in shown) != text.startswith("no: "), (line, text)

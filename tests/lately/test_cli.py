"""The command line as a program: streams, exit status, files, messages."""

import gzip
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner
from command_runs import figures_of, lately
from run_unit import engine
from warm_programs import Program

from lately.cli import app as cli
from lately.cli import options, run_commands
from lately.cli.progress import sparkline
from lately.golden import SpecificationError, compilation, from_spec, preset
from lately.golden.spec.ring import WHEN_FULL
from lately.replay.oracle import FRESH, Oracle

DATA = Path(__file__).parents[3] / "shared" / "data"
LATELY = [sys.executable, "-c", "from lately.cli.app import main; main(prog_name='lately')"]
GOLDEN = ("--engine", "golden")


def error(*arguments):
    """Message of a command that must fail with one line, in process."""
    done = CliRunner().invoke(cli.main, [str(argument) for argument in arguments])
    assert done.exit_code in (1, 2), done
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("lately: error: ")
    return line.removeprefix("lately: error: ")


def figures(*arguments):
    return figures_of("run", *GOLDEN, *arguments)


@pytest.fixture
def keys(tmp_path):
    path = tmp_path / "keys"
    path.write_text("".join(f"{number % 700}\n" for number in range(2000)))
    return path


def test_help_is_light():
    program = (
        "import sys\nfrom lately.cli.app import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        "heavy = 'numpy scipy matplotlib amaranth rich pyarrow jinja2 apachelogs'.split()\n"
        "print([name for name in heavy if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert re.search(rb"run +Replay a stream", done.stdout)
    assert done.stderr.strip() == b"[]"


def test_what_gives_way_is_the_same_for_commands():
    assert options.WHEN_FULL == WHEN_FULL


def test_run_under_a_secret(tmp_path):
    """That of the file."""
    keys, secret = tmp_path / "keys", tmp_path / "secret"
    keys.write_text("".join(f"{number}\n" for number in range(3000)))
    outcome = []
    for number in (1, 1, 2):
        secret.write_text(f"{number:032x}\n")
        answers = figures(keys, "--preset", "siphash-tiny", "--secret-file", secret)
        outcome.append(answers["false_positives"])
    spec = preset("siphash-tiny")
    texts = from_spec(spec).key_words(keys.read_text().split())
    truth = Oracle(spec).check_and_insert(texts)
    seen = from_spec(spec, secret=1).check_and_insert(texts)
    assert outcome[0] == outcome[1] == seen[truth.kind == FRESH].sum()
    assert outcome[2] != outcome[0]


def test_help_and_version():
    assert "lately run access.log.zst --key client,agent" in lately("run", "--help").stdout
    assert lately("--version").stdout.startswith("lately 0.")
    assert "Filter a stream:" in lately(code=2).output


def test_hardware_is_the_default(keys, monkeypatch):
    def hardware(spec, *, optimisation):
        return engine()(spec)

    monkeypatch.setitem(sys.modules, "lately.sim", SimpleNamespace(compiled_unit=hardware))
    outcome = figures_of("run", keys)
    assert (outcome["engine"], outcome["cycles"], outcome["mismatches"]) == ("rtl", 2020, 0)
    assert outcome["cycles_per_operation"] == 2020 / 2000
    assert "1.0100 per operation" in lately("run", keys).stdout


def test_standard_input_and_silence(keys):
    packed = gzip.compress(keys.read_bytes())
    process = Program("run", "-", "--json", *GOLDEN, "--limit", 1500, stdin=subprocess.PIPE)
    out, error = process.communicate(packed)
    assert (process.returncode, json.loads(out)["operations"], error) == (0, 1500, b"")


def test_out(keys, tmp_path):
    out = tmp_path / "deep" / "out"
    printed = figures(keys, "--out-dir", out)
    names = ["report.html", "report.json", "report.png", "verdicts.csv"]
    assert sorted(os.listdir(out)) == names
    report = json.loads((out / "report.json").read_text())
    assert {name: report[name] for name in printed} == printed
    assert report["checkpoints"][-1]["operations"] == 2000
    assert sum(row["seen"] for row in report["distances"]) == 1300
    rows = (out / "verdicts.csv").read_text().splitlines()
    assert rows[:2] == ["index,timestamp,key,seen,class,distance", "0,,0,0,fresh,"]
    assert rows[701] == "700,,0,1,guaranteed,700"
    assert len(rows) == 2001


@pytest.fixture
def undrawn(monkeypatch):
    """Reports without drawings, which take most of the time."""
    monkeypatch.setattr("lately.replay.report.html", lambda result: "page")
    monkeypatch.setattr(
        "lately.replay.report.picture", lambda result, path, **_: Path(path).touch()
    )


@pytest.mark.usefixtures("undrawn")
def test_parquet(tmp_path):
    import pyarrow.parquet as pq

    path = tmp_path / "keys.csv"
    path.write_bytes(b"time,key\n1.5,a\n,caf\xe9\n2,a\n" + b"3,b\n" * 70_000)
    figures(path, "--out-dir", tmp_path / "out", "--verdicts", "parquet")
    file = pq.ParquetFile(tmp_path / "out" / "verdicts.parquet")
    assert file.num_row_groups == 2
    first, second, third = file.read().slice(0, 3).to_pylist()
    assert first == {
        "index": 0, "timestamp": 1.5, "key": "a", "seen": False, "class": "fresh", "distance": None,
    }  # fmt: skip
    assert (second["timestamp"], second["key"]) == (None, "caf\\xe9")
    assert (third["seen"], third["class"], third["distance"]) == (True, "guaranteed", 2)


@pytest.mark.usefixtures("undrawn")
def test_csv_verdicts_keep_times_and_bytes(tmp_path):
    times = [b"", b"7", b"1700000000.123456789", b"-0.5", b"-3", b"0.000000001"]
    path = tmp_path / "keys.csv"
    path.write_bytes(b"time,key\n" + b"".join(time + b",caf\xe9\n" for time in times))
    figures(path, "--out-dir", tmp_path / "out")
    rows = (tmp_path / "out" / "verdicts.csv").read_bytes().splitlines()[1:]
    assert [row.split(b",")[1] for row in rows] == times
    assert {row.split(b",")[2] for row in rows} == {b"caf\xe9"}


# What goes wrong


@pytest.mark.parametrize("before", [True, False])
def test_damage_leaves_what_was_there(tmp_path, before):
    packed = gzip.compress("".join(f"{number * 7919}\n" for number in range(50_000)).encode())
    path = tmp_path / "keys.gz"
    path.write_bytes(packed[:-40])
    out = tmp_path / "out"
    if before:
        out.mkdir()
        (out / "report.json").write_text("{}")
    message = error("run", path, *GOLDEN, "--out-dir", out)
    assert message.startswith(f"{path}: damaged gzip data: ")
    assert os.listdir(out) == ["report.json"] if before else not out.exists()


@pytest.mark.usefixtures("undrawn")
def test_failure_is_reported_after_the_figures(keys, tmp_path, monkeypatch):
    from lately.replay.run import RunResult

    monkeypatch.setattr(RunResult, "failures", lambda result: ["mismatches: must be 0, not 3"])
    arguments = ["run", str(keys), *GOLDEN, "--json", "--out-dir", str(tmp_path / "out")]
    done = CliRunner().invoke(cli.main, arguments)
    assert done.exit_code == 1
    assert json.loads(done.stdout)["operations"] == 2000
    assert done.stderr == "lately: error: mismatches: must be 0, not 3\n"
    assert (tmp_path / "out" / "report.html").exists()


def raises(error):
    def raiser(*_arguments, **_options):
        raise error

    return raiser


@pytest.mark.parametrize(
    ("cause", "message"),
    [
        (MemoryError(), "not enough memory"),
        (ModuleNotFoundError(name="amaranth"), "amaranth is not installed: pip install '.[sim]'"),
        (OSError(28, "No space left on device", "out/x"), "out/x: No space left on device"),
        (SpecificationError("two\nlines"), "two lines"),
    ],
)
def test_causes_outside(keys, monkeypatch, cause, message):
    monkeypatch.setattr(run_commands, "_run", raises(cause))
    assert error("run", keys) == message


def test_absence_of_the_extension(keys, monkeypatch):
    monkeypatch.setitem(sys.modules, "lately.golden._core", None)
    monkeypatch.setattr(compilation, "_core", None)
    compilation.warn_if_missing.cache_clear()
    result = CliRunner().invoke(cli.main, ["uniq", "--window", "1000", str(keys)])
    assert (result.exit_code, len(result.stdout.split())) == (0, 700)
    assert result.stderr == "lately: running without its compiled extension, so filters are slow\n"


def test_defects_are_not_hidden(keys, monkeypatch):
    monkeypatch.setattr(run_commands, "_run", raises(ZeroDivisionError()))
    assert isinstance(CliRunner().invoke(cli.main, ["run", str(keys)]).exception, ZeroDivisionError)


def test_closed_streams(keys):
    command = f"exec {shlex.join(LATELY)} run {shlex.quote(str(keys))} --engine golden"
    done = subprocess.run(["/bin/sh", "-c", command + " >&- 2>&- <&-"], capture_output=True)
    assert done.returncode == 1  # The figures are lost.


def test_interrupted(tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / "report.json").write_text("{}")
    process = Program("run", "-", *GOLDEN, "--out-dir", out, stdin=subprocess.PIPE)
    process.stdin.write(b"a\n" * 100_000)
    process.stdin.flush()
    deadline = time.monotonic() + 60
    while len(os.listdir(out)) < 4:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    written, error = process.communicate()
    assert (process.returncode, written, error.strip()) == (130, b"", b"lately: interrupted")
    assert os.listdir(out) == ["report.json"]


def on_a_terminal(*arguments):
    """Figures of a command, and what it shows on standard error, a terminal."""
    controller, terminal = os.openpty()
    process = Program(*arguments, "--json", stderr=terminal)
    os.close(terminal)
    out, _ = process.communicate()
    assert process.returncode == 0
    shown = b""
    try:
        while part := os.read(controller, 4096):
            shown += part
    except OSError:
        pass  # Linux reports the closed end so.
    os.close(controller)
    return json.loads(out), shown


def test_progress_on_a_terminal(keys):
    for words, texts in (
        ([], [b"Replaying"]),
        (["--watch"], [b"repeats found", b"bits set by segment", b"100% of the stream"]),
    ):
        figures, shown = on_a_terminal("run", keys, *GOLDEN, *words)
        assert all(text in shown for text in texts)
        assert figures["operations"] == 2000


def test_watch_a_deduplication(tmp_path):
    taps = tmp_path / "taps.pcap"
    CliRunner().invoke(cli.main, ["tap", "generator", str(taps), "--packets", "500"])
    figures, shown = on_a_terminal("dedup", taps, tmp_path / "out.pcap", "--verify", "--watch")
    assert (figures["packets"], figures["dropped"]) == (1000, 500)
    texts = b"0 of 500", b"bits set by segment", b"100% of the stream", b"1,000 packets"
    assert all(text in shown for text in texts)


def test_sparkline():
    assert sparkline([0, 1, 7]) == "▁▂█"
    assert sparkline([0.0, 0.0]) == "▁▁"


def test_front_door_has_the_golden_names():
    import lately
    from lately.golden import APBBF, preset

    assert lately.APBBF is APBBF
    assert lately.preset is preset
    with pytest.raises(AttributeError, match=r"^module 'lately' has no attribute 'nothing'$"):
        _ = lately.nothing

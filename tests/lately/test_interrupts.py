"""Signals that end a command: all behave like Ctrl-C, unless they were ignored before."""

import importlib
import json
import os
import signal
import sys
import threading
import time

import pytest
from capture_files import pcap
from command_runs import lately

from lately.captures.capture_reader import CaptureReader
from lately.cli import run_commands
from lately.cli.app import main
from lately.cli.reporting import handled_by, interruptible
from lately.golden import files
from lately.sim import toolchain
from lately.sim.proofs import catalogue

deduplication = importlib.import_module("lately.dedup.deduplicate")
planner = importlib.import_module("lately.planner.plans")
ENDING = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
PACKETS = [(1000 * index, (index // 2).to_bytes(2, "big") * 30) for index in range(20)]


@pytest.fixture(autouse=True)
def handlers():
    """As after a login, also where the tests were started with nohup; and as before at the end."""
    before = {number: signal.getsignal(number) for number in ENDING}
    usual = dict.fromkeys(ENDING[1:], signal.SIG_DFL)
    for number, handler in usual.items():
        signal.signal(number, handler)
    yield
    after = {number: signal.getsignal(number) for number in ENDING}
    for number, handler in before.items():
        signal.signal(number, handler)
    assert after == before | usual


def interrupts(number):
    """Return a function that waits for a signal which it sends."""

    def interrupt(*_, **__):
        os.kill(os.getpid(), number)
        signal.pause()

    return interrupt


# Deduplication: a whole capture


@pytest.mark.parametrize("number", ENDING)
def test_deduplication_leaves_a_whole_capture(tmp_path, monkeypatch, number):
    (tmp_path / "in").write_bytes(pcap(PACKETS))
    read, interrupt = CaptureReader.read, interrupts(number)

    def read_some(capture):
        if capture.packets:
            interrupt()
        return read(capture)

    monkeypatch.setattr("lately.captures.capture_reader._PACKETS", 10)
    monkeypatch.setattr(CaptureReader, "read", read_some)
    arguments = [tmp_path / "in", tmp_path / "out", "--mark", tmp_path / "marks"]
    done = lately("dedup", *arguments, "--json", code=130)
    assert json.loads(done.stdout)["interrupted"]
    assert (tmp_path / "out").read_bytes() == pcap(PACKETS[:10:2])
    assert len((tmp_path / "marks").read_bytes().splitlines()) == 6
    assert sorted(os.listdir(tmp_path)) == ["in", "marks", "out"]


def test_interrupt_while_the_capture_is_put_in_place(tmp_path, monkeypatch):
    """A whole capture is not taken away."""
    (tmp_path / "in").write_bytes(pcap(PACKETS))
    sync = os.fsync

    def interrupted(file):
        os.kill(os.getpid(), signal.SIGTERM)
        sync(file)

    monkeypatch.setattr(files.os, "fsync", interrupted)
    lately("dedup", tmp_path / "in", tmp_path / "out", code=130)
    assert (tmp_path / "out").read_bytes() == pcap(PACKETS[::2])


# Other commands


def test_interrupt_before_the_first_packet(tmp_path, monkeypatch):
    """The capture has its header at least."""
    (tmp_path / "in").write_bytes(pcap(PACKETS))
    begin = deduplication._open_unit

    def interrupted(settings):
        os.kill(os.getpid(), signal.SIGTERM)
        return begin(settings)

    monkeypatch.setattr("lately.captures.capture_reader._PACKETS", 10)
    monkeypatch.setattr(deduplication, "_open_unit", interrupted)
    lately("dedup", tmp_path / "in", tmp_path / "out", code=130)
    assert (tmp_path / "out").read_bytes() == pcap(PACKETS[:10:2])


@pytest.mark.parametrize("number", ENDING)
def test_run_and_plan_leave_nothing(tmp_path, monkeypatch, number):
    (tmp_path / "keys").write_text("a\n" * 10)
    monkeypatch.setattr(run_commands, "_run", interrupts(number))
    monkeypatch.setattr(planner, "plan", interrupts(number))
    for words in (
        ["run", tmp_path / "keys", "--engine", "golden", "--out-dir", tmp_path / "report"],
        ["plan", "--window", 100, "--fpr", 0.01, "--out", tmp_path / "filter.toml"],
    ):
        done = lately(*words, code=130)
        assert (done.stdout, done.stderr.strip()) == ("", "lately: interrupted")
        assert os.listdir(tmp_path) == ["keys"]


def test_hang_up_leaves_no_traceback(monkeypatch, capfd):
    """Nothing can be written to a terminal that is gone."""

    def gone(*_, **__):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(planner, "plan", interrupts(signal.SIGHUP))
    monkeypatch.setattr("click.echo", gone)
    with pytest.raises(SystemExit) as ended:
        main.main(["plan", "--window", "100", "--fpr", "0.01"])
    assert ended.value.code == 130
    assert capfd.readouterr() == ("", "")


# Which signals are handled, and for how long


@pytest.mark.parametrize("number", ENDING)
def test_ignored_signals_stay_ignored(monkeypatch, number):
    """After nohup a hang-up is ignored, and Ctrl-C in the background of a script."""
    before = signal.signal(number, signal.SIG_IGN)
    heard = []

    def pass_by(*_, **__):
        with interruptible() as interrupted:
            os.kill(os.getpid(), number)
            heard.append(interrupted())
        os.kill(os.getpid(), number)
        raise MemoryError

    monkeypatch.setattr(planner, "plan", pass_by)
    done = lately("plan", "--window", 100, "--fpr", 0.01, code=2)
    assert done.stderr == "lately: error: not enough memory\n"
    assert heard == [False]
    assert signal.signal(number, before) is signal.SIG_IGN


def test_second_interrupt_acts():
    with handled_by(signal.default_int_handler), interruptible() as interrupted:
        os.kill(os.getpid(), signal.SIGTERM)
        assert interrupted()
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGHUP)


def test_another_thread_handles_nothing():
    result = []

    def work():
        with handled_by(result.append):
            result.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert result == [signal.SIG_DFL]


# Processes that a command has started


def test_proofs_end_with_their_tools(tmp_path, monkeypatch):
    """A signal for one process alone ends what it has started."""
    tool = tmp_path / "tool"
    tool.write_text(
        f"#!{sys.executable}\nimport pathlib, time\nhere = pathlib.Path({str(tmp_path)!r})\n"
        "(here / 'begun').touch()\ntime.sleep(20)\n(here / 'ended').touch()\n"
    )
    tool.chmod(0o755)
    monkeypatch.setattr(toolchain.shutil, "which", lambda *_, **__: str(tool))

    def interrupt():
        deadline = time.monotonic() + 60
        while not (tmp_path / "begun").exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGTERM)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with handled_by(signal.default_int_handler), pytest.raises(KeyboardInterrupt):
        catalogue.prove(catalogue.select(["spare in time"]))
    thread.join()
    assert sorted(os.listdir(tmp_path)) == ["begun", "tool"]

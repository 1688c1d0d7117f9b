"""Damaged inputs for every parser, drawn by Hypothesis and by the fuzzers; and the fuzzers."""

import json
import random
import subprocess
import sys
import time

import pytest
from fuzz.__main__ import main
from fuzz.campaign import BLOCK, Count, inputs, record, run_blocks, run_parser, try_input
from fuzz.damage import MOST, damage
from fuzz.parsers import PARSERS, ROOT, Parser
from hypothesis import given, settings
from hypothesis import strategies as st

from lately.golden.errors import SpecificationError

SEED = 6


@pytest.mark.parametrize("name", PARSERS)
def test_good_inputs_are_read(name):
    for sample in PARSERS[name].samples():
        PARSERS[name].parse(PARSERS[name].seal(sample))


@pytest.mark.parametrize("name", PARSERS)
def test_damaged_inputs_are_read_or_refused(name):
    assert run_blocks(name, PARSERS[name], SEED, lambda count: count.inputs < 1).failure == ""


@pytest.mark.parametrize("name", PARSERS)
@settings(max_examples=settings().max_examples // 8, deadline=None)
@given(data=st.data())
def test_any_bytes_are_read_or_refused(name, data):
    """By themselves, and in the middle of a good input."""
    parser = PARSERS[name]
    sample = data.draw(st.sampled_from(parser.samples()))
    at, until = (data.draw(st.integers(0, len(sample))) for _ in range(2))
    content = sample[:at] + data.draw(st.binary(max_size=60)) + sample[until:]
    for given_bytes in (content, parser.seal(content)):
        assert try_input(parser, given_bytes)[1] == ""


@pytest.mark.slow
@pytest.mark.parametrize("name", PARSERS)
def test_many_damaged_inputs(name):
    result = run_parser(name, seed=SEED, count=1 << 30, seconds=3)
    print(name, result.inputs)
    assert result.failure == ""
    assert result.inputs > 200


# The fuzzers


def test_inputs_come_again():
    parser = PARSERS["specifications"]
    first, again, other = ([*inputs("specifications", parser, 3, block)] for block in (0, 0, 1))
    assert first == again != other
    assert len({*first}) > BLOCK / 2


@pytest.mark.parametrize("content", [b"", b"x", bytes(range(200))])
def test_damage_takes_any_bytes(content):
    draw = random.Random(1)
    damaged = {damage(content, draw, [content, b"other"]) for _ in range(100)}
    assert len(damaged) > 20
    assert min(map(len, damaged)) <= len(content) < max(map(len, damaged))
    assert all(len(damage(content * 900, draw, [content * 900])) <= MOST for _ in range(50))


def _wrong(data):
    raise ValueError("not of ours")


def _lines(data):
    raise SpecificationError("two\nlines")


def _slow(data):
    time.sleep(2)


def _large(data):
    return bytes(3 << 30)


def _ends(data):
    __import__("os")._exit(3)


def _hangs(data):
    __import__("signal").pthread_sigmask(0, [14])
    time.sleep(100)


@pytest.mark.parametrize(
    ("parse", "failure"),
    [
        (_wrong, "ValueError: not of ours <- "),
        (_lines, "2 lines: two\nlines <- "),
        (_slow, "took more than 0.2 s <- "),
        (_large, "MemoryError:  <- "),
        (_ends, "the process ended with 3 <- an input of block 0 of seed 1"),
        (_hangs, "no end after 1 s <- an input of block 0 of seed 1"),
    ],
)
def test_failures_are_found(parse, failure, monkeypatch):
    """Good inputs are read; all others make the parser fail in its way."""
    monkeypatch.setattr("fuzz.campaign.SLOW", 0.2)
    parser = Parser(lambda data: None if data == b"good" else parse(data), lambda: [b"good"])
    monkeypatch.setitem(PARSERS, "made up", parser)
    result = run_parser("made up", seed=1, count=1000, seconds=1, silent=1)
    assert result.failure.startswith(failure)


def test_counts_are_added(tmp_path):
    path = tmp_path / "results" / "fuzz.json"
    record(path, "one", 1, Count(10, 4, 1.0))
    record(path, "one", 2, Count(5, 1, 2.0))
    record(path, "other", 1, Count(7, 7, 0.5))
    with pytest.raises(ValueError, match="seed: must be new for one, not 2"):
        record(path, "one", 2, Count(5))
    counts = json.loads(path.read_text())
    assert counts["inputs"] == 22
    assert counts["parsers"]["one"] == {
        "inputs": 15, "refused": 5, "seconds": 3.0, "seeds": [1, 2],
    }  # fmt: skip


def test_command(tmp_path):
    path = tmp_path / "fuzz.json"
    command = [sys.executable, "tests/fuzz", "--parser", "durations", "--count", "300"]
    command += ["--seed", "5", "--record", str(path)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert "durations: 400 inputs, " in ended.stdout
    assert json.loads(path.read_text())["parsers"]["durations"]["inputs"] == 400


def test_command_fails_with_the_input(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(
        PARSERS, "durations", Parser(lambda d: None if d == b"1s" else _wrong(d), lambda: [b"1s"])
    )
    path = tmp_path / "fuzz.json"
    with pytest.raises(SystemExit) as ended:
        main(["--parser", "durations", "--count", "300", "--seed", "5", "--record", str(path)])
    assert ended.value.code == 1
    assert "durations: ValueError: not of ours <- " in capsys.readouterr().err
    assert not path.exists()

"""Lines without those that were seen lately."""

import gzip
import json
import os
import random
import signal
import sys
import tempfile
from subprocess import PIPE

import numpy as np
import pytest
from click.testing import CliRunner
from warm_programs import Program

from lately.captures.capture_loops import keep_lines
from lately.cli.app import main
from lately.golden.compilation import VARIABLE, core
from lately.golden.hash.keys import KeyDigest
from lately.lines import uniq
from lately.lines.uniq import LineKey, RecentLines, line_bounds


def run(content=b"", *arguments, code=0):
    with tempfile.NamedTemporaryFile() as file:
        file.write(content)
        file.flush()
        files = [file.name] if content else []
        done = CliRunner().invoke(main, ["uniq", *map(str, arguments), *files])
    assert done.exit_code == code, done.stderr
    return done


def kept(content, *arguments):
    return run(content, *arguments).stdout_bytes


def bounds_of(data):
    bounds = np.zeros(len(data) + 2, np.int64)
    count = line_bounds(data, len(data), bounds)
    return bounds[: count + 1]


def test_the_first_of_equal_lines_is_kept():
    assert kept(b"b\na\nb\nc\na\n") == b"b\na\nc\n"
    assert kept(b"b\na\nb\nc\na\n", "--duplicates") == b"b\na\n"
    assert run(b"b\na\nb\n", "--dry-run").stdout == "lines 3\nkept 2\ndropped 1\n"


def test_lines_hold_any_bytes():
    lines = [b"", b"\0", b"\0\0", b"\xff\xfe", b"a\r", b"a", b"a\0"]
    stream = b"\n".join(lines) + b"\n"
    assert kept(stream + stream) == stream


def test_last_line_without_newline():
    assert kept(b"a\nb") == b"a\nb"
    assert kept(b"a\nb\na") == b"a\nb\n"


def test_line_without_newline_ends_with_its_file(tmp_path):
    entry, two = tmp_path / "one", tmp_path / "two.gz"
    entry.write_bytes(b"a\nb")
    two.write_bytes(gzip.compress(b"b\nc"))
    assert kept(b"", entry, two) == b"a\nb\nc"


def test_line_longer_than_the_buffer(monkeypatch):
    monkeypatch.setattr(uniq, "_BUFFER", 16)
    monkeypatch.setattr(uniq, "_LINES", 2)
    long = b"x" * 1000
    stream = b"a\n" + long + b"\nb\n\n" + long + b"\na\nc"
    assert kept(stream) == b"a\n" + long + b"\nb\n\nc"
    monkeypatch.setattr(uniq, "MAX_LINE", 256)
    error = run(stream, code=2).stderr
    assert error.endswith(": line 2: must be shorter than 256 bytes\n")


@pytest.mark.parametrize("window", [1, 2, 100])
def test_window_is_exact_at_its_edge(window):
    """An equal line is found if it is N lines back, after a window that is full of others."""
    between = b"".join(b"%d\n" % number for number in range(window - 1))
    assert kept(b"x\n" + between + b"x\n", "--window", window, "--fpr", 1e-9) == b"x\n" + between


@pytest.mark.parametrize(("fpr", "family"), [(1e-7, "blocked-gebf"), (1e-8, "gebf")])
def test_filter_is_the_blocked_one_up_to_twice_the_memory(fpr, family):
    """Blocks of a low rate take more than twice the memory."""
    lines = RecentLines(LineKey(), window=100_000, fpr=fpr)
    assert lines.model.spec.family == family
    assert lines.model.nbytes < 12 * 100_000


def test_old_lines_are_forgotten():
    between = b"".join(b"%d\n" % number for number in range(1000))
    stream = b"x\n" + between + b"x\n"
    assert kept(stream, "--window", 100, "--fpr", 1e-9) == stream


def test_every_repeat_within_the_window_is_dropped():
    """Beside a set of the last lines; print the seed."""
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    draw, window = random.Random(seed), 300
    lines = [b"line %d" % draw.randrange(500) for _ in range(20_000)]
    seen = kept(b"\n".join(lines), "--window", window, "--duplicates", "--fpr", 1e-9).splitlines()
    last, certain = {}, 0
    for number, line in enumerate(lines):
        certain += number - last.get(line, -window - 1) <= window
        last[line] = number
    assert certain <= len(seen) < certain * 1.3


def test_field():
    stream = b"1,a,x\n2,a\n3,b\nnone\n4,,\n5,\n"
    assert kept(stream, "--field", 2, "--delimiter", ",") == b"1,a,x\n3,b\nnone\n4,,\n"
    assert kept(b"1\ta\n2\ta\n", "--field", 2) == b"1\ta\n"


def test_member_of_json():
    lines = [
        {"user": {"id": 7}},
        {"user": {"id": 8}, "x": 1},
        {"user": {"id": 7}, "y": 2},
        {"user": 3},
        {"user": {"id": "7"}},
    ]
    stream = b"".join(json.dumps(line).encode() + b"\n" for line in lines) + b"not json\n" * 2
    keep = b"".join(stream.splitlines(keepends=True)[i] for i in (0, 1, 3, 4, 5, 6))
    assert kept(stream, "--member", "user.id") == keep


@pytest.mark.parametrize("variable", ["0", "1"])
@pytest.mark.parametrize(
    "key", [("--field", "1,3", "--delimiter", ","), ("--field", "3,1,3", "--delimiter", ","),
            ("--member", "a", "--member", "b.c")],
)  # fmt: skip
def test_keys_of_several_parts(key, variable, monkeypatch):
    """Keys are equal if all parts are: none runs into the next, and a line that lacks one stays."""
    monkeypatch.setenv(VARIABLE, variable)
    rows = [("a", "bc"), ("ab", "c"), ("a", "b"), ("abc", ""), ("", "abc"), ("a",), ("a",)]
    rows += random.choices(rows, k=200)
    if key[0] == "--member":
        lines = [json.dumps({"n": number, "a": row[0], "b": {"c": row[1]} if row[1:] else 2})
                 for number, row in enumerate(rows)]  # fmt: skip
    else:
        lines = [",".join((row[0], str(number), *row[1:])) for number, row in enumerate(rows)]
    first = [line for at, (line, row) in enumerate(zip(lines, rows, strict=True))
             if len(row) == 1 or row not in rows[:at]]  # fmt: skip
    assert kept("\n".join([*lines, ""]).encode(), *key).decode().splitlines() == first


def test_a_single_part_has_the_digest_of_saved_states():
    text = "LineKey(field=2, delimiter=b'\\t', member=None, pattern=None)"
    assert repr(LineKey(field=2)) == repr(LineKey(field=(2, 2))) == text
    assert repr(LineKey(member=("a",))) == repr(LineKey(member="a"))


@pytest.mark.parametrize("window", [1, 2, 40])
def test_first_seen_counts_from_the_line_that_was_kept(window, tmp_path, monkeypatch):
    """Across batches and runs; print the seed."""
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    monkeypatch.setattr(uniq, "_LINES", 7)
    draw = random.Random(seed)
    lines = [draw.randrange(window + 5) for _ in range(3000)]
    options = ["--policy", "first-seen", "--window", window, "--fpr", 1e-9]
    options += ["--state", tmp_path / "state"]
    stretches = [[f"{line}.{at}" for at, line in enumerate(lines) if at // 1000 == part]
                 for part in range(3)]  # fmt: skip
    passed = b"".join(
        kept("\n".join([*stretch, ""]).encode(), "--field", 1, "--delimiter", ".", *options)
        for stretch in stretches
    ).decode().split()  # fmt: skip
    last, certain = {}, set(passed)
    for at, line in enumerate(lines):
        distance = at - last.get(line, -10 * window)
        assert (f"{line}.{at}" in certain) == (distance > window) or (
            window < distance <= 1.25 * window + 1
        )
        if f"{line}.{at}" in certain:
            last[line] = at
    error = run(b"a\n", *options[2:], code=2).stderr
    assert "which has a different window, rate, span or policy" in error


def test_a_state_has_one_user(tmp_path, monkeypatch):
    """A run that is killed leaves nothing that stops the next one."""
    state = tmp_path / "state.npz"
    for end in (signal.SIGTERM, signal.SIGKILL):
        with Program("uniq", "--state", state, stdin=PIPE) as process:
            process.stdin.write(b"%d\n" % end)
            process.stdin.flush()
            assert process.read_line() == b"%d\n" % end
            error = run(b"a\n", "--state", state, code=2).stderr
            assert error == f"lately: error: {state}: in use by another run\n"
            process.send_signal(end)
    assert kept(b"15\n9\n", "--state", state) == b"9\n"
    assert os.listdir(tmp_path) == ["state.npz"]
    monkeypatch.setitem(sys.modules, "fcntl", None)
    assert kept(b"15\n", "--state", state) == b""
    assert os.listdir(tmp_path) == ["state.npz"]
    (tmp_path / "state.npz.lock").touch()
    error = run(b"a\n", "--state", state, code=2).stderr
    assert f"in use by another run; if it has ended, delete {state}.lock" in error


def test_regular_expression():
    stream = b"at 1: up\nat 2: up\nat 3: down\nnothing\nnothing\n"
    assert kept(stream, "--regex", r": (\w+)") == b"at 1: up\nat 3: down\nnothing\nnothing\n"
    assert kept(stream, "--regex", r"at \d") == stream


def test_state_is_resumed(tmp_path):
    state = tmp_path / "state.npz"
    assert kept(b"a\nb\n", "--state", state) == b"a\nb\n"
    assert kept(b"b\nc\n", "--state", state) == b"c\n"
    # Lines of another key are unknown to it.
    assert kept(b"a\tc\n", "--state", state, "--field", 1) == b"a\tc\n"


def test_span(tmp_path, monkeypatch):
    now = [10**18]
    monkeypatch.setattr(uniq.time, "time_ns", lambda: now[0])
    state = ["--state", tmp_path / "state.npz", "--span", "10m", "--window", 1000]
    assert kept(b"a\n", *state) == b"a\n"
    now[0] += 600 * 10**9
    assert kept(b"a\n", *state) == b""
    now[0] -= 300 * 10**9
    # A clock that is set back stops.
    assert kept(b"a\n", *state) == b""
    now[0] += 300 * 10**9 + 1300 * 10**9
    assert kept(b"a\n", *state) == b"a\n"


def test_state_is_saved_while_lines_come(monkeypatch, tmp_path):
    monkeypatch.setattr(uniq, "SAVE_PERIOD", -1)
    monkeypatch.setattr(uniq, "_LINES", 1)
    saved = []
    monkeypatch.setattr(RecentLines, "save", lambda self: saved.append(self.model.operations))
    kept(b"a\nb\nc\n", "--state", tmp_path / "state.npz")
    assert saved[0] < 3
    assert saved[-1] == 3


def test_wrong_state(tmp_path):
    state = tmp_path / "state.npz"
    kept(b"a\n", "--state", state, "--window", 50)
    error = run(b"a\n", "--state", state, code=2).stderr
    assert "which has a different window, rate, span or policy" in error
    state.write_bytes(state.read_bytes()[:100])
    assert "expected a filter state" in run(b"a\n", "--state", state, code=2).stderr
    assert len(state.read_bytes()) == 100


def test_lines_are_written_as_they_come():
    with Program("uniq", stdin=PIPE) as process:
        for line, answer in [(b"a\n", b"a\n"), (b"a\nb\n", b"b\n")]:
            process.stdin.write(line)
            process.stdin.flush()
            assert process.read_line() == answer
        process.stdin.close()
        assert process.wait() == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupt_keeps_what_was_read(tmp_path, number):
    state = tmp_path / "state.npz"
    with Program("uniq", "--state", state, stdin=PIPE) as process:
        process.stdin.write(b"a\n")
        process.stdin.flush()
        assert process.read_line() == b"a\n"
        process.send_signal(number)
        assert process.wait() == 130
    assert kept(b"a\nb\n", "--state", state) == b"b\n"


def test_closed_pipe_ends_it_without_a_word(tmp_path):
    state = tmp_path / "state.npz"
    with Program("uniq", "--state", state, stdin=PIPE) as process:
        process.stdin.write(b"a\n")
        process.stdin.flush()
        assert process.read_line() == b"a\n"
        process.stdout.close()
        process.stdin.write(b"b\n")
        process.stdin.close()
        assert process.stderr.read() == b""
        assert process.wait() == 141
    assert kept(b"a\nc\n", "--state", state) == b"c\n"


def test_compiled_loops_equal_numpy(monkeypatch):
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    draw = np.random.default_rng(seed)
    lines = [draw.integers(0, 256, size, np.uint8) for size in draw.integers(0, 70, 500)]
    data = np.concatenate([part for line in lines for part in (line, [np.uint8(10)])])
    keep = draw.random(len(bounds_of(data)) - 1) < 0.5
    results = []
    for choice in ("1", "0"):
        monkeypatch.setenv(VARIABLE, choice)
        bounds = bounds_of(data)
        fields, starts, stops = LineKey(field=2, delimiter=b"\x07").find(data, bounds)
        result = starts >= 0
        out = np.zeros(len(data), np.uint8)
        size = keep_lines(data, bounds, keep, out)
        digests = KeyDigest(64, "siphash").of_spans(fields, starts[result], stops[result])
        results.append([bounds, starts, stops[result], digests, out[:size]])
    for compiled, plain in zip(*results, strict=True):
        np.testing.assert_array_equal(compiled, plain)


@pytest.mark.skipif(core() is None, reason="needs the compiled core")
@pytest.mark.parametrize("span", [(-1, 2), (3, 2), (0, 11), (-(2**63), 2**63 - 1)])
def test_compiled_loops_stay_in_their_buffers(span):
    data = np.zeros(10, np.uint8)
    starts, stops = (np.array([end], np.int64) for end in span)
    with pytest.raises(ValueError, match="spans: must be in the buffer"):
        core().field_spans(data, 1, 7, starts.copy(), stops.copy())
    bounds, out = np.array(span, np.int64), np.zeros(99, np.uint8)
    with pytest.raises(ValueError, match="spans: must be in the buffer"):
        core().keep_lines(data, bounds, np.ones(1, np.uint8), out)
    with pytest.raises(ValueError, match="buffer: must have"):
        core().line_bounds(data, 11, np.zeros(3, np.int64))
    with pytest.raises(ValueError, match="out: must have room"):
        core().keep_lines(data, np.array([0, 5]), np.ones(1, np.uint8), np.zeros(4, np.uint8))

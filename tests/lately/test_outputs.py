"""Outputs of all commands: refused before any work, or written to where they lead."""

import errno
import fcntl
import os
import random
import resource
import signal
import stat
import subprocess
import sys
import termios
import time
from contextlib import closing
from functools import partial

import click
import pytest
from capture_files import pcap
from command_runs import lately
from special_files import character_device, fifo
from warm_programs import Program

from lately.cli import options as outputs
from lately.cli.app import main
from lately.cli.options import InputFile, OutputFile, OutputFolder
from lately.golden.compilation import VARIABLE
from lately.stream_files import open_stream

CAPTURE = pcap([(0, bytes(60)), (1000, bytes(60))])
UNIQUE = pcap([(0, bytes(60))])


def refusal(*arguments, code=2):
    """Message of a command that does no work."""
    (line,) = lately(*arguments, code=code).stderr.splitlines()
    return line.removeprefix("lately: error: ")


def parameters(command=main, path=()):
    """Parameters of all commands, each with the words that lead to its command."""
    context = click.Context(command)
    for name in command.list_commands(context) if isinstance(command, click.Group) else ():
        yield from parameters(command.get_command(context, name), (*path, name))
    yield from ((path, parameter) for parameter in command.params)


def named(kind):
    """Parameters of a type, each with the words before its value."""
    for path, parameter in parameters():
        if isinstance(parameter.type, kind):
            # What a group needs, and arguments before this one.
            group = ["--port", "sim"] if path[0] == "host" else []
            before = ["generator"] if isinstance(parameter, click.Argument) else parameter.opts[:1]
            yield [path[0], *group, *path[1:], *before], parameter


FILES, FOLDERS = ([*named(kind)] for kind in (OutputFile, OutputFolder))


def short(given):
    return " ".join(given) if isinstance(given, list) else ""


@pytest.fixture
def capture(tmp_path):
    path = tmp_path / "in.pcap"
    path.write_bytes(CAPTURE)
    return path


# Every command


def test_every_output_is_checked():
    """An option or argument that names an output has one of the types that check it."""
    names = {"out", "output", "directory", "mark", "truth", "plot", "record", "state"}
    names |= {"folder", "dropped", "report"}
    outputs = {(path, entry.name) for path, entry in parameters() if entry.name in names}
    outputs -= {(("collect",), "report")}  # a report that is read
    checked = {
        (path, entry.name)
        for path, entry in parameters()
        if isinstance(entry.type, OutputFile | OutputFolder)
    }
    assert outputs == checked
    assert (len(FILES), len(FOLDERS)) == (10, 5)


def test_every_stream_is_known_as_an_input():
    inputs = {
        (path, entry.name) for path, entry in parameters() if isinstance(entry.type, InputFile)
    }
    assert inputs == {
        (("run",), "trace"),
        (("uniq",), "files"),
        (("tap",), "capture"),
        (("convert",), "source"),
        (("host", "stream"), "trace"),
    }


@pytest.mark.parametrize(("words", "parameter"), FILES + FOLDERS, ids=short)
def test_standard_output_is_refused(words, parameter):
    if parameter.name == "output":
        return
    kind = "file" if isinstance(parameter.type, OutputFile) else "folder"
    assert f"'{parameter.opts[-1]}': must be a {kind}, not - (" in refusal(*words, "-")


@pytest.mark.parametrize(("words", "parameter"), FILES, ids=short)
def test_file_that_is_a_folder(words, parameter, tmp_path):
    assert refusal(*words, tmp_path, code=2) == f"{tmp_path}: Is a directory"
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(("words", "parameter"), FOLDERS, ids=short)
@pytest.mark.parametrize("below", ["", "/below"])
def test_folder_that_is_a_file(words, parameter, tmp_path, below):
    path = f"{tmp_path}/file{below}"
    (tmp_path / "file").touch()
    assert refusal(*words, path, code=2) == f"out-dir: must be a directory, not the file {path}"


def test_folder_that_is_closed(tmp_path, monkeypatch):
    """The system's answer is taken, as root may write everywhere."""
    monkeypatch.setattr(outputs.os, "access", lambda *_, **__: False)
    message = f"out-dir: {tmp_path} is not writable"
    assert refusal("synth", "--out-dir", tmp_path, code=2) == message


# Two files of one name


def test_two_outputs_that_are_one_file(capture, tmp_path):
    out, link = tmp_path / "out", tmp_path / "link"
    os.symlink("out", link)
    for first, second in ((out, out), (out, link), (link, out), (out, f"{tmp_path}/./out")):
        for exists in (False, True):
            if exists:
                out.touch()
            for words in (
                ["dedup", capture, first, "--mark", second],
                ["tap", "generator", first, "--truth", second],
            ):
                message = f"{words[3]} and OUT are the same file: {tmp_path}/"
                assert refusal(*words).startswith(message)
            out.unlink(missing_ok=True)
    assert sorted(os.listdir(tmp_path)) == ["in.pcap", "link"]
    plan = ["plan", "--window", 100, "--fpr", 0.1]
    message = refusal(
        *plan, "--plot", f"{tmp_path}/a.svg", "--out", f"{tmp_path}/../{tmp_path.name}/a.svg"
    )
    assert message.startswith("--out and --plot are the same file: ")


def test_standard_output_is_an_output(capture, tmp_path, monkeypatch):
    with (tmp_path / "out").open("wb") as file:
        monkeypatch.setattr(outputs.sys, "stdout", file)
        context = click.Context(click.Command("dedup"))
        parameter = click.Argument(["output"], metavar="OUT")
        OutputFile(standard=True).convert("-", parameter, context)
        with pytest.raises(click.UsageError, match="--mark and OUT are the same file"):
            OutputFile().convert(str(tmp_path / "out"), click.Option(["--mark"]), context)


@pytest.mark.parametrize("name", ["-", "/dev/stdout", "/dev/fd/1"])
def test_standard_output_gets_the_capture_alone(capture, capfdbinary, name):
    for options, line in (([], b" dropped  "), (["--json"], b'"dropped": 1,')):
        main.main(["dedup", str(capture), name, *options], standalone_mode=False)
        written, figures = capfdbinary.readouterr()
        assert written == UNIQUE
        assert line in figures


def test_input_that_an_output_would_destroy(capture, tmp_path):
    os.symlink("in.pcap", tmp_path / "link")
    os.mkfifo(pipe := tmp_path / "pipe")
    for path in (capture, tmp_path / "link"):
        # What a pipe gives is written under the name of the output.
        assert refusal("dedup", pipe, capture, path).startswith("IN and OUT are the same file")
        message = refusal("dedup", capture, tmp_path / "out", "--mark", path)
        assert message.startswith(f"--mark and IN are the same file: {tmp_path}/")
        assert refusal("dedup", "--mark", path, capture, "-").startswith(
            "--mark and IN are the same"
        )
        refusal("tap", capture, tmp_path / "out", "--truth", path)
        assert refusal("tap", capture, path).startswith("IN and OUT are the same file")
        refusal("host", "--port", "sim", "stream", capture, "--out", path)
    assert capture.read_bytes() == CAPTURE


def test_input_may_be_written_anew(capture):
    lately("dedup", capture, capture)
    assert capture.read_bytes() == UNIQUE


def test_device_takes_several_outputs(capture, tmp_path):
    with character_device(tmp_path) as device:
        lately("dedup", capture, device, "--mark", device)
        assert stat.S_ISCHR(os.stat(device).st_mode)


# Where outputs lead, and who can read them


def test_fifo_gets_the_capture(capture, tmp_path):
    with fifo(tmp_path / "out") as out, fifo(tmp_path / "marks") as marks:
        lately("dedup", capture, tmp_path / "out", "--mark", tmp_path / "marks")
        assert out.content == UNIQUE
        assert marks.content.count(b"\n") == 2


def test_fifo_that_nobody_reads_to_its_end(tmp_path):
    """It ends as a pipeline does: without a message."""
    made = tmp_path / "made.pcap"
    lately("tap", "generator", made, "--packets", 5000)
    with fifo(tmp_path / "out", limit=10) as out:
        done = lately("dedup", made, tmp_path / "out", code=141)
        assert len(out.content) == 10
    assert done.output == ""
    assert sorted(os.listdir(tmp_path)) == ["made.pcap", "out"]


@pytest.mark.slow
def test_outputs_are_no_more_readable_than_the_capture(capture, tmp_path):
    capture.chmod(0o600)
    lately("dedup", capture, tmp_path / "out", "--mark", tmp_path / "marks")
    lately("tap", capture, tmp_path / "taps", "--truth", tmp_path / "truth")
    lately("run", capture, "--engine", "golden", "--out-dir", tmp_path / "report")
    written = {"out", "marks", "taps", "truth", *(f"report/{name}" for name in (
        "report.html", "report.json", "report.png", "verdicts.csv"))}  # fmt: skip
    modes = {name: stat.S_IMODE(os.stat(tmp_path / name).st_mode) for name in written}
    assert modes == dict.fromkeys(written, 0o600)
    assert {*os.listdir(tmp_path / "report")} == {
        os.path.basename(name) for name in written if "/" in name
    }


def test_capture_written_anew_keeps_its_mode(capture):
    for mode in (0o600, 0o640):
        capture.chmod(mode)
        lately("dedup", capture, capture)
        assert stat.S_IMODE(os.stat(capture).st_mode) == mode


def test_report_that_cannot_be_drawn(capture, tmp_path):
    """A folder in the way of the last file is found before the work."""
    (tmp_path / "report" / "report.png").mkdir(parents=True)
    message = refusal("run", capture, "--out-dir", tmp_path / "report", code=2)
    assert message == f"{tmp_path}/report/report.png: Is a directory"
    assert os.listdir(tmp_path / "report") == ["report.png"]


def test_export_to_a_full_disk(tmp_path, monkeypatch):
    def write(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("pathlib.Path.write_text", write)
    words = ["export", "--preset", "tiny", "--name", "seen", "--out-dir", tmp_path / "new"]
    assert refusal(*words) == f"{tmp_path}/new: No space left on device"
    assert os.listdir(tmp_path) == []


# Processes: an output is complete, or the command fails with a line that names it

FRAMES = [random.Random(number).randbytes(1000) for number in range(3000)]
BIG = pcap([(1000 * at, frame) for at, frame in enumerate(FRAMES) for _ in range(2)])
UNIQUE_BIG = pcap([(1000 * at, frame) for at, frame in enumerate(FRAMES)])
LINES = b"".join(b"%d\n" % number for number in range(200_000))
UNBUFFERED = [{"PYTHONUNBUFFERED": value} for value in ("", "1")]


def ended(process, code, content=None):
    """Standard output and error of a process that ends with a status."""
    out, error = process.communicate(content, timeout=120)
    assert process.returncode == code, error.decode()
    return out, error.decode().removeprefix("lately: error: ")


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("inputs")
    (folder / "in.pcap").write_bytes(BIG)
    (folder / "lines").write_bytes(LINES)
    return {"IN": folder / "in.pcap", "LINES": folder / "lines"}


def filled(command, positions):
    return [positions.get(word, word) for word in command.split()]


STANDARD = ["uniq LINES --fpr 1e-12", "dedup IN -", "tap IN -", "show --preset tiny --json",
            "list devices"]  # fmt: skip


def check_standard_output(start, begin, folder):
    """Hold what a program writes on a full disk, to nobody, and where nothing is open."""
    whole, _ = ended(start(), 0)
    assert whole.startswith(begin)
    with (folder / "out").open("wb") as file:
        _, error = ended(start(limit=len(whole) // 2, stdout=file), 1)
    assert error == "standard output: File too large\n"
    assert (folder / "out").read_bytes() == whole[: len(whole) // 2]
    assert ended(start(stdout=subprocess.DEVNULL), 0)[0] is None
    source, sink = os.pipe()
    os.close(source)
    assert ended(start(stdout=sink), 141) == (None, "")
    os.close(sink)
    error = ended(start(closed=True, stdout=subprocess.DEVNULL), 1)[1]
    assert error == "standard output: Bad file descriptor\n"


@pytest.mark.parametrize("command", STANDARD)
def test_standard_output_is_complete(command, inputs, tmp_path):
    for environment in UNBUFFERED:
        start = partial(Program, *filled(command, inputs), environment=environment)
        check_standard_output(start, {"u": LINES, "d": UNIQUE_BIG}.get(command[0], b""), tmp_path)


def test_standard_output_of_a_new_process(tmp_path):
    """As of those that are forked."""

    def start(limit=None, closed=False, **streams):
        def prepare():
            if limit is not None:
                resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
            if closed:
                os.close(1)

        text = "from lately.cli.app import main; main(prog_name='lately')"
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | streams
        # Python would keep modules that it has compiled, as far as the limit allows.
        environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}
        return subprocess.Popen(
            [sys.executable, "-c", text, "list", "devices"], preexec_fn=prepare, env=environment,
            **streams,
        )  # fmt: skip

    check_standard_output(start, b"", tmp_path)


def is_whole(content):
    """Whether some content is whole records of pcap, or whole lines."""
    if content[:4] not in (b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1"):
        return content.endswith(b"\n")
    at = 24
    while at < len(content):
        at += 16 + int.from_bytes(content[at + 8 : at + 12], "little")
    return at == len(content)


@pytest.mark.parametrize("command", STANDARD[:3])
def test_slow_reader_gets_whole_records(command, inputs):
    words = filled(command, inputs)
    whole, _ = ended(Program(*words), 0)
    for environment in UNBUFFERED:
        with Program(*words, environment=environment) as process:
            wait_for(lambda pipe=process.stdout: waiting_bytes(pipe) > 60_000)
            process.send_signal(signal.SIGTERM)
            out, _ = ended(process, 130)
        assert 60_000 < len(out) < len(whole)
        assert is_whole(out)
        # What a tap delays comes at the end.
        assert whole.startswith(out) or command == "tap IN -"


def waiting_bytes(pipe):
    return int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), sys.byteorder)


def wait_for(condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


WRITTEN = dict.fromkeys(
    ["dedup IN OUT", "dedup IN - --dropped OUT", "tap IN OUT",
     *(f"dedup IN OUT{ending}" for ending in (".gz", ".bz2", ".xz", ".zst", ".lz4"))], 3 << 19,
) | {"dedup IN - --mark OUT": 50_000, "tap IN - --truth OUT": 50_000}  # fmt: skip
"""Commands that read a capture, and a limit that allows a part of the output."""

OTHERS = {
    "dedup IN - --report OUT": 64, "uniq LINES --state OUT": 64,
    "run LINES --engine golden --out-dir OUT": 64, "plan --window 100 --fpr 0.1 --out OUT": 64,
    "plan --window 100 --fpr 0.1 --plot OUT.svg": 64,
}  # fmt: skip


@pytest.mark.parametrize("command", WRITTEN | OTHERS)
def test_output_of_files_appears_whole_or_not(command, inputs, tmp_path):
    words = [str(word).replace("OUT", f"{tmp_path}/out") for word in filled(command, inputs)]
    limited = Program(*words, limit=(WRITTEN | OTHERS)[command], stdout=subprocess.DEVNULL)
    error = ended(limited, 2)[1].splitlines()[-1].removeprefix("lately: error: ")
    assert error.startswith(f"{tmp_path}/out")
    assert error.endswith(": File too large")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("command", WRITTEN)
def test_output_of_a_pipe_keeps_whole_records(command, inputs, tmp_path):
    words = [str(word).replace("OUT", f"{tmp_path}/out") for word in filled(command, inputs)]
    streams = {"stdin": subprocess.PIPE, "stdout": subprocess.DEVNULL}
    ended(Program(*words, **streams), 0)
    (path,) = tmp_path.iterdir()
    with closing(open_stream(path)) as stream:
        whole = stream.data.read()
    path.write_bytes(b"another file")
    words[1] = "-"
    with Program(*words, limit=WRITTEN[command], **streams) as process:
        assert ended(process, 1, BIG)[1] == f"{path}: File too large\n"
    with closing(open_stream(path)) as stream:
        kept = stream.data.read()
    assert 24 < len(kept) < len(whole)
    assert is_whole(kept)
    assert kept[:4] != UNIQUE_BIG[:4] or UNIQUE_BIG.startswith(kept)


def test_wrong_input_leaves_the_output(tmp_path):
    (tmp_path / "out").write_bytes(b"another file")
    process = Program("dedup", "-", tmp_path / "out", stdin=subprocess.PIPE)
    assert ended(process, 2, b"a,b")[1].startswith("standard input: not a pcap or pcapng capture")
    assert (tmp_path / "out").read_bytes() == b"another file"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_ended_process_leaves_whole_records(tmp_path, number):
    """A pipe stays open, and all records that came are written without delay."""
    # Fewer bytes than a buffer has.
    packets = [(1000 * at, FRAMES[at // 2]) for at in range(6)]
    for compiled in "10":
        words, out = ["dedup", "-", tmp_path / f"out{compiled}"], tmp_path / f"out{compiled}"
        with Program(*words, environment={VARIABLE: compiled}, stdin=subprocess.PIPE) as process:
            process.stdin.write(pcap(packets) + b"part")
            process.stdin.flush()
            wait_for(lambda out=out: out.exists() and out.stat().st_size == 24 + 3 * 1016)
            process.send_signal(number)
            assert process.wait(60) == (-9 if number == signal.SIGKILL else 130)
        assert out.read_bytes() == pcap(packets[::2])


def test_packets_are_written_as_they_come():
    # Fewer bytes than a buffer has.
    packets = [(1000 * at, FRAMES[at // 2]) for at in range(6)]
    with Program("dedup", "-", "-", stdin=subprocess.PIPE) as process:
        process.stdin.write(pcap(packets) + b"part")
        process.stdin.flush()
        wait_for(lambda: waiting_bytes(process.stdout) == 24 + 3 * 1016)
        process.send_signal(signal.SIGTERM)
        assert ended(process, 130)[0] == pcap(packets[::2])

"""Outputs of all commands: refused before any work, or written to where they lead."""

import os
import stat

import click
import pytest
from capture_files import pcap
from click.testing import CliRunner
from special_files import character_device, fifo

from lately.cli import outputs
from lately.cli.app import main
from lately.cli.outputs import InputFile, OutputFile, OutputFolder

CAPTURE = pcap([(0, bytes(60)), (1000, bytes(60))])
UNIQUE = pcap([(0, bytes(60))])


def lately(*arguments, code=0):
    done = CliRunner().invoke(main, [*map(str, arguments)])
    assert done.exit_code == code, done.output
    return done


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
    names = {"out", "output", "directory", "marked", "truth", "plot", "record", "state"}
    names |= {"folder", "dropped", "page"}
    outputs = {(path, one.name) for path, one in parameters() if one.name in names}
    checked = {
        (path, one.name)
        for path, one in parameters()
        if isinstance(one.type, OutputFile | OutputFolder)
    }
    assert outputs == checked
    assert (len(FILES), len(FOLDERS)) == (9, 5)


def test_every_stream_is_known_as_an_input():
    inputs = {(path, one.name) for path, one in parameters() if isinstance(one.type, InputFile)}
    assert inputs == {
        (("run",), "trace"),
        (("uniq",), "files"),
        (("tap",), "capture"),
        (("host", "stream"), "trace"),
    }


@pytest.mark.parametrize(("words", "parameter"), FILES + FOLDERS, ids=short)
def test_standard_output_is_refused(words, parameter):
    if parameter.name == "output":
        return
    kind = "file" if isinstance(parameter.type, OutputFile) else "folder"
    assert f"'{parameter.opts[-1]}': must be a {kind}, not - for" in refusal(*words, "-")


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
    message = f"out-dir: must be a directory to write to, not {tmp_path}"
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
                message = f"{words[3]} and OUT: must be two files, not both {tmp_path}/"
                assert refusal(*words).startswith(message)
            out.unlink(missing_ok=True)
    assert sorted(os.listdir(tmp_path)) == ["in.pcap", "link"]
    plan = ["plan", "--window", 100, "--fpr", 0.1]
    message = refusal(
        *plan, "--plot", f"{tmp_path}/a.svg", "--out", f"{tmp_path}/../{tmp_path.name}/a.svg"
    )
    assert message.startswith("--out and --plot: must be two files, not both ")


def test_standard_output_is_an_output(capture, tmp_path, monkeypatch):
    with (tmp_path / "out").open("wb") as file:
        monkeypatch.setattr(outputs.sys, "stdout", file)
        context = click.Context(click.Command("dedup"))
        parameter = click.Argument(["output"], metavar="OUT")
        OutputFile(standard=True).convert("-", parameter, context)
        with pytest.raises(click.UsageError, match="--mark and OUT: must be two files"):
            OutputFile().convert(str(tmp_path / "out"), click.Option(["--mark"]), context)


@pytest.mark.parametrize("name", ["-", "/dev/stdout", "/dev/fd/1"])
def test_standard_output_gets_the_capture_alone(capture, capfdbinary, name):
    main.main(["dedup", str(capture), name], standalone_mode=False)
    written, figures = capfdbinary.readouterr()
    assert written == UNIQUE
    assert b" dropped  " in figures


def test_input_that_an_output_would_destroy(capture, tmp_path):
    os.symlink("in.pcap", tmp_path / "link")
    for path in (capture, tmp_path / "link"):
        message = refusal("dedup", capture, tmp_path / "out", "--mark", path)
        assert message.startswith(f"--mark and IN: must be two files, not both {tmp_path}/")
        assert refusal("dedup", "--mark", path, capture, "-").startswith("--mark and IN: must be")
        refusal("tap", capture, tmp_path / "out", "--truth", path)
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
    with fifo(tmp_path / "out", most=10) as out:
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

"""Rules of the whole command line: options, short forms, helps, examples, completion."""

import itertools
import os
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from fnmatch import fnmatch
from pathlib import Path

import click
import numpy as np
import pytest
from capture_files import pcap
from click.testing import CliRunner
from warm_programs import Program

from lately.captures import two_taps
from lately.cli.app import STATUSES, main
from lately.cli.options import listed
from lately.cli.progress import stage_bar
from lately.dedup import deduplicate
from lately.golden import DecisionTable, TimedTimingSpec, from_spec, preset
from lately.golden.packets import copies
from lately.hdl.latencies import PROTECTIONS
from lately.replay import run, traces
from lately.sim.bench.packets import ethernet, ip4

ROOT = Path(__file__).parents[2]
SHORT = {"--out": "-o", "--out-dir": "-d", "--jobs": "-j", "--interface": "-i", "--quiet": "-q",
         "--version": "-V"}  # fmt: skip


DECLARED = {
    ("dedup", "--policy"): copies.POLICIES, ("uniq", "--policy"): copies.POLICIES,
    ("dedup", "--scope"): copies.SCOPES, ("dedup", "--by"): copies.ORIGINS,
    ("dedup", "--differs"): copies.PROPERTIES, ("dedup", "--engine"): deduplicate.ENGINES,
    ("run", "--engine"): run.ENGINES, ("run", "--format"): traces.FORMATS,
    ("tap", "--encapsulate"): two_taps.TUNNELS, ("export", "--protect"): PROTECTIONS,
}  # fmt: skip
"""Values of options as the modules behind them name them, which load numpy."""


def walk(command=main, path=("lately",), parent=None):
    """Yield each command with its path."""
    context = click.Context(command, info_name=path[-1], parent=parent)
    yield path, command
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            yield from walk(command.get_command(context, name), (*path, name), context)


COMMANDS = {" ".join(path): command for path, command in walk()}


def options():
    """Return the options of all commands by their long names."""
    result = defaultdict(dict)
    for path, command in COMMANDS.items():
        for option in command.params:
            if isinstance(option, click.Option):
                result[option.opts[-1]][path] = option
    return result


def examples(path):
    """Return the lines under "Examples:" in the help of a command."""
    help_text = COMMANDS[path].help.partition("Examples:")[2]
    return [line.strip() for line in help_text.splitlines() if line.strip()]


def kind(option):
    """Return everything of an option that must be the same in all commands."""
    about = option.type.to_info_dict()
    about["choices"] = sorted(about.get("choices", ()))
    about |= {"class": type(option.type), "exists": None}
    return about, option.metavar, option.is_flag, option.multiple, option.nargs, option.opts


def test_an_option_has_one_type_in_all_commands():
    for name, homes in options().items():
        kinds = {path: kind(option) for path, option in homes.items()}
        first = next(iter(kinds.values()))
        assert all(entry == first for entry in kinds.values()), f"{name}: {kinds}"


def test_the_page_has_the_meaning_of_every_shared_option():
    shared = {name for name, homes in options().items() if len(homes) > 1}
    page = (ROOT / "docs" / "commands.md").read_text("utf-8")
    rows = re.findall(r"^\| (`-.*?) \| ", page, re.MULTILINE)
    assert set(re.findall(r"`(--[\w-]+)`", " ".join(rows))) == shared


def test_short_forms():
    for name, homes in options().items():
        for option in homes.values():
            assert option.opts[:-1] == ([SHORT[name]] if name in SHORT else []), name


def test_commands_with_figures_have_json():
    silent = {"lately", "lately host", "lately program", "lately collect", "lately convert"} | {
        f"lately host {name}"
        for name in ("insert", "remove", "shift", "clear", "table", "reset", "configure")
    }
    assert set(options()["--json"]) == COMMANDS.keys() - silent


@pytest.mark.parametrize("path", COMMANDS)
def test_help(path):
    done = CliRunner().invoke(main, [*path.split()[1:], "--help"])
    assert done.exit_code == 0, done.output
    assert " ".join(done.stdout.split()).endswith(STATUSES)
    assert not re.search(r"\\b|FLOAT|INTEGER|RANGE", done.stdout)
    assert examples(path)


def test_lines_of_pages_have_commands_and_options_that_exist():
    known = {path: {opt for entry in command.params for opt in entry.opts} | {"--help"}
             for path, command in COMMANDS.items()}  # fmt: skip
    board = {path.split()[-1] for path in COMMANDS if path.startswith("lately host ")}
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob(".github/**/*.yml"),
             *ROOT.glob("examples/**/*.*")]  # fmt: skip
    result = 0
    for page in pages:
        if page.suffix not in (".md", ".yml", ".py", ".toml"):
            continue
        for name, rest in re.findall(r"\blately ([a-z]+)\b([^\n`|>]*)", page.read_text("utf-8")):
            options, words = set(re.findall(r"(?<!\S)--[a-z][\w-]*", rest)), rest.split()
            paths = [f"lately {name}"]
            if name == "host" and "--port" in options:
                paths += [f"lately host {word}" for word in words if word in board]
                assert len(paths) == 2, f"{page}: {rest}"
            if options and paths[0] in known:
                result += 1
                assert options <= set().union(*map(known.get, paths)), f"{page}: {name}{rest}"
    assert result > 100


@pytest.mark.parametrize("path", COMMANDS)
def test_examples_are_understood(path, tmp_path, monkeypatch):
    monkeypatch.setattr(click.Command, "invoke", lambda *_: None)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "seen_vivado.rpt").touch()
    (tmp_path / "seen_quartus.rpt").touch()
    for line in examples(path):
        words = next(part for part in re.split(r" [|>] ", line) if part.startswith("lately "))
        done = CliRunner().invoke(main, re.sub(r"'.*'", "x", words).split()[1:])
        assert done.exit_code == 0, f"{line}: {done.output}"


@pytest.fixture
def parsed(tmp_path, monkeypatch):
    """Runs a command without its work, with some values and arguments; returns the error."""
    monkeypatch.setattr(click.Command, "invoke", lambda *_: None)
    monkeypatch.chdir(tmp_path)

    def parse(path, words, **arguments):
        command = COMMANDS[path]
        required = [param for param in command.params
                    if isinstance(param, click.Argument) and param.required]  # fmt: skip
        separate = [arguments.get(param.metavar, sample(param)) for param in required]
        below = ["info"] if isinstance(command, click.Group) else []
        done = CliRunner().invoke(main, [*path.split()[1:], *words, *separate, *below])
        assert done.exit_code == (2 if done.stderr else 0)
        return done.stderr

    return parse


def sample(param, values="*", wanted=True):
    """Return a value that a parameter accepts: one of the `values` or, unless `wanted`, another."""
    patterns = values.split(" or ")
    if isinstance(param.type, click.Choice):
        return next(entry for entry in param.type.choices
                    if wanted == any(fnmatch(entry, pattern) for pattern in patterns))  # fmt: skip
    if values != "*" and wanted:
        return patterns[0]
    if isinstance(param.type, click.FloatRange):
        return "0.5"
    if getattr(param.type, "exists", False):
        return __file__
    return "1" if isinstance(param, click.Option) else param.name


NUMBERS = {"3": 3, "1_0": 10, "1e1": 10, "2.5e4": 25_000, "64k": 64_000, "10M": 10**7, "2Gi": 2**31,
           "1KiB": 1024, "64KB": 64_000, "9007199254740993": 2**53 + 1, "0.25": 0.25, "5e-1": 0.5,
           "1/2": None, "x": None, "nan": None, "": None, "1__0": None, "1e999": None, "1m": None,
           "1.5": 1.5, "\u0661": None}  # fmt: skip
"""Texts and the numbers that they mean."""


def number_or_message(kind, text):
    try:
        return kind.convert(text, None, None)
    except click.BadParameter as error:
        return error.message


def test_a_number_has_one_syntax():
    """In each option with a count or an amount; a fraction of a count is refused."""
    kinds = click.types.IntParamType | click.types.FloatParamType
    numeric = [entry for homes in options().values() for entry in homes.values()
               if isinstance(entry.type, kinds)]  # fmt: skip
    for option, (text, number) in itertools.product(numeric, NUMBERS.items()):
        cast = int if isinstance(option.type, click.types.IntParamType) else float
        wrong = number is None or (cast is int and number % 1 > 0)
        expected = f"must be a {'whole ' * (cast is int)}number such as 1000, 1e6 or 10M, not "
        expected = f"{expected}{text!r}" if wrong else f"{cast(number)} is not in the range "
        result = number_or_message(option.type, text)
        if isinstance(result, str):
            assert result.startswith(expected), (option.name, text)
        else:
            assert (result, type(result), wrong) == (cast(number), cast, False), (option.name, text)
    assert len(numeric) > 40


@pytest.mark.parametrize("path", COMMANDS)
def test_an_option_with_one_value_is_given_once(path, parsed):
    """In each spelling; flags and options with several values may be repeated."""
    for entry in COMMANDS[path].params:
        if not isinstance(entry, click.Option) or entry.is_eager:
            continue
        short, name, value = entry.opts[0], entry.opts[-1], sample(entry)
        again = [name, name] if entry.is_flag else [f"{short}{value}" if short != name else
                                                  f"{name}={value}", name, value]  # fmt: skip
        many = entry.is_flag or entry.multiple
        expected = "" if many else f"lately: error: {name} is given twice, but takes only one value"
        error = parsed(path, again)
        assert error.startswith(expected), again
        assert "given twice" in error or many


@pytest.mark.parametrize(("path", "rule"), [(p, r) for p, c in COMMANDS.items() for r in c.rules])
def test_an_option_without_effect_is_refused(path, rule, parsed):
    """Each rule of a command refuses the options that it names, and only these."""
    named = {
        word: entry for entry in COMMANDS[path].params for word in (*entry.opts, entry.metavar)
    }
    needs = " needs " in rule
    first, others = re.split(" needs | cannot be combined with ", rule)
    needed = [(also.split(" needs ")[1].split(" or ")[0], True) for also in COMMANDS[path].rules
              if also != rule and also.startswith(f"{first} needs ")]  # fmt: skip
    either = [re.split(" or (?=-)", part) for part in (first, others)]
    for option, other, wanted in itertools.product(*either, (True, False)):
        words, arguments = [], {}
        for condition, met in ((option, True), (other, wanted), *needed):
            word, _, values = condition.partition(" ")
            value = sample(named[word], values or "*", met or not values)
            if isinstance(named[word], click.Argument):
                arguments[word] = value
            elif met or values:
                words += [word] if named[word].is_flag else [word, value]
        refusal = f"lately: error: {rule} (see '{path} --help')"
        assert parsed(path, words, **arguments).startswith(refusal) == (wanted != needs), words


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the files of the examples."""
    folder = tmp_path_factory.mktemp("examples")
    line = '10.0.0.{} - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 1\n'
    (folder / "access.log").write_text("".join(line.format(n % 50) for n in range(200)))
    (folder / "keys.txt").write_text("".join(f"{n % 50}\n" for n in range(200)))
    frames = [ethernet(0x0800, ip4(bytes([n % 5]) * 30)) for n in range(20)]
    (folder / "mirror.pcapng").write_bytes(
        pcap([(10**6 * n, entry) for n, entry in enumerate(frames)])
    )
    shutil.copy(ROOT / "tests/data/reports/vivado.rpt", folder / "seen_vivado.rpt")
    preset("tiny").to_toml(folder / "seen.toml")
    from_spec(preset("tiny")).save(folder / "seen.npz")
    decided = TimedTimingSpec(
        span=80, period=2, hashes=3, cells=16, stamp_bits=7, key_bits=20, classes=1
    )
    decided.to_toml(folder / "decided.toml")
    thresholds = np.zeros(decided.table_shape, np.uint8)
    sizes = {"hashes": decided.hashes, "block": decided.block_units, "bits": decided.phase_bits}
    DecisionTable(thresholds, **sizes).save(folder / "table.json")
    bitstream = folder / "build" / "icebreaker" / "icebreaker.bin"
    bitstream.parent.mkdir(parents=True)
    bitstream.touch()
    loader = folder / "openFPGALoader"
    loader.write_text("#!/bin/sh\n")
    loader.chmod(0o755)
    return folder


def runnable(line, folder):
    """Return whether all files that an example reads are in the folder."""
    names = re.findall(r"[\w./]+\.(?:log|txt|csv\.gz|csv|pcapng|pcap|gz|rpt|toml|json|bit)\b", line)
    written = set(re.findall(r"(?:--\w+|-o|>|pcapng|generator) ([\w.]+)", line))
    there = all((folder / name).exists() for name in names if name not in written)
    return there and not re.search(r"/dev/|eth0|tail -F|--watch", line)


@pytest.mark.slow
@pytest.mark.parametrize("path", COMMANDS)
def test_an_example_runs(path, folder):
    line = next(line for line in examples(path) if runnable(line, folder))
    where = f"{Path(sys.executable).parent}:{folder}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", line], cwd=folder, env=os.environ | {"PATH": where}, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    print(line)
    assert done.returncode == 0, done.stderr


def test_completion():
    """The script of the shell, and the choices of an option."""
    for words, reply in (
        ({"_LATELY_COMPLETE": "bash_source"}, "complete -o nosort -F _lately_completion lately"),
        ({"_LATELY_COMPLETE": "bash_complete", "COMP_WORDS": "lately synth --bus a",
          "COMP_CWORD": "3"}, "plain,axi4-lite"),
        ({"_LATELY_COMPLETE": "bash_complete", "COMP_WORDS": "lately show --preset ap",
          "COMP_CWORD": "3"}, "plain,apbbf-default"),
    ):  # fmt: skip
        process = Program(environment=words)
        lines = process.communicate()[0].decode().splitlines()
        assert (process.returncode, reply in map(str.strip, lines)) == (0, True)


@pytest.mark.parametrize("option", DECLARED)
def test_choices_are_those_of_the_library(option):
    """The first value is the default, if there is a default."""
    command, name = option
    (result,) = [each for each in COMMANDS[f"lately {command}"].params if name in each.opts]
    assert sorted(result.type.choices) == sorted(DECLARED[option])
    if isinstance(result.default, str):
        assert result.default == next(iter(DECLARED[option]))


def test_every_listed_name_completes():
    """Every option whose help refers to `lately list` completes the names of this list."""
    result = set()
    for path, command in COMMANDS.items():
        for entry in command.params:
            if match := re.search(r"`lately list (\w+)`", getattr(entry, "help", None) or ""):
                items = entry.shell_complete(click.Context(command), "")
                names = [item.value for item in items]
                assert names == list(listed(match[1])), f"{path}: {entry.name}"
                result.add(entry.opts[0])
    assert result == {"--preset", "--device", "--board"}


def test_every_file_completes():
    """Every parameter whose help names a file or folder has a type that the shell completes."""
    for path, command in COMMANDS.items():
        for entry in command.params:
            if re.search(r"FILE|DIR|IN|OUT|TRACE", entry.make_metavar(click.Context(command))):
                assert isinstance(entry.type, click.Path), f"{path}: {entry.name}"


@pytest.mark.parametrize(("words", "shown"), [([], True), (["--quiet"], False)])
def test_quiet(words, shown, monkeypatch, capsys):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("FORCE_COLOR", "1")
    with main.make_context("lately", [*words, "doctor"]).scope(), stage_bar("keys"):
        pass
    assert bool(capsys.readouterr().err) == shown


@pytest.mark.parametrize("variable", ["NO_COLOR", "LANG"])
def test_no_colour(variable, monkeypatch, capsys):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv(variable, "C")
    with stage_bar("keys") as show:
        show("keys", 1.0)
    coloured = re.search(r"\x1b\[[\d;]*(3[0-7]|38;)", capsys.readouterr().err)
    assert bool(coloured) == (variable != "NO_COLOR")

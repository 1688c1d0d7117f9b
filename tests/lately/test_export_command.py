"""`lately export` as a program: files, figures, messages."""

import json

import pytest
from click.testing import CliRunner

from lately.cli import app as cli
from lately.golden import any_preset
from lately.golden.spec.base import Specification


def run(*arguments):
    return CliRunner().invoke(cli.main, ["export", *map(str, arguments)])


def test_files_and_figures(tmp_path):
    done = run("--preset", "tiny", "--name", "seen", "--out", tmp_path / "ip", "--json")
    assert (done.exit_code, done.stderr) == (0, "")
    told = json.loads(done.stdout)
    assert told["files"] == sorted(path.name for path in (tmp_path / "ip").iterdir())
    assert told["spec"] == any_preset("tiny").to_dict()
    assert Specification.from_toml(tmp_path / "ip" / "seen.toml") == any_preset("tiny")
    text = run("--preset", "tiny", "--name", "seen", "--out", tmp_path / "again").stdout
    assert f"1 lane, latency {told['latency']} clocks, specification {told['digest']}" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--preset", "tiny"), "give --name, that of the module (see 'lately export --help')"),
        (("--name", "a b"), "name: must begin with a letter and go on with letters, digits and "
                            "single underscores, not 'a b'"),
        (("--name", "x", "--preset", "none"), "preset: must be one of "),
        (("--name", "x", "--preset", "tiny", "--memory", "sram"), "Memory must be one of "),
        (("--name", "x", "--preset", "tiny", "--ticks", "tick"),
         "--ticks needs a filter whose window is one in time (see"),
        (("--name", "x", "--preset", "tiny", "--tag-bits", "1000000"),
         "tag_bits: must be at most 64, not 1000000"),
        (("--name", "x", "--preset", "tiny", "--device", "none"), "device: must be one of "),
        (("--name", "x", "--preset", "tiny", "--out", "/proc/none/x"), "/proc/none/x: "),
        (("--name", "x", "--spec", "none.toml"), "none.toml: "),
        (("--name", "x", "--preset", "tiny", "--bus", "avalon"),
         "Invalid value for '--bus': 'avalon' is not one of "),
        (("--name", "x", "--preset", "tiny", "--wrap", "raw", "--last"),
         "last: must be given with wrap axis only, not raw"),
    ],
)  # fmt: skip
def test_wrong(arguments, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = run(*arguments)
    assert done.exit_code != 0
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"lately: error: {message}")
    assert not list(tmp_path.iterdir())

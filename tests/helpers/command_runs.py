"""Commands of pages, in this process or in processes of their own."""

import json
import os
import shlex
import subprocess
import sys
from contextlib import chdir
from pathlib import Path

from click.testing import CliRunner

from lately.cli.app import main


def lately(*words, code=0):
    """Run `lately` in this process; return click's result, whose status must be the given one."""
    result = CliRunner().invoke(main, [*map(str, words)])
    assert result.exit_code == code, (result.output, result.exception)
    return result


def figures_of(*words):
    """Figures that a command prints with --json, and nothing else."""
    result = lately(*words, "--json")
    assert result.stderr == ""
    return json.loads(result.stdout)


def write_files(folder, files):
    """Write contents, bytes or text, by their names; return the folder."""
    for name, content in files.items():
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


def run_command(command, folder, *, in_process):
    """Return what a command prints; one of `lately` alone may run in this process."""
    words = shlex.split(command)
    if in_process and words[0] == "lately" and command == shlex.join(words):
        with chdir(folder):
            result = CliRunner(env={"COLUMNS": "120"}).invoke(main, words[1:])
        assert result.exit_code == 0, result.output
        return result.stdout
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = os.environ | {"PATH": path, "COLUMNS": "120"}
    result = subprocess.run(
        command, shell=True, cwd=folder, capture_output=True, text=True, env=environment
    )
    assert result.returncode == 0, result.stderr
    return result.stdout

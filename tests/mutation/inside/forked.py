"""Starts processes that find imported what the package needs; nothing of the package itself.

Reads a line of JSON for each: the arguments of Python, the environment, the folder, and the file
for its output. Answers with its number, which is that of its group, and again when it has ended.
"""

import json
import os
import runpy
import sys
import tempfile

import amaranth.back.rtlil
import amaranth.lib.wiring
import amaranth.sim
import hypothesis
import numba.core.config
import numpy as np
import pytest
import scipy.stats
import sitecustomize
import xdist.plugin

USED = (amaranth, hypothesis, np, pytest, scipy.stats, xdist)


def run(arguments):
    """Do what Python does with its arguments, of which the first are -m or -c or a file."""
    kind, *rest = arguments
    sys.argv = [kind, *rest]
    if kind == "-c":
        sys.argv = ["-c", *rest[1:]]
        exec(compile(rest[0], "<string>", "exec"), {"__name__": "__main__"})
    elif kind == "-m":
        sys.argv = rest
        sys.path.insert(0, os.getcwd())
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    else:
        sys.path.insert(0, os.path.dirname(kind))
        runpy.run_path(kind, run_name="__main__")


def become(environment, folder, output):
    """Make this process what was asked for."""
    os.setsid()
    file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for new, old in ((nothing, 0), (file, 1), (file, 2)):
        os.dup2(new, old)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    tempfile.tempdir = None
    numba.core.config.reload_config()
    sitecustomize.install()


def main():
    for line in sys.stdin:
        arguments, environment, folder, output = json.loads(line)
        if not (process := os.fork()):
            become(environment, folder, output)
            return arguments
        print(process, flush=True)
        os.waitpid(process, 0)
        print(process, flush=True)
    return None


if __name__ == "__main__":
    if (asked := main()) is not None:
        run(asked)

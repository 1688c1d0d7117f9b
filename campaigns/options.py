"""Command-line options of the campaigns."""

import inspect
import os
from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatchcase
from functools import wraps
from typing import Any

import click

from lately.cli.options import Command, count_option, together
from lately.golden.errors import LatelyError

HELP = {
    "case": "Case, with wildcards * and ?; may be repeated.  [default: all]",
    "seeds": "Seeds such as 1-5 or 1,3.  [default: those of each case]",
    "seed": "Seed of the random numbers.",
    "preset": "Preset of the unit; may be repeated.",
    "spec": "Filter specification, a TOML file.",
    "operations": "Number of operations in each run.",
    "rounds": "Number of rounds; the median or the fastest round is reported.",
    "turning": "Window of the GEBF whose longest call is timed.",
    "memory": "Memory variant: portable, ecp5, ice40 or gowin.",
    "queries": "Number of queries per measured rate.",
    "upsets": "Number of bit flips, each in a separate run.",
    "kind": "Kind of bits to flip: memory, buffer, register or counter; may be repeated.",
    "protect": "Memory protection: none, parity or tmr.",
    "self_check": "Add self-checks to the unit, which then resets itself on an error.",
    "window": "Window of the filters, in insertions.",
    "bits_per_key": "Memory per key in the window, in bits.",
    "keys": "Number of keys in the stream; slow filters process only a part.",
    "insertions": "Number of insertions in the stream.",
    "model": "Golden model, named as in the campaign 'golden'; may be repeated.",
    "packets": "Number of packets per tap.",
    "lines": "Number of lines in the stream.",
    "trace": "Trace file with a stream of keys; may be repeated.",
    "requirements": "Number of requirements.",
    "large": "Draw windows of 3 to 100,000 and rates of 0.003 and more.",
    "timestamps": "Draw requirements that only filters with timestamps can meet.",
}


class UnknownNameError(LatelyError, ValueError):
    """Raised if a pattern matches no name."""


def select(patterns: Iterable[str], names: Iterable[str]) -> list[str]:
    names = list(names)
    patterns = list(patterns) or ["*"]
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            raise UnknownNameError(f"{pattern!r} matches none of {', '.join(names)}")
    return [name for name in names if any(fnmatchcase(name, pattern) for pattern in patterns)]


def workers(noun: str) -> Callable[[Command], Command]:
    """Return a decorator that adds the options --scheduler and --jobs, for `noun` in their help."""

    def decorate(command: Command) -> Command:
        @wraps(command)
        def run(*, jobs: int | None, scheduler: str | None, **options: Any) -> Any:
            if jobs is not None and scheduler is not None:
                raise click.UsageError(
                    "--jobs cannot be combined with --scheduler, which has its own workers"
                )
            return command(jobs=jobs or os.cpu_count() or 1, scheduler=scheduler, **options)

        text = "Use the workers of a Dask scheduler, such as tcp://10.0.0.1:8786."
        return together(
            count_option("--jobs", None, f"{noun}.  [default: cores]"),
            click.option("--scheduler", metavar="ADDRESS", help=text),
        )(run)

    return decorate


def options_of(points: Callable[..., Any]) -> Sequence[click.Option]:
    options = []
    for name, parameter in inspect.signature(points).parameters.items():
        default = parameter.default
        values: dict[str, Any] = {"default": default, "show_default": bool(default)}
        if isinstance(default, bool):
            values = {"is_flag": True}
        elif isinstance(default, int):
            values["type"] = click.IntRange(min=0)
        elif isinstance(default, tuple):
            values |= {"multiple": True, "metavar": "NAME"}
        else:
            values |= {"type": str, "metavar": "TEXT"}
        flag = f"--{name.replace('_', '-')}"
        options.append(click.Option([flag, name], help=HELP[name], **values))
    return options

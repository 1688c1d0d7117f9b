"""Options of campaigns: patterns of names, processes, and options of a function's parameters."""

import inspect
import os
from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatchcase
from functools import wraps
from typing import Any

import click

from lately.cli.options import Command, count_option, parse_seeds, together
from lately.golden.errors import LatelyError

HELP = {
    "case": "Case, with wildcards * and ?; may be repeated.  [default: all]",
    "family": "Family of devices; may be repeated.  [default: all]",
    "seeds": "Seeds such as 1-5 or 1,3.  [default: those of each case]",
    "seed": "Seed of the random keys.",
    "quick": "Measure a few small points.",
    "preset": "Preset of a unit; may be repeated.",
    "spec": "Filter specification, a TOML file.",
    "span": "Keep keys for this number of ticks, which come with the operations.",
    "when_full": 'What gives way when a span has too many keys: "shorten" or "overfill".',
    "operations": "Operations of each run.",
    "rounds": "Rounds, of which the median or the fastest counts.",
    "turning": "Window of the ring whose turn is timed.",
    "memory": "Variant of the memories: portable, ecp5, ice40 or gowin.",
    "queries": "Queries for each rate.",
    "upsets": "Bits that flip, each in a run of its own.",
    "kind": "Kind of bits that flip: memory, buffer, register or counter; may be repeated.",
    "protect": "Protection of memories: none, parity or tmr.",
    "self_check": "Have the unit check its own state, and reset itself.",
    "window": "Insertions to remember.",
    "bits_per_key": "Memory for each key of the window, in bits.",
    "keys": "Length of the stream; slow filters take the first part.",
    "insertions": "Insertions of the stream.",
    "model": "Golden model, as `golden` names it; may be repeated.",
    "packets": "Packets of each tap.",
    "lines": "Lines of the stream.",
    "trace": "Trace whose keys are a stream; may be repeated.",
    "requirements": "Number of requirements.",
    "large": "Draw windows of 3 to 100,000 and rates down to 0.003.",
    "timestamps": "Draw requirements that filters with timestamps alone meet.",
}
"""Help of the options of campaigns, by parameter."""


class UnknownNameError(LatelyError, ValueError):
    """A pattern matches nothing."""


def select(patterns: Iterable[str], names: Iterable[str]) -> list[str]:
    """Return the names that match a pattern, in their order; all without a pattern."""
    names = list(names)
    patterns = list(patterns) or ["*"]
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            raise UnknownNameError(f"case: must match one of {', '.join(names)}, not {pattern!r}")
    return [name for name in names if any(fnmatchcase(name, pattern) for pattern in patterns)]


def workers(noun: str) -> Callable[[Command], Command]:
    """Return a decorator that adds --jobs, "`what` at a time", and --scheduler.

    The command gets as `jobs` the processes to start: by default as many as there are cores.
    """

    def decorate(command: Command) -> Command:
        @wraps(command)
        def run(*, jobs: int | None, scheduler: str | None, **options: Any) -> Any:
            if jobs is not None and scheduler is not None:
                raise click.UsageError(
                    "--jobs is for processes of this machine; "
                    "the workers of a --scheduler are as many as were started"
                )
            return command(jobs=jobs or os.cpu_count() or 1, scheduler=scheduler, **options)

        text = "Use the workers of a Dask scheduler, such as tcp://10.0.0.1:8786."
        return together(
            count_option("--jobs", None, f"{noun}.  [default: cores]"),
            click.option("--scheduler", metavar="ADDRESS", help=text),
        )(run)

    return decorate


def options_of(points: Callable[..., Any]) -> Sequence[click.Option]:
    """Return an option for each keyword parameter of a function, with its default."""
    return [
        _option(name, parameter.default)
        for name, parameter in inspect.signature(points).parameters.items()
    ]


def _option(name: str, default: Any) -> click.Option:
    values: dict[str, Any] = {"default": default, "show_default": True}
    if isinstance(default, bool):
        values = {"is_flag": True}
    elif isinstance(default, int):
        values["type"] = click.IntRange(min=0)
    elif isinstance(default, tuple):
        values |= {"multiple": True, "show_default": bool(default), "metavar": "NAME"}
    else:
        values |= {"type": str, "show_default": bool(default), "metavar": "TEXT"}
    return click.Option([f"--{name.replace('_', '-')}", name], help=HELP[name], **values)


__all__ = ["UnknownNameError", "options_of", "parse_seeds", "select", "workers"]

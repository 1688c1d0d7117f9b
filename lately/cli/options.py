"""Options that several commands share, and their values."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from .outputs import OutputFile, OutputFolder

if TYPE_CHECKING:
    from ..golden.spec.base import Specification

Command = Callable[..., Any]  # function that click turns into a command

WHEN_FULL = ("shorten", "overfill")
"""Same as `lately.golden.spec.ring.WHEN_FULL`, whose module imports numpy."""


class ListedName(click.ParamType):
    """Name from `lately list`, with shell completion."""

    name = "name"

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        return [CompletionItem(name) for name in listed(self.kind) if name.startswith(incomplete)]


def listed(kind: str) -> Mapping[str, Any]:
    if kind == "presets":
        from ..golden.spec.presets import ALL_PRESETS

        return ALL_PRESETS
    if kind == "devices":
        from ..boards.flow.devices import DEVICES

        return DEVICES
    from ..boards.targets.catalogue import BOARDS

    return BOARDS


_NUMBER = re.compile(r"([-+.0-9_]{1,40}(?:[eE][-+]?[0-9]{1,2})?)(?:([kKMG])(i?))?B?")


class _Number(click.ParamType):
    """Number such as 1000, 1_000, 1e6, 10M or 64KiB."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        whole = isinstance(self, click.IntRange)
        if isinstance(value, str):
            match = _NUMBER.fullmatch(value)
            text, prefix, binary = match.groups() if match else ("", "", "")
            with suppress(ValueError):
                power = " KMG".index((prefix or " ").upper())
                exact = Fraction(text) * (1024 if binary else 1000) ** power
                if exact.denominator == 1 or not whole:
                    return super().convert(exact, param, ctx)
            kind = "whole number" if whole else "number"
            self.fail(f"must be a {kind} such as 1000, 1e6 or 10M, not {value!r}", param, ctx)
        return super().convert(value, param, ctx)


class Count(_Number, click.IntRange):
    """Whole number in a range."""


class Amount(_Number, click.FloatRange):
    """Number in a range, whole or not."""


json_option = click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")


def count_option(
    names: str,
    default: int | None,
    text: str,
    *,
    minimum: int = 1,
    maximum: int | None = None,
    metavar: str = "N",
) -> Callable[[Command], Command]:
    shown: dict[str, Any] = {} if default is None else {"show_default": True}
    return click.option(
        *names.split(), type=Count(minimum, maximum), default=default, help=text,
        metavar=metavar, **shown,
    )  # fmt: skip


def amount_option(
    name: str, metavar: str, text: str, default: float | None = None
) -> Callable[[Command], Command]:
    kind = Amount(min=0, min_open=True)
    shown = default is not None
    return click.option(
        name, type=kind, metavar=metavar, default=default, show_default=shown, help=text
    )


def listed_option(names: str, kind: str, text: str) -> Callable[[Command], Command]:
    return click.option(*names.split(), type=ListedName(kind), metavar="NAME", help=text)


def choice_option(name: str, values: Sequence[str], text: str) -> Callable[[Command], Command]:
    """Return an option with a choice of values; the first value is the default."""
    kind = click.Choice(values)
    return click.option(name, type=kind, default=values[0], show_default=True, help=text)


window_option = partial(count_option, "--window")


def fpr_option(text: str, default: float | None = None) -> Callable[[Command], Command]:
    kind = Amount(0, 1, min_open=True, max_open=True)
    shown = default is not None
    return click.option(
        "--fpr", type=kind, metavar="P", default=default, show_default=shown, help=text
    )


def clock_option(default: str) -> Callable[[Command], Command]:
    return amount_option(
        "--clock", "MHZ", f"Clock frequency that the design must reach.  [default: {default}]"
    )


baud_option = partial(count_option, "--baud", text="Baud rate of the serial port.")


def out_option(text: str) -> Callable[[Command], Command]:
    return click.option("-o", "--out", type=OutputFile(), metavar="FILE", help=text)


def folder_option(text: str) -> Callable[[Command], Command]:
    return click.option("-d", "--out-dir", "folder", type=OutputFolder(), metavar="DIR", help=text)


WRAPS = ("axis", "avalon-st", "raw", "extern", *(f"frames-{n}" for n in (8, 64, 128, 256, 512)))
"""Same as `FRAMES` and others in `lately.boards.export.design`, which imports Amaranth."""


def wrap_option(default: str | None, shown: str) -> Callable[[Command], Command]:
    return click.option(
        "--wrap", type=click.Choice(WRAPS), default=default,
        help="Ports: axis (AXI4-Stream), avalon-st (Avalon streams), raw (a port per field, with "
        "valid "
        "and ready), extern (as raw, without ready, at a fixed latency), or frames-N (an Ethernet "
        "frame deduplicator with N-bit streams).  "
        f"[default: {shown}]",
    )  # fmt: skip


bus_option = choice_option(
    "--bus",
    ["none", "axi4-lite", "wishbone", "avalon-mm"],
    "Register bus; without one, settings, counters and secret are ports.",
)


def memory_option(default: str | None, shown: str) -> Callable[[Command], Command]:
    return click.option(
        "--memory", metavar="VARIANT", default=default,
        help="Memories: portable, inferred by synthesis; or block RAMs: ecp5, ice40 or gowin, each "
        f"also with -strict appended.  [default: {shown}]",
    )  # fmt: skip


query_window_option = click.option(
    "--query-window",
    metavar="N|T",
    help="Window of each query: N insertions or a time T; for dictionaries and timing filters.",
)

table_option = click.option(
    "--table",
    type=click.Path(),
    metavar="FILE",
    help="Threshold table for a filter with classes, as written by DecisionTable.save.",
)
limit_option = count_option("--limit", None, "Stop after N operations.")

seed_option = count_option("--seed", 1, "Seed for the random keys or packets.", minimum=0)


time_limit_option = amount_option(
    "--time-limit",
    "SECONDS",
    "Time limit for each run of yosys or nextpnr; the command fails if it is exceeded.",
    1800,
)


strict_option = click.option(
    "--avoid-mixed-port-reads",
    "strict",
    is_flag=True,
    help="Never use the result of a read while another port writes part of the word; uses more "
    "LUTs.",
)


protect_option = choice_option(
    "--protect",
    # Same as `lately.hdl.latencies.PROTECTIONS`, whose module imports numpy.
    ["none", "parity", "tmr"],
    "Memory protection, by the worst effect of a flipped bit: none (any wrong answer), parity (a "
    "false positive) or tmr (no effect). Protection uses more block RAMs.",
)


check_option = click.option(
    "--self-check",
    is_flag=True,
    help="Make the unit check its own state. If the state is illegal, the unit reports that and "
    "resets itself, which empties the filter.",
)


def together(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Combine several options into one decorator."""

    def add(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return add


spec_option = partial(
    click.option, "--spec", type=click.Path(), metavar="FILE",
    help="Filter specification (TOML file).",
)  # fmt: skip


def filter_options(default: str = "default") -> Callable[[Command], Command]:
    text = f"Filter preset; see `lately list presets`.  [default: {default}]"
    return together(
        spec_option(),
        listed_option("--preset", "presets", text),
    )


def trace_options(command: Command) -> Command:
    key = (
        "Key: fields (log) or columns (CSV), separated by commas; or part of a packet (capture): "
        "digest, five-tuple, ip-id, dns-name or bytes:OFFSET:COUNT."
    )
    return together(
        choice_option("--format", ["auto", "log", "csv", "lines", "capture"], "Format of TRACE."),
        click.option("--key", metavar="NAMES", help=key),
    )(command)


def choose(**request: Any) -> "tuple[Specification, int | None]":
    """Return the filter for the given options, and its tick in nanoseconds, or None."""
    from .filter_choice import FilterRequest, choice

    return choice(FilterRequest(**request))


def choose_unit(spec: str | None, preset: str | None) -> "Specification":
    if spec is not None and preset is not None:
        raise click.UsageError("give one of --spec and --preset, not both")
    from .filter_choice import FilterRequest, named

    return named(FilterRequest(spec=spec, preset=preset))


def parse_seeds(text: str, option: str = "--seeds") -> list[int]:
    """Convert seeds such as 1-5 or 1,3 to a sorted list without duplicates."""
    seeds: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.partition("-")
        ends = (first, last if dash else first)
        if not all(end.isascii() and end.isdigit() and len(end) < 10 for end in ends):
            raise click.UsageError(f"{option}: must be a list such as 1-5 or 1,3, not {text!r}")
        span = range(int(ends[0]), int(ends[1]) + 1)
        if not 1 <= len(span) <= 100:
            raise click.UsageError(f"{option}: a range must have 1 to 100 seeds, not {part!r}")
        seeds.update(span)
    return sorted(seeds)


def secret_option(text: str) -> Callable[[Command], Command]:
    kind = click.Path(exists=True, dir_okay=False)
    return click.option("--secret-file", type=kind, metavar="FILE", help=text)


def read_secret(path: str) -> int:
    with open(path, "rb") as file:
        text = file.read(100).strip()
    try:
        if len(text) != 32:
            raise ValueError
        return int(bytes.fromhex(text.decode("ascii")).hex(), 16)
    except ValueError:
        # The message does not quote the file, which may contain part of a secret.
        raise click.ClickException(f"{path}: must contain 32 hexadecimal digits") from None


def print_json(value: object, *, err: bool = False) -> None:
    click.echo(json.dumps(value, allow_nan=False), err=err)

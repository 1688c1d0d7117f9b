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

Command = Callable[..., Any]  # function that click makes a command of

WHEN_FULL = ("shorten", "overfill")
"""As `lately.golden.spec.ring.WHEN_FULL`, whose module loads numpy."""


class ListedName(click.ParamType):
    """A name that `lately list` prints; shells complete it."""

    name = "name"

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        return [CompletionItem(name) for name in listed(self.kind) if name.startswith(incomplete)]


def listed(kind: str) -> Mapping[str, Any]:
    """Return all presets, devices or boards by name."""
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


json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")


def count_option(
    names: str,
    default: int | None,
    text: str,
    *,
    minimum: int = 1,
    maximum: int | None = None,
    metavar: str = "N",
) -> Callable[[Command], Command]:
    """Return an option that takes a whole number; `names` is such as "--jobs" or "-j --jobs"."""
    shown: dict[str, Any] = {} if default is None else {"show_default": True}
    return click.option(
        *names.split(), type=Count(minimum, maximum), default=default, help=text,
        metavar=metavar, **shown,
    )  # fmt: skip


def amount_option(
    name: str, metavar: str, text: str, default: float | None = None
) -> Callable[[Command], Command]:
    """Return an option that takes a number above 0, with its unit as the metavar."""
    kind = Amount(min=0, min_open=True)
    shown = default is not None
    return click.option(
        name, type=kind, metavar=metavar, default=default, show_default=shown, help=text
    )


def listed_option(names: str, kind: str, text: str) -> Callable[[Command], Command]:
    """Return an option that takes a name of this kind; `names` as in "--device name"."""
    return click.option(*names.split(), type=ListedName(kind), metavar="NAME", help=text)


def choice_option(name: str, values: Sequence[str], text: str) -> Callable[[Command], Command]:
    """Return an option that takes one of some values, by default the first."""
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
        "--clock", "MHZ", f"Clock frequency that the hardware must reach.  [default: {default}]"
    )


baud_option = partial(count_option, "--baud", text="Baud rate of the serial port.")


def out_option(text: str) -> Callable[[Command], Command]:
    return click.option("-o", "--out", type=OutputFile(), metavar="FILE", help=text)


def folder_option(text: str) -> Callable[[Command], Command]:
    return click.option("-d", "--out-dir", "folder", type=OutputFolder(), metavar="DIR", help=text)


WRAPS = ("axis", "avalon-st", "raw", "extern", *(f"frames-{n}" for n in (8, 64, 128, 256, 512)))
"""As `lately.boards.export.design.FRAMES` and others, whose package loads Amaranth."""


def wrap_option(default: str | None, shown: str) -> Callable[[Command], Command]:
    """Return --wrap, the ports of an exported unit."""
    return click.option(
        "--wrap", type=click.Choice(WRAPS), default=default,
        help="Ports: AXI4-Stream; Avalon streams; valid and ready for each field; fixed latency "
        "without ready; or a deduplicator of Ethernet frames, with streams of 8 to 512 bits.  "
        f"[default: {shown}]",
    )  # fmt: skip


bus_option = choice_option(
    "--bus",
    ["none", "axi4-lite", "wishbone", "avalon-mm"],
    "Bus of the registers; without a bus, settings, counters and secret are ports.",
)


def memory_option(default: str | None, shown: str) -> Callable[[Command], Command]:
    """Return --memory, the memories of the segments."""
    return click.option(
        "--memory", metavar="VARIANT", default=default,
        help="portable, which synthesis infers, or block RAMs: ecp5, ice40, gowin, each with "
        f"-strict.  [default: {shown}]",
    )  # fmt: skip


query_window_option = click.option(
    "--query-window",
    metavar="N|T",
    help="Window of each query, N insertions or a time T; for dictionaries and timing filters.",
)

table_option = click.option(
    "--table",
    type=click.Path(),
    metavar="FILE",
    help="Table of thresholds for a filter with classes, written by DecisionTable.save.",
)
limit_option = count_option("--limit", None, "Stop after N operations.")

seed_option = count_option("--seed", 1, "Seed of the random keys or packets.", minimum=0)


time_limit_option = amount_option(
    "--time-limit",
    "SECONDS",
    "Time after which a run of yosys or nextpnr is ended and fails.",
    1800,
)


strict_option = click.option(
    "--avoid-mixed-port-reads",
    "strict",
    is_flag=True,
    help="Never use a word that is read while another port writes a part of it; takes more LUTs.",
)


protect_option = choice_option(
    "--protect",
    # As `lately.hdl.latencies.PROTECTIONS`, whose module loads numpy.
    ["none", "parity", "tmr"],
    "Worst effect of an upset of a memory bit: any wrong answer; a false positive; no effect. "
    "Protection takes more block RAMs.",
)


check_option = click.option(
    "--self-check",
    is_flag=True,
    help="Make the unit check its own state. If the state is illegal, the unit resets itself, "
    "which empties the filter, and reports the reset.",
)


def together(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Return a decorator that adds several `options`, in this order."""

    def add(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return add


spec_option = partial(
    click.option, "--spec", type=click.Path(), metavar="FILE",
    help="Filter specification, a TOML file.",
)  # fmt: skip


def filter_options(default: str = "default") -> Callable[[Command], Command]:
    """Return --spec and --preset, for `choose_unit`."""
    text = f"Preset filter; see `lately list presets`.  [default: {default}]"
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
    """Return the filter of the options in `request`, and the nanoseconds of its ticks, if any."""
    from .filter_choice import FilterRequest, choice

    return choice(FilterRequest(**request))


def choose_unit(spec: str | None, preset: str | None) -> "Specification":
    if spec is not None and preset is not None:
        raise click.UsageError("give one of --spec and --preset, not both")
    from .filter_choice import FilterRequest, named

    return named(FilterRequest(spec=spec, preset=preset))


def parse_seeds(text: str, option: str = "--seeds") -> list[int]:
    """Return the seeds of an option such as 1-5 or 1,3, sorted and without duplicates."""
    seeds: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.partition("-")
        ends = (first, last if dash else first)
        if not all(end.isascii() and end.isdigit() and len(end) < 10 for end in ends):
            raise click.UsageError(f"{option}: must be a list such as 1-5 or 1,3, not {text!r}")
        span = range(int(ends[0]), int(ends[1]) + 1)
        if not 1 <= len(span) <= 100:
            raise click.UsageError(f"{option}: must have ranges of 1 to 100 seeds, not {part!r}")
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
        # What the file holds may be half a secret.
        raise click.ClickException(f"{path}: does not hold 32 hexadecimal digits") from None


def print_json(value: object, *, err: bool = False) -> None:
    click.echo(json.dumps(value, allow_nan=False), err=err)

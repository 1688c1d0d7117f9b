"""Options and files on the command line: what several commands share, and values of options."""

import json
import os
import re
import stat
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from fractions import Fraction
from functools import partial
from pathlib import Path
from time import localtime, strftime
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

import click

if TYPE_CHECKING:
    from ..golden.spec.base import Specification

Command = Callable[..., Any]  # function that click turns into a command
Decorator = Callable[[Command], Command]

# Same as `lately.golden.spec.ring.WHEN_FULL`, whose module imports numpy.
WHEN_FULL = ("shorten", "overfill")

# Same as `FRAMES` and others in `lately.boards.export.design`, which imports Amaranth.
WRAPS = ("axis", "avalon-st", "raw", "extern", *(f"frames-{n}" for n in (8, 64, 128, 256, 512)))


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
    """Number in a range; fractions are permitted."""


# Files, checked before any work starts, then opened

_FILES = "lately.cli.options"  # key in `ctx.meta` for the files on the command line


class InputFile(click.Path):
    """Input file, or - for standard input. An output must not overwrite an input."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        with suppress(OSError, ValueError, AttributeError):
            status = os.stat(content_source(value))
            _note(param, ctx, value, (status.st_dev, status.st_ino), "input")
        return value


class OutputFile(click.Path):
    """Output file; `standard` permits -, standard output, and `in_place` overwriting an input."""

    def __init__(self, *, standard: bool = False, in_place: bool = False) -> None:
        super().__init__()
        self._standard = standard
        self._in_place = in_place

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if self._standard and value in ("/dev/stdout", "/dev/fd/1"):
            value = "-"
        if value != "-":
            from ..golden.files import check_output

            _note(param, ctx, value, check_output(value), "place" if self._in_place else "output")
        elif not self._standard:
            self.fail("must be a file, not - (standard output)", param, ctx)
        else:
            # Standard output may be missing, or may be an object without a file descriptor.
            with suppress(OSError, ValueError, AttributeError):
                status = os.fstat(sys.stdout.fileno())
                if stat.S_ISREG(status.st_mode):
                    _note(param, ctx, value, (status.st_dev, status.st_ino), "output")
        return value


class OutputFolder(click.Path):
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if value == "-":
            self.fail("must be a folder, not - (standard output)", param, ctx)
        path = Path(value).absolute()
        there = next(folder for folder in (path, *path.parents) if folder.exists())
        if not there.is_dir():
            raise click.ClickException(f"out-dir: must be a directory, not the file {value}")
        if not os.access(there, os.W_OK):
            raise click.ClickException(f"out-dir: {value} is not writable")
        return value


def rereadable(inputs: Sequence[str]) -> bool:
    modes = []
    for path in inputs:
        with suppress(OSError, ValueError, AttributeError):
            modes.append(os.stat(content_source(path)).st_mode)
    return all(map(stat.S_ISREG, modes))


def content_source(path: str) -> str | int:
    return sys.stdin.fileno() if path == "-" else path


def _note(
    param: click.Parameter | None, ctx: click.Context | None, path: str, identity: object,
    role: str,
) -> None:  # fmt: skip
    """Record that a parameter names a file; refuse it if it conflicts with an earlier parameter."""
    if param is None or ctx is None or identity is None:
        return
    name = param.opts[-1] if isinstance(param, click.Option) else param.human_readable_name
    files = ctx.meta.setdefault(_FILES, {})
    for other, its_role in files.setdefault(identity, []):
        if "output" in (role, its_role) or role == its_role == "place":
            first, second = sorted((other, name))
            raise click.UsageError(f"{first} and {second} are the same file: {path}", ctx)
    files[identity].append((name, role))


# Names in error messages.
_IN, _OUT = click.Argument(["capture"], metavar="IN"), click.Argument(["output"], metavar="OUT")
_FOLDER = click.Option(["--out-dir"])


class PacketFiles(NamedTuple):
    inputs: list[str]
    outputs: list[str]  # one per input, one for all inputs, or none


def packet_files(
    paths: Sequence[str], folder: str | None, dry_run: bool, live: bool
) -> PacketFiles:
    """Split the arguments IN... OUT; all are inputs if `folder` or `dry_run` is set."""
    context = click.get_current_context()
    inputs, outputs = list(paths), []
    if folder is None and not dry_run:
        if not inputs:
            raise click.UsageError("IN and OUT are missing", context)
        outputs = [inputs.pop()]
    if live and inputs:
        raise click.UsageError("IN cannot be combined with --interface", context)
    if not live and not inputs:
        raise click.UsageError(f"{'IN' if folder or dry_run else 'OUT'} is missing", context)
    for path in inputs:
        InputFile().convert(path, _IN, context)
    kind = OutputFile(standard=True, in_place=folder is None and rereadable(inputs))
    if folder is not None:
        outputs = [os.path.join(folder, os.path.basename(path)) for path in inputs]
        os.makedirs(folder, exist_ok=True)
    param = _FOLDER if folder else _OUT
    return PacketFiles(inputs, [kind.convert(output, param, context) for output in outputs])


@contextmanager
def open_output(path: str, inputs: Sequence[str], *, live: bool = False) -> Iterator[BinaryIO]:
    """Open standard output for '-', otherwise a file; its suffix selects the compression."""
    from ..golden.files import replace_file
    from ..stream_files import compressed

    if path == "-":
        try:
            yield sys.stdout.buffer
        finally:
            sys.stdout.buffer.flush()
        return
    source, kept = content_source(inputs[0]) if inputs else None, live or not rereadable(inputs)
    with replace_file(path, source=source, kept=kept) as file, compressed(path, file) as packed:
        yield packed


def rotated_name(path: str, number: int, time: int) -> str:
    """Add the file number (from 1) and the local time to a name, as dumpcap does."""
    from ..stream_files import ENDINGS

    root, ending = os.path.splitext(path)
    if ending in ENDINGS:
        root, inner = os.path.splitext(root)
        ending = inner + ending
    return f"{root}_{number + 1:05}_{strftime('%Y%m%d%H%M%S', localtime(time // 10**9))}{ending}"


# Kinds of options


def option(declaration: str, text: str, **settings: Any) -> Decorator:
    """Declare an option like "-o --out path FILE", or a flag like "--json as_json"."""
    names, last = declaration.split(), declaration.rpartition(" ")[2]
    if last == last.lower():
        return click.option(*names, is_flag=True, help=text, **settings)
    if settings.get("default") is not None:
        settings.setdefault("show_default", True)
    return click.option(*names[:-1], metavar=last, help=text, **settings)


def count_option(
    names: str, default: int | None, text: str, *, minimum: int = 1, maximum: int | None = None,
    metavar: str = "N",
) -> Decorator:  # fmt: skip
    return option(f"{names} {metavar}", text, type=Count(minimum, maximum), default=default)


def amount_option(name: str, metavar: str, text: str, default: float | None = None) -> Decorator:
    return option(f"{name} {metavar}", text, type=Amount(min=0, min_open=True), default=default)


def listed_option(names: str, kind: str, text: str) -> Decorator:
    def complete(_context: click.Context, _option: click.Parameter, start: str) -> list[str]:
        return [name for name in listed(kind) if name.startswith(start)]

    return option(f"{names} NAME", text, shell_complete=complete)


def choice_option(name: str, values: Sequence[str], text: str) -> Decorator:
    kind = click.Choice(values)
    return click.option(name, type=kind, default=values[0], show_default=True, help=text)


def together(*options: Decorator) -> Decorator:
    def add(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return add


# Shared options

json_option = option("--json as_json", "Print the result as JSON.")
window_option = partial(count_option, "--window")
limit_option = count_option("--limit", None, "Stop after N operations.")
seed_option = count_option("--seed", 1, "Seed for the random keys or packets.", minimum=0)
baud_option = partial(count_option, "--baud", text="Baud rate of the serial port.")


def fpr_option(text: str, default: float | None = None) -> Decorator:
    return option("--fpr P", text, type=Amount(0, 1, min_open=True, max_open=True), default=default)


def clock_option(default: str) -> Decorator:
    text = f"Clock frequency that the design must reach.  [default: {default}]"
    return amount_option("--clock", "MHZ", text)


def out_option(text: str, names: str = "-o --out") -> Decorator:
    return option(f"{names} FILE", text, type=OutputFile())


def folder_option(text: str) -> Decorator:
    return option("-d --out-dir folder DIR", text, type=OutputFolder())


def wrap_option(default: str | None, shown: str) -> Decorator:
    return click.option(
        "--wrap", type=click.Choice(WRAPS), default=default,
        help="Ports: axis (AXI4-Stream), avalon-st (Avalon streams), raw (a port per field, with "
        "valid and ready), extern (like raw, without ready, at a fixed latency), or frames-N (an "
        f"Ethernet frame deduplicator with N-bit streams).  [default: {shown}]",
    )  # fmt: skip


bus_option = choice_option(
    "--bus", ["none", "axi4-lite", "wishbone", "avalon-mm"],
    "Register bus; without a bus, settings, counters and secret are ports.",
)  # fmt: skip


def memory_option(default: str | None, shown: str) -> Decorator:
    text = (
        "Memories: portable, inferred by synthesis; or block RAMs: ecp5, ice40 or gowin, each also "
        f"with -strict appended.  [default: {shown}]"
    )
    return option("--memory VARIANT", text, default=default, show_default=False)


query_window_option = option(
    "--query-window N|T",
    "Window of each query: N insertions or a time T; for dictionaries and timing filters.",
)

table_option = option(
    "--table FILE",
    "Threshold table for a filter with classes, as written by DecisionTable.save.",
    type=click.Path(),
)

time_limit_option = amount_option(
    "--time-limit", "SECONDS",
    "Time limit for each run of yosys or nextpnr; the command fails if it is exceeded.", 1800,
)  # fmt: skip

strict_option = option(
    "--avoid-mixed-port-reads strict",
    "Never use the result of a read while another port writes part of the word; uses more LUTs.",
)

protect_option = choice_option(
    # Same as `lately.hdl.latencies.PROTECTIONS`, whose module imports numpy.
    "--protect", ["none", "parity", "tmr"],
    "Memory protection, by the worst effect of a flipped bit: none (any wrong answer), parity (a "
    "false positive) or tmr (no effect). Protection uses more block RAMs.",
)  # fmt: skip

check_option = option(
    "--self-check",
    "Make the unit check its own state. If the state is illegal, the unit reports that and resets "
    "itself, which empties the filter.",
)

spec_option = partial(
    option, "--spec FILE", "Filter specification (TOML file).", type=click.Path()
)  # fmt: skip


def filter_options(default: str = "default") -> Decorator:
    text = f"Filter preset; see `lately list presets`.  [default: {default}]"
    return together(spec_option(), listed_option("--preset", "presets", text))


trace_options = together(
    choice_option("--format", ["auto", "log", "csv", "lines", "capture"], "Format of TRACE."),
    option(
        "--key NAMES",
        "Key: fields (log) or columns (CSV), separated by commas; or part of a packet (capture): "
        "digest, five-tuple, ip-id, dns-name or bytes:OFFSET:COUNT.",
    ),
)


def secret_option(text: str) -> Decorator:
    return option("--secret-file FILE", text, type=click.Path(exists=True, dir_okay=False))


def when_full_option(text: str, default: str | None = None) -> Decorator:
    kind = click.Choice(WHEN_FULL)
    return click.option("--when-full", type=kind, default=default, show_default=True, help=text)


# Values of options


def choose_unit(spec: str | None, preset: str | None) -> "Specification":
    if spec is not None and preset is not None:
        raise click.UsageError("--spec cannot be combined with --preset")
    from ..golden import Specification, any_preset
    from ..hdl.build import family_of

    if spec is None:
        return any_preset(preset or "default")
    chosen = Specification.from_toml(spec)
    family_of(chosen)
    return chosen


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
            raise click.UsageError(f"{option}: the range {part!r} does not have 1 to 100 seeds")
        seeds.update(span)
    return sorted(seeds)


def nanoseconds(name: str, text: str | None) -> int:
    """Convert the value of a time option to nanoseconds; return 0 if the option was not given."""
    from ..golden.durations import time_seconds, whole_nanoseconds

    return 0 if text is None else whole_nanoseconds(name, time_seconds(text, name))


def read_secret(path: str) -> int:
    with open(path, "rb") as file:
        text = file.read(100).strip()
    if re.fullmatch(rb"[0-9a-fA-F]{32}", text):
        return int(text, 16)
    # The message does not quote the file, which may contain part of a secret.
    raise click.ClickException(f"{path}: must contain 32 hexadecimal digits")


def print_json(value: object, *, err: bool = False) -> None:
    click.echo(json.dumps(value, allow_nan=False), err=err)

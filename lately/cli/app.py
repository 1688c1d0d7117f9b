"""Command line. Whatever takes long to import is imported where it is used."""

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Any

try:
    import click
except ModuleNotFoundError:
    sys.exit("lately: error: the command line needs its extra: pip install 'lately[cli]'")

from .build_commands import build, program
from .host_commands import host
from .lanes_commands import bench_lanes
from .options import number_of_jobs, workers
from .plan_commands import plan
from .progress_bars import counting_bar, progress_bar
from .reproduce_commands import reproduce
from .speed_commands import bench_golden, bench_stream

if TYPE_CHECKING:
    from rich.progress import TaskID

    from ..bench.hardware import Progress as RunProgress
    from ..golden import FilterSpec
    from ..replay.run import Progress, RunResult
    from ..replay.traces import Trace
    from ..sim.proofs.formal import Record

INTERRUPTED = 130
"""Exit status after Ctrl-C: 128 and the number of the signal."""


class LatelyGroup(click.Group):
    """Commands whose every error is one line on stderr.

    Exit status: 1 for an error, 2 for a wrong command line, `INTERRUPTED`
    after Ctrl-C.
    """

    def main(self, *args: Any, **extra: Any) -> Any:
        """Run a command and, in standalone mode, exit with its status."""
        start: Callable[..., Any] = super().main
        if not extra.pop("standalone_mode", True):
            return start(*args, standalone_mode=False, **extra)
        try:
            status = start(*args, standalone_mode=False, **extra)
        except click.UsageError as error:
            status = _explain_usage(error)
        except click.ClickException as error:
            status = _complain(error.format_message(), error.exit_code)
        except click.Abort:
            click.echo("lately: interrupted", err=True)
            status = INTERRUPTED
        except Exception as error:
            message = _explain(error)
            if message is None:
                raise
            status = _complain(message, 1)
        sys.exit(status if isinstance(status, int) else 0)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command that was asked for."""
        result = super().invoke(ctx)
        if sys.stdout is not None:
            # Here click still knows what to do about a pipe that nobody reads.
            sys.stdout.flush()
        return result


def _complain(message: str, status: int) -> int:
    click.echo(f"lately: error: {' '.join(message.split())}", err=True)
    return status


def _explain_usage(error: click.UsageError) -> int:
    # Older versions of click have no such class, and show the help themselves.
    if isinstance(error, getattr(click.exceptions, "NoArgsIsHelpError", ())):
        error.show()
        return error.exit_code
    path = error.ctx.command_path if error.ctx else "lately"
    return _complain(f"{error.format_message()} (see '{path} --help')", error.exit_code)


def _explain(error: Exception) -> str | None:
    """Return what to tell of an error from outside the program; None for a defect in it."""
    from ..golden.errors import LatelyError

    if isinstance(error, LatelyError):
        return str(error)
    if isinstance(error, OSError):
        name = "" if error.filename is None else f"{error.filename}: "
        return f"{name}{error.strerror or error}"
    if isinstance(error, MemoryError):
        return "not enough memory"
    if isinstance(error, ModuleNotFoundError) and not (error.name or "").startswith("lately"):
        extra = "host" if error.name in ("serial", "fastcrc") else "sim"
        return f"needs {error.name}: pip install 'lately[{extra}]'"
    return None


@click.group("lately", cls=LatelyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="lately", prog_name="lately", message="%(prog)s %(version)s")
def main() -> None:
    """Tell whether a key has been seen lately: sliding-window membership in hardware."""


main.add_command(build)
main.add_command(program)
main.add_command(host)
main.add_command(reproduce)
main.add_command(plan)


@main.command(short_help="Replay a stream through RTL, golden model and exact oracle.")
@click.argument("trace")
@click.option("--spec", metavar="FILE", help="Filter, as TOML.")
@click.option("--preset", metavar="NAME", help="Filter, by name.  [default: default]")
@click.option(
    "--window", type=int, metavar="N", help="Find a filter that guarantees N insertions ..."
)
@click.option("--fpr", type=float, metavar="P", help="... with at most this false-positive rate.")
@click.option(
    "--engine",
    type=click.Choice(["rtl", "golden"]),
    default="rtl",
    show_default=True,
    help="What gives the verdicts: compiled hardware, checked against the golden model, or "
    "the golden model alone.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["auto", "log", "csv", "lines"]),
    default="auto",
    show_default=True,
    help="What TRACE is.",
)
@click.option(
    "--key", metavar="NAMES", help="Fields (log) or columns (CSV) of the key, with commas."
)
@click.option("--time", metavar="NAME", help="Column of the time (CSV).")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Stop after N operations.")
@click.option(
    "--out", metavar="DIR", help="Write verdicts, report.json, report.html and report.png there."
)
@click.option(
    "--verdicts",
    type=click.Choice(["csv", "parquet"]),
    default="csv",
    show_default=True,
    help="Format of the verdicts under --out.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the figures as one JSON object.")
def run(
    *,
    trace: str,
    spec: str | None,
    preset: str | None,
    window: int | None,
    fpr: float | None,
    engine: str,
    form: str,
    key: str | None,
    time: str | None,
    limit: int | None,
    out: str | None,
    verdicts: str,
    as_json: bool,
) -> None:
    """Check and insert every key of TRACE, and judge every verdict.

    TRACE is an NCSA common or combined access log (key: client, method and
    URL), a CSV with a header, a file with one key per line, or - for standard
    input; plain, gzip or zstd. Each key goes through the compiled RTL, the
    golden model and an exact oracle. Fails if RTL and golden model differ in
    any verdict, or if a key within the guaranteed window is not reported.

    \b
    Examples:
      lately run access.log
      lately run flights.csv.gz --key tail_number --time departure
      lately run access.log.zst --key client,agent --window 20000 --fpr 0.001
      lately run queries.csv --spec filter.toml --out report --verdicts parquet
      zcat keys.gz | lately run - --engine golden --limit 100000 --json
    """
    chosen = _choose_spec(spec, preset, window, fpr)
    from ..replay.traces import open_trace

    with open_trace(trace, format=form, key=key, time=time) as records:
        if out is None:
            result = _run(records, chosen, engine, limit, None)
        else:
            result = _run_into(out, verdicts, records, chosen, engine, limit)
    if as_json:
        click.echo(json.dumps(result.figures(), allow_nan=False))
    else:
        from .tables import print_result

        print_result(result)
    failures = result.failures()
    if failures:
        raise click.ClickException("; ".join(failures))


@main.command(short_help="Take a filter unit to post-route figures on a device.")
@click.option("--spec", metavar="FILE", help="Filter, as TOML.")
@click.option("--preset", metavar="NAME", help="Filter, by name.  [default: default]")
@click.option("--device", "name", metavar="NAME", help="Device; --list names them.")
@click.option(
    "--seed", type=click.IntRange(min=0), default=1, show_default=True, help="Of the placement."
)
@click.option(
    "--portable",
    is_flag=True,
    help="Infer the segment memories, in place of the device's own block RAMs.",
)
@click.option(
    "--organisation",
    type=click.Choice(["separate", "bit-sliced"]),
    default="separate",
    show_default=True,
    help="Of the memory; bit-sliced for guarded-epoch filters only.",
)
@click.option("--out", metavar="DIR", help="Leave netlist, report and the tools' logs there.")
@click.option("--list", "list_devices", is_flag=True, help="Name the devices and exit.")
@click.option("--json", "as_json", is_flag=True, help="Print the figures as one JSON object.")
def synth(
    *,
    spec: str | None,
    preset: str | None,
    name: str | None,
    seed: int,
    portable: bool,
    organisation: str,
    out: str | None,
    list_devices: bool,
    as_json: bool,
) -> None:
    """Synthesise, place and route a filter unit, and time it.

    The clock is what static timing analysis gives after routing, with the
    block RAMs of the device's family. The same seed and the same versions of
    the tools give the same figures.

    \b
    Examples:
      lately synth --list
      lately synth --device ecp5-25k-6
      lately synth --preset small --device ice40-up5k --seed 3
      lately synth --spec filter.toml --device ecp5-85k-6 --json
    """
    from ..boards.flow.devices import DEVICES, device

    if list_devices:
        from .tables import print_devices

        click.echo(json.dumps(sorted(DEVICES))) if as_json else print_devices()
        return
    if name is None:
        raise click.UsageError("give --device; --list names the devices")
    target = device(name)
    chosen = _choose_spec(spec, preset, None, None)
    from ..boards.flow.synthesis import synthesize_unit

    with _stages() as progress:
        report = synthesize_unit(
            chosen,
            device=target,
            memory="portable" if portable else None,
            organisation=organisation,
            seed=seed,
            directory=out,
            progress=progress,
        )
    if as_json:
        click.echo(json.dumps(report.to_dict() | {"spec": chosen.to_dict()}, allow_nan=False))
    else:
        from .tables import print_synthesis

        print_synthesis(report, chosen)


@main.command(short_help="Prove what the hardware promises.")
@click.argument("patterns", nargs=-1, metavar="[PROOF]...")
@click.option(
    "--jobs", type=click.IntRange(min=1), metavar="N", help="Proofs at a time.  [default: cores]"
)
@click.option("--list", "list_proofs", is_flag=True, help="Name the proofs and exit.")
@click.option("--json", "as_json", is_flag=True, help="Print the outcomes as one JSON object.")
def prove(*, patterns: tuple[str, ...], jobs: int | None, list_proofs: bool, as_json: bool) -> None:
    """Prove formally what the hardware promises, for small units: all of it, or each PROOF.

    Proofs are unbounded if not said otherwise: whatever the inputs are, and
    for all time. After each come the states that it must not have ruled out,
    and how many clocks they are away. Names may have * and ? in them.

    \b
    Examples:
      lately prove
      lately prove --list
      lately prove 'guarantee*' --jobs 1 --json
    """
    from ..sim.proofs import catalogue as proofs

    chosen = proofs.select(patterns)
    if list_proofs:
        from .tables import print_proofs

        names = [proof.name for proof in chosen]
        click.echo(json.dumps(names)) if as_json else print_proofs(chosen)
        return
    jobs = jobs or os.cpu_count() or 1
    with _proofs(len(list(proofs.with_goals(chosen)))) as progress:
        records = proofs.prove(proofs.with_goals(chosen), jobs=jobs, progress=progress)
    if as_json:
        click.echo(json.dumps(proofs.to_dict(records), allow_nan=False))
    else:
        from .tables import print_records

        print_records(records)
    _complain_of(
        [f"{record.proof.name}: {record.status}" for record in records if not record.proven]
    )


@contextmanager
def _proofs(total: int) -> "Iterator[Callable[[Record], None] | None]":
    """Show which proofs have ended where somebody can see it."""
    with progress_bar("{task.description}", "bar", "count") as bar:
        if bar is None:
            yield None
            return
        task = bar.add_task("proofs", total=total)
        yield lambda record: bar.update(task, advance=1, description=record.proof.name)


@main.group(short_help="Measure how fast hardware, replay and models are.")
def bench() -> None:
    """Measure how fast the hardware is, and how fast its replay and the models run here."""


bench.add_command(bench_lanes)
bench.add_command(bench_golden)
bench.add_command(bench_stream)


@bench.command("replay", short_help="Compiled replay beside the golden model.")
@click.option("--spec", metavar="FILE", help="Filter, as TOML.")
@click.option("--preset", metavar="NAME", help="Filter, by name.  [default: default]")
@click.option(
    "--operations",
    type=click.IntRange(min=1),
    default=1_000_000,
    show_default=True,
    help="Check-and-inserts in a round.",
)
@click.option(
    "--rounds", type=click.IntRange(min=1), default=5, show_default=True, help="Rounds of each."
)
@click.option("--json", "as_json", is_flag=True, help="Print the figures as one JSON object.")
def bench_replay(
    *, spec: str | None, preset: str | None, operations: int, rounds: int, as_json: bool
) -> None:
    """Time the compiled replay and the golden model in turn, on the same random keys.

    The ratio of the two holds; single figures are of the machine that this runs on.

    \b
    Examples:
      lately bench replay
      lately bench replay --preset large --operations 200000 --json
    """
    chosen = _choose_spec(spec, preset, None, None)
    from ..bench.replay_speed import replay

    figures = replay(chosen, operations=operations, rounds=rounds)
    if as_json:
        click.echo(json.dumps(figures, allow_nan=False))
    else:
        from .tables import print_replay

        print_replay(figures)
    if figures["mismatches"]:
        raise click.ClickException(f"mismatches: must be 0, not {figures['mismatches']}")


@bench.command("soak", short_help="Compiled hardware beside golden, for long.")
@click.option("--spec", metavar="FILE", help="Filter, as TOML.")
@click.option("--preset", metavar="NAME", help="Filter, by name.  [default: default]")
@click.option(
    "--operations",
    type=click.IntRange(min=1),
    default=100_000_000,
    show_default=True,
    help="Operations in all.",
)
@click.option("--seed", type=click.IntRange(min=0), default=1, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print the figures as one JSON object.")
def bench_soak(
    *, spec: str | None, preset: str | None, operations: int, seed: int, as_json: bool
) -> None:
    """Hold the compiled hardware against the golden model on many mixed operations.

    Verdicts and ages of all operations, counters and every bit of memory are compared. An
    interrupt ends the run; what was done until then is reported.

    \b
    Examples:
      lately bench soak
      lately bench soak --preset gebf-default --operations 1000000 --json
    """
    chosen = _choose_spec(spec, preset, None, None)
    from ..replay.soak import soak

    with counting_bar("operations", operations, "bar", "share", "remaining") as progress:
        figures = soak(chosen, operations=operations, seed=seed, progress=progress)
    if as_json:
        click.echo(json.dumps(figures, allow_nan=False))
    else:
        from .tables import print_soak

        print_soak(figures)
    wrong = {name: count for name, count in figures["mismatches"].items() if count}
    if wrong:
        raise click.ClickException(f"mismatches: must be 0, not {wrong}")
    if figures["interrupted"]:
        raise click.exceptions.Exit(130)


@bench.command("hardware", short_help="Units on devices: static timing and area.")
@click.option(
    "--case",
    "patterns",
    multiple=True,
    metavar="NAME",
    help="Case or group, * and ? allowed; may be repeated.  [default: all]",
)
@click.option("--seeds", metavar="LIST", help="Such as 1-5 or 1,3.  [default: those of each case]")
@workers("Runs at a time.")
@click.option(
    "--out",
    default=os.path.join("build", "hardware"),
    show_default=True,
    metavar="DIR",
    help="Keep the runs there, and go on from those that are there.",
)
@click.option(
    "--check", "baseline", metavar="FILE", help="Fail if a run is worse than that of a baseline."
)
@click.option("--list", "list_cases", is_flag=True, help="Name the cases and exit.")
@click.option("--json", "as_json", is_flag=True, help="Print the figures as one JSON object.")
def bench_hardware(
    *,
    patterns: tuple[str, ...],
    seeds: str | None,
    jobs: int | None,
    scheduler: str | None,
    out: str,
    baseline: str | None,
    list_cases: bool,
    as_json: bool,
) -> None:
    """Synthesise, place and route units for devices, and hold them against what is asked.

    Each case is placed with several seeds; the median clock frequency counts.
    Every run is kept in DIR/results.json as soon as it ends, so that an
    interrupted measurement goes on where it was, and is made anew only if
    the hardware, the device's options or the tools have changed.

    A case fails --check if a run has a lower clock frequency, or more LUTs,
    flip-flops or block RAMs, than the run of the same seed in the baseline.

    \b
    Examples:
      lately bench hardware --list
      lately bench hardware --case 'apbbf/*' --seeds 1-3
      lately bench hardware --case units --jobs 2 --json
      lately bench hardware --case tiny --check results/performance.json
      lately bench hardware --scheduler tcp://10.0.0.1:8786
    """
    number = number_of_jobs(jobs, scheduler)
    from ..bench.cases import select

    cases = select(patterns)
    if list_cases:
        from .tables import print_cases

        click.echo(json.dumps([case.name for case in cases])) if as_json else print_cases(cases)
        return
    chosen = None if seeds is None else _seeds(seeds)
    from ..bench import measurements
    from ..bench.hardware import measure

    known = None if baseline is None else measurements.load(baseline)
    _make_directory(out)
    store = measurements.Store(os.path.join(out, "results.json"))
    with _runs() as progress:
        outcome = measure(
            cases, store, seeds=chosen, jobs=number, scheduler=scheduler, progress=progress
        )
    found = None if known is None else measurements.compare(outcome.summaries, known)
    if as_json:
        figures = outcome.to_dict() | {"check": None if found is None else found.to_dict()}
        click.echo(json.dumps(figures, allow_nan=False))
    else:
        from .tables import print_hardware

        print_hardware(outcome, found)
    _complain_of([*outcome.failures, *(found.regressions if found else ())])


def _complain_of(lines: list[str]) -> None:
    """Fail with all lines but the last on standard error, and the last as the error."""
    for line in lines[:-1]:
        _complain(line, 1)
    if lines:
        raise click.ClickException(lines[-1])


def _seeds(text: str) -> list[int]:
    """Return the seeds of a list such as 1-5 or 1,3, in order and each once."""
    seeds: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.partition("-")
        ends = (first, last if dash else first)
        if not all(end.isascii() and end.isdigit() and len(end) < 10 for end in ends):
            raise click.UsageError(f"--seeds: must be a list such as 1-5 or 1,3, not {text!r}")
        span = range(int(ends[0]), int(ends[1]) + 1)
        if not 1 <= len(span) <= 100:
            raise click.UsageError(f"--seeds: must have ranges of 1 to 100 seeds, not {part!r}")
        seeds.update(span)
    return sorted(seeds)


@contextmanager
def _runs() -> "Iterator[RunProgress | None]":
    """Show the runs of a measurement where somebody can see them."""
    with progress_bar("{task.description}", "bar", "elapsed") as bar:
        if bar is None:
            yield None
            return
        whole = bar.add_task("Reading the hardware", total=None)
        tasks: dict[str, TaskID] = {}

        def show(done: int, total: int, running: Mapping[str, tuple[str, float]]) -> None:
            share = done + sum(share for _, share in running.values())
            bar.update(whole, description=f"{done} of {total} runs", total=total, completed=share)
            for name in [*tasks.keys() - running.keys()]:
                bar.remove_task(tasks.pop(name))
            for name, (stage, share) in running.items():
                if name not in tasks:
                    tasks[name] = bar.add_task(name, total=1.0)
                bar.update(tasks[name], description=f"{name}: {stage}", completed=share)

        yield show


@contextmanager
def _stages() -> "Iterator[Callable[[str, float], None] | None]":
    """Show the stages of a synthesis where somebody can see them."""
    with progress_bar("{task.description:<10}", "bar", "elapsed") as bar:
        if bar is None:
            yield None
            return
        task = bar.add_task("synthesis", total=1.0)
        yield lambda stage, share: bar.update(task, description=stage, completed=share)


def _choose_spec(
    spec: str | None, preset: str | None, window: int | None, fpr: float | None
) -> "FilterSpec":
    sized = window is not None or fpr is not None
    if (spec is not None) + (preset is not None) + sized > 1:
        raise click.UsageError("give one of --spec, --preset, or --window with --fpr, not several")
    if sized and (window is None or fpr is None):
        given, missing = ("--fpr", "--window") if window is None else ("--window", "--fpr")
        raise click.UsageError(f"{given} needs {missing}")
    from ..golden import FilterSpec
    from ..golden import preset as named

    if spec is not None:
        return FilterSpec.from_toml(spec)
    if window is not None and fpr is not None:
        from ..planner import Requirement, choose

        return choose(Requirement(window=window, false_positive_rate=fpr))
    return named(preset or "default")


def _run(
    trace: "Trace", spec: "FilterSpec", engine: str, limit: int | None, sink: Any
) -> "RunResult":
    from ..replay.run import run

    with _progress(engine) as progress:
        return run(trace, spec, engine=engine, limit=limit, progress=progress, sink=sink)


def _run_into(
    directory: str,
    verdicts: str,
    trace: "Trace",
    spec: "FilterSpec",
    engine: str,
    limit: int | None,
) -> "RunResult":
    """Run and write the files, which appear together or not at all."""
    from ..golden.files import replace_file
    from ..replay.report import html, picture
    from ..replay.verdicts import open_verdicts

    existed = os.path.isdir(directory)
    _make_directory(directory)
    try:
        with ExitStack() as stack:
            page, figures, table = (
                stack.enter_context(replace_file(os.path.join(directory, name)))
                for name in ("report.html", "report.json", f"verdicts.{verdicts}")
            )
            with open_verdicts(table, verdicts) as sink:
                result = _run(trace, spec, engine, limit, sink)
            report = result.figures() | result.series()
            figures.write(json.dumps(report, indent=1, allow_nan=False).encode() + b"\n")
            page.write(html(result).encode("utf-8", "backslashreplace"))
            picture(result, os.path.join(directory, "report.png"))
    except BaseException:
        if not existed:
            with suppress(OSError):
                os.rmdir(directory)
        raise
    return result


def _make_directory(directory: str) -> None:
    try:
        os.makedirs(directory, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise click.ClickException(f"out: must be a directory, not the file {directory}") from None


@contextmanager
def _progress(engine: str) -> "Iterator[Progress | None]":
    """Show how much of a stream is replayed where somebody can see it."""
    done = "{task.fields[operations]:,} operations"
    with progress_bar("{task.description}", "bar", done, "elapsed") as bar:
        if bar is None:
            yield None
            return
        waiting = "Compiling the RTL" if engine == "rtl" else "Starting"
        task = bar.add_task(waiting, total=None, operations=0)

        def report(operations: int, fraction: float | None) -> None:
            bar.update(
                task,
                description="Replaying",
                operations=operations,
                total=None if fraction is None else 1.0,
                completed=fraction or 0.0,
            )

        yield report

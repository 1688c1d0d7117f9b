"""Commands that measure the golden models."""

import json
from collections.abc import Callable

import click

from .progress_bars import counting_bar, watched

_WINDOW = click.option(
    "--window",
    type=click.IntRange(min=100),
    default=20_000,
    show_default=True,
    help="Insertions to remember.",
)
_BITS = click.option(
    "--bits-per-key",
    type=click.IntRange(4, 1000),
    default=14,
    show_default=True,
    help="Memory, for each key of the window.",
)
_SEED = click.option("--seed", type=click.IntRange(min=0), default=1, show_default=True)
_OUT = click.option("--out", metavar="FILE", help="Write the figures there, as JSON.")
_JSON = click.option(
    "--json", "as_json", is_flag=True, help="Print the figures as one JSON object."
)


@click.command("golden", short_help="Golden models beside filters of other libraries.")
@_WINDOW
@_BITS
@click.option(
    "--keys",
    type=click.IntRange(min=1),
    default=4_000_000,
    show_default=True,
    help="Length of the stream; what is slow takes the first part of it.",
)
@click.option(
    "--rounds", type=click.IntRange(min=1), default=3, show_default=True, help="Rounds of each."
)
@click.option(
    "--batch",
    type=click.IntRange(min=1),
    default=1 << 16,
    show_default=True,
    help="Keys that a filter takes in a call.",
)
@_SEED
@_OUT
@_JSON
def bench_golden(
    *,
    window: int,
    bits_per_key: int,
    keys: int,
    rounds: int,
    batch: int,
    seed: int,
    out: str | None,
    as_json: bool,
) -> None:
    """Time check-and-insert of the golden models, compiled and in numpy, beside other filters.

    All have the same memory and take the same stream, in which every tenth key comes again
    within the window. Counted are keys per second of CPU time, false positives, and keys of the
    window that were reported unseen. The ratios hold; single figures are of the machine that this
    runs on.

    \b
    Examples:
      lately bench golden
      lately bench golden --window 1000000 --keys 10000000
      lately bench golden --batch 1 --keys 400000 --rounds 1
      lately bench golden --rounds 1 --json
    """
    from ..bench.golden_speed import measure
    from ..golden.files import check_folder, write_json

    if out is not None:
        check_folder(out)
    try:
        figures = measure(
            window=window,
            bits_per_key=bits_per_key,
            keys=keys,
            rounds=rounds,
            batch=batch,
            seed=seed,
            progress=_names(),
        )
    except ImportError as error:
        raise click.ClickException(
            f"{error.name}: must be installed, with pip install 'lately[bench]'"
        ) from None
    if out is not None:
        write_json(figures, out)
    if as_json:
        click.echo(json.dumps(figures, allow_nan=False))
    else:
        from .tables import print_speed

        print_speed(figures)
    ours = [run for run in figures["runs"] if run["runs"] in ("compiled", "numpy")]
    _complain(sum(run["false_negatives"] for run in ours))


@click.command("stream", short_help="What a long stream costs, part by part.")
@click.option(
    "--model", default="GEBF r=6 k=8", show_default=True, metavar="NAME", help="Or another of ours."
)
@_WINDOW
@_BITS
@click.option("--insertions", type=click.IntRange(min=10), default=200_000_000, show_default=True)
@click.option("--queries", type=click.IntRange(min=0), default=20_000_000, show_default=True)
@_SEED
@_OUT
@_JSON
def bench_stream(
    *,
    model: str,
    window: int,
    bits_per_key: int,
    insertions: int,
    queries: int,
    seed: int,
    out: str | None,
    as_json: bool,
) -> None:
    """Insert and query a long stream, and show CPU time and memory of each tenth of it.

    Keys are random and drawn piece by piece. Half of the queries ask for keys of the window, all
    of which must be reported.

    \b
    Examples:
      lately bench stream
      lately bench stream --model 'APBBF k=2 l=7 B=64 b=4'
      LATELY_FAST=0 lately bench stream --insertions 2000000 --queries 200000
    """
    from ..bench.endless import measure
    from ..bench.golden_speed import models
    from ..golden.files import check_folder, write_json

    if out is not None:
        check_folder(out)
    known = models(window, window * bits_per_key)
    if model not in known:
        raise click.ClickException(f"model: must be one of {', '.join(known)}, not {model}")
    with counting_bar("insertions", insertions, "bar", "share", "remaining") as progress:
        figures = measure(
            model=model,
            window=window,
            bits_per_key=bits_per_key,
            insertions=insertions,
            queries=queries,
            seed=seed,
            progress=progress,
        )
    if out is not None:
        write_json(figures, out)
    if as_json:
        click.echo(json.dumps(figures, allow_nan=False))
    else:
        from .tables import print_stream

        print_stream(figures)
    _complain(figures["false_negatives"])


def _complain(false_negatives: int) -> None:
    if false_negatives:
        raise click.ClickException(f"false negatives: must be 0, not {false_negatives}")


def _names() -> Callable[[str, str], None] | None:
    if not watched():
        return None
    return lambda name, runs: click.echo(f"{name}: {runs}", err=True)

"""Commands that measure the golden models."""

import click

from .options import json_option, out_file_option, print_json, seed_option
from .progress import counting_bar, echo_stage
from .reporting import fail_unless_zero

_WINDOW = click.option(
    "--window",
    type=click.IntRange(min=100),
    default=20_000,
    show_default=True,
    help="Number of insertions to remember.",
)
_BITS = click.option(
    "--bits-per-key",
    type=click.IntRange(4, 1000),
    default=14,
    show_default=True,
    help="Memory per key of the window, in bits.",
)


@click.command("golden", short_help="Golden models beside filters of other libraries.")
@_WINDOW
@_BITS
@click.option(
    "--keys",
    type=click.IntRange(min=1),
    default=4_000_000,
    show_default=True,
    help="Length of the stream; slow filters take only the first part of it.",
)
@click.option(
    "--rounds", type=click.IntRange(min=1), default=3, show_default=True, help="Number of rounds."
)
@click.option(
    "--batch",
    type=click.IntRange(min=1),
    default=1 << 16,
    show_default=True,
    help="Number of keys per call.",
)
@seed_option
@out_file_option
@json_option
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

    All filters have the same memory and take the same stream, in which every tenth key is repeated
    within the window. The figures are keys per second of CPU time, false positives, and keys of
    the window that were reported unseen. The ratios carry over to other machines; the single
    figures do not.

    \b
    Examples:
      lately bench golden
      lately bench golden --window 1000000 --keys 10000000
      lately bench golden --batch 1 --keys 400000 --rounds 1
      lately bench golden --rounds 1 --json
    """
    from ..benchmarks.golden_speed import measure
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
            progress=echo_stage,
        )
    except ImportError as error:
        raise click.ClickException(
            f"{error.name}: must be installed, with pip install 'lately[bench]'"
        ) from None
    if out is not None:
        write_json(figures, out)
    if as_json:
        print_json(figures)
    else:
        from .bench_tables import print_speed

        print_speed(figures)
    ours = [run for run in figures["runs"] if run["runs"] in ("compiled", "numpy")]
    fail_unless_zero("false negatives", sum(run["false_negatives"] for run in ours))


@click.command("stream", short_help="Cost of a long stream, part by part.")
@click.option(
    "--model",
    default="GEBF r=6 k=8",
    show_default=True,
    metavar="NAME",
    help="Golden model, by the name that `lately bench golden` gives it.",
)
@_WINDOW
@_BITS
@click.option(
    "--insertions",
    type=click.IntRange(min=10),
    default=200_000_000,
    show_default=True,
    help="Number of insertions.",
)
@click.option(
    "--queries",
    type=click.IntRange(min=0),
    default=20_000_000,
    show_default=True,
    help="Number of queries.",
)
@seed_option
@out_file_option
@json_option
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

    Keys are random and drawn in batches. Half of the queries are for keys of the window, all of
    which must be reported.

    \b
    Examples:
      lately bench stream
      lately bench stream --model 'APBBF k=2 l=7 B=64 b=4'
      LATELY_FAST=0 lately bench stream --insertions 2000000 --queries 200000
    """
    from ..benchmarks.endless import measure
    from ..benchmarks.golden_speed import models
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
        print_json(figures)
    else:
        from .bench_tables import print_stream

        print_stream(figures)
    fail_unless_zero("false negatives", figures["false_negatives"])

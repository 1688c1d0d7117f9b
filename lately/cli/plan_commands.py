"""The command that finds the cheapest filter."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from . import options
from .reporting import OneLineCommand, require
from .tables import show

if TYPE_CHECKING:
    from ..planner.plans import Plan
    from ..planner.requirement import Requirement
    from ..replay.drawing import Chart

FORMATS = (".svg", ".png", ".pdf")  # suffixes of plot files


@click.command(
    "plan", cls=OneLineCommand, short_help="Find the cheapest filter.",
    rules=[
        "--wrap frames-* needs --span", "--wrap frames-* cannot be combined with --key-bits",
        "--window cannot be combined with --span",
        "--rate needs --span", "--span needs --rate",
        "--tick needs --span", "--when-full needs --span",
        "--any-size cannot be combined with --device or --block-rams or --bits-only",
        "--bits-only cannot be combined with --device or --bits",
    ],
)  # fmt: skip
@options.window_option(None, "Window size: every key of the last N insertions is reported.")
@options.fpr_option("Maximum false-positive rate, reached just before a shift.")
@options.count_option(
    "--bits max_bits", None,
    "Memory budget in bits: find the lowest false-positive rate for the window, or with --fpr, the "
    "largest window.",
)  # fmt: skip
@options.count_option(
    "--block-rams max_block_rams", None,
    "Like --bits, but in block RAMs of the device, or without a device in 16-kbit memories.",
)  # fmt: skip
@options.option(
    "--slack F",
    "Maximum slack as a fraction of the window: a key is forgotten after (1 + F) N insertions, or "
    "after 1 + F spans.  [default: unlimited; 1 with --span]",
    type=options.Amount(0),
)
@options.option("--window-per-query", "Let each query choose a shorter window.")
@options.option(
    "--exact-age", "Results include the exact age in insertions, not an approximate age."
)
@options.option("--remove", "Keys can be removed before their window ends.")
@options.option("--span T", "Time window instead of --window, such as 10s or 500ms.")
@options.amount_option("--rate", "R", "With --span: maximum number of keys per second.")
@options.option("--tick T", "Time resolution of the span.  [default: a 1000th of the span]")
@options.when_full_option(
    "If keys arrive faster than --rate: forget sooner, or exceed the false-positive rate.",
    options.WHEN_FULL[0],
)
@options.listed_option(
    "--device name", "devices", "Device that the filter must fit; see `lately list devices`."
)
@options.option(
    "--family families NAME",
    "Family to consider: apbf, apbbf, gebf, blocked-gebf, window-dictionary, partitioned-timing or "
    "timed-timing; may be repeated.  [default: all]",
    multiple=True,
)
@options.option(
    "--any-size", "Also consider sizes that exist only as golden models, not in hardware."
)
@options.option(
    "--bits-only", "Minimise bits, not memories, for a filter that is used only as a golden model."
)
@options.count_option("--key-bits", 64, "Width of a key in bits.")
@options.wrap_option(None, "any; frames-N needs a ring")
@options.count_option("--candidates", 3, "Number of candidates to list per family.")
@options.out_option("Write the cheapest filter to FILE as TOML.")
@options.out_option("Plot cost against false-positive rate to FILE: .svg, .png or .pdf.", "--plot")
@options.json_option
def plan(
    *, candidates: int, out: str | None, plot: str | None, as_json: bool, **asked: Any
) -> None:
    """Find the cheapest filter for a given window, false-positive rate and slack.

    The cheapest filter uses the fewest 16-kbit memories, or block RAMs of the
    device, and among those the fewest bits. Block RAM counts are exact. LUTs and
    flip-flops are not predicted: `lately synth` counts them, and the measured
    figures of the most similar unit are printed. Without --any-size, every filter found
    can be built in hardware. With --span, a key is reported for that time, as long
    as no more keys arrive within it than the given rate allows. Filters with
    timestamps cost more than rings of segments, but offer more: no slack, a window
    per query, exact ages, removal of keys.

    \b
    Examples:
      lately plan --window 1000000 --fpr 0.01
      lately plan --window 20000 --fpr 0.001 --slack 0.1 --device ecp5-25k-6
      lately plan --window 1000 --fpr 0.001 --slack 0 --device ecp5-25k-6
      lately plan --span 30s --rate 200e3 --fpr 0.001 --out filter.toml
      lately plan --span 2ms --rate 1e5 --fpr 0.01 --wrap frames-64 --out timed.toml
      lately plan --window 5000 --fpr 0.01 --device ice40-hx8k --family apbbf --json
      lately plan --window 20000 --bits 300000
      lately plan --fpr 0.01 --block-rams 24 --device ecp5-25k-6
      lately plan --window 100000 --fpr 0.01 --plot front.svg
    """
    from ..planner.plans import plan as search

    requirement = _requirement(**asked)
    if plot is not None:
        require("matplotlib")
        if Path(plot).suffix.lower() not in FORMATS:
            raise click.UsageError(f"--plot: must end in {' or '.join(FORMATS)}, not {plot!r}")
    wanted = as_json or plot is not None
    result = search(requirement, front=wanted, alternatives=candidates)
    if plot is not None:
        from ..replay.drawing import draw

        draw(front_chart(result), plot)
    if out is not None:
        span, device = requirement.span, requirement.device
        facts = {"tick_seconds": span and float(span.tick), "device": device and device.name}
        known = {name: value for name, value in facts.items() if value is not None}
        result.chosen.spec.to_toml(out, plan=known)
    figures = vars(result) | {
        "plan": result,
        "device": requirement.device,
        "nearest": result.nearest,
    }
    show(as_json, result.to_dict(), "plan", figures)


def front_chart(plan: "Plan") -> "Chart":
    from ..replay.drawing import Chart, Series

    asked, device = plan.requirement, plan.requirement.device
    memories = "16-kbit memories" if device is None else f"{device.name} block RAMs"
    cost = "Memory in bits" if asked.counts_bits else memories
    series = []
    for family in asked.able:
        candidates = [candidate for candidate in plan.front if candidate.family is family]
        if candidates:
            rates = [candidate.worst_rate for candidate in candidates]
            series.append(
                Series(family.name, [candidate.cost for candidate in candidates], rates, marks=True)
            )
    chosen = plan.chosen
    at = [chosen.cost], [chosen.worst_rate]
    return Chart(
        name="plan", title=f"Cheapest filters, {asked.text()}", x=cost,
        y="Worst-case false-positive rate", series=[*series, Series("chosen", *at, marks=True)],
        x_log=True, y_log=True,
    )  # fmt: skip


def _requirement(
    *, window: int | None, fpr: float | None, span: str | None, rate: float | None,
    tick: str | None, when_full: str, name: str | None, families: tuple[str, ...], wrap: str | None,
    **others: Any,
) -> "Requirement":  # fmt: skip
    limited = others["max_bits"] is not None or others["max_block_rams"] is not None
    sized = window is not None or span is not None
    if limited and sized == (fpr is not None):
        raise click.UsageError(
            "with --bits or --block-rams, give either --fpr or a window (--window or --span)"
        )
    if not limited and not sized:
        raise click.UsageError("give either --window, or --span with --rate")
    if not limited and fpr is None:
        raise click.UsageError("--fpr is missing")
    from ..boards.flow.devices import device
    from ..golden import FAMILIES
    from ..golden.durations import time_seconds
    from ..planner.plans import within_limits
    from ..planner.requirement import MAX_WINDOW, USELESS, Requirement, Span, distinct

    time = None
    if span is not None and rate is not None:
        period = None if tick is None else time_seconds(tick, "tick")
        time = Span.of(time_seconds(span, "span"), period, when_full=when_full)
        window = time.keys(rate)
    if wrap is not None and wrap.startswith("frames-"):
        if set(families) - set(FAMILIES):
            raise click.UsageError(
                f"--wrap {wrap} needs a ring, so --family must be one of {', '.join(FAMILIES)}"
            )
        families = families or tuple(FAMILIES)
    required = Requirement(
        window=MAX_WINDOW if window is None else window, span=time,
        false_positive_rate=USELESS if fpr is None else fpr, families=distinct(families),
        device=None if name is None else device(name), **others,
    )  # fmt: skip
    return within_limits(required, window=not sized) if limited else required

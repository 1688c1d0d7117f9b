"""Command that removes packets that were seen lately from captures."""

import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from .compare_options import HeadedCommand, compare_options, comparison
from .dedup_facts import facts
from .interrupts import interruptible
from .options import (
    choice_option,
    count_option,
    folder_option,
    fpr_option,
    json_option,
    print_json,
    window_option,
)
from .outputs import OutputFile
from .packet_files import (
    PacketFiles,
    nanoseconds,
    open_inputs,
    open_output,
    packet_files,
    read_until,
    rotated_name,
)
from .progress import quiet, replay_bar
from .reporting import INTERRUPTED, fail_with, require
from .tables import print_facts

if TYPE_CHECKING:
    from ..dedup.copy_report import CopyReport
    from ..dedup.deduplicate import Deduplication, Judged


@click.command(
    "dedup",
    cls=HeadedCommand,
    short_help="Write captures without the packets that were seen lately.",
    rules=[
        "--by needs --scope same or other", "--tunnel needs --inner",
        "--limit needs --interface", "--duration needs --interface",
        "--to cannot be combined with --out-dir or --dry-run",
        "--reorder cannot be combined with --interface or --out-dir",
        "--out-dir cannot be combined with --interface or --dry-run",
        "--rotate-size or --rotate-time cannot be combined with --out-dir or --dry-run or --to",
    ],
)  # fmt: skip
@click.argument("paths", metavar="IN... OUT", nargs=-1, type=click.Path())
@click.option(
    "--span", default="50ms", show_default=True, metavar="T", help="Remember a packet for a time."
)
@window_option(65_536, "Drop a packet only if its copy is at most N packets back.")
@fpr_option("Maximum share of new packets that are dropped by mistake.", 1e-6)
@compare_options
@click.option(
    "-i", "--interface", metavar="NAME", multiple=True,
    callback=lambda _context, _option, names: names or None,
    help="Read packets of a network interface instead of IN, or of any; may be repeated. Packets "
    "of several interfaces are written as pcapng.",
)  # fmt: skip
@count_option("--limit", None, "End the live capture after N packets.")
@click.option("--duration", metavar="T", help="End the live capture after a time.")
@click.option(
    "--to",
    metavar="NAME",
    help="Send the kept packets to a network interface, such as a veth; there is no OUT then.",
)
@click.option(
    "--reorder",
    metavar="T",
    help="Read all files side by side, in the order of their times; packets may be late by T.",
)
@count_option(
    "--rotate-size", None, "Begin a new OUT before one exceeds a size, as 100MB.", metavar="SIZE"
)
@click.option("--rotate-time", metavar="T", help="Begin a new OUT after a time, such as 1h.")
@folder_option("Write one output per input, with the same name, to this folder instead of OUT.")
@click.option(
    "--dry-run", is_flag=True, help="Only report. The last of several paths is OUT and is not used."
)
@click.option(
    "--report",
    "page",
    type=OutputFile(),
    metavar="FILE",
    help="Write a page about the copies, as HTML.",
)
@click.option(
    "--dropped", type=OutputFile(), metavar="FILE", help="Write the dropped packets as a capture."
)
@click.option(
    "--mark",
    "marked",
    type=OutputFile(),
    metavar="FILE",
    help="Write number, time and digest of each dropped packet as CSV.",
)
@choice_option(
    "--engine",
    ["golden", "rtl"],
    "Run the golden model, or the compiled hardware and compare it with the model.",
)
@count_option("-j --jobs", 1, "Threads: with 2, one thread reads and digests ahead.", most=2)
@click.option("--verify", is_flag=True, help="Compare with an exact oracle, whose memory grows.")
@click.option("--watch", is_flag=True, help="Show rate, drops and fill while packets are read.")
@json_option
def dedup(
    *,
    paths: Sequence[str],
    folder: str | None,
    dry_run: bool,
    page: str | None,
    watch: bool,
    verify: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Write the captures IN to OUT without the packets that were seen lately.

    IN is a pcap or pcapng file, plain or compressed by gzip, bzip2, xz, zstd or lz4. Several files,
    such as rotated captures, are read in sequence, and the first packets of a file may be
    copies of the last packets of the previous file. With --reorder they are merged by time, and
    OUT is a pcapng file. Otherwise OUT has the format of IN, and all other content of
    IN in the same order. It is compressed if its name ends with .gz, .bz2, .xz, .zst or .lz4.
    IN and OUT may be - for standard input and output.

    A packet is dropped if a packet with the same digest came within the span and within the window,
    which is a number of packets. The first of equal packets is kept. Ctrl-C, SIGTERM and SIGHUP
    leave a capture of all packets read so far. A damaged file is read up to its damage. Figures go
    to standard error if the capture goes to standard output.

    With --rotate-size or --rotate-time, OUT names a series of captures, such as
    unique_00001_20261129102030.pcap, and the filter remembers packets across them. If IN is a pipe
    or an interface, OUT is written from the beginning and keeps all whole packets if the disk is
    full; otherwise it appears at the end.

    \b
    Examples:
      lately dedup mirror.pcapng unique.pcapng
      lately dedup ring_00*.pcap unique.pcap --span 2ms --dropped copies.pcap
      lately dedup ring_00*.pcap.gz --out-dir unique
      lately dedup mirror.pcap --dry-run --report copies.html
      lately dedup erspan.pcap unique.pcap --inner --fields tos,no-checksum
      lately dedup tzsp.pcap unique.pcap --inner --tunnel udp:37008:5:ethernet
      lately dedup mirror.pcap unique.pcap --fields frame --offset 14 --bytes 64
      lately dedup mirror.pcap unique.pcap --differs ttl --policy first-seen
      lately dedup left.pcap right.pcap unique.pcapng --reorder 10ms --scope other --by file
      lately dedup mirror.pcap unique.pcap --verify --watch
      lately dedup -i eth0 unique.pcap --duration 60s --span 10ms
      lately dedup -i eth0 unique.pcap --rotate-size 100MB --rotate-time 1h
      lately dedup -i eth0 -i eth1 unique.pcapng --scope other
      lately dedup -i eth0 --to veth0
      tcpdump -i eth0 -U -w - | lately dedup - - --span 10ms > unique.pcap
    """
    if page is not None:
        require("matplotlib")
    live = options["interface"]
    to = options["to"]
    unused = None
    if dry_run and len(paths) > (live is None):
        *paths, unused = paths
    files = packet_files(paths, folder, dry_run or to is not None, live is not None)
    from ..dedup.deduplicate import deduplicate
    from ..golden.ring.timed_ring import TimeLimitedRing

    what = _deduplication(options)
    model, oracle = TimeLimitedRing.from_spec(what.spec), None
    if verify:
        from ..dedup.packet_oracle import PacketOracle

        oracle = PacketOracle(what.spec, what.span, what.window, rule=what.rule)
    with ExitStack() as stack:
        source = stack.enter_context(open_inputs(files, folder, options))
        outputs = _open_outputs(stack, files, folder, options)
        sent, unsendable = None, list[str]()
        if to is not None:
            from ..captures.live_capture import LiveOutput

            sender = stack.enter_context(LiveOutput(to))
            sent, unsendable = sender.figures, sender.damages
            outputs.append(lambda judged: sender.send(judged.packets, ~judged.dropped))
        copies = _copy_report(what, files) if dry_run or page is not None else None
        outputs += [] if copies is None else [copies]
        waiting = "Compiling the RTL" if what.engine == "rtl" else "Starting"
        shown: AbstractContextManager[Any] = replay_bar(waiting, "Deduplicating", "packets")
        if watch:
            from .watch import dedup_view, live_view

            shown = live_view(waiting, dedup_view(source.name, model, oracle))
        with interruptible() as heard:
            if live is not None and not quiet():
                click.echo(f"lately: listening on {source.name}", err=True)
            if live is None:
                read = read_until(heard, source.read, unsendable)
            else:
                # What arrived before the interrupt is still read.
                read = partial(source.read, lambda: heard() or unsendable)
            with shown as progress:
                result = deduplicate(
                    source, outputs, what, model=model, oracle=oracle, progress=progress,
                    jobs=options["jobs"], read=read,
                )  # fmt: skip
                result.damages += unsendable
                lost, unknown = (getattr(source, name, None) for name in ("lost", "unknown"))
                # Here an interrupt loses no complete data.
                stack.close()
    head = {"name": source.name, "format": source.format, "files": max(1, len(files.inputs))}
    head |= {"lost": lost, "unknown": unknown, "empty": getattr(source, "empty", [])}
    head["unused"] = unused
    _show(
        {
            "capture": head, **what.figures(), **result.figures(), "interrupted": heard(),
            "dry_run": dry_run, "to": sent,
            "copies": None if copies is None else copies.figures(),
            "check": None if oracle is None else oracle.finish().figures(),
        },
        as_json, err="-" in files.outputs, page=None if page is None else (page, copies),
    )  # fmt: skip


def _show(
    figures: dict[str, Any], as_json: bool, *, err: bool, page: "tuple[str, Any] | None"
) -> None:
    """Print the figures of a deduplication, write its page, and report its failures."""
    if page is not None:
        from ..dedup.report_page import html

        with open_output(page[0], []) as file:
            file.write(html(figures, page[1]).encode())
    if as_json:
        print_json(figures, err=err)
    else:
        print_facts(facts(figures), err=err)
    differing = figures["mismatches"]
    failures = [f"mismatches: must be 0, not {differing}"] if differing else []
    fail_with([*figures["damages"], *failures])
    if figures["interrupted"]:
        raise click.exceptions.Exit(INTERRUPTED)


def _deduplication(options: dict[str, Any]) -> "Deduplication":
    """Return the `Deduplication` of the options."""
    from ..dedup.deduplicate import Deduplication
    from ..dedup.window import dedup_spec
    from ..golden.hash.siphash import random_secret

    long, window = nanoseconds("span", options["span"]), options["window"]
    rules, rule = comparison(options)
    spec, tick = dedup_spec(long, window, options["fpr"])
    return Deduplication(
        span=long, window=window, spec=spec, tick=tick, compared=rules, rule=rule,
        secret=random_secret(), engine=options["engine"],
    )  # fmt: skip


def _copy_report(what: "Deduplication", files: PacketFiles) -> "CopyReport":
    from ..dedup.copy_report import CopyReport

    return CopyReport(what, [os.path.basename(path) for path in files.inputs] or [""])


def _open_outputs(
    stack: ExitStack, files: PacketFiles, folder: str | None, options: dict[str, Any]
) -> "list[Callable[[Judged], None]]":
    """Open all outputs of a command line."""
    from ..dedup.writers import CaptureWriter, FolderWriter, Marks, RotatingWriter

    output = partial(open_output, inputs=files.inputs, live=options["interface"] is not None)

    def opened(path: str) -> BinaryIO:
        return stack.enter_context(output(path))

    found: list[Callable[[Judged], None]] = []
    size = options["rotate_size"] or 0
    time = nanoseconds("rotate-time", options["rotate_time"])
    if size or time:
        path = files.outputs[0]
        if path == "-" or (os.path.exists(path) and not os.path.isfile(path)):
            raise click.UsageError("--rotate-size and --rotate-time need OUT, a regular file")
        rotating = RotatingWriter(lambda *new: output(rotated_name(path, *new)), size, time)
        found.append(stack.enter_context(rotating))
    elif folder is not None:
        pairs = [*zip(files.outputs, files.inputs, strict=True)]
        writer = FolderWriter(lambda number: open_output(pairs[number][0], [pairs[number][1]]))
        found.append(stack.enter_context(writer))
    elif files.outputs:
        found.append(CaptureWriter(opened(files.outputs[0])))
    if options["dropped"] is not None:
        found.append(CaptureWriter(opened(options["dropped"]), dropped=True))
    if options["marked"] is not None:
        found.append(Marks(opened(options["marked"])))
    return found

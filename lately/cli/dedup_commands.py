"""Commands on captures: remove duplicate packets, and generate captures with duplicates."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import click

from . import options
from .progress import dedup_view, live_view, quiet, replay_bar
from .reporting import (
    INTERRUPTED,
    OneLineCommand,
    fail_with,
    interruptible,
    read_until,
    require,
)
from .tables import print_facts, show

if TYPE_CHECKING:
    from ..dedup.deduplicate import Deduplication, Judged


_HEADINGS = {
    "What makes packets equal": (
        "fields", "inner", "tunnel", "tpid", "mask", "offset", "bytes",
    ),
    "Which repeats are dropped": (
        "span", "window", "fpr", "policy", "differs", "scope", "by",
    ),
    "Inputs and outputs": (
        "interface", "limit", "duration", "to", "reorder", "rotate_size", "rotate_time", "folder",
        "dry_run", "report", "dropped", "mark",
    ),
}  # fmt: skip


class _HeadedCommand(OneLineCommand):
    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        options = [option for option in self.get_params(ctx) if isinstance(option, click.Option)]
        rows = {option.name: option.get_help_record(ctx) for option in options}
        for heading, names in _HEADINGS.items():
            with formatter.section(heading):
                formatter.write_dl([row for name in names if (row := rows.pop(name, None))])
        with formatter.section("Options"):
            formatter.write_dl([row for row in rows.values() if row])


_compare_options = options.together(
    options.option(
        "--fields NAMES",
        "Fields to add to the comparison: tos, ttl, vlan, layer2, frame; or to leave out: "
        "no-checksum, no-sequence, no-id, no-radiotap; or none.",
        default="tos",
    ),
    options.option("--inner", "Compare the innermost packet of a tunnel."),
    options.option(
        "--tunnel udp:PORT:SKIP:ethernet|ip",
        "With --inner, treat UDP datagrams to PORT as a tunnel: after SKIP bytes, an Ethernet "
        "frame or an IP packet follows.",
        multiple=True,
    ),
    options.option(
        "--tpid HEX", "Another EtherType that marks a VLAN tag; may be repeated.", multiple=True
    ),
    options.option(
        "--mask OFFSET:HEX",
        "AND the bytes from OFFSET on with HEX before comparing; may be repeated.",
        multiple=True,
    ),
    options.count_option("--offset", None, "Ignore the first N bytes.", minimum=0, maximum=65_535),
    options.choice_option(
        "--policy", ["last-seen", "first-seen"],
        "Remember every packet, or only the packets that are kept.",
    ),
    click.option(
        "--differs", type=click.Choice(["ttl", "layer2", "vlan", "interface", "file"]),
        help="Drop a repeat only if it differs from the kept packet in this property.",
    ),
    options.choice_option(
        "--scope", ["any", "same", "other"],
        "Where the earlier packet must come from: any origin, the same, or another.",
    ),
    options.choice_option("--by", ["interface", "vlan", "file"],
                          "What --scope treats as the origin of a packet."),
    options.count_option("--bytes", None, "Compare at most N bytes."),
)  # fmt: skip


@click.command(
    "dedup",
    cls=_HeadedCommand,
    short_help="Remove duplicate packets from captures.",
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
@options.option("--span T", "How long to remember a packet.", default="50ms")
@options.window_option(65_536, "Drop a packet only if an equal packet is at most N packets back.")
@options.fpr_option("Maximum fraction of new packets that are dropped by mistake.", 1e-6)
@_compare_options
@options.option(
    "-i --interface NAME",
    "Capture from this network interface (any: from all) instead of reading IN; may be repeated. "
    "With several interfaces, OUT is a pcapng file.",
    multiple=True, callback=lambda _context, _option, names: names or None,
)  # fmt: skip
@options.count_option("--limit", None, "Stop the live capture after N packets.")
@options.option("--duration T", "Stop the live capture after this time, such as 60s.")
@options.option(
    "--to NAME",
    "Send the kept packets to this network interface, such as a veth, instead of writing OUT.",
)
@options.option(
    "--reorder T", "Merge the files by packet time; packets may be out of order by up to T."
)
@options.count_option(
    "--rotate-size", None, "Start a new file before this size is exceeded, such as 100MB.",
    metavar="SIZE",
)  # fmt: skip
@options.option("--rotate-time T", "Start a new file after this time, such as 1h.")
@options.folder_option("Write an output per input, with the same name, to this folder.")
@options.option(
    "--dry-run", "Only report, and write no files. Of several paths, OUT (the last) is ignored."
)
@options.out_option("Write a report on the duplicates to FILE, as HTML.", "--report")
@options.out_option("Write the dropped packets to a capture.", "--dropped")
@options.out_option(
    "Write the number, time and digest of each dropped packet to FILE, as CSV.", "--mark"
)
@options.choice_option(
    "--engine", ["golden", "rtl"],
    "Run the golden model, or the compiled hardware, checked against the golden model.",
)  # fmt: skip
@options.count_option(
    "-j --jobs", 1, "Number of threads; with 2, one reads and hashes ahead.", maximum=2
)
@options.option("--verify", "Check against an exact oracle, which uses more memory.")
@options.option("--watch", "Show rate, drops and fill while packets are read.")
@options.json_option
def dedup(
    *, paths: Sequence[str], folder: str | None, dry_run: bool, report: str | None, watch: bool,
    verify: bool, as_json: bool, **given: Any,
) -> None:  # fmt: skip
    """Copy the captures IN to OUT without the packets that were seen recently.

    IN is a pcap or pcapng file, uncompressed or compressed with gzip, bzip2, xz, zstd or lz4.
    Several files, such as rotated captures, are read one after the other, and duplicates are found
    across files. With --reorder the files are merged by time, and OUT is a pcapng file. Otherwise
    OUT has the format of IN, with all other content of IN in the same order. OUT is compressed if
    its name ends with .gz, .bz2, .xz, .zst or .lz4. IN and OUT may be - for standard input and
    output.

    A packet is dropped if a packet with the same digest arrived within the last --span and is at
    most --window packets back. Of equal packets, the first is kept. After Ctrl-C, SIGTERM or
    SIGHUP, OUT holds all packets kept so far. A damaged file is read up to the damage. If the
    capture goes to standard output, the figures go to standard error.

    With --rotate-size or --rotate-time, OUT becomes a series of captures with names such as
    unique_00001_20261129102030.pcap, and duplicates are found across them. If IN is a pipe or an
    interface, OUT is written as packets arrive, and if the disk fills up, it keeps all whole
    packets; otherwise OUT appears when it is complete.

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
    if report is not None:
        require("matplotlib")
    live, to, unused = given["interface"], given["to"], None
    if dry_run and len(paths) > (live is None):
        *paths, unused = paths
    files = options.packet_files(paths, folder, dry_run or to is not None, live is not None)
    from ..dedup.deduplicate import deduplicate
    from ..golden.ring.rings import TimeLimitedRing

    settings = _deduplication(given)
    model, oracle = TimeLimitedRing.from_spec(settings.spec), None
    if verify:
        from ..dedup.deduplicate import PacketOracle

        oracle = PacketOracle(settings.spec, settings.span, settings.window, rule=settings.rule)
    with ExitStack() as stack:
        source = stack.enter_context(_open_inputs(files, folder, given))
        outputs = _open_outputs(stack, files, folder, given)
        sent, unsendable = None, list[str]()
        if to is not None:
            from ..captures.live_capture import LiveOutput

            sender = stack.enter_context(LiveOutput(to))
            sent, unsendable = sender.figures, sender.damages
            outputs.append(lambda judged: sender.send(judged.packets, ~judged.dropped))
        copies = None
        if dry_run or report is not None:
            from ..dedup.copy_report import CopyReport

            names = [os.path.basename(path) for path in files.inputs]
            copies = CopyReport(settings, names or [""])
            outputs.append(copies)
        waiting = "Compiling the RTL" if settings.engine == "rtl" else "Starting"
        shown: AbstractContextManager[Any] = replay_bar(waiting, "Deduplicating", "packets")
        if watch:
            shown = live_view(waiting, dedup_view(source.name, model, oracle))
        with interruptible() as heard:
            if live is not None and not quiet():
                click.echo(f"lately: listening on {source.name}", err=True)
            if live is None:
                read = read_until(heard, source.read, unsendable)
            else:
                # Packets that arrived before the interrupt are still read.
                read = partial(source.read, lambda: heard() or unsendable)
            with shown as progress:
                result = deduplicate(
                    source, outputs, settings, model=model, oracle=oracle, progress=progress,
                    jobs=given["jobs"], read=read,
                )  # fmt: skip
                result.damages += unsendable
                lost, unknown = (getattr(source, name, None) for name in ("lost", "unknown"))
                # An interrupt here loses no packet that was read completely.
                stack.close()
    head = {
        "name": source.name, "format": source.format, "files": max(1, len(files.inputs)),
        "lost": lost, "unknown": unknown, "empty": getattr(source, "empty", []), "unused": unused,
    }  # fmt: skip
    _show(
        {
            "capture": head, **settings.figures(), **result.figures(), "interrupted": heard(),
            "dry_run": dry_run, "to": sent,
            "copies": None if copies is None else copies.figures(),
            "check": None if oracle is None else oracle.finish().figures(),
        },
        as_json, err="-" in files.outputs, page=None if report is None else (report, copies),
    )  # fmt: skip


def _show(
    figures: dict[str, Any], as_json: bool, *, err: bool, page: "tuple[str, Any] | None"
) -> None:
    if page is not None:
        from ..dedup.copy_report import html

        with options.open_output(page[0], []) as file:
            file.write(html(figures, page[1]).encode())
    if as_json:
        options.print_json(figures, err=err)
    else:
        print_facts(_facts(figures), err=err)
    differing = figures["mismatches"]
    failures = [f"RTL and golden model differ in {differing:,} results"] if differing else []
    fail_with([*figures["damages"], *failures])
    if figures["interrupted"]:
        raise click.exceptions.Exit(INTERRUPTED)


def _deduplication(given: dict[str, Any]) -> "Deduplication":
    from ..dedup.deduplicate import Deduplication
    from ..dedup.window import dedup_spec
    from ..golden.hash.siphash import random_secret
    from ..golden.packets import comparison
    from ..golden.packets.copies import CopyRule
    from ..golden.packets.packet_layers import Reach

    try:
        types = tuple(int(text, 16) for text in given["tpid"])
    except ValueError:
        texts = ", ".join(given["tpid"])
        raise comparison.FieldError(
            f"tpid: must be hexadecimal, such as 9400, not {texts!r}"
        ) from None
    compared = comparison.Comparison(
        fields=comparison.parse_fields(given["fields"]),
        reach=Reach.INNER if given["inner"] else Reach.LAYER2,
        tag_types=types,
        tunnels=tuple(map(comparison.parse_tunnel, given["tunnel"])),
        masks=tuple(map(comparison.parse_mask, given["mask"])),
        skip=given["offset"] or 0,
        first=given["bytes"],
    )
    rule = CopyRule(**{name: given[name] for name in ("policy", "differs", "scope", "by")})
    rule.check(compared)
    span, window = options.nanoseconds("span", given["span"]), given["window"]
    spec, tick = dedup_spec(span, window, given["fpr"])
    return Deduplication(
        span=span, window=window, spec=spec, tick=tick, compared=compared, rule=rule,
        secret=random_secret(), engine=given["engine"],
    )  # fmt: skip


def _open_inputs(files: options.PacketFiles, folder: str | None, given: dict[str, Any]) -> Any:
    interface, to = given["interface"], given["to"]
    if interface is not None:
        from ..captures.live_capture import LiveCapture, getting

        seconds = options.nanoseconds("duration", given["duration"]) / 1e9 or None
        ends = set() if to is None else getting(to)
        if both := ends & {*interface}:
            raise click.UsageError(f"--to {to}: {both.pop()} is also an input; packets would loop")
        return LiveCapture(interface, omitted=ends, count=given["limit"], seconds=seconds)
    from ..captures.capture_files import CaptureFiles, MergedCaptures

    source: Any
    if given["reorder"] is None:
        source = CaptureFiles(files.inputs, joined=folder is None)
    else:
        source = MergedCaptures(files.inputs, options.nanoseconds("reorder", given["reorder"]))
    if len(source.empty) == len(files.inputs):
        raise click.ClickException(f"all {len(files.inputs)} inputs are empty")
    return source


def _open_outputs(
    stack: ExitStack, files: options.PacketFiles, folder: str | None, given: dict[str, Any]
) -> "list[Callable[[Judged], None]]":
    from ..dedup.deduplicate import CaptureWriter, FolderWriter, Marks, RotatingWriter

    output = partial(options.open_output, inputs=files.inputs, live=given["interface"] is not None)
    outputs: list[Callable[[Judged], None]] = []
    size = given["rotate_size"] or 0
    time = options.nanoseconds("rotate-time", given["rotate_time"])
    if size or time:
        path = files.outputs[0]
        if path == "-" or (os.path.exists(path) and not os.path.isfile(path)):
            raise click.UsageError("--rotate-size and --rotate-time require a regular file as OUT")
        rotating = RotatingWriter(lambda *new: output(options.rotated_name(path, *new)), size, time)
        outputs.append(stack.enter_context(rotating))
    elif folder is not None:
        pairs = [(out, [path]) for path, out in zip(files.inputs, files.outputs, strict=True)]
        writer = FolderWriter(lambda number: options.open_output(*pairs[number]))
        outputs.append(stack.enter_context(writer))
    elif files.outputs:
        outputs.append(CaptureWriter(stack.enter_context(output(files.outputs[0]))))
    if given["dropped"] is not None:
        file = stack.enter_context(output(given["dropped"]))
        outputs.append(CaptureWriter(file, dropped=True))
    if given["mark"] is not None:
        outputs.append(Marks(stack.enter_context(output(given["mark"]))))
    return outputs


def _facts(figures: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield the name, value and note of each row that is printed."""
    from ..replay.formatting import rate_text, seconds_text

    counts = {name: f"{value:,}" for name, value in figures.items() if isinstance(value, int)}
    packets, span = figures["packets"], seconds_text(figures["span_seconds"])
    capture = figures["capture"]
    name = ascii(capture["name"])[1:-1]
    kinds = "{ip4:,} IPv4, {ip6:,} IPv6".format(**figures["versions"])
    within = f"{counts['window']} packets"
    if figures["untimed"] < packets or not packets:
        within = f"{span} and {within}"
    share = f"; {rate_text(figures['dropped'] / packets)} of all" if packets else ""
    if capture["files"] > 1:
        name = f"{name} and {capture['files'] - 1:,} more"
    yield "packets", counts["packets"], f"{name} ({capture['format']}): {kinds}"
    if (others := figures["versions"]["other"]) and figures["rules"]["fields"] != "frame":
        yield "whole frames", f"{others:,}", "packets of other protocols, or malformed"
    if capture["empty"]:
        yield "empty files", f"{len(capture['empty'])}", ascii(", ".join(capture["empty"]))[1:-1]
    if capture["lost"]:
        yield "lost", f"{capture['lost']:,}", "packets that the system dropped: buffer full"
    if capture["unknown"]:
        names, count = ", ".join(capture["unknown"]), sum(capture["unknown"].values())
        yield "left out", f"{count:,}", f"packets of {names}: neither Ethernet nor IP"
    if control := figures["versions"]["control"]:
        yield "control", f"{control:,}", "ARP, LLDP, STP or IS-IS packets"
    yield from _rule_facts(figures["rules"])
    yield "dropped", counts["dropped"], f"seen within {within}{share}"
    if capture["unused"]:
        yield "OUT", "", f"{ascii(capture['unused'])[1:-1]} is neither read nor written"
    if figures["copies"]:
        yield from _copied(figures["copies"])
    if figures["to"]:
        yield from _sent(**figures["to"])
    elif not figures["dry_run"]:
        yield "bytes written", counts["bytes_written"], f"of {counts['bytes_read']}"
    if figures["missing_bytes"] or figures["truncated"]:
        note = "bytes of an incomplete record at the end; left out"
        if figures["truncated"]:
            note += "; compressed data is incomplete, or other data follows it"
        yield "missing", counts["missing_bytes"], note
    latest = seconds_text(figures["latest"] / 1e9)
    for name, count, note in (
        ("comments", "comments", "in dropped packets"),
        ("drop counts", "drop_counts", "packets lost in the capture, according to dropped packets"),
        ("malformed", "malformed", "packets with inconsistent headers"),
        ("cut", "cut", "packets that were captured only in part; that part is compared"),
        ("late times", "late", f"up to {latest} before the latest time, which is used instead"),
        ("clock steps", "clock_steps",
         f"back by more than {span}; packets before a step are forgotten"),
        ("without time", "untimed",
         "packets; the latest time is used, so only the window limits what is remembered"),
        ("window shortened", "shortened",
         "packets that arrived while the span held more than the window"),
    ):  # fmt: skip
        if figures[count]:
            yield name, counts[count], note
    if figures["mismatches"] is not None:
        yield "mismatches", counts["mismatches"], "verdicts or statuses, RTL vs golden model"
    if figures["check"]:
        yield from _checked(figures["check"])
    speed = figures["packets_per_second"]
    yield "time", f"{figures['seconds']:,.2f} s", f"{speed:,.0f} packets/s" if speed else ""


def _sent(
    interface: str, sent: int, cut: int, other_link: int, other_length: int
) -> Iterator[tuple[str, str, str]]:
    yield "sent", f"{sent:,}", f"to {interface}"
    if unsent := cut + other_link + other_length:
        yield (
            "not sent", f"{unsent:,}",
            f"{cut:,} captured incompletely, {other_link:,} of another link type, "
            f"{other_length:,} of a length that {interface} does not accept",
        )  # fmt: skip


def _copied(copies: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    from ..replay.formatting import seconds_text

    for row in copies["inputs"] if len(copies["inputs"]) > 1 else ():
        note = f"packets of {ascii(row['name'])[1:-1]}, {row['dropped']:,} of them dropped"
        yield "input", f"{row['packets']:,}", note
    span, about = copies["suggested_span_seconds"], "about " if copies["sampled"] else ""
    if span is not None:
        note = "twice the longest distance in the nearest group of repeats"
        repeats = f"{about}{copies['repeats']:,} repeats in all"
        yield "suggested span", seconds_text(span), f"{note}; {repeats}"
    for kind, rows in copies["pairs"].items():
        for row in [row for row in rows if row["from"] != row["to"]][:3]:
            yield kind, f"{about}{row['copies']:,}", f"copies: {row['from']}, then {row['to']}"


def _checked(check: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    from ..replay.formatting import count_text, interval_text, rate_text

    counts = {name: count_text(value) for name, value in check.items() if isinstance(value, int)}
    duplicates, interval = counts["duplicates"], interval_text(check["false_positive_interval"])
    yield (
        "equal packets", counts["equal"],
        f"to an earlier packet, by the exact oracle; {duplicates} within span and window",
    )  # fmt: skip
    yield (
        "lost uniques", counts["lost_uniques"],
        f"{counts['remembered']} seen a little earlier than the span, "
        f"{counts['false_positives']} false positives",
    )  # fmt: skip
    yield "passed duplicates", counts["passed_duplicates"], f"of {duplicates}"
    yield (
        "false-positive rate", rate_text(check["false_positive_rate"]),
        f"of {counts['fresh']} ({interval}); "
        f"{rate_text(check['predicted_false_positive_rate'])} predicted from the bits set",
    )  # fmt: skip


def _rule_facts(rules: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    frame = rules["fields"] == "frame"
    note = "each whole frame" if frame else f"fields of the {rules['layer3']} layer 3"
    yield "compared", rules["fields"], note
    policy = rules["differs"] or rules["scope"] != "any" or rules["policy"] != "last-seen"
    for name, value, note in (
        ("masks", ", ".join(rules["masks"]), "offset and bytes"),
        ("skipped", rules["skip"], "bytes at the start"),
        ("at most", rules["bytes"], "bytes of each packet"),
        ("tags", ", ".join(rules["tag_types"]), "additional EtherTypes of VLAN tags"),
        ("tunnels", ", ".join(rules["tunnels"]), "UDP port, bytes to skip, content"),
        ("policy", policy and rules["policy"], f"scope {rules['scope']} by {rules['by']}"),
        ("differs", rules["differs"], "property in which a copy differs from the kept packet"),
    ):
        if value:
            yield name, str(value), note


@click.command(
    "tap", cls=OneLineCommand,
    short_help="Generate a capture with known duplicates, as seen by two taps.",
    rules=[
        "--packets needs IN generator", "--rate needs IN generator",
        "--repeat-after needs --repeats", "--json cannot be combined with OUT -",
    ],
)  # fmt: skip
@click.argument("capture", metavar="IN", type=options.InputFile())
@click.argument("output", metavar="OUT", type=options.OutputFile(standard=True))
@options.option("--delay T", "Delay of the second tap.", default="5us")
@options.option("--jitter T", "Maximum random extra delay of the second tap.")
@options.option(
    "--loss P", "Fraction of packets that each tap loses.", type=options.Amount(0, 1), default=0.0
)
@options.count_option(
    "--vlan", None, "Tag the second tap's packets with VLAN N.", minimum=0, maximum=4095
)
@options.count_option("--hops", 0, "Number of routers between the taps.", minimum=0, maximum=255)
@click.option(
    "--encapsulate",
    type=click.Choice(["mpls", "vxlan", "gre", "erspan", "gtp", "ipip"]),
    help="Encapsulate the second tap's packets in a tunnel of this type.",
)
@options.option(
    "--repeats P", "Fraction of packets that are retransmitted.", type=options.Amount(0, 1),
    default=0.0,
)  # fmt: skip
@options.option("--repeat-after T", "Time until a packet is retransmitted.", default="20ms")
@options.option("--disorder T", "Maximum time by which packets in OUT are out of order.")
@options.count_option("--packets", 100_000, "Number of packets to generate.")
@options.amount_option("--rate", "R", "Number of generated packets per second.", 100_000)
@options.seed_option
@options.out_option("Write a CSV file that marks the duplicates.", "--truth")
@options.json_option
def tap(
    *, capture: str, output: str, delay: str, jitter: str | None, repeat_after: str,
    disorder: str | None, packets: int, rate: float, truth: str | None, as_json: bool, seed: int,
    **settings: Any,
) -> None:  # fmt: skip
    """Write to OUT, in time order, the packets that two taps capture from a stream.

    OUT is a pcap file. IN is a capture, or the word generator for random packets. The second tap
    captures each packet a little later. Between the taps, options can add a VLAN tag, a tunnel, or
    routers that decrement the TTL.

    \b
    Examples:
      lately tap generator taps.pcap --packets 1000000 --truth copies.csv
      lately tap one.pcapng taps.pcap --delay 1ms --jitter 200us --loss 0.01 --vlan 7 --hops 1
      lately tap generator taps.pcap --encapsulate vxlan --hops 1 --repeats 0.05 --disorder 1ms
    """
    from ..captures.capture_reader import CaptureReader
    from ..captures.two_taps import MadePackets, Taps
    from ..captures.two_taps import tap as write_taps

    made = MadePackets(packets, rate=rate, seed=seed) if capture == "generator" else None
    times = {"delay": delay, "jitter": jitter, "repeat_after": repeat_after, "disorder": disorder}
    for name, text in times.items():
        settings[name] = options.nanoseconds(name.replace("_", "-"), text)
    taps = Taps(**settings, seed=seed)
    with ExitStack() as stack:
        source = made or stack.enter_context(CaptureReader(capture))
        inputs = [] if made else [capture]
        out, lines = (
            path and stack.enter_context(options.open_output(path, inputs))
            for path in (output, truth)
        )
        heard = stack.enter_context(interruptible())
        progress = stack.enter_context(replay_bar("Starting", "Tapping", "packets"))
        read = read_until(heard, source.read, ())
        result = write_taps(
            source, cast(BinaryIO, out), taps, truth=cast(Any, lines), progress=progress, read=read
        )
        if heard():
            raise KeyboardInterrupt
    if output != "-":
        show(as_json, vars(result), "tap", vars(result))

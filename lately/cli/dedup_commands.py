"""Commands for captures of packets."""

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from secrets import randbits
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import click

from .compare_options import HeadedCommand, compare_options, comparison, rule_facts
from .interrupts import Interrupts, interruptible
from .options import (
    amount_option,
    choice_option,
    count_option,
    json_option,
    print_json,
    seed_option,
)
from .outputs import InputFile, OutputFile, content_source
from .progress import replay_bar
from .reporting import INTERRUPTED
from .tables import print_facts, show

if TYPE_CHECKING:
    from ..captures.capture_reader import CaptureReader, Packets
    from ..dedup.deduplicate import DedupResult


@click.command(
    "dedup",
    cls=HeadedCommand,
    short_help="Write a capture without the packets that were seen lately.",
)
@click.argument("capture", metavar="IN", type=InputFile())
@click.argument("output", metavar="OUT", type=OutputFile(standard=True, in_place=True))
@click.option(
    "--span", default="50ms", show_default=True, metavar="T", help="Remember a packet for a time."
)
@count_option("--window", 65_536, "Drop a packet only if its copy is at most N packets back.")
@amount_option("--fpr", "P", "Share of new packets that may be dropped all the same.", 1e-6)
@compare_options
@choice_option(
    "--engine",
    ["golden", "rtl"],
    "Ask the golden model, or the compiled hardware, which is checked against it.",
)
@click.option("--verify", is_flag=True, help="Compare with an exact oracle, whose memory grows.")
@click.option(
    "--mark",
    "marked",
    type=OutputFile(),
    metavar="FILE",
    help="Write number, time and digest of what was dropped.",
)
@click.option("--watch", is_flag=True, help="Show rate, drops and fill meanwhile.")
@json_option
def dedup(
    *,
    capture: str,
    output: str,
    span: str,
    window: int,
    fpr: float,
    engine: str,
    verify: bool,
    marked: str | None,
    watch: bool,
    as_json: bool,
    **compared: Any,
) -> None:
    """Write the capture IN to OUT without the packets that were seen lately.

    IN is a pcap or pcapng file, plain, gzip or zstd; OUT has the same format, and all else that
    IN has, in the same order. OUT is compressed if its name ends with .gz or .zst. IN and OUT
    may be - for standard input and output. A packet is dropped
    if one with the same digest came within the span and within the window, which is a number of
    packets. The first of equal packets is kept; each one that is dropped is remembered from
    its own time on. Ctrl-C, SIGTERM and SIGHUP leave a capture of what was read until then. Figures
    are printed unless the capture goes to standard output.

    \b
    Examples:
      lately dedup mirror.pcapng unique.pcapng
      lately dedup mirror.pcap.gz unique.pcap --span 2ms --window 10000 --verify
      lately dedup mirror.pcap unique.pcap --fields none --mark dropped.csv
      lately dedup erspan.pcap unique.pcap --inner --fields tos,no-checksum
      lately dedup mirror.pcap unique.pcap --fields frame --skip 14 --bytes 64
      lately dedup mirror.pcap unique.pcap --differs ttl --policy first-seen
      lately dedup ports.pcapng unique.pcapng --scope other
      lately dedup mirror.pcap unique.pcap --verify --watch
      tcpdump -i eth0 -U -w - | lately dedup - - --span 10ms > unique.pcap
    """
    from ..captures.capture_reader import CaptureReader
    from ..dedup.deduplicate import Deduplication, deduplicate
    from ..dedup.marks import Marks
    from ..dedup.window import dedup_spec
    from ..golden.hash.siphash import SECRET_BITS
    from ..golden.ring.timed_ring import TimeLimitedRing

    long = _nanoseconds("span", span)
    rules, rule = comparison(compared)
    spec, tick = dedup_spec(long, window, fpr)
    what = Deduplication(
        span=long, window=window, spec=spec, tick=tick, compared=rules, rule=rule,
        secret=randbits(SECRET_BITS), engine=engine,
    )  # fmt: skip
    model, oracle = TimeLimitedRing.from_spec(spec), None
    if verify:
        from ..dedup.packet_oracle import PacketOracle

        oracle = PacketOracle(spec, long, window, rule=rule)
    with ExitStack() as stack:
        packets = stack.enter_context(CaptureReader(capture))
        out = stack.enter_context(_open_output(output, capture))
        marks = (
            None if marked is None else Marks(stack.enter_context(_open_output(marked, capture)))
        )
        waiting = "Compiling the RTL" if engine == "rtl" else "Starting"
        shown: AbstractContextManager[Any] = _dedup_bar(waiting)
        if watch:
            from .watch import dedup_view, live_view

            shown = live_view(waiting, dedup_view(packets.name, model, oracle))
        with interruptible() as heard, shown as progress:
            source = _UntilInterrupted(packets, heard)
            result = deduplicate(
                source, out, what, model=model, oracle=oracle, mark=marks, progress=progress
            )
            # Here an interrupt does not take away what is whole.
            stack.close()
    figures = {
        "capture": {"name": packets.name, "format": packets.format},
        "span_seconds": long / 1e9,
        "window": window,
        "spec": spec.to_dict(),
        "tick_seconds": tick / 1e9,
        "rules": rules.describe() | vars(rule),
        "engine": engine,
        **result.figures(),
        "interrupted": heard(),
        "check": None if oracle is None else oracle.finish().figures(),
    }
    if as_json and output != "-":
        print_json(figures)
    elif output != "-":
        print_facts(_facts(figures))
    if result.mismatches:
        raise click.ClickException(f"mismatches: must be 0, not {result.mismatches}")
    if figures["interrupted"]:
        raise click.exceptions.Exit(INTERRUPTED)


@click.command("tap", short_help="Make a capture of two taps, with known copies.")
@click.argument("capture", metavar="IN", type=InputFile())
@click.argument("output", metavar="OUT", type=OutputFile(standard=True, in_place=True))
@click.option(
    "--delay", default="5us", show_default=True, metavar="T", help="Delay of the second tap."
)
@click.option("--jitter", metavar="T", help="Additional delay of each packet, at most.")
@click.option("--loss", type=click.FloatRange(0, 1), default=0.0, help="Share that a tap loses.")
@count_option("--vlan", None, "Tag the second tap's packets with a VLAN.", least=0, most=4095)
@count_option("--hops", 0, "Number of routers between the taps.", least=0, most=255)
@count_option("--packets", 100_000, "Number of packets of the generator.")
@amount_option("--rate", "R", "Packets per second of the generator.", 100_000)
@seed_option
@click.option(
    "--truth",
    type=OutputFile(),
    metavar="FILE",
    help="Write which packet is a copy, as CSV.",
)
@json_option
def tap(
    *,
    capture: str,
    output: str,
    delay: str,
    jitter: str | None,
    packets: int,
    rate: float,
    truth: str | None,
    as_json: bool,
    seed: int,
    **how: Any,
) -> None:
    """Write what two taps see of one stream to OUT, a pcap file in the order of its times.

    IN is a capture, or the word generator for random packets. The second tap sees each packet a
    little later, by choice tagged, or behind routers that take from its TTL.

    \b
    Examples:
      lately tap generator taps.pcap --packets 1000000 --truth copies.csv
      lately tap one.pcapng taps.pcap --delay 1ms --jitter 200us --loss 0.01 --vlan 7 --hops 1
    """
    from ..captures.capture_reader import CaptureReader
    from ..captures.made_packets import MadePackets
    from ..captures.two_taps import Taps
    from ..captures.two_taps import tap as write_taps

    made = MadePackets(packets, rate=rate, seed=seed) if capture == "generator" else None
    times = {"delay": _nanoseconds("delay", delay), "jitter": _nanoseconds("jitter", jitter)}
    taps = Taps(**times, **how, seed=seed)
    with ExitStack() as stack:
        source = made or stack.enter_context(CaptureReader(capture))
        out, lines = (
            None
            if path is None
            else stack.enter_context(_open_output(path, None if made else capture))
            for path in (output, truth)
        )
        progress = stack.enter_context(replay_bar("Starting", "Tapping", "packets"))
        result = write_taps(source, cast(BinaryIO, out), taps, truth=lines, progress=progress)
    if output != "-":
        show(as_json, vars(result), "tap", vars(result))


@contextmanager
def _dedup_bar(waiting: str) -> "Iterator[Callable[[DedupResult, float | None], None]]":
    with replay_bar(waiting, "Deduplicating", "packets") as bar:
        yield lambda result, share: bar(result.packets, share)


def _nanoseconds(name: str, text: str | None) -> int:
    """Return the time that an option gives, 0 if it is not given."""
    from ..golden.durations import time_seconds, whole_nanoseconds

    return 0 if text is None else whole_nanoseconds(name, time_seconds(text, name))


def _facts(figures: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield names, values and notes; no templates, as Jinja starts slower than all else."""
    from ..replay.formatting import rate_text, seconds_text

    counts = {name: f"{value:,}" for name, value in figures.items() if isinstance(value, int)}
    packets, span = figures["packets"], seconds_text(figures["span_seconds"])
    capture = figures["capture"]
    name = ascii(capture["name"])[1:-1]
    kinds = "{ip4:,} of IPv4, {ip6:,} of IPv6, {other:,} others".format(**figures["versions"])
    within = f"{counts['window']} packets"
    if figures["untimed"] < packets or not packets:
        within = f"{span} and {within}"
    share = f"; {rate_text(figures['dropped'] / packets)} of all" if packets else ""
    source = f"{name} ({capture['format']}): {kinds}, compared as whole frames"
    yield "packets", counts["packets"], source
    if control := figures["versions"]["control"]:
        yield "control", f"{control:,}", "of the packets are ARP, LLDP, STP or IS-IS"
    yield from rule_facts(figures["rules"])
    yield "dropped", counts["dropped"], f"seen within {within}{share}"
    yield "bytes written", counts["bytes_written"], f"of {counts['bytes_read']}"
    early = "; the compressed data ends early" if figures["truncated"] else ""
    if figures["missing_bytes"] or early:
        note = f"bytes at the end, of a record that is not whole; left out{early}"
        yield "missing", counts["missing_bytes"], note
    latest = seconds_text(figures["latest"] / 1e9)
    for name, count, note in (
        ("malformed", "malformed", "packets, whose headers contradict themselves"),
        ("cut", "cut", "packets that were not captured whole, compared by what was"),
        ("late times", "late", f"up to {latest} before the latest, taken as that"),
        ("clock steps", "clock_steps",
         f"back by more than {span}; nothing from before a step is remembered"),
        ("without time", "untimed",
         "packets, taken as of the latest time; only the number of packets bounds them"),
        ("window shortened", "shortened",
         "packets at which more than the window had come within the span"),
    ):  # fmt: skip
        if figures[count]:
            yield name, counts[count], note
    if figures["mismatches"] is not None:
        yield "mismatches", counts["mismatches"], "verdicts or statuses, RTL against golden"
    if figures["check"]:
        yield from _checked(figures["check"])
    speed = figures["packets_per_second"]
    yield "time", f"{figures['seconds']:,.2f} s", f"{speed:,.0f} packets/s" if speed else ""


def _checked(check: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield names, values and notes of a comparison with the exact oracle."""
    from ..replay.formatting import count_text, interval_text, rate_text

    counts = {name: count_text(value) for name, value in check.items() if isinstance(value, int)}
    duplicates, interval = counts["duplicates"], interval_text(check["false_positive_interval"])
    yield (
        "equal packets", counts["equal"],
        f"by the exact oracle, however long ago; {duplicates} within span and window",
    )  # fmt: skip
    yield (
        "lost uniques", counts["lost_uniques"],
        f"{counts['remembered']} that had come a little longer ago, "
        f"{counts['false_positives']} false positives",
    )  # fmt: skip
    yield "passed duplicates", counts["passed_duplicates"], f"of {duplicates}"
    yield (
        "false-positive rate", rate_text(check["false_positive_rate"]),
        f"of {counts['fresh']} ({interval}); "
        f"{rate_text(check['predicted_false_positive_rate'])} predicted from the bits set",
    )  # fmt: skip


class _UntilInterrupted:
    """A capture that ends at an interrupt."""

    def __init__(self, capture: "CaptureReader", heard: Interrupts) -> None:
        self._capture = capture
        self._heard = heard
        self._begun = False

    @property
    def missing(self) -> int:
        return self._capture.missing

    @property
    def truncated(self) -> bool:
        return self._capture.truncated

    @property
    def fraction(self) -> float | None:
        return self._capture.fraction

    def read(self) -> "Packets | None":
        if not self._begun:
            # It is there already, and has the header, without which no file is a capture.
            self._begun = True
            return self._capture.read()
        with self._heard.waiting():
            return None if self._heard() else self._capture.read()
        return None


@contextmanager
def _open_output(path: str, capture: str | None) -> Iterator[BinaryIO]:
    """Open an output that comes from a `capture`: a file, compressed by its name, or stdout."""
    from ..golden.files import replace_file
    from ..stream_files import compressed

    if path == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    source = None if capture is None else content_source(capture)
    with replace_file(path, source=source) as file, compressed(path, file) as packed:
        yield packed

"""Command that makes captures of two taps."""

from contextlib import ExitStack
from typing import Any, BinaryIO, cast

import click

from .options import amount_option, count_option, json_option, seed_option
from .outputs import InputFile, OutputFile
from .packet_files import nanoseconds, open_output
from .progress import replay_bar
from .tables import show


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
    times = {"delay": nanoseconds("delay", delay), "jitter": nanoseconds("jitter", jitter)}
    taps = Taps(**times, **how, seed=seed)
    with ExitStack() as stack:
        source = made or stack.enter_context(CaptureReader(capture))
        out, lines = (
            None
            if path is None
            else stack.enter_context(open_output(path, None if made else capture))
            for path in (output, truth)
        )
        progress = stack.enter_context(replay_bar("Starting", "Tapping", "packets"))
        result = write_taps(source, cast(BinaryIO, out), taps, truth=lines, progress=progress)
    if output != "-":
        show(as_json, vars(result), "tap", vars(result))

"""The command that generates captures of two taps."""

from contextlib import ExitStack
from typing import Any, BinaryIO, cast

import click

from .interrupts import interruptible
from .options import Amount, amount_option, count_option, json_option, seed_option
from .outputs import InputFile, OutputFile
from .packet_files import nanoseconds, open_output, read_until
from .progress import replay_bar
from .reporting import OneLineCommand
from .tables import show


@click.command(
    "tap", cls=OneLineCommand,
    short_help="Generate a capture with known duplicates, as seen by two taps.",
    rules=[
        "--packets needs IN generator", "--rate needs IN generator",
        "--repeat-after needs --repeats", "--json cannot be combined with OUT -",
    ],
)  # fmt: skip
@click.argument("capture", metavar="IN", type=InputFile())
@click.argument("output", metavar="OUT", type=OutputFile(standard=True))
@click.option(
    "--delay", default="5us", show_default=True, metavar="T", help="Delay of the second tap."
)
@click.option("--jitter", metavar="T", help="Maximum random extra delay of the second tap.")
@click.option(
    "--loss",
    type=Amount(0, 1),
    metavar="P",
    default=0.0,
    help="Share of packets that each tap loses.",
)
@count_option("--vlan", None, "Tag the second tap's packets with VLAN N.", minimum=0, maximum=4095)
@count_option("--hops", 0, "Number of routers between the taps.", minimum=0, maximum=255)
@click.option(
    "--encapsulate",
    type=click.Choice(["mpls", "vxlan", "gre", "erspan", "gtp", "ipip"]),
    help="Encapsulate the second tap's packets in a tunnel of this type.",
)
@click.option(
    "--repeats",
    type=Amount(0, 1),
    metavar="P",
    default=0.0,
    help="Share of packets that are retransmitted.",
)
@click.option(
    "--repeat-after",
    default="20ms",
    show_default=True,
    metavar="T",
    help="Time after which a packet is retransmitted.",
)
@click.option(
    "--disorder", metavar="T", help="Maximum time by which packets in OUT are out of order."
)
@count_option("--packets", 100_000, "Number of packets to generate.")
@amount_option("--rate", "R", "Generated packets per second.", 100_000)
@seed_option
@click.option(
    "--truth",
    type=OutputFile(),
    metavar="FILE",
    help="Write a CSV file in which the duplicates are marked.",
)
@json_option
def tap(
    *,
    capture: str,
    output: str,
    delay: str,
    jitter: str | None,
    repeat_after: str,
    disorder: str | None,
    packets: int,
    rate: float,
    truth: str | None,
    as_json: bool,
    seed: int,
    **settings: Any,
) -> None:
    """Write a stream of packets to OUT as captured by two taps, in order of time.

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
    from ..captures.made_packets import MadePackets
    from ..captures.two_taps import Taps
    from ..captures.two_taps import tap as write_taps

    made = MadePackets(packets, rate=rate, seed=seed) if capture == "generator" else None
    times = {"delay": delay, "jitter": jitter, "repeat_after": repeat_after, "disorder": disorder}
    taken: dict[str, Any] = {
        name: nanoseconds(name.replace("_", "-"), text) for name, text in times.items()
    }
    taps = Taps(**taken, **settings, seed=seed)
    with ExitStack() as stack:
        source = made or stack.enter_context(CaptureReader(capture))
        out, lines = (
            None
            if path is None
            else stack.enter_context(open_output(path, [] if made else [capture]))
            for path in (output, truth)
        )
        heard = stack.enter_context(interruptible())
        progress = stack.enter_context(replay_bar("Starting", "Tapping", "packets"))
        read = read_until(heard, source.read, ())
        result = write_taps(
            source, cast(BinaryIO, out), taps, truth=lines, progress=progress, read=read
        )
        if heard():
            raise KeyboardInterrupt
    if output != "-":
        show(as_json, vars(result), "tap", vars(result))

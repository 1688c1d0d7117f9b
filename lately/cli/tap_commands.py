"""The command that generates captures of two taps."""

from contextlib import ExitStack
from typing import Any, BinaryIO, cast

import click

from . import options
from .interrupts import interruptible
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
@options.option("--truth FILE", "Write a CSV file that marks the duplicates.", type=OutputFile())
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
    from ..captures.made_packets import MadePackets
    from ..captures.two_taps import Taps
    from ..captures.two_taps import tap as write_taps

    made = MadePackets(packets, rate=rate, seed=seed) if capture == "generator" else None
    times = {"delay": delay, "jitter": jitter, "repeat_after": repeat_after, "disorder": disorder}
    settings |= {name: nanoseconds(name.replace("_", "-"), text) for name, text in times.items()}
    taps = Taps(**settings, seed=seed)
    with ExitStack() as stack:
        source = made or stack.enter_context(CaptureReader(capture))
        inputs = [] if made else [capture]
        out, lines = (
            path and stack.enter_context(open_output(path, inputs)) for path in (output, truth)
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

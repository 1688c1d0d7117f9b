"""Options that define which packets are the same, and help texts in groups."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from .options import Command, choice_option, count_option, together
from .reporting import OneLineCommand

if TYPE_CHECKING:
    from ..golden.packets.comparison import Comparison
    from ..golden.packets.copies import CopyRule

_HEADINGS = {
    "Which packets are the same": (
        "fields", "inner", "tunnels", "tpid", "mask", "offset", "first",
    ),
    "Which of them are dropped": (
        "span", "window", "fpr", "policy", "differs", "scope", "by",
    ),
    "Inputs and outputs": (
        "interface", "limit", "duration", "to", "reorder", "folder", "dry_run", "page", "dropped",
        "marked",
    ),
}  # fmt: skip


class HeadedCommand(OneLineCommand):
    """Command whose help lists some options under headings."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options under their headings, then all others."""
        options = [one for one in self.get_params(ctx) if isinstance(one, click.Option)]
        rows = {option.name: option.get_help_record(ctx) for option in options}
        for heading, names in _HEADINGS.items():
            with formatter.section(heading):
                formatter.write_dl([row for name in names if (row := rows.pop(name, None))])
        with formatter.section("Options"):
            formatter.write_dl([row for row in rows.values() if row])


def compare_options(command: Command) -> Command:
    """Add the options of `comparison`."""
    return together(
        click.option(
            "--fields", default="tos", show_default=True, metavar="NAMES",
            help="Fields to include or exclude: tos, ttl, vlan, layer2, frame, no-checksum, "
            "no-sequence, no-id, no-radiotap; or none.",
        ),
        click.option("--inner", is_flag=True, help="Compare the innermost packet of tunnels."),
        click.option(
            "--tunnel", "tunnels", metavar="udp:PORT:SKIP:ethernet|ip", multiple=True,
            help="With --inner, take UDP datagrams to PORT as a tunnel: an Ethernet frame or an IP "
            "packet follows after SKIP bytes.",
        ),
        click.option("--tpid", metavar="HEX", multiple=True, help="Further type of VLAN tags."),
        click.option(
            "--mask", metavar="OFFSET:HEX", multiple=True, help="Mask bytes from an offset on."
        ),
        count_option("--offset", None, "Ignore the first N bytes.", least=0, most=65_535),
        choice_option(
            "--policy", ["last-seen", "first-seen"],
            "Remember every packet, or only kept packets.",
        ),
        click.option(
            "--differs", type=click.Choice(["ttl", "layer2", "vlan", "interface", "file"]),
            help="Drop a repeat only if this differs from the kept packet.",
        ),
        choice_option(
            "--scope", ["any", "same", "other"], "Origin of the earlier packet of a copy."
        ),
        choice_option("--by", ["interface", "vlan", "file"], "Origin of a packet."),
        count_option("--bytes first", None, "Compare at most N bytes."),
    )(command)  # fmt: skip


def comparison(options: dict[str, Any]) -> "tuple[Comparison, CopyRule]":
    """Return the comparison and the rule that the `options` define.

    Raises
    ------
    FieldError
        If an option is wrong.
    """
    from ..golden.packets.comparison import (
        Comparison,
        FieldError,
        parse_fields,
        parse_mask,
        parse_tunnel,
    )
    from ..golden.packets.copies import CopyRule
    from ..golden.packets.packet_layers import Reach

    try:
        types = tuple(int(text, 16) for text in options["tpid"])
    except ValueError:
        given = ", ".join(options["tpid"])
        raise FieldError(f"tpid: must be hexadecimal, as 9400, not {given!r}") from None
    compared = Comparison(
        fields=parse_fields(options["fields"]),
        reach=Reach.INNER if options["inner"] else Reach.LAYER2,
        tag_types=types,
        tunnels=tuple(map(parse_tunnel, options["tunnels"])),
        masks=tuple(map(parse_mask, options["mask"])),
        skip=options["offset"] or 0,
        first=options["first"],
    )
    rule = CopyRule(**{name: options[name] for name in ("policy", "differs", "scope", "by")})
    rule.check(compared)
    return compared, rule


def rule_facts(rules: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield names, values and notes of the rules of a comparison."""
    frame = rules["fields"] == "frame"
    note = "each packet whole" if frame else f"fields of the {rules['layer3']} layer 3"
    yield "compared", rules["fields"], note
    policy = rules["differs"] or rules["scope"] != "any" or rules["policy"] != "last-seen"
    for name, value, note in (
        ("masks", ", ".join(rules["masks"]), "offset and bytes"),
        ("skipped", rules["skip"], "first bytes"),
        ("at most", rules["bytes"], "bytes of each packet"),
        ("tags", ", ".join(rules["tag_types"]), "further types of VLAN tags"),
        ("tunnels", ", ".join(rules["tunnels"]), "UDP port, bytes to skip, content"),
        ("policy", policy and rules["policy"], f"scope {rules['scope']} by {rules['by']}"),
        ("differs", rules["differs"], "of a copy from the packet that was kept"),
    ):
        if value:
            yield name, str(value), note

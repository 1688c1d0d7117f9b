"""Figures of `lately dedup` for the terminal."""

from collections.abc import Iterator
from typing import Any

from .compare_options import rule_facts


def facts(figures: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield names, values and notes; without templates, because Jinja starts slowly."""
    from ..replay.formatting import rate_text, seconds_text

    counts = {name: f"{value:,}" for name, value in figures.items() if isinstance(value, int)}
    packets, span = figures["packets"], seconds_text(figures["span_seconds"])
    capture = figures["capture"]
    name = ascii(capture["name"])[1:-1]
    kinds = "{ip4:,} of IPv4, {ip6:,} of IPv6".format(**figures["versions"])
    within = f"{counts['window']} packets"
    if figures["untimed"] < packets or not packets:
        within = f"{span} and {within}"
    share = f"; {rate_text(figures['dropped'] / packets)} of all" if packets else ""
    if capture["files"] > 1:
        name = f"{name} and {capture['files'] - 1:,} more"
    yield "packets", counts["packets"], f"{name} ({capture['format']}): {kinds}"
    if (others := figures["versions"]["other"]) and figures["rules"]["fields"] != "frame":
        yield "whole frames", f"{others:,}", "of the packets, of other protocols or malformed"
    if capture["empty"]:
        yield "empty files", f"{len(capture['empty'])}", ascii(", ".join(capture["empty"]))[1:-1]
    if capture["lost"]:
        yield "lost", f"{capture['lost']:,}", "packets that the system had no room for"
    if capture["unknown"]:
        names, count = ", ".join(capture["unknown"]), sum(capture["unknown"].values())
        yield "left out", f"{count:,}", f"packets of {names}, neither of Ethernet nor of IP"
    if control := figures["versions"]["control"]:
        yield "control", f"{control:,}", "of the packets are ARP, LLDP, STP or IS-IS"
    yield from rule_facts(figures["rules"])
    yield "dropped", counts["dropped"], f"seen within {within}{share}"
    if capture["unused"]:
        yield "OUT", "", f"{ascii(capture['unused'])[1:-1]} is neither read nor written"
    if figures["copies"]:
        yield from _copied(figures["copies"])
    if figures["to"]:
        yield from _sent(**figures["to"])
    elif not figures["dry_run"]:
        yield "bytes written", counts["bytes_written"], f"of {counts['bytes_read']}"
    early = (
        "; compressed data ends early or is followed by other data" if figures["truncated"] else ""
    )
    if figures["missing_bytes"] or early:
        note = f"bytes at the end, of a record that is not whole; left out{early}"
        yield "missing", counts["missing_bytes"], note
    latest = seconds_text(figures["latest"] / 1e9)
    for name, count, note in (
        ("comments", "comments", "in dropped packets"),
        ("drop counts", "drop_counts", "packets that dropped packets report as lost before them"),
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


def _sent(
    interface: str, sent: int, cut: int, other_link: int, other_length: int
) -> Iterator[tuple[str, str, str]]:
    yield "sent", f"{sent:,}", f"to {interface}"
    if unsent := cut + other_link + other_length:
        yield (
            "not sent", f"{unsent:,}",
            f"{cut:,} captured incompletely, {other_link:,} of another link type, "
            f"{other_length:,} of a length that {interface} does not take",
        )  # fmt: skip


def _copied(copies: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield names, values and notes of a report on copies."""
    from ..replay.formatting import seconds_text

    for row in copies["inputs"] if len(copies["inputs"]) > 1 else ():
        note = f"packets of {ascii(row['name'])[1:-1]}, {row['dropped']:,} of them dropped"
        yield "input", f"{row['packets']:,}", note
    span, about = copies["suggested_span_seconds"], "about " if copies["sampled"] else ""
    if span is not None:
        note = "twice the end of the nearest group of distances"
        repeats = f"{about}{copies['repeats']:,} repeats in all"
        yield "suggested span", seconds_text(span), f"{note}; {repeats}"
    for kind, rows in copies["pairs"].items():
        for row in [row for row in rows if row["from"] != row["to"]][:3]:
            yield kind, f"{about}{row['copies']:,}", f"copies: {row['from']}, then {row['to']}"


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

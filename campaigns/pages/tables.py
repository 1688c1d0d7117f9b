"""Tables of the pages that show results of campaigns."""

import json
import math
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

from lately.boards.flow.devices import DEVICES
from lately.boards.flow.inference import INFERRED
from lately.boards.flow.limits import limits, unit_limit
from lately.boards.flow.synthesis import SynthesisReport
from lately.boards.targets.catalogue import BOARDS, Board
from lately.golden import GEBF, PRESETS, Specification, analysis, preset
from lately.hdl.build import unit_profile
from lately.hdl.bus.controlled import COUNTER_BITS
from lately.hdl.family import FAMILIES
from lately.hdl.memory.variants import VARIANTS
from lately.hdl.registers import REGISTERS, Block, Register, registers_table
from lately.hdl.ring.profile import RingProfile
from lately.hdl.target_clocks import device_class
from lately.intervals import clopper_pearson
from lately.planner import PLANNER_FAMILIES, Requirement, choose
from lately.replay.formatting import interval_text, rate_text
from lately.sim.bench.testplan import PLAN
from lately.sim.proofs.catalogue import PROOFS, with_goals

from .. import soak
from ..engine import Record
from ..hardware import Summary, summarise
from ..upsets import OUTCOMES, label
from . import drawings
from .blocks import (
    DOCS,
    IMAGES,
    MARK,
    NOTHING,
    RESULTS,
    ROOT,
    Drawing,
    Page,
    earlier,
    lay,
    load,
    records,
    save,
    table,
    versions,
)

Row = dict[str, object]

# Hardware


def preset_rows() -> Iterator[Row]:
    """Yield the hardware of each preset of a ring, except the tiny ones."""
    for name, spec in PRESETS.items():
        if spec.kind != "ring" or "tiny" in name:
            continue
        profile = RingProfile.of(spec)
        yield {
            "preset": f"`{name}`",
            "window": spec.window,
            "generation": spec.generation,
            "minimum": profile.minimum_generation,
            "ring + spare": f"{spec.ring_segments} + 1",
            "memories": f"{spec.segments * spec.parts} x {spec.part_bits:,}",
            "latency": profile.latency,
        }


def hardware() -> dict[str, str]:
    """Return the blocks of docs/hardware.md."""
    shown = [f"{family}-default" for family in ("apbf", "apbbf", "gebf")]
    profiles = {f"`{name}`": RingProfile.of(preset(name)) for name in shown}
    stages = {one: profile.latency_terms for one, profile in profiles.items()}
    latency: list[Row] = [
        {"stage": stage, **{one: terms[stage] for one, terms in stages.items()}}
        for stage in next(iter(stages.values()))
    ]
    latency.append({"stage": "all", **{one: each.latency for one, each in profiles.items()}})
    variants: list[Row] = [
        {"name": f"`{name}`", "component": f"`{cls.__name__}`",
         "what it is": (cls.__doc__ or "").splitlines()[0]}
        for name, cls in VARIANTS.items()
    ]  # fmt: skip
    presets = [*preset_rows()]
    return {"latency": table(latency), "variants": table(variants), "presets": table(presets)}


def window_text(spec: Any) -> str:
    """Return the window of a unit in insertions, or in ticks."""
    ticks = getattr(spec, "window_blocks", None) if not getattr(spec, "window", None) else None
    return f"{spec.window:,}" if ticks is None else f"{ticks:,} ticks"


def seeds_text(seeds: Sequence[int]) -> str:
    """Write seeds as a range, if they are one."""
    whole = len(seeds) > 2 and [*seeds] == [*range(seeds[0], seeds[-1] + 1)]
    return f"{seeds[0]} to {seeds[-1]}" if whole else ", ".join(map(str, seeds))


def layout(name: str, summaries: Iterable[Summary], **values: Any) -> str:
    """Lay out summaries in a table of `tables.toml`."""

    def area(report: SynthesisReport, parts: int, digits: int) -> str:
        counts = (report.lut, report.ff, report.bram)
        return ", ".join(f"{count / parts:,.{digits}f}" for count in counts)

    return lay(
        f"summary.{name}",
        summaries,
        area=area,
        profile=lambda summary: unit_profile(summary.case.spec),
        seeds=seeds_text,
        window=window_text,
        **values,
    )


STAR = f"{MARK} A figure from an earlier version of the unit; the present version was not placed.\n"


def caveats(found: Iterable[tuple[str, str]]) -> str:
    """Write each caveat once, behind the names of its devices or boards."""
    names: dict[str, dict[str, None]] = {}
    for name, text in found:
        if text:
            names.setdefault(text, {})[name] = None
    return "".join(f"**{', '.join(those)}:** {text}.\n\n" for text, those in names.items())


def performance(found: Sequence[Record], reported: Sequence[Row] = ()) -> dict[str, str]:
    """Return the blocks of docs/performance.md, from runs and from figures that users sent."""
    units, tiny = summarise(found, "units"), summarise(found, "tiny")
    star = STAR * any(summary.earlier for summary in units + tiny)
    return {
        "speed": "\n".join(
            filter(
                None,
                [
                    layout("speed", units),
                    star,
                    caveats((one.median.device, one.median.caveat) for one in units),
                ],
            )
        ),
        "plot": drawings.image(AREA, "Usable clock of units against their LUTs") if units else "",
        "area": layout("area", units),
        "paths": layout("paths", units),
        "tiny": layout("tiny", tiny),
        "versions": versions(record.identity["versions"] for record in found),
        "reported": lay("reported", reported) or "No user has sent figures.",
    }


AREA = IMAGES / "clock-area.svg"


def _units() -> list[Summary]:
    return summarise(records("hardware"), "units")


GOAL = 1000
"""Millions of operations per second that are the target with `GOAL_LANES` lanes."""

GOAL_LANES = 4


def lanes(measured: Sequence[Record], found: Sequence[Record]) -> dict[str, str]:
    """Return the blocks of docs/lanes.md from operations per cycle and from placements."""
    units = list(dict.fromkeys(record.point["unit"] for record in measured))
    streams: dict[str, dict[str, Record]] = {}
    for record in measured:
        streams.setdefault(Path(record.point["stream"]).name, {})[record.point["unit"]] = record
    rates = [
        {"stream": name, "operations": next(iter(own.values())).result["operations"]}
        | {f"`{unit}`": f"{own[unit].result['operations_per_cycle']:.3f}" for unit in units}
        for name, own in streams.items()
    ]
    random = {unit: one.result["operations_per_cycle"] for unit, one in streams["random"].items()}
    summaries = summarise(found, "lanes")
    star = STAR * any(summary.earlier for summary in summaries)
    return {
        "rates": "\n".join(filter(None, [table(rates), earlier(measured, "rates")])),
        "speed": "\n".join(
            [goal(summaries, random) + "\n", layout("lanes", summaries, rates=random), star]
        ),
    }


def goal(summaries: Iterable[Summary], rates: dict[str, float]) -> str:
    """Say on which devices the target is reached, and with how many seeds."""
    found = []
    for summary in summaries:
        four = unit_profile(summary.case.spec).lanes == GOAL_LANES
        if four and summary.case.unit in rates:
            needed = GOAL / rates[summary.case.unit]
            reached = sum(report.fmax_mhz >= needed for report in summary.reports)
            verdict = "does too" if summary.median.fmax_mhz >= needed else "does not"
            seeds = f"{reached} of {len(summary.reports)} seeds"
            found.append(f" On {summary.case.device} {seeds} reach it; the median {verdict}.")
    return f"The target is {GOAL:,} M ops/s with {GOAL_LANES} lanes.{''.join(found)}"


def limits_blocks() -> dict[str, str]:
    """Return the blocks of docs/limits.md: the limits of parts of devices, and their sources."""
    classes = {device_class(name): name for name in DEVICES if limits(name)}
    found = {name: {one.name: one for one in limits(device)} for name, device in classes.items()}
    parts = dict.fromkeys(part for own in found.values() for part in own)
    rows: list[Row] = [
        {"MHz": part,
         **{f"`{n}`": f"{own[part].mhz:g}" if part in own else NOTHING for n, own in found.items()}}
        for part in parts
    ]  # fmt: skip
    binding = {f"`{name}`": f"**{unit_limit(at).mhz:g}**" for name, at in classes.items()}
    sources: dict[tuple[str, str], list[str]] = {}
    for name, own in found.items():
        for limit in own.values():
            sources.setdefault((limit.name, limit.source), []).append(f"`{name}`")
    listed: list[Row] = [
        {"devices": ", ".join(names), "limit": part, "source": source}
        for (part, source), names in sources.items()
    ]
    return {
        "limits": table([*rows, {"MHz": "**a unit**"} | binding]),
        "sources": table(listed),
        "devices": table(list(_devices())),
    }


def _devices() -> Iterator[Row]:
    """Yield a row for each device: its totals, their source, and the shapes of its block RAMs."""
    for device in sorted(DEVICES.values(), key=lambda one: one.family):
        block = INFERRED.get(device.family)
        shapes = [f"{block.bits // n:,} x {w}" for n, w in block.widths.items()] if block else []
        yield {
            "family": device.family,
            "device": f"`{device.name}`",
            "figures": device.figures,
            "LUTs": f"{device.lut:,}",
            "flip-flops": f"{device.ff:,}",
            "block RAMs": f"{device.bram:,}",
            "words x bits of one": f"{shapes[0]} to {shapes[-1]}" if shapes else NOTHING,
            "source of the totals": device.source or NOTHING,
        }


# Boards


def pins(board: Board) -> str:
    """Lay out the pins of a board."""

    def pin(name: str) -> str:
        return "`{}` {}".format(*name.split())

    rows: list[Row] = [
        {"": "serial port", " ": board.link},
        {"": ", ".join(board.lights) or "lights",
         " ": ", ".join(map(pin, board.lights.values())) or "none"},
        {"": "reset", " ": pin(board.reset) if board.reset else "none"},
        {"": "openFPGALoader", " ": f"`-b {board.loader}`"},
    ]  # fmt: skip
    where = "Lately" if board.platform.startswith(".") else "amaranth-boards"
    about = f"{board.description}. Platform: `{board.platform.removeprefix('.')}` of {where}."
    return f"### {board.name}\n\n{about}\n\n{table(rows)}"


def is_own(report: dict[str, Any]) -> bool:
    """Whether the filter of a bitstream has the family of its board's own filter."""
    return bool(report["spec"]["family"] == BOARDS[report["board"]].spec.family)


def boards(reports: Sequence[dict[str, Any]]) -> dict[str, str]:
    """Return the blocks of docs/boards.md."""
    own = [report for report in reports if is_own(report)]
    former = [
        f"`{report['board']}`"
        for report in own
        if Specification.from_dict(report["spec"]) != BOARDS[report["board"]].spec
    ]
    parts = [
        lay("bitstream.figures", own),
        f"**Built before the filter had its present memories:** {', '.join(former)}.\n"
        if former
        else "",
        caveats((one["board"], one["caveat"]) for one in own).removesuffix("\n"),
        lay("bitstream.paths", own),
        versions(report["versions"] for report in own),
    ]
    return {
        "others": lay("bitstream.figures", [one for one in reports if not is_own(one)]),
        "bitstreams": "\n".join(filter(None, parts)),
        "pins": "\n".join(map(pins, BOARDS.values())),
    }


def take_boards(paths: list[Path]) -> None:
    """Put build reports in the place of earlier ones; drop boards that no longer exist."""
    read = [json.loads(path.read_text("utf-8")) for path in paths]
    known = {
        (report["board"], is_own(report) or str(report["spec"])): {
            name: value for name, value in report.items() if name not in ("utilisation", "files")
        }
        for report in [*load("boards"), *read]
        if report["board"] in BOARDS
    }
    order = [*BOARDS]
    save(
        "boards",
        sorted(known.values(), key=lambda one: (not is_own(one), order.index(one["board"]))),
    )


# Registers


def export_rows() -> Iterator[Row]:
    """Yield the registers of exported units, a row for each field."""
    held = [one for one in REGISTERS if one.holder is not Block.LINE]
    for one in sorted(held, key=lambda one: one.address):
        yield from field_rows(one)


def field_rows(one: Register) -> Iterator[Row]:
    """Yield the row of a register, or one for each of its fields."""
    address, name = f"`{one.address:#04x}`", f"`{one.name}`"
    if not one.fields:
        bits = COUNTER_BITS if one.event else one.width or "as specified"
        yield {"address": address, "register": name, "bits": str(bits),
               "access": one.access.value, "meaning": one.meaning}  # fmt: skip
    for field in one.fields:
        last = field.place + field.width - 1
        bits = f"{last}:{field.place}" if field.width > 1 else str(field.place)
        yield {"address": address, "register": f"{name}, {field.name}", "bits": bits,
               "access": field.access.value, "meaning": field.meaning}  # fmt: skip
        address = ""


def host() -> dict[str, str]:
    """Return the blocks of docs/host.md."""
    head = ("register", "address", "access", "bits", "after reset", "meaning")
    return {"registers": table([dict(zip(head, row, strict=True)) for row in registers_table()])}


# Speed

TWO = "rbloom, two"
"""Filter of another library that single calls are compared with."""

SINGLES = ("int", "signed int", "bytes", "str")
"""Calls that take one key."""

SETUP = """\
Check-and-insert of {keys:,} random 64-bit keys on one thread; one tenth of them repeat after 1
to {window:,} insertions. Filters of other libraries have {bits_per_key} bits for each key of
the window, and so has a filter with a shape in its row, without its spare. `for_window` sizes the
others for a rate of 0.01. A longer window is not full for long enough to measure a rate. Slow
filters take only some of the keys. A batch has 65,536 keys; *of rbloom* compares single keys
alone. Time is CPU time, the median of {rounds} rounds in which all filters take turns. Measured on
{processor}, with {tools}, seed {seed}.

{table}{turn}"""

TURN = """
The longest of 2,000 calls for one key around a turn of a GEBF for {turning:,} keys took
{longest_ms:.3f} ms; half of the calls took at most {median_ms:.4f} ms."""

STREAM = """\
{insertions:,} insertions and {queries:,} queries of a {model} of {kib:.0f} KiB, window {window:,}:
the time of each tenth is that of all others, and memory stays where it was.

{table}
{total:.1f} s of CPU time in all, and {cpu_seconds:.1f} s with drawing the keys.
{before:.0f} MiB of memory were taken before the first insertion, and
{peak:.0f} MiB at most. {known:,} queries for keys of the window gave {negatives} wrong
answers. On {processor}, seed {seed}."""


def speed(measured: Sequence[Record], stream: Sequence[Record]) -> dict[str, str]:
    """Return the blocks of docs/speed.md."""
    (record,) = measured
    filters = [{"touched": None} | one for one in record.result["filters"]]
    turn = record.result.get("turn")
    two = {one["call"]: one["keys_per_second"] for one in filters if one["filter"] == TWO}
    return {
        "speed": SETUP.format(
            **record.point,
            processor=record.result["processor"],
            tools=", ".join(f"{name} {v}" for name, v in record.identity["versions"].items()),
            table=lay("golden", filters, two=two, singles=SINGLES),
            turn=TURN.format(**record.point, **turn) if turn else "",
        ) + "\n" + earlier(measured, "figures"),
        "stream": "\n\n".join(map(stream_text, stream)) + "\n\n" + earlier(stream, "figures"),
    }  # fmt: skip


def stream_text(record: Record) -> str:
    """Describe a long stream part by part."""
    run, parts = record.result, record.result["parts"]
    return STREAM.format(
        **record.point,
        table=lay("part", parts),
        kib=run["memory_bits"] / 8192,
        total=sum(part["cpu_seconds"] for part in parts),
        cpu_seconds=run["cpu_seconds"],
        before=run["peak_bytes_before"] / 2**20,
        peak=run["peak_bytes"] / 2**20,
        known=sum(part["queries_of_the_window"] for part in parts),
        negatives=run["false_negatives"] or "no",
        processor=run["processor"],
    )


# Security

ATTACKS = {
    "rates": ("forged", "forged cells", "filled", "twins"),
    "dictionaries": ("crowded",),
    "lanes": ("one shard", "one shard, by time"),
    "verdicts": ("replayed",),
    "differences": ("difference",),
    "floods": ("flooded",),
}
"""Attacks of each table."""

OPERATIONS = 212e6
"""Operations per second at the block RAM limit of an ECP5 of grade 6."""

WINDOW = 1000

DAY = 86_400


def attacks_table(runs: Iterable[dict[str, Any]]) -> str:
    """Lay out attacks: the effect of random keys and of chosen keys, by the hash of the filter."""
    found: dict[tuple[str, ...], dict[str, dict[str, Any]]] = {}
    for run in runs:
        place = run["attack"], run["unit"], run["figure"], run["cost"]
        found.setdefault(place, {})[run["hash"]] = run
    hashes = dict.fromkeys(run for own in found.values() for run in own)
    rows: list[Row] = []
    for (attack, unit, figure, cost), own in found.items():
        first = next(iter(own.values()))
        rows.append({
            "attack": f"`{attack}`", "unit": unit, "measured": figure,
            "random keys": attack_figure(first, first["usual"]),
            **{name: attacked(own[name]) if name in own else NOTHING for name in hashes},
            "cost": cost,
        })  # fmt: skip
    return table(rows)


def attacked(run: dict[str, Any]) -> str:
    """Return a figure under an attack, and the window that is still exact, if there is one."""
    window = f", window {run['guaranteed']:,}" if "guaranteed" in run else ""
    return attack_figure(run, run["attacked"]) + window


def attack_figure(run: dict[str, Any], value: float) -> str:
    """Write a rate, or operations per cycle."""
    return f"{value:.3f}" if "cycle" in run["figure"] else rate_text(value)


def effort(runs: Iterable[dict[str, Any]]) -> str:
    """Say how many queries all 64 bits of the fold would take, by the narrower ones measured."""
    found = [run for run in runs if run["attack"] == "difference"]
    logs = [math.log2(run["queries"] * WINDOW) - run["folded_bits"] for run in found]
    pairs = 64 + sum(logs) / len(logs)
    days = 2**pairs / WINDOW / OPERATIONS / DAY
    return (
        f"A fold of n bits took 2^(n {sum(logs) / len(logs):+.1f}) pairs on average. A pair is a "
        f"query and one of the {WINDOW:,} keys of the window. By this rule a fold of 64 bits takes "
        f"{days:,.0f} days at {OPERATIONS / 1e6:.0f} million queries per second and a window of "
        f"{WINDOW:,} keys, or {days / 100:,.0f} days with {100 * WINDOW:,} keys. This was "
        "computed, not run."
    )


def security(measured: Sequence[Record], fuzzed: Sequence[dict[str, Any]]) -> dict[str, str]:
    """Return the blocks of docs/security.md."""
    runs = [run for record in measured for run in record.result["runs"]]
    every = {name: sum(one[name] for one in fuzzed) for name in ("inputs", "refused")}
    tables = {
        name: attacks_table(run for run in runs if run["attack"] in attacks)
        for name, attacks in ATTACKS.items()
    }
    said = f"{effort(runs)}\n\n{earlier(measured, 'attacks')}"
    return tables | {"effort": said, "inputs": lay("input", [*fuzzed, {"parser": "all"} | every])}


def take_fuzz(paths: list[Path]) -> None:
    """Keep new counts of damaged inputs, as `make fuzz` writes them."""
    for path in paths:
        parsers = json.loads(path.read_text("utf-8"))["parsers"]
        save("fuzz", [{"parser": name} | counts for name, counts in parsers.items()])


# Upsets

FEWEST = 50
"""Upsets of a register for which a share is shown."""

MOST = 6
"""Registers listed for each unit."""


def option(record: Record) -> str:
    """Return the one option of a unit: protect, check or none."""
    if record.point["self_check"]:
        return "check"
    return "" if record.point["protect"] == "none" else "protect"


def outcome_rows(found: Iterable[Record]) -> Iterator[Row]:
    """Yield the outcomes of upsets of units, for each kind of bits except counters."""
    for record in found:
        run = record.result
        for kind in record.point["kinds"]:
            own = {one["outcome"]: one for one in run["found"] if one["kind"] == kind}
            struck = sum(one["silent"] + one["told"] for one in own.values())
            if kind == "counter" or not struck:
                continue
            silent = own["false negative"]["silent"]
            yield {
                "unit": f"`{label(record.point)}`",
                "struck": kind,
                "bits": run["bits"][kind],
                "upsets": struck,
                **{
                    name: rate_text((one["silent"] + one["told"]) / struck)
                    for name, one in own.items()
                },
                "reported": sum(one["told"] for one in own.values()),
                "silent false negatives": silent,
                "their share, with 95 %": interval_text(clopper_pearson(silent, struck)),
            }


def register_rows(found: Iterable[Record]) -> Iterator[Row]:
    """Yield the registers whose upsets cause most of the silent false negatives."""
    for record in found:
        groups = record.result["registers"]
        every = sum(missed for _, _, missed, _, _ in groups.values())
        ranked = sorted(groups.items(), key=lambda one: -one[1][2])
        for register, (bits, struck, missed, left, _) in ranked[:MOST]:
            yield {
                "unit": f"`{label(record.point)}`",
                "register": f"`{register}`",
                "bits": bits,
                "upsets": struck,
                "silent false negative": rate_text(missed / struck),
                "and something left": rate_text(left / struck),
                "share of all": rate_text(missed / every) if every else NOTHING,
            }


def lasting_rows(found: Iterable[Record]) -> Iterator[Row]:
    """Yield the registers that an upset leaves wrong so that keys or results are lost."""
    for record in found:
        shares = {
            name: worst / struck
            for name, (_, struck, _, _, worst) in record.result["registers"].items()
            if struck >= FEWEST and worst > struck / 2
        }
        listed = [
            f"`{name}` ({rate_text(share)})"
            for name, share in sorted(shares.items(), key=lambda one: -one[1])
        ]
        yield {
            "unit": f"`{label(record.point)}`",
            "registers of which more than half of the upsets last": ", ".join(listed) or NOTHING,
        }


def checked_rows(found: Iterable[Record]) -> Iterator[Row]:
    """Yield the outcomes of upsets of flip-flops in units that check themselves."""
    for record in found:
        for one in record.result["found"]:
            if one["kind"] == "register":
                yield {
                    "unit": f"`{label(record.point)}`",
                    "outcome": one["outcome"],
                    "upsets": one["silent"] + one["told"],
                    "reported": one["told"],
                    "something left": one["lasting"],
                }


def upsets(found: Sequence[Record]) -> dict[str, str]:
    """Return the blocks of docs/upset-campaign.md."""
    plain, protected, checked = (
        [record for record in found if option(record) == name] for name in ("", "protect", "check")
    )
    flips, wrong, seconds = (
        sum(record.result[name] for record in found) for name in ("done", "mismatches", "seconds")
    )
    return {
        "outcomes": table([{"outcome": name, "meaning": text} for name, text in OUTCOMES.items()]),
        "ran": (
            f"{len(found)} campaigns, {flips:,} upsets in {seconds / 60:.0f} minutes; without "
            f"upsets, {wrong} results, counters or bits differ from the golden model's.\n"
            f"{earlier(found, 'campaigns')}"
        ),
        "units": table([*outcome_rows(plain)]),
        "protected": table([*outcome_rows(protected)]),
        "checked": table([*checked_rows(checked)]),
        "registers": table([*register_rows(plain)]),
        "lasting": table([*lasting_rows(plain)]),
    }


# Filters


def families_table() -> str:
    """Lay out the families that have hardware."""
    families = [(name, one) for kind, one in FAMILIES.items() for name in kind.families()]
    return lay(
        "family",
        families,
        planned=PLANNER_FAMILIES,
        required=lambda name: Specification.of_family(name).required_fields(),
    )


def bound_rows(window: int = 20_000) -> Iterator[Row]:
    """Yield bits for each key by rate: the bound, the least for a GEBF, and what users get."""
    for rate in (0.01, 0.001, 1e-6):
        asked = Requirement(window=window, false_positive_rate=rate, families=("gebf",))
        planned = choose(replace(asked, bits_only=True))
        sized = GEBF.for_window(window, rate)
        yield {
            "rate": f"{rate:g}",
            "fingerprints with a label, at least": f"{analysis.labelled_bits_per_key(rate):.1f}",
            "GEBF, at least": f"{analysis.gebf_bits_per_key(rate):.1f}",
            "with its spare": f"{analysis.gebf_bits_per_key(rate, spare=1):.1f}",
            "`lately plan`": f"{planned.storage_bits / window:.1f}",
            "`for_window`": f"{sized.storage_bits / window:.1f}",
        }


# Verification


def take_verification(paths: list[Path]) -> None:
    """Take in the output of `python -m campaigns prove --json`, or a record of mutants."""
    for path in paths:
        values = json.loads(path.read_text("utf-8"))
        if "modules" in values:
            (RESULTS / "mutants.json").write_text(json.dumps(values, indent=1) + "\n")
            continue
        made = [proof | {"versions": values["versions"]} for proof in values["proofs"]]
        known = {one["name"]: one for one in [*load("proofs"), *made]}
        names = [proof.name for proof in with_goals(PROOFS)]
        save("proofs", [known[name] for name in names if name in known])


def proofs_table(proofs: Sequence[dict[str, Any]]) -> str:
    """Lay out statements, and how and in what time each was proven."""
    missing = {proof.name for proof in PROOFS} - {one["name"] for one in proofs}
    if missing:
        raise ValueError(f"results/proofs.jsonl lacks {', '.join(sorted(missing))}")
    goals = [one for one in proofs if one["method"].startswith("reached")]
    proven = [one for one in proofs if one not in goals]
    reached = sum(one["status"] == "proven" for one in goals)
    bounded = sum(one["method"].startswith("bounded") for one in proofs)
    tools = sorted({pair for one in proofs for pair in one["versions"].items()})
    named = ", ".join(" ".join(pair) for pair in tools)
    total = sum(one["seconds"] for one in proofs)
    return (
        lay("proof", proven)
        + f"\n{len(proven)} proofs, {bounded} of them bounded, and {len(goals)} cover checks, "
        f"of which {reached} are reached. All in {total:.0f} s, one at a time; {named}.\n"
    )


def soak_table(found: Sequence[Record]) -> str:
    """Lay out the comparisons of long runs, a line for each."""
    order = [*soak.CASES]
    known = [record for record in found if record.point["case"] in order]
    said = f"{len(known)} of {len(order)} runs are on record.\n{earlier(known, 'runs')}"
    return f"{lay('soak', known)}\n{said}"


def verification() -> dict[str, str]:
    """Return the blocks of docs/verification.md."""
    return {
        "testplan": lay("sentence", PLAN.values()),
        "proofs": proofs_table(load("proofs")),
        "mutants": mutants(json.loads((RESULTS / "mutants.json").read_text("utf-8"))["modules"]),
        "semantic": semantic(tomllib.loads(SEMANTIC.read_text("utf-8"))["mutant"]),
        "soak": soak_table(records("soak")),
    }


# Mutants

SEMANTIC = ROOT / "tests" / "mutation" / "semantic.toml"


def killed_share(found: Counter[str]) -> str:
    """Return the share of the mutants that are killed; undecided ones count as survivors."""
    others = found.total() - found["equivalent"]
    return f"{found['killed'] / others:.1%}" if others else NOTHING


def room_line(room: str, modules: dict[str, Any]) -> str:
    """Sum up the modules of a folder in a sentence, or of all folders."""
    own = [module for path, module in modules.items() if path.startswith(room)]
    found = Counter(one["outcome"] for module in own for one in module["tried"].values())
    there = sum(module["mutants"] for module in own)
    return (
        f"{f'`{room}`' if room else 'Both'}: "
        f"{found.total():,} tried of the {there:,} mutants of {len(own)} modules; "
        f"{found['equivalent']} are equivalent; of the other "
        f"{found.total() - found['equivalent']:,}, {found['killed']:,} are killed "
        f"({killed_share(found)}), {found['survived']} survived, {found['open']} are undecided.\n"
    )


def of_module(path: str, module: dict[str, Any]) -> dict[str, Any]:
    """Return counts of the mutants of a module: by outcome, and kills by kind."""
    tried = module["tried"].values()
    found = Counter(one["outcome"] for one in tried)
    killed = [one for one in tried if one["outcome"] == "killed"]
    return {
        "path": path,
        "mutants": module["mutants"],
        "tried": len(tried),
        "found": found,
        "kinds": Counter(one["kind"] for one in killed),
        "share": killed_share(found),
        "seconds": median(one["seconds"] for one in killed) if killed else None,
    }


def mutants(modules: dict[str, Any]) -> str:
    """Lay out the campaign of operator mutants, and all that were not killed."""

    def code(text: str) -> str:
        escaped = text.replace("|", "\\|")
        return f"`{escaped}`" if escaped else NOTHING

    left: list[Row] = [
        {"mutant": f"`{name}`", "": one["outcome"], "source": code(one["old"]),
         "changed to": code(one["new"]), "reason": one["by"] or NOTHING}
        for module in modules.values()
        for name, one in module["tried"].items()
        if one["outcome"] != "killed"
    ]  # fmt: skip
    rooms = [room_line(room, modules) for room in ("golden", "hdl", "")]
    return "\n".join(
        [*rooms, lay("module", [of_module(*one) for one in modules.items()]), table(left)]
    )


def semantic(found: Sequence[dict[str, Any]]) -> str:
    """Lay out semantic mutants by kind, and the survivors with their reasons."""
    kinds = Counter(one["kind"] for one in found)
    proofs = Counter(one["kind"] for one in found if one.get("killer", "").startswith("proof: "))
    left = [one for one in found if not one.get("killer")]
    survived = Counter(one["kind"] for one in left)
    rows: list[Row] = [
        {"kind": kind, "mutants": count,
         "killed by a test": count - proofs[kind] - survived[kind],
         "killed by a proof": proofs[kind], "survived": survived[kind]}
        for kind, count in sorted(kinds.items())
    ]  # fmt: skip
    killed = len(found) - len(left)
    lines = [table(rows), f"{killed} of {len(found)} are killed ({killed / len(found):.1%})."]
    lines += [
        f"- Survivor in `{one['path']}`: {one['name']}. {one.get('reason', '')}" for one in left
    ]
    return "\n".join(lines)


def _page(name: str, blocks: Callable[[], dict[str, str]], **more: Any) -> Page:
    return Page(DOCS / f"{name}.md", blocks, **more)


PAGES = (
    _page("boards", lambda: boards(load("boards")), take=take_boards),
    _page("export", lambda: {"registers": table([*export_rows()])}),
    _page(
        "filters",
        lambda: {"families": families_table(), "bound": table([*bound_rows()])},
        drawings=[Drawing(IMAGES / "ring.svg", drawings.ring_words, drawings.ring)],
    ),
    _page("hardware", hardware, drawings=drawings.HARDWARE),
    _page("host", host),
    _page("lanes", lambda: lanes(records("lanes"), records("hardware"))),
    _page("limits", limits_blocks),
    _page(
        "performance",
        lambda: performance(records("hardware"), load("reported")),
        drawings=[
            Drawing(AREA, lambda: drawings.area_words(_units()), lambda: drawings.area(_units()))
        ],
    ),
    _page("security", lambda: security(records("attack"), load("fuzz")), take=take_fuzz),
    _page("speed", lambda: speed(records("golden"), records("stream"))),
    _page("upset-campaign", lambda: upsets(records("upsets"))),
    _page("verification", verification, take=take_verification),
)

"""Fills the pages' tables with the results of campaigns."""

import ast
import inspect
import json
import math
import tomllib
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import Field, fields, replace
from decimal import ROUND_DOWN, Context
from fractions import Fraction
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from textwrap import dedent
from typing import Any

from lately.boards.export.design import FRAMES, WRAPS, Design
from lately.boards.export.page import FRAME_MEANINGS, MEANINGS, field_meanings
from lately.boards.flow.devices import DEVICES, Device, device
from lately.boards.flow.inference import INFERRED
from lately.boards.flow.limits import limits, unit_limit
from lately.boards.targets.catalogue import BOARDS
from lately.golden import GEBF, PRESETS, Specification, analysis, preset
from lately.golden.packets.frame_actions import default_buffer
from lately.golden.spec.base import DIGESTS, HASHES
from lately.golden.spec.ring import SHARDS, WHEN_FULL
from lately.hdl.build import FAMILIES, unit_profile
from lately.hdl.bus.controlled import BUSES, COUNTER_BITS
from lately.hdl.memory.segment import VARIANTS
from lately.hdl.registers import REGISTERS, Access, Block, registers_table
from lately.hdl.ring.profile import RingProfile
from lately.hdl.target_clocks import device_class
from lately.intervals import clopper_pearson
from lately.planner import PLANNER_FAMILIES, Requirement, choose
from lately.planner.plans import cheapest, largest_window
from lately.planner.requirement import Span
from lately.replay.formatting import interval_text
from lately.sim.bench.runs import DAYS, UNITS, daily_runs, nightly_runs
from lately.sim.bench.testplan import PLAN
from lately.sim.proofs.catalogue import PROOFS, with_goals

from .. import frames as placements
from .. import soak
from ..engine import Record
from ..hardware import summarise
from ..upsets import OUTCOMES, label
from . import drawings
from .blocks import (
    DOCS,
    NOTHING,
    ROOT,
    Drawing,
    Page,
    code,
    load,
    records,
    render,
    save,
    table,
    versions,
)

Row = dict[str, object]


def hardware() -> dict[str, str]:
    shown = [f"{family}-default" for family in ("apbf", "apbbf", "gebf")]
    rings = {
        name: spec for name, spec in PRESETS.items() if spec.kind == "ring" and "tiny" not in name
    }
    return render(
        "hardware",
        profiles={name: RingProfile.of(preset(name)) for name in shown},
        variants=VARIANTS,
        presets=[(name, spec, RingProfile.of(spec)) for name, spec in rings.items()],
    )


def caveats(texts: Iterable[tuple[str, str]]) -> str:
    names: dict[str, dict[str, None]] = {}
    for name, text in texts:
        if text:
            names.setdefault(text, {})[name] = None
    return "".join(f"**{', '.join(those)}:** {text}.\n\n" for text, those in names.items())


def performance(placed: Sequence[Record], reported: Sequence[Row] = ()) -> dict[str, str]:
    units = summarise(placed, "units")
    return render(
        "performance",
        units=units,
        tiny=summarise(placed, "tiny"),
        profile_of=unit_profile,
        caveats=caveats((unit.median.device, unit.median.caveat) for unit in units),
        versions=versions(record.identity["versions"] for record in placed),
        reported=reported,
    )


def lanes(measured: Sequence[Record], placed: Sequence[Record]) -> dict[str, str]:
    units = list(dict.fromkeys(record.point["unit"] for record in measured))
    streams: dict[str, dict[str, float]] = {}
    for record in measured:
        rates = streams.setdefault(Path(record.point["stream"]).name, {})
        rates["operations"] = record.result["operations"]
        rates[record.point["unit"]] = record.result["operations_per_cycle"]
    return render(
        "lanes",
        measured=measured,
        units=units,
        streams=streams,
        rates=streams["random"],
        summaries=summarise(placed, "lanes"),
        profile=unit_profile,
        # Target in millions of operations per second, by number of lanes.
        goal=1000,
        lanes=4,
    )


def limits_blocks() -> dict[str, str]:
    classes = {device_class(name): name for name in DEVICES if limits(name)}
    by_class = {name: {limit.name: limit for limit in limits(at)} for name, at in classes.items()}
    sources: dict[tuple[str, str], list[str]] = {}
    for name, parts in by_class.items():
        for limit in parts.values():
            sources.setdefault((limit.name, limit.source), []).append(name)
    return render(
        "limits",
        limits=by_class,
        parts=dict.fromkeys(part for parts in by_class.values() for part in parts),
        bounds={name: unit_limit(at).mhz for name, at in classes.items()},
        sources=sources,
        devices=sorted(DEVICES.values(), key=lambda limit: limit.family),
        memories=INFERRED,
    )


def has_usual_family(report: dict[str, Any]) -> bool:
    return bool(report["spec"]["family"] == BOARDS[report["board"]].spec.family)


def boards(reports: Sequence[dict[str, Any]]) -> dict[str, str]:
    usual = [report for report in reports if has_usual_family(report)]
    return render(
        "boards",
        usual=usual,
        others=[report for report in reports if not has_usual_family(report)],
        former=[
            report["board"]
            for report in usual
            if Specification.from_dict(report["spec"]) != BOARDS[report["board"]].spec
        ],
        caveats=caveats((report["board"], report["caveat"]) for report in usual),
        versions=versions(report["versions"] for report in usual),
        boards=BOARDS.values(),
    )


def take_boards(paths: list[Path]) -> None:
    read = [json.loads(path.read_text("utf-8")) for path in paths]
    known = {
        (report["board"], has_usual_family(report) or str(report["spec"])): {
            name: value for name, value in report.items() if name not in ("utilisation", "files")
        }
        for report in [*load("boards"), *read]
        if report["board"] in BOARDS
    }
    order = [*BOARDS]
    save("boards", sorted(known.values(), key=lambda report: (
        not has_usual_family(report), order.index(report["board"])
    )))  # fmt: skip


def export() -> dict[str, str]:
    held = [register for register in REGISTERS if register.holder is not Block.LINE]
    by_address = sorted(held, key=lambda register: register.address)
    return render(
        "export", registers=by_address, counter_bits=COUNTER_BITS, after_reset=_after_reset
    )


def _after_reset(register: Any) -> str:
    if register.access is Access.WRITE:
        return NOTHING
    if register.reset is None:
        return "as specified"
    return str(register.reset) if register.reset < 10 else code(hex(register.reset))


def ports() -> dict[str, str]:
    shown: dict[str, list[Any]] = {}
    for wrap in [*WRAPS, "frames-64"]:
        meanings = FRAME_MEANINGS if wrap in FRAMES else MEANINGS
        spec = replace(preset("timed-tiny"), key_bits=64) if wrap in FRAMES else preset("default")
        shown[wrap] = _port_rows(Design(spec=spec, name="seen_lately", wrap=wrap), meanings)
    plain = {row["port"] for row in shown["axis"]}
    for bus in BUSES:
        design = Design(spec=preset("default"), name="seen_lately", bus=bus)
        shown[bus] = [row for row in _port_rows(design, MEANINGS) if row["port"] not in plain]
    return {name: table(rows) for name, rows in shown.items()}


def _port_rows(design: Design, meanings: Mapping[str, str]) -> list[Row]:
    known = field_meanings(design.spec) | dict(meanings)
    for side in "sm":
        known |= {f"{side}_{end}": known[f"{side}_axis_{end}"] for end in ("tvalid", "tready")}
    rows: list[Row] = []
    for port in design.ports:
        meaning = known.get(port.name) or known[port.name.partition("_")[2]]
        rows.append({
            "port": code(port.name),
            "direction": "in" if port.inward else "out",
            "width": port.width,
            "meaning": meaning.removesuffix(", see below"),
        })  # fmt: skip
    return rows


def speed(
    measured: Sequence[Record], stream: Sequence[Record], rolling: Sequence[Record]
) -> dict[str, str]:
    (record,) = measured
    filters = [{"touched": None} | row for row in record.result["filters"]]
    return render(
        "speed",
        measured=measured,
        point=record.point,
        processor=record.result["processor"],
        tools=", ".join(f"{name} {v}" for name, v in record.identity["versions"].items()),
        filters=filters,
        # Single calls are compared with those of a filter from another library.
        two={row["call"]: row["keys_per_second"] for row in filters
             if row["filter"] == "rbloom, two"},
        turn=record.result.get("turn"),
        stream=stream,
        rolling=rolling,
    )  # fmt: skip


ATTACKS = {
    "rates": ("forged", "forged cells", "filled", "twins"),
    "dictionaries": ("crowded",),
    "lanes": ("one shard", "one shard, by time"),
    "verdicts": ("replayed",),
    "differences": ("difference",),
    "floods": ("flooded",),
}
"""The attacks in each table of docs/security.md."""

OPERATIONS = 212e6  # operations per second at the block RAM limit of an ECP5, speed grade 6
WINDOW = 1000  # window for which the effort of an attack is computed, in keys


def effort(runs: Iterable[dict[str, Any]]) -> dict[str, float]:
    """Estimate how many days a search for a key difference takes in the full 64-bit fold.

    The estimate extrapolates from searches in narrower folds.
    """
    searches = [run for run in runs if run["attack"] == "difference"]
    pairs = sum(math.log2(run["queries"] * WINDOW) - run["folded_bits"] for run in searches)
    pairs /= len(searches)
    days = 2 ** (64 + pairs) / WINDOW / OPERATIONS / 86_400
    return {"pairs": pairs, "days": days, "window": WINDOW, "operations": OPERATIONS}


def security(measured: Sequence[Record], fuzzed: Sequence[dict[str, Any]]) -> dict[str, str]:
    runs = [run for record in measured for run in record.result["runs"]]
    tables = {}
    for name, kinds in ATTACKS.items():
        groups: dict[tuple[str, ...], dict[str, dict[str, Any]]] = {}
        for run in runs:
            if run["attack"] in kinds:
                same = run["attack"], run["unit"], run["figure"], run["cost"]
                groups.setdefault(same, {})[run["hash"]] = run
        hashes = dict.fromkeys(name for gains in groups.values() for name in gains)
        tables[name] = {"runs": groups, "hashes": hashes}
    return render("security", measured=measured, tables=tables, effort=effort(runs), fuzzed=fuzzed)


def take_fuzz(paths: list[Path]) -> None:
    for path in paths:
        parsers = json.loads(path.read_text("utf-8"))["parsers"]
        save("fuzz", [{"parser": name} | counts for name, counts in parsers.items()])


def option(record: Record) -> str:
    if record.point["self_check"]:
        return "check"
    return "" if record.point["protect"] == "none" else "protect"


def upsets(measured: Sequence[Record]) -> dict[str, str]:
    plain, protected, checked = (
        [record for record in measured if option(record) == name]
        for name in ("", "protect", "check")
    )
    return render(
        "upsets",
        measured=measured,
        plain=plain,
        protected=protected,
        checked=checked,
        meanings=OUTCOMES,
        unit=lambda record: code(label(record.point)),
        interval=lambda hits, trials: interval_text(clopper_pearson(hits, trials)),
    )


def families() -> dict[str, str]:
    units = [(name, unit) for kind, unit in FAMILIES.items() for name in kind.families()]
    return render(
        "families",
        families=[(*unit, Specification.of_family(unit[0]).required_fields()) for unit in units],
        planned=PLANNER_FAMILIES,
    )


def fields_table() -> dict[str, str]:
    kinds = {name: Specification.of_family(name) for unit in FAMILIES for name in unit.families()}
    rows: dict[tuple[str, ...], list[str]] = {}
    members = {name: {item.name: item for item in fields(kind)} for name, kind in kinds.items()}
    names = [name for kind in kinds.values() for name in kind.field_names()[1:]]
    # Fields that all families share come last.
    for name in sorted(dict.fromkeys(names), key=lambda name: names.count(name) == len(kinds)):
        for family, kind in kinds.items():
            if (item := members[family].get(name)) is not None:
                default = "may be omitted" if item.default is None else str(item.default)
                default = "required" if "required" in item.metadata else default.lower()
                row = code(name), _values(item), default, _meaning(kind, name)
                rows.setdefault(row, []).append(family)
    return render("fields", rows=rows, every=list(kinds))


CHOICES: dict[str, Sequence[str]] = {
    "hash": HASHES, "digest": DIGESTS, "when_full": WHEN_FULL, "rekey": ("true", "false"),
    "lanes": [str(lanes) for lanes in SHARDS],
}  # fmt: skip
"""Values of fields that accept only certain words or numbers."""


def _values(item: Field[Any]) -> str:
    if item.name in CHOICES:
        return " or ".join(CHOICES[item.name])
    low, high = item.metadata["range"]
    if high is None:
        return f"{low} to 2**64 - 1"
    if high < 100_000:
        return f"{low} to {high:,}"
    bits = high.bit_length()
    return f"{low} to 2**{bits - 1}" if high == 1 << bits - 1 else f"{low} to 2**{bits} - 1"


def _meaning(kind: type, name: str) -> str:
    for owner in kind.__mro__[:-1]:
        (defined,) = ast.parse(dedent(inspect.getsource(owner))).body
        for before, node in pairwise(getattr(defined, "body", [])):
            named = isinstance(before, ast.AnnAssign) and ast.unparse(before.target) == name
            if named and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
                return " ".join(str(node.value.value).split())
    raise ValueError(f"{kind.__name__}.{name}: needs an explanation below the field")


def bounds(window: int = 20_000) -> dict[str, str]:
    rows = []
    for rate in (0.01, 0.001, 1e-6):
        asked = Requirement(window=window, false_positive_rate=rate, families=("gebf",))
        rows.append({
            "rate": rate,
            "label": analysis.labelled_bits_per_key(rate),
            "gebf": analysis.gebf_bits_per_key(rate),
            "spare": analysis.gebf_bits_per_key(rate, spare=1),
            "plan": choose(replace(asked, bits_only=True)).storage_bits / window,
            "for_window": GEBF.for_window(window, rate).storage_bits / window,
        })  # fmt: skip
    return render("bounds", bounds=rows)


LINES = {"1 Gb/s": 1_488_095, "10 Gb/s": 14_880_952, "100 Gb/s": 148_809_524}
"""Number of 60-byte frames per second, by line rate."""

ULTRA_BITS = 1 << 18  # bits of an UltraRAM, without parity bits

SPAN_DEVICES = {
    "ecp5-25k-6": (64, 0),
    "ecp5-85k-8": (64, 0),
    "xcu50": (512, 640),
    "xcu55c": (512, 960),
}
"""Stream width in bits, and number of UltraRAMs (from AMD's data sheets), by device."""

DOWN = Context(prec=2, rounding=ROUND_DOWN)

WANTED = {744_048: "50 ms at 10 Gb/s, 5 ms at 100 Gb/s", 3_720_239: "25 ms at 100 Gb/s"}
"""Spans of other products, by the number of frames that a span contains."""


def _span_requirement(frames: int, chip: Device | None = None) -> Requirement:
    span = Span.of(Fraction(1), Fraction(1, 1000), when_full="shorten")
    # Of all families, GEBF needs the fewest block RAMs.
    return Requirement(
        window=frames, span=span, false_positive_rate=1e-4, device=chip, families=("gebf",)
    )


def _memories(frames: int, tried: int) -> tuple[int, int]:
    plans = cheapest(_span_requirement(frames), tried)
    specs = [plan.spec for plan in plans]
    parts = [spec.segments * spec.parts * -(-spec.part_bits // ULTRA_BITS) for spec in specs]
    return int(plans[0].cost), min(parts)


def _span_row(name: str, kind: str, frames: int, width: int) -> dict[str, object]:
    row: dict[str, object] = {"device": name, "memory": kind, "frames": frames}
    for line, rate in LINES.items():
        span = DOWN.create_decimal_from_float(1000 * frames / rate)
        row[line] = NOTHING if line == "100 Gb/s" and width < 512 else f"{span:f} ms"
    return row


def spans() -> dict[str, str]:
    rows = []
    sizes = [digits * 10**power for power in range(4, 8) for digits in range(10, 100)]
    for name, (width, ultra) in SPAN_DEVICES.items():
        chip = device(name)
        store_blocks = -(-8 * default_buffer(width) // chip.bram_bits)
        chip = replace(chip, bram=chip.bram - store_blocks)
        frames = largest_window(_span_requirement(1 << 32, chip), digits=2)
        assert frames is not None
        rows.append(_span_row(name, f"{chip.bram:,} block RAMs", frames, width))
        if ultra:
            at = bisect_right(sizes, ultra, key=lambda frames: _memories(frames, 10)[1])
            rows.append(_span_row(name, f"{ultra} UltraRAMs", sizes[at - 1], width))
    wanted = []
    for frames, names in WANTED.items():
        blocks, ultra = _memories(frames, 600)
        wanted.append({"span": names, "frames": frames, "block RAMs": blocks, "UltraRAMs": ultra})
    return {
        "spans": table(rows) + "\n\n" + table(wanted),
        "rates": table(placements.rates(records("frames"))),
        "placements": table(placements.rows(records("frames"))),
    }


def take_proofs(paths: list[Path]) -> None:
    for path in paths:
        values = json.loads(path.read_text("utf-8"))
        made = [proof | {"versions": values["versions"]} for proof in values["proofs"]]
        known = {proof["name"]: proof for proof in [*load("proofs"), *made]}
        names = [proof.name for proof in with_goals(PROOFS)]
        save("proofs", [known[name] for name in names if name in known])


def proofs_table(proofs: Sequence[dict[str, Any]]) -> str:
    missing = {proof.name for proof in PROOFS} - {proof["name"] for proof in proofs}
    if missing:
        raise ValueError(f"results/proofs.jsonl lacks {', '.join(sorted(missing))}")
    tools = sorted({pair for proof in proofs for pair in proof["versions"].items()})
    return render(
        "proofs",
        proofs=proofs,
        proven=[proof for proof in proofs if not proof["method"].startswith("reached")],
        goals=[proof for proof in proofs if proof["method"].startswith("reached")],
        bounded=[proof for proof in proofs if proof["method"].startswith("bounded")],
        tools=", ".join(" ".join(pair) for pair in tools),
    )["proofs"]


def soak_table() -> dict[str, str]:
    known = [record for record in records("soak") if record.point["case"] in soak.CASES]
    return render("soak", runs=known, cases=soak.CASES)


def testplan() -> dict[str, str]:
    return render(
        "testplan",
        plan=PLAN.values(),
        units=UNITS,
        pairs=sum(len(unit.sentences) for unit in UNITS.values()),
        daily={run.unit: len(run.tests) for run in daily_runs()},
        nightly=nightly_runs(),
        days=DAYS,
    )


FRAME_UNITS = "deduplicators of frames"

SIGN_OFF = {
    "rings": (("segments", "expiry", "core"), ("hdl/ring/",)),
    "rings of several lanes": (("lanes",), ("hdl/lanes/",)),
    "timing filters": (("timing",), ("hdl/timing/",)),
    "dictionaries": (("dictionary", "cell_copies", "moves"), ("hdl/dictionary/",)),
    FRAME_UNITS: (("frame_ports", "frame_store", "frame_flow"), ("hdl/packets/",)),
    "what all units share": (
        ("frontend", "results", "hashes", "buses"),
        ("hdl/frontend/", "hdl/memory/", "hdl/hash/", "hdl/bus/", "hdl/queue", "hdl/unit",
         "hdl/statistics", "hdl/control", "hdl/pipeline"),
    ),
}  # fmt: skip
"""By kind of unit: modules in lately.sim.proofs, and sources for which defects are counted."""


def kind_of(spec: Any) -> str:
    if spec.kind == "ring":
        return "rings" if spec.lanes == 1 else "rings of several lanes"
    return {"timing": "timing filters", "dictionary": "dictionaries"}[spec.kind]


def sign_off() -> dict[str, str]:
    daily = {run.unit: len(run.tests) for run in daily_runs()}
    known = {proof["name"]: proof for proof in load("proofs")}
    groups = tomllib.loads(DEFECTS.read_text("utf-8"))["group"]
    long = Counter(
        kind_of(Specification.from_dict(record.point["spec"])) for record in records("soak")
    )
    kinds = {
        key: FRAME_UNITS if unit.of_frames else kind_of(unit.spec) for key, unit in UNITS.items()
    }
    rows = []
    for name, (modules, sources) in SIGN_OFF.items():
        units = {key: unit for key, unit in UNITS.items() if kinds[key] == name}
        proofs = [
            known[proof.name]
            for module in modules
            for proof in import_module(f"lately.sim.proofs.{module}").PROOFS
        ]
        bounded = [proof for proof in proofs if proof["method"].startswith("bounded")]
        killers = [
            killer
            for group in groups
            if group["path"].startswith(sources)
            for _, killer in killers_of(group)
        ]
        killed = sum(not killer.startswith("lives") for killer in killers)
        rows.append({
            "units": name,
            "planned": len(units),
            "sentences daily": sum(daily.get(key, 0) for key in units),
            "nightly": sum(len(unit.sentences) for unit in units.values()),
            "proofs": len(proofs),
            "of them bounded": len(bounded),
            "in coverage": sum(unit.coverage for unit in units.values()),
            "defects killed": f"{killed} of {len(killers)}",
            "long runs": long[name],
            "silicon": "not run",
        })  # fmt: skip
    return {"sign-off": table(rows)}


DEFECTS = ROOT / "tests" / "mutation" / "defects.toml"
OUTCOMES_OF_DEFECTS = {
    "proof": "killed by a proof",
    "unit": "killed by a sentence of the plan",
    "lives": "survived",
}
"""Outcomes by the first word of a defect's killer; killers with other words are tests."""


def killers_of(group: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the name and the killer of each defect in a group; see `OUTCOMES_OF_DEFECTS`."""
    for name, _, _, *killers in group["defects"]:
        yield name, (killers or [group["killer"]])[0]


def mutation() -> dict[str, str]:
    groups = tomllib.loads(DEFECTS.read_text("utf-8"))["group"]
    return {"mutants": table(load("mutants")), "defects": defects(groups)}


def take_mutants(paths: list[Path]) -> None:
    lines = [line for path in paths for line in path.read_text("utf-8").splitlines()]
    known = {mutant["name"]: mutant for mutant in map(json.loads, lines)}
    rows: list[Row] = []
    for folder in ("golden", "hdl"):
        in_folder = [mutant for name, mutant in known.items() if name.startswith(folder)]
        outcomes = Counter(mutant["kind"] or mutant["outcome"] for mutant in in_folder)
        rows.append({
            "folder": folder,
            "modules": len({mutant["name"].partition(":")[0] for mutant in in_folder}),
            "tried": len(in_folder),
            "killed by a test": outcomes["test"],
            "killed by a proof": outcomes["proof"],
            "killed by running for ever": outcomes["time"],
            "equivalent": outcomes["reason"] + outcomes["netlist"],
            "survived": outcomes["survived"],
            "undecided": outcomes["open"],
        })  # fmt: skip
    save("mutants", rows)


def defects(groups: Sequence[dict[str, Any]]) -> str:
    rows: dict[str, Any] = {}
    left = []
    for group in sorted(groups, key=lambda group: group["kind"]):
        row = rows.setdefault(group["kind"], {
            "kind": group["kind"], "defects": 0, "killed by a test": 0,
            "killed by a sentence of the plan": 0, "killed by a proof": 0, "survived": 0,
        })  # fmt: skip
        for name, killer in killers_of(group):
            outcome = OUTCOMES_OF_DEFECTS.get(killer.partition(":")[0], "killed by a test")
            row["defects"] += 1
            row[outcome] += 1
            if outcome == "survived":
                left.append(f"- `{group['path']}`: {name}. {killer.removeprefix('lives: ')}")
    count = sum(row["defects"] for row in rows.values())
    killed = count - len(left)
    summary = f"{killed} of {count} are killed ({killed / count:.1%}). The others:\n"
    return "\n".join([table([*rows.values()]), summary, *left])


def _page(name: str, blocks: Callable[[], dict[str, str]], **more: Any) -> Page:
    return Page(DOCS / f"{name}.md", blocks, **more)


PAGES = (
    _page("boards", lambda: boards(load("boards")), take=take_boards),
    _page("deduplicator", spans, drawings=[drawings.block_drawing("deduplicator")]),
    Page(DOCS / "export.md", drawings=[Drawing("axis", drawings.axis, drawings.drawn)]),
    _page("export/registers", export),
    _page("export/ports", ports),
    _page("fields", fields_table),
    _page("filters", lambda: families() | bounds(), drawings=drawings.FILTERS),
    _page("hardware", hardware, drawings=drawings.HARDWARE),
    _page("host", lambda: render("host", registers=registers_table())),
    _page("lanes", lambda: lanes(records("lanes"), records("hardware"))),
    _page("limits", limits_blocks),
    _page(
        "performance",
        lambda: performance(records("hardware"), load("reported")),
        drawings=[drawings.CLOCKS],
    ),
    _page("security", lambda: security(records("attack"), load("fuzz")), take=take_fuzz),
    _page("speed", lambda: speed(records("golden"), records("stream"), records("rolling"))),
    _page("upsets/campaign", lambda: upsets(records("upsets"))),
    _page("verification/sign-off", sign_off),
    _page("verification/test-plan", testplan),
    _page(
        "verification/proofs", lambda: {"proofs": proofs_table(load("proofs"))}, take=take_proofs
    ),
    _page("verification/mutants", mutation, take=take_mutants),
    _page("verification/long-runs", soak_table),
)

"""Command line of the mutation campaign."""

import argparse
import random
import sys
import time
from collections import Counter
from pathlib import Path

if not __package__:  # Started as `python tests/mutation`: find the package that this folder is.
    sys.path[0] = str(Path(__file__).parents[1])
    sys.path.insert(1, str(Path(__file__).parents[1] / "helpers"))

import mutation
from mutation.campaign import Judge, Results, modules, read
from mutation.operators import Mutant, Source, draw
from mutation.processes import ROOT
from mutation.semantic import try_all

RESULTS = ROOT / "results" / "mutants.json"


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    made = argparse.ArgumentParser(prog="python tests/mutation", description=mutation.__doc__)
    add = made.add_argument
    add("names", nargs="*", metavar="MUTANT", help="try these, as hdl/queue.py:83:comparison:0")
    add("--module", action="append", metavar="PATH", help="of these modules only, as hdl/queue.py")
    add("--seed", type=int, default=1, help="of the draw; default: %(default)s")
    add("--each", type=int, default=2, help="mutants of a function; default: %(default)s")
    add("--share", type=int, help="mutants of a module at most, with those on record")
    add("--count", type=int, help="mutants at most")
    add("--minutes", type=float, help="time after which no other is begun")
    add("--limit", type=float, default=600, help="seconds for a mutant; default: %(default)s")
    add("--near", type=int, metavar="IMPORTS", help="between a module and its tests, at most")
    add("--first", action="append", default=[], metavar="TEST", help="runs before others; or FILE")
    add("--recorded", action="store_true", help="only tests whose calls are on record")
    add("--survivors", action="store_true", help="try those again that were not killed")
    add("--again", action="store_true", help="try those again that a test killed, in any order")
    add("--list", action="store_true", help="only list what would be tried")
    add("--semantic", action="store_true", help="try those of semantic.toml, by name, or all")
    add("--results", type=Path, default=RESULTS, help="record; what is in it is not tried again")
    add("--folder", type=Path, default=ROOT / "build" / "mutation", help="for what is kept")
    return made


def drawn(options: argparse.Namespace) -> tuple[dict[str, Source], list[Mutant], Results]:
    """Return the sources by their paths, what is to be tried, and the record.

    Raises
    ------
    ValueError
        If a module or a mutant does not exist.
    """
    known, results = modules(), Results(options.results)
    if options.survivors or options.again:
        known = [path for path in known if path in results.modules]
    paths = options.module or [name.split(":")[0] for name in options.names] or known
    for path in paths:
        if path not in known:
            raise ValueError(f"module: must be one of golden or hdl as hdl/queue.py, not {path!r}")
    sources = {path: read(path) for path in dict.fromkeys(paths)}
    every = {path: list(source.mutants()) for path, source in sources.items()}
    for path, source in sources.items():
        results.renew(source, every[path])
    found = [mutant for mutants in every.values() for mutant in mutants]
    if options.names:
        by_name = {mutant.name: mutant for mutant in found}
        if gone := [name for name in options.names if name not in by_name]:
            raise ValueError(f"mutant: must be one that --list names, not {gone[0]!r}")
        return sources, [by_name[name] for name in options.names], results
    if options.survivors:
        kept = [m for m in found if results.outcome(m) in {"survived", "open"}]
        return sources, kept[: options.count], results
    if options.again:
        kept = [m for m in found if results.killer(m)]
        random.Random(options.seed).shuffle(kept)
        return sources, kept[: options.count], results
    chosen = draw(found, seed=options.seed, each=options.each)
    new = [m for m in chosen if not results.outcome(m)]
    return sources, shares(new, results, options.share)[: options.count], results


def shares(mutants: list[Mutant], results: Results, share: int | None) -> list[Mutant]:
    """Leave out what is more than the share of a module, with what is on record of it."""
    counts = Counter({path: len(one["tried"]) for path, one in results.modules.items()})
    kept = []
    for mutant in mutants:
        counts[mutant.path] += 1
        if share is None or counts[mutant.path] <= share:
            kept.append(mutant)
    return kept


def main(arguments: list[str] | None = None) -> int:
    """Try mutants and print what became of each; return 1 if some survived."""
    options = parser().parse_args(arguments)
    try:
        if options.semantic:
            return try_all(options.names)
        sources, mutants, results = drawn(options)
    except ValueError as error:
        sys.exit(f"python tests/mutation: error: {error}")
    if options.list:
        for mutant in mutants:
            print(f"{mutant.name}: {mutant.old!r} -> {mutant.new!r}")
        return 0
    outcomes: Counter[str] = Counter()
    named = [name for name in options.first if "::" in name]
    files = [name for name in options.first if name not in named]
    judge = Judge(options.folder, options.limit, options.near, options.recorded, first=files)
    end = time.monotonic() + 60 * (options.minutes or float("inf"))
    try:
        for number, mutant in enumerate(mutants, 1):
            if time.monotonic() > end:
                break
            likely = [*named, *results.killers(mutant)]
            verdict = judge(sources[mutant.path], mutant, likely)
            results.add(mutant, verdict)
            outcomes[verdict.outcome] += 1
            line = f"{number}/{len(mutants)} {mutant.name} {verdict.outcome} {verdict.by}"
            print(f"{line.rstrip()} ({verdict.seconds:.0f} s)", flush=True)
    except KeyboardInterrupt:
        print("interrupted; what is on record stays", file=sys.stderr)
    print(", ".join(f"{outcome}: {count}" for outcome, count in outcomes.items()) or "none tried")
    return 1 if outcomes["survived"] or outcomes["open"] else 0


if __name__ == "__main__":
    sys.exit(main())
